/* From record batches to messages: order of rows, room, nulls and slices. */
#include "tests/builders/arrow_bench.h"

/* Whole batches ------------------------------------------------------------------------------ */

static const char *const table_lines =
    "1 u8 uint limit=255\n2 u16 uint limit=65535\n3 u32 uint limit=4294967295\n4 u64 uint\n"
    "5 addr ip\n6 e enum\n7 flag bool\n8 at timestamp unit=1000000\n9 name string\n10 raw bytes\n"
    "11 list uint repeated\n12 names string repeated\n13 sure uint explicit\n"
    "14 small int limit=2147483647\n15 z sint limit=2147483647\n16 f float\n"
    "17 native ip native_ip\n18 mac uint limit=281474976710655\n19 four fixed32\n20 w uint\n"
    "536870911 far uint\n22 seen string explicit";

enum { TABLE_ROWS = 150 };

static uint32_t next_random(uint32_t *random) {
    return *random = *random * 1664525u + 1013904223u;
}

/* Make a column of random words from a small set, and nulls. */
static arrow_node *make_column(uint32_t *random, const char *format, const char *const *words,
                               size_t count) {
    text t = {0};
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        size_t pick = (next_random(random) >> 8) % (count + 1);
        text_put(&t, "%s ", pick < count ? words[pick] : "null");
    }
    arrow_node *node = arrow_values(format, text_of(&t));
    text_free(&t);
    return node;
}

#define COLUMN(format, ...) \
    make_column(&random, format, (const char *const[]){__VA_ARGS__}, \
                COUNT(((const char *const[]){__VA_ARGS__})))

static arrow_node *make_list_column(uint32_t *random, const char *format, const char *const *words,
                                    size_t count) {
    text members = {0}, sizes = {0};
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        unsigned size = (next_random(random) >> 8) % 5;
        if (i == 77) size = 200;
        for (unsigned k = 0; k < size; k++)
            text_put(&members, "%s ", words[(next_random(random) >> 8) % count]);
        text_put(&sizes, size ? "%u " : "null ", size);
    }
    arrow_node *node = arrow_list("+l", text_of(&sizes), arrow_values(format, text_of(&members)));
    text_free(&members);
    text_free(&sizes);
    return node;
}

#define LIST_COLUMN(format, ...) \
    make_list_column(&random, format, (const char *const[]){__VA_ARGS__}, \
                     COUNT(((const char *const[]){__VA_ARGS__})))

/* Make a batch for table_lines. */
static arrow_node *make_table(void) {
    uint32_t random = 3;
    arrow_node *dictionary = COLUMN("c", "0", "1", "2");
    arrow_node *names = arrow_values("u", "ingress unknown 17");
    dictionary->dictionary = names;
    dictionary->schema.dictionary = &names->schema;
    dictionary->array.dictionary = &names->array;
    return arrow_batch(
        TABLE_ROWS, 22,
        (arrow_node *[]){COLUMN("C", "0", "7", "255"),
                         COLUMN("i", "0", "127", "128", "65535"),
                         COLUMN("I", "0", "1", "4294967295"),
                         COLUMN("L", "0", "1", "300", "18446744073709551615", "72057594037927936"),
                         COLUMN("u", "::", "1.2.3.4", "2001:db8::1"),
                         dictionary,
                         COLUMN("b", "0", "1"),
                         COLUMN("tss:UTC", "0", "1700000000"),
                         COLUMN("vu", "''", "short", "not-so-short-a-text"),
                         COLUMN("z", "''", "x00", "x0102030405"),
                         LIST_COLUMN("I", "0", "1", "70000"),
                         LIST_COLUMN("u", "''", "a", "some-text"),
                         COLUMN("g", "0", "1", "nan", "1000000"),
                         COLUMN("l", "0", "-1", "-2147483648"),
                         COLUMN("i", "0", "-1", "2147483647"),
                         COLUMN("f", "0", "-0.5", "3e38"),
                         COLUMN("w:4", "x00000000", "x01020304"),
                         COLUMN("u", "00:00:5e:00:53:01", "00:00:00:00:00:00"),
                         COLUMN("I", "0", "4294967295"),
                         COLUMN("n", "null"),
                         COLUMN("L", "0", "5", "18446744073709551615"),
                         COLUMN("u", "''", "a")});
}

