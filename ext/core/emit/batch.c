/* A batch owns one block for all vectors of fixed width. Offsets and values of variable size have
   their own blocks, and those of the values grow while rows are written. */
#include "core/emit/batch.h"

#include "core/wire/wire.h"

static unsigned find_uint_width(uint64_t limit) {
    if (limit >> 32) return 8;
    if (limit >> 16) return 4;
    return limit >> 8 ? 2 : 1;
}

unsigned fb_batch_width(const fb_column *column) {
    switch (column->type) {
        case FB_TYPE_UINT: return find_uint_width(column->limit);
        case FB_TYPE_INT:
        case FB_TYPE_SINT: return column->limit >> 31 ? 8 : 4;
        case FB_TYPE_BOOL: return 1;
        case FB_TYPE_ENUM:
        case FB_TYPE_FLOAT:
        case FB_TYPE_FIXED32: return 4;
        case FB_TYPE_STRING:
        case FB_TYPE_BYTES: return 0;
        case FB_TYPE_IP: return 16;
        default: return 8;
    }
}

bool fb_batch_is_uneven(const fb_column *column) {
    return column->flags & FB_COLUMN_ENABLED &&
           (column->flags & FB_COLUMN_REPEATED || !fb_batch_width(column));
}

static bool is_fixed(const fb_vector *vector) {
    return vector->width && !vector->listed;
}

static void init_vector(fb_vector *vector, const fb_column *column) {
    vector->width = (uint8_t)fb_batch_width(column);
    vector->listed = column->flags & FB_COLUMN_REPEATED;
    while (vector->width > 1u << vector->shift) vector->shift++;
    if (is_fixed(vector)) vector->bit = column->bit;
}

static size_t round_up(size_t size) {
    return (size + FB_CACHE_LINE - 1) / FB_CACHE_LINE * FB_CACHE_LINE;
}

/* With room for the row of constants. */
static size_t size_of_fixed(const fb_vector *vector, size_t capacity) {
    return round_up((capacity + FB_BATCH_SLACK) * vector->width + FB_BATCH_SLACK);
}

static bool allocate_vector(fb_batch *batch, fb_vector *vector, const fb_column *column,
                            uint8_t **next) {
    if (is_fixed(vector)) {
        vector->values = *next;
        *next += size_of_fixed(vector, batch->capacity);
    } else {
        vector->offsets =
            fb_memory_allocate(&batch->memory, (batch->capacity + 1) * sizeof *vector->offsets);
        if (!vector->offsets) return false;
    }
    if (!(column->flags & FB_COLUMN_EXPLICIT) || vector->listed) return true;
    vector->present = fb_memory_allocate(&batch->memory, batch->capacity + 1);
    return vector->present != NULL;
}

fb_status fb_batch_new(fb_batch **out, const fb_plan *plan, size_t capacity, fb_memory memory) {
    fb_batch *batch = fb_memory_allocate(&memory, sizeof *batch);
    if (!batch) return FB_NO_MEMORY;
    *batch = (fb_batch){.memory = memory, .capacity = capacity, .vector_count = plan->column_count};
    batch->vectors =
        fb_memory_allocate(&batch->memory, plan->column_count * sizeof *batch->vectors);
    if (!batch->vectors) {
        fb_batch_free(batch);
        return FB_NO_MEMORY;
    }
    batch->fixed_size = FB_CACHE_LINE;
    for (size_t i = 0; i < plan->column_count; i++) {
        if (!(plan->columns[i].flags & FB_COLUMN_ENABLED)) continue;
        init_vector(&batch->vectors[i], &plan->columns[i]);
        if (is_fixed(&batch->vectors[i]))
            batch->fixed_size += size_of_fixed(&batch->vectors[i], capacity);
    }
    bool made = (batch->fixed = fb_memory_allocate(&batch->memory, batch->fixed_size));
    uint8_t *next = made ? fb_align_to_line(batch->fixed) : NULL;
    for (size_t i = 0; made && i < plan->column_count; i++)
        if (plan->columns[i].flags & FB_COLUMN_ENABLED)
            made = allocate_vector(batch, &batch->vectors[i], &plan->columns[i], &next);
    if (!made) {
        fb_batch_free(batch);
        return FB_NO_MEMORY;
    }
    *out = batch;
    return FB_OK;
}

/* Release the block of the vectors of fixed width. If zeros are reused, clear it here, where it is
   known which vectors have values. */
static void release_fixed(fb_batch *batch, fb_memory *memory) {
    if (!batch->fixed || !batch->vectors || !fb_memory_reuses_zeros(memory)) {
        fb_memory_release(memory, batch->fixed, batch->fixed_size);
        return;
    }
    for (size_t i = 0; i < batch->vector_count; i++) {
        const fb_vector *vector = &batch->vectors[i];
        if (!is_fixed(vector) || !vector->values || fb_batch_is_blank(batch, vector)) continue;
        memset(vector->values, 0, (batch->rows + 1) << vector->shift); /* with one unfinished */
        memset(vector->values + (fb_batch_constant_row(batch) << vector->shift), 0, vector->width);
    }
    fb_memory_release_zeros(memory, batch->fixed, batch->fixed_size);
}

