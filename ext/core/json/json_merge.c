/* Messages may have their fields in any order, in several parts, and several times. Fields that are
   out of order are collected, sorted and written again. The encodings of the parts of a message are
   joined, which merges them. */
#include "core/json/json_merge.h"

#include "core/codec/codec_write.h"

#include <stdlib.h>

typedef struct {
    const fb_codec_field *field; /* NULL: another value replaces this one */
    const uint8_t *begin, *end;  /* with its tag */
    fb_bytes content;            /* of a message or group */
} occurrence;

typedef struct {
    occurrence *all;
    size_t count;
} occurrences;

static bool is_message(const fb_codec_field *field) {
    return field->type == FB_PROTO_MESSAGE || field->type == FB_PROTO_GROUP;
}

/* Check the syntax of all fields. *sorted becomes true if they are in order. */
static fb_status scan(fb_codec_reader *fields, bool *sorted, size_t *count, size_t *unknown) {
    const fb_codec_field *last = NULL;
    fb_codec_item item;
    fb_status status;
    uint64_t oneofs = 0;
    *sorted = true;
    *count = *unknown = 0;
    while ((status = fb_codec_next(fields, &item)) == FB_OK) {
        const fb_codec_field *field = item.field;
        *unknown += !field;
        if (!field) continue;
        ++*count;
        if (last && (field < last || (field == last && !field->repeated))) *sorted = false;
        last = field;
        if (!field->oneof) continue;
        const uint64_t bit = UINT64_C(1) << (field->oneof & 63);
        if (oneofs & bit) *sorted = false;
        oneofs |= bit;
    }
    return status;
}

/* `count` is a limit, because another thread may change the message. */
static void collect(occurrences *found, size_t count, const fb_json_type *type, fb_bytes message,
                    size_t depth) {
    fb_codec_reader fields;
    fb_codec_item item;
    fb_codec_reader_begin(&fields, &type->core, message);
    fields.depth = depth;
    const uint8_t *begin = fields.p;
    for (; fb_codec_next(&fields, &item) == FB_OK; begin = fields.p) {
        if (!item.field || found->count == count) continue;
        fb_bytes content = is_message(item.field) ? item.bytes : (fb_bytes){NULL, 0};
        found->all[found->count++] = (occurrence){item.field, begin, fields.p, content};
    }
}

typedef struct {
    const fb_codec_field *last; /* its last member in the message; NULL: none yet */
    bool closed;                /* another member comes before it */
} choice;

/* Keep only the last member of each oneof, and those parts of it that follow all other members. */
static fb_status choose(occurrences *found, const fb_json_type *type) {
    if (!type->oneofs) return FB_OK;
    choice *choices = calloc(type->oneofs, sizeof *choices);
    if (!choices) return FB_NO_MEMORY;
    for (size_t i = found->count; i--;) {
        occurrence *each = found->all + i;
        if (!each->field->oneof) continue;
        choice *of = choices + each->field->oneof - 1;
        if (!of->last) of->last = each->field;
        if (of->last != each->field) of->closed = true;
        if (of->closed) each->field = NULL;
    }
    free(choices);
    return FB_OK;
}

static int compare(const void *one, const void *other) {
    const occurrence *a = one, *b = other;
    if (a->field != b->field) return a->field < b->field ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Write the parts of a message as one. */
static uint8_t *put_parts(uint8_t *p, const occurrence *parts, size_t count) {
    const fb_codec_field *field = parts->field;
    const bool group = field->type == FB_PROTO_GROUP;
    size_t size = 0;
    for (size_t i = 0; i < count; i++) size += parts[i].content.size;
    p = group ? fb_codec_put_tag(p, field) : fb_codec_put_length(p, field, size);
    for (size_t i = 0; i < count; i++)
        p = fb_wire_put_bytes(p, parts[i].content.data, parts[i].content.size);
    return group ? fb_codec_put_end_group(p, field) : p;
}

static fb_status put_field(fb_buffer *copy, const occurrence *values, size_t count) {
    const fb_codec_field *field = values->field;
    const bool joined = !field->repeated && count > 1 && is_message(field);
    size_t size = 2 * FB_CODEC_ROOM;
    if (!field->repeated && !joined) { /* the last one counts */
        values += count - 1;
        count = 1;
    }
    for (size_t i = 0; i < count; i++) size += (size_t)(values[i].end - values[i].begin);
    if (fb_buffer_reserve(copy, size) != FB_OK) return FB_NO_MEMORY;
    if (joined) {
        copy->p = put_parts(copy->p, values, count);
        return FB_OK;
    }
    for (size_t i = 0; i < count; i++)
        copy->p =
            fb_wire_put_bytes(copy->p, values[i].begin, (size_t)(values[i].end - values[i].begin));
    return FB_OK;
}

static fb_status copy_sorted(occurrences *found, const fb_json_type *type, fb_buffer *copy) {
    size_t kept = 0;
    if (choose(found, type) != FB_OK) return FB_NO_MEMORY;
    for (size_t i = 0; i < found->count; i++)
        if (found->all[i].field) found->all[kept++] = found->all[i];
    qsort(found->all, kept, sizeof *found->all, compare);
    for (size_t i = 0, end; i < kept; i = end) {
        for (end = i + 1; end < kept && found->all[end].field == found->all[i].field;) end++;
        if (put_field(copy, found->all + i, end - i) != FB_OK) return FB_NO_MEMORY;
    }
    return FB_OK;
}

fb_status fb_json_order(const fb_json_type *type, fb_bytes message, size_t depth,
                        fb_json_ordered *ordered, const uint8_t **where, const char **problem) {
    fb_codec_reader fields;
    const fb_codec_field *field;
    bool sorted;
    size_t count, unknown;
    *ordered = (fb_json_ordered){.bytes = message};
    fb_codec_reader_begin(&fields, &type->core, message);
    fields.depth = depth;
    if (scan(&fields, &sorted, &count, &unknown) != FB_END) {
        *where = fields.p;
        *problem = fb_codec_problem(&fields, &field);
        return FB_BAD_MESSAGE;
    }
    if (sorted) return FB_OK;
    occurrences found = {calloc(count, sizeof *found.all), 0};
    if (!found.all) return FB_NO_MEMORY;
    collect(&found, count, type, message, depth);
    fb_status status = copy_sorted(&found, type, &ordered->copy);
    free(found.all);
    if (status != FB_OK) {
        fb_json_ordered_free(ordered);
        return status;
    }
    ordered->unknown = unknown;
    ordered->bytes = (fb_bytes){ordered->copy.begin, fb_buffer_size(&ordered->copy)};
    return FB_OK;
}
