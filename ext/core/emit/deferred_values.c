/* The deferred values of a row, and their replacement by a better rank, the hook, an override or
   scaling. */
#include "core/emit/deferred_values.h"

static size_t bytes_of_values(const fb_plan *plan) {
    return plan->deferred_count * sizeof(fb_deferred_value);
}

/* Late columns wait only while a hook or an override may replace them. */
static void update_late(fb_deferred_values *deferred) {
    bool overridden = false, any = false;
    for (size_t i = 0; i < deferred->plan->deferred_count; i++) {
        overridden |= deferred->override[i].state != FB_DEFERRED_EMPTY;
        any |=
            (deferred->plan->columns[deferred->values[i].column].flags & FB_COLUMN_DEFERRED) != 0;
    }
    deferred->late = overridden || deferred->hook;
    deferred->active = deferred->late || any;
}

static void clear_values(const fb_plan *plan, fb_deferred_value *value) {
    memset(value, 0, bytes_of_values(plan));
    for (size_t i = 0; i < plan->column_count; i++)
        if (plan->columns[i].deferred_index != FB_NOT_DEFERRED)
            value[plan->columns[i].deferred_index].column = (uint16_t)i;
}

fb_status fb_deferred_values_new(fb_deferred_values *deferred, const fb_plan *plan,
                                 fb_memory *memory) {
    *deferred = (fb_deferred_values){.plan = plan};
    if (!plan->deferred_count) return FB_OK;
    fb_deferred_value *all = fb_memory_allocate(memory, 3 * bytes_of_values(plan));
    if (!all) return FB_NO_MEMORY;
    deferred->values = all;
    deferred->constant = all + plan->deferred_count;
    deferred->override = all + 2 * plan->deferred_count;
    clear_values(plan, deferred->values);
    clear_values(plan, deferred->constant);
    clear_values(plan, deferred->override);
    update_late(deferred);
    return FB_OK;
}

void fb_deferred_values_free(fb_deferred_values *deferred, fb_memory *memory) {
    if (deferred->values)
        fb_memory_release(memory, deferred->values, 3 * bytes_of_values(deferred->plan));
    *deferred = (fb_deferred_values){0};
}

void fb_deferred_values_set_hook(fb_deferred_values *deferred, void (*hook)(void *, void *),
                                 void *context) {
    deferred->hook = hook;
    deferred->hook_context = context;
    if (deferred->values) update_late(deferred);
}

