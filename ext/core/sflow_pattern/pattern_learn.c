/* Read a flow sample like sflow.tmpl.h and sampled_packet.tmpl.h do, and record every byte that
   they depend on. Rare layouts are refused. */
#include "core/sflow_pattern/pattern_learn.h"

#include "core/packet/packet.h"
#include "core/packet/sflow_layout.h"

/* Recording ---------------------------------------------------------------------------------- */

static size_t place_of(const fb_pattern_learner *learner, const uint8_t *p) {
    return (size_t)(p - learner->sample);
}

static size_t part_of(const fb_pattern_learner *learner, const uint8_t *p) {
    size_t part = FB_SAMPLE_PARTS - 1;
    if (learner->part) return learner->part;
    while (place_of(learner, p) < learner->begin[part]) part--;
    return part;
}

/* Offset from the start of the part. */
static int16_t place_in_part(const fb_pattern_learner *learner, const uint8_t *p) {
    return (int16_t)(place_of(learner, p) - learner->begin[part_of(learner, p)]);
}

static void refuse_unless(fb_pattern_learner *learner, bool condition) {
    learner->refused |= !condition;
}

/* Require fixed values of these bytes. */
static void require_bytes(fb_pattern_learner *learner, const uint8_t *p, size_t size) {
    memset(learner->mask + place_of(learner, p), 0xff, size);
}

static void require_bits(fb_pattern_learner *learner, const uint8_t *p, uint8_t bits) {
    learner->mask[place_of(learner, p)] |= bits;
}

/* Require the number of four bytes, masked, to be within two limits. */
static void add_bound(fb_pattern_learner *learner, const uint8_t *p, uint32_t mask, uint32_t low,
                      uint32_t high) {
    uint32_t number = fb_load32(p) & mask;
    refuse_unless(learner,
                  number >= low && number <= high && learner->bound_count < FB_PATTERN_BOUNDS);
    if (learner->refused) return;
    learner->bounds[learner->bound_count++] = (fb_pattern_bound){
        mask, low, high - low, place_in_part(learner, p), (uint16_t)part_of(learner, p)};
}

static bool is_used(const fb_pattern_learner *learner, fb_source source) {
    return fb_plan_has_sources(learner->plan, source, source);
}

static void add_value(fb_pattern_learner *learner, fb_pattern_value value, uint64_t least) {
    refuse_unless(learner, learner->value_count < FB_LEARNED_VALUES);
    if (!learner->refused)
        learner->values[learner->value_count++] = (fb_learned_value){value, least};
}

/* The number ends `shift` bits before the end of its bytes. */
static void put_shifted(fb_pattern_learner *learner, fb_source source, const uint8_t *p,
                        size_t size, unsigned shift, uint64_t mask, uint64_t add, uint64_t least) {
    if (!is_used(learner, source)) return;
    add_value(learner,
              (fb_pattern_value){
                  .code = FB_PATTERN_NUMBER,
                  .source = (uint16_t)source,
                  .part = (uint8_t)part_of(learner, p),
                  .place = place_in_part(learner, p),
                  .size = (uint16_t)size,
                  .mask = mask,
                  .add = add,
                  .shift = (uint8_t)shift,
              },
              least);
}

static void put_number(fb_pattern_learner *learner, fb_source source, const uint8_t *p, size_t size,
                       uint64_t mask, uint64_t add, uint64_t least) {
    put_shifted(learner, source, p, size, 0, mask, add, least);
}

static void put_field(fb_pattern_learner *learner, fb_source source, const uint8_t *p,
                      size_t size) {
    put_number(learner, source, p, size, UINT64_MAX >> (64 - 8 * size), 0, 0);
}

/* Put a value that is the same in every sample that matches. */
static void put_constant(fb_pattern_learner *learner, fb_source source, uint64_t value) {
    put_number(learner, source, learner->sample, 1, 0, value, value);
}

