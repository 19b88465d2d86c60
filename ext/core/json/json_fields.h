/* Read the fields of a message in the order of their numbers. */
#ifndef FB_JSON_JSON_FIELDS_H
#define FB_JSON_JSON_FIELDS_H

#include "core/json/json_types.h"

/* A message, as one or several parts whose fields are merged. The parts are the `bytes` of
   items. */
typedef struct {
    const fb_codec_item *parts;
    size_t count;
} fb_json_message;

/* The known fields of a message. A field that is not repeated, and a oneof, occur at most once. */
typedef struct {
    const fb_codec_item *item; /* the current field; of a message in several parts, the first one */
    size_t count;              /* its items: the parts of a message, otherwise 1 */
    uint64_t unknown;          /* unknown fields so far */
    /* private */
    fb_codec_reader reader;
    fb_codec_item read;
    fb_codec_item *sorted; /* NULL: the fields are read in their order in the message */
    size_t sorted_count, next;
} fb_json_fields;

/* Begin with a message at a depth. Of several values of one field or oneof, the last one counts.
   Most messages are in order already; others need memory for their fields. With `checked`, the
   caller checks whether a message of one part is in order.

     OK           release the fields with fb_json_fields_end
     BAD_MESSAGE  the message is malformed: *where is the place, and *problem describes it
     NO_MEMORY */
fb_status fb_json_fields_begin(fb_json_fields *fields, const fb_json_type *type,
                               fb_json_message message, size_t depth, bool checked,
                               const uint8_t **where, const char **problem);
/* The slow path of fb_json_fields_next: sorted fields. */
fb_status fb_json_fields_next_sorted(fb_json_fields *fields);

/* Go to the next known field. END. BAD_MESSAGE: only with `checked`. */
FB_INLINE fb_status fb_json_fields_next(fb_json_fields *fields) {
    fb_status status;
    if (FB_UNLIKELY(fields->sorted != NULL)) return fb_json_fields_next_sorted(fields);
    while ((status = fb_codec_next(&fields->reader, &fields->read)) == FB_OK) {
        if (FB_LIKELY(fields->read.field != NULL)) break;
        fields->unknown++;
    }
    fields->item = &fields->read;
    return status;
}

void fb_json_fields_end(fb_json_fields *fields);

#endif
