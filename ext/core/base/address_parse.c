/* Readers advance a pointer or return false. The caller derives missing groups from the bytes that
   were read. */
#include "core/base/address_parse.h"

static bool read_digit(uint8_t character, unsigned *digit) {
    unsigned letter = character | 0x20u;
    if (character >= '0' && character <= '9') *digit = character - '0';
    else if (letter >= 'a' && letter <= 'f') *digit = letter - 'a' + 10;
    else return false;
    return true;
}

/* Read hexadecimal digits, at most `most` of them. */
static bool read_hexadecimal(const uint8_t **p, const uint8_t *end, unsigned most,
                             unsigned *number) {
    const uint8_t *begin = *p;
    unsigned digit;
    for (*number = 0; *p < end && *p < begin + most && read_digit(**p, &digit); ++*p)
        *number = *number << 4 | digit;
    return *p > begin;
}

static bool read_decimal_byte(const uint8_t **p, const uint8_t *end, uint8_t *byte) {
    const uint8_t *begin = *p;
    unsigned number = 0;
    for (; *p < end && *p < begin + 3 && **p >= '0' && **p <= '9'; ++*p)
        number = number * 10 + (**p - '0');
    *byte = (uint8_t)number;
    return *p > begin && number <= 255 && (*begin != '0' || *p == begin + 1);
}

/* Read four decimal numbers. They must be the whole text. */
static bool read_dotted(const uint8_t *p, const uint8_t *end, uint8_t address[4]) {
    for (unsigned i = 0; i < 4; i++) {
        if (i && (p == end || *p++ != '.')) return false;
        if (!read_decimal_byte(&p, end, &address[i])) return false;
    }
    return p == end;
}

static bool has_dot(const uint8_t *p, const uint8_t *end) {
    while (p < end && *p != ':')
        if (*p++ == '.') return true;
    return false;
}

/* Move the groups after `::` to the end and fill the gap with zeros. `::` replaces at least one
   group. */
static bool expand_gap(uint8_t address[16], size_t size, size_t gap) {
    if (size > 14) return false;
    size_t behind = size - gap;
    memmove(address + 16 - behind, address + gap, behind);
    memset(address + gap, 0, 16 - size);
    return true;
}

static bool read_groups(const uint8_t *p, const uint8_t *end, uint8_t address[16]) {
    enum { NO_GAP = 17 };
    size_t size = 0, gap = NO_GAP;
    unsigned group;
    if (end - p >= 2 && p[0] == ':' && p[1] == ':') {
        gap = 0;
        p += 2;
    }
    while (p < end) {
        if (size <= 12 && has_dot(p, end)) {
            if (!read_dotted(p, end, address + size)) return false;
            size += 4;
            break;
        }
        if (size > 14 || !read_hexadecimal(&p, end, 4, &group)) return false;
        address[size++] = (uint8_t)(group >> 8);
        address[size++] = (uint8_t)group;
        if (p == end) break;
        if (*p++ != ':' || p == end) return false;
        if (*p != ':') continue;
        if (gap != NO_GAP) return false;
        gap = size;
        p++;
    }
    return gap == NO_GAP ? size == 16 : expand_gap(address, size, gap);
}

bool fb_address_read(fb_bytes text, uint8_t address[16]) {
    const uint8_t *p = text.data, *end = p + text.size;
    if (text.size < 2) return false; /* `data` may be NULL if the text is empty */
    if (!has_dot(p, end)) return read_groups(p, end, address);
    memset(address, 0, 10);
    address[10] = address[11] = 0xff;
    return read_dotted(p, end, address + 12);
}

bool fb_mac_read(fb_bytes text, uint64_t *mac) {
    if (text.size != 17) return false;
    const uint8_t *p = text.data, *end = p + 17;
    uint8_t separator = p[2];
    if (separator != ':' && separator != '-') return false;
    *mac = 0;
    for (unsigned i = 0, byte; i < 6; i++) {
        const uint8_t *begin = p;
        if (!read_hexadecimal(&p, end, 2, &byte) || p != begin + 2) return false;
        if (i < 5 && *p++ != separator) return false;
        *mac = *mac << 8 | byte;
    }
    return true;
}
