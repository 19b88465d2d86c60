#include "core/json/json_text.h"

#include "core/wire/wire.h"

bool fb_json_fail(fb_json_text *text, const char *problem) {
    if (!text->problem) text->problem = problem;
    return false;
}

bool fb_json_take(fb_json_text *text, char c) {
    if (fb_json_peek(text) == (uint8_t)c && text->p < text->end) {
        text->p++;
        return true;
    }
    switch (c) {
        case '{': return fb_json_fail(text, "an object is expected here");
        case '[': return fb_json_fail(text, "an array is expected here");
        case '"': return fb_json_fail(text, "a string is expected here");
        case ':': return fb_json_fail(text, "a colon is expected here");
        default: return fb_json_fail(text, "a comma or the end is expected here");
    }
}

bool fb_json_take_next(fb_json_text *text, char close, bool *more) {
    *more = fb_json_peek(text) == ',';
    return fb_json_take(text, *more ? ',' : close);
}

bool fb_json_take_word(fb_json_text *text, const char *word) {
    const size_t size = strlen(word);
    fb_json_peek(text);
    if ((size_t)(text->end - text->p) < size || memcmp(text->p, word, size) != 0) return false;
    text->p += size;
    return true;
}

bool fb_json_take_number(fb_json_text *text, fb_decimal *number) {
    fb_json_peek(text);
    const uint8_t *end = fb_parse_decimal(text->p, text->end, number);
    if (!end) return fb_json_fail(text, "a number is expected here");
    text->p = end;
    return true;
}

/* Strings ------------------------------------------------------------------------------------- */

static bool read_hexadecimal(const uint8_t *p, const uint8_t *end, uint32_t *value) {
    *value = 0;
    if (end - p < 4) return false;
    for (int i = 0; i < 4; i++) {
        const uint8_t c = p[i], letter = c | 0x20;
        if (c >= '0' && c <= '9') *value = *value << 4 | (uint32_t)(c - '0');
        else if (letter >= 'a' && letter <= 'f')
            *value = *value << 4 | (uint32_t)(letter - 'a' + 10);
        else return false;
    }
    return true;
}

