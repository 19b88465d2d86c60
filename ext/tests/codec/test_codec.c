/* Message types of any kind, and their messages read field by field: complete, cut and damaged. The
   expected result comes from a reader that shares no code with the core (plain_codec.h). */
#include "tests/support/check.h"

#include "core/codec/codec.h"
#include "tests/support/plain_codec.h"
#include "tests/builders/random_plan.h"

#define COUNT(array)   (sizeof(array) / sizeof *(array))
#define BYTES(literal) ((fb_bytes){(const uint8_t *)(literal), sizeof(literal) - 1})

enum { PLACES = 32 };

static uint16_t places[PLACES];

static fb_codec_message finish(fb_codec_field *fields, size_t count, size_t place_count) {
    fb_codec_message message = {.fields = fields, .count = count};
    for (size_t i = 0; i < count; i++) CHECK_STATUS(fb_codec_field_finish(fields + i), FB_OK);
    CHECK_STATUS(fb_codec_message_finish(&message, places, place_count), FB_OK);
    return message;
}

/* Make a field of each type, with its number. Groups and messages have the same type again. */
static fb_codec_message finish_all(fb_codec_field fields[FB_PROTO_COUNT], uint32_t first,
                                   bool repeated, fb_codec_message *own) {
    for (unsigned i = 0; i < FB_PROTO_COUNT; i++)
        fields[i] = (fb_codec_field){.number = first + i,
                                     .type = (uint8_t)i,
                                     .repeated = repeated,
                                     .packed = repeated,
                                     .message = own};
    return finish(fields, FB_PROTO_COUNT, PLACES);
}

/* Message types ------------------------------------------------------------------------------ */

static void names_types_as_a_proto_writes_them(void) {
    static const char *const names[] = {"bool",   "int32",   "int64",    "uint32",  "uint64",
                                        "sint32", "sint64",  "enum",     "fixed32", "sfixed32",
                                        "float",  "fixed64", "sfixed64", "double",  "string",
                                        "bytes",  "message", "group"};
    CHECK_EQUAL(COUNT(names), FB_PROTO_COUNT);
    for (int i = 0; i < FB_PROTO_COUNT; i++) CHECK(strcmp(fb_proto_name(i), names[i]) == 0);
}

static void makes_the_tag_of_every_field(void) {
    static const uint32_t numbers[] = {1,      15,     16,       2047,     2048,
                                       262143, 262144, 33554431, 33554432, FB_NUMBER_MAX};
    for (size_t i = 0; i < COUNT(numbers); i++)
        for (unsigned type = 0; type < FB_PROTO_COUNT; type++)
            for (unsigned packed = 0; packed < 4; packed++) {
                fb_codec_field field = {.number = numbers[i],
                                        .type = (uint8_t)type,
                                        .repeated = packed & 1,
                                        .packed = packed & 2};
                built_message tag = {.size = 0};
                uint8_t bytes[FB_CODEC_ROOM];
                bool is_packed = packed == 3 && type < FB_PROTO_STRING;
                CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
                build_tag(&tag, numbers[i], is_packed ? FB_WIRE_BYTES : plain_wire((int)type));
                uint8_t *end = fb_codec_put_tag(bytes, &field);
                CHECK_BYTES(bytes, (size_t)(end - bytes), tag.data, tag.size);
                CHECK_EQUAL(field.wire, plain_wire((int)type));
                CHECK(field.packed == is_packed);
            }
}

static void refuses_fields_without_a_number_or_type(void) {
    static const struct {
        uint32_t number;
        uint8_t type;
    } cases[] = {{0, 0}, {FB_NUMBER_MAX + 1, 0}, {UINT32_MAX, 0}, {1, FB_PROTO_COUNT}, {1, 255}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        fb_codec_field field = {.number = cases[i].number, .type = cases[i].type};
        CHECK_STATUS(fb_codec_field_finish(&field), FB_BAD_ARGUMENT);
    }
}

