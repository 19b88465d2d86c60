/* The state of a call that reads JSON, shared by json_read.c and json_scalar.c. */
#ifndef FB_JSON_JSON_READER_H
#define FB_JSON_JSON_READER_H

#include "core/codec/codec_write.h"
#include "core/json/json_order.h"
#include "core/json/json_text.h"

typedef struct {
    const fb_json_types *types;
    fb_json_text text;
    fb_buffer *output;
    fb_json_chunks chunks;
    fb_json_fault *fault;
    fb_status status; /* of the failure */
    bool ignore_unknown;
    size_t depth; /* messages that are open */
} fb_json_reader;

/* Outcome of reading a value. */
typedef enum {
    FB_JSON_READ,
    FB_JSON_FAILED,
    FB_JSON_SKIPPED /* an unknown member of an enum, with ignore_unknown */
} fb_json_result;

/* Each function that returns bool returns false after a failure. */

bool fb_json_no_memory(fb_json_reader *r);
/* Fail at the current place of the text, unless a more precise failure is known. */
bool fb_json_fail_here(fb_json_reader *r, const fb_json_where *place, const char *problem);
/* Fail because of the text from `at` to the current place. */
bool fb_json_fail_at(fb_json_reader *r, const fb_json_where *place, const uint8_t *at,
                     const char *problem);
/* Fail because a function of json_text.h did. */
bool fb_json_fail_text(fb_json_reader *r, const fb_json_where *place);

bool fb_json_reserve(fb_json_reader *r, size_t size);
/* Write a tag and bytes. No bytes are written only if `always`. */
bool fb_json_put_bytes(fb_json_reader *r, const fb_codec_field *field, fb_bytes bytes, bool always);
/* Write a tag and leave space for a length. *begin becomes the offset of the content. */
bool fb_json_begin_length(fb_json_reader *r, const fb_codec_field *field, size_t *begin);
/* Write the length of the content, or the end of a group. */
bool fb_json_end_length(fb_json_reader *r, const fb_codec_field *field, size_t begin,
                        const fb_json_where *place);

bool fb_json_is(fb_bytes text, const char *word);
/* Convert a string that was taken from `begin` on, and must be a number. */
bool fb_json_number_of(fb_json_reader *r, const fb_codec_field *field, fb_bytes text,
                       const uint8_t *begin, const fb_json_where *place, uint64_t *value);
/* Read a scalar that is not a string or bytes. */
fb_json_result fb_json_read_scalar(fb_json_reader *r, const fb_codec_field *field,
                                   const fb_json_field *of, const fb_json_where *place,
                                   uint64_t *value);
/* Read a string, or bytes, and write it with its tag. It is written if it is empty only if
   `always`. */
bool fb_json_read_string(fb_json_reader *r, const fb_codec_field *field, bool always,
                         const fb_json_where *place);
bool fb_json_read_bytes(fb_json_reader *r, const fb_codec_field *field, bool always,
                        const fb_json_where *place);

#endif
