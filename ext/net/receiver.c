/* recvmmsg fills fixed slots. Each slot has room for one payload, its source and its time. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* recvmmsg */
#endif
#include "net/receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/sockios.h>
#endif

enum { NANOSECOND = 1000000000, MILLISECOND = 1000000, PAGE = 4096 };

/* Most calls that read the same socket again without poll. */
enum { MOST_REPEATS = 7 };

typedef struct {
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } source;
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec payload;
} slot;

#ifdef __linux__
typedef struct mmsghdr message;
#else
typedef struct {
    struct msghdr msg_hdr;
    unsigned msg_len;
} message;
#endif

/* The state of reading times of a socket. */
typedef struct {
    bool each;     /* the kernel passes the time of each datagram */
    uint64_t last; /* time of the last datagram that was read; 0: unknown */
} timing;

struct fb_receiver_buffers {
    size_t slots, slot_size, stride;
    message *messages;
    slot *items;
    timing *timings; /* of the listeners */
    uint8_t *payloads;
    struct pollfd *polls; /* of the listeners, and of the reading end of the pipe */
    size_t used;          /* messages that the last call of the kernel has overwritten */
    uint32_t pause;       /* of fb_receiver_options */
    bool lightly_used;    /* the last call filled less than half of the slots */
    size_t last;          /* index of the listener that was read last */
    unsigned repeats;     /* calls that read it again without poll, while it fills all slots */
    int wake[2];          /* a pipe: reading end, writing end */
};

static uint64_t join_time(struct timespec time) {
    return (uint64_t)time.tv_sec * NANOSECOND + (uint64_t)time.tv_nsec;
}

static uint64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return join_time(now);
}

uint64_t fb_clock_now(void) {
#ifdef __APPLE__
    return read_clock(CLOCK_UPTIME_RAW); /* Python's clock: it stops while the machine sleeps */
#else
    return read_clock(CLOCK_MONOTONIC);
#endif
}

/* Let the kernel pass the time of each datagram, or not. It notes the times in any case, once this
   was asked for. Returns false if the system cannot do it. */
static bool set_each_time(int socket, bool each) {
#ifdef SO_TIMESTAMPNS
    const int value = each;
    return !setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &value, sizeof(value));
#else
    (void)socket, (void)each;
    return false;
#endif
}

static bool set_nonblocking(int descriptor) {
    int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && !fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

static bool prepare_socket(int socket) {
    int kind = 0;
    socklen_t size = sizeof(kind);
    if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &size) || kind != SOCK_DGRAM) return false;
    struct sockaddr_storage local;
    size = sizeof(local);
    if (getsockname(socket, (struct sockaddr *)&local, &size)) return false;
    if (local.ss_family != AF_INET && local.ss_family != AF_INET6) return false;
    (void)set_each_time(socket, true); /* without it, the time after each call is used */
    return set_nonblocking(socket);
}

static fb_status open_pipe(int ends[2]) {
    if (pipe(ends)) {
        ends[0] = ends[1] = -1;
        return FB_NO_MEMORY;
    }
    for (int i = 0; i < 2; i++) {
        if (!set_nonblocking(ends[i]) || fcntl(ends[i], F_SETFD, FD_CLOEXEC)) return FB_NO_MEMORY;
    }
    return FB_OK;
}

/* Return an array of `count` items, or NULL. */
#define NEW_ARRAY(memory, count, item) fb_memory_allocate(memory, (count) * sizeof(item))

static fb_status allocate_arrays(fb_receiver *receiver) {
    struct fb_receiver_buffers *buffers = receiver->buffers;
    size_t slots = buffers->slots, listeners = receiver->listener_count;
    receiver->listeners = NEW_ARRAY(receiver->memory, listeners, fb_listener);
    receiver->datagrams = NEW_ARRAY(receiver->memory, slots, fb_datagram);
    buffers->messages = NEW_ARRAY(receiver->memory, slots, message);
    buffers->items = NEW_ARRAY(receiver->memory, slots, slot);
    buffers->timings = NEW_ARRAY(receiver->memory, listeners, timing);
    buffers->polls = NEW_ARRAY(receiver->memory, listeners + 1, struct pollfd);
    buffers->payloads = fb_memory_allocate(receiver->memory, slots * buffers->stride);
    bool complete = receiver->listeners && receiver->datagrams && buffers->messages &&
                    buffers->items && buffers->timings && buffers->polls && buffers->payloads;
    return complete ? FB_OK : FB_NO_MEMORY;
}

