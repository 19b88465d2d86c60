/* When patterns are learned, the values of their columns, and the cost of forged samples.
   test_pattern_random.c compares their values with those read record by record. */
#include "tests/support/session.h"

#include "tests/builders/random_plan.h"
#include "tests/builders/random_sample.h"

/* Use of patterns ---------------------------------------------------------------------------- */

static bool learns(const char *lines, fb_decoder_options options, const char *late) {
    byte_buffer d;
    session s;
    memset(&s, 0, sizeof s);
    CHECK_STATUS(session_try(&s, lines, 1 << 16, options), FB_OK);
    build_plain_sample(&d, 0);
    if (late)
        CHECK_STATUS(fb_deferred_values_override(&s.row.deferred, plan_column(&s.plan, late),
                                                 FB_DEFERRED_UINT, 1, (fb_bytes){NULL, 0}),
                     FB_OK);
    session_feed(&s, &d);
    CHECK(session_text(&s)[0] != '\0' || s.plan.plan->rows == FB_ROWS_COUNTERS);
    bool found = s.decoder->patterns.table && session_find_pattern(&s, &d, FIRST_SAMPLE);
    if (!found) CHECK(!s.decoder->patterns.table);
    session_close(&s);
    return found;
}

static void learns_patterns_only_of_plain_flows(void) {
    for (unsigned i = 0; i < fb_processor_find(); i++) {
        fb_decoder_options options = {.processor = (fb_processor)(i + 1)};
        CHECK(learns(usual_columns, options, NULL));
        CHECK(learns(scaled_columns, options, NULL));
        CHECK(learns("1 rate uint : sflow:flow_sample.sampling_rate\n", options, NULL));
        CHECK(!learns(usual_columns, options, "rate"));
        CHECK(!learns(counter_columns, options, NULL));
        options.decapsulate = 1u << FB_TUNNEL_VXLAN;
        CHECK(!learns(usual_columns, options, NULL));
    }
}

/* A zero that all samples have. Some columns do not omit it. */
static void writes_the_zeros_that_columns_keep(void) {
    byte_buffer d;
    session s;
    session_open(&s,
                 "1 offset uint explicit : packet:ip.fragment_offset\n"
                 "2 vlan uint explicit : sflow:extended_switch.dst_vlan\n"
                 "3 kind enum map=0:7,1:8 : packet:ip.fragment_offset\n"
                 "4 plain uint : packet:ip.fragment_offset\n"
                 "5 shared uint : sflow:extended_switch.dst_vlan packet:ip.ttl\n"
                 "6 none uint repeated : packet:ip.fragment_offset\n"
                 "7 unknown enum map=1:1 : sflow:extended_switch.dst_vlan\n",
                 1 << 16);
    build_plain_sample(&d, 0);
    for (unsigned times = 1; times <= 3; times++) {
        session_feed(&s, &d);
        CHECK(session_find_pattern(&s, &d, FIRST_SAMPLE) != NULL);
        CHECK_FLOWS(&s, "offset=0 kind=7 shared=63\n"); /* the VLAN is unknown */
        CHECK_EQUAL(session_count(&s, FB_UNMAPPED), 0);
        session_forget(&s);
    }
    session_close(&s);
}

/* An IPv6 header states the length of its payload. */
static void checks_the_range_of_sums(void) {
    byte_buffer d;
    session s;
    session_open(&s,
                 "1 length uint limit=65535 : packet:ip.length\n"
                 "2 frame uint : sflow:sampled_header.frame_length\n",
                 1 << 16);
    build_plain_sample(&d, 2);
    /* offset of the payload length: after the fixed part, the router record, and the bytes before
       the header */
    size_t length = FIRST_SAMPLE + 32 + 8 + 16 + 8 + 16 + 14 + 4;
    session_feed(&s, &d);
    patch16(&d, length, 65495), session_feed(&s, &d);
    patch16(&d, length, 65496), session_feed(&s, &d);
    CHECK(session_find_pattern(&s, &d, FIRST_SAMPLE) != NULL);
    CHECK_FLOWS(&s, "length=940 frame=1000\nlength=65535 frame=1000\nframe=1000\n");
    CHECK_EQUAL(session_count(&s, FB_OUT_OF_RANGE), 1);
    session_close(&s);
}

