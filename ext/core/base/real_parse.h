/* Parse the numbers of JSON (RFC 8259). */
#ifndef FB_BASE_REAL_PARSE_H
#define FB_BASE_REAL_PARSE_H

#include "core/base/base.h"

/* A number: digits * 10^exponent. */
typedef struct {
    uint64_t digits; /* its first 19 digits that count */
    int exponent;
    bool negative;
    bool more;         /* other digits than zeros follow those of `digits` */
    fb_bytes text;     /* the number without its sign and exponent */
    int text_exponent; /* the exponent that is written in the text */
} fb_decimal;

/* Parse the number at the start of a text. Returns the position behind it, or NULL if there is no
   valid number. Exponents beyond 100,000,000 are cut to that. */
const uint8_t *fb_parse_decimal(const uint8_t *p, const uint8_t *end, fb_decimal *number);

/* Return the closest double; of two, the even one. Numbers that are too large become infinite. */
double fb_decimal_to_real(const fb_decimal *number);

/* Convert to the magnitude of an integer. Returns false if the number has a fraction or more than
   64 bits. */
bool fb_decimal_to_integer(const fb_decimal *number, uint64_t *magnitude);

#endif
