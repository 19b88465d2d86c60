/* The owner of a template: an address, a version, a domain, and a port if ports define an id
   differently. */
#include "tests/support/session.h"
#include "tests/support/time_limit.h"

static const char *const columns =
    "1 bytes uint : ipfix:1\n2 packets uint : ipfix:2\n3 rate uint : derived:sampling_rate\n";

static void feed_from(session *s, const byte_buffer *d, unsigned port, uint64_t seconds) {
    uint8_t *copy = fb_guarded_copy(d->data, d->size);
    fb_datagram datagram = datagram_of(copy, d->size, SOURCE_ADDRESS);
    datagram.source_port = (uint16_t)port;
    datagram.time = seconds * 1000000000u;
    session_feed_batch(s, &datagram, 1);
    fb_guarded_free(copy, d->size);
}

/* Define template `id` from a port, with one field of 4 bytes. */
static void define(session *s, unsigned port, unsigned id, unsigned element) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, id, FIELDS({element, 4}));
    set_end(&d, set), ipfix_end(&d);
    feed_from(s, &d, port, 1);
}

static void send(session *s, unsigned port, unsigned id, uint32_t value) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, id);
    put32(&d, value);
    set_end(&d, set), ipfix_end(&d);
    feed_from(s, &d, port, 1);
}

/* Send options with the rate of a sampler. */
static void send_sampling_rate(session *s, unsigned port, uint32_t sampler, uint32_t rate) {
    byte_buffer d;
    ipfix_begin(&d, (ipfix_header){0});
    put_sampling_rate(&d, sampler, rate);
    ipfix_end(&d);
    feed_from(s, &d, port, 1);
}

static void splits_a_domain_if_ports_redefine_an_id(void) {
    session s;
    session_open(&s, columns, 4096);
    send_sampling_rate(&s, 1, 9, 50);
    define(&s, 1, 256, 1), define(&s, 2, 256, 2); /* 256 is contested, 257 is not */
    define(&s, 2, 257, 2);
    send(&s, 1, 258, 13), send(&s, 2, 258, 14); /* these wait */
    CHECK_COUNTERS(&s, "early_data=2 template_redefined=1");
    define(&s, 1, 256, 1);
    CHECK_COUNTERS(&s, "early_data=2 template_redefined=1 port_in_key=1");
    /* each with its own template, known before or after */
    send(&s, 1, 256, 10), send(&s, 2, 256, 20);
    send(&s, 1, 257, 11), send(&s, 2, 257, 21); /* with the common template */
    CHECK_FLOWS(&s,
                "bytes=10 rate=50\npackets=20 rate=50\npackets=11 rate=50\npackets=21 rate=50\n");
    session_forget(&s);
    define(&s, 2, 258, 1), define(&s, 1, 258, 2);
    CHECK_FLOWS(&s, "bytes=14 rate=50\npackets=13 rate=50\n");
    session_forget(&s);
    send_sampling_rate(&s, 2, 9, 70); /* later options of a port apply to that port only */
    send(&s, 1, 257, 1), send(&s, 2, 257, 2), send(&s, 3, 257, 3);
    send(&s, 3, 256, 4); /* from a port without a template */
    CHECK_FLOWS(&s, "packets=1 rate=50\npackets=2 rate=70\npackets=3 rate=50\n");
    CHECK_COUNTERS(&s, "early_data=3 template_redefined=1 port_in_key=1");
    session_close(&s);
}

/* At most five ports alternate. */
static void splits_a_domain_of_several_ports(void) {
    for (unsigned ports = 2; ports <= 1 + FB_MAX_REPLACED; ports++) {
        session s;
        session_open(&s, columns, 4096);
        for (unsigned i = 0; i <= ports; i++) {
            CHECK_EQUAL(session_count(&s, FB_PORT_IN_KEY), 0);
            byte_buffer d;
            ipfix_begin(&d, (ipfix_header){0});
            size_t set = set_begin(&d, 2);
            put_template(&d, 256, FIELDS({1, 4}, {500 + i % ports, 4}));
            set_end(&d, set), ipfix_end(&d);
            feed_from(&s, &d, 1000 + i % ports, 1);
        }
        CHECK_EQUAL(session_count(&s, FB_PORT_IN_KEY), 1);
        CHECK_EQUAL(session_count(&s, FB_TEMPLATE_REDEFINED), ports - 1);
        session_close(&s);
    }
}

