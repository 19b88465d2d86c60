/* Forwarding, over the loopback interface. */
#include "tests/support/check.h"
#include "tests/support/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/time.h>

#include "net/forward.h"

enum { SLOTS = 100, SLOT_SIZE = 5000, MOST_TARGETS = 2 };
#define SECOND UINT64_C(1000000000)

typedef union {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
} address;

/* An exporter that sends to a receiver, and targets of forwarding. */
typedef struct {
    int family, exporter;
    address from; /* address of the exporter */
    fb_listener listener;
    int arrivals[MOST_TARGETS];
    fb_forward_target targets[MOST_TARGETS];
    size_t count;
    fb_memory memory;
    fb_receiver *receiver;
    fb_forward *forward;
} chain;

static socklen_t size_of(int family) {
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static address loopback_address(int family) {
    address local = {.any = {0}};
    local.any.sa_family = (sa_family_t)family;
    if (family == AF_INET) local.ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else local.ipv6.sin6_addr = in6addr_loopback;
    return local;
}

/* Bind a socket to a free port of the loopback interface. -1: the system has no such family. */
static int bind_socket(int family, address *local) {
    struct timeval patience = {5, 0};
    int made = socket(family, SOCK_DGRAM, 0);
    socklen_t size = size_of(family);
    *local = loopback_address(family);
    if (made >= 0 && bind(made, &local->any, size)) {
        close(made);
        made = -1;
    }
    if (made < 0) return made;
    CHECK_EQUAL(getsockname(made, &local->any, &size), 0);
    setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return made;
}

static uint16_t port_of(const address *local) {
    return ntohs(local->any.sa_family == AF_INET ? local->ipv4.sin_port : local->ipv6.sin6_port);
}

/* Connect the socket of a target. -1: it may not be opened. */
static int connect_socket(int family, const address *to, bool original) {
    int made = socket(family, original ? SOCK_RAW : SOCK_DGRAM, original ? IPPROTO_RAW : 0);
    address target = *to;
    if (original && family == AF_INET6) target.ipv6.sin6_port = 0;
    if (made >= 0) CHECK_EQUAL(connect(made, &target.any, size_of(family)), 0);
    return made;
}

static bool add_target(chain *c, bool original) {
    address local;
    fb_forward_target *target = &c->targets[c->count];
    c->arrivals[c->count] = bind_socket(c->family, &local);
    target->socket = connect_socket(c->family, &local, original);
    target->original = original;
    target->port = port_of(&local);
    if (c->family == AF_INET)
        fb_store_address(target->address, (const uint8_t *)&local.ipv4.sin_addr, 4);
    else memcpy(target->address, &local.ipv6.sin6_addr, 16);
    c->count++;
    return target->socket >= 0;
}

/* Open the exporter and the receiver. False: the system has no such family. */
static bool chain_open(chain *c, int family) {
    address local;
    *c = (chain){.family = family, .memory = fb_memory_system(0)};
    c->listener.socket = bind_socket(family, &local);
    if (c->listener.socket < 0) return false;
    c->exporter = bind_socket(family, &c->from);
    CHECK_EQUAL(connect(c->exporter, &local.any, size_of(family)), 0);
    CHECK_STATUS(fb_receiver_new(&c->receiver, &c->listener, 1,
                                 (fb_receiver_options){SLOTS, SLOT_SIZE, 0}, &c->memory),
                 FB_OK);
    return true;
}

static void chain_start(chain *c) {
    CHECK_STATUS(fb_forward_new(&c->forward, c->targets, c->count, &c->memory), FB_OK);
}

static void chain_close(chain *c) {
    fb_forward_free(c->forward);
    fb_receiver_free(c->receiver);
    CHECK_EQUAL(c->memory.used, 0);
    for (size_t i = 0; i < c->count; i++) {
        close(c->targets[i].socket);
        close(c->arrivals[i]);
    }
    close(c->listener.socket);
    close(c->exporter);
}

/* Let the exporter send a datagram that is filled with its size. */
static void export(chain *c, size_t size) {
    uint8_t payload[2 * SLOT_SIZE];
    memset(payload, (int)size, sizeof payload);
    CHECK_EQUAL(send(c->exporter, payload, size, 0), size);
}

/* Receive and forward all datagrams that were exported. Return their number. */
static uint64_t forward_all(chain *c) {
    uint64_t before = c->receiver->listeners[0].datagrams;
    while (fb_receiver_receive(c->receiver, 0) == FB_RECEIVED)
        fb_forward_send(c->forward, c->receiver);
    return c->receiver->listeners[0].datagrams - before;
}

static uint64_t count_unsent(const fb_forward_target *target) {
    uint64_t total = 0;
    for (int i = 0; i < FB_UNFORWARDED_REASONS; i++) total += target->unsent[i];
    return total;
}

static void check_arrival(chain *c, size_t target, size_t size) {
    uint8_t payload[2 * SLOT_SIZE], expected[2 * SLOT_SIZE];
    address from;
    socklen_t length = sizeof from;
    memset(expected, (int)size, size);
    ssize_t got = recvfrom(c->arrivals[target], payload, sizeof payload, 0, &from.any, &length);
    CHECK_BYTES(payload, (size_t)got, expected, size);
    if (!c->targets[target].original) return;
    CHECK_EQUAL(port_of(&from), port_of(&c->from));
    if (c->family == AF_INET) CHECK_EQUAL(from.ipv4.sin_addr.s_addr, c->from.ipv4.sin_addr.s_addr);
    else CHECK_BYTES(&from.ipv6.sin6_addr, 16, &c->from.ipv6.sin6_addr, 16);
}

static const int families[] = {AF_INET, AF_INET6};

static void copies_arrive_at_all_targets(void) {
    static const size_t sizes[] = {0, 1, 1400, SLOT_SIZE, 7};
    for (int i = 0; i < 2; i++) {
        chain c;
        if (!chain_open(&c, families[i])) continue;
        add_target(&c, false);
        add_target(&c, false);
        chain_start(&c);
        for (int j = 0; j < 5; j++) export(&c, sizes[j]);
        CHECK_EQUAL(forward_all(&c), 5);
        for (size_t target = 0; target < 2; target++) {
            for (int j = 0; j < 5; j++) check_arrival(&c, target, sizes[j]);
            CHECK_EQUAL(fb_forward_read_targets(c.forward)[target].sent, 5);
            CHECK_EQUAL(count_unsent(&fb_forward_read_targets(c.forward)[target]), 0);
        }
        chain_close(&c);
    }
}

/* More datagrams than one system call takes. A raw socket needs a privilege. */
static void copies_keep_their_source(void) {
    for (int i = 0; i < 2; i++) {
        chain c;
        if (!chain_open(&c, families[i])) continue;
        if (add_target(&c, true)) {
            chain_start(&c);
            for (size_t size = 0; size < SLOTS; size++) export(&c, size);
            CHECK_EQUAL(forward_all(&c), SLOTS);
            for (size_t size = 0; size < SLOTS; size++) check_arrival(&c, 0, size);
            CHECK_EQUAL(fb_forward_read_targets(c.forward)->sent, SLOTS);
        }
        chain_close(&c);
    }
}

static void a_source_of_the_other_family_is_not_kept(void) {
    chain c;
    if (!chain_open(&c, AF_INET)) return;
    add_target(&c, false);
    c.targets[0].original = true; /* nothing is sent, so the kind of the socket does not matter */
    memcpy(c.targets[0].address, &in6addr_loopback, 16);
    chain_start(&c);
    for (size_t size = 0; size < SLOTS; size++) export(&c, size);
    CHECK_EQUAL(forward_all(&c), SLOTS);
    CHECK_EQUAL(fb_forward_read_targets(c.forward)->unsent[FB_UNFORWARDED_OTHER_FAMILY], SLOTS);
    CHECK_EQUAL(count_unsent(fb_forward_read_targets(c.forward)), SLOTS);
    chain_close(&c);
}

/* Messages of a stream, the first of which is longer than a datagram of IPv4 or IPv6. */
static void check_messages(bool original) {
    static const uint8_t payload[65535];
    chain c;
    if (!chain_open(&c, AF_INET)) return;
    if (add_target(&c, original)) {
        fb_datagram messages[SLOTS];
        chain_start(&c);
        for (size_t i = 0; i < SLOTS; i++) {
            messages[i] = (fb_datagram){.source_port = port_of(&c.from), .payload = {payload, i}};
            fb_store_address(messages[i].source, (const uint8_t *)&c.from.ipv4.sin_addr, 4);
        }
        messages[0].payload.size = sizeof payload;
        fb_forward_send_messages(c.forward, messages, SLOTS);
        CHECK_EQUAL(fb_forward_read_targets(c.forward)->sent, SLOTS - 1);
        CHECK_EQUAL(fb_forward_read_targets(c.forward)->unsent[FB_UNFORWARDED_TOO_LONG], 1);
        uint8_t arrived[SLOTS];
        for (size_t i = 1; i < SLOTS; i++)
            CHECK_EQUAL(recv(c.arrivals[0], arrived, sizeof arrived, 0), i);
    }
    chain_close(&c);
}

static void messages_are_sent_as_datagrams(void) {
    check_messages(false);
    check_messages(true);
}

static void truncated_datagrams_are_counted_only(void) {
    chain c;
    if (!chain_open(&c, AF_INET)) return;
    add_target(&c, false);
    chain_start(&c);
    export(&c, SLOT_SIZE + 1);
    export(&c, SLOT_SIZE);
    export(&c, SLOT_SIZE + 1);
    CHECK_EQUAL(forward_all(&c), 3);
    check_arrival(&c, 0, SLOT_SIZE);
    CHECK_EQUAL(fb_forward_read_targets(c.forward)->sent, 1);
    CHECK_EQUAL(fb_forward_read_targets(c.forward)->unsent[FB_UNFORWARDED_TRUNCATED], 2);
    chain_close(&c);
}

/* Each report fails the next call, which must then send its datagrams. */
static void a_closed_port_is_reported(void) {
    for (int i = 0; i < 2; i++) {
        chain c;
        if (!chain_open(&c, families[i])) continue;
        add_target(&c, false);
        chain_start(&c);
        close(c.arrivals[0]);
        c.arrivals[0] = -1;
        for (int j = 0; j < SLOTS; j++) export(&c, 1);
        CHECK_EQUAL(forward_all(&c), SLOTS);
        const fb_forward_target *target = fb_forward_read_targets(c.forward);
        CHECK_EQUAL(target->sent, SLOTS);
        CHECK_EQUAL(count_unsent(target), 0);
        CHECK_EQUAL(target->refused, SLOTS);
        chain_close(&c);
    }
}

/* Replace the socket of a target by one of a pair, which nobody reads: it stands for a network that
   accepts nothing more. */
static void open_pair(chain *c, int pair[2]) {
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    close(c->targets[0].socket);
    c->targets[0].socket = pair[0];
}

static void a_full_send_buffer_blocks_nothing(void) {
    chain c;
    int pair[2];
    uint64_t received = 0, arrived = 0;
    uint8_t payload[SLOT_SIZE];
    if (!chain_open(&c, AF_INET)) return;
    add_target(&c, false);
    add_target(&c, false);
    open_pair(&c, pair);
    chain_start(&c);
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 30; i++) export(&c, 1000);
        received += forward_all(&c);
        for (int i = 0; i < 30; i++) check_arrival(&c, 1, 1000);
    }
    const fb_forward_target *targets = fb_forward_read_targets(c.forward);
    CHECK_EQUAL(received, 900);
    CHECK(targets[0].unsent[FB_UNFORWARDED_BLOCKED] > 0);
    CHECK_EQUAL(targets[0].sent + count_unsent(&targets[0]), received);
    CHECK_EQUAL(targets[1].sent, received);
    while (recv(pair[1], payload, sizeof payload, MSG_DONTWAIT) == 1000) arrived++;
    CHECK_EQUAL(arrived, targets[0].sent);
    export(&c, 10); /* there is room again */
    CHECK_EQUAL(forward_all(&c), 1);
    CHECK_EQUAL(recv(pair[1], payload, sizeof payload, MSG_DONTWAIT), 10);
    close(pair[1]);
    chain_close(&c);
}

