/* Packets that contain tunnels, written byte by byte as in datagrams.h, whole or cut on request. */
#ifndef FB_TESTS_BUILDERS_TUNNELS_H
#define FB_TESTS_BUILDERS_TUNNELS_H

#include "tests/builders/datagrams.h"

/* Append the inner packet of all tunnels: 10.0.0.1 to 10.0.0.2, TCP, port 80 to 443, 40 bytes. Its
   checksum is correct. */
static inline void put_inside(byte_buffer *d) {
    size_t at = d->size;
    put_ipv4(
        d, (ipv4_header){.length = 40, .ttl = 9, .proto = 6, .src = 0x0a000001, .dst = 0x0a000002});
    patch16(d, at + 10, 0x9dce);
    put_tcp(d, 80, 443, 2);
}

/* Append the same in a frame from 02:00:00:00:00:0a, VLAN 7. */
static inline void put_inside_frame(byte_buffer *d) {
    put_ethernet(d, 0x02000000000b, 0x02000000000a, 0x8100), put_vlan(d, 7, 0x0800);
    put_inside(d);
}

/* Append the outer header of a tunnel from 192.0.2.1 to 198.51.100.2, of unknown length. */
static inline void put_outside(byte_buffer *d, unsigned proto) {
    put_ipv4(d, (ipv4_header){.ttl = 64, .proto = proto, .src = 0xc0000201, .dst = 0xc6336402});
}

static inline void put_udp(byte_buffer *d, unsigned port) {
    put16(d, 50000), put16(d, port), put16(d, 0), put16(d, 0);
}

static inline void put_vxlan_packet(byte_buffer *d) {
    put_outside(d, 17), put_udp(d, 4789), put32(d, 0x08000000), put32(d, 42 << 8);
    put_inside_frame(d);
}

static inline void put_geneve_packet(byte_buffer *d) {
    put_outside(d, 17), put_udp(d, 6081), put32(d, 0x02006558), put32(d, 42 << 8),
        put_repeated(d, 1, 8);
    put_inside_frame(d);
}

static inline void put_gre_packet(byte_buffer *d) {
    put_outside(d, 47), put16(d, 0xb000), put16(d, 0x8847), put32(d, 0), put32(d, 42), put32(d, 1);
    put_mpls(d, 16, 0, 64), put_mpls(d, 17, 1, 64);
    put_inside(d);
}

static inline void put_ipip_packet(byte_buffer *d) {
    put_outside(d, 4);
    put_inside(d);
}

/* Append IPv6 from 2001:db8::1 to 2001:db8::2, and a routing header of type 4 with two segments. */
static inline void put_srv6_packet(byte_buffer *d) {
    put_ipv6_header(d, (ipv6_header){.next = 43, .hop_limit = 64, .src = 1, .dst = 2});
    put8(d, 143), put8(d, 4), put8(d, 4), put8(d, 1), put32(d, 0x01000000), put_ipv6(d, 7),
        put_ipv6(d, 8);
    put_inside_frame(d);
}

/* A packet with a sequence number and two extension headers. */
static inline void put_gtp_packet(byte_buffer *d) {
    put_outside(d, 17), put_udp(d, 2152), put8(d, 0x36), put8(d, 255), put16(d, 0), put32(d, 42);
    put16(d, 5), put8(d, 0), put8(d, 0x85);
    put8(d, 1), put16(d, 0x0009), put8(d, 0x40);
    put8(d, 2), put_repeated(d, 0, 7);
    put_inside(d);
}

/* A frame after two labels and a control word with a sequence number. */
static inline void put_pseudowire(byte_buffer *d) {
    put_ethernet(d, 1, 2, 0x8847), put_mpls(d, 16, 0, 64), put_mpls(d, 17, 1, 64), put32(d, 5);
    put_inside_frame(d);
}

static inline void put_pppoe_frame(byte_buffer *d) {
    put_ethernet(d, 1, 2, 0x8864), put16(d, 0x1100), put16(d, 9), put16(d, 41), put8(d, 0x21);
    put_inside(d);
}

static inline void put_snap_frame(byte_buffer *d) {
    put_ethernet(d, 1, 2, 48), put16(d, 0xaaaa), put8(d, 3), put24(d, 0), put16(d, 0x0800);
    put_inside(d);
}

#endif
