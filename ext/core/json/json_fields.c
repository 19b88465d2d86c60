/* Messages may have their fields in any order, in several parts, and several times. Fields that are
   out of order are collected and sorted. Their values stay where they are. */
#include "core/json/json_fields.h"

#include "core/base/buffer.h"

#include <stdlib.h>

/* Begin with a part of a message. */
static void begin_part(fb_codec_reader *reader, const fb_json_type *type, fb_bytes part,
                       size_t depth) {
    fb_codec_reader_begin(reader, &type->core, part);
    reader->depth = depth;
}

/* Check the syntax of all fields, and count the known ones. *in_order becomes false if the fields
   are not in order. */
static fb_status scan(fb_codec_reader *reader, bool *in_order, size_t *count) {
    const fb_codec_field *last = NULL;
    fb_codec_item item;
    fb_status status;
    uint64_t oneofs = 0;
    while ((status = fb_codec_next(reader, &item)) == FB_OK) {
        const fb_codec_field *field = item.field;
        if (!field) continue;
        ++*count;
        if (last && (field < last || (field == last && !field->repeated))) *in_order = false;
        last = field;
        if (!field->oneof) continue;
        const uint64_t bit = UINT64_C(1) << (field->oneof & 63);
        if (oneofs & bit) *in_order = false;
        oneofs |= bit;
    }
    return status;
}

/* Collect the fields. `count` is a limit, because another thread may change the message. */
static void collect(fb_json_fields *fields, const fb_json_type *type, fb_json_message message,
                    size_t depth, size_t count) {
    fb_codec_item item;
    for (size_t i = 0; i < message.count; i++) {
        begin_part(&fields->reader, type, message.parts[i].bytes, depth);
        while (fb_codec_next(&fields->reader, &item) == FB_OK) {
            fields->unknown += !item.field;
            if (!item.field || fields->sorted_count == count) continue;
            fields->sorted[fields->sorted_count++] = item;
        }
    }
}

typedef struct {
    const fb_codec_field *last; /* its last member in the message; NULL: none yet */
    bool closed;                /* another member comes before it */
} choice;

/* Drop all but the last member of each oneof, and those parts of it that precede other members. */
static fb_status choose(fb_json_fields *fields, const fb_json_type *type) {
    if (!type->oneofs) return FB_OK;
    choice *choices = calloc(type->oneofs, sizeof *choices);
    if (!choices) return FB_NO_MEMORY;
    for (size_t i = fields->sorted_count; i--;) {
        fb_codec_item *item = fields->sorted + i;
        if (!item->field->oneof) continue;
        choice *of = choices + item->field->oneof - 1;
        if (!of->last) of->last = item->field;
        if (of->last != item->field) of->closed = true;
        if (of->closed) item->field = NULL;
    }
    free(choices);
    return FB_OK;
}

/* Items of one field stay in their order, which is that of their bytes, or of the parts. */
static int compare(const void *context, const void *one, const void *other) {
    const fb_codec_item *a = one, *b = other;
    (void)context;
    return (a->field > b->field) - (a->field < b->field);
}

static fb_status sort(fb_json_fields *fields) {
    fb_codec_item *all = fields->sorted;
    size_t kept = 0;
    for (size_t i = 0; i < fields->sorted_count; i++)
        if (all[i].field) all[kept++] = all[i];
    fields->sorted_count = kept;
    return fb_stable_sort(all, kept, sizeof *all, compare, NULL);
}

fb_status fb_json_fields_begin(fb_json_fields *fields, const fb_json_type *type,
                               fb_json_message message, size_t depth, bool checked,
                               const uint8_t **where, const char **problem) {
    bool in_order = message.count == 1;
    size_t count = 0;
    fields->count = 1;
    fields->unknown = fields->sorted_count = fields->next = 0;
    fields->sorted = NULL;
    for (size_t i = 0; i < message.count && !(checked && in_order); i++) {
        begin_part(&fields->reader, type, message.parts[i].bytes, depth);
        if (scan(&fields->reader, &in_order, &count) == FB_END) continue;
        const fb_codec_field *field;
        *where = fields->reader.p;
        *problem = fb_codec_problem(&fields->reader, &field);
        return FB_BAD_MESSAGE;
    }
    begin_part(&fields->reader, type, message.parts->bytes, depth);
    if (in_order) return FB_OK;
    fields->sorted = calloc(count + 1, sizeof *fields->sorted);
    if (!fields->sorted) return FB_NO_MEMORY;
    collect(fields, type, message, depth, count);
    if (choose(fields, type) == FB_OK && sort(fields) == FB_OK) return FB_OK;
    fb_json_fields_end(fields);
    return FB_NO_MEMORY;
}

/* Go to the next field of those that are sorted. Of a single value, only the last item counts; the
   items of a single message are its parts. */
fb_status fb_json_fields_next_sorted(fb_json_fields *fields) {
    const size_t begin = fields->next;
    if (begin == fields->sorted_count) return FB_END;
    const fb_codec_field *field = fields->sorted[begin].field;
    size_t end = begin + 1;
    while (!field->repeated && end < fields->sorted_count && fields->sorted[end].field == field)
        end++;
    fields->next = end;
    const bool parts = fb_codec_is_message(field);
    fields->item = fields->sorted + (parts ? begin : end - 1);
    fields->count = parts ? end - begin : 1;
    return FB_OK;
}

void fb_json_fields_end(fb_json_fields *fields) {
    free(fields->sorted);
    fields->sorted = NULL;
}
