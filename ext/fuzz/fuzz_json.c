/* Fuzzes the conversion of messages of any type to JSON and back.

   Checks, after a conversion that succeeds:
   - The result is converted back, and from then on neither message nor text changes.
   - Names as in the definition and numbers of enums are read as the same message.
   - Faults are inside the input, and have a text.

   Input: a message type (tests/support/json_choice.h); a byte, even before a message of it, and odd
   before a JSON text. */
#include "fuzz/fuzz.h"

#include "core/json/json_read.h"
#include "core/json/json_write.h"
#include "tests/support/json_choice.h"

enum { MAX_INPUT = 4096 };

static fb_bytes view(const fb_buffer *buffer) {
    static const uint8_t nothing[1];
    return (fb_bytes){buffer->begin ? buffer->begin : nothing, fb_buffer_size(buffer)};
}

static void check_fault(fb_bytes input, fb_status status, const fb_json_fault *fault) {
    MUST(status == FB_BAD_MESSAGE);
    MUST(fault->problem && *fault->problem && fault->offset <= input.size);
    MUST(strlen(fault->path) <= FB_JSON_PATH_MAX);
    MUST(fault->token_size <= FB_JSON_TOKEN_MAX);
}

static bool to_json(const json_choice *c, fb_bytes message, fb_json_options options,
                    fb_buffer *text) {
    fb_json_fault fault;
    uint64_t unknown = 0;
    fb_status status = fb_json_write(&c->all, c->types, message, options, text, &unknown, &fault);
    if (status != FB_OK) check_fault(message, status, &fault);
    return status == FB_OK;
}

static bool from_json(const json_choice *c, fb_bytes text, bool lenient, fb_buffer *message) {
    fb_json_fault fault;
    fb_status status = fb_json_read(&c->all, c->types, text, lenient, message, &fault);
    if (status != FB_OK) check_fault(text, status, &fault);
    return status == FB_OK;
}

/* Check that a text and a message are converted to each other. */
static void check_stable(const json_choice *c, fb_bytes text) {
    static const fb_json_options plain = {false, false, false, NULL},
                                 other = {true, true, true, NULL};
    fb_buffer message = {NULL}, again = {NULL}, third = {NULL}, fourth = {NULL};
    MUST(from_json(c, text, false, &message));
    MUST(to_json(c, view(&message), plain, &again) && fb_json_equal(view(&again), text));
    MUST(to_json(c, view(&message), other, &third));
    MUST(from_json(c, view(&third), true, &fourth));
    MUST(fb_json_equal(view(&fourth), view(&message)));
    fb_buffer_free(&message);
    fb_buffer_free(&again);
    fb_buffer_free(&third);
    fb_buffer_free(&fourth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static json_choice c;
    fb_buffer message = {NULL}, text = {NULL};
    if (size > MAX_INPUT) return 0;
    const size_t taken = json_choice_make(&c, data, size);
    if (taken == size) return 0;
    const fb_bytes input = {data + taken + 1, size - taken - 1};
    const bool is_text = data[taken] & 1;
    const fb_json_options plain = {false, false, false, NULL};
    bool read = !is_text || from_json(&c, input, data[taken] & 2, &message);
    if (read && to_json(&c, is_text ? view(&message) : input, plain, &text))
        check_stable(&c, view(&text));
    else MUST(!is_text || !read); /* each message that was read has a JSON form */
    fb_buffer_free(&message);
    fb_buffer_free(&text);
    return 0;
}
