/* From datagrams to messages: the fields of each protocol, and the counters of faults. */
#include "tests/support/session.h"

#include "tests/builders/samples.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const few =
    "1 bytes uint limit=4294967295 : ipfix:1 netflow5:dOctets packet:ip.length\n"
    "2 port uint limit=65535 : ipfix:7 netflow5:srcport packet:transport.src_port\n";

static void decodes_every_sample_datagram(void) {
    for (size_t i = 0; i < sample_count; i++) {
        session s;
        byte_buffer d;
        session_open(&s, usual_columns, 65536);
        samples[i].build(&d);
        session_feed(&s, &d);
        CHECK_FLOWS(&s, samples[i].flows);
        session_close(&s);
    }
}

static void detects_protocols_by_their_first_bytes(void) {
    static const struct {
        const char *bytes;
        size_t size;
        uint32_t protocol;
    } cases[] = {
        {"", 0, 0},
        {"\0", 1, 0},
        {"\0\5", 2, 5},
        {"\0\11", 2, 9},
        {"\0\12", 2, 10},
        {"\0\13\0\0", 4, 0},
        {"\0\0\0\5", 4, FB_SFLOW5},
        {"\0\0\0", 3, 0},
        {"\0\0\0\6\0\0\0\1", 8, 0},
        {"\0\0\0\2\0\0\0\1", 8, FB_UNSUPPORTED},
        {"\0\0\0\4\0\0\0\2", 8, FB_UNSUPPORTED},
        {"\0\0\0\4\0\0\0\3", 8, 0},
        {"\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16, 0}, /* NetFlow v1 without records */
        {"\0\1\0\1\0\0\0\0\0\0\0\0\0\0\0\0", 16, 0},
        {"\0\7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, 0},
        {"\0\7\0\0", 4, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t *copy = fb_guarded_copy(cases[i].bytes, cases[i].size);
        CHECK_EQUAL(fb_payload_sniff((fb_bytes){copy, cases[i].size}), cases[i].protocol);
        fb_guarded_free(copy, cases[i].size);
    }
}

/* NetFlow v5 --------------------------------------------------------------------------------- */

static void decodes_the_records_of_truncated_netflow5(void) {
    byte_buffer d;
    netflow5_begin(&d, 3, (netflow5_header){0});
    put_netflow5(&d, (netflow5_record){.bytes = 10});
    put_netflow5(&d, (netflow5_record){.bytes = 20});
    CHECK_DECODED(few, &d, "bytes=10\nbytes=20\n", "truncated_datagram=1");
    patch16(&d, 2, 1);
    CHECK_DECODED(few, &d, "bytes=10\n", "excess_data=1");
    d.size = 23;
    CHECK_DECODED(few, &d, "", "truncated_header=1");
}

/* NetFlow v9 and IPFIX ----------------------------------------------------------------------- */

static void begin_template(byte_buffer *d) {
    ipfix_begin(d, (ipfix_header){.domain = 1});
    size_t set = set_begin(d, 2);
    put_template(d, 256, FIELDS({1, 4}, {7, 2}));
    set_end(d, set);
}

static void put_record(byte_buffer *d, uint32_t bytes) {
    size_t set = set_begin(d, 256);
    put32(d, bytes), put16(d, 53);
    set_end(d, set);
}

static void counts_truncated_headers(void) {
    byte_buffer d;
    netflow9_begin(&d, (netflow9_header){0});
    CHECK_DECODED(few, &d, "", "");
    d.size--;
    CHECK_DECODED(few, &d, "", "truncated_header=1");
    ipfix_begin(&d, (ipfix_header){0});
    CHECK_DECODED(few, &d, "", "truncated_header=1"); /* a length of 0 */
    ipfix_end(&d);
    CHECK_DECODED(few, &d, "", "");
    d.size--;
    CHECK_DECODED(few, &d, "", "truncated_header=1");
}

static void decodes_the_sets_of_truncated_messages(void) {
    byte_buffer d;
    begin_template(&d);
    put_record(&d, 10), put_record(&d, 20);
    ipfix_end(&d);
    d.size -= 6;
    CHECK_DECODED(few, &d, "bytes=10 port=53\n", "truncated_datagram=1 bad_set_length=1");
    d.size += 6;
    put_record(&d, 30); /* and nothing behind its end */
    CHECK_DECODED(few, &d, "bytes=10 port=53\nbytes=20 port=53\n", "excess_data=1");
}

static void counts_invalid_sets(void) {
    byte_buffer d;
    begin_template(&d);
    size_t set = set_begin(&d, 255);
    set_end(&d, set);
    put_record(&d, 10);
    set_begin(&d, 256);
    put_record(&d, 20);
    ipfix_end(&d);
    CHECK_DECODED(few, &d, "bytes=10 port=53\n", "bad_set_length=1 bad_set_id=1");
}

static void skips_padding(void) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({1, 4}, {7, 2}));
    put_repeated(&d, 0, 4);
    set_end(&d, set);
    set = set_begin(&d, 256);
    put32(&d, 10), put16(&d, 53), put_repeated(&d, 0, 5);
    set_end(&d, set);
    ipfix_end(&d);
    CHECK_DECODED(few, &d, "bytes=10 port=53\n", "");
}

static void counts_zero_bytes_after_the_last_set_as_padding(void) {
    byte_buffer d;
    for (unsigned size = 1; size < 40; size++) {
        begin_template(&d);
        put_record(&d, 10);
        put_repeated(&d, 0, size);
        ipfix_end(&d);
        CHECK_DECODED(few, &d, "bytes=10 port=53\n", "padding=1");
        d.data[d.size - 1] = 1;
        CHECK_DECODED(few, &d, "bytes=10 port=53\n", "bad_set_length=1");
        netflow9_begin(&d, (netflow9_header){0});
        put_repeated(&d, 0, size);
        CHECK_DECODED(few, &d, "", "padding=1");
        d.data[d.size - 1] = 1;
        CHECK_DECODED(few, &d, "", "bad_set_length=1");
    }
}

static void counts_the_remainder_of_a_set_once(void) {
    for (size_t capacity = 0; capacity < 200; capacity++) { /* however often the output is full */
        session s;
        byte_buffer d;
        session_open(&s, few, capacity);
        begin_template(&d);
        for (unsigned left = 3; left < 6; left++) {
            size_t set = set_begin(&d, 256);
            put32(&d, 10), put16(&d, 53), put32(&d, 20), put16(&d, 53), put_repeated(&d, 7, left);
            set_end(&d, set);
        }
        ipfix_end(&d);
        session_feed(&s, &d);
        CHECK_EQUAL(session_count(&s, FB_TRUNCATED_RECORD), 2);
        CHECK_EQUAL(count_all(s.decoder).rows[FB_ROWS_FLOWS], 6);
        session_close(&s);
    }
}

static void decodes_pending_sets_when_their_template_arrives(void) {
    byte_buffer d;
    session s;
    session_open(&s, few, 65536);
    ipfix_begin(&d, (ipfix_header){.domain = 1});
    put_record(&d, 10);
    ipfix_end(&d);
    session_feed(&s, &d);
    CHECK_COUNTERS(&s, "early_data=1");
    begin_template(&d);
    put_record(&d, 20);
    ipfix_end(&d);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "bytes=10 port=53\nbytes=20 port=53\n");
    /* Another domain, exporter or version has its own templates. */
    ipfix_begin(&d, (ipfix_header){.domain = 2});
    put_record(&d, 30);
    ipfix_end(&d);
    session_feed(&s, &d);
    patch32(&d, 12, 1);
    session_feed_bytes(&s, d.data, d.size, SOURCE_ADDRESS + 1);
    netflow9_begin(&d, (netflow9_header){.source_id = 1});
    put_record(&d, 40);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "bytes=10 port=53\nbytes=20 port=53\n");
    CHECK_COUNTERS(&s, "early_data=4");
    fb_decoder_finish(s.decoder);
    CHECK_COUNTERS(&s, "template_missing=3 early_data=4");
    session_close(&s);
}

