/* Reader of captures: pcap and pcapng files of either byte order, with micro- or nanoseconds,
   become UDP datagrams. So do the messages of IPFIX files (ipfix_file.h) and the flow records of
   nfcapd (nfcapd.h). It does no I/O. The caller passes a window of the file, and the reader reports
   the bytes that it consumed.

       size_t count, consumed;
       do {
           status = fb_capture_scan(capture, window, at_end_of_file, datagrams, capacity,
                                    &count, &consumed);
           ... use `count` datagrams, after every status ...
           ... move the window by `consumed`; on FB_MORE_INPUT also append to it ...
       } while (status == FB_OK || status == FB_MORE_INPUT);

   Every packet record becomes a datagram, is stored as a fragment of one, or is counted
   (link.h). Files without packets have no ports, so all their datagrams are accepted. */
#ifndef FB_CAPTURE_CAPTURE_H
#define FB_CAPTURE_CAPTURE_H

#include "core/base/datagram.h"

/* A window of this size always makes progress. A record that needs a larger one is invalid. */
#define FB_CAPTURE_MAX_WINDOW ((size_t)512 * 1024)

/* Bytes at the start of a file that show its format. */
#define FB_CAPTURE_START_SIZE ((size_t)24)

/* Return true for the start of a file without packets: an IPFIX file or one of nfcapd. False if
   `start` is shorter than FB_CAPTURE_START_SIZE. */
bool fb_capture_starts_with_flows(fb_bytes start);

typedef struct fb_capture fb_capture;

typedef struct {
    bool any_port;          /* accept datagrams to every port */
    uint16_t port;          /* otherwise accept only this port, and count others as FB_OTHER_PORT */
    size_t fragment_memory; /* bytes for fragmented datagrams; 0: 4 MiB */
    size_t fragment_datagrams; /* most incomplete datagrams at a time; 0: 1024 */
} fb_capture_options;

#define FB_CAPTURE_MAX_LINK_TYPES 16

typedef struct {
    uint64_t packets; /* packet records read, or messages of a file without packets */
    uint64_t datagrams;
    /* of the packets, in order of first occurrence; those past the limit are missing */
    uint16_t link_types[FB_CAPTURE_MAX_LINK_TYPES];
    size_t link_type_count;
} fb_capture_stats;

/* Create a reader; free it with fb_capture_free. `memory` must outlive it. OK or NO_MEMORY. */
fb_status fb_capture_new(fb_capture **out, fb_memory *memory, fb_capture_options options);
void fb_capture_free(fb_capture *capture);

/* Read packet records from `input`, which begins at the end of the bytes consumed so far. `final`:
   no input follows. Fills up to `capacity` (at least 1) datagrams. Their payloads are views of
   `input`, or of memory that the capture owns until the next call. `count` and `consumed` are valid
   after every status:

     FB_OK             `datagrams` is full, or payloads fill the capture's memory: call again
     FB_MORE_INPUT     the rest is less than a record (never when `final`): append and call again
     FB_END            all is read (only when `final`), or damage makes the rest unreadable
     FB_NOT_A_CAPTURE  the first bytes are of no known format; nothing is consumed
     FB_NO_MEMORY      no memory for an interface or for nfcapd; the call can be repeated
     FB_BAD_ARGUMENT   `capacity` is 0

   After FB_END and FB_NOT_A_CAPTURE, every call returns the same status. */
fb_status fb_capture_scan(fb_capture *capture, fb_bytes input, bool final, fb_datagram *datagrams,
                          size_t capacity, size_t *count, size_t *consumed);

/* Return FB_STATUS_COUNT counters, one per status; the capture owns them. Used:
   FB_TRUNCATED_CAPTURE and FB_DAMAGED_CAPTURE (at most 1), FB_BAD_CAPTURE_RECORD,
   FB_OTHER_CAPTURE_RECORD (nfcapd), FB_TRUNCATED_PACKET, FB_UNSUPPORTED_LINK_TYPE,
   FB_OTHER_PACKET and FB_OTHER_PORT (packets), FB_FRAGMENT_DROPPED (datagrams; complete after
   FB_END). */
const uint64_t *fb_capture_counters(const fb_capture *capture);
fb_capture_stats fb_capture_get_stats(const fb_capture *capture);

#endif
