/* Vector instructions give the same bytes as scalar code, for numbers and tags of every size. On
   processors without them there is nothing to test. */
#include "tests/support/check.h"

#include "core/base/base.h"

#ifdef FB_NEWER_PROCESSORS
#pragma GCC push_options
#pragma GCC target("bmi,bmi2,lzcnt") /* every processor that gets here has these */
#include "core/wire/wire.h"

static void spreads_numbers_into_varints(void) {
    for (unsigned bits = 0; bits < 56; bits++) {
        uint64_t number = UINT64_C(0xffffffffffffff) >> bits;
        uint8_t expected[FB_VARINT_MAX], bytes[8];
        size_t size = (size_t)(fb_wire_put_varint(expected, number) - expected), found;
        fb_store64(bytes, fb_wire_short_varint(number, &found));
        CHECK_EQUAL(found, size);
        CHECK(memcmp(bytes, expected, size) == 0);
    }
}
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target( \
    "bmi,bmi2,lzcnt,popcnt,avx2,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")
#include "core/emit/varint_simd.h"
#include "tests/support/plan_text.h"

/* Field numbers with tags of one to five bytes. */
static const char columns[] = "1 one uint\n15 also_one uint\n16 two uint\n2047 also_two uint\n"
                              "2048 three uint\n262143 also_three uint\n262144 four uint\n"
                              "536870911 five uint\n";

static uint64_t pick_number(uint32_t *random, size_t size) {
    *random = *random * 1664525u + 1013904223u;
    uint64_t number = (uint64_t)*random * 0x9e3779b97f4a7c15u;
    unsigned bits = *random >> 8 & 127;
    number = bits >= 64 ? 0 : number >> bits;
    return size == 8 ? number : number & ((UINT64_C(1) << 8 * size) - 1);
}

static uint8_t *put_plain(uint8_t *p, const fb_column *column, uint64_t number) {
    if (!number) return p;
    return fb_wire_put_varint(fb_wire_put_varint(p, fb_wire_tag(column->number, FB_WIRE_VARINT)),
                              number);
}

/* Write one record of eight numbers, up to `reach` bytes long, at the end of a guarded page. */
static void check_record(const fb_plan *plan, uint32_t *random, size_t reach) {
    uint8_t record[FB_SIMD_WINDOW] = {0}, expected[8 * 15], got[8 * 15 + 64];
    uint8_t *end = expected;
    size_t begin = 0, window = 0;
    bool beyond = false;
    fb_varint_simd lanes = {0};
    for (unsigned lane = 0; lane < FB_SIMD_LANES; lane++) {
        size_t size = 1 + (*random >> 16) % 8;
        const fb_column *column = &plan->columns[(*random >> 24) % FB_SIMD_LANES];
        uint64_t number = pick_number(random, size);
        if (begin + size > reach) break;
        for (size_t i = 0; i < size; i++)
            record[begin + i] = (uint8_t)(number >> 8 * (size - 1 - i));
        uint64_t add = size < 3 && fb_varint_simd_fit(column, UINT16_MAX + 99) ? *random >> 20 & 63
                                                                               : 0,
                 bound = UINT64_C(1) << (*random >> 3 & 31);
        fb_varint_simd_set(&lanes, lane, column, begin, size, UINT64_MAX, add);
        if (*random & 32) fb_varint_simd_bound(&lanes, lane, bound);
        beyond |= !fb_varint_simd_fit(column, number) || (*random & 32 && number >= bound);
        end = put_plain(end, column, number + add);
        window = begin + size;
        begin += size + (*random >> 8) % 9;
    }
    fb_varint_simd_set_window(&lanes, window);
    uint8_t *copy = fb_guarded_copy(record, window);
    const uint8_t *after = fb_varint_simd_append_window(got, &lanes, copy);
    CHECK(beyond ? !after
                 : after && after - got == end - expected &&
                       memcmp(got, expected, (size_t)(after - got)) == 0);
    fb_guarded_free(copy, window);
}

static void fills_lanes_with_numbers_of_every_size(void) {
    static named_plan plan;
    fb_memory memory = fb_memory_system(0);
    uint32_t random = 1;
    CHECK_STATUS(plan_read(&plan, columns, &memory), FB_OK);
    for (unsigned round = 0; round < 20000; round++)
        check_record(plan.plan, &random, 1 + round % FB_SIMD_WINDOW);
    plan_free(&plan);
}

#pragma GCC pop_options
#endif

static void gives_the_bytes_of_scalar_code(void) {
#ifdef FB_NEWER_PROCESSORS
    if (fb_processor_find() >= FB_PROCESSOR_BMI2) spreads_numbers_into_varints();
    if (fb_processor_find() >= FB_PROCESSOR_AVX512) fills_lanes_with_numbers_of_every_size();
#endif
}

RUN_TESTS(TEST(gives_the_bytes_of_scalar_code))
