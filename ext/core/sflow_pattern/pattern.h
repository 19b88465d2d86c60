/* Fast path for sFlow samples that have the layout of an earlier sample. sFlow has no templates,
   but an exporter sends the same few layouts repeatedly: the same records, an Ethernet frame, IPv4,
   TCP. A *pattern* is learned from such a sample. It has three parts:

     fixed bytes  a mask over the bytes of the sample, and their values: formats and lengths of
                  records, the ethertype, the header length of IPv4, the protocol, and everything
                  else that decoding branches on
     bounds       limits of numbers that have another meaning beyond them, such as the VLAN id 4095
     columns      numbers and addresses at fixed offsets, like those of a template record

   At first, patterns are *exact*: all lengths are fixed, too. When there are too many, the decoder
   learns *general* ones instead. They are slower, but a few of them match any traffic. Two records
   then have variable length: sampled_header (as much of a packet as was captured) and
   extended_gateway (an AS path). They divide a sample into parts, and offsets count from the start
   of their part:

     │ fixed part │ sampled_header ┄┄┄┄┄│ extended_switch │ extended_gateway ┄┄┄┄┄│ …
     └ 0                                └ 1                                       └ 2

   A sample that matches a pattern gives the same row as the slow path (sflow.tmpl.h), which reads a
   sample record by record and handles all other samples. Only common samples are learned: an
   Ethernet frame with a packet that fb_packet_walk_plain accepts, and the records that routers and
   switches send. */
#ifndef FB_SFLOW_PATTERN_PATTERN_H
#define FB_SFLOW_PATTERN_PATTERN_H

#include "core/packet/sflow_layout.h"
#include "core/exporter/template.h"

/* size limit of a sample that is learned from, and of all fixed-length records of a sample that
   matches */
#define FB_PATTERN_BYTES 512
/* bytes that are compared at once; at least as many precede the end of each part */
#define FB_PATTERN_WINDOW 64

/* The parts of a sample, followed by the words found in a gateway record (fb_gateway_found). */
enum {
    FB_SAMPLE_PARTS = 3,
    FB_PART_NEXT_HOP = FB_SAMPLE_PARTS,
    FB_PART_DESTINATION,
    FB_PART_PREFERENCE,
    FB_PATTERN_PARTS
};

/* A flow sample, divided into parts. */
typedef struct {
    const uint8_t *part[FB_PATTERN_PARTS];
    uint32_t key;     /* for general patterns: number of records and ends of the parts; never 0 */
    fb_bytes header;  /* the packet: 34 bytes or more */
    fb_bytes gateway; /* the record, 28 bytes or more; NULL data: none */
    fb_gateway_found found;
} fb_sample_parts;

/* Bytes of a sample that must have fixed values, where `mask` is set. */
typedef struct {
    _Alignas(FB_CACHE_LINE) uint8_t mask[FB_PATTERN_WINDOW];
    uint8_t same[FB_PATTERN_WINDOW]; /* 0 where the mask is 0 */
    int16_t place; /* offset from the start of the part; negative for bytes before it */
    uint16_t part;
} fb_pattern_window;

/* Four bytes of a sample: low <= (number & mask) <= low + span. */
typedef struct {
    uint32_t mask, low, span;
    int16_t place;
    uint16_t part;
} fb_pattern_bound;

typedef enum {
    FB_PATTERN_NUMBER,
    FB_PATTERN_ADDRESS,
    FB_PATTERN_AS_PATH, /* the lists of a gateway record */
    FB_PATTERN_COMMUNITIES,
    FB_PATTERN_LAYERS,  /* the headers of the packet */
    FB_PATTERN_UNKNOWN, /* a record that is not read, but counted */
} fb_pattern_code;

typedef struct {
    const fb_column *column; /* destination of a value that is appended */
    uint64_t mask, add;      /* a number is (its bytes & mask) + add */
    uint16_t source;         /* fb_source */
    int16_t place;           /* offset from the start of the part */
    int16_t window;          /* offset of the 8 bytes that contain a number */
    uint16_t size; /* in bytes; general patterns find the size of a list again for each sample */
    uint8_t part;
    /* in bits, from the end of the window; in a learner: from the end of the number's bytes */
    uint8_t shift;
    uint8_t code; /* fb_pattern_code */
} fb_pattern_value;

