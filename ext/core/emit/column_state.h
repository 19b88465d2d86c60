/* State of the columns of the row under construction that the cursor of an emitter does not track:
   repeated columns, strings and bytes, fixed-size wire types, and columns beyond the 64 that have a
   bit. Both emitters use it (message_row.h, columns.h). */
#ifndef FB_EMIT_COLUMN_STATE_H
#define FB_EMIT_COLUMN_STATE_H

#include "core/plan/plan.h"

/* LISTING: set by the repeat functions. OPEN: set by `open`; GROWING once the put functions add a
   member. WHOLE: the column takes no more values. */
enum fb_column_state {
    FB_STATE_EMPTY,
    FB_STATE_LISTING,
    FB_STATE_OPEN,
    FB_STATE_GROWING,
    FB_STATE_WHOLE
};

typedef struct {
    uint8_t *state;    /* fb_column_state of each column; NULL if the cursor tracks all columns */
    uint8_t *constant; /* initial state of a row, after the constants */
    size_t count;
} fb_column_states;

/* Initialize. OK, NO_MEMORY. `memory` must be the same in all calls. */
fb_status fb_column_states_new(fb_column_states *states, const fb_plan *plan, fb_memory *memory);
void fb_column_states_free(fb_column_states *states, fb_memory *memory);

void fb_column_states_forget(fb_column_states *states);
void fb_column_states_keep_constants(fb_column_states *states);
FB_INLINE void fb_column_states_begin(fb_column_states *states) {
    if (states->state) memcpy(states->state, states->constant, states->count);
}

/* Return true if a column may be written now, and mark it. A zero is written only as a member of a
   list. With target.zero, a zero is still the value of the column. */
bool fb_column_states_claim(fb_column_states *states, const fb_plan *plan, fb_target target,
                            bool zero);
/* Return true if the list of a repeated column may grow, and mark it. REQUIRES: the column is
   repeated. */
bool fb_column_states_claim_member(fb_column_states *states, const fb_plan *plan, uint16_t column);
/* The functions `open` and `close` of emitters. */
void fb_column_states_open(fb_column_states *states, uint16_t column);
void fb_column_states_close(fb_column_states *states, uint16_t column);
FB_INLINE bool fb_column_states_accepts(const fb_column_states *states, uint16_t column) {
    return states->state && states->state[column] != FB_STATE_WHOLE;
}

#endif
