/* Four formats, one loop: each reader takes one record (pcap, nfcapd), block (pcapng) or message
   (IPFIX) from the front of the input. Records of packets give a frame, which has a datagram; those
   of flows are datagrams themselves. Only complete records are read. So little state is kept
   between windows: the number of bytes to skip, and the open message of nfcapd. */
#include "core/capture/capture.h"

#include "core/capture/fragments.h"
#include "core/capture/ipfix_file.h"
#include "core/capture/nfcapd.h"

enum {
    MAX_CAPTURED = 256 * 1024, /* the limit of libpcap (MAXIMUM_SNAPLEN) */
    MAX_INTERFACES = 65536,    /* of a pcapng section */
    DEFAULT_FRAGMENT_MEMORY = 4 * 1024 * 1024,
    DEFAULT_FRAGMENT_DATAGRAMS = 1024
};

static const uint64_t NANO = 1000000000;
/* with any fraction still at most FB_TIME_MAX */
static const int64_t MAX_SECONDS = INT64_C(9223372035);

/* An interface of a pcapng section. A pcap file has exactly one. */
typedef struct {
    uint16_t link_type;
    uint32_t snaplen;          /* 0: no limit */
    uint64_t ticks_per_second; /* 0: times are invalid */
    int64_t offset; /* seconds added to every time; at most MAX_SECONDS in either direction */
} capture_interface;

typedef enum { UNKNOWN, PCAP, PCAPNG, IPFIX, NFCAPD } file_format;

struct fb_capture {
    fb_memory *memory;
    fb_capture_options options;
    fb_status ended; /* FB_OK, or the status that every later call returns */
    file_format format;
    bool big_endian;
    /* pcap */
    size_t record_header_size;
    capture_interface only_interface;
    /* pcapng */
    capture_interface *interfaces;
    size_t interface_count, interface_capacity;
    uint64_t skip; /* bytes to skip of an ignored block */
    fb_nfcapd *nfcapd;

    fb_fragments fragments;
    fb_capture_stats stats;
    uint64_t counters[FB_STATUS_COUNT];
};

static uint16_t load16(const fb_capture *capture, const uint8_t *p) {
    return capture->big_endian ? fb_load16(p) : (uint16_t)(p[1] << 8 | p[0]);
}

