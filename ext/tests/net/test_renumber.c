/* Renumbered repetitions: a decoder sees one uninterrupted export, and only numbers and times
   change. */
#include "tests/support/session.h"

#include "tests/builders/samples.h"
#include "net/export_header.h"
#include "net/renumber.h"

enum { MAX_DATAGRAMS = 64 };

/* A recording, and a decoder that receives it. */
typedef struct {
    fb_memory memory;
    fb_recording recording;
    fb_renumber *renumber;
    session receiver;
    uint64_t time; /* written as the time of export; 0: none */
} replay;

static void replay_open(replay *r) {
    *r = (replay){.memory = fb_memory_system(0)};
    fb_recording_init(&r->recording, &r->memory, 1);
    session_open(&r->receiver, usual_columns, 65536);
}

static void record_from(replay *r, const byte_buffer *d, uint32_t source, uint16_t port) {
    fb_datagram datagram = datagram_of(d->data, d->size, source);
    datagram.source_port = port;
    CHECK_STATUS(fb_recording_add(&r->recording, &datagram), FB_OK);
}

static void record(replay *r, const byte_buffer *d) {
    record_from(r, d, SOURCE_ADDRESS, 1000);
}

static void renumber(replay *r, uint32_t duration) {
    const fb_recording *recording = &r->recording;
    CHECK_STATUS(fb_renumber_new(&r->renumber, &r->memory, 7, r->time != 0), FB_OK);
    for (size_t i = 0; i < recording->count; i++)
        fb_renumber_learn(r->renumber, &recording->datagrams[i]);
    for (size_t i = 0; i < recording->count; i++)
        CHECK_STATUS(fb_renumber_add(r->renumber, &recording->datagrams[i], recording->sources[i]),
                     FB_OK);
    fb_renumber_finish(r->renumber, duration);
}

static void advance(replay *r) {
    for (size_t i = 0; i < r->recording.count; i++)
        fb_renumber_advance(r->renumber, &r->recording.datagrams[i], i);
}

/* Decode the current repetition. */
static void receive(replay *r) {
    for (size_t i = 0; r->time && i < r->recording.count; i++)
        fb_export_header_set_time(&r->recording.datagrams[i], r->time);
    session_forget(&r->receiver);
    session_feed_batch(&r->receiver, r->recording.datagrams, r->recording.count);
}

static void replay_close(replay *r) {
    fb_renumber_free(r->renumber);
    fb_recording_free(&r->recording);
    CHECK_EQUAL(r->memory.used, 0);
    session_close(&r->receiver);
}

static void check_uninterrupted(const session *s) {
    CHECK_EQUAL(session_count(s, FB_SEQUENCE_GAP), 0);
    CHECK_EQUAL(session_count(s, FB_SAMPLE_GAP), 0);
    CHECK_EQUAL(session_count(s, FB_OUT_OF_SEQUENCE), 0);
    CHECK_EQUAL(session_count(s, FB_EXPORTER_RESTART), 0);
}

static void repeat(replay *r, unsigned repetitions, uint32_t duration) {
    renumber(r, duration);
    receive(r);
    for (unsigned i = 1; i < repetitions; i++) {
        advance(r);
        receive(r);
    }
    check_uninterrupted(&r->receiver);
}

static uint32_t word(const replay *r, size_t datagram, size_t offset) {
    return fb_load32(r->recording.datagrams[datagram].payload.data + offset);
}

/* Builders ----------------------------------------------------------------------------------- */

static void build5(byte_buffer *d, unsigned records, netflow5_header header) {
    netflow5_begin(d, records, header);
    for (unsigned i = 0; i < records; i++)
        put_netflow5(d, (netflow5_record){.bytes = 10,
                                          .first = header.uptime - 2000,
                                          .last = header.uptime - 1000});
}

static void put_template_of_bytes(byte_buffer *d) {
    size_t set = set_begin(d, 2);
    put_template(d, 256, FIELDS({1, 4}, {82, VARIABLE}));
    set_end(d, set);
}

