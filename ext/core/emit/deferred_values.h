/* Values of a row that wait until it is finished: of slotted columns, and of late ones while somebody overrides them.

   A slot keeps the best value so far: a better rank replaces a worse one, a non-zero value replaces a zero, and of equals
   the first stays. A zero with target.zero keeps worse ranks away, as any other value does; FB_NO_RANK is worse than
   itself. The emitters (message_row.h, later columns) share it, and so does the hook, which sees the slots of the late columns
   between the last value of a row and its end, and may replace any of them. Totals are scaled after that, by the rate that
   is written with them. */
#ifndef FB_SLOTS_H
#define FB_SLOTS_H

#include "core/plan/plan.h"

typedef enum { FB_SLOT_EMPTY, FB_SLOT_UINT, FB_SLOT_INT, FB_SLOT_REAL, FB_SLOT_OCTETS } fb_slot_state;

typedef struct {
    uint64_t number;     /* of UINT; of INT as two's complement; of REAL as the bits of a binary64 */
    const uint8_t *data; /* of OCTETS: in the datagram, or in `octets` */
    uint32_t size;
    uint16_t column;
    uint8_t state; /* fb_slot_state */
    uint8_t rank;
    bool zero; /* it is zero, and no value of a worse rank replaces it */
    uint8_t octets[16];
} fb_slot;

typedef struct {
    const fb_plan *plan;
    fb_slot *slot;     /* one for each slot of the plan; the values of a row */
    fb_slot *constant; /* what they begin with: the constants of the datagram */
    fb_slot *override; /* what the caller has said; FB_SLOT_EMPTY where nothing */
    bool late;         /* late columns are collected here, for the hook or the overrides */
    bool active;       /* any column is */
    uint64_t refused;  /* totals that were left out since somebody looked (fb_slots_take_refused) */
    void (*hook)(void *context, void *slots); /* called before the end of a row with this fb_slots */
    void *hook_context;
} fb_slots;

fb_status fb_slots_new(fb_slots *slots, const fb_plan *plan, fb_memory *memory);
void fb_slots_free(fb_slots *slots, fb_memory *memory);
/* A hook of NULL is none. REQUIRES: not between NO_SPACE and the call that goes on. The hook replaces values with
   fb_slots_replace, nothing else. */
void fb_slots_set_hook(fb_slots *slots, void (*hook)(void *context, void *slots), void *context);
/* Replaces a late column in every row. BAD_ARGUMENT: the column is not late, or cannot hold the value. Of octets, as many
   as an address has are kept. */
fb_status fb_slots_override(fb_slots *slots, uint16_t column, fb_slot_state state, uint64_t number, fb_bytes octets);
void fb_slots_clear_overrides(fb_slots *slots);

/* Offers a value. Octets must live as long as the row. */
void fb_slots_offer(fb_slots *slots, fb_target target, fb_slot_state state, uint64_t number, fb_bytes octets);
/* Whether a value of this rank, if it is not zero, would be kept. */
bool fb_slots_wants(const fb_slots *slots, fb_target target);
/* For the hook: replaces the value of a late column. BAD_ARGUMENT as above. */
fb_status fb_slots_replace(fb_slots *slots, uint16_t column, fb_slot_state state, uint64_t number, fb_bytes octets);
/* For the hook, to look at: the slot of a column, NULL where the column is not collected now. */
fb_slot *fb_slots_find(fb_slots *slots, uint16_t column);

/* Whether the values of a column wait in its slot now. */
FB_INLINE bool fb_slots_collects(const fb_slots *slots, const fb_column *column) {
    bool late = slots->late && column->flags & FB_COLUMN_LATE && column->slot != FB_NO_SLOT;
    return late || column->flags & FB_COLUMN_SLOTTED;
}

FB_INLINE void fb_slots_forget(fb_slots *slots) {
    for (size_t i = 0; slots->active && i < slots->plan->slot_count; i++) slots->slot[i].state = FB_SLOT_EMPTY;
}

FB_INLINE void fb_slots_begin(fb_slots *slots) {
    if (FB_UNLIKELY(slots->active)) memcpy(slots->slot, slots->constant, slots->plan->slot_count * sizeof *slots->slot);
}

/* What is in the slots now is a constant of the rows that follow. Octets are copied: they are addresses, and may lie in
   memory that is gone when decoding is resumed. */
void fb_slots_keep_constants(fb_slots *slots);

/* Runs the hook, then the overrides, then multiplies totals by the rate of the row; where there is none, they stay as they
   are. A total that its column cannot hold is left out, and counted in `refused`. After it the slots hold what is to be
   written. */
void fb_slots_settle(fb_slots *slots);

/* How many totals were left out since the last call. */
FB_INLINE uint64_t fb_slots_take_refused(fb_slots *slots) {
    uint64_t refused = slots->refused;
    slots->refused = 0;
    return refused;
}

#endif
