/* Slow paths of the column emitter: constants, deferred values, lists, strings and bytes. */
#include "core/emit/columns.h"

fb_status fb_columns_new(fb_columns *columns, const fb_plan *plan, fb_memory *memory) {
    size_t count = plan->column_count;
    *columns =
        (fb_columns){.plan = plan, .columns = plan->columns, .memory = memory, .open = plan->open};
    columns->constants = fb_memory_allocate(memory, (count + 1) * sizeof *columns->constants);
    columns->saved = fb_memory_allocate(memory, (count + 1) * sizeof *columns->saved);
    columns->untracked = fb_memory_allocate(memory, (count + 1) * sizeof *columns->untracked);
    columns->uneven = fb_memory_allocate(memory, (count + 1) * sizeof *columns->uneven);
    if (!columns->constants || !columns->saved || !columns->untracked || !columns->uneven ||
        fb_column_states_new(&columns->states, plan, memory) != FB_OK ||
        fb_deferred_values_new(&columns->deferred, plan, memory) != FB_OK) {
        fb_columns_free(columns);
        return FB_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        const fb_column *column = &plan->columns[i];
        if (!(column->flags & FB_COLUMN_ENABLED)) continue;
        if (fb_batch_is_uneven(column)) columns->uneven[columns->uneven_count++] = (uint16_t)i;
        for (unsigned bit = 0; bit < 64; bit++)
            if (column->bit == 1ull << bit) columns->column_of_bit[bit] = (uint16_t)i;
    }
    return FB_OK;
}

void fb_columns_free(fb_columns *columns) {
    if (!columns->plan) return;
    size_t count = columns->plan->column_count + 1;
    fb_memory_release(columns->memory, columns->constants, count * sizeof *columns->constants);
    fb_memory_release(columns->memory, columns->saved, count * sizeof *columns->saved);
    fb_memory_release(columns->memory, columns->untracked, count * sizeof *columns->untracked);
    fb_memory_release(columns->memory, columns->uneven, count * sizeof *columns->uneven);
    fb_column_states_free(&columns->states, columns->memory);
    fb_deferred_values_free(&columns->deferred, columns->memory);
    *columns = (fb_columns){0};
}

/* Values ----------------------------------------------------------------------------------- */

/* Convert a number to the width of its column. Bits above the width are cleared. */
static uint64_t narrow_number(const fb_column *column, uint64_t number) {
    if (column->type == FB_TYPE_FLOAT) {
        double wide;
        memcpy(&wide, &number, 8);
        float value = (float)wide;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        return bits;
    }
    unsigned width = fb_batch_width(column);
    return width == 8 ? number : number & ((1ull << 8 * width) - 1);
}

static void put_number(fb_columns *columns, size_t row, uint16_t index, uint64_t number) {
    const fb_column *column = &columns->columns[index];
    fb_vector *vector = &columns->vectors[index];
    columns->batch->written |= vector->bit;
    if (vector->listed) fb_vector_add_number(vector, narrow_number(column, number));
    else fb_vector_set(vector, row, narrow_number(column, number));
    if (vector->present) vector->present[row] = 1;
}

static void put_bytes(fb_columns *columns, size_t row, uint16_t index, const uint8_t *data,
                      size_t size) {
    const fb_column *column = &columns->columns[index];
    fb_vector *vector = &columns->vectors[index];
    columns->batch->written |= vector->bit;
    if (vector->present) vector->present[row] = 1;
    if (vector->width) {
        if (vector->listed) fb_vector_add_address(vector, data, size);
        else fb_vector_set_address(vector, row, data, size);
        return;
    }
    if (column->type == FB_TYPE_STRING) fb_vector_put_text(vector, data, size);
    else fb_vector_put_bytes(vector, data, size);
    if (vector->listed) fb_vector_end_member(vector);
}

static void save_constant(fb_constant *constant, uint16_t column, uint64_t number,
                          const uint8_t *data, size_t size) {
    *constant = (fb_constant){.number = number, .column = column, .size = (uint8_t)size};
    if (size) memcpy(constant->bytes, data, size);
}

