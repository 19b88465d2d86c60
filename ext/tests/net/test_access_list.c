/* Allowed and denied sources. */
#include "tests/support/check.h"

#include "net/access_list.h"

enum { COUNT = 5 };

static fb_prefix network(uint8_t a, uint8_t b, uint8_t c, uint8_t d, unsigned bits) {
    return (fb_prefix){{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d},
                       (uint8_t)(96 + bits)};
}

static void fill(fb_datagram *datagrams) {
    static const uint8_t last[COUNT] = {1, 2, 1, 3, 2};
    for (size_t i = 0; i < COUNT; i++) {
        datagrams[i] = (fb_datagram){.time = i};
        memcpy(datagrams[i].source, network(192, 0, 2, last[i], 32).address, 16);
    }
}

/* Check that the datagrams with these times remain. */
static void check_filter(const fb_access_list *list, const uint64_t *times, size_t count) {
    fb_datagram datagrams[COUNT];
    fill(datagrams);
    CHECK_EQUAL(fb_access_list_filter(list, datagrams, COUNT), count);
    for (size_t i = 0; i < count; i++) CHECK_EQUAL(datagrams[i].time, times[i]);
}

static void datagrams_of_admitted_sources_remain_in_order(void) {
    fb_memory memory = fb_memory_system(0);
    fb_access_list list;
    const fb_prefix allowed = network(192, 0, 2, 0, 24), denied = network(192, 0, 2, 1, 32);
    CHECK_STATUS(fb_access_list_new(&list, &allowed, 1, &denied, 1, &memory), FB_OK);
    check_filter(&list, (uint64_t[]){1, 3, 4}, 3);
    fb_access_list_free(&list);
    CHECK_STATUS(fb_access_list_new(&list, NULL, 0, &denied, 1, &memory), FB_OK);
    check_filter(&list, (uint64_t[]){1, 3, 4}, 3);
    fb_access_list_free(&list);
    CHECK_STATUS(fb_access_list_new(&list, &denied, 1, NULL, 0, &memory), FB_OK);
    check_filter(&list, (uint64_t[]){0, 2}, 2);
    fb_access_list_free(&list);
    CHECK_EQUAL(memory.used, 0);
}

/* A larger denied network has priority over a smaller allowed one. */
static void denied_networks_have_priority(void) {
    fb_memory memory = fb_memory_system(0);
    fb_access_list list;
    const fb_prefix allowed = network(192, 0, 2, 1, 32), denied = network(192, 0, 0, 0, 16);
    CHECK_STATUS(fb_access_list_new(&list, &allowed, 1, &denied, 1, &memory), FB_OK);
    check_filter(&list, NULL, 0);
    CHECK(!fb_access_list_admits(&list, allowed.address));
    fb_access_list_free(&list);
}

static void an_empty_list_admits_all(void) {
    fb_memory memory = fb_memory_system(0);
    fb_access_list list;
    CHECK_STATUS(fb_access_list_new(&list, NULL, 0, NULL, 0, &memory), FB_OK);
    check_filter(&list, (uint64_t[]){0, 1, 2, 3, 4}, COUNT);
    fb_access_list_free(&list);
}

static void failed_allocations_leave_nothing(void) {
    const fb_prefix prefix = network(192, 0, 2, 0, 24);
    for (size_t fail_at = 1; fail_at <= 5; fail_at++) {
        fb_check_allocator allocator = {.fail_at = fail_at};
        fb_memory memory = fb_check_memory(&allocator);
        fb_access_list list;
        fb_status status = fb_access_list_new(&list, &prefix, 1, &prefix, 1, &memory);
        CHECK_STATUS(status, fail_at < 5 ? FB_NO_MEMORY : FB_OK);
        fb_access_list_free(&list);
        CHECK_EQUAL(allocator.held, 0);
    }
}

RUN_TESTS(TEST(datagrams_of_admitted_sources_remain_in_order), TEST(denied_networks_have_priority),
          TEST(an_empty_list_admits_all), TEST(failed_allocations_leave_nothing))
