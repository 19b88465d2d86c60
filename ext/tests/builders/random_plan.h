/* Random numbers that a seed determines, and random plans made from them (plan_text.h). */
#ifndef FB_TESTS_BUILDERS_RANDOM_PLAN_H
#define FB_TESTS_BUILDERS_RANDOM_PLAN_H

#include "tests/support/plan_text.h"

void random_begin(uint64_t seed);
uint32_t below(uint32_t bound);
uint32_t random_word(void);
/* Return a number from an environment variable, or `usual` if it is not set. */
uint64_t read_number(const char *name, uint64_t usual);

#define PICK(array) (array)[below(sizeof(array) / sizeof *(array))]

/* Information elements of every role that the core uses, and some without a role. */
extern const uint16_t random_ids[];
extern const size_t random_id_count;

/* The sources of a plan: elements and some fixed sources, or almost only sources of flow
   samples. */
typedef enum { FROM_RECORDS, FROM_FLOW_SAMPLES } plan_origin;
void plan_put_random(text *lines, plan_origin origin);

#endif