static bool fits_column(const fb_column *column, fb_deferred_state state, uint64_t number,
                        size_t size) {
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

static void copy_bytes(fb_deferred_value *value, fb_bytes bytes) {
    memcpy(value->bytes, bytes.data, bytes.size);
    value->data = NULL; /* in `bytes`: a value may be copied, so it must not point into itself */
    value->size = (uint32_t)bytes.size;
}

static fb_status replace_value(fb_deferred_values *deferred, fb_deferred_value *value,
                               uint16_t column, fb_deferred_state state, uint64_t number,
                               fb_bytes bytes) {
    const fb_column *c = &deferred->plan->columns[column];
    if (!(c->flags & FB_COLUMN_LATE) || !fits_column(c, state, number, bytes.size))
        return FB_BAD_ARGUMENT;
    value->state = (uint8_t)state;
    value->number = number;
    if (state == FB_DEFERRED_BYTES) copy_bytes(value, bytes);
    return FB_OK;
}

fb_status fb_deferred_values_override(fb_deferred_values *deferred, uint16_t column,
                                      fb_deferred_state state, uint64_t number, fb_bytes bytes) {
    if (column >= deferred->plan->column_count ||
        deferred->plan->columns[column].deferred_index == FB_NOT_DEFERRED)
        return FB_BAD_ARGUMENT;
    fb_deferred_value *value = &deferred->override[deferred->plan->columns[column].deferred_index];
    fb_status status = replace_value(deferred, value, column, state, number, bytes);
    if (status == FB_OK) update_late(deferred);
    return status;
}

fb_status fb_deferred_values_replace(fb_deferred_values *deferred, uint16_t column,
                                     fb_deferred_state state, uint64_t number, fb_bytes bytes) {
    fb_deferred_value *value = fb_deferred_values_find(deferred, column);
    return value ? replace_value(deferred, value, column, state, number, bytes) : FB_BAD_ARGUMENT;
}

void fb_deferred_values_clear_overrides(fb_deferred_values *deferred) {
    if (!deferred->values) return;
    clear_values(deferred->plan, deferred->override);
    update_late(deferred);
}

static bool is_zero(const fb_deferred_value *value) {
    return value->state == FB_DEFERRED_BYTES ? value->size == 0 : value->number == 0;
}

bool fb_deferred_values_accepts(const fb_deferred_values *deferred, fb_target target) {
    const fb_deferred_value *value =
        &deferred->values[deferred->plan->columns[target.column].deferred_index];
    if (value->state == FB_DEFERRED_EMPTY) return true;
    if (is_zero(value))
        return !value->zero || (target.rank <= value->rank && target.rank != FB_NO_RANK);
    return target.rank < value->rank;
}

void fb_deferred_values_offer(fb_deferred_values *deferred, fb_target target,
                              fb_deferred_state state, uint64_t number, fb_bytes bytes) {
    fb_deferred_value *value =
        &deferred->values[deferred->plan->columns[target.column].deferred_index];
    bool zero = state == FB_DEFERRED_BYTES ? bytes.size == 0 : number == 0;
    if (!fb_deferred_values_accepts(deferred, target) ||
        (zero && !target.zero && value->state != FB_DEFERRED_EMPTY))
        return;
    value->state = (uint8_t)state;
    value->rank = target.rank;
    value->zero = zero && target.zero;
    value->number = number;
    value->data = bytes.data;
    value->size = (uint32_t)bytes.size;
}

fb_deferred_value *fb_deferred_values_find(fb_deferred_values *deferred, uint16_t column) {
    if (!deferred->values || column >= deferred->plan->column_count) return NULL;
    const fb_column *c = &deferred->plan->columns[column];
    return fb_deferred_values_collects(deferred, c) ? &deferred->values[c->deferred_index] : NULL;
}

void fb_deferred_values_keep_constants(fb_deferred_values *deferred) {
    for (size_t i = 0; i < deferred->plan->deferred_count; i++) {
        deferred->constant[i] = deferred->values[i];
        if (deferred->values[i].state == FB_DEFERRED_BYTES)
            copy_bytes(&deferred->constant[i],
                       (fb_bytes){deferred->values[i].data, deferred->values[i].size});
    }
}

static void apply_overrides(fb_deferred_values *deferred) {
    for (size_t i = 0; i < deferred->plan->deferred_count; i++)
        if (deferred->override[i].state != FB_DEFERRED_EMPTY)
            deferred->values[i] = deferred->override[i];
}

/* REQUIRES: the plan has a rate column. */
static fb_deferred_value *find_rate(fb_deferred_values *deferred) {
    const fb_plan *plan = deferred->plan;
    return &deferred->values[plan->columns[plan->rate_column].deferred_index];
}

static bool is_known(const fb_deferred_value *rate) {
    return rate->state != FB_DEFERRED_EMPTY && rate->number;
}

static void set_rate(fb_deferred_values *deferred, uint64_t rate) {
    fb_deferred_value *value = find_rate(deferred);
    value->state = FB_DEFERRED_UINT;
    value->number = rate;
}

/* Leave out a rate that exceeds its column. */
static void check_rate(fb_deferred_values *deferred) {
    fb_deferred_value *value = find_rate(deferred);
    if (value->number <= deferred->plan->columns[value->column].limit || !is_known(value)) return;
    value->state = FB_DEFERRED_EMPTY;
    deferred->refused++;
}

static void configure_rate(fb_deferred_values *deferred) {
    const fb_rate_change *change = deferred->rate_change;
    if (change->configured && (change->replaces || !is_known(find_rate(deferred))))
        set_rate(deferred, change->configured);
}

/* Return rate * weight / 2^32, or the greatest number if that is less. */
static uint64_t multiply_rate(uint64_t rate, fb_rate_change *change) {
    uint64_t whole = change->weight >> 32, fraction = change->weight & UINT32_MAX;
    uint64_t low = (rate & UINT32_MAX) * fraction + change->remainder;
    uint64_t rest = (rate >> 32) * fraction + (low >> 32);
    if (whole && rate > (UINT64_MAX - rest) / whole) return UINT64_MAX;
    change->remainder = (uint32_t)low;
    return rate * whole + rest;
}

static void weigh_rate(fb_deferred_values *deferred) {
    const fb_deferred_value *rate = find_rate(deferred);
    if (deferred->rate_change->weight == FB_WEIGHT_ONE) return;
    set_rate(deferred, multiply_rate(is_known(rate) ? rate->number : 1, deferred->rate_change));
}

static void scale_totals(fb_deferred_values *deferred) {
    const fb_plan *plan = deferred->plan;
    const fb_deferred_value *rate = find_rate(deferred);
    if (rate->state == FB_DEFERRED_EMPTY || rate->number < 2) return;
    for (size_t i = 0; i < plan->deferred_count; i++) {
        fb_deferred_value *value = &deferred->values[i];
        const fb_column *column = &plan->columns[value->column];
        if (value->state == FB_DEFERRED_EMPTY || !(column->flags & FB_COLUMN_SCALED)) continue;
        if (value->number > column->limit / rate->number) {
            value->state = FB_DEFERRED_EMPTY;
            deferred->refused++;
        } else {
            value->number *= rate->number;
        }
    }
}

void fb_deferred_values_settle(fb_deferred_values *deferred) {
    bool rated = deferred->plan->rate_column != FB_NO_COLUMN,
         changed = rated && deferred->rate_change;
    if (changed) configure_rate(deferred);
    if (deferred->hook) deferred->hook(deferred->hook_context, deferred);
    if (deferred->late) apply_overrides(deferred);
    if (changed) weigh_rate(deferred);
    if (changed) check_rate(deferred);
    if (rated) scale_totals(deferred);
}