static void build_ipfix(byte_buffer *d, bool with_template, unsigned records, ipfix_header header) {
    ipfix_begin(d, header);
    if (with_template) put_template_of_bytes(d);
    size_t set = set_begin(d, 256);
    for (unsigned i = 0; i < records; i++) put32(d, 100), put_variable(d, "name", i % 4, 0);
    set_end(d, set);
    ipfix_end(d);
}

static void build_sflow(byte_buffer *d, unsigned samples, sflow_header header, uint32_t first) {
    sflow_begin(d, samples, header);
    for (unsigned i = 0; i < samples; i++) {
        size_t sample = flow_sample_begin(
            d, 0, (flow_sample){.sequence = first + i / 2, .source = i % 2, .rate = 10});
        sample_end(d, sample);
    }
}

/* Sequences ---------------------------------------------------------------------------------- */

static void netflow5_counts_flows_of_each_engine(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    build5(&d, 3, (netflow5_header){.sequence = 100, .engine_id = 1, .seconds = 1000});
    record(&r, &d);
    build5(&d, 5, (netflow5_header){.sequence = 900, .engine_id = 2, .seconds = 1000});
    record(&r, &d);
    build5(&d, 2, (netflow5_header){.sequence = 250, .engine_id = 1, .seconds = 1000}); /* a gap */
    record(&r, &d);
    renumber(&r, 0);
    CHECK_EQUAL(word(&r, 0, 16), 100);
    CHECK_EQUAL(word(&r, 1, 16), 900);
    CHECK_EQUAL(word(&r, 2, 16), 103);
    receive(&r);
    for (unsigned i = 1; i < 4; i++) {
        advance(&r);
        receive(&r);
        CHECK_EQUAL(word(&r, 0, 16), 100 + 5 * i);
        CHECK_EQUAL(word(&r, 1, 16), 900 + 5 * i);
        CHECK_EQUAL(word(&r, 2, 16), 103 + 5 * i);
    }
    check_uninterrupted(&r.receiver);
    CHECK_EQUAL(count_all(r.receiver.decoder).rows[FB_ROWS_FLOWS], 40);
    replay_close(&r);
}

static void netflow7_counts_flows(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    for (unsigned i = 0; i < 3; i++) {
        netflow7_begin(&d, 1, (netflow5_header){.sequence = 5 * i, .uptime = 1000 * i});
        put_netflow7(&d, (netflow5_record){.bytes = 10}, 0, 1);
        record(&r, &d);
    }
    repeat(&r, 5, 2000);
    CHECK_EQUAL(word(&r, 2, 16), 14);
    replay_close(&r);
}

static void netflow9_counts_datagrams_of_each_source_id_modulo_32_bits(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    for (uint32_t i = 0; i < 4; i++) {
        netflow9_begin(&d, (netflow9_header){.sequence = UINT32_MAX - 1, .source_id = i % 2});
        record(&r, &d);
    }
    repeat(&r, 3, 0);
    CHECK_EQUAL(word(&r, 0, 12), 2);
    CHECK_EQUAL(word(&r, 3, 12), 3);
    replay_close(&r);
}

static void ipfix_counts_records_and_those_of_options(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    build_ipfix(&d, true, 3, (ipfix_header){.seconds = 1000, .sequence = 50});
    record(&r, &d);
    build_ipfix(&d, false, 4, (ipfix_header){.seconds = 1001, .sequence = 53});
    record(&r, &d);
    ipfix_begin(&d, (ipfix_header){.seconds = 1002, .sequence = 57});
    size_t set = set_begin(&d, 3);
    put_options_template(&d, 257, 1, FIELDS({149, 4}, {160, 8}));
    set_end(&d, set);
    set = set_begin(&d, 257);
    put32(&d, 1), put64(&d, 0), put32(&d, 2), put64(&d, 0);
    set_end(&d, set);
    ipfix_end(&d);
    record(&r, &d);
    repeat(&r, 4, 0);
    CHECK_EQUAL(word(&r, 0, 8), 50 + 3 * 9);
    CHECK_EQUAL(word(&r, 1, 8), 53 + 3 * 9);
    CHECK_EQUAL(word(&r, 2, 8), 57 + 3 * 9);
    replay_close(&r);
}

