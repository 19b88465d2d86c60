#include "core/json/json_values.h"

#include "core/base/address_format.h"
#include "core/base/text_format.h"

/* Bytes --------------------------------------------------------------------------------------- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

uint8_t *fb_base64_put(uint8_t *p, fb_bytes bytes) {
    const uint8_t *from = bytes.data;
    size_t left = bytes.size;
    for (; left >= 3; left -= 3, from += 3) {
        const uint32_t three = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
        for (unsigned shift = 24; shift;) *p++ = (uint8_t)alphabet[three >> (shift -= 6) & 63];
    }
    if (!left) return p;
    const uint32_t rest = (uint32_t)from[0] << 16 | (left == 2 ? (uint32_t)from[1] << 8 : 0);
    *p++ = (uint8_t)alphabet[rest >> 18];
    *p++ = (uint8_t)alphabet[rest >> 12 & 63];
    *p++ = left == 2 ? (uint8_t)alphabet[rest >> 6 & 63] : '=';
    *p++ = '=';
    return p;
}

/* Return the six bits of a character, or 64 if it is in neither alphabet. */
static unsigned six_bits(uint8_t c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26u;
    if (c >= '0' && c <= '9') return c - '0' + 52u;
    if (c == '+' || c == '-') return 62;
    return c == '/' || c == '_' ? 63 : 64;
}

