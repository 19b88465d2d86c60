/* sFlow version 5 datagrams: flow samples of synthetic packets, and occasional counter samples. See
   sflow.org, "sFlow Version 5", section 5. Numbers are XDR, so all sizes are multiples of four
   bytes. */
#include "generate/generate_internal.h"

enum { SAMPLED_HEADER_SIZE = 128, FCS_SIZE = 4, SMALLEST_FRAME = 60, ETHERNET_PROTOCOL = 1 };
enum { FLOW_SAMPLE = 1, COUNTERS_SAMPLE = 2, EXPANDED_FLOW_SAMPLE = 3 };
enum {
    INTERFACE_COUNTERS = 1,
    SAMPLED_HEADER = 1,
    EXTENDED_SWITCH = 1001,
    EXTENDED_ROUTER = 1002,
    EXTENDED_GATEWAY = 1003
};

/* The largest sample, sampled header, switch, router and gateway record, each with its format and
   length. */
#define LARGEST_SAMPLE_SIZE (8 + 44 + 8 + 16 + 128 + 8 + 16 + 8 + 28 + 8 + 96)

static uint8_t *put_address(uint8_t *out, const uint8_t *address, bool ipv6) {
    enum { IP_V4 = 1, IP_V6 = 2 };
    out = fb_put32(out, ipv6 ? IP_V6 : IP_V4);
    return fb_put_bytes(out, address, ipv6 ? 16 : 4);
}

/* Samples and records both start with a format and the length of the rest. */
static uint8_t *start_item(uint8_t *out, uint32_t format) {
    return fb_put32(out, format) + 4;
}

static uint8_t *finish_item(uint8_t *item, uint8_t *end) {
    fb_put32(item + 4, (uint32_t)(end - item - 8));
    return end;
}

static uint8_t draw_tcp_flags(fb_random *random, bool has_payload) {
    static const uint8_t with_payload[] = {FB_TCP_ACK, FB_TCP_ACK, FB_TCP_ACK,
                                           FB_TCP_PSH | FB_TCP_ACK};
    static const uint8_t without[] = {FB_TCP_ACK,
                                      FB_TCP_ACK,
                                      FB_TCP_ACK,
                                      FB_TCP_ACK,
                                      FB_TCP_SYN,
                                      FB_TCP_SYN | FB_TCP_ACK,
                                      FB_TCP_FIN | FB_TCP_ACK,
                                      FB_TCP_RST | FB_TCP_ACK};
    return has_payload ? with_payload[fb_random_below(random, 4)]
                       : without[fb_random_below(random, 8)];
}

static uint8_t *put_tcp(uint8_t *out, fb_random *random, const fb_traffic_flow *flow,
                        uint32_t size) {
    const uint32_t header_words = 5;
    uint8_t flags = draw_tcp_flags(random, size > header_words * 4);
    uint64_t numbers = fb_random_next(random);
    out = fb_put16(fb_put16(out, flow->source.port), flow->destination.port);
    out = fb_put32(out, (uint32_t)(numbers >> 32)); /* sequence */
    out = fb_put32(out, flags & FB_TCP_ACK ? (uint32_t)numbers : 0);
    out = fb_put8(fb_put8(out, header_words << 4), flags);
    out = fb_put16(out, flags & FB_TCP_RST ? 0 : 512); /* window */
    return fb_put32(out, 0);                           /* checksum, urgent pointer */
}

/* Write an ICMP message. An error message contains the start of the packet that caused it, which
   went in the other direction. */
static uint8_t *put_icmp(uint8_t *out, const fb_traffic_flow *flow) {
    const uint8_t type = (uint8_t)(flow->destination.port >> 8);
    bool error = flow->ipv6 ? type < 128 : type == 3 || type == 11;
    /* checksum, and fields without meaning */
    out = fb_put_zeros(fb_put16(out, flow->destination.port), 6);
    if (!error) return out;
    fb_ip_header header = {.source = flow->destination.address,
                           .destination = flow->source.address,
                           .protocol = FB_PROTO_UDP,
                           .ttl = 1,
                           .ipv6 = flow->ipv6};
    header.size =
        (uint16_t)((flow->ipv6 ? FB_IPV6_HEADER_SIZE : FB_IPV4_HEADER_SIZE) + FB_UDP_HEADER_SIZE);
    uint8_t *udp = fb_put_ip(out, &header);
    /* like traceroute */
    out = fb_put32(fb_put32(udp, 33434u << 16 | 33434u), FB_UDP_HEADER_SIZE << 16);
    fb_put16(udp + 6, fb_transport_checksum(&header, udp, FB_UDP_HEADER_SIZE));
    return out;
}

