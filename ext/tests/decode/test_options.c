/* Options data: rows of options records, names that flows take from them, and the elements that no
   column takes. The values are those of the datagrams that are built here. */
#include "tests/support/session.h"

static void put_text(byte_buffer *d, const char *text, size_t size) {
    put_bytes(d, text, strlen(text));
    put_repeated(d, 0, size - strlen(text));
}

static void put_word_text(byte_buffer *d, uint32_t id, const char *text) {
    put32(d, id), put_variable(d, text, strlen(text), 0);
}

/* Options templates of all kinds of names. Template 262 has an element that no schema knows. */
static void put_options_templates(byte_buffer *d) {
    size_t set = set_begin(d, 3);
    put_options_template(d, 256, 1, FIELDS({10, 4}, {82, 16}, {83, VARIABLE}));
    put_options_template(d, 257, 1, FIELDS({234, 4}, {236, VARIABLE}));
    put_options_template(d, 258, 1, FIELDS({95, 4}, {96, 8}, {372, 8}));
    put_options_template(d, 259, 1, FIELDS({302, 4}, {335, VARIABLE}));
    put_options_template(d, 260, 1, FIELDS({8, 4}, {371, VARIABLE}));
    put_options_template(d, 261, 1, FIELDS({138, 8}, {82, VARIABLE}));
    put_options_template(d, 262, 2,
                         FIELDS({144, 4}, {346, 4}, {1, 2, 4711}, {210, 2}, {2, 0, 4711}));
    set_end(d, set);
}

static void put_flow_template(byte_buffer *d) {
    size_t set = set_begin(d, 2);
    put_template(d, 300,
                 FIELDS({1, 4}, {10, 4}, {14, 2}, {234, 4}, {235, 4}, {95, 5}, {302, 8}, {8, 4},
                        {138, 4}, {5, 1}, {99, VARIABLE, 4711}));
    set_end(d, set);
}

static void put_interface(byte_buffer *d, uint32_t index, const char *name, const char *text) {
    size_t set = set_begin(d, 256);
    put32(d, index), put_text(d, name, 16), put_variable(d, text, strlen(text), 1);
    set_end(d, set);
}

static void put_all_names(byte_buffer *d) {
    put_interface(d, 335, "xe-0/0/1", "to Paris");
    put_interface(d, 4, "lo0", "");
    size_t set = set_begin(d, 257);
    put_word_text(d, 7, "blue"), put_word_text(d, 0, "default");
    set_end(d, set);
    set = set_begin(d, 258);
    put8(d, 13), put24(d, 49), put_text(d, "skype", 8), put_text(d, "voip", 8);
    set_end(d, set);
    set = set_begin(d, 259);
    put_word_text(d, 3, "one in 100");
    set_end(d, set);
    set = set_begin(d, 260);
    put_word_text(d, 0xc0000207, "alice");
    set_end(d, set);
    set = set_begin(d, 261);
    put64(d, 9), put_variable(d, "tap", 3, 0);
    set_end(d, set);
    set = set_begin(d, 262);
    put32(d, 1), put32(d, 0), put16(d, 0xabcd), put16(d, 0);
    set_end(d, set);
}

static void put_flow(byte_buffer *d, uint32_t bytes, uint32_t in) {
    size_t set = set_begin(d, 300);
    put32(d, bytes), put32(d, in), put16(d, 4), put32(d, 7), put32(d, 0);
    put8(d, 13), put32(d, 49), put64(d, 3), put32(d, 0xc0000207), put32(d, 9), put8(d, 184);
    put_variable(d, "zz", 2, 0);
    set_end(d, set);
}

/* Templates, names and a flow. */
static void build(byte_buffer *d) {
    ipfix_begin(d, (ipfix_header){.seconds = 1000, .domain = 6});
    put_options_templates(d), put_flow_template(d), put_all_names(d), put_flow(d, 100, 335);
    ipfix_end(d);
}

#define HEAD "received=1000500 exporter=192.0.2.1 type=4 domain=6 "

