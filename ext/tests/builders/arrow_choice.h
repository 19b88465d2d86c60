/* Arrow record batches of which bytes choose everything: schemas, how arrays are laid out, values. Buffers are as long as their layout
   wants them, and no longer; each is an allocation of its own, and most begin at an odd address. Formats are read here once more, by
   code that the core does not share: an array is what its schema says, whether the core takes it or not. */
#ifndef FB_TEST_ARROW_CHOICE_H
#define FB_TEST_ARROW_CHOICE_H

#include "core/arrow/arrow.h"
#include "tests/support/text.h"

enum { CHOICE_CHILDREN = 16 };

typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray array;
    size_t child_count;
    uint16_t columns[CHOICE_CHILDREN]; /* what each child is to fill, by its place in choice_put_columns; FB_NO_COLUMN: nothing */
    bool known[CHOICE_CHILDREN];       /* whether its types are such as the core is to take, for some column */
    struct ArrowSchema *schemas[CHOICE_CHILDREN];
    struct ArrowArray *arrays[CHOICE_CHILDREN];
    const void *buffers[1];
    bool twisted; /* an array is not laid out as its schema says, in a way that can be seen */
    void *blocks; /* what all of it is made of */
} choice;

/* Lines of a plan (plan_text.h): each type single, explicit and repeated, and a column that is disabled. */
void choice_put_columns(text *lines);

void choice_make(choice *c, const uint8_t *data, size_t size);
void choice_free(choice *c);

/* So many of its rows, from one on. REQUIRES: the choice has them, outlives the slice, and is not twisted. */
typedef struct {
    struct ArrowArray array, children[CHOICE_CHILDREN], dictionaries[CHOICE_CHILDREN], *arrays[CHOICE_CHILDREN];
} choice_slice;
const struct ArrowArray *choice_cut(choice_slice *slice, const choice *c, size_t first, size_t count);
/* All rows, but of each dictionary the first value is left out: indices mean something else. REQUIRES: as above. */
const struct ArrowArray *choice_shift(choice_slice *slice, const choice *c);

#endif