static void orders_fields_by_number(void) {
    fb_codec_field fields[] = {{.number = 7, .slot = 0},
                               {.number = FB_NUMBER_MAX, .slot = 1},
                               {.number = 1, .slot = 2},
                               {.number = 300, .slot = 3}};
    static const uint16_t slots[] = {2, 0, 3, 1};
    finish(fields, COUNT(fields), PLACES);
    for (size_t i = 0; i < COUNT(fields); i++) CHECK_EQUAL(fields[i].slot, slots[i]);
}

static void refuses_two_fields_of_one_number(void) {
    fb_codec_field fields[] = {{.number = 7}, {.number = 300}, {.number = 2}, {.number = 300}};
    fb_codec_message message = {.fields = fields, .count = COUNT(fields)};
    CHECK_STATUS(fb_codec_message_finish(&message, places, PLACES), FB_BAD_ARGUMENT);
    message.count--;
    fields[0].number = fields[1].number; /* now sorted */
    CHECK_STATUS(fb_codec_message_finish(&message, places, 0), FB_BAD_ARGUMENT);
}

/* Sort fields in the worst order, within the time limit. */
static void takes_as_many_fields_as_have_places(void) {
    size_t count = FB_CODEC_FIELDS;
    fb_codec_field *fields = calloc(count + 1, sizeof *fields);
    uint16_t *many = malloc((count + 2) * sizeof *many);
    fb_codec_message message = {.fields = fields, .count = count};
    if (!fields || !many) abort();
    for (size_t i = 0; i <= count; i++) {
        fields[i].number = (uint32_t)(count + 1 - i);
        CHECK_STATUS(fb_codec_field_finish(fields + i), FB_OK);
    }
    CHECK_STATUS(fb_codec_message_finish(&message, many, count + 2), FB_OK);
    CHECK_EQUAL(fields[0].number, 2);
    CHECK_EQUAL(many[2], 1);
    CHECK_EQUAL(many[count + 1], count);
    CHECK_EQUAL(many[1], 0);
    message.count++;
    CHECK_STATUS(fb_codec_message_finish(&message, many, count + 2), FB_BAD_ARGUMENT);
    free(many);
    free(fields);
}

/* Reading ------------------------------------------------------------------------------------ */

static bool is_number(const fb_codec_field *field) {
    return field->type < FB_PROTO_STRING;
}

static void check_elements(const fb_codec_field *field, fb_bytes elements) {
    const uint8_t *p = elements.data, *end = p + elements.size;
    for (;;) {
        uint64_t value = 0, expected = 0;
        fb_status status = fb_codec_next_element(field, &elements, &value);
        const uint8_t *after = p < end ? plain_scalar(field->type, p, end, &expected) : NULL;
        CHECK_STATUS(status, after ? FB_OK : p == end ? FB_END : FB_BAD_MESSAGE);
        CHECK(elements.data == (after ? after : p) && elements.data + elements.size == end);
        if (!after || status != FB_OK) return;
        CHECK_EQUAL(value, expected);
        p = after;
    }
}

static void check_item(const fb_codec_item *item, const plain_item *plain) {
    CHECK(item->field == plain->field && item->packed == plain->packed);
    if (item->field && is_number(item->field) && !item->packed) {
        CHECK_EQUAL(item->value, plain->value);
    } else {
        CHECK(item->bytes.data == plain->begin);
        CHECK_EQUAL(item->bytes.size, plain->end - plain->begin);
    }
    if (item->packed) check_elements(item->field, item->bytes);
}

/* Compare each field with the plain reader. The result must not depend on the expected field. */
static fb_status check_fields(const fb_codec_message *message, fb_bytes bytes) {
    const uint8_t *end = bytes.data + bytes.size;
    int before = fb_check_failures;
    fb_codec_reader reader;
    fb_codec_reader_begin(&reader, message, bytes);
    for (;;) {
        plain_item plain;
        plain_answer answer = plain_next(message, reader.p, end, &plain);
        fb_status expected = answer == PLAIN_FIELD ? FB_OK
                             : answer == PLAIN_END ? FB_END
                                                   : FB_BAD_MESSAGE;
        const uint8_t *begin = reader.p;
        for (size_t i = 0; i <= message->count; i++) {
            fb_codec_reader other = reader;
            fb_codec_item item;
            other.expected = i < message->count ? message->fields + i : NULL;
            CHECK_STATUS(fb_codec_next(&other, &item), expected);
            CHECK(other.p == (expected == FB_OK ? plain.after : begin));
            if (expected == FB_OK && fb_check_failures == before) check_item(&item, &plain);
        }
        fb_codec_item item;
        CHECK_STATUS(fb_codec_next(&reader, &item), expected);
        CHECK(reader.p == (expected == FB_OK ? plain.after : begin) && reader.end == end);
        if (expected != FB_OK || fb_check_failures != before) return expected;
        check_item(&item, &plain);
        if (item.field && !is_number(item.field) && item.field->message)
            check_fields(item.field->message, item.bytes);
    }
}

