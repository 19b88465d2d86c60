/* The algorithm is Schubfach (Raffaele Giulietti, "The Schubfach way to render doubles"). A float
   is significand * 2^exponent. All decimals between it and the middles to its neighbours read back
   as it. The power of ten is chosen such that this interval contains one or more integers, and at
   most one multiple of ten. */
#include "core/base/real_format.h"

#include "core/base/address_format.h"
#include "core/base/powers_of_ten.h"

enum { FRACTION_BITS = 52, EXPONENT_MAX = 0x7ff, BIAS = 1023 + FRACTION_BITS };
#define HIDDEN (UINT64_C(1) << FRACTION_BITS)

/* digits * 10^exponent */
typedef struct {
    uint64_t digits;
    int exponent;
} decimal;

/* Logarithms of powers, rounded down. They are exact for all exponents of a double. */
static int log10_of_power_of_2(int e) {
    return (int)((int64_t)e * 1262611 >> 22);
}
static int log10_of_three_quarters(int e) { /* of 3/4 * 2^e */
    return (int)(((int64_t)e * 1262611 - 524031) >> 22);
}

/* Return the upper 64 bits of power * factor / 2^64. The lowest bit is set if any bit below is, so
   that comparisons with integers stay exact. */
static uint64_t multiply(const uint64_t power[2], uint64_t factor) {
    uint64_t low, ignored;
    uint64_t carried = fb_multiply_halves(power[1], factor, &ignored);
    uint64_t high = fb_multiply_halves(power[0], factor, &low);
    low += carried;
    high += low < carried;
    return high | (low > 1);
}

/* Shorten significand * 2^exponent. `closer`: the neighbour below is only half as far away, as
   below a power of two. REQUIRES: the significand is not zero. */
static decimal shorten(uint64_t significand, int exponent, bool closer) {
    if (exponent <= 0 && exponent > -FRACTION_BITS - 1) { /* an integer of up to 53 bits */
        uint64_t integer = significand >> -exponent;
        if (integer << -exponent == significand) return (decimal){integer, 0};
    }
    const bool odd = significand & 1;
    const int k = closer ? log10_of_three_quarters(exponent) : log10_of_power_of_2(exponent);
    const int shift = exponent + fb_log2_of_power_of_10(-k) + 1;
    const uint64_t *power = fb_powers_of_ten[-k - FB_POWER_MIN];
    /* the interval and the number, in quarters of 10^k */
    const uint64_t quarters = 4 * significand;
    const uint64_t lower = multiply(power, (quarters - 2 + closer) << shift) + odd;
    const uint64_t number = multiply(power, quarters << shift);
    const uint64_t upper = multiply(power, (quarters + 2) << shift) - odd;
    const uint64_t digits = number / 4;
    if (digits >= 10) { /* one digit fewer, if exactly one of the two neighbours is inside */
        const uint64_t tens = digits / 10;
        bool below = lower <= 40 * tens, above = 40 * tens + 40 <= upper;
        if (below != above) return (decimal){tens + above, k + 1};
    }
    bool below = lower <= 4 * digits, above = 4 * digits + 4 <= upper;
    if (below != above) return (decimal){digits + above, k};
    const uint64_t middle = 4 * digits + 2;
    bool up = number > middle || (number == middle && digits & 1);
    return (decimal){digits + up, k};
}

static char *put_text(char *p, const char *text, size_t size) {
    memcpy(p, text, size);
    return p + size;
}

static char *put_zeros(char *p, int count) {
    while (count-- > 0) *p++ = '0';
    return p;
}

static char *put_exponent(char *p, int exponent) {
    *p++ = 'e';
    *p++ = exponent < 0 ? '-' : '+';
    unsigned size = (unsigned)(exponent < 0 ? -exponent : exponent);
    if (size >= 100) *p++ = (char)('0' + size / 100);
    *p++ = (char)('0' + size / 10 % 10);
    *p++ = (char)('0' + size % 10);
    return p;
}

/* Write digits with a point after the first `point` of them. The point may be outside of them. */
static char *put_digits(char *p, const char *digits, int count, int point) {
    if (point > 16 || point <= -4) {
        *p++ = digits[0];
        if (count > 1) *p++ = '.';
        p = put_text(p, digits + 1, (size_t)count - 1);
        return put_exponent(p, point - 1);
    }
    if (point <= 0) return put_text(put_zeros(put_text(p, "0.", 2), -point), digits, (size_t)count);
    if (point >= count) {
        p = put_zeros(put_text(p, digits, (size_t)count), point - count);
        return put_text(p, ".0", 2);
    }
    p = put_text(p, digits, (size_t)point);
    *p++ = '.';
    return put_text(p, digits + point, (size_t)(count - point));
}

static char *put_decimal(char *p, decimal number) {
    char digits[FB_FORMAT_NUMBER_MAX];
    int count = (int)(fb_format_number(digits, number.digits) - digits);
    const int point = count + number.exponent;
    while (count > 1 && digits[count - 1] == '0') count--;
    return put_digits(p, digits, count, point);
}

/* Write a float of so many bits of fraction. `bias` is that of the exponent of its significand. */
static char *put_real(char *p, uint64_t fraction, int fraction_bits, int biased, int most,
                      int bias) {
    const uint64_t hidden = UINT64_C(1) << fraction_bits;
    if (biased == most) return put_text(p, "Infinity", 8);
    if (!biased && !fraction) return put_text(p, "0.0", 3);
    return put_decimal(p, shorten(biased ? fraction | hidden : fraction,
                                  (biased ? biased : 1) - bias, fraction == 0 && biased > 1));
}

char *fb_format_real(char *p, double real) {
    uint64_t bits;
    memcpy(&bits, &real, 8);
    const uint64_t fraction = bits & (HIDDEN - 1);
    const int biased = (int)(bits >> FRACTION_BITS & EXPONENT_MAX);
    if (biased == EXPONENT_MAX && fraction) return put_text(p, "NaN", 3);
    if (bits >> 63) *p++ = '-';
    return put_real(p, fraction, FRACTION_BITS, biased, EXPONENT_MAX, BIAS);
}

char *fb_format_real32(char *p, float real) {
    uint32_t bits;
    memcpy(&bits, &real, 4);
    const uint32_t fraction = bits & 0x7fffff;
    const int biased = (int)(bits >> 23 & 0xff);
    if (biased == 0xff && fraction) return put_text(p, "NaN", 3);
    if (bits >> 31) *p++ = '-';
    return put_real(p, fraction, 23, biased, 0xff, 127 + 23);
}
