/* Format times, bytes and strings as text of JSON and CSV. The caller owns the output. Each
   function returns the position after the text, which has no terminating NUL. Strings are UTF-8; if
   one is not, the text is unspecified, but within its limits. */
#ifndef FB_BASE_TEXT_FORMAT_H
#define FB_BASE_TEXT_FORMAT_H

#include "core/base/base.h"

/* "9999-12-31T23:59:59.999999999Z" */
enum { FB_FORMAT_TIME_MAX = 30 };

/* Write a time in units of 10^-digits seconds since 1970 in UTC (RFC 3339), with so many digits
   after the second. After the year 9999, write the number. REQUIRES: digits <= 9; room for
   FB_FORMAT_TIME_MAX bytes. */
uint8_t *fb_format_time(uint8_t *p, uint64_t time, unsigned digits);

/* Write date and time of a second since 1970 in UTC, such as 2026-11-27T09:30:00. REQUIRES: the
   year is between 1 and 9999; room for FB_FORMAT_TIME_MAX bytes. */
uint8_t *fb_format_second(uint8_t *p, int64_t second);

/* Write bytes as lower-case hexadecimal digits. REQUIRES: room for 2 * bytes.size bytes. */
uint8_t *fb_format_bytes(uint8_t *p, fb_bytes bytes);

/* Write the inside of a JSON string (RFC 8259), without its quotes. Control characters of Unicode,
   line separators and bidirectional controls become escapes, so that the output never changes how a
   terminal shows it. Stops before `end` - FB_FORMAT_ESCAPE_MAX, and removes the written characters
   from the start of *text. */
enum { FB_FORMAT_ESCAPE_MAX = 6 };
uint8_t *fb_format_json_text(uint8_t *p, const uint8_t *end, fb_bytes *text);

/* Return true if a text is printable ASCII that JSON does not escape. */
bool fb_is_plain_text(fb_bytes text);

/* Write text as a cell of CSV (RFC 4180). It is quoted if it contains a control character, a line
   separator, a comma or a double quote. NUL becomes U+FFFD, because many readers treat it as the
   end of the file. With `neutral`, a text that a spreadsheet would read as a formula starts with an
   apostrophe. REQUIRES: room for 3 * text.size + 3 bytes. */
uint8_t *fb_format_csv_cell(uint8_t *p, fb_bytes text, bool neutral);

#endif
