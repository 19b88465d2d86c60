/* Lists inside a record whose elements fill columns (RFC 6313): records inside a record, in a
   subTemplateList or subTemplateMultiList (sections 4.5.2 and 4.5.3), and a basicList. YAF sends
   all three.

     0          1                3
     ├──────────┼────────────────┼────────┬────────┬──
     │ semantic │ template id    │ record │ record │ …        subTemplateList
     ├──────────┼────────────────┼────────┴────┬───┴────┬──
     │ semantic │ template id    │ length      │ record │ …   subTemplateMultiList
     ├──────────┴────────────────┴─────────────┴────────┴──
                └ repeated; the length counts from here

   A member of a basicList (field.tmpl.h) is like a record of one field. If the element of the list
   is a list too, its members are opened in the same way. A basicList that feeds a column itself is
   not opened.

   The template belongs to the domain of the outer record. Its elements fill the columns that the
   outer record leaves empty. A repeated column takes values from all inner records, any other
   column from the first record that has a value. Zero is a value only in columns with
   FB_COLUMN_ZERO.

   Templates of inner records have no records of zero bytes, so each record advances. Nested lists
   are read to a depth of FB_LIST_DEPTH, so a byte is read at most that many times. */
#ifndef FB_DECODE_SUB_TEMPLATE_TMPL_H
#define FB_DECODE_SUB_TEMPLATE_TMPL_H

#include "core/decode/derived.tmpl.h"
#include "core/decode/field.tmpl.h"
#include "core/decode/value.tmpl.h"

enum { SUB_LIST_HEAD = 3, MULTI_LIST_HEAD = 1, MULTI_LIST_PART_HEAD = 4 };

/* The output of inner records. */
typedef struct {
    fb_context *c;
    fb_emitter *emitter;
    fb_cursor at;
    bool tunnel; /* a tunnel was opened: columns that a packet can fill describe the inner packet */
} fb_inner_records;

static void read_inner_lists(fb_inner_records *inner, const fb_compiled_template *compiled,
                             const uint8_t *record, const fb_location *locations, unsigned depth);
static void read_inner_list(fb_inner_records *inner, fb_bytes field, uint32_t id, unsigned depth);

/* Put one inner record. A repeated column takes only the best of its sources from it. */
static void put_inner_record(fb_inner_records *inner, const fb_compiled_template *compiled,
                             const uint8_t *record, const fb_location *locations) {
    for (const fb_op *op = compiled->ops, *end = op + compiled->op_count; op < end; op++) {
        if (op->field == FB_NO_FIELD || fb_op_is_name(op->code) ||
            fb_field_is_sub_template(&compiled->fields[op->field]))
            continue;
        if (inner->tunnel && op->column->packet_rank != FB_NO_RANK) continue;
        fb_op last = *op;
        last.target.rank = FB_NO_RANK; /* all sources of the outer record have priority */
        if (op->column->flags & FB_COLUMN_REPEATED) {
            if (!op->again)
                inner->at = put_each(inner->c, inner->emitter, inner->at, &last, compiled, record,
                                     locations);
            continue;
        }
        if (op->code == FB_OP_AGAIN) {
            inner->at = put_field_again(inner->c, inner->emitter, inner->at, &last, compiled,
                                        record, locations);
            continue;
        }
        fb_bytes field = fb_compiled_template_field(compiled, op->field, record, locations);
        inner->at =
            put_field(inner->c, inner->emitter, inner->at, last.target, field.data, field.size);
    }
    inner->c->counters->status[FB_LIST_ELEMENT_IGNORED] += compiled->unused;
}

/* Find a template of the domain, or a temporary one of this datagram. NULL: unknown. */
FB_INLINE fb_template *find_template(const fb_context *c, uint16_t id) {
    fb_template *template = c->domain ? fb_domain_find_template(c->domain, id) : NULL;
    if (FB_LIKELY(template != NULL) || !c->exporters->temporary) return template;
    return fb_domain_find_template(c->exporters->temporary, id);
}

/* Read the records of [p, end). */
static void read_inner_records(fb_inner_records *inner, unsigned id, const uint8_t *p,
                               const uint8_t *end, unsigned depth) {
    fb_context *c = inner->c;
    if (p == end) return;
    const fb_template *template = find_template(c, (uint16_t)id);
    if (!template || template->compiled->options) {
        fb_context_count(c, FB_LIST_TEMPLATE_MISSING, p);
        return;
    }
    const fb_compiled_template *compiled = template->compiled;
    const fb_compiled_templates *compiled_templates = c->exporters->compiled_templates;
    fb_location *locations =
        compiled->variable_count
            ? compiled_templates->locations + (depth + 1) * compiled_templates->location_capacity
            : NULL;
    for (const uint8_t *next; (size_t)(end - p) >= compiled->record_size; p = next) {
        next = locations ? fb_compiled_template_locate(compiled, p, end, locations)
                         : p + compiled->record_size;
        if (!next) break;
        put_inner_record(inner, compiled, p, locations);
        if (compiled->list_count) read_inner_lists(inner, compiled, p, locations, depth + 1);
    }
    if (p < end) fb_context_count(c, FB_BAD_LIST, p);
}

static void read_multi_list(fb_inner_records *inner, const uint8_t *p, const uint8_t *end,
                            unsigned depth) {
    for (const uint8_t *next; p < end; p = next) {
        size_t left = (size_t)(end - p),
               length = left < MULTI_LIST_PART_HEAD ? 0 : fb_load16(p + 2);
        if (length < MULTI_LIST_PART_HEAD || length > left)
            fb_context_count(inner->c, FB_BAD_LIST, p);
        if (length < MULTI_LIST_PART_HEAD) return;
        next = length > left ? end : p + length;
        read_inner_records(inner, fb_load16(p), p + MULTI_LIST_PART_HEAD, next, depth);
    }
}