static void check_output(const bench *b, const uint8_t *expected, size_t size, size_t capacity) {
    size_t used = fb_row_size(&b->encoder.row);
    if (used != size || memcmp(b->output, expected, size))
        fprintf(stderr, "capacity %zu:\n", capacity);
    CHECK_BYTES(b->output, used, expected, size);
}

/* Use every capacity, and grow only by the room needed. */
static void gives_the_same_output_at_every_capacity(void) {
    arrow_node *batch = make_table();
    size_t step = getenv("FLOWBUF_SLOW_RUN") ? 53 : 1;
    FOR_EACH_PROCESSOR() {
        bench whole;
        size_t position = 0;
        bench_open(&whole, table_lines, batch);
        CHECK_STATUS(whole.status, FB_OK);
        resize_output(&whole, 1 << 18);
        CHECK_STATUS(encode(&whole, batch, &position), FB_OK);
        CHECK_EQUAL(position, TABLE_ROWS);
        CHECK_EQUAL(whole.encoder.row.count, TABLE_ROWS);
        size_t size = fb_row_size(&whole.encoder.row);
        CHECK(size > 10000);
        for (size_t capacity = 0; capacity < size + 1500; capacity += capacity < 3000 ? step : 97) {
            bench b;
            bench_open(&b, table_lines, batch);
            resize_output(&b, capacity);
            position = 0;
            CHECK_STATUS(encode(&b, batch, &position), FB_OK);
            check_output(&b, whole.output, size, capacity);
            bench_close(&b);
        }
        bench_close(&whole);
    }
    run_processor = FB_PROCESSOR_ANY;
    arrow_free(batch);
}

static const char *describe_output(bench *b) {
    text_clear(&b->text);
    describe_messages(&b->text, &b->plan, b->output, fb_row_size(&b->encoder.row));
    return text_of(&b->text);
}

static void gives_the_same_output_on_every_processor(void) {
    arrow_node *batch = make_table();
    bench any;
    size_t position = 0;
    bench_open(&any, table_lines, batch);
    resize_output(&any, 1 << 18);
    CHECK_STATUS(encode(&any, batch, &position), FB_OK);
    CHECK(strstr(describe_output(&any), NOT_A_MESSAGE) == NULL);
    FOR_EACH_PROCESSOR() {
        bench b;
        position = 0;
        bench_open(&b, table_lines, batch);
        resize_output(&b, 1 << 18);
        CHECK_STATUS(encode(&b, batch, &position), FB_OK);
        check_output(&b, any.output, fb_row_size(&any.encoder.row), 1 << 18);
        bench_close(&b);
    }
    run_processor = FB_PROCESSOR_ANY;
    bench_close(&any);
    arrow_free(batch);
}

/* Encode each row alone, as a slice of the batch. */
static void writes_slices_like_the_whole_batch(void) {
    arrow_node *batch = make_table();
    bench whole, parts;
    size_t position = 0;
    bench_open(&whole, table_lines, batch);
    bench_open(&parts, table_lines, batch);
    resize_output(&whole, 1 << 18);
    resize_output(&parts, 1 << 18);
    CHECK_STATUS(encode(&whole, batch, &position), FB_OK);
    for (size_t length = 1, at = 0; at < TABLE_ROWS; at += length, length = at % 7 + 1) {
        if (at + length > TABLE_ROWS) length = TABLE_ROWS - at;
        batch->array.offset = (int64_t)at;
        batch->array.length = (int64_t)length;
        position = 0;
        CHECK_STATUS(encode(&parts, batch, &position), FB_OK);
        CHECK_EQUAL(position, length);
    }
    check_output(&parts, whole.output, fb_row_size(&whole.encoder.row), 0);
    bench_close(&whole);
    bench_close(&parts);
    arrow_free(batch);
}

