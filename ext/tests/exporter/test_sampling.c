/* Sampling rates: from records and from options, and their scope. */
#include "tests/support/session.h"

static const char *const rate_column = "1 rate uint : derived:sampling_rate";

/* One field of a record and its value. */
typedef struct {
    unsigned id, size;
    uint64_t value;
} given;

static void put_value(byte_buffer *d, given field) {
    for (unsigned i = field.size; i--;)
        put8(d, i < 8 ? (unsigned)(field.value >> 8 * i & 0xff) : 0);
}

/* Send a template and a record of it. `scopes` > 0: an options template whose first fields are the
   scope. */
static void feed(session *s, uint32_t domain, unsigned scopes, const given *fields, size_t count) {
    byte_buffer d;
    specifier specifiers[8];
    for (size_t i = 0; i < count; i++) specifiers[i] = (specifier){fields[i].id, fields[i].size, 0};
    ipfix_begin(&d, (ipfix_header){.domain = domain});
    size_t set = set_begin(&d, scopes ? 3 : 2);
    if (scopes) put_options_template(&d, 300, scopes, specifiers, count);
    else put_template(&d, 256, specifiers, count);
    set_end(&d, set);
    set = set_begin(&d, scopes ? 300 : 256);
    for (size_t i = 0; i < count; i++) put_value(&d, fields[i]);
    set_end(&d, set);
    ipfix_end(&d);
    session_feed(s, &d);
}

#define GIVEN(...) \
    (const given[]){__VA_ARGS__}, sizeof((const given[]){__VA_ARGS__}) / sizeof(given)

static void reads_the_rate_of_a_record(void) {
    static const struct {
        given fields[5];
        uint64_t rate;
    } cases[] = {
        /* population / size has priority */
        {{{309, 4, 2}, {310, 4, 1000}, {305, 4, 1}, {306, 4, 7}}, 500},
        {{{309, 4, 3}, {310, 4, 1000}}, 333}, /* rounded down */
        {{{309, 4, 0}, {310, 4, 1000}, {34, 4, 9}}, 9},
        {{{309, 4, 9}, {310, 4, 4}, {34, 4, 5}}, 5}, /* size exceeds population */
        {{{305, 4, 1}, {306, 4, 99}, {34, 4, 9}}, 100},
        {{{305, 4, 10}, {306, 4, 95}}, 10},
        {{{305, 4, 100}}, 1},                                 /* no packets are skipped */
        {{{305, 8, UINT64_MAX}, {306, 8, 2}, {34, 4, 3}}, 3}, /* a sum that would overflow to 1 */
        {{{311, 4, 0x3c23d70a}, {34, 4, 9}}, 100},            /* 1 / 0.01, rounded to the nearest */
        {{{311, 8, 0x3f50624dd2f1a9fc}}, 1000},
        {{{311, 4, 0xbf800000}, {34, 4, 9}}, 9}, /* a probability of -1 */
        {{{311, 4, 0x7fc00000}, {34, 4, 9}}, 9}, /* of NaN */
        {{{311, 8, 1}, {34, 4, 9}}, 9},          /* a probability close to 0 */
        {{{34, 4, 0}, {50, 4, 8}}, 8},
        {{{34, 4, 7}, {50, 4, 8}}, 7},
        {{{34, 9, 7}, {50, 1, 8}}, 8}, /* nine bytes are not an integer */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        session s;
        char expected[40];
        size_t count = 0;
        while (count < 5 && cases[i].fields[count].id) count++;
        session_open(&s, rate_column, 4096);
        feed(&s, 0, 0, cases[i].fields, count);
        snprintf(expected, sizeof expected, "rate=%llu\n", (unsigned long long)cases[i].rate);
        CHECK_FLOWS(&s, expected);
        session_close(&s);
    }
}