static fb_status check_guarded(const fb_codec_message *message, const void *bytes, size_t size) {
    uint8_t *copy = fb_guarded_copy(bytes, size);
    fb_status status = check_fields(message, (fb_bytes){copy, size});
    fb_guarded_free(copy, size);
    return status;
}

static void finds_fields_by_place_and_by_search(void) {
    static const uint32_t numbers[] = {2, 3, 30, 31, 32, 33, 5000, 5002, FB_NUMBER_MAX - 1};
    static const size_t place_counts[] = {0, 1, 3, 31, PLACES};
    for (size_t i = 0; i < COUNT(place_counts); i++)
        for (size_t count = 0; count <= COUNT(numbers); count++) {
            fb_codec_field fields[COUNT(numbers)];
            for (size_t k = 0; k < count; k++) fields[k] = (fb_codec_field){.number = numbers[k]};
            memset(places, 0xff, sizeof places);
            fb_codec_message message = finish(fields, count, place_counts[i]);
            built_message m = {.size = 0};
            for (size_t k = 0; k < 3 * COUNT(numbers); k++) {
                build_tag(&m, numbers[k / 3] + (uint32_t)(k % 3) - 1, FB_WIRE_VARINT);
                build_varint(&m, 1, 0);
            }
            CHECK_STATUS(check_guarded(&message, m.data, m.size), FB_END);
        }
}

/* Read with and without bytes behind the message, after tags of one, two and five bytes, with the
   field expected or not. */
static void reads_numbers_of_every_type(void) {
    static const uint32_t at[] = {1, 16, FB_NUMBER_MAX};
    for (size_t i = 0; i < plain_number_count; i++)
        for (unsigned how = 0; how < 2 * COUNT(at); how++) {
            fb_codec_field fields[] = {{.number = at[how / 2], .type = plain_numbers[i].type}};
            fb_codec_message message = finish(fields, 1, PLACES);
            built_message m = {.size = 0};
            fb_codec_reader reader;
            fb_codec_item item;
            build_tag(&m, at[how / 2], plain_wire(plain_numbers[i].type));
            build_scalar(&m, plain_numbers[i].type, plain_numbers[i].raw);
            size_t size = m.size;
            if (how & 1) build_bytes(&m, 9, "enough octets", 13);
            fb_codec_reader_begin(&reader, &message, (fb_bytes){m.data, m.size});
            CHECK_STATUS(fb_codec_next(&reader, &item), FB_OK);
            CHECK(item.field == fields && !item.packed);
            CHECK_EQUAL(item.value, plain_numbers[i].value);
            CHECK_EQUAL(reader.p - m.data, size);
            CHECK_STATUS(check_guarded(&message, m.data, m.size), FB_END);
        }
}

