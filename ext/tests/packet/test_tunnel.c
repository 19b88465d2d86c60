/* Tunnels in sampled packets: opened on request, at every length and with any byte changed. Other
   properties of tunnels are tested in tests/decode/test_tunnels.py. */
#include "tests/support/session.h"

#include "core/packet/packet.h"
#include "tests/builders/tunnels.h"

static const char *const columns =
    "1 src ip : packet:ip.src_addr\n2 dport uint : packet:transport.dst_port\n"
    "3 length uint : packet:ip.length\n4 vlan uint : packet:vlan.id\n"
    "5 labels uint repeated : packet:mpls.labels\n6 smac uint : packet:ethernet.src_mac\n"
    "7 outer_src ip : packet:tunnel.src_addr\n8 outer_dst ip : packet:tunnel.dst_addr\n"
    "9 id uint : packet:tunnel.id\n10 addresses ip repeated : packet:ipv6_routing.addresses\n"
    "11 left uint : packet:ipv6_routing.segments_left\n"
    "12 layers uint repeated : packet:layers.stack\n"
    "13 sizes uint repeated : packet:layers.sizes\n14 section uint : packet:section.length\n"
    "15 etype uint : packet:ethernet.type\n";

enum { ETHERNET = 1, IPV4 = 11, IPV6 = 12, ALL = (1 << FB_TUNNEL_COUNT) - 1 };

static void open_with(session *s, const char *lines, unsigned tunnels) {
    memset(s, 0, sizeof *s);
    CHECK_STATUS(session_try(s, lines, 1 << 16, (fb_decoder_options){.decapsulate = tunnels}),
                 FB_OK);
}

/* Decode the first bytes of a packet in an sFlow sample. A guard page follows them. */
static void feed(session *s, uint32_t protocol, const byte_buffer *packet, size_t size) {
    byte_buffer d;
    sflow_begin(&d, 1, (sflow_header){.agent = 1});
    size_t sample = flow_sample_begin(&d, 1, (flow_sample){0}),
           record = header_begin(&d, protocol, 0);
    put_bytes(&d, packet->data, size);
    patch32(&d, record + 12, (uint32_t)size);
    sample_end(&d, record), sample_end(&d, sample);
    session_forget(s);
    session_feed(s, &d);
    CHECK(!strstr(session_text(s), NOT_A_MESSAGE));
    CHECK_EQUAL(s->row.count > 0, 1);
}

typedef struct {
    const char *name;
    void (*put)(byte_buffer *d);
    uint32_t protocol;
    unsigned tunnels; /* its kind; 0: none */
    const char *flow; /* with this tunnel opened */
} kind;

#define INSIDE  "src=10.0.0.1 dport=443 length=40"
#define FRAME   " smac=2199023255562"
#define OUTSIDE " outer_src=192.0.2.1 outer_dst=198.51.100.2 id=42"

