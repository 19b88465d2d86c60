/* Rows become IPFIX files, which the capture reader accepts. */
#include "core/capture/capture.h"
#include "core/capture/ipfix_write.h"
#include "core/wire/wire.h"

#include "tests/support/check.h"

enum {
    UNSIGNED_8 = 1,
    ADDRESS = 2,
    TIME = 3,
    OCTETS = 4,
    MEMBER = 5,
    PREFIX = 6,
    VENDOR = 7,
    LIST = 9
};

static const fb_ipfix_member members[] = {{1, 0}, {2, 1}};
static const fb_ipfix_column columns[] = {
    {.number = UNSIGNED_8, .kind = FB_IPFIX_UNSIGNED, .size = 1, .elements = {4, 4}},
    {.number = ADDRESS, .kind = FB_IPFIX_ADDRESS, .elements = {8, 27}},
    {.number = TIME,
     .kind = FB_IPFIX_MILLISECONDS,
     .size = 8,
     .elements = {152, 152},
     .unit = 1000000},
    {.number = OCTETS, .kind = FB_IPFIX_OCTETS, .elements = {96, 96}},
    {.number = MEMBER,
     .kind = FB_IPFIX_UNSIGNED,
     .size = 1,
     .elements = {61, 61},
     .members = members,
     .member_count = 2},
    {.number = PREFIX, .kind = FB_IPFIX_UNSIGNED, .size = 1, .elements = {9, 29}},
    {.number = VENDOR,
     .kind = FB_IPFIX_UNSIGNED,
     .size = 4,
     .elements = {1, 1},
     .enterprise = 32473},
    {.number = LIST, .kind = FB_IPFIX_LIST, .size = 4, .elements = {485, 485}, .member = 483},
};

typedef struct {
    uint8_t data[1 << 16];
    size_t size;
} stream;

static stream rows;      /* length-delimited messages */
static size_t row_begin; /* of the open message */

static void put_byte(unsigned byte) {
    rows.data[rows.size++] = (uint8_t)byte;
}

static void put_varint(uint64_t value) {
    for (; value >= 128; value >>= 7) put_byte((unsigned)(value & 127) | 128);
    put_byte((unsigned)value);
}

static void begin_row(void) {
    row_begin = rows.size;
    put_byte(0);
}

/* REQUIRES: the message has less than 128 bytes. */
static void end_row(void) {
    rows.data[row_begin] = (uint8_t)(rows.size - row_begin - 1);
}

static void add_number(unsigned number, uint64_t value) {
    put_byte(number << 3);
    put_varint(value);
}

static void add_bytes(unsigned number, const void *bytes, size_t size) {
    put_byte(number << 3 | 2);
    put_varint(size);
    memcpy(rows.data + rows.size, bytes, size);
    rows.size += size;
}

static fb_ipfix_left_out left_out;
static fb_buffer written;

static void write_rows(fb_ipfix_options options) {
    fb_memory memory = fb_memory_system(0);
    fb_ipfix_writer *writer;
    options.columns = columns;
    options.count = sizeof columns / sizeof *columns;
    fb_buffer_free(&written);
    CHECK_STATUS(fb_ipfix_writer_new(&writer, &memory, &options), FB_OK);
    CHECK_STATUS(fb_ipfix_writer_add(writer, (fb_bytes){rows.data, rows.size}, &written), FB_OK);
    CHECK_STATUS(fb_ipfix_writer_finish(writer, &written), FB_OK);
    CHECK_STATUS(fb_ipfix_writer_finish(writer, &written), FB_OK);
    left_out = fb_ipfix_writer_get_left_out(writer);
    fb_ipfix_writer_free(writer);
    CHECK_EQUAL(memory.used, 0);
}

#define CHECK_WRITTEN(text) \
    CHECK_BYTES(written.begin, fb_buffer_size(&written), text, sizeof text - 1)