/* Read packed and unpacked elements and a mix, for both declarations. */
static void reads_elements_packed_and_not(void) {
    for (size_t i = 0; i < plain_number_count; i++)
        for (unsigned packed = 0; packed < 2; packed++) {
            fb_codec_field fields[] = {
                {.number = 1, .type = plain_numbers[i].type, .repeated = true, .packed = packed},
                {.number = 2}};
            fb_codec_message message = finish(fields, 2, PLACES);
            built_message m = {.size = 0}, elements = {.size = 0};
            fb_codec_reader reader;
            fb_codec_item item;
            uint64_t value = 0;
            for (unsigned k = 0; k < 3; k++)
                build_scalar(&elements, plain_numbers[i].type, plain_numbers[i].raw);
            build_bytes(&m, 1, elements.data, elements.size);
            for (unsigned k = 0; k < 2; k++) {
                build_tag(&m, 1, plain_wire(plain_numbers[i].type));
                build_scalar(&m, plain_numbers[i].type, plain_numbers[i].raw);
            }
            build_bytes(&m, 1, "", 0);
            build_tag(&m, 2, FB_WIRE_VARINT), build_varint(&m, 1, 0);
            fb_codec_reader_begin(&reader, &message, (fb_bytes){m.data, m.size});
            CHECK_STATUS(fb_codec_next(&reader, &item), FB_OK);
            CHECK(item.field == fields && item.packed);
            for (unsigned k = 0; k < 3; k++) {
                CHECK_STATUS(fb_codec_next_element(fields, &item.bytes, &value), FB_OK);
                CHECK_EQUAL(value, plain_numbers[i].value);
            }
            CHECK_STATUS(fb_codec_next_element(fields, &item.bytes, &value), FB_END);
            CHECK_STATUS(check_guarded(&message, m.data, m.size), FB_END);
            /* cut elements in a complete message */
            for (size_t size = 0; size <= elements.size; size++) {
                m.size = 0;
                build_bytes(&m, 1, elements.data, size);
                CHECK_STATUS(check_guarded(&message, m.data, m.size), FB_END);
            }
        }
}

static void reads_numbers_of_a_closed_enum_that_it_has(void) {
    static const int32_t members[] = {INT32_MIN, -1, 0, 5, INT32_MAX};
    fb_codec_field fields[] = {
        {.number = 1, .type = FB_PROTO_ENUM, .members = members, .member_count = COUNT(members)}};
    fb_codec_message message = finish(fields, 1, PLACES);
    static const struct {
        uint64_t raw;
        bool has;
    } cases[] = {{0, true},
                 {5, true},
                 {4, false},
                 {6, false},
                 {1, false},
                 {UINT64_MAX, true},
                 {UINT64_MAX - 1, false},
                 {INT32_MAX, true},
                 {INT32_MAX - 1, false},
                 {UINT32_MAX, true},
                 {0x80000000, true},
                 {0x80000001, false},
                 {UINT64_C(1) << 32 | 5, true},
                 {UINT64_C(1) << 32 | 4, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        built_message m = {.size = 0};
        fb_codec_reader reader;
        fb_codec_item item;
        build_tag(&m, 1, FB_WIRE_VARINT), build_varint(&m, cases[i].raw, 0);
        fb_codec_reader_begin(&reader, &message, (fb_bytes){m.data, m.size});
        CHECK_STATUS(fb_codec_next(&reader, &item), FB_OK);
        CHECK((item.field != NULL) == cases[i].has);
        if (!item.field) CHECK_BYTES(item.bytes.data, item.bytes.size, m.data, m.size);
        CHECK_STATUS(check_guarded(&message, m.data, m.size), FB_END);
        CHECK(fb_codec_has_member(fields, (uint64_t)(int64_t)(int32_t)cases[i].raw) ==
              cases[i].has);
    }
    fields[0].member_count = 0;
    CHECK(!fb_codec_has_member(fields, 0)); /* closed, without members */
    fields[0].members = NULL;
    CHECK(fb_codec_has_member(fields, 12345));
}

/* Groups ------------------------------------------------------------------------------------- */

static fb_status next(const fb_codec_message *message, fb_bytes bytes, fb_codec_item *item) {
    fb_codec_reader reader;
    fb_codec_reader_begin(&reader, message, bytes);
    fb_status status = fb_codec_next(&reader, item);
    CHECK((check_guarded(message, bytes.data, bytes.size) == FB_BAD_MESSAGE) ==
          (status == FB_BAD_MESSAGE));
    return status;
}

static void reads_what_is_in_a_group(void) {
    fb_codec_message message;
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_GROUP, .message = &message},
                               {.number = 2}};
    fb_codec_item item;
    message = finish(fields, 2, PLACES);
    CHECK_STATUS(next(&message, BYTES("\x0b\x10\x05\x0b\x0c\x12\x01\x0c\x0c"), &item), FB_OK);
    CHECK(item.field == fields);
    CHECK_BYTES(item.bytes.data, item.bytes.size, "\x10\x05\x0b\x0c\x12\x01\x0c", 7);
    /* an end tag that is longer than necessary */
    CHECK_STATUS(next(&message, BYTES("\x0b\x8c\x80\x80\x80\x00"), &item), FB_OK);
    CHECK_EQUAL(item.bytes.size, 0);
    /* an unknown group, with its tags */
    CHECK_STATUS(next(&message, BYTES("\x23\x2b\x2c\x24"), &item), FB_OK);
    CHECK(!item.field);
    CHECK_BYTES(item.bytes.data, item.bytes.size, "\x23\x2b\x2c\x24", 4);
    /* a group where a number is declared */
    CHECK_STATUS(next(&message, BYTES("\x13\x14"), &item), FB_OK);
    CHECK(!item.field);
    CHECK_EQUAL(item.bytes.size, 2);
    /* bytes where a group is declared */
    CHECK_STATUS(next(&message, BYTES("\x0a\x00"), &item), FB_OK);
    CHECK(!item.field);
}

