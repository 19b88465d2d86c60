/* Values of an Arrow array as those of a column: how is decided once a schema, and done for up to 64 values at a time.

   What comes out is what emitters are given (message_row.h): a number, of signed columns as two's complement, of floats as the bits of a
   binary64; an address of 16 octets, mapped if it is IPv4; or a view of octets. What is null, or NaN in a column of integers, is
   not present, and 0, or empty.

     column                 filled from
     uint, int, sint,       integers, also those of 128 bits (decimals of scale 0), bools; floats that are integers and NaN
       fixed32, fixed64
     mac (uint, 48 bits)    the same; six octets (w:6); text, 00:00:5e:00:53:01 or with `-`
     bool                   bools; integers 0 and 1
     enum                   integers from 0 to 2^31 - 1; floats as above; text: the name of a member, or a number as decimal text
     timestamp              times of any unit and zone, dates; integers, in the column's unit
     duration               durations of any unit; integers, in the column's unit
     float, double          floats; integers that the column's floats can be
     ip                     4 or 16 octets (w, z, Z, vz); text
     string                 text
     bytes                  octets, text

   Each of them may come as a dictionary, and an array of nulls fills any. What does not fit is refused, with two exceptions: a time
   that is finer than its column's unit is rounded down, and a float of 64 bits to the nearest one of 32. */
#ifndef FB_ARROW_CONVERT_H
#define FB_ARROW_CONVERT_H

#include "core/arrow/arrow_view.h"
#include "core/emit/batch.h"

enum { FB_ARROW_BLOCK = 64 };

typedef union {
    uint64_t numbers[FB_ARROW_BLOCK];
    uint8_t addresses[FB_ARROW_BLOCK][16];
    fb_bytes octets[FB_ARROW_BLOCK];
} fb_arrow_cells;

/* Texts of ASCII that lie one behind the other, one for each row: that at k has the octets from offsets[k] to offsets[k + 1]. */
typedef struct {
    const uint8_t *octets;
    int32_t offsets[FB_ARROW_BLOCK + 1]; /* of rows that the block does not have, all the same */
} fb_arrow_texts;

typedef struct {
    const fb_column *column;
    fb_arrow_type type;
    uint8_t way;
    bool fits;               /* whatever the number is */
    uint64_t least, span;    /* of numbers as they are read: the least one, and how far the greatest one is from it */
    uint64_t multiply, divide;
    const fb_member *members; /* of an enum, in the order of fb_bytes_compare */
    size_t member_count;
} fb_arrow_conversion;

/* What was read of a dictionary lately: the value at index i has the place i % FB_ARROW_BLOCK. */
typedef struct {
    int64_t held[FB_ARROW_BLOCK]; /* which index + 1; 0: none */
    uint64_t present;
    fb_arrow_cells cells;
} fb_arrow_memo;

/* Values of an array, dictionary-encoded or not. */
typedef struct {
    fb_arrow_conversion conversion;
    fb_arrow_type index; /* of dictionary indices; where there are none, its size is 0 */
    fb_arrow_view indices, view;
    fb_arrow_memo *memo;
} fb_arrow_values;

/* MISFIT: values of this type cannot fill the column. */
fb_arrow_reason fb_arrow_conversion_choose(fb_arrow_conversion *conversion, const fb_column *column, const fb_arrow_type *type);

/* False: the array, or its dictionary, is not laid out as its type says. */
bool fb_arrow_values_set(fb_arrow_values *values, const struct ArrowArray *array);
FB_INLINE bool fb_arrow_values_are_indexed(const fb_arrow_values *values) {
    return values->index.size != 0;
}
FB_INLINE int64_t fb_arrow_values_length(const fb_arrow_values *values) {
    return fb_arrow_values_are_indexed(values) ? values->indices.length : values->view.length;
}
/* Which of them are there, before dictionaries are looked into. REQUIRES: 0 < count <= FB_ARROW_BLOCK. */
uint64_t fb_arrow_values_present(const fb_arrow_values *values, int64_t first, size_t count);
/* Where in the view a value is. BAD_INDEX; *present: whether it is there. REQUIRES: dictionary-encoded, and not null itself. */
fb_arrow_reason fb_arrow_values_locate(const fb_arrow_values *values, int64_t at, int64_t *place, bool *present);
/* Reads those that *present says, and takes out of it what turns out to be absent. Returns how many were read before one was
   refused, and why. REQUIRES: as above, and a conversion was chosen. */
size_t fb_arrow_values_read(const fb_arrow_values *values, int64_t first, size_t count, uint64_t *present, fb_arrow_cells *cells,
                            fb_arrow_reason *reason);
/* Texts as they lie, of `most` octets together. False: they cannot be had so, and are to be read. REQUIRES: as above. */
bool fb_arrow_values_find_texts(const fb_arrow_values *values, int64_t first, size_t count, uint64_t present, size_t most,
                                fb_arrow_texts *texts);

/* The order of names: by their octets, the shorter one first. */
int fb_bytes_compare(fb_bytes a, fb_bytes b);

#endif
