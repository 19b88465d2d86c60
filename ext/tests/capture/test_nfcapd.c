/* Files of nfcapd: flow records become IPFIX messages. The records are written here by hand. */
#include "tests/builders/capture_builder.h"

enum { FLOW = 11, EXPORTER = 7, RECEIVED = 1700000000 };

static void begin_file(bool big) {
    built.size = 0;
    built.big = big;
    file16(0xa50c), file16(2), file32(0x01070101), file64(RECEIVED);
    net8(0), net8(0), file16(1), file32(1), file64(0), file32(0), file32(1);
}

/* Begin a block. Returns the position of its first record. */
static size_t begin_records(unsigned type, unsigned flags) {
    file32(1), file32(0), file16(type), file16(flags);
    return built.size;
}

static void end_records(size_t begin) {
    patch_uint(begin - 8, built.size - begin, 4, built.big);
}

static void add_exporter(unsigned id, bool ipv6, uint32_t domain) {
    file16(EXPORTER), file16(32), file32(9);
    file64(ipv6 ? UINT64_C(0x20010db800000000) : 0), file64(ipv6 ? 1 : 0xc0000201);
    file16(ipv6 ? 10 : 2), file16(id), file32(domain);
}

static size_t begin_flow(unsigned exporter, unsigned elements, unsigned version) {
    size_t at = built.size;
    file16(FLOW), file16(0), file16(elements), net8(3), net8(4);
    file16(exporter), net8(0), net8(version);
    return at;
}

static void end_flow(size_t at) {
    patch_uint(at + 2, built.size - at, 2, built.big);
}

static void add_generic(uint64_t received, unsigned port) {
    file16(1), file16(52);
    file64(1600000000001), file64(1600000000002), file64(received * 1000 + 5);
    file64(11), file64(22), file16(port), file16(443), net8(6), net8(0x12), net8(0), net8(8);
}

static void add_ipv4(uint32_t source, uint32_t destination) {
    file16(2), file16(12), file32(source), file32(destination);
}

static void add_ipv6(uint64_t source, uint64_t destination) {
    file16(3), file16(36);
    file64(source), file64(source ? 1 : 0), file64(destination), file64(destination ? 2 : 0);
}

static void add_flow(unsigned exporter, uint64_t received, unsigned port) {
    size_t at = begin_flow(exporter, 2, 9);
    add_generic(received, port);
    add_ipv4(0x0a000001, 0x0a000002);
    end_flow(at);
}

static void build_small_file(bool big) {
    begin_file(big);
    size_t records = begin_records(3, 0);
    add_exporter(1, false, 77);
    add_exporter(2, true, 78);
    add_flow(1, RECEIVED, 1);
    add_flow(1, RECEIVED, 2);
    add_flow(2, RECEIVED, 3);
    file16(8), file16(8), file32(0); /* statistics: ignored */
    add_flow(2, RECEIVED + 1, 4);
    end_records(records);
    records = begin_records(4, 0); /* a block of another type: counted */
    put_zeros(100);
    end_records(records);
    records = begin_records(3, 1);
    file16(9), file16(8), file32(0);      /* a sampler: counted */
    add_flow(9, RECEIVED + 1, 5);         /* an unknown exporter */
    file16(0x8001), file16(8), file32(0); /* the name of the file: ignored */
    end_records(records);
}

/* Return the value of the field in the record at `at` of a message with one template and records of
   its fields, all of fixed size. -1: no such field. */
static int64_t value_of(fb_bytes message, unsigned element, size_t record) {
    const uint8_t *p = message.data + 16;
    size_t count = fb_load16(p + 6), at = 0, size = 0, length = 0;
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *field = p + 8 + 4 * i;
        if (fb_load16(field) == element) found = true, at = length, size = fb_load16(field + 2);
        length += fb_load16(field + 2);
    }
    const uint8_t *data = p + fb_load16(p + 2) + 4 + record * length;
    if (!found) return -1;
    CHECK(data + length <= message.data + message.size);
    return (int64_t)fb_load_uint(data + at + (size > 8 ? size - 8 : 0), size > 8 ? 8 : size);
}

