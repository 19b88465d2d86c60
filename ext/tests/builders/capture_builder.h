/* Captures written by hand for tests, layer by layer from the outside in, and a driver that reads
   them in any way. A layer with a length in its header is opened before its content and closed
   after it. This file shares no code with the parser. */
#ifndef FB_TESTS_BUILDERS_CAPTURE_BUILDER_H
#define FB_TESTS_BUILDERS_CAPTURE_BUILDER_H

#include "tests/support/check.h"

#include "core/capture/capture.h"

typedef struct {
    uint8_t data[1 << 20];
    size_t size;
    bool big; /* byte order of the file's integers; packets are always big-endian */
} builder;

static builder built; /* too large for the stack */

UNUSED static void put(const void *bytes, size_t size) {
    if (size > sizeof built.data - built.size) abort();
    if (size) memcpy(built.data + built.size, bytes, size);
    built.size += size;
}

UNUSED static void put_zeros(size_t size) {
    while (size--) put("", 1);
}

UNUSED static void put_uint(uint64_t value, int size, bool big) {
    for (int i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)(value >> 8 * (big ? size - 1 - i : i));
        put(&byte, 1);
    }
}

/* Append in network byte order, and in the byte order of the file. */
UNUSED static void net8(unsigned value) {
    put_uint(value, 1, true);
}
UNUSED static void net16(unsigned value) {
    put_uint(value, 2, true);
}
UNUSED static void net32(uint32_t value) {
    put_uint(value, 4, true);
}
UNUSED static void file16(unsigned value) {
    put_uint(value, 2, built.big);
}
UNUSED static void file32(uint32_t value) {
    put_uint(value, 4, built.big);
}
UNUSED static void file64(uint64_t value) {
    put_uint(value, 8, built.big);
}

/* Overwrite a length that was unknown before. */
UNUSED static void patch_uint(size_t at, uint64_t value, int size, bool big) {
    size_t end = built.size;
    built.size = at;
    put_uint(value, size, big);
    built.size = end;
}

/* pcap */

enum {
    MICRO = (int)0xa1b2c3d4,
    NANO = (int)0xa1b23c4d,
    MODIFIED = (int)0xa1b2cd34,
    SNAPLEN = 262144
};

UNUSED static void begin_pcap(int magic, bool big, uint32_t link_type) {
    built.size = 0;
    built.big = big;
    file32((uint32_t)magic);
    file16(2), file16(4);
    file32(0), file32(0);
    file32(SNAPLEN);
    file32(link_type);
}

/* Begin a record. Returns the position of its frame for `end_record`. */
UNUSED static size_t begin_record(uint32_t seconds, uint32_t fraction) {
    file32(seconds), file32(fraction);
    file32(0), file32(0);
    return built.size;
}

/* End a record. The capture lacks the last `cut` bytes of the frame. */
UNUSED static void end_record(size_t frame, size_t cut) {
    size_t original = built.size - frame;
    built.size -= cut;
    patch_uint(frame - 8, original - cut, 4, built.big);
    patch_uint(frame - 4, original, 4, built.big);
}

/* pcapng */

UNUSED static size_t begin_block(uint32_t type) {
    file32(type), file32(0);
    return built.size;
}

UNUSED static void end_block(size_t body) {
    while ((built.size - body) % 4) put_zeros(1);
    uint32_t length = (uint32_t)(built.size - body + 12);
    file32(length);
    patch_uint(body - 4, length, 4, built.big);
}

UNUSED static void add_section(bool big) {
    built.big = big;
    size_t body = begin_block(0x0a0d0d0a);
    file32(0x1a2b3c4d);
    file16(1), file16(0);
    file64(UINT64_MAX);
    end_block(body);
}

UNUSED static void begin_pcapng(bool big) {
    built.size = 0;
    add_section(big);
}

UNUSED static size_t begin_interface(unsigned link_type) {
    size_t body = begin_block(1);
    file16(link_type), file16(0);
    file32(SNAPLEN);
    return body;
}

UNUSED static void add_interface(unsigned link_type) {
    end_block(begin_interface(link_type));
}

/* Begin an enhanced packet block. The frame begins 20 bytes into its body. */
UNUSED static size_t begin_packet_block(uint32_t interface, uint64_t ticks) {
    size_t body = begin_block(6);
    file32(interface);
    file32((uint32_t)(ticks >> 32)), file32((uint32_t)ticks);
    file32(0), file32(0);
    return body;
}

UNUSED static void end_packet_block(size_t body) {
    size_t captured = built.size - body - 20;
    patch_uint(body + 12, captured, 4, built.big);
    patch_uint(body + 16, captured, 4, built.big);
    end_block(body);
}

/* Packets. A host is one byte: 10.0.0.N or 2001:db8::N. */

enum { IPV4 = 0x0800, IPV6 = 0x86dd, UDP = 17 };

UNUSED static void add_ethernet(unsigned ethertype) {
    put("\x02\0\0\0\0\x01\x02\0\0\0\0\x02", 12);
    net16(ethertype);
}

UNUSED static void add_host(int family, unsigned host) {
    if (family == IPV4) net32(0x0a000000 + host);
    else net32(0x20010db8), put_zeros(8), net32(host);
}

typedef struct {
    int family;
    unsigned source, destination;
    unsigned protocol;
    unsigned options;      /* bytes of IPv4 options */
    unsigned id, fragment; /* 16 bits of flags and offset */
} ip_header;

UNUSED static size_t begin_ip(ip_header header) {
    size_t at = built.size;
    if (header.family == IPV4) {
        net8(0x45 + header.options / 4), net8(0);
        net16(0), net16(header.id), net16(header.fragment);
        net8(64), net8(header.protocol), net16(0);
    } else {
        net32(0x60000000);
        net16(0), net8(header.protocol), net8(64);
    }
    add_host(header.family, header.source);
    add_host(header.family, header.destination);
    put_zeros(header.options);
    return at;
}

