/* The columns of a sampled packet: the results of a walk (packet.h), in the order of source.h. */
#ifndef FB_DECODE_SAMPLED_PACKET_TMPL_H
#define FB_DECODE_SAMPLED_PACKET_TMPL_H

#include "core/packet/tunnel.h"
#include "core/decode/value.tmpl.h"

/* A packet and the results of the walk over it. */
typedef struct {
    fb_bytes bytes;
    uint32_t type; /* of its first header */
    fb_packet found;
} fb_sampled;

FB_INLINE void walk_packet(fb_context *c, fb_sampled *packet) {
    fb_packet *found = &packet->found;
    fb_packet_walk(found, packet->bytes, packet->type, c->decapsulate);
    if (FB_UNLIKELY(!c->plan->has_packet)) return; /* no column uses the packet */
    if (found->problem != FB_OK) fb_context_count(c, found->problem, found->problem_at);
    if (FB_LIKELY(!c->decapsulate)) return;
    if (!found->tunnels) fb_context_count(c, FB_NOT_ENCAPSULATED, packet->bytes.data);
    if (found->too_deep) fb_context_count(c, FB_TUNNEL_DEPTH, found->ip);
}

#define PACKET_BIT(source) (1ull << (FB_SOURCE_PACKET_##source - FB_SOURCE_FIRST_PACKET))

/* True if a column uses one of these sources, given as a set of PACKET_BITs. */
FB_INLINE bool has_packet_sources(const fb_context *c, uint64_t sources) {
    return c->plan->packet_sources & sources;
}

/* Put the two addresses of an IP header. */
FB_INLINE void set_endpoints(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source src,
                             fb_source dst, const uint8_t *ip, unsigned version) {
    if (version == 4) {
        set_ip(c, emitter, at, src, ip + 12, 4);
        set_ip(c, emitter, at, dst, ip + 16, 4);
    } else {
        set_ip(c, emitter, at, src, ip + 8, 16);
        set_ip(c, emitter, at, dst, ip + 24, 16);
    }
}

FB_NOINLINE static fb_cursor put_tunnel(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                        const fb_packet *packet) {
    set_endpoints(c, emitter, &at, FB_SOURCE_PACKET_TUNNEL_SRC_ADDR,
                  FB_SOURCE_PACKET_TUNNEL_DST_ADDR, packet->outer, packet->outer[0] >> 4);
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_TUNNEL_ID, packet->tunnel_id);
    return at;
}

FB_INLINE fb_cursor put_frame(fb_context *c, fb_emitter *emitter, fb_cursor at,
                              const fb_packet *packet) {
    if (packet->frame) {
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_SRC_MAC, fb_load48(packet->frame + 6));
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_DST_MAC, fb_load48(packet->frame));
    }
    if (packet->tags > 0) set_uint(c, emitter, &at, FB_SOURCE_PACKET_VLAN_ID, packet->vlan_id);
    if (packet->tags > 1)
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_INNER_VLAN_ID, packet->inner_vlan_id);
    return at;
}

/* Put one field of each MPLS label stack entry. `shift` and `mask` select its bits. */
static void set_labels(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                       const fb_packet *packet, unsigned shift, uint32_t mask) {
    for (unsigned i = 0; i < packet->label_stacks; i++)
        for (const uint8_t *p = packet->labels[i].data, *end = p + packet->labels[i].size; p < end;
             p += 4)
            set_member(c, emitter, at, source, fb_load32(p) >> shift & mask);
    close_list(c, emitter, at, source);
}

FB_NOINLINE static fb_cursor put_labels(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                        const fb_packet *packet) {
    set_labels(c, emitter, &at, FB_SOURCE_PACKET_MPLS_LABELS, packet, 12, 0xfffff);
    set_labels(c, emitter, &at, FB_SOURCE_PACKET_MPLS_TTLS, packet, 0, 0xff);
    return at;
}

