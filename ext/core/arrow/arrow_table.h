/* A batch that is finished, as Arrow hands it on: what stands in it already is not copied; what Arrow wants besides is made
   once: which values are null, members of enums by name, booleans as bits, addresses as text where that is asked for.

   Usage:
     fb_table_new(&table, plan, batch, fields, count);      the batch is the table's now
     fb_table_export(table, &array);                        as often as somebody asks
     fb_table_release(table);                               what was exported lives on */
#ifndef FB_TABLE_H
#define FB_TABLE_H

#include "core/arrow/arrow.h"
#include "core/emit/batch.h"

/* A column, and how it is handed on.

     type of the column         its Arrow format       null
     numbers                    C S I L, i l, f g      never
     timestamp, duration        l                      0, if nullable
     bool                       b                      never
     ip                         w:16; text: u          no address, if nullable
     mac                        L; text: u             0, if nullable
     enum                       dictionary of i, u     0, if nullable
     string, bytes              u, z                   empty, if nullable

   Where a column is explicit, null is what is not there, and nothing else. A repeated one is a list of these, whose members are
   never null. */
typedef struct {
    uint16_t column;
    bool nullable;
    bool text;                /* addresses and MAC addresses */
    const fb_member *members; /* of an enum, by number; not looked at when the table is made */
    size_t member_count;
} fb_table_field;

typedef struct fb_table fb_table;

/* Takes the batch, whatever comes of it. NO_MEMORY. */
fb_status fb_table_new(fb_table **table, const fb_plan *plan, fb_batch *batch, const fb_table_field *fields, size_t count);
/* The same rows, handed on in another way. NO_MEMORY. */
fb_status fb_table_view(fb_table **table, const fb_plan *plan, fb_table *base, const fb_table_field *fields, size_t count);
/* Gives one reference back; what is exported holds others. Any thread may. */
void fb_table_release(fb_table *table);
size_t fb_table_rows(const fb_table *table);
/* Octets that it keeps from being freed. */
size_t fb_table_size(const fb_table *table);
/* A struct array with a child for each field, in their order. NO_MEMORY: *array is not touched. */
fb_status fb_table_export(fb_table *table, struct ArrowArray *array);

#endif
