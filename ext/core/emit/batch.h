/* Rows as columns: a buffer of values for each enabled column, in the layout of the Apache Arrow
   columnar format.

     number, address     values   │ v0 │ v1 │ v2 │ …     of one width; a bool has one byte
     string, bytes       offsets  │ 0 │ 3 │ 3 │ 9 │ …    start of the bytes of each row, and end
                         values   │ a b c │ d e f g h i │ …
     repeated            offsets  │ 0 │ 2 │ 2 │ 5 │ …    start of the members of each row, and end
                         values   │ m0 │ m1 │ m2 │ …     of strings and bytes: their bytes, where
                                                         `members` holds the start of each member

   Numbers are in the byte order of the machine. An absent value is 0, 16 zeros (addresses) or
   empty. For an explicit column, `present` distinguishes absent values. An address has 16 bytes,
   with IPv4 as ::ffff:a.b.c.d, whatever the wire form of its column. */
#ifndef FB_EMIT_BATCH_H
#define FB_EMIT_BATCH_H

#include "core/plan/plan.h"

typedef struct {
    uint8_t *values;
    uint32_t *offsets;      /* of strings, bytes and lists */
    uint32_t *members;      /* of lists of strings and bytes */
    uint8_t *present;       /* of an explicit column, one byte per row */
    size_t used;            /* bytes of `values` in use, if there are offsets */
    size_t size;            /* bytes allocated for `values`, FB_BATCH_SLACK included */
    size_t count, capacity; /* members of a list */
    uint8_t width;          /* bytes per value; 0: variable */
    uint8_t shift;          /* binary logarithm of `width` */
    bool listed;
    uint64_t bit; /* of a column of fixed width, in its plan; 0: none */
} fb_vector;

typedef struct {
    fb_memory memory;
    fb_vector *vectors; /* one per column of the plan; all zeros for a disabled column */
    size_t vector_count;
    size_t rows, capacity;
    uint64_t written; /* bits of the columns that may have values; the writer sets them */
    uint8_t *fixed;   /* block that holds the `values` of fixed width */
    size_t fixed_size;
} fb_batch;

/* bytes after the last value: a store always writes 8 bytes, whatever the width */
enum { FB_BATCH_SLACK = 8 };
/* Return the row for constants of the writer. It is so far behind the capacity that a store to the
   last row does not reach it. */
FB_INLINE size_t fb_batch_constant_row(const fb_batch *batch) {
    return batch->capacity + FB_BATCH_SLACK - 1;
}

/* Create a batch with room for `capacity` rows, all zero. The batch copies `memory` and counts its
   own bytes in the copy. OK, NO_MEMORY. REQUIRES: capacity > 0. */
fb_status fb_batch_new(fb_batch **batch, const fb_plan *plan, size_t capacity, fb_memory memory);
void fb_batch_free(fb_batch *batch);
/* Make room for more rows. OK. NO_MEMORY: the batch is unchanged. REQUIRES: capacity is not less
   than before; no row is under construction. */
fb_status fb_batch_grow(fb_batch **batch, const fb_plan *plan, size_t capacity);
/* Return true if a vector certainly has no value: all its bytes are zero. */
FB_INLINE bool fb_batch_is_blank(const fb_batch *batch, const fb_vector *vector) {
    return vector->bit & ~batch->written;
}
/* Create a batch of copies of some rows, in the given order. The copy uses the allocator of the
   batch, and counts its own bytes. OK. NO_MEMORY: memory is short, or an offset would exceed
   INT32_MAX. REQUIRES: all numbers of rows are less than batch->rows. */
fb_status fb_batch_take(fb_batch **copy, const fb_plan *plan, const fb_batch *batch,
                        const uint64_t *rows, size_t count);
/* Return the bytes of one value of a column; 0: variable. */
unsigned fb_batch_width(const fb_column *column);
/* Return true for enabled columns of strings, bytes and lists: each row of them must be ended. */
bool fb_batch_is_uneven(const fb_column *column);
/* Reserve room in a vector of strings, bytes or lists for the values of `bytes` input bytes: 8
   bytes for each. Return false if memory is short or an offset would exceed INT32_MAX. */
