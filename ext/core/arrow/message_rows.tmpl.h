/* Reads messages into rows. This file is compiled once per kind of processor (message_columns.c).
   FB_ENTRY is the name of the function.

   A table maps a tag to a place, and one byte of the place selects the action. For most columns the
   action stores a number or an address. All other cases, and the search for the reason of a fault,
   take the slow path. */
#ifndef FB_ARROW_MESSAGE_ROWS_TMPL_H
#define FB_ARROW_MESSAGE_ROWS_TMPL_H

#include "core/arrow/message_columns.h"

static const fb_message_place *search_place(const fb_message_columns *reader, uint32_t number) {
    size_t low = 1, high = reader->place_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (reader->places[middle].number < number) low = middle + 1;
        else high = middle;
    }
    bool found = low < reader->place_count && reader->places[low].number == number;
    return &reader->places[found ? low : FB_MESSAGE_NO_PLACE];
}

static const fb_message_place *find_place(const fb_message_columns *reader, uint32_t number) {
    return number < FB_MESSAGE_NEAR ? &reader->places[reader->near[number]]
                                    : search_place(reader, number);
}

/* Values ------------------------------------------------------------------------------------- */

/* The row under construction. */
typedef struct {
    fb_message_columns *reader;
    fb_batch *batch;
    fb_vector *vectors; /* of the batch */
    size_t row;
    const uint8_t *end; /* of the message */
    fb_message_fault *fault;
} fb_message_row;

/* Set the fault and return NULL. */
static const uint8_t *set_fault(const fb_message_row *to, const fb_message_place *place,
                                fb_message_fault_kind kind) {
    to->fault->kind = kind;
    to->fault->column = place->column;
    return NULL;
}

/* Convert a wire number to the column's width. Returns false if it does not fit. */
static bool convert_number(const fb_message_place *place, uint8_t width, uint64_t *number) {
    switch (place->type) {
        case FB_TYPE_BOOL: *number = *number != 0; return true;
        case FB_TYPE_SINT: *number = (uint64_t)fb_wire_unzigzag(*number); break;
        case FB_TYPE_INT:
        case FB_TYPE_DURATION: break;
        default: return *number <= place->limit;
    }
    bool fits = *number + place->limit + 1 <= 2 * place->limit + 1;
    if (width == 4) *number = (uint32_t)*number;
    return fits;
}

static bool put_number(const fb_message_row *to, const fb_message_place *place, uint64_t number) {
    fb_vector *vector = &to->vectors[place->column];
    if (!convert_number(place, vector->width, &number))
        return set_fault(to, place, FB_MESSAGE_FAULT_RANGE);
    if (vector->listed) fb_vector_add_number(vector, number);
    else fb_vector_set(vector, to->row, number);
    if (vector->present) vector->present[to->row] = 1;
    return true;
}

/* Store an address. An empty one is absent. In a list it becomes zeros, so that later members keep
   their indices. */
static bool put_address(const fb_message_row *to, const fb_message_place *place, fb_bytes bytes) {
    static const uint8_t zeros[16];
    fb_vector *vector = &to->vectors[place->column];
    if (bytes.size && bytes.size != 4 && bytes.size != 16)
        return set_fault(to, place, FB_MESSAGE_FAULT_ADDRESS);
    fb_bytes address = bytes.size ? bytes : (fb_bytes){zeros, 16};
    if (vector->listed) fb_vector_add_address(vector, address.data, address.size);
    else fb_vector_set_address(vector, to->row, address.data, address.size);
    if (vector->present) vector->present[to->row] = bytes.size != 0;
    return true;
}

static void put_bytes(const fb_message_row *to, const fb_message_place *place, fb_bytes bytes) {
    fb_vector *vector = &to->vectors[place->column];
    /* discard an earlier occurrence */
    if (!vector->listed) vector->used = vector->offsets[to->row];
    if (place->type == FB_TYPE_STRING)
        to->reader->invalid_texts += fb_vector_put_text(vector, bytes.data, bytes.size);
    else fb_vector_put_bytes(vector, bytes.data, bytes.size);
    if (vector->listed) fb_vector_end_member(vector);
    if (vector->present) vector->present[to->row] = 1;
}

static bool put_value(const fb_message_row *to, const fb_message_place *place,
                      const fb_message_field *field) {
    if (place->wire != FB_WIRE_BYTES) return put_number(to, place, field->value);
    if (place->type == FB_TYPE_IP) return put_address(to, place, field->bytes);
    put_bytes(to, place, field->bytes);
    return true;
}

