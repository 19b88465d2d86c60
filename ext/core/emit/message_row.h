/* One flow under construction as a length-delimited Protocol Buffers message: the first emitter.

   The emitter contract. Packet parser, operations and decoders are written once against these verbs and compiled for each
   emitter (emitter.h); `cursor` is what an emitter wants to keep in registers while a row grows.

     bool begin(row, worst, cursor)               room for a row of at most `worst` octets; false: the output is full
     bool reserve(row, rows, worst)               room for so many rows one after the other: their begins do not fail; false: the
                                                  output is full
     void put_uint(row, cursor, target, value)    a value for a column. A zero is skipped, a column that has its value is
     void put_int, put_real, put_octets, put_ip     left alone. A repeated column takes it as a list of one. With
                                                    target.zero, a zero is its value, though nothing is written.
     void put_direct(row, cursor, source, value)  the same of a fixed source that goes the direct way, below its bound
     void append_uint(row, cursor, column, value, a value of at most `width` octets for a column that has none and is given no
                      width)                       other in this row, nor by a constant: nothing is looked up. A zero, or an
     void append_ip(row, cursor, column, data,      address of zeros, is skipped. REQUIRES: is_direct, and the column is of
                    size)                          fb_column_is_direct
     bool append_lanes(row, cursor, lanes,        the numbers of several such columns at once, from two places; false: nothing
                       first, second)               was done, they are to be put one by one
     void repeat_uint(row, cursor, target, value) a member of a list, for a repeated column: zeros too. For a signed column
     void repeat_octets(…, data, size)              the two's complement, for a float or double the bits of a binary64
     void open(row, cursor, column)               from now on the put verbs add members to the repeated column, zeros too
     void close(row, cursor, column)              the end of that list: it was the column's only one, if it had a member
     bool wants(row, cursor, target)              whether a value may still change the column
     void finish(row, cursor)                     the row is whole
     uint64_t take_refused(row)                   how many values finish left out since the last call (scaled totals that
                                                    their columns cannot hold): the caller counts them as OUT_OF_RANGE
     void undo(row, cursor)                       the row never was
     void begin_constants / end_constants         values put between them are in every row that follows
     void begin_set / end_set_constants           values put between them are in every row besides, until
     void end_set(row)                              end_set. REQUIRES: is_direct; columns of fb_column_is_direct
     bool is_direct(row)                          whether no value waits for the end of its row but those that always do

   A row here:

     …finished messages…│prefix│ constants │ columns as they are decoded … │ slots, at the end │
                               └ message                                     next ┘

   The prefix is as long as the last message's was; a message that needs another one is moved by the difference. */
#ifndef FB_ROW_H
#define FB_ROW_H

#include "core/emit/column_state.h"
#include "core/emit/varint_simd.h"
#include "core/emit/deferred_values.h"

#define FB_ROW_CONSTANTS_STRIDE 64 /* constants are copied in one go of this many octets when they fit */

typedef struct {
    uint8_t *next; /* where the next octet goes */
    uint64_t open; /* bits of the columns that may still be written on the fast path; and FB_ROW_WAITING */
} fb_row_cursor;

/* Some number is in a lane. Here, because functions return a cursor of two words in registers. */
#define FB_ROW_WAITING FB_NO_COLUMN_BIT

typedef struct {
    const fb_plan *plan;
    const fb_column *columns; /* the plan's */
    fb_memory *memory;
    uint8_t *data; /* the output: owned by the caller */
    uint8_t *end;
    uint8_t *next; /* end of the finished messages */
    uint8_t *message;
    size_t prefix;
    size_t needed;  /* after `begin` said no: the room it wants */
    uint64_t count; /* finished messages */
    uint64_t open;  /* what a new row's cursor begins with */
    bool plain;     /* constants are short, no slot is active, the cursor tracks all columns: nothing more to begin or to end */
    uint8_t *constants;
    size_t constants_size;
    fb_row_cursor datagram; /* where its constants end, and those of a set begin */
    /* Where the processor fills lanes, numbers that come one by one wait in theirs, the first that is not zero, and are
       appended together at the end of the row; elsewhere all are zero, always. One group for each eight columns. */
    uint64_t *waiting;
    fb_lanes *lanes;
    size_t lane_groups;
    void *lane_memory;
    fb_filled filled;
    fb_slots slots;
#ifndef NDEBUG
    uint8_t *limit; /* of the row under construction, as begin was promised */
#endif
} fb_row;