static void writes_a_template_and_a_record(void) {
    rows.size = 0;
    begin_row();
    add_number(UNSIGNED_8, 6);
    add_bytes(ADDRESS, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", 16);
    add_bytes(OCTETS, "dns", 3);
    add_number(MEMBER, 2);
    add_number(PREFIX, 24);
    add_number(VENDOR, 7);
    end_row();
    write_rows((fb_ipfix_options){.time = 1700000000});
    CHECK_WRITTEN("\0\x0a\0\x47\x65\x53\xf1\0\0\0\0\0\0\0\0\0"
                  "\0\2\0\x24\1\0\0\6\0\4\0\1\0\x08\0\4\0\x60\xff\xff\0\x3d\0\1\0\x09\0\1"
                  "\x80\1\0\4\0\0\x7e\xd9"
                  "\1\0\0\x13\6\x0a\0\0\1\3dns\1\x18\0\0\0\7");
    CHECK_EQUAL(left_out.values, 0);
}

static void writes_elements_of_ipv6_flows(void) {
    rows.size = 0;
    begin_row();
    add_bytes(ADDRESS, "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    add_number(PREFIX, 64);
    end_row();
    write_rows((fb_ipfix_options){.time = 1});
    CHECK_WRITTEN("\0\x0a\0\x35\0\0\0\1\0\0\0\0\0\0\0\0"
                  "\0\2\0\x10\1\0\0\2\0\x1b\0\x10\0\x1d\0\1"
                  "\1\0\0\x15\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\x40");
}

static void gives_each_set_of_columns_a_template(void) {
    rows.size = 0;
    for (int i = 0; i < 4; i++) {
        begin_row();
        add_number(UNSIGNED_8, 6);
        if (i % 2) add_number(MEMBER, 1);
        end_row();
    }
    write_rows((fb_ipfix_options){.time = 1});
    CHECK_WRITTEN("\0\x0a\0\x42\0\0\0\1\0\0\0\0\0\0\0\0"
                  "\0\2\0\x0c\1\0\0\1\0\4\0\1\1\0\0\5\6"
                  "\0\2\0\x10\1\1\0\2\0\4\0\1\0\x3d\0\1\1\1\0\6\6\0"
                  "\1\0\0\5\6\1\1\0\6\6\0");
}

static void numbers_messages_by_their_records(void) {
    rows.size = 0;
    for (unsigned second = 1; second < 4; second++) {
        for (unsigned i = 0; i < second; i++) {
            begin_row();
            add_number(UNSIGNED_8, 6);
            add_number(8, second * 1000 + i);
            end_row();
        }
    }
    write_rows((fb_ipfix_options){.time_number = 8, .time_unit = 1000000});
    const uint8_t *p = written.begin;
    const uint32_t sequences[] = {0, 1, 3};
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQUAL(fb_load32(p + 4), i + 1);
        CHECK_EQUAL(fb_load32(p + 8), sequences[i]);
        p += fb_load16(p + 2);
    }
    CHECK(p == written.p);
}

static void leaves_out_values_that_do_not_fit(void) {
    rows.size = 0;
    begin_row();
    add_number(UNSIGNED_8, 256);
    add_bytes(ADDRESS, "short", 5);
    add_number(OCTETS, 5); /* a number where text belongs */
    end_row();
    begin_row();
    add_number(10, 1); /* no column */
    end_row();
    write_rows((fb_ipfix_options){.time = 1});
    CHECK_EQUAL(fb_buffer_size(&written), 0);
    CHECK_EQUAL(left_out.values, 3);
    CHECK_EQUAL(left_out.rows, 2);
}

static void writes_lists_of_numbers(void) {
    rows.size = 0;
    begin_row();
    add_number(LIST, 65001);
    add_number(UNSIGNED_8, 6);
    add_number(LIST, 7);
    end_row();
    write_rows((fb_ipfix_options){.time = 1});
    CHECK_WRITTEN("\0\x0a\0\x33\0\0\0\1\0\0\0\0\0\0\0\0"
                  "\0\2\0\x10\1\0\0\2\0\4\0\1\1\xe5\xff\xff"
                  "\1\0\0\x13\6\x0d\4\1\xe3\0\4\0\0\xfd\xe9\0\0\0\7");
    CHECK_EQUAL(left_out.values, 0);
}

static void leaves_out_lists_that_do_not_fit(void) {
    const struct {
        uint64_t last;
        size_t count;
        bool fits;
    } cases[] = {
        {UINT32_MAX, 1, true},
        {UINT32_MAX + UINT64_C(1), 3, false},
        {0, 98, true}, /* 397 bytes */
        {0, 99, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows.size = 0;
        put_varint(2 * cases[i].count - 1 + fb_wire_varint_size(cases[i].last));
        for (size_t k = 1; k < cases[i].count; k++) add_number(LIST, 1);
        add_number(LIST, cases[i].last);
        write_rows((fb_ipfix_options){.time = 1});
        CHECK_EQUAL(left_out.values, !cases[i].fits);
        CHECK_EQUAL(left_out.rows, !cases[i].fits);
    }
    rows.size = 0;
    begin_row();
    add_number(LIST, 1);
    add_bytes(LIST, "ab", 2); /* bytes where a number belongs */
    end_row();
    write_rows((fb_ipfix_options){.time = 1});
    CHECK_EQUAL(left_out.values, 1);
}

static void repeats_templates_and_limits_messages(void) {
    fb_memory memory = fb_memory_system(0);
    fb_ipfix_writer *writer;
    fb_ipfix_options options = {columns, sizeof columns / sizeof *columns, .time = 1};
    CHECK_STATUS(fb_ipfix_writer_new(&writer, &memory, &options), FB_OK);
    rows.size = 0;
    for (int i = 0; i < 1000; i++) {
        begin_row();
        add_bytes(OCTETS, "a text of thirty characters...", 30);
        end_row();
    }
    fb_buffer_free(&written);
    for (int i = 0; i < 10; i++)
        CHECK_STATUS(fb_ipfix_writer_add(writer, (fb_bytes){rows.data, rows.size}, &written),
                     FB_OK);
    size_t templates = 0, messages = 0;
    for (const uint8_t *p = written.begin; p < written.p; p += fb_load16(p + 2), messages++) {
        CHECK(fb_load16(p + 2) <= FB_IPFIX_MESSAGE_SIZE);
        templates += fb_load16(p + 16) == 2;
    }
    CHECK(messages > 200 && messages < 250);
    CHECK_EQUAL(templates, 3);
    fb_ipfix_writer_free(writer);
}

static void refuses_malformed_streams_and_too_many_columns(void) {
    fb_memory memory = fb_memory_system(0);
    fb_ipfix_writer *writer;
    fb_ipfix_options options = {columns, FB_IPFIX_COLUMNS + 1, .time = 1};
    CHECK_STATUS(fb_ipfix_writer_new(&writer, &memory, &options), FB_BAD_ARGUMENT);
    options.count = 1;
    CHECK_STATUS(fb_ipfix_writer_new(&writer, &memory, &options), FB_OK);
    fb_buffer_free(&written);
    CHECK_STATUS(fb_ipfix_writer_add(writer, (fb_bytes){(const uint8_t *)"\2\x08", 2}, &written),
                 FB_MORE_INPUT);
    CHECK_STATUS(fb_ipfix_writer_add(writer, (fb_bytes){(const uint8_t *)"\1\x08", 2}, &written),
                 FB_BAD_MESSAGE);
    fb_ipfix_writer_free(writer);
    fb_ipfix_writer_free(NULL);
}

/* Rows with any bytes give messages that the capture reader accepts. */
static void writes_messages_for_any_rows(void) {
    uint64_t state = 1;
    for (int run = 0; run < 2000; run++) {
        rows.size = 0;
        begin_row();
        for (int i = 0; i < 8; i++) {
            state = fb_hash(state, (uint64_t)i);
            unsigned number = 1 + state % 9;
            if (state >> 8 & 1) add_number(number, state >> (state >> 16 & 63));
            else add_bytes(number, &state, state >> 32 & 7);
        }
        end_row();
        write_rows((fb_ipfix_options){.time_number = 8, .time_unit = 1000000});
        size_t size = fb_buffer_size(&written);
        CHECK(size == 0 || fb_load16(written.begin + 2) == size);
    }
    fb_buffer_free(&written);
}

RUN_TESTS(TEST(writes_a_template_and_a_record), TEST(writes_elements_of_ipv6_flows),
          TEST(gives_each_set_of_columns_a_template), TEST(numbers_messages_by_their_records),
          TEST(leaves_out_values_that_do_not_fit), TEST(writes_lists_of_numbers),
          TEST(leaves_out_lists_that_do_not_fit), TEST(repeats_templates_and_limits_messages),
          TEST(refuses_malformed_streams_and_too_many_columns), TEST(writes_messages_for_any_rows))
