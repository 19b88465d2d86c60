/* Flows as seen at the edge of a network: few prefixes and hosts carry most of the traffic, and few
   flows are large. All distributions are built from octaves: a random power of two, then uniform
   below it. So they need no floating point and no tables. */
#include "generate/generate_traffic.h"

uint64_t fb_random_mix(uint64_t value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

uint64_t fb_random_next(fb_random *random) {
    random->state += 0x9e3779b97f4a7c15u;
    return fb_random_mix(random->state);
}

uint32_t fb_random_below(fb_random *random, uint32_t bound) {
    return (uint32_t)((fb_random_next(random) >> 32) * bound >> 32);
}

bool fb_random_one_in(fb_random *random, uint32_t n) {
    return fb_random_below(random, n) == 0;
}

static uint32_t draw_in_octave(fb_random *random, uint32_t octave) {
    uint32_t lowest = (uint32_t)1 << octave;
    return lowest + fb_random_below(random, lowest);
}

uint32_t fb_random_zipf(fb_random *random, uint32_t bits) {
    return draw_in_octave(random, fb_random_below(random, bits)) - 1;
}

uint32_t fb_random_tail(fb_random *random, uint32_t bits) {
    uint64_t coins = fb_random_next(random);
    uint32_t octave = 0;
    while (octave + 1 < bits && (coins >> octave & 1)) octave++;
    return draw_in_octave(random, octave);
}

/* Weights add up to 256. Port 0 stands for an ephemeral port. */
static const struct application {
    const char *name;
    uint16_t weight;
    uint8_t protocol;
    uint16_t port;
    uint16_t least_payload;
    uint16_t largest_payload;
} applications[] = {
    {"https", 100, FB_PROTO_TCP, 443, 0, 1440},      {"quic", 44, FB_PROTO_UDP, 443, 30, 1252},
    {"dns", 36, FB_PROTO_UDP, 53, 28, 240},          {"http", 20, FB_PROTO_TCP, 80, 0, 1440},
    {"peer-to-peer", 18, FB_PROTO_UDP, 0, 20, 1400}, {"bulk", 8, FB_PROTO_TCP, 0, 0, 1440},
    {"ssh", 6, FB_PROTO_TCP, 22, 0, 1440},           {"ntp", 5, FB_PROTO_UDP, 123, 48, 48},
    {"smtp", 4, FB_PROTO_TCP, 25, 0, 1440},          {"imaps", 4, FB_PROTO_TCP, 993, 0, 1440},
    {"bgp", 1, FB_PROTO_TCP, 179, 19, 400},          {"esp", 2, FB_PROTO_ESP, 0, 80, 1400},
    {"icmp", 8, FB_PROTO_ICMP, 0, 56, 56},
};

static const struct application *draw_application(fb_random *random) {
    const struct application *application = applications;
    uint32_t ticket = fb_random_below(random, 256);
    while (ticket >= application->weight) ticket -= application++->weight;
    return application;
}

static void write_big_endian(uint8_t *out, uint64_t value, int size) {
    for (int i = size; i-- > 0; value >>= 8) out[i] = (uint8_t)value;
}

/* Write an address of the prefix with this rank.

     IPv4  local 10.0.0.0/8, one /20 per rank; remote 100.64.0.0/10, one /22 per rank
     IPv6  2001:db8:0RRR::/48 and 2001:db8:8RRR::/48, R is the rank */
static void write_address(uint8_t *out, bool ipv6, bool local, uint32_t rank, uint32_t host) {
    if (ipv6) {
        write_big_endian(out, 0x20010db800000000u | (uint64_t)(rank | (local ? 0 : 0x8000u)) << 16,
                         8);
        write_big_endian(out + 8, host, 8);
    } else {
        write_big_endian(out, (local ? 0x0a000000u | rank << 12 : 0x64400000u | rank << 10) | host,
                         4);
    }
}

static void write_next_hop(uint8_t *out, bool ipv6, uint32_t number) {
    if (ipv6) {
        write_big_endian(out, 0x20010db8ffff0000u, 8);
        write_big_endian(out + 8, number, 8);
    } else {
        write_big_endian(out, 0xc6336400u | number, 4); /* 198.51.100.0/24 */
    }
}

/* Everything except address and port depends on the prefix alone, as in a routing table. */
static void draw_endpoint(fb_random *random, bool ipv6, bool local, fb_traffic_endpoint *endpoint) {
    uint32_t rank = fb_random_zipf(random, 10);
    uint32_t host = 1 + fb_random_zipf(random, 7);
    uint64_t facts = fb_random_mix((uint64_t)rank << 1 | local);

    write_address(endpoint->address, ipv6, local, rank, host);
    if (ipv6) endpoint->prefix_length = (uint8_t)(48 + 8 * (facts % 3));
    else endpoint->prefix_length = (uint8_t)((local ? 20 : 22) + facts % 3);
    endpoint->interface = (uint16_t)(1 + (facts >> 8) % FB_TRAFFIC_INTERFACES);
    write_next_hop(endpoint->next_hop, ipv6, endpoint->interface);
    endpoint->vlan = (uint16_t)(100 + (facts >> 16) % 400);
    endpoint->mac = 0x020000000000u | (facts >> 24 & 0xffffff) << 8 | endpoint->interface;
    /* Private AS numbers (RFC 6996); every fourth has 32 bits. */
    uint32_t remote_as = facts >> 63 && facts >> 62 & 1 ? 4200000000u + rank : 64512 + rank;
    endpoint->as = local ? FB_TRAFFIC_LOCAL_AS : remote_as;
    endpoint->port = 0;
}

/* Draw the ports of two hosts; the flow goes from client to server or back. */
static void draw_ports(fb_random *random, const struct application *application,
                       fb_traffic_flow *flow) {
    static const uint16_t icmp_types[] = {0x0800, 0x0000, 0x0301, 0x0303, 0x0b00};
    static const uint16_t icmpv6_types[] = {0x8000, 0x8100, 0x0104, 0x0300, 0x8000};
    flow->server_port = application->port;
    if (application->protocol == FB_PROTO_ESP) return;
    if (application->protocol == FB_PROTO_ICMP) {
        uint32_t i = fb_random_below(random, 5);
        flow->destination.port = flow->ipv6 ? icmpv6_types[i] : icmp_types[i];
        return;
    }
    uint16_t client_port = (uint16_t)(49152 + fb_random_below(random, 16384));
    if (!flow->server_port) flow->server_port = (uint16_t)(10000 + fb_random_zipf(random, 14));
    bool request = fb_random_next(random) & 1;
    flow->source.port = request ? client_port : flow->server_port;
    flow->destination.port = request ? flow->server_port : client_port;
}

uint16_t fb_traffic_transport_header_size(uint8_t protocol) {
    switch (protocol) {
        case FB_PROTO_TCP: return 20;
        case FB_PROTO_UDP:
        case FB_PROTO_ICMP:
        case FB_PROTO_ICMPV6: return 8;
        default: return 0;
    }
}

/* Most packets are small (acknowledgements, requests) or of the maximum size. */
static void draw_volume(fb_random *random, const struct application *application,
                        fb_traffic_flow *flow) {
    uint32_t headers = (flow->ipv6 ? 40u : 20u) + fb_traffic_transport_header_size(flow->protocol);
    uint32_t least = headers + application->least_payload;
    uint32_t largest = headers + application->largest_payload;
    uint32_t choice = fb_random_below(random, 8);
    uint32_t size = least;
    if (choice >= 6) size += fb_random_below(random, largest - least + 1);
    else if (choice >= 3) size = largest;
    uint32_t mean = least + fb_random_below(random, size - least + 1);

    flow->packets = fb_random_tail(random, 21);
    flow->packet_size = (uint16_t)size;
    flow->bytes = size + (flow->packets - 1) * mean; /* below 2^21 * 1500, so it fits */
}

/* A flow ends with its FIN, or waits for the idle timeout of 15 s. It takes at least a millisecond
   per 64 packets. */
static void draw_times(fb_random *random, fb_traffic_flow *flow) {
    enum { IDLE_TIMEOUT = 1, END_OF_FLOW = 3 };
    flow->duration = flow->packets == 1 ? 0 : 1 + fb_random_zipf(random, 16) + flow->packets / 64;
    bool ended = flow->tcp_flags & FB_TCP_FIN;
    flow->end_reason = ended ? END_OF_FLOW : IDLE_TIMEOUT;
    flow->idle = (ended ? 0 : 15000) + fb_random_below(random, 1000);
}

static uint8_t draw_tcp_flags(fb_random *random, uint32_t packets) {
    enum {
        BEGUN = FB_TCP_SYN | FB_TCP_PSH | FB_TCP_ACK,
        WHOLE = BEGUN | FB_TCP_FIN,
        MIDDLE = FB_TCP_PSH | FB_TCP_ACK
    };
    static const uint8_t of_one[] = {FB_TCP_SYN, FB_TCP_SYN, FB_TCP_ACK, FB_TCP_RST | FB_TCP_ACK};
    static const uint8_t of_many[] = {WHOLE, WHOLE, BEGUN, MIDDLE};
    return (packets == 1 ? of_one : of_many)[fb_random_below(random, 4)];
}

void fb_traffic_draw(fb_random *random, bool ipv6, fb_traffic_flow *flow) {
    static const uint8_t service_classes[] = {0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x28, 0xb8};
    const struct application *application = draw_application(random);
    bool outbound = fb_random_next(random) & 1;
    flow->ipv6 = ipv6;
    flow->application = application->name;
    flow->protocol =
        ipv6 && application->protocol == FB_PROTO_ICMP ? FB_PROTO_ICMPV6 : application->protocol;
    draw_endpoint(random, ipv6, outbound, &flow->source);
    draw_endpoint(random, ipv6, !outbound, &flow->destination);
    draw_ports(random, application, flow);
    draw_volume(random, application, flow);
    flow->tcp_flags = flow->protocol == FB_PROTO_TCP ? draw_tcp_flags(random, flow->packets) : 0;
    draw_times(random, flow);

    uint64_t bits = fb_random_next(random);
    flow->flow_label = ipv6 ? (uint32_t)(bits & 0xfffff) : 0;
    flow->tos = service_classes[bits >> 20 & 7];
    flow->ttl = (uint8_t)((bits >> 23 & 1 ? 64 : 128) - (bits >> 24 & 15));
    flow->egress = (bits >> 28 & 3) == 0;
    flow->dropped = (bits >> 32 & 63) == 0;
}
