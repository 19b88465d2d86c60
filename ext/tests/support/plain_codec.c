#include "tests/support/plain_codec.h"

#include <stdlib.h>
#include <string.h>

#include "tests/builders/random_plan.h"

enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, GROUP_BEGINS = 3, GROUP_ENDS = 4, FOUR_BYTES = 5 };

unsigned plain_wire(int type) {
    switch (type) {
        case FB_PROTO_FIXED32:
        case FB_PROTO_SFIXED32:
        case FB_PROTO_FLOAT: return FOUR_BYTES;
        case FB_PROTO_FIXED64:
        case FB_PROTO_SFIXED64:
        case FB_PROTO_DOUBLE: return EIGHT_BYTES;
        case FB_PROTO_STRING:
        case FB_PROTO_BYTES:
        case FB_PROTO_MESSAGE: return LENGTH;
        case FB_PROTO_GROUP: return GROUP_BEGINS;
        default: return VARINT;
    }
}

static bool has_numbers(int type) {
    return plain_wire(type) != LENGTH && type != FB_PROTO_GROUP;
}

const plain_number plain_numbers[] = {
    {FB_PROTO_BOOL, 0, 0},
    {FB_PROTO_BOOL, 1, 1},
    {FB_PROTO_BOOL, 2, 1},
    {FB_PROTO_BOOL, UINT64_C(1) << 40, 1},
    {FB_PROTO_BOOL, UINT64_MAX, 1},
    {FB_PROTO_INT32, 1, 1},
    {FB_PROTO_INT32, INT32_MAX, INT32_MAX},
    {FB_PROTO_INT32, UINT64_MAX, UINT64_MAX},
    {FB_PROTO_INT32, UINT32_MAX, UINT64_MAX},
    {FB_PROTO_INT32, 0x80000000, (uint64_t)INT32_MIN},
    {FB_PROTO_INT32, UINT64_C(7) << 32 | 5, 5},
    {FB_PROTO_INT64, UINT32_MAX, UINT32_MAX},
    {FB_PROTO_INT64, UINT64_MAX, UINT64_MAX},
    {FB_PROTO_INT64, (uint64_t)INT64_MIN, (uint64_t)INT64_MIN},
    {FB_PROTO_UINT32, UINT32_MAX, UINT32_MAX},
    {FB_PROTO_UINT32, UINT64_MAX, UINT32_MAX},
    {FB_PROTO_UINT32, UINT64_C(1) << 32, 0},
    {FB_PROTO_UINT64, UINT64_MAX, UINT64_MAX},
    {FB_PROTO_UINT64, UINT64_C(1) << 63, UINT64_C(1) << 63},
    {FB_PROTO_SINT32, 1, UINT64_MAX},
    {FB_PROTO_SINT32, 2, 1},
    {FB_PROTO_SINT32, UINT32_MAX, (uint64_t)INT32_MIN},
    {FB_PROTO_SINT32, UINT32_MAX - 1, INT32_MAX},
    {FB_PROTO_SINT32, UINT64_C(1) << 32 | 3, (uint64_t)-2},
    {FB_PROTO_SINT64, UINT64_MAX, (uint64_t)INT64_MIN},
    {FB_PROTO_SINT64, UINT64_MAX - 1, INT64_MAX},
    {FB_PROTO_SINT64, UINT64_C(1) << 32, UINT64_C(1) << 31},
    {FB_PROTO_ENUM, 7, 7},
    {FB_PROTO_ENUM, UINT64_MAX, UINT64_MAX},
    {FB_PROTO_ENUM, UINT32_MAX, UINT64_MAX},
    {FB_PROTO_ENUM, UINT64_C(1) << 32, 0},
    {FB_PROTO_FIXED32, UINT32_MAX, UINT32_MAX},
    {FB_PROTO_FIXED32, 0x04030201, 0x04030201},
    {FB_PROTO_SFIXED32, UINT32_MAX, UINT64_MAX},
    {FB_PROTO_SFIXED32, 0x80000000, (uint64_t)INT32_MIN},
    {FB_PROTO_SFIXED32, INT32_MAX, INT32_MAX},
    {FB_PROTO_FLOAT, 0xbf800000, 0xbf800000},
    {FB_PROTO_FLOAT, 0x80000000, 0x80000000},
    {FB_PROTO_FIXED64, UINT64_MAX, UINT64_MAX},
    {FB_PROTO_FIXED64, 0x0807060504030201, 0x0807060504030201},
    {FB_PROTO_SFIXED64, (uint64_t)INT64_MIN, (uint64_t)INT64_MIN},
    {FB_PROTO_DOUBLE, 0xbff0000000000000, 0xbff0000000000000},
};
const size_t plain_number_count = sizeof plain_numbers / sizeof *plain_numbers;

