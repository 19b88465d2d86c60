/* A row under construction: its bytes, its omitted values, and its bound on room. */
#include "tests/support/session.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A plan and a row that writes up to a guard page. */
typedef struct {
    fb_check_allocator allocator;
    fb_memory memory;
    named_plan plan;
    fb_row row;
    fb_row_cursor at;
    uint8_t *output;
    size_t capacity;
    text text;
} bench;

static void bench_open(bench *b, const char *lines, size_t capacity) {
    memset(b, 0, sizeof *b);
    b->memory = fb_check_memory(&b->allocator);
    CHECK_STATUS(plan_read(&b->plan, lines, &b->memory), FB_OK);
    CHECK_STATUS(fb_row_new(&b->row, b->plan.plan, &b->memory), FB_OK);
    b->capacity = capacity;
    b->output = fb_guarded_room_of(capacity);
    fb_row_set_output(&b->row, b->output, capacity, 0);
}

static void bench_close(bench *b) {
    fb_row_free(&b->row);
    plan_free(&b->plan);
    fb_guarded_free(b->output, b->capacity);
    text_free(&b->text);
    CHECK_EQUAL(b->memory.used, 0);
    CHECK_EQUAL(b->allocator.held, 0);
}

static size_t max_row_size(const bench *b, size_t wire_bytes) {
    return b->plan.plan->max_fixed_size + wire_bytes * b->plan.plan->max_size_per_byte;
}

static void begin(bench *b) {
    CHECK(fb_row_begin(&b->row, max_row_size(b, 64), &b->at));
}

static fb_target to(const bench *b, const char *name, unsigned rank) {
    return (fb_target){.column = plan_column(&b->plan, name), .rank = (uint8_t)rank};
}

static void put_number(bench *b, const char *name, uint64_t value) {
    fb_row_put_uint(&b->row, &b->at, to(b, name, 0), value);
}

static void put_text(bench *b, const char *name, const char *value) {
    fb_row_put_bytes(&b->row, &b->at, to(b, name, 0), (const uint8_t *)value, strlen(value));
}

static const char *finish(bench *b) {
    size_t before = fb_row_size(&b->row);
    fb_row_finish(&b->row, b->at);
    text_clear(&b->text);
    describe_messages(&b->text, &b->plan, b->output + before, fb_row_size(&b->row) - before);
    return text_of(&b->text);
}

/* Values ------------------------------------------------------------------------------------- */

static const char *const every_type =
    "1 u uint\n2 e enum map=1:1\n3 i int\n4 s sint\n5 b bool\n6 f float\n7 d double\n"
    "8 f32 fixed32\n9 f64 fixed64\n10 str string\n11 raw bytes\n12 addr ip\n"
    "13 time timestamp unit=1000000\n14 span duration unit=1000000\n15 native ip native_ip\n"
    "16 off uint disabled\n17 off_text string disabled\n";

static void writes_a_value_of_every_type(void) {
    static const uint8_t expected[] = {
        0x08, 0xac, 0x02,                                                 /* 300 */
        0x10, 0x01,                                                       /* 1 */
        0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, /* -1 as an int */
        0x20, 0x01,                                                       /* -1 as a sint */
        0x28, 0x01,                                                       /* true */
        0x35, 0x00, 0x00, 0xc0, 0x3f,                                     /* 1.5 */
        0x39, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f,             /* 1.5 */
        0x45, 0x04, 0x03, 0x02, 0x01,                                     /* 0x01020304 */
        0x49, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,             /* 0x0102030405060708 */
        0x52, 0x02, 'h',  'i',                                            /* "hi" */
        0x5a, 0x01, 0xff,                                                 /* ff */
        0x62, 0x10, 0,    0,    0,    0,    0,    0,    0,    0,    0,
        0,    0xff, 0xff, 192,  0,    2,    1, /* ::ffff:192.0.2.1 */
        0x68, 0x05,                            /* 5 ms */
        0x70, 0x06,                            /* 6 ms */
        0x7a, 0x04, 192,  0,    2,    2,       /* 192.0.2.2 with 4 bytes */
    };
    bench b;
    bench_open(&b, every_type, 1 << 18);
    begin(&b);
    put_number(&b, "u", 300), put_number(&b, "e", 1);
    fb_row_put_int(&b.row, &b.at, to(&b, "i", 0), -1),
        fb_row_put_int(&b.row, &b.at, to(&b, "s", 0), -1);
    put_number(&b, "b", 1);
    fb_row_put_real(&b.row, &b.at, to(&b, "f", 0), 1.5),
        fb_row_put_real(&b.row, &b.at, to(&b, "d", 0), 1.5);
    put_number(&b, "f32", 0x01020304), put_number(&b, "f64", 0x0102030405060708);
    put_text(&b, "str", "hi"), put_text(&b, "raw", "\xff");
    fb_row_put_ip(&b.row, &b.at, to(&b, "addr", 0), (const uint8_t *)"\xc0\0\2\1", 4);
    put_number(&b, "time", 5);
    fb_row_put_int(&b.row, &b.at, to(&b, "span", 0), 6);
    fb_row_put_ip(&b.row, &b.at, to(&b, "native", 0), (const uint8_t *)"\xc0\0\2\2", 4);
    finish(&b);
    CHECK_EQUAL(b.output[0], sizeof expected);
    CHECK_BYTES(b.output + 1, fb_row_size(&b.row) - 1, expected, sizeof expected);
    bench_close(&b);
}

