/* Messages of consecutive records, on processors that fill lanes (varint_simd.h). The lanes of up
   to 16 records are encoded first, and then appended record by record. The place of a record
   depends on the sizes of those before it. When all sizes are known, no record waits for another
   one. */
#ifndef FB_DECODE_BLOCK_TMPL_H
#define FB_DECODE_BLOCK_TMPL_H

#include "core/decode/datagram.tmpl.h"
#include "core/decode/operation.tmpl.h"

#ifdef __AVX512VBMI2__ /* editors open this file without it */

enum { MOST_BLOCKS = 4 }; /* templates with more groups of lanes are decoded record by record */

/* Append the lanes of record `i` of the blocks. */
FB_INLINE fb_cursor append_lanes_of(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                    const fb_compiled_template *compiled,
                                    const fb_varint_simd_block *blocks, size_t i,
                                    const uint8_t *record) {
    for (size_t k = 0; k < compiled->lane_group_count; k++) {
        const fb_lane_group *group = &compiled->lane_groups[k];
        size_t size = blocks[k].size[i];
        if (FB_LIKELY(size != FB_SIMD_BEYOND))
            FB_EMIT(append_block)(emitter, &at, blocks[k].bytes[i], size);
        else at = run_group(c, emitter, at, compiled, group, record, NULL);
    }
    return at;
}

FB_NOINLINE static size_t put_blocks(fb_context *c, fb_emitter *emitter,
                                     const fb_compiled_template *compiled, const uint8_t *record,
                                     size_t count) {
    fb_varint_simd_block blocks[MOST_BLOCKS];
    size_t step = compiled->record_size, max_size = max_row_size(c, step), done = 0;
    const fb_op *enums = compiled->ops + compiled->enums;
    fb_cursor at;
    for (size_t k = 0; k < compiled->lane_group_count; k++)
        fb_varint_simd_fill(&blocks[k], &compiled->lane_groups[k].lanes,
                            record + compiled->lane_groups[k].offset, step, count);
    for (; done < count && FB_EMIT(begin)(emitter, max_size, &at); done++, record += step) {
        at = append_lanes_of(c, emitter, at, compiled, blocks, done, record);
        at = run_after_numbers(c, emitter, at, compiled, enums, record, NULL);
        FB_EMIT(finish)(emitter, at);
    }
    c->counters->rows[FB_ROWS_FLOWS] += done;
    return done;
}

/* Decode up to `count` records and return their number. Returns 0 if there are fewer than two
   records or no room for all of them, or if there are no lanes or too many. */
FB_INLINE size_t put_run(fb_context *c, fb_emitter *emitter, const fb_compiled_template *compiled,
                         const uint8_t *record, size_t count) {
    size_t groups = compiled->lane_group_count;
    if (count < 2 || !groups || groups > MOST_BLOCKS) return 0;
    if (count > FB_SIMD_BLOCK) count = FB_SIMD_BLOCK;
    bool room = FB_EMIT(reserve)(emitter, count, max_row_size(c, compiled->record_size));
    return room ? put_blocks(c, emitter, compiled, record, count) : 0;
}

#endif

#endif
