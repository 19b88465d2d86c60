/* IP fragments: reassembled in any order, and dropped if they contradict each other or a limit is
   reached. */
#include "tests/builders/capture_builder.h"

/* A datagram of 8 + SIZE bytes: a UDP header, and bytes that differ from their neighbours. */
enum { SIZE = 92, WHOLE = 8 + SIZE };
static uint8_t whole[WHOLE];

typedef struct {
    unsigned begin, end;
    bool more;
} part;

/* Three parts; the size of the last is not a multiple of 8. */
static const part thirds[] = {{0, 40, true}, {40, 80, true}, {80, WHOLE, false}};

static void begin_fragments(void) {
    begin_pcap(MICRO, false, 101);
    for (unsigned i = 8; i < WHOLE; i++) whole[i] = (uint8_t)(i * 7);
    memcpy(whole, "\x07\xd0\x08\x07\0\x64\0\0", 8);
}

/* Add a fragment of any bytes. */
static void add_fragment_of(int family, unsigned id, uint32_t seconds, part part,
                            const void *bytes) {
    size_t record = begin_record(seconds, 0);
    size_t ip;
    if (family == IPV4) {
        ip = begin_ip((ip_header){IPV4, 1, 2, .protocol = UDP, .id = id,
                                  .fragment = part.begin / 8 | part.more << 13});
    } else {
        ip = begin_ip((ip_header){IPV6, 1, 2, .protocol = 44});
        net8(UDP), net8(0), net16(part.begin | part.more), net32(id);
    }
    put(bytes, part.end - part.begin);
    end_ip(ip);
    if (part.end < WHOLE) put_zeros(6); /* padding of the link layer */
    end_record(record, 0);
}

static void add_part(int family, unsigned id, uint32_t seconds, part part) {
    add_fragment_of(family, id, seconds, part, whole + part.begin);
}

#define CHECK_WHOLE(seen) \
    CHECK_BYTES((seen)->last.payload.data, (seen)->last.payload.size, whole + 8, SIZE)

static void reassembles_fragments_in_any_order(void) {
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int family = IPV4; family <= IPV6; family += IPV6 - IPV4) {
        for (int order = 0; order < 6; order++) {
            begin_fragments();
            for (uint32_t i = 0; i < 3; i++) add_part(family, 7, 10 + i, thirds[orders[order][i]]);
            const outcome *seen = scan();
            CHECK_STATUS(seen->status, FB_END);
            CHECK_EQUAL(seen->count, 1);
            CHECK_EQUAL(count_all(seen), 0);
            CHECK_EQUAL(seen->last.time, 12000000000); /* the time of completion, as for a socket */
            CHECK_EQUAL(seen->last.source_port, 2000);
            CHECK_EQUAL(seen->last.destination_port, 2055);
            CHECK_EQUAL(seen->last.source[15], 1);
            CHECK_EQUAL(seen->last.destination[15], 2);
            CHECK_WHOLE(seen);
            CHECK_EQUAL(seen->held, 0);
        }
    }
}

static void ignores_exact_repetitions(void) {
    for (int repeated = 0; repeated < 2; repeated++) {
        begin_fragments();
        for (int i = 0; i < 3; i++) {
            add_part(IPV4, 7, 1, thirds[i]);
            if (i < 2) add_part(IPV4, 7, 1, thirds[repeated * i]);
        }
        const outcome *seen = scan();
        CHECK_EQUAL(seen->count, 1);
        CHECK_EQUAL(count_all(seen), 0);
        CHECK_WHOLE(seen);
    }
    begin_fragments(); /* also for the last */
    add_part(IPV4, 7, 1, thirds[2]);
    add_part(IPV4, 7, 1, thirds[2]);
    add_part(IPV4, 7, 1, thirds[0]);
    add_part(IPV4, 7, 1, thirds[1]);
    CHECK_WHOLE(scan());
}

