/* Decode the records of a set column by column. For each column, one loop runs over all records.
   The location and type of a value are looked up once per column, so the inner loops have no branch
   to mispredict. Records with fields of variable length are located first.

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

/* Consecutive records of a template. Those of fixed size follow each other in steps. For each of
   the others, the fields have been located: `stride` entries of `locations`. */
typedef struct {
    const uint8_t *first;
    size_t step;
    const fb_location *locations; /* NULL: the records have a fixed size */
    size_t stride;
    const uint8_t *end; /* of the last located record */
    size_t count;
} fb_records;

FB_INLINE const fb_location *locations_of(const fb_records *records, size_t i) {
    return records->locations ? records->locations + i * records->stride : NULL;
}

FB_INLINE const uint8_t *record_of(const fb_records *records, size_t i) {
    return records->locations ? locations_of(records, i)->base : records->first + i * records->step;
}

/* Store a value in each row, from `row` on. The statements find the field at p and the row at
   `to`, and in `record` and `locations` what other functions need. All else is copied first, so
   that the compiler knows that stores do not change it. */
#define FILL(...) \
    do { \
        uint8_t *to = vector.values + (row << vector.shift), *stop = to; \
        stop += records->count << vector.shift; \
        const size_t offset = op->offset, base = op->base, width = vector.width; \
        if (!records->locations) { \
            const fb_location *const locations = NULL; \
            const uint8_t *p = records->first + offset; \
            for (const size_t step = records->step; to < stop; to += width, p += step) { \
                const uint8_t *const record = p - offset; \
                __VA_ARGS__; \
                (void)record, (void)locations; \
            } \
        } else { \
            const fb_location *locations = records->locations; \
            for (const size_t stride = records->stride; to < stop; \
                 to += width, locations += stride) { \
                const uint8_t *const p = locations[base].base + offset, *record = locations->base; \
                __VA_ARGS__; \
                (void)record; \
            } \
        } \
    } while (0)
#define FILL_NUMBERS(value) FILL(fb_vector_store(&vector, to, value))

FB_INLINE void fill_addresses(const fb_records *records, const fb_op *op, fb_vector vector,
                              size_t row, size_t size) {
    FILL(if (!fb_is_no_address(p, size)) fb_store_address(to, p, size));
}

FB_INLINE void store_member(fb_context *c, fb_columns *columns, const fb_op *op, fb_vector vector,
                            uint8_t *to, uint8_t value) {
    uint64_t number;
    size_t row = (size_t)(to - vector.values) >> vector.shift;
    if (FB_LIKELY(find_member(op->column, value, &number))) fb_vector_store(&vector, to, number);
    else convert_uint(c, columns, (fb_cursor){row, columns->open}, op->target, value);
}

/* Use the first address; if it is zero, use the rest of the record. */
FB_INLINE void fill_etypes(const fb_compiled_template *compiled, const fb_records *records,
                           const fb_op *op, fb_vector vector, size_t row, size_t size) {
    FILL_NUMBERS(find_etype(compiled, record, locations, p, size));
}

/* Fill the columns of all moves of one code. */
#define FILL_COLUMNS(CODE, ...) \
    for (const fb_op *end = compiled->moves[(CODE) + 1]; op < end; op++) { \
        /* a copy, so that the compiler knows that stores do not change it */ \
        const fb_vector vector = columns->vectors[op->target.column]; \
        written |= vector.bit; \
        __VA_ARGS__; \
    }

/* Fill the columns of all moves. Returns their bits. */
FB_INLINE uint64_t fill_moves(fb_context *c, fb_columns *columns,
                              const fb_compiled_template *compiled, const fb_records *records,
                              size_t row) {
    const fb_op *op = compiled->moves[0];
    uint64_t written = 0;
    FILL_COLUMNS(FB_OP_UINT8, FILL_NUMBERS(*p))
    FILL_COLUMNS(FB_OP_UINT16, FILL_NUMBERS(fb_load16(p)))
    FILL_COLUMNS(FB_OP_UINT32, FILL_NUMBERS(fb_load32(p)))
    FILL_COLUMNS(FB_OP_UINT64, FILL_NUMBERS(fb_load64(p)))
    FILL_COLUMNS(FB_OP_TCP_BITS, FILL_NUMBERS(fb_load16(p) & 0x0fff))
    FILL_COLUMNS(FB_OP_IPV4, fill_addresses(records, op, vector, row, 4))
    FILL_COLUMNS(FB_OP_IPV6, fill_addresses(records, op, vector, row, 16))
    FILL_COLUMNS(FB_OP_ENUM, FILL(store_member(c, columns, op, vector, to, *p)))
    FILL_COLUMNS(FB_OP_ETYPE_IPV4, fill_etypes(compiled, records, op, vector, row, 4))
    FILL_COLUMNS(FB_OP_ETYPE_IPV6, fill_etypes(compiled, records, op, vector, row, 16))
    return written;
}

