/* Messages -> columns. A tag leads to a place by a table, a place says in one octet what is to be done, and for most columns that is
   to store a number or an address where it belongs. All else takes its time, and so does finding out what is wrong. */
#include "message_columns.h"

#include <stdlib.h>

const char *fb_message_fault_text(fb_message_fault_kind kind) {
    static const char *const texts[] = {
#define FB_X(constant, text) text,
        FB_MESSAGE_FAULT_LIST(FB_X)
#undef FB_X
    };
    return (unsigned)kind < FB_MESSAGE_FAULT_COUNT ? texts[kind] : "unknown fault";
}

/* Places ---------------------------------------------------------------------------------------------------------------- */

/* Ways of values; where the wire type is another one, nothing is known yet. */
enum { WAY_NUMBER, WAY_ADDRESS, WAY_OTHER, WAY_SKIP };
enum { NO_PLACE = 0, NO_WIRE = 0xff };

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* What Arrow holds times in is signed, as numbers of enums are. */
static uint64_t limit_of(const fb_column *column) {
    switch (column->type) {
        case FB_TYPE_ENUM: return INT32_MAX;
        case FB_TYPE_FIXED32: return least(column->limit, UINT32_MAX);
        case FB_TYPE_UINT:
        case FB_TYPE_FIXED64: return column->limit;
        case FB_TYPE_INT:
        case FB_TYPE_SINT:
        case FB_TYPE_TIMESTAMP: return least(column->limit, INT64_MAX);
        case FB_TYPE_DURATION: return INT64_MAX;
        default: return UINT64_MAX; /* whatever its bits are, it is a value */
    }
}

static uint8_t way_of(const fb_column *column) {
    if (!(column->flags & FB_COLUMN_ENABLED)) return WAY_SKIP;
    if (column->flags & (FB_COLUMN_REPEATED | FB_COLUMN_EXPLICIT)) return WAY_OTHER;
    switch (column->type) {
        case FB_TYPE_UINT:
        case FB_TYPE_ENUM:
        case FB_TYPE_TIMESTAMP: return WAY_NUMBER;
        case FB_TYPE_IP: return WAY_ADDRESS;
        default: return WAY_OTHER;
    }
}

static fb_message_place place_of(const fb_plan *plan, size_t column) {
    const fb_column *c = &plan->columns[column];
    return (fb_message_place){
        .limit = limit_of(c),
        .number = c->number,
        .column = (uint16_t)column,
        .way = way_of(c),
        .wire = c->wire,
        .type = c->type,
        .listed = c->flags & FB_COLUMN_REPEATED,
    };
}

