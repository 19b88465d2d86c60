/* The values of a node, while messages are read.

   Values and bits between `count` and `room` are zero, so that absent numbers and nulls need no
   work. */
#ifndef FB_NESTED_NESTED_NODE_H
#define FB_NESTED_NESTED_NODE_H

#include "core/base/buffer.h"
#include "core/json/json_map.h"
#include "core/nested/nested_batch.h"

typedef struct fb_nested_node fb_nested_node;

/* The node of a field, and how the reader takes its values; 0: not known in advance. */
typedef struct {
    fb_nested_node *node;
    uint8_t fast;
} fb_nested_quick;

/* Rows that the parent of a node has and the node has not are absent. */
struct fb_nested_node {
    const fb_nested_type *type;
    uint8_t fast; /* how the reader takes a value without looking at the type; 0: not at all */
    bool repeated, nullable, text; /* as in the type */
    size_t count;                  /* values */
    size_t room;                   /* values that can be set */
    size_t capacity;               /* values that the blocks below have memory for */
    fb_nested_block values;        /* numbers or bits */
    fb_nested_block present;       /* a bit for each value that is not null */
    fb_nested_block offsets;       /* of texts */
    fb_nested_block bytes;         /* of texts */
    size_t used;                   /* bytes of texts */
    size_t lists;                  /* rows of a repeated field: its lists */
    fb_nested_block ends;          /* offsets of the lists */
    const fb_nested_quick *quick;  /* of a struct: its fields whose tag has one byte */
    /* values, bytes of texts and lists: of the last batch, and expected in this one */
    size_t last_count, last_used, last_lists, hint, bytes_hint, lists_hint;
    int64_t seconds; /* of the last value of a time, to merge its parts */
    int32_t nanoseconds;
    bool touched;          /* it is in the list of its parent */
    int32_t first_touched; /* of a struct: its tracked nodes that may have values to drop */
    int32_t next_touched, previous_touched;
    /* A touched node may have values in rows of its parent below this one. Those in the list of a
       parent are in descending order. Without that, each drop would visit all nodes. */
    size_t touched_rows;
    fb_json_entries entries; /* of a map in the row that is being read */
    /* of JSON in this row: the first part of its message, and all parts if they are several */
    fb_bytes part;
    fb_buffer parts;
    bool waiting;  /* these parts are not yet text */
    size_t oneofs; /* index of the oneofs of its message in those of the reader */
};

FB_INLINE void fb_nested_set_bit(uint8_t *bits, size_t at, bool value) {
    const unsigned mask = 1u << at % 8;
    bits[at / 8] = (uint8_t)((bits[at / 8] & ~mask) | (value ? mask : 0));
}

/* Make room for `count` values or lists. Memory is allocated for as many as are expected.
   NO_MEMORY. */
fb_status fb_nested_node_grow(fb_nested_node *node, size_t count, fb_memory *memory);
fb_status fb_nested_node_grow_lists(fb_nested_node *node, size_t count, fb_memory *memory);

FB_INLINE int32_t *fb_nested_offsets(const fb_nested_block *block) {
    return (int32_t *)(void *)block->data;
}

/* Begin the value of a row behind all others. Rows before it that have no value are absent. The
   caller sets the offset behind a text. Returns false if memory is short. REQUIRES: text is that of
   the node; row >= node->count. */
FB_INLINE bool fb_nested_reach_last(fb_nested_node *node, size_t row, bool text,
                                    fb_memory *memory) {
    if (FB_UNLIKELY(row >= node->room) && fb_nested_node_grow(node, row + 1, memory) != FB_OK)
        return false;
    if (text && FB_UNLIKELY(row > node->count)) {
        int32_t *offsets = fb_nested_offsets(&node->offsets);
        for (size_t i = node->count; i < row; i++) offsets[i + 1] = (int32_t)node->used;
    }
    node->count = row + 1;
    return true;
}

/* Begin the value of a row, which is absent until a value is stored. The rest is as above. */
FB_INLINE bool fb_nested_reach(fb_nested_node *node, size_t row, fb_memory *memory) {
    if (row < node->count) return true;
    if (!fb_nested_reach_last(node, row, node->text, memory)) return false;
    if (node->text) fb_nested_offsets(&node->offsets)[row + 1] = (int32_t)node->used;
    return true;
}

/* The same for the list of a row, which is empty at first. */
FB_INLINE bool fb_nested_reach_list(fb_nested_node *node, size_t row, fb_memory *memory) {
    if (row < node->lists) return true;
    if (FB_UNLIKELY((row + 2) * sizeof(int32_t) > node->ends.size) &&
        fb_nested_node_grow_lists(node, row + 1, memory) != FB_OK)
        return false;
    int32_t *ends = fb_nested_offsets(&node->ends);
    for (size_t i = node->lists; i <= row; i++) ends[i + 1] = (int32_t)node->count;
    node->lists = row + 1;
    return true;
}

/* Put a tracked node in front of the list of its parent, because a value is added. */
void fb_nested_touch(fb_nested_node *nodes, fb_nested_node *parent, int32_t node);

/* Remove what a node has from a row on, and what the nodes below it have there. With `all`, all of
   them are visited; otherwise, those in the lists of touched nodes. */
void fb_nested_drop(fb_nested_node *nodes, fb_nested_node *node, size_t row, bool all);

/* Turn the values of the nodes into a batch of `rows` rows. The nodes are empty then, after every
   status. NO_MEMORY. */
fb_status fb_nested_nodes_finish(fb_nested_node *nodes, size_t count, size_t rows,
                                 fb_memory *memory, fb_nested_batch **batch);

#endif
