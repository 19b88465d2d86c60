/* Open addressing: the slots hold indexes, so keys never move to another index.

   Many keys are looked up in groups: first the hashes of a group, then the keys in their slots,
   then the comparisons. So the processor waits for the memory of a whole group at once. */
#include "core/base/key_table.h"

enum { FIRST_SLOTS = 16, MAX_SLOTS = 1 << 30, GROUP = 16 };

FB_INLINE uint64_t hash(const fb_key_table *table, const uint8_t *key) {
    uint64_t state = table->seed, word;
    for (size_t i = 0; i < table->size; i += 8) {
        memcpy(&word, key + i, 8);
        state = fb_hash(state, word);
    }
    return state;
}

FB_INLINE bool is_equal(const fb_key_table *table, const uint8_t *a, const uint8_t *b) {
    uint64_t different = 0, one, other;
    for (size_t i = 0; i < table->size; i += 8) {
        memcpy(&one, a + i, 8);
        memcpy(&other, b + i, 8);
        different |= one ^ other;
    }
    return !different;
}

FB_INLINE uint32_t *first_slot(const fb_key_table *table, uint64_t hashed) {
    return &table->slots[(uint32_t)hashed & (table->slot_count - 1)];
}

/* Return the slot of a key, or the empty slot where it belongs, from `slot` on. REQUIRES: a slot is
   empty. */
FB_INLINE uint32_t *find_slot(const fb_key_table *table, const uint8_t *key, uint32_t *slot) {
    uint32_t *end = table->slots + table->slot_count;
    while (*slot && !is_equal(table, fb_key_table_key(table, *slot - 1), key))
        if (++slot == end) slot = table->slots;
    return slot;
}

static size_t bytes_of_keys(const fb_key_table *table, uint32_t slot_count) {
    return slot_count / 2 * table->size;
}

static fb_status grow(fb_key_table *table) {
    uint32_t old = table->slot_count, doubled = old ? 2 * old : FIRST_SLOTS;
    if (old == MAX_SLOTS) return FB_NO_MEMORY;
    fb_memory *memory = table->memory;
    uint32_t *slots = fb_memory_allocate(memory, doubled * sizeof *slots);
    if (!slots) return FB_NO_MEMORY;
    uint8_t *keys = fb_memory_resize(memory, table->keys, bytes_of_keys(table, old),
                                     bytes_of_keys(table, doubled));
    if (!keys) {
        fb_memory_release(memory, slots, doubled * sizeof *slots);
        return FB_NO_MEMORY;
    }
    fb_memory_release(memory, table->slots, old * sizeof *slots);
    table->keys = keys;
    table->slots = slots;
    table->slot_count = doubled;
    for (uint32_t i = 0; i < table->count; i++) {
        const uint8_t *key = fb_key_table_key(table, i);
        *find_slot(table, key, first_slot(table, hash(table, key))) = i + 1;
    }
    return FB_OK;
}

/* Make room for `more` keys. */
static fb_status reserve(fb_key_table *table, uint32_t more) {
    while (table->slot_count / 2 - table->count < more)
        if (grow(table) != FB_OK) return FB_NO_MEMORY;
    return FB_OK;
}

/* REQUIRES: room for the key. */
FB_INLINE uint32_t get(fb_key_table *table, const uint8_t *key, uint32_t *first) {
    uint32_t *slot = find_slot(table, key, first);
    if (!*slot) {
        memcpy(table->keys + table->size * table->count, key, table->size);
        *slot = ++table->count;
    }
    return *slot - 1;
}

fb_status fb_key_table_get(fb_key_table *table, const void *key, uint32_t *index) {
    if (reserve(table, 1) != FB_OK) return FB_NO_MEMORY;
    *index = get(table, key, first_slot(table, hash(table, key)));
    return FB_OK;
}

/* REQUIRES: room for the keys; count <= GROUP. */
static void get_group(fb_key_table *table, const uint8_t *keys, size_t count, uint32_t *indexes) {
    uint32_t *slots[GROUP];
    for (size_t i = 0; i < count; i++) {
        slots[i] = first_slot(table, hash(table, keys + table->size * i));
        FB_PREFETCH(slots[i]);
    }
    for (size_t i = 0; i < count; i++)
        if (*slots[i]) FB_PREFETCH(fb_key_table_key(table, *slots[i] - 1));
    for (size_t i = 0; i < count; i++) indexes[i] = get(table, keys + table->size * i, slots[i]);
}

fb_status fb_key_table_get_many(fb_key_table *table, const void *keys, size_t count,
                                uint32_t *indexes) {
    const uint8_t *p = keys;
    for (size_t done = 0; done < count;) {
        size_t group = count - done < GROUP ? count - done : GROUP;
        if (reserve(table, (uint32_t)group) != FB_OK) return FB_NO_MEMORY;
        get_group(table, p + table->size * done, group, indexes + done);
        done += group;
    }
    return FB_OK;
}

void fb_key_table_free(fb_key_table *table) {
    fb_memory_release(table->memory, table->keys, bytes_of_keys(table, table->slot_count));
    fb_memory_release(table->memory, table->slots, table->slot_count * sizeof *table->slots);
    *table = (fb_key_table){.memory = table->memory, .seed = table->seed, .size = table->size};
}
