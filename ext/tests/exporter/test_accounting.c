/* Random streams of many exporters, agents and domains, with small limits. After each step the
   counters must equal those of a model that knows the datagrams but not the evictions. Each data
   set holds one record, so each becomes a flow, waits, or is counted as missing. */
#include "tests/support/check.h"

#include "tests/support/session.h"

enum {
    SMALL = 3,
    MOST_SOURCES = 40,
    STREAMS = 5000,
    ENGINES = 8,
    ROOM = 1 << 14,
    UNITS = FB_SEQUENCE_UNITS,
    FIRST_ADDRESS = 0x0a000001
};

typedef struct {
    const char *name;
    uint32_t sources, domains, steps;
    fb_decoder_options options;
    size_t memory;     /* bytes above those of an empty decoder; 0: no limit */
    fb_status reached; /* a status that must be counted, as proof that the limit was reached */
} setting;

static const setting settings[] = {
    {"no limit", SMALL, SMALL, 2000, {0}, 0, FB_SEQUENCE_GAP},
    {"one exporter", 8, SMALL, 2000, {.exporter_limit = 1}, 0, FB_EXPORTER_EVICTED},
    {"few exporters", MOST_SOURCES, SMALL, 3000, {.exporter_limit = 5}, 0, FB_EXPORTER_EVICTED},
    {"few agents", 2, 40, 2000, {.exporter_limit = 60}, 0, FB_AGENT_EVICTED},
    {"many domains", 1, STREAMS, 6000, {0}, 0, FB_DOMAIN_EVICTED},
    {"little room for pending sets",
     4,
     SMALL,
     2000,
     {.early_data_limit = 1000, .early_data_total = 2000},
     0,
     FB_TEMPLATE_MISSING},
    {"little memory", MOST_SOURCES, 8, 4000, {0}, 24000, FB_EXPORTER_EVICTED},
    {"less memory than an exporter",
     MOST_SOURCES,
     8,
     2000,
     {0},
     sizeof(fb_exporter) - 1,
     FB_EXPORTER_LIMIT},
};

/* The output of one decoder, and the model. */
typedef struct {
    session session;
    const setting *setting;
    uint64_t random;
    uint64_t datagrams, bytes, sure_flows, sets, templates, skipped[UNITS];
    uint64_t flows, lost[UNITS], statuses[FB_STATUS_COUNT];
    /* The next sequence number of each source and domain of NetFlow v9, followed by those of each
       engine of NetFlow v5. */
    uint32_t numbers[STREAMS + MOST_SOURCES * ENGINES];
} world;

static uint32_t choose(world *w, uint32_t count) {
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((w->random >> 33) % count);
}

/* Return the next number of a stream with `units` per datagram. Sometimes numbers are skipped. A
   stream is never late. */
static uint32_t number(world *w, uint32_t stream, fb_sequence_unit unit, uint32_t units) {
    uint32_t *next = &w->numbers[stream], gap = choose(w, 8) ? 0 : 1 + choose(w, 4);
    if (!*next) *next = 1 + stream * 1000;
    w->skipped[unit] += gap;
    *next += gap + units;
    return *next - units;
}

/* Datagrams ------------------------------------------------------------------------------------ */

static void build_netflow5(world *w, byte_buffer *d, uint32_t source, uint32_t domain) {
    uint32_t count = choose(w, 4), engine = domain % ENGINES,
             stream = STREAMS + source * ENGINES + engine;
    uint32_t sequence = number(w, stream, FB_SEQUENCE_FLOWS, count);
    netflow5_begin(d, count, (netflow5_header){.engine_id = engine, .sequence = sequence});
    for (uint32_t i = 0; i < count; i++) put_netflow5(d, (netflow5_record){.bytes = 7});
    w->sure_flows += count;
}

/* Append two templates that differ only in their element. */
static void put_sets(world *w, byte_buffer *d, unsigned version) {
    for (uint32_t left = choose(w, 4); left; left--) {
        bool template = choose(w, 3) == 0;
        unsigned id = 256 + choose(w, 3), id_of_templates = version == 9 ? 0 : 2;
        size_t set = set_begin(d, template ? id_of_templates : id);
        if (template) put16(d, id), put16(d, 1), put16(d, 1 + choose(w, 2)), put16(d, 4);
        else put32(d, 7);
        set_end(d, set);
        w->templates += template;
        w->sets += !template;
    }
}

static void build_message(world *w, byte_buffer *d, unsigned version, uint32_t source,
                          uint32_t domain) {
    if (version == 9) {
        uint32_t sequence =
            number(w, source * w->setting->domains + domain, FB_SEQUENCE_PACKETS, 1);
        netflow9_begin(d, (netflow9_header){.source_id = domain, .sequence = sequence});
    } else {
        ipfix_begin(d, (ipfix_header){.domain = domain});
    }
    put_sets(w, d, version);
    if (version == 10) ipfix_end(d);
}

static void build_agent(world *w, byte_buffer *d, uint32_t source, uint32_t sub_agent) {
    uint32_t samples = choose(w, 3),
             agent = FIRST_ADDRESS + (choose(w, 2) ? source : choose(w, w->setting->sources));
    sflow_begin(d, samples, (sflow_header){.agent = agent, .sub_agent = sub_agent});
    for (uint32_t i = 0; i < samples; i++)
        sample_end(d, flow_sample_begin(d, 0, (flow_sample){.source = i, .rate = 1}));
    w->sure_flows += samples;
}