/* Return the greatest number that all columns of a source accept. */
static uint64_t find_limit(const fb_pattern_learner *learner, fb_source source) {
    const fb_target_range *range = &learner->plan->sources[source];
    uint64_t limit = UINT64_MAX;
    for (size_t i = 0; i < range->count; i++) {
        const fb_column *column =
            &learner->plan->columns[learner->plan->targets[range->first + i].column];
        if (column->type == FB_TYPE_UINT && column->limit < limit) limit = column->limit;
    }
    return limit;
}

/* Put a word into a column that may be narrower. */
static void put_word(fb_pattern_learner *learner, fb_source source, const uint8_t *p) {
    uint64_t limit = find_limit(learner, source);
    if (limit >= UINT32_MAX || fb_load32(p) > limit) {
        put_field(learner, source, p, 4);
        return;
    }
    if (!is_used(learner, source)) return;
    if (limit == UINT8_MAX && !learner->part) require_bytes(learner, p, 3);
    else if (limit == UINT16_MAX && !learner->part) require_bytes(learner, p, 2);
    else add_bound(learner, p, UINT32_MAX, 0, (uint32_t)limit);
    put_number(learner, source, p, 4, limit & (limit + 1) ? UINT32_MAX : limit, 0, 0);
}

static void put_bytes(fb_pattern_learner *learner, fb_source source, fb_pattern_code code,
                      const uint8_t *p, size_t size) {
    add_value(learner,
              (fb_pattern_value){.code = (uint8_t)code,
                                 .source = (uint16_t)source,
                                 .part = (uint8_t)part_of(learner, p),
                                 .place = place_in_part(learner, p),
                                 .size = (uint16_t)size},
              0);
}

static void put_address(fb_pattern_learner *learner, fb_source source, const uint8_t *p,
                        size_t size) {
    if (is_used(learner, source)) put_bytes(learner, source, FB_PATTERN_ADDRESS, p, size);
}

/* The packet --------------------------------------------------------------------------------- */

/* Other fields of an IP header that columns may need. In a plain packet, the fragment offset is
   0. */
static void read_details_ipv4(fb_pattern_learner *learner, const uint8_t *ip) {
    put_field(learner, FB_SOURCE_PACKET_TOS, ip + 1, 1);
    put_field(learner, FB_SOURCE_PACKET_TTL, ip + 8, 1);
    put_field(learner, FB_SOURCE_PACKET_FRAGMENT_ID, ip + 4, 2);
    put_constant(learner, FB_SOURCE_PACKET_FRAGMENT_OFFSET, 0);
    put_shifted(learner, FB_SOURCE_PACKET_IP_FLAGS, ip + 6, 1, 5, 0x07, 0, 0);
}

static void read_details_ipv6(fb_pattern_learner *learner, const uint8_t *ip) {
    put_shifted(learner, FB_SOURCE_PACKET_TOS, ip, 2, 4, 0xff, 0, 0);
    put_field(learner, FB_SOURCE_PACKET_TTL, ip + 7, 1);
    put_number(learner, FB_SOURCE_PACKET_FLOW_LABEL, ip, 4, 0xfffff, 0, 0);
}

/* Return the bytes of the transport header that columns need. Refuse a header that is cut short. */
static size_t read_transport(fb_pattern_learner *learner, unsigned proto, const uint8_t *p,
                             size_t left) {
    bool ports = fb_transport_has_ports(proto),
         icmp = proto == FB_TRANSPORT_ICMP || proto == FB_TRANSPORT_ICMPV6;
    size_t needed = 0;
    if (proto == FB_TRANSPORT_TCP) needed = 14;
    else if (ports) needed = 4;
    else if (icmp) needed = 2;
    refuse_unless(learner, left >= needed);
    if (ports) {
        put_field(learner, FB_SOURCE_PACKET_SRC_PORT, p, 2);
        put_field(learner, FB_SOURCE_PACKET_DST_PORT, p + 2, 2);
    } else if (icmp) {
        put_field(learner, FB_SOURCE_PACKET_ICMP_TYPE, p, 1);
        put_field(learner, FB_SOURCE_PACKET_ICMP_CODE, p + 1, 1);
    }
    if (proto == FB_TRANSPORT_TCP)
        put_number(learner, FB_SOURCE_PACKET_TCP_FLAGS, p + 12, 2, 0x0fff, 0, 0);
    return needed;
}

