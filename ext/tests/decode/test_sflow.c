/* sFlow datagrams: headers, samples, records and agents. */
#include "tests/support/session.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const few = "1 bytes uint limit=4294967295 : ipfix:1 packet:ip.length\n"
                               "2 port uint limit=65535 : ipfix:7 packet:transport.src_port\n";

static void counts_invalid_sflow_headers(void) {
    byte_buffer d;
    sflow_begin(&d, 0, (sflow_header){.agent = 1});
    CHECK_DECODED(few, &d, "", "");
    patch32(&d, 4, 3);
    CHECK_DECODED(few, &d, "", "bad_header=1");
    for (size_t size = 4; size < 28; size++) {
        sflow_begin(&d, 0, (sflow_header){.agent = 1});
        d.size = size;
        CHECK_DECODED(few, &d, "", "truncated_header=1");
    }
}

static void put_flow_sample(byte_buffer *d, uint32_t protocol, unsigned first_byte) {
    size_t sample = flow_sample_begin(d, 1, (flow_sample){0});
    size_t record = header_begin(d, protocol, 100);
    put_ipv4(d, (ipv4_header){.length = 60, .proto = 17, .src = 1});
    put16(d, 1000), put16(d, 53);
    d->data[record + 16] = (uint8_t)first_byte;
    header_end(d, record);
    sample_end(d, sample);
}

static void counts_unread_sflow_parts(void) {
    byte_buffer d;
    sflow_begin(&d, 9, (sflow_header){.agent = 1});
    static const uint32_t formats[] = {2, 4, 5, 77, 1 << 12 | 1};
    for (size_t i = 0; i < COUNT(formats); i++) sample_end(&d, sample_begin(&d, formats[i]));
    put_flow_sample(&d, 11, 0x45);
    put_flow_sample(&d, 11, 0x55); /* invalid IP version */
    put_flow_sample(&d, 2, 0x45);  /* a token bus */
    size_t sample = flow_sample_begin(&d, 1, (flow_sample){0});
    record_end(&d, record_begin(&d, 9999));
    sample_end(&d, sample);
    CHECK_DECODED(few, &d, "bytes=60 port=1000\n\n\n\n",
                  "unknown_sample=2 counter_sample=2 drop_sample=1 unknown_sample_record=1 "
                  "unknown_header=1 bad_packet=1");
}

static void decodes_the_samples_around_a_damaged_one(void) {
    byte_buffer d;
    sflow_begin(&d, 3, (sflow_header){.agent = 1});
    put_flow_sample(&d, 11, 0x45);
    CHECK_DECODED(few, &d, "bytes=60 port=1000\n", "bad_sample=1"); /* two are missing */
    size_t sample = flow_sample_begin(&d, 2, (flow_sample){0});
    put32(&d, 1), put32(&d, 100);
    sample_end(&d, sample);
    put_flow_sample(&d, 11, 0x45);
    CHECK_DECODED(few, &d, "bytes=60 port=1000\n\nbytes=60 port=1000\n", "bad_sample_record=1");
    sflow_begin(&d, 3, (sflow_header){.agent = 1});
    put_flow_sample(&d, 11, 0x45);
    sample_end(&d, sample_begin(&d, 3)); /* without its fixed part */
    put_flow_sample(&d, 11, 0x45);
    CHECK_DECODED(few, &d, "bytes=60 port=1000\nbytes=60 port=1000\n", "bad_sample=1");
}

static void identifies_exporters_by_agent_address(void) {
    byte_buffer d;
    session s;
    const char *columns = "1 agent ip : meta:exporter_address\n2 from ip : meta:source_address\n"
                          "3 sub uint : sflow:datagram.sub_agent_id";
    session_open(&s, columns, 65536);
    sflow_begin(&d, 1, (sflow_header){.agent = 0x0a000001, .sub_agent = 3});
    put_flow_sample(&d, 11, 0x45);
    session_feed(&s, &d);
    patch32(&d, 8, 0); /* an agent with an unknown address */
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "agent=10.0.0.1 from=192.0.2.1 sub=3\nagent=192.0.2.1 from=192.0.2.1 sub=3\n");
    CHECK_EQUAL(s.decoder->exporters.count, 2);
    session_close(&s);
}

static void omits_unknown_vlans_and_interfaces(void) {
    static const uint32_t ids[] = {1, 4094, 4095, 0xffffffff};
    byte_buffer d;
    sflow_begin(&d, 8, (sflow_header){.agent = 1});
    for (size_t i = 0; i < COUNT(ids); i++) {
        /* eight outputs */
        size_t sample = flow_sample_begin(&d, 1, (flow_sample){.input = 7, .output = 2u << 30 | 8});
        put_switch_record(&d, ids[i], ids[i]);
        sample_end(&d, sample);
        /* to the exporter itself */
        sample = expanded_sample_begin(&d, 0, (flow_sample){.input = 0x3fffffff, .output = 9});
        sample_end(&d, sample);
    }
    CHECK_DECODED(
        "1 src uint : sflow:extended_switch.src_vlan\n2 dst uint : sflow:extended_switch.dst_vlan\n"
        "3 in uint : sflow:flow_sample.input\n4 out uint : sflow:flow_sample.output",
        &d, "src=1 dst=1 in=7\nout=9\nsrc=4094 dst=4094 in=7\nout=9\nin=7\nout=9\nin=7\nout=9\n",
        "");
}

RUN_TESTS(TEST(counts_invalid_sflow_headers), TEST(counts_unread_sflow_parts),
          TEST(decodes_the_samples_around_a_damaged_one),
          TEST(identifies_exporters_by_agent_address), TEST(omits_unknown_vlans_and_interfaces))
