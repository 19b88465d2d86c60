/* Arrow arrays and their schemas, from words. A value is a word: a number, text, or, of bytes, hexadecimal digits behind an x;
   '' is text or bytes of nothing, null is null.

     arrow_node *a = arrow_values("S", "1 null 65535");
     arrow_node *b = arrow_dictionary("c", "0 1 null 0", arrow_values("u", "in out"));
     arrow_node *c = arrow_list("+l", "0 null 3", arrow_values("I", "7 8 9"));      (members of each list)
     arrow_node *batch = arrow_batch(3, 3, (arrow_node *[]){a, b, c});              (rows, children)

   Every buffer ends at a page that cannot be touched, and begins at an odd address, where its size is odd. Nodes own what they are
   made of; those of a batch live as long as it does. */
#ifndef FB_TEST_ARROW_BUILDER_H
#define FB_TEST_ARROW_BUILDER_H

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
    size_t sizes[ARROW_BUFFERS]; /* of those that are the node's own */
    char format[32];
    struct ArrowSchema *schemas[ARROW_CHILDREN];
    struct ArrowArray *arrays[ARROW_CHILDREN];
    arrow_node *nodes[ARROW_CHILDREN];
    arrow_node *dictionary;
};

/* Of any format but those of lists and structs. */
arrow_node *arrow_values(const char *format, const char *words);
arrow_node *arrow_dictionary(const char *format, const char *words, arrow_node *values);
/* Words: how many members each list has. Of +w, a list that is null has members all the same. */
arrow_node *arrow_list(const char *format, const char *words, arrow_node *members);
/* A record batch. The validity of rows is put by arrow_set_null. */
arrow_node *arrow_batch(size_t rows, size_t count, arrow_node **children);
void arrow_free(arrow_node *node);

/* From now on nodes begin with so many values that are not theirs, and that their offset leaves out. */
extern unsigned arrow_lead;
/* From now on nodes without nulls have a validity too, and say that they do not know how many nulls they have. */
extern bool arrow_always_valid;
/* Makes a value null, or a row. */
void arrow_set_null(arrow_node *node, size_t at);

#endif
