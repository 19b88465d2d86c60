#include "tests/builders/samples.h"

#include "tests/builders/tunnels.h"

#include <string.h>

static void build_netflow5(byte_buffer *d) {
    netflow5_begin(
        d, 2,
        (netflow5_header){
            .uptime = 60000, .seconds = 1000, .sequence = 7, .engine_id = 3, .sampling = 0x4064});
    put_netflow5(d, (netflow5_record){.src = 0x0a000001,
                                      .dst = 0x0a000002,
                                      .next_hop = 0x0a0000fe,
                                      .input = 3,
                                      .output = 4,
                                      .packets = 10,
                                      .bytes = 1500,
                                      .first = 50000,
                                      .last = 59000,
                                      .src_port = 51000,
                                      .dst_port = 443,
                                      .tcp_flags = 0x1b,
                                      .proto = 6,
                                      .src_as = 64500,
                                      .dst_as = 64501,
                                      .src_mask = 24,
                                      .dst_mask = 16});
    put_netflow5(d, (netflow5_record){.src = 0x0a000003,
                                      .dst = 0x0a000004,
                                      .packets = 1,
                                      .bytes = 84,
                                      .first = 0xffffffff,
                                      .dst_port = 0x0800,
                                      .proto = 1});
}

static void build_netflow9(byte_buffer *d) {
    netflow9_begin(
        d, (netflow9_header){.uptime = 60000, .seconds = 1000, .sequence = 8, .source_id = 5});
    size_t set = set_begin(d, 0);
    put_template(d, 256,
                 FIELDS({8, 4}, {12, 4}, {7, 2}, {11, 2}, {4, 1}, {1, 4}, {2, 4}, {22, 4}, {61, 1},
                        {48, 1}, {9, 1}));
    set_end(d, set);
    set = set_begin(d, 1);
    put_options_template9(d, 257, 1, FIELDS({1, 4}, {48, 1}, {50, 4}));
    set_end(d, set);
    set = set_begin(d, 257);
    put32(d, 1), put8(d, 2), put32(d, 512), put_repeated(d, 0, 3);
    set_end(d, set);
    set = set_begin(d, 256);
    put32(d, 0xc0000210), put32(d, 0xc0000211), put16(d, 1234), put16(d, 53), put8(d, 17),
        put32(d, 300), put32(d, 3);
    put32(d, 61000), put8(d, 0), put8(d, 2), put8(d, 20);
    put32(d, 0xc0000212), put32(d, 0), put16(d, 0), put16(d, 0x0301), put8(d, 1), put32(d, 64),
        put32(d, 1);
    put32(d, 59999), put8(d, 1), put8(d, 9), put8(d, 0);
    put_repeated(d, 0, 3);
    set_end(d, set);
}

static void build_ipfix(byte_buffer *d) {
    ipfix_begin(d, (ipfix_header){.seconds = 1000, .sequence = 9, .domain = 6});
    size_t set = set_begin(d, 3);
    put_options_template(d, 400, 1, FIELDS({302, 8}, {305, 4}, {306, 4}, {160, 8}));
    set_end(d, set);
    set = set_begin(d, 400);
    put64(d, 77), put32(d, 2), put32(d, 198), put64(d, 900000);
    set_end(d, set);
    set = set_begin(d, 2);
    put_template(d, 300,
                 FIELDS({27, 16}, {28, 16}, {1, 3}, {2, 1}, {82, VARIABLE}, {137, 2, 2636}, {1, 4},
                        {22, 4}, {70, 3}, {71, 3}, {72, 3}));
    set_end(d, set);
    set = set_begin(d, 300);
    put_ipv6(d, 1), put_ipv6(d, 2), put24(d, 70000), put8(d, 50), put_variable(d, "eth0\0", 5, 0),
        put16(d, 0x0800);
    put32(d, 1), put32(d, 5000), put24(d, 0x000100), put24(d, 0), put24(d, 0x000201);
    put_ipv6(d, 3), put_ipv6(d, 4), put24(d, 1), put8(d, 1), put_variable(d, "\xff\xe2\x82x", 4, 1),
        put16(d, 0x0801);
    put32(d, 0), put32(d, 6000), put24(d, 0x000101), put24(d, 0x000900), put24(d, 0);
    set_end(d, set);
    ipfix_end(d);
}

/* Records of flows and options of variable length before their templates. They are decoded when the
   templates have arrived. */
