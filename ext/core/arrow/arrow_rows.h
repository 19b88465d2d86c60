/* Rows put together from the cells of their columns, a block at a time; nothing is left to check but room.

   Plain numbers come first, then all else, each in the order of columns. Where the processor fills lanes (varint_simd.h), numbers are dealt
   out to those of their rows, and eight are appended at once; elsewhere they are appended one by one. */
#ifndef FB_ARROW_ROWS_H
#define FB_ARROW_ROWS_H

#include "core/arrow/arrow_field.h"
#include "core/emit/message_row.h"

typedef struct {
    fb_arrow_field *fields;
    size_t field_count, plain_count; /* and how many of them are plain numbers, which are the first */
    int64_t first;                   /* where the first row is, in children */
    fb_arrow_room room;              /* of the rows, beyond plan->fixed_worst */
    const fb_arrow_field *changed;   /* its list is not what it was when it was sized; NULL: none */
    /* A lane for each plain number, in groups of FB_LANES, for each row of the block. NULL, but for processors with AVX-512. */
    uint64_t *numbers;
    fb_lanes *lanes;
    size_t lane_groups;
    void *lane_memory;
    fb_processor processor; /* of which instructions may be used */
} fb_arrow_block;

/* Lanes for the fields, if there are to be any. NO_MEMORY. REQUIRES: plain fields are the first. */
fb_status fb_arrow_block_make_lanes(fb_arrow_block *block, fb_memory *memory);
void fb_arrow_block_free_lanes(fb_arrow_block *block, fb_memory *memory);

/* Appends a message for each of the first rows. Returns how many found room; row->needed says how much
   the next one wants. With block->changed, its list is why there is no next one. */
size_t fb_arrow_block_put(fb_arrow_block *block, fb_row *row, size_t count);

#endif