/* Building ----------------------------------------------------------------------------------- */

void build_raw(built_message *m, const void *bytes, size_t size) {
    if (size > sizeof m->data - m->size) abort();
    if (size) memcpy(m->data + m->size, bytes, size);
    m->size += size;
}

void build_varint(built_message *m, uint64_t value, size_t size) {
    for (size_t i = 1; size ? i <= size : i == 1 || value; i++) {
        bool last = size ? i == size : value < 128;
        uint8_t byte = (uint8_t)(value % 128 + (last ? 0 : 128));
        build_raw(m, &byte, 1);
        value /= 128;
    }
}

void build_fixed(built_message *m, uint64_t value, size_t size) {
    for (; size; size--, value /= 256) build_raw(m, &(uint8_t){(uint8_t)(value % 256)}, 1);
}

void build_tag(built_message *m, uint32_t number, unsigned wire) {
    build_varint(m, (uint64_t)number * 8 + wire, 0);
}

void build_bytes(built_message *m, uint32_t number, const void *bytes, size_t size) {
    build_tag(m, number, LENGTH);
    build_varint(m, size, 0);
    build_raw(m, bytes, size);
}

void build_scalar(built_message *m, int type, uint64_t raw) {
    unsigned wire = plain_wire(type);
    if (wire == VARINT) build_varint(m, raw, 0);
    else build_fixed(m, raw, wire == FOUR_BYTES ? 4 : 8);
}

/* Draw a number of any size, mostly a small one. */
static uint64_t random_number(void) {
    uint64_t number = (uint64_t)random_word() << 32 | random_word();
    return number >> below(64);
}

static void build_unknown(built_message *m, unsigned depth) {
    uint32_t number = 1 + below(2) * below(40) + below(2) * below(1u << 28);
    unsigned wire = below(5);
    if (wire == GROUP_ENDS) wire = FOUR_BYTES;
    if (wire == LENGTH) {
        build_bytes(m, number, "bytes of one unknown field", below(27));
        return;
    }
    build_tag(m, number, wire);
    if (wire == VARINT) build_varint(m, random_number(), below(3) ? 0 : 10);
    else if (wire == EIGHT_BYTES) build_fixed(m, random_number(), 8);
    else if (wire == FOUR_BYTES) build_fixed(m, random_number(), 4);
    if (wire != GROUP_BEGINS) return;
    for (unsigned more = depth ? below(3) : 0; more; more--) build_unknown(m, depth - 1);
    build_tag(m, number, GROUP_ENDS);
}

static void build_inner(built_message *m, const fb_codec_field *field, unsigned depth) {
    built_message inner = {.size = 0};
    if (depth) build_random(&inner, field->message, depth - 1);
    if (field->type == FB_PROTO_GROUP) {
        build_tag(m, field->number, GROUP_BEGINS);
        build_raw(m, inner.data, inner.size);
        build_tag(m, field->number, GROUP_ENDS);
    } else {
        build_bytes(m, field->number, inner.data, inner.size);
    }
}

static void build_field(built_message *m, const fb_codec_field *field, unsigned depth) {
    if (field->type == FB_PROTO_MESSAGE || field->type == FB_PROTO_GROUP) {
        build_inner(m, field, depth);
    } else if (!has_numbers(field->type)) {
        static const char letters[200];
        build_bytes(m, field->number, letters, below(8) ? below(20) : 120 + below(20));
    } else if (field->repeated && below(2)) {
        built_message elements = {.size = 0};
        for (unsigned more = below(6); more; more--)
            build_scalar(&elements, field->type, random_number());
        build_bytes(m, field->number, elements.data, elements.size);
    } else {
        build_tag(m, field->number, plain_wire(field->type));
        build_scalar(m, field->type, random_number());
    }
}