/* List members in columns that take one value. */
static void fills_single_columns_from_lists(void) {
    byte_buffer d;
    session s;
    session_open(
        &s,
        "1 size uint : packet:layers.sizes sflow:sampled_header.frame_length\n"
        "2 kind uint : packet:ip.proto packet:layers.stack\n"
        "3 as uint : sflow:extended_gateway.as_path sflow:extended_gateway.dst_as\n"
        "4 path uint repeated : sflow:extended_gateway.src_as sflow:extended_gateway.as_path\n",
        1 << 16);
    for (unsigned times = 0; times < 2; times++) {
        build_plain_sample(&d, 0);
        session_feed(&s, &d);
        CHECK_FLOWS(&s, "size=14 kind=6 as=64510 path=[64501]\n");
        session_forget(&s);
    }
    CHECK(session_find_pattern(&s, &d, FIRST_SAMPLE) != NULL);
    session_close(&s);
}

/* Flags and the traffic class are not whole bytes. Their values do not change the layout. */
static void accepts_any_flags(void) {
    byte_buffer d;
    session s;
    session_open(&s, "1 flags uint : packet:ip.flags\n2 tos uint : packet:ip.tos\n", 1 << 16);
    for (unsigned which = 0; which < 3; which += 2)
        for (unsigned i = 0; i < 8; i++) {
            size_t ip = FIRST_SAMPLE + 32 + (which ? 24 : 0) + 24 + 14;
            text expected = {0};
            build_plain_sample(&d, which);
            if (which) patch16(&d, ip, 0x6000 | (16 * i + 1) << 4);
            else d.data[ip + 6] = (uint8_t)(i << 5), d.data[ip + 1] = 9;
            CHECK(!i == !session_find_pattern(&s, &d, FIRST_SAMPLE));
            session_forget(&s);
            session_feed(&s, &d);
            if (!which && i) text_put(&expected, "flags=%u ", i);
            text_put(&expected, "tos=%u\n", which ? 16 * i + 1 : 9);
            CHECK_FLOWS(&s, text_of(&expected));
            text_free(&expected);
        }
    session_close(&s);
}

/* Forged samples ----------------------------------------------------------------------------- */

/* Append one of very many layouts, which differ in sizes, protocols and fixed bytes. */
static void put_forged(byte_buffer *d) {
    sample_look look;
    do look_choose(&look);
    while (look.protocol != 1);
    look.proto = look.etype == 0x0800 ? below(256) : look.proto;
    look.captured += below(60);
    look.wide = 4;
    put_random_datagram(d, &look, 1);
}

static size_t count_patterns(const fb_patterns *patterns) {
    size_t count = 0;
    for (size_t i = 0; patterns->table && i < FB_PATTERN_PLACES; i++)
        count += patterns->table->patterns[i].key != 0;
    return count;
}

/* With endless layouts, the table has a fixed size and learning becomes rare. */
static void bounds_work_for_forged_layouts(void) {
    enum { MOST_BYTES = 8 << 20 };
    static byte_buffer d;
    byte_buffer usual;
    session s;
    size_t forged = getenv("FLOWBUF_SLOW_RUN") ? 1500 : 100000;
    random_begin(1);
    session_open(&s, usual_columns, 1 << 16);
    build_plain_sample(&usual, 0);
    session_feed(&s, &usual);
    size_t calls = s.allocator.calls, used = s.memory.used;
    for (size_t i = 0; i < forged; i++) {
        put_forged(&d);
        fb_datagram datagram = datagram_of(d.data, d.size, SOURCE_ADDRESS);
        session_forget(&s);
        session_feed_batch(&s, &datagram, 1);
    }
    CHECK(s.decoder->patterns.general && count_patterns(&s.decoder->patterns) > 20);
    /* allocations for sequence numbers; one table holds all patterns */
    CHECK(s.allocator.calls - calls < 100);
    CHECK(s.memory.used - used < MOST_BYTES && s.allocator.most_held < used + MOST_BYTES);
    session_forget(&s);
    session_feed(&s, &usual);
    CHECK(strstr(session_text(&s), "sport=443 dport=50000") != NULL);
    session_close(&s);
}

/* Let the first or second allocation fail, or all from it on. One allocation holds all patterns.
   Without it, samples are read record by record. */