static void counts_invalid_templates(void) {
    byte_buffer d;
    static const struct {
        unsigned id, count;
        const char *counters;
    } cases[] = {{255, 1, "bad_template=1"},
                 {256, 2, "bad_template=1"},
                 {256, 0, "withdrawal=1"},
                 {2, 0, "withdrawal=1"},
                 {3, 0, "bad_template=1"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        ipfix_begin(&d, (ipfix_header){0});
        size_t set = set_begin(&d, 2);
        put16(&d, cases[i].id), put16(&d, cases[i].count);
        if (cases[i].count) put16(&d, 1), put16(&d, 4);
        set_end(&d, set), ipfix_end(&d);
        CHECK_DECODED(few, &d, "", cases[i].counters);
    }
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 3);
    put_options_template(&d, 256, 2, FIELDS({302, 4}));
    set_end(&d, set), ipfix_end(&d);
    CHECK_DECODED(few, &d, "", "bad_template=1"); /* more scope fields than fields */

    netflow9_begin(&d, (netflow9_header){0});
    set = set_begin(&d, 1);
    put16(&d, 256), put16(&d, 3), put16(&d, 4), put32(&d, 0);
    set_end(&d, set);
    CHECK_DECODED(few, &d, "", "bad_template=1"); /* scope bytes that do not match fields */
    netflow9_begin(&d, (netflow9_header){0});
    set = set_begin(&d, 0);
    put16(&d, 256), put16(&d, 0), put_template(&d, 257, FIELDS({1, 0}));
    set_end(&d, set);
    CHECK_DECODED(few, &d, "", "empty_template=2"); /* NetFlow v9 has no withdrawals */
}

