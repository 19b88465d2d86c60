/* Foundations of every layer of the core: status codes, byte views, big-endian loads and the memory
   budget. */
#ifndef FB_BASE_BASE_H
#define FB_BASE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One table of every status of a datagram, a set, a record, a value or a call. Columns: constant,
   name (the key of a counter), class, text. The class tells the caller how to read a counter:

     CONTROL  the result of a call; never counted
     FAULT    the input violates its protocol
     LOSS     the input is well-formed, but was not turned into output
     NOTE     information; no flow is lost */
#define FB_STATUS_LIST(X) \
    X(OK, "ok", CONTROL, "success") \
    X(END, "end", CONTROL, "no more input") \
    X(NO_SPACE, "no_space", CONTROL, \
      "the output buffer is full: grow it and call again with the same cursor") \
    X(MORE_INPUT, "more_input", CONTROL, \
      "the input ends inside an item: append more of it and call again") \
    X(NO_MEMORY, "no_memory", CONTROL, \
      "memory could not be allocated, or the memory limit is reached") \
    X(BAD_ARGUMENT, "bad_argument", CONTROL, "an argument is outside what the function accepts") \
    X(BAD_SOURCE, "bad_source", CONTROL, "the source cannot fill a column of this type") \
    X(NOT_A_CAPTURE, "not_a_capture", CONTROL, \
      "the file is neither pcap, pcapng, IPFIX nor nfcapd") \
\
    X(TRUNCATED_HEADER, "truncated_header", FAULT, "the datagram ends inside its header") \
    X(BAD_HEADER, "bad_header", FAULT, \
      "a field of the datagram's header has a value that its protocol does not know") \
    X(TRUNCATED_DATAGRAM, "truncated_datagram", FAULT, \
      "the datagram is shorter than its header says") \
    X(EXCESS_DATA, "excess_data", FAULT, \
      "the datagram is longer than its header says; the bytes after that end are not decoded") \
    X(BAD_SET_LENGTH, "bad_set_length", FAULT, \
      "a set is shorter than its header or longer than the datagram") \
    X(BAD_SET_ID, "bad_set_id", FAULT, "a set has an id that its protocol reserves") \
    X(BAD_TEMPLATE, "bad_template", FAULT, \
      "a template is cut short or contradicts itself, or its id is below 256") \
    X(EMPTY_TEMPLATE, "empty_template", FAULT, \
      "a template whose records have no bytes; it is not used") \
    X(TRUNCATED_RECORD, "truncated_record", FAULT, \
      "a record is longer than what is left of its set") \
    X(BAD_SAMPLE, "bad_sample", FAULT, "an sFlow sample is cut short or announced but absent") \
    X(BAD_SAMPLE_RECORD, "bad_sample_record", FAULT, "a record of an sFlow sample is cut short") \
    X(BAD_MESSAGE, "bad_message", FAULT, "a Protocol Buffers message is malformed") \
    X(BAD_CAPTURE_RECORD, "bad_capture_record", FAULT, \
      "a record of the capture is malformed; it is left out") \
    X(DAMAGED_CAPTURE, "damaged_capture", FAULT, \
      "a record of the capture has an impossible length or header; the rest is not read") \
    X(TRUNCATED_CAPTURE, "truncated_capture", FAULT, "the capture ends inside a record") \
    X(DAMAGED_COMPRESSION, "damaged_compression", FAULT, \
      "the compressed data of the capture is damaged or cut short; the rest is not read") \
    X(TRUNCATED_PACKET, "truncated_packet", FAULT, \
      "the capture kept less of the packet than its UDP datagram needs") \