/* Limits of a pattern. A sample that needs more is not learned. */
enum {
    FB_PATTERN_WINDOWS = 8,
    FB_PATTERN_GROUPS = 6,
    FB_PATTERN_BOUNDS = 16,
    FB_PATTERN_VALUES = 48
};

/* Numbers values[first … end), which are appended at once, from two places. */
typedef struct {
    fb_varint_simd lanes;
    int16_t place[2];
    uint8_t part[2];
    uint8_t first, end;
    /* padding up to a cache line */
    uint8_t unused[FB_CACHE_LINE - (sizeof(fb_varint_simd) + 8) % FB_CACHE_LINE];
} fb_pattern_group;
_Static_assert(sizeof(fb_pattern_group) % FB_CACHE_LINE == 0,
               "lanes are read by whole cache lines");

typedef struct {
    _Alignas(FB_CACHE_LINE) uint32_t key; /* 0: the entry is empty */
    uint16_t header_needed; /* bytes of the packet that columns need; 0: the pattern is exact */
    /* bytes of the gateway record before its AS path; 0: no gateway record, or one of fixed
       length */
    uint16_t gateway_needed;
    uint16_t window_count, bound_count, group_count;
    /* Ends of the groups of values. Appended: numbers in lanes, other numbers, addresses. Nothing
       else fills their columns. The rest is put into the columns of its source, in the order of
       source.h. */
    uint16_t lane_end, number_end, address_end, value_count;
    bool has_path; /* the AS path of the gateway record is not empty */
    fb_pattern_window windows[FB_PATTERN_WINDOWS];
    fb_pattern_group groups[FB_PATTERN_GROUPS];
    fb_pattern_bound bounds[FB_PATTERN_BOUNDS];
    fb_pattern_value values[FB_PATTERN_VALUES];
} fb_pattern;
_Static_assert(offsetof(fb_pattern, groups) % FB_CACHE_LINE == 0,
               "lanes are read by whole cache lines");

/* A pattern is stored at its place or at one of the places next to it, because several patterns may
   have the same place. */
enum { FB_PATTERN_PLACES = 256, FB_PATTERN_PROBES = 4, FB_PATTERN_EXACT = 64 };

/* Number of possible sample sizes: words, expanded or not. */
enum { FB_PATTERN_SIZES = 2 * (FB_PATTERN_BYTES / 4 + 1) };

/* Limits how often samples of one size are learned from. */
typedef struct {
    uint16_t missed; /* samples without a matching pattern since a sample was learned */
    /* number of such samples to skip; doubles after each learned sample without a new pattern */
    uint16_t wait;
} fb_pattern_turn;

/* Position of the packet in samples of one size. The packet selects the exact pattern that may
   match. */
typedef struct {
    uint32_t key;    /* key of a pattern; 0: none */
    uint32_t header; /* offset of the packet */
} fb_sample_size;

typedef struct {
    fb_sample_size sizes[FB_PATTERN_SIZES];
    fb_pattern patterns[FB_PATTERN_PLACES];
} fb_pattern_table;

/* The patterns of one decoder. */
typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    bool wide;    /* numbers are put into lanes */
    bool general; /* there were too many exact patterns */
    uint32_t exact_count;
    uint32_t replaced; /* patterns that were replaced by another */
    fb_pattern_turn turns[FB_PATTERN_SIZES];
    fb_pattern_table *table; /* NULL before the first pattern */
    void *block; /* allocation that contains the table, which begins at its first cache line */
} fb_patterns;

/* Create an empty set. `plan` and `memory` must outlive it. Memory is allocated with the first
   pattern. `wide`: numbers are put into lanes (varint_simd.h). */
fb_patterns fb_patterns_new(const fb_plan *plan, fb_memory *memory, bool wide);
void fb_patterns_free(fb_patterns *patterns);

/* Learn from a flow sample that matches no pattern. Nothing happens if the sample cannot be learned
   or must wait (fb_pattern_turn), so an exporter of ever-changing layouts causes few of them. */
void fb_patterns_learn(fb_patterns *patterns, fb_bytes sample, bool expanded);

/* Bytes of the variable-length records before their variable part. */
enum { FB_HEADER_LEAST = 14 + 20, FB_GATEWAY_LEAST = 4 + 12 + 12 };

/* Divide a flow sample into parts. Return false if no pattern can match it. REQUIRES: its fixed
   part is present. */
