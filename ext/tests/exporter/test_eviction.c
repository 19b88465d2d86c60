/* A full table of exporters: the order of eviction, and complete counting of datagrams. */
#include "tests/support/check.h"

#include "tests/support/session.h"

enum { LIMIT = 100, SPOOFED = 10 * LIMIT, GENUINE = 0x0a000001, FIRST_SPOOFED = 0xc6000000 };

static const char columns[] = "1 bytes uint : ipfix:1\n";

static void open_limited(session *s, fb_decoder_options options) {
    memset(s, 0, sizeof *s);
    CHECK_STATUS(session_try(s, columns, 4096, options), FB_OK);
}

/* Build a datagram of NetFlow v9 or IPFIX. Its template has `fields` fields of 4 bytes, the first
   of them the bytes; 0: no template. */
static void build(byte_buffer *d, unsigned version, uint32_t domain, unsigned fields, bool data) {
    *d = (byte_buffer){0};
    if (version == 9) netflow9_begin(d, (netflow9_header){.source_id = domain});
    else ipfix_begin(d, (ipfix_header){.domain = domain});
    if (fields) {
        size_t set = set_begin(d, version == 9 ? 0 : 2);
        put16(d, 256);
        put16(d, fields);
        for (unsigned i = 0; i < fields; i++) {
            put16(d, i ? 100 + i : 1);
            put16(d, 4);
        }
        set_end(d, set);
    }
    if (data) {
        size_t set = set_begin(d, 256);
        for (unsigned i = 0; i < (fields ? fields : 1); i++) put32(d, 7);
        set_end(d, set);
    }
    if (version == 10) ipfix_end(d);
}

static void build_sflow(byte_buffer *d, uint32_t agent, uint32_t sub_agent) {
    *d = (byte_buffer){0};
    sflow_begin(d, 0, (sflow_header){.agent = agent, .sub_agent = sub_agent});
}

static bool is_known(session *s, uint32_t address) {
    fb_datagram datagram = datagram_of(NULL, 0, address);
    for (size_t i = 0; i < s->decoder->exporters.capacity; i++) {
        const fb_exporter *exporter = fb_exporters_at(&s->decoder->exporters, i);
        if (exporter && memcmp(exporter->address, datagram.source, 16) == 0) return true;
    }
    return false;
}

static void feed(session *s, const byte_buffer *d, uint32_t source) {
    session_feed_bytes(s, d->data, d->size, source);
    session_forget(s);
}

/* Order of eviction -------------------------------------------------------------------------- */

static void evicts_by_class_then_by_age(void) {
    session s;
    byte_buffer data, template;
    open_limited(&s, (fb_decoder_options){.exporter_limit = 5});
    build(&data, 10, 0, 0, true);
    build(&template, 10, 0, 1, true);
    for (unsigned i = 0; i < 2; i++) feed(&s, &template, 1); /* in use, and the oldest */
    for (unsigned i = 0; i < 2; i++) feed(&s, &template, 2);
    feed(&s, &template, 3); /* seen once */
    feed(&s, &template, 4);
    /* without templates, although seen often */
    for (unsigned i = 0; i < 9; i++) feed(&s, &data, 5);
    static const uint32_t order[] = {5, 3, 4};
    for (uint32_t i = 0; i < 3; i++) {
        for (unsigned repeat = 0; repeat < 2; repeat++) feed(&s, &template, 10 + i);
        CHECK(!is_known(&s, order[i]));
        CHECK_EQUAL(session_count(&s, FB_EXPORTER_EVICTED), i + 1);
        CHECK(is_known(&s, 1) && is_known(&s, 2));
    }
    for (uint32_t i = 0; i < 4; i++) { /* all are in use; only 1 keeps sending */
        feed(&s, &data, 1);
        for (unsigned repeat = 0; repeat < 2; repeat++) feed(&s, &template, 20 + i);
        CHECK(is_known(&s, 1));
    }
    CHECK(!is_known(&s, 2));
    CHECK_EQUAL(s.decoder->exporters.count, 5);
    session_close(&s);
}

