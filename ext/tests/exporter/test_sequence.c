/* Sequence numbers: every bound from both sides, gaps filled from any side, and failed
   allocations. */
#include "tests/support/session.h"

#include <time.h>

static fb_sequence sequence;
static fb_sequence_totals totals;

static void begin(void) {
    sequence = (fb_sequence){0};
    totals = (fb_sequence_totals){0};
}

static fb_status check(fb_sequence_unit unit, uint32_t number, uint32_t units, uint32_t sent) {
    fb_sequence_mark mark = {.number = number, .sent = sent, .content = {.units = units}};
    return fb_sequence_check(&sequence, unit, &mark, &totals);
}

static fb_status packet(uint32_t number) {
    return check(FB_SEQUENCE_PACKETS, number, 1, 0);
}
static fb_status flows(uint32_t number, uint32_t units) {
    return check(FB_SEQUENCE_FLOWS, number, units, 0);
}

#define CHECK_TOTALS(t, expected_, lost_, late_, restarts_) \
    do { \
        CHECK_EQUAL((t).expected, expected_); \
        CHECK_EQUAL((t).lost, lost_); \
        CHECK_EQUAL((t).late, late_); \
        CHECK_EQUAL((t).restarts, restarts_); \
    } while (0)

/* One sequence ------------------------------------------------------------------------------- */

static void counts_missing_units(void) {
    begin();
    CHECK_STATUS(packet(5), FB_OK);
    CHECK_STATUS(packet(6), FB_OK);
    CHECK_STATUS(packet(9), FB_SEQUENCE_GAP);
    CHECK_STATUS(packet(10), FB_OK);
    CHECK_TOTALS(totals, 6, 2, 0, 0);
}

static void continues_after_the_wrap(void) {
    begin();
    CHECK_STATUS(flows(0xfffffff0u, 20), FB_OK);
    CHECK_STATUS(flows(4, 5), FB_OK);
    CHECK_STATUS(flows(14, 1), FB_SEQUENCE_GAP);
    CHECK_STATUS(flows(9, 5), FB_OUT_OF_SEQUENCE);
    CHECK_TOTALS(totals, 31, 0, 1, 0);
    begin();
    CHECK_STATUS(flows(0xfffffff0u, 1), FB_OK);
    CHECK_STATUS(flows(100, 1), FB_SEQUENCE_GAP);
    CHECK_STATUS(flows(0xfffffffau, 12), FB_OUT_OF_SEQUENCE); /* across the wrap */
    CHECK_TOTALS(totals, 117, 115 - 12, 1, 0);
    CHECK_EQUAL(sequence.gap_count, 2);
}

/* Return the lost units of two gaps, 10 to 30 and 40 to 50, after a late datagram. */
static uint32_t lost_after(uint32_t number, uint32_t units) {
    begin();
    flows(0, 10), flows(30, 10), flows(50, 10);
    CHECK_EQUAL(totals.lost, 30);
    CHECK_STATUS(flows(number, units), FB_OUT_OF_SEQUENCE);
    CHECK(sequence.gap_count <= 3);
    uint32_t left = 0;
    for (size_t i = 0; i < sequence.gap_count; i++) {
        CHECK(sequence.gaps[i].size > 0);
        left += sequence.gaps[i].size;
    }
    CHECK_EQUAL(left, totals.lost);
    return (uint32_t)totals.lost;
}

static void fills_gaps_from_any_side(void) {
    CHECK_EQUAL(lost_after(10, 20), 10); /* one whole gap */
    CHECK_EQUAL(lost_after(10, 5), 25);
    CHECK_EQUAL(lost_after(25, 5), 25);
    CHECK_EQUAL(lost_after(15, 5), 25); /* two are left in it */
    CHECK_EQUAL(lost_after(5, 10), 25);
    CHECK_EQUAL(lost_after(25, 10), 25);
    CHECK_EQUAL(lost_after(5, 30), 10);
    CHECK_EQUAL(lost_after(25, 20), 20); /* parts of both */
    CHECK_EQUAL(lost_after(0, 60), 0);
    CHECK_EQUAL(lost_after(30, 10), 30); /* between them */
    CHECK_EQUAL(lost_after(15, 0), 30);
    CHECK_EQUAL(lost_after(10, 0), 30);
    CHECK_EQUAL(lost_after(5, UINT32_MAX), 0); /* a false count */
}