/* The length in the IP header limits the packet. It may have any value that covers the bytes that
   columns need. */
static void read_ip(fb_pattern_learner *learner, const fb_packet *packet) {
    const uint8_t *ip = packet->ip;
    if (packet->version == 4) {
        require_bytes(learner, ip, 1);
        require_bits(learner, ip + 6, 0x1f);
        require_bytes(learner, ip + 7, 1);
        require_bytes(learner, ip + 9, 1);
        put_number(learner, FB_SOURCE_PACKET_IP_LENGTH, ip + 2, 2, UINT16_MAX, 0, 20);
        put_address(learner, FB_SOURCE_PACKET_SRC_ADDR, ip + 12, 4);
        put_address(learner, FB_SOURCE_PACKET_DST_ADDR, ip + 16, 4);
        read_details_ipv4(learner, ip);
    } else {
        require_bits(learner, ip, 0xf0);
        require_bytes(learner, ip + 6, 1);
        put_number(learner, FB_SOURCE_PACKET_IP_LENGTH, ip + 4, 2, UINT16_MAX, 40, 40);
        put_address(learner, FB_SOURCE_PACKET_SRC_ADDR, ip + 8, 16);
        put_address(learner, FB_SOURCE_PACKET_DST_ADDR, ip + 24, 16);
        read_details_ipv6(learner, ip);
    }
    put_constant(learner, FB_SOURCE_PACKET_PROTO, packet->proto);
    size_t needed = read_transport(learner, packet->proto, packet->transport,
                                   (size_t)(packet->end - packet->transport));
    learner->header_needed = (size_t)(packet->transport - packet->frame) + needed;
    if (packet->version == 4)
        add_bound(learner, ip, UINT16_MAX, (uint32_t)(20 + needed), UINT16_MAX);
    else add_bound(learner, ip + 2, UINT16_MAX, needed ? (uint32_t)needed : 1, UINT16_MAX);
}

static void read_packet(fb_pattern_learner *learner, fb_bytes bytes) {
    fb_packet packet;
    const uint8_t *frame = bytes.data;
    refuse_unless(learner, fb_packet_walk_plain(&packet, bytes));
    if (learner->refused) return;
    for (size_t i = 0; i <= packet.tags; i++) require_bytes(learner, frame + 12 + 4 * i, 2);
    put_constant(learner, FB_SOURCE_PACKET_PACKETS, 1);
    put_field(learner, FB_SOURCE_PACKET_SRC_MAC, frame + 6, 6);
    put_field(learner, FB_SOURCE_PACKET_DST_MAC, frame, 6);
    if (packet.tags > 0) put_number(learner, FB_SOURCE_PACKET_VLAN_ID, frame + 14, 2, 0x0fff, 0, 0);
    if (packet.tags > 1)
        put_number(learner, FB_SOURCE_PACKET_INNER_VLAN_ID, frame + 18, 2, 0x0fff, 0, 0);
    put_constant(learner, FB_SOURCE_PACKET_ETYPE, packet.etype);
    read_ip(learner, &packet);
    if (fb_plan_has_sources(learner->plan, FB_SOURCE_PACKET_LAYERS, FB_SOURCE_PACKET_LAYER_SIZES))
        put_bytes(learner, FB_SOURCE_PACKET_LAYERS, FB_PATTERN_LAYERS, bytes.data, bytes.size);
    put_word(learner, FB_SOURCE_PACKET_SECTION_LENGTH, bytes.data - 4);
}

/* The sample --------------------------------------------------------------------------------- */

