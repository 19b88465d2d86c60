/* Run the operations of a template (exporter/template.h) over one record. */
#ifndef FB_DECODE_OPERATION_TMPL_H
#define FB_DECODE_OPERATION_TMPL_H

#include "core/exporter/sampling.h"
#include "core/decode/derived.tmpl.h"
#include "core/decode/field.tmpl.h"
#include "core/decode/name.tmpl.h"
#include "core/decode/sampled_packet.tmpl.h"
#include "core/decode/sub_template.tmpl.h"
#include "core/decode/value.tmpl.h"

/* Put a value that no field states: one calculated from others, or a name. */
static fb_cursor derive(fb_context *c, fb_emitter *emitter, fb_cursor at, const fb_op *op,
                        const fb_compiled_template *compiled, const uint8_t *record,
                        const fb_location *locations) {
    uint64_t value = 0, both;
    switch (op->code) {
        case FB_OP_DERIVED_MPLS_LABELS:
            return put_mpls_labels(c, emitter, at, op->target, compiled, record, locations);
        case FB_OP_DERIVED_SAMPLING_RATE:
            value = fb_sampling_find(c, compiled, record, locations);
            break;
        case FB_OP_DERIVED_ETYPE: value = derive_etype(compiled, record, locations); break;
        case FB_OP_DERIVED_ICMP_TYPE:
        case FB_OP_DERIVED_ICMP_CODE:
            if (!derive_icmp(compiled, record, locations, &both)) return at;
            at = put_uint(c, emitter, at, op->target,
                          op->code == FB_OP_DERIVED_ICMP_TYPE ? both >> 8 : both & 0xff);
            return at;
        case FB_OP_DERIVED_IP_FLAGS:
            return put_fragment_flags(c, emitter, at, op->target, compiled, record, locations);
        case FB_OP_DERIVED_FORWARDING_STATUS:
            value = derive_forwarding_status(compiled, record, locations);
            break;
        default: return put_name(c, emitter, at, op, record, locations);
    }
    if (value) at = put_uint(c, emitter, at, op->target, value);
    return at;
}

/* Return true if a section with this field as its offset begins with the packet. */
static bool has_no_offset(const fb_compiled_template *compiled, uint16_t offset,
                          const uint8_t *record, const fb_location *locations) {
    fb_bytes field = fb_compiled_template_field(compiled, offset, record, locations);
    return fb_is_zero(field.data, fb_end_of(field));
}

/* Return true if the data link frame is of Ethernet: the lowest bit of dataLinkFrameType (RFC 7133)
   is set, or the type is 0 or not stated. */
static bool is_ethernet(const fb_compiled_template *compiled, const uint8_t *record,
                        const fb_location *locations) {
    if (!fb_compiled_template_has_role(compiled, FB_ROLE_DATA_LINK_FRAME_TYPE)) return true;
    uint64_t type = fb_role_uint(compiled, FB_ROLE_DATA_LINK_FRAME_TYPE, record, locations);
    return !type || type & 1;
}

/* Find the packet section of a record. A non-empty frame has priority over an IP packet. A section
   that is not parsed has the type FB_PACKET_UNKNOWN. Returns false if there is no section. */
static bool find_packet(const fb_compiled_template *compiled, const uint8_t *record,
                        const fb_location *locations, fb_sampled *packet) {
    fb_bytes frame =
        fb_compiled_template_role(compiled, FB_ROLE_DATA_LINK_FRAME, record, locations);
    packet->bytes = frame;
    packet->type = FB_PACKET_FRAME;
    if (frame.size && is_ethernet(compiled, record, locations) &&
        has_no_offset(compiled, compiled->data_link_frame_offset, record, locations))
        return true;
    fb_bytes ip = fb_compiled_template_role(compiled, FB_ROLE_IP_PACKET, record, locations);
    bool usable = ip.size && has_no_offset(compiled, compiled->ip_packet_offset, record, locations);
    packet->type = usable ? find_ip_type(ip) : FB_PACKET_UNKNOWN;
    if (usable || !frame.size) packet->bytes = ip;
    return packet->bytes.size;
}

