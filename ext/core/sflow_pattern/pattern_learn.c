/* Read a flow sample like sflow.tmpl.h and sampled_packet.tmpl.h do, and record every byte that
   they depend on. Rare layouts are refused. */
#include "core/sflow_pattern/pattern_learn.h"

#include "core/packet/packet.h"
#include "core/packet/sflow_layout.h"

/* Recording ---------------------------------------------------------------------------------- */

static size_t place_of(const fb_lesson *lesson, const uint8_t *p) {
    return (size_t)(p - lesson->sample);
}

static size_t part_of(const fb_lesson *lesson, const uint8_t *p) {
    size_t part = FB_SAMPLE_PARTS - 1;
    if (lesson->part) return lesson->part;
    while (place_of(lesson, p) < lesson->begin[part]) part--;
    return part;
}

/* Offset from the start of the part. */
static int16_t place_in_part(const fb_lesson *lesson, const uint8_t *p) {
    return (int16_t)(place_of(lesson, p) - lesson->begin[part_of(lesson, p)]);
}

static void refuse_unless(fb_lesson *lesson, bool condition) {
    lesson->refused |= !condition;
}

/* Require fixed values of these bytes. */
static void fix(fb_lesson *lesson, const uint8_t *p, size_t size) {
    memset(lesson->mask + place_of(lesson, p), 0xff, size);
}

static void fix_bits(fb_lesson *lesson, const uint8_t *p, uint8_t bits) {
    lesson->mask[place_of(lesson, p)] |= bits;
}

/* Require the number of four bytes, masked, to be within two limits. */
static void bound(fb_lesson *lesson, const uint8_t *p, uint32_t mask, uint32_t low, uint32_t high) {
    uint32_t number = fb_load32(p) & mask;
    refuse_unless(lesson, number >= low && number <= high && lesson->bound_count < FB_PATTERN_BOUNDS);
    if (lesson->refused) return;
    lesson->bounds[lesson->bound_count++] =
        (fb_pattern_bound){mask, low, high - low, place_in_part(lesson, p), (uint16_t)part_of(lesson, p)};
}

static bool is_wanted(const fb_lesson *lesson, fb_source source) {
    return fb_plan_wants(lesson->plan, source, source);
}

static void put(fb_lesson *lesson, fb_pattern_value value, uint64_t least) {
    refuse_unless(lesson, lesson->value_count < FB_LESSON_VALUES);
    if (!lesson->refused) lesson->values[lesson->value_count++] = (fb_lesson_value){value, least};
}

/* The number ends `shift` bits before the end of its bytes. */
static void put_shifted(fb_lesson *lesson, fb_source source, const uint8_t *p, size_t size, unsigned shift, uint64_t mask,
                        uint64_t add, uint64_t least) {
    if (!is_wanted(lesson, source)) return;
    put(lesson, (fb_pattern_value){
        .code = FB_PATTERN_NUMBER, .source = (uint16_t)source, .part = (uint8_t)part_of(lesson, p),
        .place = place_in_part(lesson, p), .size = (uint16_t)size, .mask = mask, .add = add, .shift = (uint8_t)shift,
    }, least);
}

static void put_number(fb_lesson *lesson, fb_source source, const uint8_t *p, size_t size, uint64_t mask, uint64_t add,
                       uint64_t least) {
    put_shifted(lesson, source, p, size, 0, mask, add, least);
}

static void put_field(fb_lesson *lesson, fb_source source, const uint8_t *p, size_t size) {
    put_number(lesson, source, p, size, UINT64_MAX >> (64 - 8 * size), 0, 0);
}

/* Put a value that is the same in every sample that matches. */
static void put_constant(fb_lesson *lesson, fb_source source, uint64_t value) {
    put_number(lesson, source, lesson->sample, 1, 0, value, value);
}