/* Connect each message with its slot. The payloads, sources and control data never move. */
static void connect_slots(struct fb_receiver_buffers *buffers) {
    for (size_t i = 0; i < buffers->slots; i++) {
        slot *item = &buffers->items[i];
        struct msghdr *header = &buffers->messages[i].msg_hdr;
        item->payload.iov_base = buffers->payloads + i * buffers->stride;
        item->payload.iov_len = buffers->slot_size;
        header->msg_iov = &item->payload;
        header->msg_iovlen = 1;
        header->msg_name = &item->source;
        header->msg_control = item->control;
    }
}

static fb_status add_listeners(fb_receiver *receiver, const fb_listener *listeners) {
    struct pollfd *polls = receiver->buffers->polls;
    for (size_t i = 0; i < receiver->listener_count; i++) {
        receiver->listeners[i] =
            (fb_listener){.socket = listeners[i].socket, .port = listeners[i].port};
        receiver->buffers->timings[i] = (timing){.each = true};
        polls[i] = (struct pollfd){.fd = listeners[i].socket, .events = POLLIN};
        if (!prepare_socket(listeners[i].socket)) return FB_BAD_ARGUMENT;
    }
    polls[receiver->listener_count] =
        (struct pollfd){.fd = receiver->buffers->wake[0], .events = POLLIN};
    return FB_OK;
}

/* Return the distance of slots. Payloads at multiples of a page would compete for the same lines of
   the processor's cache. */
static size_t choose_stride(size_t slot_size) {
    size_t stride = (slot_size + FB_CACHE_LINE - 1) / FB_CACHE_LINE * FB_CACHE_LINE;
    return stride % PAGE ? stride : stride + FB_CACHE_LINE;
}

static fb_status fill(fb_receiver *receiver, const fb_listener *listeners,
                      fb_receiver_options options) {
    struct fb_receiver_buffers *buffers =
        fb_memory_allocate(receiver->memory, sizeof(struct fb_receiver_buffers));
    if (!buffers) return FB_NO_MEMORY;
    receiver->buffers = buffers;
    buffers->slots = options.slots;
    buffers->slot_size = options.slot_size;
    buffers->pause = options.pause;
    buffers->stride = choose_stride(options.slot_size);
    buffers->wake[0] = buffers->wake[1] = -1;
    fb_status status = allocate_arrays(receiver);
    if (status == FB_OK) status = open_pipe(buffers->wake);
    if (status == FB_OK) status = add_listeners(receiver, listeners);
    if (status == FB_OK) connect_slots(buffers);
    buffers->used = buffers->slots;
    buffers->last = receiver->listener_count - 1; /* the first one has the first turn */
    return status;
}

fb_status fb_receiver_new(fb_receiver **receiver, const fb_listener *listeners, size_t count,
                          fb_receiver_options options, fb_memory *memory) {
    *receiver = NULL;
    if (!count || count > FB_RECEIVER_MAX_SLOTS || !options.slots ||
        options.slots > FB_RECEIVER_MAX_SLOTS || !options.slot_size ||
        options.slot_size > FB_UDP_MAX_PAYLOAD + 1 || options.pause >= NANOSECOND)
        return FB_BAD_ARGUMENT;
    fb_receiver *made = fb_memory_allocate(memory, sizeof(fb_receiver));
    if (!made) return FB_NO_MEMORY;
    made->memory = memory;
    made->listener_count = count;
    fb_status status = fill(made, listeners, options);
    if (status == FB_OK) *receiver = made;
    else fb_receiver_free(made);
    return status;
}

static void free_buffers(fb_receiver *receiver) {
    struct fb_receiver_buffers *buffers = receiver->buffers;
    size_t slots = buffers->slots, listeners = receiver->listener_count;
    for (int i = 0; i < 2; i++) {
        if (buffers->wake[i] >= 0) close(buffers->wake[i]);
    }
    fb_memory_release(receiver->memory, receiver->listeners, listeners * sizeof(fb_listener));
    fb_memory_release(receiver->memory, receiver->datagrams, slots * sizeof(fb_datagram));
    fb_memory_release(receiver->memory, buffers->messages, slots * sizeof(message));
    fb_memory_release(receiver->memory, buffers->items, slots * sizeof(slot));
    fb_memory_release(receiver->memory, buffers->timings, listeners * sizeof(timing));
    fb_memory_release(receiver->memory, buffers->polls, (listeners + 1) * sizeof(struct pollfd));
    fb_memory_release(receiver->memory, buffers->payloads, slots * buffers->stride);
    fb_memory_release(receiver->memory, buffers, sizeof(struct fb_receiver_buffers));
}

void fb_receiver_free(fb_receiver *receiver) {
    if (!receiver) return;
    if (receiver->buffers) free_buffers(receiver);
    fb_memory_release(receiver->memory, receiver, sizeof(fb_receiver));
}