/* Put a value into a column of one of its sources. */
static void put_inner_value(fb_inner_records *inner, fb_target target, fb_bytes value) {
    const fb_column *column = &inner->c->plan->columns[target.column];
    target.rank = FB_NO_RANK;
    target.zero = (column->flags & FB_COLUMN_ZERO) != 0;
    if (!(column->flags & FB_COLUMN_REPEATED)) {
        inner->at = put_field(inner->c, inner->emitter, inner->at, target, value.data, value.size);
        return;
    }
    if (!value.size || !FB_EMIT(accepts)(inner->emitter, inner->at, target)) return;
    inner->at =
        target.kind == FB_KIND_LIST
            ? put_members(inner->c, inner->emitter, inner->at, target, value)
            : put_field(inner->c, inner->emitter, inner->at, target, value.data, value.size);
}

/* Put a member of a basicList into the columns of its element. `elements` are sorted by column. A
   column takes the member once. */
static void put_inner_member(fb_inner_records *inner, const fb_plan_element *elements, size_t count,
                             fb_bytes member) {
    uint16_t filled = FB_NO_COLUMN;
    for (size_t i = 0; i < count; i++) {
        const fb_target target = elements[i].target;
        const fb_column *column = &inner->c->plan->columns[target.column];
        bool only = elements[i].occurrence <= 1 || elements[i].occurrence == FB_LAST_OCCURRENCE;
        if (!only || target.column == filled || !(column->flags & FB_COLUMN_ENABLED)) continue;
        if (inner->tunnel && column->packet_rank != FB_NO_RANK) continue;
        filled = target.column;
        put_inner_value(inner, target, member);
    }
}

/* Return true if an enabled column takes an element, or if it is padding. */
static bool is_expected(const fb_plan *plan, const fb_list *list, const fb_plan_element *elements,
                        size_t count) {
    bool taken = !list->pen && list->id == FB_ID_PADDING;
    for (size_t i = 0; i < count; i++)
        taken |= (plan->columns[elements[i].target.column].flags & FB_COLUMN_ENABLED) != 0;
    return taken;
}

static void read_inner_basic_list(fb_inner_records *inner, fb_bytes field, unsigned depth) {
    fb_context *c = inner->c;
    fb_list list;
    fb_bytes member;
    size_t count;
    if (!read_list(field, &list)) {
        fb_context_count(c, FB_BAD_LIST, field.data);
        return;
    }
    const fb_plan_element *elements = fb_plan_find_elements(c->plan, list.pen, list.id, &count);
    bool expected = is_expected(c->plan, &list, elements, count),
         lists = fb_field_is_opened(c->plan, &(fb_field){.pen = list.pen, .id = list.id});
    while (list.p < list.end) {
        if (!next_member(&list, &member)) {
            fb_context_count(c, FB_BAD_LIST, list.p);
            return;
        }
        if (lists && member.size) read_inner_list(inner, member, list.id, depth + 1);
        if (lists) continue;
        put_inner_member(inner, elements, count, member);
        c->counters->status[FB_LIST_ELEMENT_IGNORED] += !expected;
    }
}

/* Read a list: a basicList, or a list of records. REQUIRES: it has bytes. */
static void read_inner_list(fb_inner_records *inner, fb_bytes field, uint32_t id, unsigned depth) {
    const uint8_t *p = field.data, *end = p + field.size;
    bool basic = id == FB_ID_BASIC_LIST, multi = id == FB_ID_SUB_TEMPLATE_MULTI_LIST;
    if (depth == FB_LIST_DEPTH || (!multi && !basic && field.size < SUB_LIST_HEAD))
        fb_context_count(inner->c, FB_BAD_LIST, p);
    else if (*p == LIST_NONE_OF) fb_context_count(inner->c, FB_OPAQUE_VALUE, p);
    else if (basic) read_inner_basic_list(inner, field, depth);
    else if (multi) read_multi_list(inner, p + MULTI_LIST_HEAD, end, depth);
    else read_inner_records(inner, fb_load16(p + 1), p + SUB_LIST_HEAD, end, depth);
}

static void read_inner_lists(fb_inner_records *inner, const fb_compiled_template *compiled,
                             const uint8_t *record, const fb_location *locations, unsigned depth) {
    for (size_t i = 0; i < compiled->list_count; i++) {
        uint16_t index = compiled->lists[i];
        fb_bytes field = fb_compiled_template_field(compiled, index, record, locations);
        if (field.size) read_inner_list(inner, field, compiled->fields[index].id, depth);
    }
}

/* Put the lists of a record, after its other fields. */
FB_NOINLINE static fb_cursor put_sub_templates(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                               const fb_compiled_template *compiled,
                                               const uint8_t *record, const fb_location *locations,
                                               bool tunnel) {
    const fb_plan *plan = c->plan;
    fb_inner_records inner = {c, emitter, at, tunnel};
    for (size_t i = 0; plan->collects && i < plan->column_count; i++)
        if (plan->columns[i].flags & FB_COLUMN_REPEATED)
            FB_EMIT(open)(emitter, &inner.at, (uint16_t)i);
    read_inner_lists(&inner, compiled, record, locations, 0);
    for (size_t i = 0; plan->collects && i < plan->column_count; i++)
        if (plan->columns[i].flags & FB_COLUMN_REPEATED)
            FB_EMIT(close)(emitter, &inner.at, (uint16_t)i);
    return inner.at;
}

#endif
