/* Records of sFlow samples that are read by a table. */
#include "tests/support/session.h"

static const char *const user_columns = "1 rate uint : sflow:flow_sample.sampling_rate\n"
                                        "2 src string : sflow:extended_user.src_user\n"
                                        "3 dst string : sflow:extended_user.dst_user\n"
                                        "4 set uint explicit : sflow:extended_user.src_charset\n"
                                        "5 nat ip : sflow:extended_nat.src_address\n"
                                        "6 stack uint repeated : sflow:extended_mpls.in_stack\n"
                                        "7 status int : sflow:http_request.status\n"
                                        "8 mac uint : sflow:extended_l2_tunnel_ingress.dst_mac\n"
                                        "9 symbol bytes : sflow:extended_function.symbol\n";

static void put_opaque(byte_buffer *d, const char *data, uint32_t size) {
    put32(d, size);
    put_bytes(d, data, size);
    put_repeated(d, 0, -size % 4);
}

static void put_user(byte_buffer *d) {
    size_t record = record_begin(d, 1004);
    put32(d, 0), put_opaque(d, "alice", 5);
    put32(d, 106), put_opaque(d, "bob", 3);
    record_end(d, record);
}

static void put_http(byte_buffer *d, uint32_t status) {
    size_t record = record_begin(d, 2206);
    put32(d, 2), put32(d, 1001);
    for (unsigned i = 0; i < 7; i++) put_opaque(d, "abcdefg", i);
    put64(d, 1), put64(d, 2), put32(d, 3), put32(d, status);
    record_end(d, record);
}

static void put_records(byte_buffer *d) {
    put_http(d, 0xfffffffe);
    size_t record = record_begin(d, 1006);
    put32(d, 0);
    put32(d, 2), put32(d, 0x10064), put32(d, 0x20064);
    put32(d, 0);
    record_end(d, record);
    put_user(d);
    record = record_begin(d, 1022);
    put32(d, 64), put48(d, 1), put16(d, 0), put48(d, 2), put16(d, 0), put32(d, 0x0800);
    record_end(d, record);
    record = record_begin(d, 1007);
    put32(d, 1), put32(d, 0xc0000207), put32(d, 0);
    record_end(d, record);
    record = record_begin(d, 1038);
    put_opaque(d, "drop", 4);
    record_end(d, record);
}

static void reads_fields_of_each_kind(void) {
    byte_buffer d;
    sflow_begin(&d, 2, (sflow_header){.agent = 1});
    for (unsigned expanded = 0; expanded < 2; expanded++) {
        flow_sample s = {.rate = 7};
        size_t sample = expanded ? expanded_sample_begin(&d, 6, s) : flow_sample_begin(&d, 6, s);
        put_records(&d);
        sample_end(&d, sample);
    }
    const char *flow = "rate=7 src=\"alice\" dst=\"bob\" set=0 nat=192.0.2.7 stack=[65636,131172] "
                       "status=-2 mac=2 symbol=x64726f70\n";
    char flows[512];
    snprintf(flows, sizeof flows, "%s%s", flow, flow);
    CHECK_DECODED(user_columns, &d, flows, "");
}

/* Cut the last record at every byte. Only the padding at the end may be missing. */
static void counts_records_that_are_cut_short(void) {
    for (size_t cut = 1; cut < 32; cut++) {
        byte_buffer d;
        sflow_begin(&d, 1, (sflow_header){.agent = 1});
        size_t sample = flow_sample_begin(&d, 1, (flow_sample){.rate = 7}), record = d.size;
        put_user(&d);
        d.size -= cut;
        if (d.size < record + 8) break;
        patch32(&d, record + 4, (uint32_t)(d.size - record - 8));
        sample_end(&d, sample);
        bool whole = cut == 1; /* the padding */
        CHECK_DECODED(user_columns, &d,
                      whole ? "rate=7 src=\"alice\" dst=\"bob\" set=0\n" : "rate=7\n",
                      whole ? "" : "bad_sample_record=1");
    }
}

static void counts_lengths_beyond_the_record(void) {
    static const uint32_t lengths[] = {4,          0x3fffffff, 0x40000001,
                                       0x7fffffff, 0xfffffffd, 0xffffffff};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        byte_buffer d;
        sflow_begin(&d, 1, (sflow_header){.agent = 1});
        size_t sample = flow_sample_begin(&d, 3, (flow_sample){.rate = 7});
        size_t record = record_begin(&d, 1004);
        put32(&d, 0), put32(&d, lengths[i]), put8(&d, 'x');
        record_end(&d, record);
        record = record_begin(&d, 1006);
        put32(&d, 0), put32(&d, lengths[i]), put32(&d, 1);
        record_end(&d, record);
        record = record_begin(&d, 1007);
        put32(&d, lengths[i]), put64(&d, 1);
        record_end(&d, record);
        sample_end(&d, sample);
        CHECK_DECODED(user_columns, &d, "rate=7\n", "bad_sample_record=3");
    }
}

static void reads_samples_with_and_without_columns_for_their_records(void) {
    for (unsigned wanted = 0; wanted < 2; wanted++) {
        byte_buffer d;
        session s;
        session_open(&s, wanted ? user_columns : "1 rate uint : sflow:flow_sample.sampling_rate\n",
                     1 << 16);
        for (unsigned i = 0; i < 4; i++) {
            sflow_begin(&d, 1, (sflow_header){.agent = 1});
            size_t sample = flow_sample_begin(&d, 2, (flow_sample){.rate = 7});
            size_t record = header_begin(&d, 1, 100);
            put_ethernet(&d, 1, 2, 0x0800);
            put_ipv4(&d, (ipv4_header){.length = 60, .proto = 17, .src = 1});
            put16(&d, 1000), put16(&d, 53), put32(&d, 0);
            header_end(&d, record);
            put_user(&d);
            sample_end(&d, sample);
            session_feed(&s, &d);
        }
#define FOUR_TIMES(line) line line line line
        CHECK_FLOWS(&s, wanted ? FOUR_TIMES("rate=7 src=\"alice\" dst=\"bob\" set=0\n")
                               : FOUR_TIMES("rate=7\n"));
        CHECK_COUNTERS(&s, "");
        session_close(&s);
    }
}

RUN_TESTS(TEST(reads_fields_of_each_kind), TEST(counts_records_that_are_cut_short),
          TEST(counts_lengths_beyond_the_record),
          TEST(reads_samples_with_and_without_columns_for_their_records))
