/* Sends the datagrams of a recording to UDP sockets, paced. Linux sends several with one system
   call (sendmmsg); other systems send them one by one.

     fb_udp_sender sender = {.recording = &recording, .sockets = sockets, .socket_count = 2,
                         .pace = {.kind = FB_PACE_RATE, .rate = 1000}, .limit = 50000};
     while (!error && !fb_udp_sender_is_done(&sender))
         error = fb_udp_sender_run(&sender, 100000000);

   A datagram that the system does not accept for one of the reasons below is counted and not sent
   again. A datagram to a closed port was sent, and also counts as refused if the receiver's host
   reports it. The loopback interface reports each one, other networks only some. Other errors and
   reports end the call. */
#ifndef FB_NET_SENDER_H
#define FB_NET_SENDER_H

#include "net/pace.h"
#include "net/renumber.h"

/* X(constant, name, error): reasons not to send a datagram. */
#define FB_UNSENT_LIST(X) \
    X(NO_BUFFERS, "no_buffers", ENOBUFS) \
    /* the send buffer was full for FB_SENDER_PATIENCE */ \
    X(BLOCKED, "blocked", EAGAIN) \
    X(TOO_LONG, "too_long", EMSGSIZE)

#define FB_SENDER_PATIENCE UINT64_C(100000000) /* ns */

typedef enum {
#define FB_X(constant, name, error) FB_UNSENT_##constant,
    FB_UNSENT_LIST(FB_X)
#undef FB_X
        FB_UNSENT_REASONS
} fb_unsent;

/* Return the name of a reason: a static string. */
const char *fb_unsent_name(fb_unsent reason);

/* Initialize the first members; the rest is zero. All pointers must outlive the sender. Enable the
   error reports of the sockets (error_reports.h). */
typedef struct {
    const fb_recording *recording; /* not empty; its payloads change with `renumber` and `now` */
    const int *sockets;            /* connected; source i of the recording uses i % socket_count */
    size_t socket_count;
    fb_pace pace;
    const fb_renumber *renumber; /* advances the numbers of repetitions; NULL: leave them */
    bool now;                    /* write the time of sending (export_header.h) */
    uint64_t limit;              /* datagrams to handle, counted through all repetitions */

    uint64_t handled;  /* datagrams that were sent or counted as not sent */
    uint64_t prepared; /* datagrams whose payloads were rewritten, at least `handled` */
    uint64_t sent, bytes;
    uint64_t refused; /* datagrams that were sent to a closed port, as far as it was reported */
    uint64_t unsent[FB_UNSENT_REASONS];
    uint64_t blocked_since; /* 0: the last call of the system made progress */
} fb_udp_sender;

/* Send until the limit is reached, for at most `duration` nanoseconds. Returns early after a
   signal. 0, or the error number of the system if sending failed. */
int fb_udp_sender_run(fb_udp_sender *sender, uint64_t duration);

FB_INLINE bool fb_udp_sender_is_done(const fb_udp_sender *sender) {
    return sender->handled >= sender->limit;
}

#endif
