/* State of the columns of the row under construction that the cursor of an emitter does not track:
   repeated columns, strings and bytes, fixed-size wire types, and columns beyond the 63 that have a
   bit. Both emitters use it (message_row.h, columns.h). */
#ifndef FB_FILLED_H
#define FB_FILLED_H

#include "core/plan/plan.h"

/* LISTING: set by the repeat verbs. OPEN: set by `open`; GROWING once the put verbs add a member.
   WHOLE: the column takes no more values. */
enum fb_filled_state { FB_FILLED_EMPTY, FB_FILLED_LISTING, FB_FILLED_OPEN, FB_FILLED_GROWING, FB_FILLED_WHOLE };

typedef struct {
    uint8_t *state;    /* fb_filled_state of each column; NULL if the cursor tracks all columns */
    uint8_t *constant; /* initial state of a row, after the constants */
    size_t count;
} fb_filled;

/* Initialize. OK, NO_MEMORY. `memory` must be the same in all calls. */
fb_status fb_filled_new(fb_filled *filled, const fb_plan *plan, fb_memory *memory);
void fb_filled_free(fb_filled *filled, fb_memory *memory);

void fb_filled_forget(fb_filled *filled);
void fb_filled_keep_constants(fb_filled *filled);
FB_INLINE void fb_filled_begin(fb_filled *filled) {
    if (filled->state) memcpy(filled->state, filled->constant, filled->count);
}

/* Return true if a column may be written now, and mark it. A zero is written only as a member of a
   list. With target.zero, a zero is still the value of the column. */
bool fb_filled_claim(fb_filled *filled, const fb_plan *plan, fb_target target, bool zero);
/* Return true if the list of a repeated column may grow, and mark it. REQUIRES: the column is
   repeated. */
bool fb_filled_claim_member(fb_filled *filled, const fb_plan *plan, uint16_t column);
/* The verbs `open` and `close` of emitters. */
void fb_filled_open(fb_filled *filled, uint16_t column);
void fb_filled_close(fb_filled *filled, uint16_t column);
FB_INLINE bool fb_filled_wants(const fb_filled *filled, uint16_t column) {
    return filled->state && filled->state[column] != FB_FILLED_WHOLE;
}

#endif