static void build_pending_sets(byte_buffer *d) {
    ipfix_begin(d, (ipfix_header){.seconds = 1000, .sequence = 12, .domain = 7});
    for (unsigned i = 0; i < 2; i++) {
        size_t data = set_begin(d, 310);
        put32(d, 1000 + i), put_variable(d, "eth1", 4, i != 0), put32(d, 5000);
        put32(d, 2000 + i), put_variable(d, "", 0, 0), put32(d, 6000);
        set_end(d, data);
        data = set_begin(d, 410);
        put32(d, 1), put32(d, 64), put64(d, 900000);
        set_end(d, data);
    }
    size_t set = set_begin(d, 3);
    put_options_template(d, 410, 1, FIELDS({302, 4}, {34, 4}, {160, 8}));
    set_end(d, set);
    set = set_begin(d, 2);
    put_template(d, 310, FIELDS({1, 4}, {82, VARIABLE}, {22, 4}));
    set_end(d, set);
    set = set_begin(d, 310);
    put32(d, 3000), put_variable(d, "eth2", 4, 0), put32(d, 7000);
    set_end(d, set);
    ipfix_end(d);
}

/* Append a basicList of `members` members of 4 bytes. */
static void put_list(byte_buffer *d, unsigned semantic, unsigned id, uint32_t first,
                     uint32_t members) {
    byte_buffer list = {.size = 0};
    put8(&list, semantic), put16(&list, id), put16(&list, 4);
    for (uint32_t i = 0; i < members; i++) put32(&list, first + i);
    put_variable(d, list.data, list.size, 1);
}

/* Two records of both directions. The second has no reverse packets. */
static void build_ipfix_biflow(byte_buffer *d) {
    ipfix_begin(d, (ipfix_header){.seconds = 1000, .sequence = 12});
    size_t set = set_begin(d, 2);
    put_template(d, 302,
                 FIELDS({8, 4}, {12, 4}, {7, 2}, {11, 2}, {10, 4}, {4, 1}, {1, 8}, {2, 4}, {6, 1},
                        {15, 4}, {485, VARIABLE}, {1, 8, 29305}, {2, 4, 29305}, {6, 1, 29305},
                        {512, VARIABLE}, {82, VARIABLE}));
    set_end(d, set);
    set = set_begin(d, 302);
    put32(d, 0x0a000001), put32(d, 0x0a000002), put16(d, 40000), put16(d, 25), put32(d, 10),
        put8(d, 6), put64(d, 21673);
    put32(d, 28), put8(d, 0x1a), put32(d, 0x0a0000fe), put_list(d, 3, 483, 0xfde80001, 2);
    put64(d, 1546), put32(d, 25), put8(d, 0x1b), put_list(d, 4, 17, 64500, 3),
        put_variable(d, "eth1", 4, 0);
    put32(d, 0x0a000003), put32(d, 0x0a0000ff), put16(d, 138), put16(d, 138), put32(d, 10),
        put8(d, 17), put64(d, 229);
    put32(d, 1), put8(d, 0), put32(d, 0), put_list(d, 0, 483, 1, 1), put64(d, 0), put32(d, 0),
        put8(d, 0);
    put_variable(d, "\4\0\21\0\4\0\0\1\2\3", 10, 0), put_variable(d, "", 0, 0);
    set_end(d, set);
    ipfix_end(d);
}

/* Nested records as YAF sends them: of one template, of two, and one level deeper. */
static void build_ipfix_structures(byte_buffer *d) {
    byte_buffer inner = {.size = 0}, list = {.size = 0}, lists = {.size = 0};
    ipfix_begin(d, (ipfix_header){.seconds = 1000, .sequence = 14});
    size_t set = set_begin(d, 2);
    put_template(d, 300, FIELDS({7, 2}, {1, 4}, {33, 1}));
    put_template(d, 301, FIELDS({82, VARIABLE}, {485, VARIABLE}, {292, VARIABLE}));
    put_template(d, 302, FIELDS({12, 4}, {292, VARIABLE}, {293, VARIABLE}));
    set_end(d, set);
    put8(&inner, 3), put16(&inner, 300), put16(&inner, 53), put32(&inner, 60), put8(&inner, 9);
    put8(&list, 4), put16(&list, 300);
    for (unsigned i = 0; i < 2; i++) put16(&list, 80 * i), put32(&list, 1000 + i), put8(&list, 9);
    put8(&lists, 3);
    for (unsigned i = 0; i < 2; i++) {
        size_t part = lists.size;
        put16(&lists, 301), put16(&lists, 0);
        put_variable(&lists, i ? "eth4" : "eth3", 4, i), put_list(&lists, 3, 483, 16 * i + 1, 2);
        put_variable(&lists, inner.data, inner.size, 0);
        patch16(&lists, part + 2, (unsigned)(lists.size - part));
    }
    put16(&lists, 300), put16(&lists, 11), put16(&lists, 443), put32(&lists, 70), put8(&lists, 9);
    set = set_begin(d, 302);
    put32(d, 0x0a000009), put_variable(d, list.data, list.size, 0),
        put_variable(d, lists.data, lists.size, 1);
    set_end(d, set);
    ipfix_end(d);
}

