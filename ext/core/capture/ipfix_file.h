/* IPFIX files (RFC 5655): a sequence of IPFIX messages without anything between them. Each message
   is read as one datagram. Its time is the export time. The file states no exporter, so the source
   is the unspecified address (::), port 0. */
#ifndef FB_CAPTURE_IPFIX_FILE_H
#define FB_CAPTURE_IPFIX_FILE_H

#include "core/base/datagram.h"

/* Bytes that fb_ipfix_file_starts reads. A file with data is longer. */
#define FB_IPFIX_START_SIZE 24

/* Return true if the first bytes of a file are those of an IPFIX message with a set, or of an empty
   message and the next one. REQUIRES: FB_IPFIX_START_SIZE bytes are readable. */
bool fb_ipfix_file_starts(const uint8_t *start);

/* Read the message at the start of `input`. OK: `size` is its length, and `datagram` views it.
   MORE_INPUT: `input` ends inside it. BAD_CAPTURE_RECORD: it is not a message. */
fb_status fb_ipfix_file_read(fb_bytes input, size_t *size, fb_datagram *datagram);

#endif
