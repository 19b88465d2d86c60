/* The index of the fields of a message type, and the slow path for fields that are not the expected
   one. */
#include "core/codec/codec.h"

#include <stdlib.h>

static const uint8_t wire_types[] = {
#define FB_X(constant, name, wire) FB_WIRE_##wire,
    FB_PROTO_LIST(FB_X)
#undef FB_X
};

static const char *const type_names[] = {
#define FB_X(constant, name, wire) name,
    FB_PROTO_LIST(FB_X)
#undef FB_X
};

const char *fb_proto_name(int type) {
    return type_names[type];
}

static bool is_scalar(const fb_codec_field *field) {
    return field->type < FB_PROTO_STRING;
}

fb_status fb_codec_field_finish(fb_codec_field *field) {
    uint8_t bytes[8] = {0};
    if (field->type >= FB_PROTO_COUNT || !field->number || field->number > FB_NUMBER_MAX)
        return FB_BAD_ARGUMENT;
    field->wire = wire_types[field->type];
    if (!field->repeated || !is_scalar(field)) field->packed = false;
    fb_wire_type wire = field->packed ? FB_WIRE_BYTES : (fb_wire_type)field->wire;
    field->tag_size =
        (uint8_t)(fb_wire_put_varint(bytes, fb_wire_tag(field->number, wire)) - bytes);
    field->tag = fb_load_little64(bytes);
    bool quick =
        field->tag_size == 1 && !field->packed && !field->members && field->type != FB_PROTO_GROUP;
    field->quick = quick ? bytes[0] : UINT16_MAX;
    return FB_OK;
}

static int compare_numbers(const void *a, const void *b) {
    uint32_t one = ((const fb_codec_field *)a)->number, other = ((const fb_codec_field *)b)->number;
    return (one > other) - (one < other);
}

fb_status fb_codec_message_finish(fb_codec_message *message, uint16_t *places, size_t place_count) {
    fb_codec_field *fields = message->fields;
    if (message->count > FB_CODEC_FIELDS) return FB_BAD_ARGUMENT;
    if (message->count) qsort(fields, message->count, sizeof *fields, compare_numbers);
    for (size_t i = 1; i < message->count; i++) {
        if (fields[i - 1].number == fields[i].number) return FB_BAD_ARGUMENT;
    }
    message->places = places;
    message->place_count = place_count;
    for (size_t i = 0; i < place_count; i++) places[i] = 0;
    for (size_t i = 0; i < message->count; i++) {
        if (fields[i].number < place_count) places[fields[i].number] = (uint16_t)(i + 1);
    }
    return FB_OK;
}

static const fb_codec_field *find_field(const fb_codec_message *message, uint32_t number) {
    if (number < message->place_count) {
        size_t place = message->places[number];
        return place ? message->fields + place - 1 : NULL;
    }
    size_t low = 0, high = message->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (message->fields[middle].number < number) low = middle + 1;
        else high = middle;
    }
    return low < message->count && message->fields[low].number == number ? message->fields + low
                                                                         : NULL;
}

bool fb_codec_has_member(const fb_codec_field *field, uint64_t value) {
    size_t low = 0, high = field->member_count;
    if (!field->members) return true;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (field->members[middle] < (int64_t)value) low = middle + 1;
        else high = middle;
    }
    return low < field->member_count && field->members[low] == (int64_t)value;
}

/* Read a tag or a length: at most five bytes and 32 bits. */
static const uint8_t *read_word(const uint8_t *p, const uint8_t *end, uint64_t *word) {
    if (end - p > FB_TAG_MAX) end = p + FB_TAG_MAX;
    return (p = fb_wire_read_varint(p, end, word)) && *word <= UINT32_MAX ? p : NULL;
}

static const uint8_t *read_tag(const uint8_t *p, const uint8_t *end, uint32_t *number,
                               unsigned *wire) {
    uint64_t tag;
    if (!(p = read_word(p, end, &tag)) || tag >> 3 == 0) return NULL;
    *number = (uint32_t)(tag >> 3);
    *wire = (unsigned)(tag & 7);
    return p;
}

