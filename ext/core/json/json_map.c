#include "core/json/json_map.h"

#include "core/base/buffer.h"

#include <stdlib.h>

fb_status fb_json_entries_add(fb_json_entries *entries, const fb_json_type *type, fb_bytes bytes,
                              size_t depth, const uint8_t **where, const char **problem) {
    fb_json_entry entry = {.bytes = bytes, .text = {fb_end_of(bytes), 0}};
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

static int compare_texts(fb_bytes a, fb_bytes b) {
    const size_t common = a.size < b.size ? a.size : b.size;
    const int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* Compare two entries by their keys. The context is the field of the key. */
static int compare(const void *context, const void *one, const void *other) {
    const fb_codec_field *key = context;
    const fb_json_entry *a = one, *b = other;
    if (key->type == FB_PROTO_STRING) return compare_texts(a->text, b->text);
    if (key->type == FB_PROTO_UINT64 || key->type == FB_PROTO_FIXED64)
        return (a->number > b->number) - (a->number < b->number);
    return ((int64_t)a->number > (int64_t)b->number) - ((int64_t)a->number < (int64_t)b->number);
}

fb_status fb_json_entries_sort(fb_json_entries *entries, const fb_codec_field *key) {
    fb_json_entry *all = entries->all;
    size_t kept = 0;
    if (fb_stable_sort(all, entries->count, sizeof *all, compare, key) != FB_OK)
        return FB_NO_MEMORY;
    for (size_t i = 0; i < entries->count; i++)
        if (i + 1 == entries->count || compare(key, all + i, all + i + 1)) all[kept++] = all[i];
    entries->count = kept;
    return FB_OK;
}

void fb_json_entries_free(fb_json_entries *entries) {
    free(entries->all);
}
