/* The fields of messages into the nodes of a reader. This header is for this folder. */
#ifndef FB_NESTED_NESTED_FIELDS_H
#define FB_NESTED_NESTED_FIELDS_H

#include "core/nested/nested_read.h"

enum { FB_NESTED_QUICK = 0x80 }; /* tags of one byte */
enum { FB_NESTED_AHEAD = 64 };   /* bytes that are read without looking at the end of the input */

/* Values that the fast path takes, by their form in the message. With FB_FAST_MORE, the node is
   repeated or nullable. */
typedef enum {
    FB_FAST_NONE,
    FB_FAST_UINT64,
    FB_FAST_UINT32,
    FB_FAST_SINT64,
    FB_FAST_SINT32,
    FB_FAST_BOOL,
    FB_FAST_FIXED64,
    FB_FAST_FIXED32,
    FB_FAST_CHECKED, /* a varint that may not fit */
    FB_FAST_TEXT,
    FB_FAST_BYTES,
    FB_FAST_TIME,
    FB_FAST_PACKED,
    FB_FAST_MESSAGE,
    FB_FAST_MORE
} fb_nested_fast;

/* Read a message that has no further parts, a row, an element or an entry, at a row of its node.
   BAD_MESSAGE: *fault has the reason. NO_SPACE, NO_MEMORY: the batch is full, or memory is. The row
   is incomplete after these. */
fb_status fb_nested_read_whole(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                               fb_bytes bytes, size_t depth, fb_nested_fault *fault);

#endif
