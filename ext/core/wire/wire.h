/* The Protocol Buffers wire format: writers and readers of varints, fixed-size numbers and bytes.

   A writer takes the output pointer and returns it advanced. It checks no room: the caller has
   checked it once for a whole row. */
#ifndef FB_WIRE_WIRE_H
#define FB_WIRE_WIRE_H

#include "core/base/base.h"

#ifdef __BMI2__
#include <immintrin.h>
#endif

#define FB_VARINT_MAX 10
#define FB_TAG_MAX    5
#define FB_NUMBER_MAX 536870911u

typedef enum {
    FB_WIRE_VARINT = 0,
    FB_WIRE_FIXED64 = 1,
    FB_WIRE_BYTES = 2,
    FB_WIRE_FIXED32 = 5
} fb_wire_type;

FB_INLINE size_t fb_wire_varint_size(uint64_t value) {
    size_t size = 1;
    while (value >= 0x80) {
        value >>= 7;
        size++;
    }
    return size;
}

/* REQUIRES: room for fb_wire_varint_size(value) bytes. */
FB_INLINE uint8_t *fb_wire_put_varint(uint8_t *p, uint64_t value) {
    while (value >= 0x80) {
        *p++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *p++ = (uint8_t)value;
    return p;
}

/* By the number of leading zero bits of a value: the bits that mark each byte of its varint with a
   successor, and the number of its bytes. A look-up takes fewer instructions than a
   calculation. */
typedef struct {
    uint64_t groups; /* the other bits of eight bytes */
    uint64_t more[65];
    uint8_t size[65];
} fb_varint_table;
extern const fb_varint_table fb_wire_varint_table;

/* Return the varint of a value below 2^56 as the low bytes of a number. *size becomes the number of
   its bytes. It has no branch, because the length changes unpredictably from flow to flow.
   REQUIRES: value < 2^56. */
FB_INLINE uint64_t fb_wire_short_varint(uint64_t value, size_t *size) {
#ifdef __BMI2__
    if (!__builtin_constant_p(value)) {
        const fb_varint_table *table = &fb_wire_varint_table;
        size_t zeros = (size_t)_lzcnt_u64(value);
        *size = table->size[zeros];
        return _pdep_u64(value, table->groups) | table->more[zeros];
    }
#endif
    /* two halves of 28 bits, then 14, then 7; compilers calculate it for constants */
    const uint64_t more = 0x8080808080808080u; /* the bits that mark a byte with a successor */
    uint64_t groups = (value & 0xfffffff) | (value & 0xfffffff0000000u) << 4;
    groups = (groups & 0x00003fff00003fffu) | (groups & 0x0fffc0000fffc000u) << 2;
    groups = (groups & 0x007f007f007f007fu) | (groups & 0x3f803f803f803f80u) << 1;
    unsigned last = ((unsigned)__builtin_clzll(groups | 1) ^ 63) & 56; /* first bit of its byte */
    *size = last / 8 + 1;
    return groups | (more & (((uint64_t)1 << last) - 1));
}

/* The same for a value of one byte. The second byte of the varint is the top bit of the value.
   REQUIRES: value < 256. */
FB_INLINE uint64_t fb_wire_byte_varint(uint64_t value, size_t *size) {
    uint64_t second = value >> 7;
    *size = 1 + (size_t)second;
    return value | second << 8;
}

/* 0, -1, 1, -2, … become 0, 1, 2, 3, … */
FB_INLINE uint64_t fb_wire_zigzag(int64_t value) {
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

FB_INLINE int64_t fb_wire_unzigzag(uint64_t value) {
    return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

FB_INLINE uint64_t fb_wire_tag(uint32_t number, fb_wire_type type) {
    return (uint64_t)number << 3 | (uint64_t)type;
}

/* REQUIRES: room for 4 bytes (fixed32) or 8 bytes (fixed64). */
FB_INLINE uint8_t *fb_wire_put_fixed32(uint8_t *p, uint32_t value) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    memcpy(p, &value, 4);
    return p + 4;
}

FB_INLINE uint8_t *fb_wire_put_fixed64(uint8_t *p, uint64_t value) {
    fb_store64(p, value);
    return p + 8;
}

/* REQUIRES: room for `size` bytes. */
FB_INLINE uint8_t *fb_wire_put_bytes(uint8_t *p, const void *data, size_t size) {
    if (size) memcpy(p, data, size);
    return p + size;
}

/* Copy the first and the last `width` bytes of a value; the two copies may overlap. */
#define FB_PUT_ENDS(width) \
    (memcpy(p, data, width), memcpy(p + size - (width), data + size - (width), width))

/* Like fb_wire_put_bytes, but without a call for up to 32 bytes, the size of most strings. */
FB_INLINE uint8_t *fb_wire_put_few_bytes(uint8_t *p, const uint8_t *data, size_t size) {
    if (FB_UNLIKELY(size > 32)) return fb_wire_put_bytes(p, data, size);
    if (size > 16) FB_PUT_ENDS(16);
    else if (size >= 8) FB_PUT_ENDS(8);
    else if (size >= 4) FB_PUT_ENDS(4);
    else
        for (size_t i = 0; i < size; i++) p[i] = data[i];
    return p + size;
}

#undef FB_PUT_ENDS

/* Readers return the position after the value. They return NULL if the value is cut short or a
   varint is longer than 10 bytes. Bits of a varint beyond the 64th are dropped, like in other
   Protocol Buffers implementations. */
FB_INLINE const uint8_t *fb_wire_read_varint(const uint8_t *p, const uint8_t *end,
                                             uint64_t *value) {
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 7 * FB_VARINT_MAX && p < end; shift += 7) {
        uint8_t byte = *p++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return p;
        }
    }
    return NULL;
}

