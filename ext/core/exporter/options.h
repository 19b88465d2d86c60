/* Sampling rates, start times and names that options records (NetFlow v9 and IPFIX) and counter
   samples of sFlow report. */
#ifndef FB_EXPORTER_OPTIONS_H
#define FB_EXPORTER_OPTIONS_H

#include "core/exporter/context.h"

/* Keep the sampling rate, the start time and the names of an options record. Return false if it has
   none of them. REQUIRES: context->domain is set. */
bool fb_options_read(fb_context *context, const fb_compiled_template *compiled,
                     const uint8_t *record, const fb_location *locations);

/* Keep the name and the speed of the interface of a counter sample. REQUIRES: some kind of
   interface names is kept. */
void fb_options_read_counters(fb_context *context, fb_bytes sample, bool expanded);

#endif
