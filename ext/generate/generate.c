/* The generator: checks its options, takes the exporters in turn, and wraps each datagram into a
   packet record. */
#include "core/capture/link.h"
#include "core/capture/pcap_write.h"
#include "generate/generate_internal.h"

#define EARLIEST_START             (946684800u * UINT64_C(1000000000)) /* 2000-01-01 */
#define NETFLOW5_MAX_SAMPLING_RATE 0x3fffu

static const char *const protocol_names[FB_GENERATOR_PROTOCOL_COUNT] = {
#define FB_X(constant, name) name,
    FB_GENERATOR_PROTOCOL_LIST(FB_X)
#undef FB_X
};

fb_generator_protocol fb_generator_find_protocol(const char *name) {
    unsigned protocol = 0;
    while (protocol < FB_GENERATOR_PROTOCOL_COUNT && strcmp(protocol_names[protocol], name) != 0)
        protocol++;
    return (fb_generator_protocol)protocol;
}

static fb_generator_options fill_in_defaults(fb_generator_options options) {
    if (!options.flows_per_second) options.flows_per_second = 10000;
    if (!options.mtu) options.mtu = 1500;
    if (!options.template_refresh) options.template_refresh = 1000;
    return options;
}

const char *fb_generator_options_fault(const fb_generator_options *given) {
    fb_generator_options options = fill_in_defaults(*given);
    bool netflow5 =
        options.protocol == FB_GENERATOR_NETFLOW5 || options.protocol == FB_GENERATOR_MIXED;
    if ((unsigned)options.protocol >= FB_GENERATOR_PROTOCOL_COUNT) return "the protocol is unknown";
    if (options.exporters < 1 || options.exporters > FB_GENERATOR_MAX_EXPORTERS)
        return "there may be 1 to 65536 exporters";
    if (options.protocol == FB_GENERATOR_MIXED && options.exporters < 4)
        return "mixed traffic needs at least 4 exporters, one for each protocol";
    if (options.sampling_rate < 1)
        return "the sampling rate must be at least 1, which samples every packet";
    if (netflow5 && options.sampling_rate > NETFLOW5_MAX_SAMPLING_RATE)
        return "NetFlow v5 has 14 bits for the sampling rate: at most 16383";
    if (options.flows_per_second > 1000000000) return "there may be at most 10^9 flows per second";
    if (options.mtu < FB_GENERATOR_MIN_MTU || options.mtu > 65535)
        return "the MTU must be between 1280 and 65535";
    if (options.start < EARLIEST_START) return "the start must not be before 2000";
    uint64_t last_second = options.start / 1000000000 + 1;
    if (last_second > UINT32_MAX ||
        options.flows / options.flows_per_second > UINT32_MAX - last_second)
        return "the traffic would last beyond 2106, when the seconds of these protocols overflow";
    return NULL;
}

static size_t generator_size(uint32_t exporters) {
    return sizeof(fb_generator) + exporters * sizeof(fb_generator_exporter);
}

/* Each exporter has been up for an hour to a month, and has sent datagrams before. An hour is
   longer than the age of any flow. */
static void start_exporter(fb_generator *generator, uint32_t index) {
    const fb_generator_options *options = &generator->options;
    fb_generator_exporter *exporter = &generator->exporters[index];
    bool mixed = options->protocol == FB_GENERATOR_MIXED;
    exporter->protocol =
        mixed ? (fb_generator_protocol)(index % FB_GENERATOR_MIXED) : options->protocol;
    exporter->index = index;
    exporter->sequence = 1 + fb_random_below(&generator->random, 1 << 24);
    exporter->boot =
        options->start / 1000000 - 3600000 - fb_random_below(&generator->random, 2592000000u);
}

fb_status fb_generator_new(fb_memory *memory, const fb_generator_options *options,
                           fb_generator **out) {
    if (fb_generator_options_fault(options)) return FB_BAD_ARGUMENT;
    fb_generator *generator = fb_memory_allocate(memory, generator_size(options->exporters));
    if (!generator) return FB_NO_MEMORY;
    generator->memory = memory;
    generator->options = fill_in_defaults(*options);
    generator->random.state = options->seed;
    for (uint32_t i = 0; i < options->exporters; i++) start_exporter(generator, i);
    *out = generator;
    return FB_OK;
}

void fb_generator_free(fb_generator *generator) {
    if (generator)
        fb_memory_release(generator->memory, generator,
                          generator_size(generator->options.exporters));
}

uint64_t fb_generator_flows_written(const fb_generator *generator) {
    return generator->flows_written;
}

