/* Sampled packets: what a walk over one finds, and which tunnels may be opened on the way.

     fb_packet packet;
     fb_packet_walk(&packet, octets, FB_PACKET_FRAME, tunnels);

   A walk goes from the outside in and notes where the headers are; it copies none, allocates nothing, and knows no columns.
   The octets are the start of a packet, cut anywhere: what is there is used, and a length in a header is believed for what
   it says of the packet, never for how many octets may be read. Each step takes octets off, so a walk ends with them. */
#ifndef FB_PACKET_H
#define FB_PACKET_H

#include "core/base/base.h"

/* Kinds of tunnel whose inner packet a decoder may take for the flow. X(constant, name) */
#define FB_TUNNEL_LIST(X) \
    X(VXLAN, "vxlan") X(GENEVE, "geneve") X(GRE, "gre") X(IPIP, "ipip") X(SRV6, "srv6") X(GTP, "gtp")

typedef enum {
#define FB_X(constant, name) FB_TUNNEL_##constant,
    FB_TUNNEL_LIST(FB_X)
#undef FB_X
    FB_TUNNEL_COUNT
} fb_tunnel;

const char *fb_tunnel_name(fb_tunnel tunnel);

enum {
    FB_MAX_TUNNELS = 4,      /* that are opened, one inside the other */
    FB_MAX_LABEL_STACKS = 4, /* of a pseudowire in a pseudowire; a fifth is not parsed */
    FB_MAX_LAYERS = 32,
};

/* What the first header is: an ethertype, as those of IP are, or one of these. */
enum {
    FB_ETHERTYPE_BRIDGED = 0x6558, /* Transparent Ethernet Bridging: an Ethernet header, in GRE and Geneve */
    FB_ETHERTYPE_MPLS = 0x8847,
    FB_ETHERTYPE_MPLS_MULTICAST = 0x8848,
    FB_ETHERTYPE_PPPOE = 0x8864,
    FB_PACKET_FRAME = 0x10000, /* an Ethernet header */
    FB_PACKET_UNKNOWN,         /* something that is not parsed */
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
    return protocol == FB_TRANSPORT_TCP || protocol == FB_TRANSPORT_UDP || protocol == FB_TRANSPORT_DCCP ||
           protocol == FB_TRANSPORT_SCTP || protocol == FB_TRANSPORT_UDP_LITE;
}

/* IEEE 802.1Q, 802.1ad (QinQ), and what both were before the standard. */
FB_INLINE bool fb_is_tag(uint32_t ethertype) {
    return ethertype == 0x8100 || ethertype == 0x88a8 || ethertype == 0x9100 || ethertype == 0x9200;
}

/* What a walk has found of the flow's packet: of headers of a kind the outermost. Pointers go into the octets. */
typedef struct {
    const uint8_t *frame;     /* an Ethernet header, 14 octets; NULL: none */
    const uint8_t *ip;        /* 20 octets of IPv4 or 40 of IPv6; NULL: no such header that is whole and sound */
    const uint8_t *fragment;  /* an IPv6 fragment header, 8 octets; NULL: none */
    const uint8_t *transport; /* what follows IP and its options; NULL: it is cut off, or not in this fragment */
    const uint8_t *end;       /* of what follows it: padding is left out */
    fb_bytes routing;         /* an IPv6 routing header, 8 octets or more: as much of it as is there; empty: none */
    fb_bytes labels[FB_MAX_LABEL_STACKS]; /* entries of 4 octets; stacks further in are those of pseudowires' frames */
    uint32_t ip_length;       /* header and payload; 0: not known */
    uint16_t etype;           /* the last ethertype met; 0: none */
    uint16_t vlan_id, inner_vlan_id;
    uint8_t label_stacks;
    uint8_t tags;             /* 0, 1, or 2 for any more */
    uint8_t version;          /* of ip */
    uint8_t proto;            /* behind the extension headers; of the one that is cut off, where one is */
    bool segment_routing;     /* some routing header is of type 4 (RFC 8754) */
    bool other_routing;       /* some is of another type */
    /* When tunnels are to be opened. */
    uint8_t tunnels;          /* how many were */
    bool too_deep;            /* another one is inside, beyond FB_MAX_TUNNELS */
    const uint8_t *outer;     /* the IP header of the outermost one; NULL: none was opened */
    uint64_t tunnel_id;       /* of the outermost one: VNI, GRE key, TEID */
    /* Why the walk ended before the transport: UNKNOWN_HEADER, BAD_PACKET; OK: for no other reason than a cut. */
    fb_status problem;
    const uint8_t *problem_at;
} fb_packet;

