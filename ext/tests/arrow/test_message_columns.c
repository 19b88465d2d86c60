/* From messages to rows: every type, fields in any order and number, packed lists, and the place
   and kind of faults. */
#include "tests/builders/message_table.h"

/* Read a whole stream into a new table, and compare its text. */
static void check_stream(const char *lines, const void *data, size_t size, const char *expected) {
    table t;
    size_t taken;
    for (size_t i = 0; i < 2; i++) {
        table_open_for(table_processors[i], &t, lines, 100);
        CHECK_STATUS(table_read(&t, data, size, &taken), FB_END);
        CHECK_EQUAL(taken, size);
        CHECK_TEXT(table_text(&t), expected);
        table_close(&t);
    }
}

#define CHECK_STREAM(lines, literal, expected) \
    check_stream(lines, literal, sizeof(literal) - 1, expected)

/* Reading ------------------------------------------------------------------------------------ */

static const char *const every_list =
    "1 bytes uint repeated limit=255\n2 words uint repeated limit=4294967295\n"
    "3 signs int repeated limit=2147483647\n4 zigzags sint repeated\n5 flags bool repeated\n"
    "6 reals float repeated\n7 doubles double repeated\n8 kinds enum repeated map=1:2\n"
    "9 addrs ip repeated\n10 names string repeated\n11 raws bytes repeated\n"
    "12 times timestamp unit=1000000 repeated\n13 fours fixed32 limit=4294967295 repeated";

static const char *const greatest =
    "byte=255 pair=65535 word=4294967295 wide=18446744073709551615 mac=281474976710655 "
    "kind=2147483647 flag=1 at=9223372036854 "
    "addr=2001:db8:0:0:0:0:0:1 small=2147483647 big=9223372036854775807 zigzag=2147483647 real=1.5 "
    "double=1.5 four=4294967295 "
    "eight=18446744073709551615 span=9223372036854775807 name=\"name\" raw=x00ff sure=255 "
    "native=native:192.0.2.7 far=1 "
    "farthest=18446744073709551615 wider=9223372036854775807 limited=100 text=\"t\" home=192.0.2.7 "
    "no=1\n";

static void reads_the_limits_of_every_type(void) {
    byte_buffer d = {0}, fields = greatest_fields();
    text expected = {0};
    put_message(&d, &fields);
    put8(&d, 0); /* an empty message */
    put_least(&d);
    text_put(&expected, "%s\n%s", greatest,
             "small=-2147483648 big=-9223372036854775808 zigzag=-2147483648 real=-0 span=-1 "
             "wider=-9223372036854775808\n");
    check_stream(every_type, d.data, d.size, text_of(&expected));
    text_free(&expected);
}

static void stores_zeros_only_in_explicit_columns(void) {
    byte_buffer d = {0}, m = {0};
    for (uint32_t number = 1; number < 9; number++) put_field(&m, number, 0);
    put_field_bytes(&m, 18, "", 0), put_field_bytes(&m, 19, "", 0), put_field_bytes(&m, 9, "", 0);
    put_field(&m, 21, 0), put_field(&m, 27, 0), put_field_bytes(&m, 25, "", 0),
        put_field_bytes(&m, 26, "", 0);
    put_message(&d, &m);
    check_stream(every_type, d.data, d.size, "sure=0 text=\"\" no=0\n");
}