static void remembers_the_last_gaps(void) {
    begin();
    for (uint32_t number = 0; number <= 2 * (FB_MAX_GAPS + 1); number += 2) packet(number);
    CHECK_EQUAL(totals.lost, FB_MAX_GAPS + 1);
    CHECK_EQUAL(sequence.gap_count, FB_MAX_GAPS);
    CHECK_STATUS(packet(1), FB_OUT_OF_SEQUENCE); /* forgotten */
    CHECK_EQUAL(totals.lost, FB_MAX_GAPS + 1);
    for (uint32_t number = 3; number < 2 * (FB_MAX_GAPS + 1); number += 2) packet(number);
    CHECK_TOTALS(totals, 2 * FB_MAX_GAPS + 3, 1, FB_MAX_GAPS + 1, 0);
    CHECK_EQUAL(sequence.gap_count, 0);
    /* A gap that is split pushes the oldest one out. */
    for (uint32_t i = 1; i <= FB_MAX_GAPS; i++) flows(10000 + 100 * i, 90);
    CHECK_EQUAL(sequence.gap_count, FB_MAX_GAPS);
    flows(10000 + 100 * FB_MAX_GAPS - 5, 1);
    CHECK_EQUAL(sequence.gap_count, FB_MAX_GAPS);
}

static void distinguishes_late_from_restart_by_distance(void) {
    static const struct {
        fb_sequence_unit unit;
        uint32_t window, most;
    } units[] = {
        {FB_SEQUENCE_FLOWS, 8192, 1 << 20},   {FB_SEQUENCE_PACKETS, 128, 1 << 16},
        {FB_SEQUENCE_RECORDS, 8192, 1 << 20}, {FB_SEQUENCE_DATAGRAMS, 128, 1 << 16},
        {FB_SEQUENCE_SAMPLES, 1024, 1 << 20},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        begin();
        check(units[i].unit, 1000000, 1, 0);
        CHECK_STATUS(check(units[i].unit, 1000001 - units[i].window, 1, 0), FB_OUT_OF_SEQUENCE);
        CHECK_STATUS(check(units[i].unit, 1000000 - units[i].window, 1, 0), FB_EXPORTER_RESTART);
        CHECK_TOTALS(totals, 2, 0, 1, 1);
        begin();
        check(units[i].unit, 10, 1, 0);
        CHECK_STATUS(check(units[i].unit, 11 + units[i].most, 1, 0), FB_SEQUENCE_GAP);
        /* far behind, but in the gap */
        CHECK_STATUS(check(units[i].unit, 12, 1, 0), FB_OUT_OF_SEQUENCE);
        CHECK_STATUS(check(units[i].unit, 13 + 2 * units[i].most, 1, 0), FB_EXPORTER_RESTART);
        CHECK_TOTALS(totals, units[i].most + 3, units[i].most - 1, 1, 1);
        CHECK_EQUAL(sequence.gap_count, 0);
    }
    /* Twice the units in twice the time. */
    begin();
    check(FB_SEQUENCE_PACKETS, 10, 1, 5000);
    CHECK_STATUS(check(FB_SEQUENCE_PACKETS, 11 + (3 << 16), 1, 6999), FB_EXPORTER_RESTART);
    begin();
    check(FB_SEQUENCE_PACKETS, 10, 1, 5000);
    CHECK_STATUS(check(FB_SEQUENCE_PACKETS, 11 + (3 << 16), 1, 7000), FB_SEQUENCE_GAP);
}

static void distinguishes_late_from_restart_by_the_clock(void) {
    begin();
    check(FB_SEQUENCE_PACKETS, 50, 1, 100000);
    CHECK_STATUS(check(FB_SEQUENCE_PACKETS, 49, 1, 100000 - FB_SEQUENCE_TOLERANCE),
                 FB_OUT_OF_SEQUENCE);
    CHECK_STATUS(check(FB_SEQUENCE_PACKETS, 49, 1, 100000 + FB_SEQUENCE_TOLERANCE),
                 FB_OUT_OF_SEQUENCE);
    CHECK_STATUS(check(FB_SEQUENCE_PACKETS, 49, 1, 99999 - FB_SEQUENCE_TOLERANCE),
                 FB_EXPORTER_RESTART);
    begin();
    check(FB_SEQUENCE_PACKETS, 50, 1, 100000);
    CHECK_STATUS(check(FB_SEQUENCE_PACKETS, 49, 1, 100001 + FB_SEQUENCE_TOLERANCE),
                 FB_EXPORTER_RESTART);
    begin();
    check(FB_SEQUENCE_PACKETS, 50, 1, 100000);
    /* a consecutive number is in order at every time */
    CHECK_STATUS(check(FB_SEQUENCE_PACKETS, 51, 1, 0), FB_OK);
    CHECK_STATUS(check(FB_SEQUENCE_PACKETS, 60, 1, 1000), FB_SEQUENCE_GAP);
}

