/* Data before its template. It waits within limits, and is decoded as if its template had been
   there, for every output size. */
#include "tests/support/session.h"
#include "tests/support/time_limit.h"

static const char *const columns = "1 bytes uint : ipfix:1\n"
                                   "2 received timestamp unit=1000000 : meta:time_received\n"
                                   "3 exported timestamp unit=1000000 : meta:time_exported\n"
                                   "4 port uint : meta:source_port\n"
                                   "5 sequence uint : meta:sequence_number\n"
                                   "6 start timestamp unit=1000000 : ipfix:22@time_uptime\n"
                                   "7 rate uint : derived:sampling_rate\n";
static const char *const bytes = "1 bytes uint : ipfix:1\n";

/* One datagram of a batch, which owns its bytes. */
typedef struct {
    byte_buffer bytes;
    fb_datagram datagram;
} sent;

enum { MOST_SENT = 12 };
static sent sequence[MOST_SENT];
static size_t sequence_size;

/* Append the datagram `d` to the sequence, from a port at a time in ms. */
static void send(const byte_buffer *d, unsigned port, uint64_t ms) {
    sent *s = &sequence[sequence_size++];
    s->bytes = *d;
    s->datagram = datagram_of(s->bytes.data, s->bytes.size, SOURCE_ADDRESS);
    s->datagram.source_port = (uint16_t)port;
    s->datagram.time = ms * 1000000;
}

static void feed_sequence(session *s, uint32_t source) {
    fb_datagram batch[MOST_SENT];
    for (size_t i = 0; i < sequence_size; i++) {
        batch[i] = sequence[i].datagram;
        memcpy(batch[i].source, datagram_of(NULL, 0, source).source, 16);
    }
    session_feed_batch(s, batch, sequence_size);
}

static void put_records(byte_buffer *d, unsigned id, uint32_t first, unsigned count) {
    size_t set = set_begin(d, id);
    for (unsigned i = 0; i < count; i++) put32(d, first + i);
    set_end(d, set);
}

static void put_bytes_template(byte_buffer *d, unsigned id) {
    size_t set = set_begin(d, 2);
    put_template(d, id, FIELDS({1, 4}));
    set_end(d, set);
}

static void build_data(byte_buffer *d, unsigned id, uint32_t first, unsigned count) {
    ipfix_begin(d, (ipfix_header){0});
    put_records(d, id, first, count);
    ipfix_end(d);
}

static void build_template(byte_buffer *d, unsigned id) {
    ipfix_begin(d, (ipfix_header){0});
    put_bytes_template(d, id);
    ipfix_end(d);
}

/* Values of its own datagram ----------------------------------------------------------------- */

static void put_timed(byte_buffer *d, uint32_t first) {
    size_t set = set_begin(d, 256);
    put32(d, first), put32(d, 60100);
    put32(d, first + 1), put32(d, 60200);
    set_end(d, set);
}

static void build_netflow9_sequence(void) {
    byte_buffer d;
    sequence_size = 0;
    for (unsigned i = 0; i < 2; i++) {
        netflow9_begin(
            &d, (netflow9_header){
                    .uptime = 60000 + i, .seconds = 1000 + i, .sequence = 7 + i, .source_id = 5});
        put_timed(&d, 10 + 10 * i);
        send(&d, 4000 + i, 5000 + i);
    }
    netflow9_begin(
        &d, (netflow9_header){.uptime = 70000, .seconds = 2000, .sequence = 9, .source_id = 5});
    size_t set = set_begin(&d, 0);
    put_template(&d, 256, FIELDS({1, 4}, {22, 4}));
    set_end(&d, set);
    put_timed(&d, 30);
    send(&d, 5000, 6000);
}

static void uses_the_header_of_the_original_datagram(void) {
    session s;
    session_open(&s, columns, 4096);
    build_netflow9_sequence();
    feed_sequence(&s, SOURCE_ADDRESS);
    CHECK_FLOWS(&s, "bytes=10 received=5000 exported=1000000 port=4000 sequence=7 start=1000100\n"
                    "bytes=11 received=5000 exported=1000000 port=4000 sequence=7 start=1000200\n"
                    "bytes=20 received=5001 exported=1001000 port=4001 sequence=8 start=1001099\n"
                    "bytes=21 received=5001 exported=1001000 port=4001 sequence=8 start=1001199\n"
                    "bytes=30 received=6000 exported=2000000 port=5000 sequence=9 start=1990100\n"
                    "bytes=31 received=6000 exported=2000000 port=5000 sequence=9 start=1990200\n");
    CHECK_COUNTERS(&s, "early_data=2");
    session_close(&s);
}

