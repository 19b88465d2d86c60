/* A bare send loop for the benchmarks of collectors (Linux).

     bare_sender WORKLOAD PORT

   WORKLOAD is a file of benchmarks/peers/harness.py: datagrams `first`, then datagrams `data`. Each
   source address of the workload is an address of the loopback network, from 127.0.0.2 on, so that
   the collector sees as many exporters as the workload has. The program sends `first` slowly, and
   prints `ready DATAGRAMS`. It then answers each line `SECONDS RATE COUNT WINDOW` with
   `DATAGRAMS NANOSECONDS`: the datagrams of `data` that it has sent, and the time it took.

   SECONDS and COUNT end the run; 0 is no limit. RATE is in datagrams per second; 0 sends as fast as
   possible. With WINDOW, the sender waits while the receiving sockets hold more than so many bytes,
   so that it never exceeds the speed of the collector. Each run continues where the last one has
   ended, so the sequence numbers of a pass over `data` have no gaps. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
    BATCH = 64,
    MOST_HOSTS = 250,
    MOST_SOURCES = 1000,
    FIRST_RATE = 20000,
    FIRST_WINDOW = 65536,
    SKB_BYTES = 4096 /* most bytes that a datagram takes in the receiving socket */
};

#define SECOND UINT64_C(1000000000)

typedef struct {
    uint8_t address[16];
    uint16_t port;
    int socket;
    unsigned host; /* last byte of its address on the loopback network */
} source;

typedef struct {
    uint8_t *file;
    struct iovec *payloads;
    size_t *sources; /* of each payload: an index of `known` */
    size_t first, count;
    source known[MOST_SOURCES];
    size_t source_count;
    unsigned hosts; /* number of different addresses */
} workload;

/* Limits of a run. 0: none. */
typedef struct {
    double seconds, rate;
    uint64_t count, window;
} limits;

static uint16_t receiver_port;

static void fail(const char *call) {
    perror(call);
    exit(1);
}

static void check(int valid, const char *problem) {
    if (valid) return;
    fprintf(stderr, "bare_sender: %s\n", problem);
    exit(1);
}

static uint64_t read_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static void sleep_for(uint64_t nanoseconds) {
    struct timespec time = {(time_t)(nanoseconds / SECOND), (long)(nanoseconds % SECOND)};
    nanosleep(&time, NULL);
}

/* The workload -------------------------------------------------------------------------------- */

static int open_socket(unsigned host) {
    int sender = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in place = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl((127u << 24) + host)};
    if (sender < 0) fail("socket");
    if (bind(sender, (struct sockaddr *)&place, sizeof(place))) fail("bind");
    place.sin_port = htons(receiver_port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(sender, (struct sockaddr *)&place, sizeof(place))) fail("connect");
    return sender;
}

/* Return the last byte of the address on the loopback network that stands for an address. */
static unsigned find_host(workload *work, const uint8_t address[16]) {
    for (size_t i = 0; i < work->source_count; i++) {
        if (!memcmp(work->known[i].address, address, 16)) return work->known[i].host;
    }
    check(work->hosts < MOST_HOSTS, "too many addresses");
    return 2 + work->hosts++;
}

/* Return the index of a source, which gets a socket when it is new. */
static size_t find_source(workload *work, const uint8_t address[16], uint16_t port) {
    for (size_t i = 0; i < work->source_count; i++) {
        const source *known = &work->known[i];
        if (known->port == port && !memcmp(known->address, address, 16)) return i;
    }
    check(work->source_count < MOST_SOURCES, "too many sources");
    source *added = &work->known[work->source_count];
    *added = (source){.port = port, .host = find_host(work, address)};
    added->socket = open_socket(added->host);
    memcpy(added->address, address, 16);
    return work->source_count++;
}

static uint32_t load_uint32(const uint8_t *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static size_t read_file(const char *path, uint8_t **content) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    check(size >= 8, "the file is no workload");
    *content = malloc((size_t)size);
    check(*content && fread(*content, 1, (size_t)size, file) == (size_t)size, "cannot read");
    fclose(file);
    return (size_t)size;
}

/* A datagram of the file: size (4 bytes), address (16), port (2), time (8), payload. */
static void load(workload *work, const char *path) {
    enum { HEADER = 4 + 16 + 2 + 8 };
    size_t size = read_file(path, &work->file), at = 8;
    work->first = load_uint32(work->file);
    work->count = work->first + load_uint32(work->file + 4);
    work->payloads = calloc(work->count, sizeof(*work->payloads));
    work->sources = calloc(work->count, sizeof(*work->sources));
    check(work->payloads && work->sources && work->count > work->first, "no datagrams");
    for (size_t i = 0; i < work->count; i++) {
        check(size - at >= HEADER, "the file is cut");
        const uint8_t *header = work->file + at;
        uint32_t length = load_uint32(header);
        at += HEADER;
        check(size - at >= length, "the file is cut");
        work->payloads[i] = (struct iovec){work->file + at, length};
        work->sources[i] = find_source(work, header + 4, (uint16_t)(header[20] | header[21] << 8));
        at += length;
    }
}

