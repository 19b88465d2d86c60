/* Write the rows of record batches as text: JSON lines, CSV, or keys. Each row ends with a line
   feed.

     column           text
     numbers          decimal
     float, double    the shortest decimal number that reads back as the value; NaN and infinities
                      have names (real_format.h)
     bool             true, false
     enum             name of the member; the number if no member has it
     ip               RFC 5952, IPv4-mapped addresses dotted
     mac              aa:bb:cc:dd:ee:ff
     timestamp        RFC 3339 in UTC, with the digits of the column's unit
     bytes            hexadecimal digits
     string           unchanged

   In JSON, all of these are strings except numbers, finite floats and bools, and lists are arrays.
   In CSV and keys, the members of a list are separated by spaces.

   Absent values are left out of JSON, and empty in CSV and keys. Nulls are absent. Zeros and empty
   values are absent too, except addresses and in columns with FB_COLUMN_EXPLICIT. */
#ifndef FB_ARROW_ARROW_TEXT_H
#define FB_ARROW_ARROW_TEXT_H

#include "core/arrow/arrow_source.h"
#include "core/base/buffer.h"

typedef enum {
    FB_TEXT_JSON, /* an object per row */
    FB_TEXT_CSV,  /* cells as in fb_format_csv_cell, without a header */
    FB_TEXT_KEY   /* values separated by commas, and never quoted */
} fb_text_form;

typedef struct {
    fb_text_form form;
    bool neutral;   /* CSV: texts that a spreadsheet would read as formulas are neutralized */
    fb_bytes start; /* JSON: members that each object starts with, such as `"rows":"flows"` */
} fb_text_options;

typedef struct fb_text_field fb_text_field;

typedef struct {
    fb_arrow_source source;
    fb_text_options options;
    fb_text_field *fields; /* of the source */
    fb_buffer cell;        /* a cell of CSV before it is quoted */
    uint8_t *names;        /* copies of texts: the start, and the names of fields */
    size_t names_size;
    size_t room; /* bytes for the names and signs of a row */
} fb_arrow_text;

/* Create a writer, with the statuses of fb_arrow_source_new, whose fault is text->source.fault.
   Keys and cells are in the order of the children. After a failure there is nothing to free. */
fb_status fb_arrow_text_new(fb_arrow_text *text, const fb_plan *plan,
                            const struct ArrowSchema *schema, const fb_arrow_binding *bindings,
                            fb_text_options options, fb_memory *memory);
void fb_arrow_text_free(fb_arrow_text *text);

/* Append the text of an array's rows from *position on. If `ends` is not NULL, ends[i] becomes the
   position in the output behind row i and before its line feed.

     OK            all rows are written
     OUT_OF_RANGE  a value does not fit its column, or a list changed during the call. The fault has
                   the place and the reason. Earlier rows are in the output, and *position is this
                   row.
     BAD_ARGUMENT  with a fault: the array does not have the layout of the schema
     NO_MEMORY */
fb_status fb_arrow_text_write(fb_arrow_text *text, const struct ArrowArray *array, size_t *position,
                              fb_buffer *output, size_t *ends);

#endif
