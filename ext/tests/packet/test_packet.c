/* Sampled packets: headers that are read, headers that are skipped, and the end of reading. */
#include "tests/support/session.h"

static const char *const columns =
    "1 length uint : packet:ip.length\n2 src ip : packet:ip.src_addr\n"
    "3 proto uint : packet:ip.proto\n4 sport uint : packet:transport.src_port\n"
    "5 dport uint : packet:transport.dst_port\n6 flags uint : packet:tcp.flags\n"
    "7 type uint explicit : packet:icmp.type\n8 etype uint : packet:ethernet.type\n"
    "9 vlan uint : packet:vlan.id\n10 inner uint : packet:vlan.inner_id\n"
    "11 labels uint repeated : packet:mpls.labels\n12 ttl uint : packet:ip.ttl\n"
    "13 offset uint : packet:ip.fragment_offset\n14 id uint : packet:ip.fragment_id\n"
    "15 df uint : packet:ip.flags\n16 smac uint : packet:ethernet.src_mac\n";

static const ipv4_header ipv4 = {
    .length = 60, .ttl = 64, .proto = 6, .src = 0x0a000001, .dst = 0x0a000002};
static const ipv6_header ipv6 = {.payload = 20, .hop_limit = 64, .next = 6, .src = 1, .dst = 2};

/* Decode a sampled header, complete and at every length. A guard page follows the captured
   bytes. */
static void check(uint32_t protocol, const byte_buffer *packet, const char *flow,
                  const char *counters, int line) {
    session s;
    session_open(&s, columns, 65536);
    for (size_t size = 0; size <= packet->size; size++) {
        byte_buffer d;
        sflow_begin(&d, 1, (sflow_header){.agent = 1});
        size_t sample = flow_sample_begin(&d, 1, (flow_sample){0}),
               record = header_begin(&d, protocol, 100);
        put_bytes(&d, packet->data, size);
        patch32(&d, record + 12, (uint32_t)size);
        sample_end(&d, record), sample_end(&d, sample);
        session_forget(&s);
        if (size && size == packet->size) /* only the complete packet is compared */
            memset(s.decoder->exporters.last->counters.status, 0,
                   sizeof s.decoder->exporters.last->counters.status);
        session_feed(&s, &d);
        CHECK(!strstr(session_text(&s), NOT_A_MESSAGE));
    }
    check_session(&s, flow, counters, __FILE__, line);
}

#define CHECK_PACKET(protocol, packet, flow, counters) \
    check(protocol, packet, flow, counters, __LINE__)
enum { ETHERNET = 1, IPV4 = 11, IPV6 = 12, MPLS = 13 };

static void reads_transport_headers(void) {
    byte_buffer p = {.size = 0};
    put_ipv4(&p, ipv4), put_tcp(&p, 1000, 80, 0x12);
    CHECK_PACKET(IPV4, &p,
                 "length=60 src=10.0.0.1 proto=6 sport=1000 dport=80 flags=18 etype=2048 ttl=64\n",
                 "");
    p.data[9] = 17;
    CHECK_PACKET(IPV4, &p,
                 "length=60 src=10.0.0.1 proto=17 sport=1000 dport=80 etype=2048 ttl=64\n", "");
    p.data[9] = 132;
    CHECK_PACKET(IPV4, &p,
                 "length=60 src=10.0.0.1 proto=132 sport=1000 dport=80 etype=2048 ttl=64\n", "");
    p.data[9] = 1;
    CHECK_PACKET(IPV4, &p, "length=60 src=10.0.0.1 proto=1 type=3 etype=2048 ttl=64\n", "");
    p.data[9] = 47;
    CHECK_PACKET(IPV4, &p, "length=60 src=10.0.0.1 proto=47 etype=2048 ttl=64\n", "");
}

static void skips_ipv4_options(void) {
    byte_buffer p = {.size = 0};
    ipv4_header header = ipv4;
    header.option_words = 10, header.length = 80;
    put_ipv4(&p, header), put_tcp(&p, 1000, 80, 2);
    CHECK_PACKET(IPV4, &p,
                 "length=80 src=10.0.0.1 proto=6 sport=1000 dport=80 flags=2 etype=2048 ttl=64\n",
                 "");
}

