/* From Arrow columns to text: each type in each form, long texts, and arrays that change. */
#include "tests/builders/arrow_bench.h"
#include "tests/support/native.h"

#include "core/arrow/arrow_text.h"

static const fb_text_options json = {.form = FB_TEXT_JSON}, csv = {.form = FB_TEXT_CSV},
                             neutral = {.form = FB_TEXT_CSV, .neutral = true},
                             key = {.form = FB_TEXT_KEY};

typedef struct {
    fb_check_allocator allocator;
    fb_memory memory;
    named_plan plan;
    fb_arrow_text writer;
    fb_status status;
    fb_buffer output;
} writer;

/* Child i fills column i, and has its name. */
static void writer_open(writer *w, const char *lines, arrow_node *batch, fb_text_options options) {
    fb_arrow_binding bindings[ARROW_CHILDREN] = {{0}};
    memset(w, 0, sizeof *w);
    w->memory = fb_check_memory(&w->allocator);
    CHECK_STATUS(plan_read(&w->plan, lines, &w->memory), FB_OK);
    for (uint16_t i = 0; i < (uint16_t)batch->schema.n_children; i++) {
        bindings[i] = (fb_arrow_binding){i, members, COUNT(members)};
        batch->nodes[i]->schema.name = w->plan.names[i];
    }
    w->status =
        fb_arrow_text_new(&w->writer, w->plan.plan, &batch->schema, bindings, options, &w->memory);
}

static void writer_close(writer *w) {
    if (w->status == FB_OK) fb_arrow_text_free(&w->writer);
    fb_buffer_free(&w->output);
    plan_free(&w->plan);
    CHECK_EQUAL(w->memory.used, 0);
    CHECK_EQUAL(w->allocator.held, 0);
}

/* Write all rows that are accepted, and check their ends. */
static fb_status write_rows(writer *w, const arrow_node *batch, size_t *position) {
    size_t rows = (size_t)batch->array.length, *ends = malloc((rows + 1) * sizeof *ends);
    *position = 0;
    fb_status status = fb_arrow_text_write(&w->writer, &batch->array, position, &w->output, ends);
    for (size_t i = 0; i < *position; i++) {
        CHECK(ends[i] < fb_buffer_size(&w->output));
        CHECK_EQUAL(w->output.begin[ends[i]], '\n');
        CHECK(!i || ends[i] > ends[i - 1]);
    }
    if (*position) CHECK_EQUAL(ends[*position - 1] + 1, fb_buffer_size(&w->output));
    free(ends);
    return status;
}

/* Write the rows of a batch, whose columns the lines describe. Frees the batch. */
static void check_rows(const char *lines, arrow_node *batch, fb_text_options options,
                       const char *expected) {
    writer w;
    size_t position;
    text written = {0};
    writer_open(&w, lines, batch, options);
    CHECK_STATUS(w.status, FB_OK);
    fb_status status = write_rows(&w, batch, &position);
    text_put(&written, "%.*s", (int)fb_buffer_size(&w.output), (const char *)w.output.begin);
    if (status != FB_OK) {
        CHECK_STATUS(status, FB_OUT_OF_RANGE);
        CHECK_EQUAL(position, w.writer.source.fault.row);
        text_put(&written, "row %zu: %s", position,
                 fb_arrow_reason_text(w.writer.source.fault.reason));
    }
    CHECK_TEXT(text_of(&written), expected);
    text_free(&written);
    writer_close(&w);
    arrow_free(batch);
}

/* Types -------------------------------------------------------------------------------------- */

typedef struct {
    const char *column, *format, *values, *json, *csv;
} example;

#define MAC     "uint limit=281474976710655"
#define TIME_MS "timestamp unit=1000000"

