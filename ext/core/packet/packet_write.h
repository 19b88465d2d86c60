/* Writes packets: big-endian numbers, and the headers of Ethernet, IP and UDP.

   The `fb_put_` functions write at `out` and return the next position. They do not check for
   room. */
#ifndef FB_PACKET_PACKET_WRITE_H
#define FB_PACKET_PACKET_WRITE_H

#include "core/base/datagram.h"

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

#define FB_ETHERNET_HEADER_SIZE 14u
#define FB_VLAN_TAG_SIZE        4u
#define FB_IPV4_HEADER_SIZE     20u
#define FB_IPV6_HEADER_SIZE     40u
#define FB_UDP_HEADER_SIZE      8u
#define FB_DATAGRAM_HEADERS     (FB_IPV6_HEADER_SIZE + FB_UDP_HEADER_SIZE)

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
    bool may_be_split; /* IPv4: routers may fragment the packet */
} fb_ip_header;

/* Write an Ethernet header. `vlan_tci` 0: no VLAN tag. */
uint8_t *fb_put_ethernet(uint8_t *out, uint64_t destination, uint64_t source, uint16_t vlan_tci,
                         bool ipv6);
/* Write an IPv4 or IPv6 header. */
uint8_t *fb_put_ip(uint8_t *out, const fb_ip_header *header);
/* Write the IP and UDP headers of a datagram, with its checksum. Return the place of the payload.
   `header` needs no size. REQUIRES: the packet has at most 65,535 bytes, or over IPv6 such a
   datagram. */
uint8_t *fb_put_udp(uint8_t *out, const fb_ip_header *header, uint16_t source_port,
                    uint16_t destination_port, fb_bytes payload);
/* Write a datagram as an IP packet, from its source to its destination. Return its end. NULL: the
   addresses are of two families, or the payload is longer than UDP allows. REQUIRES: room for its
   payload and FB_DATAGRAM_HEADERS bytes. */
uint8_t *fb_put_datagram(uint8_t *out, const fb_datagram *datagram);
/* Return the checksum of a transport header, its payload and the pseudo header (RFC 768, RFC 8200
   section 8.1). REQUIRES: the checksum field is 0. */
uint16_t fb_transport_checksum(const fb_ip_header *header, const uint8_t *transport, size_t size);
/* Return the checksum of RFC 1071 over `size` bytes. */
uint16_t fb_internet_checksum(const uint8_t *bytes, size_t size);

#endif
