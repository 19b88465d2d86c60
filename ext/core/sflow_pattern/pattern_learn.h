/* What can be learned from one flow sample: what decoding it branches on, and which numbers and addresses it gives. */
#ifndef FB_LESSON_H
#define FB_LESSON_H

#include "core/sflow_pattern/pattern.h"

enum { FB_LESSON_VALUES = 64 };

typedef struct {
    fb_pattern_value value; /* without a column, and without its window */
    uint64_t least;         /* what a number is at least in any sample that fits */
} fb_lesson_value;

typedef struct {
    const fb_plan *plan;
    const uint8_t *sample;
    bool refused; /* nothing is to be learned from it */
    bool exact;   /* no record is of any length */
    fb_sample_parts parts;
    size_t begin[FB_PATTERN_PARTS]; /* of each part, in the sample; SIZE_MAX: there is none */
    size_t end[FB_PATTERN_PARTS];   /* of what is looked at of it, before a record of any length ends */
    size_t part;                    /* the word that is read is found, and is this part; 0: it is at its place */
    size_t header_needed, gateway_needed;
    uint8_t mask[FB_PATTERN_OCTETS]; /* a bit for each that must be the same */
    fb_pattern_bound bounds[FB_PATTERN_BOUNDS];
    size_t bound_count;
    fb_lesson_value values[FB_LESSON_VALUES]; /* in the order of source.h, of sources that feed a column */
    size_t value_count;
} fb_lesson;

/* False: nothing is to be learned. `exact` as of a pattern. */
bool fb_lesson_read(fb_lesson *lesson, const fb_plan *plan, fb_bytes sample, bool expanded, bool exact);

#endif