FB_INLINE bool fb_sample_divide(fb_sample_parts *parts, fb_bytes sample, bool expanded) {
    const uint8_t *p = sample.data + FB_FLOW_SAMPLE_SIZE(expanded),
                  *end = sample.data + sample.size;
    uint32_t count = fb_load32(p - 4), next = 0;
    /* total size of the variable-length records; their offsets within their parts, and which one is
       first */
    size_t any_length = 0, ends = 0;
    parts->part[0] = sample.data;
    parts->header.data = parts->gateway.data = NULL;
    if (FB_UNLIKELY(sample.size % 4 || count > 31)) return false;
    for (uint32_t left = count; left; left--) {
        if (FB_UNLIKELY(end - p < 8)) return false;
        uint32_t format = fb_load32(p);
        size_t length = fb_load32(p + 4), padded = (length + 3) & ~(size_t)3;
        const uint8_t *body = p + 8;
        if (FB_UNLIKELY(length > (size_t)(end - body))) return false;
        p = body + padded; /* a sample consists of whole words, so `padded` is within it */
        if (format == FB_RECORD_HEADER && !parts->header.data) {
            if (FB_UNLIKELY(length < 16 + FB_HEADER_LEAST)) return false;
            parts->header = (fb_bytes){body + 16, fb_load32(body + 12)};
            if (FB_UNLIKELY(parts->header.size > length - 16)) return false;
        } else if (format == FB_RECORD_GATEWAY && !parts->gateway.data) {
            if (FB_UNLIKELY(length < FB_GATEWAY_LEAST)) return false;
            parts->gateway = (fb_bytes){body, length};
            ends |= (size_t)!parts->header.data << 16;
        } else {
            continue;
        }
        ends |= (size_t)(body - parts->part[next]) / 4 << 8 * next;
        parts->part[++next] = p;
        any_length += padded;
    }
    size_t rest = sample.size - any_length;
    parts->key = (uint32_t)(ends << 14 | (size_t)expanded << 13 | count << 8 | rest / 4);
    return parts->header.data && rest <= FB_PATTERN_BYTES;
}

/* Key of exact patterns, by sample size, and index of the entry for that size. REQUIRES:
   sample.size <= FB_PATTERN_BYTES. */
FB_INLINE uint32_t fb_sample_size_key(fb_bytes sample, bool expanded) {
    return UINT32_C(1) << 31 | (uint32_t)sample.size << 1 | expanded;
}

FB_INLINE size_t fb_sample_size_place(fb_bytes sample, bool expanded) {
    return sample.size / 4 * 2 + expanded;
}

/* Return the place of a pattern. Tag contents are skipped, because they differ between samples. */
FB_INLINE size_t fb_pattern_place(uint32_t key, const uint8_t *header) {
    const uint8_t *ip = header + 14;
    uint32_t etype = fb_load16(ip - 2), tags = 0;
    for (; FB_UNLIKELY(etype != FB_ETHERTYPE_IPV4 && etype != FB_ETHERTYPE_IPV6) && tags < 2;
         tags++)
        ip += 4, etype = fb_load16(ip - 2);
    uint32_t ipv4 = ip[9], ipv6 = ip[6], protocol = etype == FB_ETHERTYPE_IPV6 ? ipv6 : ipv4;
    return ((key * 0x85ebca6bu ^ (etype << 16 | tags << 8 | protocol)) * 0x9e3779b1u) >> 24;
}
_Static_assert(FB_PATTERN_PLACES == 1 << (32 - 24), "places are the high bits");
_Static_assert(14 + 2 * 4 + 10 <= FB_HEADER_LEAST, "a place is found by bytes of every header");

/* Return the start of a part. An exact pattern has one part. `exact` is a compile-time constant. */
FB_INLINE const uint8_t *fb_sample_part(const fb_sample_parts *parts, size_t part, bool exact) {
    return parts->part[exact ? 0 : part];
}

FB_INLINE uint64_t fb_pattern_number(const fb_pattern_value *value, const fb_sample_parts *parts) {
    return (fb_load64(parts->part[value->part] + value->window) >> value->shift & value->mask) +
           value->add;
}

