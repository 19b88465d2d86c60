/* Capture formats: pcap and pcapng files, complete, damaged, and in parts. */
#include "tests/builders/capture_builder.h"

static void add_frame(uint32_t seconds, uint32_t fraction, const char *payload) {
    size_t record = begin_record(seconds, fraction);
    add_ethernet(IPV4);
    add_datagram(IPV4, payload);
    end_record(record, 0);
}

static void add_packet(uint32_t interface, uint64_t ticks, const char *payload) {
    size_t body = begin_packet_block(interface, ticks);
    add_ethernet(IPV4);
    add_datagram(IPV4, payload);
    end_packet_block(body);
}

/* Build a small capture with every feature. Every byte of it is damaged. */
static void build_small_pcap(void) {
    begin_pcap(MICRO, false, 1);
    add_frame(1, 0, "one");
    size_t record = begin_record(2, 0);
    add_ethernet(0x0806);
    put_zeros(28);
    end_record(record, 0);
    for (unsigned part = 0; part < 2; part++) {
        record = begin_record(3, part);
        add_ethernet(IPV6);
        size_t ip = begin_ip((ip_header){IPV6, 1, 2, .protocol = 44});
        net8(UDP), net8(0), net16(part ? 16 : 1), net32(77);
        if (part) put("ninth", 5);
        else net16(2000), net16(2055), net16(21), net16(0), put("eight of", 8);
        end_ip(ip);
        end_record(record, 0);
    }
    add_frame(4, 0, "last");
}

static void build_small_pcapng(void) {
    begin_pcapng(false);
    add_interface(1);
    add_packet(0, 1000000, "one");
    size_t body = begin_block(5); /* statistics: ignored */
    put_zeros(16);
    end_block(body);
    add_section(true);
    body = begin_interface(1);
    file16(9), file16(1), put("\x09\0\0\0", 4);
    file16(14), file16(8), file64(100);
    file16(0), file16(0);
    end_block(body);
    add_packet(0, 2000000000, "two");
    body = begin_block(3);
    size_t frame = built.size + 4;
    file32(0);
    add_ethernet(IPV6);
    add_datagram(IPV6, "three");
    patch_uint(frame - 4, built.size - frame, 4, built.big);
    end_block(body);
}