/* Every known exporter is found after others were removed from the table. */
static void finds_the_remaining_exporters(void) {
    session s;
    byte_buffer template;
    uint64_t datagrams = 0;
    open_limited(&s, (fb_decoder_options){.exporter_limit = LIMIT, .hash_seed = 3});
    build(&template, 10, 0, 1, true);
    for (uint32_t i = 0, state = 1; i < 20000; i++) {
        state = state * 1664525 + 1013904223;
        feed(&s, &template, FIRST_SPOOFED + (state >> 16) % (3 * LIMIT));
        datagrams++;
        CHECK(s.decoder->exporters.count <= LIMIT);
    }
    size_t listed = 0;
    fb_exporters *exporters = &s.decoder->exporters;
    for (size_t i = 0; i < exporters->capacity; i++) {
        fb_exporter *exporter = fb_exporters_at(exporters, i);
        if (!exporter) continue;
        listed++;
        CHECK(fb_exporters_search(exporters, exporter->address, 0, exporter->address) == exporter);
    }
    CHECK_EQUAL(listed, LIMIT);
    CHECK_EQUAL(exporters->count, LIMIT);
    fb_counters all = count_all(s.decoder);
    CHECK_EQUAL(all.datagrams, datagrams);
    CHECK_EQUAL(all.rows[FB_ROWS_FLOWS], datagrams);
    CHECK_EQUAL(all.bytes, datagrams * template.size);
    session_close(&s);
}

/* Memory that was missing at the start of a datagram may be available when it is resumed. */
static void keeps_the_exporter_of_a_resumed_datagram(void) {
    session s;
    byte_buffer d = {0};
    memset(&s, 0, sizeof s);
    CHECK_STATUS(session_try(&s, "1 bytes uint : netflow5:dOctets\n", 0, (fb_decoder_options){0}),
                 FB_OK);
    netflow5_begin(&d, 3, (netflow5_header){0});
    for (unsigned i = 0; i < 3; i++) put_netflow5(&d, (netflow5_record){.bytes = 7});
    s.allocator.fail_at = s.allocator.calls + 1;
    session_feed(&s, &d);
    CHECK_EQUAL(s.decoder->exporters.count, 0);
    CHECK_EQUAL(s.decoder->exporters.overflow.counters.datagrams, 1);
    CHECK_EQUAL(s.decoder->exporters.overflow.counters.rows[FB_ROWS_FLOWS], 3);
    session_close(&s);
}

/* One genuine exporter among many spoofed ones ----------------------------------------------- */

typedef struct {
    unsigned version, fields, repeats;
    bool data;
} spoof;

/* The genuine exporter starts before or after the table is full, and sends its template every 1,000
   datagrams. */
static void check_genuine(const spoof *spoof, bool late) {
    session s;
    byte_buffer data, template, spoofed;
    open_limited(&s, (fb_decoder_options){.exporter_limit = LIMIT});
    build(&data, spoof->version, 0, 0, true);
    build(&template, spoof->version, 0, 1, true);
    build(&spoofed, spoof->version, 0, spoof->fields, spoof->data);
    uint32_t number = 0;
    for (; late && number < 2 * LIMIT; number++)
        for (unsigned i = 0; i < spoof->repeats; i++) feed(&s, &spoofed, FIRST_SPOOFED + number);
    uint64_t before = count_all(s.decoder).rows[FB_ROWS_FLOWS], own = 0, sent = 0;
    for (unsigned i = 0; i < SPOOFED; i++, number++) {
        uint64_t flows = count_all(s.decoder).rows[FB_ROWS_FLOWS];
        feed(&s, i % 1000 ? &data : &template, GENUINE);
        own += count_all(s.decoder).rows[FB_ROWS_FLOWS] - flows;
        for (unsigned j = 0; j < spoof->repeats; j++) feed(&s, &spoofed, FIRST_SPOOFED + number);
        sent += spoof->repeats;
    }
    CHECK_EQUAL(own, SPOOFED);
    CHECK_EQUAL(count_all(s.decoder).rows[FB_ROWS_FLOWS] - before,
                own + (spoof->fields && spoof->data ? sent : 0));
    CHECK_EQUAL(count_all(s.decoder).datagrams, SPOOFED + (uint64_t)number * spoof->repeats);
    CHECK_EQUAL(session_count(&s, FB_EXPORTER_EVICTED), number + 1 - LIMIT);
    CHECK_EQUAL(session_count(&s, FB_EXPORTER_LIMIT), 0);
    CHECK(is_known(&s, GENUINE));
    session_close(&s);
}

