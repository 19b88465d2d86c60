/* The table of varint sizes, and UTF-8 validation. Protocol Buffers strings must be valid UTF-8. */
#include "core/wire/wire.h"

#define SEVEN(x) x, x, x, x, x, x, x
/* values of 57 bits and more are not looked up; a varint has a byte for every seven bits */
#define BY_ZEROS(of) \
    0, SEVEN(0), SEVEN(of(8)), SEVEN(of(7)), SEVEN(of(6)), SEVEN(of(5)), SEVEN(of(4)), \
        SEVEN(of(3)), SEVEN(of(2)), SEVEN(of(1)), of(1)
#define MORE(size)   (0x8080808080808080u & ((UINT64_C(1) << (8 * (size) - 8)) - 1))
#define ITSELF(size) size

const fb_varint_table fb_wire_varint_table = {
    .groups = 0x7f7f7f7f7f7f7f7fu,
    .more = {BY_ZEROS(MORE)},
    .size = {BY_ZEROS(ITSELF)},
};

/* Return the size of a character from its first byte, and the bounds of its second byte. The bounds
   exclude overlong forms, surrogates and everything beyond U+10FFFF. 0: no character begins with
   this byte. */
static size_t read_first_byte(uint8_t first, uint8_t *low, uint8_t *high) {
    *low = 0x80;
    if (first == 0xe0) *low = 0xa0;
    else if (first == 0xf0) *low = 0x90;
    *high = 0xbf;
    if (first == 0xed) *high = 0x9f;
    else if (first == 0xf4) *high = 0x8f;
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return 2;
    if (first >= 0xe0 && first <= 0xef) return 3;
    if (first >= 0xf0 && first <= 0xf4) return 4;
    return 0;
}

bool fb_utf8_character(const uint8_t *p, const uint8_t *end, size_t *size) {
    uint8_t low, high;
    size_t whole = read_first_byte(p[0], &low, &high);
    size_t have = 1;
    while (have < whole && p + have < end && p[have] >= low && p[have] <= high) {
        low = 0x80;
        high = 0xbf;
        have++;
    }
    *size = have;
    return have == whole;
}

FB_INLINE bool continues(uint8_t byte) {
    return (byte & 0xc0) == 0x80;
}

/* Return the size of a character of two or more bytes, or 0 if it may be malformed. */
FB_INLINE size_t read_usual_character(const uint8_t *p) {
    const uint8_t first = p[0], second = p[1];
    if (first >= 0xc2 && first <= 0xdf) return continues(second) ? 2 : 0;
    const bool overlong = first == 0xe0 && second < 0xa0,
               surrogate = first == 0xed && second > 0x9f;
    if (!continues(second) || !continues(p[2]) || overlong || surrogate) return 0;
    if ((first & 0xf0) == 0xe0) return 3;
    const bool is_four = (first >= 0xf1 && first <= 0xf3) || (first == 0xf0 && second >= 0x90);
    return is_four && continues(p[3]) ? 4 : 0;
}

bool fb_utf8_valid(fb_bytes text) {
    const uint8_t *p = text.data, *end = fb_end_of(text);
    size_t size;
    if (FB_LIKELY(fb_is_ascii(p, text.size))) return true;
    while (end - p >= 8) {
        if (!(fb_load64(p) & 0x8080808080808080u)) p += 8;
        else if (*p < 0x80) p++;
        else if ((size = read_usual_character(p)) || fb_utf8_character(p, end, &size)) p += size;
        else return false;
    }
    for (; p < end; p += size)
        if (!fb_utf8_character(p, end, &size)) return false;
    return true;
}

uint8_t *fb_utf8_put_replaced(uint8_t *p, fb_bytes text, bool *replaced) {
    const uint8_t *from = text.data, *end = fb_end_of(text);
    size_t size;
    *replaced = false;
    for (; from < end; from += size) {
        if (fb_utf8_character(from, end, &size)) {
            p = fb_wire_put_bytes(p, from, size);
        } else {
            p = fb_wire_put_bytes(p, "\xef\xbf\xbd", 3);
            *replaced = true;
        }
    }
    return p;
}
