/* One flow under construction as a length-delimited Protocol Buffers message: the first emitter.

   The emitter contract. The packet parser, the operations and the decoders are written once against
   these functions and compiled for each emitter (emitter.h). `cursor` is the state that an emitter
   keeps in registers while a row grows.

     bool begin(row, max_size, cursor)     Begin a row of at most `max_size` bytes. False: the
                                           output is full.
     bool reserve(row, rows, max_size)     Make room for `rows` consecutive rows, so that their
                                           begins succeed. False: the output is full.
     void put_uint(row, cursor, target,    Give a column a value. A zero is skipped, and a column
                   value)                  that has its value keeps it. A repeated column takes the
     void put_int, put_real, put_bytes,    value as a list of one. With target.zero, a zero counts
          put_ip                           as the value, although nothing is written.
     void put_name(row, cursor, target,    The same for a name from options data: valid UTF-8 of 1
                   data, size)             to FB_NAME_SIZE bytes, readable in whole blocks.
     void put_fast(row, cursor, source,    The same for a number of a fixed source of FB_PATH_FAST
                     value)                or an enum member of one of FB_PATH_ENUM. REQUIRES, for
                                           FB_PATH_FAST: value < source->bound.
     void append_uint(row, cursor,         Give a column a value of at most `width` bytes, without
                      column, value,       any lookup. A zero or an all-zero address is skipped.
                      width)               REQUIRES: has_fast_path;
     void append_ip(row, cursor, column,   fb_column_has_fast_path(column); the column gets no other
                    data, size)            value in this row, not even from a constant.
     bool append_lanes(row, cursor, lanes, Append the numbers of several such columns at once, from
                       window)             a window of a record, in decoders that use lanes. False:
                                           nothing was done, and the caller must put them one by
                                           one.
     void append_block(row, cursor, block, Append the first `size` of the FB_SIMD_REACH bytes of a
                       size)               block of lanes, in decoders that encode blocks
                                           (decode/block.tmpl.h). The columns are as above.
     void repeat_uint(row, cursor, target, Add a member to the list of a repeated column, zeros
                      value)               included. Numbers of a signed column are two's
     void repeat_bytes(…, data, size)      complement, those of a float or double the bits of a
                                           binary64.
     void open(row, cursor, column)        Let the put functions add members to the repeated
                                           column from now on, zeros included.
     void close(row, cursor, column)       End that list. If it has members, the column takes no
                                           other list.
     bool accepts(row, cursor, target)     Return true if a value may still change the column.
     void finish(row, cursor)              End the row.
     uint64_t take_refused(row)            Return the number of values that `finish` left out since
                                           the last call: scaled totals that exceed their column.
                                           The caller counts them as OUT_OF_RANGE.
     void change_rate(row, change)         Let *change apply to every row that follows
                                           (deferred_values.h). NULL: rates stay.
     void begin_constants, end_constants   Values put between them are in every row that follows.
     void suspend(row)                     The output is full. The datagram is resumed with another
                                           output and the same constants.
     void begin_set, end_set_constants     Values put between them are also in every row, until
     void end_set(row)                     end_set. REQUIRES: has_fast_path; columns of
                                           fb_column_has_fast_path.
     bool has_fast_path(row)               Return true if only deferred columns wait for the end of
                                           a row, not the late ones.
     row *others[FB_ROWS_COUNT]            A member, set by the caller: emitters for the rows of
                                           other kinds that the same datagrams give. NULL: not
                                           wanted.

   A row in memory:

     …finished messages…│prefix│ constants │ columns in decoding order … │ deferred values   │
                               └ message                           next ┘

   The prefix is as long as that of the last message. A message that needs another length is moved
   by the difference. */
#ifndef FB_EMIT_MESSAGE_ROW_H
#define FB_EMIT_MESSAGE_ROW_H

#include "core/emit/column_state.h"
#include "core/emit/varint_simd.h"
#include "core/emit/deferred_values.h"

/* constants that fit are copied with one copy of this many bytes */
#define FB_ROW_CONSTANTS_STRIDE 64

typedef struct {
    uint8_t *next; /* position of the next byte */
    uint64_t open; /* bits of the columns that the fast path may still write */
} fb_row_cursor;

