/* Messages as JSON and back: random messages of random types, cut and damaged, up to guard pages.
   Values and errors are tested through the binding (tests/codec/test_json.py). */
#include "tests/support/check.h"

#include "core/json/json_read.h"
#include "core/json/json_write.h"
#include "tests/support/json_choice.h"
#include "tests/builders/random_plan.h"

static json_choice choice;

static void choose(built_message *message) {
    uint8_t bytes[CODEC_TYPES * (1 + 4 * CODEC_FIELDS)];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)below(256);
    json_choice_make(&choice, bytes, sizeof bytes);
    message->size = 0;
    build_random(message, &choice.types->core, 2);
}

static fb_status to_json(const void *data, size_t size, fb_buffer *output) {
    const fb_json_options plain = {false, false, false, NULL};
    fb_json_fault fault;
    uint64_t unknown = 0;
    uint8_t *copy = fb_guarded_copy(data, size);
    fb_status status = fb_json_write(&choice.all, choice.types, (fb_bytes){copy, size}, plain,
                                     output, &unknown, &fault);
    if (status != FB_OK) CHECK(fault.problem[0] && fault.offset <= size);
    fb_guarded_free(copy, size);
    return status;
}

static fb_status from_json(const void *data, size_t size, fb_buffer *output) {
    fb_json_fault fault;
    uint8_t *copy = fb_guarded_copy(data, size);
    fb_status status =
        fb_json_read(&choice.all, choice.types, (fb_bytes){copy, size}, false, output, &fault);
    if (status != FB_OK) CHECK(fault.problem[0] && fault.offset <= size);
    fb_guarded_free(copy, size);
    return status;
}

static void check_text(const fb_buffer *text) {
    fb_buffer message = {NULL}, again = {NULL};
    const size_t size = fb_buffer_size(text);
    CHECK_STATUS(from_json(text->begin, size, &message), FB_OK);
    CHECK_STATUS(to_json(message.begin, fb_buffer_size(&message), &again), FB_OK);
    CHECK_BYTES(again.begin, fb_buffer_size(&again), text->begin, size);
    fb_buffer_free(&message);
    fb_buffer_free(&again);
}

static void random_messages_are_read_as_they_are_written(void) {
    static built_message message;
    size_t written = 0;
    random_begin(1);
    for (int i = 0; i < 2000; i++) {
        fb_buffer text = {NULL};
        choose(&message);
        if (to_json(message.data, message.size, &text) == FB_OK) {
            written += fb_buffer_size(&text) > 2;
            check_text(&text);
        }
        fb_buffer_free(&text);
    }
    CHECK(written > 500);
}

/* Each prefix and each damaged byte has an answer. A text without its end has no meaning. */
static void damaged_input_has_an_answer(void) {
    static built_message message;
    random_begin(2);
    for (int i = 0; i < 60; i++) {
        fb_buffer text = {NULL};
        choose(&message);
        if (message.size > 400 || to_json(message.data, message.size, &text) != FB_OK) {
            fb_buffer_free(&text);
            continue;
        }
        const size_t size = fb_buffer_size(&text);
        for (size_t k = 0; k < size && size < 2000; k++) {
            fb_buffer output = {NULL};
            CHECK_STATUS(from_json(text.begin, k, &output), FB_BAD_MESSAGE);
            output.p = output.begin;
            text.begin[k] ^= (uint8_t)(1u << below(8));
            from_json(text.begin, size, &output);
            fb_buffer_free(&output);
        }
        for (size_t k = 0; k < message.size; k++) {
            fb_buffer output = {NULL};
            to_json(message.data, k, &output);
            output.p = output.begin;
            message.data[k] ^= (uint8_t)(1u << below(8));
            to_json(message.data, message.size, &output);
            fb_buffer_free(&output);
        }
        fb_buffer_free(&text);
    }
}

static void names_are_found_among_many(void) {
    enum { MANY = 1000 };
    static char texts[MANY][12];
    static fb_json_name names[MANY];
    static uint32_t slots[2048];
    fb_json_names all = {names, MANY, slots, 2048};
    for (uint32_t i = 0; i < MANY; i++) {
        const int size = snprintf(texts[i], sizeof texts[i], "name%u", i / 2 * 2);
        names[i] = (fb_json_name){{(const uint8_t *)texts[i], (size_t)size}, i};
    }
    fb_json_names_finish(&all);
    for (uint32_t i = 0; i < MANY; i++)
        CHECK_EQUAL(fb_json_names_find(&all, names[i].text)->value, i / 2 * 2);
    CHECK(!fb_json_names_find(&all, (fb_bytes){(const uint8_t *)"name1", 5}));
    CHECK(!fb_json_names_find(&all, (fb_bytes){NULL, 0}));
}

RUN_TESTS(TEST(random_messages_are_read_as_they_are_written), TEST(damaged_input_has_an_answer),
          TEST(names_are_found_among_many))