void fb_batch_free(fb_batch *batch) {
    if (!batch) return;
    fb_memory memory = batch->memory;
    for (size_t i = 0; batch->vectors && i < batch->vector_count; i++) {
        fb_vector *vector = &batch->vectors[i];
        fb_memory_release(&memory, vector->offsets,
                          (batch->capacity + 1) * sizeof *vector->offsets);
        fb_memory_release(&memory, vector->members,
                          (vector->capacity + 1) * sizeof *vector->members);
        fb_memory_release(&memory, vector->present, batch->capacity + 1);
        if (!is_fixed(vector)) fb_memory_release(&memory, vector->values, vector->size);
    }
    release_fixed(batch, &memory);
    fb_memory_release(&memory, batch->vectors, batch->vector_count * sizeof *batch->vectors);
    fb_memory_release(&memory, batch, sizeof *batch);
}

/* Move the values and members of variable size; copy the arrays that have one entry per row. */
static void move_vector(fb_batch *to, fb_batch *from, fb_vector *vector, fb_vector *old) {
    size_t rows = from->rows;
    if (vector->present) memcpy(vector->present, old->present, rows);
    if (is_fixed(vector)) {
        memcpy(vector->values, old->values, rows << vector->shift);
        return;
    }
    uint32_t *offsets = vector->offsets;
    size_t moved = (old->values ? old->size : 0) +
                   (old->members ? (old->capacity + 1) * sizeof *old->members : 0);
    memcpy(offsets, old->offsets, (rows + 1) * sizeof *offsets);
    uint8_t *present = vector->present;
    *vector = *old;
    vector->offsets = offsets;
    vector->present = present;
    old->values = NULL;
    old->members = NULL;
    from->memory.used -= moved;
    to->memory.used += moved;
}

fb_status fb_batch_grow(fb_batch **batch, const fb_plan *plan, size_t capacity) {
    fb_batch *old = *batch, *larger;
    fb_memory memory = old->memory;
    memory.used = 0;
    if (fb_batch_new(&larger, plan, capacity, memory) != FB_OK) return FB_NO_MEMORY;
    larger->rows = old->rows;
    larger->written = old->written;
    for (size_t i = 0; i < old->vector_count; i++)
        if (plan->columns[i].flags & FB_COLUMN_ENABLED)
            move_vector(larger, old, &larger->vectors[i], &old->vectors[i]);
    fb_batch_free(old);
    *batch = larger;
    return FB_OK;
}

/* Doubling keeps the total cost of growing linear. */
static size_t grown_size(size_t size, size_t needed) {
    size_t twice = size ? 2 * size : 4096;
    return twice < needed ? needed : twice;
}

static bool grow_values(fb_batch *batch, fb_vector *vector, size_t needed) {
    size_t size = grown_size(vector->size, needed);
    uint8_t *values = fb_memory_resize(&batch->memory, vector->values, vector->size, size);
    if (!values) return false;
    vector->values = values;
    vector->size = size;
    return true;
}

static bool grow_members(fb_batch *batch, fb_vector *vector, size_t needed) {
    size_t capacity = grown_size(vector->capacity, needed),
           size = (capacity + 1) * sizeof *vector->members;
    if (!vector->width) {
        size_t old = vector->members ? (vector->capacity + 1) * sizeof *vector->members : 0;
        uint32_t *members = fb_memory_resize(&batch->memory, vector->members, old, size);
        if (!members) return false;
        vector->members = members;
    }
    vector->capacity = capacity;
    return true;
}

/* One input byte becomes at most a number of 8 bytes or the three bytes of U+FFFD. The four bytes
   of an address become 16. A list may have one member from outside the record. */
bool fb_batch_reserve(fb_batch *batch, fb_vector *vector, size_t bytes) {
    const size_t most = INT32_MAX; /* Arrow's offsets are signed */
    if (bytes > most / 16) return false;
    size_t size = vector->used + 8 * bytes + 16 + FB_BATCH_SLACK, count = vector->count + bytes + 1;
    if (size > most) return false;
    if (size > vector->size && !grow_values(batch, vector, size)) return false;
    return !vector->listed || count <= vector->capacity || grow_members(batch, vector, count);
}

void fb_batch_undo(fb_batch *batch, size_t row) {
    for (size_t i = 0; i < batch->vector_count; i++) {
        fb_vector *vector = &batch->vectors[i];
        if (vector->present) vector->present[row] = 0;
        if (is_fixed(vector)) memset(vector->values + (row << vector->shift), 0, vector->width);
        if (!vector->offsets) continue;
        size_t begin = vector->offsets[row];
        if (!vector->listed) vector->used = begin;
        else vector->used = vector->width ? begin * vector->width : vector->members[begin];
        if (vector->listed) vector->count = begin;
    }
}

void fb_vector_put_bytes(fb_vector *vector, const uint8_t *data, size_t size) {
    if (size) memcpy(vector->values + vector->used, data, size);
    vector->used += size;
}

