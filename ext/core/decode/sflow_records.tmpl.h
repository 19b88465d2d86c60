/* The records of a flow sample: indexed first, then read in the order of source.h. */
#ifndef FB_DECODE_SFLOW_RECORDS_TMPL_H
#define FB_DECODE_SFLOW_RECORDS_TMPL_H

#include "core/packet/sflow_layout.h"
#include "core/decode/datagram.tmpl.h"
#include "core/decode/name.tmpl.h"
#include "core/decode/field.tmpl.h"
#include "core/decode/sampled_packet.tmpl.h"

/* Records of FB_FLOW_RECORD_LIST have the places after FB_PLACES. */
enum { ALL_PLACES = FB_PLACES + FB_FLOW_RECORDS };
_Static_assert(ALL_PLACES <= 64, "each record has a bit");

typedef struct {
    uint64_t there; /* a bit (1 << place) for each record that is present */
    fb_bytes of[ALL_PLACES];
} fb_sample_records;

/* Read opaque data of `length` bytes and its padding to the next word (RFC 4506 section 4.10).
   Returns false if it is cut short. */
static bool read_opaque(fb_xdr *xdr, uint32_t length, fb_bytes *bytes) {
    if (length > (size_t)(xdr->end - xdr->p)) return false;
    *bytes = (fb_bytes){xdr->p, length};
    size_t padded = ((size_t)length + 3) & ~(size_t)3, left = (size_t)(xdr->end - xdr->p);
    xdr->p += padded < left ? padded : left;
    return true;
}

/* Index a record that is not in sflow_layout.h. Return the bits of the records that are present. A
   record of an unknown format, or the second one of its format, is counted. */
FB_NOINLINE static uint64_t index_other_record(fb_context *c, fb_sample_records *records,
                                               uint64_t there, const uint8_t *p) {
    unsigned record = fb_flow_record_find(fb_load32(p)), place = FB_PLACES + record;
    if (record == FB_FLOW_RECORDS || there >> place & 1) {
        fb_context_count(c, FB_UNKNOWN_SAMPLE_RECORD, p);
        return there;
    }
    records->of[place] = (fb_bytes){p + 8, fb_load32(p + 4)};
    return there | 1ull << place;
}

/* Index the records of a sample by format. The first of two records of one format is used, and the
   second one is counted. */
FB_INLINE void index_records(fb_context *c, fb_xdr xdr, uint32_t count,
                             fb_sample_records *records) {
    const uint8_t *p = xdr.p, *next;
    size_t left = (size_t)(xdr.end - p), length, padded;
    uint64_t there = 0;
    for (; count; count--, p = next) {
        if (FB_UNLIKELY(left < 8 || (length = fb_load32(p + 4)) > left - 8)) {
            fb_context_count(c, FB_BAD_SAMPLE_RECORD, p);
            break;
        }
        left -= 8;
        padded = (length + 3) & ~(size_t)3;
        padded = padded < left ? padded : left;
        left -= padded;
        next = p + 8 + padded;
        uint32_t kind = fb_record_place(fb_load32(p));
        if (FB_UNLIKELY(kind == FB_PLACES)) {
            there = index_other_record(c, records, there, p);
        } else if (FB_LIKELY(!(there >> kind & 1))) {
            there |= 1ull << kind;
            records->of[kind] = (fb_bytes){p + 8, length};
        } else {
            fb_context_count(c, FB_UNKNOWN_SAMPLE_RECORD, p);
        }
    }
    records->there = there;
}

/* Return true if a record is present and has at least `size` bytes. */
FB_INLINE bool has_record(fb_context *c, fb_bytes record, size_t size) {
    if (!record.data) return false;
    if (FB_LIKELY(record.size >= size)) return true;
    fb_context_count(c, FB_BAD_SAMPLE_RECORD, record.data);
    return false;
}

/* The same for a record of a flow sample. */
FB_INLINE bool holds_record(fb_context *c, const fb_sample_records *records, unsigned kind,
                            size_t size) {
    return records->there >> kind & 1 && has_record(c, records->of[kind], size);
}

