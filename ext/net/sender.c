/* One loop: count the datagrams that are due, rewrite them, and pass those of one socket to the
   system. Their order never changes. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* clocks and poll, which -std=c11 hides */
#endif

#include "net/sender.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "net/error_reports.h"
#include "net/export_header.h"
#include "net/socket.h"

#define SECOND      UINT64_C(1000000000)
#define MILLISECOND UINT64_C(1000000)

const char *fb_unsent_name(fb_unsent reason) {
    static const char *const names[] = {
#define FB_X(constant, name, error) name,
        FB_UNSENT_LIST(FB_X)
#undef FB_X
    };
    return names[reason];
}

/* The system ---------------------------------------------------------------------------------- */

static uint64_t read_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static fb_unsent find_reason(int error) {
    switch (error) {
#define FB_X(constant, name, error) \
    case error: return FB_UNSENT_##constant;
        FB_UNSENT_LIST(FB_X)
#undef FB_X
        default: return FB_UNSENT_REASONS;
    }
}

/* Sleep until `time`. Return false if a signal came first. */
static bool sleep_until(uint64_t time) {
    uint64_t now = read_clock(CLOCK_MONOTONIC), left = time > now ? time - now : 0;
    struct timespec duration = {(time_t)(left / SECOND), (long)(left % SECOND)};
    return nanosleep(&duration, NULL) == 0;
}

/* Wait until the socket accepts data, or until `time`. Return false if a signal came first. */
static bool wait_until_writable(int socket, uint64_t time) {
    uint64_t now = read_clock(CLOCK_MONOTONIC), left = time > now ? time - now : 0;
    struct pollfd descriptor = {.fd = socket, .events = POLLOUT};
    return poll(&descriptor, 1, (int)(left / MILLISECOND) + 1) >= 0;
}

/* Datagrams ----------------------------------------------------------------------------------- */

static uint64_t lesser(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static int socket_of(const fb_udp_sender *sender, size_t i) {
    return sender->sockets[sender->recording->sources[i] % sender->socket_count];
}

/* Return the number of datagrams, of `most`, that one call can send: those of one socket, without
   passing the end of the recording. */
static unsigned count_together(const fb_udp_sender *sender, size_t first, size_t most) {
    size_t left = sender->recording->count - first;
    size_t count = 1;
    if (most > left) most = left;
    while (count < most && socket_of(sender, first + count) == socket_of(sender, first)) count++;
    return (unsigned)count;
}

/* Rewrite the next `count` datagrams, except those that an earlier call has rewritten. */
static void prepare(fb_udp_sender *sender, size_t count) {
    const fb_recording *recording = sender->recording;
    if (!sender->renumber && !sender->now) return;
    uint64_t time = sender->now ? read_clock(CLOCK_REALTIME) : 0;
    uint64_t index = sender->prepared > sender->handled ? sender->prepared : sender->handled;
    for (; index < sender->handled + count; index++) {
        size_t i = (size_t)(index % recording->count);
        const fb_datagram *datagram = &recording->datagrams[i];
        bool repeated = index >= recording->count;
        if (sender->renumber && repeated) fb_renumber_advance(sender->renumber, datagram, i);
        if (sender->now) fb_export_header_set_time(datagram, time);
    }
    sender->prepared = index;
}

static void count_sent(fb_udp_sender *sender, const fb_datagram *datagrams, unsigned count) {
    for (unsigned i = 0; i < count; i++) sender->bytes += datagrams[i].payload.size;
    sender->sent += count;
    sender->handled += count;
    sender->blocked_since = 0;
}

static void count_unsent(fb_udp_sender *sender, fb_unsent reason) {
    sender->unsent[reason]++;
    sender->handled++;
    sender->blocked_since = 0;
}

/* Wait for a full send buffer, until `end` at most. Give up the datagram if it is full for too
   long. Return false after a signal. */
static bool wait_for_room(fb_udp_sender *sender, int socket, uint64_t end) {
    uint64_t now = read_clock(CLOCK_MONOTONIC);
    if (!sender->blocked_since) sender->blocked_since = now;
    uint64_t patience = sender->blocked_since + FB_SENDER_PATIENCE;
    if (now < patience) return wait_until_writable(socket, lesser(end, patience));
    count_unsent(sender, FB_UNSENT_BLOCKED);
    return true;
}

/* Read the reports of a socket. *any: there was one. 0, or an error that ends the replay. */
static int read_reports(fb_udp_sender *sender, int socket, bool *any) {
    fb_error_reports reports = fb_error_reports_read(socket);
    sender->refused += reports.refused;
    *any = reports.any;
    return reports.error;
}

/* Handle the error of the next datagram. Return 0 to continue, EINTR after a signal, or an error
   that ends the replay. */
static int handle_error(fb_udp_sender *sender, int socket, int error, uint64_t end) {
    bool reported;
    int failure = read_reports(sender, socket, &reported);
    if (failure) return failure;
    if (reported) return 0; /* an earlier datagram caused the error */
    if (error == ECONNREFUSED) {
        sender->refused += !FB_HAS_ERROR_REPORTS;
        return 0;
    }
    if (error == EAGAIN) return wait_for_room(sender, socket, end) ? 0 : EINTR;
    fb_unsent reason = find_reason(error);
    if (reason == FB_UNSENT_REASONS) return error;
    count_unsent(sender, reason);
    return 0;
}

/* Pass up to `due` datagrams to the system, at least one. Return values are those of
   handle_error. */
static int send_due(fb_udp_sender *sender, size_t due, uint64_t end) {
    size_t first = (size_t)(sender->handled % sender->recording->count);
    const fb_datagram *datagrams = &sender->recording->datagrams[first];
    int socket = socket_of(sender, first);
    unsigned count = count_together(sender, first, due);
    prepare(sender, count);
    int sent = fb_socket_send(socket, datagrams, count);
    if (sent < 0) return handle_error(sender, socket, errno, end);
    count_sent(sender, datagrams, (unsigned)sent);
    bool any; /* a call that ends early may have met a report, and the queue is short */
    return (unsigned)sent < count ? read_reports(sender, socket, &any) : 0;
}

/* Send until the limit, the time `end`, or a signal. 0, or the error that ended it. */
static int send_until(fb_udp_sender *sender, uint64_t end) {
    uint64_t now = read_clock(CLOCK_MONOTONIC);
    for (; !fb_udp_sender_is_done(sender) && now < end; now = read_clock(CLOCK_MONOTONIC)) {
        uint64_t index = sender->handled;
        size_t most = (size_t)lesser(FB_SOCKET_BATCH, sender->limit - index);
        size_t due = fb_pace_count_due(&sender->pace, sender->recording, index, most, now);
        if (due) {
            int error = send_due(sender, due, end);
            if (error) return error == EINTR ? 0 : error;
        } else {
            uint64_t next = fb_pace_get_due(&sender->pace, sender->recording, index);
            if (!sleep_until(lesser(next, end))) return 0;
        }
    }
    return 0;
}

/* Read the reports of all sockets that no call has met. Return 0, or the first error that ends the
   replay. */
static int read_all_reports(fb_udp_sender *sender) {
    bool any;
    int first = 0;
    for (size_t i = 0; i < sender->socket_count; i++) {
        int error = read_reports(sender, sender->sockets[i], &any);
        if (!first) first = error;
    }
    return first;
}

int fb_udp_sender_run(fb_udp_sender *sender, uint64_t duration) {
    int error = send_until(sender, read_clock(CLOCK_MONOTONIC) + duration);
    int reported = read_all_reports(sender); /* also after an error: the counts must be complete */
    return error ? error : reported;
}