/* Put the less common fields of an IP header: RFC 791 section 3.1, RFC 8200 section 3. IPv6
   fragments are in RFC 8200 section 4.5: next header, reserved, offset of 13 bits and M flag,
   identification. */
FB_NOINLINE static fb_cursor put_ip_details(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                            const uint8_t *p, const uint8_t *fragment) {
    if (p[0] >> 4 == 4) {
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_TOS, p[1]);
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_TTL, p[8]);
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_FRAGMENT_ID, fb_load16(p + 4));
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_FRAGMENT_OFFSET, fb_load16(p + 6) & 0x1fff);
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_IP_FLAGS, p[6] >> 5);
        return at;
    }
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_TOS, fb_load16(p) >> 4 & 0xff);
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_TTL, p[7]);
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_FLOW_LABEL, fb_load32(p) & 0xfffff);
    if (!fragment) return at;
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_FRAGMENT_ID, fb_load32(fragment + 4));
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_FRAGMENT_OFFSET, fb_load16(fragment + 2) >> 3);
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_IP_FLAGS, fragment[3] & 1);
    return at;
}

/* Put the ports, the TCP flags (RFC 9293 section 3.1, RFC 7125), or the ICMP type and code. */
FB_INLINE fb_cursor put_transport(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                  const fb_packet *packet) {
    const uint8_t *p = packet->transport;
    size_t size = (size_t)(packet->end - p);
    if (FB_LIKELY(fb_transport_has_ports(packet->proto))) {
        if (size < 4) return at;
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_SRC_PORT, fb_load16(p));
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_DST_PORT, fb_load16(p + 2));
        if (packet->proto == FB_TRANSPORT_TCP && size >= 14)
            set_uint(c, emitter, &at, FB_SOURCE_PACKET_TCP_FLAGS, fb_load16(p + 12) & 0x0fff);
    } else if ((packet->proto == FB_TRANSPORT_ICMP || packet->proto == FB_TRANSPORT_ICMPV6) &&
               size >= 2) {
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_ICMP_TYPE, p[0]);
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_ICMP_CODE, p[1]);
    }
    return at;
}

FB_NOINLINE static fb_cursor put_routing(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                         fb_bytes routing) {
    size_t count;
    const uint8_t *p = fb_packet_routing_addresses(routing, &count);
    for (size_t i = 0; p && i < count; i++)
        set_member_ip(c, emitter, &at, FB_SOURCE_PACKET_ROUTING_ADDRESSES, p + 16 * i, 16);
    close_list(c, emitter, &at, FB_SOURCE_PACKET_ROUTING_ADDRESSES);
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_ROUTING_SEGMENTS_LEFT, routing.data[3]);
    return at;
}

FB_NOINLINE static fb_cursor put_layers(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                        fb_bytes bytes, uint32_t type) {
    fb_layers layers;
    fb_packet_list_layers(&layers, bytes, type);
    if (layers.more) fb_context_count(c, FB_LAYER_LIMIT, bytes.data);
    for (size_t i = 0; i < layers.count; i++)
        set_member(c, emitter, &at, FB_SOURCE_PACKET_LAYERS, layers.kind[i]);
    close_list(c, emitter, &at, FB_SOURCE_PACKET_LAYERS);
    for (size_t i = 0; i < layers.count; i++)
        set_member(c, emitter, &at, FB_SOURCE_PACKET_LAYER_SIZES, layers.size[i]);
    close_list(c, emitter, &at, FB_SOURCE_PACKET_LAYER_SIZES);
    return at;
}

