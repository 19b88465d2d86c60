/* One flow under construction as a row of a batch (batch.h): the second emitter. message_row.h
   defines its contract.

   A number is stored at its final position at once. Finishing a row costs almost nothing, because
   absent values are already 0. Constants are written into a row behind the capacity of the batch,
   and copied from there to each row. */
#ifndef FB_EMIT_COLUMNS_H
#define FB_EMIT_COLUMNS_H

#include "core/emit/batch.h"
#include "core/emit/column_state.h"
#include "core/emit/varint_simd.h"
#include "core/emit/deferred_values.h"

typedef struct {
    size_t row;    /* index in the batch */
    uint64_t open; /* bits of the columns that the fast path may still write */
} fb_columns_cursor;

/* A value with which every row begins, outside the batch. */
typedef struct {
    uint64_t number;
    uint16_t column;
    uint8_t size; /* of bytes, at most 16; 0: it is a number */
    uint8_t bytes[16];
} fb_constant;

typedef struct fb_columns {
    const fb_plan *plan;
    const fb_column *columns; /* of the plan */
    fb_memory *memory;
    fb_batch *batch;    /* destination of the rows, owned by the caller; NULL: no room */
    fb_vector *vectors; /* of the batch */
    uint16_t *uneven;   /* columns of strings, bytes and lists: each row of them must be ended */
    size_t uneven_count;
    uint16_t column_of_bit[64];
    uint64_t count; /* finished rows, of all batches */
    uint64_t open;  /* initial `open` of the cursor of a row */
    bool tracked;   /* no value waits for the end of a row, and the cursor tracks all columns */
    bool plain;     /* tracked, and no row of a column must be ended */
    /* columns of constants that the cursor tracks: those of the datagram, then those of a set */
    uint16_t *constants;
    size_t constant_count, datagram_count;
    uint64_t datagram_open;
    uint8_t (*saved)[16]; /* values of `constants` of a suspended datagram, for the next batch */
    bool suspended;
    fb_constant *untracked; /* constants of the other columns */
    size_t untracked_count;
    fb_column_states states;
    fb_deferred_values deferred;
    bool keeping;                             /* constants are being written */
    struct fb_columns *others[FB_ROWS_COUNT]; /* owned by the caller */
} fb_columns;

/* Initialize the emitter. `plan` and `memory` must outlive it. OK, NO_MEMORY. */
fb_status fb_columns_new(fb_columns *columns, const fb_plan *plan, fb_memory *memory);
void fb_columns_free(fb_columns *columns);
void fb_columns_restore_constants(fb_columns *columns);
/* Save the constants of the datagram, because it may be resumed with another batch. */
void fb_columns_suspend(fb_columns *columns);
/* Set the batch that takes the rows. Decoders require a batch, with room for at least two rows,
   because a record may become two flows. `begin` returns false if the batch is full. If it does so
   for an empty batch, memory was short. */
FB_INLINE void fb_columns_set_batch(fb_columns *columns, fb_batch *batch) {
    columns->batch = batch;
    columns->vectors = batch ? batch->vectors : NULL;
    if (FB_UNLIKELY(columns->suspended) && batch) fb_columns_restore_constants(columns);
}

/* Slow paths. */
fb_columns_cursor fb_columns_offer_number(fb_columns *columns, fb_columns_cursor at,
                                          fb_target target, fb_deferred_state state,
                                          uint64_t number);
fb_columns_cursor fb_columns_offer_bytes(fb_columns *columns, fb_columns_cursor at,
                                         fb_target target, const uint8_t *data, size_t size);
bool fb_columns_reserve_uneven(fb_columns *columns, size_t rows, size_t max_size);
void fb_columns_begin_rest(fb_columns *columns, fb_columns_cursor *at);
void fb_columns_finish_rest(fb_columns *columns, fb_columns_cursor at);

void fb_columns_begin_constants(fb_columns *columns, fb_columns_cursor *at);
void fb_columns_end_constants(fb_columns *columns, fb_columns_cursor at);
void fb_columns_begin_set(fb_columns *columns, fb_columns_cursor *at);
void fb_columns_end_set_constants(fb_columns *columns, fb_columns_cursor at);
void fb_columns_end_set(fb_columns *columns);

/* REQUIRES: a batch is set and has capacity for `rows` rows. */
FB_INLINE bool fb_columns_reserve(fb_columns *columns, size_t rows, size_t max_size) {
    fb_batch *batch = columns->batch;
    if (FB_UNLIKELY(batch->capacity - batch->rows < rows)) return false;
    return FB_LIKELY(!columns->uneven_count) || fb_columns_reserve_uneven(columns, rows, max_size);
}

FB_INLINE bool fb_columns_begin(fb_columns *columns, size_t max_size, fb_columns_cursor *at) {
    if (FB_UNLIKELY(!fb_columns_reserve(columns, 1, max_size))) return false;
    *at = (fb_columns_cursor){columns->batch->rows, columns->open};
    const size_t from = fb_batch_constant_row(columns->batch);
    for (const uint16_t *column = columns->constants, *end = column + columns->constant_count;
         column < end; column++)
        fb_vector_copy(&columns->vectors[*column], from, at->row);
    if (FB_UNLIKELY(!columns->plain)) fb_columns_begin_rest(columns, at);
    return true;
}

/* Return true if late columns are written at once, like all others. */
FB_INLINE bool fb_columns_has_fast_path(const fb_columns *columns) {
    return !columns->deferred.late;
}

