/* IPFIX files: messages become datagrams, also in parts, cut short and damaged. */
#include "tests/builders/capture_builder.h"

/* Append a message with one data set of `size` bytes. */
static void add_message(uint32_t time, size_t size) {
    net16(10), net16((unsigned)(16 + 4 + size));
    net32(time), net32(7), net32(1);
    net16(256), net16((unsigned)(4 + size));
    put_zeros(size);
}

static void build_small_file(void) {
    built.size = 0;
    add_message(1700000000, 8);
    add_message(1700000001, 1);
    net16(10), net16(16), net32(1700000002), net32(8), net32(1); /* no sets */
    add_message(UINT32_MAX, 300);
}

static void reads_messages_as_datagrams(void) {
    build_small_file();
    const outcome *seen = scan();
    CHECK_STATUS(seen->status, FB_END);
    CHECK_EQUAL(seen->count, 4);
    CHECK_EQUAL(count_all(seen), 0);
    CHECK_EQUAL(seen->last.time, UINT32_MAX * UINT64_C(1000000000));
    CHECK_EQUAL(seen->last.payload.size, 320);
    CHECK_EQUAL(seen->last.source_port, 0);
    CHECK_BYTES(seen->last.source, 16, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    CHECK_EQUAL(seen->stats.packets, 4);
    CHECK_EQUAL(seen->stats.datagrams, 4);
    CHECK_EQUAL(seen->stats.link_type_count, 0);
}

static void ignores_the_port_filter(void) {
    build_small_file();
    const outcome *seen = scan_built((reading){.options = {.port = 2055}});
    CHECK_EQUAL(seen->count, 4);
    CHECK_EQUAL(count_all(seen), 0);
}

static void accepts_an_empty_first_message(void) {
    built.size = 0;
    net16(10), net16(16), net32(1), net32(0), net32(0);
    add_message(2, 4);
    CHECK_EQUAL(scan()->count, 2);
}

static void recognizes_only_plausible_lengths(void) {
    const struct {
        unsigned version, length, set, set_length;
        bool good;
    } cases[] = {{10, 40, 256, 24, true},   {10, 40, 2, 24, true},   {10, 40, 3, 24, true},
                 {10, 40, 65535, 4, true},  {9, 40, 256, 24, false}, {10, 15, 256, 24, false},
                 {10, 17, 256, 24, false},  {10, 40, 4, 24, false},  {10, 40, 255, 24, false},
                 {10, 40, 256, 25, false},  {10, 40, 256, 3, false}, {10, 16, 256, 24, false},
                 {0x0a00, 40, 2, 24, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        built.size = 0;
        net16(cases[i].version), net16(cases[i].length);
        net32(1), net32(0), net32(0);
        net16(cases[i].set), net16(cases[i].set_length);
        put_zeros(20);
        const outcome *seen = scan();
        CHECK_STATUS(seen->status, cases[i].good ? FB_END : FB_NOT_A_CAPTURE);
        CHECK_EQUAL(seen->count, cases[i].good);
        fb_bytes start = {built.data, FB_CAPTURE_START_SIZE};
        CHECK_EQUAL(fb_capture_starts_with_flows(start), cases[i].good);
        start.size--;
        CHECK(!fb_capture_starts_with_flows(start));
    }
}

static void stops_at_bytes_that_are_not_a_message(void) {
    const char *starts[] = {"\0\x09\0\x20", "\0\x0a\0\x0f", "\0\0\0\0"};
    for (size_t i = 0; i < 3; i++) {
        built.size = 0;
        add_message(1, 8);
        size_t second = built.size;
        add_message(2, 8);
        add_message(3, 8);
        memcpy(built.data + second, starts[i], 4);
        const outcome *seen = scan();
        CHECK_STATUS(seen->status, FB_END);
        CHECK_EQUAL(seen->count, 1);
        CHECK_EQUAL(seen->counters[FB_DAMAGED_CAPTURE], 1);
        CHECK_EQUAL(count_all(seen), 1);
    }
}

static void delivers_the_messages_before_every_cut(void) {
    build_small_file();
    for (size_t size = FB_CAPTURE_START_SIZE; size <= built.size; size++) {
        const outcome *seen = scan_bytes(built.data, size, (reading){.options = ANY_PORT});
        bool whole = size == 28 || size == 49 || size == 65 || size == built.size;
        CHECK_STATUS(seen->status, FB_END);
        CHECK_EQUAL(seen->count, (size >= 28) + (size >= 49) + (size >= 65) + (size == built.size));
        CHECK_EQUAL(seen->counters[FB_TRUNCATED_CAPTURE], !whole);
        CHECK_EQUAL(count_all(seen), !whole);
    }
}

static void gives_the_same_datagrams_at_every_window_and_capacity(void) {
    static outcome whole;
    build_small_file();
    whole = *scan();
    for (size_t step = 1; step <= built.size; step++) {
        for (size_t capacity = 1; capacity <= 5; capacity++) {
            const outcome *seen = scan_built((reading){ANY_PORT, step, capacity, 0, false});
            CHECK_STATUS(seen->status, FB_END);
            CHECK_EQUAL(seen->count, 4);
            CHECK_BYTES(seen->log, seen->log_size, whole.log, whole.log_size);
        }
    }
}

static void survives_every_damaged_byte(void) {
    build_small_file();
    for (size_t at = 0; at < built.size; at++) {
        uint8_t good = built.data[at];
        for (int bit = 0; bit < 8; bit++) {
            built.data[at] = (uint8_t)(good ^ 1 << bit);
            const outcome *seen = scan();
            CHECK(seen->status == FB_END || (at < 24 && seen->status == FB_NOT_A_CAPTURE));
            CHECK_EQUAL(seen->held, 0);
        }
        built.data[at] = good;
    }
}

RUN_TESTS(TEST(reads_messages_as_datagrams), TEST(ignores_the_port_filter),
          TEST(accepts_an_empty_first_message), TEST(recognizes_only_plausible_lengths),
          TEST(stops_at_bytes_that_are_not_a_message), TEST(delivers_the_messages_before_every_cut),
          TEST(gives_the_same_datagrams_at_every_window_and_capacity),
          TEST(survives_every_damaged_byte))
