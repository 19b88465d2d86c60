/* Messages of IPFIX over TCP: a byte stream without other framing than the length in the header of
   each message (RFC 7011 sections 3.1 and 10.4).

     0               2               4                                     length
     ├─ version, 10 ─┼─ length ──────┼─ rest of the header, sets ──────────┤ next message … */
#ifndef FB_DECODE_IPFIX_STREAM_H
#define FB_DECODE_IPFIX_STREAM_H

#include "core/base/base.h"

#define FB_IPFIX_HEADER_SIZE 16

/* Take the first message from a stream.

     OK                   *message is a view of it, and *stream is the rest
     MORE_INPUT           the message is not complete, or the stream is empty
     UNSUPPORTED_VERSION  it does not begin with version 10
     BAD_HEADER           its length is shorter than a header

   Only OK changes the arguments. */
fb_status fb_ipfix_stream_next(fb_bytes *stream, fb_bytes *message);

#endif