static void keeps_a_genuine_exporter_among_spoofed_ones(void) {
    static const spoof spoofs[] = {{10, 0, 1, true}, {10, 1, 1, true}, {10, 3, 2, false},
                                   {9, 0, 1, true},  {9, 1, 1, true},  {9, 2, 3, true}};
    for (size_t i = 0; i < sizeof spoofs / sizeof *spoofs; i++) {
        check_genuine(&spoofs[i], false);
        check_genuine(&spoofs[i], true);
    }
}

/* sFlow agents and sub-agents of one source use at most half of the table. */
static void bounds_the_agents_of_a_source(void) {
    session s;
    byte_buffer d;
    open_limited(&s, (fb_decoder_options){.exporter_limit = LIMIT});
    for (uint32_t i = 0; i < LIMIT / 2; i++) { /* agents with a source each */
        build_sflow(&d, GENUINE + i, 0);
        feed(&s, &d, GENUINE + i);
    }
    for (uint32_t i = 0; i < SPOOFED; i++) {
        build_sflow(&d, i % 2 ? FIRST_SPOOFED + i : FIRST_SPOOFED, i % 2 ? 0 : i + 1);
        feed(&s, &d, FIRST_SPOOFED);
    }
    for (uint32_t i = 0; i < LIMIT / 2; i++) CHECK(is_known(&s, GENUINE + i));
    CHECK_EQUAL(s.decoder->exporters.count, LIMIT);
    CHECK_EQUAL(s.decoder->exporters.senders.count, 1);
    CHECK_EQUAL(session_count(&s, FB_AGENT_EVICTED), SPOOFED - LIMIT / 2);
    CHECK_EQUAL(session_count(&s, FB_EXPORTER_EVICTED), 0);
    CHECK_EQUAL(count_all(s.decoder).datagrams, SPOOFED + LIMIT / 2);
    for (uint32_t i = 0; i < SPOOFED; i++) { /* many sources with one agent each */
        build_sflow(&d, FIRST_SPOOFED + i, 1);
        feed(&s, &d, FIRST_SPOOFED + i);
    }
    CHECK_EQUAL(s.decoder->exporters.count, LIMIT);
    CHECK(s.decoder->exporters.senders.count <= LIMIT);
    CHECK_EQUAL(count_all(s.decoder).datagrams, 2 * SPOOFED + LIMIT / 2);
    session_close(&s);
}

static void feed_agent(session *s, uint32_t agent, uint32_t sequence, uint32_t sources,
                       uint32_t source) {
    byte_buffer d = {0};
    sflow_begin(&d, sources, (sflow_header){.agent = agent, .sequence = sequence, .uptime = 1000});
    for (uint32_t i = 0; i < sources; i++)
        sample_end(&d,
                   flow_sample_begin(
                       &d, 0, (flow_sample){.sequence = 10 * sequence, .source = i, .rate = 1}));
    feed(s, &d, source);
}

/* A spoofed sFlow datagram uses the address of a genuine exporter as its agent, before and after
   the exporter starts. */