/* Write the transport header at `out`. Returns the position of its checksum, or NULL. */
static uint8_t *put_transport(uint8_t *out, fb_random *random, const fb_traffic_flow *flow,
                              uint32_t size) {
    switch (flow->protocol) {
        case FB_PROTO_TCP: put_tcp(out, random, flow, size); return out + 16;
        case FB_PROTO_UDP:
            fb_put16(
                fb_put16(fb_put16(fb_put16(out, flow->source.port), flow->destination.port), size),
                0);
            return out + 6;
        case FB_PROTO_ICMP:
        case FB_PROTO_ICMPV6: put_icmp(out, flow); return out + 2;
        /* ESP: security parameters index, sequence */
        default: fb_put64(out, fb_random_next(random)); return NULL;
    }
}

/* Return the correct checksum if the sampled header contains the whole packet. Otherwise it cannot
   be verified; then it only must not be 0, which means "no checksum". */
static uint16_t packet_checksum(const fb_ip_header *header, const uint8_t *transport, uint32_t size,
                                bool whole) {
    uint16_t sum = header->identification;
    if (whole && header->protocol == FB_PROTO_ICMP) sum = fb_internet_checksum(transport, size);
    else if (whole) sum = fb_transport_checksum(header, transport, size);
    return sum || header->protocol != FB_PROTO_UDP ? sum : 0xffff;
}

/* Write the first bytes of the flow's largest packet, as received from the wire. The payload is
   zeros. */
static uint8_t *put_frame_start(uint8_t *out, fb_random *random, const fb_traffic_flow *flow,
                                uint16_t vlan_tci) {
    fb_ip_header header = {.source = flow->source.address,
                           .destination = flow->destination.address,
                           .flow_label = flow->flow_label,
                           .size = flow->packet_size,
                           .protocol = flow->protocol,
                           .tos = flow->tos,
                           .ttl = flow->ttl,
                           .ipv6 = flow->ipv6};
    header.identification = (uint16_t)fb_random_next(random);
    memset(out, 0, SAMPLED_HEADER_SIZE);
    uint8_t *ip =
        fb_put_ethernet(out, flow->destination.mac, flow->source.mac, vlan_tci, flow->ipv6);
    uint8_t *transport = fb_put_ip(ip, &header);
    uint32_t transport_size = flow->packet_size - (uint32_t)(transport - ip);
    uint8_t *checksum = put_transport(transport, random, flow, transport_size);
    bool whole = transport + transport_size <= out + SAMPLED_HEADER_SIZE;
    if (checksum) fb_put16(checksum, packet_checksum(&header, transport, transport_size, whole));

    uint32_t frame_size = (uint32_t)(ip - out) + flow->packet_size;
    if (frame_size < SMALLEST_FRAME) frame_size = SMALLEST_FRAME;
    return out + (frame_size < SAMPLED_HEADER_SIZE ? frame_size : SAMPLED_HEADER_SIZE);
}

static uint32_t frame_length(const fb_traffic_flow *flow, uint16_t vlan_tci) {
    uint32_t size = FB_ETHERNET_HEADER_SIZE + (vlan_tci ? FB_VLAN_TAG_SIZE : 0) + flow->packet_size;
    return (size < SMALLEST_FRAME ? SMALLEST_FRAME : size) + FCS_SIZE;
}

static uint8_t *put_sampled_header(uint8_t *item, fb_random *random, const fb_traffic_flow *flow,
                                   uint16_t vlan_tci) {
    uint8_t *out = start_item(item, SAMPLED_HEADER);
    out = fb_put32(out, ETHERNET_PROTOCOL);
    out = fb_put32(out, frame_length(flow, vlan_tci));
    out = fb_put32(out, FCS_SIZE); /* bytes stripped */
    uint8_t *frame = out + 4;
    uint8_t *end = put_frame_start(frame, random, flow, vlan_tci);
    uint32_t size = (uint32_t)(end - frame);
    fb_put32(out, size);
    return finish_item(item, fb_put_zeros(end, -size & 3));
}

static uint8_t *put_extended_switch(uint8_t *item, const fb_traffic_flow *flow) {
    uint32_t priority = flow->tos >> 5;
    uint8_t *out = start_item(item, EXTENDED_SWITCH);
    out = fb_put32(fb_put32(out, flow->source.vlan), priority);
    out = fb_put32(fb_put32(out, flow->destination.vlan), priority);
    return finish_item(item, out);
}

