/* What Arrow's schemas and arrays (arrow.h) say, understood once a schema and once an array, so that nothing is asked of a value but
   where it lies. An extension type is what it is stored as.

     type     the format of a schema: how values are laid out, and what they mean
     view     an array of that type: its buffers, by their roles */
#ifndef FB_ARROW_VIEW_H
#define FB_ARROW_VIEW_H

#include "core/arrow/arrow.h"
#include "core/base/base.h"

/* Everything that can be wrong with columns: of a schema, of the layout of an array, of a value. */
#define FB_ARROW_REASON_LIST(X) \
    X(NONE, "nothing is wrong") \
    X(NOT_A_BATCH, "one array has no columns: give a table, a record batch or a data frame") \
    X(BAD_SCHEMA, "the Arrow schema is malformed; export it with another library") \
    X(UNKNOWN_TYPE, "a type that is not known") \
    X(HALF_FLOAT, "floats of 16 bits are not supported") \
    X(DECIMAL, "of decimals, only those of 128 bits and scale 0 are supported: cast to an integer") \
    X(TIME_OF_DAY, "times of day are not supported") \
    X(INTERVAL, "intervals of the calendar are not supported") \
    X(STRUCT, "nested structs are not supported") \
    X(MAP, "maps are not supported") \
    X(UNION, "unions are not supported") \
    X(LIST_VIEW, "list views are not supported") \
    X(RUN_END, "run-end encoding is not supported") \
    X(NESTED_LIST, "lists of lists are not supported") \
    X(NESTED_DICTIONARY, "dictionaries of dictionaries are not supported") \
    X(NO_COLUMN, "there is no such column") \
    X(DISABLED, "the column is disabled") \
    X(TWICE, "another column of this name is there already") \
    X(MISFIT, "values of this type cannot fill the column") \
    X(LIST, "a list cannot fill a column that is not repeated") \
    X(NOT_A_LIST, "a repeated column wants a list") \
    X(BAD_ARRAY, "the array is not laid out as its schema says") \
    X(BAD_OFFSET, "the value lies outside of its buffer") \
    X(BAD_INDEX, "the dictionary has no value of this index") \
    X(OUT_OF_RANGE, "the value is outside the column's range") \
    X(NOT_INTEGRAL, "the number is not an integer") \
    X(INEXACT, "the integer is not one that the column's floats can be") \
    X(NOT_AN_ADDRESS, "the text is not an IP address") \
    X(ADDRESS_SIZE, "an address has 4 or 16 octets") \
    X(NOT_A_MAC, "the text is not a MAC address") \
    X(NOT_A_MEMBER, "the text is not a member of the enum") \
    X(NOT_UTF8, "the text is not UTF-8") \
    X(NULL_MEMBER, "a list has a null among its members") \
    X(REQUIRED, "null, where a value is required") \
    X(TOO_LONG, "a message cannot have 2 GiB") \
    X(CHANGED, "another thread changed the array; do not write to it during the call")

typedef enum {
#define FB_X(constant, text) FB_ARROW_##constant,
    FB_ARROW_REASON_LIST(FB_X)
#undef FB_X
    FB_ARROW_REASON_COUNT
} fb_arrow_reason;

const char *fb_arrow_reason_text(fb_arrow_reason reason);

typedef enum {
    FB_LAYOUT_NOTHING, /* an array of nulls: no buffers */
    FB_LAYOUT_BITS,
    FB_LAYOUT_INT8,
    FB_LAYOUT_INT16,
    FB_LAYOUT_INT32,
    FB_LAYOUT_INT64,
    FB_LAYOUT_UINT8,
    FB_LAYOUT_UINT16,
    FB_LAYOUT_UINT32,
    FB_LAYOUT_UINT64,
    FB_LAYOUT_FLOAT,
    FB_LAYOUT_DOUBLE,
    FB_LAYOUT_WIDE,  /* integers of 128 bits */
    FB_LAYOUT_FIXED, /* octets, `size` a value */
    FB_LAYOUT_SMALL, /* octets, with offsets of 32 bits */
    FB_LAYOUT_LARGE, /* and of 64 */
    FB_LAYOUT_VIEW,  /* octets, each short ones in place and long ones in any of several buffers */
    FB_LAYOUT_LIST,
    FB_LAYOUT_LARGE_LIST,
    FB_LAYOUT_FIXED_LIST, /* of `size` members */
    FB_LAYOUT_ROWS        /* of a record batch: nothing but their validity */
} fb_arrow_layout;

typedef enum {
    FB_MEANS_NUMBER,
    FB_MEANS_BOOL,
    FB_MEANS_TIME, /* since 1970, in units of `unit` nanoseconds */
    FB_MEANS_SPAN,
    FB_MEANS_OCTETS,
    FB_MEANS_TEXT,
    FB_MEANS_LIST,
    FB_MEANS_NOTHING
} fb_arrow_meaning;

typedef struct {
    uint8_t layout;  /* fb_arrow_layout */
    uint8_t meaning; /* fb_arrow_meaning */
    int64_t size;    /* octets of a number or of FIXED; members of FIXED_LIST */
    uint64_t unit;
} fb_arrow_type;

/* The type of a format. Otherwise why it is not accepted. */
fb_arrow_reason fb_arrow_type_read(const char *format, fb_arrow_type *type);

/* Check that a schema of record batches has what its counts say: children that are there, each with a
   format, down to the dictionaries of the members of lists. */
bool fb_arrow_schema_is_sound(const struct ArrowSchema *schema);

typedef struct {
    fb_arrow_type type;
    int64_t offset;
    int64_t length;
    const uint8_t *validity; /* a bit a value; NULL: none is null */
    const uint8_t *values;   /* numbers; octets of FIXED; offsets; views */
    const uint8_t *octets;   /* that offsets point into */
    const void *const *buffers; /* that views point into */
    const uint8_t *sizes;       /* of each, 64 bits */
    int64_t buffer_count;
} fb_arrow_view;

/* False: the array is not laid out as an array of this type. Its dictionary is not looked at; of its
   children, nothing but that they are there. */
bool fb_arrow_view_set(fb_arrow_view *view, const fb_arrow_type *type, const struct ArrowArray *array);

/* Which of `count` values from `first` on are not null, a bit each. REQUIRES, here and below: 0 < count <= 64, and the view has
   them. */
uint64_t fb_arrow_view_present(const fb_arrow_view *view, int64_t first, size_t count);
/* The numbers themselves: integers and bits as two's complement of 64 bits, floats as binary64. REQUIRES: a layout of numbers, but
   WIDE. */
void fb_arrow_view_numbers(const fb_arrow_view *view, int64_t first, size_t count, uint64_t *numbers);
/* One number of 128 bits, as two's complement: the upper half and the lower. REQUIRES: the layout is WIDE. */
void fb_arrow_view_wide(const fb_arrow_view *view, int64_t at, uint64_t *high, uint64_t *low);
/* The octets of one value: a view of the array. False: its offsets are not in order, or beyond a buffer of which the size is known.
   REQUIRES: a layout of octets. */
bool fb_arrow_view_octets(const fb_arrow_view *view, int64_t at, fb_bytes *octets);
/* The members of a list: from *begin to *end. False as above. REQUIRES: a layout of lists. */
bool fb_arrow_view_members(const fb_arrow_view *view, int64_t at, int64_t *begin, int64_t *end);

/* The lowest bits of a mask. REQUIRES: 0 < count <= 64. */
FB_INLINE uint64_t fb_mask_of(size_t count) {
    return ~(uint64_t)0 >> (64 - count);
}

#endif
