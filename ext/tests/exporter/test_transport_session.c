/* Transport Sessions of one address: separate state, one budget, and an end that forgets. */
#include "tests/support/session.h"

static const char *const columns =
    "1 bytes uint : ipfix:1\n2 packets uint : ipfix:2\n3 rate uint : derived:sampling_rate\n";

static void feed(session *s, uint32_t number, const byte_buffer *d) {
    s->decoder->agent = number ? FB_AGENT_SESSION | number : 0;
    session_feed(s, d);
}

/* Define template 256 in a domain, with one field of 4 bytes. */
static void define(session *s, uint32_t number, uint32_t domain, unsigned element) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){.domain = domain});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({element, 4}));
    set_end(&d, set), ipfix_end(&d);
    feed(s, number, &d);
}

static void send(session *s, uint32_t number, uint32_t domain, uint32_t value) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){.domain = domain});
    size_t set = set_begin(&d, 256);
    put32(&d, value);
    set_end(&d, set), ipfix_end(&d);
    feed(s, number, &d);
}

static void send_sampling_rate(session *s, uint32_t number, uint32_t rate) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){0});
    put_sampling_rate(&d, 9, rate);
    ipfix_end(&d);
    feed(s, number, &d);
}

static void end(session *s, uint32_t number) {
    uint8_t address[16];
    memcpy(address, datagram_of(NULL, 0, SOURCE_ADDRESS).source, 16);
    fb_exporters_end_session(&s->decoder->exporters, address, number);
}

static void keeps_the_state_of_sessions_apart(void) {
    session s;
    session_open(&s, columns, 4096);
    define(&s, 0, 0, 1), define(&s, 1, 0, 2), define(&s, 2, 0, 1);
    send_sampling_rate(&s, 1, 50), send_sampling_rate(&s, 2, 70);
    send(&s, 0, 0, 10), send(&s, 1, 0, 20), send(&s, 2, 0, 30);
    send(&s, 3, 0, 40); /* without a template */
    CHECK_FLOWS(&s, "bytes=10\npackets=20 rate=50\nbytes=30 rate=70\n");
    CHECK_COUNTERS(&s, "early_data=1");
    CHECK_EQUAL(s.decoder->exporters.count, 4);
    session_close(&s);
}

static void forgets_a_session_that_ends(void) {
    session s;
    session_open(&s, columns, 4096);
    define(&s, 1, 0, 1), define(&s, 1, 5, 1), define(&s, 2, 0, 2);
    send_sampling_rate(&s, 1, 50);
    send(&s, 1, 7, 10); /* waits */
    end(&s, 1), end(&s, 3), end(&s, 1);
    CHECK_COUNTERS(&s, "template_missing=1 early_data=1");
    send(&s, 1, 0, 20), send(&s, 1, 5, 30), send(&s, 2, 0, 40);
    CHECK_FLOWS(&s, "packets=40\n");
    define(&s, 1, 0, 2); /* the number is used again */
    CHECK_FLOWS(&s, "packets=40\npackets=20\n");
    CHECK_COUNTERS(&s, "template_missing=1 early_data=3");
    CHECK_EQUAL(s.decoder->exporters.count, 2);
    fb_counters all = count_all(s.decoder);
    CHECK_EQUAL(all.datagrams, 9);
    session_close(&s);
}

/* A port has its own domain only in restored state. It is dropped before the common one. */
static void forgets_domains_of_ports(void) {
    session s;
    session_open(&s, columns, 4096);
    define(&s, 1, 0, 1);
    fb_exporters *exporters = &s.decoder->exporters;
    fb_domain *common = fb_exporter_find_domain(exporters->last, 10, 0);
    common->split = true;
    for (uint16_t port = 1; port < 6; port++)
        CHECK(fb_domain_of_port(exporters, exporters->last, common, port) != common);
    CHECK_EQUAL(exporters->last->domains.count, 6);
    end(&s, 1);
    CHECK_EQUAL(exporters->last->domains.count, 0);
    session_close(&s);
}

/* A peer cannot get more memory with more sessions, and repeated sessions leak none. */
static void shares_one_budget(void) {
    session s;
    memset(&s, 0, sizeof s);
    const size_t budget = 1 << 16;
    CHECK_STATUS(session_try(&s, columns, 4096, (fb_decoder_options){.exporter_memory = budget}),
                 FB_OK);
    for (uint32_t number = 1; number <= 20; number++)
        for (uint32_t domain = 0; domain < 50; domain++) define(&s, number, domain, 1);
    CHECK(session_count(&s, FB_TEMPLATE_LIMIT) > 0);
    CHECK(s.decoder->exporters.last->sender->memory.used <= budget);
    for (uint32_t number = 1; number <= 20; number++) end(&s, number);
    size_t used = 0;
    for (int round = 0; round < 10; round++) {
        for (uint32_t domain = 0; domain < 50; domain++) define(&s, 1, domain, 1);
        end(&s, 1);
        CHECK_EQUAL(s.memory.used, round ? used : s.memory.used);
        used = s.memory.used;
    }
    session_close(&s);
}

RUN_TESTS(TEST(keeps_the_state_of_sessions_apart), TEST(forgets_a_session_that_ends),
          TEST(forgets_domains_of_ports), TEST(shares_one_budget))
