/* Growth and removal of values, and the arrays of a finished batch. A node without any value has no
   memory of its own: all of its buffers are the same zeros. */
#include "core/nested/nested_node.h"

#include "core/base/address_format.h"

#include <stdlib.h>

/* Growth and removal ------------------------------------------------------------------------- */

enum { STEP = 512 }; /* values that are cleared at once, so that they stay in the cache */

static fb_status enlarge(fb_nested_node *node, size_t count, fb_memory *memory) {
    const fb_nested_type *type = node->type;
    const size_t more = (node->capacity < 64 ? 4 : 2) * node->capacity;
    if (count < more) count = more;
    if (count < node->hint) count = node->hint;
    const size_t capacity = (count + 7) / 8 * 8, bits = capacity / 8;
    const size_t values = type->kind == FB_NESTED_BOOL ? bits : capacity * type->width;
    const size_t offsets = fb_nested_is_text(type) ? (capacity + 1) * sizeof(int32_t) : 0;
    if (count > INT32_MAX ||
        fb_nested_block_grow(&node->present, type->nullable ? bits : 0, memory) != FB_OK ||
        fb_nested_block_grow(&node->values, values, memory) != FB_OK ||
        fb_nested_block_grow(&node->offsets, offsets, memory) != FB_OK)
        return FB_NO_MEMORY;
    if (offsets) *fb_nested_offsets(&node->offsets) = 0;
    node->capacity = capacity;
    return FB_OK;
}

fb_status fb_nested_node_grow(fb_nested_node *node, size_t count, fb_memory *memory) {
    const fb_nested_type *type = node->type;
    const size_t from = node->room, width = type->width;
    if (count > node->capacity && enlarge(node, count, memory) != FB_OK) return FB_NO_MEMORY;
    size_t room = (count + STEP - 1) / STEP * STEP;
    if (room > node->capacity) room = node->capacity;
    const size_t added = room - from;
    if (type->nullable) memset(node->present.data + from / 8, 0, added / 8);
    if (type->kind == FB_NESTED_BOOL) memset(node->values.data + from / 8, 0, added / 8);
    if (width) memset(node->values.data + from * width, 0, added * width);
    node->room = room;
    return FB_OK;
}

fb_status fb_nested_node_grow_lists(fb_nested_node *node, size_t count, fb_memory *memory) {
    if (count < node->lists_hint) count = node->lists_hint;
    if (fb_nested_block_grow(&node->ends, (count + 1) * sizeof(int32_t), memory) != FB_OK)
        return FB_NO_MEMORY;
    *fb_nested_offsets(&node->ends) = 0;
    return FB_OK;
}

static void push_touched(fb_nested_node *nodes, fb_nested_node *parent, int32_t place,
                         size_t rows) {
    fb_nested_node *node = &nodes[place];
    node->touched = true;
    node->touched_rows = rows;
    node->previous_touched = FB_NESTED_NO_NODE;
    node->next_touched = parent->first_touched;
    if (parent->first_touched != FB_NESTED_NO_NODE)
        nodes[parent->first_touched].previous_touched = place;
    parent->first_touched = place;
}

static void unlink_touched(fb_nested_node *nodes, fb_nested_node *parent, fb_nested_node *node) {
    if (node->previous_touched == FB_NESTED_NO_NODE) parent->first_touched = node->next_touched;
    else nodes[node->previous_touched].next_touched = node->next_touched;
    if (node->next_touched != FB_NESTED_NO_NODE)
        nodes[node->next_touched].previous_touched = node->previous_touched;
    node->touched = false;
}

void fb_nested_touch(fb_nested_node *nodes, fb_nested_node *parent, int32_t place) {
    fb_nested_node *node = &nodes[place];
    if (node->touched && node->touched_rows == SIZE_MAX) return;
    if (node->touched) unlink_touched(nodes, parent, node);
    push_touched(nodes, parent, place, SIZE_MAX);
}

/* Drop the rows from `count` on of the touched nodes. Those that have values in rows before stay in
   the list: a message around this one may be dropped, too. */