static fb_cursor put_packet(fb_context *c, fb_emitter *emitter, fb_cursor at,
                            const fb_compiled_template *compiled, const uint8_t *record,
                            const fb_location *locations) {
    fb_sampled packet;
    if (!find_packet(compiled, record, locations, &packet)) return at;
    return put_sampled_packet(c, emitter, at, packet.bytes, packet.type);
}

/* Put the variable-length field of an operation. */
static fb_cursor put_variable(fb_context *c, fb_emitter *emitter, fb_cursor at, const fb_op *op,
                              const fb_location *locations) {
    fb_bytes field = locations[op->base].field;
    return put_field(c, emitter, at, op->target, field.data, field.size);
}

FB_INLINE fb_cursor put_enum(fb_context *c, fb_emitter *emitter, fb_cursor at, const fb_op *op,
                             uint64_t value) {
    uint64_t number;
    if (FB_UNLIKELY(!find_member(op->column, value, &number)))
        return convert_uint(c, emitter, at, op->target, value);
    FB_EMIT(put_uint)(emitter, &at, op->target, number);
    return at;
}

/* Return the sampling rate of a sampler, or 0 if it is unknown. */
FB_INLINE uint64_t find_rate(fb_context *c, uint64_t sampler) {
    c->sampler = sampler;
    return c->domain ? fb_domain_rate_of(c->domain, sampler) : 0;
}

/* Return the family of a non-zero address. For a zero address, use the rest of the record. */
FB_INLINE uint64_t find_etype(const fb_compiled_template *compiled, const uint8_t *record,
                              const fb_location *locations, const uint8_t *p, size_t size) {
    if (FB_UNLIKELY(fb_is_no_address(p, size))) return derive_etype(compiled, record, locations);
    return size == 4 ? FB_ETHERTYPE_IPV4 : FB_ETHERTYPE_IPV6;
}

FB_INLINE fb_cursor run_operation(fb_context *c, fb_emitter *emitter, fb_cursor at, const fb_op *op,
                                  const fb_compiled_template *compiled, const uint8_t *record,
                                  const fb_location *locations) {
    const uint8_t *p = find_field(op, record, locations);
    switch (op->code) {
        case FB_OP_UINT8: FB_EMIT(put_uint)(emitter, &at, op->target, *p); break;
        case FB_OP_UINT16: FB_EMIT(put_uint)(emitter, &at, op->target, fb_load16(p)); break;
        case FB_OP_UINT32: FB_EMIT(put_uint)(emitter, &at, op->target, fb_load32(p)); break;
        case FB_OP_UINT64: FB_EMIT(put_uint)(emitter, &at, op->target, fb_load64(p)); break;
        case FB_OP_TCP_BITS:
            FB_EMIT(put_uint)(emitter, &at, op->target, fb_load16(p) & 0x0fff);
            break;
        case FB_OP_IPV4:
            if (!fb_is_no_address(p, 4)) FB_EMIT(put_ip)(emitter, &at, op->target, p, 4);
            break;
        case FB_OP_IPV6:
            if (!fb_is_no_address(p, 16)) FB_EMIT(put_ip)(emitter, &at, op->target, p, 16);
            break;
        case FB_OP_ENUM: at = put_enum(c, emitter, at, op, *p); break;
        case FB_OP_ETYPE_IPV4:
            at =
                put_uint(c, emitter, at, op->target, find_etype(compiled, record, locations, p, 4));
            break;
        case FB_OP_ETYPE_IPV6:
            at = put_uint(c, emitter, at, op->target,
                          find_etype(compiled, record, locations, p, 16));
            break;
        case FB_OP_RATE_OF_SAMPLER:
            at = put_uint(c, emitter, at, op->target, find_rate(c, fb_load_uint(p, op->size)));
            break;
        case FB_OP_UINT:
            at = put_uint(c, emitter, at, op->target, fb_load_uint(p, op->size));
            break;
        case FB_OP_VALUE:
            if (locations && op->size == FB_VARIABLE_SIZE)
                at = put_variable(c, emitter, at, op, locations);
            else at = put_field(c, emitter, at, op->target, p, op->size);
            break;
        case FB_OP_AGAIN:
            at = put_field_again(c, emitter, at, op, compiled, record, locations);
            break;
        case FB_OP_COLLECT:
            at = put_occurrences(c, emitter, at, op, compiled, record, locations);
            break;
        case FB_OP_PACKET: at = put_packet(c, emitter, at, compiled, record, locations); break;
        case FB_OP_SCOPE_ELEMENTS:
        case FB_OP_OTHER_ELEMENTS:
        case FB_OP_OTHER_VALUES:
            at = put_elements(c, emitter, at, op, compiled, record, locations);
            break;
        default: at = derive(c, emitter, at, op, compiled, record, locations); break;
    }
    return at;
}

