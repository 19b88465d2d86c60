/* Times, floats, strings of JSON and cells of CSV as text, written up to a guard page. */
#include "tests/support/check.h"
#include "tests/support/text.h"

#include "core/base/real_format.h"
#include "core/base/text_format.h"

enum { ROOM = 256 };

static fb_bytes bytes_of(const char *text) {
    return (fb_bytes){(const uint8_t *)text, strlen(text)};
}

/* Times -------------------------------------------------------------------------------------- */

static void check_time(uint64_t time, unsigned digits, const char *expected) {
    uint8_t *p = fb_guarded_room_of(FB_FORMAT_TIME_MAX);
    CHECK_BYTES(p, (size_t)(fb_format_time(p, time, digits) - p), expected, strlen(expected));
    fb_guarded_free(p, FB_FORMAT_TIME_MAX);
}

static void formats_times(void) {
    check_time(0, 0, "1970-01-01T00:00:00Z");
    check_time(1662723663679, 3, "2022-09-09T11:41:03.679Z");
    check_time(951782400, 0, "2000-02-29T00:00:00Z");
    check_time(951868800, 0, "2000-03-01T00:00:00Z");
    check_time(4107542400, 0, "2100-03-01T00:00:00Z");
    check_time(4107456000, 0, "2100-02-28T00:00:00Z");
    check_time(253402300799999999, 6, "9999-12-31T23:59:59.999999Z");
    check_time(253402300800, 0, "253402300800");
    check_time(UINT64_MAX, 9, "2554-07-21T23:34:33.709551615Z");
    check_time(UINT64_MAX, 3, "18446744073709551615");
}

