/* Arrow columns in, messages out: one length-delimited Protocol Buffers message a row, in the order of rows.

   Usage:
     fb_arrow_encoder_new(&encoder, plan, &schema, bindings, &memory);
     fb_row_set_output(&encoder.row, buffer, capacity, 0);
     for each array of that schema:
         size_t position = 0;
         while (fb_arrow_encode(&encoder, &array, &position) == FB_NO_SPACE)
             …move to a buffer with room for encoder.row.needed more octets, fb_row_set_output again…

   What fills which column is arrow_convert.h's matter: it is decided once, by types, and never guessed at a value. Lists (+l, +L,
   +w:N) of the same fill repeated columns.

   What is null is absent; of a null row everything is, and its message is empty. Zeros and what is empty are written of explicit
   columns alone, and of lists. An address of zeros, or ::ffff:0.0.0.0, is absent, but for members of lists. In a native column an
   address below ::ffff:0:0/96 becomes one of 4 octets, however it came: columns do not tell them apart. Fields are in the order of
   the plan's columns, repeated ones not packed, as messages of flows are. */
#ifndef FB_ARROW_ENCODE_H
#define FB_ARROW_ENCODE_H

#include "arrow_convert.h"
#include "row.h"

/* What a child of the schema fills. */
typedef struct {
    uint16_t column; /* of the plan; FB_NO_COLUMN: nothing, the child is ignored, whatever it is */
    const fb_arrow_member *members; /* of an enum, where it may come as text: in any order, and copied */
    size_t member_count;
} fb_arrow_binding;

#define FB_NO_CHILD SIZE_MAX

/* Why something was refused. */
typedef struct {
    fb_arrow_reason reason;
    size_t child; /* of the schema; FB_NO_CHILD: it is the schema, or the array, itself */
    size_t row;   /* of the array, where it is a value */
} fb_arrow_fault;

typedef struct fb_arrow_field fb_arrow_field;

typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    fb_row row;           /* where messages go (fb_row_set_output), how many there are, and how much room is needed */
    fb_arrow_fault fault; /* of the last call that refused something */
    fb_arrow_view rows;   /* of the array */
    fb_arrow_field *fields; /* what is filled, in the order of columns */
    size_t field_count, child_count;
    size_t more[FB_ARROW_BLOCK]; /* octets that rows of a block may have beyond plan->fixed_worst */
} fb_arrow_encoder;

/* `plan` and `memory` must outlive the encoder; the schema need not. BAD_SOURCE: a child's type cannot fill its column.
   BAD_ARGUMENT: the schema is not one of record batches, two children fill a column, or a column is disabled or none of the
   plan's. Both with a fault, and nothing to free. BAD_ARGUMENT without a fault: a member's number is above 2^31 - 1. NO_MEMORY.
   REQUIRES: a binding for each child. */
fb_status fb_arrow_encoder_new(fb_arrow_encoder *encoder, const fb_plan *plan, const struct ArrowSchema *schema,
                               const fb_arrow_binding *bindings, fb_memory *memory);
void fb_arrow_encoder_free(fb_arrow_encoder *encoder);

/* Appends messages of an array's rows from *position on. OK: of all of them. NO_SPACE: the output is full; *position says where to
   go on, with the same array. OUT_OF_RANGE: a value cannot be had in its column; the fault says which and why, rows before it are
   in the output, and *position is at its row. BAD_ARGUMENT, with a fault: the array is not laid out as the schema says.
   Buffers of whose size an array says nothing are believed to be as long as they have to be. */
fb_status fb_arrow_encode(fb_arrow_encoder *encoder, const struct ArrowArray *array, size_t *position);

#endif