static void uses_a_withdrawn_template_until_the_next_definition(void) {
    byte_buffer d;
    begin_template(&d);
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, NULL, 0);
    set_end(&d, set);
    put_record(&d, 10);
    set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({7, 2}, {1, 4}));
    set_end(&d, set);
    put_record(&d, 0x00350000);
    ipfix_end(&d);
    CHECK_DECODED(few, &d, "bytes=10 port=53\nbytes=53 port=53\n",
                  "withdrawal=1 template_redefined=1");
}

static void ends_a_set_at_a_truncated_record(void) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({1, 1}, {82, VARIABLE}));
    set_end(&d, set);
    set = set_begin(&d, 3);
    put_options_template(&d, 257, 1, FIELDS({302, 1}, {82, VARIABLE}));
    set_end(&d, set);
    for (unsigned id = 256; id < 258; id++) {
        set = set_begin(&d, id);
        put8(&d, 5), put_variable(&d, "abc", 3, 0), put8(&d, 6), put8(&d, 9),
            put_bytes(&d, "abc", 3);
        set_end(&d, set);
    }
    ipfix_end(&d);
    CHECK_DECODED("1 b uint : ipfix:1\n2 name string : ipfix:82", &d, "b=5 name=\"abc\"\n",
                  "truncated_record=2 options_ignored=1");
}

static void reads_fields_of_variable_length_in_netflow_v9(void) {
    byte_buffer d;
    netflow9_begin(&d, (netflow9_header){0});
    size_t set = set_begin(&d, 0);
    put_template(&d, 256, FIELDS({1, 1}, {82, VARIABLE}, {7, 2}));
    set_end(&d, set);
    set = set_begin(&d, 1);
    put_options_template9(&d, 257, 1, FIELDS({2, VARIABLE}, {34, 1}));
    set_end(&d, set);
    set = set_begin(&d, 257);
    put_variable(&d, "\0\1", 2, 1), put8(&d, 100);
    set_end(&d, set);
    set = set_begin(&d, 256);
    put8(&d, 5), put_variable(&d, "abc", 3, 0), put16(&d, 53);
    put8(&d, 6), put_variable(&d, "abcd", 4, 1), put16(&d, 54);
    put8(&d, 7), put8(&d, 9), put_bytes(&d, "abc", 3);
    set_end(&d, set);
    const char *lines = "1 b uint : ipfix:1\n2 name string : ipfix:82\n3 port uint : ipfix:7\n"
                        "4 rate uint : derived:sampling_rate";
    CHECK_DECODED(lines, &d,
                  "b=5 name=\"abc\" port=53 rate=100\nb=6 name=\"abcd\" port=54 rate=100\n",
                  "truncated_record=1");
}

/* Values ------------------------------------------------------------------------------------- */

/* Decode a record of one field. */
static void check_value(const char *column, unsigned id, const char *value, size_t size,
                        const char *flow, const char *counters) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){.seconds = 1000});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({id, (unsigned)size}));
    set_end(&d, set);
    set = set_begin(&d, 256);
    put_bytes(&d, value, size);
    set_end(&d, set), ipfix_end(&d);
    CHECK_DECODED(column, &d, flow, counters);
}