void fb_generator_exporter_address(const fb_generator_exporter *exporter, uint8_t address[16]) {
    uint32_t number = exporter->index + 1;
    if (fb_generator_exporter_is_ipv6(exporter))
        fb_put64(fb_put64(address, 0x20010db8c0000000u), number);
    else fb_put32(address, (number < 255 ? 0xc0000200u : 0xc6120000u) + number);
}

static uint8_t *put_datagram(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                             const uint8_t *limit) {
    switch (exporter->protocol) {
        case FB_GENERATOR_NETFLOW1: return fb_put_netflow1(generator, exporter, out, limit);
        case FB_GENERATOR_NETFLOW5: return fb_put_netflow5(generator, exporter, out, limit);
        case FB_GENERATOR_NETFLOW7: return fb_put_netflow7(generator, exporter, out, limit);
        case FB_GENERATOR_NETFLOW9: return fb_put_netflow9(generator, exporter, out, limit);
        case FB_GENERATOR_IPFIX: return fb_put_ipfix(generator, exporter, out, limit);
        default: return fb_put_sflow(generator, exporter, out, limit);
    }
}

static uint16_t collector_port(fb_generator_protocol protocol) {
    if (protocol == FB_GENERATOR_SFLOW) return 6343;
    return protocol == FB_GENERATOR_IPFIX ? 4739 : 2055;
}

/* The datagram is written first, because the headers in front of it contain its length and
   checksum. */
static uint8_t *put_frame(fb_generator *generator, fb_generator_exporter *exporter,
                          uint8_t *frame) {
    static const uint8_t collectors[2][16] = {
        {203, 0, 113, 1}, {0x20, 0x01, 0x0d, 0xb8, 0xcb, 0, [15] = 1}}; /* one per address family */
    const uint64_t collector_mac = 0x00005e005301u, router_mac = 0x020000000000u;
    bool ipv6 = fb_generator_exporter_is_ipv6(exporter);
    uint8_t *udp =
        frame + FB_ETHERNET_HEADER_SIZE + (ipv6 ? FB_IPV6_HEADER_SIZE : FB_IPV4_HEADER_SIZE);
    const uint8_t *limit = frame + FB_ETHERNET_HEADER_SIZE + generator->options.mtu;
    uint8_t *end = put_datagram(generator, exporter, udp + FB_UDP_HEADER_SIZE, limit);
    assert(end <= limit);

    uint8_t address[16];
    fb_generator_exporter_address(exporter, address);
    fb_ip_header header = {.source = address,
                           .destination = collectors[ipv6],
                           .ttl = 64,
                           .ipv6 = ipv6,
                           .identification = (uint16_t)exporter->datagrams};
    uint8_t *ip = fb_put_ethernet(frame, collector_mac, router_mac + exporter->index, 0, ipv6);
    uint16_t source_port = (uint16_t)(49152 + exporter->index % 16384);
    const uint8_t *payload = udp + FB_UDP_HEADER_SIZE;
    fb_put_udp(ip, &header, source_port, collector_port(exporter->protocol),
               (fb_bytes){payload, (size_t)(end - payload)});
    return end;
}

static uint8_t *put_packet_record(fb_generator *generator, uint8_t *out) {
    const fb_generator_options *options = &generator->options;
    uint64_t whole = generator->flows_written / options->flows_per_second;
    uint64_t rest = generator->flows_written % options->flows_per_second;
    generator->clock =
        options->start + whole * 1000000000 + rest * 1000000000 / options->flows_per_second;

    fb_generator_exporter *exporter =
        &generator->exporters[generator->datagrams++ % options->exporters];
    uint8_t *frame = out + FB_PCAP_RECORD_HEADER_SIZE;
    uint8_t *end = put_frame(generator, exporter, frame);
    exporter->datagrams++;

    fb_put_pcap_record_header(out, FB_PCAP_MICROSECONDS, generator->clock, (size_t)(end - frame));
    return end;
}

fb_status fb_generator_next(fb_generator *generator, uint8_t *buffer, size_t capacity,
                            size_t *size) {
    const size_t largest_record =
        FB_PCAP_RECORD_HEADER_SIZE + FB_ETHERNET_HEADER_SIZE + generator->options.mtu;
    *size = 0;
    if (!generator->header_written) {
        if (capacity < FB_PCAP_HEADER_SIZE) return FB_NO_SPACE;
        uint8_t *end = fb_put_pcap_header(buffer, FB_PCAP_MICROSECONDS, FB_LINK_ETHERNET);
        *size = (size_t)(end - buffer);
        generator->header_written = true;
    }
    while (fb_generator_flows_left(generator)) {
        if (capacity - *size < largest_record) return *size ? FB_OK : FB_NO_SPACE;
        *size = (size_t)(put_packet_record(generator, buffer + *size) - buffer);
    }
    return FB_END;
}