/* The receiver counts the records of the first datagram from the second repetition on. */
static void ipfix_records_before_their_template_count(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    build_ipfix(&d, false, 7, (ipfix_header){.seconds = 1000, .sequence = 50});
    record(&r, &d);
    build_ipfix(&d, true, 1, (ipfix_header){.seconds = 1001, .sequence = 57});
    record(&r, &d);
    repeat(&r, 4, 0);
    CHECK_EQUAL(word(&r, 0, 8), 50 + 3 * 8);
    CHECK_EQUAL(word(&r, 1, 8), 57 + 3 * 8);
    CHECK_EQUAL(count_all(r.receiver.decoder).rows[FB_ROWS_FLOWS], 32);
    replay_close(&r);
}

/* Without any template, the number of the next message tells the number of records. */
static void ipfix_records_without_template_are_counted_by_the_next_number(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    const uint32_t numbers[] = {50, 57, 59, 1000000, 1000001};
    for (uint32_t i = 0; i < 5; i++) {
        build_ipfix(&d, false, 7, (ipfix_header){.seconds = 1000 + i, .sequence = numbers[i]});
        record(&r, &d);
    }
    renumber(&r, 0);
    CHECK_EQUAL(word(&r, 1, 8), 57);
    CHECK_EQUAL(word(&r, 2, 8), 59);
    CHECK_EQUAL(word(&r, 3, 8), 59); /* a gap: no message has a million records */
    CHECK_EQUAL(word(&r, 4, 8), 60);
    receive(&r);
    check_uninterrupted(&r.receiver);
    replay_close(&r);
}

static void the_longest_messages_are_counted(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    for (unsigned i = 0; i < 2; i++) {
        ipfix_begin(&d, (ipfix_header){.seconds = 1000});
        size_t set = set_begin(&d, 2);
        put_template(&d, 256, FIELDS({4, 1}));
        put_template(&d, 257, FIELDS({313, VARIABLE}));
        set_end(&d, set);
        set = set_begin(&d, i ? 257 : 256);
        if (i) put8(&d, 255), put16(&d, 65000);
        put_repeated(&d, 6, 65000);
        set_end(&d, set);
        ipfix_end(&d);
        record(&r, &d);
    }
    renumber(&r, 0);
    CHECK_EQUAL(word(&r, 1, 8), 65000);
    advance(&r);
    CHECK_EQUAL(word(&r, 0, 8), 65001);
    replay_close(&r);
}

static void sources_have_their_own_sequences(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    for (uint32_t i = 0; i < 6; i++) {
        netflow9_begin(&d, (netflow9_header){.sequence = 10 * (i % 3)});
        record_from(&r, &d, SOURCE_ADDRESS + i % 3 / 2, (uint16_t)(i % 3));
    }
    renumber(&r, 0);
    for (uint32_t i = 0; i < 6; i++) CHECK_EQUAL(word(&r, i, 12), 10 * (i % 3) + i / 3);
    replay_close(&r);
}

static void sflow_counts_datagrams_of_an_agent_and_samples_of_a_source(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    for (uint32_t i = 0; i < 3; i++) {
        const sflow_header header = {.agent = 0x0a000001, .sequence = 7 * i, .uptime = 500 * i};
        build_sflow(&d, 5, header, 100 * i);
        record_from(&r, &d, SOURCE_ADDRESS + i, (uint16_t)i); /* the agent is the exporter */
    }
    repeat(&r, 4, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQUAL(word(&r, i, 16), 9 + i);
        CHECK_EQUAL(word(&r, i, 20), 3 * 1000 + 500 * i);
        CHECK_EQUAL(word(&r, i, 36), 3 * 9 + 3 * i); /* the first sample: source 0 */
    }
    CHECK_EQUAL(count_all(r.receiver.decoder).rows[FB_ROWS_FLOWS], 60);
    replay_close(&r);
}

