/* Most text is plain ASCII, which is copied. All other characters are looked up in ranges. */
#include "core/base/text_format.h"

#include "core/base/address_format.h"

static const char hexadecimal[] = "0123456789abcdef";

/* Times and bytes ---------------------------------------------------------------------------- */

static uint8_t *put_two(uint8_t *p, unsigned number) {
    p[0] = (uint8_t)('0' + number / 10);
    p[1] = (uint8_t)('0' + number % 10);
    return p + 2;
}

/* Write the date of a day since 1970. The calendar repeats every 400 years, or 146,097 days. Its
   years begin in March here, so that a leap day is the last day of its year. */
static uint8_t *put_date(uint8_t *p, int64_t day) {
    const uint32_t since = (uint32_t)(day + 719468); /* since March 1 of the year 0 */
    const uint32_t era = since / 146097, of_era = since % 146097;
    const uint32_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const uint32_t of_year = of_era - (365 * years + years / 4 - years / 100);
    const uint32_t shifted = (5 * of_year + 2) / 153; /* months since March */
    const uint32_t month = shifted < 10 ? shifted + 3 : shifted - 9;
    const uint32_t year = 400 * era + years + (month <= 2);
    p = put_two(put_two(p, year / 100), year % 100);
    *p++ = '-';
    p = put_two(p, month);
    *p++ = '-';
    return put_two(p, of_year - (153 * shifted + 2) / 5 + 1);
}

static uint8_t *put_clock(uint8_t *p, uint32_t second) {
    *p++ = 'T';
    p = put_two(p, second / 3600);
    *p++ = ':';
    p = put_two(p, second / 60 % 60);
    *p++ = ':';
    return put_two(p, second % 60);
}

uint8_t *fb_format_second(uint8_t *p, int64_t second) {
    const int64_t day = second / 86400 - (second % 86400 < 0);
    return put_clock(put_date(p, day), (uint32_t)(second - day * 86400));
}

uint8_t *fb_format_time(uint8_t *p, uint64_t time, unsigned digits) {
    static const uint64_t end = 253402300800; /* the year 10000, which RFC 3339 cannot express */
    uint64_t units = 1;
    for (unsigned i = 0; i < digits; i++) units *= 10;
    const uint64_t second = time / units;
    uint64_t fraction = time % units;
    if (second >= end) return (uint8_t *)fb_format_number((char *)p, time);
    p = fb_format_second(p, (int64_t)second);
    if (digits) *p++ = '.';
    for (unsigned i = digits; i--; fraction /= 10) p[i] = (uint8_t)('0' + fraction % 10);
    p += digits;
    *p++ = 'Z';
    return p;
}

uint8_t *fb_format_bytes(uint8_t *p, fb_bytes bytes) {
    for (size_t i = 0; i < bytes.size; i++) {
        *p++ = (uint8_t)hexadecimal[bytes.data[i] >> 4];
        *p++ = (uint8_t)hexadecimal[bytes.data[i] & 15];
    }
    return p;
}

/* Characters --------------------------------------------------------------------------------- */

typedef struct {
    uint32_t first, last;
} characters;

static bool contains(const characters *ranges, size_t count, uint32_t character) {
    for (size_t i = 0; i < count; i++)
        if (character >= ranges[i].first && character <= ranges[i].last) return true;
    return false;
}
#define IN(ranges, character) contains(ranges, sizeof(ranges) / sizeof *(ranges), character)

/* Read a character, and move *p behind it. REQUIRES: *p < end. */
static uint32_t next_character(const uint8_t **p, const uint8_t *end) {
    static const uint8_t sizes[16] = {[12] = 1, [13] = 1, [14] = 2, [15] = 3};
    const unsigned first = *(*p)++, more = sizes[first >> 4];
    uint32_t character = more ? first & (0x3fu >> more) : first;
    for (unsigned i = 0; i < more && *p < end; i++) character = character << 6 | (*(*p)++ & 0x3f);
    return character;
}

/* Return true for bytes that are a character of ASCII without special meaning in JSON and CSV. */
FB_INLINE bool is_plain(uint8_t byte) {
    return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\' && byte != ',';
}

static size_t count_plain(const uint8_t *p, const uint8_t *end) {
    const uint8_t *begin = p;
    while (p < end && is_plain(*p)) p++;
    return (size_t)(p - begin);
}

/* JSON --------------------------------------------------------------------------------------- */

/* Other characters that JSON allows unescaped: DEL, C1 controls, line separators and bidirectional
   controls. */
