/* Eight numbers of a record into eight columns at once, on processors with AVX-512 VBMI2.

   Each number has a lane of 64 bits. The octets of the record are dealt out to the lanes, and reversed, by one permutation; one
   instruction spreads all numbers into groups of seven bits; every lane gets its tag below its varint; and what is not needed is
   squeezed out of all lanes together:

     record   ─┬──┬────┬─┬───                    lane 0             lane 1
               │  │    │ └── permute ──▶  00 00 00 00 00 00 05 39 │ 00 … 00 06
                                spread    00 00 00 00 00 00 0a b9 │ 00 … 00 06      the bit that says "more" is set
                                tags      00 00 00 00 00 0a b9 08 │ 00 … 06 48
                                squeeze   08 b9 0a 48 06 …                          the lowest octet first

   No step depends on what the numbers are, so there is nothing to mispredict. A zero has no octets at all. */
#ifndef FB_LANES_H
#define FB_LANES_H

#include "core/plan/plan.h"

#define FB_LANES 8 /* and the octets of each */
#define FB_LANES_REACH 64   /* octets that a permutation takes from one place; it takes them from two */
#define FB_LANES_WINDOW (2 * FB_LANES_REACH) /* octets of a record, where these are side by side */

typedef struct {
    uint8_t index[64];    /* for each octet of each lane, the lowest first, where it comes from: below 64 from the first place */
    uint64_t mask[8];     /* the bits of the number */
    uint64_t add[8];      /* how much more it becomes */
    uint64_t tag[8];
    uint64_t tag_bits[8];
    /* How many octets of a lane may be left over, at most, for this octet of it to be needed; and one less, for another octet
       to follow it. Of a zero all eight are. */
    uint8_t needed[64], more[64];
    uint64_t beyond[8];   /* bits of numbers that do not fit beside the tag, or are beyond their bound */
    uint64_t window[2];   /* which octets may be read at each place, a bit for each */
    bool may_be_beyond;   /* some number is that wide */
    uint8_t count;        /* of lanes in use, which are the first ones */
    const fb_column *column[8];
} fb_lanes;

/* Whether a number fits a lane beside the tag of a column. */
FB_INLINE bool fb_lanes_fit(const fb_column *column, uint64_t number) {
    return number >> 7 * (FB_LANES - column->tag_size) == 0;
}

/* A number of `size` octets, big-endian, at an offset in the window, of which the bits in `mask` count, and `add` more. REQUIRES:
   lane < FB_LANES; 1 <= size <= 8; offset + size <= FB_LANES_WINDOW; add is 0, or no sum is too wide (fb_lanes_fit). */
void fb_lanes_set(fb_lanes *lanes, unsigned lane, const fb_column *column, size_t offset, size_t size, uint64_t mask, uint64_t add);
/* The number in a lane is to be below a bound that is a power of 2, or does not fit. Before fb_lanes_set's `add`. */
void fb_lanes_bound(fb_lanes *lanes, unsigned lane, uint64_t bound);
/* Says how many octets may be read at each of the two places. */
void fb_lanes_set_window(fb_lanes *lanes, size_t first, size_t second);

/* What all lanes have in common: in memory, where an operation may take it from. */
typedef struct {
    uint8_t groups[64]; /* the bit of a number at which the group of each octet begins */
    uint8_t left[64];   /* the bit of a count of zero bits at which that of zero octets begins */
    uint8_t seven[64];  /* the bits of a group */
    uint8_t eighth[64]; /* the bit that says that another octet follows */
} fb_lane_constants;
extern const fb_lane_constants fb_lane_constant;

#ifdef __AVX512VBMI2__
#include <immintrin.h>

/* A bit for each of eight numbers that is not zero. REQUIRES: they begin at a cache line. */
FB_INLINE unsigned fb_lanes_filled(const uint64_t *numbers) {
    __m512i value = _mm512_load_si512(numbers);
    return _mm512_test_epi64_mask(value, value);
}

/* Whether a number is beyond what its lane may hold. */
FB_INLINE bool fb_lanes_are_beyond(const fb_lanes *lanes, __m512i value) {
    return lanes->may_be_beyond && FB_UNLIKELY(_mm512_test_epi64_mask(value, _mm512_loadu_si512(lanes->beyond)));
}

/* Numbers of 64 bits. Returns the end of what was appended; NULL where a number does not fit its lane. REQUIRES: room for 64
   octets. */
FB_INLINE uint8_t *fb_lanes_append(uint8_t *p, const fb_lanes *lanes, __m512i value) {
    const fb_lane_constants *constant = &fb_lane_constant;
    if (fb_lanes_are_beyond(lanes, value)) return NULL;
    value = _mm512_add_epi64(value, _mm512_loadu_si512(lanes->add));
    __m512i field = _mm512_multishift_epi64_epi8(_mm512_loadu_si512(constant->groups), value);
    field = _mm512_and_si512(field, _mm512_loadu_si512(constant->seven));
    __m512i left = _mm512_multishift_epi64_epi8(_mm512_loadu_si512(constant->left), _mm512_lzcnt_epi64(field));
    field = _mm512_or_si512(_mm512_sllv_epi64(field, _mm512_loadu_si512(lanes->tag_bits)), _mm512_loadu_si512(lanes->tag));
    __mmask64 more = _mm512_cmplt_epi8_mask(left, _mm512_loadu_si512(lanes->more));
    __mmask64 needed = _mm512_cmple_epi8_mask(left, _mm512_loadu_si512(lanes->needed));
    field = _mm512_mask_add_epi8(field, more, field, _mm512_loadu_si512(constant->eighth));
    _mm512_storeu_si512(p, _mm512_maskz_compress_epi8(needed, field));
    return p + _mm_popcnt_u64(needed);
}

/* The numbers of a record, from two places in it. */
FB_INLINE __m512i fb_lanes_deal(const fb_lanes *lanes, const uint8_t *first, const uint8_t *second) {
    __m512i low = _mm512_maskz_loadu_epi8(lanes->window[0], first), high = _mm512_setzero_si512();
    if (lanes->window[1]) high = _mm512_maskz_loadu_epi8(lanes->window[1], second);
    __m512i value = _mm512_permutex2var_epi8(low, _mm512_loadu_si512(lanes->index), high);
    return _mm512_and_si512(value, _mm512_loadu_si512(lanes->mask));
}

/* The same as numbers of their columns, by the lane. False where one does not fit its lane. */
FB_INLINE bool fb_lanes_read(const fb_lanes *lanes, const uint8_t *first, const uint8_t *second, uint64_t numbers[FB_LANES]) {
    __m512i value = fb_lanes_deal(lanes, first, second);
    if (fb_lanes_are_beyond(lanes, value)) return false;
    _mm512_storeu_si512(numbers, _mm512_add_epi64(value, _mm512_loadu_si512(lanes->add)));
    return true;
}

FB_INLINE uint8_t *fb_lanes_append_window(uint8_t *p, const fb_lanes *lanes, const uint8_t *first, const uint8_t *second) {
    return fb_lanes_append(p, lanes, fb_lanes_deal(lanes, first, second));
}
#endif

#endif