void build_random(built_message *m, const fb_codec_message *message, unsigned depth) {
    bool ordered = below(3) != 0;
    size_t at = 0;
    for (unsigned more = 1 + below(10); more; more--) {
        if (!message->count || below(8) == 0) {
            build_unknown(m, depth);
            continue;
        }
        if (!ordered) at = below((uint32_t)message->count);
        build_field(m, message->fields + at, depth);
        if (!message->fields[at].repeated || below(2)) at = at + 1 < message->count ? at + 1 : 0;
    }
}

/* Reading ------------------------------------------------------------------------------------ */

/* Read at most ten bytes. Bits above the 64th are dropped. */
static const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, unsigned most,
                                  uint64_t *number) {
    *number = 0;
    for (unsigned i = 0; i < most; i++) {
        if (p + i == end) return NULL;
        *number += (uint64_t)(p[i] % 128) << 7 * i;
        if (p[i] < 128) return p + i + 1;
    }
    return NULL;
}

static const uint8_t *read_fixed(const uint8_t *p, const uint8_t *end, unsigned size,
                                 uint64_t *number) {
    *number = 0;
    if ((size_t)(end - p) < size) return NULL;
    for (unsigned i = size; i--;) *number = *number * 256 + p[i];
    return p + size;
}

/* Convert two's complement of 32 bits by arithmetic. */
static uint64_t signed_word(uint64_t number) {
    number %= UINT64_C(1) << 32;
    return number < UINT64_C(1) << 31 ? number : number - (UINT64_C(1) << 32);
}

/* Convert 0, 1, 2, 3 … to 0, -1, 1, -2 … */
static uint64_t from_zigzag(uint64_t number) {
    return number % 2 ? 0 - number / 2 - 1 : number / 2;
}

static uint64_t number_of_type(int type, uint64_t number) {
    uint64_t word = number % (UINT64_C(1) << 32);
    switch (type) {
        case FB_PROTO_BOOL: return number ? 1 : 0;
        case FB_PROTO_INT32:
        case FB_PROTO_ENUM:
        case FB_PROTO_SFIXED32: return signed_word(word);
        case FB_PROTO_UINT32: return word;
        case FB_PROTO_SINT32: return from_zigzag(word);
        case FB_PROTO_SINT64: return from_zigzag(number);
        default: return number;
    }
}

const uint8_t *plain_scalar(int type, const uint8_t *p, const uint8_t *end, uint64_t *value) {
    unsigned wire = plain_wire(type);
    p = wire == VARINT ? read_varint(p, end, 10, value)
                       : read_fixed(p, end, wire == FOUR_BYTES ? 4 : 8, value);
    if (p) *value = number_of_type(type, *value);
    return p;
}

static const uint8_t *read_tag(const uint8_t *p, const uint8_t *end, uint64_t *number,
                               unsigned *wire) {
    uint64_t tag;
    p = read_varint(p, end, 5, &tag);
    if (!p || tag > UINT32_MAX || tag < 8) return NULL;
    *number = tag / 8;
    *wire = (unsigned)(tag % 8);
    return p;
}

static const uint8_t *read_length(const uint8_t *p, const uint8_t *end, uint64_t *size) {
    p = read_varint(p, end, 5, size);
    return p && *size <= INT32_MAX && *size <= (uint64_t)(end - p) ? p : NULL;
}

static const uint8_t *pass(const uint8_t *p, const uint8_t *end, uint64_t number, unsigned wire,
                           unsigned depth, const uint8_t **last);

/* Skip the content of a group and its end tag, at which *last begins. Groups are nested at most a
   hundred deep. */
static const uint8_t *pass_group(const uint8_t *p, const uint8_t *end, uint64_t number,
                                 unsigned depth, const uint8_t **last) {
    if (depth == 100) return NULL;
    for (;;) {
        uint64_t inner;
        unsigned wire;
        const uint8_t *unused;
        *last = p;
        if (!(p = read_tag(p, end, &inner, &wire))) return NULL;
        if (wire == GROUP_ENDS) return inner == number ? p : NULL;
        if (!(p = pass(p, end, inner, wire, depth + 1, &unused))) return NULL;
    }
}

