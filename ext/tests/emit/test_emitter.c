/* The decoders follow the emitter interface. Compiled for columns, and for an independent emitter
   that shares only the interface (trace.h), they give the same values as for messages. */
#include "tests/support/session.h"

#include "tests/builders/samples.h"
#include "tests/support/trace.h"

/* A decoder for each emitter, with the same plan. */
typedef struct {
    session row;
    trace trace;
    fb_columns columns;
    fb_decoder *traced, *columned;
    fb_check_allocator allocator;
    fb_memory memory;
} comparison;

enum { BATCH_ROWS = 3 }; /* smaller than the number of flows of many datagrams */

static void comparison_open(comparison *p, const char *lines, fb_decoder_options options) {
    memset(p, 0, sizeof *p);
    CHECK_STATUS(session_try(&p->row, lines, 1 << 16, options), FB_OK);
    trace_new(&p->trace, &p->row.plan);
    p->memory = fb_check_memory(&p->allocator);
    CHECK_STATUS(fb_decoder_new(&p->traced, p->row.plan.plan, options, &p->memory), FB_OK);
    CHECK_STATUS(fb_decoder_new(&p->columned, p->row.plan.plan, options, &p->memory), FB_OK);
    CHECK_STATUS(fb_columns_new(&p->columns, p->row.plan.plan, &p->memory), FB_OK);
}

static void comparison_close(comparison *p) {
    fb_decoder_free(p->traced);
    fb_decoder_free(p->columned);
    fb_columns_free(&p->columns);
    trace_free(&p->trace);
    session_close(&p->row);
    CHECK_EQUAL(p->memory.used, 0);
}

/* Decode as columns, batch after batch. */
static void decode_columns(comparison *p, const fb_datagram *datagram, text *described) {
    fb_position position = {0};
    fb_status status;
    do {
        fb_batch *batch;
        CHECK_STATUS(fb_batch_new(&batch, p->row.plan.plan, BATCH_ROWS, p->memory), FB_OK);
        fb_columns_set_batch(&p->columns, batch);
        status = fb_columns_decode(p->columned, datagram, 1, &position, &p->columns);
        CHECK(status == FB_OK || batch->rows);
        describe_batch(described, &p->row.plan, batch);
        fb_batch_free(batch);
    } while (status == FB_NO_SPACE);
}

/* Decode a datagram with all emitters, and compare values and counters. */
static void check_same(comparison *p, const byte_buffer *d) {
    fb_datagram datagram = datagram_of(d->data, d->size, SOURCE_ADDRESS);
    fb_position position = {0};
    text counted = {0}, columns = {0};
    session_forget(&p->row);
    session_feed_batch(&p->row, &datagram, 1);
    text_clear(&p->trace.text);
    while (trace_decode(p->traced, &datagram, 1, &position, &p->trace) == FB_NO_SPACE) continue;
    CHECK_TEXT(session_text(&p->row), text_of(&p->trace.text));
    put_counters_text(&counted, p->traced);
    CHECK_COUNTERS(&p->row, text_of(&counted));
    decode_columns(p, &datagram, &columns);
    CHECK_TEXT(text_of(&columns), session_text(&p->row));
    text_clear(&counted);
    put_counters_text(&counted, p->columned);
    CHECK_COUNTERS(&p->row, text_of(&counted));
    text_free(&counted);
    text_free(&columns);
}

/* Repeat for every kind of processor that this machine supports. */
#define FOR_EACH_PROCESSOR(processor) \
    for (fb_processor processor = FB_PROCESSOR_ANY; processor <= fb_processor_find(); processor++)

static void check_all_samples(const char *lines, unsigned refuse_each, unsigned tunnels) {
    FOR_EACH_PROCESSOR(processor) {
        comparison p;
        byte_buffer d;
        comparison_open(&p, lines,
                        (fb_decoder_options){.decapsulate = tunnels, .processor = processor});
        p.trace.refuse_each = refuse_each;
        for (size_t i = 0; i < sample_count; i++) {
            samples[i].build(&d);
            check_same(&p, &d);
        }
        comparison_close(&p);
    }
}

static void gives_the_same_values_with_every_emitter(void) {
    check_all_samples(usual_columns, 0, 0);
}

static void gives_the_same_values_with_all_columns(void) {
    text lines = {0};
    plan_put_rich(&lines);
    check_all_samples(text_of(&lines), 0, 0);
    check_all_samples(text_of(&lines), 0, ~0u); /* all tunnels are opened */
    text_free(&lines);
}

static void gives_the_same_values_with_scaled_totals(void) {
    check_all_samples(scaled_columns, 0, 0);
    check_all_samples(scaled_columns, 2, 0);
}

static void continues_after_a_refused_row(void) {
    check_all_samples(usual_columns, 2, 0);
    check_all_samples(usual_columns, 3, ~0u);
}