FB_NOINLINE fb_columns_cursor fb_columns_offer_number(fb_columns *columns, fb_columns_cursor at,
                                                      fb_target target, fb_deferred_state state,
                                                      uint64_t number) {
    const fb_column *column = &columns->columns[target.column];
    if (!(column->flags & FB_COLUMN_ENABLED)) return at;
    if (fb_deferred_values_collects(&columns->deferred, column))
        fb_deferred_values_offer(&columns->deferred, target, state, number, (fb_bytes){NULL, 0});
    else if (!fb_column_states_claim(&columns->states, columns->plan, target, !number)) return at;
    else if (columns->keeping)
        save_constant(&columns->untracked[columns->untracked_count++], target.column, number, NULL,
                      0);
    else put_number(columns, at.row, target.column, number);
    return at;
}

FB_NOINLINE fb_columns_cursor fb_columns_offer_bytes(fb_columns *columns, fb_columns_cursor at,
                                                     fb_target target, const uint8_t *data,
                                                     size_t size) {
    const fb_column *column = &columns->columns[target.column];
    if (!(column->flags & FB_COLUMN_ENABLED)) return at;
    if (fb_deferred_values_collects(&columns->deferred, column)) {
        if (size || column->flags & FB_COLUMN_EXPLICIT)
            fb_deferred_values_offer(&columns->deferred, target, FB_DEFERRED_BYTES, 0,
                                     (fb_bytes){data, size});
    } else if (!fb_column_states_claim(&columns->states, columns->plan, target, !size)) {
        return at;
    } else if (columns->keeping) {
        save_constant(&columns->untracked[columns->untracked_count++], target.column, 0, data,
                      size);
    } else {
        put_bytes(columns, at.row, target.column, data, size);
    }
    return at;
}

void fb_columns_repeat_uint(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                            uint64_t value) {
    if (fb_column_states_claim_member(&columns->states, columns->plan, target.column))
        put_number(columns, at->row, target.column, value);
}

void fb_columns_repeat_bytes(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                             const uint8_t *data, size_t size) {
    if (fb_column_states_claim_member(&columns->states, columns->plan, target.column))
        put_bytes(columns, at->row, target.column, data, size);
}

bool fb_columns_accepts(const fb_columns *columns, fb_columns_cursor at, fb_target target) {
    const fb_column *column = &columns->columns[target.column];
    if (!(column->flags & FB_COLUMN_ENABLED)) return false;
    if (fb_deferred_values_collects(&columns->deferred, column))
        return fb_deferred_values_accepts(&columns->deferred, target);
    if (column->bit) return at.open & column->bit;
    return fb_column_states_accepts(&columns->states, target.column);
}

/* Constants -------------------------------------------------------------------------------- */

static fb_columns_cursor begin_writing_constants(fb_columns *columns, uint64_t open) {
    columns->keeping = true;
    return (fb_columns_cursor){fb_batch_constant_row(columns->batch), open};
}

/* Append the columns that were closed in that row. A closed column has a value there. */
static void end_writing_constants(fb_columns *columns, fb_columns_cursor at, uint64_t open) {
    uint16_t *column = columns->constants + columns->constant_count;
    for (uint64_t closed = open & ~at.open; closed; closed &= closed - 1)
        *column++ = columns->column_of_bit[__builtin_ctzll(closed)];
    columns->constant_count = (size_t)(column - columns->constants);
    columns->batch->written |= ~at.open;
    columns->open = at.open;
    columns->keeping = false;
}

/* Return the place of a constant in the batch. */
static uint8_t *find_constant(const fb_columns *columns, size_t i, size_t *size) {
    const fb_vector *vector = &columns->vectors[columns->constants[i]];
    *size = vector->width;
    return vector->values + (fb_batch_constant_row(columns->batch) << vector->shift);
}

FB_NOINLINE void fb_columns_suspend(fb_columns *columns) {
    for (size_t i = 0, size; i < columns->constant_count; i++) {
        const uint8_t *constant = find_constant(columns, i, &size);
        memcpy(columns->saved[i], constant, size);
    }
    columns->suspended = true;
}