static void separates_the_fragments_of_datagrams(void) {
    begin_fragments();
    for (int i = 0; i < 3; i++) {
        add_part(IPV4, 7, 1, thirds[i]);
        add_part(IPV4, 8, 1, thirds[2 - i]);
        add_part(IPV6, 7, 1, thirds[i]);
    }
    const outcome *seen = scan();
    CHECK_EQUAL(seen->count, 3);
    CHECK_EQUAL(count_all(seen), 0);
    /* The destination is part of the key. */
    begin_fragments();
    add_part(IPV4, 7, 1, (part){0, 56, true});
    add_part(IPV4, 7, 1, (part){56, WHOLE, false});
    built.data[24 + 16 + 19] ^= 1; /* of the first fragment */
    seen = scan();
    CHECK_EQUAL(seen->count, 0);
    CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], 2);
}

/* Every sequence loses one datagram, even if more of its fragments arrive later. */
static void drops_datagrams_whose_fragments_conflict(void) {
    static const struct {
        part first, second;
    } cases[] = {
        {{0, 40, true}, {32, WHOLE, false}},  /* overlap at the end of the first */
        {{32, 80, true}, {0, 40, true}},      /* … of the second */
        {{0, 80, true}, {24, 32, true}},      /* inside, with other bytes: see below */
        {{24, 32, true}, {0, 80, true}},      /* around */
        {{80, WHOLE, false}, {80, 96, true}}, /* continues after the end */
        {{80, WHOLE, false}, {88, 104, true}},
        {{80, WHOLE, false}, {104, 112, true}},  /* after the end */
        {{80, WHOLE, false}, {104, 108, false}}, /* a second end */
        {{80, 96, true}, {40, 60, false}},       /* an end before what is there */
        {{0, 40, true}, {40, 44, true}},  /* an incomplete unit of 8 bytes before more fragments */
        {{0, 40, true}, {40, 40, false}}, /* empty */
    };
    static uint8_t other[WHOLE];
    memset(other, 0xee, sizeof other);
    for (int family = IPV4; family <= IPV6; family += IPV6 - IPV4) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            begin_fragments();
            add_part(family, 7, 1, cases[i].first);
            add_fragment_of(family, 7, 1, cases[i].second, other);
            for (int third = 0; third < 3; third++) add_part(family, 7, 1, thirds[third]);
            const outcome *seen = scan();
            CHECK_STATUS(seen->status, FB_END);
            CHECK_EQUAL(seen->count, 0);
            CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], 1);
            CHECK_EQUAL(count_all(seen), 1);
        }
    }
}

/* The received bytes equal the length from the last fragment, but one unit is missing. */
static void does_not_count_bytes_beyond_the_end(void) {
    static const part cases[][3] = {
        {{80, 100, false}, {104, 112, true}, {0, 72, true}},
        {{104, 112, true}, {0, 72, true}, {80, 100, false}},
        {{96, 100, false}, {0, 68, true}, {72, 76, false}},
        {{96, 104, false}, {0, 64, true}, {72, 80, false}},
        {{80, 100, false}, {100, 108, true}, {0, 72, true}},
    };
    static const uint8_t bytes[WHOLE + 12] = {0, 1, 0, 2};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_fragments();
        for (int j = 0; j < 3; j++)
            add_fragment_of(IPV6, 7, 1, cases[i][j], bytes + cases[i][j].begin);
        const outcome *seen = scan();
        CHECK_EQUAL(seen->count, 0);
        CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], 1);
        CHECK_EQUAL(count_all(seen), 1);
    }
}

/* RFC 5722: an overlap is an attack even if its bytes agree. Bytes that were not received are zero
   in the buffer. */
static void treats_equal_overlaps_as_conflicts(void) {
    begin_fragments();
    memset(whole + 40, 0, WHOLE - 40);
    add_part(IPV6, 7, 1, (part){0, 48, true});
    add_part(IPV6, 7, 1, (part){40, 80, true});
    add_part(IPV6, 7, 1, (part){48, WHOLE, false});
    const outcome *seen = scan();
    CHECK_EQUAL(seen->count, 0);
    CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], 1);
}