void fb_receiver_wake(fb_receiver *receiver) {
    ssize_t written = write(receiver->buffers->wake[1], "", 1);
    (void)written; /* a full pipe wakes the receiver too */
}

/* Datagrams ------------------------------------------------------------------------------------ */

/* Return the time of reception that the kernel has passed with a datagram; 0: none. */
static uint64_t read_own_time(const struct msghdr *header) {
#ifdef SCM_TIMESTAMPNS
    struct cmsghdr *control = CMSG_FIRSTHDR(header);
    struct timespec time;
    if (control && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_TIMESTAMPNS &&
        control->cmsg_len >= CMSG_LEN(sizeof(time))) {
        memcpy(&time, CMSG_DATA(control), sizeof(time));
        return join_time(time);
    }
#else
    (void)header;
#endif
    return 0;
}

/* Return the time of the datagram that was read last from a socket; 0: unknown. */
static uint64_t read_last_time(int socket) {
#ifdef SIOCGSTAMPNS
    struct timespec time;
    if (!ioctl(socket, SIOCGSTAMPNS, &time)) return join_time(time);
#else
    (void)socket;
#endif
    return 0;
}

/* Choose how the next call reads times. A time for each datagram takes a tenth of the processor
   time of receiving. It is not needed if the last datagram arrived within the last millisecond: all
   that wait have arrived after it, so they can share one time. */
static void choose_timing(const fb_listener *listener, timing *timing) {
    const bool each = read_clock(CLOCK_REALTIME) - timing->last > MILLISECOND;
    if (each != timing->each && set_each_time(listener->socket, each)) timing->each = each;
}

static void read_source(const slot *item, fb_datagram *datagram) {
    if (item->source.any.sa_family == AF_INET6) {
        memcpy(datagram->source, &item->source.ipv6.sin6_addr, 16);
        datagram->source_port = ntohs(item->source.ipv6.sin6_port);
    } else {
        fb_store_address(datagram->source, (const uint8_t *)&item->source.ipv4.sin_addr, 4);
        datagram->source_port = ntohs(item->source.ipv4.sin_port);
    }
}

/* Read the datagrams of a call. Those without a time of their own share that of the last one, or
   the current time if the kernel gave none. */
static void read_datagrams(fb_receiver *receiver, fb_listener *listener, timing *timing) {
    struct fb_receiver_buffers *buffers = receiver->buffers;
    const struct msghdr *end = &buffers->messages[receiver->count - 1].msg_hdr;
    uint64_t last = read_own_time(end);
    timing->each = last != 0;
    timing->last = last ? last : read_last_time(listener->socket);
    uint64_t shared = timing->last ? timing->last : read_clock(CLOCK_REALTIME);
    for (size_t i = 0; i < receiver->count; i++) {
        const message *received = &buffers->messages[i];
        fb_datagram *datagram = &receiver->datagrams[i];
        read_source(&buffers->items[i], datagram);
        datagram->destination_port = listener->port;
        uint64_t own = timing->each ? read_own_time(&received->msg_hdr) : 0;
        datagram->time = own ? own : shared;
        if (datagram->time > FB_TIME_MAX) datagram->time = FB_TIME_MAX;
        datagram->payload.data = buffers->payloads + i * buffers->stride;
        datagram->payload.size = received->msg_len;
        listener->bytes += received->msg_len;
        if (received->msg_hdr.msg_flags & MSG_TRUNC) listener->truncated++;
    }
    listener->datagrams += receiver->count;
}

bool fb_receiver_is_truncated(const fb_receiver *receiver, const fb_datagram *datagram) {
    const struct fb_receiver_buffers *buffers = receiver->buffers;
    if (datagram->payload.size < buffers->slot_size) return false;
    size_t slot = (size_t)(datagram->payload.data - buffers->payloads) / buffers->stride;
    return buffers->messages[slot].msg_hdr.msg_flags & MSG_TRUNC;
}

/* Reset the fields that the kernel has overwritten. */
static void reset_messages(struct fb_receiver_buffers *buffers) {
    for (size_t i = 0; i < buffers->used; i++) {
        struct msghdr *header = &buffers->messages[i].msg_hdr;
        header->msg_namelen = sizeof(buffers->items[i].source);
        header->msg_controllen = sizeof(buffers->items[i].control);
        header->msg_flags = 0;
    }
}

/* Return the number of datagrams, or -1 with errno. */
static int read_messages(int socket, struct fb_receiver_buffers *buffers) {
#ifdef __linux__
    return recvmmsg(socket, buffers->messages, (unsigned)buffers->slots, MSG_DONTWAIT, NULL);
#else
    size_t count = 0;
    ssize_t size = 0;
    while (count < buffers->slots && size >= 0) {
        message *next = &buffers->messages[count];
        size = recvmsg(socket, &next->msg_hdr, MSG_DONTWAIT);
        next->msg_len = size > 0 ? (unsigned)size : 0;
        count += size >= 0;
    }
    return count ? (int)count : -1;
#endif
}

