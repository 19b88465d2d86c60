/* Bytes, times and field masks as text, up to a guard page. */
#include "tests/support/check.h"
#include "tests/support/text.h"

#include "core/json/json_values.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static fb_bytes bytes_of(const char *text) {
    return (fb_bytes){(const uint8_t *)text, strlen(text)};
}

/* Bytes --------------------------------------------------------------------------------------- */

/* The examples of RFC 4648, section 10. */
static void writes_the_examples_of_rfc_4648(void) {
    static const char *const cases[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const fb_bytes bytes = bytes_of(cases[i][0]), text = bytes_of(cases[i][1]);
        CHECK_EQUAL(fb_base64_size(bytes.size), text.size);
        uint8_t *p = fb_guarded_room_of(text.size);
        CHECK_BYTES(p, (size_t)(fb_base64_put(p, bytes) - p), text.data, text.size);
        fb_guarded_free(p, text.size);
    }
}

static void reads_bytes_of_every_size(void) {
    uint8_t bytes[70], text[100], again[70];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37 + 200);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        uint8_t *end = fb_base64_put(text, (fb_bytes){bytes, size});
        for (int variant = 0; variant < 2; variant++) {
            uint8_t *read = fb_base64_read(again, (fb_bytes){text, (size_t)(end - text)});
            CHECK(read != NULL);
            CHECK_BYTES(again, (size_t)(read - again), bytes, size);
            /* the other alphabet, without padding */
            for (uint8_t *p = text; p < end; p++) {
                if (*p == '+') *p = '-';
                if (*p == '/') *p = '_';
            }
            while (end > text && end[-1] == '=') end--;
        }
    }
}

static void refuses_other_texts_as_bytes(void) {
    static const char *const cases[] = {"A",     "=",     "==",     "A===",      "AA=",
                                        "AAA*",  "A A=",  "AA=A",   "=AAA",      "AAAAA",
                                        "AA\n=", "AAAA=", "AAAA==", "\xc3\xa9=="};
    uint8_t room[8];
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK(fb_base64_read(room, bytes_of(cases[i])) == NULL);
}

/* Times --------------------------------------------------------------------------------------- */

static void check_time(bool duration, int64_t seconds, int32_t nanoseconds, const char *expected) {
    fb_json_time time = {seconds, nanoseconds}, again;
    uint8_t *p = fb_guarded_room_of(FB_JSON_TIME_MAX);
    CHECK(fb_json_time_in_range(duration, time));
    const size_t size = (size_t)(fb_json_put_time(p, duration, time) - p);
    CHECK_BYTES(p, size, expected, strlen(expected));
    CHECK(fb_json_read_time((fb_bytes){p, size}, duration, &again));
    CHECK_EQUAL(again.seconds, seconds);
    CHECK_EQUAL(again.nanoseconds, nanoseconds);
    for (size_t part = 0; part < size; part++)
        CHECK(!fb_json_read_time((fb_bytes){p, part}, duration, &again));
    fb_guarded_free(p, FB_JSON_TIME_MAX);
}

static void times_and_durations_are_read_as_they_are_written(void) {
    check_time(false, 0, 0, "1970-01-01T00:00:00Z");
    check_time(false, -62135596800, 0, "0001-01-01T00:00:00Z");
    check_time(false, 253402300799, 999999999, "9999-12-31T23:59:59.999999999Z");
    check_time(false, -1, 500000000, "1969-12-31T23:59:59.500Z");
    check_time(false, 951782400, 1000, "2000-02-29T00:00:00.000001Z");
    check_time(false, -2203891200, 0, "1900-03-01T00:00:00Z");
    check_time(true, 0, 0, "0s");
    check_time(true, 315576000000, 0, "315576000000s");
    check_time(true, -315576000000, 0, "-315576000000s");
    check_time(true, -1, -500000000, "-1.500s");
    check_time(true, 0, -1, "-0.000000001s");
    check_time(true, 3, 120000, "3.000120s");
}