static void reads_no_ports_of_later_fragments(void) {
    byte_buffer p = {.size = 0};
    ipv4_header header = ipv4;
    header.id = 7, header.fragment = 0x2000 | 185;
    put_ipv4(&p, header), put_tcp(&p, 1000, 80, 2);
    CHECK_PACKET(IPV4, &p,
                 "length=60 src=10.0.0.1 proto=6 etype=2048 ttl=64 offset=185 id=7 df=1\n", "");
    p.size = 0;
    header.fragment = 0x2000; /* only the first fragment has them */
    put_ipv4(&p, header), put_tcp(&p, 1000, 80, 2);
    CHECK_PACKET(
        IPV4, &p,
        "length=60 src=10.0.0.1 proto=6 sport=1000 dport=80 flags=2 etype=2048 ttl=64 id=7 df=1\n",
        "");
}

static void ignores_bytes_after_the_ip_length(void) {
    byte_buffer p = {.size = 0};
    ipv4_header header = ipv4;
    header.length = 22;
    put_ipv4(&p, header), put_tcp(&p, 1000, 80, 2);
    /* no ports in two bytes */
    CHECK_PACKET(IPV4, &p, "length=22 src=10.0.0.1 proto=6 etype=2048 ttl=64\n", "");
}

static void counts_contradictory_headers(void) {
    byte_buffer p = {.size = 0};
    put_ipv4(&p, ipv4), put_tcp(&p, 1000, 80, 2);
    p.data[0] = 0x44;
    CHECK_PACKET(IPV4, &p, "etype=2048\n", "bad_packet=1");
    p.data[0] = 0x65;
    CHECK_PACKET(IPV4, &p, "etype=2048\n", "bad_packet=1");
    p.data[0] = 0x45, p.data[3] = 19;
    CHECK_PACKET(IPV4, &p, "etype=2048\n", "bad_packet=1");
    CHECK_PACKET(IPV6, &p, "etype=34525\n", "bad_packet=1");
}

static void walks_ipv6_extension_headers(void) {
    static const unsigned extensions[] = {0, 43, 60, 135, 139, 140};
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
        byte_buffer p = {.size = 0};
        ipv6_header header = ipv6;
        header.payload = 44, header.next = extensions[i];
        put_ipv6_header(&p, header);
        /* 8 + 8 bytes, then an authentication header of 8 */
        put8(&p, 51), put8(&p, 1), put_repeated(&p, 0, 14);
        put8(&p, 6), put8(&p, 0), put_repeated(&p, 0, 6);
        put_tcp(&p, 1000, 80, 2);
        CHECK_PACKET(IPV6, &p,
                     "length=84 src=2001:db8:0:0:0:0:0:1 proto=6 sport=1000 dport=80 flags=2 "
                     "etype=34525 ttl=64\n",
                     "");
    }
    byte_buffer p = {.size = 0};
    ipv6_header header = ipv6;
    header.payload = 28, header.next = 44;
    put_ipv6_header(&p, header);
    put8(&p, 17), put8(&p, 0), put16(&p, 100 << 3 | 1), put32(&p, 777);
    put_tcp(&p, 1000, 80, 2);
    CHECK_PACKET(
        IPV6, &p,
        "length=68 src=2001:db8:0:0:0:0:0:1 proto=17 etype=34525 ttl=64 offset=100 id=777 df=1\n",
        "");
}

static void reads_tags_and_labels(void) {
    byte_buffer p = {.size = 0};
    put_ethernet(&p, 1, 2, 0x88a8), put_vlan(&p, 10, 0x8100), put_vlan(&p, 20, 0x9100),
        put_vlan(&p, 30, 0x86dd);
    put_ipv6_header(&p, ipv6), put_tcp(&p, 1, 2, 2);
    CHECK_PACKET(ETHERNET, &p,
                 "length=60 src=2001:db8:0:0:0:0:0:1 proto=6 sport=1 dport=2 flags=2 etype=34525 "
                 "vlan=10 inner=20 ttl=64 smac=2\n",
                 "");
    p.size = 0;
    put_mpls(&p, 100, 0, 9), put_mpls(&p, 0, 1, 9);
    put_ipv4(&p, ipv4);
    CHECK_PACKET(MPLS, &p, "length=60 src=10.0.0.1 proto=6 etype=2048 labels=[100,0] ttl=64\n", "");
    p.data[4] = 1; /* a label that does not define its content; the first nibble decides */
    CHECK_PACKET(MPLS, &p, "length=60 src=10.0.0.1 proto=6 etype=2048 labels=[100,4096] ttl=64\n",
                 "");
}

