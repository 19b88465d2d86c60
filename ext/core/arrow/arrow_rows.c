/* The row writer compiled for any processor, and the choice between its three variants. */
#include "core/arrow/arrow_rows.h"

#define FB_ENTRY put_any
static size_t put_any(fb_arrow_block *block, fb_arrow_source *source, fb_row *row, size_t count);
#include "core/arrow/arrow_rows.tmpl.h"

#ifdef FB_NEWER_PROCESSORS
/* arrow_rows_bmi2.c and arrow_rows_avx512.c */
size_t fb_arrow_block_put_bmi2(fb_arrow_block *block, fb_arrow_source *source, fb_row *row,
                               size_t count);
size_t fb_arrow_block_put_avx512(fb_arrow_block *block, fb_arrow_source *source, fb_row *row,
                                 size_t count);
#endif

size_t fb_arrow_block_put(fb_arrow_block *block, fb_arrow_source *source, fb_row *row,
                          size_t count) {
    block->changed = NULL;
#ifdef FB_NEWER_PROCESSORS
    if (block->lanes) return fb_arrow_block_put_avx512(block, source, row, count);
    if (block->processor >= FB_PROCESSOR_BMI2)
        return fb_arrow_block_put_bmi2(block, source, row, count);
#endif
    return put_any(block, source, row, count);
}

static size_t bytes_of_lanes(const fb_arrow_block *block) {
    size_t bytes_of_row = FB_SIMD_LANES * sizeof *block->numbers;
    return FB_CACHE_LINE +
           block->lane_groups * (FB_ARROW_BLOCK * bytes_of_row + sizeof *block->lanes);
}

/* Lanes are read as whole cache lines, so they start at one. */
fb_status fb_arrow_block_make_lanes(fb_arrow_block *block, const fb_arrow_source *source) {
    block->lane_groups = (source->plain_count + FB_SIMD_LANES - 1) / FB_SIMD_LANES;
    if (block->processor != FB_PROCESSOR_AVX512 || !block->lane_groups) return FB_OK;
    if (!(block->lane_memory = fb_memory_allocate(source->memory, bytes_of_lanes(block))))
        return FB_NO_MEMORY;
    block->numbers = fb_align_to_line(block->lane_memory);
    block->lanes =
        (fb_varint_simd *)(block->numbers + FB_ARROW_BLOCK * FB_SIMD_LANES * block->lane_groups);
    for (size_t i = 0; i < source->plain_count; i++) {
        const fb_column *column = source->fields[i].column;
        fb_varint_simd_set(&block->lanes[i / FB_SIMD_LANES], i % FB_SIMD_LANES, column, 0, 8,
                           column->limit, 0);
    }
    return FB_OK;
}

void fb_arrow_block_free_lanes(fb_arrow_block *block, fb_memory *memory) {
    if (block->lane_memory) fb_memory_release(memory, block->lane_memory, bytes_of_lanes(block));
}