static void writes_a_row_for_each_record(void) {
    byte_buffer d;
    build(&d);
    CHECK_DECODED(options_columns, &d,
                  HEAD "scope=[10] interface=335 name=\"xe-0/0/1\" description=\"to Paris\"\n" HEAD
                       "scope=[10] interface=4 name=\"lo0\"\n" HEAD
                       "scope=[234] vrf=7 vrf_name=\"blue\"\n" HEAD
                       "scope=[234] vrf=0 vrf_name=\"default\"\n" HEAD
                       "scope=[95] app=x0d000031 app_name=\"skype\" others=[372] "
                       "values=[x766f697000000000]\n" HEAD
                       "scope=[302] sampler=3 others=[335] values=[x6f6e6520696e20313030]\n" HEAD
                       "scope=[8] others=[8,371] values=[xc0000207,x616c696365]\n" HEAD
                       "scope=[138] name=\"tap\" others=[138] values=[x0000000000000009]\n" HEAD
                       "scope=[144,346] others=[144,346,308740097] "
                       "values=[x00000001,x00000000,xabcd]\n",
                  "flows_left_out=1");
}

/* The scope of NetFlow v9 has types of its own (RFC 3954 section 6.1): 4 is a cache, not a
   protocol, and 1 a system, not a number of bytes. */
static void reads_scopes_of_netflow9(void) {
    byte_buffer d;
    netflow9_begin(&d, (netflow9_header){.seconds = 1000, .source_id = 5});
    size_t set = set_begin(&d, 1);
    put_options_template9(&d, 256, 1, FIELDS({2, 4}, {82, 8}));
    put_options_template9(&d, 257, 3, FIELDS({1, 4}, {3, 2}, {4, 1}, {34, 4}, {48, 1}));
    put_options_template9(&d, 258, 1, FIELDS({5, 2}, {999, 2}));
    set_end(&d, set);
    set = set_begin(&d, 256);
    put32(&d, 0), put_text(&d, "Null0", 8);
    set_end(&d, set);
    set = set_begin(&d, 257);
    put32(&d, 0xc0000201), put16(&d, 2), put8(&d, 0), put32(&d, 64), put8(&d, 1);
    set_end(&d, set);
    set = set_begin(&d, 258);
    put16(&d, 300), put16(&d, 1);
    set_end(&d, set);
    CHECK_DECODED(options_columns, &d,
                  "received=1000500 exporter=192.0.2.1 type=3 domain=5 scope=[2] scope_interface=0 "
                  "name=\"Null0\"\n"
                  "received=1000500 exporter=192.0.2.1 type=3 domain=5 scope=[1,3,4] "
                  "system=xc0000201 card=2 cache=0 sampler=1 interval=64\n"
                  "received=1000500 exporter=192.0.2.1 type=3 domain=5 scope=[5] template=300 "
                  "others=[999] values=[x0001]\n",
                  "");
}

#define FLOW "in=335 out=4 in_name=\"xe-0/0/1\" out_name=\"lo0\" in_text=\"to Paris\" "
#define REST \
    "in_vrf=\"blue\" out_vrf=\"default\" app=\"skype\" category=\"voip\" sampler=\"one in 100\" " \
    "user=\"alice\" point=\"tap\" others=[234,235,95,302,8,138,5,308740195] " \
    "values=[x00000007,x00000000,x0d00000031,x0000000000000003,xc0000207,x00000009,xb8,x7a7a]\n"

static void gives_names_to_flows(void) {
    byte_buffer d;
    build(&d);
    CHECK_DECODED(name_columns, &d, "bytes=100 " FLOW REST, "options_ignored=1");
}

/* Names apply to the flows after them, until they are defined again. */
static void applies_the_latest_definition(void) {
    byte_buffer d;
    session s;
    session_open(&s, "1 bytes uint : ipfix:1\n2 name string : derived:in_if_name\n", 1 << 16);
    ipfix_begin(&d, (ipfix_header){.seconds = 1000, .domain = 6});
    put_options_templates(&d), put_flow_template(&d), put_flow(&d, 1, 335);
    put_interface(&d, 335, "ge-0", "x"), put_flow(&d, 2, 335), put_flow(&d, 3, 336);
    put_interface(&d, 335, "ge-1", ""), put_flow(&d, 4, 335);
    put_interface(&d, 335, "", ""), put_flow(&d, 5, 335);
    ipfix_end(&d);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "bytes=1\nbytes=2 name=\"ge-0\"\nbytes=3\nbytes=4 name=\"ge-1\"\nbytes=5\n");
    /* another domain, and another exporter, have names of their own */
    session_forget(&s);
    ipfix_begin(&d, (ipfix_header){.seconds = 1000, .domain = 7});
    put_options_templates(&d), put_flow_template(&d), put_interface(&d, 335, "of 7", "");
    put_flow(&d, 6, 335);
    ipfix_end(&d);
    session_feed(&s, &d);
    ipfix_begin(&d, (ipfix_header){.seconds = 1000, .domain = 6});
    put_flow_template(&d), put_flow(&d, 7, 335);
    ipfix_end(&d);
    session_feed_bytes(&s, d.data, d.size, SOURCE_ADDRESS + 1);
    CHECK_FLOWS(&s, "bytes=6 name=\"of 7\"\nbytes=7\n");
    session_close(&s);
}