static void omits_zeros_and_disabled_columns(void) {
    bench b;
    bench_open(&b, every_type, 1 << 18);
    begin(&b);
    for (size_t i = 0; i < b.plan.count; i++) {
        fb_target target = {.column = (uint16_t)i};
        fb_row_put_uint(&b.row, &b.at, target, 0);
        fb_row_put_int(&b.row, &b.at, target, 0);
        fb_row_put_real(&b.row, &b.at, target, 0);
        fb_row_put_bytes(&b.row, &b.at, target, (const uint8_t *)"", 0);
    }
    CHECK(!fb_row_accepts(&b.row, b.at, to(&b, "off", 0)));
    put_number(&b, "off", 7), put_text(&b, "off_text", "no");
    CHECK_TEXT(finish(&b), "\n");
    CHECK_EQUAL(fb_row_size(&b.row), 1);
    bench_close(&b);
}

static void keeps_the_first_value(void) {
    bench b;
    bench_open(&b, every_type, 1 << 18);
    begin(&b);
    for (unsigned value = 1; value < 4; value++) {
        fb_row_cursor before = b.at;
        put_number(&b, "u", value), put_number(&b, "f64", value), put_number(&b, "time", value);
        fb_row_put_real(&b.row, &b.at, to(&b, "f", 0), value);
        fb_row_put_int(&b.row, &b.at, to(&b, "s", 0), -(int64_t)value);
        put_text(&b, "str", value == 1 ? "a" : "b");
        fb_row_put_ip(&b.row, &b.at, to(&b, "addr", 0),
                      (const uint8_t *)(value == 1 ? "\1\1\1\1" : "\2\2\2\2"), 4);
        CHECK((before.next != b.at.next) == (value == 1));
    }
    CHECK(!fb_row_accepts(&b.row, b.at, to(&b, "u", 0)));
    CHECK(!fb_row_accepts(&b.row, b.at, to(&b, "f64", 0)));
    CHECK(fb_row_accepts(&b.row, b.at, to(&b, "d", 0)));
    CHECK_TEXT(finish(&b), "u=1 s=-1 f=1 f64=1 str=\"a\" addr=1.1.1.1 time=1\n");
    bench_close(&b);
}

static void writes_a_single_value_as_a_list_of_one(void) {
    bench b;
    bench_open(&b,
               "1 u uint repeated\n2 z sint repeated\n3 r double repeated\n4 t string repeated\n"
               "5 a ip repeated\n",
               1 << 18);
    begin(&b);
    for (int value = 0; value < 3; value++) {
        put_number(&b, "u", (uint64_t)value);
        fb_row_put_int(&b.row, &b.at, to(&b, "z", 0), -value);
        fb_row_put_real(&b.row, &b.at, to(&b, "r", 0), value);
        put_text(&b, "t", value ? "x" : "");
        CHECK(fb_row_accepts(&b.row, b.at, to(&b, "u", 0)) == !value);
    }
    fb_row_put_ip(&b.row, &b.at, to(&b, "a", 0), (const uint8_t *)"\1\1\1\1", 4);
    fb_row_put_ip(&b.row, &b.at, to(&b, "a", 0), (const uint8_t *)"\2\2\2\2", 4);
    CHECK_TEXT(finish(&b), "u=[1] z=[-1] r=[1] t=[\"x\"] a=[1.1.1.1]\n");
    bench_close(&b);
}