static void groups_records_of_one_exporter_and_time(void) {
    for (int big = 0; big < 2; big++) {
        build_small_file(big);
        const outcome *seen = scan_bytes(built.data, built.size, (reading){.options = ANY_PORT});
        CHECK_STATUS(seen->status, FB_END);
        CHECK_EQUAL(seen->counters[FB_OTHER_CAPTURE_RECORD], 2);
        CHECK_EQUAL(count_all(seen), 2);
        CHECK_EQUAL(seen->count, 4);
        CHECK_EQUAL(seen->stats.datagrams, 4);
        CHECK_EQUAL(seen->stats.packets, 4);
        CHECK_EQUAL(seen->last.time, (RECEIVED + 1) * UINT64_C(1000000000) + 5000000);
        CHECK_EQUAL(fb_load32(seen->last.payload.data + 4), RECEIVED + 1);
        CHECK_EQUAL(fb_load32(seen->last.payload.data + 8), 0);
        CHECK_EQUAL(value_of(seen->last.payload, 7, 0), 5);
    }
}

static void takes_addresses_and_domains_of_exporters(void) {
    begin_file(false);
    size_t records = begin_records(3, 0);
    add_exporter(1, false, 77);
    add_flow(1, RECEIVED, 1);
    end_records(records);
    const outcome *seen = scan();
    CHECK_BYTES(seen->last.source, 16, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
    CHECK_EQUAL(fb_load32(seen->last.payload.data + 12), 77);
    records = begin_records(3, 0);
    add_exporter(65535, true, 78);
    add_flow(65535, RECEIVED, 2);
    end_records(records);
    seen = scan();
    CHECK_EQUAL(seen->count, 2);
    CHECK_BYTES(seen->last.source, 16, "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    CHECK_EQUAL(fb_load32(seen->last.payload.data + 12), 78);
    CHECK(seen->most_held < 5 * 1024 * 1024);
}

static void takes_the_exporter_of_a_record_if_the_file_names_none(void) {
    begin_file(false);
    size_t records = begin_records(3, 0), at = begin_flow(5, 2, 9);
    add_generic(RECEIVED, 1);
    file16(12), file16(8), file32(0xc6336401);
    end_flow(at);
    end_records(records);
    CHECK_BYTES(scan()->last.source, 16, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc6\x33\x64\1", 16);
}

static void writes_the_elements_of_extensions(void) {
    begin_file(false);
    size_t records = begin_records(3, 0), at = begin_flow(1, 5, 5);
    add_generic(RECEIVED, 1);
    add_ipv6(UINT64_C(0x20010db800000000), UINT64_C(0x20010db800000000));
    file16(4), file16(20), file32(1091), file32(7), net8(48), net8(56), net8(1), net8(2);
    net8(0), net8(3), file16(0);
    file16(15), file16(36), file64(0x020000000001), file64(0), file64(0x020000000002), file64(0);
    file16(14), file16(44), file32(0x123451), put_zeros(36);
    end_flow(at);
    end_records(records);
    fb_bytes message = scan()->last.payload;
    const struct {
        unsigned element;
        int64_t value;
    } cases[] = {{152, 1600000000001},
                 {153, 1600000000002},
                 {2, 11},
                 {1, 22},
                 {7, 1},
                 {11, 443},
                 {4, 6},
                 {6, 0x12},
                 {5, 8},
                 {89, -1},
                 {27, 1},
                 {28, 2},
                 {10, 1091},
                 {14, 7},
                 {29, 48},
                 {30, 56},
                 {9, -1},
                 {61, 1},
                 {55, 2},
                 {239, -1},
                 {136, 3},
                 {56, 0x020000000001},
                 {57, -1},
                 {80, 0x020000000002},
                 {70, 0x123451},
                 {71, -1},
                 {38, 3},
                 {39, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_EQUAL(value_of(message, cases[i].element, 0), cases[i].value);
}

static void leaves_out_addresses_of_the_other_family(void) {
    for (int family = 4; family <= 6; family += 2) {
        begin_file(false);
        size_t records = begin_records(3, 0), at = begin_flow(1, 3, 9);
        add_generic(RECEIVED, 1);
        add_ipv4(family == 4 ? 1 : 0, 0);
        add_ipv6(0, family == 6 ? 9 : 0);
        end_flow(at);
        end_records(records);
        fb_bytes message = scan()->last.payload;
        CHECK_EQUAL(value_of(message, 8, 0), family == 4 ? 1 : -1);
        CHECK_EQUAL(value_of(message, 28, 0), family == 6 ? 2 : -1);
    }
}

static void limits_messages(void) {
    begin_file(false);
    size_t records = begin_records(3, 0);
    for (unsigned i = 0; i < 2000; i++) add_flow(1, RECEIVED, i);
    end_records(records);
    const outcome *seen = scan_built((reading){.options = ANY_PORT, .capacity = 1});
    CHECK_STATUS(seen->status, FB_END);
    CHECK(seen->count > 50 && seen->count < 100);
    CHECK(seen->last.payload.size <= 1400);
}

static void writes_the_largest_record(void) {
    begin_file(false);
    size_t records = begin_records(3, 0), at = begin_flow(1, 42, 5);
    for (unsigned id = 1; id <= 42; id++) {
        file16(id), file16(4 + 300);
        for (int i = 0; i < 300; i++) net8(i % 4 + 1);
    }
    end_flow(at);
    add_flow(1, RECEIVED, 1);
    end_records(records);
    const outcome *seen = scan();
    CHECK_STATUS(seen->status, FB_END);
    CHECK_EQUAL(seen->count, 2);
    CHECK_EQUAL(count_all(seen), 0);
}

static void counts_malformed_records_and_continues(void) {
    begin_file(false);
    size_t records = begin_records(3, 0);
    end_flow(begin_flow(1, 0, 9));   /* no extension */
    size_t at = begin_flow(1, 2, 9); /* one extension less than it says */
    add_ipv4(1, 2);
    end_flow(at);
    at = begin_flow(1, 1, 9); /* an extension longer than its record */
    file16(2), file16(13), file32(1), file32(2);
    end_flow(at);
    at = begin_flow(1, 1, 9); /* and one shorter than its header */
    file16(2), file16(3);
    end_flow(at);
    at = begin_flow(1, 1, 9); /* an extension that is not read */
    file16(17), file16(28), put_zeros(24);
    end_flow(at);
    file16(FLOW), file16(4);
    file16(EXPORTER), file16(8), file32(0);
    add_flow(1, RECEIVED, 6);
    end_records(records);
    const outcome *seen = scan();
    CHECK_STATUS(seen->status, FB_END);
    CHECK_EQUAL(seen->count, 1);
    CHECK_EQUAL(value_of(seen->last.payload, 7, 0), 6);
    CHECK_EQUAL(seen->counters[FB_BAD_CAPTURE_RECORD], 5);
    CHECK_EQUAL(seen->counters[FB_OTHER_CAPTURE_RECORD], 2);
    CHECK_EQUAL(count_all(seen), 7);
}

static void stops_at_an_impossible_record(void) {
    const unsigned lengths[] = {0, 3, 65535};
    for (size_t i = 0; i < 3; i++) {
        begin_file(false);
        size_t records = begin_records(3, 0);
        add_flow(1, RECEIVED, 1);
        size_t second = built.size;
        add_flow(1, RECEIVED, 2);
        end_records(records);
        patch_uint(second + 2, lengths[i], 2, false);
        const outcome *seen = scan();
        CHECK_STATUS(seen->status, FB_END);
        CHECK_EQUAL(seen->count, 1);
        CHECK_EQUAL(value_of(seen->last.payload, 7, 0), 1);
        CHECK_EQUAL(seen->counters[FB_DAMAGED_CAPTURE], 1);
    }
}

static void refuses_blocks_that_are_compressed(void) {
    begin_file(false);
    built.data[16] = 3;
    size_t records = begin_records(3, 1);
    add_flow(1, RECEIVED, 1);
    end_records(records);
    records = begin_records(3, 0);
    add_flow(1, RECEIVED, 2);
    end_records(records);
    const outcome *seen = scan();
    CHECK_EQUAL(seen->count, 1);
    CHECK_EQUAL(seen->counters[FB_DAMAGED_CAPTURE], 1);
}

static void refuses_other_layouts(void) {
    const struct {
        size_t at;
        uint8_t value;
    } cases[] = {{2, 1}, {2, 3}, {17, 1}, {0, 0x0d}};
    for (size_t i = 0; i < 4; i++) {
        build_small_file(false);
        built.data[cases[i].at] = cases[i].value;
        CHECK_STATUS(scan()->status, FB_NOT_A_CAPTURE);
    }
}

static void delivers_the_records_before_every_cut(void) {
    build_small_file(false);
    size_t delivered = 0, whole = 0;
    uint64_t others = 0;
    for (size_t size = FB_CAPTURE_START_SIZE; size <= built.size; size++) {
        const outcome *seen = scan_bytes(built.data, size, (reading){.options = ANY_PORT});
        CHECK_STATUS(seen->status, FB_END);
        CHECK(seen->count == delivered || seen->count == delivered + 1);
        delivered = seen->count;
        whole += !seen->counters[FB_TRUNCATED_CAPTURE];
        CHECK(seen->counters[FB_TRUNCATED_CAPTURE] <= 1);
        CHECK(seen->counters[FB_OTHER_CAPTURE_RECORD] >= others);
        others = seen->counters[FB_OTHER_CAPTURE_RECORD];
        CHECK_EQUAL(count_all(seen),
                    seen->counters[FB_TRUNCATED_CAPTURE] + seen->counters[FB_OTHER_CAPTURE_RECORD]);
    }
    CHECK_EQUAL(delivered, 4);
    CHECK_EQUAL(others, 2);
    CHECK_EQUAL(whole, 4); /* the file header and three blocks */
}

static void gives_the_same_datagrams_at_every_window_and_capacity(void) {
    static outcome whole;
    build_small_file(false);
    whole = *scan();
    for (size_t step = 1; step <= built.size; step += 3) {
        for (size_t capacity = 1; capacity <= 4; capacity++) {
            const outcome *seen = scan_built((reading){ANY_PORT, step, capacity, 0, false});
            CHECK_STATUS(seen->status, FB_END);
            CHECK_EQUAL(seen->count, 4);
            CHECK_BYTES(seen->log, seen->log_size, whole.log, whole.log_size);
        }
    }
}

static void survives_every_damaged_byte(void) {
    build_small_file(false);
    for (size_t at = 0; at < built.size; at++) {
        uint8_t good = built.data[at];
        const uint8_t bad[] = {0, 0xff, (uint8_t)(good ^ 1), (uint8_t)(good ^ 4),
                               (uint8_t)(good ^ 128)};
        for (size_t i = 0; i < sizeof bad; i++) {
            built.data[at] = bad[i];
            const outcome *seen = scan();
            CHECK(seen->status == FB_END || (at < 24 && seen->status == FB_NOT_A_CAPTURE));
            CHECK_EQUAL(seen->held, 0);
        }
        built.data[at] = good;
    }
}

static void survives_every_failed_allocation(void) {
    build_small_file(false);
    for (size_t fail_at = 1; fail_at <= 3; fail_at++) {
        const outcome *seen = scan_built((reading){ANY_PORT, 0, 0, fail_at, false});
        CHECK_STATUS(seen->status, FB_NO_MEMORY);
        CHECK_EQUAL(seen->held, 0);
    }
    CHECK_STATUS(scan_built((reading){ANY_PORT, 0, 0, 4, false})->status, FB_END);
}

/* Every record has other fields, so that templates compete for the table. */
static void bounds_the_templates(void) {
    begin_file(false);
    size_t records = begin_records(3, 0);
    for (unsigned i = 1; i < 1024; i++) {
        size_t at = begin_flow(1, 2, 9);
        add_ipv4(1, i);
        file16(14), file16(44);
        for (unsigned label = 0; label < 10; label++) file32(i >> label & 1 ? 16 : 0);
        end_flow(at);
    }
    end_records(records);
    const outcome *seen = scan();
    CHECK_STATUS(seen->status, FB_END);
    CHECK_EQUAL(count_all(seen), 0);
    CHECK(seen->count > 20);
}

RUN_TESTS(TEST(groups_records_of_one_exporter_and_time),
          TEST(takes_addresses_and_domains_of_exporters),
          TEST(takes_the_exporter_of_a_record_if_the_file_names_none),
          TEST(writes_the_elements_of_extensions), TEST(leaves_out_addresses_of_the_other_family),
          TEST(limits_messages), TEST(writes_the_largest_record),
          TEST(counts_malformed_records_and_continues), TEST(stops_at_an_impossible_record),
          TEST(refuses_blocks_that_are_compressed), TEST(refuses_other_layouts),
          TEST(delivers_the_records_before_every_cut),
          TEST(gives_the_same_datagrams_at_every_window_and_capacity),
          TEST(survives_every_damaged_byte), TEST(survives_every_failed_allocation),
          TEST(bounds_the_templates))