static void drop_touched(fb_nested_node *nodes, fb_nested_node *parent, size_t count) {
    int32_t kept = FB_NESTED_NO_NODE, first;
    while ((first = parent->first_touched) != FB_NESTED_NO_NODE &&
           nodes[first].touched_rows > count) {
        fb_nested_node *node = &nodes[first];
        unlink_touched(nodes, parent, node);
        fb_nested_drop(nodes, node, count, false);
        if (!node->count && !node->lists) continue;
        node->next_touched = kept;
        kept = first;
    }
    while (kept != FB_NESTED_NO_NODE) {
        const int32_t next = nodes[kept].next_touched;
        push_touched(nodes, parent, kept, count);
        kept = next;
    }
}

static void remove_values(fb_nested_node *nodes, fb_nested_node *node, size_t count, bool all) {
    const fb_nested_type *type = node->type;
    const size_t width = type->width;
    if (node->count <= count) return;
    for (size_t i = count; i < node->count && type->nullable; i++)
        fb_nested_set_bit(node->present.data, i, false);
    for (size_t i = count; i < node->count && type->kind == FB_NESTED_BOOL; i++)
        fb_nested_set_bit(node->values.data, i, false);
    if (width) memset(node->values.data + count * width, 0, (node->count - count) * width);
    if (fb_nested_is_text(type)) node->used = (size_t)fb_nested_offsets(&node->offsets)[count];
    node->count = count;
    node->waiting = false;
    for (size_t i = 0; all && i < type->child_count; i++)
        fb_nested_drop(nodes, &nodes[type->children[i]], count, all);
    if (!all) drop_touched(nodes, node, count);
}

void fb_nested_drop(fb_nested_node *nodes, fb_nested_node *node, size_t row, bool all) {
    if (!node->type->repeated) {
        remove_values(nodes, node, row, all);
    } else if (node->lists > row) {
        remove_values(nodes, node, (size_t)fb_nested_offsets(&node->ends)[row], all);
        node->lists = row;
        node->entries.count = 0;
        node->entries.unknown = 0;
    }
}

/* Arrays ------------------------------------------------------------------------------------- */

typedef struct {
    fb_nested_node *nodes;
    fb_memory *memory;
    fb_nested_batch *batch;
    const uint8_t *zeros;
    size_t zeros_size;
} maker;

enum { ZEROS = 64 }; /* most blocks of zeros: each is twice as large as the one before */

/* Return a buffer of at least `size` zeros, or NULL if memory is short. */
static const void *find_zeros(maker *m, size_t size) {
    fb_nested_block block = {NULL, 0};
    if (m->zeros_size < size || !m->zeros) {
        const size_t wanted = size < 2 * m->zeros_size ? 2 * m->zeros_size : size;
        if (fb_nested_block_grow(&block, wanted + 1, m->memory) != FB_OK) return NULL;
        memset(block.data, 0, block.size);
        m->zeros_size = block.size;
        m->zeros = fb_nested_batch_take(m->batch, &block);
    }
    return m->zeros;
}

static fb_nested_array *new_array(maker *m, size_t length, uint8_t buffers, size_t children) {
    fb_nested_array *array = &m->batch->arrays[m->batch->array_count++];
    *array = (fb_nested_array){.length = (int64_t)length,
                               .buffer_count = buffers,
                               .first_child = m->batch->link_count,
                               .child_count = children};
    m->batch->link_count += children;
    return array;
}

static size_t count_ones(uint64_t bits) {
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (size_t)(bits * 0x0101010101010101u >> 56);
}

/* Count the bits of a block, which has whole words. */
static size_t count_bits(const uint8_t *bits, size_t count) {
    size_t found = 0;
    for (size_t i = 0; i < count / 64; i++) found += count_ones(fb_load_little64(bits + 8 * i));
    if (count % 64)
        found +=
            count_ones(fb_load_little64(bits + count / 64 * 8) & (((uint64_t)1 << count % 64) - 1));
    return found;
}

/* Give a block to the batch. Memory that was allocated for values that did not come is returned. */
static const void *take_block(maker *m, fb_nested_block *block, size_t used) {
    fb_nested_block_trim(block, used, m->memory);
    return fb_nested_batch_take(m->batch, block);
}