static void knows_the_range_of_times(void) {
    static const struct {
        bool duration;
        int64_t seconds;
        int32_t nanoseconds;
    } cases[] = {{false, -62135596801, 0},
                 {false, 253402300800, 0},
                 {false, 0, -1},
                 {false, 0, 1000000000},
                 {true, 315576000001, 0},
                 {true, -315576000001, 0},
                 {true, 1, -1},
                 {true, -1, 1},
                 {true, 0, 1000000000},
                 {true, 0, -1000000000},
                 {true, INT64_MIN, 0},
                 {false, INT64_MAX, INT32_MIN}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        fb_json_time time = {cases[i].seconds, cases[i].nanoseconds};
        CHECK(!fb_json_time_in_range(cases[i].duration, time));
    }
}

/* Each day from the year 1 on is read as the day that it is written from. */
static void reads_every_day(void) {
    for (int64_t day = -719162; day < 2932897; day += 1 + (day < -1000 || day > 60000) * 97) {
        uint8_t text[FB_JSON_TIME_MAX];
        fb_json_time time = {day * 86400 + 45296, 0}, again = {0, 0};
        uint8_t *end = fb_json_put_time(text, false, time);
        CHECK(fb_json_read_time((fb_bytes){text, (size_t)(end - text)}, false, &again));
        CHECK_EQUAL(again.seconds, time.seconds);
    }
}

static void refuses_other_texts_as_times(void) {
    static const char *const times[] = {
        "2026-02-29T00:00:00Z",      "2026-00-01T00:00:00Z",
        "2026-13-01T00:00:00Z",      "2026-01-00T00:00:00Z",
        "2026-04-31T00:00:00Z",      "1900-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",      "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:60Z",      "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00z",      "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+1:00",  "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+00:60", "2026-01-01T00:00:00.0000000001Z",
        "26-01-01T00:00:00Z",        "2026-1-1T00:00:00Z",
        "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01",
        "2026-01-01T00:00:00Z ",     "+2026-01-01T00:00:00Z",
        "2026-01-01T0a:00:00Z"};
    static const char *const durations[] = {"s",
                                            "-s",
                                            ".5s",
                                            "1.s",
                                            "1",
                                            "1S",
                                            "+1s",
                                            "1s ",
                                            " 1s",
                                            "1.0000000000s",
                                            "1e3s",
                                            "0x1s",

                                            "99999999999999999999s",
                                            "--1s",
                                            "1.-5s"};
    fb_json_time time;
    for (size_t i = 0; i < COUNT(times); i++)
        CHECK(!fb_json_read_time(bytes_of(times[i]), false, &time));
    for (size_t i = 0; i < COUNT(durations); i++)
        CHECK(!fb_json_read_time(bytes_of(durations[i]), true, &time));
}

/* Field masks --------------------------------------------------------------------------------- */

static void paths_are_in_lower_camel_case(void) {
    static const char *const cases[][2] = {
        {"", ""}, {"a", "a"}, {"a_b", "aB"}, {"order_id.line_x", "orderId.lineX"}, {"_a", "A"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const fb_bytes path = bytes_of(cases[i][0]), text = bytes_of(cases[i][1]);
        uint8_t *p = fb_guarded_room_of(path.size), *back = fb_guarded_room_of(2 * text.size);
        uint8_t *end = fb_json_put_path(p, path), *back_end = fb_json_read_path(back, text);
        CHECK_BYTES(p, (size_t)(end - p), text.data, text.size);
        CHECK_BYTES(back, (size_t)(back_end - back), path.data, path.size);
        fb_guarded_free(p, path.size);
        fb_guarded_free(back, 2 * text.size);
    }
}

static void refuses_paths_that_cannot_be_reversed(void) {
    static const char *const paths[] = {"A", "aB", "a__b", "a_", "a_1", "a_B", "_"};
    uint8_t room[16];
    for (size_t i = 0; i < COUNT(paths); i++)
        CHECK(fb_json_put_path(room, bytes_of(paths[i])) == NULL);
    CHECK(fb_json_read_path(room, bytes_of("a_b")) == NULL);
}

RUN_TESTS(TEST(writes_the_examples_of_rfc_4648), TEST(reads_bytes_of_every_size),
          TEST(refuses_other_texts_as_bytes),
          TEST(times_and_durations_are_read_as_they_are_written), TEST(knows_the_range_of_times),
          TEST(reads_every_day), TEST(refuses_other_texts_as_times),
          TEST(paths_are_in_lower_camel_case), TEST(refuses_paths_that_cannot_be_reversed))