static void refuses_groups_that_do_not_end_as_they_began(void) {
    static const fb_bytes cases[] = {{(const uint8_t *)"\x0b", 1},
                                     {(const uint8_t *)"\x0b\x14", 2},
                                     {(const uint8_t *)"\x0b\x13\x0c\x14", 4},
                                     {(const uint8_t *)"\x0c", 1},
                                     {(const uint8_t *)"\x14", 1},
                                     {(const uint8_t *)"\x0b\x00\x01\x0c", 4},
                                     {(const uint8_t *)"\x0b\x0f\x0c", 3},
                                     {(const uint8_t *)"\x0b\x0a\x05\x0c", 4},
                                     {(const uint8_t *)"\x0b\x10", 2},
                                     {(const uint8_t *)"\x1b\x23\x1c\x24", 4},
                                     {(const uint8_t *)"\x1b\x04\x1c", 3},
                                     {(const uint8_t *)"\x24", 1}};
    fb_codec_message message;
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_GROUP, .message = &message},
                               {.number = 2}};
    fb_codec_item item;
    message = finish(fields, 2, PLACES);
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK_STATUS(next(&message, cases[i], &item), FB_BAD_MESSAGE);
}

static void reads_groups_a_hundred_deep(void) {
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_GROUP}};
    fb_codec_message message = finish(fields, 1, PLACES);
    for (uint32_t number = 1; number < 3; number++)
        for (size_t depth = FB_CODEC_DEPTH - 1; depth < FB_CODEC_DEPTH + 3; depth++) {
            built_message m = {.size = 0};
            fb_codec_item item;
            for (size_t i = 0; i < depth; i++) build_tag(&m, number, FB_WIRE_START_GROUP);
            for (size_t i = 0; i < depth; i++) build_tag(&m, number, FB_WIRE_END_GROUP);
            CHECK_STATUS(next(&message, (fb_bytes){m.data, m.size}, &item),
                         depth <= FB_CODEC_DEPTH ? FB_OK : FB_BAD_MESSAGE);
        }
}

static void counts_groups_on_top_of_the_messages_that_they_are_in(void) {
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_GROUP}};
    fb_codec_message message = finish(fields, 1, PLACES);
    for (size_t outer = FB_CODEC_DEPTH - 2; outer <= FB_CODEC_DEPTH + 1; outer++)
        for (size_t depth = 1; depth < 4; depth++) {
            built_message m = {.size = 0};
            fb_codec_reader reader;
            fb_codec_item item;
            for (size_t i = 0; i < depth; i++) build_tag(&m, 2, FB_WIRE_START_GROUP);
            for (size_t i = 0; i < depth; i++) build_tag(&m, 2, FB_WIRE_END_GROUP);
            fb_codec_reader_begin(&reader, &message, (fb_bytes){m.data, m.size});
            reader.depth = outer;
            CHECK_STATUS(fb_codec_next(&reader, &item),
                         outer + depth <= FB_CODEC_DEPTH ? FB_OK : FB_BAD_MESSAGE);
        }
}