/* Return the greatest number that all columns of a source accept. */
static uint64_t find_limit(const fb_lesson *lesson, fb_source source) {
    const fb_target_range *range = &lesson->plan->sources[source];
    uint64_t limit = UINT64_MAX;
    for (size_t i = 0; i < range->count; i++) {
        const fb_column *column = &lesson->plan->columns[lesson->plan->targets[range->first + i].column];
        if (column->type == FB_TYPE_UINT && column->limit < limit) limit = column->limit;
    }
    return limit;
}

/* Put a word into a column that may be narrower. */
static void put_word(fb_lesson *lesson, fb_source source, const uint8_t *p) {
    uint64_t limit = find_limit(lesson, source);
    if (limit >= UINT32_MAX || fb_load32(p) > limit) {
        put_field(lesson, source, p, 4);
        return;
    }
    if (!is_wanted(lesson, source)) return;
    if (limit == UINT8_MAX && !lesson->part)
        fix(lesson, p, 3);
    else if (limit == UINT16_MAX && !lesson->part)
        fix(lesson, p, 2);
    else
        bound(lesson, p, UINT32_MAX, 0, (uint32_t)limit);
    put_number(lesson, source, p, 4, limit & (limit + 1) ? UINT32_MAX : limit, 0, 0);
}

static void put_octets(fb_lesson *lesson, fb_source source, fb_pattern_code code, const uint8_t *p, size_t size) {
    put(lesson, (fb_pattern_value){.code = (uint8_t)code, .source = (uint16_t)source, .part = (uint8_t)part_of(lesson, p),
                                   .place = place_in_part(lesson, p), .size = (uint16_t)size}, 0);
}

static void put_address(fb_lesson *lesson, fb_source source, const uint8_t *p, size_t size) {
    if (is_wanted(lesson, source)) put_octets(lesson, source, FB_PATTERN_ADDRESS, p, size);
}

/* The packet --------------------------------------------------------------------------------- */

/* Other fields of an IP header that columns may need. In a plain packet, the fragment offset is
   0. */
static void read_details_ipv4(fb_lesson *lesson, const uint8_t *ip) {
    put_field(lesson, FB_SOURCE_PACKET_TOS, ip + 1, 1);
    put_field(lesson, FB_SOURCE_PACKET_TTL, ip + 8, 1);
    put_field(lesson, FB_SOURCE_PACKET_FRAGMENT_ID, ip + 4, 2);
    put_constant(lesson, FB_SOURCE_PACKET_FRAGMENT_OFFSET, 0);
    put_shifted(lesson, FB_SOURCE_PACKET_IP_FLAGS, ip + 6, 1, 5, 0x07, 0, 0);
}

static void read_details_ipv6(fb_lesson *lesson, const uint8_t *ip) {
    put_shifted(lesson, FB_SOURCE_PACKET_TOS, ip, 2, 4, 0xff, 0, 0);
    put_field(lesson, FB_SOURCE_PACKET_TTL, ip + 7, 1);
    put_number(lesson, FB_SOURCE_PACKET_FLOW_LABEL, ip, 4, 0xfffff, 0, 0);
}

/* Return the bytes of the transport header that columns need. Refuse a header that is cut short. */
static size_t read_transport(fb_lesson *lesson, unsigned proto, const uint8_t *p, size_t left) {
    bool ports = fb_transport_has_ports(proto), icmp = proto == FB_TRANSPORT_ICMP || proto == FB_TRANSPORT_ICMPV6;
    size_t needed = proto == FB_TRANSPORT_TCP ? 14 : ports ? 4 : icmp ? 2 : 0;
    refuse_unless(lesson, left >= needed);
    if (ports) {
        put_field(lesson, FB_SOURCE_PACKET_SRC_PORT, p, 2);
        put_field(lesson, FB_SOURCE_PACKET_DST_PORT, p + 2, 2);
    } else if (icmp) {
        put_field(lesson, FB_SOURCE_PACKET_ICMP_TYPE, p, 1);
        put_field(lesson, FB_SOURCE_PACKET_ICMP_CODE, p + 1, 1);
    }
    if (proto == FB_TRANSPORT_TCP) put_number(lesson, FB_SOURCE_PACKET_TCP_FLAGS, p + 12, 2, 0x0fff, 0, 0);
    return needed;
}

