/* Builder of Arrow arrays and schemas from words. A word is a value: a number, text, or for bytes x
   and hexadecimal digits. '' is empty text or bytes; null is null.

     arrow_node *a = arrow_values("S", "1 null 65535");
     arrow_node *b = arrow_dictionary("c", "0 1 null 0", arrow_values("u", "in out"));
     arrow_node *c = arrow_list("+l", "0 null 3", arrow_values("I", "7 8 9"));   (members per list)
     arrow_node *batch = arrow_batch(3, 3, (arrow_node *[]){a, b, c});           (rows, children)

   Every buffer ends at a guard page. So a buffer of odd size begins at an odd address. A node owns
   its buffers and its children; free the batch to free all its nodes. */
#ifndef FB_TESTS_BUILDERS_ARROW_BUILDER_H
#define FB_TESTS_BUILDERS_ARROW_BUILDER_H

#include "core/arrow/arrow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARROW_CHILDREN = 64, ARROW_BUFFERS = 5 };

typedef struct arrow_node arrow_node;
struct arrow_node {
    struct ArrowSchema schema;
    struct ArrowArray array;
    const void *buffers[ARROW_BUFFERS];
    size_t sizes[ARROW_BUFFERS]; /* of buffers that the node owns */
    char format[32];
    struct ArrowSchema *schemas[ARROW_CHILDREN];
    struct ArrowArray *arrays[ARROW_CHILDREN];
    arrow_node *nodes[ARROW_CHILDREN];
    arrow_node *dictionary;
};

/* Make an array of any format except lists and structs. */
arrow_node *arrow_values(const char *format, const char *words);
arrow_node *arrow_dictionary(const char *format, const char *words, arrow_node *values);
/* Make a list array. Each word is the number of members of a list. A null list of +w has members
   too. */
arrow_node *arrow_list(const char *format, const char *words, arrow_node *members);
/* Make a record batch. Use arrow_set_null to make rows null. */
arrow_node *arrow_batch(size_t rows, size_t count, arrow_node **children);
void arrow_free(arrow_node *node);

/* Later nodes begin with this many values before their offset, which are not part of the array. */
extern unsigned arrow_lead;
/* Later nodes without nulls have a validity buffer too, and an unknown null count. */
extern bool arrow_always_valid;
/* Make a value or a row null. */
void arrow_set_null(arrow_node *node, size_t at);

#endif
