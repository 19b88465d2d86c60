/* Put a field of any kind into a column. A field may be a basicList (RFC 6313 section 4.5.1), which
   holds values of one element:

     0          1                   3                5 (9)
     ├──────────┼───┬───────────────┼────────────────┼─────────┼─────────
     │ semantic │ E │ element id    │ element length │ member  │ member …
     ├──────────┼───┴───────────────┼────────────────┼─────────┴─
     │          E: the element's enterprise number, 4 bytes, before the first member

   An element length of 65535 means that each member is preceded by its own length (RFC 7011 section
   7). */
#ifndef FB_DECODE_FIELD_TMPL_H
#define FB_DECODE_FIELD_TMPL_H

#include "core/decode/value.tmpl.h"

static fb_cursor put_list(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                          fb_bytes field);

/* Put a field of any kind and size into one column. */
FB_NOINLINE static fb_cursor put_field(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                       fb_target target, const uint8_t *p, size_t size) {
    double real;
    switch (target.kind) {
        case FB_KIND_IP:
            if (size == 4 || size == 16) at = put_ip(c, emitter, at, target, p, size);
            else if (size) count_fault(c, emitter, at, target, FB_BAD_FIELD_SIZE, p);
            return at;
        case FB_KIND_MAC: /* reduced size does not apply, even to zeros (RFC 7011 section 6.2) */
            if (size == 6) at = put_uint(c, emitter, at, target, fb_load_uint(p, size));
            else if (size) count_fault(c, emitter, at, target, FB_BAD_FIELD_SIZE, p);
            return at;
        case FB_KIND_STRING:
        case FB_KIND_BYTES: return put_bytes(c, emitter, at, target, p, size);
        case FB_KIND_LIST: return put_list(c, emitter, at, target, (fb_bytes){p, size});
        case FB_KIND_OPAQUE:
            if (size) count_fault(c, emitter, at, target, FB_OPAQUE_VALUE, p);
            return put_bytes(c, emitter, at, target, p, size);
        case FB_KIND_FLOAT:
            if (fb_load_real(p, size, &real)) return put_real(c, emitter, at, target, real);
            if (size) count_fault(c, emitter, at, target, FB_BAD_FIELD_SIZE, p);
            return at;
        default:
            if (size > 8) count_fault(c, emitter, at, target, FB_BAD_FIELD_SIZE, p);
            return size && size <= 8 ? put_integer(c, emitter, at, target, p, size) : at;
    }
}

enum { LIST_NONE_OF = 0 }; /* semantic noneOf: the values do not apply (RFC 6313 section 4.4.1) */

typedef struct {
    const uint8_t *p, *end; /* the remaining members */
    uint32_t pen;
    uint16_t id, size;
    uint8_t semantic;
} fb_list;

static bool read_list(fb_bytes field, fb_list *list) {
    const uint8_t *p = field.data;
    if (field.size < 5) return false;
    bool enterprise = p[1] & 0x80;
    if (enterprise && field.size < 9) return false;
    *list = (fb_list){p + (enterprise ? 9 : 5),  p + field.size,   0,
                      fb_load16(p + 1) & 0x7fff, fb_load16(p + 3), p[0]};
    if (enterprise) list->pen = fb_load32(p + 5);
    return true;
}

/* Read the next member. Returns false if the remaining bytes are not a member. REQUIRES: bytes
   remain. */
static bool next_member(fb_list *list, fb_bytes *member) {
    size_t size = list->size, left = (size_t)(list->end - list->p), head = 0;
    if (size == FB_VARIABLE_SIZE) {
        head = *list->p == 255 ? 3 : 1;
        if (left < head) return false;
        size = head == 1 ? *list->p : fb_load16(list->p + 1);
    }
    if (size + head == 0 || left - head < size) return false; /* empty members would never end */
    *member = (fb_bytes){list->p + head, size};
    list->p += head + size;
    return true;
}

static fb_cursor count_list(fb_context *c, fb_cursor at, fb_target target, fb_status status,
                            const uint8_t *p) {
    fb_context_count(c, status, p);
    if (status == FB_BAD_LIST) fb_context_leave_out(c, target.column);
    return at;
}

