/* Captures: pcap and pcapng files (of either byte order, with micro- or nanoseconds) into UDP datagrams. No I/O: the
   caller shows a window of the file, the capture says how much of it is done with.

       size_t count, consumed;
       do {
           status = fb_capture_scan(capture, window, at_end_of_file, datagrams, capacity, &count, &consumed);
           ... use `count` datagrams, whatever the status ...
           ... move the window on by `consumed`; on FB_MORE_INPUT also append to it ...
       } while (status == FB_OK || status == FB_MORE_INPUT);

   Every packet record becomes a datagram, or is taken in as a fragment of one, or is counted: see link.h for how. */
#ifndef FB_CAPTURE_H
#define FB_CAPTURE_H

#include "core/base/datagram.h"

/* A window of this size always lets a scan go on; a record that needs a larger one is impossible. */
#define FB_CAPTURE_MAX_WINDOW ((size_t)512 * 1024)

typedef struct fb_capture fb_capture;

typedef struct {
    bool any_port;             /* true: datagrams to every port */
    uint16_t port;             /* otherwise, only to this one; the rest is counted as FB_OTHER_PORT */
    size_t fragment_memory;    /* octets for fragmented datagrams; 0 is the default, 4 MiB */
    size_t fragment_datagrams; /* incomplete ones at a time; 0 is the default, 1024 */
} fb_capture_options;

#define FB_CAPTURE_MAX_LINK_TYPES 16

typedef struct {
    uint64_t packets; /* packet records read */
    uint64_t datagrams;
    uint16_t link_types[FB_CAPTURE_MAX_LINK_TYPES]; /* of the packets, as they were met; those past the limit are left out */
    size_t link_type_count;
} fb_capture_stats;

/* FB_OK or FB_NO_MEMORY. `memory` must outlive the capture. */
fb_status fb_capture_new(fb_capture **out, fb_memory *memory, fb_capture_options options);
void fb_capture_free(fb_capture *capture);

/* Reads packet records from `input`, which begins where the last call's `consumed` ended; `final`: nothing follows it.
   Fills up to `capacity` (1 or more) datagrams; their payloads are views of `input`, or of memory that the capture owns
   until the next call. `count` and `consumed` are set, and what they say is valid, whatever is returned:
     FB_OK             `datagrams` is full, or reassembled payloads fill the memory: call again with the rest
     FB_MORE_INPUT     the rest of `input` is less than a record (never when `final`): append to it and call again
     FB_END            all is read (only when `final`), or the capture is damaged in a way that hides what follows
     FB_NOT_A_CAPTURE  the first octets are of no format that is known; nothing is consumed
     FB_NO_MEMORY      there is no room for a pcapng interface: the call can be repeated
     FB_BAD_ARGUMENT   `capacity` is 0
   After FB_END and FB_NOT_A_CAPTURE, every call returns the same. */
fb_status fb_capture_scan(fb_capture *capture, fb_bytes input, bool final, fb_datagram *datagrams, size_t capacity,
                          size_t *count, size_t *consumed);

/* FB_STATUS_COUNT counters, one for each status. Used: FB_TRUNCATED_CAPTURE (at most 1), FB_BAD_CAPTURE_RECORD,
   FB_TRUNCATED_PACKET, FB_UNSUPPORTED_LINK_TYPE, FB_OTHER_PACKET and FB_OTHER_PORT (packets), FB_FRAGMENT_DROPPED
   (datagrams; complete after FB_END). */
const uint64_t *fb_capture_counters(const fb_capture *capture);
fb_capture_stats fb_capture_get_stats(const fb_capture *capture);

#endif
