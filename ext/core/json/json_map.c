#include "core/json/json_map.h"

#include "core/base/buffer.h"

#include <stdlib.h>

fb_status fb_json_entries_add(fb_json_entries *entries, const fb_json_type *type, fb_bytes bytes,
                              size_t depth, const uint8_t **where, const char **problem) {
    fb_json_entry entry = {.bytes = bytes, .text = {fb_end_of(bytes), 0}, .place = entries->count};
    const fb_codec_field *field;
    fb_codec_reader fields;
    fb_codec_item item;
    fb_status status;
    fb_codec_reader_begin(&fields, &type->core, bytes);
    fields.depth = depth;
    while ((status = fb_codec_next(&fields, &item)) == FB_OK) {
        if (item.field != type->core.fields) continue;
        if (item.field->type == FB_PROTO_STRING) entry.text = item.bytes;
        else entry.number = item.value;
    }
    if (status != FB_END) {
        *where = fields.p;
        *problem = fb_codec_problem(&fields, &field);
        return status;
    }
    if (fb_codec_is_unknown_entry(&type->core, bytes, false)) {
        entries->unknown++;
        return FB_OK;
    }
    void *all = entries->all;
    if (fb_array_grow(&all, &entries->capacity, entries->count, sizeof entry, 4) != FB_OK)
        return FB_NO_MEMORY;
    entries->all = all;
    entries->all[entries->count++] = entry;
    return FB_OK;
}

static int compare_texts(const fb_json_entry *one, const fb_json_entry *other) {
    const fb_bytes a = one->text, b = other->text;
    const size_t common = a.size < b.size ? a.size : b.size;
    const int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int order_texts(const void *one, const void *other) {
    const fb_json_entry *a = one, *b = other;
    const int order = compare_texts(a, b);
    return order ? order : (a->place > b->place) - (a->place < b->place);
}

static int order_unsigned(const void *one, const void *other) {
    const fb_json_entry *a = one, *b = other;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static int order_signed(const void *one, const void *other) {
    const fb_json_entry *a = one, *b = other;
    if (a->number != b->number) return (int64_t)a->number < (int64_t)b->number ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

void fb_json_entries_sort(fb_json_entries *entries, const fb_codec_field *key) {
    const bool of_texts = key->type == FB_PROTO_STRING;
    const bool unsign = key->type == FB_PROTO_UINT64 || key->type == FB_PROTO_FIXED64;
    fb_json_entry *all = entries->all;
    size_t kept = 0;
    if (entries->count < 2) return;
    int (*order)(const void *, const void *) = unsign ? order_unsigned : order_signed;
    qsort(all, entries->count, sizeof *all, of_texts ? order_texts : order);
    for (size_t i = 0; i < entries->count; i++) {
        const bool again =
            i + 1 < entries->count &&
            (of_texts ? !compare_texts(all + i, all + i + 1) : all[i].number == all[i + 1].number);
        if (!again) all[kept++] = all[i];
    }
    entries->count = kept;
}

void fb_json_entries_free(fb_json_entries *entries) {
    free(entries->all);
}