FB_INLINE fb_cursor put_ip_packet(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                  const fb_packet *packet) {
    const uint64_t details = PACKET_BIT(TOS) | PACKET_BIT(TTL) | PACKET_BIT(FLOW_LABEL) |
                             PACKET_BIT(FRAGMENT_ID) | PACKET_BIT(FRAGMENT_OFFSET) |
                             PACKET_BIT(IP_FLAGS);
    if (packet->ip_length) set_uint(c, emitter, &at, FB_SOURCE_PACKET_IP_LENGTH, packet->ip_length);
    set_endpoints(c, emitter, &at, FB_SOURCE_PACKET_SRC_ADDR, FB_SOURCE_PACKET_DST_ADDR, packet->ip,
                  packet->version);
    if (has_packet_sources(c, details))
        at = put_ip_details(c, emitter, at, packet->ip, packet->fragment);
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_PROTO, packet->proto);
    return packet->transport ? put_transport(c, emitter, at, packet) : at;
}

/* Put the columns of a packet. A plain packet has no labels, no routing header and no opened
   tunnel. */
FB_INLINE fb_cursor put_packet_columns(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                       fb_bytes bytes, uint32_t type, const fb_packet *found,
                                       bool plain) {
    const uint64_t link =
        PACKET_BIT(SRC_MAC) | PACKET_BIT(DST_MAC) | PACKET_BIT(VLAN_ID) | PACKET_BIT(INNER_VLAN_ID);
    const uint64_t labels = PACKET_BIT(MPLS_LABELS) | PACKET_BIT(MPLS_TTLS);
    const uint64_t routing = PACKET_BIT(ROUTING_ADDRESSES) | PACKET_BIT(ROUTING_SEGMENTS_LEFT);
    set_uint(c, emitter, &at, FB_SOURCE_PACKET_PACKETS, 1);
    if (!plain && found->outer) at = put_tunnel(c, emitter, at, found);
    if (has_packet_sources(c, link)) at = put_frame(c, emitter, at, found);
    if (!plain && found->label_stacks && has_packet_sources(c, labels))
        at = put_labels(c, emitter, at, found);
    if (plain || found->etype) set_uint(c, emitter, &at, FB_SOURCE_PACKET_ETYPE, found->etype);
    if (plain || found->ip) at = put_ip_packet(c, emitter, at, found);
    if (!plain && found->routing.data && has_packet_sources(c, routing))
        at = put_routing(c, emitter, at, found->routing);
    if (has_packet_sources(c, PACKET_BIT(LAYERS) | PACKET_BIT(LAYER_SIZES)))
        at = put_layers(c, emitter, at, bytes, type);
    if (has_packet_sources(c, PACKET_BIT(SECTION_LENGTH)))
        set_uint(c, emitter, &at, FB_SOURCE_PACKET_SECTION_LENGTH, bytes.size);
    return at;
}

/* Put the columns of a packet that has been walked. */
FB_NOINLINE static fb_cursor put_walked_packet(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                               const fb_sampled *packet) {
    return put_packet_columns(c, emitter, at, packet->bytes, packet->type, &packet->found, false);
}

FB_NOINLINE static fb_cursor walk_and_put(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                          fb_bytes bytes, uint32_t type) {
    fb_sampled packet = {.bytes = bytes, .type = type};
    walk_packet(c, &packet);
    return put_walked_packet(c, emitter, at, &packet);
}

/* Put the columns of a packet whose tunnels are not opened. The results for a plain packet stay in
   registers. */
FB_INLINE fb_cursor put_sampled_packet(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                       fb_bytes bytes, uint32_t type) {
    fb_packet plain;
    if (FB_LIKELY(type == FB_PACKET_FRAME && !c->decapsulate &&
                  fb_packet_walk_plain(&plain, bytes)))
        return put_packet_columns(c, emitter, at, bytes, type, &plain, true);
    return walk_and_put(c, emitter, at, bytes, type);
}

/* Return the type of an IP packet from its version field. REQUIRES: the packet is not empty. */
static uint32_t find_ip_type(fb_bytes bytes) {
    unsigned version = bytes.data[0] >> 4;
    return version == 4 ? FB_ETHERTYPE_IPV4 : version == 6 ? FB_ETHERTYPE_IPV6 : FB_PACKET_UNKNOWN;
}

#endif
