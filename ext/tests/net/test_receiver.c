/* Receiving, over the loopback interface. */
#include "tests/support/check.h"
#include "tests/support/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#include "net/receiver.h"
#include "net/socket.h"

enum { SECOND = 1000000000, SLOTS = 4, SLOT_SIZE = 100, SOCKETS = 3 };

/* Bound sockets, a socket that sends to each, and a receiver. */
typedef struct {
    fb_listener listeners[SOCKETS];
    int senders[SOCKETS];
    size_t count;
    fb_memory memory;
    fb_receiver *receiver;
} loopback;

static uint16_t connect_pair(int receiver, int sender) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    CHECK_EQUAL(bind(receiver, (struct sockaddr *)&address, size), 0);
    CHECK_EQUAL(getsockname(receiver, (struct sockaddr *)&address, &size), 0);
    CHECK_EQUAL(connect(sender, (struct sockaddr *)&address, size), 0);
    return ntohs(address.sin_port);
}

static void open_sockets(loopback *l, size_t count) {
    *l = (loopback){.count = count, .memory = fb_memory_system(0)};
    for (size_t i = 0; i < count; i++) {
        l->listeners[i].socket = open_socket();
        l->senders[i] = open_socket();
        l->listeners[i].port = connect_pair(l->listeners[i].socket, l->senders[i]);
    }
}

static fb_status new_receiver(loopback *l) {
    return fb_receiver_new(&l->receiver, l->listeners, l->count,
                           (fb_receiver_options){SLOTS, SLOT_SIZE, 0}, &l->memory);
}

static void loopback_open(loopback *l, size_t count) {
    open_sockets(l, count);
    CHECK_STATUS(new_receiver(l), FB_OK);
}

static void loopback_close(loopback *l) {
    fb_receiver_free(l->receiver);
    CHECK_EQUAL(l->memory.used, 0);
    for (size_t i = 0; i < l->count; i++) {
        close(l->listeners[i].socket);
        close(l->senders[i]);
    }
}

static void send_size(loopback *l, size_t socket, size_t size) {
    uint8_t payload[4 * SLOT_SIZE];
    memset(payload, (int)size, sizeof payload);
    CHECK_EQUAL(send(l->senders[socket], payload, size, 0), size);
}

static fb_receive_result receive(loopback *l) {
    return fb_receiver_receive(l->receiver, fb_clock_now() + 5ull * SECOND);
}

static void reads_datagrams_in_order(void) {
    loopback l;
    struct timespec now;
    loopback_open(&l, 1);
    for (size_t size = 0; size < 6; size++) send_size(&l, 0, size);
    CHECK_EQUAL(receive(&l), FB_RECEIVED);
    CHECK_EQUAL(l.receiver->count, SLOTS);
    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < SLOTS; i++) {
        const fb_datagram *datagram = &l.receiver->datagrams[i];
        uint8_t source[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
        uint8_t expected[SLOTS];
        memset(expected, (int)i, SLOTS);
        CHECK_BYTES(datagram->payload.data, datagram->payload.size, expected, i);
        CHECK_BYTES(datagram->source, 16, source, 16);
        CHECK(datagram->source_port != 0);
        CHECK_EQUAL(datagram->destination_port, l.listeners[0].port);
        CHECK(datagram->time / SECOND <= (uint64_t)now.tv_sec);
        CHECK(datagram->time / SECOND + 60 > (uint64_t)now.tv_sec);
    }
    CHECK_EQUAL(receive(&l), FB_RECEIVED);
    CHECK_EQUAL(l.receiver->count, 2);
    CHECK_EQUAL(l.receiver->listeners[0].datagrams, 6);
    CHECK_EQUAL(l.receiver->listeners[0].bytes, 0 + 1 + 2 + 3 + 4 + 5);
    CHECK_EQUAL(l.receiver->calls, 2);
    loopback_close(&l);
}