/* Append elements of every role and size in any order, some repeatedly, often with zeros. */
static void put_random_template(byte_buffer *d, uint32_t *random, specifier *fields,
                                size_t *count) {
    static const unsigned ids[] = {
        1,   2,   4,   6,   7,   8,   11,  12,  15,  16,  21,  22,  27,  28,  32,  34,  48,
        50,  56,  58,  60,  61,  70,  71,  72,  79,  80,  82,  83,  85,  89,  95,  96,  137,
        139, 144, 150, 152, 154, 156, 158, 160, 161, 256, 276, 302, 305, 306, 309, 310, 311,
        312, 313, 315, 320, 371, 434, 435, 10,  14,  197, 232, 299, 291, 485, 512, 515};
    static const unsigned sizes[] = {1, 2, 3, 4, 4, 4, 4, 8, 16, 5, 0, 9, VARIABLE};
    *count = 1 + (*random >> 8) % 20;
    for (size_t i = 0; i < *count; i++) {
        *random = *random * 1664525u + 1013904223u;
        fields[i] = (specifier){ids[(*random >> 8) % (sizeof ids / sizeof *ids)],
                                sizes[(*random >> 20) % 13], 0};
        if (fields[i].id == 137) fields[i].pen = 2636;
        if (*random >> 29 == 0) fields[i].pen = 29305;
    }
    put_template(d, 256, fields, *count);
}

static void put_random_bytes(byte_buffer *d, uint32_t *random, size_t size) {
    *random = *random * 1664525u + 1013904223u;
    unsigned sparse = *random >> 30;
    while (size--) {
        *random = *random * 1664525u + 1013904223u;
        put8(d, sparse && *random >> 28 ? *random >> 30 : *random >> 24);
    }
}

static void put_random_data(byte_buffer *d, uint32_t *random, const specifier *fields,
                            size_t count) {
    for (unsigned record = 0; record < 4; record++)
        for (size_t i = 0; i < count; i++) {
            size_t size = fields[i].size;
            if (size == VARIABLE) put8(d, (unsigned)(size = *random >> 25));
            put_random_bytes(d, random, size);
        }
}

static void check_random_templates(const char *lines, fb_processor processor) {
    comparison p;
    uint32_t random = 5;
    comparison_open(&p, lines, (fb_decoder_options){.processor = processor});
    for (unsigned round = 0; round < 400; round++) {
        byte_buffer d;
        specifier fields[20];
        size_t count;
        bool ipfix = round % 4;
        if (ipfix) ipfix_begin(&d, (ipfix_header){.seconds = 1000000000, .domain = round % 3});
        else netflow9_begin(&d, (netflow9_header){.seconds = 1000000000, .uptime = 7000000});
        size_t set = set_begin(&d, ipfix ? 2 : 0);
        put_random_template(&d, &random, fields, &count);
        set_end(&d, set);
        set = set_begin(&d, 256);
        put_random_data(&d, &random, fields, count);
        set_end(&d, set);
        if (ipfix) ipfix_end(&d);
        check_same(&p, &d);
    }
    CHECK(p.row.row.count > 1000);
    comparison_close(&p);
}

static void gives_the_same_values_for_random_templates(void) {
    text lines = {0};
    plan_put_rich(&lines);
    FOR_EACH_PROCESSOR(processor) {
        check_random_templates(text_of(&lines), processor);
        check_random_templates(usual_columns, processor);
        check_random_templates(scaled_columns, processor);
    }
    text_free(&lines);
}

/* Packets as in sFlow, with random bytes after each header. */
static void check_random_packets(fb_processor processor) {
    static const unsigned types[] = {0x0800, 0x86dd, 0x8100, 0x8847,
                                     0x88a8, 0x9100, 0x0806, 0x05dc};
    comparison p;
    uint32_t random = 9;
    comparison_open(&p, usual_columns, (fb_decoder_options){.processor = processor});
    for (unsigned round = 0; round < 2000; round++) {
        byte_buffer d;
        sflow_begin(&d, 1, (sflow_header){.agent = 1});
        size_t sample = flow_sample_begin(&d, 1, (flow_sample){.rate = 1});
        size_t record = header_begin(&d, 1, 100);
        put_ethernet(&d, 1, 2, types[round % 8]);
        size_t start = d.size;
        put_random_bytes(&d, &random, round % 90);
        if (d.size > start && round & 64) d.data[start] = 0x45;
        else if (d.size > start && round & 32) d.data[start] = 0x60;
        header_end(&d, record);
        sample_end(&d, sample);
        check_same(&p, &d);
    }
    CHECK_EQUAL(p.row.row.count, 2000);
    comparison_close(&p);
}

static void gives_the_same_values_for_random_packets(void) {
    FOR_EACH_PROCESSOR(processor) check_random_packets(processor);
}

RUN_TESTS(TEST(gives_the_same_values_with_every_emitter),
          TEST(gives_the_same_values_with_all_columns),
          TEST(gives_the_same_values_with_scaled_totals), TEST(continues_after_a_refused_row),
          TEST(gives_the_same_values_for_random_templates),
          TEST(gives_the_same_values_for_random_packets))
