/* Searches in tables of networks, compared with a search of all networks in turn. */
#include "tests/support/check.h"

#include "core/base/address_parse.h"
#include "core/base/prefix_table.h"

enum { MOST = 40 };

static fb_prefix network(const char *address, unsigned bits) {
    fb_prefix prefix = {.bits = (uint8_t)bits};
    CHECK(fb_address_read((fb_bytes){(const uint8_t *)address, strlen(address)}, prefix.address));
    return prefix;
}

static void address_of(const char *text, uint8_t address[16]) {
    memcpy(address, network(text, 0).address, 16);
}

static bool contains(const fb_prefix *prefix, const uint8_t address[16]) {
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (prefix->bits < 96 && !memcmp(address, mapped, 12)) return false;
    for (unsigned bit = 0; bit < prefix->bits; bit++)
        if ((prefix->address[bit / 8] ^ address[bit / 8]) & 0x80 >> bit % 8) return false;
    return true;
}

static uint32_t search_all(const fb_prefix *prefixes, size_t count, const uint8_t address[16]) {
    uint32_t best = FB_PREFIX_NONE;
    for (size_t i = 0; i < count; i++)
        if (contains(&prefixes[i], address) &&
            (best == FB_PREFIX_NONE || prefixes[i].bits >= prefixes[best].bits))
            best = (uint32_t)i;
    return best;
}

static void check_find(const fb_prefix *prefixes, size_t count, const char *text,
                       uint32_t expected) {
    fb_memory memory = fb_memory_system(0);
    fb_prefix_table table;
    uint8_t address[16];
    address_of(text, address);
    CHECK_STATUS(fb_prefix_table_new(&table, prefixes, count, NULL, &memory), FB_OK);
    CHECK_EQUAL(fb_prefix_table_find(&table, address), expected);
    CHECK_EQUAL(search_all(prefixes, count, address), expected);
    fb_prefix_table_free(&table);
    CHECK_EQUAL(memory.used, 0);
}

static void the_longest_network_is_found(void) {
    const fb_prefix prefixes[] = {
        network("2001:db8::", 32),
        network("192.0.2.0", 96 + 24),
        network("192.0.2.17", 128),
        network("2001:db8:1::", 48),
    };
    check_find(prefixes, 4, "192.0.2.17", 2);
    check_find(prefixes, 4, "192.0.2.16", 1);
    check_find(prefixes, 4, "192.0.2.18", 1);
    check_find(prefixes, 4, "192.0.3.0", FB_PREFIX_NONE);
    check_find(prefixes, 4, "192.0.1.255", FB_PREFIX_NONE);
    check_find(prefixes, 4, "2001:db8:1:ffff::", 3);
    check_find(prefixes, 4, "2001:db8:2::", 0);
    check_find(prefixes, 4, "2001:db9::", FB_PREFIX_NONE);
}

static void an_empty_table_contains_nothing(void) {
    check_find(NULL, 0, "192.0.2.1", FB_PREFIX_NONE);
    check_find(NULL, 0, "::", FB_PREFIX_NONE);
    uint8_t address[16] = {0};
    CHECK_EQUAL(fb_prefix_table_find(&(fb_prefix_table){0}, address), FB_PREFIX_NONE);
}

static void networks_of_ipv6_do_not_contain_ipv4(void) {
    const fb_prefix all[] = {network("::", 0), network("0.0.0.0", 96)};
    check_find(all, 1, "2001:db8::1", 0);
    check_find(all, 1, "192.0.2.1", FB_PREFIX_NONE);
    check_find(all, 1, "::fffe:ffff:ffff", 0);
    check_find(all, 1, "::1:0:0:0", 0);
    check_find(all, 2, "192.0.2.1", 1);
    check_find(all, 2, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 0);
}

static void the_last_of_equal_networks_counts(void) {
    const fb_prefix twice[] = {network("192.0.2.0", 120), network("192.0.2.1", 120)};
    check_find(twice, 2, "192.0.2.200", 1);
}

