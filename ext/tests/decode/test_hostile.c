/* Robustness against hostile input, failed allocations and full outputs at any point. No byte
   outside a buffer is read or written, nothing leaks, and the decoder keeps working. Inputs and
   outputs end at guard pages. */
#include "tests/support/session.h"

#include "tests/builders/samples.h"

/* Check that every sample still gives its usual flows after a disturbance. */
static void check_still_works(session *s) {
    byte_buffer d;
    for (size_t i = 0; i < sample_count; i++) {
        session_forget(s);
        samples[i].build(&d);
        session_feed_bytes(s, d.data, d.size, 0xcb007100u + (uint32_t)i); /* from a new address */
        CHECK(fb_row_size(&s->row) > 0);
    }
}

static void check_messages(session *s) {
    CHECK(!strstr(session_text(s), NOT_A_MESSAGE));
}

/* Damaged datagrams -------------------------------------------------------------------------- */

static void survives_every_prefix(void) {
    for (size_t i = 0; i < sample_count; i++) {
        byte_buffer d;
        session s;
        samples[i].build(&d);
        session_open(&s, rich_columns(), 1 << 16);
        for (size_t size = 0; size <= d.size; size++) {
            session_forget(&s);
            session_feed_bytes(&s, d.data, size, SOURCE_ADDRESS);
            check_messages(&s);
        }
        check_still_works(&s);
        session_close(&s);
    }
}

/* Flip each bit of each byte, and set each byte to its extremes and its neighbours. */
static void survives_every_corrupted_byte(void) {
    for (size_t i = 0; i < sample_count; i++) {
        byte_buffer d;
        session s;
        samples[i].build(&d);
        session_open(&s, usual_columns, 1 << 16);
        for (size_t at = 0; at < d.size; at++)
            for (unsigned change = 0; change < 12; change++) {
                uint8_t was = d.data[at];
                const uint8_t others[] = {0, 0xff, (uint8_t)(was + 1), (uint8_t)(was - 1)};
                d.data[at] = change < 8 ? (uint8_t)(was ^ 1u << change) : others[change - 8];
                session_forget(&s);
                session_feed(&s, &d);
                check_messages(&s);
                d.data[at] = was;
            }
        check_still_works(&s);
        session_close(&s);
    }
}

static uint32_t next_random(uint32_t *state) {
    return *state = *state * 1664525u + 1013904223u;
}

/* Change several bytes at once, mostly whole words, and decode all samples with one decoder. */
static void survives_many_corruptions_at_once(void) {
    uint32_t random = 1;
    session s;
    session_open(&s, rich_columns(), 1 << 16);
    for (unsigned round = 0; round < 3000; round++) {
        byte_buffer d;
        samples[next_random(&random) / 7 % sample_count].build(&d);
        for (unsigned changes = 1 + next_random(&random) / 11 % 6; changes; changes--) {
            size_t at = next_random(&random) / 13 % (d.size - 3);
            if (next_random(&random) & 1u << 20)
                patch32(&d, at / 4 * 4, next_random(&random) >> (next_random(&random) >> 27));
            else d.data[at] = (uint8_t)(next_random(&random) >> 24);
        }
        session_forget(&s);
        session_feed(&s, &d);
        check_messages(&s);
    }
    check_still_works(&s);
    session_close(&s);
}

/* Little room -------------------------------------------------------------------------------- */

static void set_source_as(void *context, void *deferred) {
    fb_deferred_value *value = fb_deferred_values_find(deferred, *(const uint16_t *)context);
    *value = (fb_deferred_value){
        .state = FB_DEFERRED_UINT, .number = 4200000000u, .column = value->column};
}

/* Decode all samples in one batch, each also without its last bytes. The output starts at
   `capacity` and grows only by the room needed. */
static void decode_batch(session *s, const char *lines, size_t capacity, bool hook) {
    static byte_buffer d[16];
    static uint16_t column;
    fb_datagram batch[32];
    session_open(s, lines, capacity);
    for (size_t i = 0; i < sample_count; i++) {
        samples[i].build(&d[i]);
        batch[2 * i] = datagram_of(d[i].data, d[i].size, SOURCE_ADDRESS);
        batch[2 * i + 1] = datagram_of(d[i].data, d[i].size - 5, SOURCE_ADDRESS);
    }
    column = hook ? plan_column(&s->plan, "src_as") : 0;
    if (hook) fb_deferred_values_set_hook(&s->row.deferred, set_source_as, &column);
    session_feed_batch(s, batch, 2 * sample_count);
}