static void writes_only_the_first_list_of_a_column(void) {
    bench b;
    bench_open(&b,
               "1 u uint repeated\n2 f fixed32 repeated\n3 none uint repeated\n"
               "4 off uint repeated disabled",
               1 << 18);
    for (int row = 0; row < 2; row++) { /* a new row starts empty */
        begin(&b);
        fb_row_close(&b.row, &b.at, 0); /* an empty list is omitted */
        for (uint64_t list = 0; list < 2; list++) {
            for (uint64_t value = 0; value < 3; value++)
                for (uint16_t column = 0; column < 4; column++)
                    if (column != 2)
                        fb_row_repeat_uint(&b.row, &b.at, (fb_target){.column = column},
                                           10 * list + value);
            put_number(&b, "u", 99); /* a value between its members is ignored */
            for (uint16_t column = 0; column < 4; column++) fb_row_close(&b.row, &b.at, column);
        }
        CHECK(!fb_row_accepts(&b.row, b.at, to(&b, "u", 0)));
        CHECK(fb_row_accepts(&b.row, b.at, to(&b, "none", 0)));
        CHECK_TEXT(finish(&b), "u=[0,1,2] f=[0,1,2]\n");
    }
    bench_close(&b);
}

/* Every function adds a member, also for zero, until the list is closed. */
static void adds_values_to_an_open_list(void) {
    bench b;
    bench_open(&b,
               "1 u uint repeated\n2 z sint repeated\n3 r double repeated\n4 t string repeated\n"
               "5 none uint repeated\n",
               1 << 18);
    begin(&b);
    for (uint16_t column = 0; column < 5; column++) fb_row_open(&b.row, &b.at, column);
    for (int member = 0; member < 2; member++) {
        put_number(&b, "u", 0), put_number(&b, "u", 7);
        fb_row_put_int(&b.row, &b.at, to(&b, "z", 0), -member);
        fb_row_put_real(&b.row, &b.at, to(&b, "r", 0), member);
        put_text(&b, "t", member ? "x" : "");
    }
    fb_row_repeat_uint(&b.row, &b.at, to(&b, "u", 0), 99); /* of another list */
    CHECK(fb_row_accepts(&b.row, b.at, to(&b, "u", 0)));
    for (uint16_t column = 0; column < 5; column++) fb_row_close(&b.row, &b.at, column);
    fb_row_open(&b.row, &b.at, 0);
    put_number(&b, "u", 99);
    fb_row_close(&b.row, &b.at, 0);
    CHECK(!fb_row_accepts(&b.row, b.at, to(&b, "u", 0)));
    put_number(&b, "none", 5); /* an empty list does not count as a value */
    CHECK_TEXT(finish(&b), "u=[0,7,0,7] z=[0,-1] r=[0,1] t=[\"\",\"x\"] none=[5]\n");
    bench_close(&b);
}

static void replaces_malformed_text(void) {
    bench b;
    bench_open(&b, "1 t string\n2 ts string repeated\n3 e string explicit\n", 1 << 18);
    begin(&b);
    put_text(&b, "t", "a\xff\xfe"), put_text(&b, "ts", "\xe2\x82"), put_text(&b, "e", "\xc0");
    CHECK_TEXT(finish(&b),
               "t=\"a\xef\xbf\xbd\xef\xbf\xbd\" ts=[\"\xef\xbf\xbd\"] e=\"\xef\xbf\xbd\"\n");
    bench_close(&b);
}

/* Return the size of a varint below 2^21. */
static size_t size_of_length(size_t length) {
    if (length < 128) return 1;
    return length < 16384 ? 2 : 3;
}

