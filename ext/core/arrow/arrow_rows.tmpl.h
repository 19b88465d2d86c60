/* Writes rows from cells. This file is compiled once per kind of processor (arrow_rows.c). FB_ENTRY
   is the name of the function. */
#ifndef FB_ARROW_ARROW_ROWS_TMPL_H
#define FB_ARROW_ARROW_ROWS_TMPL_H

#include "core/arrow/arrow_rows.h"

static uint8_t *put_bytes(uint8_t *p, const fb_column *column, const uint8_t *data, size_t size) {
    return fb_wire_put_bytes(fb_wire_put_varint(fb_row_put_tag(p, column), size), data, size);
}

static uint8_t *put_address(uint8_t *p, const fb_column *column, const uint8_t *address) {
    bool narrow = column->flags & FB_COLUMN_NATIVE_IP && fb_is_mapped(address);
    return narrow ? put_bytes(p, column, address + 12, 4) : put_bytes(p, column, address, 16);
}

/* Write the cell of a field of any type. */
static uint8_t *put_cell(uint8_t *p, const fb_arrow_field *field, size_t i) {
    const fb_column *column = field->column;
    if (column->type == FB_TYPE_IP) return put_address(p, column, field->cells.addresses[i]);
    if (fb_column_holds_bytes(column))
        return put_bytes(p, column, field->cells.bytes[i].data, field->cells.bytes[i].size);
    return fb_row_put_number(p, column, field->cells.numbers[i]);
}

static uint8_t *put_explicit(uint8_t *p, const fb_arrow_field *field, size_t k) {
    return field->present >> k & 1 ? put_cell(p, field, k) : p;
}

/* Write a list, which is its second read. Returns NULL if the list has changed. */
static uint8_t *put_list(uint8_t *p, fb_arrow_field *field, int64_t at, size_t k) {
    fb_arrow_members members;
    size_t room = field->list_room[k];
    if (!(field->present >> k & 1)) return p;
    fb_arrow_reason reason = fb_arrow_field_find_members(field, at, &members);
    while (reason == FB_ARROW_NONE && members.at < members.end) {
        size_t count = fb_arrow_field_read_members(field, &members, &room, &reason);
        for (size_t i = 0; reason == FB_ARROW_NONE && i < count; i++) p = put_cell(p, field, i);
    }
    return reason == FB_ARROW_NONE && !room ? p : NULL;
}

FB_NOINLINE static uint8_t *put_other(uint8_t *p, fb_arrow_field *field, int64_t at, size_t k) {
    const fb_arrow_cells *cells = &field->cells;
    switch (field->put) {
        case FB_PUT_OTHER_NUMBER:
            return cells->numbers[k] ? fb_row_put_number(p, field->column, cells->numbers[k]) : p;
        case FB_PUT_NATIVE_ADDRESS:
            return fb_is_no_address(cells->addresses[k], 16)
                       ? p
                       : put_address(p, field->column, cells->addresses[k]);
        case FB_PUT_EXPLICIT: return put_explicit(p, field, k);
        default: return put_list(p, field, at, k);
    }
}

FB_INLINE uint8_t *put_double(uint8_t *p, const fb_arrow_field *field, size_t k) {
    uint64_t bits = field->cells.numbers[k];
    return bits ? fb_wire_put_fixed64(fb_row_put_tag(p, field->column), bits) : p;
}

enum { SHORT = 32 };

static uint8_t *put_short_bytes(uint8_t *p, const fb_column *column, const uint8_t *data,
                                size_t size) {
    return size ? fb_wire_put_few_bytes(fb_wire_put_varint(fb_row_put_tag(p, column), size), data,
                                        size)
                : p;
}

/* Copy a fixed number of bytes for a short text, if so many can be read. This avoids a branch on
   its length. */
