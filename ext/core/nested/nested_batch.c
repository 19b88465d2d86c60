/* The buffers of a batch are counted by reference. Each export has its own structures of the
   interface, because consumers write to them. All of one export are in one allocation. */
#include "core/nested/nested_batch.h"

static const char *const kind_names[] = {
#define FB_X(constant, name) name,
    FB_NESTED_KIND_LIST(FB_X)
#undef FB_X
};

const char *fb_nested_kind_name(int kind) {
    return kind_names[kind];
}

enum { FIRST_SIZE = 64 };

/* Sizes are powers of two, so that later batches find blocks of their size in a cache. */
fb_status fb_nested_block_grow(fb_nested_block *block, size_t size, fb_memory *memory) {
    size_t more = block->size ? 2 * block->size : FIRST_SIZE;
    if (block->size >= size) return FB_OK;
    if (size > PTRDIFF_MAX / 2) return FB_NO_MEMORY;
    while (more < size) more *= 2;
    uint8_t *data = fb_memory_resize(memory, block->data, block->size, more);
    if (!data) return FB_NO_MEMORY;
    *block = (fb_nested_block){data, more};
    return FB_OK;
}

void fb_nested_block_trim(fb_nested_block *block, size_t used, fb_memory *memory) {
    size_t less = FIRST_SIZE;
    while (less < used) less *= 2;
    if (FB_LIKELY(block->size / 4 < less)) return;
    uint8_t *data = fb_memory_resize(memory, NULL, 0, less);
    if (!data) return;
    memcpy(data, block->data, used);
    fb_memory_release(memory, block->data, block->size);
    *block = (fb_nested_block){data, less};
}

static fb_block_cache *cache_of(fb_nested_cache *cache, size_t size) {
    size_t class = 0;
    while (class + 1 < FB_NESTED_CACHES && (size_t)FB_CACHED_BLOCK_MIN << class < size) class++;
    return &cache->of_size[class];
}

/* A growing block moves to a cached one, whose pages are there already. */
static void *resize(void *context, void *p, size_t old_size, size_t new_size) {
    fb_block_cache *cache = cache_of(context, p ? old_size : new_size);
    const fb_memory memory = fb_memory_cached_dirty(cache, 0);
    void *block = p && new_size > old_size
                      ? fb_block_cache_take(cache_of(context, new_size), new_size)
                      : NULL;
    if (!block) return memory.resize(memory.context, p, old_size, new_size);
    memcpy(block, p, old_size);
    memory.resize(memory.context, p, old_size, 0);
    return block;
}

fb_memory fb_nested_memory(fb_nested_cache *cache) {
    return (fb_memory){.resize = resize, .context = cache, .dirty = 1};
}

fb_status fb_nested_batch_new(fb_nested_batch **out, size_t arrays, size_t links, size_t blocks,
                              size_t names, fb_memory memory) {
    const size_t size = sizeof **out + arrays * sizeof(fb_nested_array) +
                        blocks * sizeof(fb_nested_block) + links * sizeof(size_t) +
                        names * sizeof(fb_nested_names *);
    fb_nested_batch *batch = fb_memory_allocate(&memory, size);
    if (!batch) return FB_NO_MEMORY;
    batch->memory = memory;
    batch->size = size;
    batch->arrays = batch->tables;
    batch->blocks = (fb_nested_block *)(void *)(batch->arrays + arrays);
    batch->links = (size_t *)(void *)(batch->blocks + blocks);
    batch->names = (fb_nested_names **)(void *)(batch->links + links);
    atomic_init(&batch->references, 1);
    *out = batch;
    return FB_OK;
}

const void *fb_nested_batch_take(fb_nested_batch *batch, fb_nested_block *block) {
    const void *data = block->data;
    if (!data) return NULL;
    batch->blocks[batch->block_count++] = *block;
    batch->bytes += block->size;
    *block = (fb_nested_block){NULL, 0};
    return data;
}

void fb_nested_batch_release(fb_nested_batch *batch) {
    if (!batch || atomic_fetch_sub(&batch->references, 1) > 1) return;
    fb_memory memory = batch->memory;
    for (size_t i = 0; i < batch->names_count; i++) fb_nested_names_release(batch->names[i]);
    for (size_t i = 0; i < batch->block_count; i++)
        fb_memory_release(&memory, batch->blocks[i].data, batch->blocks[i].size);
    fb_memory_release(&memory, batch, batch->size);
}

/* Export ------------------------------------------------------------------------------------- */

/* The structures of one export, and a reference for each that was not released. */
typedef struct {
    atomic_size_t references;
    fb_memory memory;
    size_t size;
    fb_nested_batch *batch;
    struct ArrowArray arrays[];
} exported;

static void release_array(struct ArrowArray *array) {
    exported *of = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release) array->children[i]->release(array->children[i]);
    if (array->dictionary && array->dictionary->release)
        array->dictionary->release(array->dictionary);
    array->release = NULL;
    if (atomic_fetch_sub(&of->references, 1) > 1) return;
    fb_memory memory = of->memory;
    fb_nested_batch_release(of->batch);
    fb_memory_release(&memory, of, of->size);
}

/* Select rows of the columns. Their offsets apply to everything below them. */
static void select_rows(struct ArrowArray *root, size_t first, size_t count) {
    if (!first && (int64_t)count == root->length) return;
    root->length = (int64_t)count;
    for (int64_t i = 0; i < root->n_children; i++) {
        struct ArrowArray *child = root->children[i];
        if (child->null_count == child->length) child->null_count = (int64_t)count;
        else if (child->null_count) child->null_count = -1;
        child->offset = (int64_t)first;
        child->length = (int64_t)count;
    }
}

fb_status fb_nested_batch_export(fb_nested_batch *batch, size_t first, size_t count,
                                 struct ArrowArray *out) {
    const size_t arrays = batch->array_count;
    const size_t size = sizeof(exported) + arrays * sizeof(struct ArrowArray) +
                        batch->link_count * sizeof(struct ArrowArray *);
    fb_memory memory = batch->memory;
    memory.used = 0;
    exported *of = fb_memory_allocate(&memory, size);
    if (!of) return FB_NO_MEMORY;
    of->memory = memory;
    of->size = size;
    of->batch = batch;
    atomic_init(&of->references, arrays);
    atomic_fetch_add(&batch->references, 1);
    struct ArrowArray **links = (struct ArrowArray **)(void *)(of->arrays + arrays);
    for (size_t i = 0; i < batch->link_count; i++) links[i] = &of->arrays[batch->links[i]];
    for (size_t i = 0; i < arrays; i++) {
        fb_nested_array *from = &batch->arrays[i];
        of->arrays[i] = (struct ArrowArray){
            .length = from->length,
            .null_count = from->null_count,
            .n_buffers = from->buffer_count,
            .n_children = (int64_t)from->child_count,
            .buffers = from->buffers,
            .children = from->child_count ? links + from->first_child : NULL,
            .dictionary = from->dictionary ? &of->arrays[from->dictionary] : NULL,
            .release = release_array,
            .private_data = of};
    }
    select_rows(of->arrays, first, count);
    *out = of->arrays[0];
    return FB_OK;
}
