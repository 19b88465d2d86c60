/* Tunnels are recognized by IP protocol or UDP port, and by their header. Each reader gets the
   bytes after the IP (and UDP) header and returns the start of the inner packet. A header that is
   cut off is not a match, and neither is one of a version or type that carries no packet. A length
   is used only to step forward within the packet. */
#include "core/packet/tunnel.h"

static const char *const tunnels[FB_TUNNEL_COUNT] = {
#define FB_X(constant, name) name,
    FB_TUNNEL_LIST(FB_X)
#undef FB_X
};

const char *fb_tunnel_name(fb_tunnel tunnel) {
    return (unsigned)tunnel < FB_TUNNEL_COUNT ? tunnels[tunnel] : NULL;
}

static bool is_requested(unsigned tunnels, fb_tunnel tunnel) {
    return tunnels >> tunnel & 1;
}

/* Set the type of the first header of a payload with this ethertype. Return false if tunnels do not
   carry the ethertype. */
static bool read_payload_type(uint32_t ethertype, fb_inner *inner) {
    inner->type = ethertype == FB_ETHERTYPE_BRIDGED ? (uint32_t)FB_PACKET_FRAME : ethertype;
    return ethertype == FB_ETHERTYPE_BRIDGED || ethertype == FB_ETHERTYPE_IPV4 ||
           ethertype == FB_ETHERTYPE_IPV6;
}

/* RFC 7348 section 5. Flag I marks a valid VNI. All other flags are ignored.

   +-+-+-+-+-+-+-+-+-----------------------+
   |R|R|R|R|I|R|R|R|       reserved        |
   +---------------------------+-----------+
   |            VNI            | reserved  |   3 bytes and 1; an Ethernet frame follows
   +---------------------------+-----------+ */
static bool read_vxlan(fb_bytes header, fb_inner *inner) {
    if (header.size < 8 || !(header.data[0] & 0x08)) return false;
    *inner =
        (fb_inner){header.data + 8, FB_PACKET_FRAME, fb_load24(header.data + 4), FB_LAYER_VXLAN, 8};
    return true;
}

/* RFC 8926 section 3.4. A control packet (O) carries no traffic.

   +---+------------+-+-+------+---------------+
   |ver| opt length |O|C| rsvd | protocol type |   2 and 6 bits, 1 byte, 2 bytes; the option length
   +---+------------+-+-+------+------+--------+   is in words of 4 bytes
   |               VNI                | rsvd   |   3 bytes and 1; options and the payload follow
   +----------------------------------+--------+ */
static bool read_geneve(fb_bytes header, fb_inner *inner) {
    const uint8_t *p = header.data;
    if (header.size < 8 || p[0] >> 6 != 0 || p[1] & 0x80) return false;
    size_t size = 8 + (size_t)(p[0] & 0x3f) * 4;
    if (header.size < size || !read_payload_type(fb_load16(p + 2), inner)) return false;
    inner->p = p + size;
    inner->id = fb_load24(p + 4);
    inner->layer = FB_LAYER_GENEVE;
    inner->size = (uint32_t)size;
    return true;
}

/* Skip the chain of GTP-U extension headers (3GPP TS 29.281 section 5.2). Each has its length in
   words of 4 bytes, its content, and in its last byte the type of the next one. *size grows by
   their sizes. Return false if one is cut off or has length 0. */
static bool skip_gtp_extensions(fb_bytes header, unsigned next, size_t *size) {
    while (next) {
        size_t left = header.size - *size;
        if (!left) return false;
        size_t length = (size_t)header.data[*size] * 4;
        if (!length || length > left) return false;
        next = header.data[*size + length - 1];
        *size += length;
    }
    return true;
}

/* 3GPP TS 29.281 section 5.1. If E, S or PN is set, four more bytes follow: sequence number (2),
   N-PDU number, and type of the next extension header, which is valid only with E. Type 255 is a
   G-PDU: an IP packet, whose version is in its first nibble.

   +-------+--+-+-+-+--+------+--------+--------------+
   |version|PT|*|E|S|PN| type | length |     TEID     |   3 bits version 1, PT 1; 1 byte, 2, 4
   +-------+--+-+-+-+--+------+--------+--------------+ */