/* Run the operations from `first` to `end`, of any kind. */
FB_NOINLINE static fb_cursor run_each(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                      const fb_compiled_template *compiled, size_t first,
                                      size_t end, const uint8_t *record,
                                      const fb_location *locations) {
    for (const fb_op *op = compiled->ops + first; op < compiled->ops + end; op++)
        at = run_operation(c, emitter, at, op, compiled, record, locations);
    return at;
}

/* Run all moves of one code, each with its field at p. */
#define RUN_MOVES(CODE, ...) \
    for (const fb_op *end = compiled->moves[(CODE) + 1]; op < end; op++) { \
        const uint8_t *p = find_field(op, record, locations); \
        __VA_ARGS__; \
    }
#define APPEND_UINT(value, width) FB_EMIT(append_uint)(emitter, &at, op->column, value, width)
#define APPEND_IP(size)           FB_EMIT(append_ip)(emitter, &at, op->column, p, size)
#define APPEND_ETYPE(size, etype) \
    if (FB_UNLIKELY(fb_is_no_address(p, size))) \
        APPEND_UINT(derive_etype(compiled, record, locations), 2); \
    else APPEND_UINT(etype, 2)

#ifdef FB_WITH_LANES
/* Run the moves of a group one by one. */
FB_NOINLINE static fb_cursor run_group(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                       const fb_compiled_template *compiled,
                                       const fb_lane_group *group, const uint8_t *record,
                                       const fb_location *locations) {
    for (size_t i = 0; i < group->count; i++)
        at = run_operation(c, emitter, at, &compiled->ops[group->ops[i]], compiled, record,
                           locations);
    return at;
}

/* Run the moves in lanes. */
FB_INLINE fb_cursor run_lanes(fb_context *c, fb_emitter *emitter, fb_cursor at,
                              const fb_compiled_template *compiled, const uint8_t *record,
                              const fb_location *locations) {
    for (const fb_lane_group *group = compiled->lane_groups,
                             *end = group + compiled->lane_group_count;
         group < end; group++) {
        const uint8_t *window = (locations ? locations[group->base].base : record) + group->offset;
        if (FB_UNLIKELY(!FB_EMIT(append_lanes)(emitter, &at, &group->lanes, window)))
            at = run_group(c, emitter, at, compiled, group, record, locations);
    }
    return at;
}
#endif

/* Run the moves of numbers. */
FB_INLINE fb_cursor run_numbers(fb_emitter *emitter, fb_cursor at,
                                const fb_compiled_template *compiled, const uint8_t *record,
                                const fb_location *locations) {
    const fb_op *op = compiled->moves[0];
    if (op == compiled->moves[FB_OP_IPV4]) return at;
    RUN_MOVES(FB_OP_UINT8, APPEND_UINT(*p, 1))
    RUN_MOVES(FB_OP_UINT16, APPEND_UINT(fb_load16(p), 2))
    RUN_MOVES(FB_OP_UINT32, APPEND_UINT(fb_load32(p), 4))
    RUN_MOVES(FB_OP_UINT64, APPEND_UINT(fb_load64(p), 8))
    RUN_MOVES(FB_OP_TCP_BITS, APPEND_UINT(fb_load16(p) & 0x0fff, 2))
    return at;
}

