/* Rows of columns: the content of buffers byte for byte, constants, late columns, lists, and failed
   allocations. */
#include "tests/support/session.h"

#include "tests/builders/samples.h"

typedef struct {
    session session; /* the plan and a decoder */
    fb_columns columns;
    fb_batch *batch;
    text text;
} table;

static void table_open(table *t, const char *lines, size_t rows) {
    memset(t, 0, sizeof *t);
    session_open(&t->session, lines, 0);
    CHECK_STATUS(fb_columns_new(&t->columns, t->session.plan.plan, &t->session.memory), FB_OK);
    CHECK_STATUS(fb_batch_new(&t->batch, t->session.plan.plan, rows, t->session.memory), FB_OK);
    fb_columns_set_batch(&t->columns, t->batch);
}

static void table_close(table *t) {
    fb_batch_free(t->batch);
    fb_columns_free(&t->columns);
    text_free(&t->text);
    session_close(&t->session);
}

static fb_vector *vector_of(const table *t, const char *name) {
    return &t->batch->vectors[plan_column(&t->session.plan, name)];
}

static const char *table_text(table *t) {
    text_clear(&t->text);
    describe_batch(&t->text, &t->session.plan, t->batch);
    return text_of(&t->text);
}

static fb_target target_of(const table *t, const char *name) {
    return (fb_target){.column = plan_column(&t->session.plan, name)};
}

/* Begin without a datagram, so without constants. */
static void begin_without_datagram(table *t) {
    fb_columns_cursor at;
    fb_columns_begin_constants(&t->columns, &at);
    fb_columns_end_constants(&t->columns, at);
}

/* Buffers ------------------------------------------------------------------------------------ */

static const char *const every_type = COLUMNS_OF_EVERY_TYPE;

static void has_a_width_for_each_type(void) {
    static const struct {
        const char *name;
        unsigned width;
    } widths[] = {{"byte", 1},   {"pair", 2},   {"word", 4}, {"wide", 8},   {"mac", 8},
                  {"kind", 4},   {"flag", 1},   {"at", 8},   {"addr", 16},  {"small", 4},
                  {"big", 8},    {"zigzag", 4}, {"real", 4}, {"double", 8}, {"four", 4},
                  {"eight", 8},  {"span", 8},   {"name", 0}, {"raw", 0},    {"sure", 1},
                  {"native", 16}};
    table t;
    table_open(&t, every_type, 2);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const fb_vector *vector = vector_of(&t, widths[i].name);
        CHECK_EQUAL(vector->width, widths[i].width);
        CHECK_EQUAL(1u << vector->shift, widths[i].width ? widths[i].width : 1);
        CHECK_EQUAL(vector->offsets != NULL, widths[i].width == 0);
        CHECK_EQUAL((uintptr_t)vector->values % FB_CACHE_LINE, 0);
    }
    CHECK(!vector_of(&t, "off")->values);
    CHECK(vector_of(&t, "sure")->present && !vector_of(&t, "wide")->present);
    table_close(&t);
}

