/* Output buffers come from the C library. */
#include "core/base/buffer.h"

#include <stdlib.h>

size_t fb_grown_capacity(size_t capacity, size_t used, size_t more) {
    if (used > PTRDIFF_MAX || more > PTRDIFF_MAX - used) return 0;
    size_t twice = capacity > PTRDIFF_MAX / 2 ? PTRDIFF_MAX : 2 * capacity;
    return twice > used + more ? twice : used + more;
}

fb_status fb_buffer_grow(fb_buffer *buffer, size_t more) {
    size_t used = buffer->begin ? fb_buffer_size(buffer) : 0;
    size_t capacity = buffer->begin ? (size_t)(buffer->end - buffer->begin) : 0;
    size_t size = fb_grown_capacity(capacity, used, more);
    uint8_t *begin = size ? realloc(buffer->begin, size) : NULL;
    if (!begin) return FB_NO_MEMORY;
    *buffer = (fb_buffer){begin, begin + used, begin + size};
    return FB_OK;
}

fb_status fb_array_grow(void **array, size_t *capacity, size_t count, size_t item_size,
                        size_t first) {
    if (count < *capacity) return FB_OK;
    const size_t more = count ? item_size : first * item_size;
    const size_t size = fb_grown_capacity(*capacity * item_size, count * item_size, more);
    void *grown = size ? realloc(*array, size) : NULL;
    if (!grown) return FB_NO_MEMORY;
    *array = grown;
    *capacity = size / item_size;
    return FB_OK;
}

typedef struct {
    size_t item_size;
    fb_compare *compare;
    const void *context;
} order;

/* A merge sort. `from` and `to` have the same items; `to` is sorted. */
static void merge(const order *by, uint8_t *from, uint8_t *to, size_t count) {
    if (count < 2) return;
    const size_t size = by->item_size, half = count / 2;
    const uint8_t *left = from, *middle = from + half * size, *right = middle,
                  *end = from + count * size;
    merge(by, to, from, half);
    merge(by, to + half * size, from + half * size, count - half);
    for (; left < middle || right < end; to += size) {
        const bool take_left =
            right == end || (left < middle && by->compare(by->context, left, right) <= 0);
        memcpy(to, take_left ? left : right, size);
        *(take_left ? &left : &right) += size;
    }
}

fb_status fb_stable_sort(void *items, size_t count, size_t item_size, fb_compare *compare,
                         const void *context) {
    const order by = {item_size, compare, context};
    if (count < 2) return FB_OK;
    void *copy = calloc(count, item_size);
    if (!copy) return FB_NO_MEMORY;
    memcpy(copy, items, count * item_size);
    merge(&by, copy, items, count);
    free(copy);
    return FB_OK;
}

void fb_buffer_free(fb_buffer *buffer) {
    free(buffer->begin);
    *buffer = (fb_buffer){NULL, NULL, NULL};
}
