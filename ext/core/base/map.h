/* Arrays with a separate sort order. Entries never move within the array. Inserting one moves two
   bytes for each entry that sorts after it, not the entries, so keys in falling order stay
   cheap. */
#ifndef FB_BASE_MAP_H
#define FB_BASE_MAP_H

#include "core/base/base.h"

/* Return the bytes of an array of entries of `size` bytes, followed by its order. */
FB_INLINE size_t fb_order_size(uint32_t capacity, size_t size) {
    return capacity * (size + sizeof(uint16_t));
}

/* Double the capacity of an array and its order. Return false if memory is short; the array is then
   unchanged. */
bool fb_order_double(fb_memory *memory, void **array, uint16_t **order, size_t size,
                     uint32_t *capacity);
/* Insert the last of `count` entries into the order, at position i. */
void fb_order_enter(uint16_t *order, uint32_t i, uint32_t count);

/* A map from numbers to numbers or pointers, for at most a few thousand entries. Lookup is a binary
   search. */
typedef struct {
    uint64_t key;
    union {
        uint64_t number;
        void *pointer;
    };
} fb_map_entry;

typedef struct {
    fb_map_entry *entries; /* in the order of insertion */
    /* indexes of entries, sorted by key; small, because an insertion moves those after it */
    uint16_t *order;
    uint32_t count;
    uint32_t capacity;
} fb_map;

/* Return the entry of a key; NULL: it is not in the map. */
fb_map_entry *fb_map_find(const fb_map *map, uint64_t key);
/* Return the entry of a key. Create it with the value 0 if it is missing. NULL: no memory. */
fb_map_entry *fb_map_insert(fb_map *map, fb_memory *memory, uint64_t key);
/* Remove an entry; the last entry takes its place. REQUIRES: the key is in the map. */
void fb_map_remove(fb_map *map, uint64_t key);
void fb_map_free(fb_map *map, fb_memory *memory);

#endif