static uint64_t real_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static void sleep_for(long nanoseconds) {
    nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

/* Return false under qemu-user, which does not pass the times of the kernel. */
static bool system_passes_times(loopback *l) {
    uint8_t control[CMSG_SPACE(sizeof(struct timespec))];
    struct msghdr header = {.msg_control = control, .msg_controllen = sizeof control};
    send_size(l, 0, 1);
    CHECK(recvmsg(l->listeners[0].socket, &header, 0) >= 0);
    return CMSG_FIRSTHDR(&header) && CMSG_FIRSTHDR(&header)->cmsg_type == SCM_TIMESTAMPNS;
}

/* Send datagrams at intervals, and check that each has the time at which it was sent. */
static void check_each_time(loopback *l) {
    uint64_t before[SLOTS], after[SLOTS];
    for (size_t i = 0; i < SLOTS; i++) {
        sleep_for(SECOND / 500);
        before[i] = real_time();
        send_size(l, 0, 1);
        after[i] = real_time();
    }
    sleep_for(SECOND / 500);
    CHECK_EQUAL(receive(l), FB_RECEIVED);
    CHECK_EQUAL(l->receiver->count, SLOTS);
    for (size_t i = 0; i < SLOTS; i++) {
        CHECK(l->receiver->datagrams[i].time >= before[i]);
        CHECK(l->receiver->datagrams[i].time <= after[i]);
    }
}

/* Send two datagrams just after another one was received. Returns true if they share a time. */
static bool share_a_time(loopback *l) {
    const fb_datagram *datagrams = l->receiver->datagrams;
    send_size(l, 0, 1);
    CHECK_EQUAL(receive(l), FB_RECEIVED);
    uint64_t before = real_time();
    send_size(l, 0, 1);
    uint64_t between = real_time();
    send_size(l, 0, 1);
    uint64_t after = real_time();
    CHECK_EQUAL(receive(l), FB_RECEIVED);
    CHECK_EQUAL(l->receiver->count, 2);
    CHECK(datagrams[0].time >= before && datagrams[0].time <= after);
    CHECK(datagrams[1].time >= between && datagrams[1].time <= after);
    return datagrams[0].time == datagrams[1].time;
}

static void shares_times_of_new_datagrams_only(void) {
    loopback l;
    loopback_open(&l, 1);
    if (system_passes_times(&l)) {
        const int socket = l.listeners[0].socket, off = 0;
        bool shared = false;
        check_each_time(&l);
        /* between two calls, another process may run for a millisecond, but not each time */
        for (int i = 0; i < 10000 && !shared; i++) shared = share_a_time(&l);
        CHECK(shared);
        check_each_time(&l);
        /* another process that uses the socket may change its option */
        CHECK_EQUAL(setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &off, sizeof off), 0);
        send_size(&l, 0, 1);
        CHECK_EQUAL(receive(&l), FB_RECEIVED);
        check_each_time(&l);
    }
    loopback_close(&l);
}

static void counts_truncated_datagrams(void) {
    loopback l;
    loopback_open(&l, 1);
    send_size(&l, 0, SLOT_SIZE);
    send_size(&l, 0, SLOT_SIZE + 1);
    send_size(&l, 0, 4 * SLOT_SIZE);
    CHECK_EQUAL(receive(&l), FB_RECEIVED);
    CHECK_EQUAL(l.receiver->count, 3);
    for (size_t i = 0; i < 3; i++) CHECK_EQUAL(l.receiver->datagrams[i].payload.size, SLOT_SIZE);
    CHECK_EQUAL(l.receiver->listeners[0].truncated, 2);
    CHECK_EQUAL(l.receiver->listeners[0].datagrams, 3);
    loopback_close(&l);
}

/* A flooded socket does not keep the others from being read. It is read eight times per turn. */
static void sockets_take_turns(void) {
    loopback l;
    loopback_open(&l, 3);
    for (int i = 0; i < 20 * SLOTS; i++) send_size(&l, 1, 1);
    send_size(&l, 0, 2);
    send_size(&l, 2, 3);
    size_t seen[SOCKETS] = {0};
    for (int call = 0; call < 10; call++) {
        CHECK_EQUAL(receive(&l), FB_RECEIVED);
        for (size_t i = 0; i < SOCKETS; i++)
            seen[i] += l.receiver->datagrams[0].destination_port == l.listeners[i].port;
    }
    CHECK_EQUAL(seen[0], 1);
    CHECK_EQUAL(seen[1], 8);
    CHECK_EQUAL(seen[2], 1);
    loopback_close(&l);
}

/* A flooded socket does not keep another thread from waking the receiver. */
static void wakes_in_a_flood(void) {
    loopback l;
    loopback_open(&l, 1);
    for (int i = 0; i < 20 * SLOTS; i++) send_size(&l, 0, 1);
    CHECK_EQUAL(receive(&l), FB_RECEIVED);
    fb_receiver_wake(l.receiver);
    fb_receive_result result = FB_RECEIVED;
    for (int call = 0; call < 8 && result == FB_RECEIVED; call++) result = receive(&l);
    CHECK_EQUAL(result, FB_RECEIVE_WOKEN);
    loopback_close(&l);
}

/* After a call with few datagrams, others accumulate for a moment. */
static void pauses_after_few_datagrams(void) {
    loopback l;
    open_sockets(&l, 1);
    fb_receiver_options options = {SLOTS, SLOT_SIZE, SECOND / 50};
    CHECK_STATUS(fb_receiver_new(&l.receiver, l.listeners, 1, options, &l.memory), FB_OK);
    for (int i = 0; i < SLOTS + 1; i++) send_size(&l, 0, 1);
    CHECK_EQUAL(receive(&l), FB_RECEIVED);
    CHECK_EQUAL(l.receiver->count, SLOTS);
    uint64_t begin = fb_clock_now();
    CHECK_EQUAL(receive(&l), FB_RECEIVED); /* no pause after a full call */
    CHECK_EQUAL(l.receiver->count, 1);
    CHECK_EQUAL(fb_receiver_receive(l.receiver, 0), FB_RECEIVE_IDLE);
    CHECK(fb_clock_now() >= begin + options.pause);
    loopback_close(&l);
}

