#include "tests/support/session.h"

fb_status session_try(session *s, const char *lines, size_t capacity, fb_decoder_options options) {
    s->memory = fb_check_memory(&s->allocator);
    fb_status status = plan_read(&s->plan, lines, &s->memory);
    if (status != FB_OK) return status;
    if ((status = fb_row_new(&s->row, s->plan.plan, &s->memory)) == FB_OK &&
        (status = fb_decoder_new(&s->decoder, s->plan.plan, options, &s->memory)) == FB_OK) {
        s->capacity = capacity;
        s->output = fb_guarded_room_of(capacity);
        fb_row_set_output(&s->row, s->output, capacity, 0);
        return FB_OK;
    }
    fb_row_free(&s->row);
    plan_free(&s->plan);
    return status;
}

void session_open(session *s, const char *lines, size_t capacity) {
    memset(s, 0, sizeof *s);
    fb_status status = session_try(s, lines, capacity, (fb_decoder_options){0});
    if (status == FB_OK) return;
    fprintf(stderr, "session_open: %s\n", fb_status_text(status));
    exit(EXIT_FAILURE);
}

size_t session_free(session *s) {
    fb_decoder_free(s->decoder);
    fb_row_free(&s->row);
    plan_free(&s->plan);
    fb_guarded_free(s->output, s->capacity);
    text_free(&s->text);
    return s->memory.used + s->allocator.held;
}

fb_datagram datagram_of(const uint8_t *data, size_t size, uint32_t source) {
    fb_datagram d = {.time = 1000500000000u,
                     .source_port = 4000,
                     .destination_port = 9995,
                     .payload = {data, size}};
    d.source[10] = d.source[11] = 0xff;
    for (int i = 0; i < 4; i++) d.source[12 + i] = (uint8_t)(source >> 8 * (3 - i));
    return d;
}

/* Grow the output to exactly the size that the row needs, so that one more byte hits the guard
   page. */
static void grow(session *s) {
    size_t used = fb_row_size(&s->row), capacity = used + s->row.needed;
    uint8_t *output = fb_guarded_room_of(capacity);
    memcpy(output, s->output, used);
    fb_guarded_free(s->output, s->capacity);
    s->output = output;
    s->capacity = capacity;
    fb_row_set_output(&s->row, output, capacity, used);
}

void session_feed_batch(session *s, const fb_datagram *batch, size_t size) {
    fb_position position = {0};
    while (fb_row_decode(s->decoder, batch, size, &position, &s->row) == FB_NO_SPACE) grow(s);
}

void session_feed_bytes(session *s, const void *data, size_t size, uint32_t source) {
    uint8_t *copy = fb_guarded_copy(data, size);
    fb_datagram datagram = datagram_of(copy, size, source);
    session_feed_batch(s, &datagram, 1);
    fb_guarded_free(copy, size);
}

void session_feed(session *s, const byte_buffer *d) {
    session_feed_bytes(s, d->data, d->size, SOURCE_ADDRESS);
}

void session_feed_columns(session *s, fb_columns *columns, const fb_datagram *datagrams,
                          size_t count, size_t rows, text *described) {
    fb_position position = {0};
    fb_status status;
    do {
        fb_batch *batch;
        CHECK_STATUS(fb_batch_new(&batch, s->plan.plan, rows, s->memory), FB_OK);
        fb_columns_set_batch(columns, batch);
        status = fb_columns_decode(s->decoder, datagrams, count, &position, columns);
        CHECK(batch->rows || status == FB_OK);
        describe_batch(described, &s->plan, batch);
        fb_batch_free(batch);
    } while (status == FB_NO_SPACE);
    fb_columns_set_batch(columns, NULL);
}

const char *session_text(session *s) {
    text_clear(&s->text);
    describe_messages(&s->text, &s->plan, s->output, fb_row_size(&s->row));
    return text_of(&s->text);
}

void session_forget(session *s) {
    fb_row_set_output(&s->row, s->output, s->capacity, 0);
}

static void add_counters(fb_counters *total, const fb_counters *more) {
    total->datagrams += more->datagrams;
    total->bytes += more->bytes;
    for (size_t i = 0; i < FB_ROWS_COUNT; i++) total->rows[i] += more->rows[i];
    total->options_records += more->options_records;
    total->templates += more->templates;
    for (size_t i = 0; i < FB_STATUS_COUNT; i++) total->status[i] += more->status[i];
}

fb_counters count_all(const fb_decoder *decoder) {
    fb_counters total = decoder->other;
    add_counters(&total, &decoder->exporters.overflow.counters);
    for (size_t i = 0; i < decoder->exporters.capacity; i++) {
        const fb_exporter *exporter = fb_exporters_at(&decoder->exporters, i);
        if (exporter) add_counters(&total, &exporter->counters);
    }
    return total;
}

uint64_t session_count(const session *s, fb_status status) {
    return count_all(s->decoder).status[status];
}

void put_counters_text(text *t, const fb_decoder *decoder) {
    fb_counters total = count_all(decoder);
    const char *space = "";
    for (unsigned i = 0; i < FB_STATUS_COUNT; i++) {
        if (!total.status[i]) continue;
        text_put(t, "%s%s=%llu", space, fb_status_name((fb_status)i),
                 (unsigned long long)total.status[i]);
        space = " ";
    }
}