static void keeps_its_convention_in_long_sequences(void) {
    uint32_t number = 0;
    begin();
    for (unsigned i = 0; i < 2000; i++) {
        uint32_t units = 1 + i % 7;
        number += units;
        /* the message itself is included */
        CHECK_STATUS(check(FB_SEQUENCE_RECORDS, number, units, 0), FB_OK);
    }
    CHECK_TOTALS(totals, number, 0, 0, 0);
}

/* Sequences of a domain --------------------------------------------------------------------- */

static fb_status from_port(fb_sequences *sequences, fb_memory *memory, uint16_t port,
                           uint32_t number) {
    fb_sequence_mark mark = {.number = number, .port = port, .content = {.units = 1}};
    return fb_sequences_check(sequences, memory, FB_SEQUENCE_PACKETS, &mark);
}

static void separates_the_numbers_of_a_few_ports(void) {
    fb_check_allocator allocator = {0};
    fb_memory memory = fb_check_memory(&allocator);
    fb_sequences sequences = {0};
    for (uint32_t round = 0; round < 3; round++)
        for (uint16_t port = 1; port <= FB_MAX_STREAMS; port++)
            CHECK_STATUS(from_port(&sequences, &memory, port, 1000u * port + round), FB_OK);
    CHECK_EQUAL(sequences.count, FB_MAX_STREAMS);
    CHECK_EQUAL(memory.used, FB_MAX_STREAMS * sizeof(fb_sequence));
    for (uint16_t port = 100; port < 1000; port++)
        CHECK_STATUS(from_port(&sequences, &memory, port, 10000u * port), FB_OK);
    CHECK_EQUAL(sequences.count, FB_MAX_STREAMS);
    CHECK_STATUS(from_port(&sequences, &memory, 999, 9990003), FB_SEQUENCE_GAP);
    /* continues where the other port ended */
    CHECK_STATUS(from_port(&sequences, &memory, 50, 9990004), FB_OK);
    CHECK_STATUS(from_port(&sequences, &memory, 50, 9990006), FB_SEQUENCE_GAP);
    CHECK_EQUAL(sequences.totals.lost, 3);
    fb_sequences_free(&sequences, &memory);
    CHECK_EQUAL(memory.used, 0);
    CHECK_EQUAL(allocator.held, 0);
}

static void works_without_memory_for_a_numbering(void) {
    fb_check_allocator allocator = {.fail_at = 2, .fail_forever = true};
    fb_memory memory = fb_check_memory(&allocator);
    fb_sequences sequences = {0};
    CHECK_STATUS(from_port(&sequences, &memory, 1, 10), FB_OK);
    CHECK_STATUS(from_port(&sequences, &memory, 2, 500), FB_OK);
    CHECK_STATUS(from_port(&sequences, &memory, 2, 600), FB_OK);
    CHECK_STATUS(from_port(&sequences, &memory, 1, 12), FB_SEQUENCE_GAP);
    CHECK_TOTALS(sequences.totals, 3, 1, 0, 0);
    fb_sequences_free(&sequences, &memory);
    CHECK_EQUAL(allocator.held, 0);
}

/* Samples ------------------------------------------------------------------------------------ */

enum { SEED = 77 };

static fb_status sample_of(fb_samples *samples, fb_memory *memory, uint32_t kind, uint32_t source,
                           uint32_t number, uint32_t run) {
    return fb_samples_check(samples, memory, SEED, fb_samples_key(kind, 0, source), number, run);
}

