/* Shared by the parts of the generator: its state, big-endian stores, packet headers, and one
   function per protocol.

   The `fb_put_` functions write at `out` and return the next position. They do not check for room.
   fb_generator_next ensures room for the largest packet, and each writer of a datagram stays below
   its limit. */
#ifndef FB_GENERATE_GENERATE_INTERNAL_H
#define FB_GENERATE_GENERATE_INTERNAL_H

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

FB_INLINE uint8_t *fb_put8(uint8_t *out, uint32_t value) {
    out[0] = (uint8_t)value;
    return out + 1;
}

FB_INLINE uint8_t *fb_put16(uint8_t *out, uint32_t value) {
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
    return out + 2;
}

FB_INLINE uint8_t *fb_put32(uint8_t *out, uint32_t value) {
    return fb_put16(fb_put16(out, value >> 16), value);
}

FB_INLINE uint8_t *fb_put64(uint8_t *out, uint64_t value) {
    return fb_put32(fb_put32(out, (uint32_t)(value >> 32)), (uint32_t)value);
}

/* Write the lowest `size` bytes of a value. */
FB_INLINE uint8_t *fb_put_uint(uint8_t *out, uint64_t value, size_t size) {
    for (size_t i = size; i-- > 0; value >>= 8) out[i] = (uint8_t)value;
    return out + size;
}

FB_INLINE uint8_t *fb_put_bytes(uint8_t *out, const void *bytes, size_t size) {
    memcpy(out, bytes, size);
    return out + size;
}

FB_INLINE uint8_t *fb_put_zeros(uint8_t *out, size_t size) {
    memset(out, 0, size);
    return out + size;
}

/* generate_packet.c */
#define FB_ETHERNET_HEADER_SIZE 14u
#define FB_VLAN_TAG_SIZE        4u
#define FB_IPV4_HEADER_SIZE     20u
#define FB_IPV6_HEADER_SIZE     40u
#define FB_UDP_HEADER_SIZE      8u

typedef struct {
    const uint8_t *source; /* 4 or 16 bytes */
    const uint8_t *destination;
    uint32_t flow_label;
    uint16_t size;           /* header and payload */
    uint16_t identification; /* IPv4 */
    uint8_t protocol;
    uint8_t tos;
    uint8_t ttl;
    bool ipv6;
} fb_ip_header;

/* Write an Ethernet header. `vlan_tci` 0: no VLAN tag. */
uint8_t *fb_put_ethernet(uint8_t *out, uint64_t destination, uint64_t source, uint16_t vlan_tci,
                         bool ipv6);
uint8_t *fb_put_ip(uint8_t *out, const fb_ip_header *header);
/* Return the checksum of a transport header, its payload and the pseudo header (RFC 768, RFC 8200
   section 8.1). REQUIRES: the checksum field is 0. */
uint16_t fb_transport_checksum(const fb_ip_header *header, const uint8_t *transport, size_t size);
/* Return the checksum of RFC 1071 over `size` bytes. */
uint16_t fb_internet_checksum(const uint8_t *bytes, size_t size);

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
