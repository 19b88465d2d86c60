/* Export of a finished batch as Arrow arrays. The batch's own buffers are not copied. Other buffers
   are built once: validity, enum members as names, booleans as bits, and addresses as text on
   request.

   Usage:
     fb_table_new(&table, plan, batch, fields, count);      the table now owns the batch
     fb_table_export(table, &array);                        any number of times
     fb_table_release(table);                               exported arrays stay valid */
#ifndef FB_ARROW_ARROW_TABLE_H
#define FB_ARROW_ARROW_TABLE_H

#include "core/arrow/arrow.h"
#include "core/emit/batch.h"

/* A column and its export format.

     type of the column         its Arrow format       null
     numbers                    C S I L, i l, f g      never
     timestamp, duration        l                      0, if nullable
     bool                       b                      never
     ip                         w:16; text: u          no address, if nullable
     mac                        L; text: u             0, if nullable
     enum                       dictionary of i, u     0, if nullable
     string, bytes              u, z                   empty, if nullable

   In an explicit column, null means absent, and no other value is null. A repeated column is a list
   of these types, and its members are never null. */
typedef struct {
    uint16_t column;
    bool nullable;
    bool text; /* export IP and MAC addresses as text */
    /* of an enum, by number; read at export, not when the table is made */
    const fb_member *members;
    size_t member_count;
} fb_table_field;

typedef struct fb_table fb_table;

/* Create a table that takes ownership of the batch, even on failure. NO_MEMORY. */
fb_status fb_table_new(fb_table **table, const fb_plan *plan, fb_batch *batch,
                       const fb_table_field *fields, size_t count);
/* Create a table with the rows of `base` and other export formats. The tables share the batch.
   NO_MEMORY. */
fb_status fb_table_view(fb_table **table, const fb_plan *plan, fb_table *base,
                        const fb_table_field *fields, size_t count);
/* Create a table with copies of some rows of `base`, in the given order. NO_MEMORY: memory is
   short, or the rows do not fit into one table. REQUIRES: all numbers of rows are less than
   fb_table_rows(base). */
fb_status fb_table_take(fb_table **table, const fb_plan *plan, const fb_table *base,
                        const uint64_t *rows, size_t row_count, const fb_table_field *fields,
                        size_t count);
/* Release the caller's reference, from any thread. Exported arrays hold their own references. */
void fb_table_release(fb_table *table);
size_t fb_table_rows(const fb_table *table);
/* Return the bytes of memory that the table keeps alive. */
size_t fb_table_size(const fb_table *table);
/* Export a struct array with one child per field, in their order. The caller owns *array and calls
   its release. NO_MEMORY: *array is unchanged. */
fb_status fb_table_export(fb_table *table, struct ArrowArray *array);

#endif
