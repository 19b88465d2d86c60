/* Messages of a byte stream of IPFIX. */
#include "core/decode/ipfix_stream.h"

#include "tests/support/check.h"

/* Take a message from a copy that ends at a guard page. `taken` is its length; 0: none. */
static void check_next(const uint8_t *bytes, size_t size, fb_status expected, size_t taken) {
    uint8_t *copy = fb_guarded_copy(bytes, size);
    fb_bytes stream = {copy, size}, message = {0};
    CHECK_STATUS(fb_ipfix_stream_next(&stream, &message), expected);
    CHECK_EQUAL(message.size, taken);
    CHECK_EQUAL(stream.size, size - taken);
    CHECK(stream.data == copy + taken);
    CHECK(!taken || message.data == copy);
    fb_guarded_free(copy, size);
}

static void takes_complete_messages(void) {
    uint8_t bytes[70000] = {0, 10, 0, 20};
    for (size_t size = 0; size < 20; size++) check_next(bytes, size, FB_MORE_INPUT, 0);
    for (size_t size = 20; size < 50; size++) check_next(bytes, size, FB_OK, 20);
    bytes[2] = bytes[3] = 0xff;
    check_next(bytes, 65534, FB_MORE_INPUT, 0);
    check_next(bytes, 65535, FB_OK, 65535);
    check_next(bytes, sizeof bytes, FB_OK, 65535);
}

static void refuses_other_versions_with_two_bytes(void) {
    for (unsigned version = 0; version < 65536; version++) {
        const uint8_t bytes[16] = {(uint8_t)(version >> 8), (uint8_t)version, 0, 16};
        for (size_t size = 2; size <= 16; size += 14) {
            fb_status incomplete = size < 16 ? FB_MORE_INPUT : FB_OK;
            check_next(bytes, size, version == 10 ? incomplete : FB_UNSUPPORTED_VERSION,
                       version == 10 && size == 16 ? 16 : 0);
        }
    }
}

static void refuses_lengths_below_the_header(void) {
    for (uint8_t length = 0; length < 40; length++) {
        const uint8_t bytes[40] = {0, 10, 0, length};
        check_next(bytes, 3, FB_MORE_INPUT, 0);
        check_next(bytes, 4, length < 16 ? FB_BAD_HEADER : FB_MORE_INPUT, 0);
        check_next(bytes, 40, length < 16 ? FB_BAD_HEADER : FB_OK, length < 16 ? 0 : length);
    }
}

RUN_TESTS(TEST(takes_complete_messages), TEST(refuses_other_versions_with_two_bytes),
          TEST(refuses_lengths_below_the_header))