static void reads_addresses_of_both_sizes(void) {
    const char *lines = "1 a ip\n2 b ip native_ip\n3 c ip repeated";
    CHECK_STREAM(lines,
                 "\x0c"
                 "\x0a\4\1\2\3\4"
                 "\x12\4\5\6\7\x08",
                 "a=1.2.3.4 b=native:5.6.7.8\n");
    CHECK_STREAM(lines,
                 "\x12"
                 "\x0a\x10\0\0\0\0\0\0\0\0\0\0\xff\xff\0\0\0\0",
                 "a=0.0.0.0\n");
    CHECK_STREAM(lines,
                 "\x12"
                 "\x0a\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                 "\n");
    CHECK_STREAM(lines,
                 "\x08"
                 "\x1a\4\1\2\3\4"
                 "\x1a\0",
                 "c=[1.2.3.4,0:0:0:0:0:0:0:0]\n");
}

static void keeps_the_last_of_several_values(void) {
    byte_buffer d = {0}, m = {0};
    put_field(&m, 1, 7), put_field(&m, 1, 8);
    put_field(&m, 4, UINT64_MAX), put_field(&m, 4, 1);
    put_field_bytes(&m, 18, "long before", 11), put_field_bytes(&m, 18, "a", 1),
        put_field_bytes(&m, 19, "xyz", 3), put_field_bytes(&m, 19, "", 0);
    put_field_bytes(&m, 9, "\1\2\3\4", 4), put_field_bytes(&m, 9, "", 0);
    put_field(&m, 21, 3), put_field(&m, 21, 0);
    put_field_bytes(&m, 26, "\1\2\3\4", 4), put_field_bytes(&m, 26, "", 0);
    put_field(&m, 2, 5), put_field(&m, 2, 0);
    put_message(&d, &m);
    m.size = 0;
    put_field_bytes(&m, 18, "next", 4);
    put_message(&d, &m);
    check_stream(every_type, d.data, d.size, "byte=8 wide=1 name=\"a\" sure=0\nname=\"next\"\n");
}

static void reads_fields_in_any_order(void) {
    byte_buffer d = {0}, m = {0};
    put_field(&m, 536870911, 3), put_field(&m, 4, 2), put_field(&m, 1, 1), put_field(&m, 2048, 4),
        put_field(&m, 2, 5);
    put_message(&d, &m);
    check_stream(every_type, d.data, d.size, "byte=1 pair=5 wide=2 far=4 farthest=3\n");
}

static void reads_packed_and_unpacked_lists(void) {
    byte_buffer d = {0}, m = {0};
    put_field(&m, 1, 1), put_field_bytes(&m, 1, "\2\0\xff\1", 4), put_field(&m, 1, 0),
        put_field_bytes(&m, 1, "", 0);
    put_field_bytes(&m, 2, "\xff\xff\xff\xff\x0f\1", 6);
    put_field_bytes(&m, 3, "\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11),
        put_field(&m, 3, (uint64_t)INT32_MIN);
    put_field_bytes(&m, 4, "\1\2\3", 3), put_field(&m, 4, 4);
    put_field_bytes(&m, 5, "\0\1\x7f", 3);
    put_field_bytes(&m, 6, "\0\0\xc0\x3f\0\0\0\0", 8), put_fixed(&m, 6, 0x40000000, 4);
    put_fixed(&m, 7, 0x3ff8000000000000, 8), put_field_bytes(&m, 7, "\0\0\0\0\0\0\xf8\x3f", 8);
    put_field_bytes(&m, 8, "\0\x63", 2);
    put_field_bytes(&m, 9, "\1\2\3\4", 4), put_field_bytes(&m, 9, "0123456789abcdef", 16);
    put_field_bytes(&m, 10, "a", 1), put_field_bytes(&m, 10, "", 0),
        put_field_bytes(&m, 10, "b\xff", 2);
    put_field_bytes(&m, 11, "\0\1", 2), put_field_bytes(&m, 11, "", 0);
    put_field_bytes(&m, 12, "\1\2", 2);
    put_field_bytes(&m, 13, "\1\0\0\0\xff\xff\xff\xff", 8);
    put_message(&d, &m);
    put8(&d, 0);
    put_message(&d, &m);
    const char *row =
        "bytes=[1,2,0,255,0] words=[4294967295,1] signs=[1,-1,-2147483648] zigzags=[-1,1,-2,2] "
        "flags=[0,1,1] "
        "reals=[1.5,0,2] doubles=[1.5,1.5] kinds=[0,99] "
        "addrs=[1.2.3.4,3031:3233:3435:3637:3839:6162:6364:6566] "
        "names=[\"a\",\"\",\"b\xef\xbf\xbd\"] raws=[x0001,x] times=[1,2] fours=[1,4294967295]\n";
    text expected = {0};
    text_put(&expected, "%s\n%s", row, row);
    check_stream(every_list, d.data, d.size, text_of(&expected));
    text_free(&expected);
}

static void counts_unknown_fields(void) {
    table t;
    size_t taken;
    byte_buffer d = {0}, m = {0};
    put_field(&m, 20, 5); /* a disabled column */
    put_field_bytes(&m, 28, "gone", 4);
    put_field(&m, 1, 1);
    put_field(&m, 100, 1), put_fixed(&m, 101, 1, 8), put_field_bytes(&m, 102, "abc", 3),
        put_fixed(&m, 2047, 1, 4);
    put_field(&m, 2049, 1), put_field(&m, 536870910, UINT64_MAX);
    put_field_bytes(&m, 18, "a\xc3", 2), put_field_bytes(&m, 18, "b\xff\xff", 3),
        put_field_bytes(&m, 25, "\xc3\xa4", 2);
    put_message(&d, &m);
    table_open(&t, every_type, 3);
    CHECK_STATUS(table_read(&t, d.data, d.size, &taken), FB_END);
    CHECK_TEXT(table_text(&t), "byte=1 name=\"b\xef\xbf\xbd\xef\xbf\xbd\" text=\"\xc3\xa4\"\n");
    CHECK_EQUAL(t.reader.unknown_fields, 6);
    CHECK_EQUAL(t.reader.invalid_texts, 2);
    m.size = 0;
    /* a message that gives no row adds nothing to counters */
    put_field(&m, 100, 1), put_field_bytes(&m, 18, "\xff", 1), put_field(&m, 1, 256);
    put_message(&d, &m);
    CHECK_STATUS(table_read(&t, d.data, d.size, &taken), FB_BAD_MESSAGE);
    CHECK_EQUAL(t.reader.unknown_fields, 12);
    CHECK_EQUAL(t.reader.invalid_texts, 4);
    CHECK_STATUS(table_read(&t, d.data, taken, &taken), FB_END);
    CHECK_EQUAL(t.reader.unknown_fields, 18);
    CHECK_STATUS(table_read(&t, d.data, taken, &taken), FB_NO_SPACE);
    CHECK_EQUAL(t.reader.unknown_fields, 18);
    table_close(&t);
}

/* Faults ------------------------------------------------------------------------------------- */

/* Read a valid message, one with a valid field before the invalid one, and another valid one. */
static void check_fault(const char *lines, const char *name, fb_message_fault_kind kind,
                        const byte_buffer *field) {
    table t;
    size_t taken;
    byte_buffer d = {0}, good = {0}, bad = {0};
    put_field_bytes(&good, 1000, "any", 3);
    put_message(&d, &good);
    put_bytes(&bad, good.data, good.size);
    size_t before = d.size, offset = bad.size + 1;
    put_bytes(&bad, field->data, field->size);
    put_message(&d, &bad);
    put_message(&d, &good);
    for (size_t i = 0; i < 2; i++) {
        table_open_for(table_processors[i], &t, lines, 10);
        CHECK_STATUS(table_read(&t, d.data, d.size, &taken), FB_BAD_MESSAGE);
        CHECK_EQUAL(taken, before);
        CHECK_EQUAL(t.fault.kind, kind);
        CHECK_EQUAL(t.fault.offset, offset);
        CHECK_EQUAL(t.fault.column, name ? plan_column(&t.plan, name) : FB_NO_COLUMN);
        CHECK_TEXT(table_text(&t), "\n");
        table_close(&t);
    }
}

#define CHECK_FAULT(lines, name, kind, put) \
    do { \
        byte_buffer m = {0}; \
        put; \
        check_fault(lines, name, FB_MESSAGE_FAULT_##kind, &m); \
    } while (0)

static void refuses_values_that_do_not_fit_their_column(void) {
    CHECK_FAULT(every_type, "byte", RANGE, put_field(&m, 1, 256));
    CHECK_FAULT(every_type, "pair", RANGE, put_field(&m, 2, 65536));
    CHECK_FAULT(every_type, "word", RANGE, put_field(&m, 3, UINT64_C(1) << 32));
    CHECK_FAULT(every_type, "mac", RANGE, put_field(&m, 5, UINT64_C(1) << 48));
    CHECK_FAULT(every_type, "kind", RANGE, put_field(&m, 6, UINT64_C(1) << 31));
    CHECK_FAULT(every_type, "kind", RANGE, put_field(&m, 6, UINT64_MAX));
    CHECK_FAULT(every_type, "at", RANGE, put_field(&m, 8, UINT64_C(1) << 63));
    CHECK_FAULT(every_type, "small", RANGE, put_field(&m, 10, UINT64_C(1) << 31));
    CHECK_FAULT(every_type, "small", RANGE, put_field(&m, 10, (uint64_t)INT32_MIN - 1));
    CHECK_FAULT(every_type, "small", RANGE, put_field(&m, 10, UINT32_MAX));
    CHECK_FAULT(every_type, "zigzag", RANGE, put_field(&m, 12, UINT64_C(1) << 32));
    CHECK_FAULT(every_type, "zigzag", RANGE, put_field(&m, 12, UINT64_MAX));
    CHECK_FAULT(every_type, "sure", RANGE, put_field(&m, 21, 256));
    CHECK_FAULT(every_type, "limited", RANGE, put_field(&m, 24, 101));
    CHECK_FAULT(every_list, "bytes", RANGE, put_field_bytes(&m, 1, "\1\x80\2", 3));
    CHECK_FAULT(every_list, "signs", RANGE, (put_field(&m, 3, UINT32_MAX)));
    CHECK_FAULT("1 at timestamp unit=1000000 limit=1000", "at", RANGE, put_field(&m, 1, 1001));
}

static void refuses_addresses_of_other_sizes(void) {
    CHECK_FAULT(every_type, "addr", ADDRESS, put_field_bytes(&m, 9, "\1\2\3", 3));
    CHECK_FAULT(
        every_type, "addr", ADDRESS,
        put_field_bytes(&m, 9, "\1\2\3\4\5\6\7\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11", 17));
    CHECK_FAULT(every_type, "home", ADDRESS, put_field_bytes(&m, 26, "\1", 1));
    CHECK_FAULT(every_list, "addrs", ADDRESS, put_field_bytes(&m, 9, "\1\2\3\4\5", 5));
}

static void refuses_wrong_wire_types(void) {
    CHECK_FAULT(every_type, "byte", WIRE_TYPE, put_fixed(&m, 1, 1, 4));
    CHECK_FAULT(every_type, "byte", WIRE_TYPE, put_field_bytes(&m, 1, "\1", 1));
    CHECK_FAULT(every_type, "addr", WIRE_TYPE, put_field(&m, 9, 4));
    CHECK_FAULT(every_type, "off", WIRE_TYPE, put_fixed(&m, 20, 1, 8));
    CHECK_FAULT(every_type, "farthest", WIRE_TYPE, put_field_bytes(&m, 536870911, "", 0));
    CHECK_FAULT(every_list, "bytes", WIRE_TYPE, put_fixed(&m, 1, 1, 4));
    CHECK_FAULT(every_list, "names", WIRE_TYPE, put_field(&m, 10, 1));
}

static void refuses_malformed_fields(void) {
    CHECK_FAULT(every_type, NULL, FIELD, put8(&m, 0)); /* number 0 */
    CHECK_FAULT(every_type, NULL, FIELD, put_varint(&m, 3));
    /* a number of 30 bits */
    CHECK_FAULT(every_type, NULL, FIELD, put_varint(&m, UINT64_C(1) << 32));
    CHECK_FAULT(every_type, NULL, FIELD, put8(&m, 0x80));
    CHECK_FAULT(every_type, NULL, FIELD,
                put_bytes(&m, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11));
    /* groups, with and without a column */
    CHECK_FAULT(every_type, NULL, FIELD, put_key(&m, 1001, 3));
    CHECK_FAULT(every_type, "byte", FIELD, put_key(&m, 1, 4));
    CHECK_FAULT(every_type, "byte", FIELD, put_key(&m, 1, 0));
    CHECK_FAULT(every_type, "byte", FIELD,
                put_bytes(&m, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 12));
    CHECK_FAULT(every_type, "byte", FIELD, put_bytes(&m, "\x08\xff", 2));
    CHECK_FAULT(every_type, "name", FIELD, put_bytes(&m, "\x92\1\2h", 4));
    CHECK_FAULT(every_type, "four", FIELD, put_bytes(&m, "\x7d\1\2\3", 4));
    CHECK_FAULT(every_type, "eight", FIELD, put_bytes(&m, "\x81\1\1\2\3\4\5\6\7", 9));
    CHECK_FAULT(every_type, "addr", FIELD,
                put_bytes(&m,
                          "\x4a\x10"
                          "0123456789abcde",
                          17));
    CHECK_FAULT(every_list, "bytes", FIELD, put_field_bytes(&m, 1, "\1\x80", 2));
    CHECK_FAULT(every_list, "fours", FIELD, put_field_bytes(&m, 13, "\1\2\3\4\5", 5));
    CHECK_FAULT(every_list, "bytes", FIELD, put_bytes(&m, "\x0a\2\1", 3));
}

static void refuses_impossible_lengths(void) {
    table t;
    size_t taken;
    table_open(&t, every_type, 10);
    CHECK_STATUS(table_read(&t, "\0\x80\x80\x80\x80\x08", 6, &taken), FB_BAD_MESSAGE);
    CHECK_EQUAL(t.fault.kind, FB_MESSAGE_FAULT_LENGTH);
    CHECK_EQUAL(t.fault.offset, 0);
    CHECK_EQUAL(t.fault.column, FB_NO_COLUMN);
    CHECK_EQUAL(taken, 1);
    CHECK_TEXT(table_text(&t), "\n");
    table_close(&t);
}

static void has_a_text_for_each_fault(void) {
    for (unsigned i = 0; i < FB_MESSAGE_FAULT_COUNT; i++)
        for (unsigned k = 0; k < i; k++)
            CHECK(strcmp(fb_message_fault_text(i), fb_message_fault_text(k)) != 0);
    CHECK_TEXT(fb_message_fault_text(FB_MESSAGE_FAULT_COUNT), "unknown fault");
}

/* A discarded row leaves nothing in the row that replaces it. */
static void removes_refused_rows_from_every_column(void) {
    table t;
    size_t taken;
    byte_buffer whole = {0}, broken = {0}, fields = greatest_fields();
    text lines = {0}, expected = {0};
    text_put(&lines,
             "%s\n60 ns uint repeated\n61 strings string repeated\n62 addrs ip repeated\n"
             "63 es bool repeated",
             every_type);
    put_field_bytes(&fields, 60, "\1\2", 2), put_field_bytes(&fields, 61, "x", 1),
        put_field_bytes(&fields, 62, "\1\2\3\4", 4), put_field(&fields, 63, 1);
    put_message(&whole, &fields);
    put8(&fields, 0); /* a field of number 0 */
    put_message(&broken, &fields);
    table_open(&t, text_of(&lines), 4);
    CHECK_STATUS(table_read(&t, whole.data, whole.size, &taken), FB_END);
    text_put(&expected, "%s", table_text(&t));
    CHECK(strstr(text_of(&expected), "ns=[1,2] strings=[\"x\"] addrs=[1.2.3.4] es=[1]\n") != NULL);
    CHECK_STATUS(table_read(&t, broken.data, broken.size, &taken), FB_BAD_MESSAGE);
    CHECK_EQUAL(taken, 0);
    CHECK_STATUS(table_read(&t, "\0\0", 2, &taken), FB_END);
    text_put(&expected, "\n\n");
    CHECK_TEXT(table_text(&t), text_of(&expected));
    text_free(&expected);
    text_free(&lines);
    table_close(&t);
}

RUN_TESTS(TEST(reads_the_limits_of_every_type), TEST(stores_zeros_only_in_explicit_columns),
          TEST(reads_addresses_of_both_sizes), TEST(keeps_the_last_of_several_values),
          TEST(reads_fields_in_any_order), TEST(reads_packed_and_unpacked_lists),
          TEST(counts_unknown_fields), TEST(refuses_values_that_do_not_fit_their_column),
          TEST(refuses_addresses_of_other_sizes), TEST(refuses_wrong_wire_types),
          TEST(refuses_malformed_fields), TEST(refuses_impossible_lengths),
          TEST(has_a_text_for_each_fault), TEST(removes_refused_rows_from_every_column))