typedef struct fb_row {
    const fb_plan *plan;
    const fb_column *columns; /* of the plan */
    fb_memory *memory;
    uint8_t *data; /* the output, owned by the caller */
    uint8_t *end;
    uint8_t *next; /* end of the finished messages */
    uint8_t *message;
    size_t prefix;
    size_t needed;  /* room that `begin` needed when it returned false */
    uint64_t count; /* finished messages */
    uint64_t open;  /* initial `open` of the cursor of a row */
    /* constants are short, no value is deferred and the cursor tracks all columns: nothing else to
       begin or to end */
    bool plain;
    uint8_t *constants;
    size_t constants_size;
    fb_row_cursor datagram; /* end of its constants and start of those of a set */
    fb_column_states states;
    fb_deferred_values deferred;
    struct fb_row *others[FB_ROWS_COUNT]; /* owned by the caller */
#ifndef NDEBUG
    uint8_t *limit; /* of the row under construction: the `max_size` that was passed to begin */
#endif
} fb_row;

/* Initialize the emitter. `plan` and `memory` must outlive it. OK, NO_MEMORY. */
fb_status fb_row_new(fb_row *row, const fb_plan *plan, fb_memory *memory);
void fb_row_free(fb_row *row);
/* Set the output buffer, which the caller owns. Its first `used` bytes are kept. */
void fb_row_set_output(fb_row *row, uint8_t *data, size_t capacity, size_t used);
FB_INLINE size_t fb_row_size(const fb_row *row) {
    return (size_t)(row->next - row->data);
}

/* Append tag, length and bytes; malformed UTF-8 of a string is replaced. */
uint8_t *fb_row_put_text(uint8_t *p, const fb_column *column, const uint8_t *data, size_t size);
/* Slow paths: deferred values, columns that the cursor does not track, fixed-size wire types. */
fb_row_cursor fb_row_offer_number(fb_row *row, fb_row_cursor at, fb_target target,
                                  fb_deferred_state state, uint64_t number);
fb_row_cursor fb_row_offer_bytes(fb_row *row, fb_row_cursor at, fb_target target,
                                 const uint8_t *data, size_t size);
fb_row_cursor fb_row_finish_deferred(fb_row *row, fb_row_cursor at);
void fb_row_forget_constants(fb_row *row);
void fb_row_keep_constants(fb_row *row);
void fb_row_begin_rest(fb_row *row);
void fb_row_move_prefix(fb_row *row, fb_row_cursor *at, size_t size);

FB_INLINE void fb_row_begin_constants(fb_row *row, fb_row_cursor *at) {
    *at = (fb_row_cursor){row->constants, row->plan->open};
    if (FB_UNLIKELY(row->states.state || row->deferred.active)) fb_row_forget_constants(row);
    if (FB_UNLIKELY(row->deferred.late)) at->open &= ~row->plan->late;
}

FB_INLINE bool fb_row_reserve(fb_row *row, size_t rows, size_t max_size) {
    if (FB_LIKELY((size_t)(row->end - row->next) >= rows * max_size)) return true;
    row->needed = rows * max_size;
    return false;
}

/* Begin a row without its constants. REQUIRES: max_size >= plan->max_fixed_size. */
FB_INLINE bool fb_row_begin_empty(fb_row *row, size_t max_size, fb_row_cursor *at) {
    if (FB_UNLIKELY(!fb_row_reserve(row, 1, max_size))) return false;
    *at = (fb_row_cursor){row->message = row->next + row->prefix, row->open};
#ifndef NDEBUG
    row->limit = row->next + max_size;
#endif
    return true;
}

FB_INLINE bool fb_row_begin(fb_row *row, size_t max_size, fb_row_cursor *at) {
    if (FB_UNLIKELY(!fb_row_begin_empty(row, max_size, at))) return false;
    memcpy(at->next, row->constants, FB_ROW_CONSTANTS_STRIDE);
    if (FB_UNLIKELY(!row->plain)) fb_row_begin_rest(row);
    at->next += row->constants_size;
    return true;
}

FB_INLINE uint8_t *fb_row_put_tag(uint8_t *p, const fb_column *column) {
    fb_store64(p, column->tag);
    return p + column->tag_size;
}

/* Append tag and value of a number of any column, zeros included. Signed numbers are two's
   complement, real ones the bits of a binary64. */
uint8_t *fb_row_put_number(uint8_t *p, const fb_column *column, uint64_t number);

FB_INLINE void fb_row_put_int(fb_row *row, fb_row_cursor *at, fb_target target, int64_t value) {
    *at = fb_row_offer_number(row, *at, target, FB_DEFERRED_INT, (uint64_t)value);
}

FB_INLINE void fb_row_put_real(fb_row *row, fb_row_cursor *at, fb_target target, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    *at = fb_row_offer_number(row, *at, target, FB_DEFERRED_REAL, bits);
}

/* Return true if late columns are written at once, like all others. */
FB_INLINE bool fb_row_has_fast_path(const fb_row *row) {
    return !row->deferred.late;
}