/* `plan` and `memory` must outlive the row. NO_MEMORY. */
fb_status fb_row_new(fb_row *row, const fb_plan *plan, fb_memory *memory);
void fb_row_free(fb_row *row);
/* Where messages go from now on; the first `used` octets stay. */
void fb_row_set_output(fb_row *row, uint8_t *data, size_t capacity, size_t used);
FB_INLINE size_t fb_row_size(const fb_row *row) {
    return (size_t)(row->next - row->data);
}

/* The ways less taken: slots, columns that the cursor does not track, fixed-size wire types. */
fb_row_cursor fb_row_offer_number(fb_row *row, fb_row_cursor at, fb_target target, fb_slot_state state, uint64_t number);
fb_row_cursor fb_row_offer_octets(fb_row *row, fb_row_cursor at, fb_target target, const uint8_t *data, size_t size);
fb_row_cursor fb_row_finish_slots(fb_row *row, fb_row_cursor at);
fb_row_cursor fb_row_append_waiting(fb_row *row, fb_row_cursor at, size_t group);
void fb_row_forget_constants(fb_row *row);
void fb_row_keep_constants(fb_row *row);
void fb_row_begin_rest(fb_row *row);
void fb_row_move_prefix(fb_row *row, fb_row_cursor *at, size_t size);

FB_INLINE void fb_row_begin_constants(fb_row *row, fb_row_cursor *at) {
    *at = (fb_row_cursor){row->constants, row->plan->open};
    if (FB_UNLIKELY(row->filled.state || row->slots.active)) fb_row_forget_constants(row);
    if (FB_UNLIKELY(row->slots.late)) at->open &= ~row->plan->late;
}

FB_INLINE bool fb_row_reserve(fb_row *row, size_t rows, size_t worst) {
    if (FB_LIKELY((size_t)(row->end - row->next) >= rows * worst)) return true;
    row->needed = rows * worst;
    return false;
}

/* The row without its constants. REQUIRES: worst >= plan->fixed_worst. */
FB_INLINE bool fb_row_begin_empty(fb_row *row, size_t worst, fb_row_cursor *at) {
    if (FB_UNLIKELY(!fb_row_reserve(row, 1, worst))) return false;
    *at = (fb_row_cursor){row->message = row->next + row->prefix, row->open};
#ifndef NDEBUG
    row->limit = row->next + worst;
#endif
    return true;
}

FB_INLINE bool fb_row_begin(fb_row *row, size_t worst, fb_row_cursor *at) {
    if (FB_UNLIKELY(!fb_row_begin_empty(row, worst, at))) return false;
    memcpy(at->next, row->constants, FB_ROW_CONSTANTS_STRIDE);
    if (FB_UNLIKELY(!row->plain)) fb_row_begin_rest(row);
    at->next += row->constants_size;
    return true;
}

FB_INLINE uint8_t *fb_row_put_tag(uint8_t *p, const fb_column *column) {
    fb_store64(p, column->tag);
    return p + column->tag_size;
}

/* A number of any column, zeros too: tag and value. As the verbs have it: two's complement, the bits of a binary64. */
uint8_t *fb_row_put_number(uint8_t *p, const fb_column *column, uint64_t number);

FB_INLINE void fb_row_put_int(fb_row *row, fb_row_cursor *at, fb_target target, int64_t value) {
    *at = fb_row_offer_number(row, *at, target, FB_SLOT_INT, (uint64_t)value);
}

FB_INLINE void fb_row_put_real(fb_row *row, fb_row_cursor *at, fb_target target, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    *at = fb_row_offer_number(row, *at, target, FB_SLOT_REAL, bits);
}

/* Octets of a bytes or a string column (malformed UTF-8 is replaced); absent when there are none. */
FB_INLINE void fb_row_put_octets(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data, size_t size) {
    *at = fb_row_offer_octets(row, *at, target, data, size);
}

/* Whether late columns are written at once, as all others are. */
FB_INLINE bool fb_row_is_direct(const fb_row *row) {
    return !row->slots.late;
}