/* The length in the IP header limits the packet. It may have any value that covers the bytes that
   columns need. */
static void read_ip(fb_lesson *lesson, const fb_packet *packet) {
    const uint8_t *ip = packet->ip;
    if (packet->version == 4) {
        fix(lesson, ip, 1);
        fix_bits(lesson, ip + 6, 0x1f);
        fix(lesson, ip + 7, 1);
        fix(lesson, ip + 9, 1);
        put_number(lesson, FB_SOURCE_PACKET_IP_LENGTH, ip + 2, 2, UINT16_MAX, 0, 20);
        put_address(lesson, FB_SOURCE_PACKET_SRC_ADDR, ip + 12, 4);
        put_address(lesson, FB_SOURCE_PACKET_DST_ADDR, ip + 16, 4);
        read_details_ipv4(lesson, ip);
    } else {
        fix_bits(lesson, ip, 0xf0);
        fix(lesson, ip + 6, 1);
        put_number(lesson, FB_SOURCE_PACKET_IP_LENGTH, ip + 4, 2, UINT16_MAX, 40, 40);
        put_address(lesson, FB_SOURCE_PACKET_SRC_ADDR, ip + 8, 16);
        put_address(lesson, FB_SOURCE_PACKET_DST_ADDR, ip + 24, 16);
        read_details_ipv6(lesson, ip);
    }
    put_constant(lesson, FB_SOURCE_PACKET_PROTO, packet->proto);
    size_t needed = read_transport(lesson, packet->proto, packet->transport, (size_t)(packet->end - packet->transport));
    lesson->header_needed = (size_t)(packet->transport - packet->frame) + needed;
    if (packet->version == 4)
        bound(lesson, ip, UINT16_MAX, (uint32_t)(20 + needed), UINT16_MAX);
    else
        bound(lesson, ip + 2, UINT16_MAX, needed ? (uint32_t)needed : 1, UINT16_MAX);
}

static void read_packet(fb_lesson *lesson, fb_bytes octets) {
    fb_packet packet;
    const uint8_t *frame = octets.data;
    refuse_unless(lesson, fb_packet_walk_plain(&packet, octets));
    if (lesson->refused) return;
    for (size_t i = 0; i <= packet.tags; i++) fix(lesson, frame + 12 + 4 * i, 2);
    put_constant(lesson, FB_SOURCE_PACKET_PACKETS, 1);
    put_field(lesson, FB_SOURCE_PACKET_SRC_MAC, frame + 6, 6);
    put_field(lesson, FB_SOURCE_PACKET_DST_MAC, frame, 6);
    if (packet.tags > 0) put_number(lesson, FB_SOURCE_PACKET_VLAN_ID, frame + 14, 2, 0x0fff, 0, 0);
    if (packet.tags > 1) put_number(lesson, FB_SOURCE_PACKET_INNER_VLAN_ID, frame + 18, 2, 0x0fff, 0, 0);
    put_constant(lesson, FB_SOURCE_PACKET_ETYPE, packet.etype);
    read_ip(lesson, &packet);
    if (fb_plan_wants(lesson->plan, FB_SOURCE_PACKET_LAYERS, FB_SOURCE_PACKET_LAYER_SIZES))
        put_octets(lesson, FB_SOURCE_PACKET_LAYERS, FB_PATTERN_LAYERS, octets.data, octets.size);
    put_word(lesson, FB_SOURCE_PACKET_SECTION_LENGTH, octets.data - 4);
}

/* The sample --------------------------------------------------------------------------------- */