/* A template without columns for its names keeps none, and counts its records as before. */
static void keeps_no_names_that_no_column_takes(void) {
    byte_buffer d;
    session s;
    build(&d);
    session_open(&s, "1 bytes uint : ipfix:1\n", 1 << 16);
    session_feed(&s, &d);
    CHECK_FLOWS(&s, "bytes=100\n");
    CHECK_COUNTERS(&s, "options_ignored=9");
    session_close(&s);
}

/* In the reverse flow (RFC 5103), the interfaces are exchanged. The user is that of the source
   address, which is another one. */
static void exchanges_names_in_reverse_flows(void) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){.seconds = 1000, .domain = 6});
    put_options_templates(&d), put_all_names(&d);
    size_t set = set_begin(&d, 2);
    put_template(&d, 301,
                 FIELDS({1, 4}, {1, 4, 29305}, {10, 4}, {14, 4}, {234, 4}, {235, 4}, {8, 4}));
    set_end(&d, set);
    set = set_begin(&d, 301);
    put32(&d, 10), put32(&d, 20), put32(&d, 335), put32(&d, 4), put32(&d, 7), put32(&d, 0);
    put32(&d, 0xc0000207);
    set_end(&d, set);
    ipfix_end(&d);
    CHECK_DECODED(
        name_columns, &d,
        "bytes=10 in=335 out=4 in_name=\"xe-0/0/1\" out_name=\"lo0\" in_text=\"to Paris\" "
        "in_vrf=\"blue\" out_vrf=\"default\" user=\"alice\" others=[234,235,8] "
        "values=[x00000007,x00000000,xc0000207]\n"
        "bytes=20 in=4 out=335 in_name=\"lo0\" out_name=\"xe-0/0/1\" out_text=\"to Paris\" "
        "in_vrf=\"default\" out_vrf=\"blue\"\n",
        "options_ignored=1 biflow=1");
}

/* sFlow: the speed and the name of an interface come from its counter samples. The index in its
   counters takes precedence over that of the data source. */
static void put_port(byte_buffer *d, uint32_t source, uint32_t index, uint64_t speed,
                     const char *name, int expanded) {
    size_t sample = sample_begin(d, expanded ? 4 : 2), record;
    put32(d, 1);
    if (expanded) put32(d, 0);
    put32(d, source), put32(d, 2);
    record = record_begin(d, 1);
    put32(d, index), put32(d, 6), put64(d, speed), put_repeated(d, 0, 72);
    record_end(d, record);
    record = record_begin(d, 1005);
    put32(d, (uint32_t)strlen(name)), put_bytes(d, name, strlen(name));
    record_end(d, record);
    sample_end(d, sample);
}

static void build_sflow_names(byte_buffer *d) {
    const flow_sample flow = {.sequence = 1, .rate = 1, .input = 7, .output = 8};
    sflow_begin(d, 4, (sflow_header){.agent = 0xc6336401, .sequence = 1});
    put_port(d, 1, 7, 10000000000, "swp1", 0), put_port(d, 8, 0, 999999, "swp2", 1);
    size_t sample = flow_sample_begin(d, 0, flow);
    sample_end(d, sample);
    sample = expanded_sample_begin(d, 0, flow);
    sample_end(d, sample);
}

static void takes_names_from_counter_samples(void) {
    byte_buffer d;
    build_sflow_names(&d);
    CHECK_DECODED(name_columns, &d,
                  "in=7 out=8 in_name=\"swp1\" out_name=\"swp2\" in_speed=10000\n"
                  "in=7 out=8 in_name=\"swp1\" out_name=\"swp2\" in_speed=10000\n",
                  "counter_sample=2");
}

