/* The names of the members of an enum as an Arrow array of texts. All batches of a type share it,
   so that a batch of few rows does not repeat the names of large enums. */
#ifndef FB_NESTED_NESTED_NAMES_H
#define FB_NESTED_NESTED_NAMES_H

#include <stdatomic.h>

#include "core/arrow/arrow.h"

typedef struct {
    atomic_size_t references;
    fb_memory memory;
    size_t size; /* of this struct with the tables behind it */
    size_t count;
    uint32_t *numbers; /* of the members, ascending */
    int32_t *offsets;
    uint8_t *bytes;
} fb_nested_names;

/* Create the names of members, whose numbers are ascending. NO_MEMORY: also if they have more than
   INT32_MAX bytes. */
fb_status fb_nested_names_new(fb_nested_names **names, const fb_member *members, size_t count,
                              fb_memory memory);
/* Add a reference. Each is released once, from any thread. */
fb_nested_names *fb_nested_names_share(fb_nested_names *names);
void fb_nested_names_release(fb_nested_names *names);

/* Return the index of a number among sorted ones, or `count`. */
size_t fb_nested_search_number(const uint32_t *numbers, size_t count, uint32_t number);
/* The same, faster for the numbers from 0 on without gaps. */
FB_INLINE size_t fb_nested_find_number(const uint32_t *numbers, size_t count, uint32_t number) {
    if (FB_LIKELY(number < count && numbers[number] == number)) return number;
    return fb_nested_search_number(numbers, count, number);
}

#endif