static void the_network_around_each_is_found(void) {
    fb_memory memory = fb_memory_system(0);
    fb_prefix_table table;
    const fb_prefix prefixes[] = {
        network("192.0.2.17", 128), network("::", 0),           network("192.0.2.0", 120),
        network("2001:db8::", 32),  network("192.0.2.16", 124), network("0.0.0.0", 96),
    };
    uint32_t outer[6];
    CHECK_STATUS(fb_prefix_table_new(&table, prefixes, 6, outer, &memory), FB_OK);
    const uint32_t expected[6] = {4, FB_PREFIX_NONE, 5, 1, 2, FB_PREFIX_NONE};
    for (size_t i = 0; i < 6; i++) CHECK_EQUAL(outer[i], expected[i]);
    fb_prefix_table_free(&table);
}

/* The block of IPv4 addresses is not part of a shorter network of IPv6. */
static void ipv4_networks_are_not_within_ipv6(void) {
    fb_memory memory = fb_memory_system(0);
    fb_prefix_table table;
    const fb_prefix prefixes[] = {network("::", 0), network("192.0.2.0", 120)};
    uint32_t outer[2];
    CHECK_STATUS(fb_prefix_table_new(&table, prefixes, 2, outer, &memory), FB_OK);
    CHECK_EQUAL(outer[1], FB_PREFIX_NONE);
    fb_prefix_table_free(&table);
}

static void invalid_networks_are_refused(void) {
    fb_memory memory = fb_memory_system(0);
    fb_prefix_table table;
    fb_prefix prefix = network("::", 129);
    CHECK_STATUS(fb_prefix_table_new(&table, &prefix, 1, NULL, &memory), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_prefix_table_new(&table, &prefix, SIZE_MAX / 2, NULL, &memory),
                 FB_BAD_ARGUMENT);
    fb_prefix_table_free(&table);
    CHECK_EQUAL(memory.used, 0);
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* Few distinct bytes, so that networks are often nested, equal or adjacent. */
static void random_address(uint32_t *state, uint8_t address[16]) {
    static const uint8_t bytes[] = {0, 0xff, 0x80, 0x7f};
    memset(address, 0, 16);
    bool mapped = next_random(state) % 2;
    if (mapped) address[10] = address[11] = 0xff;
    for (size_t i = mapped ? 12 : 0; i < 16; i++) address[i] = bytes[next_random(state) % 4];
}

static void random_tables_agree_with_a_search_of_all(void) {
    uint32_t state = 1;
    for (int round = 0; round < 2000; round++) {
        fb_memory memory = fb_memory_system(0);
        fb_prefix_table table;
        fb_prefix prefixes[MOST];
        uint8_t address[16];
        size_t count = next_random(&state) % MOST;
        for (size_t i = 0; i < count; i++) {
            random_address(&state, prefixes[i].address);
            prefixes[i].bits = (uint8_t)(next_random(&state) % 129);
        }
        CHECK_STATUS(fb_prefix_table_new(&table, prefixes, count, NULL, &memory), FB_OK);
        for (int i = 0; i < 50; i++) {
            random_address(&state, address);
            CHECK_EQUAL(fb_prefix_table_find(&table, address),
                        search_all(prefixes, count, address));
        }
        fb_prefix_table_free(&table);
        CHECK_EQUAL(memory.used, 0);
    }
}

static void failed_allocations_leave_nothing(void) {
    const fb_prefix prefix = network("192.0.2.0", 120);
    for (size_t fail_at = 1; fail_at < 4; fail_at++) {
        fb_check_allocator allocator = {.fail_at = fail_at};
        fb_memory memory = fb_check_memory(&allocator);
        fb_prefix_table table;
        fb_status status = fb_prefix_table_new(&table, &prefix, 1, NULL, &memory);
        CHECK_STATUS(status, fail_at < 3 ? FB_NO_MEMORY : FB_OK);
        fb_prefix_table_free(&table);
        CHECK_EQUAL(allocator.held, 0);
    }
}

RUN_TESTS(TEST(the_longest_network_is_found), TEST(an_empty_table_contains_nothing),
          TEST(networks_of_ipv6_do_not_contain_ipv4), TEST(the_last_of_equal_networks_counts),
          TEST(the_network_around_each_is_found), TEST(ipv4_networks_are_not_within_ipv6),
          TEST(invalid_networks_are_refused), TEST(random_tables_agree_with_a_search_of_all),
          TEST(failed_allocations_leave_nothing))