/* Put the members of a list into an open column, or into a column that is not repeated. */
static fb_cursor put_members(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                             fb_bytes field) {
    fb_list list;
    fb_bytes member;
    bool whole = true;
    if (!read_list(field, &list)) return count_list(c, at, target, FB_BAD_LIST, field.data);
    if (list.semantic == LIST_NONE_OF)
        return count_list(c, at, target, FB_OPAQUE_VALUE, field.data);
    fb_kind kind =
        fb_plan_member_kind(c->plan, &c->plan->columns[target.column], list.pen, list.id);
    if (kind == FB_KIND_COUNT) return count_list(c, at, target, FB_BAD_LIST, field.data);
    target.kind = kind & 63;
    while (list.p < list.end && whole && FB_EMIT(accepts)(emitter, at, target))
        if ((whole = next_member(&list, &member)))
            at = put_field(c, emitter, at, target, member.data, member.size);
    return whole ? at : count_list(c, at, target, FB_BAD_LIST, list.p);
}

/* A context that counts no faults. It is used for fields that are read again. */
typedef struct {
    fb_context context;
    fb_counters counters;
    fb_fault fault;
} fb_quiet;

static fb_context *discard_faults(fb_quiet *quiet, const fb_context *c) {
    *quiet = (fb_quiet){.context = *c};
    quiet->context.counters = &quiet->counters;
    quiet->context.fault = &quiet->fault;
    quiet->context.left_out = NULL;
    return &quiet->context;
}

/* Put the first non-zero member of a list into a column that is not repeated. If all members are
   zero and zero is a value of the column, put zero. */
static fb_cursor put_first_member(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                  fb_target target, fb_bytes field) {
    fb_target without_zero = target;
    fb_quiet quiet;
    without_zero.zero = false;
    at = put_members(c, emitter, at, without_zero, field);
    if (!target.zero || !FB_EMIT(accepts)(emitter, at, target)) return at;
    return put_members(discard_faults(&quiet, c), emitter, at, target, field);
}

/* Put the members of a list into a column. A repeated column takes all of them. */
FB_NOINLINE static fb_cursor put_list(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                      fb_target target, fb_bytes field) {
    if (!field.size || !FB_EMIT(accepts)(emitter, at, target)) return at;
    bool repeated = c->plan->columns[target.column].flags & FB_COLUMN_REPEATED;
    if (!repeated) return put_first_member(c, emitter, at, target, field);
    FB_EMIT(open)(emitter, &at, target.column);
    at = put_members(c, emitter, at, target, field);
    FB_EMIT(close)(emitter, &at, target.column);
    return at;
}

/* Put members into an open column: the field of an operation, or every occurrence of its element.
   Zeros are members too. An empty field adds no member. A list adds each of its members. */
static fb_cursor put_each(fb_context *c, fb_emitter *emitter, fb_cursor at, const fb_op *op,
                          const fb_compiled_template *compiled, const uint8_t *record,
                          const fb_location *locations) {
    bool all = op->code == FB_OP_COLLECT, list = op->target.kind == FB_KIND_LIST;
    for (uint16_t i = op->field; i != FB_NO_FIELD; i = all ? compiled->chain[i] : FB_NO_FIELD) {
        fb_bytes field = fb_compiled_template_field(compiled, i, record, locations);
        if (!field.size || !FB_EMIT(accepts)(emitter, at, op->target)) continue;
        at = list ? put_members(c, emitter, at, op->target, field)
                  : put_field(c, emitter, at, op->target, field.data, field.size);
    }
    return at;
}

FB_NOINLINE static fb_cursor put_occurrences(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                             const fb_op *op, const fb_compiled_template *compiled,
                                             const uint8_t *record, const fb_location *locations) {
    if (!FB_EMIT(accepts)(emitter, at, op->target)) return at;
    FB_EMIT(open)(emitter, &at, op->target.column);
    at = put_each(c, emitter, at, op, compiled, record, locations);
    FB_EMIT(close)(emitter, &at, op->target.column);
    return at;
}

/* Read a field again for another column. Its faults were counted at the first read. */
FB_NOINLINE static fb_cursor put_field_again(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                             const fb_op *op, const fb_compiled_template *compiled,
                                             const uint8_t *record, const fb_location *locations) {
    fb_bytes field = fb_compiled_template_field(compiled, op->field, record, locations);
    if (!FB_EMIT(accepts)(emitter, at, op->target)) return at;
    fb_quiet quiet;
    return put_field(discard_faults(&quiet, c), emitter, at, op->target, field.data, field.size);
}

#endif
