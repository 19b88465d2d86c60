/* Flow samples that look like one seen before. sFlow has no templates, and still an exporter sends the same few layouts over and
   over: these records, an Ethernet frame of so many octets, IPv4, TCP. A *pattern* is learned from such a sample. It says

     what must be the same  a mask over the octets of the sample, and what they are: formats and lengths of records, the
                            ethertype, the header length of IPv4, the protocol; everything that decoding branches on
     what has bounds        numbers that mean something else beyond them, as the VLAN id 4095 does
     where the columns are  numbers and addresses at fixed places then, as in a record of a template

   A sample that fits a pattern gives the same row as it does when it is read record by record (sflow.inc), which is how all
   others are read, and whose place this takes for speed alone. Only what is common is learned: an Ethernet frame with
   fb_packet_walk_plain's kinds of packet, of the records those that routers and switches send. */
#ifndef FB_PATTERN_H
#define FB_PATTERN_H

#include "template.h"

#define FB_PATTERN_OCTETS 512 /* of the longest sample that is learned */
#define FB_PATTERN_WINDOW 64  /* octets that are looked at together; no sample that is learned is shorter */

/* Octets of a sample that must be the same, where `mask` says so. */
typedef struct {
    _Alignas(FB_CACHE_LINE) uint8_t mask[FB_PATTERN_WINDOW];
    uint8_t same[FB_PATTERN_WINDOW]; /* 0 where the mask is */
    uint32_t place;
} fb_pattern_window;

/* Four octets of a sample: low <= (number & mask) <= low + span. */
typedef struct {
    uint32_t mask, low, span;
    uint32_t place;
} fb_pattern_bound;

typedef enum {
    FB_PATTERN_NUMBER,
    FB_PATTERN_ADDRESS,
    FB_PATTERN_MEMBERS, /* words, members of the list of a source */
    FB_PATTERN_CLOSE,   /* the end of that list */
    FB_PATTERN_LAYERS,  /* the headers of the packet */
    FB_PATTERN_UNKNOWN, /* a record that is not read, and counted */
} fb_pattern_code;

typedef struct {
    const fb_column *column; /* of what is appended */
    uint64_t mask, add;      /* a number is its octets & mask, and so much more */
    uint16_t source;         /* fb_source */
    uint16_t place;          /* in the sample */
    uint16_t window;         /* the place of 8 octets in the sample of which a number is a part */
    uint16_t size;           /* octets */
    uint8_t shift;           /* from the end of the window, bits */
    uint8_t code;            /* fb_pattern_code */
} fb_pattern_value;

/* What a pattern may have at most; what would have more is not learned. */
enum { FB_PATTERN_WINDOWS = 8, FB_PATTERN_GROUPS = 6, FB_PATTERN_BOUNDS = 12, FB_PATTERN_VALUES = 48 };

typedef struct {
    _Alignas(FB_CACHE_LINE) uint32_t key; /* size of the sample, and whether it is expanded; 0: there is no pattern */
    uint16_t window_count, bound_count, group_count;
    /* Values in groups: numbers in lanes, other numbers, addresses, all of columns that nothing else may fill; and what goes to
       the columns of its source, in the order of source.h. */
    uint16_t lane_end, number_end, address_end, value_count;
    size_t worst; /* octets of a row */
    fb_pattern_window windows[FB_PATTERN_WINDOWS];
    fb_lane_group groups[FB_PATTERN_GROUPS];
    fb_pattern_bound bounds[FB_PATTERN_BOUNDS];
    fb_pattern_value values[FB_PATTERN_VALUES];
} fb_pattern;
_Static_assert(offsetof(fb_pattern, groups) % FB_CACHE_LINE == 0, "lanes are read by whole cache lines");

/* Where the packet is in samples of one size: which pattern may fit is told by it. */
typedef struct {
    uint32_t key; /* as of a pattern; 0: none */
    uint32_t ip;  /* the place of what is behind the first ethertype: an IP header, or a tag */
} fb_pattern_size;

/* A pattern is at its place, or at one of those beside it: other patterns may have the same. */
enum { FB_PATTERN_SIZES = 128, FB_PATTERN_PLACES = 256, FB_PATTERN_WAYS = 4 };

/* When the next sample of a size is learned from. */
typedef struct {
    uint16_t missed; /* that fit no pattern, since the last one that was */
    uint16_t wait;   /* how many of them are not learned from: twice as many, each time that nothing is gained */
} fb_pattern_turn;

typedef struct {
    fb_pattern_size sizes[FB_PATTERN_SIZES];
    fb_pattern patterns[FB_PATTERN_PLACES];
} fb_pattern_table;