/* Values that were unknown at its arrival: the sampling rate and the start of the exporter. They
   come in options before or after the data. */
static void applies_options_that_arrived_later(void) {
    for (unsigned late = 0; late < 2; late++) {
        session s;
        byte_buffer d;
        session_open(&s, columns, 4096);
        ipfix_begin(&d, (ipfix_header){.seconds = 1000});
        if (!late)
            put_records(&d, 300, 1, 1), patch16(&d, 18, 20), put64(&d, 900000), put32(&d, 100);
        put_timed(&d, 10);
        ipfix_end(&d);
        session_feed(&s, &d);
        ipfix_begin(&d, (ipfix_header){.seconds = 2000});
        size_t set = set_begin(&d, 3);
        put_options_template(&d, 300, 1, FIELDS({144, 4}, {160, 8}, {34, 4}));
        set_end(&d, set);
        if (late) {
            set = set_begin(&d, 300);
            put32(&d, 1), put64(&d, 900000), put32(&d, 100);
            set_end(&d, set);
        }
        set = set_begin(&d, 2);
        put_template(&d, 256, FIELDS({1, 4}, {22, 4}));
        set_end(&d, set);
        set = set_begin(&d, 256);
        put32(&d, 30), put32(&d, 60300);
        set_end(&d, set), ipfix_end(&d);
        session_feed(&s, &d);
        CHECK_FLOWS(&s,
                    "bytes=10 received=1000500 exported=1000000 port=4000 start=960100 rate=100\n"
                    "bytes=11 received=1000500 exported=1000000 port=4000 start=960200 rate=100\n"
                    "bytes=30 received=1000500 exported=2000000 port=4000 start=960300 rate=100\n");
        CHECK_COUNTERS(&s, late ? "early_data=1" : "early_data=2");
        session_close(&s);
    }
}

/* One set of templates defines all ids together. */
static void decodes_pending_sets_in_order_of_arrival(void) {
    enum { IDS = 37, ROUNDS = 5 };
    session s;
    byte_buffer d;
    text expected = {0};
    session_open(&s, bytes, 4096);
    for (unsigned i = 0; i < IDS * ROUNDS; i++) {
        build_data(&d, 256 + i * 11 % IDS, 1000 + i, 1);
        session_feed(&s, &d);
        text_put(&expected, "bytes=%u\n", 1000 + i);
    }
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    for (unsigned i = 0; i < IDS; i++) put_template(&d, 256 + i * 7 % IDS, FIELDS({1, 4}));
    set_end(&d, set), ipfix_end(&d);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, text_of(&expected));
    CHECK_EQUAL(s.decoder->pending.all.sets, 0);
    CHECK_EQUAL(s.decoder->pending.all.bytes, 0);
    CHECK_EQUAL(s.decoder->pending.queue_count, 0);
    text_free(&expected);
    session_close(&s);
}

/* A set that defines an id and then withdraws it has not defined it. */
static void keeps_waiting_if_the_template_is_withdrawn(void) {
    session s;
    byte_buffer d;
    session_open(&s, bytes, 4096);
    build_data(&d, 256, 1, 1);
    session_feed(&s, &d);
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({1, 4})), put_template(&d, 256, FIELDS({1, 0}));
    set_end(&d, set), ipfix_end(&d);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "");
    build_template(&d, 256);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "bytes=1\n");
    CHECK_COUNTERS(&s, "empty_template=1 early_data=1");
    session_close(&s);
}

/* The offset of a fault is in the current datagram, not in the original one. */
static void reports_faults_at_the_current_datagram(void) {
    session s;
    byte_buffer d;
    session_open(&s, bytes, 4096);
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 256);
    put32(&d, 7), put8(&d, 200); /* a name of 200 bytes, which are missing */
    set_end(&d, set), ipfix_end(&d);
    session_feed(&s, &d);
    CHECK_STATUS(s.decoder->fault.status, FB_OK);
    ipfix_begin(&d, (ipfix_header){0});
    set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({1, 4}, {82, VARIABLE}));
    set_end(&d, set), ipfix_end(&d);
    session_feed(&s, &d);
    CHECK_STATUS(s.decoder->fault.status, FB_TRUNCATED_RECORD);
    CHECK_EQUAL(s.decoder->fault.offset, d.size);
    CHECK_COUNTERS(&s, "truncated_record=1 early_data=1");
    session_close(&s);
}

