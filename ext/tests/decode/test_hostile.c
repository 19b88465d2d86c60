/* Robustness against hostile input, failed allocations and full outputs at any point. No byte
   outside a buffer is read or written, nothing leaks, time is bounded, and the decoder keeps
   working. Inputs and outputs end at guard pages. */
#include "tests/support/session.h"

#include <time.h>

#include "tests/builders/samples.h"

static const char *rich_columns(void) {
    static text lines;
    if (!lines.size) plan_put_rich(&lines);
    return text_of(&lines);
}

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

static void takes_every_prefix(void) {
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
static void takes_every_corrupted_byte(void) {
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
static void takes_many_corruptions_at_once(void) {
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
    fb_deferred_value *slot = fb_deferred_values_find(deferred, *(const uint16_t *)context);
    *slot = (fb_deferred_value){
        .state = FB_DEFERRED_UINT, .number = 4200000000u, .column = slot->column};
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
    CHECK_EQUAL(counters.flows, whole.row.count);
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

static void gives_the_same_at_every_capacity(void) {
    check_every_capacity(usual_columns, false, 1);
}

/* Late columns then wait in slots, and the constants of a datagram persist across calls. */
static void gives_the_same_at_every_capacity_with_a_hook(void) {
    check_every_capacity(usual_columns, true, 7);
}

static void gives_the_same_at_every_capacity_with_scaled_totals(void) {
    check_every_capacity(scaled_columns, false, 1);
}

static void gives_the_same_at_every_capacity_with_all_columns(void) {
    check_every_capacity(rich_columns(), false, 97);
}

/* The room for a row follows from the size of its input. Here small input fills many columns:
   constants of a datagram, derived values, and one byte that is used many times. The row asserts
   its bound. */
static void needs_no_more_room_than_promised(void) {
    text lines = {0};
    byte_buffer d;
    for (unsigned i = 0; i < 40; i++) {
        text_put(&lines,
                 "%u repeated_%u uint repeated : meta:time_received meta:sequence_number "
                 "meta:source_port "
                 "derived:etype,derived:sampling_rate sflow:flow_sample.sample_pool "
                 "sflow:datagram.uptime\n",
                 1000000 + i, i);
        text_put(&lines, "%u octets_%u bytes : meta:exporter_address\n", 2000000 + i, i);
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

typedef enum { NOT_BUILT, HURT, UNHURT } outcome;

/* Let one allocation fail, or all from it on. UNHURT: the run had fewer allocations. */
static outcome fail_allocation(size_t fail_at, bool for_ever) {
    session s;
    memset(&s, 0, sizeof s);
    s.allocator = (fb_check_allocator){.fail_at = fail_at, .fail_forever = for_ever};
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
    outcome outcome = s.allocator.calls >= fail_at ? HURT : UNHURT;
    s.allocator.fail_at = 0;
    check_still_works(&s);
    session_close(&s);
    return outcome;
}

static void survives_every_failed_allocation(void) {
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        size_t count[3] = {0};
        for (size_t fail_at = 1; !count[UNHURT]; fail_at++)
            count[fail_allocation(fail_at, for_ever)]++;
        CHECK(count[NOT_BUILT] > 100); /* plan, row, decoder */
        CHECK(count[HURT] > 10);       /* exporters, templates, samplers */
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
    size_t set = set_begin(&d, 3);
    put_options_template(&d, 300, 1, FIELDS({302, 4}, {34, 4}));
    set_end(&d, set), set = set_begin(&d, 300);
    put32(&d, 1), put32(&d, 100);
    set_end(&d, set), set = set_begin(&d, 2);
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

static void counts_templates_that_memory_does_not_allow(void) {
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

/* Time limits -------------------------------------------------------------------------------- */

/* Sanitizers make everything ten times slower. clang and gcc announce them differently. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
static const double bound = 20;
#else
static const double bound = 1;
#endif

static double seconds_of_cpu(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Decode a datagram of the maximum size within the time limit. */
static void check_quick(session *s, const byte_buffer *d, const char *what) {
    double start = seconds_of_cpu();
    session_feed(s, d);
    double seconds = seconds_of_cpu() - start;
    printf("     %-40s %6.1f ms\n", what, 1000 * seconds);
    CHECK(seconds < bound || getenv("FLOWBUF_SLOW_RUN"));
    session_forget(s);
}

enum { MOST = 65500 }; /* approximate size of a datagram in bytes */

static void is_done_at_once_with_templates_that_lie(void) {
    session s;
    byte_buffer d;
    session_open(&s, usual_columns, 1 << 20);

    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    while (d.size < MOST) put_template(&d, 256, NULL, 0);
    set_end(&d, set), ipfix_end(&d);
    check_quick(&s, &d, "withdrawals");
    CHECK_COUNTERS(&s, "withdrawal=16370");

    ipfix_begin(&d, (ipfix_header){0});
    set = set_begin(&d, 2);
    while (d.size < MOST) put_template(&d, 256, FIELDS({1, 0}));
    set_end(&d, set), ipfix_end(&d);
    check_quick(&s, &d, "empty templates");
    CHECK_EQUAL(session_count(&s, FB_EMPTY_TEMPLATE), 8185);

    ipfix_begin(&d, (ipfix_header){0});
    while (d.size < MOST) {
        set = set_begin(&d, 2);
        put16(&d, 256), put16(&d, 65535), put32(&d, 0x00010004);
        set_end(&d, set);
    }
    ipfix_end(&d);
    check_quick(&s, &d, "templates of a field count that lies");
    CHECK_EQUAL(session_count(&s, FB_BAD_TEMPLATE), 5457);

    ipfix_begin(&d, (ipfix_header){0});
    while (d.size < MOST) set_begin(&d, 256);
    ipfix_end(&d);
    check_quick(&s, &d, "sets of length 0");
    CHECK_EQUAL(session_count(&s, FB_BAD_SET_LENGTH), 1);
    CHECK_FLOWS(&s, "");
    session_close(&s);
}

static void is_done_at_once_with_records_of_one_byte(void) {
    session s;
    byte_buffer d;
    session_open(&s, usual_columns, 1 << 24);
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({4, 1}));
    set_end(&d, set);
    set = set_begin(&d, 256);
    put_repeated(&d, 6, MOST - d.size);
    set_end(&d, set), ipfix_end(&d);
    check_quick(&s, &d, "records of 1 octet");
    CHECK_EQUAL(s.row.count, MOST - 32);

    /* Templates with one variable-length field and empty other fields, with as many fields as
       possible and with more than allowed. */
    static const unsigned counts[] = {16000, 1024, 65};
    for (unsigned i = 0; i < 3; i++) {
        ipfix_begin(&d, (ipfix_header){.domain = 1});
        set = set_begin(&d, 2);
        put16(&d, 257), put16(&d, counts[i]), put16(&d, 82), put16(&d, VARIABLE);
        for (unsigned field = 1; field < counts[i]; field++) put16(&d, 4), put16(&d, 0);
        set_end(&d, set), ipfix_end(&d);
        check_quick(&s, &d, "a template of many fields");
        CHECK_EQUAL(session_count(&s, FB_TEMPLATE_LIMIT), i < 2 ? i + 1 : 2);
    }
    ipfix_begin(&d, (ipfix_header){.domain = 1});
    set = set_begin(&d, 257);
    put_repeated(&d, 0, MOST - d.size);
    set_end(&d, set), ipfix_end(&d);
    check_quick(&s, &d, "records of 64 empty fields");
    session_close(&s);
}

/* Lists with the smallest members, and bidirectional records with only counters. */
static void is_done_at_once_with_lists_and_biflows(void) {
    session s;
    byte_buffer d, list = {.size = 0};
    session_open(&s, usual_columns, 1 << 24);
    for (unsigned size = 1; size <= VARIABLE; size += VARIABLE - 1) {
        list.size = 0;
        put8(&list, 3), put16(&list, 483), put16(&list, size);
        put_repeated(&list, 1, MOST - 100);
        ipfix_begin(&d, (ipfix_header){0});
        size_t set = set_begin(&d, 2);
        put_template(&d, 256, FIELDS({485, VARIABLE}));
        set_end(&d, set);
        set = set_begin(&d, 256);
        put_variable(&d, list.data, list.size, 1);
        set_end(&d, set), ipfix_end(&d);
        check_quick(&s, &d, "a list of one member an octet or two");
    }
    CHECK_EQUAL(s.row.count, 2);

    ipfix_begin(&d, (ipfix_header){.domain = 1});
    size_t set = set_begin(&d, 2);
    put16(&d, 257), put16(&d, 1000);
    for (unsigned i = 0; i < 1000; i++)
        put16(&d, 0x8000 | 86), put16(&d, i < 64 ? 0 : 1), put32(&d, 29305);
    set_end(&d, set), ipfix_end(&d);
    check_quick(&s, &d, "a template of 1,000 reverse counters");
    ipfix_begin(&d, (ipfix_header){.domain = 1});
    set = set_begin(&d, 257);
    put_repeated(&d, 0, MOST - d.size);
    set_end(&d, set), ipfix_end(&d);
    check_quick(&s, &d, "records of 1,000 reverse counters");

    ipfix_begin(&d, (ipfix_header){.domain = 2});
    set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({232, 1}));
    set_end(&d, set);
    set = set_begin(&d, 256);
    put_repeated(&d, 6, MOST - d.size);
    set_end(&d, set), ipfix_end(&d);
    uint64_t before = s.row.count;
    check_quick(&s, &d, "biflows of 1 octet");
    CHECK_EQUAL(s.row.count - before, 2 * (MOST - 32));
    session_close(&s);
}

static void feed_structure_templates(session *s) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({292, VARIABLE}));
    put_template(&d, 257, FIELDS({293, VARIABLE}));
    put_template(&d, 258, FIELDS({4, 1}));
    put16(&d, 259), put16(&d, 65);
    for (unsigned i = 0; i < 65; i++) put16(&d, i ? 82 : 4), put16(&d, !i);
    put_template(&d, 260, FIELDS({82, VARIABLE}));
    set_end(&d, set), ipfix_end(&d);
    session_feed(s, &d);
}

/* Decode one record with a list, or many records with the same list. */
static void check_structures(session *s, unsigned template, const byte_buffer *list, bool many,
                             const char *what) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, template);
    do put_variable(&d, list->data, list->size, list->size > 254);
    while (many && d.size + list->size + 1 < MOST);
    set_end(&d, set), ipfix_end(&d);
    check_quick(s, &d, what);
}

/* Nested records of minimum size, in lists of minimum size, to the supported depth and beyond. */
static void is_done_at_once_with_records_inside_records(void) {
    static const unsigned inner[] = {258, 259, 260, 999};
    session s;
    byte_buffer list;
    session_open(&s, rich_columns(), 1 << 24);
    feed_structure_templates(&s);
    for (unsigned i = 0; i < sizeof inner / sizeof *inner; i++) {
        list.size = 0;
        put8(&list, 3), put16(&list, inner[i]), put_repeated(&list, 0, MOST - 100);
        check_structures(&s, 256, &list, false, "a list of records of one byte");
        list.size = 4;
        check_structures(&s, 256, &list, true, "records of a list of one record");
        list.size = 0;
        put8(&list, 3);
        while (list.size < MOST - 100) put16(&list, inner[i]), put16(&list, 5), put8(&list, 0);
        check_structures(&s, 257, &list, false, "a list of parts of one byte");
    }
    for (unsigned depth = 0; depth < 40; depth++) {
        byte_buffer outer = {.size = 0};
        put8(&outer, 3), put16(&outer, 256);
        do put_variable(&outer, list.data, depth ? list.size : 0, 0);
        while (depth % 8 == 7 && outer.size + list.size + 1 < 250);
        list = outer;
        check_structures(&s, 256, &list, true, "lists inside lists");
    }
    CHECK(session_count(&s, FB_BAD_LIST) > 0);
    session_close(&s);
}

/* Samplers and templates with descending ids, so each is inserted before all others. */
static void is_done_at_once_with_many_ids(void) {
    session s;
    byte_buffer d;
    session_open(&s, usual_columns, 1 << 16);
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 3);
    put_options_template(&d, 256, 1, FIELDS({302, 3}, {34, 1}));
    set_end(&d, set), ipfix_end(&d);
    session_feed(&s, &d);
    uint32_t sampler = 0xffffff;
    for (unsigned i = 0; i < 4; i++) {
        ipfix_begin(&d, (ipfix_header){0});
        set = set_begin(&d, 256);
        while (d.size < MOST) put24(&d, sampler--), put8(&d, 9);
        set_end(&d, set), ipfix_end(&d);
        check_quick(&s, &d, "16,000 more samplers");
    }
    CHECK(session_count(&s, FB_TEMPLATE_LIMIT) > 50000);
    unsigned template = 65535;
    for (unsigned i = 0; i < 8; i++) {
        ipfix_begin(&d, (ipfix_header){0});
        set = set_begin(&d, 2);
        while (d.size < MOST && template > 256) put_template(&d, template--, FIELDS({1, 4}));
        set_end(&d, set), ipfix_end(&d);
        check_quick(&s, &d, "8,000 more templates");
    }
    /* The same id with changing fields. */
    ipfix_begin(&d, (ipfix_header){.domain = 3});
    set = set_begin(&d, 2);
    for (unsigned size = 1; d.size < MOST; size++)
        put_template(&d, 256, FIELDS({1, size % 1000 + 1}));
    set_end(&d, set), ipfix_end(&d);
    check_quick(&s, &d, "8,000 redefinitions");
    session_close(&s);
}

