/* Each layer checks its own lengths and passes the rest of the frame to the next. If a stated
   length is shorter than the data, the rest is padding. If it is longer, the packet was cut. */
#include "core/capture/link.h"

#include "core/packet/packet.h"

enum { MAX_TAGS = 8 };

static bool drop_front(fb_bytes *bytes, size_t size) {
    if (bytes->size < size) return false;
    bytes->data += size;
    bytes->size -= size;
    return true;
}

/* Skip VLAN tags. `rest` follows the EtherType. A tag is a TCI (2 bytes) and the next EtherType. */
static fb_status skip_tags(uint16_t ethertype, fb_bytes *rest) {
    for (int tags = 0; fb_is_tag(ethertype); tags++) {
        if (tags == MAX_TAGS) return FB_OTHER_PACKET;
        if (rest->size < 4) return FB_TRUNCATED_PACKET;
        ethertype = fb_load16(rest->data + 2);
        drop_front(rest, 4);
    }
    return ethertype == FB_ETHERTYPE_IPV4 || ethertype == FB_ETHERTYPE_IPV6 ? FB_OK
                                                                            : FB_OTHER_PACKET;
}

/* Skip a header of fixed size that contains an EtherType. */
static fb_status skip_header(fb_bytes *rest, size_t size, size_t ethertype_offset) {
    const uint8_t *header = rest->data;
    if (!drop_front(rest, size)) return FB_TRUNCATED_PACKET;
    return skip_tags(fb_load16(header + ethertype_offset), rest);
}

static bool is_ip_family(uint32_t family) {
    switch (family) {
        case 2:  /* AF_INET on all systems */
        case 10: /* AF_INET6 on Linux */
        case 24: /* NetBSD, OpenBSD */
        case 28: /* FreeBSD */
        case 30: /* macOS */ return true;
        default: return false;
    }
}

/* The address family has the byte order of the capturing host (NULL) or is big-endian (LOOP). No
   number is a valid family in both orders, so both are tried. */