static void converts_values_to_the_type_of_their_column(void) {
    check_value("1 v uint limit=255 : ipfix:7", 7, "\0\xff", 2, "v=255\n", "");
    check_value("1 v uint limit=255 : ipfix:7", 7, "\1\0", 2, "\n", "out_of_range=1");
    check_value("1 v uint : ipfix:7", 7, "\0\0\0\0\0\0\0\1\0", 9, "\n", "bad_field_size=1");
    check_value("1 v uint : ipfix:56@mac", 56, "\2\0\0\0\0\1", 6, "v=2199023255553\n", "");
    check_value("1 v uint : ipfix:56@mac", 56, "\1\1\1", 3, "\n", "bad_field_size=1");
    check_value("1 v uint : ipfix:56@mac", 56, "\0\0\0\0\0\0\0", 7, "\n", "bad_field_size=1");
    check_value("1 v enum map=0:1,5:2 : ipfix:61", 61, "\0", 1, "v=1\n", "");
    check_value("1 v enum map=0:1,5:2 : ipfix:61", 61, "\5", 1, "v=2\n", "");
    check_value("1 v enum map=0:1,5:2 : ipfix:61", 61, "\6", 1, "\n", "unmapped=1");
    check_value("1 v int limit=127 : ipfix:434", 434, "\xff\x80", 2, "v=-128\n", "");
    check_value("1 v int limit=127 : ipfix:434", 434, "\xff\x7f", 2, "\n", "out_of_range=1");
    check_value("1 v sint : ipfix:434", 434, "\xff", 1, "v=-1\n", "");
    check_value("1 v bool : ipfix:276", 276, "\1", 1, "v=1\n", "");
    check_value("1 v bool explicit : ipfix:276", 276, "\2", 1, "v=0\n", "");
    check_value("1 v bool : ipfix:276", 276, "\3", 1, "\n", "out_of_range=1");
    check_value("1 v double : ipfix:320", 320, "\x40\x49\x0f\xdb", 4, "v=3.1415927410125732\n", "");
    check_value("1 v float : ipfix:320", 320, "\x3f\xf8\0\0\0\0\0\0", 8, "v=1.5\n", "");
    check_value("1 v float : ipfix:320", 320, "\x7f\xe0\0\0\0\0\0\0", 8, "\n", "out_of_range=1");
    check_value("1 v float : ipfix:320", 320, "\1\2\3", 3, "\n", "bad_field_size=1");
    check_value("1 v ip : ipfix:8", 8, "\1\2\3\4\5", 5, "\n", "bad_field_size=1");
    check_value("1 v ip native_ip : ipfix:8", 8, "\1\2\3\4", 4, "v=native:1.2.3.4\n", "");
    check_value("1 v ip : ipfix:27", 27, "\0\0\0\0\0\0\0\0\0\0\xff\xff\0\0\0\0", 16, "\n", "");
    check_value("1 v string : ipfix:82", 82, "ab\0\0", 4, "v=\"ab\"\n", "");
    check_value("1 v string : ipfix:82", 82, "\xff", 1, "v=\"\xef\xbf\xbd\"\n", "invalid_utf8=1");
    check_value("1 v bytes : ipfix:95", 95, "\1\0", 2, "v=x0100\n", "");
    check_value("1 v timestamp unit=1000000 : ipfix:150@time_s", 150, "\0\0\0\5", 4, "v=5000\n",
                "");
    check_value("1 v timestamp unit=1000 : ipfix:158@time_delta", 158, "\0\x0f\x42\x40", 4,
                "v=999000000\n", "");
    check_value("1 v timestamp unit=1 : ipfix:156@time_ntp_ns", 156, "\x83\xaa\x7e\x81\x80\0\0\0",
                8, "v=1500000000\n", "");
    check_value("1 v timestamp unit=1 : ipfix:154@time_ntp_us", 154, "\x83\xaa\x7e\x81\0\0\x0b\xff",
                8, "v=1000000000\n", "");
    check_value("1 v timestamp unit=1 : ipfix:156@time_ntp_ns", 156, "\x83\xaa\x7e\x81", 4, "\n",
                "bad_field_size=1");
    check_value("1 v duration unit=1000000 : ipfix:161@span_us", 161, "\0\0\x27\x10", 4, "v=10\n",
                "");
}

/* Batches and faults ------------------------------------------------------------------------- */

