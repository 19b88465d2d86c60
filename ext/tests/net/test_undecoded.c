/* Keeping undecoded datagrams. The receiver is real; only its latest datagrams are replaced. */
#include "tests/support/check.h"
#include "tests/support/sockets.h"

#include <netinet/in.h>

#include "core/capture/capture.h"
#include "net/undecoded.h"

enum { SLOTS = 4, SLOT_SIZE = FB_UDP_MAX_PAYLOAD + 1 };

typedef struct {
    fb_listener listener;
    fb_memory memory;
    fb_receiver *receiver;
    fb_undecoded undecoded;
} fixture;

static void fixture_open(fixture *f) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    *f = (fixture){.memory = fb_memory_system(0), .listener = {.socket = open_socket()}};
    CHECK_EQUAL(bind(f->listener.socket, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_STATUS(fb_receiver_new(&f->receiver, &f->listener, 1,
                                 (fb_receiver_options){SLOTS, SLOT_SIZE, 0}, &f->memory),
                 FB_OK);
}

static void fixture_close(fixture *f) {
    fb_buffer_free(&f->undecoded.records);
    fb_receiver_free(f->receiver);
    CHECK_EQUAL(f->memory.used, 0);
    close(f->listener.socket);
}

static void set_datagram(fixture *f, size_t index, bool ipv6, const void *payload, size_t size) {
    static const uint8_t ipv4_source[4] = {127, 0, 0, 1}, ipv6_source[16] = {0x20, 1, [15] = 9};
    fb_datagram *datagram = &f->receiver->datagrams[index];
    *datagram = (fb_datagram){.time = UINT64_C(1700000000123456789),
                              .source_port = 4660,
                              .destination_port = 2055,
                              .payload = {payload, size}};
    if (ipv6) memcpy(datagram->source, ipv6_source, 16);
    else fb_store_address(datagram->source, ipv4_source, 4);
    f->undecoded.marks[index] = 1;
    if (f->receiver->count <= index) f->receiver->count = index + 1;
}

static void a_record_is_an_ip_packet(void) {
    static const uint8_t
        expected[] =
            {
                0x00, 0xf1, 0x53, 0x65, 0x15, 0xcd, 0x5b, 0x07, 31,  0,   0,
                0,    31,   0,    0,    0, /* of pcap */
                0x45, 0,    0,    31,   0,    0,    0,    0,    64,  17,  0xfb,
                0xcd, 127,  0,    0,    1,    0,    0,    0,    0,             /* IPv4 */
                0x12, 0x34, 0x08, 0x07, 0,    11,   0xa2, 0x39, 'a', 'b', 'c', /* UDP */
    };
    fixture f;
    fixture_open(&f);
    set_datagram(&f, 0, false, "abc", 3);
    fb_undecoded_keep(&f.undecoded, f.receiver);
    fb_buffer *records = &f.undecoded.records;
    CHECK_BYTES(records->begin, fb_buffer_size(records), expected, sizeof expected);
    CHECK_EQUAL(f.undecoded.count, 1);
    fb_undecoded_clear(&f.undecoded);
    CHECK_EQUAL(f.undecoded.count, 0);
    CHECK_EQUAL(fb_buffer_size(records), 0);
    fixture_close(&f);
}

static void only_marked_datagrams_are_kept(void) {
    fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < SLOTS; i++) set_datagram(&f, i, i % 2, "payload", 7);
    f.undecoded.marks[1] = f.undecoded.marks[2] = 0;
    fb_undecoded_keep(&f.undecoded, f.receiver);
    CHECK_EQUAL(f.undecoded.count, 2);
    CHECK_EQUAL(f.undecoded.undecoded, 2);
    CHECK_EQUAL(fb_buffer_size(&f.undecoded.records), (16 + 20 + 8 + 7) + (16 + 40 + 8 + 7));
    fb_undecoded_keep(&f.undecoded, f.receiver); /* the marks were cleared */
    CHECK_EQUAL(f.undecoded.undecoded, 2);
    fixture_close(&f);
}

/* Return the slot of the first datagram. Its socket receives one, so that the receiver uses it. */
static uint8_t *find_slot(fixture *f) {
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    CHECK_EQUAL(getsockname(f->listener.socket, (struct sockaddr *)&address, &size), 0);
    CHECK_EQUAL(sendto(f->listener.socket, "", 0, 0, (struct sockaddr *)&address, size), 0);
    CHECK_EQUAL(fb_receiver_receive(f->receiver, fb_clock_now() + UINT64_C(5000000000)),
                FB_RECEIVED);
    return (uint8_t *)(uintptr_t)f->receiver->datagrams[0].payload.data;
}