/* Read an interface. Its format is in the two highest bits of its word, or in a word before it. */
static void read_interface(fb_lesson *lesson, fb_source source, const uint8_t *p, bool expanded) {
    uint32_t format = expanded ? fb_load32(p) : p[0] >> 6, mask = expanded ? UINT32_MAX : FB_INTERFACE_INTERNAL;
    if (expanded)
        fix(lesson, p, 4), p += 4;
    else
        fix_bits(lesson, p, 0xc0);
    uint32_t number = fb_load32(p) & mask;
    refuse_unless(lesson, source != FB_SOURCE_SFLOW_OUTPUT || format != FB_INTERFACE_DISCARDED);
    if (format != FB_INTERFACE_INDEX || !is_wanted(lesson, source)) return;
    if (number == FB_INTERFACE_INTERNAL)
        fix(lesson, p, 4);
    else
        put_number(lesson, source, p, 4, mask, 0, 0);
    if (number <= 0xffffff)
        fix(lesson, p, 1);
    else if (number < FB_INTERFACE_INTERNAL)
        bound(lesson, p, mask, 0, FB_INTERFACE_INTERNAL - 1);
    else if (number > FB_INTERFACE_INTERNAL)
        bound(lesson, p, mask, FB_INTERFACE_INTERNAL + 1, mask);
}

static void read_fixed_part(fb_lesson *lesson, const uint8_t *p, bool expanded) {
    const uint8_t *counts = expanded ? p + 12 : p + 8;
    put_word(lesson, FB_SOURCE_SFLOW_SAMPLING_RATE, counts);
    put_word(lesson, FB_SOURCE_SFLOW_SAMPLE_SEQUENCE, p);
    put_word(lesson, FB_SOURCE_SFLOW_SAMPLE_POOL, counts + 4);
    put_word(lesson, FB_SOURCE_SFLOW_SAMPLE_DROPS, counts + 8);
    if (expanded)
        put_word(lesson, FB_SOURCE_SFLOW_SAMPLE_SOURCE, p + 8);
    else
        put_field(lesson, FB_SOURCE_SFLOW_SAMPLE_SOURCE, p + 5, 3);
    put_constant(lesson, FB_SOURCE_SFLOW_SAMPLE_PACKETS, 1);
    read_interface(lesson, FB_SOURCE_SFLOW_INPUT, expanded ? p + 24 : p + 20, expanded);
    read_interface(lesson, FB_SOURCE_SFLOW_OUTPUT, expanded ? p + 32 : p + 24, expanded);
}

static void read_vlan(fb_lesson *lesson, fb_source source, const uint8_t *p) {
    if (!is_wanted(lesson, source)) return;
    if (fb_load32(p) >= FB_LOWEST_UNKNOWN_VLAN) {
        fix(lesson, p, 4);
        return;
    }
    bound(lesson, p, UINT32_MAX, 0, FB_LOWEST_UNKNOWN_VLAN - 1);
    put_number(lesson, source, p, 4, 0x0fff, 0, 0);
}

static void read_switch(fb_lesson *lesson, fb_bytes record) {
    refuse_unless(lesson, record.size >= 16);
    if (lesson->refused) return;
    read_vlan(lesson, FB_SOURCE_SFLOW_SWITCH_SRC_VLAN, record.data);
    put_word(lesson, FB_SOURCE_SFLOW_SWITCH_SRC_PRIORITY, record.data + 4);
    read_vlan(lesson, FB_SOURCE_SFLOW_SWITCH_DST_VLAN, record.data + 8);
    put_word(lesson, FB_SOURCE_SFLOW_SWITCH_DST_PRIORITY, record.data + 12);
}

static void read_router(fb_lesson *lesson, fb_bytes record) {
    fb_xdr xdr = {record.data, record.data + record.size};
    fb_bytes next_hop;
    refuse_unless(lesson, fb_xdr_read_address(&xdr, &next_hop) && xdr.end - xdr.p >= 8);
    if (lesson->refused) return;
    fix(lesson, record.data, 4);
    if (next_hop.size) put_address(lesson, FB_SOURCE_SFLOW_ROUTER_NEXT_HOP, next_hop.data, next_hop.size);
    put_word(lesson, FB_SOURCE_SFLOW_ROUTER_SRC_MASK, xdr.p);
    put_word(lesson, FB_SOURCE_SFLOW_ROUTER_DST_MASK, xdr.p + 4);
}

