/* The slots of a row, and the ways to replace their values: a better rank, the hook, an override,
   scaling. */
#include "core/emit/deferred_values.h"

static size_t octets_of_slots(const fb_plan *plan) {
    return plan->slot_count * sizeof(fb_slot);
}

/* Late columns wait only while a hook or an override may replace them. */
static void update(fb_slots *slots) {
    bool overridden = false, slotted = false;
    for (size_t i = 0; i < slots->plan->slot_count; i++) {
        overridden |= slots->override[i].state != FB_SLOT_EMPTY;
        slotted |= (slots->plan->columns[slots->slot[i].column].flags & FB_COLUMN_SLOTTED) != 0;
    }
    slots->late = overridden || slots->hook;
    slots->active = slots->late || slotted;
}

static void clear(const fb_plan *plan, fb_slot *slot) {
    memset(slot, 0, octets_of_slots(plan));
    for (size_t i = 0; i < plan->column_count; i++)
        if (plan->columns[i].slot != FB_NO_SLOT) slot[plan->columns[i].slot].column = (uint16_t)i;
}

fb_status fb_slots_new(fb_slots *slots, const fb_plan *plan, fb_memory *memory) {
    *slots = (fb_slots){.plan = plan};
    if (!plan->slot_count) return FB_OK;
    fb_slot *all = fb_memory_allocate(memory, 3 * octets_of_slots(plan));
    if (!all) return FB_NO_MEMORY;
    slots->slot = all;
    slots->constant = all + plan->slot_count;
    slots->override = all + 2 * plan->slot_count;
    clear(plan, slots->slot);
    clear(plan, slots->constant);
    clear(plan, slots->override);
    update(slots);
    return FB_OK;
}

void fb_slots_free(fb_slots *slots, fb_memory *memory) {
    if (slots->slot) fb_memory_release(memory, slots->slot, 3 * octets_of_slots(slots->plan));
    *slots = (fb_slots){0};
}

void fb_slots_set_hook(fb_slots *slots, void (*hook)(void *, void *), void *context) {
    slots->hook = hook;
    slots->hook_context = context;
    if (slots->slot) update(slots);
}

static bool holds(const fb_column *column, fb_slot_state state, uint64_t number, size_t size) {
    switch (column->type) {
        case FB_TYPE_IP: return state == FB_SLOT_OCTETS && (size == 4 || size == 16);
        case FB_TYPE_STRING:
        case FB_TYPE_BYTES: return false;
        case FB_TYPE_FLOAT:
        case FB_TYPE_DOUBLE: return state == FB_SLOT_REAL;
        case FB_TYPE_INT:
        case FB_TYPE_SINT:
        case FB_TYPE_DURATION: {
            uint64_t magnitude = (int64_t)number < 0 ? ~number : number;
            return state == FB_SLOT_INT && magnitude <= column->limit;
        }
        default: return state == FB_SLOT_UINT && number <= column->limit;
    }
}

static void copy_octets(fb_slot *slot, fb_bytes octets) {
    memcpy(slot->octets, octets.data, octets.size);
    slot->data = NULL; /* in `octets`: a slot may be copied, so it must not point into itself */
    slot->size = (uint32_t)octets.size;
}

static fb_status replace(fb_slots *slots, fb_slot *slot, uint16_t column, fb_slot_state state, uint64_t number,
                         fb_bytes octets) {
    const fb_column *c = &slots->plan->columns[column];
    if (!(c->flags & FB_COLUMN_LATE) || !holds(c, state, number, octets.size)) return FB_BAD_ARGUMENT;
    slot->state = (uint8_t)state;
    slot->number = number;
    if (state == FB_SLOT_OCTETS) copy_octets(slot, octets);
    return FB_OK;
}

