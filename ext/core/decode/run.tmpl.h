/* Decode the records of a set column by column. For each column, one loop runs over all records.
   The location and type of a value are looked up once per column, so the inner loops have no branch
   to mispredict.

   This works for columns only. A message must be written record by record. */
#ifndef FB_DECODE_RUN_TMPL_H
#define FB_DECODE_RUN_TMPL_H

#ifndef FB_EMITTER
#include "core/emit/columns.h"
#define FB_EMITTER fb_columns
#define FB_BY_COLUMN
#endif
#include "core/decode/datagram.tmpl.h"
#include "core/decode/operation.tmpl.h"
#include "core/decode/value.tmpl.h"

#define FILL(value) \
    for (uint8_t *to = vector.values + (row << vector.shift), *end = to + (count << vector.shift); \
         to < end; to += vector.width, p += step) \
    fb_vector_store(&vector, to, value)

static void fill_addresses(const fb_vector *vector, size_t row, const uint8_t *p, size_t size,
                           size_t step, size_t count) {
    for (size_t i = 0; i < count; i++, p += step)
        if (!fb_is_no_address(p, size)) fb_vector_set_address(vector, row + i, p, size);
}

static void fill_members(fb_context *c, fb_columns *columns, const fb_op *op, size_t row,
                         const uint8_t *p, size_t step, size_t count) {
    const fb_vector vector = columns->vectors[op->target.column];
    for (size_t i = 0; i < count; i++, p += step) {
        uint64_t number;
        if (FB_LIKELY(find_member(op->column, *p, &number)))
            fb_vector_set(&vector, row + i, number);
        else convert_uint(c, columns, (fb_cursor){row + i, columns->open}, op->target, *p);
    }
}

/* Use the first address; if it is zero, use the rest of the record. */
static void fill_etypes(const fb_columns *columns, const fb_compiled_template *compiled,
                        const fb_op *op, size_t row, const uint8_t *record, size_t size,
                        size_t count) {
    const fb_vector vector = columns->vectors[op->target.column];
    const uint8_t *p = record;
    const size_t step = compiled->record_size;
    FILL(find_etype(compiled, p, NULL, p + op->offset, size));
}

static void fill_column(fb_context *c, fb_columns *columns, const fb_compiled_template *compiled,
                        const fb_op *op, size_t row, const uint8_t *record, size_t count) {
    /* a copy, so that the compiler knows that stores do not change it */
    const fb_vector vector = columns->vectors[op->target.column];
    const uint8_t *p = record + op->offset;
    const size_t step = compiled->record_size;
    switch (op->code) {
        case FB_OP_UINT8: FILL(*p); return;
        case FB_OP_UINT16: FILL(fb_load16(p)); return;
        case FB_OP_UINT32: FILL(fb_load32(p)); return;
        case FB_OP_UINT64: FILL(fb_load64(p)); return;
        case FB_OP_TCP_BITS: FILL(fb_load16(p) & 0x0fff); return;
        case FB_OP_IPV4: fill_addresses(&vector, row, p, 4, step, count); return;
        case FB_OP_IPV6: fill_addresses(&vector, row, p, 16, step, count); return;
        case FB_OP_ENUM: fill_members(c, columns, op, row, p, step, count); return;
        case FB_OP_ETYPE_IPV4: fill_etypes(columns, compiled, op, row, record, 4, count); return;
        default: fill_etypes(columns, compiled, op, row, record, 16, count); return;
    }
}

/* Fill a column of names, and end its rows. */
static void fill_names(fb_context *c, fb_columns *columns, const fb_compiled_template *compiled,
                       const fb_op *op, size_t row, const uint8_t *record, size_t count) {
    fb_vector *vector = &columns->vectors[op->target.column];
    for (size_t i = 0; i < count; i++, record += compiled->record_size) {
        const fb_name *name = c->domain ? find_name(c->domain, op, record, NULL) : NULL;
        if (name) fb_columns_append_name(vector, name->text, name->size);
        fb_vector_end(vector, row + i);
    }
}

/* Run the operations after the names, and end the rows of strings that no name has filled. `filled`
   has the bits of those that names have filled. */
static void fill_rest(fb_context *c, fb_columns *columns, const fb_compiled_template *compiled,
                      uint64_t filled, size_t row, const uint8_t *record, size_t count) {
    for (size_t i = 0; i < count; i++, record += compiled->record_size) {
        if (compiled->name_end < compiled->op_count) {
            fb_cursor at = {row + i, columns->open};
            at = run_each(c, columns, at, compiled, compiled->name_end, compiled->op_count, record,
                          NULL);
            columns->batch->written |= ~at.open;
        }
        for (size_t k = 0; k < columns->uneven_count; k++) {
            uint16_t column = columns->uneven[k];
            if (!(columns->columns[column].bit & filled))
                fb_vector_end(&columns->vectors[column], row + i);
        }
    }
}

/* Return the number of rows for which there is room. */
static size_t reserve_run(fb_context *c, fb_columns *columns, const fb_compiled_template *compiled,
                          size_t count) {
    enum { MOST_UNEVEN = 64 }; /* strings reserve the room of their longest values */
    size_t room = columns->batch->capacity - columns->batch->rows;
    if (columns->uneven_count && room > MOST_UNEVEN) room = MOST_UNEVEN;
    if (count > room) count = room;
    if (!columns->uneven_count) return count;
    bool reserved =
        fb_columns_reserve_uneven(columns, count, max_row_size(c, compiled->record_size));
    return reserved ? count : 0;
}

/* Decode up to `count` records, as far as there is room, and return their number. Returns 0 if rows
   contain more than numbers, addresses and names, or if there are fewer than two records. */
static size_t put_run(fb_context *c, fb_columns *columns, const fb_compiled_template *compiled,
                      const uint8_t *record, size_t count) {
    fb_batch *batch = columns->batch;
    const size_t row = batch->rows;
    uint64_t filled = 0, written = ~columns->open;
    if (!columns->tracked || count < 2) return 0;
    count = reserve_run(c, columns, compiled, count);
    for (size_t i = 0; i < columns->constant_count; i++)
        fb_vector_repeat(&columns->vectors[columns->constants[i]], fb_batch_constant_row(batch),
                         row, count);
    for (const fb_op *op = compiled->ops, *end = op + compiled->move_end; op < end; op++) {
        fill_column(c, columns, compiled, op, row, record, count);
        written |= op->column->bit;
    }
    for (const fb_op *op = compiled->ops + compiled->set_end,
                     *end = compiled->ops + compiled->name_end;
         op < end; op++) {
        fill_names(c, columns, compiled, op, row, record, count);
        filled |= op->column->bit;
    }
    if (columns->uneven_count || compiled->name_end < compiled->op_count)
        fill_rest(c, columns, compiled, filled, row, record, count);
    batch->rows += count;
    batch->written |= written;
    columns->count += count;
    c->counters->rows[FB_ROWS_FLOWS] += count;
    return count;
}

#endif
