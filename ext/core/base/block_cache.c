/* Blocks come from the C library. Released ones of a suitable size stay in the cache. */
#include "core/base/block_cache.h"

#include <stdlib.h>

static bool is_kept(size_t size) { return size >= FB_SPARE_MIN && size <= FB_SPARE_MAX; }

static fb_spare *swap(fb_spares *spares, size_t place, fb_spare *block) {
    return atomic_exchange_explicit(&spares->places[place], block, memory_order_acq_rel);
}

/* Return false if the place is taken. */
static bool put(fb_spares *spares, size_t place, fb_spare *block) {
    fb_spare *none = NULL;
    return atomic_compare_exchange_strong_explicit(&spares->places[place], &none, block, memory_order_release, memory_order_relaxed);
}

static void *take(fb_spares *spares, size_t size) {
    for (size_t i = 0; i < FB_SPARES; i++) {
        fb_spare *block = swap(spares, i, NULL);
        if (!block) continue;
        if (block->size == size) return block;
        if (!put(spares, i, block)) free(block); /* another thread filled the place */
    }
    return NULL;
}

/* If all places are taken, replace one of them, in rotation. */
static void keep(fb_spares *spares, fb_spare *block, size_t size) {
    block->size = size;
    for (size_t i = 0; i < FB_SPARES; i++)
        if (put(spares, i, block)) return;
    unsigned place = atomic_fetch_add_explicit(&spares->released, 1, memory_order_relaxed) % FB_SPARES;
    free(swap(spares, place, block));
}

static void *resize(void *context, void *p, size_t old_size, size_t new_size) {
    void *block = !p && is_kept(new_size) ? take(context, new_size) : NULL;
    if (block) return memset(block, 0, new_size);
    if (new_size || !p || !is_kept(old_size)) return fb_system_resize(NULL, p, old_size, new_size);
    keep(context, p, old_size);
    return NULL;
}

fb_memory fb_memory_recycled(fb_spares *spares, size_t limit) {
    return (fb_memory){resize, spares, 0, limit};
}

void fb_spares_free(fb_spares *spares) {
    for (size_t i = 0; i < FB_SPARES; i++) free(swap(spares, i, NULL));
}
