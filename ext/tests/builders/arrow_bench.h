/* Shared by tests of the Arrow encoder: an encoder, and an output that ends at a guard page and
   grows only by the room needed. */
#ifndef FB_TESTS_BUILDERS_ARROW_BENCH_H
#define FB_TESTS_BUILDERS_ARROW_BENCH_H

#include "tests/support/session.h"

#include "tests/builders/arrow_builder.h"
#include "core/arrow/arrow_encode.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The members of every enum column. */
static const fb_member members[] = {
    {{(const uint8_t *)"ingress", 7}, 1}, {{(const uint8_t *)"egress", 6}, 2},
    {{(const uint8_t *)"in", 2}, 3},      {{(const uint8_t *)"unknown", 7}, 0},
    {{(const uint8_t *)"5", 1}, 55},      {{(const uint8_t *)"most", 4}, INT32_MAX},
};

typedef struct {
    fb_check_allocator allocator;
    fb_memory memory;
    named_plan plan;
    fb_arrow_encoder encoder;
    fb_status status;
    uint8_t *output;
    size_t capacity;
    text text;
} bench;

/* The kind of processor for which rows are written. */
static fb_processor run_processor;
#define FOR_EACH_PROCESSOR() \
    for (run_processor = FB_PROCESSOR_ANY; run_processor <= fb_processor_find(); run_processor++)

/* Open an encoder. Child i fills column i. */
UNUSED static void bench_open(bench *b, const char *lines, const arrow_node *batch) {
    fb_arrow_binding bindings[ARROW_CHILDREN] = {{0}};
    memset(b, 0, sizeof *b);
    b->memory = fb_check_memory(&b->allocator);
    CHECK_STATUS(plan_read(&b->plan, lines, &b->memory), FB_OK);
    for (uint16_t i = 0; i < ARROW_CHILDREN; i++)
        bindings[i] =
            (fb_arrow_binding){i < b->plan.count ? i : FB_NO_COLUMN, members, COUNT(members)};
    b->status = fb_arrow_encoder_new(&b->encoder, b->plan.plan, &batch->schema, bindings,
                                     run_processor, &b->memory);
    b->output = fb_guarded_room_of(b->capacity = 0);
}

UNUSED static void bench_close(bench *b) {
    if (b->status == FB_OK) fb_arrow_encoder_free(&b->encoder);
    plan_free(&b->plan);
    fb_guarded_free(b->output, b->capacity);
    text_free(&b->text);
    CHECK_EQUAL(b->memory.used, 0);
    CHECK_EQUAL(b->allocator.held, 0);
}

/* Change the size of the output and keep its content. */
UNUSED static void resize_output(bench *b, size_t capacity) {
    size_t used = b->encoder.row.data ? fb_row_size(&b->encoder.row) : 0;
    uint8_t *output = fb_guarded_room_of(capacity);
    if (used) memcpy(output, b->output, used);
    fb_guarded_free(b->output, b->capacity);
    b->output = output;
    b->capacity = capacity;
    fb_row_set_output(&b->encoder.row, output, capacity, used);
}

/* Encode all rows. The output grows only by the room needed. */
UNUSED static fb_status encode(bench *b, const arrow_node *batch, size_t *position) {
    fb_status status;
    while ((status = fb_arrow_encode(&b->encoder, &batch->array, position)) == FB_NO_SPACE)
        resize_output(b, fb_row_size(&b->encoder.row) + b->encoder.row.needed);
    return status;
}

#endif