/* Records of a firewall: counters of both directions, and no counters when a flow is created. */
static void build_netflow9_firewall(byte_buffer *d) {
    netflow9_begin(d, (netflow9_header){.uptime = 60000, .seconds = 1000, .sequence = 13});
    size_t set = set_begin(d, 0);
    put_template(d, 256,
                 FIELDS({8, 4}, {12, 4}, {7, 2}, {11, 2}, {10, 2}, {14, 2}, {4, 1}, {231, 4},
                        {232, 4}, {298, 4}, {299, 4}));
    set_end(d, set);
    set = set_begin(d, 256);
    put32(d, 0x0a000001), put32(d, 0x0a000002), put16(d, 40000), put16(d, 443), put16(d, 3),
        put16(d, 4), put8(d, 6);
    put32(d, 0), put32(d, 0), put32(d, 0), put32(d, 0);
    put32(d, 0x0a000001), put32(d, 0x0a000002), put16(d, 40000), put16(d, 443), put16(d, 3),
        put16(d, 4), put8(d, 6);
    put32(d, 0), put32(d, 900), put32(d, 0), put32(d, 7);
    set_end(d, set);
}

static void put_tagged_frame(byte_buffer *d) {
    put_ethernet(d, 0x020000000001, 0x020000000002, 0x88a8);
    put_vlan(d, 100, 0x8100), put_vlan(d, 200, 0x8847);
    put_mpls(d, 16, 0, 64), put_mpls(d, 17, 1, 63);
    put_ipv4(d, (ipv4_header){.tos = 8,
                              .length = 600,
                              .id = 99,
                              .fragment = 0x4000,
                              .ttl = 61,
                              .proto = 6,
                              .src = 0x0a010203,
                              .dst = 0x0a010204,
                              .option_words = 1});
    put_tcp(d, 2000, 179, 0x18);
}

static void build_ipfix_frame(byte_buffer *d) {
    ipfix_begin(d, (ipfix_header){.seconds = 2000, .sequence = 1});
    size_t set = set_begin(d, 2);
    put_template(d, 301, FIELDS({10, 4}, {312, 2}, {315, VARIABLE}, {306, 4}, {305, 4}));
    set_end(d, set);
    set = set_begin(d, 301);
    byte_buffer frame = {.size = 0};
    put_tagged_frame(&frame);
    put32(d, 5), put16(d, 640), put_variable(d, frame.data, frame.size, 0), put32(d, 999),
        put32(d, 1);
    set_end(d, set);
    ipfix_end(d);
}

static void build_sflow(byte_buffer *d) {
    sflow_begin(
        d, 4, (sflow_header){.agent = 0xc6336401, .sub_agent = 2, .sequence = 10, .uptime = 1000});
    size_t sample = flow_sample_begin(
        d, 5,
        (flow_sample){
            .sequence = 1, .source = 3, .rate = 1024, .pool = 9, .input = 3, .output = 0x3fffffff});
    put_switch_record(d, 10, 0xffffffff);
    put_router_record(d, 0x0a0000fd, 24, 16);
    put_gateway_record(d, 64500, 0, 64510, 3, 2);
    size_t record = header_begin(d, 1, 118);
    put_ethernet(d, 0x020000000001, 0x020000000002, 0x86dd);
    put_ipv6_header(
        d, (ipv6_header){
               .traffic_class = 4, .payload = 60, .next = 0, .hop_limit = 64, .src = 8, .dst = 9});
    put8(d, 44), put8(d, 0), put_repeated(d, 1, 6);
    put8(d, 6), put8(d, 0), put16(d, 1), put32(d, 777);
    put_tcp(d, 5000, 80, 2);
    header_end(d, record);
    record = record_begin(d, 4242);
    put32(d, 1);
    record_end(d, record);
    sample_end(d, sample);
    sample = sample_begin(d, 2);
    put_repeated(d, 0, 12);
    sample_end(d, sample);
    sample = sample_begin(d, 5);
    put_repeated(d, 0, 8);
    sample_end(d, sample);
    sample = flow_sample_begin(d, 0, (flow_sample){.sequence = 2, .rate = 2048, .output = 5});
    sample_end(d, sample);
}

