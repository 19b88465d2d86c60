/* Message types of any kind, and their messages read field by field. */
#include "core/codec/codec_write.h"
#include "tests/support/codec_check.h"

/* Message types ------------------------------------------------------------------------------ */

static void names_types_as_in_proto_files(void) {
    static const char *const names[] = {"bool",   "int32",   "int64",    "uint32",  "uint64",
                                        "sint32", "sint64",  "enum",     "fixed32", "sfixed32",
                                        "float",  "fixed64", "sfixed64", "double",  "string",
                                        "bytes",  "message", "group"};
    CHECK_EQUAL(COUNT(names), FB_PROTO_COUNT);
    for (int i = 0; i < FB_PROTO_COUNT; i++) CHECK(strcmp(fb_proto_name(i), names[i]) == 0);
}

static void writes_the_tag_of_every_field(void) {
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

static void refuses_duplicate_field_numbers(void) {
    fb_codec_field fields[] = {{.number = 7}, {.number = 300}, {.number = 2}, {.number = 300}};
    fb_codec_message message = {.fields = fields, .count = COUNT(fields)};
    CHECK_STATUS(fb_codec_message_finish(&message, places, PLACES), FB_BAD_ARGUMENT);
    message.count--;
    fields[0].number = fields[1].number; /* now sorted */
    CHECK_STATUS(fb_codec_message_finish(&message, places, 0), FB_BAD_ARGUMENT);
}

/* Sort fields in the worst order, within the time limit. */
static void accepts_the_maximum_number_of_fields(void) {
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
            if (how & 1) build_bytes(&m, 9, "enough bytes.", 13);
            fb_codec_reader_begin(&reader, &message, (fb_bytes){m.data, m.size});
            CHECK_STATUS(fb_codec_next(&reader, &item), FB_OK);
            CHECK(item.field == fields && !item.packed);
            CHECK_EQUAL(item.value, plain_numbers[i].value);
            CHECK_EQUAL(reader.p - m.data, size);
            CHECK_STATUS(check_guarded(&message, m.data, m.size), FB_END);
        }
}

/* Read packed and unpacked elements and a mix, for both declarations. */
static void reads_packed_and_unpacked_elements(void) {
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

static void reads_only_members_of_closed_enums(void) {
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

static void reads_the_content_of_groups(void) {
    fb_codec_message message;
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_GROUP, .message = &message},
                               {.number = 2}};
    fb_codec_item item;
    message = finish(fields, 2, PLACES);
    CHECK_STATUS(read_first_field(&message, BYTES("\x0b\x10\x05\x0b\x0c\x12\x01\x0c\x0c"), &item),
                 FB_OK);
    CHECK(item.field == fields);
    CHECK_BYTES(item.bytes.data, item.bytes.size, "\x10\x05\x0b\x0c\x12\x01\x0c", 7);
    /* an end tag that is longer than necessary */
    CHECK_STATUS(read_first_field(&message, BYTES("\x0b\x8c\x80\x80\x80\x00"), &item), FB_OK);
    CHECK_EQUAL(item.bytes.size, 0);
    /* an unknown group, with its tags */
    CHECK_STATUS(read_first_field(&message, BYTES("\x23\x2b\x2c\x24"), &item), FB_OK);
    CHECK(!item.field);
    CHECK_BYTES(item.bytes.data, item.bytes.size, "\x23\x2b\x2c\x24", 4);
    /* a group where a number is declared */
    CHECK_STATUS(read_first_field(&message, BYTES("\x13\x14"), &item), FB_OK);
    CHECK(!item.field);
    CHECK_EQUAL(item.bytes.size, 2);
    /* bytes where a group is declared */
    CHECK_STATUS(read_first_field(&message, BYTES("\x0a\x00"), &item), FB_OK);
    CHECK(!item.field);
}

static void refuses_groups_with_another_end_tag(void) {
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
        CHECK_STATUS(read_first_field(&message, cases[i], &item), FB_BAD_MESSAGE);
}

static void limits_the_depth_of_groups(void) {
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_GROUP}};
    fb_codec_message message = finish(fields, 1, PLACES);
    for (uint32_t number = 1; number < 3; number++)
        for (size_t depth = FB_CODEC_DEPTH - 1; depth < FB_CODEC_DEPTH + 3; depth++) {
            built_message m = {.size = 0};
            fb_codec_item item;
            for (size_t i = 0; i < depth; i++) build_tag(&m, number, FB_WIRE_START_GROUP);
            for (size_t i = 0; i < depth; i++) build_tag(&m, number, FB_WIRE_END_GROUP);
            CHECK_STATUS(read_first_field(&message, (fb_bytes){m.data, m.size}, &item),
                         depth <= FB_CODEC_DEPTH ? FB_OK : FB_BAD_MESSAGE);
        }
}

static void adds_the_depth_of_outer_messages_to_groups(void) {
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

RUN_TESTS(TEST(names_types_as_in_proto_files), TEST(writes_the_tag_of_every_field),
          TEST(refuses_fields_without_a_number_or_type), TEST(orders_fields_by_number),
          TEST(refuses_duplicate_field_numbers), TEST(accepts_the_maximum_number_of_fields),
          TEST(finds_fields_by_place_and_by_search), TEST(reads_numbers_of_every_type),
          TEST(reads_packed_and_unpacked_elements), TEST(reads_only_members_of_closed_enums),
          TEST(reads_the_content_of_groups), TEST(refuses_groups_with_another_end_tag),
          TEST(limits_the_depth_of_groups), TEST(adds_the_depth_of_outer_messages_to_groups))