uint8_t *fb_base64_read(uint8_t *p, fb_bytes text) {
    size_t size = text.size;
    if (size && size % 4 == 0 && text.data[size - 1] == '=') {
        size--;
        size -= text.data[size - 1] == '=';
    }
    uint32_t bits = 0;
    if (size % 4 == 1) return NULL;
    for (size_t i = 0; i < size; i++) {
        const unsigned six = six_bits(text.data[i]);
        if (six > 63) return NULL;
        bits = bits << 6 | six;
        if (i % 4) *p++ = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return p;
}

/* Times --------------------------------------------------------------------------------------- */

enum { BILLION = 1000000000 };

bool fb_json_time_in_range(bool duration, fb_json_time time) {
    const int64_t least = duration ? -315576000000 : -62135596800;
    const int64_t most = duration ? 315576000000 : 253402300799;
    if (time.seconds < least || time.seconds > most) return false;
    if (time.nanoseconds <= -BILLION || time.nanoseconds >= BILLION) return false;
    if (!duration) return time.nanoseconds >= 0;
    return time.nanoseconds >= 0 ? time.seconds >= 0 || !time.nanoseconds : time.seconds <= 0;
}

/* Write a fraction of a second with 0, 3, 6 or 9 digits. */
static uint8_t *put_fraction(uint8_t *p, uint32_t nanoseconds) {
    unsigned digits = 9;
    if (!nanoseconds) return p;
    for (; nanoseconds % 1000 == 0; nanoseconds /= 1000) digits -= 3;
    *p++ = '.';
    for (unsigned i = digits; i--; nanoseconds /= 10) p[i] = (uint8_t)('0' + nanoseconds % 10);
    return p + digits;
}

uint8_t *fb_json_put_time(uint8_t *p, bool duration, fb_json_time time) {
    if (!duration) {
        p = put_fraction(fb_format_second(p, time.seconds), (uint32_t)time.nanoseconds);
        *p++ = 'Z';
        return p;
    }
    const bool negative = time.seconds < 0 || time.nanoseconds < 0;
    if (negative) *p++ = '-';
    const uint64_t seconds = (uint64_t)(negative ? -time.seconds : time.seconds);
    p = (uint8_t *)fb_format_number((char *)p, seconds);
    p = put_fraction(p, (uint32_t)(negative ? -time.nanoseconds : time.nanoseconds));
    *p++ = 's';
    return p;
}

/* A text that is read from its start. */
typedef struct {
    const uint8_t *p, *end;
} cursor;

static bool take(cursor *text, char c) {
    if (text->p == text->end || *text->p != (uint8_t)c) return false;
    text->p++;
    return true;
}

static bool take_digits(cursor *text, size_t count, unsigned *number) {
    *number = 0;
    if ((size_t)(text->end - text->p) < count) return false;
    for (size_t i = 0; i < count; i++) {
        const unsigned digit = (unsigned)(*text->p++ - '0');
        if (digit > 9) return false;
        *number = *number * 10 + digit;
    }
    return true;
}

/* Read a fraction of 1 to 9 digits behind a point, or nothing. */
static bool take_fraction(cursor *text, unsigned *nanoseconds) {
    unsigned digit, count = 0;
    *nanoseconds = 0;
    if (!take(text, '.')) return true;
    while (text->p < text->end && *text->p >= '0' && *text->p <= '9') {
        if (count++ == 9) return false;
        take_digits(text, 1, &digit);
        *nanoseconds = *nanoseconds * 10 + digit;
    }
    for (unsigned i = count; i < 9; i++) *nanoseconds *= 10;
    return count > 0;
}

/* Return the days from 1970 to a date. */
static int64_t days_of(unsigned year, unsigned month, unsigned day) {
    const unsigned since = year - (month <= 2); /* years begin in March */
    const unsigned of_year = (153 * (month + (month > 2 ? -3u : 9u)) + 2) / 5 + day - 1;
    return (int64_t)since * 365 + since / 4 - since / 100 + since / 400 + of_year - 719468;
}

static bool is_date(unsigned year, unsigned month, unsigned day) {
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (!year || month < 1 || month > 12 || day < 1) return false;
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= days[month - 1] + (unsigned)(month == 2 && leap);
}

/* Read an offset from UTC in seconds: Z, +02:00 or -05:30. */
static bool take_offset(cursor *text, int64_t *offset) {
    unsigned hours, minutes;
    *offset = 0;
    if (take(text, 'Z')) return true;
    const bool behind = text->p < text->end && *text->p == '-';
    if (!behind && !(text->p < text->end && *text->p == '+')) return false;
    text->p++;
    if (!take_digits(text, 2, &hours) || !take(text, ':') || !take_digits(text, 2, &minutes))
        return false;
    if (hours > 23 || minutes > 59) return false;
    *offset = (int64_t)(hours * 60 + minutes) * (behind ? -60 : 60);
    return true;
}

static bool read_timestamp(cursor *text, fb_json_time *time) {
    unsigned year, month, day, hour, minute, second, nanoseconds;
    int64_t offset;
    if (!take_digits(text, 4, &year) || !take(text, '-') || !take_digits(text, 2, &month) ||
        !take(text, '-') || !take_digits(text, 2, &day) || !take(text, 'T'))
        return false;
    if (!take_digits(text, 2, &hour) || !take(text, ':') || !take_digits(text, 2, &minute) ||
        !take(text, ':') || !take_digits(text, 2, &second))
        return false;
    if (!take_fraction(text, &nanoseconds) || !take_offset(text, &offset)) return false;
    if (!is_date(year, month, day) || hour > 23 || minute > 59 || second > 59) return false;
    time->seconds = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset;
    time->nanoseconds = (int32_t)nanoseconds;
    return true;
}

static bool read_duration(cursor *text, fb_json_time *time) {
    unsigned digit, nanoseconds;
    int64_t seconds = 0;
    const bool negative = take(text, '-');
    if (text->p == text->end || *text->p < '0' || *text->p > '9') return false;
    while (text->p < text->end && *text->p >= '0' && *text->p <= '9') {
        take_digits(text, 1, &digit);
        if (seconds < INT64_C(1000000000000)) seconds = seconds * 10 + digit;
    }
    if (!take_fraction(text, &nanoseconds) || !take(text, 's')) return false;
    time->seconds = negative ? -seconds : seconds;
    time->nanoseconds = negative ? -(int32_t)nanoseconds : (int32_t)nanoseconds;
    return true;
}

bool fb_json_read_time(fb_bytes text, bool duration, fb_json_time *time) {
    cursor rest = {text.data, fb_end_of(text)};
    if (!(duration ? read_duration : read_timestamp)(&rest, time) || rest.p != rest.end)
        return false;
    return fb_json_time_in_range(duration, *time);
}

/* Field masks --------------------------------------------------------------------------------- */

static bool is_capital(uint8_t c) {
    return c >= 'A' && c <= 'Z';
}

/* Return false for a character that no name has: only printable ASCII is allowed, and nothing that
   JSON escapes. */
static bool is_name_byte(uint8_t c) {
    return c > 0x20 && c < 0x7f && c != '"' && c != '\\' && c != ',';
}

uint8_t *fb_json_put_path(uint8_t *p, fb_bytes path) {
    for (size_t i = 0; i < path.size; i++) {
        uint8_t c = path.data[i];
        if (is_capital(c) || !is_name_byte(c)) return NULL;
        if (c == '_') {
            if (++i == path.size || path.data[i] < 'a' || path.data[i] > 'z') return NULL;
            c = (uint8_t)(path.data[i] - 'a' + 'A');
        }
        *p++ = c;
    }
    return p;
}

uint8_t *fb_json_read_path(uint8_t *p, fb_bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        const uint8_t c = text.data[i];
        if (c == '_' || !is_name_byte(c)) return NULL;
        if (is_capital(c)) *p++ = '_';
        *p++ = (uint8_t)(is_capital(c) ? c - 'A' + 'a' : c);
    }
    return p;
}