/* Read an interface. Its format is in the two highest bits of its word, or in a word before it. */
static void read_interface(fb_pattern_learner *learner, fb_source source, const uint8_t *p,
                           bool expanded) {
    uint32_t format = expanded ? fb_load32(p) : p[0] >> 6,
             mask = expanded ? UINT32_MAX : FB_INTERFACE_INTERNAL;
    if (expanded) require_bytes(learner, p, 4), p += 4;
    else require_bits(learner, p, 0xc0);
    uint32_t number = fb_load32(p) & mask;
    refuse_unless(learner, source != FB_SOURCE_SFLOW_OUTPUT || format != FB_INTERFACE_DISCARDED);
    if (format != FB_INTERFACE_INDEX || !is_used(learner, source)) return;
    if (number == FB_INTERFACE_INTERNAL) require_bytes(learner, p, 4);
    else put_number(learner, source, p, 4, mask, 0, 0);
    if (number <= 0xffffff) require_bytes(learner, p, 1);
    else if (number < FB_INTERFACE_INTERNAL)
        add_bound(learner, p, mask, 0, FB_INTERFACE_INTERNAL - 1);
    else if (number > FB_INTERFACE_INTERNAL)
        add_bound(learner, p, mask, FB_INTERFACE_INTERNAL + 1, mask);
}

static void read_fixed_part(fb_pattern_learner *learner, const uint8_t *p, bool expanded) {
    const uint8_t *counts = expanded ? p + 12 : p + 8;
    put_word(learner, FB_SOURCE_SFLOW_SAMPLING_RATE, counts);
    put_word(learner, FB_SOURCE_SFLOW_SAMPLE_SEQUENCE, p);
    put_word(learner, FB_SOURCE_SFLOW_SAMPLE_POOL, counts + 4);
    put_word(learner, FB_SOURCE_SFLOW_SAMPLE_DROPS, counts + 8);
    if (expanded) put_word(learner, FB_SOURCE_SFLOW_SAMPLE_SOURCE, p + 8);
    else put_field(learner, FB_SOURCE_SFLOW_SAMPLE_SOURCE, p + 5, 3);
    put_constant(learner, FB_SOURCE_SFLOW_SAMPLE_PACKETS, 1);
    read_interface(learner, FB_SOURCE_SFLOW_INPUT, expanded ? p + 24 : p + 20, expanded);
    read_interface(learner, FB_SOURCE_SFLOW_OUTPUT, expanded ? p + 32 : p + 24, expanded);
}

static void read_vlan(fb_pattern_learner *learner, fb_source source, const uint8_t *p) {
    if (!is_used(learner, source)) return;
    if (fb_load32(p) >= FB_LOWEST_UNKNOWN_VLAN) {
        require_bytes(learner, p, 4);
        return;
    }
    add_bound(learner, p, UINT32_MAX, 0, FB_LOWEST_UNKNOWN_VLAN - 1);
    put_number(learner, source, p, 4, 0x0fff, 0, 0);
}

static void read_switch(fb_pattern_learner *learner, fb_bytes record) {
    refuse_unless(learner, record.size >= 16);
    if (learner->refused) return;
    read_vlan(learner, FB_SOURCE_SFLOW_SWITCH_SRC_VLAN, record.data);
    put_word(learner, FB_SOURCE_SFLOW_SWITCH_SRC_PRIORITY, record.data + 4);
    read_vlan(learner, FB_SOURCE_SFLOW_SWITCH_DST_VLAN, record.data + 8);
    put_word(learner, FB_SOURCE_SFLOW_SWITCH_DST_PRIORITY, record.data + 12);
}

static void read_router(fb_pattern_learner *learner, fb_bytes record) {
    fb_xdr xdr = {record.data, record.data + record.size};
    fb_bytes next_hop;
    refuse_unless(learner, fb_xdr_read_address(&xdr, &next_hop) && xdr.end - xdr.p >= 8);
    if (learner->refused) return;
    require_bytes(learner, record.data, 4);
    if (next_hop.size)
        put_address(learner, FB_SOURCE_SFLOW_ROUTER_NEXT_HOP, next_hop.data, next_hop.size);
    put_word(learner, FB_SOURCE_SFLOW_ROUTER_SRC_MASK, xdr.p);
    put_word(learner, FB_SOURCE_SFLOW_ROUTER_DST_MASK, xdr.p + 4);
}