UNUSED static void end_ip(size_t at) {
    size_t size = built.size - at;
    if (built.data[at] >> 4 == 4) patch_uint(at + 2, size, 2, true);
    else patch_uint(at + 4, size - 40, 2, true);
}

UNUSED static void add_udp(unsigned source_port, unsigned destination_port, const void *payload,
                           size_t size) {
    net16(source_port), net16(destination_port);
    net16((unsigned)size + 8), net16(0);
    put(payload, size);
}

/* Add a datagram from host 1, port 2000, to host 2, port 2055. */
UNUSED static void add_datagram(int family, const char *payload) {
    size_t ip = begin_ip((ip_header){family, 1, 2, .protocol = UDP});
    add_udp(2000, 2055, payload, strlen(payload));
    end_ip(ip);
}

/* Reading. */

static const fb_capture_options ANY_PORT = {.any_port = true};

typedef struct {
    fb_status status; /* of the last call */
    size_t count;
    fb_capture_stats stats;
    uint64_t counters[FB_STATUS_COUNT];
    size_t held; /* bytes of memory that were not freed */
    size_t most_held;
    fb_datagram last;
    size_t log_size;
    /* Time, addresses, ports and payload of all datagrams in sequence, for comparison. */
    uint8_t log[1 << 16];
    uint8_t last_payload[1 << 16];
} outcome;

UNUSED static void log_bytes(outcome *seen, const void *bytes, size_t size) {
    if (size > sizeof seen->log - seen->log_size) return; /* a longer log is not needed */
    if (size) memcpy(seen->log + seen->log_size, bytes, size);
    seen->log_size += size;
}

UNUSED static void log_datagram(outcome *seen, const fb_datagram *datagram) {
    log_bytes(seen, &datagram->time, sizeof datagram->time);
    log_bytes(seen, datagram->source, 16);
    log_bytes(seen, datagram->destination, 16);
    log_bytes(seen, &datagram->source_port, sizeof datagram->source_port);
    log_bytes(seen, &datagram->destination_port, sizeof datagram->destination_port);
    log_bytes(seen, datagram->payload.data, datagram->payload.size);
    seen->last = *datagram;
    if (datagram->payload.size)
        memcpy(seen->last_payload, datagram->payload.data, datagram->payload.size);
    seen->last.payload.data = seen->last_payload;
    seen->count++;
}

typedef struct {
    fb_capture_options options;
    size_t step;     /* growth of the window in bytes; 0: the whole file at once */
    size_t capacity; /* of the array of datagrams; 0: 16 */
    size_t fail_at;  /* see fb_check_allocator */
    bool fail_forever;
} reading;

/* Scan a capture. Every window is a new copy that ends at a guard page. So reads past its end
   fault, and views into earlier windows are invalid. */
UNUSED static const outcome *scan_bytes(const uint8_t *bytes, size_t size, reading how) {
    static outcome seen;
    memset(&seen, 0, offsetof(outcome, log));
    fb_check_allocator allocator = {.fail_at = how.fail_at, .fail_forever = how.fail_forever};
    fb_memory memory = fb_check_memory(&allocator);
    fb_capture *capture;
    seen.status = fb_capture_new(&capture, &memory, how.options);
    if (seen.status != FB_OK) return &seen;
    size_t begin = 0, end = how.step ? 0 : size, capacity = how.capacity ? how.capacity : 16;
    fb_datagram datagrams[16];
    do {
        uint8_t *window = fb_guarded_copy(bytes + begin, end - begin);
        size_t count, consumed;
        fb_bytes input = {window, end - begin};
        seen.status =
            fb_capture_scan(capture, input, end == size, datagrams, capacity, &count, &consumed);
        for (size_t i = 0; i < count; i++) log_datagram(&seen, &datagrams[i]);
        fb_guarded_free(window, end - begin);
        begin += consumed;
        if (seen.status == FB_MORE_INPUT) end = end + how.step < size ? end + how.step : size;
    } while (seen.status == FB_OK || seen.status == FB_MORE_INPUT);
    seen.stats = fb_capture_get_stats(capture);
    memcpy(seen.counters, fb_capture_counters(capture), sizeof seen.counters);
    fb_capture_free(capture);
    seen.held = allocator.held;
    seen.most_held = allocator.most_held;
    return &seen;
}

UNUSED static const outcome *scan_built(reading how) {
    return scan_bytes(built.data, built.size, how);
}

UNUSED static const outcome *scan(void) {
    return scan_built((reading){.options = ANY_PORT});
}

/* Return the sum of all counters, to check that nothing else was counted. */
UNUSED static uint64_t count_all(const outcome *seen) {
    uint64_t sum = 0;
    for (int i = 0; i < FB_STATUS_COUNT; i++) sum += seen->counters[i];
    return sum;
}

#define CHECK_PAYLOAD(seen, text) \
    CHECK_BYTES((seen)->last.payload.data, (seen)->last.payload.size, text, strlen(text))

/* Check that the built capture has one packet and counts it only as `expected`. FB_OK: it is
   delivered. */
#define CHECK_ONE_PACKET(expected) \
    do { \
        const outcome *seen = scan(); \
        CHECK_STATUS(seen->status, FB_END); \
        CHECK_EQUAL(seen->stats.packets, 1); \
        CHECK_EQUAL(seen->count, (expected) == FB_OK); \
        CHECK_EQUAL(count_all(seen), (expected) != FB_OK); \
        if ((expected) != FB_OK) CHECK_EQUAL(seen->counters[expected], 1); \
    } while (0)

#endif
