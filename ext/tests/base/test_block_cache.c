/* The cache of free blocks: their owner, their number, and use by several threads. */
#include "tests/support/check.h"

#include <pthread.h>

#include "core/base/block_cache.h"

enum { SIZE = FB_CACHED_BLOCK_MIN + 1000 };

static size_t count_cached_blocks(fb_block_cache *cache) {
    size_t count = 0;
    for (size_t i = 0; i < FB_CACHED_BLOCKS; i++) count += atomic_load(&cache->places[i]) != NULL;
    return count;
}

static bool is_zero(const uint8_t *p, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (p[i]) return false;
    return true;
}

static void reuses_a_block_for_the_same_size(void) {
    fb_block_cache cache = {0};
    fb_memory memory = fb_memory_cached(&cache, 0);
    uint8_t *first = fb_memory_allocate(&memory, SIZE);
    CHECK(is_zero(first, SIZE));
    memset(first, 7, SIZE);
    fb_memory_release(&memory, first, SIZE);
    CHECK_EQUAL(memory.used, 0);
    CHECK_EQUAL(count_cached_blocks(&cache), 1);
    uint8_t *other = fb_memory_allocate(&memory, SIZE + 1);
    CHECK(other != first);
    CHECK_EQUAL(count_cached_blocks(&cache), 1);
    uint8_t *again = fb_memory_allocate(&memory, SIZE);
    CHECK(again == first);
    CHECK(is_zero(again, SIZE));
    CHECK_EQUAL(count_cached_blocks(&cache), 0);
    CHECK_EQUAL(memory.used, 2 * SIZE + 1);
    fb_memory_release(&memory, other, SIZE + 1);
    fb_memory_release(&memory, again, SIZE);
    CHECK_EQUAL(count_cached_blocks(&cache), 2);
    fb_block_cache_free(&cache);
    CHECK_EQUAL(count_cached_blocks(&cache), 0);
}

static void reuses_zeros(void) {
    fb_block_cache cache = {0};
    fb_memory memory = fb_memory_cached(&cache, 0);
    CHECK(fb_memory_reuses_zeros(&memory));
    uint8_t *first = fb_memory_allocate(&memory, SIZE), *small = fb_memory_allocate(&memory, 1);
    fb_memory_release_zeros(&memory, first, SIZE);
    fb_memory_release_zeros(&memory, small, 1);
    CHECK_EQUAL(memory.used, 0);
    CHECK_EQUAL(count_cached_blocks(&cache), 1);
    uint8_t *again = fb_memory_allocate(&memory, SIZE);
    CHECK(again == first);
    CHECK(is_zero(again, SIZE));
    /* A block that was released once with zeros, and now without them. */
    memset(again, 7, SIZE);
    fb_memory_release(&memory, again, SIZE);
    again = fb_memory_allocate(&memory, SIZE);
    CHECK(again == first);
    CHECK(is_zero(again, SIZE));
    fb_memory_release(&memory, again, SIZE);
    fb_block_cache_free(&cache);
}

static void keeps_the_content_of_dirty_blocks(void) {
    fb_block_cache cache = {0};
    fb_memory memory = fb_memory_cached_dirty(&cache, 0);
    uint8_t *first = fb_memory_allocate(&memory, SIZE);
    CHECK(is_zero(first, SIZE)); /* this function promises zeros in any memory */
    memset(first, 7, SIZE);
    fb_memory_release(&memory, first, SIZE);
    CHECK_EQUAL(count_cached_blocks(&cache), 1);
    uint8_t *again = fb_memory_resize(&memory, NULL, 0, SIZE);
    CHECK(again == first);
    CHECK_EQUAL(again[SIZE - 1], 7);
    again = fb_memory_resize(&memory, again, SIZE, 2 * SIZE);
    CHECK_EQUAL(again[SIZE - 1], 7);
    CHECK_EQUAL(memory.used, 2 * SIZE);
    fb_memory_release(&memory, again, 2 * SIZE);
    CHECK_EQUAL(memory.used, 0);
    fb_block_cache_free(&cache);
}

static void caches_neither_small_nor_huge_blocks(void) {
    fb_block_cache cache = {0};
    fb_memory memory = fb_memory_cached(&cache, 0);
    static const size_t sizes[] = {1, FB_CACHED_BLOCK_MIN - 1, FB_CACHED_BLOCK_MAX + 1};
    for (size_t i = 0; i < 3; i++)
        fb_memory_release(&memory, fb_memory_allocate(&memory, sizes[i]), sizes[i]);
    CHECK_EQUAL(count_cached_blocks(&cache), 0);
    static const size_t kept[] = {FB_CACHED_BLOCK_MIN, FB_CACHED_BLOCK_MAX};
    for (size_t i = 0; i < 2; i++)
        fb_memory_release(&memory, fb_memory_allocate(&memory, kept[i]), kept[i]);
    CHECK_EQUAL(count_cached_blocks(&cache), 2);
    fb_block_cache_free(&cache);
}