static void keeps_one_domain_for_ports_that_agree(void) {
    session s;
    session_open(&s, columns, 4096);
    for (unsigned i = 0; i < 100; i++) {
        unsigned element = 1 + i / 50; /* reconfigured once */
        define(&s, i * 7919 % 13, 256, element);
        send(&s, i * 104729 % 17, 256, 5);
        CHECK_FLOWS(&s, element == 1 ? "bytes=5\n" : "packets=5\n");
        session_forget(&s);
    }
    CHECK_COUNTERS(&s, "template_redefined=1");
    CHECK_EQUAL(s.decoder->exporters.last->domains.count, 1);
    session_close(&s);
}

/* Ports beyond the limit share the common domain. */
static void bounds_the_domains_of_ports(void) {
    session s;
    byte_buffer d;
    session_open(&s, columns, 1 << 22);
    define(&s, 1, 256, 1), define(&s, 2, 256, 2), define(&s, 1, 256, 1);
    define(&s, 2, 257, 1);
    CHECK_EQUAL(session_count(&s, FB_PORT_IN_KEY), 1);
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 257);
    put32(&d, 1);
    set_end(&d, set);
    set = set_begin(&d, 999);
    set_end(&d, set), ipfix_end(&d);
    double start = seconds_of_cpu();
    for (unsigned port = 3; port < 30000; port++) feed_from(&s, &d, port, 1);
    check_seconds(seconds_of_cpu() - start, 20, "29,997 ports");
    CHECK_EQUAL(s.decoder->exporters.last->domains.count, FB_MAX_DOMAINS);
    CHECK(s.decoder->exporters.last->memory.used < 1 << 20);
    session_forget(&s);
    send(&s, 1, 256, 10), send(&s, 2, 256, 20), send(&s, 29999, 256, 30);
    CHECK_FLOWS(&s, "bytes=10\npackets=20\npackets=30\n");
    define(&s, 29999, 300, 1);
    session_forget(&s);
    send(&s, 29998, 300, 40);
    CHECK_FLOWS(&s, "bytes=40\n");
    session_close(&s);
}

/* A port without room shares the common domain for the rest of its datagram. This holds even if its
   first set frees room by removing templates, and if decoding is resumed after that set. */
static void feed_while_room_is_freed(session *s, size_t exporter_memory, size_t capacity) {
    byte_buffer d;
    memset(s, 0, sizeof *s);
    CHECK_STATUS(
        session_try(s, columns, capacity, (fb_decoder_options){.exporter_memory = exporter_memory}),
        FB_OK);
    for (unsigned id = 257; id < 262; id++) define(s, 1, id, 1);
    define(s, 1, 256, 1), define(s, 2, 256, 2), define(s, 1, 256, 1);
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    for (unsigned id = 258; id < 262; id++) put_template(&d, id, FIELDS({1, 0}));
    set_end(&d, set);
    set = set_begin(&d, 257);
    put32(&d, 1), put32(&d, 2);
    set_end(&d, set);
    set = set_begin(&d, 2);
    put_template(&d, 300, FIELDS({1, 4}));
    set_end(&d, set), ipfix_end(&d);
    feed_from(s, &d, 3, 1);
    send(s, 4, 300, 3);
}

static void chooses_the_domain_once_per_datagram(void) {
    unsigned shared = 0;
    for (size_t memory = 1000; memory < 12000; memory += 16) {
        session whole, pieces;
        text expected = {0};
        feed_while_room_is_freed(&whole, memory, 4096);
        feed_while_room_is_freed(&pieces, memory, 0);
        put_counters_text(&expected, whole.decoder);
        CHECK_FLOWS(&pieces, session_text(&whole));
        CHECK_COUNTERS(&pieces, text_of(&expected));
        shared += session_count(&whole, FB_PORT_IN_KEY) && !session_count(&whole, FB_EARLY_DATA);
        text_free(&expected);
        session_close(&whole);
        session_close(&pieces);
    }
    CHECK(shared > 0);
}

