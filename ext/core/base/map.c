/* Entries stay in the order of insertion; only their 16-bit indexes are kept sorted. */
#include "core/base/map.h"

bool fb_order_double(fb_memory *memory, void **array, uint16_t **order, size_t size,
                     uint32_t *capacity) {
    uint32_t old = *capacity, wanted = old ? old * 2 : 4;
    uint8_t *larger = fb_memory_allocate(memory, fb_order_size(wanted, size));
    if (!larger) return false;
    if (old) memcpy(larger, *array, old * size);
    if (old) memcpy(larger + wanted * size, *order, old * sizeof **order);
    fb_memory_release(memory, *array, fb_order_size(old, size));
    *array = larger;
    *order = (uint16_t *)(void *)(larger + wanted * size);
    *capacity = wanted;
    return true;
}

void fb_order_enter(uint16_t *order, uint32_t i, uint32_t count) {
    memmove(&order[i + 1], &order[i], (count - 1 - i) * sizeof *order);
    order[i] = (uint16_t)(count - 1);
}

static uint32_t lower_bound(const fb_map *map, uint64_t key) {
    uint32_t low = 0, high = map->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (map->entries[map->order[middle]].key < key) low = middle + 1;
        else high = middle;
    }
    return low;
}

static fb_map_entry *get_entry(const fb_map *map, uint32_t i, uint64_t key) {
    fb_map_entry *entry = i < map->count ? &map->entries[map->order[i]] : NULL;
    return entry && entry->key == key ? entry : NULL;
}

fb_map_entry *fb_map_find(const fb_map *map, uint64_t key) {
    return get_entry(map, lower_bound(map, key), key);
}

fb_map_entry *fb_map_insert(fb_map *map, fb_memory *memory, uint64_t key) {
    uint32_t i = lower_bound(map, key);
    fb_map_entry *entry = get_entry(map, i, key);
    if (entry) return entry;
    void *entries = map->entries;
    if (map->count == map->capacity &&
        !fb_order_double(memory, &entries, &map->order, sizeof *entry, &map->capacity))
        return NULL;
    map->entries = entries;
    entry = &map->entries[map->count++];
    *entry = (fb_map_entry){.key = key, .number = 0};
    fb_order_enter(map->order, i, map->count);
    return entry;
}

void fb_map_remove(fb_map *map, uint64_t key) {
    uint32_t i = lower_bound(map, key), last = map->count - 1;
    uint16_t gap = map->order[i];
    map->order[lower_bound(map, map->entries[last].key)] = gap;
    map->entries[gap] = map->entries[last];
    memmove(&map->order[i], &map->order[i + 1], (last - i) * sizeof *map->order);
    map->count = last;
}

void fb_map_free(fb_map *map, fb_memory *memory) {
    fb_memory_release(memory, map->entries, fb_order_size(map->capacity, sizeof *map->entries));
    *map = (fb_map){0};
}