static void a_repeated_late_or_restarted_datagram_is_in_order(void) {
    replay r;
    byte_buffer d;
    const uint32_t numbers[] = {100, 104, 104, 102, 0, 2, 5000000};
    replay_open(&r);
    for (uint32_t i = 0; i < 7; i++) {
        build5(&d, 2, (netflow5_header){.sequence = numbers[i], .uptime = i < 4 ? 90000 : 20 * i});
        record(&r, &d);
    }
    repeat(&r, 3, 0);
    for (uint32_t i = 0; i < 7; i++) CHECK_EQUAL(word(&r, i, 16), 100 + 2 * i + 2 * 14);
    replay_close(&r);
}

/* Times -------------------------------------------------------------------------------------- */

static void uptimes_never_go_back_and_times_of_flows_stay(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    build5(&d, 1, (netflow5_header){.uptime = 50000, .seconds = 1000});
    record(&r, &d);
    build5(&d, 1, (netflow5_header){.uptime = 53500, .seconds = 1003});
    record(&r, &d);
    build5(&d, 1, (netflow5_header){.uptime = 3000, .seconds = 1005}); /* it restarted */
    record(&r, &d);
    renumber(&r, 2000);
    CHECK_EQUAL(word(&r, 1, 4), 53500);
    CHECK_EQUAL(word(&r, 2, 4), 54000); /* 3,000 and whole seconds */
    CHECK_EQUAL(word(&r, 2, 8), 1005 + 51);
    CHECK_EQUAL(word(&r, 2, 24 + 24), 1000); /* the record */
    advance(&r);
    CHECK_EQUAL(word(&r, 0, 4), 54000); /* 4,000 ms of uptime, longer than 2,000 */
    CHECK_EQUAL(word(&r, 0, 8), 1004);
    CHECK_EQUAL(word(&r, 0, 24 + 24), 48000);
    CHECK_EQUAL(word(&r, 2, 4), 58000);
    replay_close(&r);
}

static void small_steps_back_of_an_uptime_stay(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    build5(&d, 1, (netflow5_header){.uptime = 50000});
    record(&r, &d);
    build5(&d, 1, (netflow5_header){.uptime = 49000});
    record(&r, &d);
    renumber(&r, 0);
    CHECK_EQUAL(word(&r, 1, 4), 49000);
    advance(&r);
    CHECK_EQUAL(word(&r, 0, 4), 50000);
    CHECK_EQUAL(word(&r, 1, 4), 49000);
    replay_close(&r);
}

static const char *const times = "1 at timestamp unit=1000000 : meta:time_exported\n"
                                 "2 start timestamp unit=1000000 : ipfix:22@time_uptime "
                                 "netflow5:First\n3 end timestamp unit=1000000 : "
                                 "ipfix:21@time_uptime netflow5:Last\n";

/* Check the times of a flow that ended 1 s before its export, in three repetitions at `now`. */
static void check_times_near(replay *r, uint32_t now, const char *flows) {
    session_close(&r->receiver);
    session_open(&r->receiver, times, 65536);
    r->time = now * UINT64_C(1000000000);
    repeat(r, 3, 60000);
    CHECK_FLOWS(&r->receiver, flows);
}

static void times_of_netflow5_move_with_the_time_of_sending(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    build5(&d, 1, (netflow5_header){.uptime = 50000, .seconds = 1000, .nanoseconds = 500});
    record(&r, &d);
    check_times_near(&r, 2000, "at=2000000 start=1998000 end=1999000\n");
    CHECK_EQUAL(word(&r, 0, 4), 50000 + 2 * 60000);
    CHECK_EQUAL(word(&r, 0, 12), 0);
    replay_close(&r);
}

static void times_of_netflow7_and_1_move_with_the_time_of_sending(void) {
    replay r;
    byte_buffer d;
    const netflow5_header header = {.uptime = 50000, .seconds = 1000};
    const netflow5_record flow = {.bytes = 1, .first = 48000, .last = 49000};
    replay_open(&r);
    netflow7_begin(&d, 1, header);
    put_netflow7(&d, flow, 0, 1);
    record(&r, &d);
    for (size_t size = 48; size <= 52; size += 4) {
        netflow1_begin(&d, 2, header);
        put_netflow1(&d, flow, size), put_netflow1(&d, flow, size);
        record(&r, &d);
    }
    check_times_near(&r, 2000,
                     "at=2000000 start=1998000 end=1999000\nat=2000000 start=1998000 end=1999000\n"
                     "at=2000000 start=1998000 end=1999000\nat=2000000 start=1998000 end=1999000\n"
                     "at=2000000 start=1998000 end=1999000\n");
    replay_close(&r);
}

