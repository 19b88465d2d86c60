/* Bounded time to decode any datagram: the input that is slowest for its size, in datagrams of the
   maximum size. */
#include "tests/support/session.h"
#include "tests/support/time_limit.h"

/* Decode a datagram of the maximum size within the time limit. */
static void check_quick(session *s, const byte_buffer *d, const char *what) {
    double start = seconds_of_cpu();
    session_feed(s, d);
    check_seconds(seconds_of_cpu() - start, SECONDS_PER_DATAGRAM, what);
    session_forget(s);
}

enum { MOST = 65500 }; /* approximate size of a datagram in bytes */

static void bounds_work_for_contradicting_templates(void) {
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
    check_quick(&s, &d, "templates with a false field count");
    CHECK_EQUAL(session_count(&s, FB_BAD_TEMPLATE), 5457);

    ipfix_begin(&d, (ipfix_header){0});
    while (d.size < MOST) set_begin(&d, 256);
    ipfix_end(&d);
    check_quick(&s, &d, "sets of length 0");
    CHECK_EQUAL(session_count(&s, FB_BAD_SET_LENGTH), 1);
    CHECK_FLOWS(&s, "");
    session_close(&s);
}

static void bounds_work_for_records_of_one_byte(void) {
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
    check_quick(&s, &d, "records of 1 byte");
    CHECK_EQUAL(s.row.count, MOST - 32);

    /* Templates with one variable-length field and empty other fields, with as many fields as
       possible and with more than allowed. */
    static const unsigned counts[] = {16000, 1024, 17};
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
    check_quick(&s, &d, "records of 16 empty fields");
    session_close(&s);
}

/* Lists with the smallest members, and bidirectional records with only counters. */
static void bounds_work_for_lists_and_biflows(void) {
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
        check_quick(&s, &d, "a list with members of one byte");
    }
    CHECK_EQUAL(s.row.count, 2);

    ipfix_begin(&d, (ipfix_header){.domain = 1});
    size_t set = set_begin(&d, 2);
    put16(&d, 257), put16(&d, 1000);
    for (unsigned i = 0; i < 1000; i++)
        put16(&d, 0x8000 | 86), put16(&d, i < 16 ? 0 : 1), put32(&d, 29305);
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
    check_quick(&s, &d, "biflows of 1 byte");
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
    put16(&d, 259), put16(&d, 17);
    for (unsigned i = 0; i < 17; i++) put16(&d, i ? 82 : 4), put16(&d, !i);
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
static void bounds_work_for_nested_records(void) {
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
static void bounds_work_for_many_ids(void) {
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

static void bounds_work_for_many_sources(void) {
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

static void bounds_work_for_false_sflow_counts(void) {
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

RUN_TESTS(TEST(bounds_work_for_contradicting_templates), TEST(bounds_work_for_lists_and_biflows),
          TEST(bounds_work_for_nested_records), TEST(bounds_work_for_records_of_one_byte),
          TEST(bounds_work_for_many_ids), TEST(bounds_work_for_many_sources),
          TEST(bounds_work_for_false_sflow_counts))