/* Unknown and malformed fields --------------------------------------------------------------- */

static void hands_over_unknown_fields_as_they_are(void) {
    static const fb_codec_message none;
    fb_codec_field fields[FB_PROTO_COUNT];
    fb_codec_message all = finish_all(fields, 1, false, NULL);
    static const fb_bytes cases[] = {
        {(const uint8_t *)"\xa0\x06\x80\x80\x00", 5},
        {(const uint8_t *)"\xa1\x06\1\2\3\4\5\6\7\10", 10},
        {(const uint8_t *)"\xa2\x06\x81\x00x", 5},
        {(const uint8_t *)"\xa3\x06\x08\x01\xa4\x06", 6},
        {(const uint8_t *)"\xa5\x06\1\2\3\4", 6},
        {(const uint8_t *)"\xa0\x86\x80\x80\x00\x01", 6},
        {(const uint8_t *)"\xf8\xff\xff\xff\x0f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 15},
    };
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        fb_bytes bytes = cases[i / 2];
        fb_codec_item item;
        CHECK_STATUS(next(i & 1 ? &all : &none, bytes, &item), FB_OK);
        CHECK(!item.field && !item.packed);
        CHECK_BYTES(item.bytes.data, item.bytes.size, bytes.data, bytes.size);
    }
}

/* Read every type with every wire type. A field of the wrong wire type is unknown as a whole. */
static void takes_no_other_wire_type_for_a_field(void) {
    static const char *const values[] = {"\x01", "\1\2\3\4\5\6\7\10", "\x04\1\2\3\4", NULL,
                                         NULL,   "\1\2\3\4"};
    for (unsigned type = 0; type < FB_PROTO_COUNT; type++)
        for (unsigned how = 0; how < 12; how++) {
            unsigned wire = how / 2;
            bool repeated = how & 1, own = wire == plain_wire((int)type),
                 packed = wire == 2 && repeated && type < FB_PROTO_STRING;
            fb_codec_field fields[] = {{.number = 1, .type = (uint8_t)type, .repeated = repeated}};
            fb_codec_message message = finish(fields, 1, PLACES);
            built_message m = {.size = 0};
            fb_codec_item item;
            if (wire == 4) continue; /* not a field */
            build_tag(&m, 1, wire);
            if (values[wire]) build_raw(&m, values[wire], strlen(values[wire]));
            else build_tag(&m, 1, FB_WIRE_END_GROUP);
            CHECK_STATUS(next(&message, (fb_bytes){m.data, m.size}, &item), FB_OK);
            CHECK((item.field != NULL) == (own || packed));
            CHECK(item.packed == packed);
            if (!item.field) CHECK_BYTES(item.bytes.data, item.bytes.size, m.data, m.size);
        }
}

static void reads_varints_of_ten_bytes_and_no_more(void) {
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_UINT64},
                               {.number = 2, .type = FB_PROTO_INT32},
                               {.number = 30, .type = FB_PROTO_BOOL}};
    fb_codec_message message = finish(fields, 3, PLACES);
    for (size_t size = 1; size <= 11; size++)
        for (size_t i = 0; i < 4; i++) { /* the fourth is unknown */
            built_message m = {.size = 0};
            fb_codec_item item;
            build_tag(&m, i < 3 ? fields[i].number : 3, FB_WIRE_VARINT);
            build_varint(&m, size < 10 ? 5 : UINT64_MAX, size);
            /* all but one of these bits are above the 64th */
            if (size == 10) m.data[m.size - 1] = 0x7f;
            CHECK_STATUS(next(&message, (fb_bytes){m.data, m.size}, &item),
                         size <= 10 ? FB_OK : FB_BAD_MESSAGE);
        }
}

