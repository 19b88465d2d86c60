/* The algorithm is that of Eisel and Lemire ("Number parsing at a gigabyte per second"): the digits
   are multiplied with a power of ten of 128 bits. If that does not decide how the result is
   rounded, big integers are compared. */
#include "core/base/real_parse.h"

#include "core/base/powers_of_ten.h"

enum {
    DIGITS = 19, /* decimal digits that 64 bits hold */
    EXPONENT_LIMIT = 100000000,
    FRACTION_BITS = 52,
    EXPONENT_MAX = 0x7ff
};
#define HIDDEN   (UINT64_C(1) << FRACTION_BITS)
#define INFINITE ((uint64_t)EXPONENT_MAX << FRACTION_BITS)

/* The text of a number ------------------------------------------------------------------------ */

static bool is_digit(const uint8_t *p, const uint8_t *end) {
    return p < end && (unsigned)(*p - '0') < 10;
}

typedef struct {
    uint64_t value;
    int count;   /* digits in `value` */
    int skipped; /* digits behind them */
    bool more;   /* one of these is not zero */
} digits;

static const uint8_t *take_digits(const uint8_t *p, const uint8_t *end, digits *all) {
    for (; is_digit(p, end); p++) {
        const unsigned digit = (unsigned)(*p - '0');
        if (all->count < DIGITS) {
            all->value = all->value * 10 + digit;
            all->count += all->value != 0; /* leading zeros do not count */
        } else {
            all->more |= digit != 0;
            all->skipped += all->skipped < EXPONENT_LIMIT;
        }
    }
    return p;
}

static const uint8_t *take_exponent(const uint8_t *p, const uint8_t *end, int *exponent) {
    int value = 0;
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    if (!is_digit(p, end)) return NULL;
    for (; is_digit(p, end); p++)
        if (value < EXPONENT_LIMIT) value = value * 10 + (*p - '0');
    if (value > EXPONENT_LIMIT) value = EXPONENT_LIMIT;
    *exponent = negative ? -value : value;
    return p;
}

const uint8_t *fb_parse_decimal(const uint8_t *p, const uint8_t *end, fb_decimal *number) {
    digits all = {0};
    int places = 0; /* digits behind the point that are in all.value */
    *number = (fb_decimal){.negative = p < end && *p == '-'};
    p += number->negative;
    const uint8_t *begin = p;
    if (!is_digit(p, end)) return NULL;
    if (*p == '0' && is_digit(p + 1, end)) return NULL;
    p = take_digits(p, end, &all);
    if (p < end && *p == '.') {
        const uint8_t *point = ++p;
        const int skipped = all.skipped;
        if (!is_digit(p, end)) return NULL;
        p = take_digits(p, end, &all);
        const size_t behind = (size_t)(p - point);
        places = behind > EXPONENT_LIMIT ? EXPONENT_LIMIT : (int)behind;
        places -= all.skipped - skipped;
        all.skipped = skipped;
    }
    number->text = (fb_bytes){begin, (size_t)(p - begin)};
    if (p < end && (*p == 'e' || *p == 'E') &&
        !(p = take_exponent(p + 1, end, &number->text_exponent)))
        return NULL;
    number->digits = all.value;
    number->more = all.more;
    number->exponent = number->text_exponent + all.skipped - places;
    return p;
}

/* Read the digits up to the last that is not zero. *exponent becomes that of the result. Returns
   false if they do not fit. */
static bool read_integer(const fb_decimal *number, uint64_t *value, int *exponent) {
    bool point = false;
    int zeros = 0; /* that follow the digits of *value */
    *value = 0;
    *exponent = number->text_exponent;
    for (size_t i = 0; i < number->text.size; i++) {
        const uint8_t c = number->text.data[i];
        if (c == '.') {
            point = true;
            continue;
        }
        *exponent -= point;
        zeros += *value && zeros < 2 * EXPONENT_LIMIT;
        if (c == '0') continue;
        for (; zeros > 1; zeros--) {
            if (*value > UINT64_MAX / 10) return false;
            *value *= 10;
        }
        const unsigned digit = (unsigned)(c - '0');
        if (*value > (UINT64_MAX - digit) / 10) return false;
        *value = *value * 10 + digit;
        zeros = 0;
    }
    *exponent += zeros;
    return true;
}

