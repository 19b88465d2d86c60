/* Statuses, loads and memory budgets. */
#include "tests/support/check.h"

static void gives_every_status_a_unique_name(void) {
    for (unsigned i = 0; i < FB_STATUS_COUNT; i++) {
        CHECK(strlen(fb_status_name((fb_status)i)) > 0);
        CHECK(strlen(fb_status_text((fb_status)i)) > 0);
        for (unsigned k = 0; k < i; k++)
            CHECK(strcmp(fb_status_name((fb_status)i), fb_status_name((fb_status)k)) != 0);
    }
    CHECK_EQUAL(fb_status_get_class(FB_OK), FB_CLASS_CONTROL);
    CHECK_EQUAL(fb_status_get_class(FB_BAD_TEMPLATE), FB_CLASS_FAULT);
    CHECK_EQUAL(fb_status_get_class(FB_TEMPLATE_MISSING), FB_CLASS_LOSS);
    CHECK_EQUAL(fb_status_get_class(FB_WITHDRAWAL), FB_CLASS_NOTE);
    CHECK(strcmp(fb_status_name(FB_STATUS_COUNT), "unknown") == 0);
}

static void loads_big_endian_integers(void) {
    static const uint8_t bytes[] = {0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8};
    CHECK_EQUAL(fb_load16(bytes), 0xf1f2);
    CHECK_EQUAL(fb_load24(bytes), 0xf1f2f3);
    CHECK_EQUAL(fb_load32(bytes), 0xf1f2f3f4);
    CHECK_EQUAL(fb_load48(bytes), 0xf1f2f3f4f5f6);
    CHECK_EQUAL(fb_load64(bytes), 0xf1f2f3f4f5f6f7f8);
    for (size_t size = 1; size <= 8; size++)
        CHECK_EQUAL(fb_load_uint(bytes, size), fb_load64(bytes) >> 8 * (8 - size));
    CHECK_EQUAL(fb_load_uint(bytes, 0), 0);
}

static void stays_within_the_memory_limit(void) {
    fb_check_allocator allocator = {0};
    fb_memory memory = fb_check_memory(&allocator);
    memory.limit = 100;
    uint8_t *p = fb_memory_allocate(&memory, 60);
    CHECK(p && p[0] == 0 && p[59] == 0);
    memset(p, 1, 60);
    CHECK(!fb_memory_allocate(&memory, 41));
    CHECK_EQUAL(memory.used, 60);
    CHECK(!fb_memory_resize(&memory, p, 60, 101));
    p = fb_memory_resize(&memory, p, 60, 100);
    CHECK(p && p[59] == 1 && p[60] == 0 && p[99] == 0);
    CHECK(!fb_memory_charge(&memory, 1));
    p = fb_memory_resize(&memory, p, 100, 10);
    CHECK_EQUAL(memory.used, 10);
    CHECK(fb_memory_charge(&memory, 90));
    CHECK(fb_memory_charge(&memory, -90));
    fb_memory_release(&memory, p, 10);
    fb_memory_release(&memory, NULL, 10);
    CHECK_EQUAL(memory.used, 0);
    CHECK_EQUAL(allocator.held, 0);
}

static void charges_an_inner_budget_to_the_outer_one(void) {
    fb_check_allocator allocator = {0};
    fb_memory parent = fb_check_memory(&allocator);
    parent.limit = 100;
    fb_memory child = fb_memory_within(&parent, 50), sibling = fb_memory_within(&parent, 0);
    CHECK(!fb_memory_allocate(&child, 51));
    void *mine = fb_memory_allocate(&child, 50), *other = fb_memory_allocate(&sibling, 50);
    CHECK(mine && other);
    CHECK_EQUAL(parent.used, 100);
    CHECK(!fb_memory_allocate(&sibling, 1));
    CHECK_EQUAL(sibling.used, 50);
    fb_memory_release(&child, mine, 50), fb_memory_release(&sibling, other, 50);
    CHECK_EQUAL(parent.used, 0);
    CHECK_EQUAL(allocator.held, 0);
}

RUN_TESTS(TEST(gives_every_status_a_unique_name), TEST(loads_big_endian_integers),
          TEST(stays_within_the_memory_limit), TEST(charges_an_inner_budget_to_the_outer_one))
