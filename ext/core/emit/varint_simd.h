/* Write eight numbers of a record into eight columns at once, on processors with AVX-512 VBMI2.

   Each number has a lane of 64 bits. One permutation copies the bytes of the record into the lanes
   and reverses them. One instruction spreads all numbers into groups of seven bits. Every lane then
   gets its tag below its varint. Finally, one instruction removes the unused bytes of all lanes:

     record   ─┬──┬────┬─┬───                lane 0                    lane 1
               │  │    │ └── permute ──▶  00 00 00 00 00 00 05 39 │ 00 … 00 06
                             spread       00 00 00 00 00 00 0a b9 │ 00 … 00 06   "more" bit is set
                             tags         00 00 00 00 00 0a b9 08 │ 00 … 06 48
                             squeeze      08 b9 0a 48 06 …                       lowest byte first

   One check finds numbers that do not fit their lane; the caller writes those records otherwise. No
   other step depends on the values. A zero has no bytes at all. */
#ifndef FB_EMIT_VARINT_SIMD_H
#define FB_EMIT_VARINT_SIMD_H

#include "core/plan/plan.h"

#define FB_SIMD_LANES  8                   /* number of lanes, and bytes per lane */
#define FB_SIMD_REACH  64                  /* bytes of each half of a window */
#define FB_SIMD_WINDOW (2 * FB_SIMD_REACH) /* bytes of a record that a permutation takes */

typedef struct {
    /* offset in the window of each byte of each lane, the lowest first */
    uint8_t index[64];
    uint64_t tag[8];
    uint64_t tag_bits[8];
    /* Bounds on the leading zero bits of a number, which are 64 for a zero. A byte of its lane is
       written if there are at most `needed` of them, and has a successor if there are less than
       `more`. */
    uint8_t needed[64], more[64];
    uint64_t mask[8]; /* bits that belong to the number */
    uint64_t add[8];  /* constant that is added to the number */
    /* bits that a number must not have: no room beside the tag, or at or above the bound */
    uint64_t beyond[8];
    uint64_t filled;    /* bytes of all lanes that `index` fills, one bit per byte */
    uint64_t window[2]; /* bytes that may be read in each half, one bit per byte */
    bool may_be_beyond; /* some number may have such bits */
    bool changes;       /* `mask` is not that of whole bytes, or `add` is not 0 */
} fb_varint_simd;

/* Return true if a number fits a lane beside the tag of a column. */
FB_INLINE bool fb_varint_simd_fit(const fb_column *column, uint64_t number) {
    return number >> 7 * (FB_SIMD_LANES - column->tag_size) == 0;
}

/* Fill a lane from a big-endian number of `size` bytes at an offset in the window. Only the bits in
   `mask` count, and `add` is added to the result. REQUIRES: *lanes was all zeros at first;
   lane < FB_SIMD_LANES, each at most once; 1 <= size <= 8; offset + size <= FB_SIMD_WINDOW; add is
   0, or every sum fits (fb_varint_simd_fit). */
void fb_varint_simd_set(fb_varint_simd *lanes, unsigned lane, const fb_column *column,
                        size_t offset, size_t size, uint64_t mask, uint64_t add);
/* Require the number in a lane, before `add`, to be below a bound. REQUIRES: bound is a power of 2;
   fb_varint_simd_set was called for the lane. */
void fb_varint_simd_bound(fb_varint_simd *lanes, unsigned lane, uint64_t bound);
/* Set how many bytes of the window may be read. */
void fb_varint_simd_set_window(fb_varint_simd *lanes, size_t size);

#define FB_SIMD_BLOCK  16   /* records of a block */
#define FB_SIMD_BEYOND 0xff /* size of lanes of which a number does not fit */

/* The lanes of consecutive records, encoded but not yet appended. */
typedef struct {
    _Alignas(FB_CACHE_LINE) uint8_t bytes[FB_SIMD_BLOCK][FB_SIMD_REACH];
    uint8_t size[FB_SIMD_BLOCK];
} fb_varint_simd_block;

#ifdef __AVX512VBMI2__
#include <immintrin.h>

/* vpternlog: the bits of the second operand where the third has ones, else those of the first. */
enum { FB_SIMD_SELECT = 0xd8 };

/* Lanes whose tables are in registers. */
typedef struct {
    const fb_varint_simd *lanes;
    __m512i index, tag, tag_bits, needed, more;
} fb_varint_simd_tables;

