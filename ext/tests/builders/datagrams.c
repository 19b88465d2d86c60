/* All integers are appended as big-endian words. */
#include "tests/builders/datagrams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put_bytes(byte_buffer *d, const void *data, size_t size) {
    if (size > sizeof d->data - d->size) {
        fprintf(stderr, "a datagram of more than %zu bytes\n", sizeof d->data);
        abort();
    }
    if (size) memcpy(d->data + d->size, data, size);
    d->size += size;
}

static void put_uint(byte_buffer *d, uint64_t value, int size) {
    uint8_t word[8];
    for (int i = 0; i < size; i++) word[i] = (uint8_t)(value >> 8 * (size - 1 - i));
    put_bytes(d, word, (size_t)size);
}

void put8(byte_buffer *d, unsigned value) {
    put_uint(d, value, 1);
}
void put16(byte_buffer *d, unsigned value) {
    put_uint(d, value, 2);
}
void put24(byte_buffer *d, uint32_t value) {
    put_uint(d, value, 3);
}
void put32(byte_buffer *d, uint32_t value) {
    put_uint(d, value, 4);
}
void put48(byte_buffer *d, uint64_t value) {
    put_uint(d, value, 6);
}
void put64(byte_buffer *d, uint64_t value) {
    put_uint(d, value, 8);
}

void put_repeated(byte_buffer *d, unsigned value, size_t count) {
    while (count--) put8(d, value);
}

void put_ipv6(byte_buffer *d, unsigned last) {
    put32(d, 0x20010db8);
    put_repeated(d, 0, 10);
    put16(d, last);
}

static void patch(byte_buffer *d, size_t at, uint64_t value, int size) {
    size_t end = d->size;
    d->size = at;
    put_uint(d, value, size);
    d->size = end;
}

void patch16(byte_buffer *d, size_t at, unsigned value) {
    patch(d, at, value, 2);
}
void patch32(byte_buffer *d, size_t at, uint32_t value) {
    patch(d, at, value, 4);
}

/* NetFlow v5 --------------------------------------------------------------------------------- */

void netflow5_begin(byte_buffer *d, unsigned count, netflow5_header header) {
    d->size = 0;
    put16(d, 5), put16(d, count);
    put32(d, header.uptime), put32(d, header.seconds), put32(d, header.nanoseconds),
        put32(d, header.sequence);
    put8(d, header.engine_type), put8(d, header.engine_id), put16(d, header.sampling);
}

void put_netflow5(byte_buffer *d, netflow5_record record) {
    put32(d, record.src), put32(d, record.dst), put32(d, record.next_hop);
    put16(d, record.input), put16(d, record.output);
    put32(d, record.packets), put32(d, record.bytes), put32(d, record.first), put32(d, record.last);
    put16(d, record.src_port), put16(d, record.dst_port);
    put8(d, 0), put8(d, record.tcp_flags), put8(d, record.proto), put8(d, record.tos);
    put16(d, record.src_as), put16(d, record.dst_as);
    put8(d, record.src_mask), put8(d, record.dst_mask), put16(d, 0);
}

void netflow1_begin(byte_buffer *d, unsigned count, netflow5_header header) {
    d->size = 0;
    put16(d, 1), put16(d, count);
    put32(d, header.uptime), put32(d, header.seconds), put32(d, header.nanoseconds);
}

void put_netflow1(byte_buffer *d, netflow5_record record, size_t size) {
    size_t begin = d->size;
    put32(d, record.src), put32(d, record.dst), put32(d, record.next_hop);
    put16(d, record.input), put16(d, record.output);
    put32(d, record.packets), put32(d, record.bytes), put32(d, record.first), put32(d, record.last);
    put16(d, record.src_port), put16(d, record.dst_port), put16(d, 0xffff);
    put8(d, record.proto), put8(d, record.tos), put8(d, record.tcp_flags);
    put_repeated(d, 0xff, begin + size - d->size); /* padding that must not be read */
}

void netflow7_begin(byte_buffer *d, unsigned count, netflow5_header header) {
    d->size = 0;
    put16(d, 7), put16(d, count);
    put32(d, header.uptime), put32(d, header.seconds), put32(d, header.nanoseconds),
        put32(d, header.sequence);
    put32(d, 0xffffffff); /* reserved */
}

