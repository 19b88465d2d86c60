/* Sending, over the loopback interface. */
#include "tests/support/check.h"
#include "tests/support/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "net/error_reports.h"
#include "net/sender.h"

#define SECOND UINT64_C(1000000000)

/* A receiver, connected senders, and a recording. */
typedef struct {
    int receiver;
    int sockets[3];
    struct sockaddr_in address;
    fb_memory memory;
    fb_recording recording;
    fb_udp_sender sender;
} loopback;

static void loopback_open(loopback *l, unsigned sockets) {
    socklen_t size = sizeof l->address;
    struct timeval patience = {5, 0};
    *l = (loopback){.memory = fb_memory_system(0)};
    l->receiver = open_socket();
    l->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    CHECK_EQUAL(bind(l->receiver, (struct sockaddr *)&l->address, size), 0);
    CHECK_EQUAL(getsockname(l->receiver, (struct sockaddr *)&l->address, &size), 0);
    setsockopt(l->receiver, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (unsigned i = 0; i < sockets; i++) {
        l->sockets[i] = open_socket();
        CHECK_EQUAL(connect(l->sockets[i], (struct sockaddr *)&l->address, size), 0);
        fb_error_reports_enable(l->sockets[i]);
    }
    fb_recording_init(&l->recording, &l->memory, 1);
    l->sender = (fb_udp_sender){.recording = &l->recording,
                                .sockets = l->sockets,
                                .socket_count = sockets,
                                .pace = {.kind = FB_PACE_TOP_SPEED}};
}

static void loopback_close(loopback *l) {
    for (unsigned i = 0; i < l->sender.socket_count; i++) close(l->sockets[i]);
    if (l->receiver >= 0) close(l->receiver);
    fb_recording_free(&l->recording);
    CHECK_EQUAL(l->memory.used, 0);
}

static void record(loopback *l, const void *payload, size_t size, uint16_t port) {
    fb_datagram datagram = {.source_port = port, .payload = {payload, size}};
    CHECK_STATUS(fb_recording_add(&l->recording, &datagram), FB_OK);
}

/* Receive a datagram. Return its size, or SIZE_MAX if none came. */
static size_t receive(loopback *l, uint8_t *payload, uint16_t *port) {
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    ssize_t count = recvfrom(l->receiver, payload, 65536, 0, (struct sockaddr *)&from, &size);
    if (port) *port = from.sin_port;
    return count < 0 ? SIZE_MAX : (size_t)count;
}

static int run(loopback *l, uint64_t limit) {
    l->sender.limit = limit;
    return fb_udp_sender_run(&l->sender, 10 * SECOND);
}

static void datagrams_arrive_unchanged_and_in_order(void) {
    loopback l;
    uint8_t payload[65536];
    loopback_open(&l, 1);
    for (unsigned i = 0; i < 200; i++) {
        memset(payload, (int)i, i);
        record(&l, payload, i, 1);
    }
    CHECK_EQUAL(run(&l, 100), 0);
    CHECK_EQUAL(run(&l, 200), 0);
    CHECK(fb_udp_sender_is_done(&l.sender));
    for (unsigned i = 0; i < 200; i++) {
        uint8_t expected[200];
        memset(expected, (int)i, i);
        size_t size = receive(&l, payload, NULL);
        CHECK_BYTES(payload, size, expected, i);
    }
    CHECK_EQUAL(l.sender.sent, 200);
    CHECK_EQUAL(l.sender.bytes, 199 * 200 / 2);
    CHECK_EQUAL(l.sender.handled, 200);
    loopback_close(&l);
}

static void each_source_has_its_socket(void) {
    loopback l;
    uint8_t payload[65536];
    uint16_t ports[9];
    loopback_open(&l, 3);
    for (unsigned i = 0; i < 9; i++) record(&l, &(uint8_t){(uint8_t)i}, 1, (uint16_t)(i % 3));
    CHECK_EQUAL(run(&l, 9), 0);
    for (unsigned i = 0; i < 9; i++) {
        CHECK_EQUAL(receive(&l, payload, &ports[i]), 1);
        CHECK_EQUAL(payload[0], i);
        CHECK_EQUAL(ports[i], ports[i % 3]);
    }
    CHECK(ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2]);
    loopback_close(&l);
}

