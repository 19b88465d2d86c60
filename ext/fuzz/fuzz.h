/* Shared by the fuzz drivers. Each defines LLVMFuzzerTestOneInput, for libFuzzer and for
   standalone_main.c. */
#ifndef FB_FUZZ_FUZZ_H
#define FB_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

#endif
