/* A plan, a message reader and a batch of rows as its output, and builders of messages, field by
   field. */
#ifndef FB_TESTS_BUILDERS_MESSAGE_TABLE_H
#define FB_TESTS_BUILDERS_MESSAGE_TABLE_H

#include "tests/support/session.h"

#include "core/arrow/message_columns.h"

typedef struct {
    fb_check_allocator allocator;
    fb_memory memory;
    named_plan plan;
    fb_message_columns reader;
    fb_batch *batch;
    fb_message_fault fault;
    text text;
} table;

/* The variants of the reader. On a processor without BMI2 both run the same code. */
static const fb_processor table_processors[] = {FB_PROCESSOR_ANY, FB_PROCESSOR_BMI2};

UNUSED static void table_open_for(fb_processor processor, table *t, const char *lines,
                                  size_t rows) {
    memset(t, 0, sizeof *t);
    t->memory = fb_check_memory(&t->allocator);
    CHECK_STATUS(plan_read(&t->plan, lines, &t->memory), FB_OK);
    CHECK_STATUS(fb_message_columns_new(&t->reader, t->plan.plan, processor, &t->memory), FB_OK);
    CHECK_STATUS(fb_batch_new(&t->batch, t->plan.plan, rows, t->memory), FB_OK);
}

UNUSED static void table_open(table *t, const char *lines, size_t rows) {
    table_open_for((fb_processor)0, t, lines, rows);
}

UNUSED static void table_close(table *t) {
    fb_batch_free(t->batch);
    fb_message_columns_free(&t->reader);
    plan_free(&t->plan);
    text_free(&t->text);
    CHECK_EQUAL(t->memory.used, 0);
    CHECK_EQUAL(t->allocator.held, 0);
}

/* Return the rows of the batch as text. */
UNUSED static const char *table_text(table *t) {
    text_clear(&t->text);
    describe_batch(&t->text, &t->plan, t->batch);
    return text_of(&t->text);
}

/* Read bytes that end at a guard page. *taken is the number of bytes that became rows. */
UNUSED static fb_status table_read(table *t, const void *data, size_t size, size_t *taken) {
    uint8_t *copy = fb_guarded_copy(data, size);
    fb_bytes rest = {copy, size};
    fb_status status = fb_message_columns_read(&t->reader, &rest, t->batch, &t->fault);
    CHECK(rest.data + rest.size == copy + size);
    CHECK((status == FB_BAD_MESSAGE) == (t->fault.kind != FB_MESSAGE_FAULT_NONE));
    *taken = (size_t)(rest.data - copy);
    fb_guarded_free(copy, size);
    return status;
}

/* Read all messages in batches of `rows` rows. */
UNUSED static void read_in_batches(table *t, const uint8_t *data, size_t size, size_t rows,
                                   text *described) {
    fb_bytes rest = {data, size};
    fb_status status;
    do {
        fb_batch_free(t->batch);
        CHECK_STATUS(fb_batch_new(&t->batch, t->plan.plan, rows, t->memory), FB_OK);
        status = fb_message_columns_read(&t->reader, &rest, t->batch, &t->fault);
        CHECK(t->batch->rows || status == FB_END);
        describe_batch(described, &t->plan, t->batch);
    } while (status == FB_NO_SPACE);
    CHECK_STATUS(status, FB_END);
    CHECK_EQUAL(rest.size, 0);
}

/* Messages ----------------------------------------------------------------------------------- */

UNUSED static void put_varint(byte_buffer *d, uint64_t value) {
    for (; value > 127; value /= 128) put8(d, (unsigned)(value % 128 + 128));
    put8(d, (unsigned)value);
}

UNUSED static void put_key(byte_buffer *d, uint32_t number, unsigned wire) {
    put_varint(d, (uint64_t)number * 8 + wire);
}

UNUSED static void put_field(byte_buffer *d, uint32_t number, uint64_t value) {
    put_key(d, number, 0);
    put_varint(d, value);
}

UNUSED static void put_field_bytes(byte_buffer *d, uint32_t number, const void *data, size_t size) {
    put_key(d, number, 2);
    put_varint(d, size);
    put_bytes(d, data, size);
}

UNUSED static void put_little(byte_buffer *d, uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; i++) put8(d, (unsigned)(value >> 8 * i & 255));
}

UNUSED static void put_fixed(byte_buffer *d, uint32_t number, uint64_t value, unsigned size) {
    put_key(d, number, size == 4 ? 5 : 1);
    put_little(d, value, size);
}

UNUSED static void put_message(byte_buffer *d, const byte_buffer *message) {
    put_varint(d, message->size);
    put_bytes(d, message->data, message->size);
}

UNUSED static const char *const every_type = COLUMNS_OF_EVERY_TYPE
    "\n"
    "2048 far uint\n536870911 farthest uint\n23 wider sint\n24 limited uint limit=100\n"
    "25 text string explicit\n26 home ip explicit\n27 no bool explicit\n"
    "28 gone string repeated disabled";