static uint8_t *put_extended_router(uint8_t *item, const fb_traffic_flow *flow) {
    uint8_t *out = start_item(item, EXTENDED_ROUTER);
    out = put_address(out, flow->destination.next_hop, flow->ipv6);
    out = fb_put32(out, flow->source.prefix_length);
    return finish_item(item, fb_put32(out, flow->destination.prefix_length));
}

static uint8_t *put_path_segment(uint8_t *out, uint32_t type, const uint32_t *path, uint32_t size) {
    out = fb_put32(fb_put32(out, type), size);
    for (uint32_t i = 0; i < size; i++) out = fb_put32(out, path[i]);
    return out;
}

/* Write the AS path. It is empty for a destination in the local network. Otherwise it leads over a
   peer, and sometimes more AS numbers, to the destination's AS. Some paths end in a set, as after
   an aggregation. */
static uint8_t *put_path(uint8_t *out, fb_random *random, const fb_traffic_flow *flow) {
    enum { AS_SET = 1, AS_SEQUENCE = 2 };
    if (flow->destination.as == FB_TRAFFIC_LOCAL_AS) return fb_put32(out, 0);
    uint32_t path[5] = {64496 + flow->destination.interface % 4,
                        65536 + flow->destination.interface, 65551};
    uint32_t size = 1 + fb_random_below(random, 3);
    path[size] = flow->destination.as;
    if (!fb_random_one_in(random, 8))
        return put_path_segment(fb_put32(out, 1), AS_SEQUENCE, path, size + 1);
    path[size + 1] = flow->destination.as;
    path[size] = flow->destination.as - 1;
    out = put_path_segment(fb_put32(out, 2), AS_SEQUENCE, path, size);
    return put_path_segment(out, AS_SET, path + size, 2);
}

static uint8_t *put_extended_gateway(uint8_t *item, fb_random *random,
                                     const fb_traffic_flow *flow) {
    bool from_here = flow->source.as == FB_TRAFFIC_LOCAL_AS;
    uint8_t *out = start_item(item, EXTENDED_GATEWAY);
    out = put_address(out, flow->destination.next_hop, flow->ipv6);
    out = fb_put32(out, FB_TRAFFIC_LOCAL_AS);
    out = fb_put32(out, from_here ? 0 : flow->source.as);
    out = fb_put32(out, from_here ? 0 : 64496u + flow->source.interface % 4);
    out = put_path(out, random, flow);
    uint32_t communities = fb_random_below(random, 5);
    out = fb_put32(out, communities);
    for (uint32_t i = 0; i < communities; i++)
        out = fb_put32(out, FB_TRAFFIC_LOCAL_AS << 16 | (100 * i + flow->destination.interface));
    return finish_item(item, fb_put32(out, 100)); /* local preference */
}

static uint8_t *put_records(uint8_t *out, fb_random *random, const fb_traffic_flow *flow,
                            bool header_last, uint32_t *count) {
    uint16_t tag = (uint16_t)((flow->tos >> 5) << 13 | flow->source.vlan);
    uint16_t vlan_tci = fb_random_one_in(random, 4) ? tag : (uint16_t)0;
    bool routed = !flow->dropped;
    bool gateway = routed && fb_random_one_in(random, 3);
    if (!header_last) out = put_sampled_header(out, random, flow, vlan_tci);
    out = put_extended_switch(out, flow);
    if (routed) out = put_extended_router(out, flow);
    if (gateway) out = put_extended_gateway(out, random, flow);
    if (header_last) out = put_sampled_header(out, random, flow, vlan_tci);
    *count = 2u + routed + gateway;
    return out;
}

/* Add the packets of a sample to the pool, which grows by the sampling rate on average. */
static void count_packets(fb_generator *generator, fb_generator_exporter *exporter,
                          const fb_traffic_flow *flow, uint32_t bytes) {
    uint32_t rate = generator->options.sampling_rate;
    uint32_t packets = rate - rate / 2 + fb_random_below(&generator->random, rate / 2 * 2 + 1);
    fb_generator_interface *input = &exporter->interfaces[flow->source.interface - 1];
    fb_generator_interface *output = &exporter->interfaces[flow->destination.interface - 1];
    input->packets_in += packets;
    input->octets_in += (uint64_t)packets * bytes;
    if (flow->dropped) return;
    output->packets_out += packets;
    output->bytes_out += (uint64_t)packets * bytes;
}

