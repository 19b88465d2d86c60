/* Builds the Arrow buffers that a batch does not have, and exports arrays. Every exported structure
   holds its own reference, because a consumer may keep one child of a struct array and release the
   others. */
#include "core/arrow/arrow_table.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/base/address_format.h"

typedef struct block block;
struct block {
    block *next;
    size_t size;
};

enum { BLOCK_HEAD = FB_CACHE_LINE };

typedef struct {
    const void *buffers[3];
    int64_t buffer_count, length, null_count;
} values;

typedef struct {
    values values;
    const void *lists[2]; /* of a list: validity (always NULL), offsets */
    bool listed, dictionary;
    values names; /* of the dictionary */
} column;

struct fb_table {
    atomic_size_t references;
    fb_memory memory;
    fb_table *base; /* owner of the batch; NULL: this table */
    fb_batch *batch;
    block *blocks; /* memory allocated for this table */
    size_t rows, count;
    column *columns;
};

/* Allocate memory that lives as long as the table. */
static void *allocate(fb_table *table, size_t size) {
    block *block = fb_memory_allocate(&table->memory, BLOCK_HEAD + size);
    if (!block) return NULL;
    block->next = table->blocks;
    block->size = BLOCK_HEAD + size;
    table->blocks = block;
    return (uint8_t *)block + BLOCK_HEAD;
}

/* Shrink the last allocation to `size` bytes if that is less than half of it. It may move. Blocks
   of full size are more often reused by later tables. */
static void *shrink_last_allocation(fb_table *table, size_t size) {
    block *old = table->blocks;
    if (2 * (BLOCK_HEAD + size) > old->size) return (uint8_t *)old + BLOCK_HEAD;
    block *block = fb_memory_resize(&table->memory, old, old->size, BLOCK_HEAD + size);
    if (!block) block = old; /* shrinking failed; keep the old size */
    else block->size = BLOCK_HEAD + size;
    table->blocks = block;
    return (uint8_t *)block + BLOCK_HEAD;
}

/* Values ------------------------------------------------------------------------------------- */

typedef struct {
    fb_table *table;
    const fb_column *column;
    const fb_table_field *field;
    const fb_vector *vector;
    values *values;
    size_t count; /* of values */
} maker;

static uint16_t load_u16(const uint8_t *values, size_t i) {
    uint16_t value;
    memcpy(&value, values + 2 * i, 2);
    return value;
}

static uint32_t load_u32(const uint8_t *values, size_t i) {
    uint32_t value;
    memcpy(&value, values + 4 * i, 4);
    return value;
}

static uint64_t load_u64(const uint8_t *values, size_t i) {
    uint64_t value;
    memcpy(&value, values + 8 * i, 8);
    return value;
}

/* Rows whose bits are made at once, by way of a byte of 0 or 1 for each. */
enum { STEP = 1024 };

/* Find the values that are not 0, or not empty. */
static void find_values(const fb_vector *vector, size_t first, size_t count, uint8_t *found) {
    const uint32_t *offsets = vector->offsets;
    if (!vector->width) {
        for (size_t i = 0; i < count; i++) found[i] = offsets[first + i + 1] > offsets[first + i];
        return;
    }
    const uint8_t *p = vector->values + (first << vector->shift);
    switch (vector->width) {
        case 1:
#pragma omp simd
            for (size_t i = 0; i < count; i++) found[i] = p[i] != 0;
            return;
        case 2:
#pragma omp simd
            for (size_t i = 0; i < count; i++) found[i] = load_u16(p, i) != 0;
            return;
        case 4:
#pragma omp simd
            for (size_t i = 0; i < count; i++) found[i] = load_u32(p, i) != 0;
            return;
        case 8:
#pragma omp simd
            for (size_t i = 0; i < count; i++) found[i] = load_u64(p, i) != 0;
            return;
        default:
            for (size_t i = 0; i < count; i++)
                found[i] = (load_u64(p, 2 * i) | load_u64(p, 2 * i + 1)) != 0;
    }
}

static void find_present(const fb_vector *vector, size_t first, size_t count, uint8_t *found) {
    if (vector->present) memcpy(found, vector->present + first, count);
    else find_values(vector, first, count, found);
}

/* Pack bytes of 0 or 1 into bits, eight at a time, and return the number of ones. One
   multiplication collects the lowest bits in the highest byte; the other adds them there. REQUIRES:
   zeros behind the bytes, up to the next multiple of 8. */
static size_t pack(uint8_t *bits, const uint8_t *bytes, size_t count) {
    size_t ones = 0;
    for (size_t i = 0; i < count; i += 8) {
        uint64_t eight = fb_load_little64(bytes + i);
        bits[i / 8] = (uint8_t)(eight * 0x0102040810204080u >> 56);
        ones += (size_t)(eight * 0x0101010101010101u >> 56);
    }
    return ones;
}