static void stores_the_limits_of_every_type(void) {
    table t;
    fb_columns_cursor at;
    table_open(&t, every_type, 3);
    begin_without_datagram(&t);
    CHECK(fb_columns_begin(&t.columns, 1000, &at));
    fb_columns_finish(&t.columns, at);
    CHECK(fb_columns_begin(&t.columns, 1000, &at));
    static const uint8_t ipv6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1}, ipv4[4] = {192, 0, 2, 7};
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "byte"), 255);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "pair"), 65535);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "word"), UINT32_MAX);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "wide"), UINT64_MAX);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "kind"), 2);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "flag"), 1);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "at"), 1700000000000);
    fb_columns_put_ip(&t.columns, &at, target_of(&t, "addr"), ipv6, 16);
    fb_columns_put_ip(&t.columns, &at, target_of(&t, "native"), ipv4, 4);
    fb_columns_put_int(&t.columns, &at, target_of(&t, "small"), INT32_MIN);
    fb_columns_put_int(&t.columns, &at, target_of(&t, "big"), INT64_MIN);
    fb_columns_put_int(&t.columns, &at, target_of(&t, "zigzag"), -1);
    fb_columns_put_real(&t.columns, &at, target_of(&t, "real"), -1.5);
    fb_columns_put_real(&t.columns, &at, target_of(&t, "double"), 0.1);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "four"), UINT32_MAX);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "eight"), UINT64_MAX);
    fb_columns_put_int(&t.columns, &at, target_of(&t, "span"), -5);
    fb_columns_put_bytes(&t.columns, &at, target_of(&t, "name"),
                         (const uint8_t *)"a\xff"
                                          "b",
                         3);
    fb_columns_put_bytes(&t.columns, &at, target_of(&t, "raw"), (const uint8_t *)"\0\xff", 2);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "sure"), 0);
    fb_columns_finish(&t.columns, at);
    CHECK(fb_columns_begin(&t.columns, 1000, &at));
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "byte"), 1);
    fb_columns_put_uint(&t.columns, &at, target_of(&t, "byte"), 2); /* the first value stays */
    fb_columns_finish(&t.columns, at);
    CHECK_TEXT(
        table_text(&t),
        "\n"
        "byte=255 pair=65535 word=4294967295 wide=18446744073709551615 kind=2 flag=1 "
        "at=1700000000000 addr=2001:db8:0:0:0:0:0:1 small=-2147483648 big=-9223372036854775808 "
        "zigzag=-1 real=-1.5 double=0.10000000000000001 four=4294967295 "
        "eight=18446744073709551615 span=-5 name=\"a\xef\xbf\xbd"
        "b\" raw=x00ff sure=0 "
        "native=native:192.0.2.7\nbyte=1\n");
    CHECK_BYTES(vector_of(&t, "native")->values + 16, 16, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\7",
                16);
    CHECK(!fb_columns_begin(&t.columns, 1000, &at)); /* full */
    table_close(&t);
}

static void undoes_a_row(void) {
    table t;
    fb_columns_cursor at;
    table_open(
        &t,
        "1 a uint\n2 b ip\n3 c string\n4 d uint repeated\n5 e string repeated\n6 f uint explicit",
        4);
    begin_without_datagram(&t);
    for (unsigned round = 0; round < 3; round++) {
        CHECK(fb_columns_begin(&t.columns, 1000, &at));
        fb_columns_put_uint(&t.columns, &at, target_of(&t, "a"), round + 1);
        fb_columns_put_ip(&t.columns, &at, target_of(&t, "b"), (const uint8_t *)"\1\2\3\4", 4);
        fb_columns_put_bytes(&t.columns, &at, target_of(&t, "c"), (const uint8_t *)"text", 4);
        for (unsigned i = 0; i <= round; i++) {
            fb_columns_repeat_uint(&t.columns, &at, target_of(&t, "d"), i);
            fb_columns_repeat_bytes(&t.columns, &at, target_of(&t, "e"), (const uint8_t *)"xyz", i);
        }
        fb_columns_put_uint(&t.columns, &at, target_of(&t, "f"), 0);
        if (round == 1) fb_batch_undo(t.columns.batch, at.row);
        else fb_columns_finish(&t.columns, at);
    }
    CHECK(fb_columns_begin(&t.columns, 1000, &at));
    fb_columns_finish(&t.columns, at);
    CHECK_TEXT(table_text(&t), "a=1 b=1.2.3.4 c=\"text\" d=[0] e=[\"\"] f=0\n"
                               "a=3 b=1.2.3.4 c=\"text\" d=[0,1,2] e=[\"\",\"x\",\"xy\"] f=0\n\n");
    CHECK_EQUAL(t.columns.count, 3);
    table_close(&t);
}

/* Batches ------------------------------------------------------------------------------------ */

/* Decode all samples in batches of `rows` rows, and append the text of each batch. */
static void decode_all(table *t, size_t rows, const char *lines, void (*prepare)(table *),
                       text *described) {
    static byte_buffer d[16];
    fb_datagram datagrams[16];
    table_open(t, lines, rows);
    if (prepare) prepare(t);
    for (size_t i = 0; i < sample_count; i++) {
        samples[i].build(&d[i]);
        datagrams[i] = datagram_of(d[i].data, d[i].size, SOURCE_ADDRESS);
    }
    session_feed_columns(&t->session, &t->columns, datagrams, sample_count, rows, described);
    fb_columns_set_batch(&t->columns, t->batch);
}

