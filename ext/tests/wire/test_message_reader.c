/* Readers of messages and streams: complete, cut and damaged input. */
#include "tests/support/check.h"

#include "core/wire/message_reader.h"

#define BYTES(literal) ((fb_bytes){(const uint8_t *)(literal), sizeof(literal) - 1})

static void reads_a_field_of_every_wire_type(void) {
    fb_bytes rest = BYTES("\x08\xac\x02"
                          "\x11\1\2\3\4\5\6\7\10"
                          "\x1a\2hi"
                          "\x25\1\2\3\4"
                          "\xf8\xff\xff\xff\x0f\x01");
    fb_message_field field;
    CHECK_STATUS(fb_message_next(&rest, &field), FB_OK);
    CHECK_EQUAL(field.number, 1), CHECK_EQUAL(field.wire, FB_WIRE_VARINT),
        CHECK_EQUAL(field.value, 300);
    CHECK_STATUS(fb_message_next(&rest, &field), FB_OK);
    CHECK_EQUAL(field.number, 2), CHECK_EQUAL(field.wire, FB_WIRE_FIXED64),
        CHECK_EQUAL(field.value, 0x0807060504030201);
    CHECK_STATUS(fb_message_next(&rest, &field), FB_OK);
    CHECK_EQUAL(field.number, 3), CHECK_EQUAL(field.wire, FB_WIRE_BYTES),
        CHECK_BYTES(field.bytes.data, field.bytes.size, "hi", 2);
    CHECK_STATUS(fb_message_next(&rest, &field), FB_OK);
    CHECK_EQUAL(field.number, 4), CHECK_EQUAL(field.wire, FB_WIRE_FIXED32),
        CHECK_EQUAL(field.value, 0x04030201);
    CHECK_STATUS(fb_message_next(&rest, &field), FB_OK);
    CHECK_EQUAL(field.number, FB_NUMBER_MAX), CHECK_EQUAL(field.value, 1);
    CHECK_STATUS(fb_message_next(&rest, &field), FB_END);
    CHECK_STATUS(fb_message_next(&rest, &field), FB_END);
}

static void rejects_malformed_fields_without_advancing(void) {
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
        {"\x00\x01", 2}, /* field number 0 */
        {"\x0b", 1},     /* start of a group */
        {"\x0c", 1},     /* end of a group */
        {"\x0e\x01", 2},
        {"\x0f\x01", 2},                                          /* invalid wire types */
        {"\x80\x80\x80\x80\x10\x01", 6},                          /* a number of 30 bits */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 12}, /* a tag of 11 bytes */
        {"\x80", 1},
        {"\x08", 1},
        {"\x08\x80", 2},
        {"\x09\1\2\3", 4},
        {"\x0d\1\2\3", 4},
        {"\x0a\x02h", 3},
        {"\x0a", 1},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01h", 12}, /* a length of 2^64 - 1 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *copy = fb_guarded_copy(cases[i].bytes, cases[i].size);
        fb_bytes rest = {copy, cases[i].size};
        fb_message_field field;
        CHECK_STATUS(fb_message_next(&rest, &field), FB_BAD_MESSAGE);
        CHECK(rest.data == copy);
        CHECK_EQUAL(rest.size, cases[i].size);
        fb_guarded_free(copy, cases[i].size);
    }
}

/* For any bytes, every field is inside the message and the loop ends. */
static void ends_for_any_input(void) {
    uint32_t random = 3;
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t bytes[40];
        size_t size = round % sizeof bytes;
        for (size_t i = 0; i < size; i++) {
            random = random * 1664525u + 1013904223u;
            bytes[i] = (uint8_t)(random >> 24 & (random & 1u << 20 ? 0xff : 0x1f));
        }
        uint8_t *copy = fb_guarded_copy(bytes, size);
        fb_bytes rest = {copy, size};
        fb_message_field field;
        fb_status status;
        while ((status = fb_message_next(&rest, &field)) == FB_OK) {
            if (field.wire == FB_WIRE_BYTES)
                CHECK(field.bytes.data >= copy && field.bytes.data + field.bytes.size == rest.data);
            CHECK(field.number >= 1 && field.number <= FB_NUMBER_MAX);
        }
        CHECK(status == FB_END || status == FB_BAD_MESSAGE);
        CHECK((status == FB_END) == (rest.size == 0));
        CHECK(rest.data + rest.size == copy + size);
        fb_guarded_free(copy, size);
    }
}

static void reads_messages_of_a_stream(void) {
    static const char whole[] = "\x02\x08\x01"
                                "\x00"
                                "\x81\x00"
                                "x";
    for (size_t size = 0; size < sizeof whole; size++) {
        uint8_t *copy = fb_guarded_copy(whole, size);
        fb_bytes rest = {copy, size}, message;
        fb_status status;
        size_t count = 0;
        while ((status = fb_stream_next(&rest, &message)) == FB_OK) count++;
        CHECK_EQUAL(count, (size >= 3) + (size >= 4) + (size >= 7));
        CHECK_STATUS(status,
                     size == 0 || size == 3 || size == 4 || size == 7 ? FB_END : FB_MORE_INPUT);
        fb_guarded_free(copy, size);
    }
}

