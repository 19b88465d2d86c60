/* Arrow columns in, messages out: one length-delimited Protocol Buffers message a row, in the order of rows.

   Usage:
     fb_arrow_encoder_new(&encoder, plan, &schema, bindings, 0, &memory);
     fb_row_set_output(&encoder.row, buffer, capacity, 0);
     for each array of that schema:
         size_t position = 0;
         while (fb_arrow_encode(&encoder, &array, &position) == FB_NO_SPACE)
             …move to a buffer with room for encoder.row.needed more octets, fb_row_set_output again…

   What fills which column is arrow_convert.h's matter: it is decided once, by types, and never guessed at a value. Lists (+l, +L,
   +w:N) of the same fill repeated columns.

   What is null is absent; of a null row everything is, and its message is empty. Zeros and what is empty are written of explicit
   columns alone, and of lists. An address of zeros, or ::ffff:0.0.0.0, is absent, but for members of lists. In a native column an
   address below ::ffff:0:0/96 becomes one of 4 octets, however it came: columns do not tell them apart. Repeated fields are not
   packed, as in messages of flows; the order of fields is always the same of a plan and a schema, and no other promise. */
#ifndef FB_ARROW_ENCODE_H
#define FB_ARROW_ENCODE_H

#include "core/arrow/arrow_rows.h"

#define FB_NO_CHILD SIZE_MAX

/* Why something was refused. */
typedef struct {
    fb_arrow_reason reason;
    size_t child; /* of the schema; FB_NO_CHILD: it is the schema, or the array, itself */
    size_t row;   /* of the array, where it is a value */
} fb_arrow_fault;

typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    fb_row row;           /* where messages go (fb_row_set_output), how many there are, and how much room is needed */
    fb_arrow_fault fault; /* of the last call that refused something */
    size_t child_count;   /* of the schema */
    fb_arrow_view rows;   /* of the array */
    fb_arrow_block block;
} fb_arrow_encoder;

/* `plan` and `memory` must outlive the encoder; the schema need not. Of newer kinds of processors than `processor` no instructions
   are used; 0: whatever this one has. BAD_SOURCE: a child's type cannot fill its column. BAD_ARGUMENT: the
   schema is malformed or not one of record batches, two children fill a column, or a column is disabled or
   none of the plan's. Both with a fault. BAD_ARGUMENT without
   one: the number of an enum's member is above 2^31 - 1. NO_MEMORY. Of an encoder that was not made nothing is left to free.
   REQUIRES: a binding for each child. */
fb_status fb_arrow_encoder_new(fb_arrow_encoder *encoder, const fb_plan *plan, const struct ArrowSchema *schema,
                               const fb_arrow_binding *bindings, fb_processor processor, fb_memory *memory);
void fb_arrow_encoder_free(fb_arrow_encoder *encoder);

/* Appends messages of an array's rows from *position on. OK: of all of them. NO_SPACE: the output is full; *position says where to
   go on, with the same array. OUT_OF_RANGE: a value cannot be had in its column, or a list changed while
   it was read; the fault says which and why, rows before it are in the output, and *position is at its row. BAD_ARGUMENT, with a fault: the array is not laid out as the schema says.
   Buffers of whose size an array says nothing are believed to be as long as they have to be. */
fb_status fb_arrow_encode(fb_arrow_encoder *encoder, const struct ArrowArray *array, size_t *position);

#endif