static void check_every_size(const char *lines, void (*prepare)(table *)) {
    text whole = {0};
    table t;
    decode_all(&t, 1000, lines, prepare, &whole);
    fb_counters counters = count_all(t.session.decoder);
    size_t flows = t.columns.count;
    CHECK_EQUAL(flows, counters.rows[FB_ROWS_FLOWS]);
    table_close(&t);
    for (size_t rows = 2; rows < flows + 2; rows++) {
        text parts = {0};
        decode_all(&t, rows, lines, prepare, &parts);
        fb_counters seen = count_all(t.session.decoder);
        CHECK_TEXT(text_of(&parts), text_of(&whole));
        CHECK_BYTES(&seen, sizeof seen, &counters, sizeof counters);
        table_close(&t);
        text_free(&parts);
    }
    text_free(&whole);
}

static void override_source_as(table *t) {
    fb_bytes none = {0};
    CHECK_STATUS(fb_deferred_values_override(&t->columns.deferred,
                                             plan_column(&t->session.plan, "src_as"),
                                             FB_DEFERRED_UINT, 65001, none),
                 FB_OK);
}

static void gives_the_same_rows_at_every_batch_size(void) {
    text lines = {0};
    plan_put_rich(&lines);
    check_every_size(usual_columns, NULL);
    check_every_size(usual_columns, override_source_as);
    check_every_size(scaled_columns, NULL);
    check_every_size(text_of(&lines), NULL);
    text_free(&lines);
}

static void overrides_late_columns(void) {
    text described = {0};
    table t;
    decode_all(&t, 1000, usual_columns, override_source_as, &described);
    size_t rows = 0, overridden = 0;
    for (const char *p = text_of(&described); (p = strstr(p, "src_as=65001")); p++) overridden++;
    for (const char *p = text_of(&described); (p = strchr(p, '\n')); p++) rows++;
    CHECK_EQUAL(overridden, rows);
    CHECK(rows > 10);
    table_close(&t);
    text_free(&described);
}

/* A batch that grows from two rows has the same content as large batches. */
static void grows_a_batch(void) {
    text lines = {0}, whole = {0}, grown = {0};
    byte_buffer d[16];
    fb_datagram datagrams[16];
    fb_position position = {0};
    table t;
    plan_put_rich(&lines);
    decode_all(&t, 1000, text_of(&lines), NULL, &whole);
    table_close(&t);
    table_open(&t, text_of(&lines), 2);
    for (size_t i = 0; i < sample_count; i++) {
        samples[i].build(&d[i]);
        datagrams[i] = datagram_of(d[i].data, d[i].size, SOURCE_ADDRESS);
    }
    while (fb_columns_decode(t.session.decoder, datagrams, sample_count, &position, &t.columns) ==
           FB_NO_SPACE) {
        CHECK_STATUS(fb_batch_grow(&t.batch, t.session.plan.plan, t.batch->capacity + 1), FB_OK);
        fb_columns_set_batch(&t.columns, t.batch);
    }
    describe_batch(&grown, &t.session.plan, t.batch);
    CHECK_TEXT(text_of(&grown), text_of(&whole));
    table_close(&t);
    text_free(&lines);
    text_free(&whole);
    text_free(&grown);
}

/* Copies of rows ----------------------------------------------------------------------------- */

/* Append the text of each row of the batch, in the given order. */
static void describe_rows(text *to, const named_plan *plan, const fb_batch *batch,
                          const uint64_t *rows, size_t count) {
    text whole = {0};
    describe_batch(&whole, plan, batch);
    for (size_t i = 0; i < count; i++) {
        const char *line = text_of(&whole);
        for (uint64_t before = rows[i]; before; before--) line = strchr(line, '\n') + 1;
        text_put(to, "%.*s\n", (int)(strchr(line, '\n') - line), line);
    }
    text_free(&whole);
}