static void numbers_each_source(void) {
    fb_check_allocator allocator = {0};
    fb_memory memory = fb_check_memory(&allocator);
    fb_samples samples = {0};
    for (uint32_t number = 10; number < 13; number++)
        for (uint32_t source = 0; source < 1000; source++)
            for (uint32_t kind = 1; kind <= 3; kind++)
                CHECK_STATUS(
                    sample_of(&samples, &memory, kind, source * 7919, number + source + kind, 0),
                    FB_OK);
    CHECK_EQUAL(samples.count, 3000);
    CHECK(memory.used < 3000 * 100); /* samples in order need almost no memory */
    CHECK_STATUS(sample_of(&samples, &memory, 2, 7919, 12 + 1 + 2 + 4, 0), FB_SEQUENCE_GAP);
    CHECK_STATUS(sample_of(&samples, &memory, 2, 7919, 12 + 1 + 2 + 2, 0), FB_OUT_OF_SEQUENCE);
    CHECK_TOTALS(samples.totals, 9004, 2, 1, 0);
    CHECK_STATUS(sample_of(&samples, &memory, 2, 7919, 1, 1), FB_OK); /* the agent restarted */
    CHECK_STATUS(sample_of(&samples, &memory, 2, 7919, 3, 1), FB_SEQUENCE_GAP);
    CHECK_TOTALS(samples.totals, 9007, 3, 1, 0);
    fb_samples_free(&samples, &memory);
    CHECK_EQUAL(memory.used, 0);
    CHECK_EQUAL(allocator.held, 0);
}

static void bounds_the_sources(void) {
    fb_check_allocator allocator = {0};
    fb_memory memory = fb_check_memory(&allocator);
    fb_samples samples = {0};
    for (unsigned round = 0; round < 2; round++) /* in the second round a number is missing */
        for (uint32_t source = 0; source < FB_MAX_SAMPLE_SOURCES + 100; source++)
            CHECK_STATUS(sample_of(&samples, &memory, 1, source << 8, 5 + 2 * round, 0),
                         round && source < FB_MAX_SAMPLE_SOURCES ? FB_SEQUENCE_GAP : FB_OK);
    CHECK_EQUAL(samples.count, FB_MAX_SAMPLE_SOURCES);
    CHECK_TOTALS(samples.totals, 3 * FB_MAX_SAMPLE_SOURCES, FB_MAX_SAMPLE_SOURCES, 0, 0);
    CHECK(memory.used <= 1 << 20);
    fb_samples_free(&samples, &memory);
    CHECK_EQUAL(allocator.held, 0);
}

/* Sources that differ only in their high bits, as an attacker would choose them. */
static void finds_sources_that_differ_in_their_high_bits(void) {
    fb_memory memory = fb_memory_system(0);
    fb_samples samples = {0};
    for (unsigned shift = 0; shift < 20; shift++) {
        for (uint32_t number = 1; number < 3; number++)
            for (uint32_t source = 1; source < 200; source++)
                CHECK_STATUS(sample_of(&samples, &memory, 1, source << shift | 1u << 31,
                                       number + shift, shift),
                             FB_OK);
    }
    CHECK_EQUAL(samples.totals.lost + samples.totals.late + samples.totals.restarts, 0);
    fb_samples_free(&samples, &memory);
    CHECK_EQUAL(memory.used, 0);
}

/* Return the CPU time to find 4096 sources repeatedly, in 64 blocks of neighbours at this distance
   of types. */
