/* Random numbers and the flows drawn from them. Integers only: a seed gives the same traffic on every machine. */
#ifndef FB_GENERATE_TRAFFIC_H
#define FB_GENERATE_TRAFFIC_H

#include "core/base/base.h"

#define FB_TRAFFIC_LOCAL_AS 64500u /* of the network whose routers report */
#define FB_TRAFFIC_INTERFACES 16u /* of every exporter, ifIndex 1 to 16 */

enum { FB_PROTO_ICMP = 1, FB_PROTO_TCP = 6, FB_PROTO_UDP = 17, FB_PROTO_ESP = 50, FB_PROTO_ICMPV6 = 58 };
enum { FB_TCP_FIN = 0x01, FB_TCP_SYN = 0x02, FB_TCP_RST = 0x04, FB_TCP_PSH = 0x08, FB_TCP_ACK = 0x10 };

typedef struct {
    uint64_t state;
} fb_random;

/* SplitMix64 (Steele, Lea, Flood 2014). `fb_random_mix` is its finalizer: a hash of one number. */
uint64_t fb_random_mix(uint64_t value);
uint64_t fb_random_next(fb_random *random);
/* Uniform over 0 … bound - 1. REQUIRES: bound > 0. */
uint32_t fb_random_below(fb_random *random, uint32_t bound);
bool fb_random_one_in(fb_random *random, uint32_t n);
/* A rank from 0 to 2^bits - 2, of which rank r comes up about as often as 1 / (r + 1): Zipf's law.
   REQUIRES: 1 <= bits <= 16. */
uint32_t fb_random_zipf(fb_random *random, uint32_t bits);
/* A number from 1 to 2^bits - 1 that is above x about once in x times: a heavy tail. REQUIRES: 1 <= bits <= 31. */
uint32_t fb_random_tail(fb_random *random, uint32_t bits);

/* One side of a flow, and what the router knows of its prefix. */
typedef struct {
    uint8_t address[16]; /* IPv4: the first four bytes */
    uint8_t next_hop[16];
    uint64_t mac;
    uint32_t as;
    uint16_t interface; /* ifIndex */
    uint16_t vlan;
    uint16_t port; /* ICMP: 0 at the source, type and code at the destination, as NetFlow has it */
    uint8_t prefix_length;
} fb_traffic_endpoint;

typedef struct {
    fb_traffic_endpoint source;
    fb_traffic_endpoint destination;
    const char *application;
    uint32_t packets;
    uint32_t octets;      /* of IP */
    uint32_t duration;    /* ms from the first packet to the last */
    uint32_t idle;        /* ms from the last packet to the export */
    uint32_t flow_label;  /* IPv6 */
    uint16_t packet_size; /* IP length of its largest packet */
    uint16_t server_port;
    uint8_t protocol;
    uint8_t tcp_flags;  /* of all its packets */
    uint8_t tos;
    uint8_t ttl;
    uint8_t end_reason; /* element 136 */
    bool ipv6;
    bool egress;
    bool dropped;
} fb_traffic_flow;

void fb_traffic_draw(fb_random *random, bool ipv6, fb_traffic_flow *flow);

/* Bytes of the transport header: 0 where the protocol has none that is made up here. */
uint16_t fb_traffic_transport_header_size(uint8_t protocol);

#endif
