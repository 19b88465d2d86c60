/* Blocks come from the C library. Released ones of a suitable size stay in the cache. */
#include "core/base/block_cache.h"

#include <stdlib.h>

static bool is_cacheable(size_t size) {
    return size >= FB_CACHED_BLOCK_MIN && size <= FB_CACHED_BLOCK_MAX;
}

static fb_cached_block *exchange_block(fb_block_cache *cache, size_t place,
                                       fb_cached_block *block) {
    return atomic_exchange_explicit(&cache->places[place], block, memory_order_acq_rel);
}

/* Return false if the place is taken. */
static bool put_block(fb_block_cache *cache, size_t place, fb_cached_block *block) {
    fb_cached_block *none = NULL;
    return atomic_compare_exchange_strong_explicit(&cache->places[place], &none, block,
                                                   memory_order_release, memory_order_relaxed);
}

void *fb_block_cache_take(fb_block_cache *cache, size_t size) {
    if (!is_cacheable(size)) return NULL;
    for (size_t i = 0; i < FB_CACHED_BLOCKS; i++) {
        fb_cached_block *block = exchange_block(cache, i, NULL);
        if (!block) continue;
        if (block->size == size) return block;
        if (!put_block(cache, i, block)) free(block); /* another thread filled the place */
    }
    return NULL;
}

/* If all places are taken, replace one of them, in rotation. */
static void store_block(fb_block_cache *cache, fb_cached_block *block, size_t size, bool zeros) {
    *block = (fb_cached_block){size, zeros};
    for (size_t i = 0; i < FB_CACHED_BLOCKS; i++)
        if (put_block(cache, i, block)) return;
    unsigned place =
        atomic_fetch_add_explicit(&cache->released, 1, memory_order_relaxed) % FB_CACHED_BLOCKS;
    free(exchange_block(cache, place, block));
}

static void release(fb_block_cache *cache, void *p, size_t size, bool zeros) {
    if (is_cacheable(size)) store_block(cache, p, size, zeros);
    else free(p);
}

/* A growing block moves to a cached one, whose pages are there already. */
static void *resize(void *context, void *p, size_t old_size, size_t new_size) {
    fb_cached_block *block = new_size > old_size ? fb_block_cache_take(context, new_size) : NULL;
    if (block) {
        memset(block, 0, block->zeros ? sizeof *block : new_size);
        if (!p) return block;
        memcpy(block, p, old_size);
    } else if (new_size) {
        return fb_system_resize(NULL, p, old_size, new_size);
    }
    if (p) release(context, p, old_size, false);
    return block;
}

static void release_zeros(void *context, void *p, size_t size) {
    assert(fb_is_zero(p, (const uint8_t *)p + size));
    release(context, p, size, true);
}

fb_memory fb_memory_cached(fb_block_cache *cache, size_t limit) {
    return (fb_memory){
        .resize = resize, .context = cache, .limit = limit, .release_zeros = release_zeros};
}

static void *resize_dirty(void *context, void *p, size_t old_size, size_t new_size) {
    if (!new_size) return resize(context, p, old_size, 0);
    void *block = p ? NULL : fb_block_cache_take(context, new_size);
    return block ? block : realloc(p, new_size);
}

fb_memory fb_memory_cached_dirty(fb_block_cache *cache, size_t limit) {
    return (fb_memory){.resize = resize_dirty, .context = cache, .limit = limit, .dirty = 1};
}

void fb_block_cache_free(fb_block_cache *cache) {
    for (size_t i = 0; i < FB_CACHED_BLOCKS; i++) free(exchange_block(cache, i, NULL));
}