/* Under valgrind (FLOWBUF_SLOW_RUN), which detects uninitialized bytes, use only some
   capacities. */
static void check_every_capacity(const char *lines, bool hook, size_t step) {
    session whole;
    if (getenv("FLOWBUF_SLOW_RUN")) step *= 11;
    decode_batch(&whole, lines, 1 << 18, hook);
    fb_counters counters = count_all(whole.decoder);
    size_t size = fb_row_size(&whole.row);
    CHECK_EQUAL(counters.datagrams, 2 * sample_count);
    CHECK_EQUAL(counters.rows[FB_ROWS_FLOWS], whole.row.count);
    for (size_t capacity = 0; capacity < size + whole.plan.plan->max_fixed_size + 8 * step;
         capacity += step) {
        session s;
        decode_batch(&s, lines, capacity, hook);
        fb_counters seen = count_all(s.decoder);
        CHECK_BYTES(s.output, fb_row_size(&s.row), whole.output, size);
        CHECK_BYTES(&seen, sizeof seen, &counters, sizeof counters);
        CHECK_EQUAL(s.row.count, whole.row.count);
        session_close(&s);
    }
    session_close(&whole);
}

static void gives_the_same_output_at_every_capacity(void) {
    check_every_capacity(usual_columns, false, 1);
}

/* Late columns are then deferred values, and the constants of a datagram persist across calls. */
static void gives_the_same_output_with_a_hook(void) {
    check_every_capacity(usual_columns, true, 7);
}

static void gives_the_same_output_with_scaled_totals(void) {
    check_every_capacity(scaled_columns, false, 1);
}

static void gives_the_same_output_with_all_columns(void) {
    check_every_capacity(rich_columns(), false, 97);
}

/* The room for a row follows from the size of its input. Here small input fills many columns:
   constants of a datagram, derived values, and one byte that is used many times. The row asserts
   its bound. */
static void stays_within_the_reserved_room(void) {
    text lines = {0};
    byte_buffer d;
    for (unsigned i = 0; i < 40; i++) {
        text_put(&lines,
                 "%u repeated_%u uint repeated : meta:time_received meta:sequence_number "
                 "meta:source_port "
                 "derived:etype,derived:sampling_rate sflow:flow_sample.sample_pool "
                 "sflow:datagram.uptime\n",
                 1000000 + i, i);
        text_put(&lines, "%u bytes_%u bytes : meta:exporter_address\n", 2000000 + i, i);
        text_put(&lines, "%u same_%u fixed64 repeated : ipfix:4 netflow9:4\n", 3000000 + i, i);
    }
    for (unsigned i = 0; i < 5; i++) {
        session s;
        session_open(&s, text_of(&lines), 0);
        if (i == 0) {
            samples[0].build(&d);
        } else if (i == 1) {
            sflow_begin(&d, 3,
                        (sflow_header){.agent = 1, .sequence = 0xffffffff, .uptime = 0xffffffff});
            for (int k = 0; k < 3; k++) {
                size_t sample = flow_sample_begin(&d, 0, (flow_sample){.pool = 0xffffffff});
                sample_end(&d, sample);
            }
        } else {
            netflow9_begin(&d, (netflow9_header){.seconds = 0xffffffff, .sequence = 0xffffffff});
            if (i > 3)
                ipfix_begin(&d, (ipfix_header){.seconds = 0xffffffff, .sequence = 0xffffffff});
            size_t set = set_begin(&d, i > 3 ? 2 : 0);
            put_template(&d, 256, FIELDS({i == 2 ? 5 : 4, 1}));
            set_end(&d, set);
            set = set_begin(&d, 256);
            put_repeated(&d, 0xff, 5);
            set_end(&d, set);
            if (i > 3) ipfix_end(&d);
        }
        session_feed(&s, &d);
        check_messages(&s);
        CHECK(fb_row_size(&s.row) > 0);
        session_close(&s);
    }
    text_free(&lines);
}

