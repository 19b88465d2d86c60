/* Arrays whose things stay where they are, with their order beside them. A new one then moves two bytes for each of those
   that it comes before, and not these themselves: who sends keys in falling order makes little work. */
#ifndef FB_MAP_H
#define FB_MAP_H

#include "core/base/base.h"

/* The bytes of an array of things of a size, and of their order, which stands behind it. */
FB_INLINE size_t fb_order_size(uint32_t capacity, size_t size) {
    return capacity * (size + sizeof(uint16_t));
}

/* Doubles the room in an array and its order. False: no memory; what was there is still good. */
bool fb_order_double(fb_memory *memory, void **array, uint16_t **order, size_t size, uint32_t *capacity);
/* Enters the last of `count` things into their order, at i. */
void fb_order_enter(uint16_t *order, uint32_t i, uint32_t count);

/* A map from numbers to numbers or pointers, of a few thousand at the most, found by halving. */
typedef struct {
    uint64_t key;
    union {
        uint64_t number;
        void *pointer;
    };
} fb_map_entry;

typedef struct {
    fb_map_entry *entries; /* in the order in which they came */
    uint16_t *order;       /* their places, sorted by key: small, because each new entry moves those behind it */
    uint32_t count;
    uint32_t capacity;
} fb_map;

fb_map_entry *fb_map_find(const fb_map *map, uint64_t key);
/* The entry of a key, made (with a value of zero) where there is none. NULL: no memory. */
fb_map_entry *fb_map_insert(fb_map *map, fb_memory *memory, uint64_t key);
/* Removes an entry; another one takes its place. REQUIRES: it is there. */
void fb_map_remove(fb_map *map, uint64_t key);
void fb_map_free(fb_map *map, fb_memory *memory);

#endif