static double seconds_to_find(uint32_t types_apart) {
    fb_memory memory = fb_memory_system(0);
    fb_samples samples = {0};
    clock_t start = clock();
    for (uint32_t number = 1; number < 100; number++)
        for (uint32_t source = 0; source < FB_MAX_SAMPLE_SOURCES; source++) {
            uint64_t key = fb_samples_key(2, (source >> 6) * types_apart, source & 63);
            CHECK_STATUS(fb_samples_check(&samples, &memory, SEED, key, number, 0), FB_OK);
        }
    fb_samples_free(&samples, &memory);
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static void finds_sources_of_every_type_in_similar_time(void) {
    double usual = seconds_to_find(1);
    for (unsigned bit = 8; bit <= 24; bit += 8)
        CHECK(seconds_to_find(1u << bit) < 4 * usual + 0.02 || getenv("FLOWBUF_SLOW_RUN"));
}

static void works_without_memory_for_samples(void) {
    for (size_t fail_at = 1; fail_at < 12; fail_at++) {
        fb_check_allocator allocator = {.fail_at = fail_at, .fail_forever = true};
        fb_memory memory = fb_check_memory(&allocator);
        fb_samples samples = {0};
        uint64_t gaps = 0;
        for (uint32_t number = 1; number < 9; number += 2)
            for (uint32_t source = 0; source < 40; source++)
                gaps += sample_of(&samples, &memory, 1, source, number, 0) == FB_SEQUENCE_GAP;
        CHECK_EQUAL(samples.totals.lost, gaps);
        CHECK(samples.count <= 40);
        fb_samples_free(&samples, &memory);
        CHECK_EQUAL(allocator.held, 0);
    }
}

/* In the decoders ---------------------------------------------------------------------------- */

/* Append templates, then two data sets, of fixed and of variable record size, and a set of
   options. */
static void put_message(byte_buffer *d, uint32_t number, unsigned flows_, unsigned names,
                        unsigned options) {
    ipfix_begin(d, (ipfix_header){.seconds = 1000, .sequence = number, .domain = 7});
    size_t set = set_begin(d, 256);
    for (unsigned i = 0; i < flows_; i++) put32(d, i + 1);
    set_end(d, set);
    set = set_begin(d, 258);
    for (unsigned i = 0; i < options; i++) put32(d, 0), put32(d, 9);
    set_end(d, set);
    set = set_begin(d, 257);
    for (unsigned i = 0; i < names; i++) put_variable(d, "a name of some length", 21, 0);
    set_end(d, set);
    ipfix_end(d);
}

static void put_templates(byte_buffer *d, uint32_t number) {
    ipfix_begin(d, (ipfix_header){.seconds = 1000, .sequence = number, .domain = 7});
    size_t set = set_begin(d, 2);
    put_template(d, 256, FIELDS({1, 4}));
    put_template(d, 257, FIELDS({82, VARIABLE}));
    set_end(d, set);
    set = set_begin(d, 3);
    put_options_template(d, 258, 1, FIELDS({149, 4}, {34, 4}));
    set_end(d, set);
    ipfix_end(d);
}

static const fb_domain *only_domain(const session *s) {
    for (size_t i = 0; i < s->decoder->exporters.capacity; i++) {
        const fb_exporter *exporter = fb_exporters_at(&s->decoder->exporters, i);
        if (exporter && exporter->domains.count) return exporter->domains.entries[0].pointer;
    }
    return NULL;
}

/* A message is counted once, however often it is resumed. */
static void counts_a_message_once(void) {
    static byte_buffer d[5];
    fb_datagram batch[5];
    put_templates(&d[0], 100);
    put_message(&d[1], 100, 5, 3, 2);
    put_message(&d[2], 110, 1, 4, 0);
    put_message(&d[3], 120, 7, 1, 1); /* 5 are missing */
    put_message(&d[4], 129, 3, 3, 1);
    for (size_t i = 0; i < 5; i++) batch[i] = datagram_of(d[i].data, d[i].size, SOURCE_ADDRESS);
    for (size_t capacity = 0; capacity < 1500; capacity++) {
        session s;
        session_open(&s, "1 bytes uint : ipfix:1\n2 name string : ipfix:82", capacity);
        session_feed_batch(&s, batch, 5);
        CHECK_EQUAL(s.row.count, 27);
        CHECK_TOTALS(only_domain(&s)->sequences.totals, 36, 5, 0, 0);
        CHECK_EQUAL(only_domain(&s)->sequences.unit, FB_SEQUENCE_RECORDS);
        CHECK_COUNTERS(&s, "sequence_gap=1");
        CHECK_STATUS(s.decoder->fault.status, FB_OK); /* strict mode continues */
        session_close(&s);
    }
}

static void put_sflow(byte_buffer *d, uint32_t number) {
    sflow_begin(
        d, 2,
        (sflow_header){.agent = 0xc0000207, .sub_agent = 3, .sequence = number, .uptime = 1000});
    for (uint32_t i = 0; i < 2; i++) {
        size_t sample = flow_sample_begin(
            d, 0, (flow_sample){.sequence = 2 * number + i, .source = 5, .rate = 10});
        sample_end(d, sample);
    }
}

static void counts_samples_once(void) {
    static byte_buffer d[3];
    fb_datagram batch[3];
    put_sflow(&d[0], 10), put_sflow(&d[1], 12), put_sflow(&d[2], 11);
    for (size_t i = 0; i < 3; i++) batch[i] = datagram_of(d[i].data, d[i].size, SOURCE_ADDRESS);
    for (size_t capacity = 0; capacity < 600; capacity++) {
        session s;
        session_open(&s, usual_columns, capacity);
        session_feed_batch(&s, batch, 3);
        CHECK_EQUAL(s.row.count, 6);
        CHECK_TOTALS(only_domain(&s)->sequences.totals, 3, 0, 1, 0);
        CHECK_TOTALS(only_domain(&s)->samples.totals, 6, 0, 2, 0);
        CHECK_COUNTERS(&s, "sequence_gap=1 sample_gap=1 out_of_sequence=1");
        session_close(&s);
    }
}

/* With little or no memory for an exporter, flows are decoded and no loss is reported. */
static void decodes_without_memory_for_sequences(void) {
    for (size_t room = 1; room < sizeof(fb_domain) + 1000; room += 7) {
        session s;
        byte_buffer d;
        memset(&s, 0, sizeof s);
        CHECK_STATUS(
            session_try(&s, usual_columns, 1 << 16, (fb_decoder_options){.exporter_memory = room}),
            FB_OK);
        for (uint32_t number = 1; number < 9; number += 2) {
            netflow5_begin(&d, 1, (netflow5_header){.sequence = number});
            put_netflow5(&d, (netflow5_record){.bytes = 10});
            session_feed(&s, &d);
            put_sflow(&d, number);
            session_feed(&s, &d);
        }
        CHECK_EQUAL(s.row.count, 12);
        if (room < sizeof(fb_domain)) CHECK_COUNTERS(&s, "");
        bool all = session_count(&s, FB_SAMPLE_GAP) == 3 && session_count(&s, FB_SEQUENCE_GAP) == 6;
        CHECK(all || room < sizeof(fb_domain) + 900);
        CHECK(session_count(&s, FB_SAMPLE_GAP) <= 3 && session_count(&s, FB_SEQUENCE_GAP) <= 6);
        session_close(&s);
    }
}

/* Fast path for numbers in order ------------------------------------------------------------- */

static uint32_t random_below(uint64_t *state, uint32_t bound) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % bound;
}

