#include "tests/builders/arrow_choice_internal.h"

/* Numbers ------------------------------------------------------------------------------------ */

static const int64_t integers[] = {0,
                                   1,
                                   -1,
                                   2,
                                   7,
                                   100,
                                   101,
                                   127,
                                   128,
                                   -128,
                                   255,
                                   256,
                                   65535,
                                   65536,
                                   INT32_MAX,
                                   INT32_MIN,
                                   UINT32_MAX,
                                   (int64_t)UINT32_MAX + 1,
                                   INT64_MAX,
                                   INT64_MIN,
                                   0xffffffffffff,
                                   0x1000000000000,
                                   16777217,
                                   9007199254740993,
                                   9223372036854,
                                   9223372036855,
                                   106751,
                                   106752,
                                   9223372036854775,
                                   -9223372036854775,
                                   9223372036854776,
                                   18446744073,
                                   86400000,
                                   -999,
                                   1700000000000};

static const double reals[] = {0,
                               -0.0,
                               0.5,
                               1,
                               -1,
                               100,
                               101,
                               255,
                               256,
                               4294967295,
                               4294967296,
                               2147483648,
                               -2147483648,
                               -2147483649,
                               0x1p63,
                               -0x1p63,
                               0x1p64,
                               0x1.fffffffffffffp63,
                               0x1.fffffep127,
                               0x1.ffffffp127,
                               1e39,
                               5e-324,
                               1e308};

int64_t choice_pick_integer(maker *m) {
    return PICK(m, integers);
}

static int choose_small(maker *m, unsigned how) {
    return how == 1 ? next_byte(m) % 101 : (int8_t)next_byte(m);
}

static double choose_real(maker *m, unsigned how) {
    static const double odd[] = {__builtin_nan(""), __builtin_inf(), -__builtin_inf()};
    return how < 3 ? choose_small(m, how) : one_in(m, 8) ? PICK(m, odd) : PICK(m, reals);
}

static int64_t choose_integer(maker *m, unsigned how) {
    return how < 3 ? choose_small(m, how) : choice_pick_integer(m);
}

void choice_fill_numbers(maker *m, uint8_t *values, size_t count, size_t width, bool real) {
    unsigned how = next_byte(m) % 4;
    for (size_t i = 0; i < count; i++, values += width) {
        for (size_t k = 0; !how && k < width; k++) values[k] = next_byte(m);
        if (!how) continue;
        double wide = real ? choose_real(m, how) : 0;
        float narrow = (float)wide;
        int64_t integer = real ? 0 : choose_integer(m, how);
        memcpy(values,
               real && width == 8 ? (void *)&wide
               : real             ? (void *)&narrow
                                  : (void *)&integer,
               width);
    }
}

/* Bytes -------------------------------------------------------------------------------------- */

static const char *const words[] = {"",
                                    "ingress",
                                    "in",
                                    "5",
                                    "007",
                                    "2147483647",
                                    "2147483648",
                                    "1.2.3.4",
                                    "0.0.0.0",
                                    "::",
                                    "::ffff:0.0.0.0",
                                    "2001:db8::1",
                                    "1.2.3.04",
                                    "1:2:3:4:5:6:7:8",
                                    "1:2:3:4:5:6:7::",
                                    "::1:2:3:4:5:6:7:8",
                                    "1:2:3:4:5:6:1.2.3.4",
                                    "00:00:5e:00:53:01",
                                    "00-00-5E-00-53-01",
                                    "00:00:5e-00:53:01",
                                    "twelve-bytes",
                                    "thirteen-byte",
                                    "sixteen-bytes-of",
                                    "\xc3\xa4",
                                    "\xf0\x9f\x98\x80",
                                    "\xed\xa0\x80",
                                    "thirteen-byt\xc3",
                                    "\xf4\x90\x80\x80",
                                    "\xc0\x80",
                                    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                                    "\n%s\\\"",
                                    "a text of more bytes than any address has"};

/* Choose a value. Most are one repeated word, so that whole blocks are valid if the column takes
   it. */
static size_t choose_bytes(maker *m, const char *usual, uint8_t *bytes) {
    uint8_t how = next_byte(m);
    size_t size = how % 8 == 0 ? 4 : how % 8 == 1 ? 16 : how % 32;
    if (how >= 16) {
        const char *word = how < 32 ? PICK(m, words) : usual;
        memcpy(bytes, word, size = strlen(word));
        return size;
    }
    for (size_t i = 0; i < size; i++) bytes[i] = next_byte(m);
    return size;
}

typedef struct {
    uint8_t bytes[MOST_BYTES];
    size_t size, ends[MOST_BYTES / 16];
} byte_buffer;

static void choose_all(maker *m, byte_buffer *o, size_t count) {
    const char *usual = PICK(m, words);
    o->size = 0;
    for (size_t i = 0; i < count; i++) {
        o->size += choose_bytes(m, usual, o->bytes + o->size);
        o->ends[i] = o->size;
    }
}

void choice_put_offset(uint8_t *offsets, size_t i, int64_t offset, bool large) {
    memcpy(offsets + i * (large ? 8 : 4), &offset, large ? 8 : 4);
}

void choice_add_bytes(maker *m, node *n, bool large) {
    static byte_buffer o;
    size_t count = count_of(n), first = next_byte(m) % 4, lost = next_byte(m);
    choose_all(m, &o, count);
    uint8_t *offsets = add_buffer(m, n, count ? (count + 1) * (large ? 8 : 4) : 0);
    for (size_t i = 0; count && i <= count; i++)
        choice_put_offset(offsets, i,
                          i == lost && i < count ? (next_byte(m) % 2 ? -1 : 0)
                                                 : (int64_t)(first + (i ? o.ends[i - 1] : 0)),
                          large);
    uint8_t *values = add_buffer(m, n, count ? first + o.size : 0);
    if (count) memcpy(values + first, o.bytes, o.size);
}

void choice_add_views(maker *m, node *n) {
    static byte_buffer o;
    size_t count = count_of(n), split = next_byte(m) % 3;
    choose_all(m, &o, count);
    uint8_t *views = add_buffer(m, n, 16 * count), *values[2] = {NULL, NULL};
    for (size_t k = 0; k < split; k++)
        memcpy(values[k] = add_buffer(m, n, o.size), o.bytes, o.size);
    for (size_t i = 0; i < count; i++) {
        size_t begin = i ? o.ends[i - 1] : 0;
        int32_t size = (int32_t)(o.ends[i] - begin),
                place[2] = {split ? (int32_t)(i % split) : 0, (int32_t)begin};
        memcpy(views + 16 * i, &size, 4);
        memcpy(views + 16 * i + 4, o.bytes + begin, size < 12 ? (size_t)size : 12);
        if (size > 12) memcpy(views + 16 * i + 8, place, 8);
        if (one_in(m, 32)) views[16 * i + next_byte(m) % 16] ^= next_byte(m);
    }
    uint8_t *sizes = add_buffer(m, n, 8 * split);
    for (size_t k = 0; k < split; k++) {
        int64_t held = one_in(m, 16) ? choice_pick_integer(m) : (int64_t)o.size;
        if (held <= (int64_t)o.size) memcpy(sizes + 8 * k, &held, 8); /* otherwise 0 */
    }
}
