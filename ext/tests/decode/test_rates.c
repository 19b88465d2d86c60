/* Configured sampling rates and the rate limit, in messages, in an independent emitter, and in
   datagrams that are interrupted. */
#include "tests/support/session.h"

#include "tests/support/trace.h"

#define SECOND UINT64_C(1000000000)

enum { FLOWS = 5, EXPORTERS = 3, DATAGRAMS = 60 };

static const char *const lines = "1 rate uint rate limit=100000 : netflow5:sampling_interval\n"
                                 "2 bytes uint scaled limit=4294967295 : netflow5:dOctets\n"
                                 "3 input uint limit=65535 : netflow5:input\n";

static const fb_prefix NETWORKS[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 0}, 120},
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 2}, 128},
};
static const fb_sampling_rule RULES[] = {{0, 0, 10, false}, {1, 3, 20, true}, {1, 4, 100001, true}};

/* A batch of datagrams of several exporters. */
typedef struct {
    byte_buffer payloads[DATAGRAMS];
    fb_datagram datagrams[DATAGRAMS];
} batch;

static void fill(batch *b) {
    for (unsigned i = 0; i < DATAGRAMS; i++) {
        byte_buffer *d = &b->payloads[i];
        netflow5_begin(d, FLOWS, (netflow5_header){.sampling = (uint16_t)(i % 2 * 7)});
        for (unsigned k = 0; k < FLOWS; k++)
            put_netflow5(d, (netflow5_record){.input = (uint16_t)(3 + k % 3), .bytes = 100 + k});
        b->datagrams[i] = datagram_of(d->data, d->size, SOURCE_ADDRESS + i % EXPORTERS);
        b->datagrams[i].time = (1000 + i / 12) * SECOND;
    }
}

static void open_limited(session *s, size_t capacity) {
    memset(s, 0, sizeof *s);
    CHECK_STATUS(session_try(s, lines, capacity, (fb_decoder_options){.rate_limit = 2 * FLOWS}),
                 FB_OK);
    CHECK_STATUS(fb_decoder_set_sampling(s->decoder, NETWORKS, 2, RULES, 3), FB_OK);
}

static void each_emitter_writes_the_same_rates(void) {
    static batch b;
    session s, traced;
    trace t;
    fb_position position = {0};
    fill(&b);
    open_limited(&s, 1u << 20);
    open_limited(&traced, 1);
    session_feed_batch(&s, b.datagrams, DATAGRAMS);
    trace_new(&t, &traced.plan);
    t.refuse_each = 3;
    while (trace_decode(traced.decoder, b.datagrams, DATAGRAMS, &position, &t) == FB_NO_SPACE)
        continue;
    CHECK_TEXT(text_of(&t.text), session_text(&s));
    CHECK_EQUAL(count_all(traced.decoder).status[FB_RATE_LIMITED],
                session_count(&s, FB_RATE_LIMITED));
    CHECK(session_count(&s, FB_RATE_LIMITED) > 0);
    CHECK_EQUAL(session_count(&s, FB_RATE_LIMITED) + count_all(s.decoder).rows[FB_ROWS_FLOWS],
                DATAGRAMS * FLOWS);
    CHECK(session_count(&s, FB_OUT_OF_RANGE) > 0); /* of interface 4 */
    trace_free(&t);
    session_close(&traced);
    session_close(&s);
}

/* The output grows by one row at a time, so that every row interrupts its datagram. */
static void interrupted_datagrams_have_the_same_rates(void) {
    static batch b;
    session whole, cut;
    fill(&b);
    open_limited(&whole, 1u << 20);
    open_limited(&cut, 1);
    session_feed_batch(&whole, b.datagrams, DATAGRAMS);
    session_feed_batch(&cut, b.datagrams, DATAGRAMS);
    text expected = {0};
    text_put(&expected, "%s", session_text(&whole));
    CHECK_FLOWS(&cut, text_of(&expected));
    text_free(&expected);
    session_close(&whole);
    session_close(&cut);
}

/* Other datagrams may be decoded before a datagram is resumed. */
static void a_datagram_is_resumed_after_others(void) {
    static batch b;
    session s;
    fb_position position = {0};
    fill(&b);
    open_limited(&s, 1u << 20);
    fb_row_set_output(&s.row, s.output, s.plan.plan->max_fixed_size + 1, 0);
    CHECK_STATUS(fb_row_decode(s.decoder, &b.datagrams[0], 1, &position, &s.row), FB_NO_SPACE);
    fb_row_set_output(&s.row, s.output, s.capacity, 0);
    session_feed_batch(&s, &b.datagrams[1], 5);
    CHECK_STATUS(fb_row_decode(s.decoder, &b.datagrams[0], 1, &position, &s.row), FB_OK);
    CHECK(!s.decoder->limited.exporter);
    session_close(&s);
}

/* Failed allocations leave nothing, and no rules. */
static void failed_allocations_leave_a_usable_decoder(void) {
    static batch b;
    fill(&b);
    for (size_t failing = 1; failing <= 6; failing++) {
        session s = {0};
        CHECK_STATUS(session_try(&s, lines, 65536, (fb_decoder_options){0}), FB_OK);
        s.allocator.fail_at = s.allocator.calls + failing;
        fb_status status = fb_decoder_set_sampling(s.decoder, NETWORKS, 2, RULES, 3);
        CHECK_STATUS(status, failing < 6 ? FB_NO_MEMORY : FB_OK);
        session_feed_batch(&s, b.datagrams, 1);
        CHECK_EQUAL(count_all(s.decoder).rows[FB_ROWS_FLOWS], FLOWS);
        session_close(&s);
    }
}

RUN_TESTS(TEST(each_emitter_writes_the_same_rates), TEST(interrupted_datagrams_have_the_same_rates),
          TEST(a_datagram_is_resumed_after_others), TEST(failed_allocations_leave_a_usable_decoder))