static void reports_other_payloads_as_faults_if_flows_are_expected(void) {
    session s;
    byte_buffer d = {.size = 0};
    session_open(&s, few, 65536);
    put_bytes(&d, "GET / HTTP/1.1", 14);
    session_feed(&s, &d);
    CHECK_EQUAL(s.decoder->fault.status, FB_OK);
    s.decoder->expect_flows = true;
    session_feed(&s, &d);
    CHECK_EQUAL(s.decoder->fault.status, FB_OTHER_PACKET);
    CHECK_EQUAL(s.decoder->fault.offset, 0);
    CHECK_COUNTERS(&s, "other_packet=2");
    CHECK_EQUAL(s.decoder->exporters.count, 0);
    session_close(&s);
}

static void creates_no_exporter_for_other_payloads(void) {
    session s;
    byte_buffer d = {.size = 0};
    session_open(&s, few, 65536);
    put_bytes(&d, "GET / HTTP/1.1", 14);
    session_feed(&s, &d);
    CHECK_COUNTERS(&s, "other_packet=1");
    CHECK_EQUAL(s.decoder->other.datagrams, 1);
    CHECK_EQUAL(s.decoder->exporters.count, 0);
    d.size = 0;
    put32(&d, 2), put32(&d, 1); /* sFlow v2 */
    session_feed(&s, &d);
    CHECK_COUNTERS(&s, "unsupported_version=1 other_packet=1");
    CHECK_EQUAL(s.decoder->exporters.count, 1);
    session_close(&s);
}

/* The template of exporter `i` has bytes if `i` is odd, packets if it is even, and an element of
   its own. */
static void put_message_of(byte_buffer *d, uint32_t i, uint32_t value) {
    ipfix_begin(d, (ipfix_header){.seconds = 1000});
    size_t set = set_begin(d, value ? 256 : 2);
    if (value) put32(d, value), put8(d, 0);
    else put_template(d, 256, FIELDS({2 - i % 2, 4}, {20000 + i, 1}));
    set_end(d, set);
    ipfix_end(d);
}

/* Decode datagrams of exporters that are prefetched or not, known, unknown, repeated or evicted.
   The output is full at each of them in turn. */
static void decodes_a_batch_like_single_datagrams(void) {
    enum { EXPORTERS = 300, DATAGRAMS = 4 * EXPORTERS };
    static byte_buffer d;
    static fb_datagram batch[DATAGRAMS];
    const char *columns =
        "1 bytes uint : ipfix:1\n2 packets uint : ipfix:2\n3 exporter ip : meta:exporter_address";
    for (uint32_t n = 0; n < DATAGRAMS; n++) {
        /* some exporters never sent a template */
        uint32_t i = n < EXPORTERS ? n : n * 2 / 3 % (EXPORTERS + 7);
        put_message_of(&d, i, n < EXPORTERS ? 0 : n);
        batch[n] = datagram_of(fb_guarded_copy(d.data, d.size), d.size, SOURCE_ADDRESS + i);
    }
    for (size_t limit = EXPORTERS + 2; limit > 100; limit -= 30) {
        session one;
        session_open(&one, columns, 1 << 16);
        one.decoder->exporters.limit = limit;
        for (uint32_t n = 0; n < DATAGRAMS; n++) session_feed_batch(&one, &batch[n], 1);
        CHECK(one.row.count > limit && one.row.count < DATAGRAMS - EXPORTERS);
        for (size_t capacity = 0; capacity < 3000; capacity += 250) {
            session s;
            session_open(&s, columns, capacity);
            s.decoder->exporters.limit = limit;
            session_feed_batch(&s, batch, DATAGRAMS);
            CHECK_FLOWS(&s, session_text(&one));
            session_close(&s);
        }
        session_close(&one);
    }
    for (uint32_t n = 0; n < DATAGRAMS; n++)
        fb_guarded_free((uint8_t *)(uintptr_t)batch[n].payload.data, batch[n].payload.size);
}

