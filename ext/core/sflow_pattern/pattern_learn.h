/* The learner reads one flow sample: the bytes that its decoding branches on and
   the numbers and addresses in it. */
#ifndef FB_SFLOW_PATTERN_PATTERN_LEARN_H
#define FB_SFLOW_PATTERN_PATTERN_LEARN_H

#include "core/sflow_pattern/pattern.h"

enum { FB_LEARNED_VALUES = 64 };

typedef struct {
    fb_pattern_value value; /* without its column and its window */
    uint64_t least;         /* minimum of the number over all samples that match */
} fb_learned_value;

typedef struct {
    const fb_plan *plan;
    const uint8_t *sample;
    bool refused; /* the sample cannot be learned */
    bool exact;   /* no record has variable length */
    fb_sample_parts parts;
    /* start of each part in the sample; SIZE_MAX: there is no such part */
    size_t begin[FB_PATTERN_PARTS];
    /* end of the bytes of each part that are read; a part may continue with a record of variable
       length */
    size_t end[FB_PATTERN_PARTS];
    /* part of the word that is being read, if its position is found for each sample; 0: the
       position is fixed */
    size_t part;
    size_t header_needed, gateway_needed;
    uint8_t mask[FB_PATTERN_BYTES]; /* bits that must have fixed values */
    fb_pattern_bound bounds[FB_PATTERN_BOUNDS];
    size_t bound_count;
    /* in the order of source.h, only of sources that feed a column */
    fb_learned_value values[FB_LEARNED_VALUES];
    size_t value_count;
} fb_pattern_learner;

/* Read a sample. Return false if it cannot be learned. `exact` selects the kind of pattern.
   REQUIRES: the learner does not outlive the sample. */
bool fb_pattern_learner_read(fb_pattern_learner *learner, const fb_plan *plan, fb_bytes sample,
                             bool expanded, bool exact);

#endif
