/* A cache of large memory blocks, for objects that are created and freed often, such as batches of
   rows. A released block is reused by the next request for exactly its size, also by a block that
   grows to it. Without the cache, a batch spends about as much time on pages that the kernel maps
   and unmaps as on writing rows.

     static fb_block_cache cache;                    zeros: the cache is empty
     fb_memory memory = fb_memory_cached(&cache, 0);
     fb_block_cache_free(&cache);                    frees cached blocks; others may still be in use

   Any thread may use the cache, and may release blocks that another thread allocated. It has no
   lock: one atomic operation takes or fills a place. */
#ifndef FB_BASE_BLOCK_CACHE_H
#define FB_BASE_BLOCK_CACHE_H

#include <stdatomic.h>

#include "core/base/base.h"

/* Number of places, and the block sizes that are cached, in bytes: at most 64 MiB in total. */
enum { FB_CACHED_BLOCKS = 16, FB_CACHED_BLOCK_MIN = 64 << 10, FB_CACHED_BLOCK_MAX = 4 << 20 };

typedef struct {
    size_t size;
    bool zeros; /* all bytes behind this structure are zero */
} fb_cached_block;

typedef struct {
    _Atomic(fb_cached_block *) places[FB_CACHED_BLOCKS];
    atomic_uint released; /* blocks released while all places were taken */
} fb_block_cache;

/* Like fb_memory_system(limit), but with the cache. REQUIRES: the cache outlives all blocks. */
fb_memory fb_memory_cached(fb_block_cache *cache, size_t limit);
/* The same, but with `dirty` set: new bytes are undefined. */
fb_memory fb_memory_cached_dirty(fb_block_cache *cache, size_t limit);
/* Take a block of a size out of the cache. Its bytes are undefined. NULL: there is none. */
void *fb_block_cache_take(fb_block_cache *cache, size_t size);
/* Free the cached blocks. The cache is then empty and may be used again. */
void fb_block_cache_free(fb_block_cache *cache);

#endif
