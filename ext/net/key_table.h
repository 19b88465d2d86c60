/* Numbers keys in the order of their first use, from 0. The caller keeps its data in an array with
   these indexes. */
#ifndef FB_NET_KEY_TABLE_H
#define FB_NET_KEY_TABLE_H

#include "core/base/base.h"

typedef struct {
    uint64_t words[4];
} fb_key;

/* Initialize with zeros, except for `memory` and `seed`. */
typedef struct {
    fb_memory *memory;
    uint64_t seed; /* of the hash: keys come from the network and may be hostile */
    fb_key *keys;
    uint32_t *slots; /* index + 1; 0: empty */
    uint32_t count;
    uint32_t
        slot_count; /* a power of two, at least twice `count`; half of it is the room of keys */
} fb_key_table;

/* Find the index of a key; a new key has the index `count` before the call. OK. NO_MEMORY: the
   table is unchanged. */
fb_status fb_key_table_get(fb_key_table *table, const fb_key *key, uint32_t *index);
void fb_key_table_free(fb_key_table *table);

#endif