FB_INLINE uint8_t *put_text(uint8_t *p, const fb_arrow_field *field, size_t k) {
    const fb_column *column = field->column;
    const int32_t *offsets = field->texts.offsets;
    const uint8_t *bytes = field->texts.bytes;
    if (!bytes)
        return put_short_bytes(p, column, field->cells.bytes[k].data, field->cells.bytes[k].size);
    size_t size = (size_t)(offsets[k + 1] - offsets[k]);
    if (FB_UNLIKELY(size > SHORT || offsets[FB_ARROW_BLOCK] - offsets[k] < SHORT))
        return put_short_bytes(p, column, bytes + offsets[k], size);
    fb_store64(p, column->tag | (uint64_t)size << column->tag_bits);
    size_t head = column->tag_size + 1u;
    memcpy(p + head, bytes + offsets[k], SHORT);
    return p + fb_size_if(size, head + size);
}

static void append_numbers(fb_row *row, fb_row_cursor *at, const fb_arrow_field *field,
                           const fb_arrow_field *end, size_t k) {
    for (; field < end; field++) {
        uint64_t number = field->cells.numbers[k];
        if (field->put == FB_PUT_BYTE) fb_row_append_uint(row, at, field->column, number, 1);
        else if (field->put == FB_PUT_PAIR) fb_row_append_uint(row, at, field->column, number, 2);
        else fb_row_append_uint(row, at, field->column, number, 8);
    }
}

#ifdef __AVX512VBMI2__
static void transpose_numbers(const fb_arrow_block *block, const fb_arrow_source *source,
                              size_t count) {
    size_t stride = block->lane_groups * FB_SIMD_LANES;
    for (size_t i = 0; i < source->plain_count; i++) {
        const uint64_t *from = source->fields[i].cells.numbers;
        uint64_t *to = block->numbers + i;
#pragma GCC unroll 8
        for (size_t k = 0; k < count; k++) to[k * stride] = from[k];
    }
}

static void put_numbers(const fb_arrow_block *block, const fb_arrow_source *source, fb_row *row,
                        fb_row_cursor *at, size_t k) {
    const uint64_t *numbers = block->numbers + k * block->lane_groups * FB_SIMD_LANES;
    for (size_t group = 0; group < block->lane_groups; group++) {
        uint8_t *next = fb_varint_simd_append(at->next, &block->lanes[group],
                                              _mm512_load_si512(numbers + FB_SIMD_LANES * group));
        const fb_arrow_field *field = source->fields + FB_SIMD_LANES * group,
                             *end = source->fields + source->plain_count;
        if (FB_LIKELY(next != NULL)) at->next = next;
        else
            append_numbers(row, at, field,
                           end - field > FB_SIMD_LANES ? field + FB_SIMD_LANES : end, k);
    }
}
#else
static void transpose_numbers(const fb_arrow_block *block, const fb_arrow_source *source,
                              size_t count) {
    (void)block, (void)source, (void)count;
}

static void put_numbers(const fb_arrow_block *block, const fb_arrow_source *source, fb_row *row,
                        fb_row_cursor *at, size_t k) {
    (void)block;
    append_numbers(row, at, source->fields, source->fields + source->plain_count, k);
}
#endif

size_t FB_ENTRY(fb_arrow_block *block, fb_arrow_source *source, fb_row *row, size_t count) {
    fb_arrow_field *others = source->fields + source->plain_count,
                   *end = source->fields + source->field_count;
    fb_row_cursor at;
    size_t max_size = row->plan->max_fixed_size + source->room.any;
    assert(row->plain && !row->constants_size);
    transpose_numbers(block, source, count);
    for (size_t k = 0; k < count; k++) {
        if (!fb_row_begin_empty(row, max_size + source->room.rows[k], &at)) return k;
        put_numbers(block, source, row, &at, k);
        for (fb_arrow_field *field = others; field < end; field++) {
            if (field->put == FB_PUT_BYTES) at.next = put_text(at.next, field, k);
            else if (field->put == FB_PUT_DOUBLE) at.next = put_double(at.next, field, k);
            else if (field->put == FB_PUT_ADDRESS)
                fb_row_append_ip(row, &at, field->column, field->cells.addresses[k], 16);
            else if (!(at.next = put_other(at.next, field, source->first + (int64_t)k, k))) {
                block->changed = field;
                return k;
            }
        }
        fb_row_finish(row, at);
    }
    return count;
}

#endif