\
    X(TEMPLATE_MISSING, "template_missing", LOSS, \
      "a data set that is given up: its template did not come, or not in time") \
    X(UNSUPPORTED_VERSION, "unsupported_version", LOSS, \
      "sFlow v2 or v4, or NetFlow v1 or v7 with records of another size: not decoded") \
    X(UNKNOWN_SAMPLE, "unknown_sample", LOSS, "an sFlow sample of a format that is not known") \
    X(EXPORTER_LIMIT, "exporter_limit", LOSS, \
      "no state can be kept for this exporter: memory or the table is full") \
    X(TEMPLATE_LIMIT, "template_limit", LOSS, \
      "a limit on templates, samplers or memory is reached; this one is not kept") \
    X(UNSUPPORTED_LINK_TYPE, "unsupported_link_type", LOSS, \
      "packets of a link type that is not known") \
    X(RATE_LIMITED, "rate_limited", LOSS, \
      "a flow that was not decoded: its exporter sent more flows per second than the rate limit") \
    X(FRAGMENT_DROPPED, "fragment_dropped", LOSS, \
      "a datagram of which an IP fragment is missing or damaged") \
\
    X(OTHER_PACKET, "other_packet", NOTE, "not a UDP datagram, or not of a flow protocol") \
    X(OTHER_CAPTURE_RECORD, "other_capture_record", NOTE, \
      "a block or record of an nfcapd file that has no flows, or none in a known form") \
    X(OTHER_PORT, "other_port", NOTE, "a UDP datagram to another port than asked for") \
    X(PADDING, "padding", NOTE, \
      "zero bytes after the last set, record or sample of a datagram; they are ignored") \
    X(NO_SYSTEM_START, "no_system_start", NOTE, \
      "an IPFIX time in uptime (elements 21, 22) without systemInitTimeMilliseconds (160); the " \
      "column is absent") \
    X(WITHDRAWAL, "withdrawal", NOTE, \
      "a template withdrawal; over UDP it is obeyed only on request (RFC 7011 section 8.4)") \
    X(EARLY_DATA, "early_data", NOTE, "a data set came before its template, and waited for it") \
    X(EARLY_DATA_INHERITED, "early_data_inherited", NOTE, \
      "a data set that waited for its template came from another decoder, at a takeover or " \
      "reload") \
    X(EARLY_DATA_HANDED_OVER, "early_data_handed_over", NOTE, \
      "a data set that waited for its template went to another decoder, at a takeover or reload") \
    X(TEMPLATE_REDEFINED, "template_redefined", NOTE, \
      "a template id came again with other fields") \
    X(TEMPLATE_EXPIRED, "template_expired", NOTE, \
      "a template was not refreshed for too long; it is not used any more") \
    X(PORT_IN_KEY, "port_in_key", NOTE, \
      "two ports of an exporter define a template id differently: each has its own now") \
    X(OPTIONS_IGNORED, "options_ignored", NOTE, \
      "an options record that gives no row, and no sampling rate or name that is needed") \
    X(NAME_EVICTED, "name_evicted", NOTE, \
      "a name from options data was forgotten to make room for another one") \
    X(NAME_LIMIT, "name_limit", NOTE, "a name from options data for which there is no room") \
    X(COUNTER_SAMPLE, "counter_sample", NOTE, "an sFlow counter sample: no flow") \
    X(DROP_SAMPLE, "drop_sample", NOTE, "an sFlow drop notification: no flow") \
    X(FLOWS_LEFT_OUT, "flows_left_out", NOTE, \
      "a flow sample, a set of flows or a datagram of flows, where no rows are flows") \
    X(UNKNOWN_SAMPLE_RECORD, "unknown_sample_record", NOTE, \
      "a record of an sFlow sample that is not read") \
    X(UNKNOWN_HEADER, "unknown_header", NOTE, \
      "a sampled packet whose link layer or ethertype is not parsed") \
    X(NOT_ENCAPSULATED, "not_encapsulated", NOTE, \
      "a sampled packet in none of the tunnels to be opened; it stays as it is") \
    X(TUNNEL_DEPTH, "tunnel_depth", NOTE, \
      "a sampled packet with more tunnels inside each other than are opened") \
    X(LAYER_LIMIT, "layer_limit", NOTE, "a sampled packet with more headers than are listed") \
    X(BAD_PACKET, "bad_packet", NOTE, "a sampled packet whose own lengths contradict each other") \
    X(OUT_OF_RANGE, "out_of_range", NOTE, \
      "a value that does not fit its column; the column is absent") \
    X(UNMAPPED, "unmapped", NOTE, "a value that its enum does not know; written as 0") \
    X(INVALID_UTF8, "invalid_utf8", NOTE, "invalid UTF-8 in a string, replaced by U+FFFD") \
    X(BAD_FIELD_SIZE, "bad_field_size", NOTE, \
      "a field whose size does not suit its element; the column is absent") \
    X(BAD_LIST, "bad_list", NOTE, \
      "a list (RFC 6313) that is cut short or too deep, or whose members its column cannot hold") \
    X(LIST_TEMPLATE_MISSING, "list_template_missing", NOTE, \
      "records in a list (RFC 6313) whose template is not known") \
    X(LIST_ELEMENT_IGNORED, "list_element_ignored", NOTE, \
      "an element in a list of records (RFC 6313) that no column takes") \
    X(OPAQUE_VALUE, "opaque_value", NOTE, \
      "a structure, a number of 256 bits, or a list of values that do not hold (noneOf): not " \
      "interpreted") \
    X(BIFLOW, "biflow", NOTE, "a record of both directions (RFC 5103), made into two flows") \
    X(SEQUENCE_GAP, "sequence_gap", NOTE, \
      "by its sequence number, something before a datagram is missing") \
    X(SAMPLE_GAP, "sample_gap", NOTE, \
      "by its sequence number, sFlow samples before this one are missing") \
    X(OUT_OF_SEQUENCE, "out_of_sequence", NOTE, \
      "by its sequence number, a datagram came late or twice") \
    X(EXPORTER_RESTART, "exporter_restart", NOTE, "the sequence numbers of an exporter restarted") \
    X(EXPORTER_EVICTED, "exporter_evicted", NOTE, \
      "an exporter was forgotten to make room for another one") \
    X(AGENT_EVICTED, "agent_evicted", NOTE, \
      "an sFlow agent was forgotten: its UDP source speaks for too many") \
    X(DOMAIN_EVICTED, "domain_evicted", NOTE, \
      "an observation domain was forgotten: its exporter has too many")

