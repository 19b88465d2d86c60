/* Read the tokens of a JSON text (RFC 8259). */
#ifndef FB_JSON_JSON_TEXT_H
#define FB_JSON_JSON_TEXT_H

#include "core/base/buffer.h"
#include "core/base/real_parse.h"

/* Most arrays and objects nested in a value that is skipped. */
enum { FB_JSON_SKIP_DEPTH = 1024 };

typedef struct {
    const uint8_t *begin, *p, *end;
    const char *problem; /* of the failure, whose place is p */
    bool no_memory;      /* the failure is that memory is missing */
    fb_buffer unescaped; /* the last string with escapes */
} fb_json_text;

/* Skip white space. Returns the next character, or 0 at the end. */
FB_INLINE uint8_t fb_json_peek(fb_json_text *text) {
    const uint8_t *p = text->p, *end = text->end;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    text->p = p;
    return p < end ? *p : 0;
}

/* Each of the following functions returns false after a failure. */

bool fb_json_fail(fb_json_text *text, const char *problem);
/* Take a character that must come next, and white space before it. */
bool fb_json_take(fb_json_text *text, char c);
/* Take a word such as null, if it comes next. */
bool fb_json_take_word(fb_json_text *text, const char *word);
/* Take a string. The view is valid until the next string is taken. */
bool fb_json_take_string(fb_json_text *text, fb_bytes *string);
bool fb_json_take_number(fb_json_text *text, fb_decimal *number);
/* Skip a value of any kind, and check it. */
bool fb_json_skip(fb_json_text *text);
/* After a value in an array or object: take a comma, and set *more, or take the closing
   character. */
bool fb_json_take_next(fb_json_text *text, char close, bool *more);

void fb_json_text_free(fb_json_text *text);

#endif