/* Make a bit for each value, with `find`. Return NULL if memory is short. */
static uint8_t *make_bits(const maker *m,
                          void (*find)(const fb_vector *, size_t, size_t, uint8_t *),
                          size_t *ones) {
    uint8_t *bits = allocate(m->table, (m->count + 7) / 8), found[STEP + 8];
    *ones = 0;
    for (size_t first = 0; bits && first < m->count; first += STEP) {
        size_t count = m->count - first < STEP ? m->count - first : STEP;
        find(m->vector, first, count, found);
        memset(found + count, 0, 8);
        *ones += pack(bits + first / 8, found, count);
    }
    return bits;
}

static bool make_validity(const maker *m) {
    size_t present = 0;
    if (!m->count || (!m->vector->present && !m->field->nullable)) return true;
    uint8_t *bits = fb_batch_is_blank(m->table->batch, m->vector)
                        ? allocate(m->table, (m->count + 7) / 8)
                        : make_bits(m, find_present, &present);
    m->values->null_count = (int64_t)(m->count - present);
    if (m->values->null_count) m->values->buffers[0] = bits;
    return bits != NULL;
}

static bool make_bools(const maker *m) {
    size_t ones;
    return (m->values->buffers[1] = make_bits(m, find_values, &ones)) != NULL;
}

/* Return an upper bound for the bytes of all texts. */
static size_t size_of_texts(const maker *m, bool address) {
    size_t mapped = 0;
    if (!address) return m->count * FB_FORMAT_MAC_MAX;
    for (size_t i = 0; i < m->count; i++) mapped += fb_is_mapped(m->vector->values + 16 * i);
    return mapped * FB_FORMAT_IPV4_MAX + (m->count - mapped) * FB_FORMAT_ADDRESS_MAX;
}

/* Each value gets room for the longest text; the unused rest is released at the end. */
static bool make_text(const maker *m) {
    bool address = m->vector->width == 16;
    const uint8_t *validity = m->values->buffers[0];
    const size_t most = size_of_texts(m, address);
    if (most > INT32_MAX) return false;
    uint32_t *offsets = allocate(m->table, (m->count + 1) * sizeof *offsets);
    char *text = allocate(m->table, most), *p = text;
    if (!text || !offsets) return false;
    for (size_t i = 0; i < m->count; i++) {
        if (!validity || validity[i / 8] >> i % 8 & 1)
            p = address ? fb_format_address(p, m->vector->values + 16 * i)
                        : fb_format_mac(p, load_u64(m->vector->values, i));
        offsets[i + 1] = (uint32_t)(p - text);
    }
    m->values->buffer_count = 3;
    m->values->buffers[1] = offsets;
    m->values->buffers[2] = shrink_last_allocation(m->table, (size_t)(p - text));
    return true;
}

/* Enums -------------------------------------------------------------------------------------- */

/* Find a number in a sorted array. Returns `count` if it is not there. */
static size_t find_number(const uint32_t *numbers, size_t count, uint32_t number) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (numbers[middle] < number) low = middle + 1;
        else high = middle;
    }
    return low < count && numbers[low] == number ? low : count;
}