/* Return true if a column that is not open has its value and takes no other. */
FB_INLINE bool fb_row_is_done(const fb_row *row, const fb_column *column) {
    return fb_column_has_fast_path(column) && fb_row_has_fast_path(row);
}

FB_INLINE void fb_row_begin_set(fb_row *row, fb_row_cursor *at) {
    row->datagram = *at = (fb_row_cursor){row->constants + row->constants_size, row->open};
}

FB_INLINE void fb_row_set_constants(fb_row *row, fb_row_cursor at) {
    row->constants_size = (size_t)(at.next - row->constants);
    row->open = at.open;
    row->plain = row->constants_size <= FB_ROW_CONSTANTS_STRIDE && !row->deferred.active &&
                 !row->states.state;
}

FB_INLINE void fb_row_end_set(fb_row *row) {
    fb_row_set_constants(row, row->datagram);
}

/* Tag and value are always stored. After a zero the position does not advance, so the next column
   overwrites them. REQUIRES: value < 2^(8 * width). */
FB_INLINE void fb_row_append_uint(fb_row *row, fb_row_cursor *at, const fb_column *column,
                                  uint64_t value, size_t width) {
    (void)row;
    assert(at->open & column->bit);
    size_t size, tag_size = column->tag_size;
    uint8_t *p = at->next;
    if (width == 8 && FB_UNLIKELY(value >> 56)) {
        at->next = fb_wire_put_varint(fb_row_put_tag(p, column), value);
        return;
    }
    uint64_t varint =
        width == 1 ? fb_wire_byte_varint(value, &size) : fb_wire_short_varint(value, &size);
    if (width < 4) { /* they fit one store, even with the longest tag */
        fb_store64(p, column->tag | varint << column->tag_bits);
    } else {
        fb_row_put_tag(p, column);
        fb_store64(p + tag_size, varint);
    }
    at->next = p + fb_size_if(value != 0, tag_size + size);
}

FB_INLINE void fb_row_put_uint(fb_row *row, fb_row_cursor *at, fb_target target, uint64_t value) {
    const fb_column *column = &row->columns[target.column];
    if (FB_UNLIKELY(!(at->open & column->bit))) {
        if (!fb_row_is_done(row, column))
            *at = fb_row_offer_number(row, *at, target, FB_DEFERRED_UINT, value);
        return;
    }
    fb_row_append_uint(row, at, column, value, 8);
    at->open &= ~(column->bit & -(uint64_t)((value != 0) | target.zero));
}

FB_INLINE void fb_row_put_fast(fb_row *row, fb_row_cursor *at, const fb_target_range *source,
                               uint64_t value) {
    if (FB_UNLIKELY(!(at->open & source->bit))) {
        if (FB_UNLIKELY(!fb_row_has_fast_path(row)))
            *at = fb_row_offer_number(row, *at, source->target, FB_DEFERRED_UINT, value);
        return;
    }
    if (!value) { /* a missing value is usually predictable */
        at->open &= ~source->zero;
        return;
    }
    if (FB_UNLIKELY(value >> 56)) {
        at->next = fb_wire_put_varint(fb_row_put_tag(at->next, source->column), value);
    } else {
        size_t size;
        fb_store64(at->next, source->tag);
        at->next += source->tag_size;
        fb_store64(at->next, fb_wire_short_varint(value, &size));
        at->next += size;
    }
    at->open ^= source->bit;
}

FB_INLINE void fb_row_end_constants(fb_row *row, fb_row_cursor at) {
    fb_row_set_constants(row, at);
    if (FB_UNLIKELY(row->states.state || row->deferred.active)) fb_row_keep_constants(row);
}

FB_INLINE void fb_row_end_set_constants(fb_row *row, fb_row_cursor at) {
    fb_row_set_constants(row, at);
}

FB_INLINE bool fb_row_append_lanes(fb_row *row, fb_row_cursor *at, const fb_varint_simd *lanes,
                                   const uint8_t *window) {
    (void)row;
#ifdef __AVX512VBMI2__
    uint8_t *next = fb_varint_simd_append_window(at->next, lanes, window);
    if (FB_LIKELY(next != NULL)) at->next = next;
    return FB_LIKELY(next != NULL);
#else
    (void)at, (void)lanes, (void)window;
    return false;
#endif
}

FB_INLINE void fb_row_append_block(fb_row *row, fb_row_cursor *at,
                                   const uint8_t block[FB_SIMD_REACH], size_t size) {
    (void)row;
    memcpy(at->next, block, FB_SIMD_REACH);
    at->next += size;
}

