/* Records that fill columns together (decode/run.tmpl.h). The messages of the same datagrams, which
   are written record by record, are the reference. */
#include "tests/support/session.h"

#define NUMBERS \
    "1 received timestamp unit=1000000 : meta:time_received\n" \
    "2 rate uint : derived:sampling_rate\n" \
    "3 bytes uint : ipfix:1\n" \
    "4 packets uint : ipfix:2\n" \
    "5 src ip : ipfix:8\n" \
    "6 dst ip : ipfix:28\n" \
    "7 etype uint limit=65535 : derived:etype\n" \
    "8 proto uint limit=255 : ipfix:4\n" \
    "9 port uint limit=65535 : ipfix:7\n" \
    "10 flags uint limit=65535 : ipfix:6\n" \
    "11 direction enum map=0:1,1:2 : ipfix:61\n" \
    "12 mac uint limit=281474976710655 : ipfix:56\n" \
    "13 status uint limit=255 : ipfix:89\n" \
    "14 in uint limit=4294967295 : ipfix:10\n"

/* Columns that also take names of interfaces. Each row of a string must be ended. */
#define STRINGS \
    "20 in_name string : derived:in_if_name\n" \
    "21 note string : ipfix:96 derived:in_if_name\n"

/* Rows with such columns are decoded one by one. */
#define BYTES "22 raw bytes : ipfix:82\n"

enum { FIXED = 256, LOCATED = 257, NAMES = 301 };

/* A number that is zero in a third of the cases. */
static uint32_t next_number(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % 3 ? *state >> 4 : 0;
}

static void put_templates(byte_buffer *d) {
    size_t set = set_begin(d, 2);
    put_template(d, FIXED,
                 FIELDS({302, 1}, {1, 4}, {2, 8}, {8, 4}, {28, 16}, {4, 1}, {7, 2}, {6, 2}, {61, 1},
                        {56, 6}, {89, 1}, {10, 4}));
    put_template(d, LOCATED,
                 FIELDS({1, 4}, {2, 8}, {82, VARIABLE}, {302, 1}, {8, 4}, {28, 16}, {4, 1}, {7, 2},
                        {96, VARIABLE}, {6, 2}, {61, 1}, {56, 6}, {89, 1}, {10, 4}));
    set_end(d, set);
    put_sampling_rate(d, 1, 100);
    put_sampling_rate(d, 2, 200);
    set = set_begin(d, 3);
    put_options_template(d, NAMES, 1, FIELDS({10, 4}, {82, 8}));
    set_end(d, set);
    set = set_begin(d, NAMES);
    put32(d, 7), put_bytes(d, "port-007", 8);
    set_end(d, set);
}

/* The fields that follow a sampler in both templates. */
static void put_middle(byte_buffer *d, uint32_t *state) {
    put32(d, next_number(state));
    if (next_number(state)) put_ipv6(d, next_number(state) & 0xffff);
    else put_repeated(d, 0, 16);
    put8(d, next_number(state) & 0xff);
    put16(d, next_number(state) & 0xffff);
}

static void put_end(byte_buffer *d, uint32_t *state) {
    put16(d, next_number(state) & 0xffff);
    put8(d, next_number(state) % 3); /* 2 is no direction */
    put48(d, next_number(state));
    put8(d, next_number(state) & 0xff);
    put32(d, next_number(state) % 4 ? 7 : 8);
}

static void put_fixed(byte_buffer *d, unsigned sampler, uint32_t *state) {
    put8(d, sampler);
    put32(d, next_number(state)), put64(d, next_number(state));
    put_middle(d, state), put_end(d, state);
}

static void put_located(byte_buffer *d, unsigned sampler, uint32_t *state) {
    char text[32];
    memset(text, 'x', sizeof text);
    put32(d, next_number(state)), put64(d, next_number(state));
    put_variable(d, text, next_number(state) % sizeof text, next_number(state) % 2);
    put8(d, sampler), put_middle(d, state);
    put_variable(d, text, next_number(state) % sizeof text, 0);
    put_end(d, state);
}

/* Build a message with `count` records. The sampler changes every `same` records. */
static void build(byte_buffer *d, unsigned id, size_t count, size_t same) {
    uint32_t state = (uint32_t)(id + count);
    ipfix_begin(d, (ipfix_header){.seconds = 1000});
    put_templates(d);
    size_t set = set_begin(d, id);
    for (size_t i = 0; i < count; i++) {
        unsigned sampler = 1 + i / same % 3; /* the rate of 3 is unknown */
        if (id == FIXED) put_fixed(d, sampler, &state);
        else put_located(d, sampler, &state);
    }
    set_end(d, set), ipfix_end(d);
}

typedef struct {
    text rows;
    fb_counters counters;
} result;

static void decode_messages(const char *lines, const byte_buffer *d, result *got) {
    session s;
    session_open(&s, lines, 65536);
    session_feed(&s, d);
    text_put(&got->rows, "%s", session_text(&s));
    got->counters = count_all(s.decoder);
    session_close(&s);
}