static int compare_numbers(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Append the numbers that no member has, sorted and without duplicates. */
static size_t add_unknown_members(const maker *m, uint32_t *numbers, size_t known) {
    size_t count = known;
    for (size_t i = 0; i < m->count; i++) {
        uint32_t number = load_u32(m->vector->values, i);
        if (find_number(numbers, known, number) == known) numbers[count++] = number;
    }
    if (count == known) return count;
    qsort(numbers + known, count - known, sizeof *numbers, compare_numbers);
    size_t end = known + 1;
    for (size_t i = known + 1; i < count; i++)
        if (numbers[i] != numbers[end - 1]) numbers[end++] = numbers[i];
    return end;
}

static char *put_name(char *p, fb_bytes name) {
    if (name.size) memcpy(p, name.data, name.size);
    return p + name.size;
}

/* Make the dictionary. A member has its name, any other number its decimal text. `numbers` may be
   NULL if there are no others. */
static bool make_names(const maker *m, values *names, const uint32_t *numbers, size_t known,
                       size_t count) {
    size_t size = (count - known) * FB_FORMAT_NUMBER_MAX;
    for (size_t i = 0; i < known; i++) size += m->field->members[i].name.size;
    if (size > INT32_MAX) return false;
    char *text = allocate(m->table, size), *p = text;
    uint32_t *offsets = allocate(m->table, (count + 1) * sizeof *offsets);
    if (!text || !offsets) return false;
    for (size_t i = 0; i < count; i++) {
        p = i < known ? put_name(p, m->field->members[i].name) : fb_format_number(p, numbers[i]);
        offsets[i + 1] = (uint32_t)(p - text);
    }
    *names = (values){{NULL, offsets, text}, 3, (int64_t)count, 0};
    return true;
}

/* True if members are numbered from 0 on and no other number occurs. Then a number is its
   dictionary index. */
static bool numbers_are_indices(const maker *m) {
    const uint8_t *values = m->vector->values;
    const uint32_t members = (uint32_t)m->field->member_count;
    uint32_t others = 0;
#pragma omp simd reduction(| : others)
    for (size_t i = 0; i < m->count; i++) others |= load_u32(values, i) >= members;
    for (size_t i = 0; i < members; i++)
        if (m->field->members[i].number != i) return false;
    return !others;
}

static bool make_indices(const maker *m, const uint32_t *numbers, size_t known, size_t count) {
    uint32_t *indices = allocate(m->table, m->count * sizeof *indices);
    if (!indices) return false;
    for (size_t i = 0; i < m->count; i++) {
        uint32_t number = load_u32(m->vector->values, i);
        size_t index = find_number(numbers, known, number);
        indices[i] =
            (uint32_t)(index < known ? index
                                     : known + find_number(numbers + known, count - known, number));
    }
    m->values->buffers[1] = indices;
    return true;
}

static bool make_dictionary(const maker *m, values *names) {
    const size_t known = m->field->member_count, size = (known + m->count + 1) * sizeof(uint32_t);
    if (numbers_are_indices(m)) return make_names(m, names, NULL, known, known);
    uint32_t *numbers = fb_memory_allocate(&m->table->memory, size);
    if (!numbers) return false;
    for (size_t i = 0; i < known; i++) numbers[i] = m->field->members[i].number;
    size_t count = add_unknown_members(m, numbers, known);
    bool made =
        make_indices(m, numbers, known, count) && make_names(m, names, numbers, known, count);
    fb_memory_release(&m->table->memory, numbers, size);
    return made;
}

/* Tables ------------------------------------------------------------------------------------- */

/* Placeholder buffer of an empty array. Arrow requires at least one offset. */
static const uint64_t nothing[2];

static const void *non_null_buffer(const void *buffer) {
    return buffer ? buffer : nothing;
}

static bool make_column(fb_table *table, const fb_plan *plan, const fb_table_field *field,
                        column *out) {
    const fb_column *column = &plan->columns[field->column];
    const fb_vector *vector = &table->batch->vectors[field->column];
    maker m = {table,  column,       field,
               vector, &out->values, vector->listed ? vector->count : table->rows};
    out->listed = vector->listed;
    out->lists[1] = vector->offsets;
    const void *bytes = non_null_buffer(vector->values),
               *offsets = non_null_buffer(vector->listed ? vector->members : vector->offsets);
    if (vector->width) *m.values = (values){{NULL, bytes, NULL}, 2, (int64_t)m.count, 0};
    else *m.values = (values){{NULL, offsets, bytes}, 3, (int64_t)m.count, 0};
    if (!vector->listed && !make_validity(&m)) return false;
    if (column->type == FB_TYPE_BOOL) return make_bools(&m);
    if (column->type == FB_TYPE_ENUM)
        return (out->dictionary = true) && make_dictionary(&m, &out->names);
    return !field->text || make_text(&m);
}

static void retain(fb_table *table) {
    atomic_fetch_add_explicit(&table->references, 1, memory_order_relaxed);
}

/* Create a table that owns `batch`, or shares the batch of `base`. */
static fb_status new_table(fb_table **out, const fb_plan *plan, fb_table *base, fb_batch *batch,
                           const fb_table_field *fields, size_t count) {
    fb_memory memory = batch->memory;
    memory.used = 0;
    fb_table *table = fb_memory_allocate(&memory, sizeof *table);
    if (!table) {
        if (!base) fb_batch_free(batch);
        return FB_NO_MEMORY;
    }
    atomic_init(&table->references, 1);
    table->memory = memory;
    if ((table->base = base)) retain(base);
    table->batch = batch;
    table->rows = batch->rows;
    table->count = count;
    bool made = (table->columns = allocate(table, count * sizeof *table->columns));
    for (size_t i = 0; made && i < count; i++)
        made = make_column(table, plan, &fields[i], &table->columns[i]);
    if (!made) {
        fb_table_release(table);
        return FB_NO_MEMORY;
    }
    *out = table;
    return FB_OK;
}

fb_status fb_table_new(fb_table **table, const fb_plan *plan, fb_batch *batch,
                       const fb_table_field *fields, size_t count) {
    return new_table(table, plan, NULL, batch, fields, count);
}

fb_status fb_table_view(fb_table **table, const fb_plan *plan, fb_table *base,
                        const fb_table_field *fields, size_t count) {
    return new_table(table, plan, base, base->batch, fields, count);
}

fb_status fb_table_take(fb_table **table, const fb_plan *plan, const fb_table *base,
                        const uint64_t *rows, size_t row_count, const fb_table_field *fields,
                        size_t count) {
    fb_batch *batch;
    fb_status status = fb_batch_take(&batch, plan, base->batch, rows, row_count);
    return status == FB_OK ? fb_table_new(table, plan, batch, fields, count) : status;
}

void fb_table_release(fb_table *table) {
    if (!table || atomic_fetch_sub_explicit(&table->references, 1, memory_order_acq_rel) > 1)
        return;
    fb_memory memory = table->memory;
    for (block *block = table->blocks, *next; block; block = next) {
        next = block->next;
        fb_memory_release(&memory, block, block->size);
    }
    if (table->base) fb_table_release(table->base);
    else fb_batch_free(table->batch);
    fb_memory_release(&memory, table, sizeof *table);
}

size_t fb_table_rows(const fb_table *table) {
    return table->rows;
}

size_t fb_table_size(const fb_table *table) {
    return table->memory.used +
           (table->base ? fb_table_size(table->base) : table->batch->memory.used);
}

/* Arrays ------------------------------------------------------------------------------------- */

/* Memory of an exported array. It stores its children until the consumer moves them. A moved child
   keeps its own node. */
typedef struct {
    fb_memory memory;
    size_t size;
    fb_table *table;
    const void *none; /* the validity of the struct */
    struct ArrowArray **children, *arrays;
} array_node;

static void release_array(struct ArrowArray *array) {
    array_node *node = array->private_data;
    fb_memory memory = node->memory;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release) array->children[i]->release(array->children[i]);
    if (array->dictionary && array->dictionary->release)
        array->dictionary->release(array->dictionary);
    fb_table_release(node->table);
    fb_memory_release(&memory, node, node->size);
    array->release = NULL;
}