/* Set the buffers of an array from a node that has a value for each row. */
static void take_buffers(maker *m, fb_nested_node *node, fb_nested_array *array) {
    const size_t count = (size_t)array->length, bits = (count + 7) / 8;
    if (node->type->nullable) {
        array->null_count = (int64_t)(count - count_bits(node->present.data, count));
        const void *present = take_block(m, &node->present, bits);
        array->buffers[0] = array->null_count ? present : NULL;
    }
    if (array->buffer_count == 3) {
        array->buffers[1] = take_block(m, &node->offsets, (count + 1) * sizeof(int32_t));
        array->buffers[2] = take_block(m, &node->bytes, node->used);
    } else if (array->buffer_count == 2) {
        const size_t width = node->type->width;
        array->buffers[1] = take_block(m, &node->values, width ? count * width : bits);
    }
}

/* Set the buffers of an array without values. */
static bool set_zeros(maker *m, const fb_nested_node *node, fb_nested_array *array) {
    const void *zeros = find_zeros(m, ((size_t)array->length + 1) * 8);
    if (!zeros) return false;
    if (node->type->nullable) {
        array->null_count = array->length;
        array->buffers[0] = array->length ? zeros : NULL;
    }
    for (uint8_t i = 1; i < array->buffer_count; i++) array->buffers[i] = zeros;
    return true;
}

/* Names --------------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b) {
    const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

/* Collect the numbers among the values that are no members, in ascending order. */
static bool collect_others(maker *m, const fb_nested_node *node, fb_nested_block *numbers,
                           size_t *count) {
    const fb_nested_names *names = node->type->names;
    const uint32_t *values = (const uint32_t *)(const void *)node->values.data;
    uint32_t *all = NULL;
    size_t found = 0, kept = 0;
    for (size_t i = 0; i < node->count; i++) {
        const uint32_t number = values[i];
        if (fb_nested_find_number(names->numbers, names->count, number) < names->count) continue;
        if (found && all[found - 1] == number) continue;
        if (fb_nested_block_grow(numbers, (found + 1) * sizeof *all, m->memory) != FB_OK)
            return false;
        all = (uint32_t *)(void *)numbers->data;
        all[found++] = number;
    }
    if (found) qsort(all, found, sizeof *all, compare_numbers);
    for (size_t i = 0; i < found; i++)
        if (!kept || all[kept - 1] != all[i]) all[kept++] = all[i];
    *count = kept;
    return true;
}

/* Set the buffers of a dictionary: the names, and behind them other numbers as text. */
static bool put_names(maker *m, const fb_nested_names *names, const uint32_t *others, size_t count,
                      fb_nested_array *array) {
    fb_nested_block offsets = {NULL, 0}, bytes = {NULL, 0};
    const size_t used = (size_t)names->offsets[names->count];
    const size_t size = used + FB_FORMAT_NUMBER_MAX * count;
    const bool room = size <= INT32_MAX &&
                      fb_nested_block_grow(&offsets, ((size_t)array->length + 1) * sizeof(int32_t),
                                           m->memory) == FB_OK &&
                      fb_nested_block_grow(&bytes, size, m->memory) == FB_OK;
    if (room) {
        int32_t *end = fb_nested_offsets(&offsets) + names->count;
        memcpy(offsets.data, names->offsets, (names->count + 1) * sizeof(int32_t));
        memcpy(bytes.data, names->bytes, used);
        for (size_t i = 0; i < count; i++, end++)
            end[1] = end[0] + (int32_t)(fb_format_number((char *)bytes.data + *end, others[i]) -
                                        ((char *)bytes.data + *end));
    }
    /* the batch frees them, in any case */
    array->buffers[1] = fb_nested_batch_take(m->batch, &offsets);
    array->buffers[2] = fb_nested_batch_take(m->batch, &bytes);
    return room;
}

/* Make the dictionary of names, and turn the numbers of the node into its indexes. The names are
   shared, unless there are other numbers. */
static bool make_dictionary(maker *m, fb_nested_node *node, size_t array_place) {
    fb_nested_names *names = node->type->names;
    fb_nested_block numbers = {NULL, 0};
    size_t count;
    bool made = collect_others(m, node, &numbers, &count);
    if (made) {
        const uint32_t *others = (const uint32_t *)(const void *)numbers.data;
        uint32_t *values = (uint32_t *)(void *)node->values.data;
        m->batch->arrays[array_place].dictionary = m->batch->array_count;
        fb_nested_array *array = new_array(m, names->count + count, 3, 0);
        if (count) {
            made = put_names(m, names, others, count, array);
        } else {
            m->batch->names[m->batch->names_count++] = fb_nested_names_share(names);
            array->buffers[1] = names->offsets;
            array->buffers[2] = names->bytes;
        }
        for (size_t i = 0; i < node->count; i++) {
            size_t index = fb_nested_find_number(names->numbers, names->count, values[i]);
            if (index == names->count) index += fb_nested_find_number(others, count, values[i]);
            values[i] = (uint32_t)index;
        }
    }
    fb_memory_release(m->memory, numbers.data, numbers.size);
    return made;
}