/* The length before a message takes its minimum size, whatever the size of the previous one. */
static void writes_lengths_of_every_size(void) {
    static const size_t sizes[] = {1,     120,   124,   125,   126,   127, 128,   130, 16000,
                                   16379, 16380, 16381, 16382, 40000, 3,   20000, 130, 5};
    static uint8_t value[40000];
    bench b;
    bench_open(&b, "1 raw bytes", 1 << 18);
    size_t end = 0;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        memset(value, (int)i + 1, sizeof value);
        CHECK(fb_row_begin(&b.row, max_row_size(&b, sizes[i]), &b.at));
        fb_row_put_bytes(&b.row, &b.at, to(&b, "raw", 0), value, sizes[i]);
        fb_row_finish(&b.row, b.at);
        size_t length_of_value = size_of_length(sizes[i]);
        size_t message = 1 + length_of_value + sizes[i];
        size_t prefix = size_of_length(message);
        CHECK_EQUAL(fb_row_size(&b.row) - end, prefix + message);
        CHECK_BYTES(b.output + end + prefix + 1 + length_of_value, sizes[i], value, sizes[i]);
        end = fb_row_size(&b.row);
    }
    describe_messages(&b.text, &b.plan, b.output, end);
    CHECK(!strstr(text_of(&b.text), NOT_A_MESSAGE));
    CHECK_EQUAL(b.row.count, COUNT(sizes));
    bench_close(&b);
}

/* Of 70 single columns only 64 have a bit in the cursor. The others must behave the same. */
static void tracks_more_than_64_columns(void) {
    text lines = {0}, expected = {0};
    bench b;
    for (unsigned i = 1; i <= 200; i++)
        text_put(&lines, "%u c%u uint%s\n", i, i, i % 9 ? "" : " repeated");
    bench_open(&b, text_of(&lines), 1 << 20);
    begin(&b);
    for (unsigned value = 1; value < 3; value++)
        for (uint16_t i = 0; i < 200; i++)
            fb_row_put_uint(&b.row, &b.at, (fb_target){.column = i}, value);
    for (unsigned i = 1; i <= 200; i++)
        text_put(&expected, "%sc%u=%s", i > 1 ? " " : "", i, i % 9 ? "1" : "[1]");
    text_put(&expected, "\n");
    CHECK_TEXT(finish(&b), text_of(&expected));
    text_free(&lines);
    text_free(&expected);
    bench_close(&b);
}

/* Constants ---------------------------------------------------------------------------------- */

static void copies_constants_into_every_row(void) {
    static const char *const expected[] = {"u=1 a=10.0.0.1 r=[2] f=3 x=0 late=4\n",
                                           "u=1 a=10.0.0.1 r=[2] f=3 x=1 late=4\n",
                                           "u=1 a=10.0.0.1 r=[2] f=3 x=2 late=4\n"};
    bench b;
    bench_open(&b,
               "1 u uint\n2 a ip\n3 r uint repeated\n4 f fixed64\n5 x uint explicit\n"
               "6 late uint late\n7 off uint disabled",
               1 << 18);
    uint8_t address[4] = {10, 0, 0, 1};
    fb_row_begin_constants(&b.row, &b.at);
    put_number(&b, "u", 1), put_number(&b, "r", 2), put_number(&b, "f", 3), put_number(&b, "x", 0);
    put_number(&b, "late", 4), put_number(&b, "off", 5);
    fb_row_put_ip(&b.row, &b.at, to(&b, "a", 0), address, 4);
    fb_row_end_constants(&b.row, b.at);
    for (unsigned row = 0; row < 3; row++) {
        begin(&b);
        /* these have values already */
        put_number(&b, "u", 9), put_number(&b, "f", 9), put_number(&b, "late", 9);
        put_number(&b, "r", row), put_number(&b, "x", row);
        CHECK_TEXT(finish(&b), expected[row]);
    }
    fb_row_begin_constants(&b.row, &b.at);
    fb_row_end_constants(&b.row, b.at);
    begin(&b);
    CHECK_TEXT(finish(&b), "\n");
    bench_close(&b);
}

/* More bytes of constants than one copy moves. */
static void copies_many_constants(void) {
    text lines = {0};
    bench b;
    for (unsigned i = 0; i < 9; i++) text_put(&lines, "%u a%u ip\n", 100 + i, i);
    bench_open(&b, text_of(&lines), 1 << 18);
    fb_row_begin_constants(&b.row, &b.at);
    for (uint16_t i = 0; i < 9; i++)
        fb_row_put_ip(&b.row, &b.at, (fb_target){.column = i}, (const uint8_t *)"\1\2\3\4", 4);
    fb_row_end_constants(&b.row, b.at);
    for (int i = 0; i < 2; i++) {
        begin(&b);
        CHECK_TEXT(finish(&b), "a0=1.2.3.4 a1=1.2.3.4 a2=1.2.3.4 a3=1.2.3.4 a4=1.2.3.4 a5=1.2.3.4 "
                               "a6=1.2.3.4 a7=1.2.3.4 a8=1.2.3.4\n");
    }
    text_free(&lines);
    bench_close(&b);
}