static const example examples[] = {
    {"uint", "L", "0 7 null 18446744073709551615", "{}|{`v`:7}|{}|{`v`:18446744073709551615}|",
     "``|7|``|18446744073709551615|"},
    {"uint explicit", "L", "0 7 null", "{`v`:0}|{`v`:7}|{}|", "0|7|``|"},
    {"sint", "l", "-1 9223372036854775807 -9223372036854775808",
     "{`v`:-1}|{`v`:9223372036854775807}|{`v`:-9223372036854775808}|",
     "-1|9223372036854775807|-9223372036854775808|"},
    {"fixed32", "I", "4294967295", "{`v`:4294967295}|", "4294967295|"},
    {"fixed64", "L", "10 100 1000", "{`v`:10}|{`v`:100}|{`v`:1000}|", "10|100|1000|"},
    {"bool", "b", "1 0", "{`v`:true}|{}|", "true|``|"},
    {"bool explicit", "b", "0", "{`v`:false}|", "false|"},
    {"double", "g", "0.1 -0.0 0 1e22 nan -inf",
     "{`v`:0.1}|{`v`:-0.0}|{}|{`v`:1e+22}|{`v`:`NaN`}|"
     "{`v`:`-Infinity`}|",
     "0.1|-0.0|``|1e+22|NaN|-Infinity|"},
    {"float", "f", "0.5 0.1", "{`v`:0.5}|{`v`:0.10000000149011612}|", "0.5|0.10000000149011612|"},
    {"enum", "i", "1 0 9", "{`v`:`ingress`}|{}|{`v`:9}|", "ingress|``|9|"},
    {"enum explicit", "i", "0", "{`v`:`unknown`}|", "unknown|"},
    {"enum", "u", "egress 9 most", "{`v`:`egress`}|{`v`:9}|{`v`:`most`}|", "egress|9|most|"},
    {"ip", "w:16", "x00000000000000000000ffffc0000201 x20010db8000000000000000000000001 null",
     "{`v`:`192.0.2.1`}|{`v`:`2001:db8::1`}|{}|", "192.0.2.1|2001:db8::1|``|"},
    {"ip", "u", "192.0.2.1 ::", "{`v`:`192.0.2.1`}|{`v`:`::`}|", "192.0.2.1|::|"},
    {MAC, "L", "733295205870 0", "{`v`:`00:aa:bb:cc:dd:ee`}|{}|", "00:aa:bb:cc:dd:ee|``|"},
    {TIME_MS, "tsm:", "1662723663679 951782400000 0",
     "{`v`:`2022-09-09T11:41:03.679Z`}|{`v`:`2000-02-29T00:00:00.000Z`}|{}|",
     "2022-09-09T11:41:03.679Z|2000-02-29T00:00:00.000Z|``|"},
    {"timestamp unit=1000000000", "tss:", "1", "{`v`:`1970-01-01T00:00:01Z`}|",
     "1970-01-01T00:00:01Z|"},
    {"timestamp unit=1", "tsn:", "7", "{`v`:`1970-01-01T00:00:00.000000007Z`}|",
     "1970-01-01T00:00:00.000000007Z|"},
    {"duration unit=1000000", "tDm", "-1500", "{`v`:-1500}|", "-1500|"},
    {"string", "u", "a '' null =1", "{`v`:`a`}|{}|{}|{`v`:`=1`}|", "a|``|``|=1|"},
    {"string explicit", "u", "''", "{`v`:``}|", "``|"},
    {"bytes", "z", "x00ff ''", "{`v`:`00ff`}|{}|", "00ff|``|"},
};

/* In these texts, a back quote stands for a double quote, and a bar for a line feed. */
static const char *spell(text *to, const char *short_form) {
    text_clear(to);
    for (const char *p = short_form; *p; p++) {
        char spelled = *p == '|' ? '\n' : *p;
        text_put(to, "%c", spelled == '`' ? '"' : spelled);
    }
    return text_of(to);
}

static arrow_node *one_column(const example *e) {
    size_t rows = 1;
    for (const char *p = e->values; *p; p++) rows += *p == ' ';
    return arrow_batch(rows, 1, (arrow_node *[]){arrow_values(e->format, e->values)});
}

static void formats_each_type(void) {
    text lines = {0}, expected = {0};
    for (size_t i = 0; i < COUNT(examples); i++) {
        const example *e = &examples[i];
        text_clear(&lines);
        text_put(&lines, "1 v %s", e->column);
        check_rows(text_of(&lines), one_column(e), json, spell(&expected, e->json));
        check_rows(text_of(&lines), one_column(e), csv, spell(&expected, e->csv));
    }
    text_free(&lines);
    text_free(&expected);
}

static arrow_node *numbers_and_texts(void) {
    return arrow_batch(3, 3,
                       (arrow_node *[]){arrow_values("I", "0 2 0"), arrow_values("u", "a,b '' ''"),
                                        arrow_list("+l", "2 1 0", arrow_values("u", "c \"d e"))});
}

