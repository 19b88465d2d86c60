/* The layers around a UDP datagram in a captured frame: link layers, tags, IP and UDP headers, and
   wrong lengths. */
#include "tests/builders/capture_builder.h"

enum { HOP_BY_HOP = 0, ROUTING = 43, FRAGMENT = 44, DESTINATION = 60 };

static void add_extension(unsigned next, unsigned units) {
    net8(next), net8(units - 1);
    put_zeros(units * 8 - 2);
}

/* The open packet record; `end_frame` closes it. */
static size_t frame;

static void begin_frame(uint32_t link_type) {
    begin_pcap(MICRO, false, link_type);
    frame = begin_record(1, 0);
}

static void end_frame(void) {
    end_record(frame, 0);
}

/* Raw IP, which needs no link layer. */
static size_t begin_ip_frame(ip_header header) {
    begin_frame(101);
    return begin_ip(header);
}

static void finds_ip_in_every_link_layer(void) {
    static const struct {
        uint32_t link_type;
        unsigned size;
        const char *header;
        int family;
    } cases[] = {
        {1, 14, "\2\0\0\0\0\1\2\0\0\0\0\2\x08\0", IPV4},
        {1, 14, "\2\0\0\0\0\1\2\0\0\0\0\2\x86\xdd", IPV6},
        {101, 0, "", IPV4},
        {101, 0, "", IPV6},
        {12, 0, "", IPV4},
        {14, 0, "", IPV6},
        {228, 0, "", IPV4},
        {229, 0, "", IPV6},
        {113, 16, "\0\0\0\1\0\6\2\0\0\0\0\1\0\0\x08\0", IPV4},
        {113, 16, "\0\0\0\1\0\6\2\0\0\0\0\1\0\0\x86\xdd", IPV6},
        {276, 20, "\x08\0\0\0\0\0\0\7\0\1\0\6\2\0\0\0\0\1\0\0", IPV4},
        {276, 20, "\x86\xdd\0\0\0\0\0\7\0\1\0\6\2\0\0\0\0\1\0\0", IPV6},
        {0, 4, "\2\0\0\0", IPV4},
        {0, 4, "\0\0\0\2", IPV4},
        {108, 4, "\0\0\0\2", IPV4},
        {0, 4, "\x0a\0\0\0", IPV6},
        {0, 4, "\x18\0\0\0", IPV6},
        {0, 4, "\0\0\0\x1c", IPV6},
        {0, 4, "\x1e\0\0\0", IPV6},
        {108, 4, "\0\0\0\x1e", IPV6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_frame(cases[i].link_type);
        put(cases[i].header, cases[i].size);
        add_datagram(cases[i].family, "found");
        end_frame();
        CHECK_ONE_PACKET(FB_OK);
        const outcome *seen = scan();
        CHECK_PAYLOAD(seen, "found");
        if (cases[i].family == IPV6) {
            CHECK_BYTES(seen->last.source, 16, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
            CHECK_BYTES(seen->last.destination, 16, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2", 16);
        }
    }
}

static void counts_packets_of_unknown_link_types(void) {
    const unsigned link_types[] = {2, 6, 105, 127, 147, 227, 230, 65535};
    for (size_t i = 0; i < sizeof link_types / sizeof *link_types; i++) {
        begin_frame(link_types[i]);
        add_datagram(IPV4, "x");
        end_frame();
        CHECK_ONE_PACKET(FB_UNSUPPORTED_LINK_TYPE);
    }
}

static void counts_packets_without_ip(void) {
    static const struct {
        uint32_t link_type;
        unsigned size;
        const char *header;
    } cases[] = {
        {1, 14, "\2\0\0\0\0\1\2\0\0\0\0\2\x08\6"},     /* ARP */
        {1, 14, "\1\x80\xc2\0\0\0\2\0\0\0\0\2\0\x40"}, /* 802.3 with a length */
        {1, 14, "\2\0\0\0\0\1\2\0\0\0\0\2\x88\x47"},   /* MPLS */
        {113, 16, "\0\0\0\1\0\6\2\0\0\0\0\1\0\0\x08\6"},
        {276, 20, "\x08\6\0\0\0\0\0\7\0\1\0\6\2\0\0\0\0\1\0\0"},
        {0, 4, "\7\0\0\0"},
        {101, 1, "\x50"}, /* version 5 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_frame(cases[i].link_type);
        put(cases[i].header, cases[i].size);
        add_datagram(IPV4, "x");
        end_frame();
        CHECK_ONE_PACKET(FB_OTHER_PACKET);
    }
}

static void skips_up_to_eight_tags(void) {
    static const unsigned tags[] = {0x8100, 0x88a8, 0x9100, 0x9200};
    for (unsigned depth = 0; depth <= 9; depth++) {
        begin_frame(1);
        put("\2\0\0\0\0\1\2\0\0\0\0\2", 12);
        for (unsigned i = 0; i < depth; i++) net16(tags[i % 4]), net16(0x6001 + i);
        net16(IPV4);
        add_datagram(IPV4, "tagged");
        end_frame();
        CHECK_ONE_PACKET(depth <= 8 ? FB_OK : FB_OTHER_PACKET);
    }
    begin_frame(113); /* cooked capture too */
    put("\0\0\0\1\0\6\2\0\0\0\0\1\0\0\x81\0", 16);
    net16(100), net16(IPV6);
    add_datagram(IPV6, "tagged");
    end_frame();
    CHECK_ONE_PACKET(FB_OK);
}

static void skips_ipv4_options(void) {
    for (unsigned options = 0; options <= 40; options += 4) {
        size_t ip = begin_ip_frame((ip_header){IPV4, 1, 2, .protocol = UDP, .options = options});
        add_udp(1, 2, "payload", 7);
        end_ip(ip);
        end_frame();
        CHECK_ONE_PACKET(FB_OK);
        CHECK_PAYLOAD(scan(), "payload");
    }
}

static void rejects_contradictory_ipv4_headers(void) {
    size_t ip = begin_ip_frame((ip_header){IPV4, 1, 2, .protocol = UDP});
    add_udp(1, 2, "x", 1);
    end_ip(ip);
    end_frame();
    for (unsigned words = 0; words < 5; words++) {
        built.data[ip] = (uint8_t)(0x40 | words);
        CHECK_ONE_PACKET(FB_OTHER_PACKET);
    }
    built.data[ip] = 0x45;
    patch_uint(ip + 2, 19, 2, true); /* total length */
    CHECK_ONE_PACKET(FB_OTHER_PACKET);
    patch_uint(ip + 2, 20, 2, true);
    CHECK_ONE_PACKET(FB_TRUNCATED_PACKET);
    built.data[ip] = 0x4f; /* missing options */
    patch_uint(ip + 2, 60, 2, true);
    CHECK_ONE_PACKET(FB_TRUNCATED_PACKET);
}

static void removes_padding(void) {
    for (int family = IPV4; family <= IPV6; family += IPV6 - IPV4) {
        begin_frame(1);
        add_ethernet((unsigned)family);
        add_datagram(family, "short");
        put("padding padding", 15);
        end_frame();
        CHECK_PAYLOAD(scan(), "short");
        begin_frame(101);
        size_t ip = begin_ip((ip_header){family, 1, 2, .protocol = UDP});
        add_udp(1, 2, "short", 5);
        put("inside of IP", 12);
        end_ip(ip);
        end_frame();
        CHECK_PAYLOAD(scan(), "short");
    }
}

static void delivers_empty_datagrams(void) {
    begin_frame(101);
    add_datagram(IPV4, "");
    end_frame();
    CHECK_ONE_PACKET(FB_OK);
    CHECK_EQUAL(scan()->last.payload.size, 0);
}

static void replaces_zero_lengths_by_those_of_the_lower_layer(void) {
    for (int family = IPV4; family <= IPV6; family += IPV6 - IPV4) {
        size_t ip = begin_ip_frame((ip_header){family, 1, 2, .protocol = UDP});
        size_t udp = built.size;
        add_udp(1, 2, "payload", 7);
        end_ip(ip);
        patch_uint(udp + 4, 0, 2, true);
        end_frame();
        CHECK_PAYLOAD(scan(), "payload");
        patch_uint(ip + (family == IPV4 ? 2 : 4), 0, 2, true);
        CHECK_PAYLOAD(scan(), "payload");
        end_record(frame, 3); /* then only the cut frame is detected */
        CHECK_ONE_PACKET(FB_TRUNCATED_PACKET);
    }
}

static void rejects_udp_lengths_below_the_header_size(void) {
    for (unsigned size = 1; size < 8; size++) {
        size_t ip = begin_ip_frame((ip_header){IPV4, 1, 2, .protocol = UDP});
        size_t udp = built.size;
        add_udp(1, 2, "payload", 7);
        end_ip(ip);
        end_frame();
        patch_uint(udp + 4, size, 2, true);
        CHECK_ONE_PACKET(FB_OTHER_PACKET);
    }
}

static void drops_payloads_cut_by_the_snaplen(void) {
    for (int family = IPV4; family <= IPV6; family += IPV6 - IPV4) {
        for (size_t cut = 1;; cut++) {
            begin_frame(1);
            add_ethernet(0x8100);
            net16(100), net16((unsigned)family);
            size_t ip =
                begin_ip((ip_header){family, 1, 2, .protocol = family == IPV4 ? UDP : HOP_BY_HOP});
            if (family == IPV6) add_extension(UDP, 1);
            add_udp(1, 2, "payload", 7);
            end_ip(ip);
            if (cut > built.size - frame) break;
            end_record(frame, cut);
            CHECK_ONE_PACKET(FB_TRUNCATED_PACKET);
        }
    }
}

static void delivers_complete_payloads_of_cut_packets(void) {
    begin_frame(1);
    add_ethernet(IPV4);
    add_datagram(IPV4, "payload");
    put_zeros(20);
    end_record(frame, 15);
    CHECK_ONE_PACKET(FB_OK);
}

static void counts_a_udp_length_beyond_the_packet_as_truncated(void) {
    size_t ip = begin_ip_frame((ip_header){IPV4, 1, 2, .protocol = UDP});
    size_t udp = built.size;
    add_udp(1, 2, "payload", 7);
    end_ip(ip);
    put_zeros(30); /* padding does not replace it */
    end_frame();
    patch_uint(udp + 4, 8 + 8, 2, true);
    CHECK_ONE_PACKET(FB_TRUNCATED_PACKET);
}

static void counts_other_protocols(void) {
    const unsigned protocols[] = {1, 6, 50, 58, 59, 132, 255};
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++) {
        for (int family = IPV4; family <= IPV6; family += IPV6 - IPV4) {
            size_t ip = begin_ip_frame((ip_header){family, 1, 2, .protocol = protocols[i]});
            put_zeros(20);
            end_ip(ip);
            end_record(frame, 10); /* the cut does not matter then */
            CHECK_ONE_PACKET(FB_OTHER_PACKET);
        }
    }
}

static void skips_ipv6_extension_headers(void) {
    size_t ip = begin_ip_frame((ip_header){IPV6, 1, 2, .protocol = HOP_BY_HOP});
    add_extension(DESTINATION, 1);
    add_extension(ROUTING, 2);
    add_extension(FRAGMENT, 5);
    /* an atomic fragment (RFC 6946); 200 is not a length */
    net8(DESTINATION), net8(200), net16(0), net32(5);
    add_extension(UDP, 3);
    add_udp(1, 2, "payload", 7);
    end_ip(ip);
    end_frame();
    CHECK_ONE_PACKET(FB_OK);
    CHECK_PAYLOAD(scan(), "payload");
    built.data[ip + 40 + 1] = 255;
    CHECK_ONE_PACKET(FB_TRUNCATED_PACKET);
}

static void stops_at_the_end_of_extension_headers(void) {
    size_t ip = begin_ip_frame((ip_header){IPV6, 1, 2, .protocol = HOP_BY_HOP});
    for (int i = 0; i < 8000; i++) add_extension(HOP_BY_HOP, 1);
    end_ip(ip);
    end_frame();
    CHECK_ONE_PACKET(FB_TRUNCATED_PACKET);
}

RUN_TESTS(TEST(finds_ip_in_every_link_layer), TEST(counts_packets_of_unknown_link_types),
          TEST(counts_packets_without_ip), TEST(skips_up_to_eight_tags), TEST(skips_ipv4_options),
          TEST(rejects_contradictory_ipv4_headers), TEST(removes_padding),
          TEST(delivers_empty_datagrams), TEST(replaces_zero_lengths_by_those_of_the_lower_layer),
          TEST(rejects_udp_lengths_below_the_header_size), TEST(drops_payloads_cut_by_the_snaplen),
          TEST(delivers_complete_payloads_of_cut_packets),
          TEST(counts_a_udp_length_beyond_the_packet_as_truncated), TEST(counts_other_protocols),
          TEST(skips_ipv6_extension_headers), TEST(stops_at_the_end_of_extension_headers))