static fb_status skip_family(fb_bytes *rest) {
    const uint8_t *p = rest->data;
    if (!drop_front(rest, 4)) return FB_TRUNCATED_PACKET;
    uint32_t swapped = (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
    return is_ip_family(fb_load32(p)) || is_ip_family(swapped) ? FB_OK : FB_OTHER_PACKET;
}

static fb_status skip_link_layer(uint16_t link_type, fb_bytes *rest) {
    switch (link_type) {
        case FB_LINK_ETHERNET: return skip_header(rest, 14, 12);
        case FB_LINK_LINUX_SLL: return skip_header(rest, 16, 14);
        case FB_LINK_LINUX_SLL2: return skip_header(rest, 20, 0);
        case FB_LINK_NULL:
        case FB_LINK_LOOP: return skip_family(rest);
        case FB_LINK_RAW:
        case FB_LINK_RAW_BSD:
        case FB_LINK_RAW_OPENBSD:
        case FB_LINK_IPV4:
        case FB_LINK_IPV6: return FB_OK;
        default: return FB_UNSUPPORTED_LINK_TYPE;
    }
}

/* An IP length of 0. Captures on the sending host have it if the network card does the
   segmentation. */
#define UNSTATED SIZE_MAX

/* Set the payload of a packet. `size` is its size from the IP header. */
static void set_payload(fb_ip_packet *packet, fb_bytes rest, size_t size, bool frame_cut) {
    packet->cut = size == UNSTATED ? frame_cut : size > rest.size;
    packet->payload = rest;
    if (size < rest.size) packet->payload.size = size;
}

static void map_ipv4(uint8_t address[16], const uint8_t *p) {
    memset(address, 0, 10);
    memset(address + 10, 0xff, 2);
    memcpy(address + 12, p, 4);
}

/* RFC 791 section 3.1.

   0       1       2           4               6               8       9       10      12
   +-------+-------+-----------+---------------+---------------+-------+-------+-------+----------
   |4 |IHL | TOS   | length    | identification|flags | offset | TTL   | proto | sum   | addresses
   +-------+-------+-----------+---------------+---------------+-------+-------+-------+----------

   The source address follows at 12, the destination address at 16. */
static fb_status read_ipv4(fb_bytes rest, bool frame_cut, fb_ip_packet *packet) {
    const uint8_t *p = rest.data;
    if (rest.size < 20) return FB_TRUNCATED_PACKET;
    size_t header_size = (size_t)(p[0] & 15) * 4, total_size = fb_load16(p + 2);
    if (header_size < 20 || (total_size && total_size < header_size)) return FB_OTHER_PACKET;
    packet->protocol = p[9];
    packet->more_fragments = (p[6] & 0x20) != 0;
    packet->fragment_offset = (uint32_t)(fb_load16(p + 6) & 0x1fff) * 8;
    packet->fragment = packet->more_fragments || packet->fragment_offset;
    packet->fragment_id = fb_load16(p + 4);
    map_ipv4(packet->source, p + 12);
    map_ipv4(packet->destination, p + 16);
    if (packet->protocol != FB_PROTOCOL_UDP) return FB_OTHER_PACKET;
    if (!drop_front(&rest, header_size)) return FB_TRUNCATED_PACKET;
    set_payload(packet, rest, total_size ? total_size - header_size : UNSTATED, frame_cut);
    return FB_OK;
}

/* RFC 8200 section 3: version, class, flow label (4 bytes), payload length (2), next header, hop
   limit, addresses. */
static fb_status read_ipv6(fb_bytes rest, bool frame_cut, fb_ip_packet *packet) {
    const uint8_t *p = rest.data;
    if (!drop_front(&rest, 40)) return FB_TRUNCATED_PACKET;
    size_t size = fb_load16(p + 4);
    packet->protocol = p[6];
    memcpy(packet->source, p + 8, 16);
    memcpy(packet->destination, p + 24, 16);
    set_payload(packet, rest, size ? size : UNSTATED, frame_cut);
    return fb_link_skip_extensions(packet);
}

fb_status fb_link_read_packet(const fb_frame *frame, fb_ip_packet *packet) {
    fb_bytes rest = frame->data;
    fb_status status = skip_link_layer(frame->link_type, &rest);
    if (status != FB_OK) return status;
    if (rest.size == 0) return FB_TRUNCATED_PACKET;
    memset(packet, 0, sizeof *packet);
    switch (rest.data[0] >> 4) {
        case 4: return read_ipv4(rest, frame->cut, packet);
        case 6: return read_ipv6(rest, frame->cut, packet);
        default: return FB_OTHER_PACKET;
    }
}

/* RFC 8200 section 4.5: next header, reserved, offset in units of 8 bytes (13 bits), reserved (2),
   more fragments (1), identification (4 bytes). An atomic fragment (RFC 6946) is a complete packet,
   so its header is skipped. */
static void read_fragment_header(const uint8_t *p, fb_ip_packet *packet) {
    packet->fragment_offset = fb_load16(p + 2) & 0xfff8;
    packet->more_fragments = p[3] & 1;
    packet->fragment = packet->fragment_offset || packet->more_fragments;
    packet->fragment_id = fb_load32(p + 4);
}

enum { HOP_BY_HOP = 0, ROUTING = 43, FRAGMENT = 44, DESTINATION_OPTIONS = 60 };

static bool is_extension(uint8_t protocol) {
    return protocol == HOP_BY_HOP || protocol == ROUTING || protocol == FRAGMENT ||
           protocol == DESTINATION_OPTIONS;
}

/* An extension header has at least 8 bytes, so the payload bounds the loop. */
fb_status fb_link_skip_extensions(fb_ip_packet *packet) {
    while (packet->protocol != FB_PROTOCOL_UDP) {
        const uint8_t *p = packet->payload.data;
        uint8_t protocol = packet->protocol;
        if (!is_extension(protocol)) return FB_OTHER_PACKET;
        if (packet->fragment) return FB_OK; /* the next header may be in another fragment */
        if (packet->payload.size < 8) return FB_TRUNCATED_PACKET;
        packet->protocol = p[0];
        if (protocol == FRAGMENT) read_fragment_header(p, packet);
        size_t size = protocol == FRAGMENT ? 8 : (size_t)(p[1] + 1) * 8;
        if (!drop_front(&packet->payload, size)) return FB_TRUNCATED_PACKET;
    }
    return FB_OK;
}

/* RFC 768: source port, destination port, length including this header, checksum. */
fb_status fb_link_read_udp(const fb_ip_packet *packet, fb_datagram *datagram) {
    fb_bytes rest = packet->payload;
    const uint8_t *p = rest.data;
    if (packet->protocol != FB_PROTOCOL_UDP || packet->fragment) return FB_OTHER_PACKET;
    if (!drop_front(&rest, 8)) return FB_TRUNCATED_PACKET;
    size_t size = fb_load16(p + 4);
    if (size && size < 8) return FB_OTHER_PACKET;
    /* Length 0 is a jumbogram (RFC 2675), or a datagram that the network card would have segmented.
       Then the length of the IP header applies. */
    if (size ? size - 8 > rest.size : packet->cut) return FB_TRUNCATED_PACKET;
    if (size) rest.size = size - 8;
    memcpy(datagram->source, packet->source, 16);
    memcpy(datagram->destination, packet->destination, 16);
    datagram->source_port = fb_load16(p);
    datagram->destination_port = fb_load16(p + 2);
    datagram->payload = rest;
    return FB_OK;
}