/* Walks a packet whose first header is of `type`. `tunnels` has a bit (1 << fb_tunnel) for each kind that is opened: what
   is found is then the innermost packet's alone, but for the fields of tunnels. A tunnel is opened when the first header
   inside it is whole and sound; else the packet around it is what is found, and `problem` is that of the inner one. */
void fb_packet_walk(fb_packet *packet, fb_bytes octets, uint32_t type, unsigned tunnels);

/* The same of what nearly all packets are, in one go: an Ethernet frame, with two tags at most, of IPv4 without options and
   whole, or of IPv6 with TCP, UDP or ICMP and nothing in between. False: it is none, and *packet holds nothing. The tunnels in
   it stay closed. */
FB_INLINE bool fb_packet_walk_plain(fb_packet *packet, fb_bytes octets) {
    enum { ETHERNET = 14, TAG = 4, IPV4 = 20, IPV6 = 40 };
    const uint8_t *p = octets.data, *end = p + octets.size;
    if (octets.size < ETHERNET + IPV4) return false;
    *packet = (fb_packet){.frame = p};
    uint32_t type = fb_load16(p + 12);
    p += ETHERNET;
    for (; type != FB_ETHERTYPE_IPV4 && type != FB_ETHERTYPE_IPV6; p += TAG) {
        if (!fb_is_tag(type) || packet->tags == 2 || end - p < TAG + IPV4) return false;
        if (packet->tags++)
            packet->inner_vlan_id = fb_load16(p) & 0x0fff;
        else
            packet->vlan_id = fb_load16(p) & 0x0fff;
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
#define FB_LAYER_LIST(X) \
    X(UNKNOWN, 0) X(ETHERNET, 1) X(DOT1Q, 2) X(MPLS, 3) X(IPV4, 4) X(IPV6, 5) X(IPV6_HOP_BY_HOP, 6) X(IPV6_ROUTING, 7) \
    X(IPV6_FRAGMENT, 8) X(IPV6_DESTINATION, 9) X(TCP, 10) X(UDP, 11) X(SCTP, 12) X(ICMP, 13) X(ICMPV6, 14) X(GRE, 15) \
    X(VXLAN, 16) X(GENEVE, 17) X(GTP, 18)

typedef enum {
#define FB_X(constant, number) FB_LAYER_##constant = number,
    FB_LAYER_LIST(FB_X)
#undef FB_X
} fb_layer;

typedef struct {
    size_t count;
    bool more; /* there are more than fit */
    uint8_t kind[FB_MAX_LAYERS];
    uint32_t size[FB_MAX_LAYERS]; /* octets, as the header says */
} fb_layers;

/* Lists the headers of a packet from the outside in, those inside tunnels of every kind too, whatever is opened. A header
   that has no kind of its own is UNKNOWN: SNAP, PPPoE with PPP, a control word, IPv6 extension headers without a number, DCCP,
   UDP-Lite. A label stack is one header. A header is listed when the part of fixed size that says how long it is is there. */
void fb_packet_list_layers(fb_layers *layers, fb_bytes octets, uint32_t type);

/* The addresses in a routing header (RFC 8200 section 4.4): *count of 16 octets each, NULL where its type has none. */
const uint8_t *fb_packet_routing_addresses(fb_bytes routing, size_t *count);

#endif