/* Read \uXXXX, or the two of a surrogate pair. *p is at the u, and moves behind the digits. */
static bool read_escaped(const uint8_t **p, const uint8_t *end, uint32_t *character) {
    uint32_t low;
    if (!read_hexadecimal(*p + 1, end, character)) return false;
    *p += 5;
    if (*character < 0xd800 || *character >= 0xe000) return true;
    if (*character >= 0xdc00 || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u') return false;
    if (!read_hexadecimal(*p + 2, end, &low) || low < 0xdc00 || low >= 0xe000) return false;
    *character = 0x10000 + ((*character - 0xd800) << 10) + (low - 0xdc00);
    *p += 6;
    return true;
}

/* Read the escape behind a backslash, and move *p behind it. Returns the end of the character's
   UTF-8 at `to`, or NULL. */
static uint8_t *unescape(uint8_t *to, const uint8_t **p, const uint8_t *end) {
    uint32_t character;
    if (*p == end) return NULL;
    switch (**p) {
        case '"':
        case '\\':
        case '/': *to++ = *(*p)++; return to;
        case 'b': *to++ = '\b'; break;
        case 'f': *to++ = '\f'; break;
        case 'n': *to++ = '\n'; break;
        case 'r': *to++ = '\r'; break;
        case 't': *to++ = '\t'; break;
        case 'u': return read_escaped(p, end, &character) ? fb_utf8_put(to, character) : NULL;
        default: return NULL;
    }
    ++*p;
    return to;
}

/* Return the quote that ends the string, or NULL. *escapes becomes true if there are any. */
static const uint8_t *find_end(const uint8_t *p, const uint8_t *end, bool *escapes) {
    *escapes = false;
    for (; p < end && *p != '"'; p++) {
        if (*p < 0x20) return NULL;
        if (*p != '\\') continue;
        *escapes = true;
        if (++p == end) return NULL;
    }
    return p < end ? p : NULL;
}

static bool take_escaped(fb_json_text *text, const uint8_t *end, fb_bytes *string) {
    fb_buffer *out = &text->unescaped;
    const uint8_t *p = text->p;
    out->p = out->begin;
    if (fb_buffer_reserve(out, (size_t)(end - p)) != FB_OK) {
        text->no_memory = true;
        return fb_json_fail(text, "memory is missing");
    }
    while (p < end) {
        if (*p != '\\') {
            *out->p++ = *p++;
            continue;
        }
        text->p = p++;
        uint8_t *to = unescape(out->p, &p, end);
        if (!to) return fb_json_fail(text, "an escape that JSON does not have, or half of a pair");
        out->p = to;
    }
    text->p = end + 1;
    *string = (fb_bytes){out->begin, fb_buffer_size(out)};
    return true;
}

bool fb_json_take_string(fb_json_text *text, fb_bytes *string) {
    bool escapes;
    if (!fb_json_take(text, '"')) return false;
    const uint8_t *begin = text->p, *end = find_end(begin, text->end, &escapes);
    if (!end) return fb_json_fail(text, "a string without its end, or with a control character");
    *string = (fb_bytes){begin, (size_t)(end - begin)};
    if (!fb_utf8_valid(*string)) return fb_json_fail(text, "a string that is not UTF-8");
    if (escapes) return take_escaped(text, end, string);
    text->p = end + 1;
    return true;
}

/* Values that are skipped --------------------------------------------------------------------- */

static bool skip_scalar(fb_json_text *text) {
    fb_bytes string;
    fb_decimal number;
    switch (fb_json_peek(text)) {
        case '"': return fb_json_take_string(text, &string);
        case 'n': return fb_json_take_word(text, "null") || fb_json_fail(text, "an unknown word");
        case 't': return fb_json_take_word(text, "true") || fb_json_fail(text, "an unknown word");
        case 'f': return fb_json_take_word(text, "false") || fb_json_fail(text, "an unknown word");
        default: break;
    }
    const uint8_t *end = fb_parse_decimal(text->p, text->end, &number);
    if (!end) return fb_json_fail(text, "a value is expected here");
    text->p = end;
    return true;
}

static bool skip_key(fb_json_text *text) {
    fb_bytes key;
    return fb_json_take_string(text, &key) && fb_json_take(text, ':');
}

/* The closing characters of the arrays and objects that are open. */
typedef struct {
    char close[FB_JSON_SKIP_DEPTH];
    size_t depth;
} nesting;

/* After a value: close arrays and objects that end, and take the comma and the key of the next
   value. */
static bool skip_to_next(fb_json_text *text, nesting *open) {
    bool more = false;
    while (open->depth && !more) {
        const char close = open->close[open->depth - 1];
        if (!fb_json_take_next(text, close, &more)) return false;
        if (!more) open->depth--;
        else if (close == '}' && !skip_key(text)) return false;
    }
    return true;
}

bool fb_json_skip(fb_json_text *text) {
    nesting open = {.depth = 0};
    do {
        const uint8_t c = fb_json_peek(text);
        if (c != '{' && c != '[') {
            if (!skip_scalar(text) || !skip_to_next(text, &open)) return false;
            continue;
        }
        if (open.depth == FB_JSON_SKIP_DEPTH)
            return fb_json_fail(text, "more than 1,024 values inside each other");
        const char close = c == '{' ? '}' : ']';
        text->p++;
        if (fb_json_peek(text) == (uint8_t)close) {
            text->p++;
            if (!skip_to_next(text, &open)) return false;
            continue;
        }
        open.close[open.depth++] = close;
        if (c == '{' && !skip_key(text)) return false;
    } while (open.depth);
    return true;
}

void fb_json_text_free(fb_json_text *text) {
    fb_buffer_free(&text->unescaped);
}