static void survives_every_failed_allocation(void) {
    arrow_node *batch = make_table();
    FOR_EACH_PROCESSOR()
    for (size_t fail_at = 1;; fail_at++) {
        fb_check_allocator allocator = {0};
        fb_memory memory = fb_check_memory(&allocator);
        named_plan plan;
        fb_arrow_encoder encoder;
        fb_arrow_binding bindings[22];
        CHECK_STATUS(plan_read(&plan, table_lines, &memory), FB_OK);
        for (uint16_t i = 0; i < 22; i++)
            bindings[i] = (fb_arrow_binding){i, members, COUNT(members)};
        size_t before = memory.used;
        allocator.fail_at = allocator.calls + fail_at;
        fb_status status = fb_arrow_encoder_new(&encoder, plan.plan, &batch->schema, bindings,
                                                run_processor, &memory);
        if (status == FB_OK) fb_arrow_encoder_free(&encoder);
        else CHECK_STATUS(status, FB_NO_MEMORY);
        CHECK_EQUAL(encoder.source.fault.reason, FB_ARROW_NONE);
        CHECK_EQUAL(memory.used, before);
        plan_free(&plan);
        CHECK_EQUAL(allocator.held, 0);
        if (status == FB_OK) break;
        CHECK(fail_at < 50);
    }
    run_processor = FB_PROCESSOR_ANY;
    arrow_free(batch);
}

/* Rows --------------------------------------------------------------------------------------- */

static void check_batch(const char *lines, arrow_node *batch, const char *expected) {
    bench b;
    size_t position = 0;
    bench_open(&b, lines, batch);
    CHECK_STATUS(b.status, FB_OK);
    if (b.status == FB_OK) {
        resize_output(&b, 1 << 16);
        CHECK_STATUS(encode(&b, batch, &position), FB_OK);
        CHECK_TEXT(describe_output(&b), expected);
    }
    bench_close(&b);
    arrow_free(batch);
}

static void writes_the_bytes_of_a_message(void) {
    arrow_node *batch = arrow_batch(
        1, 4,
        (arrow_node *[]){arrow_values("I", "300"), arrow_values("u", "hi"), arrow_values("b", "1"),
                         arrow_list("+l", "2", arrow_values("C", "0 5"))});
    static const uint8_t message[] = {
        13,   0x08, 0xac, 0x02, /* 300 */
        0x18, 0x01,             /* true: another plain number */
        0x12, 0x02, 'h',  'i',  /* "hi" */
        0x20, 0x00, 0x20, 0x05, /* 0, 5 */
    };
    bench b;
    size_t position = 0;
    bench_open(&b, "1 u uint\n2 s string\n3 b bool\n4 r uint repeated", batch);
    CHECK_STATUS(encode(&b, batch, &position), FB_OK);
    CHECK_BYTES(b.output, fb_row_size(&b.encoder.row), message, sizeof message);
    bench_close(&b);
    arrow_free(batch);
}

static void writes_empty_messages_for_null_rows(void) {
    arrow_node *batch =
        arrow_batch(4, 3,
                    (arrow_node *[]){arrow_values("I", "1 2 3 4"), arrow_values("u", "a \xff c d"),
                                     arrow_values("b", "1 1 1 0")});
    arrow_set_null(batch, 1);
    check_batch("1 a uint\n2 b string\n3 c bool explicit", batch,
                "a=1 b=\"a\" c=1\n\na=3 b=\"c\" c=1\na=4 b=\"d\" c=0\n");
}

static void ignores_children_without_a_column(void) {
    arrow_node *ignored = arrow_values("I", "7 8");
    ignored->schema.format = "+m";
    ignored->array.n_buffers = 77;
    check_batch("1 a uint", arrow_batch(2, 2, (arrow_node *[]){arrow_values("I", "1 2"), ignored}),
                "a=1\na=2\n");
    check_batch("1 a uint", arrow_batch(2, 0, NULL), "\n\n");
}

static void writes_nothing_for_an_empty_batch(void) {
    arrow_node *batch = arrow_batch(
        0, 4,
        (arrow_node *[]){arrow_values("I", ""), arrow_values("u", ""), arrow_values("vz", ""),
                         arrow_list("+l", "", arrow_values("w:16", ""))});
    const void *none[5] = {NULL}; /* the number of buffers of a view here */
    for (size_t i = 0; i < 3; i++) batch->nodes[i]->array.buffers = none;
    batch->nodes[3]->array.buffers = batch->nodes[3]->nodes[0]->array.buffers = none;
    check_batch("1 a uint\n2 b string\n3 c bytes\n4 d ip repeated", batch, "");
}

