/* The receive loop of the collector: UDP sockets in, datagrams out.

   One receiver belongs to one worker thread. It reads several sockets, and keeps the datagrams of
   the last call in its own memory:

     fb_receiver_new(&receiver, listeners, count, options, &memory);
     while (fb_receiver_receive(receiver, deadline) == FB_RECEIVED)
         …decode receiver->datagrams[0 … receiver->count - 1]…
     fb_receiver_free(receiver);

   The time of a datagram is that of the kernel at its reception. At high rates, all datagrams of a
   call have the time of the last one, which arrived about a millisecond after the first at most. */
#ifndef FB_NET_RECEIVER_H
#define FB_NET_RECEIVER_H

#include "core/base/datagram.h"

/* Largest payload of a UDP datagram over IPv6 without jumbograms; IPv4 allows 65,507 bytes. */
enum { FB_UDP_MAX_PAYLOAD = 65527 };

/* Most datagrams per call of recvmmsg. */
enum { FB_RECEIVER_MAX_SLOTS = 1024 };

/* One socket of a worker, and its totals. The owner of the socket closes it. */
typedef struct {
    int socket;
    uint16_t port;      /* local port: destination_port of its datagrams */
    uint64_t datagrams; /* received, including truncated ones */
    uint64_t bytes;     /* of their payloads as received */
    uint64_t truncated; /* datagrams that were longer than a slot: their rest is lost */
    uint64_t errors;    /* failed calls of recvmmsg, for example without kernel memory */
} fb_listener;

typedef struct {
    size_t slots;     /* datagrams per call of recvmmsg, 1 to FB_RECEIVER_MAX_SLOTS */
    size_t slot_size; /* most bytes of a payload, 1 to FB_UDP_MAX_PAYLOAD + 1 */
    /* Nanoseconds to sleep after a call that filled less than half of the slots, below one second.
       At medium rates, one call then returns what would take dozens of calls and wake-ups. The
       receive buffers must hold the datagrams of that time. 0: never. */
    uint32_t pause;
} fb_receiver_options;

typedef enum {
    FB_RECEIVED,       /* receiver->count datagrams were received */
    FB_RECEIVE_IDLE,   /* the deadline has passed without a datagram */
    FB_RECEIVE_WOKEN,  /* fb_receiver_wake was called */
    FB_RECEIVE_FAILED, /* the sockets cannot be read; receiver->error is the errno */
} fb_receive_result;

typedef struct {
    fb_listener *listeners;
    size_t listener_count;
    fb_datagram *datagrams; /* of the last call; their payloads are valid until the next one */
    size_t count;           /* the owner may set it to 0 once it needs them no more */
    uint64_t calls;         /* successful calls of recvmmsg */
    int error;
    struct fb_receiver_buffers *buffers;
    fb_memory *memory;
} fb_receiver;

/* Create a receiver. It copies the listeners. It sets O_NONBLOCK of their sockets, and
   SO_TIMESTAMPNS if the system has it. BAD_ARGUMENT: an option is out of range, or a descriptor is
   not a UDP socket. NO_MEMORY: also if the system has no descriptor left. */
fb_status fb_receiver_new(fb_receiver **receiver, const fb_listener *listeners, size_t count,
                          fb_receiver_options options, fb_memory *memory);
void fb_receiver_free(fb_receiver *receiver);

/* Wait for datagrams until `deadline`, in nanoseconds of fb_clock_now. The sockets take turns, so
   that a flood at one of them delays the others by eight calls at most. */
fb_receive_result fb_receiver_receive(fb_receiver *receiver, uint64_t deadline);

/* Return true if the end of a datagram is lost, because it was longer than a slot. REQUIRES: the
   payload is one of the last call. */
bool fb_receiver_is_truncated(const fb_receiver *receiver, const fb_datagram *datagram);

/* End the current call of fb_receiver_receive, or one of the next eight. Any thread may call it, as
   long as the receiver exists. */
void fb_receiver_wake(fb_receiver *receiver);

/* A clock that never goes backwards, in nanoseconds. */
uint64_t fb_clock_now(void);

#endif