static bool read_gtp(fb_bytes header, fb_inner *inner) {
    const uint8_t *p = header.data;
    if (header.size < 8 || p[0] >> 4 != 3 || p[1] != 255) return false;
    size_t size = p[0] & 7 ? 12 : 8;
    if (header.size < size) return false;
    if (p[0] & 4 && !skip_gtp_extensions(header, p[11], &size)) return false;
    if (header.size == size) return false;
    unsigned version = p[size] >> 4;
    if (version != 4 && version != 6) return false;
    *inner = (fb_inner){p + size, version == 4 ? FB_ETHERTYPE_IPV4 : FB_ETHERTYPE_IPV6,
                        fb_load32(p + 4), FB_LAYER_GTP, (uint32_t)size};
    return true;
}

/* Select by destination port: VXLAN (IANA's port, and the earlier one of Linux), Geneve, GTP-U. */
static bool find_in_udp(fb_bytes segment, unsigned tunnels, fb_inner *inner) {
    if (segment.size < 8) return false;
    fb_bytes header = {segment.data + 8, segment.size - 8};
    switch (fb_load16(segment.data + 2)) {
        case 4789:
        case 8472: return is_requested(tunnels, FB_TUNNEL_VXLAN) && read_vxlan(header, inner);
        case 6081: return is_requested(tunnels, FB_TUNNEL_GENEVE) && read_geneve(header, inner);
        case 2152: return is_requested(tunnels, FB_TUNNEL_GTP) && read_gtp(header, inner);
        default: return false;
    }
}

uint32_t fb_gre_size(const uint8_t *p) {
    unsigned flags = fb_load16(p), checksum = flags >> 15, key = flags >> 13 & 1,
             sequence = flags >> 12 & 1;
    /* RFC 2637: always a key, and optionally an acknowledgement */
    if ((flags & 7) == 1) return 8 + 4 * (sequence + (flags >> 7 & 1));
    return 4 * (1 + checksum + key + sequence);
}

/* RFC 2784 section 2, RFC 2890 section 2. Bits 1, 4 and 5 (routing and strict source route of
   RFC 1701) must be zero. Other reserved bits are ignored. Version 1 is PPTP and is not a match.

   +-+-+-+-+---------+------------+---+---------------+
   |C|R|K|S| reserved             |ver| protocol type |   2 bytes, 2 bytes
   +-+-+-+-+---------+------------+---+---------------+
   | checksum, reserved (C) | key (K) | sequence (S)  |   4 bytes each, if their bit is set */
static bool read_gre(fb_bytes header, fb_inner *inner) {
    const uint8_t *p = header.data;
    if (header.size < 4 || fb_load16(p) & 0x4c07) return false;
    uint32_t size = fb_gre_size(p), ethertype = fb_load16(p + 2);
    bool labels = ethertype == FB_ETHERTYPE_MPLS || ethertype == FB_ETHERTYPE_MPLS_MULTICAST;
    if (header.size < size || (!read_payload_type(ethertype, inner) && !labels)) return false;
    inner->p = p + size;
    inner->id = p[0] & 0x20 ? fb_load32(p + (p[0] & 0x80 ? 8 : 4)) : 0;
    inner->layer = FB_LAYER_UNKNOWN; /* the IP protocol names GRE */
    return true;
}

/* IP in IP (RFC 2003, RFC 4213, RFC 2473) and segment routing (RFC 8986). Segment routing has the
   same payloads in IPv6, and also Ethernet (protocol 143). It has routing headers of type 4 only,
   or none. A packet with such a header is SRv6, not IP in IP. */
static bool find_in_ip(const fb_packet *outer, unsigned tunnels, fb_inner *inner) {
    static const uint32_t types[] = {FB_ETHERTYPE_IPV4, FB_ETHERTYPE_IPV6, FB_PACKET_FRAME};
    unsigned kind = outer->proto == 4 ? 0 : outer->proto == 41 ? 1 : 2;
    bool srv6 =
        is_requested(tunnels, FB_TUNNEL_SRV6) && outer->version == 6 && !outer->other_routing;
    bool ipip = is_requested(tunnels, FB_TUNNEL_IPIP) && kind < 2 && !outer->segment_routing;
    *inner = (fb_inner){.p = outer->transport, .type = types[kind]};
    return srv6 || ipip;
}

bool fb_tunnel_find(const fb_packet *outer, unsigned tunnels, fb_inner *inner) {
    if (!outer->transport) return false;
    fb_bytes segment = {outer->transport, (size_t)(outer->end - outer->transport)};
    switch (outer->proto) {
        case 4:
        case 41:
        case 143: return find_in_ip(outer, tunnels, inner);
        case 47: return is_requested(tunnels, FB_TUNNEL_GRE) && read_gre(segment, inner);
        case 17: return find_in_udp(segment, tunnels, inner);
        default: return false;
    }
}
