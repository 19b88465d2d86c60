/* A record batch whose children are bound to the columns of a plan, and read in blocks of rows. The
   encoder of messages and the writer of text read their rows here.

   The children are bound once per schema, and the buffers of an array are found once per array. */
#ifndef FB_ARROW_ARROW_SOURCE_H
#define FB_ARROW_ARROW_SOURCE_H

#include "core/arrow/arrow_field.h"

#define FB_NO_CHILD SIZE_MAX

/* The reason and place of a refusal. */
typedef struct {
    fb_arrow_reason reason;
    size_t child; /* index in the schema; FB_NO_CHILD: the schema or array itself */
    size_t row;   /* row of the array, if a value was refused */
} fb_arrow_fault;

/* Order of the fields. */
typedef enum {
    FB_ARROW_ORDER_PLAIN, /* plain numbers first, then others, each in the order of columns */
    FB_ARROW_ORDER_CHILD  /* the order of the children */
} fb_arrow_order;

typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    fb_arrow_field *fields;
    size_t field_count, plain_count; /* all fields; plain numbers, with FB_ARROW_ORDER_PLAIN */
    size_t child_count;              /* of the schema */
    fb_arrow_view rows;              /* of the array */
    /* of the block: the index of its first row in the children, and the room of its rows beyond
       plan->max_fixed_size */
    int64_t first;
    fb_arrow_room room;
    fb_arrow_fault fault; /* of the last call that refused something */
} fb_arrow_source;

/* Create a source. `plan` and `memory` must outlive it; the schema may be released earlier.

     BAD_SOURCE    with a fault: the type of a child cannot fill its column
     BAD_ARGUMENT  with a fault: the schema is malformed or not a record batch, two children fill
                   one column, or a column is disabled or not in the plan;
                   without a fault: the number of an enum member is above 2^31 - 1
     NO_MEMORY

   The caller frees the source after every status. REQUIRES: a binding for each child. */
fb_status fb_arrow_source_new(fb_arrow_source *source, const fb_plan *plan,
                              const struct ArrowSchema *schema, const fb_arrow_binding *bindings,
                              fb_arrow_order order, fb_memory *memory);
/* The fault stays. */
void fb_arrow_source_free(fb_arrow_source *source);

/* Set the array to read. It must outlive the reads. BAD_ARGUMENT, with a fault: it does not have
   the layout of the schema. */
fb_status fb_arrow_source_set(fb_arrow_source *source, const struct ArrowArray *array);

FB_INLINE size_t fb_arrow_source_rows(const fb_arrow_source *source) {
    return (size_t)source->rows.length;
}

/* Read the rows of a block into the cells of the fields. Returns the number of rows before the
   first refused one, whose fault is set. If several children refuse it, the fault is that of the
   child read first. REQUIRES: position + count <= rows, 0 < count <= FB_ARROW_BLOCK. */
size_t fb_arrow_source_read(fb_arrow_source *source, size_t position, size_t count);

#endif