/* Return the forwarding status (RFC 7270 section 4.12) closest to an sFlow reason for a discard. */
static uint64_t discard_status(uint32_t reason) {
    switch (reason) {
        /* unreachable, by the ICMP code */
        case 0:
        case 1:
        case 2:
        case 3:
        case 5:
        case 6:
        case 7:
        case 11:
        case 12:
        case 269: return 131; /* blackhole route */
        case 4: return 133;   /* fragmentation needed */
        case 8:               /* source host isolated */
        case 279:
        case 292: return 132; /* unresolved neighbour, blackhole neighbour */
        case 9:
        case 10:
        case 13: return 129;  /* administratively prohibited */
        case 257: return 137; /* time to live exceeded */
        case 258: return 130; /* access list */
        case 259: return 143; /* no buffer space */
        case 260: return 139; /* random early discard */
        case 261: return 138; /* traffic shaping */
        case 262: return 135; /* packet too big */
        case 280:
        case 302: return 140; /* reverse path forwarding */
        default: return 128;
    }
}

/* Format 0 is an ifIndex, 1 a discard reason, 2 a number of outputs. The exporter itself is
   0x3fffffff, in the expanded form also 0xffffffff (erratum). No ifIndex exceeds 0x7fffffff. */
FB_INLINE bool is_interface(uint32_t format, uint32_t value) {
    return format == FB_INTERFACE_INDEX && value != FB_INTERFACE_INTERNAL && value != UINT32_MAX;
}

FB_INLINE void set_interface(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                             uint32_t format, uint32_t value) {
    if (is_interface(format, value)) set_uint(c, emitter, at, source, value);
}

/* Return the index of the input interface of a flow sample; 0: it is unknown. */
FB_INLINE uint32_t input_of_sample(const uint8_t *p, bool expanded) {
    uint32_t format = expanded ? fb_load32(p + 24) : fb_load32(p + 20) >> 30;
    uint32_t value = expanded ? fb_load32(p + 28) : fb_load32(p + 20) & 0x3fffffff;
    return is_interface(format, value) ? value : 0;
}

/* The same for the output interface. */
FB_INLINE uint32_t output_of_sample(const uint8_t *p, bool expanded) {
    uint32_t format = expanded ? fb_load32(p + 32) : fb_load32(p + 24) >> 30;
    uint32_t value = expanded ? fb_load32(p + 36) : fb_load32(p + 24) & 0x3fffffff;
    return is_interface(format, value) ? value : 0;
}

/* Put the fixed part of a flow sample. *status becomes the forwarding status of a discarded packet,
   otherwise 0.

     flow:     sequence, source id, rate, pool, drops, input (2 bits format), output, records
     expanded: sequence, source type, source index, rate, pool, drops, input format, input,
               output format, output, records */
FB_INLINE void put_flow_sample(fb_context *c, fb_emitter *emitter, fb_cursor *at, const uint8_t *p,
                               bool expanded, uint64_t *status) {
    const uint8_t *counts = expanded ? p + 12 : p + 8;
    uint32_t output_format, output;
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_SAMPLING_RATE, fb_load32(counts));
    if (fb_plan_has_sources(c->plan, FB_SOURCE_SFLOW_SAMPLE_SEQUENCE,
                            FB_SOURCE_SFLOW_SAMPLE_SOURCE)) {
        set_uint(c, emitter, at, FB_SOURCE_SFLOW_SAMPLE_SEQUENCE, fb_load32(p));
        set_uint(c, emitter, at, FB_SOURCE_SFLOW_SAMPLE_POOL, fb_load32(counts + 4));
        set_uint(c, emitter, at, FB_SOURCE_SFLOW_SAMPLE_DROPS, fb_load32(counts + 8));
        set_uint(c, emitter, at, FB_SOURCE_SFLOW_SAMPLE_SOURCE,
                 expanded ? fb_load32(p + 8) : fb_load32(p + 4) & 0xffffff);
    }
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_SAMPLE_PACKETS, 1);
    if (expanded) {
        set_interface(c, emitter, at, FB_SOURCE_SFLOW_INPUT, fb_load32(p + 24), fb_load32(p + 28));
        output_format = fb_load32(p + 32);
        output = fb_load32(p + 36);
    } else {
        set_interface(c, emitter, at, FB_SOURCE_SFLOW_INPUT, fb_load32(p + 20) >> 30,
                      fb_load32(p + 20) & 0x3fffffff);
        output_format = fb_load32(p + 24) >> 30;
        output = fb_load32(p + 24) & 0x3fffffff;
    }
    set_interface(c, emitter, at, FB_SOURCE_SFLOW_OUTPUT, output_format, output);
    *status = FB_UNLIKELY(output_format == FB_INTERFACE_DISCARDED) ? discard_status(output) : 0;
}