/* Decode into batches of `rows` rows, from a copy that ends at a guard page. */
static void decode_columns(const char *lines, const byte_buffer *d, size_t rows, result *got) {
    session s;
    fb_columns columns;
    session_open(&s, lines, 0);
    uint8_t *copy = fb_guarded_copy(d->data, d->size);
    const fb_datagram datagram = datagram_of(copy, d->size, SOURCE_ADDRESS);
    CHECK_STATUS(fb_columns_new(&columns, s.plan.plan, &s.memory), FB_OK);
    session_feed_columns(&s, &columns, &datagram, 1, rows, &got->rows);
    got->counters = count_all(s.decoder);
    CHECK_EQUAL(columns.count, got->counters.rows[FB_ROWS_FLOWS]);
    fb_columns_free(&columns);
    fb_guarded_free(copy, d->size);
    session_close(&s);
}

/* Compare columns with messages. Returns the number of flows. */
static uint64_t check_columns(const char *lines, const byte_buffer *d, size_t rows) {
    result messages = {0}, columns = {0};
    decode_messages(lines, d, &messages);
    decode_columns(lines, d, rows, &columns);
    CHECK_TEXT(text_of(&columns.rows), text_of(&messages.rows));
    CHECK_BYTES(&columns.counters, sizeof columns.counters, &messages.counters,
                sizeof messages.counters);
    text_free(&columns.rows), text_free(&messages.rows);
    return messages.counters.rows[FB_ROWS_FLOWS];
}

static const char *const plans[] = {NUMBERS, NUMBERS STRINGS, NUMBERS STRINGS BYTES};
enum { PLANS = sizeof plans / sizeof *plans };

/* Check records of both templates. */
static void check_count(size_t count, size_t same, size_t rows) {
    static byte_buffer d;
    for (unsigned id = FIXED; id <= LOCATED; id++) {
        build(&d, id, count, same);
        for (size_t i = 0; i < PLANS; i++) CHECK_EQUAL(check_columns(plans[i], &d, rows), count);
    }
}

static void fills_as_many_records_as_a_set_has(void) {
    static const size_t counts[] = {1, 2, 3, 63, 64, 65, 86, 130, 300};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) check_count(counts[i], 1000, 1000);
}

static void ends_a_run_at_another_sampler(void) {
    for (size_t same = 1; same < 6; same++) check_count(100, same, 1000);
}

static void resumes_at_every_row(void) {
    for (size_t rows = 2; rows < 42; rows++) check_count(40, 7, rows);
}

static void ends_at_every_byte(void) {
    static byte_buffer d;
    for (unsigned id = FIXED; id <= LOCATED; id++) {
        build(&d, id, 6, 4);
        for (size_t size = d.size; size--;) {
            d.size = size;
            for (size_t i = 0; i < PLANS; i++) check_columns(plans[i], &d, i ? 3 : 1000);
        }
    }
}

/* Records with more variable-length fields than can be located for two records at once. */
static void locates_records_of_many_fields(void) {
    enum { MANY = 150 };
    static byte_buffer d;
    specifier fields[MANY];
    for (size_t i = 0; i < MANY; i++) fields[i] = (specifier){82, VARIABLE, 0};
    fields[MANY - 1] = (specifier){1, 4, 0};
    ipfix_begin(&d, (ipfix_header){.seconds = 1000});
    size_t set = set_begin(&d, 2);
    put_template(&d, FIXED, fields, MANY);
    set_end(&d, set);
    set = set_begin(&d, FIXED);
    for (unsigned i = 0; i < 5; i++) {
        for (size_t k = 0; k < MANY - 1; k++) put_variable(&d, "abc", i % 3, 0);
        put32(&d, i);
    }
    set_end(&d, set), ipfix_end(&d);
    CHECK_EQUAL(check_columns(NUMBERS, &d, 1000), 5);
}

/* Room is reserved for all bytes of a run. A sanitizer finds stores behind it. */
static void has_room_for_a_large_record_beside_small_ones(void) {
    enum { RECORDS = 3 };
    static byte_buffer d;
    static char text[40000];
    memset(text, 'x', sizeof text);
    for (unsigned large = 0; large < RECORDS; large++) {
        ipfix_begin(&d, (ipfix_header){.seconds = 1000});
        size_t set = set_begin(&d, 2);
        put_template(&d, FIXED, FIELDS({96, VARIABLE}, {1, 4}));
        set_end(&d, set);
        set = set_begin(&d, FIXED);
        for (unsigned i = 0; i < RECORDS; i++) {
            put_variable(&d, text, i == large ? sizeof text : i % 3, 1);
            put32(&d, i);
        }
        set_end(&d, set), ipfix_end(&d);
        const char *lines = "1 bytes uint : ipfix:1\n2 note string : ipfix:96 derived:in_if_name";
        for (size_t rows = 2; rows <= RECORDS; rows++)
            CHECK_EQUAL(check_columns(lines, &d, rows), RECORDS);
    }
}

RUN_TESTS(TEST(fills_as_many_records_as_a_set_has), TEST(ends_a_run_at_another_sampler),
          TEST(resumes_at_every_row), TEST(ends_at_every_byte),
          TEST(locates_records_of_many_fields), TEST(has_room_for_a_large_record_beside_small_ones))