static void drops_datagrams_above_65535_bytes(void) {
    static const uint8_t first[8192] = {0, 1, 0, 2, 0xff, 0xff, 0, 0}, bytes[8192];
    for (unsigned last = 65535; last <= 65536; last++) {
        begin_fragments();
        for (unsigned begin = 0; begin < 65528; begin += 8192) {
            unsigned end = begin + 8192 < 65528 ? begin + 8192 : 65528;
            add_fragment_of(IPV6, 7, 1, (part){begin, end, true}, begin ? bytes : first);
        }
        add_fragment_of(IPV6, 7, 1, (part){65528, last, false}, bytes);
        const outcome *seen = scan();
        CHECK_EQUAL(seen->count, last == 65535);
        CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], last != 65535);
        if (seen->count) CHECK_EQUAL(seen->last.payload.size, 65527);
    }
}

static void counts_incomplete_datagrams(void) {
    begin_fragments();
    add_part(IPV4, 1, 1, thirds[0]);
    add_part(IPV4, 2, 1, thirds[1]);
    add_part(IPV4, 2, 1, thirds[2]);
    const outcome *seen = scan();
    CHECK_EQUAL(seen->count, 0);
    CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], 2);
}

static void waits_thirty_seconds_for_fragments(void) {
    for (uint32_t seconds = 30; seconds <= 31; seconds++) {
        begin_fragments();
        add_part(IPV4, 7, 100, thirds[0]);
        add_part(IPV4, 7, 100, thirds[1]);
        add_part(IPV4, 7, 100 + seconds, thirds[2]);
        const outcome *seen = scan();
        CHECK_EQUAL(seen->count, seconds == 30);
        CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], seconds == 30 ? 0 : 2);
    }
}

static void accepts_a_clock_that_runs_backwards(void) {
    begin_fragments();
    add_part(IPV4, 7, 1000, thirds[0]);
    add_part(IPV4, 7, 10, thirds[1]);
    add_part(IPV4, 7, 999, thirds[2]);
    CHECK_WHOLE(scan());
}

static void evicts_the_oldest_datagram(void) {
    begin_fragments();
    for (unsigned id = 0; id < 4; id++) add_part(IPV4, id, 1, thirds[0]);
    for (unsigned id = 0; id < 4; id++)
        add_part(IPV4, id, 1, thirds[1]), add_part(IPV4, id, 1, thirds[2]);
    const outcome *seen =
        scan_built((reading){.options = {.any_port = true, .fragment_datagrams = 4}});
    CHECK_EQUAL(seen->count, 4);
    CHECK_EQUAL(count_all(seen), 0);
    begin_fragments();
    for (unsigned id = 0; id < 5; id++) add_part(IPV4, id, 1, thirds[0]);
    for (unsigned id = 4; id < 5; id--)
        add_part(IPV4, id, 1, thirds[1]), add_part(IPV4, id, 1, thirds[2]);
    seen = scan_built((reading){.options = {.any_port = true, .fragment_datagrams = 4}});
    CHECK_EQUAL(seen->count, 4);
    /* the evicted datagram, and the one that its later fragments started */
    CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], 2);
}

/* The memory of fragments, and of completed datagrams, stays within the limit for any input. */
static void stays_within_its_memory_limit(void) {
    const size_t limits[] = {1, 1000, 5000, 100000};
    static const uint8_t bytes[8];
    for (size_t i = 0; i < 4; i++) {
        begin_fragments();
        size_t without = scan()->most_held;
        for (unsigned id = 0; id < 200; id++) {
            for (int third = 0; third < 3; third++) add_part(IPV4, id, 1, thirds[third]);
            add_fragment_of(IPV4, 1000 + id, 1, (part){65000, 65008, true}, bytes);
        }
        const outcome *seen =
            scan_built((reading){.options = {.any_port = true, .fragment_memory = limits[i]}});
        CHECK_STATUS(seen->status, FB_END);
        CHECK(seen->most_held <= without + limits[i]);
        if (limits[i] < 2000) {
            CHECK_EQUAL(seen->count, 0);
        } else {
            CHECK_EQUAL(seen->count, 200);
            CHECK_WHOLE(seen);
            CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], 200);
        }
        CHECK_EQUAL(seen->held, 0);
    }
}