/* Return a mark, mostly the next number of a port in some convention, starting at zero or shortly
   before 2^32. */
static fb_sequence_mark random_mark(uint64_t *random, const fb_sequences *sequences,
                                    unsigned convention) {
    fb_sequence_mark mark = {.sent = random_below(random, 30000)};
    const fb_sequence *stream =
        sequences->count ? &sequences->streams[random_below(random, sequences->count)] : NULL;
    mark.port = (uint16_t)(stream && random_below(random, 16) ? stream->newest.port
                                                              : random_below(random, 6));
    mark.content.units = random_below(random, 4);
    mark.content.options =
        random_below(random, 3) ? 0 : random_below(random, mark.content.units + 1);
    mark.content.incomplete = !random_below(random, 12);
    const fb_sequence_content *counted =
        convention & 2 || !stream ? &mark.content : &stream->newest.content;
    uint32_t step = counted->units - (convention & 1 ? counted->options : 0);
    mark.number = stream ? stream->newest.number + step : 0u - random_below(random, 40);
    if (!random_below(random, 8)) mark.number += random_below(random, 9) - 4;
    if (!random_below(random, 40)) mark.number = 0;
    return mark;
}

static bool are_equal_contents(const fb_sequence_content *a, const fb_sequence_content *b) {
    return a->units == b->units && a->options == b->options && a->incomplete == b->incomplete;
}

static bool are_equal_streams(const fb_sequence *a, const fb_sequence *b) {
    const fb_sequence_mark *x = &a->newest, *y = &b->newest;
    return x->number == y->number && x->sent == y->sent && x->port == y->port &&
           are_equal_contents(&x->content, &y->content) && a->used == b->used &&
           a->known == b->known && !memcmp(a->hits, b->hits, sizeof a->hits) &&
           a->gap_count == b->gap_count &&
           !memcmp(a->gaps, b->gaps, a->gap_count * sizeof *a->gaps);
}

static void check_equal_sequences(const fb_sequences *a, const fb_sequences *b) {
    CHECK_EQUAL(a->count, b->count);
    CHECK_EQUAL(a->clock, b->clock);
    CHECK_EQUAL(a->unit, b->unit);
    CHECK_TOTALS(a->totals, b->totals.expected, b->totals.lost, b->totals.late, b->totals.restarts);
    for (uint32_t i = 0; i < a->count; i++)
        CHECK(are_equal_streams(&a->streams[i], &b->streams[i]));
}

