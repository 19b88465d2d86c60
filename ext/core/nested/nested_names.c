/* The struct and its tables are one block, which the last reference frees. */
#include "core/nested/nested_names.h"

#include "core/wire/wire.h"

fb_status fb_nested_names_new(fb_nested_names **out, const fb_member *members, size_t count,
                              fb_memory memory) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += members[i].name.size;
    if (bytes > INT32_MAX) return FB_NO_MEMORY;
    const size_t size = sizeof **out + count * sizeof(uint32_t) + (count + 1) * sizeof(int32_t) +
                        bytes + 1; /* also without names, there is an address */
    fb_nested_names *names = fb_memory_allocate(&memory, size);
    if (!names) return FB_NO_MEMORY;
    atomic_init(&names->references, 1);
    names->memory = memory;
    names->size = size;
    names->count = count;
    names->numbers = (uint32_t *)(void *)(names + 1);
    names->offsets = (int32_t *)(void *)(names->numbers + count);
    names->bytes = (uint8_t *)(names->offsets + count + 1);
    uint8_t *p = names->bytes;
    for (size_t i = 0; i < count; i++) {
        names->numbers[i] = members[i].number;
        p = fb_wire_put_bytes(p, members[i].name.data, members[i].name.size);
        names->offsets[i + 1] = (int32_t)(p - names->bytes);
    }
    *out = names;
    return FB_OK;
}

fb_nested_names *fb_nested_names_share(fb_nested_names *names) {
    atomic_fetch_add_explicit(&names->references, 1, memory_order_relaxed);
    return names;
}

void fb_nested_names_release(fb_nested_names *names) {
    if (!names || atomic_fetch_sub(&names->references, 1) > 1) return;
    fb_memory memory = names->memory;
    fb_memory_release(&memory, names, names->size);
}

size_t fb_nested_search_number(const uint32_t *numbers, size_t count, uint32_t number) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (numbers[middle] < number) low = middle + 1;
        else high = middle;
    }
    return low < count && numbers[low] == number ? low : count;
}
