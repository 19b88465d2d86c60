/* Keys are numbered in the order of their first use, one by one or many at once. */
#include "tests/support/check.h"

#include "core/base/key_table.h"

enum { KEYS = 5000 };

typedef struct {
    uint64_t words[3];
} key;

static key key_of(uint64_t i) {
    return (key){{i % 7, 0, i}};
}

static void keys_are_numbered_in_the_order_of_first_use(void) {
    fb_memory memory = fb_memory_system(0);
    fb_key_table table = {.memory = &memory, .seed = 5, .size = sizeof(key)};
    for (unsigned round = 0; round < 2; round++)
        for (uint32_t i = 0; i < KEYS; i++) {
            uint32_t index;
            key one = key_of(i);
            CHECK_STATUS(fb_key_table_get(&table, &one, &index), FB_OK);
            CHECK_EQUAL(index, i);
            CHECK(memcmp(fb_key_table_key(&table, index), &one, sizeof one) == 0);
        }
    CHECK_EQUAL(table.count, KEYS);
    fb_key_table_free(&table);
    CHECK_EQUAL(table.count, 0);
    CHECK_EQUAL(memory.used, 0);
}

/* Many keys, each of them twice in a group and again later, get the numbers of single calls. */
static void many_keys_get_the_same_numbers(void) {
    fb_memory memory = fb_memory_system(0);
    fb_key_table one = {.memory = &memory, .seed = 5, .size = sizeof(key)}, many = one;
    static key keys[3 * KEYS];
    static uint32_t indexes[3 * KEYS];
    for (uint32_t i = 0; i < 3 * KEYS; i++) keys[i] = key_of(fb_hash(1, i / 2) % KEYS);
    for (size_t size = 0, first = 0; first + size <= 3 * KEYS; first += size, size = size % 40 + 1)
        CHECK_STATUS(fb_key_table_get_many(&many, keys + first, size, indexes + first), FB_OK);
    for (uint32_t i = 0, index; i < 3 * KEYS - 40; i++) {
        CHECK_STATUS(fb_key_table_get(&one, &keys[i], &index), FB_OK);
        CHECK_EQUAL(indexes[i], index);
    }
    fb_key_table_free(&one);
    fb_key_table_free(&many);
    CHECK_EQUAL(memory.used, 0);
}

static void survives_every_failed_allocation(void) {
    for (size_t fail_at = 1; fail_at < 12; fail_at++) {
        fb_check_allocator allocator = {.fail_at = fail_at};
        fb_memory memory = fb_check_memory(&allocator);
        fb_key_table table = {.memory = &memory, .seed = 5, .size = sizeof(key)};
        uint32_t failures = 0, index;
        for (uint32_t i = 0; i < 300; i++) {
            key some[3] = {key_of(i), key_of(i + 1), key_of(i)};
            uint32_t indexes[3];
            fb_status status = fb_key_table_get_many(&table, some, 3, indexes);
            failures += status == FB_NO_MEMORY;
            CHECK(status == FB_NO_MEMORY || (indexes[0] == i && indexes[2] == i));
            if (status == FB_NO_MEMORY)
                CHECK_STATUS(fb_key_table_get_many(&table, some, 3, indexes), FB_OK);
        }
        CHECK_EQUAL(failures, 1);
        key first = key_of(0);
        CHECK_STATUS(fb_key_table_get(&table, &first, &index), FB_OK);
        CHECK_EQUAL(index, 0);
        fb_key_table_free(&table);
        CHECK_EQUAL(allocator.held, 0);
    }
}

RUN_TESTS(TEST(keys_are_numbered_in_the_order_of_first_use), TEST(many_keys_get_the_same_numbers),
          TEST(survives_every_failed_allocation))
