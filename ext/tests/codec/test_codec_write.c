/* Fields at the limits of every type, written into exactly the stated room. */
#include "tests/support/check.h"

#include "core/codec/codec.h"
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
        uint8_t *bytes = fb_guarded_room_of(room), *begin = fb_codec_put_tag(bytes, &field) + 1;
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

RUN_TESTS(TEST(writes_numbers_of_every_type), TEST(writes_the_bytes_of_other_implementations),
          TEST(omits_zeros_without_presence), TEST(writes_lengths_before_their_content),
          TEST(writes_both_ends_of_a_group))