static void is_done_at_once_with_many_sources(void) {
    session s;
    byte_buffer d;
    session_open(&s, usual_columns, 1 << 20);
    for (uint32_t i = 0; i < 4; i++) {
        sflow_begin(&d, 3200, (sflow_header){.agent = 1, .sequence = i});
        for (uint32_t k = 0; k < 3200; k++) { /* counter samples of minimum size */
            size_t sample = sample_begin(&d, 2);
            put32(&d, 1), put32(&d, (i * 3200 + k) << 6), put32(&d, 0);
            sample_end(&d, sample);
        }
        check_quick(&s, &d, "3,200 more sources of samples");
    }
    CHECK_COUNTERS(&s, "counter_sample=12800");
    session_close(&s);
}

static void is_done_at_once_with_sflow_counts_that_lie(void) {
    session s;
    byte_buffer d;
    session_open(&s, usual_columns, 1 << 16);
    sflow_begin(&d, 0xffffffff, (sflow_header){.agent = 1});
    while (d.size < MOST - 8) put32(&d, 2), put32(&d, 0);
    check_quick(&s, &d, "empty samples");
    CHECK_EQUAL(session_count(&s, FB_BAD_SAMPLE), 1);

    sflow_begin(&d, 1, (sflow_header){.agent = 1});
    size_t sample = flow_sample_begin(&d, 0xffffffff, (flow_sample){0});
    while (d.size < MOST - 8) put32(&d, 77), put32(&d, 0);
    sample_end(&d, sample);
    check_quick(&s, &d, "empty records");
    CHECK_EQUAL(session_count(&s, FB_BAD_SAMPLE_RECORD), 1);

    sflow_begin(&d, 1, (sflow_header){.agent = 1});
    sample = flow_sample_begin(&d, 1, (flow_sample){0});
    size_t record = record_begin(&d, 1003);
    put32(&d, 0), put32(&d, 1), put32(&d, 1), put32(&d, 1), put32(&d, 0xffffffff);
    while (d.size < MOST - 8) put32(&d, 1), put32(&d, 0);
    record_end(&d, record);
    sample_end(&d, sample);
    check_quick(&s, &d, "empty segments of an AS path");
    CHECK_EQUAL(session_count(&s, FB_BAD_SAMPLE_RECORD), 2);
    session_close(&s);
}

RUN_TESTS(TEST(takes_every_prefix), TEST(takes_every_corrupted_byte),
          TEST(takes_many_corruptions_at_once), TEST(gives_the_same_at_every_capacity),
          TEST(gives_the_same_at_every_capacity_with_a_hook),
          TEST(gives_the_same_at_every_capacity_with_scaled_totals),
          TEST(gives_the_same_at_every_capacity_with_all_columns),
          TEST(needs_no_more_room_than_promised), TEST(survives_every_failed_allocation),
          TEST(survives_two_failed_allocations), TEST(counts_templates_that_memory_does_not_allow),
          TEST(is_done_at_once_with_templates_that_lie),
          TEST(is_done_at_once_with_lists_and_biflows),
          TEST(is_done_at_once_with_records_inside_records),
          TEST(is_done_at_once_with_records_of_one_byte), TEST(is_done_at_once_with_many_ids),
          TEST(is_done_at_once_with_many_sources), TEST(is_done_at_once_with_sflow_counts_that_lie))