static void times_of_netflow9_move_with_the_time_of_sending(void) {
    replay r;
    byte_buffer d;
    replay_open(&r);
    netflow9_begin(&d, (netflow9_header){.uptime = 50000, .seconds = 1000});
    size_t set = set_begin(&d, 0);
    put_template(&d, 256, FIELDS({1, 4}, {22, 4}, {21, 4}));
    set_end(&d, set);
    set = set_begin(&d, 256);
    for (int i = 0; i < 2; i++) put32(&d, 7), put32(&d, 48000), put32(&d, 49000);
    put8(&d, 0); /* padding */
    set_end(&d, set);
    record(&r, &d);
    check_times_near(
        &r, 2000, "at=2000000 start=1998000 end=1999000\nat=2000000 start=1998000 end=1999000\n");
    replay_close(&r);
}

static void the_time_of_sending_replaces_every_time_of_export(void) {
    static const struct {
        unsigned version;
        size_t seconds, nanoseconds;
    } protocols[] = {{1, 8, 12}, {5, 8, 12}, {7, 8, 12}, {9, 8, 0}, {10, 4, 0}};
    for (size_t i = 0; i < 5; i++) {
        byte_buffer d = {.size = 0}, before;
        put16(&d, protocols[i].version), put16(&d, 1);
        put_repeated(&d, 7, 72);
        patch32(&d, 8, 7); /* a version 1 or 7 needs records of a known size */
        d.size = protocols[i].version == 1 ? 64 : 76;
        before = d;
        fb_datagram datagram = datagram_of(d.data, d.size, SOURCE_ADDRESS);
        fb_export_header_set_time(&datagram, UINT64_C(2000000000123456789));
        CHECK_EQUAL(fb_load32(d.data + protocols[i].seconds), 2000000000);
        patch32(&before, protocols[i].seconds, 2000000000);
        if (protocols[i].nanoseconds) patch32(&before, protocols[i].nanoseconds, 123456789);
        CHECK_BYTES(d.data, d.size, before.data, before.size);
    }
}

static void other_payloads_stay(void) {
    static const char *const payloads[] = {"",
                                           "\0",
                                           "\0\5",
                                           "\0\0\0\5\0\0\0\1",
                                           "\0\3abcdefgh",
                                           "GET / HTTP/1.1",
                                           "\0\x0b\0\x10 0123456789abcdef"};
    static const size_t sizes[] = {0, 1, 2, 8, 10, 14, 20};
    replay r;
    replay_open(&r);
    for (size_t i = 0; i < 7; i++) {
        byte_buffer d = {.size = 0};
        put_bytes(&d, payloads[i], sizes[i]);
        record(&r, &d);
    }
    r.time = 1;
    renumber(&r, 1000);
    advance(&r);
    receive(&r);
    for (size_t i = 0; i < 7; i++) {
        const fb_bytes payload = r.recording.datagrams[i].payload;
        CHECK_BYTES(payload.data, payload.size, payloads[i], sizes[i]);
    }
    replay_close(&r);
}

/* Hostile input ------------------------------------------------------------------------------ */

/* Renumber and repeat one datagram, in a copy that ends at a guard page. */
static void disturb(const byte_buffer *d, size_t size, bool now) {
    fb_memory memory = fb_memory_system(0);
    fb_renumber *renumber;
    uint8_t *copy = fb_guarded_copy(d->data, size);
    fb_datagram datagram = datagram_of(copy, size, SOURCE_ADDRESS);
    CHECK_STATUS(fb_renumber_new(&renumber, &memory, 1, now), FB_OK);
    fb_renumber_learn(renumber, &datagram);
    for (uint32_t i = 0; i < 2; i++) CHECK_STATUS(fb_renumber_add(renumber, &datagram, i), FB_OK);
    fb_renumber_finish(renumber, 1000);
    for (size_t i = 0; i < 2; i++) fb_renumber_advance(renumber, &datagram, i);
    fb_export_header_set_time(&datagram, UINT64_MAX);
    fb_renumber_free(renumber);
    CHECK_EQUAL(memory.used, 0);
    fb_guarded_free(copy, size);
}

