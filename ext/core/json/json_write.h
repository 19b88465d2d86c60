/* Convert messages to JSON, by the canonical mapping of Protocol Buffers. */
#ifndef FB_JSON_JSON_WRITE_H
#define FB_JSON_JSON_WRITE_H

#include "core/base/buffer.h"
#include "core/json/json_types.h"

typedef struct {
    bool original_names; /* names as in the definition, instead of lowerCamelCase */
    bool defaults;       /* write fields without presence too if they are zero or empty */
    bool enum_numbers;   /* write the numbers of enums instead of their names */
    /* Counts strings that are not UTF-8, which are repaired with U+FFFD. NULL: they are errors. */
    uint64_t *repaired;
} fb_json_options;

/* Append a message as a JSON value without white space. Fields are in the order of their numbers,
   and entries of maps in that of their keys. Unknown fields are left out, and added to *unknown.

     OK
     BAD_MESSAGE  the message is malformed, or has no JSON form. The fault describes the place.
     NO_MEMORY */
fb_status fb_json_write(const fb_json_types *types, const fb_json_type *type, fb_bytes message,
                        fb_json_options options, fb_buffer *output, uint64_t *unknown,
                        fb_json_fault *fault);

#endif