static const kind kinds[] = {
    {"vxlan", put_vxlan_packet, IPV4, 1 << FB_TUNNEL_VXLAN,
     INSIDE " vlan=7" FRAME OUTSIDE
            " layers=[4,11,16,1,2,4,10] sizes=[20,8,8,14,4,20,20] section=94 etype=2048\n"},
    {"geneve", put_geneve_packet, IPV4, 1 << FB_TUNNEL_GENEVE,
     INSIDE " vlan=7" FRAME OUTSIDE
            " layers=[4,11,17,1,2,4,10] sizes=[20,8,16,14,4,20,20] section=102 etype=2048\n"},
    {"gre", put_gre_packet, IPV4, 1 << FB_TUNNEL_GRE,
     INSIDE " labels=[16,17]" OUTSIDE
            " layers=[4,15,3,4,10] sizes=[20,16,8,20,20] section=84 etype=2048\n"},
    {"ipip", put_ipip_packet, IPV4, 1 << FB_TUNNEL_IPIP,
     INSIDE " outer_src=192.0.2.1 outer_dst=198.51.100.2 layers=[4,4,10] sizes=[20,20,20] "
            "section=60 etype=2048\n"},
    {"srv6", put_srv6_packet, IPV6, 1 << FB_TUNNEL_SRV6,
     INSIDE " vlan=7" FRAME
            " outer_src=2001:db8:0:0:0:0:0:1 outer_dst=2001:db8:0:0:0:0:0:2 layers=[5,7,1,2,4,10] "
            "sizes=[40,40,14,4,20,20] section=138 etype=2048\n"},
    {"gtp", put_gtp_packet, IPV4, 1 << FB_TUNNEL_GTP,
     INSIDE OUTSIDE " layers=[4,11,18,4,10] sizes=[20,8,24,20,20] section=92 etype=2048\n"},
    {"pseudowire", put_pseudowire, ETHERNET, 0,
     INSIDE " vlan=7 labels=[16,17] smac=2 layers=[1,3,0,1,2,4,10] sizes=[14,8,4,14,4,20,20] "
            "section=84 etype=2048\n"},
    {"pppoe", put_pppoe_frame, ETHERNET, 0,
     INSIDE " smac=2 layers=[1,0,4,10] sizes=[14,7,20,20] section=61 etype=2048\n"},
    {"snap", put_snap_frame, ETHERNET, 0,
     INSIDE " smac=2 layers=[1,0,4,10] sizes=[14,8,20,20] section=62 etype=2048\n"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static byte_buffer packet_of(const kind *kind) {
    byte_buffer packet = {.size = 0};
    kind->put(&packet);
    return packet;
}

static void opens_the_requested_tunnels(void) {
    for (size_t i = 0; i < KINDS; i++) {
        byte_buffer packet = packet_of(&kinds[i]);
        const unsigned choices[] = {kinds[i].tunnels, ALL & ~kinds[i].tunnels, ALL, 0};
        for (size_t k = 0; k < 4; k++) {
            session s;
            bool opened = choices[k] & kinds[i].tunnels;
            open_with(&s, columns, choices[k]);
            feed(&s, kinds[i].protocol, &packet, packet.size);
            if (opened || !kinds[i].tunnels) CHECK_FLOWS(&s, kinds[i].flow);
            CHECK_EQUAL(strstr(session_text(&s), "outer_src") != NULL, opened);
            CHECK_EQUAL(session_count(&s, FB_NOT_ENCAPSULATED), choices[k] && !opened);
            session_close(&s);
        }
    }
}

static void survives_every_prefix(void) {
    for (size_t i = 0; i < KINDS; i++) {
        byte_buffer packet = packet_of(&kinds[i]);
        session s;
        open_with(&s, columns, ALL);
        for (size_t size = 0; size <= packet.size; size++)
            feed(&s, kinds[i].protocol, &packet, size);
        CHECK_FLOWS(&s, kinds[i].flow);
        CHECK_EQUAL(session_count(&s, FB_BAD_PACKET), 0);
        session_close(&s);
    }
}

static void survives_every_corrupted_byte(void) {
    for (size_t i = 0; i < KINDS; i++) {
        byte_buffer packet = packet_of(&kinds[i]);
        session s;
        open_with(&s, columns, ALL);
        for (size_t at = 0; at < packet.size; at++)
            for (unsigned change = 0; change < 12; change++) {
                uint8_t was = packet.data[at];
                const uint8_t others[] = {0, 0xff, (uint8_t)(was + 1), (uint8_t)(was - 1)};
                packet.data[at] = change < 8 ? (uint8_t)(was ^ 1u << change) : others[change - 8];
                feed(&s, kinds[i].protocol, &packet, packet.size);
                packet.data[at] = was;
            }
        feed(&s, kinds[i].protocol, &packet, packet.size);
        CHECK_FLOWS(&s, kinds[i].flow);
        session_close(&s);
    }
}

/* Put every tunnel into every other, and cut it in the middle. Use all columns: single, repeated
   and explicit. */
static void survives_tunnels_in_tunnels(void) {
    text lines = {0};
    plan_put_rich(&lines);
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < 6; k++) {
            byte_buffer packet = {.size = 0}, inner = packet_of(&kinds[k]);
            session s;
            open_with(&s, text_of(&lines), ALL);
            put_outside(&packet, kinds[k].protocol == IPV6 ? 41 : 4);
            put_bytes(&packet, inner.data, inner.size);
            inner = packet;
            packet.size = 0;
            put_outside(&packet, 47), put16(&packet, 0), put16(&packet, 0x0800);
            put_bytes(&packet, inner.data, inner.size);
            for (size_t size = 0; size <= packet.size; size += 1 + i) feed(&s, IPV4, &packet, size);
            session_close(&s);
        }
    text_free(&lines);
}

static void stops_at_a_fixed_depth(void) {
    byte_buffer packet = {.size = 0};
    session s;
    for (unsigned i = 0; i < 3000; i++) /* without a length: all that remains */
        put_ipv4(&packet, (ipv4_header){.ttl = 64, .proto = 4, .src = i + 1, .dst = 1});
    open_with(&s, "1 src ip : packet:ip.src_addr\n2 outer_src ip : packet:tunnel.src_addr\n", ALL);
    feed(&s, IPV4, &packet, packet.size);
    CHECK_FLOWS(&s, "src=0.0.0.5 outer_src=0.0.0.1\n");
    CHECK_COUNTERS(&s, "tunnel_depth=1");
    session_close(&s);
    open_with(&s, "1 layers uint repeated : packet:layers.stack\n", 0);
    feed(&s, IPV4, &packet, packet.size);
    CHECK_FLOWS(&s, "layers=[4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4]\n");
    CHECK_COUNTERS(&s, "layer_limit=1");
    session_close(&s);
}

static void lists_segments_and_unopened_tunnels(void) {
    byte_buffer packet = packet_of(&kinds[4]);
    session s;
    open_with(&s, columns, 0);
    feed(&s, IPV6, &packet, packet.size);
    CHECK_FLOWS(
        &s, "src=2001:db8:0:0:0:0:0:1 addresses=[2001:db8:0:0:0:0:0:7,2001:db8:0:0:0:0:0:8] left=1 "
            "layers=[5,7,1,2,4,10] sizes=[40,40,14,4,20,20] section=138 etype=34525\n");
    CHECK_COUNTERS(&s, "");
    session_close(&s);
}

/* 65,000 bytes of one element: tags, labels, extension headers, or GTP-U extensions. */
static void walks_any_number_of_headers(void) {
    byte_buffer packet = {.size = 0};
    session s;
    open_with(&s, columns, ALL);
    put_ethernet(&packet, 1, 2, 0x8100);
    while (packet.size < 65000) put_vlan(&packet, packet.size & 0xfff, 0x8100);
    feed(&s, ETHERNET, &packet, packet.size);
    packet.size = 0;
    put_ethernet(&packet, 1, 2, 0x8847);
    while (packet.size < 65000) put_mpls(&packet, 5, 0, 9);
    feed(&s, ETHERNET, &packet, packet.size);
    packet.size = 0;
    put_ipv6_header(&packet, (ipv6_header){.next = 43, .src = 1, .dst = 2});
    while (packet.size < 65000) put8(&packet, 43), put_repeated(&packet, 0, 7);
    feed(&s, IPV6, &packet, packet.size);
    packet.size = 0;
    put_outside(&packet, 17), put_udp(&packet, 2152), put32(&packet, 0x34ff0000),
        put32(&packet, 42), put32(&packet, 0x85);
    while (packet.size < 65000) put8(&packet, 1), put16(&packet, 0), put8(&packet, 0x85);
    feed(&s, IPV4, &packet, packet.size);
    CHECK_EQUAL(s.row.count, 4);
    CHECK_EQUAL(session_count(&s, FB_NOT_ENCAPSULATED), 4);
    session_close(&s);
}

static void names_tunnels(void) {
    CHECK(strcmp(fb_tunnel_name(FB_TUNNEL_VXLAN), "vxlan") == 0);
    CHECK(strcmp(fb_tunnel_name(FB_TUNNEL_GTP), "gtp") == 0);
    CHECK(fb_tunnel_name(FB_TUNNEL_COUNT) == NULL);
}

RUN_TESTS(TEST(opens_the_requested_tunnels), TEST(survives_every_prefix),
          TEST(survives_every_corrupted_byte), TEST(survives_tunnels_in_tunnels),
          TEST(stops_at_a_fixed_depth), TEST(lists_segments_and_unopened_tunnels),
          TEST(walks_any_number_of_headers), TEST(names_tunnels))