static void separates_columns_in_each_form(void) {
    const char *lines = "1 n uint\n2 t string\n3 l string repeated";
    fb_text_options tagged = json;
    tagged.start = (fb_bytes){(const uint8_t *)"\"rows\":1", 8};
    check_rows(lines, numbers_and_texts(), json,
               "{\"t\":\"a,b\",\"l\":[\"c\",\"\\\"d\"]}\n{\"n\":2,\"l\":[\"e\"]}\n{}\n");
    check_rows(
        lines, numbers_and_texts(), tagged,
        "{\"rows\":1,\"t\":\"a,b\",\"l\":[\"c\",\"\\\"d\"]}\n{\"rows\":1,\"n\":2,\"l\":[\"e\"]}\n"
        "{\"rows\":1}\n");
    check_rows(lines, numbers_and_texts(), csv, ",\"a,b\",\"c \"\"d\"\n2,,e\n,,\n");
    check_rows(lines, numbers_and_texts(), key, ",a,b,c \"d\n2,,e\n,,\n");
}

static void neutralizes_formulas_in_texts_and_lists_only(void) {
    const char *lines = "1 t string\n2 n sint\n3 l sint repeated";
    for (int i = 0; i < 2; i++)
        check_rows(lines,
                   arrow_batch(1, 3,
                               (arrow_node *[]){arrow_values("u", "=1"), arrow_values("l", "-1"),
                                                arrow_list("+l", "2", arrow_values("l", "-1 2"))}),
                   i ? neutral : csv, i ? "'=1,-1,'-1 2\n" : "=1,-1,-1 2\n");
}

static void writes_lists_of_each_kind(void) {
    arrow_node *lists[] = {arrow_list("+l", "2", arrow_values("I", "0 5")),
                           arrow_list("+l", "2", arrow_values("i", "1 9")),
                           arrow_list("+l", "1", arrow_values("u", "192.0.2.1")),
                           arrow_list("+l", "1", arrow_values("z", "xab")),
                           arrow_list("+l", "1", arrow_values("g", "0"))};
    const char *lines = "1 n uint repeated\n2 e enum repeated\n3 a ip repeated\n"
                        "4 b bytes repeated\n5 r double repeated";
    check_rows(lines, arrow_batch(1, COUNT(lists), lists), json,
               "{\"n\":[0,5],\"e\":[\"ingress\",9],\"a\":[\"192.0.2.1\"],\"b\":[\"ab\"],"
               "\"r\":[0.0]}\n");
}

static void leaves_out_arrays_of_nulls(void) {
    static const char *const types[] = {"enum", "enum repeated", "uint", "string repeated", "ip"};
    for (size_t i = 0; i < COUNT(types); i++) {
        text lines = {0};
        text_put(&lines, "1 v %s", types[i]);
        check_rows(text_of(&lines),
                   arrow_batch(2, 1, (arrow_node *[]){arrow_values("n", "null null")}), json,
                   "{}\n{}\n");
        text_free(&lines);
    }
}

/* Long texts --------------------------------------------------------------------------------- */

/* A text of `size` bytes, each of which needs an escape of six. */
static void writes_long_texts(void) {
    static const size_t sizes[] = {1, 4095, 4096, 4097, 20000};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        text word = {0}, expected = {0};
        for (size_t k = 0; k < sizes[i]; k++) text_put(&word, "\x01");
        text_put(&expected, "{\"v\":\"");
        for (size_t k = 0; k < sizes[i]; k++) text_put(&expected, "\\u0001");
        text_put(&expected, "\"}\n");
        arrow_node *values = arrow_values("u", text_of(&word));
        check_rows("1 v string", arrow_batch(1, 1, &values), json, text_of(&expected));
        text_free(&word);
        text_free(&expected);
    }
}

/* Refusals ----------------------------------------------------------------------------------- */

static void stops_at_the_first_refused_row(void) {
    check_rows("1 v uint limit=255",
               arrow_batch(3, 1, (arrow_node *[]){arrow_values("I", "1 256 2")}), json,
               "{\"v\":1}\nrow 1: the value is outside the column's range");
    check_rows(
        "1 v uint repeated limit=255",
        arrow_batch(2, 1, (arrow_node *[]){arrow_list("+l", "1 2", arrow_values("I", "1 2 256"))}),
        csv, "1\nrow 1: the value is outside the column's range");
}

static void survives_every_failed_allocation(void) {
    arrow_node *batch = numbers_and_texts();
    for (size_t fail_at = 1;; fail_at++) {
        fb_check_allocator allocator = {0};
        fb_memory memory = fb_check_memory(&allocator);
        fb_arrow_binding bindings[3];
        fb_arrow_text t;
        named_plan plan;
        CHECK_STATUS(plan_read(&plan, "1 n enum\n2 t string\n3 l string repeated", &memory), FB_OK);
        for (uint16_t i = 0; i < 3; i++)
            bindings[i] = (fb_arrow_binding){i, members, COUNT(members)};
        size_t before = memory.used;
        allocator.fail_at = allocator.calls + fail_at;
        fb_status status =
            fb_arrow_text_new(&t, plan.plan, &batch->schema, bindings, json, &memory);
        if (status == FB_OK) fb_arrow_text_free(&t);
        else CHECK_STATUS(status, FB_NO_MEMORY);
        CHECK_EQUAL(memory.used, before);
        plan_free(&plan);
        CHECK_EQUAL(allocator.held, 0);
        if (status == FB_OK) break;
        CHECK(fail_at < 50);
    }
    arrow_free(batch);
}

