/* The texts of values whose JSON form is a string: bytes, times, durations and field masks. */
#ifndef FB_JSON_JSON_VALUES_H
#define FB_JSON_JSON_VALUES_H

#include "core/base/buffer.h"

/* Bytes as base64 (RFC 4648) ------------------------------------------------------------------ */

/* Return the size of the text for so many bytes. */
FB_INLINE size_t fb_base64_size(size_t size) {
    return (size / 3 + (size % 3 != 0)) * 4;
}
/* Write bytes with padding. REQUIRES: room for fb_base64_size bytes. */
uint8_t *fb_base64_put(uint8_t *p, fb_bytes bytes);
/* Read text of either alphabet, with or without padding, into p. Returns the end of the bytes, or
   NULL for other text. REQUIRES: room for 3 / 4 of the text. */
uint8_t *fb_base64_read(uint8_t *p, fb_bytes text);

/* Times --------------------------------------------------------------------------------------- */

typedef struct {
    int64_t seconds;
    int32_t nanoseconds;
} fb_json_time;

enum { FB_JSON_TIME_MAX = 32 };

/* Return true if a google.protobuf.Timestamp is in the years 1 to 9999, or a Duration is not longer
   than 10,000 years and its parts have the same sign. */
bool fb_json_time_in_range(bool duration, fb_json_time time);
/* Write a time as RFC 3339 in UTC, or a duration as seconds, such as 1.500s. The fraction has 0, 3,
   6 or 9 digits. REQUIRES: the time is in range; room for FB_JSON_TIME_MAX bytes. */
uint8_t *fb_json_put_time(uint8_t *p, bool duration, fb_json_time time);
/* Read such a text. A time may have an offset from UTC. Returns false if the text has another form,
   or is out of range. */
bool fb_json_read_time(fb_bytes text, bool duration, fb_json_time *time);

/* Field masks --------------------------------------------------------------------------------- */

/* Write a path in lowerCamelCase. Returns NULL if that cannot be reversed: the path has a capital,
   or an underscore that no lower-case letter follows, or a character that no name has. REQUIRES:
   room for the path. */
uint8_t *fb_json_put_path(uint8_t *p, fb_bytes path);
/* Read a path from lowerCamelCase. Returns NULL if it has an underscore, or a character that no
   name has. REQUIRES: room for 2 * text.size bytes. */
uint8_t *fb_json_read_path(uint8_t *p, fb_bytes text);

#endif
