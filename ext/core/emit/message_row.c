/* Slow paths of the message emitter: constants, deferred values, and columns that the cursor does
   not track. */
#include "core/emit/message_row.h"

fb_status fb_row_new(fb_row *row, const fb_plan *plan, fb_memory *memory) {
    *row = (fb_row){
        .plan = plan, .columns = plan->columns, .memory = memory, .prefix = 1, .open = plan->open};
    if (!(row->constants =
              fb_memory_allocate(memory, plan->max_fixed_size + FB_ROW_CONSTANTS_STRIDE)) ||
        fb_column_states_new(&row->states, plan, memory) != FB_OK ||
        fb_deferred_values_new(&row->deferred, plan, memory) != FB_OK) {
        fb_row_free(row);
        return FB_NO_MEMORY;
    }
    return FB_OK;
}

void fb_row_free(fb_row *row) {
    if (!row->plan) return;
    if (row->constants)
        fb_memory_release(row->memory, row->constants,
                          row->plan->max_fixed_size + FB_ROW_CONSTANTS_STRIDE);
    fb_column_states_free(&row->states, row->memory);
    fb_deferred_values_free(&row->deferred, row->memory);
    *row = (fb_row){0};
}

void fb_row_set_output(fb_row *row, uint8_t *data, size_t capacity, size_t used) {
    row->data = data;
    row->end = data + capacity;
    row->next = data + used;
}

void fb_row_forget_constants(fb_row *row) {
    fb_column_states_forget(&row->states);
    fb_deferred_values_forget(&row->deferred);
}

void fb_row_keep_constants(fb_row *row) {
    fb_column_states_keep_constants(&row->states);
    if (row->deferred.active) fb_deferred_values_keep_constants(&row->deferred);
}

/* Begin the parts of a row that are not a short run of constants. */
FB_NOINLINE void fb_row_begin_rest(fb_row *row) {
    if (row->constants_size > FB_ROW_CONSTANTS_STRIDE)
        memcpy(row->message, row->constants, row->constants_size);
    fb_deferred_values_begin(&row->deferred);
    fb_column_states_begin(&row->states);
}

static uint8_t *put_real(uint8_t *p, const fb_column *column, uint64_t bits) {
    if (column->wire == FB_WIRE_FIXED64) return fb_wire_put_fixed64(p, bits);
    double wide;
    memcpy(&wide, &bits, 8);
    float narrow = (float)wide;
    uint32_t narrow_bits;
    memcpy(&narrow_bits, &narrow, 4);
    return fb_wire_put_fixed32(p, narrow_bits);
}

uint8_t *fb_row_put_number(uint8_t *p, const fb_column *column, uint64_t number) {
    p = fb_row_put_tag(p, column);
    switch (column->type) {
        case FB_TYPE_FLOAT:
        case FB_TYPE_DOUBLE: return put_real(p, column, number);
        case FB_TYPE_FIXED32: return fb_wire_put_fixed32(p, (uint32_t)number);
        case FB_TYPE_FIXED64: return fb_wire_put_fixed64(p, number);
        case FB_TYPE_SINT: return fb_wire_put_varint(p, fb_wire_zigzag((int64_t)number));
        default: return fb_wire_put_varint(p, number);
    }
}

/* The length of the replaced text is known only afterwards, so the text is written after room for
   the longest length and then moved. */
static uint8_t *put_malformed_text(uint8_t *p, fb_bytes text) {
    bool replaced;
    uint8_t *from = p + FB_TAG_MAX;
    size_t size = (size_t)(fb_utf8_put_replaced(from, text, &replaced) - from);
    p = fb_wire_put_varint(p, size);
    memmove(p, from, size);
    return p + size;
}

static uint8_t *put_bytes(uint8_t *p, const fb_column *column, const uint8_t *data, size_t size) {
    p = fb_row_put_tag(p, column);
    if (column->type == FB_TYPE_IP && size == 4 && !(column->flags & FB_COLUMN_NATIVE_IP))
        return fb_row_put_mapped(p, data);
    if (column->type == FB_TYPE_STRING && !fb_utf8_valid((fb_bytes){data, size}))
        return put_malformed_text(p, (fb_bytes){data, size});
    return fb_wire_put_bytes(fb_wire_put_varint(p, size), data, size);
}