static void ends_at_the_deadline(void) {
    loopback l;
    loopback_open(&l, 2);
    uint64_t begin = fb_clock_now(), deadline = begin + SECOND / 50;
    CHECK_EQUAL(fb_receiver_receive(l.receiver, deadline), FB_RECEIVE_IDLE);
    CHECK(fb_clock_now() >= deadline);
    CHECK_EQUAL(fb_receiver_receive(l.receiver, 0), FB_RECEIVE_IDLE);
    send_size(&l, 1, 1); /* what has arrived is read even after the deadline */
    CHECK_EQUAL(fb_receiver_receive(l.receiver, 0), FB_RECEIVED);
    loopback_close(&l);
}

static void wakes_once_for_all_calls_before(void) {
    loopback l;
    loopback_open(&l, 1);
    for (int i = 0; i < 100000; i++) fb_receiver_wake(l.receiver); /* more than a pipe holds */
    CHECK_EQUAL(receive(&l), FB_RECEIVE_WOKEN);
    send_size(&l, 0, 1);
    CHECK_EQUAL(receive(&l), FB_RECEIVED);
    loopback_close(&l);
}

static void reports_a_closed_socket(void) {
    loopback l;
    loopback_open(&l, 2);
    close(l.listeners[1].socket);
    CHECK_EQUAL(receive(&l), FB_RECEIVE_FAILED);
    CHECK_EQUAL(l.receiver->error, EBADF);
    CHECK_EQUAL(l.receiver->listeners[1].errors, 1);
    l.listeners[1].socket = open_socket();
    loopback_close(&l);
}

static void refuses_invalid_arguments(void) {
    loopback l;
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    open_sockets(&l, 1);
    const fb_receiver_options invalid[] = {{0, SLOT_SIZE, 0},
                                           {1025, SLOT_SIZE, 0},
                                           {SLOTS, 0, 0},
                                           {SLOTS, FB_UDP_MAX_PAYLOAD + 2, 0},
                                           {SLOTS, SLOT_SIZE, SECOND}};
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        CHECK_STATUS(fb_receiver_new(&l.receiver, l.listeners, 1, invalid[i], &l.memory),
                     FB_BAD_ARGUMENT);
        CHECK(!l.receiver);
    }
    l.count = 0;
    CHECK_STATUS(new_receiver(&l), FB_BAD_ARGUMENT);
    l.count = 1;
    const int descriptors[] = {-1, ends[0]};
    for (size_t i = 0; i < 2; i++) {
        fb_listener other = {.socket = descriptors[i]};
        CHECK_STATUS(fb_receiver_new(&l.receiver, &other, 1,
                                     (fb_receiver_options){SLOTS, SLOT_SIZE, 0}, &l.memory),
                     FB_BAD_ARGUMENT);
    }
    close(ends[0]);
    close(ends[1]);
    loopback_close(&l);
}

static void survives_failed_allocations(void) {
    loopback l;
    open_sockets(&l, 2);
    fb_status status = FB_NO_MEMORY;
    for (size_t limit = 1; status == FB_NO_MEMORY; limit += 64) {
        l.memory = fb_memory_system(limit);
        status = new_receiver(&l);
        CHECK_EQUAL(l.receiver != NULL, status == FB_OK);
        if (status != FB_OK) CHECK_EQUAL(l.memory.used, 0);
    }
    CHECK_STATUS(status, FB_OK);
    loopback_close(&l);
}

/* The kernel counts drops also if no datagram is received after them. */
static void counts_drops(void) {
    loopback l;
    uint32_t drops = 1;
    int size = 1;
    loopback_open(&l, 1);
    setsockopt(l.listeners[0].socket, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    int error = fb_socket_get_drops(l.listeners[0].socket, &drops);
    if (error != ENOSYS) { /* qemu-user does not emulate SO_MEMINFO */
        CHECK_EQUAL(error, 0);
        CHECK_EQUAL(drops, 0);
        for (int i = 0; i < 100; i++) send_size(&l, 0, SLOT_SIZE);
        CHECK_EQUAL(fb_socket_get_drops(l.listeners[0].socket, &drops), 0);
        CHECK(drops > 0);
        while (fb_receiver_receive(l.receiver, 0) == FB_RECEIVED) continue;
        CHECK_EQUAL(l.receiver->listeners[0].datagrams + drops, 100);
    }
    CHECK(fb_socket_get_drops(-1, &drops) != 0);
    loopback_close(&l);
}

static void spreads_only_groups(void) {
    loopback l;
    open_sockets(&l, 1);
    CHECK_EQUAL(fb_socket_spread(l.listeners[0].socket, 0), EINVAL);
    CHECK(fb_socket_spread(-1, 2) != 0);
    loopback_close(&l);
}

RUN_TESTS(TEST(reads_datagrams_in_order), TEST(shares_times_of_new_datagrams_only),
          TEST(counts_truncated_datagrams), TEST(sockets_take_turns), TEST(wakes_in_a_flood),
          TEST(pauses_after_few_datagrams), TEST(ends_at_the_deadline),
          TEST(wakes_once_for_all_calls_before), TEST(reports_a_closed_socket),
          TEST(refuses_invalid_arguments), TEST(survives_failed_allocations), TEST(counts_drops),
          TEST(spreads_only_groups))
