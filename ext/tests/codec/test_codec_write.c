/* Fields at the limits of every type, written into exactly the stated room. */
#include "tests/support/check.h"

#include "core/codec/codec_write.h"
#include "tests/support/plain_codec.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Write the greatest and smallest values. Nothing beyond the stated room is written. */
static void writes_numbers_of_every_type(void) {
    static const uint32_t at[] = {1, 16, FB_NUMBER_MAX};
    for (size_t i = 0; i < plain_number_count * COUNT(at); i++) {
        fb_codec_field field = {.number = at[i % COUNT(at)],
                                .type = plain_numbers[i / COUNT(at)].type,
                                .presence = true};
        uint64_t value = plain_numbers[i / COUNT(at)].value, read;
        built_message tag = {.size = 0};
        uint8_t *room = fb_guarded_room_of(FB_CODEC_ROOM);
        CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
        build_tag(&tag, field.number, plain_wire(field.type));
        uint8_t *end = fb_codec_put_scalar(room, &field, value);
        CHECK_BYTES(room, tag.size, tag.data, tag.size);
        CHECK(plain_scalar(field.type, room + tag.size, end, &read) == end);
        CHECK_EQUAL(read, value);
        fb_guarded_free(room, FB_CODEC_ROOM);
    }
}

/* A negative 32-bit number takes ten bytes, like a 64-bit number. */
static void writes_the_bytes_of_other_implementations(void) {
    static const struct {
        uint8_t type;
        uint64_t value;
        const char *bytes;
        size_t size;
    } cases[] = {
        {FB_PROTO_INT32, UINT64_MAX, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
        {FB_PROTO_ENUM, UINT64_MAX - 1, "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
        {FB_PROTO_UINT32, UINT32_MAX, "\x08\xff\xff\xff\xff\x0f", 6},
        {FB_PROTO_SINT32, (uint64_t)INT32_MIN, "\x08\xff\xff\xff\xff\x0f", 6},
        {FB_PROTO_SINT64, (uint64_t)INT64_MIN, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
        {FB_PROTO_SFIXED32, UINT64_MAX - 1, "\x0d\xfe\xff\xff\xff", 5},
        {FB_PROTO_SFIXED64, UINT64_MAX - 1, "\x09\xfe\xff\xff\xff\xff\xff\xff\xff", 9},
        {FB_PROTO_BOOL, 1, "\x08\x01", 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fb_codec_field field = {.number = 1, .type = cases[i].type};
        uint8_t bytes[FB_CODEC_ROOM];
        CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
        uint8_t *end = fb_codec_put_scalar(bytes, &field, cases[i].value);
        CHECK_BYTES(bytes, (size_t)(end - bytes), cases[i].bytes, cases[i].size);
    }
}

static void omits_zeros_without_presence(void) {
    for (unsigned type = 0; type < FB_PROTO_STRING; type++) {
        fb_codec_field field = {.number = 1, .type = (uint8_t)type};
        uint8_t bytes[FB_CODEC_ROOM];
        CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
        CHECK(fb_codec_put_scalar(bytes, &field, 0) == bytes);
        field.presence = true;
        CHECK(fb_codec_put_scalar(bytes, &field, 0) > bytes + 1);
    }
    fb_codec_field real = {.number = 1, .type = FB_PROTO_DOUBLE};
    uint8_t bytes[FB_CODEC_ROOM];
    CHECK_STATUS(fb_codec_field_finish(&real), FB_OK);
    /* -0.0 is not zero */
    CHECK_EQUAL(fb_codec_put_scalar(bytes, &real, UINT64_C(1) << 63) - bytes, 9);
}

/* Write the longest tag and every length in front of bytes that must move, within the stated
   room. */
static void writes_lengths_before_their_content(void) {
    static const size_t sizes[] = {0,     1,     127,     128,     129,    16383,
                                   16384, 16385, 2097151, 2097152, 2097153};
    fb_codec_field field = {.number = FB_NUMBER_MAX, .type = FB_PROTO_MESSAGE};
    CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        size_t size = sizes[i], room = FB_TAG_MAX + 1 + size + FB_VARINT_MAX;
        uint8_t *bytes = fb_guarded_room_of(room),
                *begin = fb_codec_begin_length(fb_codec_put_tag(bytes, &field));
        for (size_t k = 0; k < size; k++) begin[k] = (uint8_t)(k * 31 + k / 256);
        uint8_t *end = fb_codec_end_length(begin, begin + size);
        built_message front = {.size = 0};
        uint8_t ahead[FB_CODEC_ROOM];
        build_tag(&front, FB_NUMBER_MAX, FB_WIRE_BYTES), build_varint(&front, size, 0);
        CHECK_BYTES(bytes, front.size, front.data, front.size);
        CHECK_EQUAL(end - bytes, front.size + size);
        bool moved = true;
        for (size_t k = 0; k < size; k++)
            moved &= bytes[front.size + k] == (uint8_t)(k * 31 + k / 256);
        CHECK(moved);
        uint8_t *after = fb_codec_put_length(ahead, &field, size);
        CHECK_BYTES(ahead, (size_t)(after - ahead), front.data, front.size);
        fb_guarded_free(bytes, room);
    }
}

static void writes_both_ends_of_a_group(void) {
    static const uint32_t at[] = {1, 15, 16, 2047, 2048, FB_NUMBER_MAX};
    for (size_t i = 0; i < COUNT(at); i++) {
        fb_codec_field field = {.number = at[i], .type = FB_PROTO_GROUP};
        built_message m = {.size = 0};
        uint8_t bytes[2 * FB_CODEC_ROOM];
        CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
        build_tag(&m, at[i], FB_WIRE_START_GROUP), build_tag(&m, at[i], FB_WIRE_END_GROUP);
        uint8_t *end = fb_codec_put_end_group(fb_codec_put_tag(bytes, &field), &field);
        CHECK_BYTES(bytes, (size_t)(end - bytes), m.data, m.size);
    }
}

static void writes_strings_in_both_ways(void) {
    static const char text[0x80] = "short and long strings have the same bytes";
    fb_codec_field field = {.number = 16, .type = FB_PROTO_STRING};
    CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
    for (size_t size = 0; size < 0x80; size++) {
        size_t room = FB_CODEC_ROOM + 0x80;
        uint8_t *quick = fb_guarded_room_of(room),
                *exact = fb_guarded_room_of(FB_CODEC_ROOM + size);
        built_message m = {.size = 0};
        build_bytes(&m, 16, text, size);
        uint8_t *end = fb_codec_put_few_bytes(quick, &field, text, size);
        CHECK_BYTES(quick, (size_t)(end - quick), m.data, m.size);
        end = fb_codec_put_bytes(exact, &field, text, size);
        CHECK_BYTES(exact, (size_t)(end - exact), m.data, m.size);
        fb_guarded_free(quick, room), fb_guarded_free(exact, FB_CODEC_ROOM + size);
    }
}

/* Every time is read as it was written, within the stated room, in a message and in a group. */
static void writes_times(void) {
    static const int64_t seconds[] = {0, 1, -1, 253402300799, -62135596800, INT64_MAX, INT64_MIN};
    static const int32_t parts[] = {0, 1, -1, 999999999, -999999999, INT32_MAX, INT32_MIN};
    const size_t room = 2 * FB_CODEC_ROOM + FB_CODEC_TIME_MAX;
    for (size_t i = 0; i < COUNT(seconds) * COUNT(parts) * 2; i++) {
        int64_t second = seconds[i / 2 % COUNT(seconds)], read = 0;
        int32_t part = parts[i / 2 / COUNT(seconds)], read_part = 0;
        fb_codec_field field = {.number = FB_NUMBER_MAX,
                                .type = i % 2 ? FB_PROTO_GROUP : FB_PROTO_MESSAGE};
        fb_codec_message message = {.fields = &field, .count = 1};
        fb_codec_reader reader;
        fb_codec_item item;
        const uint8_t *where;
        uint16_t place[1];
        CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
        CHECK_STATUS(fb_codec_message_finish(&message, place, 1), FB_OK);
        uint8_t *bytes = fb_guarded_room_of(room);
        uint8_t *end = fb_codec_put_time(bytes, &field, second, part);
        fb_codec_reader_begin(&reader, &message, (fb_bytes){bytes, (size_t)(end - bytes)});
        CHECK_STATUS(fb_codec_next(&reader, &item), FB_OK);
        CHECK(!fb_codec_read_time(item.bytes, 1, &read, &read_part, &where));
        CHECK(read == second && read_part == part);
        CHECK_STATUS(fb_codec_next(&reader, &item), FB_END);
        fb_guarded_free(bytes, room);
    }
}

/* The bytes of google.protobuf: zeros are omitted, and a negative part takes ten bytes. */
static void writes_times_like_other_implementations(void) {
    static const struct {
        int64_t seconds;
        int32_t nanoseconds;
        const char *bytes;
        size_t size;
    } cases[] = {
        {0, 0, "\x0a\x00", 2},
        {1, 0, "\x0a\x02\x08\x01", 4},
        {0, 5, "\x0a\x02\x10\x05", 4},
        {-1, -1,
         "\x0a\x16\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff"
         "\xff"
         "\x01",
         24},
    };
    fb_codec_field field = {.number = 1, .type = FB_PROTO_MESSAGE};
    CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t bytes[2 * FB_CODEC_ROOM + FB_CODEC_TIME_MAX];
        uint8_t *end = fb_codec_put_time(bytes, &field, cases[i].seconds, cases[i].nanoseconds);
        CHECK_BYTES(bytes, (size_t)(end - bytes), cases[i].bytes, cases[i].size);
    }
}

static void reads_times_with_other_fields(void) {
    int64_t seconds = 7;
    int32_t nanoseconds = 8;
    const uint8_t *where;
    built_message m = {.size = 0};
    build_bytes(&m, 1, "x", 1); /* the number of the seconds, with another wire type */
    build_tag(&m, 3, FB_WIRE_VARINT), build_varint(&m, 9, 0);
    fb_bytes bytes = {m.data, m.size};
    CHECK(!fb_codec_read_time(bytes, 1, &seconds, &nanoseconds, &where));
    CHECK(seconds == 7 && nanoseconds == 8 && where == m.data + m.size);
    bytes.size--;
    CHECK(fb_codec_read_time(bytes, 1, &seconds, &nanoseconds, &where));
    CHECK(where == m.data + 3);
}

static void writes_an_element_of_a_packed_field_alone(void) {
    fb_codec_field field = {
        .number = FB_NUMBER_MAX, .type = FB_PROTO_ENUM, .repeated = true, .packed = true};
    built_message m = {.size = 0};
    uint8_t *bytes = fb_guarded_room_of(FB_CODEC_ROOM);
    CHECK_STATUS(fb_codec_field_finish(&field), FB_OK);
    build_tag(&m, FB_NUMBER_MAX, FB_WIRE_VARINT), build_varint(&m, UINT64_MAX, 0);
    uint8_t *end = fb_codec_put_unpacked(bytes, &field, UINT64_MAX);
    CHECK_BYTES(bytes, (size_t)(end - bytes), m.data, m.size);
    fb_guarded_free(bytes, FB_CODEC_ROOM);
}

static void tells_complete_fields(void) {
    built_message m = {.size = 0};
    build_bytes(&m, 5, "abc", 3);
    build_tag(&m, 6, FB_WIRE_START_GROUP), build_tag(&m, 6, FB_WIRE_END_GROUP);
    for (size_t size = 0; size <= m.size; size++)
        CHECK_EQUAL(fb_codec_are_fields((fb_bytes){m.data, size}, 0),
                    size == 0 || size == 5 || size == m.size);
    CHECK(fb_codec_are_fields((fb_bytes){m.data, m.size}, FB_CODEC_DEPTH - 1));
    CHECK(!fb_codec_are_fields((fb_bytes){m.data, m.size}, FB_CODEC_DEPTH));
}

static void tells_unknown_entries_of_maps(void) {
    static const int32_t members[] = {0, 1};
    fb_codec_field fields[] = {
        {.number = 1, .type = FB_PROTO_INT32},
        {.number = 2, .type = FB_PROTO_ENUM, .members = members, .member_count = 2}};
    fb_codec_message entry = {.fields = fields, .count = 2};
    uint16_t places[4];
    for (size_t i = 0; i < 2; i++) CHECK_STATUS(fb_codec_field_finish(&fields[i]), FB_OK);
    CHECK_STATUS(fb_codec_message_finish(&entry, places, 4), FB_OK);
    static const struct {
        const char *bytes;
        size_t size;
        bool unknown, unknown_of_all;
    } cases[] = {
        {"\x08\x01\x10\x01", 4, false, false},
        {"\x08\x01\x10\x02", 4, true, true},
        {"\x08\x01\x10\x01\x18\x05", 6, false, true},
        {"", 0, false, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fb_bytes bytes = {(const uint8_t *)cases[i].bytes, cases[i].size};
        CHECK_EQUAL(fb_codec_is_unknown_entry(&entry, bytes, false), cases[i].unknown);
        CHECK_EQUAL(fb_codec_is_unknown_entry(&entry, bytes, true), cases[i].unknown_of_all);
    }
}

RUN_TESTS(TEST(writes_numbers_of_every_type), TEST(writes_the_bytes_of_other_implementations),
          TEST(omits_zeros_without_presence), TEST(writes_lengths_before_their_content),
          TEST(writes_both_ends_of_a_group), TEST(writes_strings_in_both_ways), TEST(writes_times),
          TEST(writes_times_like_other_implementations), TEST(reads_times_with_other_fields),
          TEST(writes_an_element_of_a_packed_field_alone), TEST(tells_complete_fields),
          TEST(tells_unknown_entries_of_maps))
