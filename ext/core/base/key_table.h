/* Numbers keys in the order of their first use, from 0. The caller keeps its data in an array with
   these indexes. */
#ifndef FB_BASE_KEY_TABLE_H
#define FB_BASE_KEY_TABLE_H

#include "core/base/base.h"

/* Initialize with zeros, except for `memory`, `seed` and `size`. */
typedef struct {
    fb_memory *memory;
    uint64_t seed; /* of the hash: keys come from the network and may be hostile */
    size_t size;   /* bytes of a key, a multiple of 8 */
    uint8_t *keys;
    uint32_t *slots; /* index + 1; 0: empty */
    uint32_t count;
    /* a power of two, at least twice `count`; half of it is the room of keys */
    uint32_t slot_count;
} fb_key_table;

/* Find the index of a key; a new key has the index `count` before the call. OK. NO_MEMORY: the
   table is unchanged. */
fb_status fb_key_table_get(fb_key_table *table, const void *key, uint32_t *index);
/* Find the indexes of `count` keys, which follow each other in memory. OK. NO_MEMORY: some of the
   keys are in the table. */
fb_status fb_key_table_get_many(fb_key_table *table, const void *keys, size_t count,
                                uint32_t *indexes);
/* Return a key. REQUIRES: index < count. The result is valid until the next key is added. */
FB_INLINE const uint8_t *fb_key_table_key(const fb_key_table *table, uint32_t index) {
    return table->keys + table->size * index;
}
/* Free the memory. The table is empty afterwards. */
void fb_key_table_free(fb_key_table *table);

#endif
