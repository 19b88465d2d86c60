/* Files of nfcapd (nfdump 1.7, layout version 2): flow records of nfdump become IPFIX messages, so
   that the decoder reads them like all others.

   The blocks of a file must be uncompressed: the caller decompresses them. Consecutive records of
   one exporter with the same time of reception share a message, up to FB_NFCAPD_MESSAGE_SIZE. Its
   source and domain are those of the exporter in the file, its time is that of reception, and its
   sequence number is 0, which states that losses are unknown. */
#ifndef FB_CAPTURE_NFCAPD_H
#define FB_CAPTURE_NFCAPD_H

#include "core/base/datagram.h"

/* Bytes that fb_nfcapd_starts reads. */
#define FB_NFCAPD_START_SIZE 24
/* The longest message. It fits into a UDP datagram on Ethernet. */
#define FB_NFCAPD_MESSAGE_SIZE 1400

typedef struct fb_nfcapd fb_nfcapd;

/* Return true for a file of layout version 2 that is not encrypted. REQUIRES: FB_NFCAPD_START_SIZE
   bytes are readable. */
bool fb_nfcapd_starts(const uint8_t *start);

/* Create a reader for a file that begins with `start`; free it with fb_nfcapd_free. `memory` and
   `counters`, one per status, must outlive it. BAD_CAPTURE_RECORD counts malformed records,
   OTHER_CAPTURE_RECORD blocks and records without flows in a known form, except names and
   statistics. OK or NO_MEMORY. */
fb_status fb_nfcapd_new(fb_nfcapd **out, fb_memory *memory, const uint8_t *start,
                        uint64_t *counters);
void fb_nfcapd_free(fb_nfcapd *file);

/* Read the next record, block header or ignored part at the start of `input`, the file header
   included. `size` is the number of bytes consumed, after every status.

     OK                  a message ended if `datagram` has a payload, else it is not changed
     MORE_INPUT          `input` ends inside the record
     BAD_CAPTURE_RECORD  a length or a compressed block makes the rest unreadable
     NO_MEMORY           no memory for an exporter; the call can be repeated

   Messages are valid until fb_nfcapd_release. REQUIRES: fb_nfcapd_is_full is false, and
   `datagram->payload` is empty. */
fb_status fb_nfcapd_read(fb_nfcapd *file, fb_bytes input, size_t *size, fb_datagram *datagram);

/* End the message that is not complete. Return false if there is none. */
bool fb_nfcapd_flush(fb_nfcapd *file, fb_datagram *datagram);

/* Return true if complete messages fill the memory. */
bool fb_nfcapd_is_full(const fb_nfcapd *file);

/* Release the memory of all complete messages. */
void fb_nfcapd_release(fb_nfcapd *file);

/* Return true if the input ended between two blocks. */
bool fb_nfcapd_is_between_blocks(const fb_nfcapd *file);

#endif
