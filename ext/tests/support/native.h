/* Numbers in the byte order of this machine, as columns and Arrow arrays store them. */
#ifndef FB_TESTS_SUPPORT_NATIVE_H
#define FB_TESTS_SUPPORT_NATIVE_H

#include <stdint.h>
#include <string.h>

/* Return the offset of the lowest `size` bytes in a 64-bit number. */
static inline size_t native_lead(size_t size) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return 8 - size;
#else
    (void)size;
    return 0;
#endif
}

/* Store the lowest `size` bytes of a number. REQUIRES: size <= 8. */
static inline void native_put(void *p, uint64_t number, size_t size) {
    memcpy(p, (const uint8_t *)&number + native_lead(size), size);
}

/* Load a number of `size` bytes. REQUIRES: size <= 8. */
static inline uint64_t native_get(const void *p, size_t size) {
    uint64_t number = 0;
    memcpy((uint8_t *)&number + native_lead(size), p, size);
    return number;
}

#endif