static void reads_pcap_of_both_byte_orders_and_all_magic_numbers(void) {
    const struct {
        int magic;
        uint64_t time;
    } cases[] = {
        {MICRO, 1700000000000789000}, {NANO, 1700000000000000789}, {MODIFIED, 1700000000000789000}};
    for (size_t i = 0; i < 6; i++) {
        int magic = cases[i / 2].magic;
        begin_pcap(magic, i % 2, 1);
        for (int packet = 0; packet < 2; packet++) {
            size_t record = begin_record(1700000000, 789);
            if (magic == MODIFIED) put_zeros(8);
            size_t frame = built.size;
            add_ethernet(IPV4);
            add_datagram(IPV4, packet ? "second" : "first");
            patch_uint(record - 8, built.size - frame, 4, built.big);
            patch_uint(record - 4, built.size - frame, 4, built.big);
        }
        const outcome *seen = scan();
        CHECK_STATUS(seen->status, FB_END);
        CHECK_EQUAL(seen->count, 2);
        CHECK_EQUAL(seen->last.time, cases[i / 2].time);
        CHECK_EQUAL(seen->last.source_port, 2000);
        CHECK_EQUAL(seen->last.destination_port, 2055);
        CHECK_BYTES(seen->last.source, 16, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01", 16);
        CHECK_BYTES(seen->last.destination, 16, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x02", 16);
        CHECK_PAYLOAD(seen, "second");
        CHECK_EQUAL(count_all(seen), 0);
        CHECK_EQUAL(seen->stats.packets, 2);
        CHECK_EQUAL(seen->stats.datagrams, 2);
    }
}

static void ignores_the_fcs_bits_of_a_link_type(void) {
    begin_pcap(MICRO, false, 0x44000001); /* FCS of 4 bytes, Ethernet */
    size_t record = begin_record(1, 0);
    add_ethernet(IPV4);
    add_datagram(IPV4, "x");
    put("FCS.", 4);
    end_record(record, 0);
    CHECK_ONE_PACKET(FB_OK);
}

static void carries_a_fraction_above_one_second(void) {
    begin_pcap(MICRO, false, 1);
    add_frame(10, 2500000, "x");
    CHECK_EQUAL(scan()->last.time, 12500000000);
}

static void reads_sections_of_both_byte_orders_in_one_pcapng(void) {
    build_small_pcapng();
    const outcome *seen = scan();
    CHECK_STATUS(seen->status, FB_END);
    CHECK_EQUAL(seen->count, 3);
    CHECK_EQUAL(count_all(seen), 0);
    CHECK_PAYLOAD(seen, "three");
    CHECK_EQUAL(seen->last.time, 0); /* a simple packet block has none */
    uint64_t times[2];
    size_t entry = 8 + 32 + 4;
    memcpy(&times[0], seen->log, 8);
    memcpy(&times[1], seen->log + entry + strlen("one"), 8);
    CHECK_EQUAL(times[0], 1000000000);
    CHECK_EQUAL(times[1], 102000000000);
}

static void reads_the_link_type_of_each_interface(void) {
    begin_pcapng(true);
    add_interface(1);
    add_interface(101);
    add_packet(0, 0, "ethernet");
    size_t body = begin_packet_block(1, 0);
    add_datagram(IPV6, "raw");
    end_packet_block(body);
    const outcome *seen = scan();
    CHECK_EQUAL(seen->count, 2);
    CHECK_PAYLOAD(seen, "raw");
    CHECK_EQUAL(seen->stats.link_type_count, 2);
    CHECK_EQUAL(seen->stats.link_types[0], 1);
    CHECK_EQUAL(seen->stats.link_types[1], 101);
}

static void bounds_the_list_of_link_types(void) {
    begin_pcapng(false);
    for (unsigned i = 0; i < 2 * FB_CAPTURE_MAX_LINK_TYPES; i++) {
        add_interface(200 + i / 2); /* each of them twice */
        end_packet_block(begin_packet_block(i, 0));
    }
    add_interface(300);
    end_packet_block(begin_packet_block(2 * FB_CAPTURE_MAX_LINK_TYPES, 0));
    const outcome *seen = scan();
    CHECK_EQUAL(seen->stats.packets, 2 * FB_CAPTURE_MAX_LINK_TYPES + 1);
    CHECK_EQUAL(seen->stats.link_type_count, FB_CAPTURE_MAX_LINK_TYPES);
    CHECK_EQUAL(seen->stats.link_types[FB_CAPTURE_MAX_LINK_TYPES - 1],
                200 + FB_CAPTURE_MAX_LINK_TYPES - 1);
}

static void numbers_interfaces_per_section(void) {
    begin_pcapng(false);
    add_interface(1);
    add_section(false);
    add_packet(0, 0, "of no interface");
    const outcome *seen = scan();
    CHECK_STATUS(seen->status, FB_END);
    CHECK_EQUAL(seen->count, 0);
    CHECK_EQUAL(seen->counters[FB_BAD_CAPTURE_RECORD], 1);
}

static void reads_obsolete_packet_blocks(void) {
    begin_pcapng(true);
    add_interface(1);
    size_t body = begin_block(2);
    file16(0), file16(99); /* interface, drops */
    file32(0), file32(5000000);
    file32(0), file32(0);
    add_ethernet(IPV4);
    add_datagram(IPV4, "old");
    patch_uint(body + 12, built.size - body - 20, 4, true);
    end_block(body);
    const outcome *seen = scan();
    CHECK_PAYLOAD(seen, "old");
    CHECK_EQUAL(seen->last.time, 5000000000);
}

static void cuts_simple_packets_at_the_snaplen(void) {
    begin_pcapng(false);
    add_interface(1);
    patch_uint(built.size - 8, 61, 4, false); /* snaplen */
    size_t body = begin_block(3);
    file32(64);
    add_ethernet(IPV4);
    size_t ip = begin_ip((ip_header){IPV4, 1, 2, .protocol = UDP});
    add_udp(1, 2, "a datagram of 22 bytes", 22);
    end_ip(ip);
    built.size -= 3; /* the padding of the block must not replace it */
    end_block(body);
    CHECK_ONE_PACKET(FB_TRUNCATED_PACKET);
}

static void converts_every_time_resolution_and_offset(void) {
    const struct {
        unsigned resolution;
        int64_t offset;
        uint64_t ticks, time;
    } cases[] = {
        {0, 0, 1700000000, 1700000000000000000},
        {3, 0, 1700000000123, 1700000000123000000},
        {6, 0, 1700000000123456, 1700000000123456000},
        {9, 0, 1700000000123456789, 1700000000123456789},
        {12, 0, 1700000123456789012, 1700000123456789},
        {19, 0, 17000000000000000000u, 1700000000},
        {0x80, 0, 17, 17000000000},
        {0x80 | 10, 0, (5 << 10) + 512, 5500000000},
        {0x80 | 32, 0, UINT64_C(1700000000) << 32 | 0x40000000, 1700000000250000000},
        {0x80 | 40, 0, (UINT64_C(1000) << 40) + (UINT64_C(1) << 39), 1000500000000},
        {0x80 | 63, 0, UINT64_C(3) << 62, 1500000000},
        {20, 0, UINT64_MAX, 0},        /* 10^20 ticks per second exceed 64 bits */
        {0x80 | 64, 0, UINT64_MAX, 0}, /* and so do 2^64 */
        {0, 0, 9223372035, 9223372035000000000},
        {0, 0, 9223372036, 0}, /* this second contains 2^63 ns */
        {0, 0, UINT64_MAX, 0},
        {6, 1700000000, 10000000, 1700000010000000000},
        {6, -4, 10000000, 6000000000},
        {6, -11, 10000000, 0}, /* before 1970 */
        {6, 9223372035, 10000000, 0},
        {6, INT64_MAX, 10000000, 0},
        {6, INT64_MIN, 10000000, 0},
        {0, 10, UINT64_MAX, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_pcapng(i % 2);
        size_t body = begin_interface(1);
        file16(2), file16(3), put("eth\0", 4); /* an option that is ignored */
        file16(9), file16(1), net8(cases[i].resolution), put_zeros(3);
        file16(14), file16(8), file64((uint64_t)cases[i].offset);
        end_block(body);
        add_packet(0, cases[i].ticks, "x");
        const outcome *seen = scan();
        CHECK_EQUAL(seen->count, 1);
        CHECK_EQUAL(seen->last.time, cases[i].time);
    }
}

static void filters_by_destination_port(void) {
    build_small_pcap();
    const outcome *seen = scan_built((reading){.options = {.port = 2055}});
    CHECK_EQUAL(seen->count, 3);
    seen = scan_built((reading){.options = {.port = 2000}}); /* the source port is not compared */
    CHECK_EQUAL(seen->count, 0);
    CHECK_EQUAL(seen->counters[FB_OTHER_PORT], 3);
}

static void refuses_files_that_are_not_captures(void) {
    const char *texts[] = {"", "\xa1", "\xa1\xb2\xc3\xd4",
                           "A text that is long enough for a header.",
                           "\n\r\r\n\x1c\0\0\0no byte order magic"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const outcome *seen =
            scan_bytes((const uint8_t *)texts[i], strlen(texts[i]), (reading){.options = ANY_PORT});
        CHECK_STATUS(seen->status, FB_NOT_A_CAPTURE);
        CHECK_EQUAL(count_all(seen), 0);
    }
}

static void repeats_the_last_status_after_the_end(void) {
    fb_memory memory = fb_memory_system(0);
    fb_capture *capture;
    fb_datagram datagram;
    size_t count, consumed;
    CHECK_STATUS(fb_capture_new(&capture, &memory, ANY_PORT), FB_OK);
    CHECK_STATUS(fb_capture_scan(capture, (fb_bytes){0}, false, &datagram, 0, &count, &consumed),
                 FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_capture_scan(capture, (fb_bytes){0}, false, &datagram, 1, &count, &consumed),
                 FB_MORE_INPUT);
    build_small_pcap();
    fb_bytes input = {built.data, built.size - 1};
    CHECK_STATUS(fb_capture_scan(capture, input, true, &datagram, 1, &count, &consumed), FB_OK);
    CHECK_EQUAL(count, 1);
    input = (fb_bytes){input.data + consumed, input.size - consumed};
    CHECK_STATUS(fb_capture_scan(capture, input, true, &datagram, 1, &count, &consumed), FB_OK);
    input = (fb_bytes){input.data + consumed, input.size - consumed};
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(fb_capture_scan(capture, input, true, &datagram, 1, &count, &consumed),
                     FB_END);
    CHECK_EQUAL(fb_capture_counters(capture)[FB_TRUNCATED_CAPTURE], 1);
    fb_capture_free(capture);
    fb_capture_free(NULL);
    CHECK_EQUAL(memory.used, 0);
}

static void stops_at_a_pcap_record_of_impossible_length(void) {
    const uint32_t lengths[] = {256 * 1024 + 1, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        begin_pcap(MICRO, i % 2, 1);
        add_frame(1, 0, "before");
        size_t record = begin_record(2, 0);
        patch_uint(record - 8, lengths[i], 4, built.big);
        add_frame(3, 0, "after");
        const outcome *seen = scan();
        CHECK_STATUS(seen->status, FB_END);
        CHECK_PAYLOAD(seen, "before");
        CHECK_EQUAL(seen->counters[FB_DAMAGED_CAPTURE], 1);
        CHECK_EQUAL(count_all(seen), 1);
    }
}

static void stops_at_a_pcapng_block_of_impossible_length(void) {
    const uint32_t lengths[] = {0, 8, 11, 13, 600 * 1024, UINT32_MAX - 3};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        begin_pcapng(false);
        add_interface(1);
        add_packet(0, 0, "before");
        size_t begin = built.size;
        add_packet(0, 0, "after");
        patch_uint(begin + 4, lengths[i], 4, built.big);
        const outcome *seen = scan();
        CHECK_STATUS(seen->status, FB_END);
        CHECK_PAYLOAD(seen, "before");
        CHECK_EQUAL(seen->counters[FB_DAMAGED_CAPTURE], 1);
        CHECK_EQUAL(count_all(seen), 1);
    }
}

static void stops_at_a_block_with_two_different_lengths(void) {
    begin_pcapng(false);
    add_interface(1);
    add_packet(0, 0, "x");
    patch_uint(built.size - 4, 64, 4, false);
    const outcome *seen = scan();
    CHECK_EQUAL(seen->count, 0);
    CHECK_EQUAL(seen->counters[FB_DAMAGED_CAPTURE], 1);
}

static void checks_the_length_of_skipped_blocks(void) {
    begin_pcapng(false);
    file32(5), file32(13), put_zeros(5);
    const outcome *seen = scan();
    CHECK_STATUS(seen->status, FB_END);
    CHECK_EQUAL(seen->counters[FB_DAMAGED_CAPTURE], 1);
}

static void stops_at_a_section_without_byte_order(void) {
    begin_pcapng(false);
    size_t section = built.size;
    add_section(false);
    add_interface(1);
    add_packet(0, 0, "x");
    built.data[section + 8] ^= 1;
    const outcome *seen = scan();
    CHECK_EQUAL(seen->count, 0);
    CHECK_EQUAL(seen->counters[FB_DAMAGED_CAPTURE], 1);
    CHECK_EQUAL(count_all(seen), 1);
}

static void continues_after_a_block_with_invalid_content(void) {
    begin_pcapng(false);
    add_interface(1);
    add_packet(7, 0, "an interface that does not exist");
    size_t begin = built.size;
    add_packet(0, 0, "more captured than the block holds");
    patch_uint(begin + 20, 4000, 4, false);
    size_t body = begin_block(6); /* only an interface */
    file32(0);
    end_block(body);
    end_block(begin_block(3));
    end_block(begin_block(1));
    add_packet(0, 0, "good");
    const outcome *seen = scan();
    CHECK_STATUS(seen->status, FB_END);
    CHECK_EQUAL(seen->count, 1);
    CHECK_PAYLOAD(seen, "good");
    CHECK_EQUAL(seen->counters[FB_BAD_CAPTURE_RECORD], 5);
}

static void skips_blocks_larger_than_any_window(void) {
    begin_pcapng(false);
    add_interface(1);
    size_t body = begin_block(0x0bad);
    put_zeros(700 * 1024);
    end_block(body);
    add_packet(0, 0, "behind it");
    const outcome *seen = scan_built((reading){.options = ANY_PORT, .step = 1000});
    CHECK_STATUS(seen->status, FB_END);
    CHECK_PAYLOAD(seen, "behind it");
    built.size = body + 1000;
    seen = scan();
    CHECK_STATUS(seen->status, FB_END);
    CHECK_EQUAL(seen->counters[FB_TRUNCATED_CAPTURE], 1);
}

static void bounds_the_interfaces_of_a_section(void) {
    begin_pcapng(false);
    size_t section = built.size;
    add_interface(1);
    size_t one = built.size - section;
    fb_memory memory = fb_memory_system(0);
    fb_capture *capture;
    fb_datagram datagram;
    size_t count, consumed;
    CHECK_STATUS(fb_capture_new(&capture, &memory, ANY_PORT), FB_OK);
    fb_capture_scan(capture, (fb_bytes){built.data, built.size}, false, &datagram, 1, &count,
                    &consumed);
    for (int i = 0; i < 70000; i++)
        fb_capture_scan(capture, (fb_bytes){built.data + section, one}, false, &datagram, 1, &count,
                        &consumed);
    CHECK_EQUAL(fb_capture_counters(capture)[FB_BAD_CAPTURE_RECORD], 70001 - 65536);
    CHECK(memory.used < 3 * 1024 * 1024);
    fb_capture_free(capture);
}

static bool same_datagrams(const outcome *a, const outcome *b) {
    return a->count == b->count && a->log_size == b->log_size &&
           memcmp(a->log, b->log, a->log_size) == 0 &&
           memcmp(a->counters, b->counters, sizeof a->counters) == 0 &&
           a->stats.packets == b->stats.packets;
}

typedef void build_function(void);
static build_function *const small_captures[] = {build_small_pcap, build_small_pcapng};

static void gives_the_same_datagrams_at_every_window_and_capacity(void) {
    static outcome whole;
    for (size_t i = 0; i < 2; i++) {
        small_captures[i]();
        whole = *scan();
        CHECK_STATUS(whole.status, FB_END);
        CHECK_EQUAL(whole.count, 3);
        for (size_t step = 1; step <= built.size; step++)
            for (size_t capacity = 1; capacity <= 4; capacity++)
                CHECK(same_datagrams(&whole,
                                     scan_built((reading){ANY_PORT, step, capacity, 0, false})));
    }
}

/* Packets before the cut are delivered. The rest is one truncated capture, unless the cut is
   between records. */
static void delivers_the_packets_before_every_cut(void) {
    for (size_t i = 0; i < 2; i++) {
        size_t delivered = 0, at_boundaries = 0;
        small_captures[i]();
        for (size_t size = 24; size <= built.size; size++) {
            const outcome *seen = scan_bytes(built.data, size, (reading){.options = ANY_PORT});
            CHECK_STATUS(seen->status, FB_END);
            CHECK(seen->count == delivered || seen->count == delivered + 1);
            delivered = seen->count;
            at_boundaries += seen->counters[FB_TRUNCATED_CAPTURE] == 0;
            CHECK_EQUAL(seen->counters[FB_DAMAGED_CAPTURE], 0);
        }
        CHECK_EQUAL(delivered, 3);
        CHECK_EQUAL(at_boundaries, i == 0 ? 6 : 8); /* the file header and 5 records; 8 blocks */
    }
}

/* Every packet is delivered, counted, or stored as a fragment. All payloads were read (see the
   builder). */
static void check_nothing_is_lost(const outcome *seen) {
    uint64_t counted = seen->counters[FB_OTHER_PACKET] + seen->counters[FB_OTHER_PORT] +
                       seen->counters[FB_TRUNCATED_PACKET] +
                       seen->counters[FB_UNSUPPORTED_LINK_TYPE];
    CHECK(seen->stats.datagrams == seen->count);
    CHECK(seen->stats.packets >= seen->count + counted);
    CHECK(seen->stats.packets <= seen->count + counted + 2); /* the fragments in small_pcap */
    CHECK_EQUAL(seen->held, 0);
}

/* Flip one bit, or clear or set all bits. */
static uint8_t damage(uint8_t byte, int change) {
    if (change < 8) return (uint8_t)(byte ^ 1 << change);
    return change == 8 ? 0 : 0xff;
}

static void survives_every_damaged_byte(void) {
    for (size_t i = 0; i < 2; i++) {
        small_captures[i]();
        for (size_t at = 0; at < built.size; at++) {
            uint8_t good = built.data[at];
            for (int change = 0; change < 10; change++) {
                built.data[at] = damage(good, change);
                const outcome *seen = scan();
                CHECK(seen->status == FB_END || (at < 24 && seen->status == FB_NOT_A_CAPTURE));
                check_nothing_is_lost(seen);
            }
            built.data[at] = good;
        }
    }
}

static void survives_every_failed_allocation(void) {
    for (size_t i = 0; i < 2; i++) {
        small_captures[i]();
        for (size_t fail_at = 1; fail_at <= 5; fail_at++) {
            for (int forever = 0; forever < 2; forever++) {
                const outcome *seen = scan_built((reading){ANY_PORT, 0, 0, fail_at, forever});
                CHECK_EQUAL(seen->held, 0);
                CHECK(seen->status == FB_END || seen->status == FB_NO_MEMORY);
                if (fail_at == 1) CHECK_STATUS(seen->status, FB_NO_MEMORY);
                /* If there is no memory for the fragments of a datagram, only that datagram is
                   lost. */
                if (i == 0 && (fail_at == 2 || fail_at == 3)) {
                    CHECK_EQUAL(seen->count, 2);
                    CHECK(seen->counters[FB_FRAGMENT_DROPPED] >= 1);
                }
            }
        }
    }
}

static void continues_when_memory_is_available_again(void) {
    build_small_pcapng();
    fb_check_allocator allocator = {.fail_at = 2};
    fb_memory memory = fb_check_memory(&allocator);
    fb_capture *capture;
    fb_datagram datagrams[4];
    size_t count, consumed;
    CHECK_STATUS(fb_capture_new(&capture, &memory, ANY_PORT), FB_OK);
    fb_bytes input = {built.data, built.size};
    CHECK_STATUS(fb_capture_scan(capture, input, true, datagrams, 4, &count, &consumed),
                 FB_NO_MEMORY);
    input = (fb_bytes){input.data + consumed, input.size - consumed};
    CHECK_STATUS(fb_capture_scan(capture, input, true, datagrams, 4, &count, &consumed), FB_END);
    CHECK_EQUAL(count, 3);
    fb_capture_free(capture);
    CHECK_EQUAL(allocator.held, 0);
}

RUN_TESTS(TEST(reads_pcap_of_both_byte_orders_and_all_magic_numbers),
          TEST(ignores_the_fcs_bits_of_a_link_type), TEST(carries_a_fraction_above_one_second),
          TEST(reads_sections_of_both_byte_orders_in_one_pcapng),
          TEST(reads_the_link_type_of_each_interface), TEST(bounds_the_list_of_link_types),
          TEST(numbers_interfaces_per_section), TEST(reads_obsolete_packet_blocks),
          TEST(cuts_simple_packets_at_the_snaplen), TEST(converts_every_time_resolution_and_offset),
          TEST(filters_by_destination_port), TEST(refuses_files_that_are_not_captures),
          TEST(repeats_the_last_status_after_the_end),
          TEST(stops_at_a_pcap_record_of_impossible_length),
          TEST(stops_at_a_pcapng_block_of_impossible_length),
          TEST(stops_at_a_block_with_two_different_lengths),
          TEST(checks_the_length_of_skipped_blocks), TEST(stops_at_a_section_without_byte_order),
          TEST(continues_after_a_block_with_invalid_content),
          TEST(skips_blocks_larger_than_any_window), TEST(bounds_the_interfaces_of_a_section),
          TEST(gives_the_same_datagrams_at_every_window_and_capacity),
          TEST(delivers_the_packets_before_every_cut), TEST(survives_every_damaged_byte),
          TEST(survives_every_failed_allocation), TEST(continues_when_memory_is_available_again))