/* Put a VLAN id. 0xffffffff means unknown. */
FB_INLINE void set_vlan(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                        uint32_t id) {
    if (id < FB_LOWEST_UNKNOWN_VLAN) set_uint(c, emitter, at, source, id);
}

FB_INLINE void put_switch(fb_context *c, fb_emitter *emitter, fb_cursor *at,
                          const fb_sample_records *records) {
    if (!holds_record(c, records, FB_PLACE_SWITCH, 16)) return;
    const uint8_t *p = records->of[FB_PLACE_SWITCH].data;
    if (!fb_plan_has_sources(c->plan, FB_SOURCE_SFLOW_SWITCH_SRC_VLAN,
                             FB_SOURCE_SFLOW_SWITCH_DST_PRIORITY))
        return;
    set_vlan(c, emitter, at, FB_SOURCE_SFLOW_SWITCH_SRC_VLAN, fb_load32(p));
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_SWITCH_SRC_PRIORITY, fb_load32(p + 4));
    set_vlan(c, emitter, at, FB_SOURCE_SFLOW_SWITCH_DST_VLAN, fb_load32(p + 8));
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_SWITCH_DST_PRIORITY, fb_load32(p + 12));
}

/* Read the extended router record: next hop, source prefix length, destination prefix length.
   Returns false if it is cut short. */
FB_INLINE bool read_router(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_xdr xdr) {
    fb_bytes next_hop;
    if (!fb_xdr_read_address(&xdr, &next_hop)) return false;
    if (next_hop.size)
        set_ip(c, emitter, at, FB_SOURCE_SFLOW_ROUTER_NEXT_HOP, next_hop.data, next_hop.size);
    if (xdr.end - xdr.p < 8) return false;
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_ROUTER_SRC_MASK, fb_load32(xdr.p));
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_ROUTER_DST_MASK, fb_load32(xdr.p + 4));
    return true;
}

/* Put the AS path, flattened. A segment is a type, a length, and as many AS numbers.
   *destination becomes the last AS number; without one it is unchanged. Returns false if the
   path is cut short. */
FB_INLINE bool put_as_path(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_xdr *xdr,
                           uint32_t *destination) {
    uint32_t segments, type, length;
    bool first = true, wanted = fb_plan_has_sources(c->plan, FB_SOURCE_SFLOW_GATEWAY_NEXT_HOP_AS,
                                                    FB_SOURCE_SFLOW_GATEWAY_AS_PATH);
    if (!fb_xdr_read_word(xdr, &segments)) return false;
    for (; segments; segments--) {
        if (!fb_xdr_read_word(xdr, &type) || !fb_xdr_read_word(xdr, &length)) return false;
        size_t there = (size_t)(xdr->end - xdr->p) / 4, count = length < there ? length : there;
        for (size_t i = 0; wanted && i < count; i++) {
            uint32_t as = fb_load32(xdr->p + 4 * i);
            if (first) set_uint(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_NEXT_HOP_AS, as);
            first = false;
            set_member(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_AS_PATH, as);
        }
        xdr->p += 4 * count;
        if (count < length) return false;
        if (count) *destination = fb_load32(xdr->p - 4);
    }
    return true;
}

FB_INLINE bool put_communities(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_xdr *xdr) {
    uint32_t length;
    bool wanted = fb_plan_has_sources(c->plan, FB_SOURCE_SFLOW_GATEWAY_COMMUNITIES,
                                      FB_SOURCE_SFLOW_GATEWAY_COMMUNITIES);
    if (!fb_xdr_read_word(xdr, &length)) return false;
    size_t there = (size_t)(xdr->end - xdr->p) / 4, count = length < there ? length : there;
    for (size_t i = 0; wanted && i < count; i++)
        set_member(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_COMMUNITIES, fb_load32(xdr->p + 4 * i));
    xdr->p += 4 * count;
    return count == length;
}

