/* Streams of messages of any content: views stay inside, walks end, and text that was repaired needs no repair. */
#include "fuzz.h"

#include "message.h"

static void check_text(fb_bytes text) {
    uint8_t *replaced = malloc(3 * text.size + 1);
    bool any, again;
    size_t size;
    MUST(replaced);
    fb_bytes view = {replaced, (size_t)(fb_utf8_put_replaced(replaced, text, &any) - replaced)};
    MUST(view.size <= 3 * text.size);
    MUST(any == !fb_utf8_valid(text));
    MUST(fb_utf8_valid(view));
    uint8_t *once_more = malloc(3 * view.size + 1);
    MUST(once_more);
    size = (size_t)(fb_utf8_put_replaced(once_more, view, &again) - once_more);
    MUST(!again && size == view.size && (size == 0 || memcmp(once_more, replaced, size) == 0));
    free(once_more);
    free(replaced);
}

static void check_varint(uint64_t value) {
    uint8_t octets[FB_VARINT_MAX];
    uint64_t read;
    uint8_t *end = fb_wire_put_varint(octets, value);
    MUST((size_t)(end - octets) == fb_wire_varint_size(value));
    MUST(fb_wire_read_varint(octets, end, &read) == end && read == value);
    MUST(fb_wire_zigzag(fb_wire_unzigzag(value)) == value);
}

static void check_message(fb_bytes message) {
    const uint8_t *begin = message.data, *end = begin + message.size;
    fb_message_field field;
    fb_status status;
    while ((status = fb_message_next(&message, &field)) == FB_OK) {
        MUST(message.data > begin && message.data + message.size == end);
        MUST(field.number >= 1 && field.number <= FB_NUMBER_MAX);
        begin = message.data;
        if (field.wire == FB_WIRE_BYTES) {
            MUST(field.bytes.data + field.bytes.size == message.data);
            check_text(field.bytes);
        } else {
            check_varint(field.value);
        }
    }
    MUST(status == FB_END || status == FB_BAD_MESSAGE);
    MUST((status == FB_END) == (message.size == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fb_bytes rest = {data, size}, message;
    fb_status status;
    while ((status = fb_stream_next(&rest, &message)) == FB_OK) {
        MUST(message.data >= data && message.data + message.size == rest.data);
        check_message(message);
    }
    MUST(status == FB_END || status == FB_MORE_INPUT || status == FB_BAD_MESSAGE);
    MUST((status == FB_END) == (rest.size == 0));
    check_message((fb_bytes){data, size});
    return 0;
}
