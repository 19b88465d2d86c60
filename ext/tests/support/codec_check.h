/* Shared by tests of the codec: read messages field by field, and compare the result with that of a
   reader that shares no code with the core (plain_codec.h). */
#ifndef FB_TESTS_SUPPORT_CODEC_CHECK_H
#define FB_TESTS_SUPPORT_CODEC_CHECK_H

#include "tests/support/check.h"

#include "core/codec/codec.h"
#include "tests/support/plain_codec.h"

#define COUNT(array)   (sizeof(array) / sizeof *(array))
#define BYTES(literal) ((fb_bytes){(const uint8_t *)(literal), sizeof(literal) - 1})

enum { PLACES = 32 };

UNUSED static uint16_t places[PLACES];

UNUSED static fb_codec_message finish(fb_codec_field *fields, size_t count, size_t place_count) {
    fb_codec_message message = {.fields = fields, .count = count};
    for (size_t i = 0; i < count; i++) CHECK_STATUS(fb_codec_field_finish(fields + i), FB_OK);
    CHECK_STATUS(fb_codec_message_finish(&message, places, place_count), FB_OK);
    return message;
}

UNUSED static bool is_number(const fb_codec_field *field) {
    return field->type < FB_PROTO_STRING;
}

UNUSED static void check_elements(const fb_codec_field *field, fb_bytes elements) {
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

UNUSED static void check_item(const fb_codec_item *item, const plain_item *plain) {
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
UNUSED static fb_status check_fields(const fb_codec_message *message, fb_bytes bytes) {
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

UNUSED static fb_status check_guarded(const fb_codec_message *message, const void *bytes,
                                      size_t size) {
    uint8_t *copy = fb_guarded_copy(bytes, size);
    fb_status status = check_fields(message, (fb_bytes){copy, size});
    fb_guarded_free(copy, size);
    return status;
}

UNUSED static fb_status read_first_field(const fb_codec_message *message, fb_bytes bytes,
                                         fb_codec_item *item) {
    fb_codec_reader reader;
    fb_codec_reader_begin(&reader, message, bytes);
    fb_status status = fb_codec_next(&reader, item);
    CHECK((check_guarded(message, bytes.data, bytes.size) == FB_BAD_MESSAGE) ==
          (status == FB_BAD_MESSAGE));
    return status;
}

#endif