FB_INLINE uint8_t *fb_row_put_mapped(uint8_t *p, const uint8_t *ipv4) {
    /* length, ::ffff:, room for the IPv4 address */
    static const uint8_t head[16] = {16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    memcpy(p, head, 16);
    memcpy(p + 13, ipv4, 4);
    return p + 17;
}

FB_INLINE uint8_t *fb_row_put_address(uint8_t *p, const uint8_t *data, size_t size) {
    if (size == 4) return fb_row_put_mapped(p, data);
    *p = 16;
    memcpy(p + 1, data, 16);
    return p + 17;
}

/* REQUIRES: the address is not all zeros; size is 4 or 16. */
FB_INLINE void fb_row_put_ip(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data,
                             size_t size) {
    const fb_column *column = &row->columns[target.column];
    if (FB_LIKELY(at->open & column->bit)) {
        at->next = fb_row_put_address(fb_row_put_tag(at->next, column), data, size);
        at->open &= ~column->bit;
    } else if (!fb_row_is_done(row, column)) {
        *at = fb_row_offer_bytes(row, *at, target, data, size);
    }
}

FB_INLINE void fb_row_append_ip(fb_row *row, fb_row_cursor *at, const fb_column *column,
                                const uint8_t *data, size_t size) {
    (void)row;
    assert(at->open & column->bit);
    fb_row_put_address(fb_row_put_tag(at->next, column), data, size);
    at->next += fb_size_if(!fb_is_no_address(data, size), column->tag_size + 17u);
}

/* Put the bytes of a string or bytes column; malformed UTF-8 is replaced. An empty value is
   absent. */
FB_INLINE void fb_row_put_bytes(fb_row *row, fb_row_cursor *at, fb_target target,
                                const uint8_t *data, size_t size) {
    const fb_column *column = &row->columns[target.column];
    if (at->open & column->bit) {
        if (!size) return;
        at->next = fb_row_put_text(at->next, column, data, size);
        at->open &= ~column->bit;
    } else if (!fb_row_is_done(row, column)) {
        *at = fb_row_offer_bytes(row, *at, target, data, size);
    }
}

/* REQUIRES: 1 to FB_NAME_SIZE bytes of valid UTF-8, readable in whole blocks. */
FB_INLINE void fb_row_put_name(fb_row *row, fb_row_cursor *at, fb_target target,
                               const uint8_t *data, size_t size) {
    const fb_column *column = &row->columns[target.column];
    if (FB_UNLIKELY(!(at->open & column->bit))) {
        if (!fb_row_is_done(row, column)) *at = fb_row_offer_bytes(row, *at, target, data, size);
        return;
    }
    uint8_t *p = fb_row_put_tag(at->next, column);
    *p++ = (uint8_t)size;
    if (FB_UNLIKELY(size >= 0x80)) *p++ = (uint8_t)(size >> 7);
    memcpy(p, data, FB_NAME_BLOCK);
    for (size_t i = FB_NAME_BLOCK; FB_UNLIKELY(i < size); i += FB_NAME_BLOCK)
        memcpy(p + i, data + i, FB_NAME_BLOCK);
    at->next = p + size;
    at->open &= ~column->bit;
}

void fb_row_repeat_uint(fb_row *row, fb_row_cursor *at, fb_target target, uint64_t value);
void fb_row_repeat_bytes(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data,
                         size_t size);
bool fb_row_accepts(const fb_row *row, fb_row_cursor at, fb_target target);

FB_INLINE void fb_row_open(fb_row *row, fb_row_cursor *at, uint16_t column) {
    (void)at;
    fb_column_states_open(&row->states, column);
}

FB_INLINE void fb_row_close(fb_row *row, fb_row_cursor *at, uint16_t column) {
    (void)at;
    fb_column_states_close(&row->states, column);
}

FB_INLINE void fb_row_finish(fb_row *row, fb_row_cursor at) {
    if (FB_UNLIKELY(!row->plain) && row->deferred.active) at = fb_row_finish_deferred(row, at);
#ifndef NDEBUG
    assert(at.next <= row->limit);
#endif
    size_t size = (size_t)(at.next - row->message);
    if (FB_LIKELY(row->prefix == 1 && size < 0x80)) row->message[-1] = (uint8_t)size;
    else fb_row_move_prefix(row, &at, size);
    row->next = at.next;
    row->count++;
}

FB_INLINE uint64_t fb_row_take_refused(fb_row *row) {
    return fb_deferred_values_take_refused(&row->deferred);
}

/* The constants are in the row. */
FB_INLINE void fb_row_suspend(fb_row *row) {
    (void)row;
}

FB_INLINE void fb_row_change_rate(fb_row *row, fb_rate_change *change) {
    row->deferred.rate_change = change;
}

#endif
