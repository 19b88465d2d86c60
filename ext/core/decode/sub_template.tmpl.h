/* subTemplateList and subTemplateMultiList (RFC 6313 sections 4.5.2 and 4.5.3): records inside a
   record. YAF sends both.

     0          1                3
     ├──────────┼────────────────┼────────┬────────┬──
     │ semantic │ template id    │ record │ record │ …        subTemplateList
     ├──────────┼────────────────┼────────┴────┬───┴────┬──
     │ semantic │ template id    │ length      │ record │ …   subTemplateMultiList
     ├──────────┴────────────────┴─────────────┴────────┴──
                └ repeated; the length counts from here

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

/* Put one inner record. A repeated column takes only the best of its sources from it. */
static void put_inner_record(fb_inner_records *inner, const fb_compiled_template *compiled,
                             const uint8_t *record, const fb_location *locations) {
    for (const fb_op *op = compiled->ops, *end = op + compiled->op_count; op < end; op++) {
        if (op->field == FB_NO_FIELD || fb_field_is_sub_template(&compiled->fields[op->field]))
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

static void read_inner_list(fb_inner_records *inner, fb_bytes field, bool multi, unsigned depth) {
    const uint8_t *p = field.data, *end = p + field.size;
    if (depth == FB_LIST_DEPTH || (!multi && field.size < SUB_LIST_HEAD))
        fb_context_count(inner->c, FB_BAD_LIST, p);
    else if (*p == LIST_NONE_OF) fb_context_count(inner->c, FB_OPAQUE_VALUE, p);
    else if (multi) read_multi_list(inner, p + MULTI_LIST_HEAD, end, depth);
    else read_inner_records(inner, fb_load16(p + 1), p + SUB_LIST_HEAD, end, depth);
}

static void read_inner_lists(fb_inner_records *inner, const fb_compiled_template *compiled,
                             const uint8_t *record, const fb_location *locations, unsigned depth) {
    for (size_t i = 0; i < compiled->list_count; i++) {
        uint16_t index = compiled->lists[i];
        fb_bytes field = fb_compiled_template_field(compiled, index, record, locations);
        bool multi = compiled->fields[index].id == FB_ID_SUB_TEMPLATE_MULTI_LIST;
        if (field.size) read_inner_list(inner, field, multi, depth);
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
