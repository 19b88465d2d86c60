#include "tests/builders/random_sample.h"

#include <string.h>

#include "tests/builders/random_plan.h"

/* Looks -------------------------------------------------------------------------------------- */

enum {
    HEADER = 1,
    ETHERNET_RECORD = 2,
    IPV4_RECORD = 3,
    SWITCH = 1001,
    ROUTER = 1002,
    GATEWAY = 1003,
    VLAN_TUNNEL = 1012,
    NAT_PORT = 1020,
    UNKNOWN = 1018
};
enum { IPV4 = 0x0800, IPV6 = 0x86dd };
enum { TRUE_LENGTH, NO_LENGTH, TINY_LENGTH, SHORT_LENGTH };

static const unsigned captures[] = {34, 36, 38, 42, 48, 54,  56,  58,  60,  62,  64,  66, 68,
                                    70, 74, 76, 90, 96, 100, 126, 127, 128, 128, 128, 128};
static const unsigned protos[] = {6, 6, 17, 17, 1, 58, 33, 47, 132, 136, 50, 0};
static const unsigned protos_of_ipv6[] = {6, 17, 58, 6, 17, 0, 43, 44, 59};
static const unsigned tag_types[] = {0x8100, 0x8100, 0x88a8, 0x9100, 0x9200};

static void shuffle(sample_look *look) {
    for (unsigned i = look->count; i > 1; i--) {
        unsigned other = below(i), was = look->records[i - 1];
        look->records[i - 1] = look->records[other];
        look->records[other] = was;
    }
}

void look_choose(sample_look *look) {
    static const unsigned optional[] = {SWITCH, ROUTER, GATEWAY, UNKNOWN, NAT_PORT, VLAN_TUNNEL};
    *look = (sample_look){.expanded = below(2),
                          .count = 1,
                          .records = {HEADER},
                          .next_hop = {below(3), 1 + below(2)},
                          .vlans = 3,
                          .source_as = below(3),
                          .segments = below(3),
                          .hops = {1 + below(3), below(3)},
                          .communities = below(4),
                          .protocol = 1,
                          .tags = below(2) ? 0 : below(3),
                          .tag_type = PICK(tag_types),
                          .length = TRUE_LENGTH,
                          .wide = 8};
    for (unsigned i = 0; i < 6; i++)
        if (below(i < 4 ? 2 : 4) == 0) look->records[look->count++] = optional[i];
    if (below(2)) shuffle(look);
    look->etype = below(3) ? IPV4 : IPV6;
    look->first_byte = look->etype == IPV4 ? 0x45 : 0x60;
    look->proto = look->etype == IPV4 ? PICK(protos) : protos_of_ipv6[below(3)];
    look->flags = below(4);
    look->captured = PICK(captures);
    unsigned headers = 14 + 4 * look->tags + (look->etype == IPV4 ? 20 : 40);
    if (look->captured < headers) look->captured = headers + below(20);
    look->wide = 8 + 8 * below(4);
    if (below(8) == 0) look_change(look);
}

static void change_records(sample_look *look) {
    static const unsigned formats[] = {
        HEADER,  ETHERNET_RECORD, IPV4_RECORD, SWITCH,   ROUTER, GATEWAY, UNKNOWN,
        UNKNOWN, VLAN_TUNNEL,     NAT_PORT,    NAT_PORT, 4,      1000,    0};
    switch (below(4)) {
        case 0: look->extra = 4 * below(3); break;
        case 1: look->records[below(look->count)] = PICK(formats); break;
        case 2: shuffle(look); break;
        default:
            if (look->count < LOOK_RECORDS) look->records[look->count++] = PICK(formats);
    }
}

