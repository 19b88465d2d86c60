/* Whole datagrams, one of each kind that matters: what is cut, corrupted and fuzzed. Templates come with their data, so each
   can be decoded by itself. */
#ifndef FB_TEST_SAMPLES_H
#define FB_TEST_SAMPLES_H

#include "tests/builders/datagrams.h"

typedef struct {
    const char *name;
    void (*build)(octets *d);
    const char *flows; /* by the plan `usual_columns` */
} sample;

extern const sample samples[];
extern const size_t sample_count;

#endif
