/* Shared by the parts of the generator: its state, and one function per protocol.

   The `fb_put_` functions write at `out` and return the next position. They do not check for room.
   fb_generator_next ensures room for the largest packet, and each writer of a datagram stays below
   its limit. */
#ifndef FB_GENERATE_GENERATE_INTERNAL_H
#define FB_GENERATE_GENERATE_INTERNAL_H

#include "core/packet/packet_write.h"
#include "generate/generate.h"
#include "generate/generate_traffic.h"

/* The state of one interface. All its sFlow samples must be consistent with it. */
typedef struct {
    uint64_t octets_in;
    uint64_t bytes_out;
    uint32_t packets_in; /* also the sample pool */
    uint32_t packets_out;
    uint32_t flow_samples;
    uint32_t counter_samples;
} fb_generator_interface;

typedef struct {
    fb_generator_protocol protocol; /* never MIXED */
    uint32_t index;
    uint32_t sequence; /* of the next datagram, in the protocol's unit */
    uint32_t datagrams;
    uint64_t boot; /* ms since 1970 */
    fb_generator_interface interfaces[FB_TRAFFIC_INTERFACES];
} fb_generator_exporter;

struct fb_generator {
    fb_memory *memory;
    fb_generator_options options; /* with defaults filled in */
    fb_random random;
    uint64_t flows_written;
    uint64_t datagrams;
    uint64_t clock; /* time of the current datagram in ns since 1970 */
    bool header_written;
    fb_generator_exporter exporters[];
};

FB_INLINE uint64_t fb_generator_flows_left(const fb_generator *generator) {
    return generator->options.flows - generator->flows_written;
}

FB_INLINE uint32_t fb_generator_seconds(const fb_generator *generator) {
    return (uint32_t)(generator->clock / 1000000000);
}

/* Return the milliseconds since the exporter's start, modulo 2^32 as on the wire. */
FB_INLINE uint32_t fb_generator_uptime(const fb_generator *generator,
                                       const fb_generator_exporter *exporter) {
    return (uint32_t)(generator->clock / 1000000 - exporter->boot);
}

FB_INLINE bool fb_generator_exporter_is_ipv6(const fb_generator_exporter *exporter) {
    return exporter->index % 3 == 2;
}

FB_INLINE uint32_t fb_generator_domain(const fb_generator_exporter *exporter) {
    return exporter->index + 1;
}

/* Write one datagram of an exporter from `out` to at most `limit`, and return its end. It holds as
   many flows as fit and remain. REQUIRES: at least one flow remains; the room of a packet of
   FB_GENERATOR_MIN_MTU. */
uint8_t *fb_put_netflow1(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                         const uint8_t *limit);
uint8_t *fb_put_netflow5(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                         const uint8_t *limit);
uint8_t *fb_put_netflow7(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                         const uint8_t *limit);
uint8_t *fb_put_netflow9(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                         const uint8_t *limit);
uint8_t *fb_put_ipfix(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                      const uint8_t *limit);
uint8_t *fb_put_sflow(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                      const uint8_t *limit);

/* Write the exporter's address, 4 or 16 bytes. */
void fb_generator_exporter_address(const fb_generator_exporter *exporter, uint8_t address[16]);

#endif
