/* The limit on the flows of an exporter, with times and flows at their extremes. */
#include "tests/support/check.h"

#include "core/exporter/rate_limit.h"

#define SECOND UINT64_C(1000000000)
#define ONE    (UINT64_C(1) << 32)
#define NOW    (UINT64_C(1700000000) * SECOND)

/* Decode or skip a datagram. Return the number of flows that were decoded. */
static uint64_t pass(fb_rate_limit *state, uint64_t limit, uint64_t time, uint64_t flows) {
    if (!fb_rate_limit_admit(state, limit, time)) {
        fb_rate_limit_skipped(state, flows);
        return 0;
    }
    fb_rate_limit_decoded(state, fb_rate_limit_weight(state), flows);
    return flows;
}

static void the_limit_holds_on_average(void) {
    static const uint64_t limits[] = {1, 10, 333, 1000000, FB_RATE_LIMIT_MAX};
    for (size_t i = 0; i < 5; i++) {
        fb_rate_limit state = {0};
        uint64_t decoded = 0, flows = limits[i] / 7 + 1;
        for (uint64_t ms = 0; ms < 100000; ms += 10)
            decoded += pass(&state, limits[i], NOW + ms * 1000000, flows);
        CHECK(decoded <= limits[i] * 101 + flows);
        CHECK(decoded >= limits[i] * 99);
    }
}

static void weights_sum_to_all_flows(void) {
    fb_rate_limit state = {0};
    uint64_t sent = 0, weights = 0; /* weights in units of 2^-32 flows */
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t flows = 1 + i * i % 30;
        sent += flows;
        if (fb_rate_limit_admit(&state, 1000, NOW + i * SECOND / 500)) {
            uint64_t weight = fb_rate_limit_weight(&state);
            fb_rate_limit_decoded(&state, weight, flows);
            weights += weight * flows;
        } else {
            fb_rate_limit_skipped(&state, flows);
        }
        CHECK_EQUAL(weights + (uint64_t)state.owed, sent * ONE);
    }
    CHECK(state.owed < (int64_t)(300 * ONE));
}

static void unknown_times_are_decoded(void) {
    fb_rate_limit state = {0};
    for (int i = 0; i < 1000; i++) CHECK_EQUAL(pass(&state, 1, 0, UINT32_MAX), UINT32_MAX);
    CHECK(state.credit < 0);
}

/* No time, number of flows or weight overflows. Undefined behaviour fails under the sanitizer. */
static void extreme_numbers_are_safe(void) {
    static const uint64_t times[] = {0, 1, SECOND, NOW, FB_TIME_MAX, UINT64_MAX, NOW - SECOND / 2};
    static const uint64_t flows[] = {0, 1, 30, 1 << 20, INT32_MAX, UINT64_MAX};
    static const uint64_t limits[] = {1, 30, FB_RATE_LIMIT_MAX};
    uint32_t random = 1;
    for (size_t k = 0; k < 3; k++) {
        fb_rate_limit state = {0};
        for (int i = 0; i < 20000; i++) {
            random = random * 1664525 + 1013904223;
            pass(&state, limits[k], times[(random >> 8) % 7], flows[(random >> 16) % 6]);
            CHECK(fb_rate_limit_weight(&state) >= ONE);
        }
    }
}

/* After any step of the clock, flows are decoded again within a second. */
static void clock_steps_do_not_block(void) {
    static const int64_t steps[] = {-86400, -3600, -2, 0, 2, 3600, 86400};
    for (size_t i = 0; i < 7; i++) {
        fb_rate_limit state = {0};
        uint64_t decoded = 0, time = NOW;
        for (int k = 0; k < 100; k++) pass(&state, 100, time += SECOND / 10, 20);
        time += (uint64_t)steps[i] * SECOND;
        for (int k = 0; k < 11; k++) decoded += pass(&state, 100, time += SECOND / 10, 20);
        CHECK(decoded >= 80);
        CHECK(decoded <= 100 + 110 + 20);
    }
}

RUN_TESTS(TEST(the_limit_holds_on_average), TEST(weights_sum_to_all_flows),
          TEST(unknown_times_are_decoded), TEST(extreme_numbers_are_safe),
          TEST(clock_steps_do_not_block))