/* Return true if all fixed bytes have their values. */
FB_INLINE bool fb_pattern_is_same(const fb_pattern *pattern, const fb_sample_parts *parts,
                                  bool exact) {
    const fb_pattern_window *window = pattern->windows, *end = window + pattern->window_count;
#ifdef __AVX512VBMI2__
    __m512i differs = _mm512_setzero_si512();
    for (; window < end; window++) {
        __m512i bytes =
            _mm512_loadu_si512(fb_sample_part(parts, window->part, exact) + window->place);
        bytes = _mm512_and_si512(bytes, _mm512_load_si512(window->mask));
        differs =
            _mm512_or_si512(differs, _mm512_xor_si512(bytes, _mm512_load_si512(window->same)));
    }
    return !_mm512_test_epi64_mask(differs, differs);
#else
    uint64_t differs = 0, bytes, mask, same;
    for (; window < end; window++)
        for (size_t i = 0; i < FB_PATTERN_WINDOW; i += 8) {
            memcpy(&bytes, fb_sample_part(parts, window->part, exact) + window->place + i, 8);
            memcpy(&mask, window->mask + i, 8);
            memcpy(&same, window->same + i, 8);
            differs |= (bytes & mask) ^ same;
        }
    return !differs;
#endif
}

FB_INLINE bool fb_pattern_is_within(const fb_pattern *pattern, const fb_sample_parts *parts,
                                    bool exact) {
    bool within = true;
    for (const fb_pattern_bound *bound = pattern->bounds, *end = bound + pattern->bound_count;
         bound < end; bound++)
        within &=
            (fb_load32(fb_sample_part(parts, bound->part, exact) + bound->place) & bound->mask) -
                bound->low <=
            bound->span;
    return within;
}

/* Return true if the variable-length records are long enough. */
FB_INLINE bool fb_pattern_is_whole(const fb_pattern *pattern, const fb_sample_parts *parts) {
    if (parts->header.size < pattern->header_needed) return false;
    return !pattern->gateway_needed || parts->gateway.size >= pattern->gateway_needed + (size_t)12;
}

/* Find the members of a variable-length gateway record. Return false if the pattern does not
   match. */
FB_INLINE bool fb_pattern_find_path(const fb_pattern *pattern, fb_sample_parts *parts) {
    fb_gateway_found *found = &parts->found;
    if (FB_LIKELY(!pattern->gateway_needed)) return true;
    const uint8_t *p = parts->gateway.data + pattern->gateway_needed;
    if (!fb_gateway_find(found, (fb_bytes){p, parts->gateway.size - pattern->gateway_needed},
                         p - 12))
        return false;
    parts->part[FB_PART_NEXT_HOP] = found->next_hop;
    parts->part[FB_PART_DESTINATION] = found->destination;
    parts->part[FB_PART_PREFERENCE] = found->preference;
    return !found->next_hop == !pattern->has_path;
}

/* Return the pattern of a key that a sample matches; NULL: none. */
FB_INLINE const fb_pattern *fb_patterns_match(const fb_patterns *patterns, fb_sample_parts *parts,
                                              uint32_t key, const uint8_t *header, bool exact) {
    size_t place = fb_pattern_place(key, header);
    for (size_t probe = 0; probe < FB_PATTERN_PROBES; probe++) {
        const fb_pattern *pattern = &patterns->table->patterns[place ^ probe];
        if (FB_UNLIKELY(pattern->key != key || (!exact && !fb_pattern_is_whole(pattern, parts))))
            continue;
        if (FB_UNLIKELY(!fb_pattern_is_same(pattern, parts, exact) ||
                        (!exact && !fb_pattern_find_path(pattern, parts))))
            continue;
        if (FB_LIKELY(fb_pattern_is_within(pattern, parts, exact))) return pattern;
    }
    return NULL;
}

/* Return the pattern that a flow sample matches, and set its parts; NULL: none. `exact` is a
   compile-time constant. REQUIRES: the table exists, and `exact` is true if its patterns are
   exact. */
FB_INLINE const fb_pattern *fb_patterns_find(const fb_patterns *patterns, fb_bytes sample,
                                             bool expanded, fb_sample_parts *parts, bool exact) {
    if (!exact) {
        if (!fb_sample_divide(parts, sample, expanded)) return NULL;
        return fb_patterns_match(patterns, parts, parts->key, parts->header.data, exact);
    }
    if (FB_UNLIKELY(sample.size > FB_PATTERN_BYTES)) return NULL;
    uint32_t key = fb_sample_size_key(sample, expanded);
    const fb_sample_size *size = &patterns->table->sizes[fb_sample_size_place(sample, expanded)];
    if (FB_UNLIKELY(size->key != key)) return NULL;
    parts->part[0] = sample.data;
    return fb_patterns_match(patterns, parts, key, sample.data + size->header, exact);
}

#endif