static void separates_netflow_and_sflow_of_one_address(void) {
    for (unsigned version = 9; version <= 10; version++) {
        session s;
        byte_buffer data, template;
        open_limited(&s, (fb_decoder_options){.exporter_limit = LIMIT});
        build(&data, version, 0, 0, true);
        build(&template, version, 0, 1, true);
        feed_agent(&s, GENUINE, 1, 1, FIRST_SPOOFED);
        feed(&s, &template, GENUINE);
        const fb_exporter *genuine = s.decoder->exporters.last;
        CHECK(!genuine->sender);
        size_t held = genuine->memory.used;
        for (uint32_t i = 0; i < 10; i++) feed_agent(&s, GENUINE, 1000 * i, 1000, FIRST_SPOOFED);
        CHECK_EQUAL(genuine->memory.used, held);
        CHECK_EQUAL(genuine->counters.datagrams, 1);
        CHECK_EQUAL(genuine->domains.count, 1);
        CHECK_EQUAL(genuine->counters.status[FB_EXPORTER_RESTART] +
                        genuine->counters.status[FB_SAMPLE_GAP],
                    0);
        for (uint32_t i = 1; i < SPOOFED; i++) { /* enough agents to evict the first ones */
            feed_agent(&s, GENUINE + i, 1, 1, FIRST_SPOOFED);
            uint64_t flows = count_all(s.decoder).rows[FB_ROWS_FLOWS];
            feed(&s, &data, GENUINE);
            CHECK_EQUAL(count_all(s.decoder).rows[FB_ROWS_FLOWS], flows + 1);
        }
        CHECK(session_count(&s, FB_AGENT_EVICTED) > SPOOFED / 2);
        CHECK_EQUAL(session_count(&s, FB_TEMPLATE_MISSING) + session_count(&s, FB_EARLY_DATA), 0);
        session_close(&s);
    }
}

/* A source of many domains fills only its own budget. */
static void keeps_a_genuine_exporter_beside_many_domains(void) {
    for (unsigned version = 9; version <= 10; version++) {
        session s;
        byte_buffer data, template, spoofed;
        memset(&s, 0, sizeof s);
        CHECK_STATUS(session_try(&s, columns, 4096, (fb_decoder_options){0}), FB_OK);
        s.memory.limit = s.memory.used + (1 << 20);
        s.decoder->exporters.exporter_memory = s.memory.limit / 4;
        build(&data, version, 0, 0, true);
        build(&template, version, 0, 1, true);
        for (uint32_t i = 0; i < 10 * FB_MAX_DOMAINS; i++) {
            build(&spoofed, version, i, 1 + i % 50, true);
            feed(&s, &spoofed, FIRST_SPOOFED);
            uint64_t flows = count_all(s.decoder).rows[FB_ROWS_FLOWS];
            feed(&s, i % 1000 ? &data : &template, GENUINE);
            CHECK_EQUAL(count_all(s.decoder).rows[FB_ROWS_FLOWS], flows + 1);
        }
        CHECK(session_count(&s, FB_TEMPLATE_LIMIT) > 0);
        CHECK_EQUAL(session_count(&s, FB_EXPORTER_EVICTED), 0);
        /* each is decoded with its own template */
        CHECK_EQUAL(count_all(s.decoder).rows[FB_ROWS_FLOWS], 20 * FB_MAX_DOMAINS);
        session_close(&s);
    }
}

/* Domains of one exporter -------------------------------------------------------------------- */

static fb_domain *find_domain(session *s, uint16_t version, uint32_t id) {
    return fb_exporter_find_domain(s->decoder->exporters.last, version, id);
}

static void feed_domain(session *s, uint32_t domain, unsigned fields, unsigned repeats) {
    byte_buffer d;
    build(&d, 10, domain, fields, true);
    for (unsigned i = 0; i < repeats; i++) feed(s, &d, GENUINE);
}

/* Add `count` domains with a template each, from `first` on. Their first datagrams set the sequence
   numbers. */
static void fill_domains(session *s, uint32_t first, uint32_t count, unsigned repeats) {
    for (uint32_t i = 0; i < count; i++) feed_domain(s, first + i, 1, repeats);
}