/* Return true if a column that is not open has its value and takes no other. */
FB_INLINE bool fb_columns_is_done(const fb_columns *columns, const fb_column *column) {
    return fb_column_has_fast_path(column) && fb_columns_has_fast_path(columns);
}

FB_INLINE void fb_columns_append_uint(fb_columns *columns, fb_columns_cursor *at,
                                      const fb_column *column, uint64_t value, size_t width) {
    (void)width;
    assert(at->open & column->bit);
    at->open &= ~column->bit;
    fb_vector_set(&columns->vectors[column - columns->columns], at->row, value);
}

FB_INLINE void fb_columns_put_uint(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                                   uint64_t value) {
    const fb_column *column = &columns->columns[target.column];
    if (FB_UNLIKELY(!(at->open & column->bit))) {
        if (!fb_columns_is_done(columns, column))
            *at = fb_columns_offer_number(columns, *at, target, FB_DEFERRED_UINT, value);
        return;
    }
    /* Also a zero that is a value is stored: a closed column of constants has no older value. */
    if (value || target.zero) fb_columns_append_uint(columns, at, column, value, 8);
}

FB_INLINE void fb_columns_put_fast(fb_columns *columns, fb_columns_cursor *at,
                                   const fb_target_range *source, uint64_t value) {
    if (FB_UNLIKELY(!(at->open & source->bit)) || !value) {
        fb_columns_put_uint(columns, at, source->target, value);
        return;
    }
    at->open &= ~source->bit;
    fb_vector_set(&columns->vectors[source->target.column], at->row, value);
}

FB_INLINE void fb_columns_put_int(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                                  int64_t value) {
    *at = fb_columns_offer_number(columns, *at, target, FB_DEFERRED_INT, (uint64_t)value);
}

FB_INLINE void fb_columns_put_real(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                                   double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    *at = fb_columns_offer_number(columns, *at, target, FB_DEFERRED_REAL, bits);
}

FB_INLINE void fb_columns_put_bytes(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                                    const uint8_t *data, size_t size) {
    const fb_column *column = &columns->columns[target.column];
    if (at->open & column->bit) {
        if (!size) return;
        fb_vector_put_text(&columns->vectors[target.column], data, size);
        at->open &= ~column->bit;
    } else if (!fb_columns_is_done(columns, column)) {
        *at = fb_columns_offer_bytes(columns, *at, target, data, size);
    }
}

/* REQUIRES: reserved; 1 to FB_NAME_SIZE bytes, readable in whole blocks. */
FB_INLINE void fb_columns_append_name(fb_vector *vector, const uint8_t *data, size_t size) {
    uint8_t *p = vector->values + vector->used;
    for (size_t i = 0; i < size; i += FB_NAME_BLOCK) memcpy(p + i, data + i, FB_NAME_BLOCK);
    vector->used += size;
}

FB_INLINE void fb_columns_put_name(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                                   const uint8_t *data, size_t size) {
    const fb_column *column = &columns->columns[target.column];
    if (FB_LIKELY(at->open & column->bit)) {
        at->open &= ~column->bit;
        fb_columns_append_name(&columns->vectors[target.column], data, size);
    } else if (!fb_columns_is_done(columns, column)) {
        *at = fb_columns_offer_bytes(columns, *at, target, data, size);
    }
}

FB_INLINE void fb_columns_put_ip(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                                 const uint8_t *data, size_t size) {
    const fb_column *column = &columns->columns[target.column];
    if (FB_LIKELY(at->open & column->bit)) {
        at->open &= ~column->bit;
        fb_vector_set_address(&columns->vectors[target.column], at->row, data, size);
    } else if (!fb_columns_is_done(columns, column)) {
        *at = fb_columns_offer_bytes(columns, *at, target, data, size);
    }
}

/* An all-zero address or ::ffff:0.0.0.0 counts as absent: 16 zeros. */
FB_INLINE void fb_columns_append_ip(fb_columns *columns, fb_columns_cursor *at,
                                    const fb_column *column, const uint8_t *data, size_t size) {
    assert(at->open & column->bit);
    if (FB_UNLIKELY(fb_is_no_address(data, size))) return;
    at->open &= ~column->bit;
    fb_vector_set_address(&columns->vectors[column - columns->columns], at->row, data, size);
}

void fb_columns_repeat_uint(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                            uint64_t value);
void fb_columns_repeat_bytes(fb_columns *columns, fb_columns_cursor *at, fb_target target,
                             const uint8_t *data, size_t size);
bool fb_columns_accepts(const fb_columns *columns, fb_columns_cursor at, fb_target target);

FB_INLINE void fb_columns_open(fb_columns *columns, fb_columns_cursor *at, uint16_t column) {
    (void)at;
    fb_column_states_open(&columns->states, column);
}

FB_INLINE void fb_columns_close(fb_columns *columns, fb_columns_cursor *at, uint16_t column) {
    (void)at;
    fb_column_states_close(&columns->states, column);
}

FB_INLINE void fb_columns_finish(fb_columns *columns, fb_columns_cursor at) {
    if (FB_UNLIKELY(!columns->plain)) fb_columns_finish_rest(columns, at);
    columns->batch->rows = at.row + 1;
    columns->batch->written |= ~at.open;
    columns->count++;
}

FB_INLINE uint64_t fb_columns_take_refused(fb_columns *columns) {
    return fb_deferred_values_take_refused(&columns->deferred);
}

FB_INLINE void fb_columns_change_rate(fb_columns *columns, fb_rate_change *change) {
    columns->deferred.rate_change = change;
}

#endif
