/* A bare receive loop, the baseline for the CPU time of the collector (Linux).

     bare_receiver PORT BUFFER PAUSE

   Binds 127.0.0.1:PORT, prints `ready BYTES` with the granted receive buffer, and discards
   datagrams until SIGTERM. Then it prints `DATAGRAMS BYTES DROPS NANOSECONDS`: the datagrams
   received, their payload bytes, the drops of the kernel, and the CPU time of the process.

   The loop requests source addresses, because no datagram can be decoded without them. It requests
   no times of reception. Its memory is as small as possible. Like the collector, it sleeps for
   PAUSE nanoseconds after a call that returned few datagrams. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

enum { SLOTS = 64, SLOT_SIZE = 2048 };

static volatile sig_atomic_t stopped;

static void stop(int number) {
    (void)number;
    stopped = 1;
}

static void fail(const char *call) {
    perror(call);
    exit(1);
}

static void handle_end(void) {
    struct sigaction action = {.sa_handler = stop}; /* without SA_RESTART: it ends recvmmsg */
    if (sigaction(SIGTERM, &action, NULL) || sigaction(SIGINT, &action, NULL)) fail("sigaction");
}

/* Set the receive buffer, above net.core.rmem_max if permitted. Return the granted bytes. */
static int set_buffer(int receiver, int bytes) {
    int granted = 0;
    socklen_t size = sizeof(granted);
    if (setsockopt(receiver, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) &&
        setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)))
        fail("SO_RCVBUF");
    if (getsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &granted, &size)) fail("SO_RCVBUF");
    return granted / 2; /* the kernel doubles the value for its own overhead */
}

static int open_socket(uint16_t port) {
    int receiver = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in local = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_usec = 100000}; /* a signal may come just before recvmmsg */
    if (receiver < 0) fail("socket");
    if (setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
        fail("SO_RCVTIMEO");
    if (bind(receiver, (struct sockaddr *)&local, sizeof(local))) fail("bind");
    return receiver;
}

static unsigned long read_drops(int receiver) {
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof(info);
    if (getsockopt(receiver, SOL_SOCKET, SO_MEMINFO, info, &size)) fail("SO_MEMINFO");
    return info[SK_MEMINFO_DROPS];
}

static unsigned long long read_cpu_time(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    unsigned long long seconds =
        (unsigned long long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    unsigned long long rest = (unsigned long long)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    return (seconds * 1000000 + rest) * 1000;
}

static uint8_t payloads[SLOTS][SLOT_SIZE];
static struct sockaddr_in sources[SLOTS];
static struct iovec parts[SLOTS];
static struct mmsghdr messages[SLOTS];

static void connect_slots(void) {
    for (int i = 0; i < SLOTS; i++) {
        parts[i] = (struct iovec){payloads[i], SLOT_SIZE};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &sources[i],
                                              .msg_namelen = sizeof(sources[i]),
                                              .msg_iov = &parts[i],
                                              .msg_iovlen = 1};
    }
}

int main(int count, char **arguments) {
    if (count != 4) {
        fputs("usage: bare_receiver PORT BUFFER PAUSE\n", stderr);
        return 2;
    }
    struct timespec pause = {.tv_nsec = atol(arguments[3])};
    unsigned long long datagrams = 0, bytes = 0;
    handle_end();
    connect_slots();
    int receiver = open_socket((uint16_t)atoi(arguments[1]));
    printf("ready %d\n", set_buffer(receiver, atoi(arguments[2])));
    fflush(stdout);
    while (!stopped) {
        int received = recvmmsg(receiver, messages, SLOTS, MSG_WAITFORONE, NULL);
        for (int i = 0; i < received; i++) {
            bytes += messages[i].msg_len;
            messages[i].msg_hdr.msg_namelen = sizeof(sources[i]);
        }
        if (received > 0) datagrams += (unsigned long long)received;
        if (received < SLOTS / 2 && pause.tv_nsec) nanosleep(&pause, NULL);
    }
    printf("%llu %llu %lu %llu\n", datagrams, bytes, read_drops(receiver), read_cpu_time());
    return 0;
}
