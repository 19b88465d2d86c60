/* NetFlow v1 and v7 have the fields of NetFlow v5 at other offsets. */
#include "tests/support/session.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const few = "1 bytes uint : netflow5:dOctets\n";

static const char *const fixed_columns =
    "1 src ip native_ip : netflow5:srcaddr\n2 dst ip native_ip : netflow5:dstaddr\n"
    "3 hop ip native_ip : netflow5:nexthop\n4 in uint : netflow5:input\n"
    "5 out uint : netflow5:output\n6 packets uint : netflow5:dPkts\n"
    "7 bytes uint : netflow5:dOctets\n8 first timestamp unit=1000000 : netflow5:First\n"
    "9 last timestamp unit=1000000 : netflow5:Last\n10 sport uint : netflow5:srcport\n"
    "11 dport uint : netflow5:dstport\n12 flags uint : netflow5:tcp_flags\n"
    "13 proto uint : netflow5:prot\n14 tos uint : netflow5:tos\n"
    "15 src_as uint : netflow5:src_as\n16 dst_as uint : netflow5:dst_as\n"
    "17 src_mask uint : netflow5:src_mask\n18 dst_mask uint : netflow5:dst_mask\n"
    "19 router ip native_ip : netflow5:router_sc\n20 type uint : meta:flow_type\n"
    "21 sequence uint : meta:sequence_number\n22 domain uint : meta:observation_domain_id\n"
    "23 interval uint : netflow5:sampling_interval\n24 engine uint : netflow5:engine_id\n"
    "25 etype uint : derived:etype\n26 icmp_type uint : derived:icmp_type\n"
    "27 icmp_code uint : derived:icmp_code\n28 pad uint : netflow5:pad1\n";

static const netflow5_header fixed_header = {
    .uptime = 60000, .seconds = 1000, .nanoseconds = 500000000, .sequence = 9};
static const netflow5_record fixed_records[] = {
    {0x0a000001, 0x0a000002, 0x0a0000fe, 1, 2, 3, 4000, 50000, 55000, 1024, 443, 0x1b, 6, 0xb8,
     64500, 64501, 24, 16},
    {.src = 0x0a000003, .bytes = 7, .dst_port = 0x0301, .proto = 1},
};

static void decodes_netflow_v1_records_of_both_sizes(void) {
    for (size_t size = 48; size <= 52; size += 4) {
        byte_buffer d;
        netflow1_begin(&d, 2, fixed_header);
        for (size_t i = 0; i < COUNT(fixed_records); i++) put_netflow1(&d, fixed_records[i], size);
        CHECK_DECODED(
            fixed_columns, &d,
            "src=native:10.0.0.1 dst=native:10.0.0.2 hop=native:10.0.0.254 in=1 out=2 packets=3 "
            "bytes=4000 first=990500 "
            "last=995500 sport=1024 dport=443 flags=27 proto=6 tos=184 type=5 etype=2048\n"
            "src=native:10.0.0.3 bytes=7 first=940500 last=940500 dport=769 proto=1 type=5 "
            "etype=2048 icmp_type=3 icmp_code=1\n",
            "");
        d.size--; /* matches neither record size */
        CHECK_DECODED(fixed_columns, &d, "", "other_packet=1");
    }
}

static void counts_netflow_records_of_unknown_sizes(void) {
    for (unsigned version = 1; version <= 7; version += 6)
        for (size_t size = 40; size < 70; size++) {
            byte_buffer d;
            (version == 1 ? netflow1_begin : netflow7_begin)(&d, 3, fixed_header);
            put_repeated(&d, 0, 3 * size);
            bool known = size == 52 || (version == 1 && size == 48);
            const char *refused = size == 40 ? "other_packet=1" : "unsupported_version=1";
            CHECK_DECODED(few, &d, known ? "\n\n\n" : "", known ? "" : refused);
        }
}

static void decodes_netflow_v7(void) {
    byte_buffer d;
    session s;
    netflow7_begin(&d, 2, fixed_header);
    put_netflow7(&d, fixed_records[0], 5, 0xc0000263);
    put_netflow7(&d, fixed_records[1], 0, 0);
    CHECK_DECODED(fixed_columns, &d,
                  "src=native:10.0.0.1 dst=native:10.0.0.2 hop=native:10.0.0.254 in=1 out=2 "
                  "packets=3 bytes=4000 first=990500 last=995500 "
                  "sport=1024 dport=443 flags=27 proto=6 tos=184 src_as=64500 dst_as=64501 "
                  "src_mask=24 dst_mask=16 "
                  "router=native:192.0.2.99 type=6 sequence=9 etype=2048 pad=5\n"
                  "src=native:10.0.0.3 bytes=7 first=940500 last=940500 dport=769 proto=1 type=6 "
                  "sequence=9 etype=2048 "
                  "icmp_type=3 icmp_code=1\n",
                  "");
    session_open(&s, few, 65536);
    session_feed(&s, &d);
    patch32(&d, 16, 20); /* after 9 and two flows, 9 are missing */
    session_feed(&s, &d);
    CHECK_COUNTERS(&s, "sequence_gap=1");
    session_close(&s);
}

RUN_TESTS(TEST(decodes_netflow_v1_records_of_both_sizes),
          TEST(counts_netflow_records_of_unknown_sizes), TEST(decodes_netflow_v7))
