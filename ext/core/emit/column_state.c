/* One byte of state per column tells if a column without a bit may still take a value. */
#include "core/emit/column_state.h"

/* Return true if the cursor or a slot tracks the column, or if it is disabled. */
static bool is_tracked(const fb_column *column) {
    return column->bit || column->flags & FB_COLUMN_SLOTTED || !(column->flags & FB_COLUMN_ENABLED);
}

fb_status fb_filled_new(fb_filled *filled, const fb_plan *plan, fb_memory *memory) {
    bool all = true;
    for (size_t i = 0; i < plan->column_count; i++) all &= is_tracked(&plan->columns[i]);
    *filled = (fb_filled){.count = plan->column_count};
    if (all) return FB_OK;
    filled->state = fb_memory_allocate(memory, 2 * filled->count);
    if (!filled->state) return FB_NO_MEMORY;
    filled->constant = filled->state + filled->count;
    return FB_OK;
}

void fb_filled_free(fb_filled *filled, fb_memory *memory) {
    if (filled->state) fb_memory_release(memory, filled->state, 2 * filled->count);
    *filled = (fb_filled){0};
}

void fb_filled_forget(fb_filled *filled) {
    if (filled->state) memset(filled->state, FB_FILLED_EMPTY, filled->count);
}

void fb_filled_keep_constants(fb_filled *filled) {
    if (filled->state) memcpy(filled->constant, filled->state, filled->count);
}

bool fb_filled_claim(fb_filled *filled, const fb_plan *plan, fb_target target, bool zero) {
    if (plan->columns[target.column].bit || !filled->state) return false;
    uint8_t *state = &filled->state[target.column];
    bool member = *state == FB_FILLED_OPEN || *state == FB_FILLED_GROWING;
    if (!member && *state != FB_FILLED_EMPTY) return false;
    if (!member && zero) {
        if (target.zero) *state = FB_FILLED_WHOLE;
        return false;
    }
    *state = member ? FB_FILLED_GROWING : FB_FILLED_WHOLE;
    return true;
}

bool fb_filled_claim_member(fb_filled *filled, const fb_plan *plan, uint16_t column) {
    if (!(plan->columns[column].flags & FB_COLUMN_ENABLED) || filled->state[column] > FB_FILLED_LISTING) return false;
    filled->state[column] = FB_FILLED_LISTING;
    return true;
}

void fb_filled_open(fb_filled *filled, uint16_t column) {
    if (filled->state && filled->state[column] == FB_FILLED_EMPTY) filled->state[column] = FB_FILLED_OPEN;
}

void fb_filled_close(fb_filled *filled, uint16_t column) {
    if (!filled->state || filled->state[column] == FB_FILLED_EMPTY) return;
    filled->state[column] = filled->state[column] == FB_FILLED_OPEN ? FB_FILLED_EMPTY : FB_FILLED_WHOLE;
}
