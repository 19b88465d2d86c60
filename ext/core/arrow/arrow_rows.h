/* Write rows from the cells of their columns, a block at a time. The cells are already checked;
   only the room is checked here.

   Plain numbers come first, then other fields, each in the order of columns. If the processor has
   lanes (varint_simd.h), the numbers are first transposed to rows and then appended eight at a
   time. Otherwise they are appended one by one. */
#ifndef FB_ARROW_ARROW_ROWS_H
#define FB_ARROW_ARROW_ROWS_H

#include "core/arrow/arrow_source.h"
#include "core/emit/message_row.h"

typedef struct {
    const fb_arrow_field *changed; /* the field whose list changed after it was sized, or NULL */
    /* For each row of the block, one lane per plain number, in groups of FB_SIMD_LANES. NULL
       without AVX-512. */
    uint64_t *numbers;
    fb_varint_simd *lanes;
    size_t lane_groups;
    void *lane_memory;
    fb_processor processor; /* limit of the instructions used */
} fb_arrow_block;

/* Allocate lanes for the plain numbers of a source, if the processor has them. NO_MEMORY. */
fb_status fb_arrow_block_make_lanes(fb_arrow_block *block, const fb_arrow_source *source);
void fb_arrow_block_free_lanes(fb_arrow_block *block, fb_memory *memory);

/* Append a message for each of the first `count` rows of the source's block. Returns the number of
   rows written. If it is smaller, row->needed is the room for the next row, or block->changed is
   the field that stopped it. */
size_t fb_arrow_block_put(fb_arrow_block *block, fb_arrow_source *source, fb_row *row,
                          size_t count);

#endif