FB_INLINE fb_varint_simd_tables fb_varint_simd_load(const fb_varint_simd *lanes) {
    return (fb_varint_simd_tables){.lanes = lanes,
                                   .index = _mm512_loadu_si512(lanes->index),
                                   .tag = _mm512_loadu_si512(lanes->tag),
                                   .tag_bits = _mm512_loadu_si512(lanes->tag_bits),
                                   .needed = _mm512_loadu_si512(lanes->needed),
                                   .more = _mm512_loadu_si512(lanes->more)};
}

/* Return true if some number exceeds its lane. */
FB_INLINE bool fb_varint_simd_are_beyond(const fb_varint_simd *lanes, __m512i value) {
    return lanes->may_be_beyond &&
           FB_UNLIKELY(_mm512_test_epi64_mask(value, _mm512_loadu_si512(lanes->beyond)));
}

/* Encode numbers of 64 bits with their tags. *needed becomes the bytes that are written. If a
   number does not fit its lane, the bytes have no meaning. */
FB_INLINE __m512i fb_varint_simd_encode(const fb_varint_simd_tables *tables, __m512i value,
                                        __mmask64 *needed) {
    /* the bit of a number at which the group of each byte begins */
    const __m512i groups = _mm512_set1_epi64(0x312a231c150e0700);
    const __m512i lowest = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0808080808080808, 0));
    const __m512i eighth = _mm512_set1_epi8((char)0x80);
    if (tables->lanes->changes)
        value = _mm512_add_epi64(value, _mm512_loadu_si512(tables->lanes->add));
    __m512i zeros = _mm512_shuffle_epi8(_mm512_lzcnt_epi64(value), lowest);
    *needed = _mm512_cmple_epi8_mask(zeros, tables->needed);
    /* negative, with the eighth bit set, in bytes that have a successor */
    __m512i more = _mm512_sub_epi8(zeros, tables->more);
    __m512i field = _mm512_multishift_epi64_epi8(groups, value);
    field = _mm512_sllv_epi64(field, tables->tag_bits);
    field = _mm512_ternarylogic_epi64(field, more, eighth, FB_SIMD_SELECT);
    field = _mm512_or_si512(field, tables->tag);
    return _mm512_maskz_compress_epi8(*needed, field);
}

/* Append numbers of 64 bits with their tags. Return the end of the output, or NULL if a number does
   not fit its lane. REQUIRES: room for 64 bytes. */
FB_INLINE uint8_t *fb_varint_simd_append(uint8_t *p, const fb_varint_simd *lanes, __m512i value) {
    fb_varint_simd_tables tables = fb_varint_simd_load(lanes);
    __mmask64 needed;
    if (fb_varint_simd_are_beyond(lanes, value)) return NULL;
    _mm512_storeu_si512(p, fb_varint_simd_encode(&tables, value, &needed));
    return p + _mm_popcnt_u64(needed);
}

/* Load the numbers of a record from a window of it. */
FB_INLINE __m512i fb_varint_simd_gather(const fb_varint_simd_tables *tables,
                                        const uint8_t *window) {
    const fb_varint_simd *lanes = tables->lanes;
    __m512i low = _mm512_maskz_loadu_epi8(lanes->window[0], window), value;
    if (lanes->window[1]) {
        __m512i high = _mm512_maskz_loadu_epi8(lanes->window[1], window + FB_SIMD_REACH);
        value = _mm512_maskz_permutex2var_epi8(lanes->filled, low, tables->index, high);
    } else {
        value = _mm512_maskz_permutexvar_epi8(lanes->filled, tables->index, low);
    }
    return lanes->changes ? _mm512_and_si512(value, _mm512_loadu_si512(lanes->mask)) : value;
}

FB_INLINE uint8_t *fb_varint_simd_append_window(uint8_t *p, const fb_varint_simd *lanes,
                                                const uint8_t *window) {
    fb_varint_simd_tables tables = fb_varint_simd_load(lanes);
    return fb_varint_simd_append(p, lanes, fb_varint_simd_gather(&tables, window));
}

/* Encode the lanes of `count` records, whose windows are `step` bytes apart. REQUIRES: count <=
   FB_SIMD_BLOCK. */
FB_INLINE void fb_varint_simd_fill(fb_varint_simd_block *block, const fb_varint_simd *lanes,
                                   const uint8_t *window, size_t step, size_t count) {
    fb_varint_simd_tables tables = fb_varint_simd_load(lanes);
    for (size_t i = 0; i < count; i++, window += step) {
        __mmask64 needed;
        __m512i value = fb_varint_simd_gather(&tables, window);
        bool beyond = fb_varint_simd_are_beyond(lanes, value);
        _mm512_storeu_si512(block->bytes[i], fb_varint_simd_encode(&tables, value, &needed));
        block->size[i] = beyond ? FB_SIMD_BEYOND : (uint8_t)_mm_popcnt_u64(needed);
    }
}
#endif

#endif