typedef enum {
#define FB_X(constant, name, class, text) FB_##constant,
    FB_STATUS_LIST(FB_X)
#undef FB_X
        FB_STATUS_COUNT
} fb_status;

typedef enum { FB_CLASS_CONTROL, FB_CLASS_FAULT, FB_CLASS_LOSS, FB_CLASS_NOTE } fb_status_class;

/* Static strings; "unknown" and "unknown status" for a value that is not a status. */
const char *fb_status_name(fb_status status);
const char *fb_status_text(fb_status status);
fb_status_class fb_status_get_class(fb_status status);

/* A view of bytes that another object owns. An empty view may have NULL. */
typedef struct {
    const uint8_t *data;
    size_t size;
} fb_bytes;

#if defined(__GNUC__)
#define FB_LIKELY(x)   __builtin_expect(!!(x), 1)
#define FB_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FB_INLINE      static inline __attribute__((always_inline))
#define FB_NOINLINE    __attribute__((noinline))
#define FB_PREFETCH(p) __builtin_prefetch(p) /* a hint: p may be an invalid address */
#else
#define FB_LIKELY(x)   (x)
#define FB_UNLIKELY(x) (x)
#define FB_INLINE      static inline
#define FB_NOINLINE
#define FB_PREFETCH(p) ((void)(p))
#endif

/* bytes on most processors; on others, code that relies on it is slower but correct */
#define FB_CACHE_LINE 64

/* Return the end of a view. C does not define NULL + 0. */
FB_INLINE const uint8_t *fb_end_of(fb_bytes bytes) {
    return bytes.size ? bytes.data + bytes.size : bytes.data;
}

/* Return the first cache line boundary at or after p. */
FB_INLINE void *fb_align_to_line(void *p) {
    return (uint8_t *)p + (FB_CACHE_LINE - (uintptr_t)p % FB_CACHE_LINE) % FB_CACHE_LINE;
}