/* Put a list. An empty list is put, too. */
static void put_list(fb_lesson *lesson, fb_source source, fb_pattern_code code, fb_bytes list) {
    if (is_wanted(lesson, source)) put_octets(lesson, source, code, list.data, list.size);
}

/* Put a word of a gateway record. Its position is fixed only if all lengths are. */
static void put_found(fb_lesson *lesson, fb_source source, const uint8_t *p, size_t part) {
    if (!lesson->exact) {
        lesson->part = part;
        lesson->begin[part] = place_of(lesson, p);
        lesson->end[part] = lesson->begin[part] + 4;
    }
    put_word(lesson, source, p);
    lesson->part = 0;
}

/* Fix the numbers of segments, AS numbers and communities. */
static void fix_counts(fb_lesson *lesson, const fb_gateway_found *found) {
    const uint8_t *p = found->path.data;
    fix(lesson, p, 4);
    for (p += 4; p < found->path.data + found->path.size; p += 8 + 4 * (size_t)fb_load32(p + 4)) fix(lesson, p + 4, 4);
    fix(lesson, p, 4);
}

static void read_gateway(fb_lesson *lesson, fb_bytes record) {
    fb_xdr xdr = {record.data, record.data + record.size};
    fb_bytes next_hop;
    refuse_unless(lesson, fb_xdr_read_address(&xdr, &next_hop) && xdr.end - xdr.p >= 12);
    if (lesson->refused) return;
    const uint8_t *own = xdr.p, *source = xdr.p + 4;
    fix(lesson, record.data, 4);
    if (next_hop.size) put_address(lesson, FB_SOURCE_SFLOW_GATEWAY_NEXT_HOP, next_hop.data, next_hop.size);
    put_word(lesson, FB_SOURCE_SFLOW_GATEWAY_AS, own);
    if (fb_load32(source))
        bound(lesson, source, UINT32_MAX, 1, UINT32_MAX);
    else
        fix(lesson, source, 4);
    put_word(lesson, FB_SOURCE_SFLOW_GATEWAY_SRC_AS, fb_load32(source) ? source : own);
    put_word(lesson, FB_SOURCE_SFLOW_GATEWAY_SRC_PEER_AS, xdr.p + 8);
    xdr.p += 12;
    const fb_gateway_found *found = &lesson->parts.found;
    refuse_unless(lesson, fb_gateway_find(&lesson->parts.found, (fb_bytes){xdr.p, (size_t)(xdr.end - xdr.p)}, own));
    if (lesson->refused) return;
    if (lesson->exact)
        fix_counts(lesson, found);
    else
        lesson->gateway_needed = (size_t)(xdr.p - record.data);
    if (found->next_hop) put_found(lesson, FB_SOURCE_SFLOW_GATEWAY_NEXT_HOP_AS, found->next_hop, FB_PART_NEXT_HOP);
    put_list(lesson, FB_SOURCE_SFLOW_GATEWAY_AS_PATH, FB_PATTERN_AS_PATH, found->path);
    put_found(lesson, FB_SOURCE_SFLOW_GATEWAY_DST_AS, found->destination, FB_PART_DESTINATION);
    put_list(lesson, FB_SOURCE_SFLOW_GATEWAY_COMMUNITIES, FB_PATTERN_COMMUNITIES, found->communities);
    put_found(lesson, FB_SOURCE_SFLOW_GATEWAY_LOCAL_PREF, found->preference, FB_PART_PREFERENCE);
}

