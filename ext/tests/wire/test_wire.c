/* The basic elements of the wire format, at every boundary and in every room; UTF-8 as in RFC
   3629. */
#include "tests/support/check.h"

#include "core/wire/wire.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Varints ------------------------------------------------------------------------------------ */

/* The least and the greatest value of every size. */
static void sizes_varints_at_every_boundary(void) {
    for (unsigned size = 1; size <= FB_VARINT_MAX; size++) {
        uint64_t least = size == 1 ? 0 : UINT64_C(1) << 7 * (size - 1);
        uint64_t greatest = size == FB_VARINT_MAX ? UINT64_MAX : (UINT64_C(1) << 7 * size) - 1;
        CHECK_EQUAL(fb_wire_varint_size(least), size);
        CHECK_EQUAL(fb_wire_varint_size(greatest), size);
        for (int which = 0; which < 2; which++) {
            uint8_t bytes[FB_VARINT_MAX];
            uint64_t value = which ? greatest : least, read = ~value;
            CHECK_EQUAL(fb_wire_put_varint(bytes, value) - bytes, size);
            for (unsigned i = 0; i < size; i++) {
                CHECK_EQUAL(bytes[i] >> 7, i + 1 < size);
                CHECK_EQUAL(bytes[i] & 0x7f, value >> 7 * i & 0x7f);
            }
            CHECK(fb_wire_read_varint(bytes, bytes + size, &read) == bytes + size);
            CHECK_EQUAL(read, value);
        }
    }
}

/* Values below 2^56 are written without a branch, and give the same bytes whatever follows them. */
static void writes_short_varints_like_all_others(void) {
    for (unsigned bits = 1; bits <= 56; bits++)
        for (uint64_t value = UINT64_C(1) << (bits - 1), end = value + 2; value < end; value++)
            for (int which = 0; which < 2; which++) {
                uint64_t number = (which ? value : 2 * value - 1) & ((UINT64_C(1) << 56) - 1);
                uint8_t expected[FB_VARINT_MAX], bytes[8];
                size_t size = (size_t)(fb_wire_put_varint(expected, number) - expected), found;
                fb_store64(bytes, fb_wire_short_varint(number, &found));
                CHECK_EQUAL(found, size);
                CHECK(memcmp(bytes, expected, size) == 0);
                if (number > 255) continue;
                fb_store64(bytes, fb_wire_byte_varint(number, &found));
                CHECK_EQUAL(found, size);
                CHECK(memcmp(bytes, expected, size) == 0);
            }
}

/* Random bytes of every length give the same result as the reader that checks the end. */
static void loads_varints_like_the_bounded_reader(void) {
    uint32_t random = 7;
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t bytes[FB_VARINT_MAX];
        uint64_t loaded = 0, read = 0;
        for (size_t i = 0; i < FB_VARINT_MAX; i++) {
            random = random * 1664525u + 1013904223u;
            bytes[i] = (uint8_t)((random >> 24 & 0x7f) | (i < round % 12 ? 0x80 : 0) |
                                 (round & 64 ? random >> 16 & 0x80 : 0));
        }
        const uint8_t *end = fb_wire_read_varint(bytes, bytes + FB_VARINT_MAX, &read);
        CHECK(fb_wire_load_varint(bytes, &loaded) == end);
        CHECK_EQUAL(loaded, read);
    }
}

static void reads_varints_of_other_writers(void) {
    static const struct {
        uint8_t bytes[12];
        size_t size, read;
        uint64_t value;
    } cases[] = {
        {{0x80, 0x00}, 2, 2, 0}, /* longer than necessary */
        {{0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, 10, 10, 0x7f},
        /* bits above the 64th are dropped */
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 10, 10, UINT64_MAX},
        /* too long */
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, 11, 0, 0},
        {{0x05, 0xff}, 2, 1, 5},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t *bytes = fb_guarded_copy(cases[i].bytes, cases[i].size);
        uint64_t value = 0;
        const uint8_t *end = fb_wire_read_varint(bytes, bytes + cases[i].size, &value);
        CHECK_EQUAL(end ? (size_t)(end - bytes) : 0, cases[i].read);
        CHECK_EQUAL(value, cases[i].value);
        fb_guarded_free(bytes, cases[i].size);
    }
}

static void zigzags_the_limits(void) {
    static const struct {
        int64_t value;
        uint64_t coded;
    } cases[] = {{0, 0},
                 {-1, 1},
                 {1, 2},
                 {-2, 3},
                 {INT32_MAX, 0xfffffffe},
                 {INT32_MIN, 0xffffffff},
                 {INT64_MAX, UINT64_MAX - 1},
                 {INT64_MIN, UINT64_MAX}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        CHECK_EQUAL(fb_wire_zigzag(cases[i].value), cases[i].coded);
        CHECK_EQUAL(fb_wire_unzigzag(cases[i].coded), cases[i].value);
    }
}

static void computes_tags(void) {
    CHECK_EQUAL(fb_wire_tag(1, FB_WIRE_VARINT), 0x08);
    CHECK_EQUAL(fb_wire_tag(15, FB_WIRE_FIXED32), 0x7d);
    CHECK_EQUAL(fb_wire_tag(16, FB_WIRE_BYTES), 0x82);
    CHECK_EQUAL(fb_wire_tag(FB_NUMBER_MAX, FB_WIRE_FIXED64), 0xfffffff9);
    CHECK_EQUAL(fb_wire_varint_size(fb_wire_tag(FB_NUMBER_MAX, FB_WIRE_FIXED32)), FB_TAG_MAX);
}

/* Fixed sizes and prefixes -------------------------------------------------------------------- */

