/* Values of a row that wait until the row is finished: those of deferred columns, and those of late
   columns while a hook or an override may replace them.

   Each keeps the best value so far. A better rank replaces a worse one, a non-zero value replaces
   a zero, and the first of equal values stays. A zero with target.zero blocks worse ranks, like any
   other value. FB_NO_RANK counts as worse than itself.

   Both emitters use deferred values (message_row.h, columns.h), and so does the hook. It sees the
   values of the late columns after the last value of a row and before its end, and may replace any
   of them. Totals are scaled after that, by the rate that is written with them. The decoder may
   change that rate (fb_rate_change). */
#ifndef FB_EMIT_DEFERRED_VALUES_H
#define FB_EMIT_DEFERRED_VALUES_H

#include "core/plan/plan.h"

typedef enum {
    FB_DEFERRED_EMPTY,
    FB_DEFERRED_UINT,
    FB_DEFERRED_INT,
    FB_DEFERRED_REAL,
    FB_DEFERRED_BYTES
} fb_deferred_state;

#define FB_WEIGHT_ONE (UINT64_C(1) << 32)

/* A change of the sampling rate of every row. It belongs to the decoder, which sets it for each
   datagram. It applies to plans with a rate column. */
typedef struct {
    uint64_t configured; /* rate that the user has configured; 0: none */
    uint64_t fallback;   /* `configured` of rows without a rule of the user */
    bool replaces;       /* `configured` replaces any other rate; else it is for unknown rates */
    /* FB_WEIGHT_ONE, or more if rows stand for others that were skipped: the rate is multiplied by
       weight / FB_WEIGHT_ONE. An unknown rate counts as 1. */
    uint64_t weight;
    /* Fraction of the latest product, which is added to the next one. The sum of many rates is
       therefore exact. */
    uint32_t remainder;
} fb_rate_change;

typedef struct {
    uint64_t number;     /* UINT: the number; INT: two's complement; REAL: bits of a binary64 */
    const uint8_t *data; /* BYTES: a view of the datagram; NULL if they are in `bytes` */
    uint32_t size;
    uint16_t column;
    uint8_t state; /* fb_deferred_state */
    uint8_t rank;
    bool zero; /* the value is zero and blocks worse ranks */
    uint8_t bytes[16];
} fb_deferred_value;

typedef struct {
    const fb_plan *plan;
    fb_deferred_value *values;   /* of the row, one per deferred or late column of the plan */
    fb_deferred_value *constant; /* initial values of a row: the constants of the datagram */
    fb_deferred_value *override; /* overrides by the caller; FB_DEFERRED_EMPTY: none */
    bool late;                   /* late columns wait here, for the hook or the overrides */
    bool active;                 /* some column waits */
    uint64_t refused; /* totals left out since the last fb_deferred_values_take_refused */
    /* called before the end of a row with this fb_deferred_values */
    void (*hook)(void *context, void *deferred);
    void *hook_context;
    fb_rate_change *rate_change; /* NULL: rates stay */
} fb_deferred_values;

/* Initialize. `plan` must outlive it. OK, NO_MEMORY. `memory` must be the same in both calls. */
fb_status fb_deferred_values_new(fb_deferred_values *deferred, const fb_plan *plan,
                                 fb_memory *memory);
void fb_deferred_values_free(fb_deferred_values *deferred, fb_memory *memory);
/* Set the hook; NULL removes it. The hook may change values only with fb_deferred_values_replace.
   REQUIRES: not called between NO_SPACE and the call that resumes. */
void fb_deferred_values_set_hook(fb_deferred_values *deferred,
                                 void (*hook)(void *context, void *deferred), void *context);
/* Override a late column in every row. Bytes are copied: 4 or 16 of them, an address. OK.
   BAD_ARGUMENT: the column is not late, or cannot hold the value. */
fb_status fb_deferred_values_override(fb_deferred_values *deferred, uint16_t column,
                                      fb_deferred_state state, uint64_t number, fb_bytes bytes);
void fb_deferred_values_clear_overrides(fb_deferred_values *deferred);

/* Offer a value to a column. The bytes must stay valid until the row is finished.
   REQUIRES: fb_deferred_values_collects. */
void fb_deferred_values_offer(fb_deferred_values *deferred, fb_target target,
                              fb_deferred_state state, uint64_t number, fb_bytes bytes);
/* Return true if a non-zero value of this rank would be kept. REQUIRES:
   fb_deferred_values_collects. */
bool fb_deferred_values_accepts(const fb_deferred_values *deferred, fb_target target);
/* For the hook: replace the value of a late column. OK. BAD_ARGUMENT: the column is not collected,
   or as above. */
fb_status fb_deferred_values_replace(fb_deferred_values *deferred, uint16_t column,
                                     fb_deferred_state state, uint64_t number, fb_bytes bytes);
/* For the hook, read-only: return the value of a column, or NULL if the column is not collected
   now. */
fb_deferred_value *fb_deferred_values_find(fb_deferred_values *deferred, uint16_t column);

/* Return true if the values of a column are deferred now. */
FB_INLINE bool fb_deferred_values_collects(const fb_deferred_values *deferred,
                                           const fb_column *column) {
    bool late = deferred->late && column->flags & FB_COLUMN_LATE &&
                column->deferred_index != FB_NOT_DEFERRED;
    return late || column->flags & FB_COLUMN_DEFERRED;
}

FB_INLINE void fb_deferred_values_forget(fb_deferred_values *deferred) {
    for (size_t i = 0; deferred->active && i < deferred->plan->deferred_count; i++)
        deferred->values[i].state = FB_DEFERRED_EMPTY;
}

FB_INLINE void fb_deferred_values_begin(fb_deferred_values *deferred) {
    if (FB_UNLIKELY(deferred->active))
        memcpy(deferred->values, deferred->constant,
               deferred->plan->deferred_count * sizeof *deferred->values);
}

/* Make the current values the initial values of the rows that follow. Bytes are addresses and are
   copied, because their memory may be gone when decoding resumes. */
void fb_deferred_values_keep_constants(fb_deferred_values *deferred);

/* Set the configured rate, run the hook, apply the overrides and the weight of the row, then
   multiply totals by the rate of the row. Without a rate, totals are unchanged. A rate or total
   that exceeds its column is left out and counted in `refused`. After the call, the values are
   those to write. */
void fb_deferred_values_settle(fb_deferred_values *deferred);

/* Return the number of totals left out since the last call. */
FB_INLINE uint64_t fb_deferred_values_take_refused(fb_deferred_values *deferred) {
    uint64_t refused = deferred->refused;
    deferred->refused = 0;
    return refused;
}

#endif