/* Room --------------------------------------------------------------------------------------- */

static void requests_room_before_a_row(void) {
    bench b;
    bench_open(&b, "1 u uint", 1 << 18);
    fb_row_set_output(&b.row, b.output, 100, 0);
    size_t max_size = max_row_size(&b, 1000) + 900;
    CHECK(!fb_row_begin(&b.row, max_size, &b.at));
    CHECK_EQUAL(b.row.needed, max_size);
    CHECK_EQUAL(fb_row_size(&b.row), 0);
    fb_row_set_output(&b.row, b.output, max_size, 0); /* exact size */
    CHECK(fb_row_begin(&b.row, max_size, &b.at));
    bench_close(&b);
}

/* Write the largest row that a datagram can make into exactly the stated room. Every column has its
   maximum size, and all repeated columns are repeated. fb_row_finish asserts the bound, and the
   guard page verifies it. */
static void stays_within_the_requested_room(void) {
    text lines = {0};
    named_plan measure;
    fb_memory memory = fb_memory_system(0);
    static uint8_t malformed[300];
    memset(malformed, 0xff, sizeof malformed);
    plan_put_rich(&lines);
    CHECK_STATUS(plan_read(&measure, text_of(&lines), &memory), FB_OK);
    size_t max_size =
        measure.plan->max_fixed_size + sizeof malformed * measure.plan->max_size_per_byte;
    plan_free(&measure);
    bench b;
    bench_open(&b, text_of(&lines), max_size);
    CHECK(fb_row_begin(&b.row, max_size, &b.at));
    for (uint16_t i = 0; i < b.plan.count; i++) {
        const fb_column *column = &b.plan.plan->columns[i];
        fb_target target = {.column = i};
        bool list = column->flags & FB_COLUMN_REPEATED && column->wire != FB_WIRE_BYTES;
        uint64_t widest = column->type == FB_TYPE_DOUBLE ? 0x3ff0000000000000u : UINT64_MAX;
        for (size_t k = 0; list && k < sizeof malformed; k++)
            fb_row_repeat_uint(&b.row, &b.at, target, widest);
        switch (column->type) {
            case FB_TYPE_IP: fb_row_put_ip(&b.row, &b.at, target, malformed, 16); break;
            case FB_TYPE_STRING:
            case FB_TYPE_BYTES:
                fb_row_put_bytes(&b.row, &b.at, target, malformed, sizeof malformed);
                break;
            case FB_TYPE_FLOAT:
            case FB_TYPE_DOUBLE: fb_row_put_real(&b.row, &b.at, target, -1); break;
            case FB_TYPE_INT:
            case FB_TYPE_SINT:
            case FB_TYPE_DURATION:
                fb_row_put_int(&b.row, &b.at, target,
                               column->type == FB_TYPE_SINT ? INT64_MIN : -1);
                break;
            default: fb_row_put_uint(&b.row, &b.at, target, UINT64_MAX); break;
        }
    }
    CHECK(!strstr(finish(&b), NOT_A_MESSAGE));
    CHECK(fb_row_size(&b.row) > max_size / 2); /* the bound is not far too large */
    text_free(&lines);
    bench_close(&b);
}

RUN_TESTS(TEST(writes_a_value_of_every_type), TEST(omits_zeros_and_disabled_columns),
          TEST(keeps_the_first_value), TEST(writes_a_single_value_as_a_list_of_one),
          TEST(writes_only_the_first_list_of_a_column), TEST(adds_values_to_an_open_list),
          TEST(replaces_malformed_text), TEST(writes_lengths_of_every_size),
          TEST(tracks_more_than_64_columns), TEST(copies_constants_into_every_row),
          TEST(copies_many_constants), TEST(requests_room_before_a_row),
          TEST(stays_within_the_requested_room))