static void evicts_domains_by_class_then_by_age(void) {
    session s;
    enum { NEW = 100000, MANY = 100 };
    open_limited(&s, (fb_decoder_options){0});
    fill_domains(&s, 0, FB_MAX_DOMAINS - 2 * MANY, 2);                   /* in use */
    fill_domains(&s, 1000, MANY, 1);                                     /* seen once */
    for (uint32_t i = 0; i < MANY; i++) feed_domain(&s, 2000 + i, 0, 3); /* without templates */
    CHECK_EQUAL(session_count(&s, FB_DOMAIN_EVICTED), 0);
    for (uint32_t i = 0; i < MANY; i++) feed_domain(&s, i, 0, 1);
    enum { SPARED = FB_MAX_DOMAINS / 16 };
    fill_domains(&s, NEW, 2 * (MANY - SPARED), 2);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_EQUAL(find_domain(&s, 10, 2000 + i) != NULL, i >= MANY - SPARED);
        CHECK_EQUAL(find_domain(&s, 10, 1000 + i) != NULL, i >= MANY - SPARED);
    }
    fill_domains(&s, NEW + 1000, 1, 2);
    for (uint32_t i = 0; i < MANY; i++) feed_domain(&s, i, 0, 1);
    /* the oldest in use, except those that keep sending */
    fill_domains(&s, NEW + 2000, MANY - 1, 2);
    for (uint32_t i = 0; i < MANY; i++)
        CHECK(find_domain(&s, 10, i) && !find_domain(&s, 10, MANY + i));
    CHECK_EQUAL(session_count(&s, FB_DOMAIN_EVICTED), 2 * (MANY - SPARED) + MANY);
    CHECK_EQUAL(s.decoder->exporters.last->domains.count, FB_MAX_DOMAINS);
    session_close(&s);
}

/* The genuine domain starts before or after the limit of FB_MAX_DOMAINS. Each of its datagrams
   gives a flow. */
static void check_genuine_domain(const spoof *spoof, bool late) {
    session s;
    byte_buffer data, template, spoofed;
    open_limited(&s, (fb_decoder_options){0});
    build(&data, spoof->version, 0, 0, true);
    build(&template, spoof->version, 0, 1, true);
    uint32_t number = 1;
    uint64_t own = 0, sent = 0;
    for (unsigned i = 0; i < 10 * FB_MAX_DOMAINS + (late ? 2 * FB_MAX_DOMAINS : 0); i++, number++) {
        build(&spoofed, spoof->version, number, spoof->fields, spoof->data);
        for (unsigned j = 0; j < spoof->repeats; j++) feed(&s, &spoofed, GENUINE);
        if (late && i < 2 * FB_MAX_DOMAINS) continue;
        uint64_t flows = count_all(s.decoder).rows[FB_ROWS_FLOWS];
        feed(&s, sent++ % 1000 ? &data : &template, GENUINE);
        own += count_all(s.decoder).rows[FB_ROWS_FLOWS] - flows;
    }
    CHECK_EQUAL(own, 10 * FB_MAX_DOMAINS);
    CHECK_EQUAL(sent, own);
    CHECK_EQUAL(session_count(&s, FB_DOMAIN_EVICTED), number - FB_MAX_DOMAINS);
    CHECK_EQUAL(session_count(&s, FB_TEMPLATE_LIMIT), 0);
    CHECK_EQUAL(s.decoder->exporters.last->domains.count, FB_MAX_DOMAINS);
    CHECK(find_domain(&s, (uint16_t)spoof->version, 0));
    session_close(&s);
}

static void keeps_a_genuine_domain_among_spoofed_ones(void) {
    static const spoof spoofs[] = {{10, 0, 1, true}, {10, 1, 1, true}, {10, 3, 2, false},
                                   {9, 0, 1, true},  {9, 1, 1, true},  {9, 2, 3, true}};
    for (size_t i = 0; i < sizeof spoofs / sizeof *spoofs; i++) {
        check_genuine_domain(&spoofs[i], false);
        check_genuine_domain(&spoofs[i], true);
    }
}