static const uint8_t *read_bytes(const uint8_t *p, const uint8_t *end, fb_bytes *bytes) {
    uint64_t size;
    if (!(p = read_word(p, end, &size)) || size > INT32_MAX || size > (uint64_t)(end - p))
        return NULL;
    *bytes = (fb_bytes){p, (size_t)size};
    return p + size;
}

/* Skip a value that is not a group. */
static const uint8_t *skip_value(const uint8_t *p, const uint8_t *end, unsigned wire) {
    uint64_t value;
    fb_bytes bytes;
    switch (wire) {
        case FB_WIRE_VARINT: return fb_wire_read_varint(p, end, &value);
        case FB_WIRE_FIXED64: return end - p < 8 ? NULL : p + 8;
        case FB_WIRE_BYTES: return read_bytes(p, end, &bytes);
        case FB_WIRE_FIXED32: return end - p < 4 ? NULL : p + 4;
        default: return NULL;
    }
}

/* Skip a group whose start tag was read, in a message at depth `outer`. *fields becomes its
   content. */
static const uint8_t *skip_group(const uint8_t *p, const uint8_t *end, uint32_t number,
                                 size_t outer, fb_bytes *fields) {
    uint32_t open[FB_CODEC_DEPTH]; /* the numbers of the groups that are open */
    const uint8_t *begin = p;
    size_t depth = 0;
    if (outer >= FB_CODEC_DEPTH) return NULL;
    open[depth++] = number;
    while (depth) {
        const uint8_t *field = p;
        unsigned wire;
        if (!(p = read_tag(p, end, &number, &wire))) return NULL;
        if (wire == FB_WIRE_START_GROUP) {
            if (outer + depth == FB_CODEC_DEPTH) return NULL;
            open[depth++] = number;
        } else if (wire == FB_WIRE_END_GROUP) {
            if (open[--depth] != number) return NULL;
            *fields = (fb_bytes){begin, (size_t)(field - begin)};
        } else if (!(p = skip_value(p, end, wire))) {
            return NULL;
        }
    }
    return p;
}

static bool fits_wire_type(const fb_codec_field *field, unsigned wire) {
    return wire == field->wire || (wire == FB_WIRE_BYTES && field->repeated && is_scalar(field));
}

fb_status fb_codec_next_any(fb_codec_reader *reader, fb_codec_item *item) {
    const uint8_t *p = reader->p, *end = reader->end;
    uint32_t number;
    unsigned wire;
    if (!(p = read_tag(p, end, &number, &wire))) return FB_BAD_MESSAGE;
    const fb_codec_message *message = reader->message;
    const fb_codec_field *field = find_field(message, number);
    item->field = field && fits_wire_type(field, wire) ? field : NULL;
    item->packed = item->field && wire != field->wire;
    if (wire == FB_WIRE_START_GROUP) p = skip_group(p, end, number, reader->depth, &item->bytes);
    else if (!item->field) p = skip_value(p, end, wire);
    else if (wire == FB_WIRE_BYTES) p = read_bytes(p, end, &item->bytes);
    else p = fb_codec_read_scalar(field, p, end, &item->value);
    if (!p) return FB_BAD_MESSAGE;
    if (item->field && !item->packed && field->members && !fb_codec_has_member(field, item->value))
        item->field = NULL;
    if (!item->field) item->bytes = (fb_bytes){reader->p, (size_t)(p - reader->p)};
    else if (field->repeated && !item->packed) reader->expected = field;
    else reader->expected = fb_codec_field_after(message, field);
    reader->p = p;
    return FB_OK;
}

/* Reasons of failures ------------------------------------------------------------------------- */

static const char *describe_varint_problem(const uint8_t *p, const uint8_t *end) {
    return end - p < FB_VARINT_MAX ? "a varint that is cut short"
                                   : "a varint of more than 10 bytes";
}