/* Read the extended gateway record: next hop, own AS, source AS, source peer AS, AS path,
   communities, local preference. Returns false if it is cut short. */
FB_INLINE bool read_gateway(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_xdr xdr) {
    fb_bytes next_hop;
    uint32_t preference;
    if (!fb_xdr_read_address(&xdr, &next_hop)) return false;
    if (next_hop.size)
        set_ip(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_NEXT_HOP, next_hop.data, next_hop.size);
    if (xdr.end - xdr.p < 12) return false;
    uint32_t own = fb_load32(xdr.p), source = fb_load32(xdr.p + 4), destination = own;
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_AS, own);
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_SRC_AS, source ? source : own);
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_SRC_PEER_AS, fb_load32(xdr.p + 8));
    xdr.p += 12;
    bool whole = put_as_path(c, emitter, at, &xdr, &destination);
    close_list(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_AS_PATH);
    if (!whole) return false;
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_DST_AS, destination);
    whole = put_communities(c, emitter, at, &xdr);
    close_list(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_COMMUNITIES);
    if (!whole || !fb_xdr_read_word(&xdr, &preference)) return false;
    set_uint(c, emitter, at, FB_SOURCE_SFLOW_GATEWAY_LOCAL_PREF, preference);
    return true;
}

/* Put the record sampled_ipv4 or sampled_ipv6: length, protocol, two addresses of `size` bytes,
   ports, TCP flags, ToS or priority. */
static fb_cursor put_sampled_ip(fb_context *c, fb_emitter *emitter, fb_cursor at, const uint8_t *p,
                                size_t size) {
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_IP_LENGTH, fb_load32(p));
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_IP_PROTOCOL, fb_load32(p + 4));
    set_ip(c, emitter, &at, FB_SOURCE_SFLOW_IP_SRC, p + 8, size);
    set_ip(c, emitter, &at, FB_SOURCE_SFLOW_IP_DST, p + 8 + size, size);
    p += 8 + 2 * size;
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_IP_SRC_PORT, fb_load32(p));
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_IP_DST_PORT, fb_load32(p + 4));
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_IP_TCP_FLAGS, fb_load32(p + 8));
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_IP_TOS, fb_load32(p + 12));
    return at;
}

/* Put the record sampled_ethernet: length, source and destination MAC (6 bytes and 2 of padding
   each), ethertype. */
static fb_cursor put_sampled_ethernet(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                      const uint8_t *p) {
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_ETHERNET_SRC_MAC, fb_load48(p + 4));
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_ETHERNET_DST_MAC, fb_load48(p + 12));
    return at;
}

/* Return the type of the first header of a sampled packet, from its header protocol. */
FB_INLINE uint32_t find_header_type(uint32_t protocol) {
    if (FB_LIKELY(protocol == FB_HEADER_ETHERNET)) return FB_PACKET_FRAME;
    switch (protocol) {
        case 11: return FB_ETHERTYPE_IPV4;
        case 12: return FB_ETHERTYPE_IPV6;
        case 13: return FB_ETHERTYPE_MPLS;
        default: return FB_PACKET_UNKNOWN;
    }
}

/* Return the header in the record sampled_header: protocol, frame length, bytes stripped, header
   size, header. No data: the header is cut short. */
FB_INLINE fb_bytes read_sampled_header(fb_context *c, fb_bytes record) {
    size_t size = fb_load32(record.data + 12);
    if (FB_LIKELY(size <= record.size - 16)) return (fb_bytes){record.data + 16, size};
    fb_context_count(c, FB_BAD_SAMPLE_RECORD, record.data);
    return (fb_bytes){NULL, 0};
}

