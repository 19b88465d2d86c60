/* The slots of a row, and the ways to replace their values: a better rank, the hook, an override,
   scaling. */
#include "core/emit/deferred_values.h"

static size_t bytes_of_slots(const fb_plan *plan) {
    return plan->slot_count * sizeof(fb_deferred_value);
}

/* Late columns wait only while a hook or an override may replace them. */
static void update(fb_deferred_values *deferred) {
    bool overridden = false, any = false;
    for (size_t i = 0; i < deferred->plan->slot_count; i++) {
        overridden |= deferred->override[i].state != FB_DEFERRED_EMPTY;
        any |= (deferred->plan->columns[deferred->slots[i].column].flags & FB_COLUMN_DEFERRED) != 0;
    }
    deferred->late = overridden || deferred->hook;
    deferred->active = deferred->late || any;
}

static void clear(const fb_plan *plan, fb_deferred_value *slot) {
    memset(slot, 0, bytes_of_slots(plan));
    for (size_t i = 0; i < plan->column_count; i++)
        if (plan->columns[i].slot != FB_NO_SLOT) slot[plan->columns[i].slot].column = (uint16_t)i;
}

fb_status fb_deferred_values_new(fb_deferred_values *deferred, const fb_plan *plan,
                                 fb_memory *memory) {
    *deferred = (fb_deferred_values){.plan = plan};
    if (!plan->slot_count) return FB_OK;
    fb_deferred_value *all = fb_memory_allocate(memory, 3 * bytes_of_slots(plan));
    if (!all) return FB_NO_MEMORY;
    deferred->slots = all;
    deferred->constant = all + plan->slot_count;
    deferred->override = all + 2 * plan->slot_count;
    clear(plan, deferred->slots);
    clear(plan, deferred->constant);
    clear(plan, deferred->override);
    update(deferred);
    return FB_OK;
}

void fb_deferred_values_free(fb_deferred_values *deferred, fb_memory *memory) {
    if (deferred->slots)
        fb_memory_release(memory, deferred->slots, 3 * bytes_of_slots(deferred->plan));
    *deferred = (fb_deferred_values){0};
}

void fb_deferred_values_set_hook(fb_deferred_values *deferred, void (*hook)(void *, void *),
                                 void *context) {
    deferred->hook = hook;
    deferred->hook_context = context;
    if (deferred->slots) update(deferred);
}

static bool holds(const fb_column *column, fb_deferred_state state, uint64_t number, size_t size) {
    switch (column->type) {
        case FB_TYPE_IP: return state == FB_DEFERRED_BYTES && (size == 4 || size == 16);
        case FB_TYPE_STRING:
        case FB_TYPE_BYTES: return false;
        case FB_TYPE_FLOAT:
        case FB_TYPE_DOUBLE: return state == FB_DEFERRED_REAL;
        case FB_TYPE_INT:
        case FB_TYPE_SINT:
        case FB_TYPE_DURATION: {
            uint64_t magnitude = (int64_t)number < 0 ? ~number : number;
            return state == FB_DEFERRED_INT && magnitude <= column->limit;
        }
        default: return state == FB_DEFERRED_UINT && number <= column->limit;
    }
}

static void copy_bytes(fb_deferred_value *slot, fb_bytes bytes) {
    memcpy(slot->bytes, bytes.data, bytes.size);
    slot->data = NULL; /* in `bytes`: a slot may be copied, so it must not point into itself */
    slot->size = (uint32_t)bytes.size;
}

static fb_status replace(fb_deferred_values *deferred, fb_deferred_value *slot, uint16_t column,
                         fb_deferred_state state, uint64_t number, fb_bytes bytes) {
    const fb_column *c = &deferred->plan->columns[column];
    if (!(c->flags & FB_COLUMN_LATE) || !holds(c, state, number, bytes.size))
        return FB_BAD_ARGUMENT;
    slot->state = (uint8_t)state;
    slot->number = number;
    if (state == FB_DEFERRED_BYTES) copy_bytes(slot, bytes);
    return FB_OK;
}

