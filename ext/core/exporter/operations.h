/* What a template and a plan make of each other: the operations of a shape. */
#ifndef FB_OPERATIONS_H
#define FB_OPERATIONS_H

#include "core/exporter/template.h"

/* A field, or a derived value, that may fill a column. */
struct fb_candidate {
    fb_target target;
    uint16_t field;
    uint8_t code; /* fb_op_code */
    bool after_packet;
    bool again; /* as of an operation */
    uint8_t group; /* of operations */
    bool own; /* of a reversed shape: by a reverse element, or of what both directions share */
};

/* An element of the plan in a template: how often it occurs, and where. `link` is the end of its chain (fb_shape). */
struct fb_occurrences {
    uint16_t count, first, last, link;
};

/* Writes the operations behind one another to shape->ops, and counts them. REQUIRES: fields, places and roles are known; room for
   as many as the plan can want. */
void fb_operations_write(fb_shapes *shapes, fb_shape *shape);
/* What says where they are, once they stay where they are. */
void fb_operations_place(fb_shape *shape);

#endif