/* Tags and lengths have at most five bytes and 32 bits; lengths are below 2^31. */
static void refuses_tags_and_lengths_that_are_too_long(void) {
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_BYTES},
                               {.number = 2, .type = FB_PROTO_UINT32, .repeated = true}};
    fb_codec_message message = finish(fields, 2, PLACES);
    fb_codec_item item;
    for (size_t size = 1; size <= 7; size++)
        for (uint32_t number = 1; number <= 3; number++) {
            built_message tag = {.size = 0}, length = {.size = 0};
            build_varint(&tag, number * 8 + FB_WIRE_BYTES, size), build_raw(&tag, "\1x", 2);
            CHECK_STATUS(next(&message, (fb_bytes){tag.data, tag.size}, &item),
                         size <= 5 ? FB_OK : FB_BAD_MESSAGE);
            if (size <= 5) CHECK((item.field ? item.field->number : 3) == number);
            build_tag(&length, number, FB_WIRE_BYTES), build_varint(&length, 1, size),
                build_raw(&length, "x", 1);
            CHECK_STATUS(next(&message, (fb_bytes){length.data, length.size}, &item),
                         size <= 5 ? FB_OK : FB_BAD_MESSAGE);
        }
    /* bit 33 of a tag */
    CHECK_STATUS(next(&message, BYTES("\x8a\x80\x80\x80\x10\x01x"), &item), FB_BAD_MESSAGE);
    /* and of a length */
    CHECK_STATUS(next(&message, BYTES("\x0a\x81\x80\x80\x80\x10x"), &item), FB_BAD_MESSAGE);
    CHECK_STATUS(next(&message, BYTES("\xf8\xff\xff\xff\x1f\x01"), &item), FB_BAD_MESSAGE);
}

/* Read the greatest length without touching its bytes, and the next greater one. */
static void takes_lengths_below_two_gibibytes(void) {
    size_t room = (size_t)INT32_MAX + 16;
    uint8_t *bytes = mmap(NULL, room, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_BYTES}};
    fb_codec_message message = finish(fields, 1, PLACES);
    if (bytes == MAP_FAILED) {
        perror("mmap");
        exit(EXIT_FAILURE);
    }
    for (uint32_t number = 1; number < 3; number++)
        for (uint64_t size = (uint64_t)INT32_MAX - 1; size < (uint64_t)INT32_MAX + 3; size++) {
            built_message m = {.size = 0};
            fb_codec_reader reader;
            fb_codec_item item;
            build_tag(&m, number, FB_WIRE_BYTES), build_varint(&m, size, 0);
            memcpy(bytes, m.data, m.size);
            fb_codec_reader_begin(&reader, &message, (fb_bytes){bytes, m.size + (size_t)size});
            CHECK_STATUS(fb_codec_next(&reader, &item), size <= INT32_MAX ? FB_OK : FB_BAD_MESSAGE);
            CHECK(reader.p == (size <= INT32_MAX ? reader.end : bytes));
        }
    munmap(bytes, room);
}

static void refuses_what_is_no_field(void) {
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_UINT32},
                               {.number = 2, .type = FB_PROTO_STRING},
                               {.number = 3, .type = FB_PROTO_DOUBLE}};
    fb_codec_message message = finish(fields, 3, PLACES);
    static const fb_bytes cases[] = {
        /* number 0 */
        {(const uint8_t *)"\x00\x01", 2},
        {(const uint8_t *)"\x02\x00", 2},
        {(const uint8_t *)"\x80\x00\x01", 3},
        {(const uint8_t *)"\x0e\x01", 2},
        {(const uint8_t *)"\x0f\x01", 2},
        {(const uint8_t *)"\x26\x01", 2},
        {(const uint8_t *)"\x27\x01", 2},
        {(const uint8_t *)"\x08", 1},
        {(const uint8_t *)"\x12", 1},
        {(const uint8_t *)"\x12\x02x", 3},
        {(const uint8_t *)"\x12\x80", 2},
        {(const uint8_t *)"\x12\xff\xff\xff\xff\x0f", 6},
        {(const uint8_t *)"\x19\1\2\3\4\5\6\7", 8},
        {(const uint8_t *)"\x80", 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fb_codec_item item;
        CHECK_STATUS(next(&message, cases[i], &item), FB_BAD_MESSAGE);
    }
}

