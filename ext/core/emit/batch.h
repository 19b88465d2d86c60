/* Rows as columns: a buffer of values for each enabled column, laid out as Apache Arrow has them (its "columnar format").

     number, address     values   │ v0 │ v1 │ v2 │ …      of one width; of a bool an octet each
     string, bytes       offsets  │ 0 │ 3 │ 3 │ 9 │ …     where the octets of each row begin; one more at the end
                         values   │ a b c │ d e f g h i │ …
     repeated            offsets  │ 0 │ 2 │ 2 │ 5 │ …     where the members of each row begin
                         values   │ m0 │ m1 │ m2 │ …      of strings and bytes: their octets, and `members` says where they begin

   Numbers are in the order of octets of this machine. What is absent is 0, no address (16 zeros), or empty; of an explicit column
   `present` says whether it is there. An address has 16 octets, IPv4 as ::ffff:a.b.c.d, whatever its column has on the wire. */
#ifndef FB_BATCH_H
#define FB_BATCH_H

#include "core/plan/plan.h"

typedef struct {
    uint8_t *values;
    uint32_t *offsets; /* of octets and of lists */
    uint32_t *members; /* of lists of octets */
    uint8_t *present;  /* of an explicit column, an octet a row */
    size_t used;       /* octets of values that are filled, where there are offsets */
    size_t size;       /* octets that values has, with FB_BATCH_SLACK to spare */
    size_t count, capacity; /* members of a list */
    uint8_t width;     /* octets of a value; 0: of any number */
    uint8_t shift;     /* its logarithm */
    bool listed;
} fb_vector;

typedef struct {
    fb_memory memory;
    fb_vector *vectors; /* one for each column of the plan; of a disabled one nothing but zeros */
    size_t vector_count;
    size_t rows, capacity;
    uint8_t *fixed; /* what `vectors` of one width lie in */
    size_t fixed_size;
} fb_batch;

enum { FB_BATCH_SLACK = 8 }; /* a value is stored as 8 octets, whatever its width is: behind it there is none yet */

/* Room for so many rows, with zeros; `memory` is copied, and counts what this batch holds. NO_MEMORY. REQUIRES: capacity > 0. */
fb_status fb_batch_new(fb_batch **batch, const fb_plan *plan, size_t capacity, fb_memory memory);
void fb_batch_free(fb_batch *batch);
/* Room for more rows. NO_MEMORY: the batch is as it was. REQUIRES: capacity is no less than it was; no row is begun. */
fb_status fb_batch_grow(fb_batch **batch, const fb_plan *plan, size_t capacity);
/* Octets that one value of a column has; 0: any number. */
unsigned fb_batch_width(const fb_column *column);
/* Whether its rows end one by one: enabled columns of octets and of lists. */
bool fb_batch_is_uneven(const fb_column *column);
/* Makes room for what so many octets of the wire may put into a vector of octets or of lists. False: there is no memory, or offsets
   have no more bits. */
bool fb_batch_reserve(fb_batch *batch, fb_vector *vector, size_t octets);
/* Puts zeros where a row was, and forgets its octets and members. REQUIRES: it is the last one, and is not ended; vectors of octets
   and of lists have been reserved. */
void fb_batch_undo(fb_batch *batch, size_t row);

/* Octets; members of a list. REQUIRES: reserved; value < 2^(8 * width). */
void fb_vector_put_octets(fb_vector *vector, const uint8_t *data, size_t size);
/* Text, whose malformed parts are replaced by U+FFFD. Whether it has any. */
bool fb_vector_put_text(fb_vector *vector, const uint8_t *data, size_t size);
void fb_vector_end_member(fb_vector *vector);
void fb_vector_add_number(fb_vector *vector, uint64_t value);
void fb_vector_add_address(fb_vector *vector, const uint8_t *data, size_t size);

/* REQUIRES: a vector of one width, at most 8; value < 2^(8 * width), and no row behind this one, which begins at p, has a value. */
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

/* REQUIRES: a vector of one width, at most 8. */
FB_INLINE uint64_t fb_vector_get(const fb_vector *vector, size_t row) {
    uint64_t value = 0;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    memcpy((uint8_t *)&value + 8 - vector->width, vector->values + (row << vector->shift), vector->width);
    return value;
#else
    memcpy(&value, vector->values + (row << vector->shift), 8); /* behind the last value there are FB_BATCH_SLACK */
    return value & UINT64_MAX >> (64 - 8 * vector->width);
#endif
}

FB_INLINE void fb_vector_set_address(const fb_vector *vector, size_t row, const uint8_t *data, size_t size) {
    fb_store_address(vector->values + 16 * row, data, size);
}

/* Ends a row of octets or of a list. */
FB_INLINE void fb_vector_end(const fb_vector *vector, size_t row) {
    vector->offsets[row + 1] = (uint32_t)(vector->listed ? vector->count : vector->used);
}

#endif