/* Arrays that change during the call. Part of the array is in the output of the first row, so it
   changes when that row is written. The bytes must be text. */

typedef struct {
    const char *column;
    bool members; /* of the list, not its offsets */
    size_t count;
    int32_t first[3], second[3];
    const char *why;
} change;

enum { MANY = 100, ROOM = 1 << 16 };

static const change changes[] = {
    {"uint repeated", false, 3, {0, 0, 1}, {0, 0, MANY}, "more members"},
    {"uint repeated", false, 3, {0, 0, 2}, {0, 0, 1}, "fewer members"},
    {"uint repeated", false, 3, {0, 0, 1}, {0, 0, MANY + 1}, "members that are not there"},
    {"uint repeated", false, 3, {0, 0, 1}, {0, 5, 1}, "an end before the beginning"},
    {"string repeated", true, 2, {0, 1}, {0, MANY}, "a longer text"},
    {"string repeated", true, 2, {0, 9}, {5, 9}, "a shorter text"},
};

static arrow_node *make_list(const change *c) {
    text words = {0};
    for (size_t i = 0; i < MANY; i++) text_put(&words, c->members ? "a" : "7 ");
    arrow_node *list = c->members
                           ? arrow_list("+l", "null 1", arrow_values("u", text_of(&words)))
                           : arrow_list("+l", "null 100", arrow_values("I", text_of(&words)));
    text_free(&words);
    return list;
}

/* The first row has a text of the second integers. */
static arrow_node *make_batch(const change *c) {
    arrow_node *texts = arrow_values("u", "0123456789abcdef ''");
    uint8_t *bytes = (uint8_t *)(uintptr_t)texts->buffers[2];
    for (size_t i = 0; i < 12; i++) bytes[i] = 0;
    for (size_t i = 0; i < c->count; i++) native_put(bytes + 4 * i, (uint64_t)c->second[i], 4);
    return arrow_batch(2, 2, (arrow_node *[]){texts, make_list(c)});
}

static void check_change(const change *c) {
    arrow_node *batch = make_batch(c), *node = batch->nodes[1];
    text lines = {0};
    writer w;
    size_t position;
    text_put(&lines, "1 raw string\n2 list %s", c->column);
    writer_open(&w, text_of(&lines), batch, key);
    CHECK_STATUS(fb_buffer_reserve(&w.output, ROOM), FB_OK);
    /* the row begins one number later, because the text must be aligned like an offset */
    w.output.p += 4;
    uint8_t *place = w.output.p;
    if (c->members) node = node->nodes[0];
    const void *own = node->buffers[1];
    node->buffers[1] = place;
    for (size_t i = 0; i < c->count; i++) native_put(place + 4 * i, (uint64_t)c->first[i], 4);
    int before = fb_check_failures;
    position = 0;
    CHECK_STATUS(fb_arrow_text_write(&w.writer, &batch->array, &position, &w.output, NULL),
                 FB_OUT_OF_RANGE);
    CHECK_EQUAL(w.writer.source.fault.reason, FB_ARROW_CHANGED);
    CHECK_EQUAL(w.writer.source.fault.child, 1);
    CHECK_EQUAL(w.writer.source.fault.row, 1);
    CHECK_EQUAL(position, 1);
    CHECK_EQUAL(fb_buffer_size(&w.output), 4 + 16 + 2);
    if (fb_check_failures != before) fprintf(stderr, "%s: %s\n", c->column, c->why);
    node->buffers[1] = own;
    text_free(&lines);
    writer_close(&w);
    arrow_free(batch);
}

static void refuses_lists_that_change_between_reads(void) {
    for (size_t i = 0; i < COUNT(changes); i++) check_change(&changes[i]);
}

RUN_TESTS(TEST(formats_each_type), TEST(separates_columns_in_each_form),
          TEST(neutralizes_formulas_in_texts_and_lists_only), TEST(writes_lists_of_each_kind),
          TEST(leaves_out_arrays_of_nulls), TEST(writes_long_texts),
          TEST(stops_at_the_first_refused_row), TEST(survives_every_failed_allocation),
          TEST(refuses_lists_that_change_between_reads))