/* Put the records that come before the packet. */
FB_INLINE void put_extended(fb_context *c, fb_emitter *emitter, fb_cursor *at,
                            const fb_sample_records *records) {
    put_switch(c, emitter, at, records);
    if (records->there & 1u << FB_PLACE_ROUTER) {
        fb_bytes router = records->of[FB_PLACE_ROUTER];
        if (FB_UNLIKELY(
                !read_router(c, emitter, at, (fb_xdr){router.data, router.data + router.size})))
            fb_context_count(c, FB_BAD_SAMPLE_RECORD, router.data);
    }
    if (records->there & 1u << FB_PLACE_GATEWAY) {
        fb_bytes gateway = records->of[FB_PLACE_GATEWAY];
        if (FB_UNLIKELY(
                !read_gateway(c, emitter, at, (fb_xdr){gateway.data, gateway.data + gateway.size})))
            fb_context_count(c, FB_BAD_SAMPLE_RECORD, gateway.data);
    }
}

/* Put the records of a flow sample. If a tunnel was opened, the records sampled_ethernet,
   sampled_ipv4 and sampled_ipv6 describe the outer packet and are ignored. So the packet is walked
   before they are read. `plain`: the sample has none of these records, and nothing is unusual.
   `status` is as in put_flow_sample. `sample` is a flow sample, whose interfaces have names, or
   NULL. */
FB_INLINE fb_cursor put_records_of(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                   const fb_sample_records *records, uint64_t status, bool plain,
                                   const uint8_t *sample, bool expanded) {
    const fb_bytes *of = records->of;
    bool ethernet = !plain && holds_record(c, records, FB_PLACE_ETHERNET, 24);
    bool header = holds_record(c, records, FB_PLACE_HEADER, 16);
    bool ipv4 = !plain && holds_record(c, records, FB_PLACE_IPV4, 32),
         ipv6 = !plain && holds_record(c, records, FB_PLACE_IPV6, 56);
    bool walked = false;
    fb_bytes bytes = header ? read_sampled_header(c, of[FB_PLACE_HEADER]) : (fb_bytes){NULL, 0};
    uint32_t type =
        bytes.data ? find_header_type(fb_load32(of[FB_PLACE_HEADER].data)) : FB_PACKET_UNKNOWN;
    fb_sampled packet;
    if (!plain && c->decapsulate && bytes.data) {
        packet = (fb_sampled){.bytes = bytes, .type = type};
        walk_packet(c, &packet);
        walked = true;
        if (packet.found.tunnels) ethernet = ipv4 = ipv6 = false;
    }
    put_extended(c, emitter, &at, records);
    if (ipv4) at = put_sampled_ip(c, emitter, at, of[FB_PLACE_IPV4].data, 4);
    else if (ipv6) at = put_sampled_ip(c, emitter, at, of[FB_PLACE_IPV6].data, 16);
    if (ethernet) at = put_sampled_ethernet(c, emitter, at, of[FB_PLACE_ETHERNET].data);
    if (ipv4 || ipv6)
        set_uint(c, emitter, &at, FB_SOURCE_DERIVED_ETYPE,
                 ipv4 ? FB_ETHERTYPE_IPV4 : FB_ETHERTYPE_IPV6);
    if (!plain && status) set_uint(c, emitter, &at, FB_SOURCE_DERIVED_FORWARDING_STATUS, status);
    if (sample && FB_UNLIKELY(c->plan->names & FB_NAMES_OF_INTERFACES))
        at = put_interface_names(c, emitter, at, input_of_sample(sample, expanded),
                                 output_of_sample(sample, expanded));
    if (walked) at = put_walked_packet(c, emitter, at, &packet);
    else if (bytes.data && c->plan->has_packet)
        at = put_sampled_packet(c, emitter, at, bytes, type);
    if (ethernet)
        set_uint(c, emitter, &at, FB_SOURCE_SFLOW_ETHERNET_TYPE,
                 fb_load32(of[FB_PLACE_ETHERNET].data + 20));
    if (header)
        set_uint(c, emitter, &at, FB_SOURCE_SFLOW_FRAME_LENGTH,
                 fb_load32(of[FB_PLACE_HEADER].data + 4));
    if (ethernet)
        set_uint(c, emitter, &at, FB_SOURCE_SFLOW_ETHERNET_LENGTH,
                 fb_load32(of[FB_PLACE_ETHERNET].data));
    return at;
}

#endif
