/* Flows that are decoded as columns and then encoded become the same messages as flows that are
   decoded directly. */
#include "tests/support/session.h"

#include "core/arrow/arrow_encode.h"
#include "tests/support/batch_view.h"
#include "tests/builders/random_plan.h"
#include "tests/builders/samples.h"

enum { BATCH_ROWS = 70, OUTPUT = 1 << 20 };

typedef struct {
    session row;
    fb_columns columns;
    fb_decoder *columned;
    fb_arrow_encoder encoder;
    uint8_t *output;
    fb_check_allocator allocator;
    fb_memory memory;
    uint64_t rows;
} comparison;

static void make_encoder(comparison *p, fb_processor processor) {
    const fb_plan *plan = p->row.plan.plan;
    fb_arrow_binding *bindings = calloc(plan->column_count, sizeof *bindings);
    batch_view schema;
    for (size_t i = 0; i < plan->column_count; i++)
        bindings[i].column =
            plan->columns[i].flags & FB_COLUMN_ENABLED ? (uint16_t)i : FB_NO_COLUMN;
    batch_view_open(&schema, plan, NULL);
    CHECK_STATUS(
        fb_arrow_encoder_new(&p->encoder, plan, &schema.schema, bindings, processor, &p->memory),
        FB_OK);
    batch_view_close(&schema);
    free(bindings);
}

static void comparison_open(comparison *p, const char *lines, fb_processor processor) {
    memset(p, 0, sizeof *p);
    CHECK_STATUS(session_try(&p->row, lines, 1 << 16, (fb_decoder_options){.processor = processor}),
                 FB_OK);
    p->memory = fb_check_memory(&p->allocator);
    CHECK_STATUS(fb_decoder_new(&p->columned, p->row.plan.plan,
                                (fb_decoder_options){.processor = processor}, &p->memory),
                 FB_OK);
    CHECK_STATUS(fb_columns_new(&p->columns, p->row.plan.plan, &p->memory), FB_OK);
    make_encoder(p, processor);
    p->output = malloc(OUTPUT);
}

static void comparison_close(comparison *p) {
    fb_decoder_free(p->columned);
    fb_columns_free(&p->columns);
    fb_arrow_encoder_free(&p->encoder);
    session_close(&p->row);
    free(p->output);
    CHECK_EQUAL(p->memory.used, 0);
}

static void encode_batch(comparison *p, const fb_batch *batch, text *described) {
    batch_view view;
    size_t position = 0;
    batch_view_open(&view, p->row.plan.plan, batch);
    fb_row_set_output(&p->encoder.row, p->output, OUTPUT, 0);
    CHECK_STATUS(fb_arrow_encode(&p->encoder, &view.array, &position), FB_OK);
    if (position < batch->rows)
        fprintf(stderr, "%s: %s\n", p->row.plan.names[p->encoder.source.fault.child],
                fb_arrow_reason_text(p->encoder.source.fault.reason));
    describe_messages(described, &p->row.plan, p->output, fb_row_size(&p->encoder.row));
    p->rows += batch->rows;
    batch_view_close(&view);
}

/* Check that both paths give the same result for a datagram. */
static void check_same(comparison *p, const byte_buffer *d) {
    fb_datagram datagram = datagram_of(d->data, d->size, SOURCE_ADDRESS);
    fb_position position = {0};
    fb_status status;
    text described = {0};
    session_forget(&p->row);
    session_feed_batch(&p->row, &datagram, 1);
    do {
        fb_batch *batch;
        CHECK_STATUS(fb_batch_new(&batch, p->row.plan.plan, BATCH_ROWS, p->memory), FB_OK);
        fb_columns_set_batch(&p->columns, batch);
        status = fb_columns_decode(p->columned, &datagram, 1, &position, &p->columns);
        encode_batch(p, batch, &described);
        fb_batch_free(batch);
    } while (status == FB_NO_SPACE);
    CHECK_TEXT(text_of(&described), session_text(&p->row));
    text_free(&described);
}

#define FOR_EACH_PROCESSOR(processor) \
    for (fb_processor processor = FB_PROCESSOR_ANY; processor <= fb_processor_find(); processor++)

static void check_samples(const char *lines) {
    FOR_EACH_PROCESSOR(processor) {
        comparison p;
        byte_buffer d;
        comparison_open(&p, lines, processor);
        for (size_t i = 0; i < sample_count; i++) {
            samples[i].build(&d);
            check_same(&p, &d);
        }
        CHECK(p.rows > 10);
        comparison_close(&p);
    }
}

static void gives_the_same_messages_for_samples(void) {
    check_samples(usual_columns);
    check_samples(scaled_columns);
}

static void gives_the_same_messages_with_all_columns(void) {
    text lines = {0};
    plan_put_rich(&lines);
    check_samples(text_of(&lines));
    text_free(&lines);
}

/* Append elements of every role and size, often with zeros. */
static void put_random_datagram(byte_buffer *d) {
    static const unsigned sizes[] = {1, 2, 3, 4, 4, 4, 8, 16, 6, VARIABLE};
    specifier fields[20];
    size_t count = 1 + below(20);
    ipfix_begin(d, (ipfix_header){.seconds = 1000000000, .domain = below(3)});
    size_t set = set_begin(d, 2);
    for (size_t i = 0; i < count; i++)
        fields[i] = (specifier){random_ids[below((uint32_t)random_id_count)], PICK(sizes), 0};
    put_template(d, 256, fields, count);
    set_end(d, set);
    set = set_begin(d, 256);
    for (unsigned record = 0, sparse = below(4); record < 4; record++)
        for (size_t i = 0; i < count; i++) {
            size_t size = fields[i].size;
            if (size == VARIABLE) put8(d, (unsigned)(size = below(30)));
            while (size--) put8(d, below(4) < sparse ? 0 : below(256));
        }
    set_end(d, set);
    ipfix_end(d);
}

static void gives_the_same_messages_for_random_plans(void) {
    uint64_t rows = 0;
    random_begin(11);
    for (unsigned round = 0; round < 150; round++) {
        comparison p;
        text lines = {0};
        plan_put_random(&lines, FROM_RECORDS);
        comparison_open(&p, text_of(&lines), (fb_processor)(1 + below(fb_processor_find())));
        for (unsigned i = 0; i < 10; i++) {
            byte_buffer d;
            put_random_datagram(&d);
            check_same(&p, &d);
        }
        rows += p.rows;
        comparison_close(&p);
        text_free(&lines);
    }
    CHECK(rows > 4000);
}

RUN_TESTS(TEST(gives_the_same_messages_for_samples), TEST(gives_the_same_messages_with_all_columns),
          TEST(gives_the_same_messages_for_random_plans))
