/* The schedule of a replay, with a clock that the tests set. */
#include "tests/support/check.h"

#include "net/pace.h"

#define SECOND      UINT64_C(1000000000)
#define MILLISECOND UINT64_C(1000000)
#define START       (1000 * SECOND)
#define ALL         SIZE_MAX

static fb_recording times_of(fb_datagram *datagrams, size_t count) {
    return (fb_recording){
        .datagrams = datagrams, .count = count, .latest = datagrams[count - 1].time};
}

static void a_rate_spaces_datagrams_evenly(void) {
    fb_datagram datagrams[1] = {{.time = 0}};
    fb_recording recording = times_of(datagrams, 1);
    fb_pace pace = {.kind = FB_PACE_RATE, .rate = 1000};
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 0, 64, START), 1);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 1, 64, START), 0);
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 1), START + MILLISECOND);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 1, 64, START + MILLISECOND - 1), 0);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 1, 64, START + MILLISECOND), 1);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 2, 64, START + 5 * MILLISECOND), 4);
    CHECK_EQUAL(pace.delay, 0);
}

static void a_rate_that_does_not_divide_a_second_is_exact_over_a_year(void) {
    fb_datagram datagrams[1] = {{.time = 0}};
    fb_recording recording = times_of(datagrams, 1);
    fb_pace pace = {.kind = FB_PACE_RATE, .rate = 7, .start = START};
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 1), START + SECOND / 7);
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, UINT64_C(7) * 31536000),
                START + 31536000 * SECOND);
    pace.rate = SECOND;
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 12345), START + 12345);
}

static void a_pause_becomes_a_burst_of_ten_milliseconds(void) {
    fb_datagram datagrams[1] = {{.time = 0}};
    fb_recording recording = times_of(datagrams, 1);
    fb_pace pace = {.kind = FB_PACE_RATE, .rate = 10000};
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 0, 64, START), 1);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 1, ALL, START + 5 * SECOND), 101);
    CHECK_EQUAL(pace.delay, 5 * SECOND - 10 * MILLISECOND - SECOND / 10000);
    /* after the burst, the interval is that of the rate again */
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 102), START + 5 * SECOND + SECOND / 10000);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 102, 64, START + 5 * SECOND), 0);
}

static void a_delay_within_the_slack_is_made_up(void) {
    fb_datagram datagrams[1] = {{.time = 0}};
    fb_recording recording = times_of(datagrams, 1);
    fb_pace pace = {.kind = FB_PACE_RATE, .rate = 1000};
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 0, 64, START), 1);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 1, 64, START + 11 * MILLISECOND), 11);
    CHECK_EQUAL(pace.delay, 0);
}

static void times_of_the_recording_are_divided_by_the_speed(void) {
    fb_datagram datagrams[] = {
        {.time = 0}, {.time = SECOND}, {.time = SECOND}, {.time = 4 * SECOND}};
    fb_recording recording = times_of(datagrams, 4);
    fb_pace pace = {.kind = FB_PACE_TIMES, .speed = 2, .start = START, .begun = true};
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 0), START);
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 1), START + SECOND / 2);
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 3), START + 2 * SECOND);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 0, 64, START), 1);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 1, 64, START + SECOND / 2), 2);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 1, 1, START + SECOND / 2), 1);
    pace.speed = 0.5;
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 3), START + 8 * SECOND);
}

static void a_repetition_begins_one_mean_interval_after_the_last_datagram(void) {
    fb_datagram datagrams[] = {{.time = 0}, {.time = SECOND}, {.time = 4 * SECOND}};
    fb_recording recording = times_of(datagrams, 3);
    fb_pace pace = {.kind = FB_PACE_TIMES, .speed = 1, .start = START};
    CHECK_EQUAL(fb_recording_get_period(&recording), 6 * SECOND);
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 3), START + 6 * SECOND);
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 8), START + 16 * SECOND);
}

static void a_recording_without_duration_is_repeated_each_second(void) {
    fb_datagram datagrams[] = {{.time = 0}, {.time = 0}};
    fb_recording one = times_of(datagrams, 1), two = times_of(datagrams, 2);
    fb_pace pace = {.kind = FB_PACE_TIMES, .speed = 1, .start = START};
    CHECK_EQUAL(fb_pace_get_due(&pace, &one, 3), START + 3 * SECOND);
    CHECK_EQUAL(fb_pace_get_due(&pace, &two, 3), START + SECOND);
}

static void a_burst_of_the_capture_is_sent_at_once(void) {
    fb_datagram datagrams[100] = {{.time = 0}};
    fb_recording recording = times_of(datagrams, 100);
    fb_pace pace = {.kind = FB_PACE_TIMES, .speed = 1};
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 0, 64, START), 64);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 64, 64, START), 36);
}

static void a_pause_delays_the_times_of_the_recording(void) {
    fb_datagram datagrams[] = {{.time = 0}, {.time = SECOND}, {.time = 2 * SECOND}};
    fb_recording recording = times_of(datagrams, 3);
    fb_pace pace = {.kind = FB_PACE_TIMES, .speed = 1};
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 0, 64, START), 1);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 1, 64, START + 5 * SECOND), 1);
    CHECK_EQUAL(fb_pace_get_due(&pace, &recording, 2), START + 6 * SECOND - FB_PACE_SLACK);
}

static void absurd_times_are_never_due(void) {
    fb_datagram datagrams[] = {{.time = 0}, {.time = FB_TIME_MAX}};
    fb_recording recording = times_of(datagrams, 2);
    fb_pace pace = {.kind = FB_PACE_TIMES, .speed = 1e-300};
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 0, 64, START), 1);
    CHECK(fb_pace_get_due(&pace, &recording, 1) > START + FB_TIME_MAX / 2);
    CHECK(fb_pace_get_due(&pace, &recording, UINT64_MAX) > START + FB_TIME_MAX / 2);
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 1, 64, START + FB_TIME_MAX / 2), 0);
}

static void everything_is_due_at_top_speed(void) {
    fb_datagram datagrams[1] = {{.time = SECOND}};
    fb_recording recording = times_of(datagrams, 1);
    fb_pace pace = {.kind = FB_PACE_TOP_SPEED};
    CHECK_EQUAL(fb_pace_count_due(&pace, &recording, 5, 64, START), 64);
}

RUN_TESTS(TEST(a_rate_spaces_datagrams_evenly),
          TEST(a_rate_that_does_not_divide_a_second_is_exact_over_a_year),
          TEST(a_pause_becomes_a_burst_of_ten_milliseconds),
          TEST(a_delay_within_the_slack_is_made_up),
          TEST(times_of_the_recording_are_divided_by_the_speed),
          TEST(a_repetition_begins_one_mean_interval_after_the_last_datagram),
          TEST(a_recording_without_duration_is_repeated_each_second),
          TEST(a_burst_of_the_capture_is_sent_at_once),
          TEST(a_pause_delays_the_times_of_the_recording), TEST(absurd_times_are_never_due),
          TEST(everything_is_due_at_top_speed))
