/* Random numbers for the tests, always the same ones of a seed; and random plans of them (plan_text.h). */
#ifndef FB_TEST_RANDOM_PLAN_H
#define FB_TEST_RANDOM_PLAN_H

#include "tests/support/plan_text.h"

void random_begin(uint64_t seed);
uint32_t below(uint32_t bound);
uint32_t random_word(void);
/* A number from the environment; without one, the usual one. */
uint64_t read_number(const char *name, uint64_t usual);

#define PICK(array) (array)[below(sizeof(array) / sizeof *(array))]

/* Elements of every role that the core knows, and of none. */
extern const uint16_t random_ids[];
extern const size_t random_id_count;

/* What columns are filled from: elements and some of the fixed sources, or nearly always the sources of flow samples. */
typedef enum { FROM_RECORDS, FROM_FLOW_SAMPLES } plan_origin;
void plan_put_random(text *lines, plan_origin origin);

#endif