static void change_packet(sample_look *look) {
    static const unsigned etypes[] = {IPV4, IPV4, IPV6, IPV6, 0x0806, 0x8847, 0x8864, 46};
    static const unsigned first_bytes[] = {0x45, 0x60, 0x46, 0x44, 0x65, 0x6f, 0x35};
    static const unsigned protocols[] = {1, 1, 11, 12, 13, 2};
    switch (below(12)) {
        case 0: look->protocol = PICK(protocols); break;
        case 1: look->tags = below(4); break;
        case 2: look->tag_type = PICK(tag_types); break;
        case 3: look->etype = PICK(etypes); break;
        case 4: look->first_byte = PICK(first_bytes); break;
        case 5: look->flags = below(8); break;
        case 6: look->offset = below(2) ? 0 : 1 + below(0x1fff); break;
        case 7: look->traffic_class = below(256); break;
        case 8: look->proto = below(2) ? PICK(protos) : PICK(protos_of_ipv6); break;
        case 9: look->length = below(4); break;
        case 10: look->captured = PICK(captures); break;
        default: look->captured = below(129); break;
    }
}

static void change_gateway(sample_look *look) {
    switch (below(5)) {
        case 0: look->source_as ^= 1; break;
        case 1: look->segments = below(LOOK_SEGMENTS + 1); break;
        case 2: look->hops[below(LOOK_SEGMENTS)] = below(4); break;
        case 3: look->communities = below(5); break;
        default: look->next_hop[below(2)] = below(4); break;
    }
}

void look_change(sample_look *look) {
    switch (below(8)) {
        case 0: look->expanded ^= below(2); break;
        case 1: look->input = below(5); break;
        case 2: look->output = below(5); break;
        case 3: look->vlans = below(4); break;
        case 4: look->wide = 1 + below(32); break;
        case 5: change_records(look); break;
        case 6: change_gateway(look); break;
        default: change_packet(look); break;
    }
}

/* Samples ------------------------------------------------------------------------------------ */

/* Draw a number: zero, the boundaries of special values, or a number of random bit width. */
static uint32_t number(const sample_look *look) {
    static const uint32_t edges[] = {0,          1,          2,          127,        128,
                                     254,        255,        256,        4094,       4095,
                                     4096,       65535,      65536,      0xffffff,   0x1000000,
                                     0x3ffffffe, 0x3fffffff, 0x40000000, 0xfffffffe, 0xffffffff};
    switch (below(8)) {
        case 0: return 0;
        case 1: return below(4) ? below(2) : PICK(edges);
        default: return random_word() >> (32 - look->wide) >> below(look->wide);
    }
}

static void put_random(byte_buffer *d, const sample_look *look, size_t size) {
    while (size--) put8(d, below(4) ? number(look) & 0xff : 0);
}

static void put_random_address(byte_buffer *d, const sample_look *look, size_t size) {
    if (below(8) == 0) put_repeated(d, 0, size);
    else if (size == 16 && below(8) == 0)
        put_repeated(d, 0, 10), put16(d, 0xffff), put32(d, below(2) ? 0 : random_word());
    else put_random(d, look, size);
}

static void put_xdr_address(byte_buffer *d, const sample_look *look, unsigned type) {
    size_t size = 0;
    if (type == 1) size = 4;
    else if (type == 2) size = 16;
    put32(d, type);
    put_random_address(d, look, size);
}

static void put_transport(byte_buffer *d, const sample_look *look) {
    put16(d, number(look) & 0xffff), put16(d, number(look) & 0xffff);
    put_random(d, look, 160);
}

static void put_ip(byte_buffer *d, const sample_look *look, unsigned header) {
    static const unsigned tiny[] = {1, 19, 20, 21, 39, 40, 41};
    unsigned length = header == 20 ? 20 + 4 + below(1500) : 4 + below(1500);
    if (below(16) == 0) length = 65535 - below(80);
    if (look->length == NO_LENGTH) length = 0;
    if (look->length == TINY_LENGTH) length = PICK(tiny);
    if (look->length == SHORT_LENGTH) length = (header == 20 ? 20 : 0) + below(22);
    if (header == 20) {
        put8(d, look->first_byte), put8(d, number(look) & 0xff), put16(d, length),
            put16(d, number(look) & 0xffff);
        put16(d, look->flags << 13 | look->offset), put8(d, number(look) & 0xff),
            put8(d, look->proto), put16(d, 0);
        put_random_address(d, look, 4), put_random_address(d, look, 4);
    } else {
        put32(d, look->first_byte << 24 | look->traffic_class << 20 | (number(look) & 0xfffff)),
            put16(d, length);
        put8(d, look->proto), put8(d, number(look) & 0xff);
        put_random_address(d, look, 16), put_random_address(d, look, 16);
    }
    put_transport(d, look);
}

