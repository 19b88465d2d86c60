/* An output buffer that grows. It doubles, so that each byte is copied twice at most on average. */
#ifndef FB_BASE_BUFFER_H
#define FB_BASE_BUFFER_H

#include "core/base/base.h"

/* Zeros are an empty buffer. The owner writes at p and moves it. */
typedef struct {
    uint8_t *begin, *p, *end;
} fb_buffer;

/* Return the capacity to grow to: double, or `used` + `more` if that is larger. 0: more than an
   object may have (PTRDIFF_MAX). */
size_t fb_grown_capacity(size_t capacity, size_t used, size_t more);

/* Make room for `more` bytes at p. The contents move. NO_MEMORY: nothing changes. New bytes are
   uninitialized, and the memory counts for no budget. */
fb_status fb_buffer_grow(fb_buffer *buffer, size_t more);
/* Free the memory. The buffer is empty afterwards. */
void fb_buffer_free(fb_buffer *buffer);

/* Make room for one more item in an array of `count` items, and for `first` items in an empty one.
   *array is NULL or from this function; its owner frees it. NO_MEMORY: nothing changes. */
fb_status fb_array_grow(void **array, size_t *capacity, size_t count, size_t item_size,
                        size_t first);

/* Compare two items, as for qsort, with a context. */
typedef int fb_compare(const void *context, const void *one, const void *other);

/* Sort items. Equal ones keep their order. NO_MEMORY: nothing changes. */
fb_status fb_stable_sort(void *items, size_t count, size_t item_size, fb_compare *compare,
                         const void *context);

FB_INLINE size_t fb_buffer_size(const fb_buffer *buffer) {
    return (size_t)(buffer->p - buffer->begin);
}

FB_INLINE fb_status fb_buffer_reserve(fb_buffer *buffer, size_t size) {
    return FB_LIKELY((size_t)(buffer->end - buffer->p) >= size) ? FB_OK
                                                                : fb_buffer_grow(buffer, size);
}

#endif
