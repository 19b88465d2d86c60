/* One byte of state per column: it states whether a column without a bit may still take a value. */
#include "core/emit/column_state.h"

/* Return true if the cursor or a deferred value tracks the column, or if it is disabled. */
static bool is_tracked(const fb_column *column) {
    return column->bit || column->flags & FB_COLUMN_DEFERRED ||
           !(column->flags & FB_COLUMN_ENABLED);
}

fb_status fb_column_states_new(fb_column_states *states, const fb_plan *plan, fb_memory *memory) {
    bool all = true;
    for (size_t i = 0; i < plan->column_count; i++) all &= is_tracked(&plan->columns[i]);
    *states = (fb_column_states){.count = plan->column_count};
    if (all) return FB_OK;
    states->state = fb_memory_allocate(memory, 2 * states->count);
    if (!states->state) return FB_NO_MEMORY;
    states->constant = states->state + states->count;
    return FB_OK;
}

void fb_column_states_free(fb_column_states *states, fb_memory *memory) {
    if (states->state) fb_memory_release(memory, states->state, 2 * states->count);
    *states = (fb_column_states){0};
}

void fb_column_states_forget(fb_column_states *states) {
    if (states->state) memset(states->state, FB_STATE_EMPTY, states->count);
}

void fb_column_states_keep_constants(fb_column_states *states) {
    if (states->state) memcpy(states->constant, states->state, states->count);
}

bool fb_column_states_claim(fb_column_states *states, const fb_plan *plan, fb_target target,
                            bool zero) {
    if (plan->columns[target.column].bit || !states->state) return false;
    uint8_t *state = &states->state[target.column];
    bool member = *state == FB_STATE_OPEN || *state == FB_STATE_GROWING;
    if (!member && *state != FB_STATE_EMPTY) return false;
    if (!member && zero) {
        if (target.zero) *state = FB_STATE_WHOLE;
        return false;
    }
    *state = member ? FB_STATE_GROWING : FB_STATE_WHOLE;
    return true;
}

bool fb_column_states_claim_member(fb_column_states *states, const fb_plan *plan, uint16_t column) {
    if (!(plan->columns[column].flags & FB_COLUMN_ENABLED) ||
        states->state[column] > FB_STATE_LISTING)
        return false;
    states->state[column] = FB_STATE_LISTING;
    return true;
}

void fb_column_states_open(fb_column_states *states, uint16_t column) {
    if (states->state && states->state[column] == FB_STATE_EMPTY)
        states->state[column] = FB_STATE_OPEN;
}

void fb_column_states_close(fb_column_states *states, uint16_t column) {
    if (!states->state || states->state[column] == FB_STATE_EMPTY) return;
    states->state[column] =
        states->state[column] == FB_STATE_OPEN ? FB_STATE_EMPTY : FB_STATE_WHOLE;
}