static void build_sflow_records(byte_buffer *d) {
    sflow_begin(d, 1, (sflow_header){.sequence = 11});
    size_t sample = expanded_sample_begin(
        d, 2,
        (flow_sample){
            .sequence = 1, .source = 3, .rate = 512, .input = 70000, .output = 1u << 30 | 258});
    put_ethernet_record(d, 1418, 0x020000000003, 0x020000000004, 0x0800);
    put_ipv4_record(d, 0x0a000005, 0x0a000006);
    sample_end(d, sample);
}

static void put_string(byte_buffer *d, const char *string) {
    size_t size = strlen(string);
    put32(d, (uint32_t)size), put_bytes(d, string, size), put_repeated(d, 0, (4 - size % 4) % 4);
}

static void put_interface_counters(byte_buffer *d) {
    size_t record = record_begin(d, 1);
    put32(d, 7), put32(d, 6), put64(d, 10000000000), put32(d, 1), put32(d, 3);
    for (unsigned direction = 0; direction < 2; direction++) {
        put64(d, 0x100000000 + direction);
        for (unsigned i = 0; i < (direction ? 4 : 5); i++) put32(d, 10 * direction + i);
        put32(d, direction ? 0 : 0xffffffff);
    }
    put32(d, 2);
    record_end(d, record);
    record = record_begin(d, 2);
    for (unsigned i = 0; i < 13; i++) put32(d, i);
    record_end(d, record);
    record = record_begin(d, 1005);
    put_string(d, "swp1");
    record_end(d, record);
}

static void put_module_counters(byte_buffer *d) {
    size_t record = record_begin(d, 7);
    put48(d, 0x020000000011), put16(d, 0), put48(d, 0x020000000012), put16(d, 0), put32(d, 5),
        put32(d, 0x3d3d3f3f);
    for (unsigned i = 0; i < 8; i++) put32(d, i);
    record_end(d, record);
    record = record_begin(d, 10);
    put32(d, 1), put32(d, 4), put32(d, 3300), put32(d, (uint32_t)-1500), put32(d, 2);
    for (unsigned lane = 1; lane < 3; lane++)
        for (unsigned i = 0; i < 10; i++) put32(d, i ? 100 * lane + i : lane);
    record_end(d, record);
}

static void put_host_counters(byte_buffer *d) {
    size_t record = record_begin(d, 2000);
    put_string(d, "leaf1"), put64(d, 0x0011223344556677), put64(d, 0x8899aabbccddeeff), put32(d, 3),
        put32(d, 2);
    put_string(d, "6.1.0");
    record_end(d, record);
    record = record_begin(d, 2001);
    put32(d, 2), put32(d, 1), put32(d, 0), put32(d, 2), put32(d, 2);
    put48(d, 0x020000000021), put16(d, 0), put48(d, 0x020000000022), put16(d, 0);
    record_end(d, record);
    record = record_begin(d, 2003);
    put32(d, 0x3f000000); /* 0.5 */
    for (unsigned i = 1; i < 17; i++) put32(d, i < 3 ? 0xbf800000 : i);
    record_end(d, record);
}