static const char *describe_word_problem(const uint8_t *p, const uint8_t *end, bool tag) {
    uint64_t word;
    const uint8_t *after = fb_wire_read_varint(p, end, &word);
    if (after && after - p <= FB_TAG_MAX && tag && word >> 3 == 0 && word <= UINT32_MAX)
        return "a field of number 0";
    if (!after && end - p < FB_TAG_MAX)
        return tag ? "a tag that is cut short" : "a length that is cut short";
    if (after && !tag && after - p <= FB_TAG_MAX && word <= INT32_MAX)
        return "a length beyond the end of the message";
    return tag ? "a tag of more than 32 bits" : "a length of 2 GiB or more";
}

const char *fb_codec_problem(const fb_codec_reader *reader, const fb_codec_field **field) {
    const uint8_t *p, *end = reader->end;
    uint32_t number;
    unsigned wire;
    *field = NULL;
    if (!(p = read_tag(reader->p, end, &number, &wire)))
        return describe_word_problem(reader->p, end, true);
    const fb_codec_field *found = find_field(reader->message, number);
    if (found && fits_wire_type(found, wire)) *field = found;
    switch (wire) {
        case FB_WIRE_VARINT: return describe_varint_problem(p, end);
        case FB_WIRE_BYTES: return describe_word_problem(p, end, false);
        case FB_WIRE_FIXED64: return "a number of 8 bytes that is cut short";
        case FB_WIRE_FIXED32: return "a number of 4 bytes that is cut short";
        case FB_WIRE_START_GROUP:
            return "a group without an end, with a malformed field, or too deep";
        case FB_WIRE_END_GROUP: return "the end of a group that has not begun";
        default:
            return wire == 6 ? "wire type 6, which does not exist"
                             : "wire type 7, which does not exist";
    }
}

static const fb_codec_message no_fields; /* all fields are unknown */

bool fb_codec_are_fields(fb_bytes bytes, size_t depth) {
    fb_codec_reader reader;
    fb_codec_item item;
    fb_status status;
    fb_codec_reader_begin(&reader, &no_fields, bytes);
    reader.depth = depth;
    while ((status = fb_codec_next(&reader, &item)) == FB_OK) continue;
    return status == FB_END;
}

bool fb_codec_is_unknown_entry(const fb_codec_message *entry, fb_bytes bytes, bool all) {
    fb_codec_reader fields;
    fb_codec_item item;
    if (!all && !entry->fields[1].members) return false;
    fb_codec_reader_begin(&fields, entry, bytes);
    while (fb_codec_next(&fields, &item) == FB_OK) {
        uint64_t tag;
        if (item.field) continue;
        if (all || (fb_wire_read_varint(item.bytes.data, fields.p, &tag) &&
                    tag == fb_wire_tag(2, FB_WIRE_VARINT)))
            return true;
    }
    return false;
}

const char *fb_codec_read_time(fb_bytes bytes, size_t depth, int64_t *seconds, int32_t *nanoseconds,
                               const uint8_t **where) {
    const fb_codec_field *field;
    fb_codec_reader fields;
    fb_codec_item item;
    fb_status status;
    fb_codec_reader_begin(&fields, &no_fields, bytes);
    fields.depth = depth;
    while ((status = fb_codec_next(&fields, &item)) == FB_OK) {
        uint64_t tag, value;
        const uint8_t *end = item.bytes.data + item.bytes.size,
                      *p = fb_wire_read_varint(item.bytes.data, end, &tag);
        if (!p || !fb_wire_read_varint(p, end, &value)) continue;
        if (tag == fb_wire_tag(1, FB_WIRE_VARINT)) *seconds = (int64_t)value;
        if (tag == fb_wire_tag(2, FB_WIRE_VARINT)) *nanoseconds = (int32_t)(uint32_t)value;
    }
    *where = fields.p;
    return status == FB_END ? NULL : fb_codec_problem(&fields, &field);
}