/* Little room -------------------------------------------------------------------------------- */

static void open_limited(session *s, size_t limit, size_t total) {
    memset(s, 0, sizeof *s);
    fb_decoder_options options = {.early_data_limit = limit, .early_data_total = total};
    CHECK_STATUS(session_try(s, bytes, 1 << 20, options), FB_OK);
}

static uint64_t missing_of(const session *s, uint32_t address) {
    fb_datagram datagram = datagram_of(NULL, 0, address);
    return fb_exporters_get(&s->decoder->exporters, datagram.source, 0, datagram.source)
        ->counters.status[FB_TEMPLATE_MISSING];
}

enum { COST = FB_PENDING_SET_BYTES + 8 }; /* of a set with one record */

static void drops_the_oldest_set_of_an_exporter(void) {
    session s;
    byte_buffer d;
    open_limited(&s, 3 * COST, 0);
    for (unsigned i = 0; i < 5; i++) {
        build_data(&d, 256 + i % 2, 1 + i, 1);
        session_feed(&s, &d);
        build_data(&d, 256, 100 + i, 1);
        /* another exporter has its own limit */
        if (i < 3) session_feed_bytes(&s, d.data, d.size, SOURCE_ADDRESS + 1);
    }
    CHECK_COUNTERS(&s, "template_missing=2 early_data=8");
    CHECK_EQUAL(missing_of(&s, SOURCE_ADDRESS), 2);
    CHECK_STATUS(s.decoder->fault.status, FB_TEMPLATE_MISSING);
    build_template(&d, 256);
    session_feed(&s, &d);
    build_template(&d, 257);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "bytes=3\nbytes=5\nbytes=4\n");
    session_close(&s);
}

static void drops_the_oldest_set_of_all_exporters(void) {
    session s;
    byte_buffer d;
    open_limited(&s, 0, 3 * COST);
    for (unsigned i = 0; i < 5; i++) {
        build_data(&d, 256, 1 + i, 1);
        session_feed_bytes(&s, d.data, d.size, SOURCE_ADDRESS + i);
    }
    CHECK_COUNTERS(&s, "template_missing=2 early_data=5");
    for (unsigned i = 0; i < 5; i++) CHECK_EQUAL(missing_of(&s, SOURCE_ADDRESS + i), i < 2);
    CHECK_EQUAL(s.decoder->fault.exporter[15], 1);
    CHECK_EQUAL(s.decoder->pending.all.bytes, 3 * COST);
    session_close(&s);
}

static void drops_sets_above_the_limit(void) {
    session s;
    byte_buffer d;
    open_limited(&s, 2 * COST, 0);
    build_data(&d, 256, 1, 1);
    session_feed(&s, &d);
    build_data(&d, 256, 10, 1 + COST);
    session_feed(&s, &d);
    CHECK_COUNTERS(&s, "template_missing=1 early_data=1"); /* the dropped data did not affect it */
    session_close(&s);
}

static void drops_sets_of_exporters_without_state(void) {
    session s;
    byte_buffer d;
    memset(&s, 0, sizeof s);
    CHECK_STATUS(session_try(&s, bytes, 4096, (fb_decoder_options){.exporter_memory = 1}), FB_OK);
    build_data(&d, 256, 1, 1);
    for (uint32_t i = 0; i < 3; i++) session_feed_bytes(&s, d.data, d.size, SOURCE_ADDRESS + i);
    CHECK_COUNTERS(&s, "template_missing=3");
    session_close(&s);
}

