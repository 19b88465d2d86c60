/* What can be learned from one flow sample: what decoding it branches on, and which numbers and addresses it gives. */
#ifndef FB_LESSON_H
#define FB_LESSON_H

#include "pattern.h"

enum { FB_LESSON_VALUES = 64 };

typedef struct {
    fb_pattern_value value; /* without a column */
    uint64_t least;         /* what a number is at least in any sample that fits */
} fb_lesson_value;

typedef struct {
    const fb_plan *plan;
    const uint8_t *sample;
    size_t size;
    bool refused; /* nothing is to be learned from it */
    size_t ip;    /* the place of what is behind the first ethertype: 20 octets */
    _Alignas(8) uint8_t mask[FB_PATTERN_OCTETS]; /* a bit for each that must be the same */
    fb_pattern_bound bounds[FB_PATTERN_BOUNDS];
    size_t bound_count;
    fb_lesson_value values[FB_LESSON_VALUES]; /* in the order of source.h, of sources that feed a column */
    size_t value_count;
} fb_lesson;

/* False: nothing is to be learned. */
bool fb_lesson_read(fb_lesson *lesson, const fb_plan *plan, fb_bytes sample, bool expanded);

#endif
