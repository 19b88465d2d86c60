/* Bring the fields of a message into a fixed order. */
#ifndef FB_JSON_JSON_MERGE_H
#define FB_JSON_JSON_MERGE_H

#include "core/base/buffer.h"
#include "core/json/json_types.h"

/* A message whose known fields are in the order of their numbers. A field that is not repeated, and
   a oneof, occur at most once. */
typedef struct {
    fb_bytes bytes;
    fb_buffer copy; /* owns the bytes if they are not those of the input */
    size_t unknown; /* fields that the copy lacks, because they are unknown */
} fb_json_ordered;

/* Order the fields of a message at a depth. Of several values of one field or oneof, the last one
   counts; the parts of a message are merged. Most messages are in order already, and are not
   copied.

     OK           release it with fb_json_ordered_free
     BAD_MESSAGE  the message is malformed: *where is the place, and *problem describes it
     NO_MEMORY */
fb_status fb_json_order(const fb_json_type *type, fb_bytes message, size_t depth,
                        fb_json_ordered *ordered, const uint8_t **where, const char **problem);

FB_INLINE void fb_json_ordered_free(fb_json_ordered *ordered) {
    if (ordered->copy.begin) fb_buffer_free(&ordered->copy);
}

#endif