/* Waiting data takes at most a quarter of the memory limit, so that templates have room. */
static void leaves_memory_for_templates(void) {
    byte_buffer d;
    fb_memory memory = fb_memory_system(1 << 20);
    named_plan plan;
    fb_decoder *decoder;
    fb_row row;
    uint8_t output[4096];
    CHECK_STATUS(plan_read(&plan, bytes, &memory), FB_OK);
    CHECK_STATUS(fb_row_new(&row, plan.plan, &memory), FB_OK);
    CHECK_STATUS(fb_decoder_new(&decoder, plan.plan, (fb_decoder_options){0}, &memory), FB_OK);
    fb_row_set_output(&row, output, sizeof output, 0);
    for (unsigned i = 0; i < 5000; i++) {
        build_data(&d, 256 + i % 1000, i, 20);
        fb_datagram datagram = datagram_of(d.data, d.size, SOURCE_ADDRESS);
        CHECK_STATUS(fb_row_decode(decoder, &datagram, 1, &(fb_position){0}, &row), FB_OK);
        CHECK(memory.used < (1 << 20) / 2);
    }
    build_template(&d, 400);
    fb_datagram datagram = datagram_of(d.data, d.size, SOURCE_ADDRESS);
    CHECK_STATUS(fb_row_decode(decoder, &datagram, 1, &(fb_position){0}, &row), FB_OK);
    CHECK_EQUAL(count_all(decoder).status[FB_TEMPLATE_LIMIT], 0);
    CHECK(row.count > 0);
    fb_decoder_free(decoder);
    fb_row_free(&row);
    plan_free(&plan);
    CHECK_EQUAL(memory.used, 0);
}

static void counts_the_sets_that_wait_at_the_end(void) {
    session s;
    byte_buffer d;
    session_open(&s, bytes, 4096);
    fb_decoder_finish(s.decoder);
    CHECK_COUNTERS(&s, "");
    for (uint32_t i = 0; i < 3; i++) {
        build_data(&d, 256, 1, 1);
        session_feed_bytes(&s, d.data, d.size, SOURCE_ADDRESS + 1 + i / 2);
    }
    fb_decoder_finish(s.decoder);
    CHECK_COUNTERS(&s, "template_missing=3 early_data=3");
    CHECK_EQUAL(missing_of(&s, SOURCE_ADDRESS + 1), 2);
    CHECK_STATUS(s.decoder->fault.status, FB_TEMPLATE_MISSING);
    CHECK_EQUAL(s.decoder->fault.exporter[15], 2);
    CHECK_EQUAL(s.decoder->pending.all.sets, 0);
    build_data(&d, 256, 5, 1); /* and it continues */
    session_feed(&s, &d);
    build_template(&d, 256);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "bytes=5\n");
    session_close(&s);
}

/* Every capacity, every failed allocation ---------------------------------------------------- */

/* Pending sets of two ids and of options, in variable and fixed records, from two ports whose
   domain is then split. */
static void build_long_sequence(void) {
    byte_buffer d;
    build_netflow9_sequence();
    for (unsigned i = 0; i < 3; i++) {
        ipfix_begin(&d, (ipfix_header){.seconds = 3000 + i, .sequence = 20 + i, .domain = 9});
        put_records(&d, 400, 100 + 10 * i, 3);
        put_records(&d, 401, 200 + 10 * i, 2);
        ipfix_end(&d);
        send(&d, 10 + i, 7000 + i);
    }
    for (unsigned i = 0; i < 3; i++) {
        ipfix_begin(&d, (ipfix_header){.seconds = 3100 + i, .sequence = 30 + i, .domain = 9});
        size_t set = set_begin(&d, 2);
        put_template(&d, 402, FIELDS({i == 1 ? 2 : 1, 4}));
        if (i == 1) put_template(&d, 400, FIELDS({1, 4}));
        if (i == 2) put_template(&d, 401, FIELDS({1, 4}));
        set_end(&d, set);
        put_records(&d, 402, 300 + 10 * i, 2);
        ipfix_end(&d);
        send(&d, 10 + i % 2, 7100 + i);
    }
}

static void gives_the_same_output_at_every_capacity(void) {
    session whole;
    session_open(&whole, columns, 1 << 16);
    build_long_sequence();
    feed_sequence(&whole, SOURCE_ADDRESS);
    fb_counters counters = count_all(whole.decoder);
    size_t size = fb_row_size(&whole.row);
    CHECK_EQUAL(counters.status[FB_PORT_IN_KEY], 1);
    CHECK(whole.row.count > 20);
    for (size_t capacity = 0; capacity < size + 200; capacity++) {
        session s;
        session_open(&s, columns, capacity);
        feed_sequence(&s, SOURCE_ADDRESS);
        fb_counters seen = count_all(s.decoder);
        CHECK_BYTES(s.output, fb_row_size(&s.row), whole.output, size);
        CHECK_BYTES(&seen, sizeof seen, &counters, sizeof counters);
        session_close(&s);
    }
    session_close(&whole);
}