fb_status fb_slots_override(fb_slots *slots, uint16_t column, fb_slot_state state, uint64_t number, fb_bytes octets) {
    if (column >= slots->plan->column_count || slots->plan->columns[column].slot == FB_NO_SLOT) return FB_BAD_ARGUMENT;
    fb_slot *slot = &slots->override[slots->plan->columns[column].slot];
    fb_status status = replace(slots, slot, column, state, number, octets);
    if (status == FB_OK) update(slots);
    return status;
}

fb_status fb_slots_replace(fb_slots *slots, uint16_t column, fb_slot_state state, uint64_t number, fb_bytes octets) {
    fb_slot *slot = fb_slots_find(slots, column);
    return slot ? replace(slots, slot, column, state, number, octets) : FB_BAD_ARGUMENT;
}

void fb_slots_clear_overrides(fb_slots *slots) {
    if (!slots->slot) return;
    clear(slots->plan, slots->override);
    update(slots);
}

static bool is_zero(const fb_slot *slot) {
    return slot->state == FB_SLOT_OCTETS ? slot->size == 0 : slot->number == 0;
}

bool fb_slots_wants(const fb_slots *slots, fb_target target) {
    const fb_slot *slot = &slots->slot[slots->plan->columns[target.column].slot];
    if (slot->state == FB_SLOT_EMPTY) return true;
    if (is_zero(slot)) return !slot->zero || (target.rank <= slot->rank && target.rank != FB_NO_RANK);
    return target.rank < slot->rank;
}

void fb_slots_offer(fb_slots *slots, fb_target target, fb_slot_state state, uint64_t number, fb_bytes octets) {
    fb_slot *slot = &slots->slot[slots->plan->columns[target.column].slot];
    bool zero = state == FB_SLOT_OCTETS ? octets.size == 0 : number == 0;
    if (!fb_slots_wants(slots, target) || (zero && !target.zero && slot->state != FB_SLOT_EMPTY)) return;
    slot->state = (uint8_t)state;
    slot->rank = target.rank;
    slot->zero = zero && target.zero;
    slot->number = number;
    slot->data = octets.data;
    slot->size = (uint32_t)octets.size;
}

fb_slot *fb_slots_find(fb_slots *slots, uint16_t column) {
    if (!slots->slot || column >= slots->plan->column_count) return NULL;
    const fb_column *c = &slots->plan->columns[column];
    return fb_slots_collects(slots, c) ? &slots->slot[c->slot] : NULL;
}

void fb_slots_keep_constants(fb_slots *slots) {
    for (size_t i = 0; i < slots->plan->slot_count; i++) {
        slots->constant[i] = slots->slot[i];
        if (slots->slot[i].state == FB_SLOT_OCTETS)
            copy_octets(&slots->constant[i], (fb_bytes){slots->slot[i].data, slots->slot[i].size});
    }
}

static void apply_overrides(fb_slots *slots) {
    for (size_t i = 0; i < slots->plan->slot_count; i++)
        if (slots->override[i].state != FB_SLOT_EMPTY) slots->slot[i] = slots->override[i];
}

static void scale_totals(fb_slots *slots) {
    const fb_plan *plan = slots->plan;
    const fb_slot *rate = &slots->slot[plan->columns[plan->rate_column].slot];
    if (rate->state == FB_SLOT_EMPTY || rate->number < 2) return;
    for (size_t i = 0; i < plan->slot_count; i++) {
        fb_slot *slot = &slots->slot[i];
        const fb_column *column = &plan->columns[slot->column];
        if (slot->state == FB_SLOT_EMPTY || !(column->flags & FB_COLUMN_SCALED)) continue;
        if (slot->number > column->limit / rate->number) {
            slot->state = FB_SLOT_EMPTY;
            slots->refused++;
        } else {
            slot->number *= rate->number;
        }
    }
}

void fb_slots_settle(fb_slots *slots) {
    if (slots->hook) slots->hook(slots->hook_context, slots);
    if (slots->late) apply_overrides(slots);
    if (slots->plan->rate_column != FB_NO_COLUMN) scale_totals(slots);
}