/* Processors that the decoders are compiled for: any, and, with gcc for 64-bit x86, two newer ones.
   The choice is made when a decoder is created. */
typedef enum {
    FB_PROCESSOR_ANY = 1,
    FB_PROCESSOR_BMI2,   /* one instruction spreads a number into the bytes of a varint (wire.h) */
    FB_PROCESSOR_AVX512, /* with VBMI2: eight numbers at once (varint_simd.h) */
} fb_processor;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FB_NEWER_PROCESSORS
#endif

/* Return the newest of these that the processor supports. */
fb_processor fb_processor_find(void);
/* The same, but not newer than `most`. 0 means no restriction. */
fb_processor fb_processor_choose(fb_processor most);

enum { FB_ETHERTYPE_IPV4 = 0x0800, FB_ETHERTYPE_IPV6 = 0x86dd };

/* Big-endian loads. REQUIRES: the bytes are readable; any alignment. Byte swaps are explicit,
   because compilers do not always recognize four shifted bytes as one number. */
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FB_LOAD(type, p, swap) \
    type value; \
    memcpy(&value, p, sizeof value); \
    return swap(value)
FB_INLINE uint16_t fb_load16(const uint8_t *p) {
    FB_LOAD(uint16_t, p, __builtin_bswap16);
}
FB_INLINE uint32_t fb_load32(const uint8_t *p) {
    FB_LOAD(uint32_t, p, __builtin_bswap32);
}
FB_INLINE uint64_t fb_load64(const uint8_t *p) {
    FB_LOAD(uint64_t, p, __builtin_bswap64);
}
#undef FB_LOAD
#else
FB_INLINE uint16_t fb_load16(const uint8_t *p) {
    return (uint16_t)(p[0] << 8 | p[1]);
}

FB_INLINE uint32_t fb_load32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

FB_INLINE uint64_t fb_load64(const uint8_t *p) {
    return (uint64_t)fb_load32(p) << 32 | fb_load32(p + 4);
}
#endif

FB_INLINE uint32_t fb_load24(const uint8_t *p) {
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

FB_INLINE uint64_t fb_load48(const uint8_t *p) {
    return (uint64_t)fb_load16(p) << 32 | fb_load32(p + 2);
}

/* Little-endian store and load. REQUIRES: 8 bytes at p; any alignment. */
FB_INLINE void fb_store64(uint8_t *p, uint64_t value) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(p, &value, 8);
}

FB_INLINE uint64_t fb_load_little64(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

/* Load an integer of up to 8 bytes (RFC 7011 section 6.2, reduced-size encoding). No bytes are 0.
   Other sizes than 0 and 1 take two loads that may overlap. The bytes in both are the same, so they
   need no mask. REQUIRES: size <= 8. */
FB_INLINE uint64_t fb_load_uint(const uint8_t *p, size_t size) {
    if (size >= 4) return (uint64_t)fb_load32(p) << 8 * (size - 4) | fb_load32(p + size - 4);
    if (size >= 2) return (uint64_t)fb_load16(p) << 8 * (size - 2) | fb_load16(p + size - 2);
    return size ? *p : 0;
}

/* Load a binary32 or binary64, selected by the size (RFC 7011 section 6.1.4). Return false for any
   other size. */
FB_INLINE bool fb_load_real(const uint8_t *p, size_t size, double *value) {
    if (size == 8) {
        uint64_t bits = fb_load64(p);
        memcpy(value, &bits, 8);
    } else if (size == 4) {
        uint32_t bits = fb_load32(p);
        float narrow;
        memcpy(&narrow, &bits, 4);
        *value = (double)narrow;
    }
    return size == 8 || size == 4;
}

/* Return true if the bytes of [p, end) are all zero. */
FB_INLINE bool fb_is_zero(const uint8_t *p, const uint8_t *end) {
    while (p < end && !*p) p++;
    return p == end;
}

/* Store an address of 4 or 16 bytes as 16 bytes. REQUIRES: size is 4 or 16; room for 16 bytes. */
FB_INLINE void fb_store_address(uint8_t *p, const uint8_t *data, size_t size) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (size == 4) {
        memcpy(p, mapped, 12);
        memcpy(p + 12, data, 4);
    } else {
        memcpy(p, data, 16);
    }
}