/* Put a list. An empty list is put, too. */
static void put_list(fb_pattern_learner *learner, fb_source source, fb_pattern_code code,
                     fb_bytes list) {
    if (is_used(learner, source)) put_bytes(learner, source, code, list.data, list.size);
}

/* Put a word of a gateway record. Its position is fixed only if all lengths are. */
static void put_found(fb_pattern_learner *learner, fb_source source, const uint8_t *p,
                      size_t part) {
    if (!learner->exact) {
        learner->part = part;
        learner->begin[part] = place_of(learner, p);
        learner->end[part] = learner->begin[part] + 4;
    }
    put_word(learner, source, p);
    learner->part = 0;
}

/* Fix the numbers of segments, AS numbers and communities. */
static void require_counts(fb_pattern_learner *learner, const fb_gateway_found *found) {
    const uint8_t *p = found->path.data;
    require_bytes(learner, p, 4);
    for (p += 4; p < found->path.data + found->path.size; p += 8 + 4 * (size_t)fb_load32(p + 4))
        require_bytes(learner, p + 4, 4);
    require_bytes(learner, p, 4);
}

static void read_gateway(fb_pattern_learner *learner, fb_bytes record) {
    fb_xdr xdr = {record.data, record.data + record.size};
    fb_bytes next_hop;
    refuse_unless(learner, fb_xdr_read_address(&xdr, &next_hop) && xdr.end - xdr.p >= 12);
    if (learner->refused) return;
    const uint8_t *own = xdr.p, *source = xdr.p + 4;
    require_bytes(learner, record.data, 4);
    if (next_hop.size)
        put_address(learner, FB_SOURCE_SFLOW_GATEWAY_NEXT_HOP, next_hop.data, next_hop.size);
    put_word(learner, FB_SOURCE_SFLOW_GATEWAY_AS, own);
    if (fb_load32(source)) add_bound(learner, source, UINT32_MAX, 1, UINT32_MAX);
    else require_bytes(learner, source, 4);
    put_word(learner, FB_SOURCE_SFLOW_GATEWAY_SRC_AS, fb_load32(source) ? source : own);
    put_word(learner, FB_SOURCE_SFLOW_GATEWAY_SRC_PEER_AS, xdr.p + 8);
    xdr.p += 12;
    const fb_gateway_found *found = &learner->parts.found;
    refuse_unless(learner, fb_gateway_find(&learner->parts.found,
                                           (fb_bytes){xdr.p, (size_t)(xdr.end - xdr.p)}, own));
    if (learner->refused) return;
    if (learner->exact) require_counts(learner, found);
    else learner->gateway_needed = (size_t)(xdr.p - record.data);
    if (found->next_hop)
        put_found(learner, FB_SOURCE_SFLOW_GATEWAY_NEXT_HOP_AS, found->next_hop, FB_PART_NEXT_HOP);
    put_list(learner, FB_SOURCE_SFLOW_GATEWAY_AS_PATH, FB_PATTERN_AS_PATH, found->path);
    put_found(learner, FB_SOURCE_SFLOW_GATEWAY_DST_AS, found->destination, FB_PART_DESTINATION);
    put_list(learner, FB_SOURCE_SFLOW_GATEWAY_COMMUNITIES, FB_PATTERN_COMMUNITIES,
             found->communities);
    put_found(learner, FB_SOURCE_SFLOW_GATEWAY_LOCAL_PREF, found->preference, FB_PART_PREFERENCE);
}

static void read_header(fb_pattern_learner *learner) {
    const uint8_t *p = learner->parts.header.data - 16;
    refuse_unless(learner, fb_load32(p) == FB_HEADER_ETHERNET);
    if (learner->refused) return;
    require_bytes(learner, p, 4);
    if (learner->exact) require_bytes(learner, p + 12, 4);
    learner->header_needed = FB_HEADER_LEAST;
    if (learner->plan->has_packet) read_packet(learner, learner->parts.header);
    put_word(learner, FB_SOURCE_SFLOW_FRAME_LENGTH, p + 4);
}

