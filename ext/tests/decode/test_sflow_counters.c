/* Counter and drop samples: the content of their rows, and hostile samples. */
#include "tests/support/session.h"

#include "tests/builders/samples.h"

static const char *rich_counters(void) {
    static text lines;
    if (!lines.size) plan_put_counters(&lines);
    return text_of(&lines);
}

static void build(byte_buffer *d, const char *name) {
    for (size_t i = 0; i < sample_count; i++)
        if (strcmp(samples[i].name, name) == 0) samples[i].build(d);
}

#define HEAD "received=1000500 exporter=198.51.100.1 "
#define HOST \
    "host=\"leaf1\" uuid=x00112233445566778899aabbccddeeff os=2 release=\"6.1.0\" " \
    "adapters=[1,2,2] " \
    "macs=[0,2199023255585,2199023255586] "

static const char *const interface_row =
    HEAD "kind=1 sequence=5 source_type=0 source=7 sub_agent=2 if_index=7 speed=10000000000 "
         "in_octets=4294967296 errors=0 "
         "promiscuous=2 fcs=1 actor=2199023255569 state=63 temperature=-1500 lanes=[1,2] "
         "rx_power=[106,206] port=\"swp1\"\n";
static const char *const host_row = HEAD
    "kind=1 sequence=6 source_type=2 source=16777216 sub_agent=2 " HOST "load=0.5 contexts=16\n";
static const char *const drop_row =
    HEAD "kind=2 sequence=77 source_type=0 source=5 sub_agent=2 drops=2 reason=258 status=130 in=5 "
         "queue=0 acl=9 "
         "acl_name=\"deny-all\" direction=1 function=\"nf_hook_slow\" trap_group=\"acl_drops\" "
         "trap=\"ingress_flow_action_drop\" linux_reason=\"NETFILTER_DROP\" src=10.0.0.1 dport=22 "
         "length=64\n";

static void writes_a_row_for_each_sample(void) {
    byte_buffer d;
    session s;
    text expected = {0};
    session_open(&s, counter_columns, 1 << 16);
    build(&d, "sflow_counters");
    session_feed(&s, &d);
    text_put(&expected, "%s%s%s", interface_row, host_row, drop_row);
    CHECK_FLOWS(&s, text_of(&expected));
    CHECK_COUNTERS(&s, "flows_left_out=1");
    CHECK_EQUAL(count_all(s.decoder).rows[FB_ROWS_COUNTERS], 3);
    text_free(&expected);
    session_close(&s);
}

static void omits_flow_samples(void) {
    session s;
    session_open(&s, counter_columns, 1 << 16);
    for (size_t i = 0; i < sample_count; i++) {
        byte_buffer d;
        samples[i].build(&d);
        if (strncmp(samples[i].name, "sflow", 5) == 0) continue;
        session_feed(&s, &d);
    }
    CHECK_FLOWS(&s, "");
    CHECK_EQUAL(count_all(s.decoder).datagrams, session_count(&s, FB_FLOWS_LEFT_OUT));
    CHECK(session_count(&s, FB_FLOWS_LEFT_OUT) > 3);
    CHECK_EQUAL(count_all(s.decoder).templates, 0);
    session_close(&s);
}

static void omits_unknown_counters_and_keeps_zeros(void) {
    byte_buffer d;
    session s;
    session_open(&s, counter_columns, 1 << 16);
    sflow_begin(&d, 2, (sflow_header){.agent = 0xc6336401});
    for (unsigned value = 0; value < 2; value++) {
        size_t sample = sample_begin(&d, 2);
        put32(&d, 0), put32(&d, 0), put32(&d, 4);
        size_t record = record_begin(&d, 1);
        put_repeated(&d, value ? 0xff : 0, 88);
        record_end(&d, record);
        record = record_begin(&d, 7);
        put_repeated(&d, value ? 0xff : 0, 56);
        record_end(&d, record);
        record = record_begin(&d, 2000);
        put_repeated(&d, 0, 32);
        record_end(&d, record);
        record = record_begin(&d, 2003);
        put_repeated(&d, value ? 0xff : 0, 80); /* a later edition with three more fields */
        record_end(&d, record);
        sample_end(&d, sample);
    }
    session_feed(&s, &d);
    CHECK_FLOWS(&s,
                HEAD "kind=1 sequence=0 source_type=0 source=0 if_index=0 speed=0 in_octets=0 "
                     "errors=0 state=0 load=0 "
                     "contexts=0 guest=0\n" HEAD
                     "kind=1 sequence=0 source_type=0 source=0 actor=281474976710655 state=255\n");
    CHECK_COUNTERS(&s, "");
    session_close(&s);
}