static void more_sources_than_sockets_share_them(void) {
    loopback l;
    uint8_t payload[65536];
    uint16_t ports[4];
    loopback_open(&l, 2);
    for (unsigned i = 0; i < 4; i++) record(&l, "x", 1, (uint16_t)i);
    CHECK_EQUAL(run(&l, 4), 0);
    for (unsigned i = 0; i < 4; i++) CHECK_EQUAL(receive(&l, payload, &ports[i]), 1);
    CHECK(ports[0] == ports[2] && ports[1] == ports[3] && ports[0] != ports[1]);
    loopback_close(&l);
}

static void repetitions_follow_each_other_and_are_renumbered(void) {
    loopback l;
    uint8_t payload[65536], v9[20] = {0, 9};
    fb_renumber *renumber;
    loopback_open(&l, 1);
    for (unsigned i = 0; i < 3; i++) record(&l, v9, sizeof v9, 1);
    CHECK_STATUS(fb_renumber_new(&renumber, &l.memory, 1, false), FB_OK);
    for (size_t i = 0; i < 3; i++)
        CHECK_STATUS(fb_renumber_add(renumber, &l.recording.datagrams[i], 0), FB_OK);
    fb_renumber_finish(renumber, 0);
    l.sender.renumber = renumber;
    for (uint64_t limit = 1; limit <= 100; limit += 9) CHECK_EQUAL(run(&l, limit), 0);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQUAL(receive(&l, payload, NULL), 20);
        CHECK_EQUAL(fb_load32(payload + 12), i);
    }
    CHECK_EQUAL(l.sender.sent, 100);
    fb_renumber_free(renumber);
    loopback_close(&l);
}

static void the_time_of_sending_is_written(void) {
    loopback l;
    uint8_t payload[65536], v9[20] = {0, 9};
    loopback_open(&l, 1);
    record(&l, v9, sizeof v9, 1);
    l.sender.now = true;
    struct timespec before, after;
    clock_gettime(CLOCK_REALTIME, &before);
    CHECK_EQUAL(run(&l, 1), 0);
    clock_gettime(CLOCK_REALTIME, &after);
    CHECK_EQUAL(receive(&l, payload, NULL), 20);
    uint32_t seconds = fb_load32(payload + 8);
    CHECK(seconds >= (uint32_t)before.tv_sec && seconds <= (uint32_t)after.tv_sec);
    loopback_close(&l);
}

static void close_receiver(loopback *l) {
    close(l->receiver);
    l->receiver = -1;
}

static void datagrams_to_a_closed_port_are_sent_and_refused(void) {
    loopback l;
    loopback_open(&l, 2);
    for (uint16_t i = 0; i < 5; i++) record(&l, "x", 1, i / 4);
    close_receiver(&l);
    for (uint64_t limit = 1; limit < 1000; limit += 7) CHECK_EQUAL(run(&l, limit), 0);
    CHECK_EQUAL(l.sender.sent, 995);
    CHECK_EQUAL(l.sender.refused, 995);
    CHECK_EQUAL(run(&l, 5000), 0); /* more than fit into the queue of errors */
    CHECK_EQUAL(l.sender.refused, 5000);
    CHECK_EQUAL(l.sender.handled, 5000);
    loopback_close(&l);
}

static void datagrams_before_the_receiver_starts_are_refused(void) {
    loopback l;
    uint8_t payload[65536];
    loopback_open(&l, 1);
    record(&l, "x", 1, 1);
    close_receiver(&l);
    CHECK_EQUAL(run(&l, 100), 0);
    l.receiver = open_socket();
    CHECK_EQUAL(bind(l.receiver, (struct sockaddr *)&l.address, sizeof l.address), 0);
    CHECK_EQUAL(run(&l, 130), 0);
    CHECK_EQUAL(l.sender.refused, 100);
    CHECK_EQUAL(l.sender.sent, 130);
    for (unsigned i = 0; i < 30; i++) CHECK_EQUAL(receive(&l, payload, NULL), 1);
    loopback_close(&l);
}

static void datagrams_that_are_too_long_are_counted(void) {
    loopback l;
    uint8_t payload[65536] = {0};
    loopback_open(&l, 1);
    record(&l, "a", 1, 1);
    record(&l, payload, 65508, 1);
    record(&l, payload, 65507, 1);
    record(&l, "b", 1, 1);
    CHECK_EQUAL(run(&l, 4), 0);
    CHECK_EQUAL(l.sender.sent, 3);
    CHECK_EQUAL(l.sender.unsent[FB_UNSENT_TOO_LONG], 1);
    CHECK_EQUAL(receive(&l, payload, NULL), 1);
    CHECK_EQUAL(receive(&l, payload, NULL), 65507);
    CHECK_EQUAL(receive(&l, payload, NULL), 1);
    loopback_close(&l);
}

