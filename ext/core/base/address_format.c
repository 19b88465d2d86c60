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

char *fb_format_number(char *p, uint64_t number) {
    char digits[2 * FB_FORMAT_NUMBER_MAX]; /* the text is copied with a fixed size */
    unsigned begin = FB_FORMAT_NUMBER_MAX;
    memset(digits + begin, 0, FB_FORMAT_NUMBER_MAX);
    for (; number >= 100; number /= 100) {
        unsigned pair = (unsigned)(number % 100);
        digits[--begin] = (char)('0' + pair % 10);
        digits[--begin] = (char)('0' + pair / 10);
    }
    digits[--begin] = (char)('0' + number % 10);
    if (number >= 10) digits[--begin] = (char)('0' + number / 10);
    memcpy(p, digits + begin, FB_FORMAT_NUMBER_MAX);
    return p + (FB_FORMAT_NUMBER_MAX - begin);
}