static void one_datagram_that_is_too_long_stops_no_others(void) {
    chain c;
    int pair[2], small = 1;
    if (!chain_open(&c, AF_INET)) return;
    add_target(&c, false);
    open_pair(&c, pair);
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    chain_start(&c);
    export(&c, 1);
    export(&c, SLOT_SIZE); /* longer than the smallest send buffer */
    export(&c, 2);
    CHECK_EQUAL(forward_all(&c), 3);
    CHECK_EQUAL(fb_forward_read_targets(c.forward)->sent, 2);
    CHECK_EQUAL(fb_forward_read_targets(c.forward)->unsent[FB_UNFORWARDED_TOO_LONG], 1);
    close(pair[1]);
    chain_close(&c);
}

static void other_errors_are_counted(void) {
    chain c;
    if (!chain_open(&c, AF_INET)) return;
    add_target(&c, false);
    chain_start(&c);
    close(c.targets[0].socket);
    for (int i = 0; i < 3; i++) export(&c, 1);
    CHECK_EQUAL(forward_all(&c), 3);
    CHECK_EQUAL(fb_forward_read_targets(c.forward)->unsent[FB_UNFORWARDED_OTHER], 3);
    c.targets[0].socket = open_socket();
    chain_close(&c);
}

static void survives_failed_allocations(void) {
    chain c;
    fb_status status = FB_NO_MEMORY;
    if (!chain_open(&c, AF_INET)) return;
    add_target(&c, false);
    fb_memory memory;
    for (size_t limit = 1; status == FB_NO_MEMORY; limit += sizeof(fb_forward_target)) {
        memory = fb_memory_system(limit);
        status = fb_forward_new(&c.forward, c.targets, 1, &memory);
        CHECK_EQUAL(c.forward != NULL, status == FB_OK);
        if (status != FB_OK) CHECK_EQUAL(memory.used, 0);
    }
    CHECK_STATUS(status, FB_OK);
    fb_forward_free(c.forward);
    CHECK_EQUAL(memory.used, 0);
    c.forward = NULL;
    chain_close(&c);
}

static void reasons_have_names(void) {
    CHECK(strcmp(fb_unforwarded_name(FB_UNFORWARDED_BLOCKED), "blocked") == 0);
    CHECK(strcmp(fb_unforwarded_name(FB_UNFORWARDED_OTHER), "other") == 0);
}

RUN_TESTS(TEST(copies_arrive_at_all_targets), TEST(copies_keep_their_source),
          TEST(a_source_of_the_other_family_is_not_kept), TEST(messages_are_sent_as_datagrams),
          TEST(truncated_datagrams_are_counted_only), TEST(a_closed_port_is_reported),
          TEST(a_full_send_buffer_blocks_nothing),
          TEST(one_datagram_that_is_too_long_stops_no_others), TEST(other_errors_are_counted),
          TEST(survives_failed_allocations), TEST(reasons_have_names))