bool fb_decimal_to_integer(const fb_decimal *number, uint64_t *magnitude) {
    uint64_t value = number->digits;
    int exponent = number->exponent;
    *magnitude = 0;
    if (!value) return true;
    if (number->more && !read_integer(number, &value, &exponent)) return false;
    for (; exponent < 0; exponent++) {
        if (value % 10) return false;
        value /= 10;
    }
    for (; exponent > 0; exponent--) {
        if (value > UINT64_MAX / 10) return false;
        value *= 10;
    }
    *magnitude = value;
    return true;
}

/* Big integers -------------------------------------------------------------------------------- */

/* The largest are 10^1223 and 800 digits shifted by 1,075 bits: fewer than 4,100 bits. */
enum { WORDS = 140, KEPT_DIGITS = 800 };

typedef struct {
    uint32_t words[WORDS]; /* the lowest first */
    int count;
} big;

static void multiply_add(big *number, uint32_t factor, uint32_t more) {
    uint64_t carry = more;
    for (int i = 0; i < number->count; i++) {
        carry += (uint64_t)number->words[i] * factor;
        number->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (!carry) return;
    assert(number->count < WORDS);
    number->words[number->count++] = (uint32_t)carry;
}

static void multiply_by_power_of_10(big *number, int exponent) {
    for (; exponent >= 9; exponent -= 9) multiply_add(number, 1000000000, 0);
    for (; exponent > 0; exponent--) multiply_add(number, 10, 0);
}

static void multiply_by_power_of_2(big *number, int exponent) {
    for (; exponent >= 31; exponent -= 31) multiply_add(number, UINT32_C(1) << 31, 0);
    multiply_add(number, UINT32_C(1) << exponent, 0);
}

static int compare(const big *one, const big *other) {
    if (one->count != other->count) return one->count < other->count ? -1 : 1;
    for (int i = one->count; i--;)
        if (one->words[i] != other->words[i]) return one->words[i] < other->words[i] ? -1 : 1;
    return 0;
}

/* Read all digits of a number, up to KEPT_DIGITS. If others than zeros follow, the last one stands
   for them. Returns the exponent of the result. */
static int read_digits(big *value, const fb_decimal *number) {
    int exponent = number->text_exponent, count = 0;
    bool point = false, more = false;
    for (size_t i = 0; i < number->text.size; i++) {
        const uint8_t c = number->text.data[i];
        if (c == '.') {
            point = true;
            continue;
        }
        if (count == KEPT_DIGITS) {
            more |= c != '0';
            exponent += !point;
            continue;
        }
        multiply_add(value, 10, (uint32_t)(c - '0'));
        count += value->count != 0;
        exponent -= point;
    }
    if (!more) return exponent;
    multiply_add(value, 10, 1);
    return exponent - 1;
}

/* Compare the number with the middle between a double and the next larger one. */
static int compare_with_middle(const fb_decimal *number, uint64_t bits) {
    big value = {.count = 0}, middle = {.count = 0};
    const int biased = (int)(bits >> FRACTION_BITS);
    const uint64_t fraction = bits & (HIDDEN - 1);
    const uint64_t twice = 2 * (biased ? fraction | HIDDEN : fraction) + 1;
    const int binary = (biased ? biased : 1) - 1023 - FRACTION_BITS - 1; /* of `twice` */
    const int exponent = read_digits(&value, number);
    multiply_add(&middle, 1, (uint32_t)(twice >> 32));
    if (!middle.count) multiply_add(&middle, 1, (uint32_t)twice);
    else {
        middle.words[1] = middle.words[0];
        middle.words[0] = (uint32_t)twice;
        middle.count = 2;
    }
    multiply_by_power_of_10(exponent < 0 ? &middle : &value, exponent < 0 ? -exponent : exponent);
    multiply_by_power_of_2(binary < 0 ? &value : &middle, binary < 0 ? -binary : binary);
    return compare(&value, &middle);
}

/* Move a double that is close to the number to the closest one. */
static uint64_t correct(const fb_decimal *number, uint64_t bits) {
    for (;;) {
        int above = compare_with_middle(number, bits);
        if (bits < INFINITE && (above > 0 || (above == 0 && bits & 1))) {
            bits++;
            continue;
        }
        if (!bits) return bits;
        int below = compare_with_middle(number, bits - 1);
        if (below > 0 || (below == 0 && !(bits & 1))) return bits;
        bits--;
    }
}

/* From digits to a double --------------------------------------------------------------------- */

/* Multiply with a power of ten. Returns the upper 64 bits, and sets *low to the next 64. The
   algorithm needs large powers rounded down, and negative ones rounded up. */
static uint64_t multiply(uint64_t value, int exponent, uint64_t *low) {
    const uint64_t *power = fb_powers_of_ten[exponent - FB_POWER_MIN];
    const bool down = exponent > FB_POWER_EXACT;
    const uint64_t power_low = power[1] - down, power_high = power[0] - (down && !power[1]);
    uint64_t high = fb_multiply_halves(value, power_high, low), ignored;
    if ((high & 0x1ff) == 0x1ff) { /* the lower half of the power may decide */
        uint64_t carried = fb_multiply_halves(value, power_low, &ignored);
        *low += carried;
        high += *low < carried;
    }
    return high;
}

/* Compute the bits of the double that is closest to digits * 10^exponent. Returns false if this
   does not decide between two. The result is then one of the two. */
static bool convert(uint64_t value, int exponent, uint64_t *bits) {
    uint64_t low;
    const int zeros = __builtin_clzll(value);
    const uint64_t high = multiply(value << zeros, exponent, &low);
    const int top = (int)(high >> 63), shift = top + 64 - FRACTION_BITS - 3;
    const bool sure = low != UINT64_MAX || (exponent >= -27 && exponent <= FB_POWER_EXACT);
    uint64_t mantissa = high >> shift;
    int biased = fb_log2_of_power_of_10(exponent) + 63 + top - zeros + 1023;
    if (biased <= 0) { /* subnormal */
        if (1 - biased >= 64) {
            *bits = 0;
            return sure;
        }
        mantissa >>= 1 - biased;
        mantissa += mantissa & 1;
        *bits = mantissa >> 1; /* a carry into the hidden bit makes it normal */
        return sure;
    }
    /* exactly between two: round to the even one */
    if (low <= 1 && exponent >= -4 && exponent <= 23 && (mantissa & 3) == 1 &&
        mantissa << shift == high)
        mantissa &= ~UINT64_C(1);
    mantissa += mantissa & 1;
    mantissa >>= 1;
    if (mantissa >= 2 * HIDDEN) {
        mantissa = HIDDEN;
        biased++;
    }
    *bits = biased >= EXPONENT_MAX ? INFINITE
                                   : (uint64_t)biased << FRACTION_BITS | (mantissa & (HIDDEN - 1));
    return sure;
}

static uint64_t to_bits(const fb_decimal *number) {
    uint64_t bits, next;
    if (!number->digits || number->exponent < FB_POWER_MIN) return 0;
    if (number->exponent > 308) return INFINITE;
    bool sure = convert(number->digits, number->exponent, &bits);
    if (sure && number->more)
        sure = convert(number->digits + 1, number->exponent, &next) && next == bits;
    return sure ? bits : correct(number, bits);
}

double fb_decimal_to_real(const fb_decimal *number) {
    double real;
    uint64_t bits = to_bits(number) | (uint64_t)number->negative << 63;
    memcpy(&real, &bits, 8);
    return real;
}