/* After any failure the next exporter is decoded completely. */
static void survives_every_failed_allocation(void) {
    size_t unhurt = 0;
    session whole;
    session_open(&whole, columns, 1 << 16);
    build_long_sequence();
    feed_sequence(&whole, SOURCE_ADDRESS);
    for (size_t fail_at = 1; !unhurt; fail_at++)
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            session s;
            memset(&s, 0, sizeof s);
            if (session_try(&s, columns, 1 << 16, (fb_decoder_options){0}) != FB_OK) abort();
            size_t before = s.allocator.calls;
            s.allocator.fail_at = before + fail_at;
            s.allocator.fail_forever = for_ever;
            feed_sequence(&s, SOURCE_ADDRESS);
            unhurt += s.allocator.calls < before + fail_at;
            s.allocator.fail_at = 0;
            fb_decoder_finish(s.decoder);
            CHECK_EQUAL(s.decoder->pending.all.sets, 0);
            session_forget(&s);
            feed_sequence(&s, SOURCE_ADDRESS + 1);
            CHECK_BYTES(s.output, fb_row_size(&s.row), whole.output, fb_row_size(&whole.row));
            session_close(&s);
        }
    CHECK_EQUAL(unhurt, 2);
    session_close(&whole);
}

/* The caller takes the first output and abandons the call. */
static void loses_nothing_if_a_call_is_abandoned(void) {
    session s;
    byte_buffer d;
    session_open(&s, bytes, 4096);
    for (unsigned i = 0; i < 3; i++) {
        build_data(&d, 256, 10 * i + 1, 3);
        session_feed(&s, &d);
    }
    build_template(&d, 256);
    fb_datagram datagram = datagram_of(d.data, d.size, SOURCE_ADDRESS);
    const fb_plan *plan = s.plan.plan;
    /* room for one or two rows */
    fb_row_set_output(&s.row, s.output, plan->max_fixed_size + 4 * plan->max_size_per_byte + 4, 0);
    CHECK_STATUS(fb_row_decode(s.decoder, &datagram, 1, &(fb_position){0}, &s.row), FB_NO_SPACE);
    size_t taken = s.row.count;
    CHECK(taken > 0 && taken < 3); /* inside a set */
    session_forget(&s);
    build_data(&d, 300, 100, 1); /* something else; it is sent again with the template */
    session_feed(&s, &d);
    build_template(&d, 256);
    session_feed(&s, &d);
    CHECK(strstr(session_text(&s), "bytes=21\nbytes=22\nbytes=23\n"));
    CHECK_EQUAL(s.row.count, 9); /* no flow is written twice */
    CHECK_COUNTERS(&s, "early_data=4");
    fb_decoder_finish(s.decoder);
    CHECK_COUNTERS(&s, "template_missing=1 early_data=4");
    session_close(&s);
}

/* Bounds on time and memory ------------------------------------------------------------------ */

enum { MOST = 65500 };

static void feed_quickly(session *s, const byte_buffer *d, unsigned times, const char *what) {
    double start = seconds_of_cpu();
    for (unsigned i = 0; i < times; i++) session_feed(s, d);
    check_seconds((seconds_of_cpu() - start) / times, SECONDS_PER_DATAGRAM, what);
}

/* Build sets of one byte with descending ids, the worst case of a sorted map, and then templates
   for all of them. */
static void build_flood(byte_buffer *d, unsigned first_id) {
    ipfix_begin(d, (ipfix_header){0});
    for (unsigned id = first_id; d->size < MOST; id--) {
        size_t set = set_begin(d, id);
        put8(d, 6);
        set_end(d, set);
    }
    ipfix_end(d);
}

