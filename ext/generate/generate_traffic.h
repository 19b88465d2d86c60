/* Random numbers, and the flows drawn from them. Only integers are used, so a seed gives the same
   traffic on every machine. */
#ifndef FB_GENERATE_GENERATE_TRAFFIC_H
#define FB_GENERATE_GENERATE_TRAFFIC_H

#include "core/base/base.h"

#define FB_TRAFFIC_LOCAL_AS   64500u /* AS number of the network that exports the flows */
#define FB_TRAFFIC_INTERFACES 16u    /* per exporter, ifIndex 1 to 16 */

enum {
    FB_PROTO_ICMP = 1,
    FB_PROTO_TCP = 6,
    FB_PROTO_UDP = 17,
    FB_PROTO_ESP = 50,
    FB_PROTO_ICMPV6 = 58
};
enum {
    FB_TCP_FIN = 0x01,
    FB_TCP_SYN = 0x02,
    FB_TCP_RST = 0x04,
    FB_TCP_PSH = 0x08,
    FB_TCP_ACK = 0x10
};

typedef struct {
    uint64_t state;
} fb_random;

/* SplitMix64 (Steele, Lea, Flood 2014). `fb_random_mix` is its finalizer, a hash of one number. */
uint64_t fb_random_mix(uint64_t value);
uint64_t fb_random_next(fb_random *random);
/* Return a uniform number from 0 to bound - 1. REQUIRES: bound > 0. */
uint32_t fb_random_below(fb_random *random, uint32_t bound);
bool fb_random_one_in(fb_random *random, uint32_t n);
/* Return a rank from 0 to 2^bits - 2. The frequency of rank r is about proportional to 1 / (r + 1):
   Zipf's law. REQUIRES: 1 <= bits <= 16. */
uint32_t fb_random_zipf(fb_random *random, uint32_t bits);
/* Return a number from 1 to 2^bits - 1 from a heavy-tailed distribution: it exceeds x with a
   probability of about 1 / x. REQUIRES: 1 <= bits <= 31. */
uint32_t fb_random_tail(fb_random *random, uint32_t bits);

/* One side of a flow, and the routing data of its prefix. */
typedef struct {
    uint8_t address[16]; /* IPv4: the first four bytes */
    uint8_t next_hop[16];
    uint64_t mac;
    uint32_t as;
    uint16_t interface; /* ifIndex */
    uint16_t vlan;
    uint16_t port; /* for ICMP as in NetFlow: 0 at the source, type and code at the destination */
    uint8_t prefix_length;
} fb_traffic_endpoint;

typedef struct {
    fb_traffic_endpoint source;
    fb_traffic_endpoint destination;
    const char *application;
    uint32_t packets;
    uint32_t bytes;       /* bytes of IP packets */
    uint32_t duration;    /* ms from the first packet to the last */
    uint32_t idle;        /* ms from the last packet to the export */
    uint32_t flow_label;  /* IPv6 */
    uint16_t packet_size; /* IP length of its largest packet */
    uint16_t server_port;
    uint8_t protocol;
    uint8_t tcp_flags; /* of all its packets */
    uint8_t tos;
    uint8_t ttl;
    uint8_t end_reason; /* information element 136 */
    bool ipv6;
    bool egress;
    bool dropped;
} fb_traffic_flow;

void fb_traffic_draw(fb_random *random, bool ipv6, fb_traffic_flow *flow);

/* Return the size of the transport header in bytes, or 0 for a protocol without a generated
   header. */
uint16_t fb_traffic_transport_header_size(uint8_t protocol);

#endif
