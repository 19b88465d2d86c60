/* The layout of sFlow v5 samples. They are XDR: big-endian words of 4 bytes. */
#ifndef FB_PACKET_SFLOW_LAYOUT_H
#define FB_PACKET_SFLOW_LAYOUT_H

#include "core/base/base.h"

enum {
    FB_SAMPLE_FLOW = 1,
    FB_SAMPLE_COUNTERS = 2,
    FB_SAMPLE_FLOW_EXPANDED = 3,
    FB_SAMPLE_COUNTERS_EXPANDED = 4,
    FB_SAMPLE_DROP = 5,
    FB_RECORD_HEADER = 1,
    FB_RECORD_ETHERNET = 2,
    FB_RECORD_IPV4 = 3,
    FB_RECORD_IPV6 = 4,
    FB_RECORD_SWITCH = 1001,
    FB_RECORD_ROUTER = 1002,
    FB_RECORD_GATEWAY = 1003,
    FB_HEADER_ETHERNET = 1, /* header protocol of a sampled header */
    FB_INTERFACE_INDEX = 0, /* format of an interface */
    FB_INTERFACE_DISCARDED = 1,
    FB_INTERFACE_INTERNAL = 0x3fffffff, /* index of the exporter itself */
    FB_LOWEST_UNKNOWN_VLAN = 4095,
};

/* Bytes of the fixed part of a flow sample. */
#define FB_FLOW_SAMPLE_SIZE(expanded) ((expanded) ? 44 : 32)

/* The records that are read, as array indexes. */
enum {
    FB_PLACE_HEADER,
    FB_PLACE_ETHERNET,
    FB_PLACE_IPV4,
    FB_PLACE_IPV6,
    FB_PLACE_SWITCH,
    FB_PLACE_ROUTER,
    FB_PLACE_GATEWAY,
    FB_PLACES
};

/* Return the index of a record; FB_PLACES: it is not read. */
FB_INLINE uint32_t fb_record_place(uint32_t format) {
    if (format - FB_RECORD_HEADER <= FB_RECORD_IPV6 - FB_RECORD_HEADER)
        return FB_PLACE_HEADER + (format - FB_RECORD_HEADER);
    if (format - FB_RECORD_SWITCH <= FB_RECORD_GATEWAY - FB_RECORD_SWITCH)
        return FB_PLACE_SWITCH + (format - FB_RECORD_SWITCH);
    return FB_PLACES;
}

typedef struct {
    const uint8_t *p, *end;
} fb_xdr;

FB_INLINE bool fb_xdr_read_word(fb_xdr *xdr, uint32_t *value) {
    if (xdr->end - xdr->p < 4) return false;
    *value = fb_load32(xdr->p);
    xdr->p += 4;
    return true;
}

/* Read a struct address: a type, followed by 0, 4 or 16 bytes for the types 0, 1 and 2. Return
   false if it is cut short or of another type. */
FB_INLINE bool fb_xdr_read_address(fb_xdr *xdr, fb_bytes *address) {
    uint32_t type;
    if (!fb_xdr_read_word(xdr, &type) || type > 2) return false;
    size_t size = 0;
    if (type != 0) size = type == 1 ? 4 : 16;
    if ((size_t)(xdr->end - xdr->p) < size) return false;
    *address = (fb_bytes){xdr->p, size};
    xdr->p += size;
    return true;
}

/* Store the address of an agent as 16 bytes. Return false if the agent sent none. */
FB_INLINE bool fb_sflow_agent_address(uint8_t address[16], fb_bytes agent) {
    if (!agent.size || fb_is_no_address(agent.data, agent.size)) return false;
    fb_store_address(address, agent.data, agent.size);
    return true;
}

/* Read a sample, or a record of one: a format, a length, and as many bytes. Return false if it is
   cut short. */
FB_INLINE bool fb_xdr_read_item(fb_xdr *xdr, uint32_t *format, fb_bytes *body) {
    size_t left = (size_t)(xdr->end - xdr->p);
    if (left < 8) return false;
    *format = fb_load32(xdr->p);
    size_t length = fb_load32(xdr->p + 4), padded = (length + 3) & ~(size_t)3;
    left -= 8;
    if (length > left) return false;
    *body = (fb_bytes){xdr->p + 8, length};
    xdr->p += 8 + (padded < left ? padded : left);
    return true;
}

/* The origin of a sample. Samples of one origin share a sequence of numbers. */
typedef struct {
    uint32_t kind; /* 1 flows, 2 counters, 3 drops */
    uint32_t type, index;
} fb_sample_origin;

/* Find the origin of a flow, counter or drop sample. Each begins with its sequence number and its
   source: type (8 bits) and index, or one word each. Return false if the sample is of another
   format or cut short. */
FB_INLINE bool fb_sample_find_origin(uint32_t format, fb_bytes sample, fb_sample_origin *origin) {
    if (FB_UNLIKELY(sample.size < 12 || format < FB_SAMPLE_FLOW || format > FB_SAMPLE_DROP))
        return false;
    uint32_t type = fb_load32(sample.data + 4);
    bool expanded = format > FB_SAMPLE_COUNTERS;
    origin->kind = expanded ? format - FB_SAMPLE_COUNTERS : format; /* 3 to 5 become 1 to 3 */
    origin->type = expanded ? type : type >> 24;
    origin->index = expanded ? fb_load32(sample.data + 8) : type & 0xffffff;
    return true;
}

#endif
