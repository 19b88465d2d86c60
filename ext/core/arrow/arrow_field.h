/* A child of a record batch and the column that it fills: bound once a schema, set once an array, read a block of rows at a time. */
#ifndef FB_ARROW_FIELD_H
#define FB_ARROW_FIELD_H

#include "core/arrow/arrow_convert.h"

/* What a child of the schema fills. */
typedef struct {
    uint16_t column; /* of the plan; FB_NO_COLUMN: nothing, the child is ignored, whatever it is */
    const fb_member *members; /* of an enum, where it may come as text: in any order, and copied */
    size_t member_count;
    bool required; /* a row without a value is refused */
} fb_arrow_binding;

/* How a cell becomes a field of a message. */
typedef enum {
    FB_PUT_OCTET, /* a plain number, as the fast path of a row takes it (message_row.h): of 8 bits, of 16 bits, or any */
    FB_PUT_PAIR,
    FB_PUT_NUMBER,
    FB_PUT_DOUBLE,
    FB_PUT_OTHER_NUMBER,
    FB_PUT_ADDRESS, /* of 16 octets */
    FB_PUT_NATIVE_ADDRESS,
    FB_PUT_OCTETS,
    FB_PUT_EXPLICIT, /* any cell that is present */
    FB_PUT_LIST
} fb_arrow_put;

typedef struct {
    const fb_column *column;
    uint8_t put; /* fb_arrow_put */
    bool required;
    size_t child;
    uint64_t present; /* which rows of the block have it */
    fb_arrow_cells cells;      /* of the block; of a list, some of its members */
    fb_arrow_texts texts;      /* of the block, instead of cells, where they can be had so; else its octets are NULL */
    fb_arrow_values values;    /* of a list, where its members are */
    fb_arrow_values *members;  /* of a list */
    uint32_t list_room[FB_ARROW_BLOCK]; /* bytes that the list of each row needs, as it was read first */
    fb_member *names;          /* of an enum */
    size_t names_size;
} fb_arrow_field;

FB_INLINE bool fb_arrow_put_is_plain(fb_arrow_put put) {
    return put <= FB_PUT_NUMBER;
}
/* A `required` address is written when it is all zeros, too. */
fb_arrow_put fb_arrow_put_choose(const fb_column *column, bool required);

/* BAD_SOURCE: the type of the schema cannot fill the column, for a reason. BAD_ARGUMENT: the number of a member is above 2^31 - 1.
   NO_MEMORY. Whatever it is, the field is to be freed. REQUIRES: the field has zeros. */
fb_status fb_arrow_field_bind(fb_arrow_field *field, const fb_column *column, const struct ArrowSchema *schema,
                              const fb_arrow_binding *binding, fb_memory *memory, fb_arrow_reason *reason);
void fb_arrow_field_free(fb_arrow_field *field, fb_memory *memory);

/* False: the array has fewer rows, or is not laid out as its schema says. */
bool fb_arrow_field_set(fb_arrow_field *field, const struct ArrowArray *array, int64_t rows);
/* Octets by which rows of a block may be longer than any fixed-size values make them. */
typedef struct {
    size_t any; /* that each of them may have: all texts of a column, where they are few */
    size_t rows[FB_ARROW_BLOCK];
} fb_arrow_room;

/* Reads what `wanted` rows of a block have, and adds to `room` what they need. Returns how many rows there are before the first that
   is refused, and why. REQUIRES: 0 < count <= FB_ARROW_BLOCK. */
size_t fb_arrow_field_read(fb_arrow_field *field, int64_t first, size_t count, uint64_t wanted, fb_arrow_room *room,
                           fb_arrow_reason *reason);

/* The members of a list that are left. */
typedef struct {
    int64_t at, end;
} fb_arrow_members;

/* Those of a row; none, where there is no list. */
fb_arrow_reason fb_arrow_field_find_members(const fb_arrow_field *field, int64_t at, fb_arrow_members *members);
/* Takes the next ones, a block of them at most, into the field's cells. Returns how many, and takes the
   bytes that they need off *room. TOO_LONG: *room is less than that. REQUIRES: some are left. */
size_t fb_arrow_field_read_members(fb_arrow_field *field, fb_arrow_members *members, size_t *room, fb_arrow_reason *reason);

FB_INLINE bool fb_column_holds_octets(const fb_column *column) {
    return column->type == FB_TYPE_STRING || column->type == FB_TYPE_BYTES;
}

#endif
