/* Receive and decode in one call: the inner loop of a worker.

     received datagrams ─▶ access list ─▶ forward ─▶ decoder
                              └─▶ denied

   Each received datagram is denied, given to the decoder, or waits because the batch is full. */
#ifndef FB_NET_COLLECT_H
#define FB_NET_COLLECT_H

#include "core/decode/decode.h"
#include "net/access_list.h"
#include "net/forward.h"
#include "net/receiver.h"
#include "net/undecoded.h"

typedef enum {
    FB_COLLECT_DUE,    /* the deadline has passed, or undecoded datagrams should be written */
    FB_COLLECT_FULL,   /* the batch of `columns` is full, or without memory; set another one */
    FB_COLLECT_WOKEN,  /* fb_receiver_wake was called */
    FB_COLLECT_FAILED, /* the sockets cannot be read; receiver->error is the errno */
} fb_collect_result;

/* A receiver and the place at which decoding its datagrams resumes. All zeros but the receiver and
   the access list at the beginning. */
typedef struct {
    fb_receiver *receiver;
    const fb_access_list *access; /* NULL: datagrams of all sources are decoded */
    uint64_t denied;              /* datagrams of sources that the access list does not admit */
    fb_position position;
    fb_forward *forward;     /* sends copies of all datagrams; NULL: nowhere */
    fb_undecoded *undecoded; /* keeps datagrams that were not decoded; NULL: it is not wanted */
} fb_collect;

/* Receive datagrams and decode them into the batch of `columns` until `deadline`, in nanoseconds of
   fb_clock_now. All datagrams that were received are decoded or denied, unless the result is FULL.
   The next call then continues with the rest of them. */
fb_collect_result fb_collect_columns(fb_collect *collect, fb_decoder *decoder, fb_columns *columns,
                                     uint64_t deadline);

#endif
