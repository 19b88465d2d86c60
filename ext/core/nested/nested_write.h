/* Writer from nested Arrow arrays to Protocol Buffers messages of any type.

   Columns are bound to the nodes of a tree once per schema. Values are converted in blocks
   (core/arrow/arrow_convert.h). A null is an absent field. Fields are in the order of their
   numbers, and elements of numbers are packed if the field is.

   Usage:
     fb_nested_writer_new(&writer, types, count, &memory);
     fb_nested_writer_bind(&writer, node, schema, &reason);        for each column
     fb_nested_writer_set(&writer, array);
     while ((status = fb_nested_write(&writer, &row, rows, &p, end)) == FB_NO_SPACE) … grow … */
#ifndef FB_NESTED_NESTED_WRITE_H
#define FB_NESTED_NESTED_WRITE_H

#include "core/base/buffer.h"
#include "core/nested/nested_types.h"

/* The ways to write a field. */
enum {
    FB_NESTED_PUT_LIST,
    FB_NESTED_PUT_SINGLE,
    FB_NESTED_PUT_SCALAR, /* a single scalar that may be absent */
    FB_NESTED_PUT_VARINT, /* the same, of known forms */
    FB_NESTED_PUT_FIXED64,
    FB_NESTED_PUT_TEXT
};

/* The column of a node, and a block of its values. */
typedef struct {
    const fb_nested_type *type;
    bool bound;
    /* of a struct: the nodes that are bound or required, by number, in those of the writer */
    size_t wanted, wanted_count;
    size_t child;       /* its index among the columns of its struct */
    fb_arrow_type list; /* of a repeated field */
    fb_arrow_view lists;
    fb_arrow_view rows; /* of a struct: its validity */
    fb_column column;   /* the form of a scalar */
    fb_arrow_values values;
    int64_t first;         /* row of the first cell */
    size_t loaded;         /* cells */
    uint64_t present;      /* a bit for each cell that has a value */
    fb_arrow_cells *cells; /* of a scalar */
    uint8_t form;          /* a way to write the field */
    uint8_t length_size;   /* bytes of the last length of a message or a packed list */
    size_t oneofs;         /* index of the oneofs of its message in those of the writer */
} fb_nested_column;

/* A level of the place of a value: a field, and the index of an element, or -1. */
typedef struct {
    const fb_nested_type *type;
    int64_t index;
} fb_nested_level;

typedef struct {
    const fb_nested_type *types;
    fb_memory *memory;
    fb_nested_column *columns; /* by node */
    size_t count;
    fb_nested_column **wanted;
    int64_t *chosen; /* for each oneof, the row with a value, plus 1 */
    size_t chosen_count;
    uint8_t *end; /* of the output */
    /* of the last call that refused a value */
    fb_status status;
    fb_arrow_reason reason;
    fb_nested_level levels[FB_CODEC_DEPTH + 1]; /* from the inside out */
    size_t level_count;
    fb_json_fault fault; /* of NOT_JSON */
    fb_buffer message;   /* the last one made of JSON */
} fb_nested_writer;

/* Create a writer without columns. `types` and `memory` must outlive it. NO_MEMORY. */
fb_status fb_nested_writer_new(fb_nested_writer *writer, const fb_nested_type *types, size_t count,
                               fb_memory *memory);
void fb_nested_writer_free(fb_nested_writer *writer);

/* Bind a column of a struct to a node. `child` is its index. *values becomes the schema of a
   struct, whose columns the caller binds next, or NULL. BAD_SOURCE: the type cannot fill the node;
   *reason is set. NO_MEMORY. REQUIRES: fb_arrow_schema_is_sound; the node is not bound. */
fb_status fb_nested_writer_bind(fb_nested_writer *writer, size_t node, size_t child,
                                const struct ArrowSchema *schema, const struct ArrowSchema **values,
                                fb_arrow_reason *reason);

/* Set the array to read: a struct, or a record batch. It must outlive the reads. BAD_ARGUMENT: it
   does not have the layout of the schema; `reason` is set. */
fb_status fb_nested_writer_set(fb_nested_writer *writer, const struct ArrowArray *array);

/* Append rows from *row on as messages, each after its length, at *output. *row and *output move
   with each whole row.

     OK           `rows` rows of the array are written
     NO_SPACE     the next row does not fit: call again with more room
     BAD_MESSAGE  a value of the next row is refused; `reason` and `levels` are set

   REQUIRES: rows is not above the length of the array. */
fb_status fb_nested_write(fb_nested_writer *writer, size_t *row, size_t rows, uint8_t **output,
                          uint8_t *end);

#endif
