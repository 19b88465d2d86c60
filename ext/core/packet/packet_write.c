/* Headers are written in order; their checksums follow when the rest is known. */
#include "core/packet/packet_write.h"

#include "core/packet/packet.h"

uint8_t *fb_put_ethernet(uint8_t *out, uint64_t destination, uint64_t source, uint16_t vlan_tci,
                         bool ipv6) {
    out = fb_put_uint(out, destination, 6);
    out = fb_put_uint(out, source, 6);
    if (vlan_tci) out = fb_put16(fb_put16(out, 0x8100), vlan_tci);
    return fb_put16(out, ipv6 ? 0x86dd : 0x0800);
}

/* One's complement sums may be folded at any time, so 32 bits are added at once. An odd last byte
   counts as if a zero followed. */
static uint64_t add_words(uint64_t sum, const uint8_t *bytes, size_t size) {
    for (; size >= 4; bytes += 4, size -= 4) sum += fb_load32(bytes);
    if (size >= 2) {
        sum += fb_load16(bytes);
        bytes += 2;
        size -= 2;
    }
    return size ? sum + ((uint64_t)bytes[0] << 8) : sum;
}

static uint16_t fold(uint64_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

uint16_t fb_internet_checksum(const uint8_t *bytes, size_t size) {
    return fold(add_words(0, bytes, size));
}

/* Return the sum of the pseudo header. `size` is that of the transport header and its payload. */
static uint64_t add_pseudo_header(const fb_ip_header *header, size_t size) {
    size_t width = header->ipv6 ? 16 : 4;
    uint64_t sum = add_words(header->protocol + (uint64_t)size, header->source, width);
    return add_words(sum, header->destination, width);
}

uint16_t fb_transport_checksum(const fb_ip_header *header, const uint8_t *transport, size_t size) {
    return fold(add_words(add_pseudo_header(header, size), transport, size));
}

static uint8_t *put_ipv4(uint8_t *out, const fb_ip_header *header) {
    const uint8_t version_and_header_words = 0x45;
    const uint16_t dont_fragment = 0x4000;
    uint8_t *start = out;
    out = fb_put8(out, version_and_header_words);
    out = fb_put8(out, header->tos);
    out = fb_put16(out, header->size);
    out = fb_put16(out, header->identification);
    out = fb_put16(out, header->may_be_split ? 0 : dont_fragment);
    out = fb_put8(out, header->ttl);
    out = fb_put8(out, header->protocol);
    uint8_t *checksum = out;
    out = fb_put16(out, 0);
    out = fb_put_bytes(out, header->source, 4);
    out = fb_put_bytes(out, header->destination, 4);
    fb_put16(checksum, fb_internet_checksum(start, FB_IPV4_HEADER_SIZE));
    return out;
}

uint8_t *fb_put_ip(uint8_t *out, const fb_ip_header *header) {
    if (!header->ipv6) return put_ipv4(out, header);
    out = fb_put32(out, 6u << 28 | (uint32_t)header->tos << 20 | header->flow_label);
    out = fb_put16(out, header->size - FB_IPV6_HEADER_SIZE);
    out = fb_put8(out, header->protocol);
    out = fb_put8(out, header->ttl);
    out = fb_put_bytes(out, header->source, 16);
    return fb_put_bytes(out, header->destination, 16);
}

uint8_t *fb_put_udp(uint8_t *out, const fb_ip_header *header, uint16_t source_port,
                    uint16_t destination_port, fb_bytes payload) {
    size_t size = FB_UDP_HEADER_SIZE + payload.size;
    fb_ip_header ip = *header;
    ip.protocol = FB_TRANSPORT_UDP;
    ip.size = (uint16_t)((ip.ipv6 ? FB_IPV6_HEADER_SIZE : FB_IPV4_HEADER_SIZE) + size);
    uint8_t *udp = fb_put_ip(out, &ip);
    uint8_t *checksum =
        fb_put16(fb_put16(fb_put16(udp, source_port), destination_port), (uint32_t)size);
    fb_put16(checksum, 0);
    uint64_t sum = add_words(add_pseudo_header(&ip, size), udp, FB_UDP_HEADER_SIZE);
    uint16_t folded = fold(add_words(sum, payload.data, payload.size));
    return fb_put16(checksum, folded ? folded : 0xffff); /* 0 means "no checksum" */
}

uint8_t *fb_put_datagram(uint8_t *out, const fb_datagram *datagram) {
    bool ipv4 = fb_is_mapped(datagram->source);
    size_t skipped = ipv4 ? 12 : 0; /* of an IPv4-mapped address */
    fb_bytes payload = datagram->payload;
    /* the length in a header of IPv6 does not count that header */
    size_t counted = FB_UDP_HEADER_SIZE + (ipv4 ? FB_IPV4_HEADER_SIZE : 0);
    if (ipv4 != fb_is_mapped(datagram->destination) || payload.size > UINT16_MAX - counted)
        return NULL;
    fb_ip_header header = {.source = datagram->source + skipped,
                           .destination = datagram->destination + skipped,
                           .ttl = 64,
                           .ipv6 = !ipv4,
                           .may_be_split = true};
    out = fb_put_udp(out, &header, datagram->source_port, datagram->destination_port, payload);
    return fb_put_bytes(out, payload.data, payload.size);
}