/* Each day of four centuries has the date after that of the day before. */
static void counts_the_days_of_the_calendar(void) {
    static const unsigned months[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year = 1970, month = 1, day = 1;
    for (uint64_t i = 0; i < 146097 + 1; i++) {
        char expected[24];
        snprintf(expected, sizeof expected, "%04u-%02u-%02uT00:00:00Z", year % 10000, month % 100,
                 day % 100);
        check_time(86400 * i, 0, expected);
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        if (++day <= months[month - 1] + (month == 2 && leap)) continue;
        day = 1;
        if (++month > 12) month = 1, year++;
    }
}

/* Floats ------------------------------------------------------------------------------------- */

static void formats_reals(void) {
    static const struct {
        double real;
        const char *text;
    } cases[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {-2.5, "-2.5"},
        {0.1, "0.1"},
        {123456.789, "123456.789"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {12345678901234567890.0, "1.2345678901234567e+19"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1e100, "1e+100"},
        {0x1p-1074, "5e-324"},
        {0x1.fffffffffffffp1023, "1.7976931348623157e+308"},
        {0x1p-44, "5.684341886080802e-14"},
        {9007199254740993.0, "9007199254740992.0"},
        {0x1p63, "9.223372036854776e+18"},
        {1 / 3.0, "0.3333333333333333"},
        {-1.2345678901234568e-300, "-1.2345678901234568e-300"},
        {(double)__builtin_inff(), "Infinity"},
        {-(double)__builtin_inff(), "-Infinity"},
        {(double)__builtin_nanf(""), "NaN"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *p = (char *)fb_guarded_room_of(FB_FORMAT_REAL_MAX);
        CHECK_BYTES(p, (size_t)(fb_format_real(p, cases[i].real) - p), cases[i].text,
                    strlen(cases[i].text));
        fb_guarded_free((uint8_t *)p, FB_FORMAT_REAL_MAX);
    }
}

/* Every text reads back as its float. flowbuf's Python tests compare the digits with Python's. */
static void formats_reals_that_read_back(void) {
    uint64_t state = 1;
    for (int i = 0; i < 200000; i++) {
        char text[FB_FORMAT_REAL_MAX + 1];
        double real, again;
        state = fb_hash(state, (uint64_t)i);
        memcpy(&real, &state, 8);
        if (real != real || real - real != 0) continue;
        *fb_format_real(text, real) = 0;
        again = strtod(text, NULL);
        CHECK(memcmp(&again, &real, 8) == 0);
    }
}

/* JSON --------------------------------------------------------------------------------------- */

/* Format a text in outputs of each size, and join the parts. */
static void check_json(const char *given, const char *expected) {
    for (size_t room = FB_FORMAT_ESCAPE_MAX; room < FB_FORMAT_ESCAPE_MAX + 24; room++) {
        fb_bytes left = bytes_of(given);
        text joined = {0};
        while (left.size) {
            uint8_t *p = fb_guarded_room_of(room);
            size_t before = left.size, size = (size_t)(fb_format_json_text(p, p + room, &left) - p);
            text_put(&joined, "%.*s", (int)size, (const char *)p);
            CHECK(left.size < before);
            fb_guarded_free(p, room);
            if (left.size >= before) break;
        }
        CHECK_BYTES(text_of(&joined), joined.size, expected, strlen(expected));
        text_free(&joined);
    }
}

static void escapes_strings_of_json(void) {
    check_json("", "");
    check_json("plain", "plain");
    check_json("a\"b\\c/", "a\\\"b\\\\c/");
    check_json("\b\f\n\r\t\x01\x1f", "\\b\\f\\n\\r\\t\\u0001\\u001f");
    check_json("\x7f\xc2\x80\xc2\x9f\xc2\xa0", "\\u007f\\u0080\\u009f\xc2\xa0");
    check_json("\xd8\x9c\xe2\x80\x8e\xe2\x80\x90\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf",
               "\\u061c\\u200e\xe2\x80\x90\\u2028\\u202e\xe2\x80\xaf");
    check_json("\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa",
               "\xe2\x81\xa5\\u2066\\u2069\xe2\x81\xaa");
    check_json("\xf0\x9f\x98\x80\xe2\x82\xac", "\xf0\x9f\x98\x80\xe2\x82\xac");
}

/* Eight bytes are written at once. A character that is escaped may be at each place among them. */
static void escapes_at_every_place(void) {
    static const struct {
        const char *given, *expected;
    } cases[] = {{"\x1f", "\\u001f"},
                 {"\"", "\\\""},
                 {"\\", "\\\\"},
                 {"\x7f", "\\u007f"},
                 {"\xc2\x9f", "\\u009f"},
                 {"\xc2\xa0", "\xc2\xa0"},
                 {"\xd8\x9c", "\\u061c"},
                 {"\xd8\x9d", "\xd8\x9d"},
                 {"\xe2\x80\x8f", "\\u200f"},
                 {"\xe2\x80\x90", "\xe2\x80\x90"},
                 {"\xe2\x81\xa9", "\\u2069"},
                 {"\xe2\x82\xac", "\xe2\x82\xac"}};
    static const char *const around[] = {"a", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80"};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t i = 0; i < sizeof around / sizeof *around; i++)
            for (size_t before = 0; before < 20; before++) {
                char given[200] = "", expected[200] = "";
                for (size_t n = 0; n < 20; n++) {
                    strcat(given, n == before ? cases[k].given : around[i]);
                    strcat(expected, n == before ? cases[k].expected : around[i]);
                }
                check_json(given, expected);
            }
}

/* A text that another thread changes may be invalid. Nothing behind it is read. */
static void stays_within_invalid_texts(void) {
    static const char *const cut[] = {"\xc2", "\xe2\x80", "\xf0\x9f\x98", "\xff", "\x80"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        size_t size = strlen(cut[i]);
        uint8_t output[ROOM], *copy = fb_guarded_room_of(size);
        memcpy(copy, cut[i], size);
        fb_bytes given = {copy, size};
        CHECK(fb_format_json_text(output, output + ROOM, &given) > output);
        CHECK_EQUAL(given.size, 0);
        CHECK(fb_format_csv_cell(output, (fb_bytes){copy, size}, true) <= output + 3 * size + 3);
        fb_guarded_free(copy, size);
    }
}

/* CSV ---------------------------------------------------------------------------------------- */

static void check_cell(fb_bytes given, bool is_neutral, const char *expected) {
    size_t room = 3 * given.size + 3;
    uint8_t *p = fb_guarded_room_of(room);
    CHECK_BYTES(p, (size_t)(fb_format_csv_cell(p, given, is_neutral) - p), expected,
                strlen(expected));
    fb_guarded_free(p, room);
}

static void quotes_cells_of_csv(void) {
    check_cell(bytes_of(""), false, "");
    check_cell(bytes_of("a b"), false, "a b");
    check_cell(bytes_of("a,b"), false, "\"a,b\"");
    check_cell(bytes_of("\""), false, "\"\"\"\"");
    check_cell(bytes_of("a\nb"), false, "\"a\nb\"");
    check_cell(bytes_of("\xc2\x85"), false, "\"\xc2\x85\"");
    check_cell(bytes_of("\xe2\x80\xa8"), false, "\"\xe2\x80\xa8\"");
    check_cell(bytes_of("\xe2\x80\xae"), false, "\xe2\x80\xae");
    check_cell((fb_bytes){(const uint8_t *)"\0\0\0", 3}, false,
               "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    check_cell(bytes_of("=1"), false, "=1");
}

static void neutralizes_formulas(void) {
    check_cell(bytes_of("=1"), true, "'=1");
    check_cell(bytes_of("\"=1\""), true, "\"'\"\"=1\"\"\"");
    check_cell(bytes_of("\xe2\x80\x8b -1"), true, "'\xe2\x80\x8b -1");
    check_cell(bytes_of("\xef\xbc\x9d"
                        "1"),
               true,
               "'\xef\xbc\x9d"
               "1");
    check_cell(bytes_of("\tx"), true, "\"'\tx\"");
    check_cell(bytes_of(" x=1"), true, " x=1");
    check_cell(bytes_of(""), true, "");
}

RUN_TESTS(TEST(formats_times), TEST(counts_the_days_of_the_calendar), TEST(formats_reals),
          TEST(formats_reals_that_read_back), TEST(escapes_strings_of_json),
          TEST(escapes_at_every_place), TEST(stays_within_invalid_texts), TEST(quotes_cells_of_csv),
          TEST(neutralizes_formulas))
