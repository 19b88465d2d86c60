/* Format floats as text. */
#ifndef FB_BASE_REAL_FORMAT_H
#define FB_BASE_REAL_FORMAT_H

#include "core/base/base.h"

enum { FB_FORMAT_REAL_MAX = 24 };

/* Write the shortest decimal number that reads back as this float; of several, the closest. It has
   a fraction or an exponent, as in Python: 1.0, 0.0001, 1e-05, 1e+16. Infinities and NaN are
   written as Infinity, -Infinity and NaN. Returns the position after the text, which has no
   terminating NUL. REQUIRES: room for FB_FORMAT_REAL_MAX bytes. */
char *fb_format_real(char *p, double real);
/* The same for a float of 32 bits: the shortest number that reads back as it. */
char *fb_format_real32(char *p, float real);

#endif