static void survives_every_prefix(void) {
    for (size_t i = 0; i < sample_count; i++) {
        byte_buffer d;
        samples[i].build(&d);
        for (size_t size = 0; size <= d.size; size++) disturb(&d, size, size % 2);
    }
}

static void survives_every_corrupted_byte(void) {
    for (size_t i = 0; i < sample_count; i++) {
        byte_buffer d;
        samples[i].build(&d);
        for (size_t at = 0; at < d.size; at++) {
            uint8_t was = d.data[at];
            const uint8_t others[] = {0, 0xff, (uint8_t)(was + 1), (uint8_t)(was ^ 0x80)};
            for (size_t change = 0; change < 4; change++) {
                d.data[at] = others[change];
                disturb(&d, d.size, change % 2);
            }
            d.data[at] = was;
        }
    }
}

static void survives_payloads_longer_than_udp_allows(void) {
    byte_buffer d = {.size = 0};
    netflow5_begin(&d, 1365, (netflow5_header){.uptime = 1});
    put_repeated(&d, 0, sizeof d.data - d.size);
    disturb(&d, d.size, true);
}

static fb_status try_to_renumber(fb_memory *memory, const byte_buffer *d, size_t count) {
    fb_renumber *renumber;
    uint8_t *copy = fb_guarded_copy(d->data, d->size);
    fb_datagram datagram = datagram_of(copy, d->size, SOURCE_ADDRESS);
    fb_status status = fb_renumber_new(&renumber, memory, 1, true);
    if (status == FB_OK) fb_renumber_learn(renumber, &datagram);
    for (uint32_t i = 0; i < count && status == FB_OK; i++)
        status = fb_renumber_add(renumber, &datagram, i);
    if (renumber) fb_renumber_free(renumber);
    fb_guarded_free(copy, d->size);
    return status;
}

static void survives_every_failed_allocation(void) {
    for (size_t i = 0; i < sample_count; i++) {
        byte_buffer d;
        samples[i].build(&d);
        for (size_t fail_at = 1, calls = fail_at; calls >= fail_at; fail_at++) {
            fb_check_allocator allocator = {.fail_at = fail_at};
            fb_memory memory = fb_check_memory(&allocator);
            fb_status status = try_to_renumber(&memory, &d, 70);
            CHECK(status == FB_OK || status == FB_NO_MEMORY);
            CHECK_EQUAL(allocator.held, 0);
            calls = allocator.calls;
        }
    }
}

RUN_TESTS(TEST(netflow5_counts_flows_of_each_engine), TEST(netflow7_counts_flows),
          TEST(netflow9_counts_datagrams_of_each_source_id_modulo_32_bits),
          TEST(ipfix_counts_records_and_those_of_options),
          TEST(ipfix_records_before_their_template_count),
          TEST(ipfix_records_without_template_are_counted_by_the_next_number),
          TEST(the_longest_messages_are_counted), TEST(sources_have_their_own_sequences),
          TEST(sflow_counts_datagrams_of_an_agent_and_samples_of_a_source),
          TEST(a_repeated_late_or_restarted_datagram_is_in_order),
          TEST(uptimes_never_go_back_and_times_of_flows_stay),
          TEST(small_steps_back_of_an_uptime_stay),
          TEST(times_of_netflow5_move_with_the_time_of_sending),
          TEST(times_of_netflow7_and_1_move_with_the_time_of_sending),
          TEST(times_of_netflow9_move_with_the_time_of_sending),
          TEST(the_time_of_sending_replaces_every_time_of_export), TEST(other_payloads_stay),
          TEST(survives_every_prefix), TEST(survives_every_corrupted_byte),
          TEST(survives_payloads_longer_than_udp_allows), TEST(survives_every_failed_allocation))
