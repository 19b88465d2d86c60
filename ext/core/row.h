/* One flow under construction as a length-delimited Protocol Buffers message: the first emitter.

   The emitter contract. Packet parser, operations and decoders are written once against these verbs and compiled for each
   emitter (emitter.h); `cursor` is what an emitter wants to keep in registers while a row grows.

     bool begin(row, worst, cursor)               room for a row of at most `worst` octets; false: the output is full. What a
                                                  row has left of it is there for the next one
     void put_uint(row, cursor, target, value)    a value for a column. A zero is skipped, a column that has its value is
     void put_int, put_real, put_octets, put_ip     left alone. A repeated column takes it as a list of one.
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

   A row here:

     …finished messages…│prefix│ constants │ columns as they are decoded … │ slots, at the end │
                               └ message                                     next ┘

   The prefix is as long as the last message's was; a message that needs another one is moved by the difference. */
#ifndef FB_ROW_H
#define FB_ROW_H

#include "slots.h"

#define FB_ROW_CONSTANTS_STRIDE 64 /* constants are copied in one go of this many octets when they fit */

typedef struct {
    uint8_t *next; /* where the next octet goes */
    uint64_t open; /* bits of the columns that may still be written on the fast path */
} fb_row_cursor;

typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    uint8_t *data; /* the output: owned by the caller */
    uint8_t *end;
    uint8_t *next; /* end of the finished messages */
    uint8_t *message;
    size_t prefix;
    size_t needed;  /* after `begin` said no: the room it wants */
    uint64_t count; /* finished messages */
    uint64_t open;  /* what a new row's cursor begins with */
    uint8_t *constants;
    size_t constants_size;
    uint8_t *filled; /* fb_row_filled of each column, for those that the cursor does not track; NULL when there is none */
    uint8_t *constants_filled;
    fb_slots slots;
#ifndef NDEBUG
    uint8_t *limit; /* of the row under construction, as begin was promised */
#endif
} fb_row;

/* LISTING: by the repeat verbs. OPEN, and GROWING once it has a member: by the put verbs. */
enum fb_row_filled { FB_ROW_EMPTY, FB_ROW_LISTING, FB_ROW_OPEN, FB_ROW_GROWING, FB_ROW_FILLED };

/* `plan` and `memory` must outlive the row. NO_MEMORY. */
fb_status fb_row_new(fb_row *row, const fb_plan *plan, fb_memory *memory);
void fb_row_free(fb_row *row);
/* Where messages go from now on; the first `used` octets stay. */
void fb_row_set_output(fb_row *row, uint8_t *data, size_t capacity, size_t used);
FB_INLINE size_t fb_row_size(const fb_row *row) {
    return (size_t)(row->next - row->data);
}

void fb_row_begin_constants(fb_row *row, fb_row_cursor *at);
void fb_row_end_constants(fb_row *row, fb_row_cursor at);

/* The ways less taken: slots, columns that the cursor does not track, fixed-size wire types. */
fb_row_cursor fb_row_offer_number(fb_row *row, fb_row_cursor at, fb_target target, fb_slot_state state, uint64_t number);
fb_row_cursor fb_row_offer_octets(fb_row *row, fb_row_cursor at, fb_target target, const uint8_t *data, size_t size);
fb_row_cursor fb_row_finish_slots(fb_row *row, fb_row_cursor at);
void fb_row_reset_filled(fb_row *row);
void fb_row_move_prefix(fb_row *row, fb_row_cursor *at, size_t size);

/* REQUIRES: worst >= plan->fixed_worst. */
FB_INLINE bool fb_row_begin(fb_row *row, size_t worst, fb_row_cursor *at) {
    if (FB_UNLIKELY((size_t)(row->end - row->next) < worst)) {
        row->needed = worst;
        return false;
    }
    row->message = row->next + row->prefix;
    if (FB_LIKELY(row->constants_size <= FB_ROW_CONSTANTS_STRIDE))
        memcpy(row->message, row->constants, FB_ROW_CONSTANTS_STRIDE);
    else
        memcpy(row->message, row->constants, row->constants_size);
    at->next = row->message + row->constants_size;
    at->open = row->open;
    fb_slots_begin(&row->slots);
    if (FB_UNLIKELY(row->filled != NULL)) fb_row_reset_filled(row);
#ifndef NDEBUG
    row->limit = row->next + worst;
#endif
    return true;
}

FB_INLINE uint8_t *fb_row_put_tag(uint8_t *p, const fb_column *column) {
    memcpy(p, column->tag, 8);
    return p + column->tag_size;
}

FB_INLINE void fb_row_put_uint(fb_row *row, fb_row_cursor *at, fb_target target, uint64_t value) {
    const fb_column *column = &row->plan->columns[target.column];
    if (FB_UNLIKELY(!(at->open & column->bit))) {
        *at = fb_row_offer_number(row, *at, target, FB_SLOT_UINT, value);
        return;
    }
    if (!value) return;
    at->next = fb_wire_put_varint(fb_row_put_tag(at->next, column), value);
    at->open &= ~column->bit;
}

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

FB_INLINE uint8_t *fb_row_put_mapped(uint8_t *p, const uint8_t *ipv4) {
    static const uint8_t head[] = {16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}; /* length, ::ffff: */
    memcpy(p, head, sizeof head);
    memcpy(p + sizeof head, ipv4, 4);
    return p + sizeof head + 4;
}

/* An address that is not all zeros. REQUIRES: size is 4 or 16. */
FB_INLINE void fb_row_put_ip(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data, size_t size) {
    const fb_column *column = &row->plan->columns[target.column];
    if (FB_UNLIKELY(!(at->open & column->bit))) {
        *at = fb_row_offer_octets(row, *at, target, data, size);
        return;
    }
    uint8_t *p = fb_row_put_tag(at->next, column);
    if (size == 4) {
        at->next = fb_row_put_mapped(p, data);
    } else {
        *p = 16;
        memcpy(p + 1, data, 16);
        at->next = p + 17;
    }
    at->open &= ~column->bit;
}

void fb_row_repeat_uint(fb_row *row, fb_row_cursor *at, fb_target target, uint64_t value);
void fb_row_repeat_octets(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data, size_t size);
bool fb_row_wants(const fb_row *row, fb_row_cursor at, fb_target target);
void fb_row_open(fb_row *row, fb_row_cursor *at, uint16_t column);
void fb_row_close(fb_row *row, fb_row_cursor *at, uint16_t column);

FB_INLINE void fb_row_finish(fb_row *row, fb_row_cursor at) {
    if (FB_UNLIKELY(row->slots.active)) at = fb_row_finish_slots(row, at);
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
    (void)row; /* nothing to give back: `next` moves only when a row is finished */
    (void)at;
}

#endif