static void keeps_the_first_fault(void) {
    session s;
    byte_buffer d;
    fb_datagram batch[3];
    session_open(&s, few, 65536);
    begin_template(&d);
    put_record(&d, 10);
    size_t set = set_begin(&d, 999);
    set_end(&d, set);
    set_begin(&d, 256);
    ipfix_end(&d);
    for (int i = 0; i < 3; i++) batch[i] = datagram_of(d.data, i ? d.size : set, SOURCE_ADDRESS);
    patch16(&d, 2, (unsigned)d.size);
    session_feed_batch(&s, batch, 3);
    const fb_fault *fault = &s.decoder->fault;
    CHECK_STATUS(fault->status, FB_TRUNCATED_DATAGRAM);
    CHECK_EQUAL(fault->datagram, 0);
    CHECK_EQUAL(fault->offset, set);
    CHECK_EQUAL(fault->exporter[15], 1);
    s.decoder->fault = (fb_fault){0};
    session_feed_batch(&s, batch + 1, 2);
    CHECK_STATUS(fault->status, FB_BAD_SET_LENGTH);
    CHECK_EQUAL(fault->offset, set + 4); /* a waiting set is not a fault */
    s.decoder->fault = (fb_fault){0};
    fb_decoder_finish(s.decoder);
    CHECK_STATUS(fault->status, FB_TEMPLATE_MISSING);
    session_close(&s);
}

static void counts_evicted_exporters(void) {
    session s;
    byte_buffer d;
    memset(&s, 0, sizeof s);
    CHECK_STATUS(session_try(&s, few, 65536, (fb_decoder_options){.exporter_limit = 1}), FB_OK);
    begin_template(&d);
    put_record(&d, 10);
    ipfix_end(&d);
    session_feed(&s, &d);
    session_feed_bytes(&s, d.data, d.size, SOURCE_ADDRESS + 1);
    CHECK_FLOWS(&s, "bytes=10 port=53\nbytes=10 port=53\n");
    CHECK_COUNTERS(&s, "exporter_evicted=1");
    netflow5_begin(&d, 1, (netflow5_header){0}); /* a protocol without state */
    put_netflow5(&d, (netflow5_record){.bytes = 20});
    session_forget(&s);
    session_feed_bytes(&s, d.data, d.size, SOURCE_ADDRESS + 1);
    CHECK_FLOWS(&s, "bytes=20\n");
    session_close(&s);
}

static void falls_back_to_the_default_sampling_rate(void) {
    session s;
    byte_buffer d;
    memset(&s, 0, sizeof s);
    const char *column =
        "1 rate uint : netflow5:sampling_interval derived:sampling_rate meta:default_sampling_rate";
    CHECK_STATUS(session_try(&s, column, 65536, (fb_decoder_options){.default_sampling_rate = 50}),
                 FB_OK);
    for (unsigned rate = 0; rate < 2; rate++) {
        netflow5_begin(&d, 1, (netflow5_header){.sampling = 100 * rate});
        put_netflow5(&d, (netflow5_record){.bytes = 20});
        session_feed(&s, &d);
    }
    CHECK_FLOWS(&s, "rate=50\nrate=100\n");
    session_close(&s);
}

static void counts_label_sections_of_other_sizes(void) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({70, 3}, {71, 4}, {72, 3}));
    set_end(&d, set);
    set = set_begin(&d, 256);
    put24(&d, 100 << 4), put32(&d, 150 << 12), put24(&d, 200 << 4 | 1);
    set_end(&d, set), ipfix_end(&d);
    CHECK_DECODED("1 labels uint repeated : derived:mpls_labels\n", &d, "labels=[100,200]\n",
                  "bad_field_size=1");
}

RUN_TESTS(TEST(decodes_every_sample_datagram), TEST(detects_protocols_by_their_first_bytes),
          TEST(decodes_the_records_of_truncated_netflow5), TEST(counts_truncated_headers),
          TEST(decodes_the_sets_of_truncated_messages), TEST(counts_invalid_sets),
          TEST(skips_padding), TEST(counts_zero_bytes_after_the_last_set_as_padding),
          TEST(counts_the_remainder_of_a_set_once),
          TEST(decodes_pending_sets_when_their_template_arrives), TEST(counts_invalid_templates),
          TEST(uses_a_withdrawn_template_until_the_next_definition),
          TEST(ends_a_set_at_a_truncated_record),
          TEST(reads_fields_of_variable_length_in_netflow_v9),
          TEST(converts_values_to_the_type_of_their_column),
          TEST(reports_other_payloads_as_faults_if_flows_are_expected),
          TEST(creates_no_exporter_for_other_payloads), TEST(decodes_a_batch_like_single_datagrams),
          TEST(keeps_the_first_fault), TEST(counts_evicted_exporters),
          TEST(falls_back_to_the_default_sampling_rate), TEST(counts_label_sections_of_other_sizes))
