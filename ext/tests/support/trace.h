/* A second emitter: flows as text (flow_text.h), by the plainest reading of the emitter contract in message_row.h. Every column waits for
   its best value until the row is finished; nothing is encoded and nothing is fast. The decoders are compiled for it as they
   are for messages, so both must say the same of every datagram. */
#ifndef FB_TEST_TRACE_H
#define FB_TEST_TRACE_H

#include "core/decode/decode.h"
#include "tests/support/flow_text.h"

typedef struct {
    uint64_t number;
    const uint8_t *data; /* of bytes; they live as long as the row, those of constants in `kept` */
    size_t size;
    uint8_t kept[16];
} trace_value;

/* What is known of one column of the row. */
typedef struct {
    trace_value *values;
    size_t count, capacity;
    unsigned rank;
    unsigned zero_rank; /* the first rank that a zero keeps away; 0: none */
    bool filled; /* a repeated one has its list */
    bool open;   /* and is given its members one by one */
} trace_cell;

/* Nothing of a trace has to stay in registers. */
typedef struct {
    char nothing;
} trace_cursor;

typedef struct {
    const named_plan *plan;
    trace_cell *cells, *constants, *datagram; /* of the row; what it begins with; the same without what a set adds */
    text text;            /* the finished rows */
    size_t promised;      /* rows for which there is room, as reserve said */
    unsigned refuse_each; /* every so many calls of begin say that there is no room; 0: none */
    uint64_t begun, undone;
    uint64_t refused;     /* totals beyond their columns, since take_refused */
} trace;

void trace_new(trace *t, const named_plan *plan);
void trace_free(trace *t);

fb_status trace_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count, fb_position *position, trace *t);

#endif