static void caches_a_limited_number_of_blocks(void) {
    enum { COUNT = 3 * FB_CACHED_BLOCKS };
    fb_block_cache cache = {0};
    fb_memory memory = fb_memory_cached(&cache, 0);
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) blocks[i] = fb_memory_allocate(&memory, SIZE + i);
    for (size_t i = 0; i < COUNT; i++) fb_memory_release(&memory, blocks[i], SIZE + i);
    CHECK_EQUAL(count_cached_blocks(&cache), FB_CACHED_BLOCKS);
    CHECK_EQUAL(memory.used, 0);
    /* The newest blocks stay in the cache. */
    void *newest = fb_memory_allocate(&memory, SIZE + COUNT - 1);
    CHECK(newest == blocks[COUNT - 1]);
    fb_memory_release(&memory, newest, SIZE + COUNT - 1);
    fb_block_cache_free(&cache);
}

static void keeps_the_content_of_a_growing_block(void) {
    fb_block_cache cache = {0};
    fb_memory memory = fb_memory_cached(&cache, 2 * SIZE);
    uint8_t *p = fb_memory_allocate(&memory, 100);
    memset(p, 5, 100);
    p = fb_memory_resize(&memory, p, 100, 2 * SIZE);
    CHECK(p[0] == 5 && p[99] == 5 && is_zero(p + 100, 2 * SIZE - 100));
    CHECK(!fb_memory_allocate(&memory, 1));
    p = fb_memory_resize(&memory, p, 2 * SIZE, SIZE);
    fb_memory_release(&memory, p, SIZE);
    CHECK_EQUAL(count_cached_blocks(&cache), 1);
    fb_block_cache_free(&cache);
}

static void moves_a_growing_block_to_a_cached_one(void) {
    for (int zeros = 0; zeros < 2; zeros++) {
        fb_block_cache cache = {0};
        fb_memory memory = fb_memory_cached(&cache, 0);
        uint8_t *cached = fb_memory_allocate(&memory, 2 * SIZE),
                *p = fb_memory_allocate(&memory, SIZE);
        if (zeros) {
            fb_memory_release_zeros(&memory, cached, 2 * SIZE);
        } else {
            memset(cached, 7, 2 * SIZE);
            fb_memory_release(&memory, cached, 2 * SIZE);
        }
        memset(p, 5, SIZE);
        uint8_t *moved = fb_memory_resize(&memory, p, SIZE, 2 * SIZE);
        CHECK(moved == cached);
        CHECK(moved[0] == 5 && moved[SIZE - 1] == 5 && is_zero(moved + SIZE, SIZE));
        CHECK_EQUAL(memory.used, 2 * SIZE);
        /* The old block is in the cache. A block that shrinks is not taken from there. */
        CHECK_EQUAL(count_cached_blocks(&cache), 1);
        moved = fb_memory_resize(&memory, moved, 2 * SIZE, SIZE);
        CHECK(moved != p);
        CHECK_EQUAL(count_cached_blocks(&cache), 1);
        fb_memory_release(&memory, moved, SIZE);
        fb_block_cache_free(&cache);
    }
}

/* Fill each block, and check that no other thread writes to it. */
static void *allocate_and_free_blocks(void *context) {
    fb_memory memory = fb_memory_cached(context, 0);
    uintptr_t wrong = 0;
    for (size_t i = 0; i < 500; i++) {
        size_t size = SIZE + i % 3;
        uint8_t *p = fb_memory_allocate(&memory, size), mark = (uint8_t)(1 + i % 255);
        wrong += !is_zero(p, size);
        memset(p, mark, size);
        for (size_t k = 0; k < size; k++) wrong += p[k] != mark;
        fb_memory_release(&memory, p, size);
    }
    return (void *)wrong;
}

static void gives_a_block_to_only_one_thread(void) {
    fb_block_cache cache = {0};
    pthread_t threads[4];
    void *wrong;
    for (size_t i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, allocate_and_free_blocks, &cache), 0);
    for (size_t i = 0; i < 4; i++) {
        CHECK_EQUAL(pthread_join(threads[i], &wrong), 0);
        CHECK(!wrong);
    }
    fb_block_cache_free(&cache);
}

RUN_TESTS(TEST(reuses_a_block_for_the_same_size), TEST(reuses_zeros),
          TEST(keeps_the_content_of_dirty_blocks), TEST(caches_neither_small_nor_huge_blocks),
          TEST(caches_a_limited_number_of_blocks), TEST(keeps_the_content_of_a_growing_block),
          TEST(moves_a_growing_block_to_a_cached_one), TEST(gives_a_block_to_only_one_thread))