/* Lost units of an evicted domain stay in the totals. Its waiting data is counted as missing. */
static void keeps_the_totals_of_an_evicted_domain(void) {
    session s;
    byte_buffer d = {0};
    open_limited(&s, (fb_decoder_options){0});
    for (uint32_t number = 0; number < 12; number += 11) {
        d.size = 0;
        netflow9_begin(&d, (netflow9_header){.source_id = 7, .sequence = number + 1});
        size_t set = set_begin(&d, 300);
        put32(&d, 7);
        set_end(&d, set);
        feed(&s, &d, GENUINE);
    }
    fb_lost before = {0};
    fb_exporter_sum_lost(s.decoder->exporters.last, &before);
    CHECK_EQUAL(before.units[FB_SEQUENCE_PACKETS], 10);
    for (uint32_t i = 0; i < FB_MAX_DOMAINS / 16; i++) feed_domain(&s, i, 0, 2);
    fill_domains(&s, 1000, FB_MAX_DOMAINS - FB_MAX_DOMAINS / 16, 2);
    CHECK(!find_domain(&s, 9, 7));
    fb_lost after = s.decoder->exporters.lost;
    fb_exporter_sum_lost(s.decoder->exporters.last, &after);
    CHECK_EQUAL(after.units[FB_SEQUENCE_PACKETS], 10);
    CHECK_EQUAL(session_count(&s, FB_TEMPLATE_MISSING), 2);
    CHECK_EQUAL(s.decoder->pending.all.sets, FB_MAX_DOMAINS / 8);
    CHECK_EQUAL(session_count(&s, FB_DOMAIN_EVICTED), 1);
    session_close(&s);
}

static void feed_port(session *s, unsigned port, uint32_t domain, unsigned fields) {
    byte_buffer d;
    build(&d, 10, domain, fields, true);
    fb_datagram datagram = datagram_of(d.data, d.size, GENUINE);
    datagram.source_port = (uint16_t)port;
    session_feed_batch(s, &datagram, 1);
    session_forget(s);
}

/* A split domain is evicted after the domains of its ports. A port without room shares it. */
static void evicts_domains_of_ports_before_the_common_domain(void) {
    session s;
    enum { NEW = 100000 };
    open_limited(&s, (fb_decoder_options){0});
    for (unsigned i = 0; i < 3; i++) feed_port(&s, 1 + i % 2, 0, 1 + i % 2);
    CHECK_EQUAL(session_count(&s, FB_PORT_IN_KEY), 1);
    for (unsigned port = 1; port < FB_MAX_DOMAINS; port++)
        for (unsigned i = 0; i < 2; i++) feed_port(&s, port, 0, 1);
    for (unsigned port = 0; port < 5; port++) feed_port(&s, FB_MAX_DOMAINS + port, 0, 0);
    fb_domain *common = find_domain(&s, 10, 0);
    CHECK_EQUAL(s.decoder->exporters.last->domains.count, FB_MAX_DOMAINS);
    CHECK_EQUAL(common->ports, FB_MAX_DOMAINS - 1);
    CHECK_EQUAL(session_count(&s, FB_DOMAIN_EVICTED), 0);
    fill_domains(&s, NEW, FB_MAX_DOMAINS - 2, 2);
    CHECK_EQUAL(common->ports, 1);
    CHECK(find_domain(&s, 10, 0) == common);
    fill_domains(&s, 2 * NEW, FB_MAX_DOMAINS, 2);
    CHECK(!find_domain(&s, 10, 0));
    for (uint32_t i = 0; i < 2 * FB_MAX_DOMAINS; i++) { /* splits without room for their ports */
        for (unsigned j = 0; j < 3; j++) feed_port(&s, 1 + j % 2, 3 * NEW + i, 1 + j % 2);
        CHECK_EQUAL(s.decoder->exporters.last->domains.count, FB_MAX_DOMAINS);
    }
    session_close(&s);
}

/* Engines of NetFlow v5 have domains without templates. */
static void evicts_engines_of_netflow5(void) {
    session s;
    byte_buffer d;
    memset(&s, 0, sizeof s);
    CHECK_STATUS(session_try(&s, "1 bytes uint : netflow5:dOctets\n", 0, (fb_decoder_options){0}),
                 FB_OK);
    for (uint32_t i = 0; i < 2 * FB_MAX_DOMAINS; i++) {
        d.size = 0;
        netflow5_begin(
            &d, 1, (netflow5_header){.engine_type = i >> 8, .engine_id = i & 255, .sequence = 5});
        put_netflow5(&d, (netflow5_record){.bytes = 7});
        session_feed(&s, &d);
        d.size = 0;
        netflow5_begin(
            &d, 1,
            (netflow5_header){.engine_type = 255, .sequence = i + 1 + (i >= FB_MAX_DOMAINS)});
        put_netflow5(&d, (netflow5_record){.bytes = 7});
        session_feed(&s, &d);
    }
    CHECK_COUNTERS(&s, "sequence_gap=1 domain_evicted=1025");
    session_close(&s);
}