static bool reserve(const fb_message_row *to, const fb_message_place *place, size_t bytes) {
    fb_vector *vector = &to->vectors[place->column];
    return !vector->offsets || fb_batch_reserve(to->batch, vector, bytes);
}

static FB_NOINLINE const uint8_t *read_general(const fb_message_row *to,
                                               const fb_message_place *place, const uint8_t *p) {
    fb_message_field field = {.wire = (fb_wire_type)place->wire};
    if (!(p = fb_message_read_value(p, to->end, &field)))
        return set_fault(to, place, FB_MESSAGE_FAULT_FIELD);
    if (place->path == FB_MESSAGE_PATH_SKIP) return p;
    return reserve(to, place, field.bytes.size) && put_value(to, place, &field) ? p : NULL;
}

static const uint8_t *read_packed(const fb_message_row *to, const fb_message_place *place,
                                  const uint8_t *p) {
    fb_bytes members;
    fb_message_field member = {.wire = (fb_wire_type)place->wire};
    if (!(p = fb_wire_read_bytes(p, to->end, &members)))
        return set_fault(to, place, FB_MESSAGE_FAULT_FIELD);
    if (place->path == FB_MESSAGE_PATH_SKIP) return p;
    if (!reserve(to, place, members.size)) return NULL;
    for (const uint8_t *next = members.data; next < p;) {
        if (!(next = fb_message_read_value(next, p, &member)))
            return set_fault(to, place, FB_MESSAGE_FAULT_FIELD);
        if (!put_number(to, place, member.value)) return NULL;
    }
    return p;
}

/* Read a field whose wire type differs from that of its place. */
static const uint8_t *read_unexpected(const fb_message_row *to, const fb_message_place *place,
                                      fb_wire_type wire, const uint8_t *p) {
    fb_message_field field = {.wire = wire};
    if (place->listed && wire == FB_WIRE_BYTES) return read_packed(to, place, p);
    if (!(p = fb_message_read_value(p, to->end, &field)))
        return set_fault(to, place, FB_MESSAGE_FAULT_FIELD);
    if (place->wire != FB_MESSAGE_NO_WIRE) return set_fault(to, place, FB_MESSAGE_FAULT_WIRE_TYPE);
    to->reader->unknown_fields++;
    return p;
}

/* Read any field. Nothing is known except the end of the message. */
static FB_NOINLINE const uint8_t *read_field(const fb_message_row *to, const uint8_t *p) {
    uint64_t tag;
    const fb_message_place *place = to->reader->places;
    if (!(p = fb_wire_read_varint(p, to->end, &tag)) || tag >> 3 == 0 || tag >> 3 > FB_NUMBER_MAX)
        return set_fault(to, place, FB_MESSAGE_FAULT_FIELD);
    place = find_place(to->reader, (uint32_t)(tag >> 3));
    return (tag & 7) == place->wire ? read_general(to, place, p)
                                    : read_unexpected(to, place, (fb_wire_type)(tag & 7), p);
}

/* Fast path ---------------------------------------------------------------------------------- */

/* An upper bound for a tag with its number or address. If so many bytes follow the message, values
   are read without a check against its end. */
enum { FAST_ROOM = 32 };

FB_INLINE const uint8_t *read_fast_number(const fb_message_row *to, const fb_message_place *place,
                                          size_t row, const uint8_t *p) {
    uint64_t number;
    p = fb_wire_load_varint(p, &number);
    if (FB_UNLIKELY(!p || number > place->limit)) return NULL;
    fb_vector_store(&to->vectors[place->column], place->values + (row << place->shift), number);
    return p;
}

FB_INLINE const uint8_t *read_fast_address(const fb_message_row *to, const fb_message_place *place,
                                           size_t row, const uint8_t *p) {
    if (FB_UNLIKELY(*p != 16)) return read_general(to, place, p);
    memcpy(place->values + 16 * row, p + 1, 16);
    return p + 17;
}

FB_INLINE const uint8_t *read_fast_fixed64(const fb_message_place *place, size_t row,
                                           const uint8_t *p) {
    uint64_t number = fb_load_little64(p);
    if (FB_UNLIKELY(number > place->limit)) return NULL;
    memcpy(place->values + 8 * row, &number, 8);
    return p + 8;
}

/* Read a short ASCII text. The copy may read past its end, but stays in the stream and in the
   buffer. A two-byte tag may end one byte past the message; then to->end - p is negative. */
