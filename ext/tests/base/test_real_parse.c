/* Numbers of JSON as doubles and integers, compared with those of the C library. */
#include "tests/support/check.h"

#include "core/base/real_format.h"
#include "core/base/real_parse.h"

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Parse a number that ends at a guard page, and that must be all of the text. */
static bool parse(const char *text, fb_decimal *number, double *real) {
    const size_t size = strlen(text);
    uint8_t *copy = fb_guarded_copy(text, size);
    const uint8_t *end = fb_parse_decimal(copy, copy + size, number);
    const bool whole = end == copy + size;
    if (whole) *real = fb_decimal_to_real(number);
    fb_guarded_free(copy, size);
    return whole;
}

static void check_real(const char *text) {
    fb_decimal number;
    double real = 0, expected = strtod(text, NULL);
    const bool same = parse(text, &number, &real) && !memcmp(&real, &expected, sizeof real);
    if (!same) fprintf(stderr, "%s: %a instead of %a\n", text, real, expected);
    CHECK(same);
}

static void parses_what_it_formats(void) {
    char text[64];
    for (int i = 0; i < 20000; i++) {
        double real;
        float narrow;
        uint64_t bits = next_random();
        uint32_t half = (uint32_t)(bits >> 20);
        memcpy(&real, &bits, 8);
        memcpy(&narrow, &half, 4);
        if ((bits >> 52 & 0x7ff) != 0x7ff) {
            *fb_format_real(text, real) = 0;
            check_real(text);
            snprintf(text, sizeof text, "%.17g", real);
            if (!strchr(text, '+')) check_real(text);
        }
        if ((half >> 23 & 0xff) == 0xff) continue;
        *fb_format_real32(text, narrow) = 0;
        const float again = strtof(text, NULL);
        CHECK(!memcmp(&again, &narrow, 4));
    }
}

static void formats_floats_of_32_bits_with_the_fewest_digits(void) {
    static const struct {
        float real;
        const char *text;
    } cases[] = {{0.1f, "0.1"},
                 {-0.0f, "-0.0"},
                 {16777216.0f, "16777216.0"},
                 {3.4028235e38f, "3.4028235e+38"},
                 {1e-45f, "1e-45"},
                 {1.17549435e-38f, "1.1754944e-38"},
                 {8388608.5f, "8388608.0"},
                 {0.3f, "0.3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[FB_FORMAT_REAL_MAX];
        const size_t size = (size_t)(fb_format_real32(text, cases[i].real) - text);
        CHECK_BYTES(text, size, cases[i].text, strlen(cases[i].text));
    }
}

/* Numbers exactly between two doubles, and just beside them. */
static void rounds_ties_to_even(void) {
    static char text[1200], more[1300];
    for (int i = 0; i < 2000; i++) {
        uint64_t bits = next_random() & ~(UINT64_C(1) << 63);
        double below, above;
        if ((bits >> 52) >= 0x7fe) continue;
        memcpy(&below, &bits, 8);
        bits++;
        memcpy(&above, &bits, 8);
        snprintf(text, sizeof text, "%.1100Lg", ((long double)below + (long double)above) / 2);
        if (strchr(text, '+')) continue;
        check_real(text);
        if (strchr(text, 'e') || !strchr(text, '.')) continue;
        snprintf(more, sizeof more, "%s0000000001", text);
        check_real(more);
    }
}

static void parses_numbers_at_the_limits(void) {
    static const char *const cases[] = {
        "0",
        "-0",
        "0.0",
        "1e400",
        "-1e400",
        "1e-400",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "9007199254740993",
        "9007199254740992.99999999999999999999999999999999999",
        "9007199254740993.00000000000000000000000000000000001",
        "0.000000000000000000000000000000000000001e39",
        "10000000000000000000000000000000000000000000000000000000e-55",
        "1e100000000000",
        "1e-99999999999"};
    static char zeros[4000], ones[2100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_real(cases[i]);
    memset(zeros, '0', 3000);
    zeros[1] = '.';
    memcpy(zeros + 3000, "123e3001", 9);
    check_real(zeros);
    memset(ones, '1', 2000);
    memcpy(ones + 2000, "e-1990", 7);
    check_real(ones);
    memcpy(ones + 2000, "", 1);
    check_real(ones);
}

static void takes_the_longest_number(void) {
    static const struct {
        const char *text;
        int size; /* -1: no number */
    } cases[] = {{"", -1},   {"-", -1},   {"+1", -1},  {".5", -1},    {"01", -1},  {"-01", -1},
                 {"1.", -1}, {"1.e", -1}, {"1e", -1},  {"1e+", -1},   {"NaN", -1}, {"1x", 1},
                 {"0x1", 1}, {"1,2", 1},  {"0.5]", 3}, {"-1e-5}", 5}, {"1E5 ", 3}, {"00", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_decimal number;
        const size_t size = strlen(cases[i].text);
        uint8_t *copy = fb_guarded_copy(cases[i].text, size);
        const uint8_t *end = fb_parse_decimal(copy, copy + size, &number);
        CHECK_EQUAL(end ? end - copy : -1, cases[i].size);
        fb_guarded_free(copy, size);
    }
}

static void converts_exact_integers(void) {
    static const struct {
        const char *text;
        bool fits;
        uint64_t value;
    } cases[] = {{"0", true, 0},
                 {"0.000", true, 0},
                 {"0e5", true, 0},
                 {"12.0", true, 12},
                 {"1.5", false, 0},
                 {"150e-1", true, 15},
                 {"1e19", true, UINT64_C(10000000000000000000)},
                 {"2e19", false, 0},
                 {"18446744073709551615", true, UINT64_MAX},
                 {"18446744073709551616", false, 0},
                 {"18446744073709551615.000", true, UINT64_MAX},
                 {"1844674407370955161.5e1", true, UINT64_MAX},
                 {"18446744073709551615.5", false, 0},
                 {"0.000018446744073709551615e24", true, UINT64_MAX},
                 {"12345678901234567890000e-3", true, UINT64_C(12345678901234567890)},
                 {"12345678901234567890123e-3", false, 0},
                 {"1e-100000000000", false, 0},
                 {"1e100000000000", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_decimal number;
        uint64_t value = 0;
        const uint8_t *text = (const uint8_t *)cases[i].text;
        CHECK(fb_parse_decimal(text, text + strlen(cases[i].text), &number));
        CHECK(fb_decimal_to_integer(&number, &value) == cases[i].fits);
        if (cases[i].fits) CHECK_EQUAL(value, cases[i].value);
    }
}

RUN_TESTS(TEST(parses_what_it_formats), TEST(formats_floats_of_32_bits_with_the_fewest_digits),
          TEST(rounds_ties_to_even), TEST(parses_numbers_at_the_limits),
          TEST(takes_the_longest_number), TEST(converts_exact_integers))