/* Sending ------------------------------------------------------------------------------------- */

/* Return the bytes that wait in the receiving sockets, with the overhead of the kernel. */
static uint64_t read_queue(void) {
    char line[512];
    uint64_t sum = 0;
    FILE *table = fopen("/proc/net/udp", "r");
    if (!table) fail("/proc/net/udp");
    while (fgets(line, sizeof(line), table)) {
        unsigned port;
        unsigned long waiting;
        if (sscanf(line, " %*d: %*x:%x %*x:%*x %*x %*x:%lx", &port, &waiting) == 2 &&
            port == receiver_port)
            sum += waiting;
    }
    fclose(table);
    return sum;
}

/* Send up to `most` datagrams of one source from `index` on. Return their number. */
static size_t send_some(const workload *work, size_t index, size_t end, size_t most) {
    struct mmsghdr messages[BATCH];
    size_t count = 0;
    while (count < most && count < BATCH && index + count < end &&
           work->sources[index + count] == work->sources[index]) {
        struct iovec *payload = &work->payloads[index + count];
        messages[count++] = (struct mmsghdr){.msg_hdr = {.msg_iov = payload, .msg_iovlen = 1}};
    }
    int sent = sendmmsg(work->known[work->sources[index]].socket, messages, (unsigned)count, 0);
    if (sent < 0 && errno != ECONNREFUSED && errno != ENOBUFS) fail("sendmmsg");
    return sent < 0 ? 0 : (size_t)sent;
}

/* Return the number of datagrams that may be sent now: at most BATCH, and 0 after a pause. */
static size_t count_due(const limits *limit, uint64_t sent, uint64_t elapsed) {
    uint64_t due = BATCH;
    if (limit->rate > 0) {
        double ahead = (double)(sent + 1) / limit->rate - (double)elapsed / 1e9;
        if (ahead > 0) {
            sleep_for((uint64_t)(ahead * 1e9) + 1);
            return 0;
        }
        due = (uint64_t)((double)elapsed / 1e9 * limit->rate) - sent;
    }
    if (limit->count && due > limit->count - sent) due = limit->count - sent;
    return due < BATCH ? (size_t)due : BATCH;
}

/* Wait until the receiving sockets hold less than the window, or until `end`. Return the number of
   datagrams that can be sent before the next look. */
static int64_t wait_for_room(const limits *limit, uint64_t end) {
    uint64_t waiting;
    while ((waiting = read_queue()) >= limit->window && read_clock() < end) sleep_for(200000);
    uint64_t room = waiting < limit->window ? limit->window - waiting : 0;
    return (int64_t)(room / SKB_BYTES) + 1;
}

/* Send datagrams from *index on, between `begin` and `stop`, in a circle. Return their number. */
static uint64_t run(const workload *work, size_t begin, size_t stop, size_t *index, limits limit) {
    uint64_t sent = 0, start = read_clock(), now = start;
    uint64_t end = limit.seconds > 0 ? start + (uint64_t)(limit.seconds * 1e9) : UINT64_MAX;
    int64_t room = 0;
    for (; now < end && (!limit.count || sent < limit.count); now = read_clock()) {
        if (limit.window && room <= 0) room = wait_for_room(&limit, end);
        size_t due = count_due(&limit, sent, now - start);
        if (!due) continue;
        if (limit.window && (int64_t)due > room) due = room > 0 ? (size_t)room : 1;
        size_t done = send_some(work, *index, stop, due);
        sent += done;
        room -= (int64_t)done;
        *index += done;
        if (*index == stop) *index = begin;
    }
    return sent;
}

int main(int count, char **arguments) {
    static workload work;
    char line[256];
    if (count != 3) {
        fputs("usage: bare_sender WORKLOAD PORT\n", stderr);
        return 2;
    }
    receiver_port = (uint16_t)atoi(arguments[2]);
    load(&work, arguments[1]);
    size_t index = 0;
    limits gentle = {.rate = FIRST_RATE, .count = work.first, .window = FIRST_WINDOW};
    if (work.first) run(&work, 0, work.first, &index, gentle);
    index = work.first;
    printf("ready %zu\n", work.first);
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        limits limit;
        if (sscanf(line, "%lf %lf %" SCNu64 " %" SCNu64, &limit.seconds, &limit.rate, &limit.count,
                   &limit.window) != 4 ||
            !(limit.seconds > 0 || limit.count)) {
            fprintf(stderr, "bare_sender: cannot read the line: %s", line);
            return 1;
        }
        uint64_t begin = read_clock();
        uint64_t sent = run(&work, work.first, work.count, &index, limit);
        printf("%" PRIu64 " %" PRIu64 "\n", sent, read_clock() - begin);
        fflush(stdout);
    }
    return 0;
}
