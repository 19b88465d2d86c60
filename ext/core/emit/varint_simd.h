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
    uint64_t mask[8]; /* bits that belong to the number */
    uint64_t add[8];  /* constant that is added to the number */
    uint64_t tag[8];
    uint64_t tag_bits[8];
    /* Bounds on the leading zero bytes of a lane. A byte is written if the lane has at most
       `needed` of them, and has a successor if the lane has less than `more`. A zero has eight. */
    uint8_t needed[64], more[64];
    /* bits that a number must not have: no room beside the tag, or at or above the bound */
    uint64_t beyond[8];
    uint64_t window[2]; /* bytes that may be read in each half, one bit per byte */
    bool may_be_beyond; /* some number may have such bits */
} fb_varint_simd;

/* Return true if a number fits a lane beside the tag of a column. */
FB_INLINE bool fb_varint_simd_fit(const fb_column *column, uint64_t number) {
    return number >> 7 * (FB_SIMD_LANES - column->tag_size) == 0;
}

/* Fill a lane from a big-endian number of `size` bytes at an offset in the window. Only the bits in
   `mask` count, and `add` is added to the result. REQUIRES: lane < FB_SIMD_LANES; 1 <= size <= 8;
   offset + size <= FB_SIMD_WINDOW; add is 0, or every sum fits (fb_varint_simd_fit). */
void fb_varint_simd_set(fb_varint_simd *lanes, unsigned lane, const fb_column *column,
                        size_t offset, size_t size, uint64_t mask, uint64_t add);
/* Require the number in a lane, before `add`, to be below a bound. REQUIRES: bound is a power of 2;
   fb_varint_simd_set was called for the lane. */
void fb_varint_simd_bound(fb_varint_simd *lanes, unsigned lane, uint64_t bound);
/* Set how many bytes of the window may be read. */
void fb_varint_simd_set_window(fb_varint_simd *lanes, size_t size);

/* Constants of all lanes. They are in memory, so that instructions can use them as operands. */
typedef struct {
    uint8_t groups[64]; /* bit of the number at which the group of each byte begins */
    uint8_t left[64];   /* bit of a leading-zero count at which the count of zero bytes begins */
    uint8_t seven[64];  /* bits of a group */
    uint8_t eighth[64]; /* bit that marks a byte with a successor */
} fb_varint_simd_constants;
extern const fb_varint_simd_constants fb_varint_simd_constant;

#ifdef __AVX512VBMI2__
#include <immintrin.h>

/* Return true if some number exceeds its lane. */
FB_INLINE bool fb_varint_simd_are_beyond(const fb_varint_simd *lanes, __m512i value) {
    return lanes->may_be_beyond &&
           FB_UNLIKELY(_mm512_test_epi64_mask(value, _mm512_loadu_si512(lanes->beyond)));
}

/* Append numbers of 64 bits with their tags. Return the end of the output, or NULL if a number does
   not fit its lane. REQUIRES: room for 64 bytes. */
FB_INLINE uint8_t *fb_varint_simd_append(uint8_t *p, const fb_varint_simd *lanes, __m512i value) {
    const fb_varint_simd_constants *constant = &fb_varint_simd_constant;
    if (fb_varint_simd_are_beyond(lanes, value)) return NULL;
    value = _mm512_add_epi64(value, _mm512_loadu_si512(lanes->add));
    __m512i field = _mm512_multishift_epi64_epi8(_mm512_loadu_si512(constant->groups), value);
    field = _mm512_and_si512(field, _mm512_loadu_si512(constant->seven));
    __m512i left =
        _mm512_multishift_epi64_epi8(_mm512_loadu_si512(constant->left), _mm512_lzcnt_epi64(field));
    field = _mm512_or_si512(_mm512_sllv_epi64(field, _mm512_loadu_si512(lanes->tag_bits)),
                            _mm512_loadu_si512(lanes->tag));
    __mmask64 more = _mm512_cmplt_epi8_mask(left, _mm512_loadu_si512(lanes->more));
    __mmask64 needed = _mm512_cmple_epi8_mask(left, _mm512_loadu_si512(lanes->needed));
    field = _mm512_mask_add_epi8(field, more, field, _mm512_loadu_si512(constant->eighth));
    _mm512_storeu_si512(p, _mm512_maskz_compress_epi8(needed, field));
    return p + _mm_popcnt_u64(needed);
}

/* Load the numbers of a record from a window of it. */
FB_INLINE __m512i fb_varint_simd_gather(const fb_varint_simd *lanes, const uint8_t *window) {
    __m512i low = _mm512_maskz_loadu_epi8(lanes->window[0], window), high = _mm512_setzero_si512();
    if (lanes->window[1]) high = _mm512_maskz_loadu_epi8(lanes->window[1], window + FB_SIMD_REACH);
    __m512i value = _mm512_permutex2var_epi8(low, _mm512_loadu_si512(lanes->index), high);
    return _mm512_and_si512(value, _mm512_loadu_si512(lanes->mask));
}

FB_INLINE uint8_t *fb_varint_simd_append_window(uint8_t *p, const fb_varint_simd *lanes,
                                                const uint8_t *window) {
    return fb_varint_simd_append(p, lanes, fb_varint_simd_gather(lanes, window));
}
#endif

#endif