/* The arrays have members before the first list, and lists before the first row. */
static void writes_lists_of_arrays_with_offsets(void) {
    arrow_lead = 3;
    arrow_node *members_of_lists = arrow_values("I", "1 2 3 4");
    arrow_node *lists = arrow_list("+l", "1 null 3", members_of_lists);
    arrow_lead = 0;
    check_batch("1 r uint repeated", arrow_batch(3, 1, &lists), "r=[1]\n\nr=[2,3,4]\n");
    arrow_node *fixed = arrow_list("+w:2", "2 2 2 2", arrow_values("I", "1 2 3 4 5 6 7 8"));
    fixed->array.offset = 1;
    fixed->array.length = 3;
    arrow_node *batch = arrow_batch(3, 1, &fixed);
    batch->array.offset = 1;
    batch->array.length = 2;
    check_batch("1 r uint repeated", batch, "r=[5,6]\nr=[7,8]\n");
}

static void reads_each_array_with_its_own_dictionary(void) {
    arrow_node *first = arrow_dictionary("c", "0 1", arrow_values("u", "1.1.1.1 2.2.2.2"));
    arrow_node *second = arrow_dictionary("c", "0 1", arrow_values("u", "3.3.3.3 4.4.4.4"));
    arrow_node *batches[] = {arrow_batch(2, 1, &first), arrow_batch(2, 1, &second)};
    bench b;
    bench_open(&b, "1 a ip", batches[0]);
    for (size_t i = 0, position = 0; i < 2; i++, position = 0)
        CHECK_STATUS(encode(&b, batches[i], &position), FB_OK);
    CHECK_TEXT(describe_output(&b), "a=1.1.1.1\na=2.2.2.2\na=3.3.3.3\na=4.4.4.4\n");
    bench_close(&b);
    arrow_free(batches[0]);
    arrow_free(batches[1]);
}

static void reports_refused_rows_in_order(void) {
    text first = {0}, second = {0};
    for (unsigned i = 0; i < 200; i++) {
        text_put(&first, "%d ", i == 170 || i == 150 ? -1 : 1);
        text_put(&second, i == 130 || i == 170 ? "no " : "1.1.1.1 ");
    }
    arrow_node *batch = arrow_batch(
        200, 2,
        (arrow_node *[]){arrow_values("u", text_of(&second)), arrow_values("l", text_of(&first))});
    static const struct {
        size_t row, child;
        fb_arrow_reason reason;
    } faults[] = {{130, 0, FB_ARROW_NOT_AN_ADDRESS},
                  {150, 1, FB_ARROW_OUT_OF_RANGE},
                  {170, 1, FB_ARROW_OUT_OF_RANGE}};
    bench b;
    size_t position = 0;
    bench_open(&b, "2 a ip\n1 n uint", batch);
    /* encoding continues after the refused row */
    for (size_t i = 0; i < COUNT(faults); i++, position++) {
        CHECK_STATUS(encode(&b, batch, &position), FB_OUT_OF_RANGE);
        CHECK_EQUAL(position, faults[i].row);
        CHECK_EQUAL(b.encoder.source.fault.row, faults[i].row);
        CHECK_EQUAL(b.encoder.source.fault.child, faults[i].child);
        CHECK_EQUAL(b.encoder.source.fault.reason, faults[i].reason);
        CHECK_EQUAL(b.encoder.row.count, faults[i].row - i);
    }
    CHECK_STATUS(encode(&b, batch, &position), FB_OK);
    CHECK_EQUAL(b.encoder.source.fault.reason, FB_ARROW_NONE);
    CHECK_EQUAL(b.encoder.row.count, 197);
    bench_close(&b);
    arrow_free(batch);
    text_free(&first);
    text_free(&second);
}

RUN_TESTS(TEST(writes_the_bytes_of_a_message), TEST(gives_the_same_output_at_every_capacity),
          TEST(gives_the_same_output_on_every_processor), TEST(writes_slices_like_the_whole_batch),
          TEST(survives_every_failed_allocation), TEST(writes_empty_messages_for_null_rows),
          TEST(ignores_children_without_a_column), TEST(writes_nothing_for_an_empty_batch),
          TEST(writes_lists_of_arrays_with_offsets), TEST(reads_each_array_with_its_own_dictionary),
          TEST(reports_refused_rows_in_order))
