/* Values of a row that wait until the row is finished: those of slotted columns, and those of late
   columns while a hook or an override may replace them.

   A slot keeps the best value so far. A better rank replaces a worse one, a non-zero value replaces
   a zero, and the first of equal values stays. A zero with target.zero blocks worse ranks, like any
   other value. FB_NO_RANK counts as worse than itself.

   Both emitters use slots (message_row.h, columns.h), and so does the hook. It sees the slots of
   the late columns after the last value of a row and before its end, and may replace any of them.
   Totals are scaled after that, by the rate that is written with them. */
#ifndef FB_SLOTS_H
#define FB_SLOTS_H

#include "core/plan/plan.h"

typedef enum { FB_SLOT_EMPTY, FB_SLOT_UINT, FB_SLOT_INT, FB_SLOT_REAL, FB_SLOT_OCTETS } fb_slot_state;

typedef struct {
    uint64_t number;     /* UINT: the number; INT: two's complement; REAL: bits of a binary64 */
    const uint8_t *data; /* OCTETS: a view of the datagram; NULL if they are in `octets` */
    uint32_t size;
    uint16_t column;
    uint8_t state; /* fb_slot_state */
    uint8_t rank;
    bool zero; /* the value is zero and blocks worse ranks */
    uint8_t octets[16];
} fb_slot;

typedef struct {
    const fb_plan *plan;
    fb_slot *slot;     /* one per slot of the plan: the values of the row */
    fb_slot *constant; /* initial values of a row: the constants of the datagram */
    fb_slot *override; /* overrides by the caller; FB_SLOT_EMPTY: none */
    bool late;         /* late columns wait here, for the hook or the overrides */
    bool active;       /* some column waits */
    uint64_t refused;  /* totals left out since the last fb_slots_take_refused */
    /* called before the end of a row with this fb_slots */
    void (*hook)(void *context, void *slots);
    void *hook_context;
} fb_slots;

/* Initialize. `plan` must outlive it. OK, NO_MEMORY. `memory` must be the same in both calls. */
fb_status fb_slots_new(fb_slots *slots, const fb_plan *plan, fb_memory *memory);
void fb_slots_free(fb_slots *slots, fb_memory *memory);
/* Set the hook; NULL removes it. The hook may change values only with fb_slots_replace. REQUIRES:
   not called between NO_SPACE and the call that resumes. */
void fb_slots_set_hook(fb_slots *slots, void (*hook)(void *context, void *slots), void *context);
/* Override a late column in every row. Bytes are copied: 4 or 16 of them, an address. OK.
   BAD_ARGUMENT: the column is not late, or cannot hold the value. */
fb_status fb_slots_override(fb_slots *slots, uint16_t column, fb_slot_state state, uint64_t number, fb_bytes octets);
void fb_slots_clear_overrides(fb_slots *slots);

/* Offer a value to the slot of a column. The bytes must stay valid until the row is finished.
   REQUIRES: fb_slots_collects. */
void fb_slots_offer(fb_slots *slots, fb_target target, fb_slot_state state, uint64_t number, fb_bytes octets);
/* Return true if a non-zero value of this rank would be kept. REQUIRES: fb_slots_collects. */
bool fb_slots_wants(const fb_slots *slots, fb_target target);
/* For the hook: replace the value of a late column. OK. BAD_ARGUMENT: the column is not collected,
   or as above. */
fb_status fb_slots_replace(fb_slots *slots, uint16_t column, fb_slot_state state, uint64_t number, fb_bytes octets);
/* For the hook, read-only: return the slot of a column, or NULL if the column is not collected
   now. */
fb_slot *fb_slots_find(fb_slots *slots, uint16_t column);

/* Return true if the values of a column wait in its slot now. */
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

/* Make the current slots the initial values of the rows that follow. Bytes are addresses and are
   copied, because their memory may be gone when decoding resumes. */
void fb_slots_keep_constants(fb_slots *slots);

/* Run the hook, apply the overrides, then multiply totals by the rate of the row. Without a rate,
   totals are unchanged. A total that exceeds its column is left out and counted in `refused`. After
   the call, the slots hold the values to write. */
void fb_slots_settle(fb_slots *slots);

/* Return the number of totals left out since the last call. */
FB_INLINE uint64_t fb_slots_take_refused(fb_slots *slots) {
    uint64_t refused = slots->refused;
    slots->refused = 0;
    return refused;
}

#endif
