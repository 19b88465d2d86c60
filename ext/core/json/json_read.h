/* Convert JSON to messages, by the canonical mapping of Protocol Buffers. */
#ifndef FB_JSON_JSON_READ_H
#define FB_JSON_JSON_READ_H

#include "core/base/buffer.h"
#include "core/json/json_types.h"

/* Append the message of a JSON value. The fields are in the order of their numbers, and entries of
   maps in that of google.protobuf's deterministic output. With `ignore_unknown`, members of objects
   and names of enums that the type does not have are skipped.

     OK
     BAD_MESSAGE  the text is not JSON, or a value does not fit its field. The fault describes the
                  place. The output has part of the message.
     NO_MEMORY */
fb_status fb_json_read(const fb_json_types *types, const fb_json_type *type, fb_bytes text,
                       bool ignore_unknown, fb_buffer *output, fb_json_fault *fault);

#endif
