/* Compile a template and a plan into the operations of a shape. */
#ifndef FB_OPERATIONS_H
#define FB_OPERATIONS_H

#include "core/exporter/template.h"

/* A field or a derived value that may fill a column. */
struct fb_candidate {
    fb_target target;
    uint16_t field;
    uint8_t code; /* fb_op_code */
    bool after_packet;
    bool again; /* see fb_op.again */
    uint8_t group; /* of operations */
    /* in a reversed shape: from a reverse element, or from a derived value of that direction */
    bool own;
};

/* An element of the plan within a template: its number of occurrences, and their fields. `link` is
   the end of its chain (fb_shape). */
struct fb_occurrences {
    uint16_t count, first, last, link;
};

/* Append the operations to shape->ops and count them. REQUIRES: fields, offsets and roles are set;
   room for as many operations as the plan can need. */
void fb_operations_write(fb_shapes *shapes, fb_shape *shape);
/* Set the pointers into the operations. REQUIRES: the shape has its final address. */
void fb_operations_place(fb_shape *shape);

#endif
