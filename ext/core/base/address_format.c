/* IPv4 addresses are copied from a table of all bytes, without a branch that depends on data.
   Everything else is written digit by digit. */
#include "core/base/address_format.h"

static const char hexadecimal[] = "0123456789abcdef";

/* The number of digits is unpredictable, so put_ipv4 does not branch on it. It stores four
   characters and then overwrites the surplus. */
#define FB_TEN(tens) \
    tens "0.", tens "1.", tens "2.", tens "3.", tens "4.", tens "5.", tens "6.", tens "7.", \
        tens "8.", tens "9."
static const char byte_texts[256][5] = {
    FB_TEN(""),   FB_TEN("1"),  FB_TEN("2"),  FB_TEN("3"),  FB_TEN("4"),  FB_TEN("5"),
    FB_TEN("6"),  FB_TEN("7"),  FB_TEN("8"),  FB_TEN("9"),  FB_TEN("10"), FB_TEN("11"),
    FB_TEN("12"), FB_TEN("13"), FB_TEN("14"), FB_TEN("15"), FB_TEN("16"), FB_TEN("17"),
    FB_TEN("18"), FB_TEN("19"), FB_TEN("20"), FB_TEN("21"), FB_TEN("22"), FB_TEN("23"),
    FB_TEN("24"), "250.",       "251.",       "252.",       "253.",       "254.",
    "255.",
};
#undef FB_TEN

static char *put_ipv4(char *p, const uint8_t *bytes) {
    for (unsigned i = 0; i < 4; i++) {
        memcpy(p, byte_texts[bytes[i]], 4);
        p += 2 + (bytes[i] >= 10) + (bytes[i] >= 100);
    }
    return p - 1; /* without the last dot */
}

static char *put_group(char *p, unsigned group) {
    for (unsigned shift = 16; shift;) {
        shift -= 4;
        if (!shift || group >> shift) *p++ = hexadecimal[group >> shift & 15];
    }
    return p;
}

/* Find the longest run of zero groups, which `::` replaces; the first one of several. The run is
   the groups [first, end). A single zero group is not a run (RFC 5952 section 4.2). Both are 8 if
   no run exists. */
static void find_zeros(const uint8_t *address, unsigned *first, unsigned *end) {
    *first = *end = 8;
    for (unsigned i = 0; i < 8; i++) {
        unsigned begin = i;
        while (i < 8 && !fb_load16(address + 2 * i)) i++;
        if (i - begin > 1 && i - begin > *end - *first) *first = begin, *end = i;
    }
}

static char *put_groups(char *p, const uint8_t *address) {
    unsigned zeros, zeros_end;
    find_zeros(address, &zeros, &zeros_end);
    for (unsigned i = 0; i < 8; i++) {
        if (i == zeros) {
            *p++ = ':';
            if (zeros_end == 8) *p++ = ':';
            i = zeros_end;
            if (i == 8) break;
        }
        if (i) *p++ = ':';
        p = put_group(p, fb_load16(address + 2 * i));
    }
    return p;
}

char *fb_format_address(char *p, const uint8_t *address) {
    return fb_is_mapped(address) ? put_ipv4(p, address + 12) : put_groups(p, address);
}

char *fb_format_mac(char *p, uint64_t mac) {
    for (unsigned shift = 48; shift;) {
        shift -= 8;
        *p++ = hexadecimal[mac >> (shift + 4) & 15];
        *p++ = hexadecimal[mac >> shift & 15];
        if (shift) *p++ = ':';
    }
    return p;
}

static const char pairs[] = "0001020304050607080910111213141516171819202122232425262728293031323334"
                            "3536373839404142434445464748495051525354555657585960616263646566676869"
                            "707172737475767778798081828384858687888990919293949596979899";

static unsigned count_digits(uint64_t number) {
    /* clang-format off */
    static const uint64_t powers[] = {
        0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000,
        100000000000, 1000000000000, 10000000000000, 100000000000000, 1000000000000000,
        10000000000000000, 100000000000000000, 1000000000000000000, UINT64_C(10000000000000000000)};
    /* clang-format on */
    const unsigned bits = 63 - (unsigned)__builtin_clzll(number | 1);
    const unsigned least = (bits + 1) * 1233 >> 12; /* times log10(2) */
    return least + (number >= powers[least]);
}

/* Write eight digits. Their pairs do not depend on each other. */
FB_INLINE void put_eight_digits(char *p, uint32_t number) {
    const uint32_t high = number / 10000, low = number % 10000;
    memcpy(p, pairs + 2 * (high / 100), 2);
    memcpy(p + 2, pairs + 2 * (high % 100), 2);
    memcpy(p + 4, pairs + 2 * (low / 100), 2);
    memcpy(p + 6, pairs + 2 * (low % 100), 2);
}

char *fb_format_number(char *p, uint64_t number) {
    const unsigned count = number ? count_digits(number) : 1;
    char *end = p + count, *to = end;
    memset(p, 0, FB_FORMAT_NUMBER_MAX);
    for (; number >= 100000000; number /= 100000000)
        put_eight_digits(to -= 8, (uint32_t)(number % 100000000));
    uint32_t rest = (uint32_t)number;
    for (; rest >= 100; rest /= 100) memcpy(to -= 2, pairs + 2 * (rest % 100), 2);
    if (rest >= 10) memcpy(to - 2, pairs + 2 * rest, 2);
    else to[-1] = (char)('0' + rest);
    return end;
}