static void drops_only_the_datagram_without_memory(void) {
    for (size_t fail_at = 1; fail_at <= 5; fail_at++) {
        begin_fragments();
        for (unsigned id = 0; id < 2; id++)
            for (int third = 0; third < 3; third++) add_part(IPV4, id, 1, thirds[third]);
        const outcome *seen = scan_built((reading){.options = ANY_PORT, .fail_at = fail_at});
        CHECK_EQUAL(seen->held, 0);
        if (fail_at == 1) {
            CHECK_STATUS(seen->status, FB_NO_MEMORY);
            continue;
        }
        CHECK_STATUS(seen->status, FB_END);
        CHECK(seen->count >= 1);
        CHECK((seen->count == 2) == (seen->counters[FB_FRAGMENT_DROPPED] == 0));
    }
}

static void counts_fragments_cut_by_the_snaplen(void) {
    begin_fragments();
    add_part(IPV4, 7, 1, thirds[0]);
    size_t record = begin_record(1, 0);
    size_t ip = begin_ip((ip_header){IPV4, 1, 2, .protocol = UDP, .id = 7, .fragment = 5});
    put(whole + 40, SIZE - 32);
    end_ip(ip);
    end_record(record, 4);
    const outcome *seen = scan();
    CHECK_EQUAL(seen->count, 0);
    CHECK_EQUAL(seen->counters[FB_TRUNCATED_PACKET], 1);
    CHECK_EQUAL(seen->counters[FB_FRAGMENT_DROPPED], 1);
}

static void ignores_fragments_of_other_protocols(void) {
    begin_fragments();
    size_t record = begin_record(1, 0);
    size_t ip = begin_ip((ip_header){IPV4, 1, 2, .protocol = 6, .id = 7, .fragment = 1 << 13});
    put(whole, 40);
    end_ip(ip);
    end_record(record, 0);
    CHECK_ONE_PACKET(FB_OTHER_PACKET);
    begin_fragments();
    record = begin_record(1, 0);
    ip = begin_ip((ip_header){IPV6, 1, 2, .protocol = 44});
    net8(58), net8(0), net16(1), net32(7);
    put(whole, 40);
    end_ip(ip);
    end_record(record, 0);
    CHECK_ONE_PACKET(FB_OTHER_PACKET);
}

/* RFC 8200: the fragmentable part may contain destination options, but not a fragment header. */
static void reads_extension_headers_of_reassembled_datagrams(void) {
    for (int nested = 0; nested < 2; nested++) {
        begin_fragments();
        uint8_t content[8 + WHOLE] = {UDP, 0, 0, 0};
        if (nested) content[3] = 1; /* more fragments */
        memcpy(content + 8, whole, WHOLE);
        for (unsigned begin = 0; begin < sizeof content; begin += 24) {
            unsigned end = begin + 24 < sizeof content ? begin + 24 : (unsigned)sizeof content;
            size_t record = begin_record(1, 0);
            size_t ip = begin_ip((ip_header){IPV6, 1, 2, .protocol = 44});
            net8(begin || !nested ? 60 : 44), net8(0), net16(begin | (end < sizeof content)),
                net32(7);
            put(content + begin, end - begin);
            end_ip(ip);
            end_record(record, 0);
        }
        const outcome *seen = scan();
        CHECK_EQUAL(seen->count, !nested);
        CHECK_EQUAL(seen->counters[FB_OTHER_PACKET], nested);
        CHECK_EQUAL(count_all(seen), nested);
        if (!nested) CHECK_WHOLE(seen);
    }
}

RUN_TESTS(TEST(reassembles_fragments_in_any_order), TEST(ignores_exact_repetitions),
          TEST(separates_the_fragments_of_datagrams),
          TEST(drops_datagrams_whose_fragments_conflict), TEST(does_not_count_bytes_beyond_the_end),
          TEST(treats_equal_overlaps_as_conflicts), TEST(drops_datagrams_above_65535_bytes),
          TEST(counts_incomplete_datagrams), TEST(waits_thirty_seconds_for_fragments),
          TEST(accepts_a_clock_that_runs_backwards), TEST(evicts_the_oldest_datagram),
          TEST(stays_within_its_memory_limit), TEST(drops_only_the_datagram_without_memory),
          TEST(counts_fragments_cut_by_the_snaplen), TEST(ignores_fragments_of_other_protocols),
          TEST(reads_extension_headers_of_reassembled_datagrams))