static void works_without_memory_for_patterns(void) {
    for (unsigned k = 0; k < 4; k++) {
        byte_buffer d, other;
        session s;
        session_open(&s, usual_columns, 1 << 16);
        build_plain_sample(&other, 0);
        /* without records: nothing is learned, and the exporter is known */
        patch32(&other, FIRST_SAMPLE + 28, 0);
        session_feed(&s, &other);
        CHECK(!s.decoder->patterns.table);
        /* it is learned immediately */
        memset(s.decoder->patterns.turns, 0, sizeof s.decoder->patterns.turns);
        s.allocator.fail_at = s.allocator.calls + 1 + k / 2;
        s.allocator.fail_forever = k % 2;
        build_plain_sample(&d, 0);
        session_forget(&s);
        session_feed(&s, &d);
        CHECK(!session_find_pattern(&s, &d, FIRST_SAMPLE) == (k < 2));
        text first = {0};
        text_put(&first, "%s", session_text(&s));
        for (unsigned times = 0; times < 3; times++) {
            session_forget(&s);
            session_feed(&s, &d);
            CHECK_FLOWS(&s, text_of(&first));
        }
        CHECK(k % 2 || session_find_pattern(&s, &d, FIRST_SAMPLE));
        text_free(&first);
        session_close(&s);
    }
}

/* The memory limit applies to patterns: all fit, or none. */
static void counts_patterns_for_the_memory_limit(void) {
    static const size_t limits[] = {60000, 4 << 20};
    static byte_buffer d;
    for (unsigned k = 0; k < 2; k++) {
        session s;
        random_begin(2);
        session_open(&s, usual_columns, 1 << 16);
        s.memory.limit = s.memory.used + limits[k];
        for (unsigned i = 0; i < 600; i++) {
            put_forged(&d);
            session_forget(&s);
            session_feed(&s, &d);
            CHECK(s.memory.used <= s.memory.limit);
        }
        CHECK(!count_patterns(&s.decoder->patterns) == (k == 0));
        session_close(&s);
    }
}

/* A table is released with its patterns, and decoding continues without. */
static void releases_patterns(void) {
    byte_buffer d;
    session s;
    session_open(&s, usual_columns, 1 << 16);
    for (unsigned times = 0; times < 3; times++) {
        for (unsigned which = 0; which < PLAIN_SAMPLES; which++) {
            build_plain_sample(&d, which);
            session_feed(&s, &d);
            CHECK(session_find_pattern(&s, &d, FIRST_SAMPLE) != NULL);
        }
        CHECK_EQUAL(count_patterns(&s.decoder->patterns), PLAIN_SAMPLES);
        fb_patterns_free(&s.decoder->patterns);
        CHECK_EQUAL(count_patterns(&s.decoder->patterns), 0);
    }
    session_close(&s);
}

/* An exporter with tagged frames has few layouts, whatever the values of tags and
   identifications. */
static void learns_few_patterns_of_tagged_frames(void) {
    static byte_buffer d;
    session s;
    unsigned found = 0;
    sample_look look = {.count = 1,
                        .records = {1},
                        .protocol = 1,
                        .etype = 0x0800,
                        .first_byte = 0x45,
                        .proto = 6,
                        .captured = 128,
                        .wide = 24};
    random_begin(3);
    session_open(&s, usual_columns, 1 << 16);
    for (unsigned i = 0; i < 300; i++) {
        look.tags = i % 3;
        look.tag_type = i % 2 ? 0x8100 : 0x88a8;
        put_random_datagram(&d, &look, 1);
        session_forget(&s);
        session_feed(&s, &d);
        found += i > 200 && session_find_pattern(&s, &d, FIRST_SAMPLE);
    }
    CHECK(found > 90);                                 /* the others are too short for ports */
    CHECK(count_patterns(&s.decoder->patterns) <= 12); /* interfaces may be wide or not */
    session_close(&s);
}

RUN_TESTS(TEST(learns_patterns_only_of_plain_flows), TEST(writes_the_zeros_that_columns_keep),
          TEST(checks_the_range_of_sums), TEST(accepts_any_flags),
          TEST(fills_single_columns_from_lists), TEST(learns_few_patterns_of_tagged_frames),
          TEST(bounds_work_for_forged_layouts), TEST(works_without_memory_for_patterns),
          TEST(counts_patterns_for_the_memory_limit), TEST(releases_patterns))