/* The patterns of one decoder. */
typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    bool wide;               /* numbers are put into lanes */
    uint32_t replaced;       /* patterns that gave way to another */
    fb_pattern_turn turns[FB_PATTERN_SIZES];
    fb_pattern_table *table; /* NULL before the first one */
    void *block;             /* what it lies in, from the first cache line on */
} fb_patterns;

fb_patterns fb_patterns_new(const fb_plan *plan, fb_memory *memory, bool wide);
void fb_patterns_free(fb_patterns *patterns);

/* Learns from a flow sample that none of the patterns fits, if there is something to learn, and it is its turn: whoever makes up
   new ones all the time gets few. */
void fb_patterns_learn(fb_patterns *patterns, fb_bytes sample, bool expanded);

FB_INLINE uint32_t fb_pattern_key(size_t size, bool expanded) {
    return (uint32_t)size << 1 | expanded;
}

FB_INLINE size_t fb_pattern_size_place(uint32_t key) {
    return (key >> 3 ^ key << 6) & (FB_PATTERN_SIZES - 1);
}

/* Tags are passed over: what they say is another one each time, and so is what stands so far behind them. REQUIRES: 20 octets at
   ip, 2 before it. */
FB_INLINE size_t fb_pattern_place(uint32_t key, const uint8_t *ip) {
    uint32_t etype = fb_load16(ip - 2), tags = 0;
    for (; FB_UNLIKELY(etype != FB_ETHERTYPE_IPV4 && etype != FB_ETHERTYPE_IPV6) && tags < 2; tags++) ip += 4, etype = fb_load16(ip - 2);
    uint32_t ipv4 = ip[9], ipv6 = ip[6], protocol = etype == FB_ETHERTYPE_IPV6 ? ipv6 : ipv4;
    return ((key ^ tags << 1 ^ etype << 16 ^ protocol << 8) * 0x9e3779b1u) >> 24; /* sizes are multiples of 4: the bits of tags are 0 */
}
_Static_assert(FB_PATTERN_PLACES == 1 << (32 - 24), "places are the high bits");

FB_INLINE uint64_t fb_pattern_number(const fb_pattern_value *value, const uint8_t *sample) {
    return (fb_load64(sample + value->window) >> value->shift & value->mask) + value->add;
}

/* Whether all octets that must be so are the same. */
FB_INLINE bool fb_pattern_is_same(const fb_pattern *pattern, const uint8_t *sample) {
    const fb_pattern_window *window = pattern->windows, *end = window + pattern->window_count;
#ifdef __AVX512VBMI2__
    __m512i differs = _mm512_setzero_si512();
    for (; window < end; window++) {
        __m512i octets = _mm512_and_si512(_mm512_loadu_si512(sample + window->place), _mm512_load_si512(window->mask));
        differs = _mm512_or_si512(differs, _mm512_xor_si512(octets, _mm512_load_si512(window->same)));
    }
    return !_mm512_test_epi64_mask(differs, differs);
#else
    uint64_t differs = 0, octets, mask, same;
    for (; window < end; window++)
        for (size_t i = 0; i < FB_PATTERN_WINDOW; i += 8) {
            memcpy(&octets, sample + window->place + i, 8);
            memcpy(&mask, window->mask + i, 8);
            memcpy(&same, window->same + i, 8);
            differs |= (octets & mask) ^ same;
        }
    return !differs;
#endif
}

FB_INLINE bool fb_pattern_is_within(const fb_pattern *pattern, const uint8_t *sample) {
    bool within = true;
    for (const fb_pattern_bound *bound = pattern->bounds, *end = bound + pattern->bound_count; bound < end; bound++)
        within &= (fb_load32(sample + bound->place) & bound->mask) - bound->low <= bound->span;
    return within;
}

/* The pattern that a flow sample fits; NULL: none. */
FB_INLINE const fb_pattern *fb_patterns_find(const fb_patterns *patterns, fb_bytes sample, bool expanded) {
    const fb_pattern_table *table = patterns->table;
    if (FB_UNLIKELY(!table || sample.size > FB_PATTERN_OCTETS)) return NULL;
    uint32_t key = fb_pattern_key(sample.size, expanded);
    const fb_pattern_size *size = &table->sizes[fb_pattern_size_place(key)];
    if (FB_UNLIKELY(size->key != key)) return NULL;
    size_t place = fb_pattern_place(key, sample.data + size->ip);
    for (size_t way = 0; way < FB_PATTERN_WAYS; way++) {
        const fb_pattern *pattern = &table->patterns[place ^ way];
        if (FB_UNLIKELY(pattern->key != key || !fb_pattern_is_same(pattern, sample.data))) continue;
        if (FB_LIKELY(fb_pattern_is_within(pattern, sample.data))) return pattern;
    }
    return NULL;
}

#endif
