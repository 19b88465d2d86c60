/* Sends copies of received datagrams to other collectors, from sockets of its own:

     fb_forward_new(&forward, targets, count, &memory);
     …after each call that received: fb_forward_send(forward, receiver);
     …messages of TCP: fb_forward_send_messages(forward, messages, count);
     fb_forward_free(forward);

   It never waits: a datagram that the system does not take at once is counted and not sent again.
   Each datagram is counted for each target, either as sent or as unsent for one reason. */
#ifndef FB_NET_FORWARD_H
#define FB_NET_FORWARD_H

#include "net/receiver.h"

/* X(constant, name): reasons not to send a datagram. */
#define FB_UNFORWARDED_LIST(X) \
    X(BLOCKED, "blocked")           /* the send buffer is full */ \
    X(NO_BUFFERS, "no_buffers")     /* the system has no memory, or a queue drops */ \
    X(TOO_LONG, "too_long")         /* longer than UDP or the route allows */ \
    X(UNREACHABLE, "unreachable")   /* there is no route */ \
    X(FORBIDDEN, "forbidden")       /* by a firewall of this machine */ \
    X(TRUNCATED, "truncated")       /* received incompletely */ \
    X(OTHER_FAMILY, "other_family") /* source and target are not both IPv4 or both IPv6 */ \
    X(OTHER, "other")               /* any other error of the system */

typedef enum {
#define FB_X(constant, name) FB_UNFORWARDED_##constant,
    FB_UNFORWARDED_LIST(FB_X)
#undef FB_X
        FB_UNFORWARDED_REASONS
} fb_unforwarded;

/* Return the name of a reason: a static string. */
const char *fb_unforwarded_name(fb_unforwarded reason);

/* One target, and its totals. The first members are set by the owner, who closes the socket. */
typedef struct {
    int socket; /* connected to the target */
    /* Keep the address and port of the source. The socket is raw, with headers of IP from the
       caller (IPPROTO_RAW). Other sockets send from their own address. */
    bool original;
    uint8_t address[16]; /* of the target, IPv4 as ::ffff:a.b.c.d; used if `original` */
    uint16_t port;
    uint64_t sent;
    uint64_t refused; /* of `sent`: to a closed port, as far as it was reported */
    uint64_t unsent[FB_UNFORWARDED_REASONS];
} fb_forward_target;

typedef struct fb_forward fb_forward;

/* Create a forwarder. It copies the targets, and enables the error reports of their sockets.
   NO_MEMORY. */
fb_status fb_forward_new(fb_forward **forward, const fb_forward_target *targets, size_t count,
                         fb_memory *memory);
void fb_forward_free(fb_forward *forward);

/* Send the datagrams of the receiver to all targets. */
void fb_forward_send(fb_forward *forward, const fb_receiver *receiver);

/* Send messages that came over TCP to all targets, each as one datagram. */
void fb_forward_send_messages(fb_forward *forward, const fb_datagram *messages, size_t count);

/* Return the targets in their order. Their totals include the latest error reports. */
const fb_forward_target *fb_forward_read_targets(fb_forward *forward);

#endif
