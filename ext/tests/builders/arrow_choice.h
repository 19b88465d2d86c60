/* Record batches whose schemas, layouts and values are chosen by input bytes. Buffers have the
   minimum size of their layout. Each is its own allocation, most at an odd address. Formats are
   parsed with separate code, so every array matches its schema, even if the core refuses it. */
#ifndef FB_TESTS_BUILDERS_ARROW_CHOICE_H
#define FB_TESTS_BUILDERS_ARROW_CHOICE_H

#include "core/arrow/arrow.h"
#include "tests/support/text.h"

enum { CHOICE_CHILDREN = 16 };

typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray array;
    size_t child_count;
    /* column of each child, by its index in choice_put_columns; FB_NO_COLUMN: none */
    uint16_t columns[CHOICE_CHILDREN];
    bool known[CHOICE_CHILDREN]; /* the core must accept the type of this child, for some column */
    struct ArrowSchema *schemas[CHOICE_CHILDREN];
    struct ArrowArray *arrays[CHOICE_CHILDREN];
    const void *buffers[1];
    /* an array does not have the layout of its schema, in a way that the core can detect */
    bool invalid;
    void *blocks; /* all memory of the choice */
} choice;

/* Append the lines of a plan (plan_text.h): each type single, explicit and repeated, and a disabled
   column. */
void choice_put_columns(text *lines);

void choice_make(choice *c, const uint8_t *data, size_t size);
void choice_free(choice *c);

/* A slice of `count` rows. REQUIRES: the choice has these rows, outlives the slice, and is
   valid. */
typedef struct {
    struct ArrowArray array, children[CHOICE_CHILDREN], dictionaries[CHOICE_CHILDREN],
        *arrays[CHOICE_CHILDREN];
} choice_slice;
const struct ArrowArray *choice_cut(choice_slice *slice, const choice *c, size_t first,
                                    size_t count);
/* Make all rows without the first value of each dictionary, so that indices refer to other values.
   REQUIRES: as above. */
const struct ArrowArray *choice_shift(choice_slice *slice, const choice *c);

#endif