/* Each split walks over the waiting sets of its exporter, so thousands of splits must be
   prevented. */
static void bounds_work_for_many_splits(void) {
    session s;
    byte_buffer d;
    session_open(&s, columns, 4096);
    ipfix_begin(&d, (ipfix_header){.domain = 5000});
    while (d.size < 65000) {
        size_t set = set_begin(&d, 256 + d.size % 64);
        put8(&d, 1);
        set_end(&d, set);
    }
    ipfix_end(&d);
    for (unsigned i = 0; i < 3; i++) feed_from(&s, &d, i, 1);
    double start = seconds_of_cpu();
    for (uint32_t domain = 0; domain < 300; domain++)
        for (unsigned i = 0; i < 3; i++) {
            ipfix_begin(&d, (ipfix_header){.domain = domain});
            size_t set = set_begin(&d, 2);
            put_template(&d, 256, FIELDS({1 + i % 2, 4}));
            set_end(&d, set), ipfix_end(&d);
            feed_from(&s, &d, i % 2, 1);
        }
    check_seconds(seconds_of_cpu() - start, 20, "300 splits");
    CHECK_EQUAL(session_count(&s, FB_PORT_IN_KEY), 300);
    session_close(&s);
}

/* Age ---------------------------------------------------------------------------------------- */

static void ignores_expired_templates(void) {
    session s;
    byte_buffer template, data;
    memset(&s, 0, sizeof s);
    CHECK_STATUS(
        session_try(&s, columns, 4096, (fb_decoder_options){.template_expiry = 10000000000}),
        FB_OK);
    ipfix_begin(&template, (ipfix_header){0});
    size_t set = set_begin(&template, 2);
    put_template(&template, 256, FIELDS({1, 4}));
    set_end(&template, set), ipfix_end(&template);
    ipfix_begin(&data, (ipfix_header){0});
    set = set_begin(&data, 256);
    put32(&data, 1);
    set_end(&data, set), ipfix_end(&data);
    feed_from(&s, &template, 1, 100);
    feed_from(&s, &data, 1, 110);
    feed_from(&s, &data, 1, 50); /* the clock goes back */
    feed_from(&s, &data, 1, 0);  /* the time is unknown */
    CHECK_FLOWS(&s, "bytes=1\nbytes=1\nbytes=1\n");
    session_forget(&s);
    feed_from(&s, &template, 1, 105); /* refreshed */
    feed_from(&s, &data, 1, 115);
    feed_from(&s, &data, 1, 116);
    feed_from(&s, &data, 1, 117);
    CHECK_FLOWS(&s, "bytes=1\n");
    CHECK_COUNTERS(&s, "early_data=2 template_expired=1");
    feed_from(&s, &template, 1, 0);
    feed_from(&s, &data, 1, 1000000); /* the age of the template is unknown */
    CHECK_FLOWS(&s, "bytes=1\nbytes=1\nbytes=1\nbytes=1\n");
    CHECK_COUNTERS(&s, "early_data=2 template_expired=1");
    session_close(&s);
}

static void withdraws_templates_on_request(void) {
    for (int obey = 0; obey < 2; obey++) {
        session s;
        byte_buffer d;
        memset(&s, 0, sizeof s);
        CHECK_STATUS(session_try(&s, columns, 4096, (fb_decoder_options){.obey_withdrawals = obey}),
                     FB_OK);
        define(&s, 1, 256, 1), define(&s, 1, 257, 1);
        send_sampling_rate(&s, 1, 1, 10);
        ipfix_begin(&d, (ipfix_header){0});
        size_t set = set_begin(&d, 2);
        /* 300 is an options template, which this kind of set cannot withdraw */
        put_template(&d, 256, NULL, 0), put_template(&d, 300, NULL, 0);
        set_end(&d, set), ipfix_end(&d);
        feed_from(&s, &d, 1, 1);
        send(&s, 1, 256, 1), send(&s, 1, 257, 2);
        CHECK_FLOWS(&s, obey ? "bytes=2 rate=10\n" : "bytes=1 rate=10\nbytes=2 rate=10\n");
        fb_domain *domain = fb_exporter_find_domain(s.decoder->exporters.last, 10, 0);
        CHECK_EQUAL(domain->known, obey ? 2 : 3);
        for (unsigned kind = 2; kind <= 3; kind++) {
            ipfix_begin(&d, (ipfix_header){0});
            set = set_begin(&d, kind);
            put_template(&d, kind, NULL, 0);
            set_end(&d, set), ipfix_end(&d);
            feed_from(&s, &d, 1, 1);
            unsigned left = kind == 2 ? 1 : 0;
            CHECK_EQUAL(domain->known, obey ? left : 3);
        }
        CHECK_EQUAL(session_count(&s, FB_WITHDRAWAL), 4);
        session_close(&s);
    }
}

