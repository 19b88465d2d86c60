/* Output buffers grow, keep their contents, and refuse sizes that no object can have. */
#include "tests/support/check.h"

#include "core/base/buffer.h"

static void grows_by_doubling(void) {
    CHECK_EQUAL(fb_grown_capacity(0, 0, 1), 1);
    CHECK_EQUAL(fb_grown_capacity(100, 90, 20), 200);
    CHECK_EQUAL(fb_grown_capacity(100, 90, 500), 590);
}

static void refuses_sizes_that_overflow(void) {
    const size_t most = PTRDIFF_MAX;
    CHECK_EQUAL(fb_grown_capacity(most, most, 1), 0);
    CHECK_EQUAL(fb_grown_capacity(1, SIZE_MAX, 1), 0);
    CHECK_EQUAL(fb_grown_capacity(1, 1, SIZE_MAX), 0);
    CHECK_EQUAL(fb_grown_capacity(most, most - 1, 1), most);
    CHECK_EQUAL(fb_grown_capacity(most / 2 + 1, 10, 10), most);
}

static void keeps_its_contents(void) {
    fb_buffer buffer = {NULL, NULL, NULL};
    for (size_t i = 0; i < 10000; i++) {
        CHECK_STATUS(fb_buffer_reserve(&buffer, 1), FB_OK);
        CHECK(buffer.p < buffer.end);
        *buffer.p++ = (uint8_t)(i * 7);
    }
    CHECK_EQUAL(fb_buffer_size(&buffer), 10000);
    for (size_t i = 0; i < 10000; i++) CHECK_EQUAL(buffer.begin[i], (uint8_t)(i * 7));
    fb_buffer_free(&buffer);
    CHECK(!buffer.begin && !buffer.p && !buffer.end);
}

static void stays_as_it_is_without_memory(void) {
    fb_buffer buffer = {NULL, NULL, NULL};
    CHECK_STATUS(fb_buffer_grow(&buffer, SIZE_MAX), FB_NO_MEMORY);
    CHECK(!buffer.begin);
    CHECK_STATUS(fb_buffer_reserve(&buffer, 8), FB_OK);
    *buffer.p++ = 42;
    fb_buffer before = buffer;
    CHECK_STATUS(fb_buffer_grow(&buffer, SIZE_MAX), FB_NO_MEMORY);
    CHECK_STATUS(fb_buffer_grow(&buffer, PTRDIFF_MAX), FB_NO_MEMORY);
    CHECK(buffer.begin == before.begin && buffer.p == before.p && buffer.end == before.end);
    CHECK_EQUAL(*buffer.begin, 42);
    fb_buffer_free(&buffer);
}

/* Pairs of a key and their position before sorting. */
static int compare_keys(const void *context, const void *one, const void *other) {
    const int *a = one, *b = other, sign = *(const int *)context;
    return sign * ((a[0] > b[0]) - (a[0] < b[0]));
}

static void sorts_and_keeps_the_order_of_equal_items(void) {
    int pairs[300][2];
    for (int sign = -1; sign <= 1; sign += 2)
        for (size_t count = 0; count <= 300; count++) {
            for (size_t i = 0; i < count; i++) {
                pairs[i][0] = (int)(i * 7919 % 13);
                pairs[i][1] = (int)i;
            }
            CHECK_STATUS(fb_stable_sort(pairs, count, sizeof *pairs, compare_keys, &sign), FB_OK);
            for (size_t i = 1; i < count; i++) {
                const int order = compare_keys(&sign, pairs[i - 1], pairs[i]);
                CHECK(order < 0 || (order == 0 && pairs[i - 1][1] < pairs[i][1]));
            }
        }
}

RUN_TESTS(TEST(sorts_and_keeps_the_order_of_equal_items), TEST(grows_by_doubling),
          TEST(refuses_sizes_that_overflow), TEST(keeps_its_contents),
          TEST(stays_as_it_is_without_memory))