FB_NOINLINE void fb_columns_restore_constants(fb_columns *columns) {
    for (size_t i = 0, size; i < columns->constant_count; i++) {
        uint8_t *constant = find_constant(columns, i, &size);
        memcpy(constant, columns->saved[i], size);
    }
    columns->batch->written |= ~columns->open;
    columns->suspended = false;
}

static uint64_t find_open_columns(const fb_columns *columns) {
    return columns->plan->open & ~(columns->deferred.late ? columns->plan->late : 0);
}

void fb_columns_begin_constants(fb_columns *columns, fb_columns_cursor *at) {
    columns->constant_count = columns->untracked_count = 0;
    columns->suspended = false;
    fb_column_states_forget(&columns->states);
    fb_deferred_values_forget(&columns->deferred);
    *at = begin_writing_constants(columns, find_open_columns(columns));
}

void fb_columns_end_constants(fb_columns *columns, fb_columns_cursor at) {
    end_writing_constants(columns, at, find_open_columns(columns));
    fb_column_states_keep_constants(&columns->states);
    if (columns->deferred.active) fb_deferred_values_keep_constants(&columns->deferred);
    columns->tracked = !columns->deferred.active && !columns->states.state;
    columns->plain = columns->tracked && !columns->uneven_count;
}

void fb_columns_begin_set(fb_columns *columns, fb_columns_cursor *at) {
    columns->datagram_count = columns->constant_count;
    columns->datagram_open = columns->open;
    *at = begin_writing_constants(columns, columns->open);
}

void fb_columns_end_set_constants(fb_columns *columns, fb_columns_cursor at) {
    end_writing_constants(columns, at, columns->open);
}

void fb_columns_end_set(fb_columns *columns) {
    columns->constant_count = columns->datagram_count;
    columns->open = columns->datagram_open;
}

/* Beginning and end of a row ---------------------------------------------------------------- */

/* `max_size` is the size of a message. Divided by plan->max_size_per_byte, it gives the input
   bytes. A name does not come from the input. */
FB_NOINLINE bool fb_columns_reserve_uneven(fb_columns *columns, size_t rows, size_t max_size) {
    size_t bytes = max_size / columns->plan->max_size_per_byte;
    if (columns->plan->names)
        bytes += (FB_NAME_SIZE + FB_NAME_BLOCK) / 8 + 1; /* 8 bytes for each */
    bytes *= rows;
    for (size_t i = 0; i < columns->uneven_count; i++)
        if (!fb_batch_reserve(columns->batch, &columns->vectors[columns->uneven[i]], bytes))
            return false;
    return true;
}

FB_NOINLINE void fb_columns_begin_rest(fb_columns *columns, fb_columns_cursor *at) {
    fb_deferred_values_begin(&columns->deferred);
    fb_column_states_begin(&columns->states);
    for (const fb_constant *constant = columns->untracked,
                           *end = constant + columns->untracked_count;
         constant < end; constant++)
        if (constant->size)
            put_bytes(columns, at->row, constant->column, constant->bytes, constant->size);
        else put_number(columns, at->row, constant->column, constant->number);
}

static void put_deferred_values(fb_columns *columns, size_t row) {
    fb_deferred_values_settle(&columns->deferred);
    for (size_t i = 0; i < columns->plan->deferred_count; i++) {
        const fb_deferred_value *value = &columns->deferred.values[i];
        const fb_column *column = &columns->columns[value->column];
        if (value->state == FB_DEFERRED_EMPTY ||
            !fb_deferred_values_collects(&columns->deferred, column))
            continue;
        if (value->state == FB_DEFERRED_BYTES)
            put_bytes(columns, row, value->column, value->data ? value->data : value->bytes,
                      value->size);
        else put_number(columns, row, value->column, value->number);
    }
}

FB_NOINLINE void fb_columns_finish_rest(fb_columns *columns, fb_columns_cursor at) {
    if (columns->deferred.active) put_deferred_values(columns, at.row);
    for (size_t i = 0; i < columns->uneven_count; i++)
        fb_vector_end(&columns->vectors[columns->uneven[i]], at.row);
}