/* Count a failed call. Return false for an error that waiting does not cure. */
static bool handle_error(fb_receiver *receiver, fb_listener *listener, int error) {
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return true;
    listener->errors++;
    receiver->error = error;
    if (error == EBADF || error == ENOTSOCK || error == EINVAL || error == EFAULT) return false;
    poll(NULL, 0, 1); /* the kernel has no memory: try again after a millisecond */
    return true;
}

/* Read one socket. Return false for an error that waiting does not cure. */
static bool read_listener(fb_receiver *receiver, size_t index) {
    fb_listener *listener = &receiver->listeners[index];
    timing *timing = &receiver->buffers->timings[index];
    choose_timing(listener, timing);
    reset_messages(receiver->buffers);
    int count = read_messages(listener->socket, receiver->buffers);
    if (count < 0) return handle_error(receiver, listener, errno);
    receiver->calls++;
    receiver->count = receiver->buffers->used = (size_t)count;
    receiver->buffers->lightly_used = receiver->count < receiver->buffers->slots / 2;
    read_datagrams(receiver, listener, timing);
    return true;
}

/* Read the sockets that poll reported, beginning after the last one, until one has datagrams. */
static fb_receive_result read_ready(fb_receiver *receiver) {
    struct fb_receiver_buffers *buffers = receiver->buffers;
    size_t first = buffers->last + 1;
    for (size_t i = 0; i < receiver->listener_count; i++) {
        size_t turn = (first + i) % receiver->listener_count;
        if (!buffers->polls[turn].revents) continue;
        if (!read_listener(receiver, turn)) return FB_RECEIVE_FAILED;
        if (!receiver->count) continue;
        buffers->last = turn;
        buffers->repeats = receiver->count == buffers->slots ? MOST_REPEATS : 0;
        return FB_RECEIVED;
    }
    return FB_RECEIVE_IDLE;
}

/* Read the socket of the last call again, if it has filled all slots. */
static fb_receive_result read_again(fb_receiver *receiver) {
    struct fb_receiver_buffers *buffers = receiver->buffers;
    if (!buffers->repeats) return FB_RECEIVE_IDLE;
    if (!read_listener(receiver, buffers->last)) return FB_RECEIVE_FAILED;
    buffers->repeats = receiver->count == buffers->slots ? buffers->repeats - 1 : 0;
    return receiver->count ? FB_RECEIVED : FB_RECEIVE_IDLE;
}

static bool take_wake(struct fb_receiver_buffers *buffers, const struct pollfd *poll) {
    uint8_t discarded[64];
    bool woken = poll->revents != 0;
    while (woken && read(buffers->wake[0], discarded, sizeof(discarded)) > 0) continue;
    return woken;
}

/* Return the time until the deadline in whole milliseconds, rounded up. */
static int find_timeout(uint64_t deadline) {
    uint64_t now = fb_clock_now();
    if (deadline <= now) return 0;
    uint64_t timeout = (deadline - now + MILLISECOND - 1) / MILLISECOND;
    return timeout < INT32_MAX ? (int)timeout : INT32_MAX;
}

/* Let datagrams accumulate after a call that returned few of them. */
static void pause_briefly(struct fb_receiver_buffers *buffers) {
    if (buffers->lightly_used && buffers->pause)
        nanosleep(&(struct timespec){.tv_nsec = (long)buffers->pause}, NULL);
    buffers->lightly_used = false;
}

fb_receive_result fb_receiver_receive(fb_receiver *receiver, uint64_t deadline) {
    struct fb_receiver_buffers *buffers = receiver->buffers;
    pause_briefly(buffers);
    struct pollfd *wake = &buffers->polls[receiver->listener_count];
    receiver->count = 0;
    fb_receive_result again = read_again(receiver);
    if (again != FB_RECEIVE_IDLE) return again;
    for (;;) {
        int timeout = find_timeout(deadline);
        int ready = poll(buffers->polls, (nfds_t)receiver->listener_count + 1, timeout);
        if (ready < 0 && errno != EINTR) {
            receiver->error = errno;
            return FB_RECEIVE_FAILED;
        }
        if (ready > 0) {
            if (take_wake(buffers, wake)) return FB_RECEIVE_WOKEN;
            fb_receive_result result = read_ready(receiver);
            if (result != FB_RECEIVE_IDLE) return result;
        }
        if (!timeout) return FB_RECEIVE_IDLE;
    }
}