/* Of a column that is not open: whether it has its value, and takes no other. */
FB_INLINE bool fb_row_is_done(const fb_row *row, const fb_column *column) {
    return fb_column_is_direct(column) && fb_row_is_direct(row);
}

FB_INLINE void fb_row_begin_set(fb_row *row, fb_row_cursor *at) {
    row->datagram = *at = (fb_row_cursor){row->constants + row->constants_size, row->open};
}

FB_INLINE void fb_row_set_constants(fb_row *row, fb_row_cursor at) {
    row->constants_size = (size_t)(at.next - row->constants);
    row->open = at.open;
    row->plain = row->constants_size <= FB_ROW_CONSTANTS_STRIDE && !row->slots.active && !row->filled.state;
}

FB_INLINE void fb_row_end_set(fb_row *row) {
    fb_row_set_constants(row, row->datagram);
}

/* Tag and value are stored whatever the value is; without one, the next column takes their place. REQUIRES: the value has no
   more than `width` octets. */
FB_INLINE void fb_row_append_uint(fb_row *row, fb_row_cursor *at, const fb_column *column, uint64_t value, size_t width) {
    (void)row;
    assert(at->open & column->bit);
    unsigned last;
    size_t tag_size = column->tag_size;
    uint8_t *p = at->next;
    if (width == 8 && FB_UNLIKELY(value >> 56)) {
        at->next = fb_wire_put_varint(fb_row_put_tag(p, column), value);
        return;
    }
    uint64_t varint = width == 1 ? fb_wire_octet_varint(value, &last) : fb_wire_short_varint(value, &last);
    if (width < 4) { /* with the longest tag they fit one store */
        fb_store64(p, column->tag | varint << column->tag_bits);
    } else {
        fb_row_put_tag(p, column);
        fb_store64(p + tag_size, varint);
    }
    at->next = p + fb_size_if(value != 0, tag_size + last / 8 + 1);
}

FB_INLINE void fb_row_put_uint(fb_row *row, fb_row_cursor *at, fb_target target, uint64_t value) {
    const fb_column *column = &row->columns[target.column];
    if (FB_UNLIKELY(!(at->open & column->bit))) {
        if (!fb_row_is_done(row, column)) *at = fb_row_offer_number(row, *at, target, FB_SLOT_UINT, value);
        return;
    }
#ifdef __AVX512VBMI2__
    if (FB_LIKELY(column->lane != FB_NO_LANE)) {
        uint64_t *lane = &row->waiting[column->lane];
        *lane = *lane ? *lane : value;
        at->open = (at->open | FB_ROW_WAITING) & ~(column->bit & -(uint64_t)(target.zero & !value));
        return;
    }
#endif
    fb_row_append_uint(row, at, column, value, 8);
    at->open &= ~(column->bit & -(uint64_t)((value != 0) | target.zero));
}

FB_INLINE void fb_row_put_direct(fb_row *row, fb_row_cursor *at, const fb_target_range *source, uint64_t value) {
    if (FB_UNLIKELY(!(at->open & source->bit))) {
        if (FB_UNLIKELY(!fb_row_is_direct(row))) *at = fb_row_offer_number(row, *at, source->target, FB_SLOT_UINT, value);
        return;
    }
#ifdef __AVX512VBMI2__
    uint64_t *waiting = row->waiting;
    at->open |= FB_ROW_WAITING;
    if (!value) at->open &= ~source->zero;
    if (!waiting[source->lane]) waiting[source->lane] = value; /* which source is the first can be foreseen, as a rule */
#else
    if (!value) { /* so can which has a value */
        at->open &= ~source->zero;
        return;
    }
    fb_row_append_uint(row, at, source->column, value, 8);
    at->open ^= source->bit;
#endif
}

/* Appends what waits in lanes. The columns that it fills are not open any more. */
FB_INLINE void fb_row_flush(fb_row *row, fb_row_cursor *at) {
#ifdef __AVX512VBMI2__
    for (size_t i = 0; i < row->lane_groups; i++) {
        uint64_t *waiting = row->waiting + 8 * i;
        at->open &= ~((uint64_t)fb_lanes_filled(waiting) << 8 * i);
        uint8_t *next = fb_lanes_append(at->next, &row->lanes[i], _mm512_load_si512(waiting));
        if (FB_LIKELY(next != NULL))
            at->next = next;
        else
            *at = fb_row_append_waiting(row, *at, i);
        _mm512_store_si512(waiting, _mm512_setzero_si512());
    }
#else
    (void)row;
#endif
    at->open &= ~FB_ROW_WAITING;
}