/* The tree ------------------------------------------------------------------------------------ */

static bool make_node(maker *m, fb_nested_node *node, size_t rows);

/* Make the array of the values of a node, and of everything below it. */
static bool make_values(maker *m, fb_nested_node *node, size_t count) {
    const fb_nested_type *type = node->type;
    const bool is_struct = type->kind == FB_NESTED_STRUCT, text = fb_nested_is_text(type);
    const size_t place = m->batch->array_count;
    fb_nested_array *array =
        new_array(m, count, (uint8_t)(text ? 3 : 2 - is_struct), is_struct ? type->child_count : 0);
    const bool absent = !node->count || !count;
    if (!absent && !fb_nested_reach(node, count - 1, m->memory)) return false;
    if (type->kind == FB_NESTED_NAME && !make_dictionary(m, node, place)) return false;
    if (absent && !set_zeros(m, node, array)) return false;
    if (!absent) take_buffers(m, node, array);
    for (size_t i = 0; i < array->child_count; i++) {
        m->batch->links[array->first_child + i] = m->batch->array_count;
        if (!make_node(m, &m->nodes[type->children[i]], count)) return false;
    }
    return true;
}

static bool make_node(maker *m, fb_nested_node *node, size_t rows) {
    if (!node->type->repeated) return make_values(m, node, rows);
    fb_nested_array *list = new_array(m, rows, 2, 1);
    m->batch->links[list->first_child] = m->batch->array_count;
    if (!node->lists || !rows) {
        if (!(list->buffers[1] = find_zeros(m, (rows + 1) * 8))) return false;
    } else {
        if (!fb_nested_reach_list(node, rows - 1, m->memory)) return false;
        list->buffers[1] = take_block(m, &node->ends, (rows + 1) * sizeof(int32_t));
    }
    return make_values(m, node, node->count);
}

static void reset_node(fb_nested_node *node, fb_memory *memory) {
    fb_nested_block *blocks[] = {&node->ends, &node->present, &node->values, &node->offsets,
                                 &node->bytes};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        fb_memory_release(memory, blocks[i]->data, blocks[i]->size);
        *blocks[i] = (fb_nested_block){NULL, 0};
    }
    node->last_count = node->count;
    node->last_used = node->used;
    node->last_lists = node->lists;
    node->lists = node->count = node->room = node->capacity = node->used = 0;
    node->touched = false;
    node->first_touched = FB_NESTED_NO_NODE;
}

fb_status fb_nested_nodes_finish(fb_nested_node *nodes, size_t count, size_t rows,
                                 fb_memory *memory, fb_nested_batch **batch) {
    maker m = {.nodes = nodes, .memory = memory};
    size_t arrays = 0, links = 0, blocks = ZEROS, names = 0;
    for (size_t i = 0; i < count; i++) {
        const fb_nested_type *type = nodes[i].type;
        const bool is_name = type->kind == FB_NESTED_NAME;
        arrays += 1u + type->repeated + is_name;
        links += type->repeated + type->child_count;
        blocks += type->repeated + type->nullable + (fb_nested_is_text(type) || is_name ? 3u : 1u);
        names += is_name;
    }
    fb_memory own = *memory;
    own.used = 0;
    fb_status status = fb_nested_batch_new(&m.batch, arrays, links, blocks, names, own);
    if (status == FB_OK && !make_node(&m, nodes, rows)) status = FB_NO_MEMORY;
    for (size_t i = 0; i < count; i++) reset_node(&nodes[i], memory);
    if (m.batch) { /* the blocks belong to the batch now */
        memory->used -= m.batch->bytes;
        m.batch->memory.used += m.batch->bytes;
    }
    if (status != FB_OK) {
        fb_nested_batch_release(m.batch);
        return status;
    }
    m.batch->rows = rows;
    *batch = m.batch;
    return FB_OK;
}
