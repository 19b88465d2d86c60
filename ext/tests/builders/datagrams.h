/* Builders of datagrams for tests, byte by byte: NetFlow v5, v9, IPFIX, sFlow and the packets
   inside. They share no code with the decoders. Any length may be wrong: patch16 and patch32
   overwrite the value that an `end` function wrote.

   Usage:
     byte_buffer d = {.size = 0};
     ipfix_begin(&d, (ipfix_header){.seconds = 1000});
     size_t set = set_begin(&d, 2);
     put_template(&d, 256, FIELDS({8, 4}, {1, 8}));
     set_end(&d, set);
     ipfix_end(&d); */
#ifndef FB_TESTS_BUILDERS_DATAGRAMS_H
#define FB_TESTS_BUILDERS_DATAGRAMS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t data[65536];
    size_t size;
} byte_buffer;

void put8(byte_buffer *d, unsigned value);
void put16(byte_buffer *d, unsigned value);
void put24(byte_buffer *d, uint32_t value);
void put32(byte_buffer *d, uint32_t value);
void put48(byte_buffer *d, uint64_t value);
void put64(byte_buffer *d, uint64_t value);
void put_bytes(byte_buffer *d, const void *data, size_t size);
void put_repeated(byte_buffer *d, unsigned value, size_t count);
/* Append the 16 bytes of 2001:db8::`last`. */
void put_ipv6(byte_buffer *d, unsigned last);
void patch16(byte_buffer *d, size_t at, unsigned value);
void patch32(byte_buffer *d, size_t at, uint32_t value);

/* NetFlow v5 */

typedef struct {
    uint32_t uptime, seconds, nanoseconds, sequence;
    unsigned engine_type, engine_id, sampling; /* sampling mode in the top two bits */
} netflow5_header;

typedef struct {
    uint32_t src, dst, next_hop;
    unsigned input, output;
    uint32_t packets, bytes, first, last;
    unsigned src_port, dst_port, tcp_flags, proto, tos, src_as, dst_as, src_mask, dst_mask;
} netflow5_record;

void netflow5_begin(byte_buffer *d, unsigned count, netflow5_header header);
void put_netflow5(byte_buffer *d, netflow5_record record);

/* NetFlow v1 has no sequence number and no engine. Its records have `size` bytes. NetFlow v7 has no
   engine. */
void netflow1_begin(byte_buffer *d, unsigned count, netflow5_header header);
void put_netflow1(byte_buffer *d, netflow5_record record, size_t size);
void netflow7_begin(byte_buffer *d, unsigned count, netflow5_header header);
void put_netflow7(byte_buffer *d, netflow5_record record, unsigned flags, uint32_t router);

/* NetFlow v9 and IPFIX. A `begin` function returns the argument of its `end` function. */

typedef struct {
    uint32_t uptime, seconds, sequence, source_id;
} netflow9_header;

typedef struct {
    uint32_t seconds, sequence, domain;
} ipfix_header;

void netflow9_begin(byte_buffer *d, netflow9_header header);
void ipfix_begin(byte_buffer *d, ipfix_header header);
void ipfix_end(byte_buffer *d);

size_t set_begin(byte_buffer *d, unsigned id);
void set_end(byte_buffer *d, size_t set);

/* An IPFIX field specifier. An enterprise number of 0 is not written. */
typedef struct {
    unsigned id, size;
    uint32_t pen;
} specifier;

enum { VARIABLE = 65535 };

#define FIELDS(...) \
    (const specifier[]){__VA_ARGS__}, sizeof((const specifier[]){__VA_ARGS__}) / sizeof(specifier)

void put_template(byte_buffer *d, unsigned id, const specifier *fields, size_t count);
/* Append an options template, whose first `scopes` fields are the scope. */
void put_options_template(byte_buffer *d, unsigned id, unsigned scopes, const specifier *fields,
                          size_t count);
void put_options_template9(byte_buffer *d, unsigned id, unsigned scopes, const specifier *fields,
                           size_t count);
/* Append two sets of IPFIX: options template 300, and the sampling rate of a selectorId. */
void put_sampling_rate(byte_buffer *d, uint32_t sampler, uint32_t rate);
/* Append a variable-length field. Its length takes 1 byte, or 3 if `wide`. */
void put_variable(byte_buffer *d, const void *data, size_t size, int wide);

/* sFlow */

typedef struct {
    uint32_t agent; /* IPv4; 0: 2001:db8::1 */
    uint32_t sub_agent, sequence, uptime;
} sflow_header;

void sflow_begin(byte_buffer *d, uint32_t samples, sflow_header header);

typedef struct {
    uint32_t sequence, source, rate, pool, drops, input, output;
} flow_sample;

size_t sample_begin(byte_buffer *d, uint32_t format);
void sample_end(byte_buffer *d, size_t sample);
size_t flow_sample_begin(byte_buffer *d, uint32_t records, flow_sample sample);
/* Begin an expanded sample. Input and output are format << 30 | value, as in a compact sample, and
   are written as two words. */
size_t expanded_sample_begin(byte_buffer *d, uint32_t records, flow_sample sample);

/* Begin a record. record_end pads it to a multiple of four bytes. */
size_t record_begin(byte_buffer *d, uint32_t format);
void record_end(byte_buffer *d, size_t record);
/* Begin a sampled header; its packet follows. `protocol`: 1 Ethernet, 11 IPv4, 12 IPv6, 13 MPLS. */
size_t header_begin(byte_buffer *d, uint32_t protocol, uint32_t frame_length);
void header_end(byte_buffer *d, size_t record);

void put_switch_record(byte_buffer *d, uint32_t src_vlan, uint32_t dst_vlan);
void put_router_record(byte_buffer *d, uint32_t next_hop, uint32_t src_mask, uint32_t dst_mask);
/* Append a gateway record. Its AS path has `hops` AS numbers from `first_as` on, split into two
   segments. */
void put_gateway_record(byte_buffer *d, uint32_t own_as, uint32_t src_as, uint32_t first_as,
                        uint32_t hops, uint32_t communities);
void put_ipv4_record(byte_buffer *d, uint32_t src, uint32_t dst);
void put_ethernet_record(byte_buffer *d, uint32_t length, uint64_t src, uint64_t dst,
                         uint32_t type);

/* Packets */

void put_ethernet(byte_buffer *d, uint64_t dst, uint64_t src, unsigned type);
void put_vlan(byte_buffer *d, unsigned id, unsigned type);
void put_mpls(byte_buffer *d, uint32_t label, unsigned bottom, unsigned ttl);
typedef struct {
    unsigned tos, length, id, fragment, ttl, proto;
    uint32_t src, dst;
    unsigned option_words;
} ipv4_header;
void put_ipv4(byte_buffer *d, ipv4_header header);
typedef struct {
    unsigned traffic_class, payload, next, hop_limit, src, dst;
    uint32_t flow_label;
} ipv6_header;
void put_ipv6_header(byte_buffer *d, ipv6_header header);
void put_tcp(byte_buffer *d, unsigned src_port, unsigned dst_port, unsigned flags);

#endif
