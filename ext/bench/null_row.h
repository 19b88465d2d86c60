/* An emitter that writes nothing, to measure decoding alone. It takes every value of a message and
   adds it to one word, so the compiler cannot remove the reads. It does not track which columns
   have a value, zeros or late columns: that is part of writing messages (message_row.h). */
#ifndef FB_BENCH_NULL_ROW_H
#define FB_BENCH_NULL_ROW_H

#include "core/decode/decode.h"

typedef struct {
    uint64_t values;
} null_row_cursor;

typedef struct null_row {
    uint64_t values; /* sum of the values of all rows */
    uint64_t count;  /* finished rows */
    struct null_row *others[FB_ROWS_COUNT];
} null_row;

FB_INLINE void null_row_begin_constants(null_row *row, null_row_cursor *at) {
    at->values = row->values;
}

FB_INLINE void null_row_end_constants(null_row *row, null_row_cursor at) {
    row->values = at.values;
}

FB_INLINE void null_row_begin_set(null_row *row, null_row_cursor *at) {
    at->values = row->values;
}

FB_INLINE void null_row_end_set_constants(null_row *row, null_row_cursor at) {
    row->values = at.values;
}

FB_INLINE void null_row_end_set(null_row *row) {
    (void)row;
}

FB_INLINE bool null_row_has_fast_path(const null_row *row) {
    (void)row;
    return true;
}

FB_INLINE bool null_row_reserve(null_row *row, size_t rows, size_t max_size) {
    (void)row, (void)rows, (void)max_size;
    return true;
}

FB_INLINE bool null_row_begin(null_row *row, size_t max_size, null_row_cursor *at) {
    (void)max_size;
    at->values = row->values;
    return true;
}

FB_INLINE void null_row_put_uint(null_row *row, null_row_cursor *at, fb_target target,
                                 uint64_t value) {
    (void)row, (void)target;
    at->values += value;
}

FB_INLINE void null_row_put_fast(null_row *row, null_row_cursor *at, const fb_target_range *source,
                                 uint64_t value) {
    null_row_put_uint(row, at, source->target, value);
}

FB_INLINE void null_row_append_uint(null_row *row, null_row_cursor *at, const fb_column *column,
                                    uint64_t value, size_t width) {
    (void)row, (void)column, (void)width;
    at->values += value;
}

FB_INLINE void null_row_put_int(null_row *row, null_row_cursor *at, fb_target target,
                                int64_t value) {
    null_row_put_uint(row, at, target, (uint64_t)value);
}

FB_INLINE void null_row_put_real(null_row *row, null_row_cursor *at, fb_target target,
                                 double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    null_row_put_uint(row, at, target, bits);
}

/* Of bytes, only the last one is read. */
FB_INLINE void null_row_put_bytes(null_row *row, null_row_cursor *at, fb_target target,
                                  const uint8_t *data, size_t size) {
    null_row_put_uint(row, at, target, size ? data[size - 1] : 0);
}

FB_INLINE void null_row_put_name(null_row *row, null_row_cursor *at, fb_target target,
                                 const uint8_t *data, size_t size) {
    null_row_put_bytes(row, at, target, data, size);
}

FB_INLINE void null_row_put_ip(null_row *row, null_row_cursor *at, fb_target target,
                               const uint8_t *data, size_t size) {
    null_row_put_uint(row, at, target,
                      size == 4 ? fb_load32(data) : fb_load64(data) ^ fb_load64(data + 8));
}

FB_INLINE void null_row_append_ip(null_row *row, null_row_cursor *at, const fb_column *column,
                                  const uint8_t *data, size_t size) {
    (void)column;
    null_row_put_ip(row, at, (fb_target){0}, data, size);
}

/* Move the numbers to their lanes, as for messages (varint_simd.h), and add them up. */
FB_INLINE bool null_row_append_lanes(null_row *row, null_row_cursor *at,
                                     const fb_varint_simd *lanes, const uint8_t *window) {
    (void)row;
#ifdef __AVX512VBMI2__
    fb_varint_simd_tables tables = fb_varint_simd_load(lanes);
    at->values += (uint64_t)_mm512_reduce_add_epi64(fb_varint_simd_gather(&tables, window));
    return true;
#else
    (void)at, (void)lanes, (void)window;
    return false;
#endif
}

FB_INLINE void null_row_repeat_uint(null_row *row, null_row_cursor *at, fb_target target,
                                    uint64_t value) {
    null_row_put_uint(row, at, target, value);
}

FB_INLINE void null_row_repeat_bytes(null_row *row, null_row_cursor *at, fb_target target,
                                     const uint8_t *data, size_t size) {
    null_row_put_bytes(row, at, target, data, size);
}

FB_INLINE void null_row_open(null_row *row, null_row_cursor *at, uint16_t column) {
    (void)row, (void)at, (void)column;
}

FB_INLINE void null_row_close(null_row *row, null_row_cursor *at, uint16_t column) {
    (void)row, (void)at, (void)column;
}

FB_INLINE bool null_row_accepts(const null_row *row, null_row_cursor at, fb_target target) {
    (void)row, (void)at, (void)target;
    return true;
}

FB_INLINE void null_row_finish(null_row *row, null_row_cursor at) {
    row->values = at.values;
    row->count++;
}

FB_INLINE uint64_t null_row_take_refused(null_row *row) {
    (void)row;
    return 0;
}

FB_INLINE void null_row_suspend(null_row *row) {
    (void)row;
}

FB_INLINE void null_row_change_rate(null_row *row, fb_rate_change *change) {
    (void)row, (void)change;
}

/* The decoders of the core, and the interpreter (interpreted.tmpl.h). They never return
   NO_SPACE. */
fb_status null_row_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                          fb_position *position, null_row *row);
fb_status null_row_interpret(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                             fb_position *position, null_row *row);

#endif
