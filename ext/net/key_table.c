/* Open addressing: the slots hold indexes, so keys never move to another index. */
#include "net/key_table.h"

enum { FIRST_SLOTS = 16, MAX_SLOTS = 1 << 30 };

static uint64_t hash(const fb_key_table *table, const fb_key *key) {
    uint64_t state = table->seed;
    for (size_t i = 0; i < 4; i++) state = fb_hash(state, key->words[i]);
    return state;
}

/* Return the slot of a key, or the empty slot where it belongs. REQUIRES: a slot is empty. */
static uint32_t *find_slot(const fb_key_table *table, const fb_key *key) {
    uint32_t i = (uint32_t)hash(table, key) & (table->slot_count - 1);
    for (uint32_t *slot;; i = (i + 1) & (table->slot_count - 1)) {
        slot = &table->slots[i];
        if (!*slot || memcmp(&table->keys[*slot - 1], key, sizeof *key) == 0) return slot;
    }
}

static size_t bytes_of_keys(uint32_t slot_count) {
    return slot_count / 2 * sizeof(fb_key);
}

static fb_status grow(fb_key_table *table) {
    uint32_t old = table->slot_count, doubled = old ? 2 * old : FIRST_SLOTS;
    if (old == MAX_SLOTS) return FB_NO_MEMORY;
    fb_memory *memory = table->memory;
    uint32_t *slots = fb_memory_allocate(memory, doubled * sizeof *slots);
    if (!slots) return FB_NO_MEMORY;
    fb_key *keys =
        fb_memory_resize(memory, table->keys, bytes_of_keys(old), bytes_of_keys(doubled));
    if (!keys) {
        fb_memory_release(memory, slots, doubled * sizeof *slots);
        return FB_NO_MEMORY;
    }
    fb_memory_release(memory, table->slots, old * sizeof *slots);
    table->keys = keys;
    table->slots = slots;
    table->slot_count = doubled;
    for (uint32_t i = 0; i < table->count; i++) *find_slot(table, &keys[i]) = i + 1;
    return FB_OK;
}

fb_status fb_key_table_get(fb_key_table *table, const fb_key *key, uint32_t *index) {
    if (table->count >= table->slot_count / 2 && grow(table) != FB_OK) return FB_NO_MEMORY;
    uint32_t *slot = find_slot(table, key);
    if (!*slot) {
        table->keys[table->count] = *key;
        *slot = ++table->count;
    }
    *index = *slot - 1;
    return FB_OK;
}

void fb_key_table_free(fb_key_table *table) {
    fb_memory_release(table->memory, table->keys, bytes_of_keys(table->slot_count));
    fb_memory_release(table->memory, table->slots, table->slot_count * sizeof *table->slots);
    *table = (fb_key_table){.memory = table->memory, .seed = table->seed};
}