/* A new name for each record: the number of names stays bounded, and evictions are counted. */
static void bounds_the_names_of_an_exporter(void) {
    static byte_buffer d;
    session s;
    session_open(&s, name_columns, 1 << 16);
    ipfix_begin(&d, (ipfix_header){.seconds = 1000, .domain = 6});
    put_options_templates(&d);
    ipfix_end(&d);
    session_feed(&s, &d);
    for (uint32_t batch = 0; batch < 40; batch++) {
        ipfix_begin(&d, (ipfix_header){.seconds = 1000, .domain = 6});
        size_t set = set_begin(&d, 257);
        for (uint32_t i = 0; i < 500; i++) put_word_text(&d, batch * 500 + i, "some name");
        set_end(&d, set), ipfix_end(&d);
        session_feed(&s, &d);
    }
    CHECK_EQUAL(session_count(&s, FB_NAME_EVICTED), 20000 - FB_MAX_NAMES);
    CHECK_EQUAL(session_count(&s, FB_NAME_LIMIT), 0);
    session_close(&s);
}

/* Hostile input ------------------------------------------------------------------------------ */

static const char *const plans[] = {"options", "names", "rich"};

static const char *lines_of(size_t i) {
    if (i == 2) return rich_columns();
    return i ? name_columns : options_columns;
}

/* Rows and counters are the same, wherever the output is full. */
static void gives_the_same_rows_at_every_capacity(void) {
    static void (*const builders[])(byte_buffer *d) = {build, build_sflow_names};
    for (size_t b = 0; b < 2; b++)
        for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
            byte_buffer d;
            session whole;
            builders[b](&d);
            session_open(&whole, lines_of(i), 1 << 20);
            session_feed(&whole, &d);
            fb_counters expected = count_all(whole.decoder);
            for (size_t capacity = 0; capacity < fb_row_size(&whole.row) + 64; capacity++) {
                session s;
                session_open(&s, lines_of(i), capacity);
                session_feed(&s, &d);
                fb_counters seen = count_all(s.decoder);
                CHECK_BYTES(s.output, fb_row_size(&s.row), whole.output, fb_row_size(&whole.row));
                CHECK_BYTES(&seen, sizeof seen, &expected, sizeof expected);
                session_close(&s);
            }
            session_close(&whole);
        }
}

static void survives_every_prefix_and_corrupted_byte(void) {
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        byte_buffer d;
        session s;
        build(&d);
        session_open(&s, lines_of(i), 1 << 16);
        for (size_t size = 0; size < d.size; size++) {
            session_forget(&s);
            session_feed_bytes(&s, d.data, size, SOURCE_ADDRESS);
        }
        for (size_t at = 0; at < d.size; at++) {
            uint8_t was = d.data[at];
            const uint8_t others[] = {0, 0xff, (uint8_t)(was + 1), (uint8_t)(was ^ 0x80)};
            for (unsigned change = 0; change < sizeof others; change++) {
                d.data[at] = others[change];
                session_forget(&s);
                session_feed(&s, &d);
                CHECK(!strstr(session_text(&s), NOT_A_MESSAGE));
            }
            d.data[at] = was;
        }
        session_forget(&s);
        build(&d);
        session_feed(&s, &d);
        CHECK(session_text(&s)[0] != '\0');
        session_close(&s);
    }
}

static void survives_every_failed_allocation(void) {
    byte_buffer d;
    uint64_t limited = 0;
    build(&d);
    for (size_t fail_at = 1;; fail_at++) {
        session s;
        memset(&s, 0, sizeof s);
        s.allocator = (fb_check_allocator){.fail_at = fail_at};
        fb_status status = session_try(&s, name_columns, 1 << 16, (fb_decoder_options){0});
        if (status == FB_OK) session_feed(&s, &d);
        else CHECK_STATUS(status, FB_NO_MEMORY);
        bool done = s.allocator.calls < fail_at;
        if (status == FB_OK) limited += session_count(&s, FB_NAME_LIMIT);
        if (status == FB_OK) session_close(&s);
        if (done) break;
    }
    CHECK(limited > 0);
}

RUN_TESTS(TEST(writes_a_row_for_each_record), TEST(reads_scopes_of_netflow9),
          TEST(gives_names_to_flows), TEST(applies_the_latest_definition),
          TEST(keeps_no_names_that_no_column_takes), TEST(exchanges_names_in_reverse_flows),
          TEST(takes_names_from_counter_samples), TEST(bounds_the_names_of_an_exporter),
          TEST(gives_the_same_rows_at_every_capacity),
          TEST(survives_every_prefix_and_corrupted_byte), TEST(survives_every_failed_allocation))