UNUSED static byte_buffer greatest_fields(void) {
    static const uint8_t ipv6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1},
                         ipv4[16] = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 7};
    byte_buffer m = {0};
    put_field(&m, 1, 255), put_field(&m, 2, 65535), put_field(&m, 3, UINT32_MAX),
        put_field(&m, 4, UINT64_MAX);
    put_field(&m, 5, 0xffffffffffff), put_field(&m, 6, INT32_MAX), put_field(&m, 7, UINT64_MAX),
        put_field(&m, 8, INT64_MAX / 1000000);
    put_field_bytes(&m, 9, ipv6, 16);
    put_field(&m, 10, INT32_MAX), put_field(&m, 11, INT64_MAX), put_field(&m, 12, 0xfffffffe);
    put_fixed(&m, 13, 0x3fc00000, 4), put_fixed(&m, 14, 0x3ff8000000000000, 8);
    put_fixed(&m, 15, UINT32_MAX, 4), put_fixed(&m, 16, UINT64_MAX, 8);
    put_field(&m, 17, INT64_MAX);
    put_field_bytes(&m, 18, "name", 4), put_field_bytes(&m, 19, "\0\xff", 2);
    put_field(&m, 21, 255);
    put_field_bytes(&m, 22, ipv4, 16);
    put_field(&m, 2048, 1), put_field(&m, 536870911, UINT64_MAX), put_field(&m, 23, UINT64_MAX - 1),
        put_field(&m, 24, 100);
    put_field_bytes(&m, 25, "t", 1), put_field_bytes(&m, 26, ipv4 + 12, 4), put_field(&m, 27, 1);
    return m;
}

UNUSED static void put_least(byte_buffer *d) {
    byte_buffer m = {0};
    put_field(&m, 10, (uint64_t)INT32_MIN), put_field(&m, 11, (uint64_t)INT64_MIN),
        put_field(&m, 12, UINT32_MAX);
    put_field(&m, 17, UINT64_MAX), put_field(&m, 23, UINT64_MAX), put_fixed(&m, 13, 0x80000000, 4);
    put_message(d, &m);
}

/* Three messages with every type, and two with lists and unknown fields. */
UNUSED static byte_buffer build_stream(void) {
    byte_buffer d = {0}, fields = greatest_fields(), m = {0};
    put_message(&d, &fields);
    put_least(&d);
    put8(&d, 0);
    put_field_bytes(&m, 60, "\1\2\xff\1", 4), put_field(&m, 60, 3),
        put_field_bytes(&m, 61, "x\xff", 2), put_field_bytes(&m, 61, "", 0);
    put_field_bytes(&m, 62, "\1\2\3\4", 4), put_field_bytes(&m, 1000, "unknown", 7),
        put_fixed(&m, 63, 0x3ff8000000000000, 8);
    put_message(&d, &m);
    put_message(&d, &m);
    return d;
}

/* Columns whose tags have two bytes, one for each way to read a value. */
UNUSED static const char *const two_byte_tags =
    "16 text string\n17 number uint\n18 small uint limit=100\n19 addr ip\n20 real double\n"
    "21 eight fixed64\n22 raw bytes\n23 flag bool\n24 numbers uint repeated\n"
    "25 names string repeated\n100 name string\n127 at timestamp unit=1000000\n"
    "128 sure string explicit\n129 gone string disabled\n1023 far string\n1024 farther string\n"
    "2047 farthest string\n2048 long string";

/* Build a message with all of these columns and texts of up to 34 bytes. */
UNUSED static byte_buffer two_byte_fields(void) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzabcdefgh";
    static const uint8_t ipv6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1};
    static const struct {
        uint16_t number, size;
    } texts[] = {{16, 32},   {25, 17},   {100, 31},  {128, 20}, {129, 32}, {1023, 17},
                 {1024, 32}, {2047, 16}, {2048, 32}, {16, 33},  {1023, 34}};
    byte_buffer m = {0};
    put_field(&m, 17, UINT64_MAX), put_field(&m, 18, 100);
    put_field_bytes(&m, 19, ipv6, 16);
    put_fixed(&m, 20, 0x3ff8000000000000, 8), put_fixed(&m, 21, 7, 8);
    put_field_bytes(&m, 22, "raw", 3);
    put_field(&m, 23, 1), put_field(&m, 24, 300), put_field(&m, 127, 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        put_field_bytes(&m, texts[i].number, letters, texts[i].size);
    put_field_bytes(&m, 3000, letters, 32); /* not a column */
    return m;
}

UNUSED static void put_every_column(text *lines) {
    text_put(lines,
             "%s\n60 ns uint repeated\n61 strings string repeated\n62 addrs ip repeated\n"
             "63 reals double repeated",
             every_type);
}

#endif
