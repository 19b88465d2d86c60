/* Encoder from Arrow columns to messages: one length-delimited Protocol Buffers message per row, in
   the order of rows.

   Usage:
     fb_arrow_encoder_new(&encoder, plan, &schema, bindings, 0, &memory);
     fb_row_set_output(&encoder.row, buffer, capacity, 0);
     for each array of that schema:
         size_t position = 0;
         while (fb_arrow_encode(&encoder, &array, &position) == FB_NO_SPACE)
             …move to a buffer with room for encoder.row.needed more bytes, fb_row_set_output again…

   arrow_convert.h defines the types that can fill a column. The types decide this once per schema;
   values never do. Lists (+l, +L, +w:N) of these types fill repeated columns.

   Output:
   - A null is absent. All values of a null row are absent, so its message is empty.
   - Zeros and empty values are written only in explicit columns and in lists.
   - An address of zeros, or ::ffff:0.0.0.0, is absent, except in lists.
   - In a native column, every address in ::ffff:0:0/96 is written as 4 bytes. The input form does
     not matter, because columns do not keep it.
   - Repeated fields are not packed, as in messages of flows.
   - The order of fields is constant for a plan and a schema, and otherwise unspecified. */
#ifndef FB_ARROW_ARROW_ENCODE_H
#define FB_ARROW_ARROW_ENCODE_H

#include "core/arrow/arrow_rows.h"

typedef struct {
    fb_arrow_source source;
    fb_row row; /* the output (fb_row_set_output), the number of messages, and the room needed */
    fb_arrow_block block;
} fb_arrow_encoder;

/* Create an encoder, with the statuses of fb_arrow_source_new, whose fault is
   encoder->source.fault. `processor` limits the instructions used; 0: all that this processor has.
   After a failure there is nothing to free. */
fb_status fb_arrow_encoder_new(fb_arrow_encoder *encoder, const fb_plan *plan,
                               const struct ArrowSchema *schema, const fb_arrow_binding *bindings,
                               fb_processor processor, fb_memory *memory);
void fb_arrow_encoder_free(fb_arrow_encoder *encoder);

/* Append the messages of an array's rows from *position on.

     OK            all rows are encoded
     NO_SPACE      the output is full; call again with the same array and *position
     OUT_OF_RANGE  a value does not fit its column, or a list changed during the call. The fault
                   has the place and the reason. Earlier rows are in the output, and *position is
                   this row.
     BAD_ARGUMENT  with a fault: the array does not have the layout of the schema

   Arrow states no size for most buffers. They must be as large as the layout requires. */
fb_status fb_arrow_encode(fb_arrow_encoder *encoder, const struct ArrowArray *array,
                          size_t *position);

#endif