fb_status fb_deferred_values_override(fb_deferred_values *deferred, uint16_t column,
                                      fb_deferred_state state, uint64_t number, fb_bytes bytes) {
    if (column >= deferred->plan->column_count ||
        deferred->plan->columns[column].slot == FB_NO_SLOT)
        return FB_BAD_ARGUMENT;
    fb_deferred_value *slot = &deferred->override[deferred->plan->columns[column].slot];
    fb_status status = replace(deferred, slot, column, state, number, bytes);
    if (status == FB_OK) update(deferred);
    return status;
}

fb_status fb_deferred_values_replace(fb_deferred_values *deferred, uint16_t column,
                                     fb_deferred_state state, uint64_t number, fb_bytes bytes) {
    fb_deferred_value *slot = fb_deferred_values_find(deferred, column);
    return slot ? replace(deferred, slot, column, state, number, bytes) : FB_BAD_ARGUMENT;
}

void fb_deferred_values_clear_overrides(fb_deferred_values *deferred) {
    if (!deferred->slots) return;
    clear(deferred->plan, deferred->override);
    update(deferred);
}

static bool is_zero(const fb_deferred_value *slot) {
    return slot->state == FB_DEFERRED_BYTES ? slot->size == 0 : slot->number == 0;
}

bool fb_deferred_values_wants(const fb_deferred_values *deferred, fb_target target) {
    const fb_deferred_value *slot = &deferred->slots[deferred->plan->columns[target.column].slot];
    if (slot->state == FB_DEFERRED_EMPTY) return true;
    if (is_zero(slot))
        return !slot->zero || (target.rank <= slot->rank && target.rank != FB_NO_RANK);
    return target.rank < slot->rank;
}

void fb_deferred_values_offer(fb_deferred_values *deferred, fb_target target,
                              fb_deferred_state state, uint64_t number, fb_bytes bytes) {
    fb_deferred_value *slot = &deferred->slots[deferred->plan->columns[target.column].slot];
    bool zero = state == FB_DEFERRED_BYTES ? bytes.size == 0 : number == 0;
    if (!fb_deferred_values_wants(deferred, target) ||
        (zero && !target.zero && slot->state != FB_DEFERRED_EMPTY))
        return;
    slot->state = (uint8_t)state;
    slot->rank = target.rank;
    slot->zero = zero && target.zero;
    slot->number = number;
    slot->data = bytes.data;
    slot->size = (uint32_t)bytes.size;
}

fb_deferred_value *fb_deferred_values_find(fb_deferred_values *deferred, uint16_t column) {
    if (!deferred->slots || column >= deferred->plan->column_count) return NULL;
    const fb_column *c = &deferred->plan->columns[column];
    return fb_deferred_values_collects(deferred, c) ? &deferred->slots[c->slot] : NULL;
}

void fb_deferred_values_keep_constants(fb_deferred_values *deferred) {
    for (size_t i = 0; i < deferred->plan->slot_count; i++) {
        deferred->constant[i] = deferred->slots[i];
        if (deferred->slots[i].state == FB_DEFERRED_BYTES)
            copy_bytes(&deferred->constant[i],
                       (fb_bytes){deferred->slots[i].data, deferred->slots[i].size});
    }
}

static void apply_overrides(fb_deferred_values *deferred) {
    for (size_t i = 0; i < deferred->plan->slot_count; i++)
        if (deferred->override[i].state != FB_DEFERRED_EMPTY)
            deferred->slots[i] = deferred->override[i];
}

static void scale_totals(fb_deferred_values *deferred) {
    const fb_plan *plan = deferred->plan;
    const fb_deferred_value *rate = &deferred->slots[plan->columns[plan->rate_column].slot];
    if (rate->state == FB_DEFERRED_EMPTY || rate->number < 2) return;
    for (size_t i = 0; i < plan->slot_count; i++) {
        fb_deferred_value *slot = &deferred->slots[i];
        const fb_column *column = &plan->columns[slot->column];
        if (slot->state == FB_DEFERRED_EMPTY || !(column->flags & FB_COLUMN_SCALED)) continue;
        if (slot->number > column->limit / rate->number) {
            slot->state = FB_DEFERRED_EMPTY;
            deferred->refused++;
        } else {
            slot->number *= rate->number;
        }
    }
}

void fb_deferred_values_settle(fb_deferred_values *deferred) {
    if (deferred->hook) deferred->hook(deferred->hook_context, deferred);
    if (deferred->late) apply_overrides(deferred);
    if (deferred->plan->rate_column != FB_NO_COLUMN) scale_totals(deferred);
}