void put_netflow7(byte_buffer *d, netflow5_record record, unsigned flags, uint32_t router) {
    put_netflow5(d, record);
    d->data[d->size - 12] = (uint8_t)flags;
    put32(d, router);
}

/* NetFlow v9 and IPFIX ----------------------------------------------------------------------- */

void netflow9_begin(byte_buffer *d, netflow9_header header) {
    d->size = 0;
    put16(d, 9), put16(d, 0); /* the count is wrong; decoders must not use it */
    put32(d, header.uptime), put32(d, header.seconds), put32(d, header.sequence),
        put32(d, header.source_id);
}

void ipfix_begin(byte_buffer *d, ipfix_header header) {
    d->size = 0;
    put16(d, 10), put16(d, 0);
    put32(d, header.seconds), put32(d, header.sequence), put32(d, header.domain);
}

void ipfix_end(byte_buffer *d) {
    patch16(d, 2, (unsigned)d->size);
}

size_t set_begin(byte_buffer *d, unsigned id) {
    put16(d, id), put16(d, 0);
    return d->size - 4;
}

void set_end(byte_buffer *d, size_t set) {
    patch16(d, set + 2, (unsigned)(d->size - set));
}

static void put_specifiers(byte_buffer *d, const specifier *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put16(d, fields[i].id | (fields[i].pen ? 0x8000 : 0)), put16(d, fields[i].size);
        if (fields[i].pen) put32(d, fields[i].pen);
    }
}

void put_template(byte_buffer *d, unsigned id, const specifier *fields, size_t count) {
    put16(d, id), put16(d, (unsigned)count);
    put_specifiers(d, fields, count);
}

void put_options_template(byte_buffer *d, unsigned id, unsigned scopes, const specifier *fields,
                          size_t count) {
    put16(d, id), put16(d, (unsigned)count), put16(d, scopes);
    put_specifiers(d, fields, count);
}

void put_options_template9(byte_buffer *d, unsigned id, unsigned scopes, const specifier *fields,
                           size_t count) {
    put16(d, id), put16(d, scopes * 4), put16(d, ((unsigned)count - scopes) * 4);
    put_specifiers(d, fields, count);
}

void put_sampling_rate(byte_buffer *d, uint32_t sampler, uint32_t rate) {
    size_t set = set_begin(d, 3);
    put_options_template(d, 300, 1, FIELDS({302, 4}, {34, 4}));
    set_end(d, set);
    set = set_begin(d, 300);
    put32(d, sampler), put32(d, rate);
    set_end(d, set);
}

void put_variable(byte_buffer *d, const void *data, size_t size, int wide) {
    if (wide) put8(d, 255), put16(d, (unsigned)size);
    else put8(d, (unsigned)size);
    put_bytes(d, data, size);
}

/* sFlow -------------------------------------------------------------------------------------- */

void sflow_begin(byte_buffer *d, uint32_t samples, sflow_header header) {
    d->size = 0;
    put32(d, 5);
    if (header.agent) {
        put32(d, 1), put32(d, header.agent);
    } else {
        put32(d, 2), put_ipv6(d, 1);
    }
    put32(d, header.sub_agent), put32(d, header.sequence), put32(d, header.uptime),
        put32(d, samples);
}

size_t sample_begin(byte_buffer *d, uint32_t format) {
    put32(d, format), put32(d, 0);
    return d->size;
}

void sample_end(byte_buffer *d, size_t sample) {
    patch32(d, sample - 4, (uint32_t)(d->size - sample));
}

size_t flow_sample_begin(byte_buffer *d, uint32_t records, flow_sample s) {
    size_t sample = sample_begin(d, 1);
    put32(d, s.sequence), put32(d, s.source), put32(d, s.rate), put32(d, s.pool), put32(d, s.drops);
    put32(d, s.input), put32(d, s.output), put32(d, records);
    return sample;
}

static void put_interface(byte_buffer *d, uint32_t interface) {
    put32(d, interface >> 30), put32(d, interface & 0x3fffffff);
}

size_t expanded_sample_begin(byte_buffer *d, uint32_t records, flow_sample s) {
    size_t sample = sample_begin(d, 3);
    put32(d, s.sequence), put32(d, 0), put32(d, s.source), put32(d, s.rate), put32(d, s.pool),
        put32(d, s.drops);
    put_interface(d, s.input), put_interface(d, s.output), put32(d, records);
    return sample;
}