FB_INLINE const uint8_t *read_fast_text(const fb_message_row *to, const fb_message_place *place,
                                        size_t row, const uint8_t *p) {
    fb_vector *vector = &to->vectors[place->column];
    size_t size = *p, begin = vector->offsets[row];
    if (size > FAST_ROOM || (ptrdiff_t)size >= to->end - p) return read_general(to, place, p);
    if (vector->size - begin < FAST_ROOM + FB_BATCH_SLACK) return read_general(to, place, p);
    if (FB_UNLIKELY(!fb_is_ascii(p + 1, size))) return read_general(to, place, p);
    memcpy(vector->values + begin, p + 1, FAST_ROOM / 2);
    if (size > FAST_ROOM / 2)
        memcpy(vector->values + begin + FAST_ROOM / 2, p + 1 + FAST_ROOM / 2, FAST_ROOM / 2);
    vector->used = begin + size;
    return p + 1 + size;
}

FB_INLINE const uint8_t *read_fast_field(const fb_message_row *to, const fb_message_place *places,
                                         const uint16_t *near, size_t row, const uint8_t *field) {
    const uint8_t *p = field;
    uint32_t tag = *p++;
    if (tag >= 0x80) {
        if (FB_UNLIKELY(*p >= 0x80)) return read_field(to, field);
        tag = (tag & 0x7f) | (uint32_t)*p++ << 7;
    }
    const fb_message_place *place = &places[near[tag >> 3]];
    if (FB_UNLIKELY((tag & 7) != place->wire)) return read_field(to, field);
    switch (place->path) {
        case FB_MESSAGE_PATH_NUMBER: return read_fast_number(to, place, row, p);
        case FB_MESSAGE_PATH_ADDRESS: return read_fast_address(to, place, row, p);
        case FB_MESSAGE_PATH_FIXED64: return read_fast_fixed64(place, row, p);
        case FB_MESSAGE_PATH_TEXT: return read_fast_text(to, place, row, p);
        default: return read_general(to, place, p);
    }
}

/* Read a message on the fast path. Returns false if a field is invalid or the last one ends past
   the message. The caller then discards the row. */
static bool read_fast(const fb_message_row *to, const uint8_t *p) {
    const fb_message_place *places = to->reader->places;
    const uint16_t *near = to->reader->near;
    const uint8_t *end = to->end;
    const size_t row = to->row;
    while (p && p < end) p = read_fast_field(to, places, near, row, p);
    return p == end;
}

/* Messages ----------------------------------------------------------------------------------- */

static bool read_all_fields(const fb_message_row *to, const uint8_t *begin) {
    for (const uint8_t *p = begin, *field; p < to->end;) {
        field = p;
        if ((p = read_field(to, field))) continue;
        to->fault->offset = (size_t)(field - begin);
        return false;
    }
    return true;
}

/* Read one message. If the fast path fails, the slow path reads it again and reports the fault.
   `behind` is the number of bytes that follow in the stream. */
static fb_status read_message(fb_message_columns *reader, fb_bytes message, size_t behind,
                              fb_batch *batch, fb_message_fault *fault) {
    const fb_message_row to = {
        reader, batch, batch->vectors, batch->rows, message.data + message.size, fault};
    uint64_t unknown_fields = reader->unknown_fields, invalid_texts = reader->invalid_texts;
    if (batch->rows == batch->capacity) return FB_NO_SPACE;
    for (bool fast = behind >= FAST_ROOM;; fast = false) {
        *fault = (fb_message_fault){.column = FB_NO_COLUMN};
        if (FB_LIKELY(fast ? read_fast(&to, message.data) : read_all_fields(&to, message.data)))
            break;
        fb_batch_undo(batch, to.row);
        reader->unknown_fields = unknown_fields;
        reader->invalid_texts = invalid_texts;
        if (!fast) return fault->kind ? FB_BAD_MESSAGE : to.row ? FB_NO_SPACE : FB_NO_MEMORY;
    }
    for (size_t i = 0; i < reader->uneven_count; i++)
        fb_vector_end(&to.vectors[reader->uneven[i]], to.row);
    batch->rows++;
    return FB_OK;
}

fb_status FB_ENTRY(fb_message_columns *reader, fb_bytes *rest, fb_batch *batch,
                   fb_message_fault *fault) {
    fb_bytes next = *rest, message;
    fb_status status;
    while ((status = fb_stream_next(&next, &message)) == FB_OK) {
        if ((status = read_message(reader, message, next.size, batch, fault)) != FB_OK) {
            if (status == FB_BAD_MESSAGE) fault->offset += (size_t)(message.data - rest->data);
            return status;
        }
        *rest = next;
    }
    if (status == FB_BAD_MESSAGE) fault->kind = FB_MESSAGE_FAULT_LENGTH;
    return status;
}

#undef FB_ENTRY

#endif