static void put_packet(byte_buffer *d, const sample_look *look) {
    static byte_buffer packet;
    packet.size = 0;
    put_random(&packet, look, 12);
    for (unsigned i = 0; i < look->tags; i++)
        put16(&packet, look->tag_type), put16(&packet, number(look) & 0xffff);
    put16(&packet, look->etype);
    put_ip(&packet, look, look->etype == IPV6 ? 40 : 20);
    size_t record = header_begin(d, look->protocol, number(look));
    put_bytes(d, packet.data, look->captured < packet.size ? look->captured : packet.size);
    header_end(d, record);
}

static void put_vlan_of(byte_buffer *d, const sample_look *look, unsigned bit) {
    if (look->vlans & bit) put32(d, below(4095) & number(look));
    else put32(d, below(2) ? UINT32_MAX : 4095 + below(2));
}

static void put_gateway(byte_buffer *d, const sample_look *look) {
    put_xdr_address(d, look, look->next_hop[1]);
    put32(d, number(look)), put32(d, look->source_as ? number(look) : 0), put32(d, number(look));
    put32(d, look->segments);
    for (unsigned i = 0; i < look->segments; i++) {
        put32(d, 1 + below(2)), put32(d, look->hops[i]);
        for (unsigned hop = 0; hop < look->hops[i]; hop++) put32(d, number(look));
    }
    put32(d, look->communities);
    for (unsigned i = 0; i < look->communities; i++) put32(d, number(look));
    put32(d, number(look));
}

static void put_record(byte_buffer *d, const sample_look *look, unsigned format) {
    if (format == HEADER) {
        put_packet(d, look);
        return;
    }
    size_t record = record_begin(d, format);
    switch (format) {
        case SWITCH:
            put_vlan_of(d, look, 1), put32(d, number(look)), put_vlan_of(d, look, 2),
                put32(d, number(look));
            break;
        case ROUTER:
            put_xdr_address(d, look, look->next_hop[0]), put32(d, number(look)),
                put32(d, number(look));
            break;
        case GATEWAY: put_gateway(d, look); break;
        case VLAN_TUNNEL: put32(d, below(3)), put_random(d, look, 8); break;
        default: put_random(d, look, 32); break;
    }
    put_random(d, look, look->extra);
    record_end(d, record);
}

/* Draw an interface. The two highest bits are the format; format 4 is the exporter itself. */
static uint32_t interface(const sample_look *look, unsigned format) {
    if (format == 4) return 0x3fffffff;
    return format << 30 | (number(look) & 0x3fffffff);
}

size_t put_random_sample(byte_buffer *d, const sample_look *look) {
    flow_sample s = {number(look),
                     number(look),
                     number(look),
                     number(look),
                     number(look),
                     interface(look, look->input),
                     interface(look, look->output)};
    size_t sample = (look->expanded ? expanded_sample_begin : flow_sample_begin)(d, look->count, s);
    /* an index may use all its bits */
    if (look->expanded && below(8) == 0) patch32(d, sample + 28, random_word());
    for (unsigned i = 0; i < look->count; i++) put_record(d, look, look->records[i]);
    sample_end(d, sample);
    return sample;
}

