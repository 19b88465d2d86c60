/* A decoder to feed datagrams to, and what became of them as text (flow_text.h). */
#ifndef FB_TEST_SESSION_H
#define FB_TEST_SESSION_H

#include "tests/support/check.h"

#include "tests/builders/datagrams.h"
#include "core/decode/decode.h"
#include "tests/support/flow_text.h"

typedef struct {
    fb_check_allocator allocator;
    fb_memory memory;
    named_plan plan;
    fb_decoder *decoder;
    fb_row row;
    uint8_t *output; /* ends at a guard page */
    size_t capacity;
    text text;
} session;

/* `lines` as in plan_text.h. An output of `capacity` bytes at first, which grows to what is needed and no more. */
void session_open(session *s, const char *lines, size_t capacity);
/* The same with an allocator that the caller has prepared in s->allocator, and options, but that samples that look alike are learned
   on every processor. NO_MEMORY: nothing is open. */
fb_status session_try(session *s, const char *lines, size_t capacity, fb_decoder_options options);
/* Frees everything. Returns the bytes that were leaked. */
size_t session_free(session *s);
#define session_close(s) CHECK_EQUAL(session_free(s), 0)

enum { SOURCE_ADDRESS = 0xc0000201 }; /* 192.0.2.1: where datagrams come from, to port 9995 at 1000.5 s */
fb_datagram datagram_of(const uint8_t *data, size_t size, uint32_t source);

/* Decodes a datagram; its flows come on top of what the output holds. Copies the payload to a guard page. */
void session_feed(session *s, const octets *d);
void session_feed_bytes(session *s, const void *data, size_t size, uint32_t source);
/* The same, of datagrams as they are. */
void session_feed_batch(session *s, const fb_datagram *batch, size_t size);
/* What the output holds, as text; valid until the next call. */
const char *session_text(session *s);
/* Empties the output. */
void session_forget(session *s);
/* The pattern that the flow sample at an offset of a datagram fits, behind its format and length; NULL: none. */
const fb_pattern *session_find_pattern(const session *s, const octets *d, size_t sample);
/* The same, and the sample's parts. */
const fb_pattern *session_find_parts(const session *s, const octets *d, size_t sample, fb_sample_parts *parts);
/* A counter, over all exporters and what is nobody's. */
uint64_t session_count(const session *s, fb_status status);
/* All counters together. */
fb_counters count_all(const fb_decoder *decoder);
/* What was counted of statuses: "name=count name=count". Appended to t. */
void put_counters_text(text *t, const fb_decoder *decoder);

#define CHECK_TEXT(actual, expected) check_text((actual), (expected), __FILE__, __LINE__, __func__)
/* The flows since session_forget, or since the beginning. */
#define CHECK_FLOWS(s, expected) check_text(session_text(s), (expected), __FILE__, __LINE__, __func__)
#define CHECK_COUNTERS(s, expected) check_counters((s), (expected), __FILE__, __LINE__, __func__)

UNUSED static void check_text(const char *actual, const char *expected, const char *file, int line, const char *test) {
    if (strcmp(actual, expected) == 0) return;
    fprintf(stderr, "%s:%d: %s: it says\n%s\nnot\n%s\n", file, line, test, actual, expected);
    fb_check_failures++;
}

UNUSED static void check_counters(session *s, const char *expected, const char *file, int line, const char *test) {
    text t = {0};
    put_counters_text(&t, s->decoder);
    check_text(text_of(&t), expected, file, line, test);
    text_free(&t);
}

#endif
