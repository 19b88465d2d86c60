/* Reader from Protocol Buffers messages to rows of a batch (batch.h). The plan is the one that
   wrote the messages, or one with more columns.

   Messages follow the rules of proto3:
   - Fields come in any order. The last occurrence of a single field counts.
   - Members of lists are packed or not.
   - Unknown enum numbers are kept.
   - Malformed UTF-8 becomes U+FFFD.
   - An address has 16, 4 or 0 bytes; 0 means absent.
   - A number that does not fit its column is a fault of the message, where other readers truncate
     it.

   Usage:
     fb_message_columns_new(&reader, plan, 0, &memory);
     while ((status = fb_message_columns_read(&reader, &rest, batch, &fault)) == FB_NO_SPACE &&
            batch->rows) … another batch … */
#ifndef FB_ARROW_MESSAGE_COLUMNS_H
#define FB_ARROW_MESSAGE_COLUMNS_H

#include "core/emit/batch.h"
#include "core/wire/message_reader.h"

/* The kinds of faults of a message. */
#define FB_MESSAGE_FAULT_LIST(X) \
    X(NONE, "nothing") \
    X(LENGTH, "malformed length") \
    X(FIELD, "malformed field") \
    X(WIRE_TYPE, "a field of another wire type than its column") \
    X(RANGE, "a number that its column cannot hold") \
    X(ADDRESS, "an address of neither 4 nor 16 bytes")

typedef enum {
#define FB_X(constant, text) FB_MESSAGE_FAULT_##constant,
    FB_MESSAGE_FAULT_LIST(FB_X)
#undef FB_X
        FB_MESSAGE_FAULT_COUNT
} fb_message_fault_kind;

typedef struct {
    fb_message_fault_kind kind;
    uint16_t column; /* FB_NO_COLUMN: unknown, or not in the plan */
    size_t offset;   /* of the field, from the first byte of the message's length */
} fb_message_fault;

const char *fb_message_fault_text(fb_message_fault_kind kind);

/* Methods to read values. Fields of another wire type are handled separately. */
enum {
    FB_MESSAGE_PATH_NUMBER,
    FB_MESSAGE_PATH_ADDRESS,
    FB_MESSAGE_PATH_FIXED64,
    FB_MESSAGE_PATH_TEXT,
    FB_MESSAGE_PATH_OTHER,
    FB_MESSAGE_PATH_SKIP
};
enum { FB_MESSAGE_NO_PLACE = 0, FB_MESSAGE_NO_WIRE = 0xff };

/* The column of a field number, and the method to read its values. */
typedef struct {
    uint8_t *values; /* buffer of the batch, for fixed-width columns */
    uint64_t limit;  /* the greatest number; for signed types the least is -limit - 1 */
    uint32_t number;
    uint16_t column;
    uint8_t shift; /* of the vector */
    uint8_t path;
    uint8_t wire; /* fb_wire_type; an invalid one if there is no column */
    uint8_t type; /* fb_type */
    bool listed;
} fb_message_place;

/* Field numbers below this have tags of at most two bytes. Their places are looked up in a
   table. */
enum { FB_MESSAGE_NEAR = 2048 };

typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    fb_message_place *places; /* sorted by number; the first is used for all unknown numbers */
    size_t place_count;
    uint16_t *uneven; /* columns of bytes and lists, whose rows must be ended one by one */
    size_t uneven_count;
    const uint8_t *fixed; /* the buffer and capacity of the batch that `places` point into */
    size_t capacity;
    fb_processor processor; /* limit of the instructions used */
    /* fields in rows that are not a column of the plan, enabled or disabled */
    uint64_t unknown_fields;
    uint64_t invalid_texts; /* strings in rows in which bytes were replaced */
    uint16_t near[FB_MESSAGE_NEAR];
} fb_message_columns;

/* Create a reader. `plan` and `memory` must outlive it. `processor` limits the instructions used;
   0: all that this processor has. NO_MEMORY. */
fb_status fb_message_columns_new(fb_message_columns *reader, const fb_plan *plan,
                                 fb_processor processor, fb_memory *memory);
void fb_message_columns_free(fb_message_columns *reader);

/* Take messages from a length-delimited stream, one row each. *rest then begins at the first
   message that did not become a row.

     END          the stream is empty
     MORE_INPUT   the stream ends inside this message
     NO_SPACE     the batch is full, or there is no memory for more data in it
     NO_MEMORY    the same for a batch without rows: the message is too large
     BAD_MESSAGE  *fault has the reason

   After every status the batch holds complete rows only. REQUIRES: a batch of this plan. */
fb_status fb_message_columns_read(fb_message_columns *reader, fb_bytes *rest, fb_batch *batch,
                                  fb_message_fault *fault);

#endif