size_t put_random_datagram(byte_buffer *d, const sample_look *look, unsigned samples) {
    size_t first = 0;
    sflow_begin(d, samples,
                (sflow_header){.agent = 1, .sub_agent = 7, .sequence = 1, .uptime = 1000});
    for (; samples; samples--) {
        size_t sample = put_random_sample(d, look);
        if (!first) first = sample;
    }
    return first;
}

/* Fixed samples ------------------------------------------------------------------------------ */

static void put_records_of_a_router(byte_buffer *d) {
    put_switch_record(d, 100, 4095);
    put_router_record(d, 0xc6336402, 24, 16);
    put_gateway_record(d, 64500, 64501, 64510, 3, 2);
}

static void begin_sample(byte_buffer *d, uint32_t records, bool expanded) {
    flow_sample s = {
        .sequence = 9, .source = 3, .rate = 100, .pool = 4000, .drops = 1, .input = 3, .output = 4};
    sflow_begin(d, 1, (sflow_header){.agent = 0xc0000201, .sequence = 7, .uptime = 1000});
    (expanded ? expanded_sample_begin : flow_sample_begin)(d, records, s);
}

/* Append an IPv4 header and a TCP segment after an Ethernet header. */
static void put_tcp_segment(byte_buffer *d, uint32_t src) {
    put_ipv4(d, (ipv4_header){.tos = 8,
                              .length = 1500,
                              .id = 4660,
                              .fragment = 0x4000,
                              .ttl = 63,
                              .proto = 6,
                              .src = src,
                              .dst = 0x0a000002});
    put_tcp(d, 443, 50000, 0x18);
}

static void build_tcp(byte_buffer *d) {
    begin_sample(d, 4, false);
    size_t record = header_begin(d, 1, 1518);
    put_ethernet(d, 0x020000000001, 0x020000000002, 0x0800);
    put_tcp_segment(d, 0x0a000001);
    header_end(d, record);
    put_records_of_a_router(d);
}

static void build_tagged_udp(byte_buffer *d) {
    begin_sample(d, 2, true);
    size_t record = record_begin(d, 1018);
    put32(d, 5);
    record_end(d, record);
    record = header_begin(d, 1, 90);
    put_ethernet(d, 0x020000000001, 0x020000000002, 0x8100);
    put_vlan(d, 5, 0x88a8), put_vlan(d, 6, 0x0800);
    put_ipv4(d, (ipv4_header){
                    .length = 60, .ttl = 1, .proto = 17, .src = 0x0a000003, .dst = 0x0a000004});
    put16(d, 53), put16(d, 1024), put16(d, 40), put16(d, 0);
    header_end(d, record);
}

static void build_ipv6(byte_buffer *d) {
    begin_sample(d, 2, false);
    put_router_record(d, 0, 0, 300);
    size_t record = header_begin(d, 1, 1000);
    put_ethernet(d, 0x020000000001, 0x020000000002, 0x86dd);
    put_ipv6_header(d, (ipv6_header){.traffic_class = 4,
                                     .payload = 900,
                                     .next = 6,
                                     .hop_limit = 60,
                                     .src = 1,
                                     .dst = 2,
                                     .flow_label = 77});
    put_tcp(d, 80, 1024, 2);
    header_end(d, record);
}

/* The packet is cut before the ICMP code. */
static void build_icmp(byte_buffer *d) {
    begin_sample(d, 1, true);
    size_t record = header_begin(d, 1, 98);
    put_ethernet(d, 0x020000000001, 0x020000000002, 0x0800);
    put_ipv4(d, (ipv4_header){
                    .length = 84, .ttl = 64, .proto = 1, .src = 0x0a000003, .dst = 0x0a000004});
    put16(d, 0x0800);
    header_end(d, record);
    put32(d, 0);
}

void build_plain_sample(byte_buffer *d, unsigned which) {
    static void (*const builders[PLAIN_SAMPLES])(byte_buffer *) = {build_tcp, build_tagged_udp,
                                                                   build_ipv6, build_icmp};
    builders[which](d);
    sample_end(d, FIRST_SAMPLE);
}