bool fb_vector_put_text(fb_vector *vector, const uint8_t *data, size_t size) {
    bool replaced = !fb_utf8_valid((fb_bytes){data, size});
    uint8_t *from = vector->values + vector->used;
    if (replaced)
        vector->used +=
            (size_t)(fb_utf8_put_replaced(from, (fb_bytes){data, size}, &replaced) - from);
    else fb_vector_put_bytes(vector, data, size);
    return replaced;
}

void fb_vector_end_member(fb_vector *vector) {
    vector->members[++vector->count] = (uint32_t)vector->used;
}

void fb_vector_add_number(fb_vector *vector, uint64_t value) {
    fb_vector_set(vector, vector->count++, value);
    vector->used += vector->width;
}

void fb_vector_add_address(fb_vector *vector, const uint8_t *data, size_t size) {
    fb_vector_set_address(vector, vector->count++, data, size);
    vector->used += 16;
}

/* Copies of rows ----------------------------------------------------------------------------- */

/* Bytes or members of a row, in a vector of strings, bytes or lists. */
typedef struct {
    size_t begin, end;
} range;

static range find_range(const uint32_t *offsets, size_t i) {
    return (range){offsets[i], offsets[i + 1]};
}

/* Return the bytes of the values of a row. */
static range find_bytes(const fb_vector *vector, size_t row) {
    range found = find_range(vector->offsets, row);
    if (!vector->listed) return found;
    if (vector->width) return (range){found.begin * vector->width, found.end * vector->width};
    if (found.begin == found.end) return (range){0, 0}; /* there may be no members at all */
    return (range){vector->members[found.begin], vector->members[found.end]};
}

static bool reserve_copies(fb_batch *copy, fb_vector *to, const fb_vector *from,
                           const uint64_t *rows, size_t count) {
    size_t bytes = 0, members = 0;
    for (size_t i = 0; i < count; i++) {
        size_t row = (size_t)rows[i];
        range place = find_bytes(from, row), listed = find_range(from->offsets, row);
        bytes += place.end - place.begin;
        members += listed.end - listed.begin;
        if (bytes > INT32_MAX - FB_BATCH_SLACK || members > INT32_MAX) return false;
    }
    if (!grow_values(copy, to, bytes + FB_BATCH_SLACK)) return false;
    return !to->listed || grow_members(copy, to, members);
}

static void copy_members(fb_vector *to, const fb_vector *from, range members) {
    for (size_t i = members.begin; !to->width && i < members.end; i++)
        to->members[to->count + i - members.begin + 1] =
            (uint32_t)(to->used + from->members[i + 1] - from->members[members.begin]);
    to->count += members.end - members.begin;
}

static void copy_uneven_row(fb_vector *to, const fb_vector *from, size_t row) {
    range bytes = find_bytes(from, row);
    if (to->listed) copy_members(to, from, find_range(from->offsets, row));
    if (bytes.begin == bytes.end) return; /* there may be no values at all */
    fb_vector_put_bytes(to, from->values + bytes.begin, bytes.end - bytes.begin);
}

#define COPY_FIXED(size) \
    case size: \
        for (size_t i = 0; i < count; i++) \
            memcpy(to->values + i * (size), from->values + rows[i] * (size), size); \
        return

/* `memcpy` of a constant size is one instruction. */
static void copy_fixed(fb_vector *to, const fb_vector *from, const uint64_t *rows, size_t count) {
    switch (to->width) {
        COPY_FIXED(1);
        COPY_FIXED(2);
        COPY_FIXED(4);
        COPY_FIXED(8);
        default: COPY_FIXED(16);
    }
}

static bool copy_vector(fb_batch *copy, fb_vector *to, const fb_vector *from, const uint64_t *rows,
                        size_t count) {
    for (size_t i = 0; to->present && i < count; i++) to->present[i] = from->present[rows[i]];
    if (is_fixed(to)) {
        copy_fixed(to, from, rows, count);
        return true;
    }
    if (!reserve_copies(copy, to, from, rows, count)) return false;
    for (size_t i = 0; i < count; i++) {
        copy_uneven_row(to, from, (size_t)rows[i]);
        fb_vector_end(to, i);
    }
    return true;
}

fb_status fb_batch_take(fb_batch **out, const fb_plan *plan, const fb_batch *batch,
                        const uint64_t *rows, size_t count) {
    fb_memory memory = batch->memory;
    fb_batch *copy;
    memory.used = 0;
    if (fb_batch_new(&copy, plan, count ? count : 1, memory) != FB_OK) return FB_NO_MEMORY;
    copy->rows = count;
    copy->written = batch->written;
    for (size_t i = 0; i < copy->vector_count; i++) {
        if (!(plan->columns[i].flags & FB_COLUMN_ENABLED)) continue;
        if (copy_vector(copy, &copy->vectors[i], &batch->vectors[i], rows, count)) continue;
        fb_batch_free(copy);
        return FB_NO_MEMORY;
    }
    *out = copy;
    return FB_OK;
}