FB_INLINE void fb_row_end_constants(fb_row *row, fb_row_cursor at) {
    if (at.open & FB_ROW_WAITING) fb_row_flush(row, &at);
    fb_row_set_constants(row, at);
    if (FB_UNLIKELY(row->filled.state || row->slots.active)) fb_row_keep_constants(row);
}

FB_INLINE void fb_row_end_set_constants(fb_row *row, fb_row_cursor at) {
    if (at.open & FB_ROW_WAITING) fb_row_flush(row, &at);
    fb_row_set_constants(row, at);
}

FB_INLINE bool fb_row_append_lanes(fb_row *row, fb_row_cursor *at, const fb_lanes *lanes, const uint8_t *first,
                                   const uint8_t *second) {
    (void)row;
#ifdef __AVX512VBMI2__
    uint8_t *next = fb_lanes_append_window(at->next, lanes, first, second);
    if (FB_LIKELY(next != NULL)) at->next = next;
    return FB_LIKELY(next != NULL);
#else
    (void)at, (void)lanes, (void)first, (void)second;
    return false;
#endif
}

FB_INLINE uint8_t *fb_row_put_mapped(uint8_t *p, const uint8_t *ipv4) {
    static const uint8_t head[16] = {16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}; /* length, ::ffff:, room */
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

/* An address that is not all zeros. REQUIRES: size is 4 or 16. */
FB_INLINE void fb_row_put_ip(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data, size_t size) {
    const fb_column *column = &row->columns[target.column];
    if (FB_LIKELY(at->open & column->bit)) {
        at->next = fb_row_put_address(fb_row_put_tag(at->next, column), data, size);
        at->open &= ~column->bit;
    } else if (!fb_row_is_done(row, column)) {
        *at = fb_row_offer_octets(row, *at, target, data, size);
    }
}

FB_INLINE void fb_row_append_ip(fb_row *row, fb_row_cursor *at, const fb_column *column, const uint8_t *data, size_t size) {
    (void)row;
    assert(at->open & column->bit);
    const uint8_t *end = fb_row_put_address(fb_row_put_tag(at->next, column), data, size);
    at->next += fb_size_if(!fb_is_no_address(data, size), (size_t)(end - at->next));
}

void fb_row_repeat_uint(fb_row *row, fb_row_cursor *at, fb_target target, uint64_t value);
void fb_row_repeat_octets(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data, size_t size);
bool fb_row_wants(const fb_row *row, fb_row_cursor at, fb_target target);

FB_INLINE void fb_row_open(fb_row *row, fb_row_cursor *at, uint16_t column) {
    (void)at;
    fb_filled_open(&row->filled, column);
}

FB_INLINE void fb_row_close(fb_row *row, fb_row_cursor *at, uint16_t column) {
    (void)at;
    fb_filled_close(&row->filled, column);
}

FB_INLINE void fb_row_finish(fb_row *row, fb_row_cursor at) {
    if (at.open & FB_ROW_WAITING) fb_row_flush(row, &at);
    if (FB_UNLIKELY(!row->plain) && row->slots.active) at = fb_row_finish_slots(row, at);
#ifndef NDEBUG
    assert(at.next <= row->limit);
#endif
    size_t size = (size_t)(at.next - row->message);
    if (FB_LIKELY(row->prefix == 1 && size < 0x80))
        row->message[-1] = (uint8_t)size;
    else
        fb_row_move_prefix(row, &at, size);
    row->next = at.next;
    row->count++;
}

FB_INLINE uint64_t fb_row_take_refused(fb_row *row) {
    return fb_slots_take_refused(&row->slots);
}

FB_INLINE void fb_row_undo(fb_row *row, fb_row_cursor at) {
    if (at.open & FB_ROW_WAITING) memset(row->waiting, 0, row->lane_groups * 8 * sizeof *row->waiting);
}

#endif