static void finds_the_rate_of_the_sampler_that_a_record_names(void) {
    session s;
    session_open(&s, rate_column, 4096);
    feed(&s, 1, 0, GIVEN({48, 1, 5}));
    CHECK_FLOWS(&s, "\n"); /* no rate is known yet */
    session_forget(&s);
    feed(&s, 1, 1, GIVEN({302, 4, 5}, {34, 4, 100}));
    feed(&s, 1, 0, GIVEN({48, 1, 5}));
    feed(&s, 1, 0, GIVEN({302, 8, 6})); /* unknown selector, but there is only one rate */
    feed(&s, 1, 0, GIVEN({1, 4, 5}));
    feed(&s, 2, 0, GIVEN({302, 8, 5})); /* another domain */
    CHECK_FLOWS(&s, "rate=100\nrate=100\nrate=100\n\n");
    session_forget(&s);
    /* in an option field */
    feed(&s, 1, 1, GIVEN({143, 4, 1}, {302, 4, 6}, {309, 4, 1}, {310, 4, 50}));
    feed(&s, 1, 0, GIVEN({48, 1, 5}));
    feed(&s, 1, 0, GIVEN({302, 8, 6}));
    feed(&s, 1, 0, GIVEN({1, 4, 5})); /* with two rates and no selector, neither is used */
    feed(&s, 1, 0, GIVEN({302, 8, 5}, {34, 1, 3})); /* the record's own rate has priority */
    CHECK_FLOWS(&s, "rate=100\nrate=50\n\nrate=3\n");
    CHECK_COUNTERS(&s, "template_redefined=7");
    session_close(&s);
}

/* Send records of one set, each with its own sampler and number. They have a fixed size, or a
   variable-length text. */
static void feed_samplers(session *s, unsigned id, unsigned size, bool variable,
                          const uint8_t *samplers, size_t count) {
    byte_buffer d;
    specifier specifiers[] = {{id, size, 0}, {1, 4, 0}, {371, 65535, 0}};
    ipfix_begin(&d, (ipfix_header){.domain = 1});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, specifiers, variable ? 3 : 2);
    set_end(&d, set);
    set = set_begin(&d, 256);
    for (size_t i = 0; i < count; i++) {
        put_value(&d, (given){id, size, samplers[i]});
        put32(&d, (uint32_t)i + 1);
        if (variable) put8(&d, 0);
    }
    set_end(&d, set);
    ipfix_end(&d);
    session_feed(s, &d);
}

/* With outputs of every size up to a few rows, decoding is resumed in the middle of a set. */
static void finds_the_rates_of_alternating_samplers(void) {
    static const uint8_t samplers[] = {5, 5, 6, 5, 7, 7, 6, 6, 5};
    static const char expected[] =
        "rate=100 bytes=1\nrate=100 bytes=2\nrate=50 bytes=3\nrate=100 bytes=4\nbytes=5\n"
        "bytes=6\nrate=50 bytes=7\nrate=50 bytes=8\nrate=100 bytes=9\n";
    for (unsigned size = 1; size <= 8; size++)
        for (unsigned variable = 0; variable < 2; variable++)
            for (size_t capacity = 1; capacity < 600; capacity += 97) {
                session s;
                session_open(&s, "1 rate uint : derived:sampling_rate\n2 bytes uint : ipfix:1",
                             capacity);
                feed(&s, 1, 1, GIVEN({302, 4, 5}, {34, 4, 100}));
                feed(&s, 1, 1, GIVEN({302, 4, 6}, {34, 4, 50}));
                feed_samplers(&s, size % 2 ? 48 : 302, size, variable, samplers, sizeof samplers);
                CHECK_FLOWS(&s, expected);
                session_close(&s);
            }
}

static void counts_options_without_a_used_field(void) {
    session s;
    session_open(&s, rate_column, 4096);
    feed(&s, 0, 1, GIVEN({143, 4, 1}, {41, 8, 7}));
    feed(&s, 0, 1, GIVEN({302, 4, 0}, {34, 4, 0}));
    CHECK_COUNTERS(&s, "template_redefined=1 options_ignored=2");
    CHECK_FLOWS(&s, "");
    session_close(&s);
}

static void forgets_the_rate_of_a_sampler_described_without_one(void) {
    session s;
    session_open(&s, rate_column, 4096);
    feed(&s, 1, 1, GIVEN({302, 4, 1}, {34, 4, 0})); /* known, but without a rate */
    feed(&s, 1, 1, GIVEN({302, 4, 2}, {34, 4, 100}));
    feed_samplers(&s, 302, 4, 0, (const uint8_t[]){1, 2, 3}, 3);
    feed(&s, 1, 1, GIVEN({302, 4, 2}, {304, 2, 2}));
    feed_samplers(&s, 302, 4, 0, (const uint8_t[]){1, 2, 3}, 3);
    CHECK_COUNTERS(&s, "template_redefined=1");
    CHECK_FLOWS(&s, "\nrate=100\n\n\n\n\n");
    session_close(&s);
}

