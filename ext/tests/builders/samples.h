/* Complete datagrams, one of each important kind. Tests cut, corrupt and fuzz them. Each contains
   its templates, so it can be decoded alone. */
#ifndef FB_TESTS_BUILDERS_SAMPLES_H
#define FB_TESTS_BUILDERS_SAMPLES_H

#include "tests/builders/datagrams.h"

typedef struct {
    const char *name;
    void (*build)(byte_buffer *d);
    const char *flows; /* expected flows with the plan `usual_columns` */
} sample;

extern const sample samples[];
extern const size_t sample_count;

#endif
