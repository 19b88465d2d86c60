/* An independent emitter that writes flows as text (flow_text.h). It implements the emitter
   interface of message_row.h in the simplest way. Every column waits for its best value until the
   end of the row, and nothing is encoded or optimized. The decoders are compiled for it as for
   messages, so both must give the same values for every datagram. */
#ifndef FB_TESTS_SUPPORT_TRACE_H
#define FB_TESTS_SUPPORT_TRACE_H

#include "core/decode/decode.h"
#include "tests/support/flow_text.h"

typedef struct {
    uint64_t number;
    const uint8_t *data; /* of bytes; valid for the row; bytes of constants are in `kept` */
    size_t size;
    uint8_t kept[16];
} trace_value;

/* The state of one column of the row. */
typedef struct {
    trace_value *values;
    size_t count, capacity;
    unsigned rank;
    unsigned zero_rank; /* lowest rank that a zero blocks; 0: none */
    bool listed;        /* a repeated column has its list */
    bool open;          /* a list whose members are being added */
} trace_cell;

/* A trace needs no state in registers. */
typedef struct {
    char nothing;
} trace_cursor;

typedef struct trace {
    const named_plan *plan;
    /* cells of the row, its constants, and the constants without those of a set */
    trace_cell *cells, *constants, *datagram;
    text text;            /* finished rows */
    size_t promised;      /* rows that have room, from reserve */
    unsigned refuse_each; /* every call of begin with this number reports no room; 0: none */
    uint64_t begun;
    uint64_t refused;            /* totals out of range since take_refused */
    fb_rate_change *rate_change; /* NULL: rates stay */
    struct trace *others[FB_ROWS_COUNT];
} trace;

void trace_new(trace *t, const named_plan *plan);
void trace_free(trace *t);

fb_status trace_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                       fb_position *position, trace *t);

#endif