static void put_discarded_packet(byte_buffer *d) {
    size_t sample = sample_begin(d, 5), record;
    put32(d, 77), put32(d, 0), put32(d, 5), put32(d, 2), put32(d, 5), put32(d, 0), put32(d, 258),
        put32(d, 6);
    record = header_begin(d, 1, 64);
    put_ethernet(d, 0x020000000001, 0x020000000002, 0x0800);
    put_ipv4(
        d, (ipv4_header){.length = 40, .ttl = 1, .proto = 6, .src = 0x0a000001, .dst = 0x0a000002});
    put_tcp(d, 1234, 22, 2);
    header_end(d, record);
    record = record_begin(d, 1036);
    put32(d, 0);
    record_end(d, record);
    record = record_begin(d, 1037);
    put32(d, 9), put_string(d, "deny-all"), put32(d, 1);
    record_end(d, record);
    record = record_begin(d, 1038);
    put_string(d, "nf_hook_slow");
    record_end(d, record);
    record = record_begin(d, 1041);
    put_string(d, "acl_drops"), put_string(d, "ingress_flow_action_drop");
    record_end(d, record);
    record = record_begin(d, 1042);
    put_string(d, "NETFILTER_DROP");
    record_end(d, record);
    sample_end(d, sample);
}

static void build_sflow_counters(byte_buffer *d) {
    sflow_begin(
        d, 4, (sflow_header){.agent = 0xc6336401, .sub_agent = 2, .sequence = 12, .uptime = 1000});
    size_t sample = flow_sample_begin(d, 0, (flow_sample){.sequence = 3, .rate = 4096, .input = 7});
    sample_end(d, sample);
    sample = sample_begin(d, 2);
    put32(d, 5), put32(d, 7), put32(d, 5);
    put_interface_counters(d), put_module_counters(d);
    sample_end(d, sample);
    sample = sample_begin(d, 4);
    put32(d, 6), put32(d, 2), put32(d, 0x1000000), put32(d, 3);
    put_host_counters(d);
    sample_end(d, sample);
    put_discarded_packet(d);
}

/* Each tunnel is a packet of its own. By default tunnels are not opened. */
static void put_string_opaque(byte_buffer *d, const char *string) {
    uint32_t size = (uint32_t)strlen(string);
    put32(d, size), put_bytes(d, string, size), put_repeated(d, 0, -size % 4);
}

/* Records that are read by a table. */
static void build_sflow_fields(byte_buffer *d) {
    sflow_begin(d, 2, (sflow_header){.agent = 1, .sequence = 15});
    size_t sample = flow_sample_begin(d, 4, (flow_sample){.rate = 8, .input = 9});
    size_t record = record_begin(d, 1004);
    put32(d, 106), put_string_opaque(d, "alice"), put32(d, 0), put_string_opaque(d, "");
    record_end(d, record);
    record = record_begin(d, 1006);
    put32(d, 1), put32(d, 0xc0000201);
    put32(d, 2), put32(d, 0x10064), put32(d, 0x11164), put32(d, 1), put32(d, 0x12164);
    record_end(d, record);
    record = record_begin(d, 1022);
    put32(d, 64), put48(d, 1), put16(d, 0), put48(d, 2), put16(d, 0), put32(d, 0x0800);
    record_end(d, record);
    record = record_begin(d, 2202);
    put_string_opaque(d, "mail"), put_string_opaque(d, "send"), put_string_opaque(d, "a=b");
    put_string_opaque(d, "ok"), put64(d, 10), put64(d, 20), put32(d, 30), put32(d, 0);
    record_end(d, record);
    sample_end(d, sample);
    sample = sample_begin(d, 2);
    put32(d, 1), put32(d, 2), put32(d, 2);
    record = record_begin(d, 2105);
    put_string_opaque(d, "vm"), put_string_opaque(d, "vendor"), put_string_opaque(d, "17");
    record_end(d, record);
    record = record_begin(d, 2202);
    put_string_opaque(d, "mail");
    for (uint32_t i = 0; i < 11; i++) put32(d, i);
    record_end(d, record);
    sample_end(d, sample);
}

static void build_sflow_tunnels(byte_buffer *d) {
    static void (*const packets[])(byte_buffer *d) = {
        put_vxlan_packet, put_gre_packet, put_gtp_packet, put_srv6_packet, put_pseudowire};
    static const uint32_t protocols[] = {11, 11, 11, 12, 1};
    sflow_begin(d, 5, (sflow_header){.agent = 1, .sequence = 12});
    for (int i = 0; i < 5; i++) {
        size_t sample = flow_sample_begin(d, 2, (flow_sample){.sequence = 1, .rate = 1});
        size_t record = header_begin(d, protocols[i], 200);
        packets[i](d);
        header_end(d, record);
        put_ethernet_record(d, 200, 0x020000000003, 0x020000000004, 0x0800);
        sample_end(d, sample);
    }
}

