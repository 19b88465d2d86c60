/* The sampling rates that the user has configured, and the limit on the flows of an exporter,
   applied to a datagram. They are used if decoder->changes_rates. */
#ifndef FB_DECODE_RATES_H
#define FB_DECODE_RATES_H

#include "core/decode/decode.h"
#include "core/exporter/context.h"

/* Prepare the rates of a datagram, and decide whether its flows are skipped. A resumed datagram
   keeps that decision. REQUIRES: context->exporter and its counters are set. */
void fb_rates_begin(fb_context *context, fb_decoder *decoder, bool resumed);

/* Set the configured rate of a row. `interface` is that of ingress; 0: unknown. REQUIRES:
   fb_rates_begin was called for the datagram. */
void fb_rates_set_interface(fb_context *context, uint32_t interface);

/* Account for the flows of the datagram that was decoded completely. REQUIRES:
   decoder->limited.exporter is set. */
void fb_rates_end(fb_decoder *decoder);

#endif
