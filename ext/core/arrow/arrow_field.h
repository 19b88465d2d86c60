/* A child of a record batch and the column that it fills. It is bound once per schema, set once per
   array, and read in blocks of rows. */
#ifndef FB_ARROW_ARROW_FIELD_H
#define FB_ARROW_ARROW_FIELD_H

#include "core/arrow/arrow_convert.h"

/* The column of a child and the options of its conversion. */
typedef struct {
    uint16_t column;          /* index in the plan; FB_NO_COLUMN: ignore the child, of any type */
    const fb_member *members; /* of an enum that may come as text: copied, in any order */
    size_t member_count;
    bool required; /* refuse a row without a value */
} fb_arrow_binding;

/* The form in which a cell is written to a message. */
typedef enum {
    /* plain numbers of the fast path (message_row.h): of 8 bits, of 16 bits, or any */
    FB_PUT_BYTE,
    FB_PUT_PAIR,
    FB_PUT_NUMBER,
    FB_PUT_DOUBLE,
    FB_PUT_OTHER_NUMBER,
    FB_PUT_ADDRESS, /* of 16 bytes */
    FB_PUT_NATIVE_ADDRESS,
    FB_PUT_BYTES,
    FB_PUT_EXPLICIT, /* any cell that is present, even if it is zero or empty */
    FB_PUT_LIST
} fb_arrow_put;

typedef struct {
    const fb_column *column;
    uint8_t put; /* fb_arrow_put */
    bool required;
    size_t child;
    uint64_t present;     /* a bit for each row of the block that has a value */
    fb_arrow_cells cells; /* of the block; for a list, some of its members */
    /* the texts of the block, if they could be used without cells; otherwise its bytes are NULL */
    fb_arrow_texts texts;
    fb_arrow_values values;   /* for a list, the places of its members */
    fb_arrow_values *members; /* of a list */
    /* bytes that the list of each row needed at the first read */
    uint32_t list_room[FB_ARROW_BLOCK];
    fb_member *names; /* of an enum */
    size_t names_size;
} fb_arrow_field;

FB_INLINE bool fb_arrow_put_is_plain(fb_arrow_put put) {
    return put <= FB_PUT_NUMBER;
}
/* Choose the form of a column. `required`: write an address of zeros too. */
fb_arrow_put fb_arrow_put_choose(const fb_column *column, bool required);

/* Bind a child of a schema to a column. BAD_SOURCE: the type cannot fill the column; *reason is
   set. BAD_ARGUMENT: the number of a member is above 2^31 - 1. NO_MEMORY. The caller frees the
   field after every status. REQUIRES: the field is zeroed. */
fb_status fb_arrow_field_bind(fb_arrow_field *field, const fb_column *column,
                              const struct ArrowSchema *schema, const fb_arrow_binding *binding,
                              fb_memory *memory, fb_arrow_reason *reason);
void fb_arrow_field_free(fb_arrow_field *field, fb_memory *memory);

/* Set the array to read. It must outlive the reads. Returns false if it has fewer rows or not the
   layout of its schema. */
bool fb_arrow_field_set(fb_arrow_field *field, const struct ArrowArray *array, int64_t rows);
/* Room in bytes for the rows of a block, in addition to their fixed-size values. */
typedef struct {
    size_t any; /* for each row in addition: all texts of a column, if they are short */
    size_t rows[FB_ARROW_BLOCK];
} fb_arrow_room;

/* Read `count` rows, of which those with a bit in `wanted` have values, and add their bytes to
   `room`. Returns the number of rows before the first refused one, and its reason. REQUIRES: 0 <
   count <= FB_ARROW_BLOCK. */
size_t fb_arrow_field_read(fb_arrow_field *field, int64_t first, size_t count, uint64_t wanted,
                           fb_arrow_room *room, fb_arrow_reason *reason);

/* The remaining members of a list. */
typedef struct {
    int64_t at, end;
} fb_arrow_members;

/* Find the members of a row's list. A missing list has no members. */
fb_arrow_reason fb_arrow_field_find_members(const fb_arrow_field *field, int64_t at,
                                            fb_arrow_members *members);
/* Read at most a block of members into the field's cells, and subtract their bytes from *room.
   Returns their number. TOO_LONG: *room is too small. REQUIRES: members remain. */
size_t fb_arrow_field_read_members(fb_arrow_field *field, fb_arrow_members *members, size_t *room,
                                   fb_arrow_reason *reason);

FB_INLINE bool fb_column_holds_bytes(const fb_column *column) {
    return column->type == FB_TYPE_STRING || column->type == FB_TYPE_BYTES;
}

#endif