/* Read a varint without comparing with an end. In most columns, all varints have one byte or none
   has, so that branch is predictable. Longer lengths are not, so they have no branch. REQUIRES:
   FB_VARINT_MAX readable bytes at p, even if the varint is shorter. */
FB_INLINE const uint8_t *fb_wire_load_varint(const uint8_t *p, uint64_t *value) {
    if (*p < 0x80) {
        *value = *p;
        return p + 1;
    }
    uint64_t bytes = fb_load_little64(p), ends = ~bytes & 0x8080808080808080u;
    if (FB_UNLIKELY(!ends)) return fb_wire_read_varint(p, p + FB_VARINT_MAX, value);
    uint64_t groups = bytes & (ends ^ (ends - 1)); /* of this varint only */
#ifdef __BMI2__
    *value = _pext_u64(groups, 0x7f7f7f7f7f7f7f7fu);
#else /* 7 bits each, then 14, then 28 */
    groups = (groups & 0x007f007f007f007fu) | (groups & 0x7f007f007f007f00u) >> 1;
    groups = (groups & 0x00003fff00003fffu) | (groups & 0x3fff00003fff0000u) >> 2;
    *value = (groups & 0xfffffff) | (groups & 0x0fffffff00000000u) >> 4;
#endif
    return p + __builtin_ctzll(ends) / 8 + 1;
}

FB_INLINE const uint8_t *fb_wire_read_fixed32(const uint8_t *p, const uint8_t *end,
                                              uint32_t *value) {
    if (end - p < 4) return NULL;
    *value = (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
    return p + 4;
}

FB_INLINE const uint8_t *fb_wire_read_fixed64(const uint8_t *p, const uint8_t *end,
                                              uint64_t *value) {
    uint32_t low = 0, high = 0;
    if (end - p < 8) return NULL;
    fb_wire_read_fixed32(p, end, &low);
    fb_wire_read_fixed32(p + 4, end, &high);
    *value = (uint64_t)high << 32 | low;
    return p + 8;
}

/* Read a length and as many bytes. The view points into the input. */
FB_INLINE const uint8_t *fb_wire_read_bytes(const uint8_t *p, const uint8_t *end, fb_bytes *view) {
    uint64_t size;
    if (!(p = fb_wire_read_varint(p, end, &size)) || size > (uint64_t)(end - p)) return NULL;
    *view = (fb_bytes){p, (size_t)size};
    return p + size;
}

/* Return true if all bytes are below 0x80. Such text is valid UTF-8, and most text is such. */
FB_INLINE bool fb_is_ascii(const uint8_t *p, size_t size) {
    uint64_t all = 0;
    if (size < 8) {
        for (size_t i = 0; i < size; i++) all |= p[i];
        return all < 0x80;
    }
    for (size_t i = 0; i < size - 8; i += 8) all |= fb_load_little64(p + i);
    all |= fb_load_little64(p + size - 8);
    return !(all & 0x8080808080808080u);
}

/* Return the UTF-8 size of a character. 0 for a surrogate, which has no UTF-8 form. */
FB_INLINE size_t fb_utf8_size(uint32_t character) {
    if (character < 0x80) return 1;
    if (character < 0x800) return 2;
    if (character >= 0xd800 && character < 0xe000) return 0;
    return character < 0x10000 ? 3 : 4;
}

/* Put a character as UTF-8. REQUIRES: it is no surrogate, and at most 0x10ffff. */
FB_INLINE uint8_t *fb_utf8_put(uint8_t *p, uint32_t character) {
    size_t size = fb_utf8_size(character);
    if (size == 1) {
        *p = (uint8_t)character;
        return p + 1;
    }
    for (size_t i = size; --i; character >>= 6) p[i] = (uint8_t)(0x80 | (character & 0x3f));
    *p = (uint8_t)(0xf00 >> size | character);
    return p + size;
}

/* Return true if a well-formed UTF-8 character (RFC 3629) begins at p. *size becomes its size, or
   the size of the malformed part that one U+FFFD replaces. That is the longest prefix of a
   character, as Unicode recommends, and at least 1. REQUIRES: p < end. */
bool fb_utf8_character(const uint8_t *p, const uint8_t *end, size_t *size);
/* Return true if text is valid UTF-8. */
bool fb_utf8_valid(fb_bytes text);
/* Copy text and replace its malformed parts by U+FFFD. *replaced becomes true if any was malformed.
   REQUIRES: room for 3 * text.size bytes. */
uint8_t *fb_utf8_put_replaced(uint8_t *p, fb_bytes text, bool *replaced);

#endif