static void check_copy(const table *t, const uint64_t *rows, size_t count) {
    text wanted = {0}, copied = {0};
    fb_batch *copy;
    CHECK_STATUS(fb_batch_take(&copy, t->session.plan.plan, t->batch, rows, count), FB_OK);
    describe_rows(&wanted, &t->session.plan, t->batch, rows, count);
    describe_batch(&copied, &t->session.plan, copy);
    CHECK_TEXT(text_of(&copied), text_of(&wanted));
    for (size_t i = 0; i < copy->vector_count; i++) /* also where a value is absent */
        CHECK(!t->batch->vectors[i].present == !copy->vectors[i].present);
    fb_batch_free(copy);
    text_free(&wanted);
    text_free(&copied);
}

static void decode_samples(table *t) {
    byte_buffer d;
    for (size_t i = 0; i < sample_count; i++) {
        fb_position position = {0};
        samples[i].build(&d);
        fb_datagram datagram = datagram_of(d.data, d.size, SOURCE_ADDRESS);
        CHECK_STATUS(fb_columns_decode(t->session.decoder, &datagram, 1, &position, &t->columns),
                     FB_OK);
    }
}

static void copies_rows(void) {
    text lines = {0};
    plan_put_rich(&lines);
    const char *const plans[] = {text_of(&lines), usual_columns, every_type};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        table t;
        uint64_t order[64];
        table_open(&t, plans[i], 100);
        decode_samples(&t);
        const size_t rows = t.batch->rows;
        CHECK(rows > 10 && rows <= 32);
        for (uint64_t row = 0; row < rows; row++) order[row] = row;
        check_copy(&t, order, rows);
        check_copy(&t, order, 0);
        for (uint64_t row = 0; row < rows; row++) check_copy(&t, &row, 1);
        for (uint64_t row = 0; row < 2 * rows; row++) order[row] = (rows - 1 - row / 2) % rows;
        check_copy(&t, order, 2 * rows);
        table_close(&t);
    }
    text_free(&lines);
}

/* A datagram without flows leaves constants behind the batch, which must be cleared, too. */
static void clears_the_constants_of_datagrams_without_flows(void) {
    table t;
    byte_buffer d = {.size = 0};
    ipfix_begin(&d, (ipfix_header){.seconds = 1000, .sequence = 7, .domain = 3});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({8, 4}, {1, 8}));
    set_end(&d, set);
    ipfix_end(&d);
    table_open(&t, usual_columns, 10);
    for (unsigned call = 0; call < 2; call++) {
        fb_position position = {0};
        fb_columns_set_batch(&t.columns, t.batch);
        fb_datagram datagram = datagram_of(d.data, d.size, SOURCE_ADDRESS);
        CHECK_STATUS(fb_columns_decode(t.session.decoder, &datagram, 1, &position, &t.columns),
                     FB_OK);
    }
    CHECK_EQUAL(t.batch->rows, 0);
    fb_columns_set_batch(&t.columns, t.batch);
    table_close(&t); /* checks that the batch is all zeros */
}

/* Copies have members and text of their own, in each kind of list. */
static void copies_lists(void) {
    table t;
    table_open(&t, "1 a uint\n2 n uint repeated\n3 t string repeated\n4 x ip repeated\n5 s string",
               10);
    begin_without_datagram(&t);
    for (unsigned row = 0; row < 4; row++) {
        static const uint8_t address[4] = {192, 0, 2, 1};
        fb_columns_cursor at;
        CHECK(fb_columns_begin(&t.columns, 1000, &at));
        fb_columns_put_uint(&t.columns, &at, target_of(&t, "a"), row + 1);
        for (unsigned i = 0; row != 1 && i < row + 1; i++) {
            fb_columns_repeat_uint(&t.columns, &at, target_of(&t, "n"), 10 * row + i);
            fb_columns_repeat_bytes(&t.columns, &at, target_of(&t, "t"), (const uint8_t *)"abcd",
                                    i);
            fb_columns_repeat_bytes(&t.columns, &at, target_of(&t, "x"), address, 4);
        }
        fb_columns_put_bytes(&t.columns, &at, target_of(&t, "s"), (const uint8_t *)"text", row);
        fb_columns_finish(&t.columns, at);
    }
    check_copy(&t, (uint64_t[]){3, 1, 0, 2, 2}, 5);
    check_copy(&t, (uint64_t[]){1, 1}, 2);
    fb_batch *copy;
    CHECK_STATUS(fb_batch_take(&copy, t.session.plan.plan, t.batch, (uint64_t[]){3, 1, 0}, 3),
                 FB_OK);
    fb_batch_free(t.batch);
    t.batch = copy;
    CHECK_TEXT(table_text(&t), "a=4 n=[30,31,32,33] t=[\"\",\"a\",\"ab\",\"abc\"] "
                               "x=[192.0.2.1,192.0.2.1,192.0.2.1,192.0.2.1] s=\"tex\"\n"
                               "a=2 s=\"t\"\n"
                               "a=1 n=[0] t=[\"\"] x=[192.0.2.1]\n");
    table_close(&t);
}

