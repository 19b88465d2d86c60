/* Values that wait for the end of their row. These are columns whose sources do not arrive in the
   order of ranks, explicit columns, and late columns that a hook or an override may replace. */
#include "tests/support/session.h"

#include "tests/builders/samples.h"

/* Ranks -------------------------------------------------------------------------------------- */

static const char *const waiting = "1 best uint : packet:ip.proto ipfix:4 meta:source_port\n"
                                   "2 zero uint explicit\n3 addr ip explicit";

static void put(fb_row *row, fb_row_cursor *at, uint16_t column, unsigned rank, uint64_t value) {
    fb_row_put_uint(row, at, (fb_target){.column = column, .rank = (uint8_t)rank}, value);
}

static void keeps_the_best_rank(void) {
    /* Values with ranks in order of arrival, and the result. 0 is no value. */
    static const struct {
        struct {
            unsigned rank, value;
        } offers[3];
        const char *flow;
    } cases[] = {
        {{{2, 7}, {1, 8}, {0, 9}}, "best=9\n"}, {{{0, 9}, {1, 8}, {2, 7}}, "best=9\n"},
        {{{1, 8}, {2, 7}, {0, 0}}, "best=8\n"}, /* a zero does not replace a value */
        {{{1, 1}, {1, 2}, {1, 3}}, "best=1\n"}, /* among equal ranks the first */
        {{{1, 0}, {1, 2}, {2, 3}}, "best=2\n"}, /* the first that is not zero */
        {{{0, 0}, {1, 0}, {2, 0}}, "\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        session s;
        fb_row_cursor at;
        session_open(&s, waiting, 4096);
        CHECK(s.plan.plan->columns[0].flags & FB_COLUMN_DEFERRED);
        fb_row_begin(&s.row, 1000, &at);
        for (unsigned k = 0; k < 3; k++) {
            fb_target target = {.column = 0, .rank = (uint8_t)cases[i].offers[k].rank};
            fb_row_put_uint(&s.row, &at, target, cases[i].offers[k].value);
        }
        fb_row_finish(&s.row, at);
        CHECK_FLOWS(&s, cases[i].flow);
        session_close(&s);
    }
}

static void keeps_a_zero_that_is_a_value(void) {
    static const struct {
        struct {
            unsigned rank, value;
        } offers[3];
        const char *flow;
    } cases[] = {
        {{{1, 8}, {2, 7}, {0, 0}}, "best=0\n"}, /* a better rank that comes later */
        {{{0, 0}, {1, 8}, {2, 7}}, "best=0\n"}, {{{1, 0}, {2, 7}, {0, 9}}, "best=9\n"},
        {{{1, 0}, {1, 8}, {2, 7}}, "best=8\n"}, /* among equal ranks the one that is not zero */
        {{{2, 0}, {1, 0}, {2, 7}}, "best=0\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        session s;
        fb_row_cursor at;
        session_open(&s, "1 best uint explicit zero : packet:ip.proto ipfix:4 meta:source_port",
                     4096);
        fb_row_begin(&s.row, 1000, &at);
        for (unsigned k = 0; k < 3; k++) {
            fb_target target = {
                .column = 0, .rank = (uint8_t)cases[i].offers[k].rank, .zero = true};
            fb_row_put_uint(&s.row, &at, target, cases[i].offers[k].value);
        }
        fb_row_finish(&s.row, at);
        CHECK_FLOWS(&s, cases[i].flow);
        session_close(&s);
    }
}

static void accepts_only_better_ranks(void) {
    session s;
    fb_row_cursor at;
    session_open(&s, waiting, 4096);
    fb_row_begin(&s.row, 1000, &at);
    fb_target first = {.rank = 0}, second = {.rank = 1}, third = {.rank = 2};
    CHECK(fb_row_accepts(&s.row, at, third));
    put(&s.row, &at, 0, 1, 5);
    CHECK(fb_row_accepts(&s.row, at, first));
    CHECK(!fb_row_accepts(&s.row, at, second));
    CHECK(!fb_row_accepts(&s.row, at, third));
    session_close(&s);
}

static void writes_the_zero_of_an_explicit_column(void) {
    session s;
    fb_row_cursor at;
    session_open(&s, waiting, 4096);
    fb_row_begin(&s.row, 1000, &at);
    put(&s.row, &at, 1, 0, 0);
    fb_row_finish(&s.row, at);
    fb_row_begin(&s.row, 1000, &at);
    put(&s.row, &at, 1, 0, 0), put(&s.row, &at, 1, 1, 6), put(&s.row, &at, 1, 1, 0);
    fb_row_put_ip(&s.row, &at, (fb_target){.column = 2}, (const uint8_t *)"\1\2\3\4", 4);
    fb_row_finish(&s.row, at);
    fb_row_begin(&s.row, 1000, &at); /* a row without values */
    fb_row_finish(&s.row, at);
    CHECK_FLOWS(&s, "zero=0\nzero=6 addr=1.2.3.4\n\n");
    session_close(&s);
}

/* Late columns ------------------------------------------------------------------------------- */

static void collects_late_columns_only_with_a_hook_or_override(void) {
    session s;
    session_open(&s, "1 late uint late\n2 plain uint", 4096);
    fb_deferred_values *deferred = &s.row.deferred;
    uint16_t late = plan_column(&s.plan, "late"), plain = plan_column(&s.plan, "plain");
    CHECK(!deferred->active);
    CHECK(!fb_deferred_values_find(deferred, late));
    CHECK_STATUS(
        fb_deferred_values_override(deferred, late, FB_DEFERRED_UINT, 5, (fb_bytes){NULL, 0}),
        FB_OK);
    CHECK(deferred->active);
    CHECK(fb_deferred_values_find(deferred, late));
    CHECK(!fb_deferred_values_find(deferred, plain));
    CHECK(!fb_deferred_values_find(deferred, 99));
    fb_deferred_values_clear_overrides(deferred);
    CHECK(!deferred->active);
    session_close(&s);
}

typedef struct {
    session *s;
    unsigned calls;
    bool replace;
} watcher;

/* Replace every collected late column. */
static void replace_all(void *context, void *deferred) {
    static uint8_t address[16] = {0x20, 1, 0xd, 0xb8, [15] = 0x99};
    watcher *w = context;
    w->calls++;
    for (uint16_t i = 0; i < w->s->plan.count; i++) {
        fb_deferred_value *value = fb_deferred_values_find(deferred, i);
        const fb_column *column = &w->s->plan.plan->columns[i];
        if (!value || !w->replace || !(column->flags & FB_COLUMN_LATE)) continue;
        bool bytes = column->type == FB_TYPE_IP;
        value->state = bytes ? FB_DEFERRED_BYTES : FB_DEFERRED_UINT;
        value->number = 1000u + i;
        value->data = bytes ? address : NULL;
        value->size = bytes ? sizeof address : 0;
    }
}

/* A column that was written twice would appear twice. */
static void check_each_late_column_once(session *s, const char *flows) {
    text column = {0};
    for (size_t i = 0; i < s->plan.count; i++) {
        if (!(s->plan.plan->columns[i].flags & FB_COLUMN_LATE)) continue;
        for (const char *line = flows; *line; line = strchr(line, '\n') + 1) {
            size_t size = strcspn(line, "\n"), found = 0;
            text_clear(&column);
            text_put(&column, " %s=", s->plan.names[i]);
            for (const char *p = line; (p = strstr(p, text_of(&column))) && p < line + size; p++)
                found++;
            CHECK_EQUAL(found, 1);
        }
    }
    text_free(&column);
}

static void lets_a_hook_replace_late_columns(void) {
    session s;
    byte_buffer d;
    session_open(&s, usual_columns, 1 << 16);
    watcher w = {&s, 0, true};
    fb_deferred_values_set_hook(&s.row.deferred, replace_all, &w);
    for (size_t i = 0; i < sample_count; i++) {
        samples[i].build(&d);
        session_feed(&s, &d);
    }
    CHECK_EQUAL(w.calls, s.row.count);
    CHECK(strstr(session_text(&s), " exporter=2001:db8:0:0:0:0:0:99 rate=1002 "));
    check_each_late_column_once(&s, session_text(&s));
    session_close(&s);
}

static void keeps_values_that_a_hook_does_not_change(void) {
    for (size_t i = 0; i < sample_count; i++) {
        session s;
        byte_buffer d;
        session_open(&s, usual_columns, 1 << 16);
        watcher w = {&s, 0, false};
        fb_deferred_values_set_hook(&s.row.deferred, replace_all, &w);
        samples[i].build(&d);
        session_feed(&s, &d);
        CHECK_FLOWS(&s, samples[i].flows);
        CHECK(w.calls > 0);
        fb_deferred_values_set_hook(&s.row.deferred, NULL, NULL);
        session_forget(&s);
        unsigned calls = w.calls;
        session_feed(&s, &d);
        CHECK_FLOWS(&s, samples[i].flows);
        CHECK_EQUAL(w.calls, calls);
        session_close(&s);
    }
}

static void overrides_late_columns(void) {
    session s;
    byte_buffer d;
    session_open(&s, usual_columns, 1 << 16);
    fb_deferred_values *deferred = &s.row.deferred;
    fb_bytes none = {NULL, 0}, address = {(const uint8_t *)"\xcb\0\x71\1", 4};
    watcher w = {&s, 0, true};
    fb_deferred_values_set_hook(deferred, replace_all, &w);
    CHECK_STATUS(fb_deferred_values_override(deferred, plan_column(&s.plan, "src_as"),
                                             FB_DEFERRED_UINT, 65001, none),
                 FB_OK);
    CHECK_STATUS(fb_deferred_values_override(deferred, plan_column(&s.plan, "exporter"),
                                             FB_DEFERRED_BYTES, 0, address),
                 FB_OK);
    samples[0].build(&d);
    session_feed(&s, &d);
    const char *flows = session_text(&s);
    /* an override replaces the result of the hook */
    CHECK(strstr(flows, "exporter=203.0.113.1 rate=1002 "));
    CHECK(strstr(flows, " src_as=65001 "));
    check_each_late_column_once(&s, flows);
    fb_deferred_values_set_hook(deferred, NULL, NULL);
    fb_deferred_values_clear_overrides(deferred);
    session_forget(&s);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, samples[0].flows);
    session_close(&s);
}

static void refuses_invalid_overrides(void) {
    session s;
    session_open(&s,
                 "1 u uint late limit=255\n2 a ip late\n3 f double late\n4 i int late limit=127\n"
                 "5 plain uint\n6 off uint late disabled",
                 4096);
    fb_bytes none = {NULL, 0}, bytes = {(const uint8_t *)"12345678", 8};
    static const struct {
        uint16_t column;
        fb_deferred_state state;
        uint64_t number;
        fb_status status;
    } cases[] = {
        {0, FB_DEFERRED_UINT, 255, FB_OK},
        {0, FB_DEFERRED_UINT, 256, FB_BAD_ARGUMENT},
        {0, FB_DEFERRED_INT, 1, FB_BAD_ARGUMENT},
        {0, FB_DEFERRED_BYTES, 0, FB_BAD_ARGUMENT},
        /* of 8 bytes */
        {1, FB_DEFERRED_UINT, 1, FB_BAD_ARGUMENT},
        {1, FB_DEFERRED_BYTES, 0, FB_BAD_ARGUMENT},
        {2, FB_DEFERRED_REAL, 1, FB_OK},
        {2, FB_DEFERRED_UINT, 1, FB_BAD_ARGUMENT},
        {3, FB_DEFERRED_INT, 127, FB_OK},
        {3, FB_DEFERRED_INT, 128, FB_BAD_ARGUMENT},
        {3, FB_DEFERRED_INT, (uint64_t)-128, FB_OK},
        {3, FB_DEFERRED_INT, (uint64_t)-129, FB_BAD_ARGUMENT},
        {4, FB_DEFERRED_UINT, 1, FB_BAD_ARGUMENT}, /* not late */
        {5, FB_DEFERRED_UINT, 1, FB_BAD_ARGUMENT}, /* disabled */
        {6, FB_DEFERRED_UINT, 1, FB_BAD_ARGUMENT}, /* missing */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_STATUS(fb_deferred_values_override(
                         &s.row.deferred, cases[i].column, cases[i].state, cases[i].number,
                         cases[i].state == FB_DEFERRED_BYTES ? bytes : none),
                     cases[i].status);
    session_close(&s);
}

/* Scaling ------------------------------------------------------------------------------------ */

static const char *const totals = "1 rate uint rate late limit=1000000\n2 bytes uint scaled\n"
                                  "3 packets fixed32 scaled limit=4294967295\n"
                                  "4 zero uint scaled explicit\n5 plain uint";

/* Emit one row with a value for each column; 0: no value. */
static void feed_row(session *s, uint64_t rate, uint64_t bytes, uint64_t packets, uint64_t zero,
                     uint64_t plain) {
    const uint64_t values[] = {rate, bytes, packets, zero, plain};
    fb_row_cursor at;
    fb_row_begin(&s->row, 1000, &at);
    for (uint16_t i = 5; i-- > 0;) put(&s->row, &at, i, 0, values[i]); /* the rate comes last */
    fb_row_finish(&s->row, at);
}

static void multiplies_totals_by_the_rate_of_their_row(void) {
    static const struct {
        uint64_t rate, bytes, packets;
        const char *flow;
        unsigned refused;
    } cases[] = {
        {100, 1500, 2, "rate=100 bytes=150000 packets=200 zero=0 plain=7\n", 0},
        {0, 1500, 2, "bytes=1500 packets=2 zero=0 plain=7\n", 0}, /* unknown rate */
        {1, 1500, 2, "rate=1 bytes=1500 packets=2 zero=0 plain=7\n", 0},
        {100, 0, 2, "rate=100 packets=200 zero=0 plain=7\n", 0},
        {65536, 0xffffffffffff, 65535,
         "rate=65536 bytes=18446744073709486080 packets=4294901760 zero=0 plain=7\n", 0},
        {65536, 1, 65536, "rate=65536 bytes=65536 zero=0 plain=7\n", 1},   /* 2^32 packets */
        {65536, 0x1000000000000, 65536, "rate=65536 zero=0 plain=7\n", 2}, /* and 2^64 bytes */
        {3, 0x5555555555555555, 0x55555555,
         "rate=3 bytes=18446744073709551615 packets=4294967295 zero=0 plain=7\n", 0},
        {3, 0x5555555555555556, 0x55555556, "rate=3 zero=0 plain=7\n", 2},
        {1, UINT64_MAX, UINT32_MAX,
         "rate=1 bytes=18446744073709551615 packets=4294967295 zero=0 plain=7\n", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        session s;
        session_open(&s, totals, 4096);
        feed_row(&s, cases[i].rate, cases[i].bytes, cases[i].packets, 0, 7);
        CHECK_FLOWS(&s, cases[i].flow);
        CHECK_EQUAL(fb_row_take_refused(&s.row), cases[i].refused);
        CHECK_EQUAL(fb_row_take_refused(&s.row), 0);
        session_close(&s);
    }
}

static void set_rate(void *context, void *deferred) {
    CHECK_STATUS(fb_deferred_values_replace(deferred, 0, FB_DEFERRED_UINT, *(uint64_t *)context,
                                            (fb_bytes){NULL, 0}),
                 FB_OK);
}

/* The hook runs first, the override replaces its result, and totals are scaled by the written
   rate. */
static void scales_by_the_rate_that_is_written(void) {
    session s;
    uint64_t rate = 20;
    session_open(&s, totals, 4096);
    feed_row(&s, 10, 5, 0, 0, 0);
    fb_deferred_values_set_hook(&s.row.deferred, set_rate, &rate);
    feed_row(&s, 10, 5, 0, 0, 0);
    CHECK_STATUS(
        fb_deferred_values_override(&s.row.deferred, 0, FB_DEFERRED_UINT, 30, (fb_bytes){NULL, 0}),
        FB_OK);
    feed_row(&s, 10, 5, 0, 0, 0);
    feed_row(&s, 0, 5, 0, 0, 0);
    fb_deferred_values_set_hook(&s.row.deferred, NULL, NULL);
    fb_deferred_values_clear_overrides(&s.row.deferred);
    feed_row(&s, 0, 5, 0, 0, 0);
    CHECK_FLOWS(&s, "rate=10 bytes=50 zero=0\nrate=20 bytes=100 zero=0\n"
                    "rate=30 bytes=150 zero=0\nrate=30 bytes=150 zero=0\nbytes=5 zero=0\n");
    session_close(&s);
}

static void scales_totals_by_the_rate_of_the_exporter(void) {
    session s;
    byte_buffer d;
    session_open(&s, scaled_columns, 1 << 16);
    netflow5_begin(&d, 2, (netflow5_header){.sampling = 0x4064}); /* 1 in 100 */
    put_netflow5(&d, (netflow5_record){.bytes = 1500, .packets = 2});
    put_netflow5(&d, (netflow5_record){.bytes = 84, .packets = 3});
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "exporter=192.0.2.1 rate=100 bytes=150000 packets=200 plain=1500\n"
                    /* 300 packets do not fit into 255 */
                    "exporter=192.0.2.1 rate=100 bytes=8400 plain=84\n");
    CHECK_COUNTERS(&s, "out_of_range=1");
    session_close(&s);
}

/* A disabled column is absent. A repeated column cannot be replaced and is written unchanged. */
static void gives_no_disabled_or_repeated_columns_to_the_hook(void) {
    session s;
    byte_buffer d;
    session_open(&s,
                 "1 off uint late disabled : netflow5:dPkts\n"
                 "2 ports uint late repeated : netflow5:srcport,netflow5:dstport\n"
                 "3 as uint late : netflow5:src_as",
                 4096);
    watcher w = {&s, 0, true};
    fb_deferred_values_set_hook(&s.row.deferred, replace_all, &w);
    samples[0].build(&d);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "ports=[51000] as=1002\nports=[2048] as=1002\n");
    session_close(&s);
}

RUN_TESTS(TEST(keeps_the_best_rank), TEST(keeps_a_zero_that_is_a_value),
          TEST(accepts_only_better_ranks), TEST(writes_the_zero_of_an_explicit_column),
          TEST(collects_late_columns_only_with_a_hook_or_override),
          TEST(lets_a_hook_replace_late_columns), TEST(keeps_values_that_a_hook_does_not_change),
          TEST(overrides_late_columns), TEST(refuses_invalid_overrides),
          TEST(multiplies_totals_by_the_rate_of_their_row),
          TEST(scales_by_the_rate_that_is_written), TEST(scales_totals_by_the_rate_of_the_exporter),
          TEST(gives_no_disabled_or_repeated_columns_to_the_hook))