static void rejects_impossible_lengths(void) {
    fb_bytes message, rest = BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    CHECK_STATUS(fb_stream_next(&rest, &message), FB_BAD_MESSAGE); /* not a varint */
    rest = BYTES("\x80\x80\x80\x80\x08");
    /* 2 GiB, above the limit of messages */
    CHECK_STATUS(fb_stream_next(&rest, &message), FB_BAD_MESSAGE);
    rest = BYTES("\xff\xff\xff\xff\x07");
    CHECK_STATUS(fb_stream_next(&rest, &message), FB_MORE_INPUT);
    CHECK_EQUAL(rest.size, 5);
}

static void cuts_a_stream_between_messages(void) {
    fb_bytes stream = BYTES("\x02\x08\x01"
                            "\x00"
                            "\x02\x08\x03"
                            "\x03\x08\x80\x01");
    static const struct {
        size_t limit, size, count;
    } cases[] = {{0, 3, 1}, {2, 3, 1},  {3, 3, 1},   {4, 4, 2},        {6, 4, 2},
                 {7, 7, 3}, {10, 7, 3}, {11, 11, 4}, {SIZE_MAX, 11, 4}};
    size_t count;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_EQUAL(fb_stream_cut(stream, cases[i].limit, &count), cases[i].size);
        CHECK_EQUAL(count, cases[i].count);
    }
    for (size_t size = 0; size <= stream.size; size++) { /* incomplete data remains */
        uint8_t *copy = fb_guarded_copy(stream.data, size);
        size_t whole = size == 11 ? 11 : size >= 7 ? 7 : size >= 4 ? 4 : size == 3 ? 3 : 0;
        CHECK_EQUAL(fb_stream_cut((fb_bytes){copy, size}, 100, &count), whole);
        CHECK_EQUAL(count, (whole >= 3) + (whole >= 4) + (whole >= 7) + (whole >= 11));
        fb_guarded_free(copy, size);
    }
}

static uint64_t hash_flow(const char *bytes, size_t size) {
    static const fb_conversation numbers = {
        .src_addr = 6, .dst_addr = 7, .src_port = 10, .dst_port = 11, .proto = 9};
    uint8_t *copy = fb_guarded_copy(bytes, size);
    uint64_t hash = fb_message_hash_conversation((fb_bytes){copy, size}, &numbers);
    fb_guarded_free(copy, size);
    return hash;
}
#define HASH(literal) hash_flow(literal, sizeof(literal) - 1)

static void gives_both_directions_of_a_conversation_one_hash(void) {
    uint64_t hash = HASH("\x32\4\1\2\3\4"
                         "\x3a\4\5\6\7\10"
                         "\x48\6"
                         "\x50\x35"
                         "\x58\x99\1");
    CHECK_EQUAL(HASH("\x3a\4\1\2\3\4"
                     "\x32\4\5\6\7\10"
                     "\x48\6"
                     "\x58\x35"
                     "\x50\x99\1"),
                hash);
    /* any order, and other fields */
    CHECK_EQUAL(HASH("\x20\1"
                     "\x50\x35"
                     "\x58\x99\1"
                     "\x32\4\1\2\3\4"
                     "\x3a\4\5\6\7\10"
                     "\x48\6"),
                hash);
    /* only the ports are exchanged */
    CHECK(HASH("\x32\4\1\2\3\4"
               "\x3a\4\5\6\7\10"
               "\x48\6"
               "\x58\x35"
               "\x50\x99\1") != hash);
    CHECK(HASH("\x32\4\1\2\3\4"
               "\x3a\4\5\6\7\10"
               "\x48\x11"
               "\x50\x35"
               "\x58\x99\1") != hash);
    CHECK(HASH("\x32\4\1\2\3\5"
               "\x3a\4\5\6\7\10"
               "\x48\6"
               "\x50\x35"
               "\x58\x99\1") != hash);
    for (size_t size = 0; size < 21; size++) /* every message with missing fields has a result */
        hash_flow("\x32\4\1\2\3\4"
                  "\x3a\4\5\6\7\10"
                  "\x48\6"
                  "\x50\x35"
                  "\x58\x99\1",
                  size);
    CHECK_EQUAL(HASH(""), HASH("\x20\1"));
}

RUN_TESTS(TEST(reads_a_field_of_every_wire_type), TEST(rejects_malformed_fields_without_advancing),
          TEST(ends_for_any_input), TEST(reads_messages_of_a_stream),
          TEST(rejects_impossible_lengths), TEST(cuts_a_stream_between_messages),
          TEST(gives_both_directions_of_a_conversation_one_hash))