/* A repeated record, an unknown format, a record that is too short, and truncated lists and
   strings. */
static void counts_unread_records(void) {
    byte_buffer d;
    session s;
    session_open(&s, counter_columns, 1 << 16);
    sflow_begin(&d, 1, (sflow_header){.agent = 0xc6336401});
    size_t sample = sample_begin(&d, 2);
    put32(&d, 1), put32(&d, 2), put32(&d, 8);
    for (unsigned i = 0; i < 2; i++) {
        size_t record = record_begin(&d, 1005);
        put32(&d, 1), put8(&d, 'a' + i);
        record_end(&d, record);
    }
    size_t record = record_begin(&d, 4413 << 12 | 3);
    record_end(&d, record);
    record = record_begin(&d, 1);
    put_repeated(&d, 1, 84);
    record_end(&d, record);
    record = record_begin(&d, 2001);
    put32(&d, 3), put32(&d, 8), put32(&d, 1), put48(&d, 5), put16(&d, 0), put32(&d, 9),
        put32(&d, 1);
    record_end(&d, record);
    record = record_begin(&d, 10);
    put_repeated(&d, 1, 20 + 40 + 36);
    record_end(&d, record);
    record = record_begin(&d, 2000);
    put32(&d, 5), put_repeated(&d, 'x', 8), put_repeated(&d, 1, 16);
    record_end(&d, record);
    record = record_begin(&d, 2006);
    sample_end(&d, sample);
    patch32(&d, record - 4, 4);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, HEAD
                "kind=1 sequence=1 source_type=0 source=2 temperature=16843009 lanes=[16843009] "
                "rx_power=[16843009] port=\"a\" adapters=[8] macs=[5]\n");
    CHECK_COUNTERS(&s, "bad_sample_record=5 unknown_sample_record=2");
    session_close(&s);
}

static void counts_truncated_samples(void) {
    static const struct {
        uint32_t format, size;
    } heads[] = {{2, 12}, {4, 16}, {5, 32}};
    for (unsigned i = 0; i < 3; i++)
        for (uint32_t size = 0; size <= heads[i].size; size += 4) {
            byte_buffer d;
            session s;
            session_open(&s, counter_columns, 1 << 16);
            sflow_begin(&d, 1, (sflow_header){.agent = 1});
            size_t sample = sample_begin(&d, heads[i].format);
            put_repeated(&d, 0, size);
            sample_end(&d, sample);
            session_feed(&s, &d);
            CHECK_EQUAL(session_count(&s, FB_BAD_SAMPLE), size < heads[i].size);
            CHECK_EQUAL(s.row.count, size == heads[i].size);
            session_close(&s);
        }
}

/* Hostile samples ---------------------------------------------------------------------------- */

static void check_still_works(session *s) {
    byte_buffer d;
    session_forget(s);
    build(&d, "sflow_counters");
    session_feed(s, &d);
    CHECK(fb_row_size(&s->row) > 0);
    CHECK(!strstr(session_text(s), NOT_A_MESSAGE));
}

static void survives_every_prefix(void) {
    byte_buffer d;
    session s;
    build(&d, "sflow_counters");
    session_open(&s, rich_counters(), 1 << 16);
    for (size_t size = 0; size <= d.size; size++) {
        session_forget(&s);
        session_feed_bytes(&s, d.data, size, SOURCE_ADDRESS);
        CHECK(!strstr(session_text(&s), NOT_A_MESSAGE));
    }
    check_still_works(&s);
    session_close(&s);
}

