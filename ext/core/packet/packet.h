/* Sampled packets: a walk over the headers of a packet, and the tunnels that it may open.

     fb_packet packet;
     fb_packet_walk(&packet, bytes, FB_PACKET_FRAME, tunnels);

   A walk goes from the outside in and records the positions of headers. It copies no header,
   allocates nothing, and is independent of columns. The input is the start of a packet, cut at any
   byte. All bytes that are present are used. A length in a header describes the packet; it never
   decides how many bytes may be read. Each step consumes bytes, so a walk always ends. */
#ifndef FB_PACKET_PACKET_H
#define FB_PACKET_PACKET_H

#include "core/base/base.h"

/* Kinds of tunnel whose inner packet a decoder may report as the flow. X(constant, name) */
#define FB_TUNNEL_LIST(X) \
    X(VXLAN, "vxlan") \
    X(GENEVE, "geneve") X(GRE, "gre") X(IPIP, "ipip") X(SRV6, "srv6") X(GTP, "gtp")

typedef enum {
#define FB_X(constant, name) FB_TUNNEL_##constant,
    FB_TUNNEL_LIST(FB_X)
#undef FB_X
        FB_TUNNEL_COUNT
} fb_tunnel;

/* Return the name of a tunnel; NULL: there is no such tunnel. */
const char *fb_tunnel_name(fb_tunnel tunnel);

enum {
    FB_MAX_TUNNELS = 4,      /* tunnels that are opened, one inside the other */
    FB_MAX_LABEL_STACKS = 4, /* stacks of nested pseudowires; a fifth is not parsed */
    FB_MAX_LAYERS = 32,
};

/* Type of the first header: an ethertype, such as those of IP, or one of these. */
enum {
    /* Transparent Ethernet Bridging: an Ethernet header, in GRE and Geneve */
    FB_ETHERTYPE_BRIDGED = 0x6558,
    FB_ETHERTYPE_MPLS = 0x8847,
    FB_ETHERTYPE_MPLS_MULTICAST = 0x8848,
    FB_ETHERTYPE_PPPOE = 0x8864,
    FB_PACKET_FRAME = 0x10000, /* an Ethernet header */
    FB_PACKET_UNKNOWN,         /* a header that is not parsed */
};

/* Protocols whose headers fill columns. */
enum {
    FB_TRANSPORT_ICMP = 1,
    FB_TRANSPORT_TCP = 6,
    FB_TRANSPORT_UDP = 17,
    FB_TRANSPORT_DCCP = 33,
    FB_TRANSPORT_ICMPV6 = 58,
    FB_TRANSPORT_SCTP = 132,
    FB_TRANSPORT_UDP_LITE = 136
};

FB_INLINE bool fb_transport_has_ports(unsigned protocol) {
    return protocol == FB_TRANSPORT_TCP || protocol == FB_TRANSPORT_UDP ||
           protocol == FB_TRANSPORT_DCCP || protocol == FB_TRANSPORT_SCTP ||
           protocol == FB_TRANSPORT_UDP_LITE;
}

/* IEEE 802.1Q, 802.1ad (QinQ), and the ethertypes used before these standards. */
FB_INLINE bool fb_is_tag(uint32_t ethertype) {
    return ethertype == 0x8100 || ethertype == 0x88a8 || ethertype == 0x9100 || ethertype == 0x9200;
}

/* The headers that a walk found: the outermost header of each kind. Pointers and views refer to the
   input. */
typedef struct {
    const uint8_t *frame; /* an Ethernet header, 14 bytes; NULL: none */
    const uint8_t *ip;    /* 20 bytes of IPv4 or 40 of IPv6; NULL: no complete, valid IP header */
    const uint8_t *fragment; /* an IPv6 fragment header, 8 bytes; NULL: none */
    /* header after IP and its options; NULL: cut off, or not in this fragment */
    const uint8_t *transport;
    const uint8_t *end; /* end of the data after `transport`, without padding */
    fb_bytes routing; /* an IPv6 routing header, 8 bytes or more, as far as present; empty: none */
    /* entries of 4 bytes; inner stacks are those of pseudowire frames */
    fb_bytes labels[FB_MAX_LABEL_STACKS];
    uint32_t ip_length; /* header and payload; 0: unknown */
    uint16_t etype;     /* the last ethertype found; 0: none */
    uint16_t vlan_id, inner_vlan_id;
    uint8_t label_stacks;
    uint8_t tags;    /* 0, 1, or 2 for two or more */
    uint8_t version; /* of `ip` */
    /* after the extension headers; the number of the extension header that is cut off, if any */
    uint8_t proto;
    bool segment_routing; /* a routing header is of type 4 (RFC 8754) */
    bool other_routing;   /* a routing header is of another type */
    /* Set only if tunnels are opened. */
    uint8_t tunnels;      /* number of opened tunnels */
    bool too_deep;        /* FB_MAX_TUNNELS tunnels are open, and there is another one inside */
    const uint8_t *outer; /* IP header of the outermost tunnel; NULL: none was opened */
    uint64_t tunnel_id;   /* of the outermost tunnel: VNI, GRE key, TEID */
    /* Reason why the walk ended before the transport header: UNKNOWN_HEADER or BAD_PACKET. OK: the
       packet is cut there, or complete. */
    fb_status problem;
    const uint8_t *problem_at;
} fb_packet;