/* Each allocation fails in turn during the eviction of domains. Data that is not decoded is
   counted. */
static void survives_failed_allocations_during_evictions(void) {
    for (size_t fail = 1, calls = SIZE_MAX; fail <= calls; fail++) {
        session s;
        open_limited(&s, (fb_decoder_options){0});
        fill_domains(&s, 0, FB_MAX_DOMAINS, 1);
        size_t before = s.allocator.calls;
        s.allocator.fail_at = before + fail;
        for (uint32_t i = 0; i < 3; i++) {
            feed_domain(&s, 5000 + i, 0, 1);
            feed_domain(&s, 5000 + i, 2, 1);
            for (unsigned j = 0; j < 3; j++) feed_port(&s, 1 + j % 2, 7000 + i, 1 + j % 2);
        }
        calls = s.allocator.calls - before;
        CHECK(s.decoder->exporters.last->domains.count <= FB_MAX_DOMAINS);
        CHECK(s.decoder->exporters.last->domains.count >= FB_MAX_DOMAINS - 1);
        CHECK_EQUAL(count_all(s.decoder).datagrams, FB_MAX_DOMAINS + 3 * 5);
        CHECK(count_all(s.decoder).rows[FB_ROWS_FLOWS] >= FB_MAX_DOMAINS + 3 * 4 - 1);
        session_close(&s);
    }
}

/* Memory ------------------------------------------------------------------------------------- */

/* Many sources with their own templates fill the shared memory. A genuine exporter still gets some
   and stays. */
static void evicts_exporters_when_memory_is_short(void) {
    session s;
    byte_buffer data, template, spoofed;
    open_limited(&s, (fb_decoder_options){0});
    s.memory.limit = s.memory.used + (1 << 20);
    build(&data, 10, 0, 0, true);
    build(&template, 10, 0, 1, true);
    for (uint32_t i = 0; i < 5000; i++) {
        build(&spoofed, 10, i, 1 + i % 300, true);
        feed(&s, &spoofed, FIRST_SPOOFED + i);
        feed(&s, &spoofed, FIRST_SPOOFED + i);
        if (i < 2500) continue;
        uint64_t flows = count_all(s.decoder).rows[FB_ROWS_FLOWS];
        feed(&s, (i - 2500) % 1000 ? &data : &template, GENUINE);
        CHECK_EQUAL(count_all(s.decoder).rows[FB_ROWS_FLOWS], flows + 1);
        CHECK(s.memory.used <= s.memory.limit);
    }
    CHECK(session_count(&s, FB_EXPORTER_EVICTED) > 1000);
    CHECK_EQUAL(count_all(s.decoder).datagrams, 12500);
    session_close(&s);
}

static void counts_pending_sets_of_evicted_exporters(void) {
    session s;
    byte_buffer data;
    open_limited(&s, (fb_decoder_options){.exporter_limit = 1});
    build(&data, 10, 0, 0, true);
    for (uint32_t i = 0; i < 3; i++)
        for (unsigned repeat = 0; repeat < 4; repeat++) feed(&s, &data, FIRST_SPOOFED + i);
    CHECK_COUNTERS(&s, "template_missing=8 early_data=12 exporter_evicted=2");
    CHECK_STATUS(s.decoder->fault.status, FB_TEMPLATE_MISSING);
    CHECK_EQUAL(s.decoder->pending.all.sets, 4);
    session_close(&s);
}

/* Templates that cannot be stored ----------------------------------------------------------- */

/* Two templates and their data, in a budget too small for either. The output starts empty and
   grows, so decoding is resumed. */