static void copies_rows_until_memory_is_short(void) {
    text lines = {0};
    plan_put_rich(&lines);
    table t;
    table_open(&t, text_of(&lines), 100);
    decode_samples(&t);
    for (size_t fail_at = 1;; fail_at++) {
        fb_batch *copy;
        size_t held = t.session.allocator.held;
        t.session.allocator.fail_at = t.session.allocator.calls + fail_at;
        fb_status status =
            fb_batch_take(&copy, t.session.plan.plan, t.batch, (uint64_t[]){0, 5, 9}, 3);
        if (status == FB_OK) fb_batch_free(copy);
        else CHECK_STATUS(status, FB_NO_MEMORY);
        CHECK_EQUAL(t.session.allocator.held, held);
        if (status == FB_OK) break;
        CHECK(fail_at < 1500);
    }
    t.session.allocator.fail_at = 0;
    table_close(&t);
    text_free(&lines);
}

/* Little memory ------------------------------------------------------------------------------ */

static void survives_every_failed_allocation(void) {
    const char *lines = "1 a uint : ipfix:1\n2 text string : ipfix:82\n"
                        "3 labels uint repeated : ipfix:70 packet:mpls.labels\n"
                        "4 names string repeated : ipfix:82\n5 f uint explicit : ipfix:2";
    for (size_t fail_at = 1;; fail_at++) {
        session s;
        fb_columns columns;
        fb_batch *batch;
        session_open(&s, lines, 0);
        size_t before = s.memory.used;
        s.allocator = (fb_check_allocator){.fail_at = s.allocator.calls + fail_at,
                                           .calls = s.allocator.calls,
                                           .held = s.allocator.held};
        bool made = fb_columns_new(&columns, s.plan.plan, &s.memory) == FB_OK;
        bool with_batch = made && fb_batch_new(&batch, s.plan.plan, 10, s.memory) == FB_OK;
        bool put = false;
        if (with_batch) {
            fb_columns_cursor at;
            fb_columns_set_batch(&columns, batch);
            fb_columns_begin_constants(&columns, &at);
            fb_columns_end_constants(&columns, at);
            put = fb_columns_begin(&columns, 300, &at);
            CHECK_EQUAL(batch->rows, 0);
            if (put) fb_columns_finish(&columns, at);
            fb_batch_free(batch);
        }
        if (made) fb_columns_free(&columns);
        CHECK_EQUAL(s.memory.used, before);
        session_close(&s);
        if (put) break;
        CHECK(fail_at < 100);
    }
}

static void stops_before_offsets_overflow(void) {
    table t;
    fb_columns_cursor at;
    table_open(&t, "1 text string", 10);
    begin_without_datagram(&t);
    CHECK(!fb_columns_begin(&t.columns, (size_t)INT32_MAX, &at));
    CHECK(fb_columns_begin(&t.columns, 100, &at));
    fb_batch_undo(t.columns.batch, at.row);
    table_close(&t);
}

RUN_TESTS(TEST(has_a_width_for_each_type), TEST(stores_the_limits_of_every_type),
          TEST(undoes_a_row), TEST(gives_the_same_rows_at_every_batch_size),
          TEST(overrides_late_columns), TEST(grows_a_batch),
          TEST(clears_the_constants_of_datagrams_without_flows), TEST(copies_rows),
          TEST(copies_lists), TEST(copies_rows_until_memory_is_short),
          TEST(survives_every_failed_allocation), TEST(stops_before_offsets_overflow))
