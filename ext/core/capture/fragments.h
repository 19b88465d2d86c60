/* Reassembly of IP fragments (RFC 791 section 3.2, RFC 8200 section 4.5) in bounded memory.

   Usually few datagrams are pending, and only for a short time, because their fragments follow each
   other closely. The limits protect against other captures. A datagram is lost in these cases:
   - It is incomplete 30 seconds of capture time after its first fragment.
   - A limit is reached; the oldest datagram is dropped first.
   - Its fragments contradict each other or overlap (RFC 5722). Exact repetitions are ignored.
   - The capture ends. */
#ifndef FB_CAPTURE_FRAGMENTS_H
#define FB_CAPTURE_FRAGMENTS_H

#include "core/capture/link.h"

typedef struct fb_partial fb_partial;

typedef struct {
    fb_memory memory; /* part of the memory passed to fb_fragments_init, with its own limit */
    fb_partial *newest, *oldest;
    size_t pending, pending_limit;
    fb_partial *completed; /* their payloads are in use until fb_fragments_release */
    size_t completed_size; /* bytes of memory that they hold */
    uint64_t *lost;        /* counts datagrams */
} fb_fragments;

/* Initialize without allocating. `memory` and `lost` must outlive the fragments. */
void fb_fragments_init(fb_fragments *fragments, fb_memory *memory, size_t memory_limit,
                       size_t pending_limit, uint64_t *lost);

/* Add one fragment. `time` is the capture's clock in nanoseconds. REQUIRES: packet->fragment.

     FB_OK                the datagram is complete; `packet` is all of it until fb_fragments_release
     FB_MORE_INPUT        the fragment was stored or discarded
     FB_TRUNCATED_PACKET  the capture cut the fragment, so its datagram will be lost
     FB_OTHER_PACKET      the datagram is complete and not UDP */
fb_status fb_fragments_add(fb_fragments *fragments, uint64_t time, fb_ip_packet *packet);

/* Free the completed datagrams. */
void fb_fragments_release(fb_fragments *fragments);

/* Drop and count all pending datagrams. */
void fb_fragments_drop(fb_fragments *fragments);

#endif
