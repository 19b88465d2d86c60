#include "core/json/json_order.h"

#include <stdlib.h>

enum { FIRST = 32 }; /* room for so many chunks, to begin with */

fb_status fb_json_chunks_push(fb_json_chunks *chunks, fb_json_chunk chunk) {
    void *all = chunks->all;
    if (fb_array_grow(&all, &chunks->capacity, chunks->count, sizeof chunk, FIRST) != FB_OK)
        return FB_NO_MEMORY;
    chunks->all = all;
    chunks->all[chunks->count++] = chunk;
    return FB_OK;
}

void fb_json_chunks_free(fb_json_chunks *chunks) {
    free(chunks->all);
}

/* Compare fields by their numbers, and entries in the order of google.protobuf's deterministic
   output: of two texts of which one is a prefix of the other, the longer one comes first. Numbers
   are descending, with negative ones before the others. */
static int compare(const void *context, const void *one, const void *other) {
    const uint8_t *output = context;
    const fb_json_chunk *a = one, *b = other;
    if (a->field != b->field) return a->field < b->field ? -1 : 1;
    if (a->number != b->number) return a->number > b->number ? -1 : 1;
    const size_t common = a->text_size < b->text_size ? a->text_size : b->text_size;
    const int order = common ? memcmp(output + a->text, output + b->text, common) : 0;
    return order ? order : (a->text_size < b->text_size) - (a->text_size > b->text_size);
}

static fb_status move_bytes(const fb_json_chunk *chunks, size_t count, fb_buffer *output,
                            size_t begin) {
    const size_t size = fb_buffer_size(output) - begin;
    fb_buffer copy = {NULL, NULL, NULL};
    uint8_t *p = output->begin + begin;
    if (!size) return FB_OK;
    if (fb_buffer_reserve(&copy, size) != FB_OK) return FB_NO_MEMORY;
    memcpy(copy.p, p, size);
    for (size_t i = 0; i < count; i++) {
        const size_t length = chunks[i].end - chunks[i].begin;
        if (length) memcpy(p, copy.p + (chunks[i].begin - begin), length);
        p += length;
    }
    assert(p == output->p);
    fb_buffer_free(&copy);
    return FB_OK;
}

fb_status fb_json_chunks_order(fb_json_chunks *chunks, size_t base, fb_buffer *output,
                               const fb_json_chunk **twice) {
    const size_t count = chunks->count - base;
    fb_json_chunk *all = count ? chunks->all + base : NULL;
    bool sorted = true;
    *twice = NULL;
    for (size_t i = 1; i < count && sorted; i++)
        sorted = compare(output->begin, all + i - 1, all + i) < 0;
    if (sorted) return FB_OK;
    const size_t begin = all->begin;
    if (fb_stable_sort(all, count, sizeof *all, compare, output->begin) != FB_OK)
        return FB_NO_MEMORY;
    for (size_t i = 1; i < count && !*twice; i++)
        if (!compare(output->begin, all + i - 1, all + i)) *twice = all + i;
    return *twice ? FB_OK : move_bytes(all, count, output, begin);
}
