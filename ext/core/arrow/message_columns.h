/* Protocol Buffers messages become rows of a batch (batch.h), by the plan that they were written by, or by one that has grown since.

   A message is read as any reader of proto3 reads it: fields in any order; of a single one the last occurrence counts; members of
   lists packed or one by one; numbers of enums that are not known stay what they are; malformed UTF-8 becomes U+FFFD. An address
   has 16 octets, or 4, or none, and is absent then. What no column can hold, a reader that truncates would make another value of:
   here it is a fault of the message.

     fb_message_columns_new(&reader, plan, &memory);
     while ((status = fb_message_columns_read(&reader, &rest, batch, &fault)) == FB_NO_SPACE && batch->rows) … another batch … */
#ifndef FB_MESSAGE_COLUMNS_H
#define FB_MESSAGE_COLUMNS_H

#include "core/emit/batch.h"
#include "core/wire/message_reader.h"

/* What is wrong with a message. */
#define FB_MESSAGE_FAULT_LIST(X) \
    X(NONE, "nothing") \
    X(LENGTH, "malformed length") \
    X(FIELD, "malformed field") \
    X(WIRE_TYPE, "a field of another wire type than its column") \
    X(RANGE, "a number that its column cannot hold") \
    X(ADDRESS, "an address of neither 4 nor 16 octets")

typedef enum {
#define FB_X(constant, text) FB_MESSAGE_FAULT_##constant,
    FB_MESSAGE_FAULT_LIST(FB_X)
#undef FB_X
    FB_MESSAGE_FAULT_COUNT
} fb_message_fault_kind;

typedef struct {
    fb_message_fault_kind kind;
    uint16_t column; /* FB_NO_COLUMN where it is not known, or the plan has none */
    size_t offset;   /* of the field, from the first octet of the message's length */
} fb_message_fault;

const char *fb_message_fault_text(fb_message_fault_kind kind);

/* Ways of values; where the wire type is another one, nothing is known yet. */
enum {
    FB_MESSAGE_WAY_NUMBER,
    FB_MESSAGE_WAY_ADDRESS,
    FB_MESSAGE_WAY_FIXED64,
    FB_MESSAGE_WAY_TEXT,
    FB_MESSAGE_WAY_OTHER,
    FB_MESSAGE_WAY_SKIP
};
enum { FB_MESSAGE_NO_PLACE = 0, FB_MESSAGE_NO_WIRE = 0xff };

/* How fields of one number are read. */
typedef struct {
    uint8_t *values; /* of the batch, where they have one width */
    uint64_t limit;  /* the greatest number; of signed ones -limit - 1 is the least */
    uint32_t number;
    uint16_t column;
    uint8_t shift; /* of the vector's */
    uint8_t way;
    uint8_t wire; /* fb_wire_type; of what is no column, none of them */
    uint8_t type; /* fb_type */
    bool listed;
} fb_message_place;

enum { FB_MESSAGE_NEAR = 2048 }; /* numbers below it have tags of two octets at most: their places are looked up in a table */

typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    fb_message_place *places; /* by their numbers; the first is that of all numbers that have none */
    size_t place_count;
    uint16_t *uneven; /* columns of octets and lists: their rows are ended one by one */
    size_t uneven_count;
    const uint8_t *fixed;    /* of the batch that places point into, */
    size_t capacity;         /* and its rows */
    fb_processor processor;  /* of which instructions may be used */
    uint64_t unknown_fields; /* of rows: fields that are no column of the plan, enabled or not */
    uint64_t invalid_texts;  /* of rows: strings of which some part was replaced */
    uint16_t near[FB_MESSAGE_NEAR];
} fb_message_columns;

/* `plan` and `memory` must outlive it. Of newer kinds of processors than `processor` no instructions are used; 0: whatever this one has.
   NO_MEMORY. */
fb_status fb_message_columns_new(fb_message_columns *reader, const fb_plan *plan, fb_processor processor, fb_memory *memory);
void fb_message_columns_free(fb_message_columns *reader);

/* Takes messages off a length-delimited stream, and puts each into a row of its own. *rest begins with the first message that
   became none.

     END          there is none
     MORE_INPUT   the stream ends inside it
     NO_SPACE     the batch is full, or there is no memory for more in it
     NO_MEMORY    the same where the batch has no rows: the message is too large
     BAD_MESSAGE  *fault says why

   Whatever it is, a batch holds whole rows alone. REQUIRES: a batch of this plan. */
fb_status fb_message_columns_read(fb_message_columns *reader, fb_bytes *rest, fb_batch *batch, fb_message_fault *fault);

#endif