/* systemInitTimeMilliseconds: in options it applies from then on, in a record only to that
   record. */
static void reads_the_start_time_of_an_exporter(void) {
    session s;
    session_open(&s, "1 start timestamp unit=1000000 : ipfix:22@time_uptime", 4096);
    feed(&s, 1, 0, GIVEN({22, 4, 500}));
    feed(&s, 1, 1, GIVEN({144, 4, 1}, {160, 8, 1000000}));
    feed(&s, 1, 0, GIVEN({22, 4, 500}));
    feed(&s, 1, 0, GIVEN({160, 8, 2000000}, {22, 4, 500}));
    feed(&s, 1, 0, GIVEN({22, 4, 600}));
    feed(&s, 2, 0, GIVEN({22, 4, 500})); /* another domain */
    CHECK_FLOWS(&s, "\nstart=1000500\nstart=2000500\nstart=1000600\n\n");
    session_close(&s);
}

/* The export time is 0, before the start, so the uptime has not wrapped. A start that leaves no
   room for 49.7 days is ignored. */
static void converts_uptimes_with_a_start_after_the_export_time(void) {
    session s;
    session_open(&s, "1 start timestamp unit=1000000 : ipfix:22@time_uptime", 4096);
    for (uint64_t start = 5000000000000u; start < 9000000000000u; start += 500000000000u) {
        static const uint32_t uptimes[] = {0, 700, 0x80000000, 0xffffffff};
        for (size_t i = 0; i < sizeof uptimes / sizeof *uptimes; i++) {
            char expected[40];
            session_forget(&s);
            feed(&s, 1, 0, GIVEN({160, 8, start}, {22, 4, uptimes[i]}));
            snprintf(expected, sizeof expected, "start=%llu\n",
                     (unsigned long long)(start + uptimes[i]));
            CHECK_FLOWS(&s, expected);
        }
    }
    const uint64_t last = INT64_MAX / 1000000 - UINT32_MAX;
    session_forget(&s);
    feed(&s, 1, 0, GIVEN({160, 8, last}, {22, 4, UINT32_MAX}));
    feed(&s, 1, 0, GIVEN({160, 8, last + 1}, {22, 4, UINT32_MAX}));
    CHECK_FLOWS(&s, "start=9223372036854\n\n");
    session_close(&s);
}

/* A time up to an hour ahead of the header is a clock difference. A time further ahead is from
   before a wrap of the uptime. */
static void distinguishes_a_wrap_from_a_clock_that_is_ahead(void) {
    static const struct {
        uint32_t header, flow, seconds;
        const char *expected;
    } cases[] = {{5000, 4000, 1000, "start=999000\n"},
                 {5000, 3605000, 1000, "start=4600000\n"},
                 {0, 3600000, 1000, "start=4600000\n"},
                 {0, 3600001, 5000000, "start=708632705\n"},
                 {0, UINT32_MAX, 1000, "start=999999\n"},
                 {UINT32_MAX, 0, 1000, "start=1000001\n"},
                 {5, 6000000, 0, "\n"},
                 {UINT32_MAX, 0x70000000, 5000000, "start=2584080897\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        byte_buffer d;
        session s;
        session_open(&s, "1 start timestamp unit=1000000 : ipfix:22@time_uptime", 4096);
        netflow9_begin(&d,
                       (netflow9_header){.uptime = cases[i].header, .seconds = cases[i].seconds});
        size_t set = set_begin(&d, 0);
        put_template(&d, 256, FIELDS({22, 4}));
        set_end(&d, set);
        set = set_begin(&d, 256);
        put32(&d, cases[i].flow);
        set_end(&d, set);
        session_feed(&s, &d);
        CHECK_FLOWS(&s, cases[i].expected);
        session_close(&s);
    }
}

RUN_TESTS(TEST(reads_the_rate_of_a_record), TEST(finds_the_rate_of_the_sampler_that_a_record_names),
          TEST(finds_the_rates_of_alternating_samplers), TEST(counts_options_without_a_used_field),
          TEST(forgets_the_rate_of_a_sampler_described_without_one),
          TEST(reads_the_start_time_of_an_exporter),
          TEST(converts_uptimes_with_a_start_after_the_export_time),
          TEST(distinguishes_a_wrap_from_a_clock_that_is_ahead))
