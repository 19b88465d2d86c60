/* A finished batch of nested columns, and its export through the Arrow C Data Interface. */
#ifndef FB_NESTED_NESTED_BATCH_H
#define FB_NESTED_NESTED_BATCH_H

#include <stdatomic.h>

#include "core/base/block_cache.h"
#include "core/nested/nested_types.h"

/* Memory that grows. New bytes are undefined. */
typedef struct {
    uint8_t *data;
    size_t size;
} fb_nested_block;

/* Make a block at least as large as `size`: twice as large as before, or more. NO_MEMORY: nothing
   changes. */
fb_status fb_nested_block_grow(fb_nested_block *block, size_t size, fb_memory *memory);
/* Move the first `used` bytes into a smaller block, if there is one of at most a quarter of the
   size. If memory is short, nothing changes. */
void fb_nested_block_trim(fb_nested_block *block, size_t used, fb_memory *memory);

/* Caches of freed blocks, by their size: 64 KiB, 128 KiB and so on; 2 and 4 MiB share one. They
   hold at most 95 MiB. */
enum { FB_NESTED_CACHES = 6 };
typedef struct {
    fb_block_cache of_size[FB_NESTED_CACHES];
} fb_nested_cache;

/* Return dirty memory with these caches, for any thread. REQUIRES: they outlive all blocks. */
fb_memory fb_nested_memory(fb_nested_cache *cache);

/* An array of the tree. Its children and its dictionary follow it in `arrays`. */
typedef struct {
    int64_t length, null_count;
    const void *buffers[3];
    uint8_t buffer_count;
    size_t first_child, child_count; /* in `links` */
    size_t dictionary;               /* 0: none */
} fb_nested_array;

typedef struct {
    atomic_size_t references;
    fb_memory memory;
    size_t size; /* of this struct with the tables behind it */
    fb_nested_array *arrays;
    size_t *links; /* indexes in `arrays` */
    size_t array_count, link_count;
    fb_nested_block *blocks; /* all memory of the buffers */
    size_t block_count;
    fb_nested_names **names; /* that arrays use */
    size_t names_count;
    size_t rows, bytes; /* without the names */
    fb_nested_array tables[];
} fb_nested_batch;

/* Create a batch with empty tables. The caller fills them, and does not exceed these numbers.
   NO_MEMORY. */
fb_status fb_nested_batch_new(fb_nested_batch **batch, size_t arrays, size_t links, size_t blocks,
                              size_t names, fb_memory memory);
/* Give the memory of a block to the batch. The block is empty afterwards. */
const void *fb_nested_batch_take(fb_nested_batch *batch, fb_nested_block *block);
/* Release the caller's reference, from any thread. Exported arrays hold their own references. */
void fb_nested_batch_release(fb_nested_batch *batch);

/* Export `count` rows from `first` on as a struct array. The caller owns *array and calls its
   release. NO_MEMORY: *array is unchanged. REQUIRES: the rows are in the batch. */
fb_status fb_nested_batch_export(fb_nested_batch *batch, size_t first, size_t count,
                                 struct ArrowArray *array);

#endif