/* Check that the fast path gives the state and totals of the slow path. Returns the number of times
   that it was taken. */
static unsigned compare_paths(fb_sequence_unit unit, uint64_t random, unsigned convention) {
    fb_memory memory = fb_memory_system(0);
    fb_sequences fast_path = {0}, slow_path = {0};
    unsigned taken = 0;
    for (unsigned i = 0; i < 400; i++) {
        fb_sequence_mark mark = random_mark(&random, &slow_path, convention);
        fb_status status = fb_sequences_check(&slow_path, &memory, unit, &mark);
        if (fb_sequences_continue(&fast_path, unit, &mark)) {
            CHECK_STATUS(status, FB_OK);
            taken++;
        } else {
            CHECK_STATUS(fb_sequences_check(&fast_path, &memory, unit, &mark), status);
        }
        check_equal_sequences(&fast_path, &slow_path);
    }
    fb_sequences_free(&fast_path, &memory);
    fb_sequences_free(&slow_path, &memory);
    return taken;
}

static void gives_the_same_state_on_both_paths(void) {
    for (fb_sequence_unit unit = FB_SEQUENCE_FLOWS; unit <= FB_SEQUENCE_DATAGRAMS; unit++)
        for (unsigned convention = 0; convention < FB_SEQUENCE_CONVENTIONS; convention++) {
            unsigned taken = 0;
            for (uint64_t seed = 0; seed < 40; seed++)
                taken += compare_paths(unit, seed * 7919 + unit, convention);
            CHECK(convention || taken > 1000);
        }
}

static void stays_on_the_fast_path_at_the_wrap(void) {
    fb_memory memory = fb_memory_system(0);
    fb_sequences sequences = {0};
    fb_sequence_mark mark = {.number = 0xfffffffeu, .port = 7, .content = {.units = 1}};
    CHECK(!fb_sequences_continue(&sequences, FB_SEQUENCE_PACKETS,
                                 &mark)); /* no number is known yet */
    CHECK_STATUS(fb_sequences_check(&sequences, &memory, FB_SEQUENCE_PACKETS, &mark), FB_OK);
    for (int i = 0; i < 4; i++) {
        mark.number++;
        CHECK(fb_sequences_continue(&sequences, FB_SEQUENCE_PACKETS, &mark));
    }
    CHECK_EQUAL(sequences.streams->newest.number, 2);
    mark.number = 3, mark.port = 8;
    /* it continues from another port */
    CHECK(!fb_sequences_continue(&sequences, FB_SEQUENCE_PACKETS, &mark));
    mark.number = 4, mark.port = 7;
    CHECK(!fb_sequences_continue(&sequences, FB_SEQUENCE_PACKETS, &mark));
    CHECK_STATUS(fb_sequences_check(&sequences, &memory, FB_SEQUENCE_PACKETS, &mark),
                 FB_SEQUENCE_GAP);
    mark.number = 5;
    CHECK(fb_sequences_continue(&sequences, FB_SEQUENCE_PACKETS, &mark));
    CHECK_EQUAL(sequences.streams->gap_count, 1);
    mark.number = 3;
    CHECK_STATUS(fb_sequences_check(&sequences, &memory, FB_SEQUENCE_PACKETS, &mark),
                 FB_OUT_OF_SEQUENCE);
    CHECK_TOTALS(sequences.totals, 8, 0, 1, 0);
    fb_sequences_free(&sequences, &memory);
}

RUN_TESTS(TEST(counts_missing_units), TEST(continues_after_the_wrap),
          TEST(fills_gaps_from_any_side), TEST(remembers_the_last_gaps),
          TEST(distinguishes_late_from_restart_by_distance),
          TEST(distinguishes_late_from_restart_by_the_clock),
          TEST(keeps_its_convention_in_long_sequences), TEST(separates_the_numbers_of_a_few_ports),
          TEST(works_without_memory_for_a_numbering), TEST(numbers_each_source),
          TEST(bounds_the_sources), TEST(finds_sources_that_differ_in_their_high_bits),
          TEST(finds_sources_of_every_type_in_similar_time), TEST(works_without_memory_for_samples),
          TEST(counts_a_message_once), TEST(counts_samples_once),
          TEST(decodes_without_memory_for_sequences), TEST(gives_the_same_state_on_both_paths),
          TEST(stays_on_the_fast_path_at_the_wrap))