const sample samples[] = {
    {"netflow5", build_netflow5,
     "received=1000500 exporter=192.0.2.1 rate=100 bytes=1500 packets=10 src=10.0.0.1 dst=10.0.0.2 "
     "etype=2048 proto=6 "
     "sport=51000 dport=443 in=3 out=4 src_as=64500 dst_as=64501 src_mask=24 next_hop=10.0.0.254 "
     "flags=27 type=2 "
     "start=990000 sequence=7\n"
     "received=1000500 exporter=192.0.2.1 rate=100 bytes=84 packets=1 src=10.0.0.3 dst=10.0.0.4 "
     "etype=2048 proto=1 "
     "dport=2048 type=2 start=939999 icmp_type=8 sequence=7\n"},
    {"netflow9", build_netflow9,
     "received=1000500 exporter=192.0.2.1 rate=512 bytes=300 packets=3 src=192.0.2.16 "
     "dst=192.0.2.17 etype=2048 proto=17 "
     "sport=1234 dport=53 src_mask=20 direction=1 type=3 start=1001000 sequence=8 domain=5\n"
     "received=1000500 exporter=192.0.2.1 rate=512 bytes=64 packets=1 src=192.0.2.18 etype=2048 "
     "proto=1 dport=769 "
     "direction=2 type=3 start=999999 icmp_type=3 sequence=8 domain=5\n"},
    {"ipfix", build_ipfix,
     "received=1000500 exporter=192.0.2.1 rate=100 bytes=70000 packets=50 src=2001:db8:0:0:0:0:0:1 "
     "dst=2001:db8:0:0:0:0:0:2 etype=34525 status=64 type=4 start=905000 labels=[16,0,32] "
     "sequence=9 domain=6 "
     "name=\"eth0\"\n"
     "received=1000500 exporter=192.0.2.1 rate=100 bytes=1 packets=1 src=2001:db8:0:0:0:0:0:3 "
     "dst=2001:db8:0:0:0:0:0:4 "
     "etype=34525 status=128 type=4 start=906000 labels=[16] sequence=9 domain=6 "
     "name=\"\xef\xbf\xbd\xef\xbf\xbdx\"\n"},
    {"pending", build_pending_sets,
     "received=1000500 exporter=192.0.2.1 rate=64 bytes=1000 type=4 start=905000 sequence=12 "
     "domain=7 name=\"eth1\"\n"
     "received=1000500 exporter=192.0.2.1 rate=64 bytes=2000 type=4 start=906000 sequence=12 "
     "domain=7\n"
     "received=1000500 exporter=192.0.2.1 rate=64 bytes=1001 type=4 start=905000 sequence=12 "
     "domain=7 name=\"eth1\"\n"
     "received=1000500 exporter=192.0.2.1 rate=64 bytes=2001 type=4 start=906000 sequence=12 "
     "domain=7\n"
     "received=1000500 exporter=192.0.2.1 rate=64 bytes=3000 type=4 start=907000 sequence=12 "
     "domain=7 name=\"eth2\"\n"},
    {"ipfix_frame", build_ipfix_frame,
     "received=1000500 exporter=192.0.2.1 rate=1000 bytes=600 src=10.1.2.3 dst=10.1.2.4 etype=2048 "
     "proto=6 sport=2000 "
     "dport=179 in=5 flags=24 type=4 src_mac=2199023255554 labels=[16,17] sequence=1 vlan=100 "
     "inner_vlan=200\n"},
    {"ipfix_biflow", build_ipfix_biflow,
     "received=1000500 exporter=192.0.2.1 bytes=21673 packets=28 src=10.0.0.1 dst=10.0.0.2 "
     "etype=2048 proto=6 sport=40000 "
     "dport=25 in=10 next_hop=10.0.0.254 flags=26 type=4 as_path=[64500,64501,64502] "
     "communities=[4259840001,4259840002] "
     "sequence=12 name=\"eth1\"\n"
     "received=1000500 exporter=192.0.2.1 bytes=1546 packets=25 src=10.0.0.2 dst=10.0.0.1 "
     "etype=2048 proto=6 sport=25 "
     "dport=40000 out=10 flags=27 type=4 as_path=[64500,64501,64502] "
     "communities=[4259840001,4259840002] sequence=12 "
     "name=\"eth1\"\n"
     "received=1000500 exporter=192.0.2.1 bytes=229 packets=1 src=10.0.0.3 dst=10.0.0.255 "
     "etype=2048 proto=17 sport=138 "
     "dport=138 in=10 type=4 as_path=[258] sequence=12\n"},
    {"ipfix_structures", build_ipfix_structures,
     "received=1000500 exporter=192.0.2.1 bytes=1000 dst=10.0.0.9 etype=2048 sport=80 type=4 "
     "communities=[1,2,17,18] sequence=14 "
     "name=\"eth3\"\n"},
    {"netflow9_firewall", build_netflow9_firewall,
     "received=1000500 exporter=192.0.2.1 src=10.0.0.1 dst=10.0.0.2 etype=2048 proto=6 sport=40000 "
     "dport=443 in=3 out=4 type=3 "
     "sequence=13\n"
     "received=1000500 exporter=192.0.2.1 src=10.0.0.1 dst=10.0.0.2 etype=2048 proto=6 sport=40000 "
     "dport=443 in=3 out=4 type=3 "
     "sequence=13\n"
     "received=1000500 exporter=192.0.2.1 bytes=900 packets=7 src=10.0.0.2 dst=10.0.0.1 etype=2048 "
     "proto=6 sport=443 "
     "dport=40000 in=4 out=3 type=3 sequence=13\n"},
    {"sflow", build_sflow,
     "received=1000500 exporter=198.51.100.1 rate=1024 bytes=100 packets=1 "
     "src=2001:db8:0:0:0:0:0:8 "
     "dst=2001:db8:0:0:0:0:0:9 etype=34525 proto=6 sport=5000 dport=80 in=3 src_as=64500 "
     "dst_as=64512 src_mask=24 "
     "next_hop=10.0.0.253 flags=2 type=1 src_mac=2199023255554 src_vlan=10 "
     "as_path=[64510,64511,64512] "
     "communities=[4259840000,4259840001] sequence=10\n"
     "received=1000500 exporter=198.51.100.1 rate=2048 packets=1 out=5 type=1 sequence=10\n"},
    {"sflow_records", build_sflow_records,
     "received=1000500 exporter=2001:db8:0:0:0:0:0:1 rate=512 bytes=1400 packets=1 src=10.0.0.5 "
     "dst=10.0.0.6 etype=2048 "
     "proto=17 sport=1024 dport=53 in=70000 status=130 type=1 src_mac=2199023255555 sequence=11\n"},
    {"sflow_counters", build_sflow_counters,
     "received=1000500 exporter=198.51.100.1 rate=4096 packets=1 in=7 type=1 sequence=12\n"},
    {"sflow_fields", build_sflow_fields,
     "received=1000500 exporter=0.0.0.1 rate=8 packets=1 in=9 type=1 sequence=15\n"},
    {"sflow_tunnels", build_sflow_tunnels,
     "received=1000500 exporter=0.0.0.1 rate=1 bytes=200 packets=1 src=192.0.2.1 dst=198.51.100.2 "
     "etype=2048 proto=17 "
     "sport=50000 dport=4789 type=1 src_mac=2199023255555 sequence=12\n"
     "received=1000500 exporter=0.0.0.1 rate=1 bytes=200 packets=1 src=192.0.2.1 dst=198.51.100.2 "
     "etype=2048 proto=47 "
     "type=1 src_mac=2199023255555 sequence=12\n"
     "received=1000500 exporter=0.0.0.1 rate=1 bytes=200 packets=1 src=192.0.2.1 dst=198.51.100.2 "
     "etype=2048 proto=17 "
     "sport=50000 dport=2152 type=1 src_mac=2199023255555 sequence=12\n"
     "received=1000500 exporter=0.0.0.1 rate=1 bytes=200 packets=1 src=2001:db8:0:0:0:0:0:1 "
     "dst=2001:db8:0:0:0:0:0:2 "
     "etype=34525 proto=143 type=1 src_mac=2199023255555 sequence=12\n"
     "received=1000500 exporter=0.0.0.1 rate=1 bytes=40 packets=1 src=10.0.0.1 dst=10.0.0.2 "
     "etype=2048 proto=6 sport=80 "
     "dport=443 flags=2 type=1 src_mac=2199023255555 labels=[16,17] sequence=12 vlan=7\n"},
};
const size_t sample_count = sizeof samples / sizeof *samples;