static const characters escaped[] = {
    {0x7f, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

static uint8_t *put_escape(uint8_t *p, uint32_t character) {
    static const char letters[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                   ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
    *p++ = '\\';
    if (character < sizeof letters && letters[character]) {
        *p++ = (uint8_t)letters[character];
        return p;
    }
    *p++ = 'u';
    for (unsigned shift = 16; shift;) *p++ = (uint8_t)hexadecimal[character >> (shift -= 4) & 15];
    return p;
}

static bool is_escaped(uint32_t character) {
    return character < 0x20 || character == '"' || character == '\\' || IN(escaped, character);
}

/* Set the highest bit of bytes that are zero, and of some bytes above them. */
FB_INLINE uint64_t find_zero(uint64_t bytes) {
    return (bytes - 0x0101010101010101u) & ~bytes;
}

/* Return the number of bytes before the first one that is escaped, or that begins characters of
   which some are. The bytes are in little-endian order. */
FB_INLINE size_t count_unescaped(uint64_t bytes) {
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t ascii = ((bytes - 0x20 * ones) & ~bytes) | find_zero(bytes ^ '"' * ones) |
                           find_zero(bytes ^ '\\' * ones) | find_zero(bytes ^ 0x7f * ones);
    const uint64_t others = find_zero(bytes ^ 0xc2 * ones) | find_zero(bytes ^ 0xd8 * ones) |
                            find_zero(bytes ^ 0xe2 * ones);
    const uint64_t found = (ascii | others) & 0x8080808080808080u;
    return found ? (size_t)__builtin_ctzll(found) / 8 : 8;
}

uint8_t *fb_format_json_text(uint8_t *p, const uint8_t *end, fb_bytes *text) {
    const uint8_t *from = text->data, *text_end = fb_end_of(*text);
    while (from < text_end && end - p >= FB_FORMAT_ESCAPE_MAX) {
        const uint8_t *begin = from;
        if (text_end - from >= 8 && end - p >= 8 + FB_FORMAT_ESCAPE_MAX) {
            const size_t count = count_unescaped(fb_load_little64(from));
            memcpy(p, from, 8);
            p += count;
            from = begin += count;
            if (count == 8) continue;
        }
        if (is_plain(*from) || (*from & 0xc0) == 0x80) { /* or inside of a character */
            *p++ = *from++;
            continue;
        }
        uint32_t character = next_character(&from, text_end);
        if (is_escaped(character)) p = put_escape(p, character);
        else
            while (begin < from) *p++ = *begin++;
    }
    *text = (fb_bytes){from, (size_t)(text_end - from)};
    return p;
}

/* Set the highest bit of each byte that is not plain: control characters, DEL and beyond, the
   double quote and the backslash. Carries between bytes can only come from such a byte. */
static uint64_t find_special(uint64_t bytes) {
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t quotes = bytes ^ '"' * ones, escapes = bytes ^ '\\' * ones;
    return (bytes | (bytes - 0x20 * ones) | (bytes + ones) | (quotes - ones) | (escapes - ones)) &
           0x8080808080808080u;
}

bool fb_is_plain_text(fb_bytes text) {
    const uint8_t *p = text.data;
    uint64_t last = 0;
    if (text.size < 8) {
        last = 0x2020202020202020u; /* plain bytes behind the text */
        for (size_t i = 0; i < text.size; i++) last = last << 8 | p[i];
        return !find_special(last);
    }
    for (size_t i = 0; i < text.size - 8; i += 8) last |= find_special(fb_load_little64(p + i));
    return !(last | find_special(fb_load_little64(p + text.size - 8)));
}

/* CSV ---------------------------------------------------------------------------------------- */

/* Before the first character of a formula, importers may remove white space, controls, invisible
   format characters and double quotes. */
static const characters removed[] = {
    {0, ' '},         {'"', '"'},       {0x7f, 0xa0},     {0xad, 0xad},     {0x1680, 0x1680},
    {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
/* The first characters that OWASP lists ("CSV Injection"), their full-width forms, and | and %. */
static const characters formula[] = {
    {'%', '%'}, {'+', '+'},       {'-', '-'},       {'=', '='},       {'@', '@'},
    {'|', '|'}, {0xff0b, 0xff0b}, {0xff0d, 0xff0d}, {0xff1d, 0xff1d}, {0xff20, 0xff20}};

static bool is_formula(fb_bytes text) {
    const uint8_t *p = text.data, *end = fb_end_of(text);
    if (p < end && (*p == '\t' || *p == '\r' || *p == '\n')) return true;
    while (p < end) {
        uint32_t character = next_character(&p, end);
        if (!IN(removed, character)) return IN(formula, character);
    }
    return false;
}

static bool is_quoted(fb_bytes text) {
    const uint8_t *p = text.data, *end = fb_end_of(text);
    while ((p += count_plain(p, end)) < end) {
        uint32_t c = next_character(&p, end);
        if (c < 0x20 || c == '"' || c == ',' || (c >= 0x7f && c <= 0x9f)) return true;
        if (c == 0x2028 || c == 0x2029) return true;
    }
    return false;
}

static uint8_t *put_bytes(uint8_t *p, const void *bytes, size_t size) {
    if (size) memcpy(p, bytes, size);
    return p + size;
}

uint8_t *fb_format_csv_cell(uint8_t *p, fb_bytes text, bool neutral) {
    bool quoted = is_quoted(text);
    if (quoted) *p++ = '"';
    if (neutral && is_formula(text)) *p++ = '\'';
    if (!quoted) return put_bytes(p, text.data, text.size);
    for (size_t i = 0; i < text.size; i++) {
        /* read once: another thread may change it, and the room is for one of these cases */
        const uint8_t byte = ((const volatile uint8_t *)text.data)[i];
        if (!byte) p = put_bytes(p, "\xef\xbf\xbd", 3);
        else *p++ = byte;
        if (byte == '"') *p++ = '"';
    }
    *p++ = '"';
    return p;
}
