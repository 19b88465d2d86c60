/* Tunnels are told by IP protocol or UDP port, and by their headers. Each reader gets what follows the IP (and UDP) header
   and says where the inner packet begins; a header that is cut off, or of a version or kind that carries no packet, is no
   match. Nothing is believed of a length but how far to step, and that only within the packet. */
#include "core/packet/tunnel.h"

static const char *const tunnels[FB_TUNNEL_COUNT] = {
#define FB_X(constant, name) name,
    FB_TUNNEL_LIST(FB_X)
#undef FB_X
};

const char *fb_tunnel_name(fb_tunnel tunnel) {
    return (unsigned)tunnel < FB_TUNNEL_COUNT ? tunnels[tunnel] : NULL;
}

static bool is_asked(unsigned tunnels, fb_tunnel tunnel) {
    return tunnels >> tunnel & 1;
}

/* What a payload of this ethertype begins with; false where it is none that a tunnel brings. */
static bool read_payload_type(uint32_t ethertype, fb_inner *inner) {
    inner->type = ethertype == FB_ETHERTYPE_BRIDGED ? (uint32_t)FB_PACKET_FRAME : ethertype;
    return ethertype == FB_ETHERTYPE_BRIDGED || ethertype == FB_ETHERTYPE_IPV4 || ethertype == FB_ETHERTYPE_IPV6;
}

/* RFC 7348 section 5; the flag I says that there is a VNI. All other flags are ignored.

   +-+-+-+-+-+-+-+-+-----------------------+
   |R|R|R|R|I|R|R|R|       reserved        |
   +---------------------------+-----------+
   |            VNI            | reserved  |   3 octets and 1; an Ethernet frame follows
   +---------------------------+-----------+ */
static bool read_vxlan(fb_bytes header, fb_inner *inner) {
    if (header.size < 8 || !(header.data[0] & 0x08)) return false;
    *inner = (fb_inner){header.data + 8, FB_PACKET_FRAME, fb_load24(header.data + 4), FB_LAYER_VXLAN, 8};
    return true;
}

/* RFC 8926 section 3.4. A control packet (O) carries no traffic.

   +---+------------+-+-+------+---------------+
   |ver| opt length |O|C| rsvd | protocol type |   2 and 6 bits, 1 octet, 2 octets; the options' length in words of 4 octets
   +---+------------+-+-+------+------+--------+
   |               VNI                | rsvd   |   3 octets and 1; options, and the payload, follow
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

/* The chain of GTP-U's extension headers (3GPP TS 29.281 section 5.2): each is its length in words of 4 octets, content, and
   in its last octet the type of the next one. *size grows by them; false where they are cut off or have no length. */
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

/* 3GPP TS 29.281 section 5.1. With any of E, S and PN four more octets follow: sequence number (2), N-PDU number, type of the
   next extension header, which counts with E alone. Type 255 is a G-PDU: an IP packet, which says itself of which version.

   +-------+--+-+-+-+--+------+--------+--------------+
   |version|PT|*|E|S|PN| type | length |     TEID     |   3 bits version 1, PT 1; 1 octet, 2, 4
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
    *inner = (fb_inner){p + size, version == 4 ? FB_ETHERTYPE_IPV4 : FB_ETHERTYPE_IPV6, fb_load32(p + 4), FB_LAYER_GTP,
                        (uint32_t)size};
    return true;
}

/* By the destination port: VXLAN (IANA's, and the one Linux had before), Geneve, GTP-U. */
static bool find_in_udp(fb_bytes segment, unsigned tunnels, fb_inner *inner) {
    if (segment.size < 8) return false;
    fb_bytes header = {segment.data + 8, segment.size - 8};
    switch (fb_load16(segment.data + 2)) {
        case 4789:
        case 8472: return is_asked(tunnels, FB_TUNNEL_VXLAN) && read_vxlan(header, inner);
        case 6081: return is_asked(tunnels, FB_TUNNEL_GENEVE) && read_geneve(header, inner);
        case 2152: return is_asked(tunnels, FB_TUNNEL_GTP) && read_gtp(header, inner);
        default: return false;
    }
}

uint32_t fb_gre_size(const uint8_t *p) {
    unsigned flags = fb_load16(p), checksum = flags >> 15, key = flags >> 13 & 1, sequence = flags >> 12 & 1;
    if ((flags & 7) == 1) return 8 + 4 * (sequence + (flags >> 7 & 1)); /* RFC 2637: K always, and an acknowledgement */
    return 4 * (1 + checksum + key + sequence);
}

/* RFC 2784 section 2, RFC 2890 section 2. Bits 1, 4 and 5 (routing and strict source route of RFC 1701) must be zero, the
   rest of what is reserved is ignored. Version 1 is PPTP's.

   +-+-+-+-+---------+------------+---+---------------+
   |C|R|K|S| reserved             |ver| protocol type |   2 octets, 2 octets
   +-+-+-+-+---------+------------+---+---------------+
   | checksum, reserved (C) | key (K) | sequence (S)  |   4 octets each, where its bit says so */
static bool read_gre(fb_bytes header, fb_inner *inner) {
    const uint8_t *p = header.data;
    if (header.size < 4 || fb_load16(p) & 0x4c07) return false;
    uint32_t size = fb_gre_size(p), ethertype = fb_load16(p + 2);
    bool labels = ethertype == FB_ETHERTYPE_MPLS || ethertype == FB_ETHERTYPE_MPLS_MULTICAST;
    if (header.size < size || (!read_payload_type(ethertype, inner) && !labels)) return false;
    inner->p = p + size;
    inner->id = p[0] & 0x20 ? fb_load32(p + (p[0] & 0x80 ? 8 : 4)) : 0;
    inner->layer = FB_LAYER_UNKNOWN; /* IP names GRE */
    return true;
}

/* IP in IP (RFC 2003, RFC 4213, RFC 2473), and what a segment routing domain does (RFC 8986): the same in IPv6, behind
   routing headers of type 4 and of no other, or none; also Ethernet (protocol 143). With segments it is SRv6 alone. */
static bool find_in_ip(const fb_packet *outer, unsigned tunnels, fb_inner *inner) {
    static const uint32_t types[] = {FB_ETHERTYPE_IPV4, FB_ETHERTYPE_IPV6, FB_PACKET_FRAME};
    unsigned kind = outer->proto == 4 ? 0 : outer->proto == 41 ? 1 : 2;
    bool srv6 = is_asked(tunnels, FB_TUNNEL_SRV6) && outer->version == 6 && !outer->other_routing;
    bool ipip = is_asked(tunnels, FB_TUNNEL_IPIP) && kind < 2 && !outer->segment_routing;
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
        case 47: return is_asked(tunnels, FB_TUNNEL_GRE) && read_gre(segment, inner);
        case 17: return find_in_udp(segment, tunnels, inner);
        default: return false;
    }
}