/* A port that withdraws all templates withdraws its own and, for itself only, the common ones. */
static void withdraws_templates_of_one_port_only(void) {
    session s;
    byte_buffer d;
    memset(&s, 0, sizeof s);
    CHECK_STATUS(session_try(&s, columns, 4096, (fb_decoder_options){.obey_withdrawals = true}),
                 FB_OK);
    send_sampling_rate(&s, 1, 9, 50);
    define(&s, 1, 256, 1), define(&s, 2, 256, 2), define(&s, 2, 257, 2);
    define(&s, 1, 256, 1); /* the domain is split */
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, 2, NULL, 0);
    put_template(&d, 258, FIELDS({1, 4}));
    set_end(&d, set), ipfix_end(&d);
    feed_from(&s, &d, 1, 1);
    send(&s, 1, 256, 1), send(&s, 1, 257, 2); /* these wait */
    send(&s, 1, 258, 3), send(&s, 2, 256, 4), send(&s, 2, 257, 5);
    CHECK_FLOWS(&s, "bytes=3 rate=50\npackets=4 rate=50\npackets=5 rate=50\n");
    session_forget(&s);
    define(&s, 1, 257, 1), define(&s, 1, 256, 1);
    CHECK_FLOWS(&s, "bytes=2 rate=50\nbytes=1 rate=50\n");
    CHECK_COUNTERS(&s, "withdrawal=1 early_data=2 template_redefined=1 port_in_key=1");
    session_close(&s);
}

/* A withdrawal of all templates visits only those defined since the previous one. */
static void bounds_work_for_withdrawals(void) {
    session s;
    byte_buffer d;
    memset(&s, 0, sizeof s);
    CHECK_STATUS(session_try(&s, columns, 4096, (fb_decoder_options){.obey_withdrawals = true}),
                 FB_OK);
    send_sampling_rate(&s, 1, 1, 10);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned id = 256; id < 259; id++) define(&s, 1, id, 1), define(&s, 1, id, 2);
        fb_domain *domain = fb_exporter_find_domain(s.decoder->exporters.last, 10, 0);
        CHECK_EQUAL(domain->defined[0].count, 3);
        CHECK_EQUAL(domain->defined[1].count, 1);
        ipfix_begin(&d, (ipfix_header){0});
        size_t set = set_begin(&d, 2);
        put_template(&d, 2, NULL, 0);
        set_end(&d, set), ipfix_end(&d);
        feed_from(&s, &d, 1, 1);
        CHECK_EQUAL(domain->defined[0].count, 0);
        CHECK_EQUAL(domain->defined[1].count, 1);
        CHECK_EQUAL(domain->known, 1);
    }
    session_close(&s);
}

RUN_TESTS(TEST(splits_a_domain_if_ports_redefine_an_id), TEST(splits_a_domain_of_several_ports),
          TEST(keeps_one_domain_for_ports_that_agree), TEST(bounds_the_domains_of_ports),
          TEST(chooses_the_domain_once_per_datagram), TEST(bounds_work_for_many_splits),
          TEST(ignores_expired_templates), TEST(withdraws_templates_on_request),
          TEST(withdraws_templates_of_one_port_only), TEST(bounds_work_for_withdrawals))