/* Fill a column of names, and end its rows. */
static void fill_names(fb_context *c, fb_columns *columns, const fb_records *records,
                       const fb_op *op, size_t row) {
    fb_vector *vector = &columns->vectors[op->target.column];
    for (size_t i = 0; i < records->count; i++) {
        const fb_name *name =
            c->domain ? find_name(c->domain, op, record_of(records, i), locations_of(records, i))
                      : NULL;
        if (name) fb_columns_append_name(vector, name->text, name->size);
        fb_vector_end(vector, row + i);
    }
}

/* Run the operations after the names, and end the rows of strings that no name has filled. `filled`
   has the bits of those that names have filled. */
static void fill_rest(fb_context *c, fb_columns *columns, const fb_compiled_template *compiled,
                      const fb_records *records, uint64_t filled, size_t row) {
    for (size_t i = 0; i < records->count; i++) {
        if (compiled->name_end < compiled->op_count) {
            fb_cursor at = {row + i, columns->open};
            at = run_each(c, columns, at, compiled, compiled->name_end, compiled->op_count,
                          record_of(records, i), locations_of(records, i));
            columns->batch->written |= ~at.open;
        }
        for (size_t k = 0; k < columns->uneven_count; k++) {
            uint16_t column = columns->uneven[k];
            if (!(columns->columns[column].bit & filled))
                fb_vector_end(&columns->vectors[column], row + i);
        }
    }
}

/* Return the bytes of the first `count` records, divided by `count` and rounded up. */
static size_t average_size(const fb_records *records, size_t count) {
    if (!records->locations) return records->step;
    const uint8_t *end = count < records->count ? record_of(records, count) : records->end;
    return ((size_t)(end - record_of(records, 0)) + count - 1) / count;
}

/* Return the number of rows for which there is room. */
static size_t reserve_run(fb_context *c, fb_columns *columns, const fb_records *records) {
    enum { MOST_UNEVEN = 64 }; /* strings reserve the room of their longest values */
    size_t room = columns->batch->capacity - columns->batch->rows, count = records->count;
    if (columns->uneven_count && room > MOST_UNEVEN) room = MOST_UNEVEN;
    if (count > room) count = room;
    if (!columns->uneven_count || !count) return count;
    size_t max_size = max_row_size(c, average_size(records, count));
    return fb_columns_reserve_uneven(columns, count, max_size) ? count : 0;
}

/* Decode records, as far as there is room, and return their number. */
FB_INLINE size_t fill_columns(fb_context *c, fb_columns *columns,
                              const fb_compiled_template *compiled, fb_records *records) {
    fb_batch *batch = columns->batch;
    const size_t row = batch->rows;
    uint64_t filled = 0, written = ~columns->open;
    records->count = reserve_run(c, columns, records);
    for (size_t i = 0; i < columns->constant_count; i++)
        fb_vector_repeat(&columns->vectors[columns->constants[i]], fb_batch_constant_row(batch),
                         row, records->count);
    written |= fill_moves(c, columns, compiled, records, row);
    for (const fb_op *op = compiled->ops + compiled->set_end,
                     *end = compiled->ops + compiled->name_end;
         op < end; op++) {
        fill_names(c, columns, records, op, row);
        filled |= op->column->bit;
    }
    if (columns->uneven_count || compiled->name_end < compiled->op_count)
        fill_rest(c, columns, compiled, records, filled, row);
    batch->rows += records->count;
    batch->written |= written;
    columns->count += records->count;
    c->counters->rows[FB_ROWS_FLOWS] += records->count;
    return records->count;
}

/* Decode up to `count` records of fixed size, as far as there is room, and return their number.
   Returns 0 if rows contain more than numbers, addresses and names, or if there are fewer than two
   records. */
FB_NOINLINE static size_t put_run(fb_context *c, fb_columns *columns,
                                  const fb_compiled_template *compiled, const uint8_t *record,
                                  size_t count) {
    if (!columns->tracked || count < 2) return 0;
    fb_records records = {.first = record, .step = compiled->record_size, .count = count};
    return fill_columns(c, columns, compiled, &records);
}

/* Return the number of records to locate before they are put. */
FB_INLINE size_t most_located(const fb_columns *columns) {
    size_t room = columns->batch->capacity - columns->batch->rows;
    if (!columns->tracked || !room) return 1;
    return room < 64 ? room : 64;
}

/* The same as put_run for located records. The last one ends at `end`. */
FB_NOINLINE static size_t put_located_run(fb_context *c, fb_columns *columns,
                                          const fb_compiled_template *compiled,
                                          const fb_location *locations, size_t count,
                                          const uint8_t *end) {
    if (count < 2) return 0;
    fb_records records = {.locations = locations,
                          .stride = compiled->variable_count + 1u,
                          .end = end,
                          .count = count};
    return fill_columns(c, columns, compiled, &records);
}

#endif