static const uint8_t *pass(const uint8_t *p, const uint8_t *end, uint64_t number, unsigned wire,
                           unsigned depth, const uint8_t **last) {
    uint64_t ignored;
    switch (wire) {
        case VARINT: return read_varint(p, end, 10, &ignored);
        case EIGHT_BYTES: return read_fixed(p, end, 8, &ignored);
        case FOUR_BYTES: return read_fixed(p, end, 4, &ignored);
        case LENGTH: return (p = read_length(p, end, &ignored)) ? p + ignored : NULL;
        case GROUP_BEGINS: return pass_group(p, end, number, depth, last);
        default: return NULL;
    }
}

static const fb_codec_field *find_field(const fb_codec_message *message, uint64_t number) {
    for (size_t i = 0; i < message->count; i++)
        if (message->fields[i].number == number) return message->fields + i;
    return NULL;
}

static bool is_member(const fb_codec_field *field, uint64_t value) {
    for (size_t i = 0; i < field->member_count; i++)
        if ((uint64_t)(int64_t)field->members[i] == value) return true;
    return !field->members;
}

plain_answer plain_next(const fb_codec_message *message, const uint8_t *p, const uint8_t *end,
                        plain_item *item) {
    const uint8_t *begin = p, *value, *last = NULL;
    uint64_t number, size;
    unsigned wire;
    *item = (plain_item){NULL};
    if (p == end) return PLAIN_END;
    if (!(value = read_tag(p, end, &number, &wire)) ||
        !(item->after = pass(value, end, number, wire, 0, &last)))
        return PLAIN_BAD;
    const fb_codec_field *field = find_field(message, number);
    bool own = field && wire == plain_wire(field->type);
    item->packed = field && !own && wire == LENGTH && field->repeated && has_numbers(field->type);
    if (own && has_numbers(field->type)) {
        plain_scalar(field->type, value, end, &item->value);
        if (!is_member(field, item->value)) own = false;
    }
    if (own || item->packed) item->field = field;
    item->begin = !item->field ? begin : wire == LENGTH ? read_length(value, end, &size) : value;
    item->end = item->field && last ? last : item->after;
    return PLAIN_FIELD;
}

/* Choosing ----------------------------------------------------------------------------------- */

static const int32_t members[] = {INT32_MIN, -1, 0, 1, 2, 300, INT32_MAX};

/* Choose a field from four bytes: two for a number of any magnitude, one for the type, and one for
   the rest. */
static fb_codec_field choose_field(codec_choice *c, const uint8_t bytes[4]) {
    fb_codec_field field = {.number =
                                1 + ((uint32_t)bytes[0] << (bytes[1] % 4 ? 0 : bytes[1] / 4 % 22)),
                            .type = bytes[2] % FB_PROTO_COUNT};
    field.repeated = bytes[3] & 1;
    field.packed = bytes[3] & 2;
    field.presence = bytes[3] & 4;
    if (field.type == FB_PROTO_ENUM && bytes[3] & 8) {
        field.members = members;
        field.member_count = sizeof members / sizeof *members;
    }
    if (field.type == FB_PROTO_MESSAGE || field.type == FB_PROTO_GROUP)
        field.message = c->types + (bytes[3] >> 4) % CODEC_TYPES;
    return field;
}

/* Choose a message type. One byte is the number of fields and the number of places. Of two fields
   with the same number the first is used. */
static size_t choose_type(codec_choice *c, size_t which, const uint8_t *data, size_t size) {
    static const size_t places[] = {0, 2, 20, CODEC_PLACES};
    fb_codec_message *type = c->types + which;
    type->fields = c->fields[which];
    size_t taken = size ? 1 : 0, count = size ? data[0] % (CODEC_FIELDS + 1) : 0,
           place_count = places[size ? data[0] / 64 : 0];
    for (; type->count < count && size - taken >= 4; taken += 4) {
        fb_codec_field field = choose_field(c, data + taken);
        if (find_field(type, field.number)) count--;
        else if (fb_codec_field_finish(&field) == FB_OK) type->fields[type->count++] = field;
        else abort();
    }
    if (fb_codec_message_finish(type, c->places[which], place_count) != FB_OK) abort();
    return taken;
}

size_t codec_choice_make(codec_choice *c, const uint8_t *data, size_t size) {
    size_t taken = 0;
    memset(c->types, 0, sizeof c->types);
    for (size_t i = 0; i < CODEC_TYPES; i++) taken += choose_type(c, i, data + taken, size - taken);
    return taken;
}