static void writes_fixed_sizes_least_significant_first(void) {
    uint8_t bytes[8];
    fb_wire_put_fixed32(bytes, 0x04030201);
    CHECK_BYTES(bytes, 4, "\1\2\3\4", 4);
    fb_wire_put_fixed64(bytes, 0x0807060504030201);
    CHECK_BYTES(bytes, 8, "\1\2\3\4\5\6\7\10", 8);
}

static const uint8_t *read_one(unsigned which, const uint8_t *p, const uint8_t *end) {
    uint32_t word;
    uint64_t value;
    fb_bytes view;
    switch (which) {
        case 0: return fb_wire_read_fixed32(p, end, &word);
        case 1: return fb_wire_read_fixed64(p, end, &value);
        case 2: return fb_wire_read_bytes(p, end, &view);
        default: return fb_wire_read_varint(p, end, &value);
    }
}

static void refuses_every_prefix_of_a_value(void) {
    static const struct {
        const char *bytes;
        size_t size;
    } values[] = {{"\1\2\3\4", 4},
                  {"\1\2\3\4\5\6\7\10", 8},
                  {"\3abc", 4},
                  {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 10}};
    for (unsigned which = 0; which < COUNT(values); which++)
        for (size_t size = 0; size <= values[which].size; size++) {
            uint8_t *p = fb_guarded_copy(values[which].bytes, size);
            CHECK(read_one(which, p, p + size) == (size == values[which].size ? p + size : NULL));
            fb_guarded_free(p, size);
        }
    uint32_t word = 0;
    uint64_t wide = 0;
    const uint8_t *eight = (const uint8_t *)"\1\2\3\4\5\6\7\10";
    fb_wire_read_fixed32(eight, eight + 4, &word);
    fb_wire_read_fixed64(eight, eight + 8, &wide);
    CHECK_EQUAL(word, 0x04030201);
    CHECK_EQUAL(wide, 0x0807060504030201);
}

/* A length of nearly 2^64 must not wrap around to a position before the end. */
static void refuses_lengths_that_wrap_around(void) {
    static const uint64_t lengths[] = {5,         1u << 31,       UINT64_C(1) << 32,
                                       INT64_MAX, UINT64_MAX - 3, UINT64_MAX};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        uint8_t bytes[16];
        fb_bytes view;
        uint8_t *end = fb_wire_put_varint(bytes, lengths[i]);
        memcpy(end, "four", 4);
        CHECK(!fb_wire_read_bytes(bytes, end + 4, &view));
    }
}

/* UTF-8 -------------------------------------------------------------------------------------- */

#define R "\xef\xbf\xbd" /* U+FFFD */

/* Check a text with characters before and behind it. */
static bool is_valid_among_others(const uint8_t *text, size_t size) {
    uint8_t whole[64] = "\xc3\xa9\xe6\x97\xa5x";
    memcpy(whole + 6, text, size);
    memcpy(whole + 6 + size, "\xf0\x9f\x98\x80plain text", 14);
    return fb_utf8_valid((fb_bytes){whole, 20 + size});
}

/* Follows the recommendation of the Unicode standard (chapter 3, "U+FFFD Substitution of Maximal
   Subparts"), with its examples. */
static void replaces_malformed_parts_of_text(void) {
    static const struct {
        const char *text, *replaced;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
         "\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"},
        {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
        {"\x80", R}, /* a continuation byte without a start */
        {"a\xff"
         "b",
         "a" R "b"},
        {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A"},   /* overlong forms */
        {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A"},   /* surrogates */
        {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B"}, /* above U+10FFFF */
        {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A"}, /* truncated: one for each start */
        {"\xf5\x80\x80\x80", R R R R},
        {"\xe2\x82", R},
        {"\xf0\x9f\x98", R},
        {"\xc3", R},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t size = strlen(cases[i].text);
        uint8_t *text = fb_guarded_copy(cases[i].text, size), *out = fb_guarded_room_of(3 * size);
        bool replaced;
        fb_bytes view = {text, size};
        uint8_t *end = fb_utf8_put_replaced(out, view, &replaced);
        CHECK_BYTES(out, (size_t)(end - out), cases[i].replaced, strlen(cases[i].replaced));
        CHECK(replaced == (strcmp(cases[i].text, cases[i].replaced) != 0));
        CHECK(fb_utf8_valid(view) == !replaced);
        CHECK(is_valid_among_others(text, size) == !replaced);
        fb_guarded_free(text, size);
        fb_guarded_free(out, 3 * size);
    }
}

/* Check every code point against a plain encoder. */
static void accepts_exactly_the_valid_code_points(void) {
    for (uint32_t code = 0; code < 0x120000; code += code < 0x11000 ? 1 : 97) {
        uint8_t text[4];
        size_t size = 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);
        static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
        for (size_t i = size; i--;)
            text[i] = (uint8_t)(i ? 0x80 | (code >> 6 * (size - 1 - i) & 0x3f)
                                  : first[size] | code >> 6 * (size - 1));
        bool surrogate = code >= 0xd800 && code < 0xe000;
        const bool valid = !surrogate && code < 0x110000;
        CHECK(fb_utf8_valid((fb_bytes){text, size}) == valid);
        CHECK(is_valid_among_others(text, size) == valid);
    }
}

RUN_TESTS(TEST(sizes_varints_at_every_boundary), TEST(writes_short_varints_like_all_others),
          TEST(loads_varints_like_the_bounded_reader), TEST(reads_varints_of_other_writers),
          TEST(zigzags_the_limits), TEST(computes_tags),
          TEST(writes_fixed_sizes_least_significant_first), TEST(refuses_every_prefix_of_a_value),
          TEST(refuses_lengths_that_wrap_around), TEST(replaces_malformed_parts_of_text),
          TEST(accepts_exactly_the_valid_code_points))
