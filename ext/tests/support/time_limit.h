/* The limit of CPU time for the slowest input of its size. It is generous: it finds work that grows
   faster than the input, not slow machines. */
#ifndef FB_TESTS_SUPPORT_TIME_LIMIT_H
#define FB_TESTS_SUPPORT_TIME_LIMIT_H

#include "tests/support/check.h"

#include <time.h>

/* Sanitizers make everything ten times slower. clang and gcc announce them differently. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
enum { SECONDS_PER_DATAGRAM = 20 };
#else
enum { SECONDS_PER_DATAGRAM = 1 };
#endif

UNUSED static double seconds_of_cpu(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Print the CPU time of an input, and check it, except under valgrind and qemu. */
UNUSED static void check_seconds(double seconds, double limit, const char *what) {
    printf("     %-40s %6.1f ms\n", what, 1000 * seconds);
    CHECK(seconds < limit || getenv("FLOWBUF_SLOW_RUN"));
}

#endif
