/* The rows of a batch (batch.h) as an Arrow record batch: its buffers are what Arrow wants but for bools and what says that a value
   is present, which have a bit there. */
#ifndef FB_TEST_BATCH_VIEW_H
#define FB_TEST_BATCH_VIEW_H

#include "core/arrow/arrow.h"
#include "core/emit/batch.h"

/* A child, and what members of a list are. */
typedef struct {
    struct ArrowSchema schema, member_schema, *member_schemas[1];
    struct ArrowArray array, member_array, *member_arrays[1];
    const void *buffers[3], *member_buffers[3];
    uint8_t *bits, *present; /* its own */
} batch_child;

typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray array;
    const void *buffers[1];
    size_t count; /* of the plan's columns: a child each, of which disabled ones are nothing */
    batch_child *children;
    struct ArrowSchema **schemas;
    struct ArrowArray **arrays;
} batch_view;

/* The schema alone where batch is NULL. */
void batch_view_open(batch_view *view, const fb_plan *plan, const fb_batch *batch);
void batch_view_close(batch_view *view);

#endif