/* Damage ------------------------------------------------------------------------------------- */

/* A type that has every kind of field, including itself, and messages of it. */
static fb_codec_message rich;
static fb_codec_field rich_fields[2 * FB_PROTO_COUNT];

static void make_rich(built_message *m, unsigned seed) {
    static const int32_t members[] = {-1, 0, 1, 2};
    for (unsigned i = 0; i < COUNT(rich_fields); i++) {
        bool repeated = i >= FB_PROTO_COUNT;
        rich_fields[i] = (fb_codec_field){.number = i + 1,
                                          .type = i % FB_PROTO_COUNT,
                                          .repeated = repeated,
                                          .packed = i % 3 == 0,
                                          .message = &rich};
    }
    rich_fields[FB_PROTO_ENUM].members = members;
    rich_fields[FB_PROTO_ENUM].member_count = COUNT(members);
    rich = finish(rich_fields, COUNT(rich_fields), PLACES);
    random_begin(seed);
    m->size = 0;
    build_random(m, &rich, 2);
}

static unsigned rounds(unsigned usual) {
    return getenv("FLOWBUF_SLOW_RUN") ? (usual + 9) / 10 : usual;
}

static void takes_every_prefix(void) {
    for (unsigned seed = 0; seed < rounds(80); seed++) {
        built_message m;
        make_rich(&m, seed);
        if (m.size > 1000) continue;
        CHECK_STATUS(check_guarded(&rich, m.data, m.size), FB_END);
        for (size_t size = 0; size < m.size; size++) check_guarded(&rich, m.data, size);
    }
}

/* Replace each byte by every other value. */
static void takes_every_corrupted_byte(void) {
    for (unsigned seed = 0; seed < rounds(20); seed++) {
        built_message m;
        make_rich(&m, seed);
        if (m.size > 150) continue;
        uint8_t *copy = fb_guarded_copy(m.data, m.size);
        for (size_t at = 0; at < m.size; at++) {
            for (unsigned byte = 0; byte < 256; byte++) {
                copy[at] = (uint8_t)byte;
                check_fields(&rich, (fb_bytes){copy, m.size});
            }
            copy[at] = m.data[at];
        }
        fb_guarded_free(copy, m.size);
    }
}

/* Read random types with random places, and messages of them, as the fuzz driver does. */
static void reads_messages_of_any_type(void) {
    for (unsigned round = 0; round < rounds(4000); round++) {
        static codec_choice c;
        uint8_t bytes[CODEC_TYPES * (1 + 4 * CODEC_FIELDS)];
        built_message m = {.size = 0};
        random_begin(round);
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)below(256);
        codec_choice_make(&c, bytes, sizeof bytes);
        build_random(&m, c.types, 2);
        CHECK_STATUS(check_guarded(c.types, m.data, m.size), FB_END);
    }
}

RUN_TESTS(TEST(names_types_as_a_proto_writes_them), TEST(makes_the_tag_of_every_field),
          TEST(refuses_fields_without_a_number_or_type), TEST(orders_fields_by_number),
          TEST(refuses_two_fields_of_one_number), TEST(takes_as_many_fields_as_have_places),
          TEST(finds_fields_by_place_and_by_search), TEST(reads_numbers_of_every_type),
          TEST(reads_elements_packed_and_not), TEST(reads_numbers_of_a_closed_enum_that_it_has),
          TEST(reads_what_is_in_a_group), TEST(refuses_groups_that_do_not_end_as_they_began),
          TEST(reads_groups_a_hundred_deep),
          TEST(counts_groups_on_top_of_the_messages_that_they_are_in),
          TEST(hands_over_unknown_fields_as_they_are), TEST(takes_no_other_wire_type_for_a_field),
          TEST(reads_varints_of_ten_bytes_and_no_more),
          TEST(refuses_tags_and_lengths_that_are_too_long), TEST(takes_lengths_below_two_gibibytes),
          TEST(refuses_what_is_no_field), TEST(takes_every_prefix),
          TEST(takes_every_corrupted_byte), TEST(reads_messages_of_any_type))