/* Write a flow sample.

     compact   sequence, source id (type 8 bits, index 24), rate, pool, drops, input,
               output (format 2 bits, value 30), records
     expanded  sequence, source type, source index, rate, pool, drops, input format, input,
               output format, output, records */
static uint8_t *put_flow_sample(fb_generator *generator, fb_generator_exporter *exporter,
                                uint8_t *item) {
    enum { INDEX_FORMAT = 0, DISCARDED_FORMAT = 1, DISCARDED_BY_ACL = 258 };
    fb_random *random = &generator->random;
    fb_traffic_flow flow;
    fb_traffic_draw(random, fb_random_one_in(random, 4), &flow);
    count_packets(generator, exporter, &flow, frame_length(&flow, 0));

    fb_generator_interface *input = &exporter->interfaces[flow.source.interface - 1];
    uint32_t output_format = flow.dropped ? DISCARDED_FORMAT : INDEX_FORMAT;
    uint32_t output = flow.dropped ? DISCARDED_BY_ACL : flow.destination.interface;
    bool expanded = fb_random_one_in(random, 4);
    uint8_t *out = start_item(item, expanded ? EXPANDED_FLOW_SAMPLE : FLOW_SAMPLE);
    out = fb_put32(out, ++input->flow_samples);
    if (expanded) out = fb_put32(out, 0); /* the source is an ifIndex */
    out = fb_put32(out, flow.source.interface);
    out = fb_put32(out, generator->options.sampling_rate);
    out = fb_put32(out, input->packets_in);
    out = fb_put32(out, 0); /* dropped samples */
    if (expanded) out = fb_put32(out, INDEX_FORMAT);
    out = fb_put32(out, flow.source.interface);
    out = expanded ? fb_put32(fb_put32(out, output_format), output)
                   : fb_put32(out, output_format << 30 | output);
    uint32_t records;
    uint8_t *end = put_records(out + 4, random, &flow, expanded, &records);
    fb_put32(out, records);
    generator->flows_written++;
    return finish_item(item, end);
}

static uint8_t *put_interface_counters(uint8_t *item, const fb_generator_interface *interface,
                                       uint32_t index) {
    const uint32_t ethernet_csmacd = 6, full_duplex = 1, up = 3;
    uint8_t *out = start_item(item, INTERFACE_COUNTERS);
    out = fb_put32(fb_put32(out, index), ethernet_csmacd);
    out = fb_put64(out, UINT64_C(10000000000)); /* bit/s */
    out = fb_put32(fb_put32(out, full_duplex), up);
    out = fb_put32(fb_put64(out, interface->octets_in), interface->packets_in);
    /* multicasts, broadcasts, discards, errors, unknown protocols */
    out = fb_put_zeros(out, 5 * 4);
    out = fb_put32(fb_put64(out, interface->bytes_out), interface->packets_out);
    out = fb_put_zeros(out, 4 * 4);             /* multicasts, broadcasts, discards, errors */
    return finish_item(item, fb_put32(out, 0)); /* promiscuous mode */
}

static uint8_t *put_counter_sample(fb_generator_exporter *exporter, uint8_t *item) {
    uint32_t index = 1 + exporter->datagrams / 16 % FB_TRAFFIC_INTERFACES;
    fb_generator_interface *interface = &exporter->interfaces[index - 1];
    uint8_t *out = start_item(item, COUNTERS_SAMPLE);
    out = fb_put32(fb_put32(out, ++interface->counter_samples), index);
    out = fb_put32(out, 1); /* records */
    return finish_item(item, put_interface_counters(out, interface, index));
}

uint8_t *fb_put_sflow(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                      const uint8_t *limit) {
    uint8_t address[16];
    uint32_t samples = 0;
    fb_generator_exporter_address(exporter, address);
    out = fb_put32(out, 5);
    out = put_address(out, address, fb_generator_exporter_is_ipv6(exporter));
    out = fb_put32(out, 0); /* sub-agent */
    out = fb_put32(out, exporter->sequence++);
    out = fb_put32(out, fb_generator_uptime(generator, exporter));
    uint8_t *sample_count = out;
    out += 4;
    if (exporter->datagrams % 16 == 15) {
        out = put_counter_sample(exporter, out);
        samples++;
    }
    while (fb_generator_flows_left(generator) && limit - out >= LARGEST_SAMPLE_SIZE) {
        out = put_flow_sample(generator, exporter, out);
        samples++;
    }
    fb_put32(sample_count, samples);
    return out;
}
