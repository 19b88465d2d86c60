/* The rows of a batch (batch.h) as an Arrow record batch. It uses the buffers of the batch, except
   for bools and validity, which Arrow packs into bits. */
#ifndef FB_TESTS_SUPPORT_BATCH_VIEW_H
#define FB_TESTS_SUPPORT_BATCH_VIEW_H

#include "core/arrow/arrow.h"
#include "core/emit/batch.h"

/* A child, and for a list its members. */
typedef struct {
    struct ArrowSchema schema, member_schema, *member_schemas[1];
    struct ArrowArray array, member_array, *member_arrays[1];
    const void *buffers[3], *member_buffers[3];
    uint8_t *bits, *present; /* buffers that the view owns */
} batch_child;

typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray array;
    const void *buffers[1];
    size_t count; /* columns of the plan, one child each; a disabled column is an array of nulls */
    batch_child *children;
    struct ArrowSchema **schemas;
    struct ArrowArray **arrays;
} batch_view;

/* Open a view; `batch` NULL: the schema only. The batch must outlive the view. */
void batch_view_open(batch_view *view, const fb_plan *plan, const fb_batch *batch);
void batch_view_close(batch_view *view);

#endif