static uint32_t load32(const fb_capture *capture, const uint8_t *p) {
    if (capture->big_endian) return fb_load32(p);
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static uint64_t load64(const fb_capture *capture, const uint8_t *p) {
    uint64_t first = load32(capture, p), second = load32(capture, p + 4);
    return capture->big_endian ? first << 32 | second : second << 32 | first;
}

static uint64_t get_nanoseconds(uint64_t fraction, uint64_t ticks_per_second) {
    if (ticks_per_second % NANO == 0) return fraction / (ticks_per_second / NANO);
    /* a power of two; keeps the product below in 64 bits */
    while (ticks_per_second > UINT64_C(1) << 32) {
        ticks_per_second >>= 1;
        fraction >>= 1;
    }
    return fraction * NANO / ticks_per_second;
}

/* Return nanoseconds since 1970, or 0 if the time is invalid. */
static uint64_t get_time(const capture_interface *interface, uint64_t ticks) {
    uint64_t per_second = interface->ticks_per_second;
    if (per_second == 0 || ticks / per_second > (uint64_t)MAX_SECONDS) return 0;
    int64_t seconds = (int64_t)(ticks / per_second) + interface->offset;
    if (seconds < 0 || seconds > MAX_SECONDS) return 0;
    return (uint64_t)seconds * NANO + get_nanoseconds(ticks % per_second, per_second);
}

static void set_frame(fb_frame *frame, const capture_interface *interface, uint64_t ticks,
                      fb_bytes data, uint32_t original) {
    frame->time = get_time(interface, ticks);
    frame->data = data;
    frame->link_type = interface->link_type;
    frame->cut = original > data.size;
}

/* pcap (draft-ietf-opsawg-pcap). The magic number sets the byte order of all integers:

       file header: magic (4), version (2+2), reserved (8), snaplen (4),
                    FCS length (4 bits) ... link type (16 bits)
       record:      seconds (4), fraction (4), captured length (4), original length (4), data */
enum { FILE_HEADER_SIZE = 24 };
static const uint32_t MAGIC_MICRO = 0xa1b2c3d4;
static const uint32_t MAGIC_NANO = 0xa1b23c4d;
/* Kuznetzov's patch: record headers have 8 more bytes */
static const uint32_t MAGIC_MODIFIED = 0xa1b2cd34;

static bool read_pcap_magic(fb_capture *capture, const uint8_t *p) {
    for (int big_endian = 0; big_endian < 2; big_endian++) {
        capture->big_endian = big_endian;
        uint32_t magic = load32(capture, p);
        if (magic != MAGIC_MICRO && magic != MAGIC_NANO && magic != MAGIC_MODIFIED) continue;
        capture->record_header_size = magic == MAGIC_MODIFIED ? 24 : 16;
        capture->only_interface.ticks_per_second = magic == MAGIC_NANO ? NANO : 1000000;
        return true;
    }
    return false;
}

static fb_status read_pcap_record(fb_capture *capture, fb_bytes input, size_t *size,
                                  fb_frame *frame) {
    const uint8_t *p = input.data;
    size_t header_size = capture->record_header_size;
    const capture_interface *interface = &capture->only_interface;
    if (input.size < header_size) return FB_MORE_INPUT;
    uint32_t captured = load32(capture, p + 8);
    if (captured > MAX_CAPTURED) return FB_DAMAGED_CAPTURE;
    if (input.size - header_size < captured) return FB_MORE_INPUT;
    uint64_t ticks = load32(capture, p) * interface->ticks_per_second + load32(capture, p + 4);
    set_frame(frame, interface, ticks, (fb_bytes){p + header_size, captured},
              load32(capture, p + 12));
    *size = header_size + captured;
    return FB_OK;
}

/* pcapng (draft-ietf-opsawg-pcapng). A block is a type (4), a length (4), a body, and the length
   again (4). */
enum {
    BLOCK_INTERFACE = 1,
    BLOCK_PACKET = 2, /* obsolete */
    BLOCK_SIMPLE_PACKET = 3,
    BLOCK_ENHANCED_PACKET = 6,
    BLOCK_SECTION = 0x0a0d0d0a, /* the same in both byte orders */
    MIN_BLOCK_SIZE = 12
};

static bool is_section(const uint8_t *p) {
    return fb_load32(p) == BLOCK_SECTION &&
           (fb_load32(p + 8) == 0x1a2b3c4d || fb_load32(p + 8) == 0x4d3c2b1a);
}

/* Decode if_tsresol: a power of ten, or a power of two if the top bit is set. */
static uint64_t get_ticks_per_second(uint8_t resolution) {
    unsigned exponent = resolution & 0x7f;
    if (resolution & 0x80) return exponent < 64 ? UINT64_C(1) << exponent : 0;
    if (exponent > 19) return 0;
    uint64_t ticks = 1;
    while (exponent--) ticks *= 10;
    return ticks;
}

/* Read the options of an interface. An option is a code (2), a length (2), and a value padded to 4
   bytes. */
static void read_interface_options(const fb_capture *capture, fb_bytes options,
                                   capture_interface *interface) {
    enum { END = 0, IF_TSRESOL = 9, IF_TSOFFSET = 14 };
    while (options.size >= 4) {
        uint16_t code = load16(capture, options.data), size = load16(capture, options.data + 2);
        size_t padded = 4 + ((size_t)size + 3) / 4 * 4;
        if (code == END || padded > options.size) return;
        const uint8_t *value = options.data + 4;
        if (code == IF_TSRESOL && size == 1)
            interface->ticks_per_second = get_ticks_per_second(*value);
        if (code == IF_TSOFFSET && size == 8) interface->offset = (int64_t)load64(capture, value);
        options.data += padded;
        options.size -= padded;
    }
}

static bool reserve_interface(fb_capture *capture) {
    if (capture->interface_count < capture->interface_capacity) return true;
    size_t size = sizeof *capture->interfaces, old_capacity = capture->interface_capacity;
    size_t capacity = old_capacity ? old_capacity * 2 : 4;
    void *moved = fb_memory_resize(capture->memory, capture->interfaces, old_capacity * size,
                                   capacity * size);
    if (!moved) return false;
    capture->interfaces = moved;
    capture->interface_capacity = capacity;
    return true;
}

/* Read an interface description: link type (2), reserved (2), snaplen (4), options. */
static fb_status read_interface(fb_capture *capture, fb_bytes body) {
    if (body.size < 8 || capture->interface_count == MAX_INTERFACES) {
        capture->counters[FB_BAD_CAPTURE_RECORD]++;
        return FB_OK;
    }
    if (!reserve_interface(capture)) return FB_NO_MEMORY;
    capture_interface new = {
        .link_type = load16(capture, body.data),
        .snaplen = load32(capture, body.data + 4),
        .ticks_per_second = 1000000,
    };
    read_interface_options(capture, (fb_bytes){body.data + 8, body.size - 8}, &new);
    if (new.offset > MAX_SECONDS || new.offset < -MAX_SECONDS)
        new.offset = 0, new.ticks_per_second = 0;
    capture->interfaces[capture->interface_count++] = new;
    return FB_OK;
}

/* Read an enhanced packet: interface (4), ticks (upper 4, lower 4), captured (4), original (4),
   data, options. The obsolete packet block differs only in its first field: an interface of 2 bytes
   and a drop count of 2 bytes. */
static bool read_packet(const fb_capture *capture, fb_bytes body, bool obsolete, fb_frame *frame) {
    const uint8_t *p = body.data;
    if (body.size < 20) return false;
    uint32_t id = obsolete ? load16(capture, p) : load32(capture, p),
             captured = load32(capture, p + 12);
    if (id >= capture->interface_count || captured > body.size - 20) return false;
    uint64_t ticks = (uint64_t)load32(capture, p + 4) << 32 | load32(capture, p + 8);
    set_frame(frame, &capture->interfaces[id], ticks, (fb_bytes){p + 20, captured},
              load32(capture, p + 16));
    return true;
}

/* Read a simple packet: original length (4), data. It belongs to the first interface and has no
   time. */
static bool read_simple_packet(const fb_capture *capture, fb_bytes body, fb_frame *frame) {
    if (body.size < 4 || capture->interface_count == 0) return false;
    const capture_interface *interface = &capture->interfaces[0];
    uint32_t original = load32(capture, body.data);
    fb_bytes data = {body.data + 4, body.size - 4};
    if (data.size > original) data.size = original;
    if (interface->snaplen && data.size > interface->snaplen) data.size = interface->snaplen;
    set_frame(frame, interface, 0, data, original);
    frame->time = 0;
    return true;
}

/* A bad block body does not affect later blocks, so it is counted and reading continues. */
static fb_status read_block_body(fb_capture *capture, uint32_t type, fb_bytes body,
                                 fb_frame *frame) {
    bool good = true;
    switch (type) {
        case BLOCK_SECTION: capture->interface_count = 0; break;
        case BLOCK_INTERFACE: return read_interface(capture, body);
        case BLOCK_SIMPLE_PACKET: good = read_simple_packet(capture, body, frame); break;
        default: good = read_packet(capture, body, type == BLOCK_PACKET, frame);
    }
    if (!good) capture->counters[FB_BAD_CAPTURE_RECORD]++;
    return FB_OK;
}

static bool is_read(uint32_t type) {
    return type == BLOCK_SECTION || type == BLOCK_INTERFACE || type == BLOCK_PACKET ||
           type == BLOCK_SIMPLE_PACKET || type == BLOCK_ENHANCED_PACKET;
}

static fb_status skip_block(fb_capture *capture, fb_bytes input, size_t *size) {
    *size = capture->skip < input.size ? (size_t)capture->skip : input.size;
    capture->skip -= *size;
    return capture->skip ? FB_MORE_INPUT : FB_OK;
}

static fb_status read_block(fb_capture *capture, fb_bytes input, size_t *size, fb_frame *frame) {
    const uint8_t *p = input.data;
    if (capture->skip) return skip_block(capture, input, size);
    if (input.size < MIN_BLOCK_SIZE) return FB_MORE_INPUT;
    if (is_section(p)) capture->big_endian = p[8] == 0x1a;
    uint32_t type = load32(capture, p), length = load32(capture, p + 4);
    if (length < MIN_BLOCK_SIZE || length % 4) return FB_DAMAGED_CAPTURE;
    if (type == BLOCK_SECTION && !is_section(p)) return FB_DAMAGED_CAPTURE;
    if (!is_read(type)) {
        capture->skip = length;
        return skip_block(capture, input, size);
    }
    if (length > FB_CAPTURE_MAX_WINDOW) return FB_DAMAGED_CAPTURE;
    if (input.size < length) return FB_MORE_INPUT;
    if (load32(capture, p + length - 4) != length) return FB_DAMAGED_CAPTURE;
    fb_status status =
        read_block_body(capture, type, (fb_bytes){p + 8, length - MIN_BLOCK_SIZE}, frame);
    if (status == FB_OK) *size = length;
    return status;
}

_Static_assert(FILE_HEADER_SIZE <= FB_CAPTURE_START_SIZE, "the start shows pcap");
_Static_assert(FB_IPFIX_START_SIZE <= FB_CAPTURE_START_SIZE, "the start shows IPFIX");
_Static_assert(FB_NFCAPD_START_SIZE <= FB_CAPTURE_START_SIZE, "the start shows nfcapd");

bool fb_capture_starts_with_flows(fb_bytes start) {
    return start.size >= FB_CAPTURE_START_SIZE &&
           (fb_nfcapd_starts(start.data) || fb_ipfix_file_starts(start.data));
}

/* Recognize formats whose records are flows. */
static fb_status recognize_flows(fb_capture *capture, const uint8_t *start) {
    if (fb_nfcapd_starts(start)) {
        fb_status status =
            fb_nfcapd_new(&capture->nfcapd, capture->memory, start, capture->counters);
        if (status == FB_OK) capture->format = NFCAPD;
        return status;
    }
    if (!fb_ipfix_file_starts(start)) return FB_NOT_A_CAPTURE;
    capture->format = IPFIX;
    return FB_OK;
}

static fb_status recognize_format(fb_capture *capture, fb_bytes input, size_t *size) {
    if (input.size < FB_CAPTURE_START_SIZE) return FB_MORE_INPUT;
    if (is_section(input.data)) {
        capture->format = PCAPNG;
        return FB_OK;
    }
    if (!read_pcap_magic(capture, input.data)) return recognize_flows(capture, input.data);
    capture->format = PCAP;
    /* The upper half of this field describes the FCS. It is ignored, because the IP length gives
       the end of the packet. */
    capture->only_interface.link_type = (uint16_t)load32(capture, input.data + 20);
    *size = FILE_HEADER_SIZE;
    return FB_OK;
}

/* Read one record. It has a frame, or a datagram, or neither: the other ones are not changed. */
static fb_status read_record(fb_capture *capture, fb_bytes input, size_t *size, fb_frame *frame,
                             fb_datagram *datagram) {
    switch (capture->format) {
        case PCAP: return read_pcap_record(capture, input, size, frame);
        case PCAPNG: return read_block(capture, input, size, frame);
        case IPFIX: return fb_ipfix_file_read(input, size, datagram);
        case NFCAPD: return fb_nfcapd_read(capture->nfcapd, input, size, datagram);
        default: return recognize_format(capture, input, size);
    }
}

/* Read the datagram of a frame. OK: there is one. MORE_INPUT: a fragment was stored. Any other
   status is the counter to increase. */
static fb_status read_datagram(fb_capture *capture, const fb_frame *frame, fb_datagram *datagram) {
    fb_ip_packet packet;
    fb_status status = fb_link_read_packet(frame, &packet);
    if (status == FB_OK && packet.fragment)
        status = fb_fragments_add(&capture->fragments, frame->time, &packet);
    if (status == FB_OK) status = fb_link_read_udp(&packet, datagram);
    if (status != FB_OK) return status;
    datagram->time = frame->time;
    return capture->options.any_port || datagram->destination_port == capture->options.port
               ? FB_OK
               : FB_OTHER_PORT;
}

static fb_status end_capture(fb_capture *capture, fb_status status) {
    if (status == FB_TRUNCATED_CAPTURE || status == FB_DAMAGED_CAPTURE) {
        capture->counters[status]++;
        status = FB_END;
    }
    fb_fragments_drop(&capture->fragments);
    capture->ended = status;
    return status;
}

/* End the capture with `rest` bytes that are not a complete record. */
static fb_status end_of_input(fb_capture *capture, size_t rest) {
    if (capture->format == UNKNOWN) return end_capture(capture, FB_NOT_A_CAPTURE);
    bool inside =
        rest || capture->skip || (capture->nfcapd && !fb_nfcapd_is_between_blocks(capture->nfcapd));
    return end_capture(capture, inside ? FB_TRUNCATED_CAPTURE : FB_END);
}

static void add_link_type(fb_capture_stats *stats, uint16_t link_type) {
    for (size_t i = 0; i < stats->link_type_count; i++)
        if (stats->link_types[i] == link_type) return;
    if (stats->link_type_count < FB_CAPTURE_MAX_LINK_TYPES)
        stats->link_types[stats->link_type_count++] = link_type;
}

static bool is_full(const fb_capture *capture, size_t count, size_t capacity) {
    return count == capacity ||
           capture->fragments.completed_size > capture->options.fragment_memory / 2 ||
           (capture->nfcapd && fb_nfcapd_is_full(capture->nfcapd));
}

static void count_datagram(fb_capture *capture, size_t *count) {
    ++*count;
    capture->stats.datagrams++;
}

/* Take the result of a record: its datagram, or that of its frame, if there is one. */
static void take_record(fb_capture *capture, const fb_frame *frame, fb_datagram *datagram,
                        size_t *count) {
    bool is_datagram = datagram->payload.data;
    if (!is_datagram && !frame->data.data) return;
    capture->stats.packets++;
    if (is_datagram) {
        count_datagram(capture, count);
        return;
    }
    add_link_type(&capture->stats, frame->link_type);
    fb_status status = read_datagram(capture, frame, datagram);
    if (status == FB_OK) count_datagram(capture, count);
    else if (status != FB_MORE_INPUT) capture->counters[status]++;
}

/* Deliver the message of nfcapd that the end of the file completes. */
static void take_last_message(fb_capture *capture, fb_datagram *datagram, size_t *count) {
    if (!capture->nfcapd || !fb_nfcapd_flush(capture->nfcapd, datagram)) return;
    capture->stats.packets++;
    count_datagram(capture, count);
}

fb_status fb_capture_scan(fb_capture *capture, fb_bytes input, bool final, fb_datagram *datagrams,
                          size_t capacity, size_t *count, size_t *consumed) {
    *count = *consumed = 0;
    if (capacity == 0) return FB_BAD_ARGUMENT;
    if (capture->ended != FB_OK) return capture->ended;
    if (input.size == 0) input.data = (const uint8_t *)""; /* arithmetic on NULL is undefined */
    fb_fragments_release(&capture->fragments);
    if (capture->nfcapd) fb_nfcapd_release(capture->nfcapd);
    while (!is_full(capture, *count, capacity)) {
        fb_bytes rest = {input.data + *consumed, input.size - *consumed};
        fb_datagram *datagram = &datagrams[*count];
        fb_frame frame = {0};
        size_t size = 0;
        datagram->payload = (fb_bytes){0};
        fb_status status = read_record(capture, rest, &size, &frame, datagram);
        *consumed += size;
        if (status == FB_NO_MEMORY || (status == FB_MORE_INPUT && !final)) return status;
        if (status != FB_OK) {
            take_last_message(capture, datagram, count);
            return status == FB_MORE_INPUT ? end_of_input(capture, rest.size - size)
                                           : end_capture(capture, status);
        }
        take_record(capture, &frame, datagram, count);
    }
    return FB_OK;
}

fb_status fb_capture_new(fb_capture **out, fb_memory *memory, fb_capture_options options) {
    fb_capture *capture = fb_memory_allocate(memory, sizeof *capture);
    *out = capture;
    if (!capture) return FB_NO_MEMORY;
    if (!options.fragment_memory) options.fragment_memory = DEFAULT_FRAGMENT_MEMORY;
    if (!options.fragment_datagrams) options.fragment_datagrams = DEFAULT_FRAGMENT_DATAGRAMS;
    capture->memory = memory;
    capture->options = options;
    fb_fragments_init(&capture->fragments, memory, options.fragment_memory,
                      options.fragment_datagrams, &capture->counters[FB_FRAGMENT_DROPPED]);
    return FB_OK;
}

void fb_capture_free(fb_capture *capture) {
    if (!capture) return;
    fb_fragments_release(&capture->fragments);
    fb_fragments_drop(&capture->fragments);
    fb_nfcapd_free(capture->nfcapd);
    fb_memory_release(capture->memory, capture->interfaces,
                      capture->interface_capacity * sizeof *capture->interfaces);
    fb_memory_release(capture->memory, capture, sizeof *capture);
}

const uint64_t *fb_capture_counters(const fb_capture *capture) {
    return capture->counters;
}

fb_capture_stats fb_capture_get_stats(const fb_capture *capture) {
    return capture->stats;
}
