/* Shared by the parts of arrow_choice.h: the input bytes, nodes and their buffers, and values. */
#ifndef FB_TESTS_BUILDERS_ARROW_CHOICE_INTERNAL_H
#define FB_TESTS_BUILDERS_ARROW_CHOICE_INTERNAL_H

#include <stdlib.h>

#include "core/arrow/arrow.h"
#include "tests/support/check.h"

enum { MOST_BYTES = 1 << 16 };

#define COUNT(array)   (sizeof(array) / sizeof *(array))
#define PICK(m, array) (array)[next_byte(m) % COUNT(array)]

typedef struct block block;
struct block {
    block *next;
    uint8_t *data;
};

typedef struct {
    const uint8_t *p, *end;
    block *blocks;
} maker;

UNUSED static uint8_t next_byte(maker *m) {
    return m->p < m->end ? *m->p++ : 0;
}
UNUSED static bool one_in(maker *m, unsigned count) {
    return next_byte(m) % count == count - 1;
}

UNUSED static void *allocate_zeros(maker *m, size_t size) {
    block *block = malloc(sizeof *block);
    if (!block || !(block->data = calloc(1, size ? size : 1))) abort();
    block->next = m->blocks;
    m->blocks = block;
    return block->data;
}

/* Allocate zeroed bytes, mostly at an odd address. */
UNUSED static uint8_t *make_room(maker *m, size_t size) {
    return one_in(m, 4) ? allocate_zeros(m, size) : (uint8_t *)allocate_zeros(m, size + 1) + 1;
}

typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct ArrowSchema *schemas[1];
    struct ArrowArray *arrays[1];
    const void *buffers[8];
    const char *fills;
    bool known, listed, indexed;
} node;

/* Add a buffer that the node owns. An empty buffer is sometimes NULL. */
UNUSED static uint8_t *add_buffer(maker *m, node *n, size_t size) {
    uint8_t *buffer = make_room(m, size);
    n->buffers[n->array.n_buffers++] = size || one_in(m, 2) ? buffer : NULL;
    return buffer;
}

UNUSED static size_t count_of(const node *n) {
    return (size_t)(n->array.offset + n->array.length);
}

int64_t choice_pick_integer(maker *m);
void choice_put_offset(uint8_t *offsets, size_t i, int64_t offset, bool large);
/* Fill numbers with random bytes, values that most columns hold, small values, or boundary
   values. */
void choice_fill_numbers(maker *m, uint8_t *values, size_t count, size_t width, bool real);
/* Add offsets and bytes. Only offsets state the number of bytes, so none may exceed the buffer.
   Some are not in order. */
void choice_add_bytes(maker *m, node *n, bool large);
/* Add views. Any part of a view may be wrong, because the core can check it. */
void choice_add_views(maker *m, node *n);

#endif