bool fb_batch_reserve(fb_batch *batch, fb_vector *vector, size_t bytes);
/* Reset a row to zeros and drop its bytes and members. REQUIRES: it is the last row and is not
   ended; vectors of strings, bytes and lists have been reserved. */
void fb_batch_undo(fb_batch *batch, size_t row);

/* Append bytes or list members. REQUIRES: reserved; value < 2^(8 * width). */
void fb_vector_put_bytes(fb_vector *vector, const uint8_t *data, size_t size);
/* Append text and replace its malformed parts by U+FFFD. Return true if any was malformed.
   REQUIRES: reserved. */
bool fb_vector_put_text(fb_vector *vector, const uint8_t *data, size_t size);
void fb_vector_end_member(fb_vector *vector);
void fb_vector_add_number(fb_vector *vector, uint64_t value);
void fb_vector_add_address(fb_vector *vector, const uint8_t *data, size_t size);

/* Store the value of a row at p. REQUIRES: a vector of fixed width, at most 8; value < 2^(8 *
   width); later rows have no value yet. */
FB_INLINE void fb_vector_store(const fb_vector *vector, uint8_t *p, uint64_t value) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    memcpy(p, (uint8_t *)&value + 8 - vector->width, vector->width);
#else
    (void)vector;
    memcpy(p, &value, 8);
#endif
}

FB_INLINE void fb_vector_set(const fb_vector *vector, size_t row, uint64_t value) {
    fb_vector_store(vector, vector->values + (row << vector->shift), value);
}

/* Return the value of a row. REQUIRES: a vector of fixed width, at most 8. */
FB_INLINE uint64_t fb_vector_get(const fb_vector *vector, size_t row) {
    uint64_t value = 0;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    memcpy((uint8_t *)&value + 8 - vector->width, vector->values + (row << vector->shift),
           vector->width);
    return value;
#else
    /* FB_BATCH_SLACK bytes follow the last value */
    memcpy(&value, vector->values + (row << vector->shift), 8);
    return value & UINT64_MAX >> (64 - 8 * vector->width);
#endif
}

/* Copy the value of row `from` to row `to`. REQUIRES: a vector of fixed width; the rows behind both
   have no value. */
FB_INLINE void fb_vector_copy(const fb_vector *vector, size_t from, size_t to) {
    const uint8_t *value = vector->values + (from << vector->shift);
    uint8_t *p = vector->values + (to << vector->shift);
    if (vector->width == 16) {
        memcpy(p, value, 16);
        return;
    }
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    memcpy(p, value, vector->width);
#else
    memcpy(p, value, 8);
#endif
}

/* Copy the value of row `from` to `count` rows from `row` on. REQUIRES: a vector of fixed width;
   later rows have no value yet. */
FB_INLINE void fb_vector_repeat(const fb_vector *vector, size_t from, size_t row, size_t count) {
    const fb_vector v = *vector; /* so that the compiler knows that stores do not change it */
    const uint8_t *value = v.values + (from << v.shift);
    uint8_t *to = v.values + (row << v.shift), *end = to + (count << v.shift);
    if (v.width == 16) {
        for (; to < end; to += 16) memcpy(to, value, 16);
        return;
    }
    const uint64_t number = fb_vector_get(&v, from);
    for (; to < end; to += v.width) fb_vector_store(&v, to, number);
}

FB_INLINE void fb_vector_set_address(const fb_vector *vector, size_t row, const uint8_t *data,
                                     size_t size) {
    fb_store_address(vector->values + 16 * row, data, size);
}

/* End a row of a vector of strings, bytes or lists. */
FB_INLINE void fb_vector_end(const fb_vector *vector, size_t row) {
    vector->offsets[row + 1] = (uint32_t)(vector->listed ? vector->count : vector->used);
}

#endif
