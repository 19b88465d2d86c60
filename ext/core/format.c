/* Digits of addresses and numbers. */
#include "format.h"

static const char hexadecimal[] = "0123456789abcdef";

static char *put_octet(char *p, unsigned octet) {
    if (octet >= 100) *p++ = (char)('0' + octet / 100);
    if (octet >= 10) *p++ = (char)('0' + octet / 10 % 10);
    *p++ = (char)('0' + octet % 10);
    return p;
}

static char *put_ipv4(char *p, const uint8_t *octets) {
    p = put_octet(p, octets[0]);
    for (unsigned i = 1; i < 4; i++) {
        *p++ = '.';
        p = put_octet(p, octets[i]);
    }
    return p;
}

static char *put_group(char *p, unsigned group) {
    for (unsigned shift = 16; shift;) {
        shift -= 4;
        if (!shift || group >> shift) *p++ = hexadecimal[group >> shift & 15];
    }
    return p;
}

/* The groups from `first` to `end` are the longest run of zeros, the first of several, which `::` stands for; one alone is no
   run (RFC 5952 section 4.2). */
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
    bool mapped = fb_load64(address) == 0 && fb_load32(address + 8) == 0xffff;
    return mapped ? put_ipv4(p, address + 12) : put_groups(p, address);
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
    char digits[FB_FORMAT_NUMBER_MAX];
    unsigned count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count) *p++ = digits[--count];
    return p;
}
