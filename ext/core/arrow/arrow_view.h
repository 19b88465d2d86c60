/* Views of Arrow schemas and arrays (arrow.h). A schema is parsed once, an array once, so reading a
   value needs only its address. An extension type is read as its storage type.

     type     a parsed schema format: the layout and meaning of values
     view     an array of that type, with its buffers by role */
#ifndef FB_ARROW_ARROW_VIEW_H
#define FB_ARROW_ARROW_VIEW_H

#include "core/arrow/arrow.h"
#include "core/base/base.h"

/* Every reason to refuse a schema, the layout of an array, or a value. */
#define FB_ARROW_REASON_LIST(X) \
    X(NONE, "nothing is wrong") \
    X(NOT_A_BATCH, "one array has no columns: give a table, a record batch or a data frame") \
    X(BAD_SCHEMA, "the Arrow schema is malformed; export it with another library") \
    X(UNKNOWN_TYPE, "a type that is not known") \
    X(HALF_FLOAT, "floats of 16 bits are not supported") \
    X(DECIMAL, \
      "of decimals, only those of 128 bits and scale 0 are supported: cast to an integer") \
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
    X(ADDRESS_SIZE, "an address has 4 or 16 bytes") \
    X(NOT_A_MAC, "the text is not a MAC address") \
    X(NOT_A_MEMBER, "the text is not a member of the enum") \
    X(NOT_UTF8, "the text is not UTF-8") \
    X(NULL_MEMBER, "a list has a null among its members") \
    X(REQUIRED, "null, where a value is required") \
    X(TOO_LONG, "a message cannot have 2 GiB") \
    X(NOT_A_STRUCT, "a message wants a struct") \
    X(ONEOF, "another member of the oneof has a value too") \
    X(NOT_JSON, "the text is not JSON that the field can hold") \
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
    FB_LAYOUT_FIXED, /* bytes, `size` per value */
    FB_LAYOUT_SMALL, /* bytes, with offsets of 32 bits */
    FB_LAYOUT_LARGE, /* bytes, with offsets of 64 bits */
    FB_LAYOUT_VIEW,  /* bytes, short values in place and long values in several buffers */
    FB_LAYOUT_LIST,
    FB_LAYOUT_LARGE_LIST,
    FB_LAYOUT_FIXED_LIST, /* lists of `size` members */
    FB_LAYOUT_ROWS        /* of a record batch: only its validity */
} fb_arrow_layout;

typedef enum {
    FB_MEANS_NUMBER,
    FB_MEANS_BOOL,
    FB_MEANS_TIME, /* since 1970, in units of `unit` nanoseconds */
    FB_MEANS_SPAN,
    FB_MEANS_BYTES,
    FB_MEANS_TEXT,
    FB_MEANS_LIST,
    FB_MEANS_NOTHING
} fb_arrow_meaning;

typedef struct {
    uint8_t layout;  /* fb_arrow_layout */
    uint8_t meaning; /* fb_arrow_meaning */
    int64_t size;    /* bytes of a number or of FIXED; members of FIXED_LIST */
    uint64_t unit;
} fb_arrow_type;

/* Parse a format. Returns the reason if it is not accepted. */
fb_arrow_reason fb_arrow_type_read(const char *format, fb_arrow_type *type);

/* Check that the counts of a record batch schema are correct: all children are there and have a
   format, down to the dictionaries of list members. */
bool fb_arrow_schema_is_sound(const struct ArrowSchema *schema);

typedef struct {
    fb_arrow_type type;
    int64_t offset;
    int64_t length;
    const uint8_t *validity;    /* a bit per value; NULL: none is null */
    const uint8_t *values;      /* numbers; bytes of FIXED; offsets; views */
    const uint8_t *bytes;       /* the bytes that offsets point into */
    const void *const *buffers; /* the buffers that views point into */
    const uint8_t *sizes;       /* sizes of these buffers, 64 bits each */
    int64_t buffer_count;
} fb_arrow_view;

/* Set the view to an array, which must outlive it. Returns false if the array does not have the
   layout of the type. Dictionaries are not checked. Children are only checked for existence. */
bool fb_arrow_view_set(fb_arrow_view *view, const fb_arrow_type *type,
                       const struct ArrowArray *array);

/* Return a bit for each of `count` values from `first` on that is not null. REQUIRES, here and
   below: 0 < count <= 64, and the values are in the view. */
uint64_t fb_arrow_view_present(const fb_arrow_view *view, int64_t first, size_t count);
/* Copy numbers: integers and bits in 64-bit two's complement, floats as binary64. REQUIRES: a
   layout of numbers other than WIDE. */
void fb_arrow_view_numbers(const fb_arrow_view *view, int64_t first, size_t count,
                           uint64_t *numbers);
/* Read a 128-bit number in two's complement, as upper and lower half. REQUIRES: the layout is
   WIDE. */
void fb_arrow_view_wide(const fb_arrow_view *view, int64_t at, uint64_t *high, uint64_t *low);
/* Get the bytes of one value, as a view of the array. Returns false if its offsets are not in
   order, or exceed a buffer of known size. REQUIRES: a layout of bytes. */
bool fb_arrow_view_bytes(const fb_arrow_view *view, int64_t at, fb_bytes *bytes);
/* Get the members of a list, from *begin to *end. Returns false as above. REQUIRES: a layout of
   lists. */
bool fb_arrow_view_members_any(const fb_arrow_view *view, int64_t at, int64_t *begin, int64_t *end);

/* The same, without a call for the usual layout. */
FB_INLINE bool fb_arrow_view_members(const fb_arrow_view *view, int64_t at, int64_t *begin,
                                     int64_t *end) {
    int32_t offsets[2];
    if (view->type.layout != FB_LAYOUT_LIST) return fb_arrow_view_members_any(view, at, begin, end);
    memcpy(offsets, view->values + 4 * (view->offset + at), 8);
    *begin = offsets[0], *end = offsets[1];
    return *begin >= 0 && *begin <= *end;
}

/* Return a mask of the `count` lowest bits. REQUIRES: 0 < count <= 64. */
FB_INLINE uint64_t fb_mask_of(size_t count) {
    return ~(uint64_t)0 >> (64 - count);
}

#endif