static void other_errors_end_the_call(void) {
    loopback l;
    loopback_open(&l, 1);
    record(&l, "x", 1, 1);
    close(l.sockets[0]);
    CHECK_EQUAL(run(&l, 1), EBADF);
    CHECK_EQUAL(l.sender.handled, 0);
    l.sender.socket_count = 0;
    loopback_close(&l);
}

/* Nobody reads the stream socket that stands for a network that accepts nothing more. */
static void a_full_send_buffer_is_waited_for_and_then_counted(void) {
    loopback l;
    int pair[2];
    static const uint8_t payload[1000];
    loopback_open(&l, 1);
    close(l.sockets[0]);
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    l.sockets[0] = pair[0];
    record(&l, payload, sizeof payload, 1);
    l.sender.limit = UINT64_MAX;
    while (!l.sender.unsent[FB_UNSENT_BLOCKED])
        CHECK_EQUAL(fb_udp_sender_run(&l.sender, SECOND / 50), 0);
    CHECK_EQUAL(l.sender.handled, l.sender.sent + 1);
    uint64_t sent = l.sender.sent;
    uint8_t received[1000];
    CHECK(sent > 0);
    for (uint64_t i = 0; i < sent; i++) CHECK_EQUAL(read(pair[1], received, 1000), 1000);
    CHECK_EQUAL(fb_udp_sender_run(&l.sender, SECOND / 100), 0);
    CHECK(l.sender.sent > sent);
    close(pair[1]);
    loopback_close(&l);
}

static void ignore_signal(int number) {
    (void)number;
}

static void a_signal_ends_the_call(void) {
    loopback l;
    loopback_open(&l, 1);
    fb_datagram datagram = {.time = SECOND, .payload = {(const uint8_t *)"x", 1}};
    CHECK_STATUS(fb_recording_add(&l.recording, &datagram), FB_OK);
    datagram.time = 4000000 * SECOND;
    CHECK_STATUS(fb_recording_add(&l.recording, &datagram), FB_OK);
    l.sender.pace = (fb_pace){.kind = FB_PACE_TIMES, .speed = 1};
    l.sender.limit = 2;
    struct sigaction action = {.sa_handler = ignore_signal};
    struct itimerval alarm = {.it_value = {.tv_usec = 50000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &alarm, NULL);
    CHECK_EQUAL(fb_udp_sender_run(&l.sender, 1000000 * SECOND), 0);
    CHECK_EQUAL(l.sender.sent, 1);
    CHECK(!fb_udp_sender_is_done(&l.sender));
    loopback_close(&l);
}

static void a_call_ends_in_time(void) {
    loopback l;
    loopback_open(&l, 1);
    record(&l, "x", 1, 1);
    l.sender.limit = UINT64_MAX;
    for (unsigned i = 0; i < 3; i++) CHECK_EQUAL(fb_udp_sender_run(&l.sender, SECOND / 1000), 0);
    l.sender.pace = (fb_pace){.kind = FB_PACE_RATE, .rate = 1};
    CHECK_EQUAL(fb_udp_sender_run(&l.sender, SECOND / 1000), 0);
    CHECK_EQUAL(fb_udp_sender_run(&l.sender, 0), 0);
    CHECK(l.sender.sent > 0);
    loopback_close(&l);
}

static void reasons_have_names(void) {
    CHECK(strcmp(fb_unsent_name(FB_UNSENT_BLOCKED), "blocked") == 0);
    CHECK(strcmp(fb_unsent_name(FB_UNSENT_TOO_LONG), "too_long") == 0);
}

RUN_TESTS(TEST(datagrams_arrive_unchanged_and_in_order), TEST(each_source_has_its_socket),
          TEST(more_sources_than_sockets_share_them),
          TEST(repetitions_follow_each_other_and_are_renumbered),
          TEST(the_time_of_sending_is_written),
          TEST(datagrams_to_a_closed_port_are_sent_and_refused),
          TEST(datagrams_before_the_receiver_starts_are_refused),
          TEST(datagrams_that_are_too_long_are_counted), TEST(other_errors_end_the_call),
          TEST(a_full_send_buffer_is_waited_for_and_then_counted), TEST(a_signal_ends_the_call),
          TEST(a_call_ends_in_time), TEST(reasons_have_names))
