/* Powers of ten, to format and parse floats: 10^e for each e from FB_POWER_MIN to FB_POWER_MAX, as
   the upper and lower half of its first 128 significant bits, rounded up. Powers from 0 to
   FB_POWER_EXACT are exact. */
#ifndef FB_BASE_POWERS_OF_TEN_H
#define FB_BASE_POWERS_OF_TEN_H

#include "core/base/base.h"

enum { FB_POWER_MIN = -342, FB_POWER_MAX = 324, FB_POWER_EXACT = 55 };

extern const uint64_t fb_powers_of_ten[FB_POWER_MAX - FB_POWER_MIN + 1][2];

/* Return the logarithm of 10^e to base 2, rounded down. It is exact for these powers. */
FB_INLINE int fb_log2_of_power_of_10(int e) {
    return (int)((int64_t)e * 1741647 >> 19);
}

/* Return the upper half of a product, and set *low to the lower half. */
FB_INLINE uint64_t fb_multiply_halves(uint64_t a, uint64_t b, uint64_t *low) {
#ifdef __SIZEOF_INT128__
    __extension__ const unsigned __int128 product = (unsigned __int128)a * b;
    *low = (uint64_t)product;
    return (uint64_t)(product >> 64);
#else
    const uint64_t half = UINT32_MAX;
    uint64_t low_low = (a & half) * (b & half), high_low = (a >> 32) * (b & half),
             low_high = (a & half) * (b >> 32), high_high = (a >> 32) * (b >> 32);
    uint64_t middle = (low_low >> 32) + (high_low & half) + low_high;
    *low = middle << 32 | (low_low & half);
    return high_high + (high_low >> 32) + (middle >> 32);
#endif
}

#endif
