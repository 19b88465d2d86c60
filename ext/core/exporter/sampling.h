/* Sampling: what records say of it (elements 34, 48, 50, 302, 305, 306, 309, 310, 311), and what options records teach. */
#ifndef FB_OPTIONS_H
#define FB_OPTIONS_H

#include "core/exporter/context.h"

/* The sampling rate that a record itself states; 0 when it states none. In this order (RFC 5477 section 8, RFC 3954):
     samplingPopulation / samplingSize
     (samplingPacketInterval + samplingPacketSpace) / samplingPacketInterval
     1 / samplingProbability
     samplingInterval
     samplerRandomInterval */
uint64_t fb_sampling_read(const fb_shape *shape, const uint8_t *record, const fb_location *locations);

/* The rate of a data record: its own, or that of the sampler it names, or that of the only one known. 0: unknown. */
uint64_t fb_sampling_find(const fb_context *context, const fb_shape *shape, const uint8_t *record,
                          const fb_location *locations);

/* The octets of a role as an integer; 0 where there is none, or where it has an unusable size. */
uint64_t fb_role_uint(const fb_shape *shape, fb_role role, const uint8_t *record, const fb_location *locations);

/* systemInitTimeMilliseconds (160) in ns since 1970; 0 where there is none, or none that can be. */
uint64_t fb_system_init_read(const fb_shape *shape, const uint8_t *record, const fb_location *locations);

/* Learns from one options record; counts OPTIONS_IGNORED or TEMPLATE_LIMIT where it does not. */
void fb_options_read(fb_context *context, const fb_shape *shape, const uint8_t *record, const fb_location *locations);

#endif
