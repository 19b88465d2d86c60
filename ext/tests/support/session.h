/* A decoder that takes datagrams, and its results as text (flow_text.h). */
#ifndef FB_TESTS_SUPPORT_SESSION_H
#define FB_TESTS_SUPPORT_SESSION_H

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

/* Open a session. `lines`: a plan as in plan_text.h. The output has `capacity` bytes at first, and
   grows only by the room needed. */
void session_open(session *s, const char *lines, size_t capacity);
/* The same with options and an allocator that the caller has prepared in s->allocator. NO_MEMORY:
   the session is not open. */
fb_status session_try(session *s, const char *lines, size_t capacity, fb_decoder_options options);
/* Free everything. Returns the number of leaked bytes. */
size_t session_free(session *s);
#define session_close(s) CHECK_EQUAL(session_free(s), 0)

/* 192.0.2.1, the source of datagrams; they go to port 9995 at 1000.5 s */
enum { SOURCE_ADDRESS = 0xc0000201 };
fb_datagram datagram_of(const uint8_t *data, size_t size, uint32_t source);

/* Decode a datagram, from a copy that ends at a guard page. Its flows are appended to the
   output. */
void session_feed(session *s, const byte_buffer *d);
void session_feed_bytes(session *s, const void *data, size_t size, uint32_t source);
/* Decode datagrams without copying them. */
void session_feed_batch(session *s, const fb_datagram *batch, size_t size);
/* Decode datagrams without copying them, into batches of `rows` rows, and append each batch to the
   text. The columns have no batch then. */
void session_feed_columns(session *s, fb_columns *columns, const fb_datagram *datagrams,
                          size_t count, size_t rows, text *described);
/* Return the output as text; valid until the next call. */
const char *session_text(session *s);
/* Empty the output. */
void session_forget(session *s);
/* Return a counter, summed over all exporters and payloads without an exporter. */
uint64_t session_count(const session *s, fb_status status);
/* Return the sum of all counters. */
fb_counters count_all(const fb_decoder *decoder);
/* Append the counters that are not zero: "name=count name=count". */
void put_counters_text(text *t, const fb_decoder *decoder);

#define CHECK_TEXT(actual, expected) check_text((actual), (expected), __FILE__, __LINE__, __func__)
/* Check the flows since session_forget, or since the session was opened. */
#define CHECK_FLOWS(s, expected) \
    check_text(session_text(s), (expected), __FILE__, __LINE__, __func__)
#define CHECK_COUNTERS(s, expected) check_counters((s), (expected), __FILE__, __LINE__, __func__)

UNUSED static void check_text(const char *actual, const char *expected, const char *file, int line,
                              const char *test) {
    if (strcmp(actual, expected) == 0) return;
    fprintf(stderr, "%s:%d: %s: the output is\n%s\nexpected\n%s\n", file, line, test, actual,
            expected);
    fb_check_failures++;
}

UNUSED static void check_counters(session *s, const char *expected, const char *file, int line,
                                  const char *test) {
    text t = {0};
    put_counters_text(&t, s->decoder);
    check_text(text_of(&t), expected, file, line, test);
    text_free(&t);
}

/* Compare the flows and counters of a session, and close it. */
UNUSED static void check_session(session *s, const char *flows, const char *counters,
                                 const char *file, int line) {
    check_text(session_text(s), flows, file, line, "flows");
    check_counters(s, counters, file, line, "counters");
    session_close(s);
}

/* Decode one datagram with a new decoder and these columns, and compare flows and counters. */
UNUSED static void check_decoded(const char *lines, const byte_buffer *d, const char *flows,
                                 const char *counters, const char *file, int line) {
    session s;
    session_open(&s, lines, 65536);
    session_feed(&s, d);
    check_session(&s, flows, counters, file, line);
}

#define CHECK_DECODED(lines, d, flows, counters) \
    check_decoded((lines), (d), (flows), (counters), __FILE__, __LINE__)

#endif
