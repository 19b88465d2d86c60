/* IP fragments put together again (RFC 791 section 3.2, RFC 8200 section 4.5), in bounded memory.

   Pending datagrams are few and short-lived: the parts of one datagram follow each other closely. The limits are for
   captures that are not like that. A datagram is lost when it is not whole 30 seconds of capture time after its first
   fragment, when a limit drives it out (the oldest goes first), when its fragments contradict each other or overlap
   (RFC 5722; exact repetitions are ignored), or when the capture ends. */
#ifndef FB_FRAGMENTS_H
#define FB_FRAGMENTS_H

#include "core/capture/link.h"

typedef struct fb_partial fb_partial;

typedef struct {
    fb_memory memory; /* draws on the memory that fb_fragments_init was given, with the limit */
    fb_partial *newest, *oldest;
    size_t pending, pending_limit;
    fb_partial *completed; /* their payloads are in use until fb_fragments_release */
    size_t completed_size; /* memory that they hold */
    uint64_t *lost;        /* counts datagrams */
} fb_fragments;

/* Neither allocates nor fails. `memory` and `lost` must outlive the fragments. */
void fb_fragments_init(fb_fragments *fragments, fb_memory *memory, size_t memory_limit, size_t pending_limit,
                       uint64_t *lost);

/* Takes in one fragment (REQUIRES packet->fragment); `time` is the capture's clock in nanoseconds.
     FB_OK               the datagram is whole: `packet` is now all of it, valid until fb_fragments_release
     FB_MORE_INPUT       kept, or of no use
     FB_TRUNCATED_PACKET the capture did not keep all of the fragment; its datagram will be lost
     FB_OTHER_PACKET     whole, and no UDP */
fb_status fb_fragments_add(fb_fragments *fragments, uint64_t time, fb_ip_packet *packet);

/* Frees the completed datagrams. */
void fb_fragments_release(fb_fragments *fragments);

/* Gives up, and counts, all that is pending. */
void fb_fragments_drop(fb_fragments *fragments);

#endif