uint8_t *fb_row_put_text(uint8_t *p, const fb_column *column, const uint8_t *data, size_t size) {
    return put_bytes(p, column, data, size);
}

FB_NOINLINE fb_row_cursor fb_row_offer_number(fb_row *row, fb_row_cursor at, fb_target target,
                                              fb_deferred_state state, uint64_t number) {
    const fb_column *column = &row->columns[target.column];
    if (!(column->flags & FB_COLUMN_ENABLED)) return at;
    if (fb_deferred_values_collects(&row->deferred, column))
        fb_deferred_values_offer(&row->deferred, target, state, number, (fb_bytes){NULL, 0});
    else if (fb_column_states_claim(&row->states, row->plan, target, !number))
        at.next = fb_row_put_number(at.next, column, number);
    return at;
}

FB_NOINLINE fb_row_cursor fb_row_offer_bytes(fb_row *row, fb_row_cursor at, fb_target target,
                                             const uint8_t *data, size_t size) {
    const fb_column *column = &row->columns[target.column];
    if (!(column->flags & FB_COLUMN_ENABLED)) return at;
    if (fb_deferred_values_collects(&row->deferred, column)) {
        if (size || column->flags & FB_COLUMN_EXPLICIT)
            fb_deferred_values_offer(&row->deferred, target, FB_DEFERRED_BYTES, 0,
                                     (fb_bytes){data, size});
    } else if (fb_column_states_claim(&row->states, row->plan, target, !size)) {
        at.next = put_bytes(at.next, column, data, size);
    }
    return at;
}

FB_NOINLINE fb_row_cursor fb_row_finish_deferred(fb_row *row, fb_row_cursor at) {
    fb_deferred_values_settle(&row->deferred);
    for (size_t i = 0; i < row->plan->deferred_count; i++) {
        const fb_deferred_value *value = &row->deferred.values[i];
        const fb_column *column = &row->columns[value->column];
        if (value->state == FB_DEFERRED_EMPTY ||
            !fb_deferred_values_collects(&row->deferred, column))
            continue;
        if (value->state == FB_DEFERRED_BYTES)
            at.next =
                put_bytes(at.next, column, value->data ? value->data : value->bytes, value->size);
        else if (value->number || column->flags & FB_COLUMN_EXPLICIT)
            at.next = fb_row_put_number(at.next, column, value->number);
    }
    return at;
}

bool fb_row_accepts(const fb_row *row, fb_row_cursor at, fb_target target) {
    const fb_column *column = &row->columns[target.column];
    if (!(column->flags & FB_COLUMN_ENABLED)) return false;
    if (fb_deferred_values_collects(&row->deferred, column))
        return fb_deferred_values_accepts(&row->deferred, target);
    if (column->bit) return at.open & column->bit;
    return fb_column_states_accepts(&row->states, target.column);
}

void fb_row_repeat_uint(fb_row *row, fb_row_cursor *at, fb_target target, uint64_t value) {
    const fb_column *column = &row->columns[target.column];
    if (fb_column_states_claim_member(&row->states, row->plan, target.column))
        at->next = fb_row_put_number(at->next, column, value);
}

void fb_row_repeat_bytes(fb_row *row, fb_row_cursor *at, fb_target target, const uint8_t *data,
                         size_t size) {
    const fb_column *column = &row->columns[target.column];
    if (fb_column_states_claim_member(&row->states, row->plan, target.column))
        at->next = put_bytes(at->next, column, data, size);
}

FB_NOINLINE void fb_row_move_prefix(fb_row *row, fb_row_cursor *at, size_t size) {
    size_t prefix = fb_wire_varint_size(size);
    if (prefix != row->prefix) {
        uint8_t *message = row->message - row->prefix + prefix;
        memmove(message, row->message, size);
        row->message = message;
        row->prefix = prefix;
        at->next = message + size;
    }
    fb_wire_put_varint(row->message - prefix, size);
}