/* Run the operations of a record of a set that follow the moves of numbers, with the enums from
   `enums` on. The set operations were already stored as constants. */
FB_INLINE fb_cursor run_after_numbers(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                      const fb_compiled_template *compiled, const fb_op *enums,
                                      const uint8_t *record, const fb_location *locations) {
    const fb_op *op = compiled->moves[FB_OP_IPV4];
    RUN_MOVES(FB_OP_IPV4, APPEND_IP(4))
    RUN_MOVES(FB_OP_IPV6, APPEND_IP(16))
    op = enums;
    RUN_MOVES(FB_OP_ENUM, at = put_enum(c, emitter, at, op, *p))
    RUN_MOVES(FB_OP_ETYPE_IPV4, APPEND_ETYPE(4, FB_ETHERTYPE_IPV4))
    RUN_MOVES(FB_OP_ETYPE_IPV6, APPEND_ETYPE(16, FB_ETHERTYPE_IPV6))
    if (compiled->set_end == compiled->op_count) return at;
    if (FB_UNLIKELY(compiled->set_end < compiled->name_end))
        at = locations ? put_names_apart(c, emitter, at, compiled, record, locations)
                       : put_names(c, emitter, at, compiled, record, NULL);
    if (compiled->name_end == compiled->op_count) return at;
    return run_each(c, emitter, at, compiled, compiled->name_end, compiled->op_count, record,
                    locations);
}

/* Run a record of a set. */
FB_INLINE fb_cursor run_fast(fb_context *c, fb_emitter *emitter, fb_cursor at,
                             const fb_compiled_template *compiled, const uint8_t *record,
                             const fb_location *locations) {
#ifdef FB_WITH_LANES
    const fb_op *enums = compiled->ops + compiled->enums;
    at = run_lanes(c, emitter, at, compiled, record, locations);
#else
    const fb_op *enums = compiled->moves[FB_OP_ENUM];
    at = run_numbers(emitter, at, compiled, record, locations);
#endif
    return run_after_numbers(c, emitter, at, compiled, enums, record, locations);
}

/* Run a record whose packet may contain a tunnel. If a tunnel was opened, columns that a packet can
   fill describe the inner packet. The other header fields of the record describe the outer packet,
   so they are skipped for these columns. */
FB_NOINLINE static fb_cursor run_around_packet(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                               const fb_compiled_template *compiled,
                                               const uint8_t *record, const fb_location *locations,
                                               fb_sampled *packet) {
    walk_packet(c, packet);
    for (const fb_op *op = compiled->ops, *end = op + compiled->op_count; op < end; op++) {
        if (op->code == FB_OP_PACKET) at = put_walked_packet(c, emitter, at, packet);
        else if (!packet->found.tunnels ||
                 c->plan->columns[op->target.column].packet_rank == FB_NO_RANK)
            at = run_operation(c, emitter, at, op, compiled, record, locations);
    }
    return at;
}

FB_INLINE fb_cursor run_record(fb_context *c, fb_emitter *emitter, fb_cursor at,
                               const fb_compiled_template *compiled, const uint8_t *record,
                               const fb_location *locations) {
    fb_sampled packet;
    bool around = FB_UNLIKELY(c->decapsulate) && find_packet(compiled, record, locations, &packet);
    if (around) at = run_around_packet(c, emitter, at, compiled, record, locations, &packet);
    else at = run_each(c, emitter, at, compiled, 0, compiled->op_count, record, locations);
    if (FB_LIKELY(!compiled->list_count)) return at;
    return put_sub_templates(c, emitter, at, compiled, record, locations,
                             around && packet.found.tunnels);
}

#endif
