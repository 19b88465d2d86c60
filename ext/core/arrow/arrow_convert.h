/* Conversion of the values of an Arrow array to those of a column. The method is chosen once per
   schema. Values are converted in blocks of up to 64.

   The results have the form that emitters take (message_row.h):

     number   of signed columns in two's complement, of floats as the bits of a binary64
     address  16 bytes, IPv4-mapped for IPv4
     bytes    a view

   A null, or a NaN in a column of integers, is absent. Its cell is 0 or empty.

     column                 filled from
     uint, int, sint,       integers, also of 128 bits (decimals of scale 0), bools;
       fixed32, fixed64     floats with integral values and NaN
     mac (uint, 48 bits)    the same; six bytes (w:6); text, 00:00:5e:00:53:01 or with `-`
     bool                   bools; integers 0 and 1
     enum                   integers from 0 to 2^31 - 1; floats as above;
                            text: the name of a member, or a number as decimal text
     timestamp              times of any unit and zone, dates; integers, in the column's unit
     duration               durations of any unit; integers, in the column's unit
     float, double          floats; integers that the column's type represents exactly
     ip                     4 or 16 bytes (w, z, Z, vz); text
     string                 text
     bytes                  bytes, text

   Each type may be dictionary-encoded. An array of nulls fills any column. A value that does not
   fit is refused, with two exceptions. A time of a finer unit is rounded down to the column's unit.
   A 64-bit float is rounded to the nearest 32-bit float. */
#ifndef FB_ARROW_ARROW_CONVERT_H
#define FB_ARROW_ARROW_CONVERT_H

#include "core/arrow/arrow_view.h"
#include "core/emit/batch.h"

enum { FB_ARROW_BLOCK = 64 };

typedef union {
    uint64_t numbers[FB_ARROW_BLOCK];
    uint8_t addresses[FB_ARROW_BLOCK][16];
    fb_bytes bytes[FB_ARROW_BLOCK];
} fb_arrow_cells;

/* The ASCII texts of a block in one buffer. Text k has the bytes from offsets[k] to offsets[k +
   1]. */
typedef struct {
    const uint8_t *bytes;
    int32_t offsets[FB_ARROW_BLOCK + 1]; /* rows beyond the block repeat the last offset */
} fb_arrow_texts;

typedef struct {
    const fb_column *column;
    fb_arrow_type type;
    uint8_t path;
    bool fits; /* every number of the layout is in range */
    /* bounds of the numbers before conversion: the least, and the greatest minus the least */
    uint64_t least, span;
    uint64_t multiply, divide;
    const fb_member *members; /* of an enum, sorted by fb_bytes_compare */
    size_t member_count;
} fb_arrow_conversion;

/* Cache of converted dictionary values. Index i uses the slot i % FB_ARROW_BLOCK. */
typedef struct {
    int64_t held[FB_ARROW_BLOCK]; /* index + 1 of the value in each slot; 0: empty */
    uint64_t present;
    fb_arrow_cells cells;
} fb_arrow_memo;

/* The values of an array, dictionary-encoded or not. */
typedef struct {
    fb_arrow_conversion conversion;
    fb_arrow_type index; /* of dictionary indices; size 0: not dictionary-encoded */
    fb_arrow_view indices, view;
    fb_arrow_memo *memo;
} fb_arrow_values;

/* Choose the conversion from a type to a column. MISFIT: values of this type cannot fill the
   column. `column` must outlive the conversion. */
fb_arrow_reason fb_arrow_conversion_choose(fb_arrow_conversion *conversion, const fb_column *column,
                                           const fb_arrow_type *type);

/* Set the array to read. It must outlive the reads. Returns false if the array or its dictionary
   does not have the layout of its type. */
bool fb_arrow_values_set(fb_arrow_values *values, const struct ArrowArray *array);
FB_INLINE bool fb_arrow_values_are_indexed(const fb_arrow_values *values) {
    return values->index.size != 0;
}
FB_INLINE int64_t fb_arrow_values_length(const fb_arrow_values *values) {
    return fb_arrow_values_are_indexed(values) ? values->indices.length : values->view.length;
}
/* Return a bit for each value that is not null, without looking into dictionaries. REQUIRES: 0 <
   count <= FB_ARROW_BLOCK. */
uint64_t fb_arrow_values_present(const fb_arrow_values *values, int64_t first, size_t count);
/* Find a value's place in the view of the dictionary, and whether it is present. BAD_INDEX.
   REQUIRES: the values are dictionary-encoded, and the index is not null. */
fb_arrow_reason fb_arrow_values_locate(const fb_arrow_values *values, int64_t at, int64_t *place,
                                       bool *present);
/* Read the values with a bit in *present, and clear the bits of those that turn out to be absent.
   Returns the number of values before the first refused one, and its reason. REQUIRES: as above,
   and a conversion was chosen. */
size_t fb_arrow_values_read(const fb_arrow_values *values, int64_t first, size_t count,
                            uint64_t *present, fb_arrow_cells *cells, fb_arrow_reason *reason);
/* Find texts without copying, of at most `most` bytes together. Returns false if
   fb_arrow_values_read is needed instead. REQUIRES: as above. */
bool fb_arrow_values_find_texts(const fb_arrow_values *values, int64_t first, size_t count,
                                uint64_t present, size_t most, fb_arrow_texts *texts);

/* True for a column of MAC addresses: an unsigned number of 48 bits. */
FB_INLINE bool fb_column_is_mac(const fb_column *column) {
    return column->type == FB_TYPE_UINT && column->limit == UINT64_C(0xffffffffffff);
}

/* Compare names by their bytes. A prefix comes first. */
int fb_bytes_compare(fb_bytes a, fb_bytes b);

#endif
