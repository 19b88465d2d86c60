/* Compile a template and a plan into the operations of a compiled template. */
#ifndef FB_EXPORTER_OPERATIONS_H
#define FB_EXPORTER_OPERATIONS_H

#include "core/exporter/template.h"

/* A field or a derived value that may fill a column. */
struct fb_candidate {
    fb_target target;
    uint16_t field;
    uint8_t code; /* fb_op_code */
    bool after_packet;
    bool again;    /* see fb_op.again */
    uint8_t group; /* of operations */
    /* in a reversed compiled template: from a reverse element, or from a derived value of that
       direction */
    bool own;
};

/* An element of the plan within a template: its number of occurrences, and their fields. `link` is
   the end of its chain (fb_compiled_template). */
struct fb_occurrences {
    uint16_t count, first, last, link;
};

/* Return true if a field has no bytes that could fill a column. An empty field is a value only of
   an explicit text. Without an operation, it costs nothing in the shortest records. */
FB_INLINE bool fb_field_fills_nothing(const fb_compiled_template *compiled, uint16_t field,
                                      fb_op_code code, const fb_column *column) {
    bool text = column->type == FB_TYPE_STRING || column->type == FB_TYPE_BYTES;
    if (field == FB_NO_FIELD || compiled->fields[field].size || code == FB_OP_COLLECT) return false;
    return !text || !(column->flags & FB_COLUMN_EXPLICIT);
}

/* Append the operations to compiled->ops and count them. REQUIRES: fields, offsets and roles are
   set; room for as many operations as the plan can need. */
void fb_operations_write(fb_compiled_templates *compiled_templates, fb_compiled_template *compiled);
/* Write the groups of moves that messages take at once to `groups`, or only count them if it is
   NULL. Returns their number. REQUIRES: the operations are written. */
uint16_t fb_operations_group(const fb_compiled_template *compiled, fb_lane_group *groups);

#endif