static void bounds_work_for_a_flood_of_sets(void) {
    session s;
    byte_buffer d;
    open_limited(&s, 0, 0);
    build_flood(&d, 65535);
    feed_quickly(&s, &d, 10, "13,000 pending sets");
    const fb_pending_sets *pending = &s.decoder->pending;
    CHECK(pending->all.bytes <= 4 << 20);
    CHECK(pending->all.sets > 20000);
    CHECK(s.memory.used < 8 << 20);
    CHECK_EQUAL(session_count(&s, FB_EARLY_DATA),
                pending->all.sets + session_count(&s, FB_TEMPLATE_MISSING));

    ipfix_begin(&d, (ipfix_header){0}); /* thousands of template sets that release nothing */
    while (d.size < MOST) put_bytes_template(&d, 300);
    ipfix_end(&d);
    feed_quickly(&s, &d, 1, "5,000 template sets");
    ipfix_begin(&d,
                (ipfix_header){0}); /* templates for ids that are waited for, redefined as empty */
    while (d.size < MOST) {
        size_t set = set_begin(&d, 2);
        put_template(&d, 65535, FIELDS({1, 4})), put_template(&d, 65535, FIELDS({1, 0}));
        set_end(&d, set);
    }
    ipfix_end(&d);
    feed_quickly(&s, &d, 1, "3,000 template sets for nothing");
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    for (unsigned id = 65535; d.size < MOST; id--) put_template(&d, id, FIELDS({4, 1}));
    set_end(&d, set), ipfix_end(&d);
    feed_quickly(&s, &d, 1, "8,000 templates for 30,000 sets");
    CHECK(s.row.count > 4000); /* as many templates as a domain may have */
    session_close(&s);
}

static void bounds_work_for_one_long_queue(void) {
    session s;
    byte_buffer d;
    open_limited(&s, 0, 0);
    ipfix_begin(&d, (ipfix_header){0});
    while (d.size < MOST) {
        size_t set = set_begin(&d, 256);
        put8(&d, 6);
        set_end(&d, set);
    }
    ipfix_end(&d);
    feed_quickly(&s, &d, 10, "13,000 pending sets of one id");
    build_template(&d, 257);
    feed_quickly(&s, &d, 1, "a template that frees nothing");
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({4, 1}));
    set_end(&d, set), ipfix_end(&d);
    feed_quickly(&s, &d, 1, "20,000 pending sets with a template");
    CHECK(s.row.count > 20000);
    session_close(&s);
}

/* Data after an empty template or a withdrawal is copied only. */
static void bounds_work_for_data_of_empty_templates(void) {
    session s;
    byte_buffer d;
    memset(&s, 0, sizeof s);
    CHECK_STATUS(session_try(&s, bytes, 1 << 20, (fb_decoder_options){.obey_withdrawals = true}),
                 FB_OK);
    netflow9_begin(&d, (netflow9_header){0});
    size_t set = set_begin(&d, 0);
    put_template(&d, 256, NULL, 0);
    set_end(&d, set);
    set = set_begin(&d, 256);
    put_repeated(&d, 1, MOST - d.size);
    set_end(&d, set);
    feed_quickly(&s, &d, 200, "data after an empty template");
    ipfix_begin(&d, (ipfix_header){0});
    set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({1, 4})), put_template(&d, 256, NULL, 0); /* withdrawn */
    set_end(&d, set);
    set = set_begin(&d, 256);
    put_repeated(&d, 1, MOST - d.size);
    set_end(&d, set), ipfix_end(&d);
    feed_quickly(&s, &d, 200, "data after a withdrawal");
    ipfix_begin(&d, (ipfix_header){0}); /* of all templates, repeatedly */
    for (unsigned id = 256; d.size < MOST; id++) {
        set = set_begin(&d, 2);
        put_template(&d, 256 + id % 5000, FIELDS({1, 4})), put_template(&d, 2, NULL, 0);
        set_end(&d, set);
    }
    ipfix_end(&d);
    feed_quickly(&s, &d, 1, "4,000 withdrawals of all");
    CHECK_FLOWS(&s, "");
    CHECK(s.memory.used < 8 << 20);
    session_close(&s);
}

RUN_TESTS(TEST(uses_the_header_of_the_original_datagram), TEST(applies_options_that_arrived_later),
          TEST(decodes_pending_sets_in_order_of_arrival),
          TEST(keeps_waiting_if_the_template_is_withdrawn),
          TEST(reports_faults_at_the_current_datagram), TEST(drops_the_oldest_set_of_an_exporter),
          TEST(drops_the_oldest_set_of_all_exporters), TEST(drops_sets_above_the_limit),
          TEST(drops_sets_of_exporters_without_state), TEST(leaves_memory_for_templates),
          TEST(counts_the_sets_that_wait_at_the_end), TEST(gives_the_same_output_at_every_capacity),
          TEST(survives_every_failed_allocation), TEST(loses_nothing_if_a_call_is_abandoned),
          TEST(bounds_work_for_a_flood_of_sets), TEST(bounds_work_for_one_long_queue),
          TEST(bounds_work_for_data_of_empty_templates))