static void decodes_with_templates_that_cannot_be_stored(void) {
    for (unsigned domain_fits = 0; domain_fits < 2; domain_fits++)
        for (size_t capacity = 1; capacity < 64; capacity += 3) {
            session s;
            byte_buffer d = {0}, data;
            memset(&s, 0, sizeof s);
            fb_decoder_options options = {
                .exporter_memory =
                    domain_fits ? sizeof(fb_domain) + 4 * (sizeof(fb_map_entry) + sizeof(uint16_t))
                                : 1};
            CHECK_STATUS(session_try(&s, columns, capacity, options), FB_OK);
            /* the overflow has the same budget, too small here; 0: no limit */
            s.decoder->exporters.overflow.memory.limit = 0;
            ipfix_begin(&d, (ipfix_header){0});
            for (unsigned id = 256; id < 258; id++) {
                size_t set = set_begin(&d, 2);
                put_template(&d, id, FIELDS({1, 4}));
                set_end(&d, set);
                set = set_begin(&d, id);
                for (uint32_t i = 0; i < 3; i++) put32(&d, id + i);
                set_end(&d, set);
            }
            ipfix_end(&d);
            session_feed(&s, &d);
            CHECK_FLOWS(&s, "bytes=256\nbytes=257\nbytes=258\nbytes=257\nbytes=258\nbytes=259\n");
            CHECK_COUNTERS(&s, "template_limit=2");
            build(&data, 10, 0, 0, true); /* the next datagram does not have these templates */
            session_forget(&s);
            session_feed(&s, &data);
            CHECK_FLOWS(&s, "");
            CHECK_EQUAL(session_count(&s, FB_TEMPLATE_MISSING) + session_count(&s, FB_EARLY_DATA),
                        1);
            session_close(&s);
        }
}

static void reads_nested_records_with_templates_that_cannot_be_stored(void) {
    for (unsigned domain_fits = 0; domain_fits < 2; domain_fits++) {
        session s;
        byte_buffer d;
        memset(&s, 0, sizeof s);
        size_t bytes = sizeof(fb_domain) + 4 * (sizeof(fb_map_entry) + sizeof(uint16_t));
        fb_decoder_options options = {.exporter_memory = domain_fits ? bytes : 1};
        CHECK_STATUS(session_try(&s, columns, 4096, options), FB_OK);
        /* the overflow has the same budget, too small here; 0: no limit */
        s.decoder->exporters.overflow.memory.limit = 0;
        ipfix_begin(&d, (ipfix_header){0});
        size_t set = set_begin(&d, 2);
        put_template(&d, 256, FIELDS({1, 4}));
        put_template(&d, 257, FIELDS({292, VARIABLE}));
        set_end(&d, set), set = set_begin(&d, 257);
        put8(&d, 7), put8(&d, 3), put16(&d, 256), put32(&d, 9);
        set_end(&d, set), ipfix_end(&d);
        session_feed(&s, &d);
        CHECK_FLOWS(&s, "bytes=9\n");
        CHECK_COUNTERS(&s, "template_limit=2");
        session_close(&s);
    }
}

RUN_TESTS(TEST(evicts_by_class_then_by_age), TEST(finds_the_remaining_exporters),
          TEST(keeps_the_exporter_of_a_resumed_datagram),
          TEST(keeps_a_genuine_exporter_among_spoofed_ones), TEST(bounds_the_agents_of_a_source),
          TEST(separates_netflow_and_sflow_of_one_address),
          TEST(keeps_a_genuine_exporter_beside_many_domains),
          TEST(evicts_domains_by_class_then_by_age),
          TEST(keeps_a_genuine_domain_among_spoofed_ones),
          TEST(keeps_the_totals_of_an_evicted_domain),
          TEST(evicts_domains_of_ports_before_the_common_domain), TEST(evicts_engines_of_netflow5),
          TEST(survives_failed_allocations_during_evictions),
          TEST(evicts_exporters_when_memory_is_short),
          TEST(counts_pending_sets_of_evicted_exporters),
          TEST(decodes_with_templates_that_cannot_be_stored),
          TEST(reads_nested_records_with_templates_that_cannot_be_stored))