static void read_header(fb_lesson *lesson) {
    const uint8_t *p = lesson->parts.header.data - 16;
    refuse_unless(lesson, fb_load32(p) == FB_HEADER_ETHERNET);
    if (lesson->refused) return;
    fix(lesson, p, 4);
    if (lesson->exact) fix(lesson, p + 12, 4);
    lesson->header_needed = FB_HEADER_LEAST;
    if (lesson->plan->has_packet) read_packet(lesson, lesson->parts.header);
    put_word(lesson, FB_SOURCE_SFLOW_FRAME_LENGTH, p + 4);
}

/* Find the first record of each kind. */
static void index_records(fb_lesson *lesson, fb_xdr xdr, fb_bytes *records) {
    uint32_t count = fb_load32(xdr.p - 4), format;
    fix(lesson, xdr.p - 4, 4);
    for (; count && !lesson->refused; count--) {
        const uint8_t *begin = xdr.p;
        fb_bytes body;
        refuse_unless(lesson, fb_xdr_read_item(&xdr, &format, &body));
        if (lesson->refused) return;
        uint32_t place = fb_record_place(format);
        bool any_length = !lesson->exact && (place == FB_PLACE_HEADER || place == FB_PLACE_GATEWAY) && !records[place].data;
        fix(lesson, begin, any_length ? 4 : 8);
        if (place == FB_PLACES)
            put_octets(lesson, FB_SOURCE_COUNT, FB_PATTERN_UNKNOWN, begin, 8);
        else if (!records[place].data)
            records[place] = body;
    }
}

/* Find the parts of a sample; an exact pattern has one. */
static void divide(fb_lesson *lesson, fb_bytes sample, bool expanded) {
    refuse_unless(lesson, fb_sample_divide(&lesson->parts, sample, expanded));
    if (lesson->refused) return;
    size_t parts = lesson->exact ? 1 : lesson->parts.gateway.data ? 3 : 2;
    for (size_t i = 0; i < FB_SAMPLE_PARTS; i++) lesson->begin[i] = i < parts ? place_of(lesson, lesson->parts.part[i]) : SIZE_MAX;
}

/* A part ends where the next one begins. If its last record has variable length, only the needed
   bytes of that record count. */
static void end_parts(fb_lesson *lesson, size_t size) {
    const fb_sample_parts *parts = &lesson->parts;
    size_t header = place_of(lesson, parts->header.data) + lesson->header_needed;
    size_t gateway = parts->gateway.data ? place_of(lesson, parts->gateway.data) + lesson->gateway_needed + 12 : SIZE_MAX;
    bool header_first = header < gateway;
    lesson->end[0] = lesson->exact ? size : header_first ? header : gateway;
    lesson->end[1] = !parts->gateway.data ? size : header_first ? gateway : header;
    lesson->end[2] = size;
}

bool fb_lesson_read(fb_lesson *lesson, const fb_plan *plan, fb_bytes sample, bool expanded, bool exact) {
    size_t fixed = FB_FLOW_SAMPLE_SIZE(expanded);
    fb_bytes records[FB_PLACES] = {{NULL, 0}};
    if (sample.size < fixed || sample.size > FB_PATTERN_OCTETS) return false;
    *lesson = (fb_lesson){.plan = plan, .sample = sample.data, .exact = exact};
    divide(lesson, sample, expanded);
    if (lesson->refused) return false;
    index_records(lesson, (fb_xdr){sample.data + fixed, sample.data + sample.size}, records);
    refuse_unless(lesson, !records[FB_PLACE_ETHERNET].data && !records[FB_PLACE_IPV4].data && !records[FB_PLACE_IPV6].data);
    read_fixed_part(lesson, sample.data, expanded);
    if (records[FB_PLACE_SWITCH].data) read_switch(lesson, records[FB_PLACE_SWITCH]);
    if (records[FB_PLACE_ROUTER].data) read_router(lesson, records[FB_PLACE_ROUTER]);
    if (records[FB_PLACE_GATEWAY].data) read_gateway(lesson, records[FB_PLACE_GATEWAY]);
    if (!lesson->refused) read_header(lesson);
    if (!lesson->refused) end_parts(lesson, sample.size);
    return !lesson->refused;
}