/* Walk a packet whose first header is of `type`. `tunnels` has a bit (1 << fb_tunnel) for each kind
   of tunnel to open. If tunnels were opened, the result describes only the innermost packet, except
   for the fields of tunnels. A tunnel is opened if the first header inside it is complete and
   valid. Otherwise the result describes the packet around it, and `problem` is that of the inner
   packet. */
void fb_packet_walk(fb_packet *packet, fb_bytes bytes, uint32_t type, unsigned tunnels);

/* Walk the most common packets in one pass: an Ethernet frame with at most two tags. It holds IPv4
   without options that is not a later fragment, or IPv6 directly followed by TCP, UDP or ICMP.
   Return false for all other packets; *packet is then undefined. Tunnels are not opened. */
FB_INLINE bool fb_packet_walk_plain(fb_packet *packet, fb_bytes bytes) {
    enum { ETHERNET = 14, TAG = 4, IPV4 = 20, IPV6 = 40 };
    const uint8_t *p = bytes.data, *end = p + bytes.size;
    if (bytes.size < ETHERNET + IPV4) return false;
    *packet = (fb_packet){.frame = p};
    uint32_t type = fb_load16(p + 12);
    p += ETHERNET;
    for (; type != FB_ETHERTYPE_IPV4 && type != FB_ETHERTYPE_IPV6; p += TAG) {
        if (!fb_is_tag(type) || packet->tags == 2 || end - p < TAG + IPV4) return false;
        if (packet->tags++) packet->inner_vlan_id = fb_load16(p) & 0x0fff;
        else packet->vlan_id = fb_load16(p) & 0x0fff;
        type = fb_load16(p + 2);
    }
    size_t length, left = (size_t)(end - p);
    if (type == FB_ETHERTYPE_IPV4) {
        length = fb_load16(p + 2);
        if (p[0] != 0x45 || (length && length < IPV4) || fb_load16(p + 6) & 0x1fff) return false;
        packet->version = 4;
        packet->proto = p[9];
        packet->ip_length = (uint32_t)length;
        packet->transport = p + IPV4;
    } else {
        length = fb_load16(p + 4);
        if (left < IPV6 || p[0] >> 4 != 6 || (p[6] != 6 && p[6] != 17 && p[6] != 58)) return false;
        if (length) length += IPV6;
        packet->version = 6;
        packet->proto = p[6];
        packet->ip_length = (uint32_t)length;
        packet->transport = p + IPV6;
    }
    packet->etype = (uint16_t)type;
    packet->ip = p;
    packet->end = length && length < left ? p + length : end; /* link layers pad short packets */
    return true;
}

/* Kinds of header, with the numbers of the enum of the column layer_stack. */
/* clang-format off */
#define FB_LAYER_LIST(X) \
    X(UNKNOWN, 0) X(ETHERNET, 1) X(DOT1Q, 2) X(MPLS, 3) X(IPV4, 4) X(IPV6, 5) \
    X(IPV6_HOP_BY_HOP, 6) X(IPV6_ROUTING, 7) X(IPV6_FRAGMENT, 8) X(IPV6_DESTINATION, 9) \
    X(TCP, 10) X(UDP, 11) X(SCTP, 12) X(ICMP, 13) X(ICMPV6, 14) X(GRE, 15) \
    X(VXLAN, 16) X(GENEVE, 17) X(GTP, 18)
/* clang-format on */

typedef enum {
#define FB_X(constant, number) FB_LAYER_##constant = number,
    FB_LAYER_LIST(FB_X)
#undef FB_X
} fb_layer;

typedef struct {
    size_t count;
    bool more; /* there are more headers than fit */
    uint8_t kind[FB_MAX_LAYERS];
    uint32_t size[FB_MAX_LAYERS]; /* in bytes, according to the header */
} fb_layers;

/* List the headers of a packet from the outside in, including those inside tunnels of every kind,
   independent of the tunnels to open. Headers without a kind are UNKNOWN: SNAP, PPPoE with PPP,
   control words, IPv6 extension headers without a number, DCCP and UDP-Lite. A label stack counts
   as one header. A header is listed if the fixed-size part that contains its length is present. */
void fb_packet_list_layers(fb_layers *layers, fb_bytes bytes, uint32_t type);

/* Return the addresses in a routing header (RFC 8200 section 4.4): *count of them, 16 bytes each.
   NULL: its type has none. REQUIRES: 8 bytes or more. */
const uint8_t *fb_packet_routing_addresses(fb_bytes routing, size_t *count);

#endif