/* Allocate an array with space for `children` and their dictionary. The children are not yet
   made. */
static bool new_array(fb_table *table, struct ArrowArray *array, size_t children) {
    fb_memory memory = table->memory;
    memory.used = 0;
    size_t size = sizeof(array_node) +
                  (children + 1) * (sizeof(struct ArrowArray) + sizeof(struct ArrowArray *));
    array_node *node = fb_memory_allocate(&memory, size);
    if (!node) return false;
    node->memory = memory;
    node->size = size;
    node->table = table;
    node->arrays = (struct ArrowArray *)(node + 1);
    node->children = (struct ArrowArray **)(node->arrays + children + 1);
    for (size_t i = 0; i < children; i++) node->children[i] = &node->arrays[i];
    *array = (struct ArrowArray){.children = children ? node->children : NULL,
                                 .release = release_array,
                                 .private_data = node};
    retain(table);
    return true;
}

static void set_values(struct ArrowArray *array, const values *values) {
    array->length = values->length;
    array->null_count = values->null_count;
    array->n_buffers = values->buffer_count;
    array->buffers = (const void **)(uintptr_t)values->buffers;
}

static bool export_values(fb_table *table, const column *column, struct ArrowArray *array) {
    if (!new_array(table, array, 0)) return false;
    set_values(array, &column->values);
    if (!column->dictionary) return true;
    struct ArrowArray *names = ((array_node *)array->private_data)->arrays;
    if (!new_array(table, names, 0)) return false;
    set_values(names, &column->names);
    array->dictionary = names;
    return true;
}

/* After a failure the caller releases the parent, which releases this array. */
static bool export_column(fb_table *table, const column *column, struct ArrowArray *array) {
    if (!column->listed) return export_values(table, column, array);
    if (!new_array(table, array, 1)) return false;
    array->length = (int64_t)table->rows;
    array->n_buffers = 2;
    array->buffers = (const void **)(uintptr_t)column->lists;
    array->n_children = 1;
    return export_values(table, column, array->children[0]);
}

fb_status fb_table_export(fb_table *table, struct ArrowArray *out) {
    struct ArrowArray array;
    if (!new_array(table, &array, table->count)) return FB_NO_MEMORY;
    array_node *node = array.private_data;
    array.length = (int64_t)table->rows;
    array.n_buffers = 1;
    array.buffers = &node->none;
    array.n_children = (int64_t)table->count;
    for (size_t i = 0; i < table->count; i++)
        if (!export_column(table, &table->columns[i], array.children[i])) {
            array.release(&array);
            return FB_NO_MEMORY;
        }
    *out = array;
    return FB_OK;
}