size_t record_begin(byte_buffer *d, uint32_t format) {
    return sample_begin(d, format);
}

void record_end(byte_buffer *d, size_t record) {
    while ((d->size - record) % 4) put8(d, 0);
    sample_end(d, record);
}

size_t header_begin(byte_buffer *d, uint32_t protocol, uint32_t frame_length) {
    size_t record = record_begin(d, 1);
    put32(d, protocol), put32(d, frame_length), put32(d, 4), put32(d, 0);
    return record;
}

void header_end(byte_buffer *d, size_t record) {
    patch32(d, record + 12, (uint32_t)(d->size - record - 16));
    record_end(d, record);
}

void put_switch_record(byte_buffer *d, uint32_t src_vlan, uint32_t dst_vlan) {
    size_t record = record_begin(d, 1001);
    put32(d, src_vlan), put32(d, 1), put32(d, dst_vlan), put32(d, 2);
    record_end(d, record);
}

void put_router_record(byte_buffer *d, uint32_t next_hop, uint32_t src_mask, uint32_t dst_mask) {
    size_t record = record_begin(d, 1002);
    put32(d, 1), put32(d, next_hop), put32(d, src_mask), put32(d, dst_mask);
    record_end(d, record);
}

void put_gateway_record(byte_buffer *d, uint32_t own_as, uint32_t src_as, uint32_t first_as,
                        uint32_t hops, uint32_t communities) {
    size_t record = record_begin(d, 1003);
    put32(d, 1), put32(d, 0xc6336401);
    put32(d, own_as), put32(d, src_as), put32(d, 0);
    put32(d, 2);
    for (uint32_t hop = 0; hop < hops; hop++) {
        if (hop == 0) put32(d, 2), put32(d, (hops + 1) / 2);
        if (hop == (hops + 1) / 2) put32(d, 1), put32(d, hops / 2);
        put32(d, first_as + hop);
    }
    for (uint32_t segment = hops; segment < 2; segment++) put32(d, 1), put32(d, 0);
    put32(d, communities);
    for (uint32_t i = 0; i < communities; i++) put32(d, 0xfde80000u + i);
    put32(d, 100);
    record_end(d, record);
}

void put_ipv4_record(byte_buffer *d, uint32_t src, uint32_t dst) {
    size_t record = record_begin(d, 3);
    put32(d, 1400), put32(d, 17), put32(d, src), put32(d, dst);
    put32(d, 1024), put32(d, 53), put32(d, 0), put32(d, 8);
    record_end(d, record);
}

void put_ethernet_record(byte_buffer *d, uint32_t length, uint64_t src, uint64_t dst,
                         uint32_t type) {
    size_t record = record_begin(d, 2);
    put32(d, length);
    put48(d, src), put16(d, 0), put48(d, dst), put16(d, 0);
    put32(d, type);
    record_end(d, record);
}

/* Packets ------------------------------------------------------------------------------------ */

void put_ethernet(byte_buffer *d, uint64_t dst, uint64_t src, unsigned type) {
    put48(d, dst), put48(d, src), put16(d, type);
}

void put_vlan(byte_buffer *d, unsigned id, unsigned type) {
    put16(d, 0xe000 | id), put16(d, type);
}

void put_mpls(byte_buffer *d, uint32_t label, unsigned bottom, unsigned ttl) {
    put32(d, label << 12 | bottom << 8 | ttl);
}

void put_ipv4(byte_buffer *d, ipv4_header h) {
    put8(d, 0x45 + h.option_words), put8(d, h.tos), put16(d, h.length), put16(d, h.id),
        put16(d, h.fragment);
    put8(d, h.ttl), put8(d, h.proto), put16(d, 0), put32(d, h.src), put32(d, h.dst);
    put_repeated(d, 1, 4 * h.option_words);
}

void put_ipv6_header(byte_buffer *d, ipv6_header h) {
    put32(d, 6u << 28 | h.traffic_class << 20 | h.flow_label), put16(d, h.payload), put8(d, h.next),
        put8(d, h.hop_limit);
    put_ipv6(d, h.src), put_ipv6(d, h.dst);
}

void put_tcp(byte_buffer *d, unsigned src_port, unsigned dst_port, unsigned flags) {
    put16(d, src_port), put16(d, dst_port), put64(d, 1), put16(d, 0x5000 | flags), put16(d, 100),
        put32(d, 0);
}
