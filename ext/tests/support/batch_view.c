#include "tests/support/batch_view.h"

#include <stdlib.h>

static const char *format_of(const fb_column *column) {
    unsigned width = fb_batch_width(column);
    switch (column->type) {
        case FB_TYPE_INT:
        case FB_TYPE_SINT: return width == 8 ? "l" : "i";
        case FB_TYPE_BOOL: return "b";
        case FB_TYPE_FLOAT: return "f";
        case FB_TYPE_DOUBLE: return "g";
        case FB_TYPE_STRING: return "u";
        case FB_TYPE_BYTES: return "z";
        case FB_TYPE_IP: return "w:16";
        case FB_TYPE_TIMESTAMP:
            return column->limit > INT64_MAX ? "L" : column->unit == 1000000 ? "tsm:UTC" : "l";
        case FB_TYPE_DURATION: return column->unit == 1000000 ? "tDm" : "l";
        default: return width == 8 ? "L" : width == 4 ? "I" : width == 2 ? "S" : "C";
    }
}

static uint8_t *pack(const uint8_t *bytes, size_t count) {
    uint8_t *bits = calloc(count / 8 + 1, 1);
    if (!bits) abort();
    for (size_t i = 0; i < count; i++) bits[i / 8] |= (uint8_t)((bytes[i] != 0) << i % 8);
    return bits;
}

/* View the values of rows, or the members of all lists. */
static void view_values(batch_child *child, const fb_column *column, const fb_vector *vector,
                        size_t count, const uint32_t *offsets, struct ArrowArray *array,
                        const void **buffers) {
    *array = (struct ArrowArray){
        .length = (int64_t)count, .n_buffers = vector->width ? 2 : 3, .buffers = buffers};
    buffers[1] = vector->width ? (const void *)vector->values : offsets;
    buffers[2] = vector->values;
    if (column->type == FB_TYPE_BOOL && count)
        buffers[1] = child->bits = pack(vector->values, count);
    if (!vector->present) return;
    array->null_count = -1;
    buffers[0] = child->present = pack(vector->present, count);
}

static void view_child(batch_child *child, const fb_column *column, const fb_vector *vector,
                       size_t rows) {
    if (!(column->flags & FB_COLUMN_REPEATED)) {
        view_values(child, column, vector, rows, vector->offsets, &child->array, child->buffers);
        return;
    }
    view_values(child, column, vector, vector->count, vector->members, &child->member_array,
                child->member_buffers);
    child->buffers[1] = vector->offsets;
    child->array = (struct ArrowArray){.length = (int64_t)rows,
                                       .n_buffers = 2,
                                       .buffers = child->buffers,
                                       .n_children = 1,
                                       .children = child->member_arrays};
}

static void describe_child(batch_child *child, const fb_column *column) {
    const char *format = column->flags & FB_COLUMN_ENABLED ? format_of(column) : "n";
    child->member_schemas[0] = &child->member_schema;
    child->member_arrays[0] = &child->member_array;
    child->schema = (struct ArrowSchema){.format = format};
    if (!(column->flags & FB_COLUMN_REPEATED)) return;
    child->member_schema = (struct ArrowSchema){.format = format};
    child->schema =
        (struct ArrowSchema){.format = "+l", .n_children = 1, .children = child->member_schemas};
}

void batch_view_open(batch_view *view, const fb_plan *plan, const fb_batch *batch) {
    *view = (batch_view){.count = plan->column_count};
    view->children = calloc(view->count, sizeof *view->children);
    view->schemas = calloc(view->count, sizeof *view->schemas);
    view->arrays = calloc(view->count, sizeof *view->arrays);
    if (!view->children || !view->schemas || !view->arrays) abort();
    for (size_t i = 0; i < view->count; i++) {
        batch_child *child = &view->children[i];
        view->schemas[i] = &child->schema;
        view->arrays[i] = &child->array;
        describe_child(child, &plan->columns[i]);
        if (batch && plan->columns[i].flags & FB_COLUMN_ENABLED)
            view_child(child, &plan->columns[i], &batch->vectors[i], batch->rows);
    }
    view->schema = (struct ArrowSchema){
        .format = "+s", .n_children = (int64_t)view->count, .children = view->schemas};
    view->array = (struct ArrowArray){.length = batch ? (int64_t)batch->rows : 0,
                                      .n_buffers = 1,
                                      .buffers = view->buffers,
                                      .n_children = (int64_t)view->count,
                                      .children = view->arrays};
}

void batch_view_close(batch_view *view) {
    for (size_t i = 0; i < view->count; i++) {
        free(view->children[i].bits);
        free(view->children[i].present);
    }
    free(view->children);
    free(view->schemas);
    free(view->arrays);
}