static void survives_every_corrupted_byte(void) {
    byte_buffer d;
    session s;
    build(&d, "sflow_counters");
    session_open(&s, counter_columns, 1 << 16);
    for (size_t at = 0; at < d.size; at++) {
        uint8_t was = d.data[at];
        const uint8_t others[] = {0,
                                  0xff,
                                  (uint8_t)(was + 1),
                                  (uint8_t)(was - 1),
                                  (uint8_t)(was ^ 4),
                                  (uint8_t)(was ^ 0x80)};
        for (unsigned change = 0; change < sizeof others; change++) {
            d.data[at] = others[change];
            session_forget(&s);
            session_feed(&s, &d);
            CHECK(!strstr(session_text(&s), NOT_A_MESSAGE));
        }
        d.data[at] = was;
    }
    check_still_works(&s);
    session_close(&s);
}

static void check_every_capacity(const char *lines, size_t step) {
    byte_buffer d, cut;
    session whole;
    build(&d, "sflow_counters");
    cut = d;
    cut.size -= 30;
    session_open(&whole, lines, 1 << 20);
    session_feed(&whole, &d);
    session_feed(&whole, &cut);
    fb_counters counters = count_all(whole.decoder);
    size_t size = fb_row_size(&whole.row);
    for (size_t capacity = 0; capacity < size + whole.plan.plan->max_fixed_size + 8 * step;
         capacity += step) {
        session s;
        session_open(&s, lines, capacity);
        session_feed(&s, &d);
        session_feed(&s, &cut);
        fb_counters seen = count_all(s.decoder);
        CHECK_BYTES(s.output, fb_row_size(&s.row), whole.output, size);
        CHECK_BYTES(&seen, sizeof seen, &counters, sizeof counters);
        session_close(&s);
    }
    session_close(&whole);
}

static void gives_the_same_output_at_every_capacity(void) {
    check_every_capacity(counter_columns, 1);
    check_every_capacity(rich_counters(), 997);
}

static void survives_every_failed_allocation(void) {
    for (int for_ever = 0; for_ever < 2; for_ever++)
        for (size_t fail_at = 1;; fail_at++) {
            session s;
            memset(&s, 0, sizeof s);
            s.allocator = (fb_check_allocator){.fail_at = fail_at, .fail_forever = for_ever};
            fb_status status = session_try(&s, counter_columns, 1 << 16, (fb_decoder_options){0});
            if (status != FB_OK) {
                CHECK_STATUS(status, FB_NO_MEMORY);
                CHECK_EQUAL(s.memory.used + s.allocator.held, 0);
                continue;
            }
            check_still_works(&s);
            bool done = s.allocator.calls < fail_at;
            session_close(&s);
            if (done) break;
        }
}

/* Set every count to its maximum. */
static void bounds_work_for_false_counts(void) {
    static const uint32_t formats[] = {10, 1005, 2000, 2001};
    session s;
    session_open(&s, rich_counters(), 1 << 16);
    for (unsigned i = 0; i < 4; i++) {
        byte_buffer d;
        sflow_begin(&d, 1, (sflow_header){.agent = 1});
        size_t sample = sample_begin(&d, 2);
        put32(&d, 1), put32(&d, 1), put32(&d, 0xffffffff);
        size_t record = record_begin(&d, formats[i]);
        put_repeated(&d, 0xff, 400);
        record_end(&d, record);
        sample_end(&d, sample);
        session_forget(&s);
        session_feed(&s, &d);
        CHECK(!strstr(session_text(&s), NOT_A_MESSAGE));
    }
    CHECK_EQUAL(session_count(&s, FB_BAD_SAMPLE_RECORD), 8);
    session_close(&s);
}

RUN_TESTS(TEST(writes_a_row_for_each_sample), TEST(omits_flow_samples),
          TEST(omits_unknown_counters_and_keeps_zeros), TEST(counts_unread_records),
          TEST(counts_truncated_samples), TEST(survives_every_prefix),
          TEST(survives_every_corrupted_byte), TEST(gives_the_same_output_at_every_capacity),
          TEST(survives_every_failed_allocation), TEST(bounds_work_for_false_counts))