/* A record of FB_FLOW_RECORD_LIST that feeds no column is skipped. */
static void skip_other_record(fb_pattern_learner *learner, const uint8_t *begin) {
    unsigned record = fb_flow_record_find(fb_load32(begin));
    if (record == FB_FLOW_RECORDS)
        put_bytes(learner, FB_SOURCE_COUNT, FB_PATTERN_UNKNOWN, begin, 8);
    else refuse_unless(learner, !fb_plan_has_record(learner->plan, record));
}

/* Find the first record of each kind. */
static void index_records(fb_pattern_learner *learner, fb_xdr xdr, fb_bytes *records) {
    uint32_t count = fb_load32(xdr.p - 4), format;
    require_bytes(learner, xdr.p - 4, 4);
    for (; count && !learner->refused; count--) {
        const uint8_t *begin = xdr.p;
        fb_bytes body;
        refuse_unless(learner, fb_xdr_read_item(&xdr, &format, &body));
        if (learner->refused) return;
        uint32_t place = fb_record_place(format);
        bool any_length = !learner->exact &&
                          (place == FB_PLACE_HEADER || place == FB_PLACE_GATEWAY) &&
                          !records[place].data;
        require_bytes(learner, begin, any_length ? 4 : 8);
        if (place == FB_PLACES) skip_other_record(learner, begin);
        else if (!records[place].data) records[place] = body;
    }
}

/* Find the parts of a sample; an exact pattern has one. */
static void find_parts(fb_pattern_learner *learner, fb_bytes sample, bool expanded) {
    refuse_unless(learner, fb_sample_divide(&learner->parts, sample, expanded));
    if (learner->refused) return;
    size_t parts = learner->parts.gateway.data ? 3 : 2;
    if (learner->exact) parts = 1;
    for (size_t i = 0; i < FB_SAMPLE_PARTS; i++)
        learner->begin[i] = i < parts ? place_of(learner, learner->parts.part[i]) : SIZE_MAX;
}

/* A part ends where the next one begins. If its last record has variable length, only the needed
   bytes of that record count. */
static void end_parts(fb_pattern_learner *learner, size_t size) {
    const fb_sample_parts *parts = &learner->parts;
    size_t header = place_of(learner, parts->header.data) + learner->header_needed;
    size_t gateway = parts->gateway.data
                         ? place_of(learner, parts->gateway.data) + learner->gateway_needed + 12
                         : SIZE_MAX;
    bool header_first = header < gateway;
    size_t second = header_first ? header : gateway, third = header_first ? gateway : header;
    learner->end[0] = learner->exact ? size : second;
    learner->end[1] = parts->gateway.data ? third : size;
    learner->end[2] = size;
}

bool fb_pattern_learner_read(fb_pattern_learner *learner, const fb_plan *plan, fb_bytes sample,
                             bool expanded, bool exact) {
    size_t fixed = FB_FLOW_SAMPLE_SIZE(expanded);
    fb_bytes records[FB_PLACES] = {{NULL, 0}};
    if (sample.size < fixed || sample.size > FB_PATTERN_BYTES) return false;
    *learner = (fb_pattern_learner){.plan = plan, .sample = sample.data, .exact = exact};
    find_parts(learner, sample, expanded);
    if (learner->refused) return false;
    index_records(learner, (fb_xdr){sample.data + fixed, sample.data + sample.size}, records);
    refuse_unless(learner, !records[FB_PLACE_ETHERNET].data && !records[FB_PLACE_IPV4].data &&
                               !records[FB_PLACE_IPV6].data);
    read_fixed_part(learner, sample.data, expanded);
    if (records[FB_PLACE_SWITCH].data) read_switch(learner, records[FB_PLACE_SWITCH]);
    if (records[FB_PLACE_ROUTER].data) read_router(learner, records[FB_PLACE_ROUTER]);
    if (records[FB_PLACE_GATEWAY].data) read_gateway(learner, records[FB_PLACE_GATEWAY]);
    if (!learner->refused) read_header(learner);
    if (!learner->refused) end_parts(learner, sample.size);
    return !learner->refused;
}