static fb_datagram build(world *w, byte_buffer *d) {
    uint32_t source = choose(w, w->setting->sources), domain = choose(w, w->setting->domains),
             kind = choose(w, 10);
    d->size = 0;
    /* sFlow v4, or no flow protocol */
    if (kind == 0) put32(d, choose(w, 2) ? 4 : 0xffffffff), put32(d, 1);
    else if (kind == 1) build_netflow5(w, d, source, domain);
    else if (kind == 2) build_agent(w, d, source, domain);
    else build_message(w, d, kind % 2 ? 9 : 10, source, domain);
    fb_datagram datagram = datagram_of(d->data, d->size, FIRST_ADDRESS + source);
    if (kind > 2 && kind % 2 == 0) datagram.source_port = (uint16_t)(4000 + choose(w, 3));
    w->datagrams++;
    w->bytes += d->size;
    return datagram;
}

/* Decoding ------------------------------------------------------------------------------------- */

static void count_flows(world *w, const uint8_t *output) {
    session *s = &w->session;
    text_clear(&s->text);
    describe_messages(&s->text, &s->plan, output, fb_row_size(&s->row));
    for (const char *p = text_of(&s->text); *p; p++) w->flows += *p == '\n';
}

/* Decode datagrams into outputs of random sizes, each at the end of the room. */
static void decode(world *w, const fb_datagram *batch, size_t count) {
    static uint8_t room[ROOM];
    session *s = &w->session;
    fb_position position = {0};
    fb_status status = FB_NO_SPACE;
    for (size_t size = choose(w, 40); status == FB_NO_SPACE; size = s->row.needed + choose(w, 40)) {
        uint8_t *output = room + ROOM - size;
        fb_row_set_output(&s->row, output, size, 0);
        status = fb_row_decode(s->decoder, batch, count, &position, &s->row);
        count_flows(w, output);
    }
}

/* Sums --------------------------------------------------------------------------------------- */

static fb_lost sum_lost(const fb_exporters *exporters) {
    fb_lost lost = exporters->lost;
    for (size_t i = 0; i < exporters->capacity; i++)
        if (fb_exporters_at(exporters, i))
            fb_exporter_sum_lost(fb_exporters_at(exporters, i), &lost);
    return lost;
}

static void check_limits(const world *w) {
    const fb_exporters *exporters = &w->session.decoder->exporters;
    CHECK(exporters->count <= exporters->limit);
    CHECK(!w->setting->memory || w->session.memory.used <= w->session.memory.limit);
    for (size_t i = 0; i < exporters->capacity; i++) {
        const fb_exporter *exporter = fb_exporters_at(exporters, i);
        if (!exporter) continue;
        CHECK(exporter->domains.count <= FB_MAX_DOMAINS);
        uint32_t known = 0;
        for (uint32_t j = 0; j < exporter->domains.count; j++)
            known += ((const fb_domain *)exporter->domains.entries[j].pointer)->known;
        CHECK_EQUAL(exporter->known, known);
    }
}

static void check_sums(world *w) {
    const fb_decoder *decoder = w->session.decoder;
    fb_counters all = count_all(decoder);
    fb_lost lost = sum_lost(&decoder->exporters);
    CHECK_EQUAL(all.datagrams, w->datagrams);
    CHECK_EQUAL(all.bytes, w->bytes);
    CHECK_EQUAL(all.rows[FB_ROWS_FLOWS], w->flows);
    CHECK_EQUAL(all.rows[FB_ROWS_FLOWS] + decoder->pending.all.sets +
                    all.status[FB_TEMPLATE_MISSING],
                w->sure_flows + w->sets);
    CHECK(all.templates <= w->templates && (w->setting->memory || all.templates == w->templates));
    for (size_t i = 0; i < UNITS; i++) {
        CHECK(lost.units[i] >= w->lost[i] && lost.units[i] <= w->skipped[i]);
        w->lost[i] = lost.units[i];
    }
    for (size_t i = 0; i < FB_STATUS_COUNT; i++) {
        CHECK(all.status[i] >= w->statuses[i]);
        w->statuses[i] = all.status[i];
    }
}

static void check_stream(const setting *setting, uint64_t seed) {
    static world world_of_stream;
    static byte_buffer payloads[4];
    world *w = &world_of_stream;
    int failures = fb_check_failures;
    *w = (world){.setting = setting, .random = seed};
    CHECK_STATUS(session_try(&w->session,
                             "1 bytes uint : ipfix:1 netflow5:dOctets\n2 packets uint : ipfix:2\n",
                             0, setting->options),
                 FB_OK);
    if (setting->memory) w->session.memory.limit = w->session.memory.used + setting->memory;
    for (uint32_t step = 0; step < setting->steps && fb_check_failures == failures; step++) {
        fb_datagram batch[4];
        size_t count = 1 + choose(w, 4);
        for (size_t i = 0; i < count; i++) batch[i] = build(w, &payloads[i]);
        decode(w, batch, count);
        check_sums(w);
        if (step % 64 == 0) check_limits(w);
    }
    fb_decoder_finish(w->session.decoder);
    check_sums(w);
    CHECK_EQUAL(w->session.decoder->pending.all.sets, 0);
    CHECK(session_count(&w->session, setting->reached) > 0);
    session_close(&w->session);
    if (fb_check_failures != failures)
        fprintf(stderr, "setting \"%s\", seed %llu\n", setting->name, (unsigned long long)seed);
}

static void keeps_complete_totals_during_evictions(void) {
    static const uint64_t seeds[] = {1, 2, 3, 1000003};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (size_t j = 0; j < sizeof seeds / sizeof *seeds; j++)
            check_stream(&settings[i], seeds[j]);
}

RUN_TESTS(TEST(keeps_complete_totals_during_evictions))