static int compare_places(const void *a, const void *b) {
    const fb_message_place *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static bool is_uneven(const fb_column *column) {
    return column->flags & FB_COLUMN_ENABLED && (column->flags & FB_COLUMN_REPEATED || !fb_batch_width(column));
}

fb_status fb_message_columns_new(fb_message_columns *reader, const fb_plan *plan, fb_memory *memory) {
    size_t count = plan->column_count + 1;
    *reader = (fb_message_columns){.plan = plan, .memory = memory, .place_count = count};
    reader->places = fb_memory_allocate(memory, count * sizeof *reader->places);
    reader->uneven = fb_memory_allocate(memory, count * sizeof *reader->uneven);
    if (!reader->places || !reader->uneven) {
        fb_message_columns_free(reader);
        return FB_NO_MEMORY;
    }
    reader->places[NO_PLACE] = (fb_message_place){.column = FB_NO_COLUMN, .wire = NO_WIRE}; /* of number 0, which no field has */
    for (size_t i = 0; i < plan->column_count; i++) {
        reader->places[i + 1] = place_of(plan, i);
        if (is_uneven(&plan->columns[i])) reader->uneven[reader->uneven_count++] = (uint16_t)i;
    }
    qsort(reader->places, count, sizeof *reader->places, compare_places);
    for (size_t i = 1; i < count && reader->places[i].number < FB_MESSAGE_NEAR; i++) reader->near[reader->places[i].number] = (uint16_t)i;
    return FB_OK;
}

void fb_message_columns_free(fb_message_columns *reader) {
    if (!reader->plan) return;
    fb_memory_release(reader->memory, reader->places, reader->place_count * sizeof *reader->places);
    fb_memory_release(reader->memory, reader->uneven, reader->place_count * sizeof *reader->uneven);
    *reader = (fb_message_columns){0};
}

static const fb_message_place *find_far(const fb_message_columns *reader, uint32_t number) {
    size_t low = 1, high = reader->place_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (reader->places[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < reader->place_count && reader->places[low].number == number;
    return &reader->places[found ? low : NO_PLACE];
}

static const fb_message_place *find_place(const fb_message_columns *reader, uint32_t number) {
    return number < FB_MESSAGE_NEAR ? &reader->places[reader->near[number]] : find_far(reader, number);
}

/* Values --------------------------------------------------------------------------------------------------------------- */

/* The row under construction. */
typedef struct {
    fb_message_columns *reader;
    fb_batch *batch;
    fb_vector *vectors; /* the batch's */
    size_t row;
    const uint8_t *end; /* of the message */
    fb_message_fault *fault;
} fb_message_row;

/* NULL, and why. */
static const uint8_t *refuse(const fb_message_row *to, const fb_message_place *place, fb_message_fault_kind kind) {
    to->fault->kind = kind;
    to->fault->column = place->column;
    return NULL;
}

/* A number of the wire as one of the column's width; false where it does not fit. */
static bool convert(const fb_message_place *place, uint8_t width, uint64_t *number) {
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
    if (!convert(place, vector->width, &number)) return refuse(to, place, FB_MESSAGE_FAULT_RANGE);
    if (vector->listed)
        fb_vector_add_number(vector, number);
    else
        fb_vector_set(vector, to->row, number);
    if (vector->present) vector->present[to->row] = 1;
    return true;
}

/* Without octets it is absent; in a list it is zeros, so that the others keep their places. */
static bool put_address(const fb_message_row *to, const fb_message_place *place, fb_bytes octets) {
    static const uint8_t zeros[16];
    fb_vector *vector = &to->vectors[place->column];
    if (octets.size && octets.size != 4 && octets.size != 16) return refuse(to, place, FB_MESSAGE_FAULT_ADDRESS);
    fb_bytes address = octets.size ? octets : (fb_bytes){zeros, 16};
    if (vector->listed)
        fb_vector_add_address(vector, address.data, address.size);
    else
        fb_vector_set_address(vector, to->row, address.data, address.size);
    if (vector->present) vector->present[to->row] = octets.size != 0;
    return true;
}

static void put_octets(const fb_message_row *to, const fb_message_place *place, fb_bytes octets) {
    fb_vector *vector = &to->vectors[place->column];
    if (!vector->listed) vector->used = vector->offsets[to->row]; /* what came before does not count */
    if (place->type == FB_TYPE_STRING)
        to->reader->invalid_texts += fb_vector_put_text(vector, octets.data, octets.size);
    else
        fb_vector_put_octets(vector, octets.data, octets.size);
    if (vector->listed) fb_vector_end_member(vector);
    if (vector->present) vector->present[to->row] = 1;
}

static bool put_value(const fb_message_row *to, const fb_message_place *place, const fb_message_field *field) {
    if (place->wire != FB_WIRE_BYTES) return put_number(to, place, field->value);
    if (place->type == FB_TYPE_IP) return put_address(to, place, field->bytes);
    put_octets(to, place, field->bytes);
    return true;
}

static bool reserve(const fb_message_row *to, const fb_message_place *place, size_t octets) {
    fb_vector *vector = &to->vectors[place->column];
    return !vector->offsets || fb_batch_reserve(to->batch, vector, octets);
}

static FB_NOINLINE const uint8_t *read_other(const fb_message_row *to, const fb_message_place *place, const uint8_t *p) {
    fb_message_field field = {.wire = (fb_wire_type)place->wire};
    if (!(p = fb_message_read_value(p, to->end, &field))) return refuse(to, place, FB_MESSAGE_FAULT_FIELD);
    if (place->way == WAY_SKIP) return p;
    return reserve(to, place, field.bytes.size) && put_value(to, place, &field) ? p : NULL;
}

static const uint8_t *read_packed(const fb_message_row *to, const fb_message_place *place, const uint8_t *p) {
    fb_bytes members;
    fb_message_field member = {.wire = (fb_wire_type)place->wire};
    if (!(p = fb_wire_read_bytes(p, to->end, &members))) return refuse(to, place, FB_MESSAGE_FAULT_FIELD);
    if (place->way == WAY_SKIP) return p;
    if (!reserve(to, place, members.size)) return NULL;
    for (const uint8_t *next = members.data; next < p;) {
        if (!(next = fb_message_read_value(next, p, &member))) return refuse(to, place, FB_MESSAGE_FAULT_FIELD);
        if (!put_number(to, place, member.value)) return NULL;
    }
    return p;
}

/* A field whose wire type is not that of its place. */
static const uint8_t *read_unexpected(const fb_message_row *to, const fb_message_place *place, fb_wire_type wire, const uint8_t *p) {
    fb_message_field field = {.wire = wire};
    if (place->listed && wire == FB_WIRE_BYTES) return read_packed(to, place, p);
    if (!(p = fb_message_read_value(p, to->end, &field))) return refuse(to, place, FB_MESSAGE_FAULT_FIELD);
    if (place->wire != NO_WIRE) return refuse(to, place, FB_MESSAGE_FAULT_WIRE_TYPE);
    to->reader->unknown_fields++;
    return p;
}

/* Any field, of which nothing is known but where the message ends. */
static FB_NOINLINE const uint8_t *read_field(const fb_message_row *to, const uint8_t *p) {
    uint64_t tag;
    const fb_message_place *place = to->reader->places;
    if (!(p = fb_wire_read_varint(p, to->end, &tag)) || tag >> 3 == 0 || tag >> 3 > FB_NUMBER_MAX)
        return refuse(to, place, FB_MESSAGE_FAULT_FIELD);
    place = find_place(to->reader, (uint32_t)(tag >> 3));
    return (tag & 7) == place->wire ? read_other(to, place, p) : read_unexpected(to, place, (fb_wire_type)(tag & 7), p);
}

/* The fast path ---------------------------------------------------------------------------------------------------------- */

/* No tag with its number or address has more octets: where so many are behind a message, nothing of it need be compared with its
   end before it is read. */
enum { FAST_ROOM = 32 };

FB_INLINE const uint8_t *read_fast_number(const fb_message_row *to, const fb_message_place *place, const uint8_t *p) {
    uint64_t number;
    p = fb_wire_load_varint(p, &number);
    if (FB_UNLIKELY(!p || number > place->limit)) return NULL;
    fb_vector_set(&to->vectors[place->column], to->row, number);
    return p;
}

FB_INLINE const uint8_t *read_fast_address(const fb_message_row *to, const fb_message_place *place, const uint8_t *p) {
    if (FB_UNLIKELY(*p != 16)) return read_other(to, place, p);
    memcpy(to->vectors[place->column].values + 16 * to->row, p + 1, 16);
    return p + 17;
}

FB_INLINE const uint8_t *read_fast_field(const fb_message_row *to, const uint8_t *field) {
    const uint8_t *p = field;
    uint32_t tag = *p++;
    if (tag >= 0x80) {
        if (FB_UNLIKELY(*p >= 0x80)) return read_field(to, field);
        tag = (tag & 0x7f) | (uint32_t)*p++ << 7;
    }
    const fb_message_place *place = &to->reader->places[to->reader->near[tag >> 3]];
    if (FB_UNLIKELY((tag & 7) != place->wire)) return read_field(to, field);
    switch (place->way) {
        case WAY_NUMBER: return read_fast_number(to, place, p);
        case WAY_ADDRESS: return read_fast_address(to, place, p);
        default: return read_other(to, place, p);
    }
}

/* False: something is wrong with a field, or the last one ends behind the message: what then is in the row does not stay there. */
static bool read_fast(const fb_message_row *to, const uint8_t *p) {
    while (p && p < to->end) p = read_fast_field(to, p);
    return p == to->end;
}

/* Messages --------------------------------------------------------------------------------------------------------------- */

static bool read_slowly(const fb_message_row *to, const uint8_t *begin) {
    for (const uint8_t *p = begin, *field; p < to->end;) {
        field = p;
        if ((p = read_field(to, field))) continue;
        to->fault->offset = (size_t)(field - begin);
        return false;
    }
    return true;
}

/* What is not read the fast way is read again: the other one says why. `behind` is how many octets of the stream follow. */
static fb_status read_message(fb_message_columns *reader, fb_bytes message, size_t behind, fb_batch *batch, fb_message_fault *fault) {
    const fb_message_row to = {reader, batch, batch->vectors, batch->rows, message.data + message.size, fault};
    uint64_t unknown_fields = reader->unknown_fields, invalid_texts = reader->invalid_texts;
    if (batch->rows == batch->capacity) return FB_NO_SPACE;
    for (bool fast = behind >= FAST_ROOM;; fast = false) {
        *fault = (fb_message_fault){.column = FB_NO_COLUMN};
        if (FB_LIKELY(fast ? read_fast(&to, message.data) : read_slowly(&to, message.data))) break;
        fb_batch_undo(batch, to.row);
        reader->unknown_fields = unknown_fields;
        reader->invalid_texts = invalid_texts;
        if (!fast) return fault->kind ? FB_BAD_MESSAGE : to.row ? FB_NO_SPACE : FB_NO_MEMORY;
    }
    for (size_t i = 0; i < reader->uneven_count; i++) fb_vector_end(&to.vectors[reader->uneven[i]], to.row);
    batch->rows++;
    return FB_OK;
}

/* Buffers that hold nothing are there, too. */
static bool reserve_uneven(const fb_message_columns *reader, fb_batch *batch) {
    for (size_t i = 0; i < reader->uneven_count; i++) {
        fb_vector *vector = &batch->vectors[reader->uneven[i]];
        if (!vector->values && !fb_batch_reserve(batch, vector, 0)) return false;
    }
    return true;
}

fb_status fb_message_columns_read(fb_message_columns *reader, fb_bytes *rest, fb_batch *batch, fb_message_fault *fault) {
    fb_bytes next = *rest, message;
    fb_status status;
    *fault = (fb_message_fault){.column = FB_NO_COLUMN};
    if (!reserve_uneven(reader, batch)) return FB_NO_MEMORY;
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