static void reads_the_frame_behind_a_control_word(void) {
    byte_buffer p = {.size = 0};
    put_ethernet(&p, 1, 2, 0x8847), put_mpls(&p, 100, 1, 9), put32(&p, 0);
    put_ethernet(&p, 3, 4, 0x0800);
    put_ipv4(&p, ipv4), put_tcp(&p, 1000, 80, 2);
    CHECK_PACKET(ETHERNET, &p,
                 "length=60 src=10.0.0.1 proto=6 sport=1000 dport=80 flags=2 etype=2048 "
                 "labels=[100] ttl=64 smac=2\n",
                 "");
    p.data[18] = 1; /* not a known control word */
    CHECK_PACKET(ETHERNET, &p, "etype=34887 labels=[100] smac=2\n", "unknown_header=1");
}

/* Check that both walks over a packet agree, if the fast one supports it. Returns true if it
   does. */
static bool walks_agree(fb_bytes packet) {
    fb_packet plain, any;
    if (!fb_packet_walk_plain(&plain, packet)) return false;
    fb_packet_walk(&any, packet, FB_PACKET_FRAME, 0);
    CHECK(plain.frame == any.frame && plain.ip == any.ip && plain.transport == any.transport &&
          plain.end == any.end);
    CHECK(!any.fragment && !any.routing.data && !any.outer && !any.label_stacks &&
          any.problem == FB_OK);
    CHECK_EQUAL(plain.ip_length, any.ip_length);
    CHECK_EQUAL(plain.etype, any.etype);
    CHECK_EQUAL(plain.vlan_id, any.vlan_id);
    CHECK_EQUAL(plain.inner_vlan_id, any.inner_vlan_id);
    CHECK_EQUAL(plain.tags, any.tags);
    CHECK_EQUAL(plain.version, any.version);
    CHECK_EQUAL(plain.proto, any.proto);
    return true;
}

/* Set each of the first bytes of a packet to every value, and cut the packet anywhere. */
static void gives_the_same_result_with_both_walks(void) {
    static const uint16_t types[] = {0x0800, 0x86dd};
    for (unsigned kind = 0; kind < 2; kind++)
        for (unsigned tags = 0; tags < 4; tags++) {
            byte_buffer p = {.size = 0};
            put_ethernet(&p, 1, 2, tags ? 0x88a8 : types[kind]);
            for (unsigned i = 1; i <= tags; i++)
                put_vlan(&p, 10 * i, i < tags ? 0x8100 : types[kind]);
            size_t headers = p.size + (kind ? 40 : 20);
            if (kind) put_ipv6_header(&p, ipv6);
            else put_ipv4(&p, ipv4);
            put_tcp(&p, 1, 2, 2), put_repeated(&p, 0, 30);
            for (size_t size = 0; size <= p.size; size++)
                CHECK_EQUAL(walks_agree((fb_bytes){p.data, size}), tags < 3 && size >= headers);
            for (size_t at = 0; at < headers; at++) {
                uint8_t byte = p.data[at];
                for (unsigned value = 0; value < 256; value++) {
                    p.data[at] = (uint8_t)value;
                    walks_agree((fb_bytes){p.data, p.size});
                }
                p.data[at] = byte;
            }
        }
}

RUN_TESTS(TEST(reads_transport_headers), TEST(skips_ipv4_options),
          TEST(reads_no_ports_of_later_fragments), TEST(ignores_bytes_after_the_ip_length),
          TEST(counts_contradictory_headers), TEST(walks_ipv6_extension_headers),
          TEST(reads_tags_and_labels), TEST(reads_the_frame_behind_a_control_word),
          TEST(gives_the_same_result_with_both_walks))
