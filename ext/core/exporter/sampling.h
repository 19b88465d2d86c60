/* Sampling rates and start times, from data records and options records (elements 34, 48, 50, 301,
   302, 304, 305, 306, 309, 310, 311, 329 to 332; 160). */
#ifndef FB_EXPORTER_SAMPLING_H
#define FB_EXPORTER_SAMPLING_H

#include "core/exporter/context.h"

/* Return the sampling rate of a data record: its own, or that of the selection sequence it names,
   or that of the sampler it names, or that of the only known sampler. 0: unknown; so is a sequence
   with a selector of unknown rate. */
uint64_t fb_sampling_find(const fb_context *context, const fb_compiled_template *compiled,
                          const uint8_t *record, const fb_location *locations);

/* Return the field of a role as an integer; 0: the field is missing or has an unusable size. */
uint64_t fb_role_uint(const fb_compiled_template *compiled, fb_role role, const uint8_t *record,
                      const fb_location *locations);

/* Return the index of the ingress interface: the first of elements 10 and 252 that is not 0. 0: the
   record does not have it, or it exceeds 32 bits. The reverse flow of a biflow may have its own. */
uint32_t fb_ingress_interface_read(const fb_compiled_template *compiled, const uint8_t *record,
                                   const fb_location *locations);

/* Return systemInitTimeMilliseconds (160) in ns since 1970; 0: missing or impossible. */
uint64_t fb_system_init_read(const fb_compiled_template *compiled, const uint8_t *record,
                             const fb_location *locations);

/* Store the sampling rate, the selection sequence and the start time of an options record. Return
   false if it has none of them. A selector of property match filtering is stored with the rate 1.
   Count TEMPLATE_LIMIT if there is no room, or if a sequence has too many selectors. REQUIRES:
   context->domain is set. */
bool fb_sampling_store(fb_context *context, const fb_compiled_template *compiled,
                       const uint8_t *record, const fb_location *locations);

#endif