/* Little memory ------------------------------------------------------------------------------ */

typedef enum { NOT_BUILT, AFFECTED, UNAFFECTED } outcome;

/* Let one allocation fail, or all from it on. UNAFFECTED: the run had fewer allocations. */
static outcome fail_allocation(size_t fail_at, bool forever) {
    session s;
    memset(&s, 0, sizeof s);
    s.allocator = (fb_check_allocator){.fail_at = fail_at, .fail_forever = forever};
    fb_status status = session_try(&s, usual_columns, 1 << 16, (fb_decoder_options){0});
    if (status != FB_OK) {
        CHECK_STATUS(status, FB_NO_MEMORY);
        CHECK_EQUAL(s.memory.used, 0);
        CHECK_EQUAL(s.allocator.held, 0);
        return NOT_BUILT;
    }
    for (size_t i = 0; i < sample_count; i++) {
        byte_buffer d;
        samples[i].build(&d);
        session_feed(&s, &d);
    }
    outcome outcome = s.allocator.calls >= fail_at ? AFFECTED : UNAFFECTED;
    s.allocator.fail_at = 0;
    check_still_works(&s);
    session_close(&s);
    return outcome;
}

static void survives_every_failed_allocation(void) {
    for (int forever = 0; forever < 2; forever++) {
        size_t count[3] = {0};
        for (size_t fail_at = 1; !count[UNAFFECTED]; fail_at++)
            count[fail_allocation(fail_at, forever)]++;
        CHECK(count[NOT_BUILT] > 100); /* plan, row, decoder */
        CHECK(count[AFFECTED] > 10);   /* exporters, templates, samplers */
    }
}

/* The calls that fail, as a set of bits from the first call on. */
typedef struct {
    fb_check_allocator *allocator;
    uint64_t failing;
} failing_calls;

static void *resize_or_fail(void *context, void *p, size_t old_size, size_t new_size) {
    failing_calls *calls = context;
    bool fails = new_size && calls->failing & 1;
    if (new_size) calls->failing >>= 1;
    return fails ? NULL : fb_check_resize(calls->allocator, p, old_size, new_size);
}

/* Feed a new exporter whose first datagram has templates and records, options first. */
static void feed_options_and_flow(session *s) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){.domain = 1});
    put_sampling_rate(&d, 1, 100);
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({1, 4}, {302, 4}));
    set_end(&d, set), set = set_begin(&d, 256);
    put32(&d, 7), put32(&d, 1);
    set_end(&d, set), ipfix_end(&d);
    session_feed(s, &d);
}

static void survives_two_failed_allocations(void) {
    enum { CALLS = 24 };
    for (unsigned first = 0; first < CALLS; first++)
        for (unsigned second = first + 1; second < CALLS; second++) {
            session s;
            failing_calls calls = {&s.allocator, 1u << first | 1u << second};
            session_open(&s, usual_columns, 1 << 16);
            s.memory.resize = resize_or_fail;
            s.memory.context = &calls;
            feed_options_and_flow(&s);
            check_messages(&s);
            calls.failing = 0;
            check_still_works(&s);
            session_close(&s);
        }
}

static void counts_templates_without_memory(void) {
    session s;
    memset(&s, 0, sizeof s);
    fb_status status =
        session_try(&s, usual_columns, 1 << 16, (fb_decoder_options){.exporter_memory = 100});
    CHECK_STATUS(status, FB_OK);
    byte_buffer d;
    samples[1].build(&d);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "");
    CHECK_COUNTERS(&s, "template_missing=2 template_limit=2");
    session_close(&s);
}

RUN_TESTS(TEST(survives_every_prefix), TEST(survives_every_corrupted_byte),
          TEST(survives_many_corruptions_at_once), TEST(gives_the_same_output_at_every_capacity),
          TEST(gives_the_same_output_with_a_hook), TEST(gives_the_same_output_with_scaled_totals),
          TEST(gives_the_same_output_with_all_columns), TEST(stays_within_the_reserved_room),
          TEST(survives_every_failed_allocation), TEST(survives_two_failed_allocations),
          TEST(counts_templates_without_memory))