/* Read the records as a capture, and compare the only datagram with the one that was kept. */
static void check_capture(fixture *f) {
    const fb_datagram *kept = &f->receiver->datagrams[0];
    fb_buffer *records = &f->undecoded.records;
    size_t size = fb_buffer_size(records), count, consumed;
    uint8_t *file = malloc(FB_UNDECODED_HEADER_SIZE + size);
    fb_capture *capture;
    fb_datagram read[2];
    fb_undecoded_put_header(file);
    memcpy(file + FB_UNDECODED_HEADER_SIZE, records->begin, size);
    CHECK_STATUS(fb_capture_new(&capture, &f->memory, (fb_capture_options){.any_port = true}),
                 FB_OK);
    CHECK_STATUS(fb_capture_scan(capture, (fb_bytes){file, FB_UNDECODED_HEADER_SIZE + size}, true,
                                 read, 2, &count, &consumed),
                 FB_END);
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(read[0].time, kept->time);
    CHECK_BYTES(read[0].source, 16, kept->source, 16);
    CHECK_EQUAL(read[0].source_port, kept->source_port);
    CHECK_EQUAL(read[0].destination_port, kept->destination_port);
    CHECK_BYTES(read[0].payload.data, read[0].payload.size, kept->payload.data, kept->payload.size);
    fb_capture_free(capture);
    free(file);
}

/* Odd sizes matter for the checksum, and the largest ones for the lengths. */
static void payloads_of_every_size_fit(void) {
    static const size_t sizes[] = {0, 1, 1399, 1999, 65507, 65508, 65527, 65528};
    fixture f;
    fixture_open(&f);
    uint8_t *slot = find_slot(&f);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int ipv6 = 0; ipv6 < 2; ipv6++) {
            size_t most = ipv6 ? FB_UDP_MAX_PAYLOAD : 65507;
            uint64_t before = f.undecoded.unsaved[FB_UNSAVED_TOO_LONG];
            memset(slot, (int)i, sizes[i]);
            set_datagram(&f, 0, ipv6, slot, sizes[i]);
            fb_undecoded_keep(&f.undecoded, f.receiver);
            CHECK_EQUAL(f.undecoded.count, sizes[i] <= most);
            CHECK_EQUAL(f.undecoded.unsaved[FB_UNSAVED_TOO_LONG] - before, sizes[i] > most);
            if (f.undecoded.count) check_capture(&f);
            fb_undecoded_clear(&f.undecoded);
        }
    fixture_close(&f);
}

/* The largest message of IPFIX over TCP is longer than a datagram of IPv4 or IPv6. */
static void marked_messages_are_kept(void) {
    static const uint8_t longest[65535], marks[] = {1, 0, 1, 1};
    static const size_t sizes[] = {65507, 16, 65535, 16};
    fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < SLOTS; i++) set_datagram(&f, i, false, longest, sizes[i]);
    memset(f.undecoded.marks, 0, SLOTS);
    fb_undecoded_keep_messages(&f.undecoded, f.receiver->datagrams, marks, SLOTS);
    CHECK_EQUAL(f.undecoded.undecoded, 3);
    CHECK_EQUAL(f.undecoded.count, 2);
    CHECK_EQUAL(f.undecoded.unsaved[FB_UNSAVED_TOO_LONG], 1);
    CHECK_EQUAL(fb_buffer_size(&f.undecoded.records), (16 + 28 + 65507) + (16 + 28 + 16));
    fixture_close(&f);
}

static void nothing_is_kept_after_the_end_of_the_file(void) {
    fixture f;
    fixture_open(&f);
    f.undecoded.full = true;
    set_datagram(&f, 0, false, "abc", 3);
    fb_undecoded_keep(&f.undecoded, f.receiver);
    CHECK_EQUAL(f.undecoded.count, 0);
    CHECK_EQUAL(f.undecoded.undecoded, 1);
    CHECK_EQUAL(f.undecoded.unsaved[FB_UNSAVED_FILE_FULL], 1);
    fixture_close(&f);
}

static void records_are_due_at_a_mebibyte(void) {
    static const uint8_t payload[1000];
    fixture f;
    fixture_open(&f);
    while (!fb_undecoded_is_due(&f.undecoded)) {
        set_datagram(&f, 0, false, payload, sizeof payload);
        fb_undecoded_keep(&f.undecoded, f.receiver);
    }
    CHECK_EQUAL(f.undecoded.count, ((1 << 20) + 1043) / 1044);
    fixture_close(&f);
}

static void reasons_have_names(void) {
    CHECK(strcmp(fb_unsaved_name(FB_UNSAVED_FILE_FULL), "file_full") == 0);
    CHECK(strcmp(fb_unsaved_name(FB_UNSAVED_NO_MEMORY), "no_memory") == 0);
}

RUN_TESTS(TEST(a_record_is_an_ip_packet), TEST(only_marked_datagrams_are_kept),
          TEST(payloads_of_every_size_fit), TEST(marked_messages_are_kept),
          TEST(nothing_is_kept_after_the_end_of_the_file), TEST(records_are_due_at_a_mebibyte),
          TEST(reasons_have_names))