/* Return true if an address of 16 bytes is IPv4-mapped: ::ffff:a.b.c.d. */
FB_INLINE bool fb_is_mapped(const uint8_t *p) {
    return fb_load64(p) == 0 && fb_load32(p + 8) == 0xffff;
}

/* Return true if an address of 4 or 16 bytes is all zeros or ::ffff:0.0.0.0. */
FB_INLINE bool fb_is_no_address(const uint8_t *p, size_t size) {
    if (size == 4) return fb_load32(p) == 0;
    uint64_t low = fb_load64(p + 8);
    return fb_load64(p) == 0 && (low == 0 || low == 0xffff00000000u);
}

/* The latest time, in nanoseconds since 1970 (in the year 2262). Arrow stores times as signed
   64-bit numbers. */
#define FB_TIME_MAX ((uint64_t)INT64_MAX)

/* Return the size if the condition holds, else 0. Has no branch: use it for conditions that are
   unpredictable from flow to flow. */
FB_INLINE size_t fb_size_if(bool condition, size_t size) {
    return size & (0 - (size_t)condition);
}

/* One step of a keyed hash. `state` is the seed or the result of the previous step. */
FB_INLINE uint64_t fb_hash(uint64_t state, uint64_t value) {
    uint64_t x = (state ^ value) + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 29) * (state | 1);
    return x ^ x >> 32;
}

/* All allocations of the core go through this interface. A limit therefore covers all of them, and
   a test can make any of them fail. `resize` behaves like realloc (p may be NULL; size 0 frees and
   returns NULL), and new bytes are zero, unless `dirty` is set. */
typedef struct {
    void *(*resize)(void *context, void *p, size_t old_size, size_t new_size);
    void *context;
    size_t used;  /* bytes held now */
    size_t limit; /* maximum of `used`; 0 is no limit */
    size_t dirty; /* not 0: new bytes are undefined. A word, so that there is no padding. */
    /* Release a block whose bytes are all zero, so that it can be reused without clearing it. NULL:
       there is no such way. */
    void (*release_zeros)(void *context, void *p, size_t size);
} fb_memory;

/* The `resize` of fb_memory_system, from the C library. It ignores its context. */
void *fb_system_resize(void *context, void *p, size_t old_size, size_t new_size);
/* A budget of `limit` bytes on the C library's heap. */
fb_memory fb_memory_system(size_t limit);
/* Resize a block. Return NULL and leave p untouched if memory or the limit does not allow it. New
   bytes are zero, unless `dirty` is set. REQUIRES: old_size is the size of the block. */
void *fb_memory_resize(fb_memory *memory, void *p, size_t old_size, size_t new_size);
/* Allocate a block of zeros in any memory (NULL as above); release one, where p may be NULL. */
void *fb_memory_allocate(fb_memory *memory, size_t size);
void fb_memory_release(fb_memory *memory, void *p, size_t size);
/* Return true if a block that is all zeros should be released with fb_memory_release_zeros. */
FB_INLINE bool fb_memory_reuses_zeros(const fb_memory *memory) {
    return memory->release_zeros != NULL;
}
/* REQUIRES: memory reuses zeros; all bytes of p are zero. */
void fb_memory_release_zeros(fb_memory *memory, void *p, size_t size);
/* Create a budget within a budget: memory of the child counts for both. REQUIRES: the parent
   outlives the child. */
fb_memory fb_memory_within(fb_memory *parent, size_t limit);
/* Count bytes that were allocated elsewhere on behalf of this budget. Return false if they exceed
   the limit. A negative size gives bytes back. */
bool fb_memory_charge(fb_memory *memory, ptrdiff_t size);

#endif
