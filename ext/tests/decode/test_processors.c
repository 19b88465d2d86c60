/* All kinds of processors give the same result. Random plans, templates, records and output sizes
   are decoded with every supported kind, and with the plain emitter (trace.h). Messages must also
   have the same size, so that no column is written twice. FLOWBUF_ROUNDS and FLOWBUF_SEED set the
   number of rounds and the seed. */
#include "tests/support/session.h"

#include "tests/builders/random_plan.h"
#include "tests/builders/random_sample.h"
#include "tests/builders/samples.h"
#include "tests/support/trace.h"

/* Plans -------------------------------------------------------------------------------------- */

/* A column for each kind of move, and for values that are the same in a whole set. Each has only
   one source. */
static const char *const lean_columns =
    "1 rate uint : derived:sampling_rate\n2 etype uint : derived:etype\n3 bytes uint : ipfix:1\n"
    "4 packets uint : ipfix:2\n5 flags uint : ipfix:6@tcp_bits\n6 source ip : ipfix:8\n"
    "7 other ip : ipfix:27\n8 proto enum map=0:0,1:1,2:2 : ipfix:4\n"
    "9 start timestamp unit=1000000 : ipfix:152\n300000 port uint limit=65535 : ipfix:7\n"
    "300000000 as uint : ipfix:16\n";

/* Append a plan; sometimes one that other tests use. */
static void put_plan(text *lines, uint64_t round) {
    switch (round % 12) {
        case 0: plan_put_rich(lines); break;
        case 1: text_put(lines, "%s", usual_columns); break;
        case 2: text_put(lines, "%s", scaled_columns); break;
        case 3: plan_put_counters(lines); break;
        case 4:
        case 8: text_put(lines, "%s", lean_columns); break;
        default: plan_put_random(lines, round % 3 ? FROM_RECORDS : FROM_FLOW_SAMPLES); break;
    }
}

/* Datagrams ---------------------------------------------------------------------------------- */

enum { MOST_FIELDS = 80, TEMPLATES = 6, BATCH = 6 };

typedef struct {
    specifier fields[MOST_FIELDS];
    unsigned count, scopes;
    bool netflow9;
} layout;

static unsigned natural_size(unsigned id) {
    static const uint8_t of[] = {[1] = 8,   [2] = 8,  [4] = 1,  [5] = 1,  [6] = 2,  [7] = 2,
                                 [8] = 4,   [9] = 1,  [11] = 2, [12] = 4, [15] = 4, [27] = 16,
                                 [28] = 16, [32] = 2, [48] = 1, [56] = 6, [58] = 2, [60] = 1,
                                 [61] = 1,  [70] = 3, [71] = 3, [79] = 3, [85] = 8};
    if (id < sizeof of && of[id]) return of[id];
    if (id == 152 || id == 154) return 8;
    return id == 137 ? 2 : 4;
}

/* Choose options with the rates of samplers and the start time of the exporter. */
static void choose_options(layout *t) {
    static const uint16_t of_sampling[] = {48, 302, 48,  302, 34,  50,  34,
                                           50, 305, 306, 309, 310, 311, 160};
    t->count = 2 + below(4);
    t->scopes = 1;
    for (unsigned i = 0; i < t->count; i++)
        t->fields[i] = (specifier){i ? PICK(of_sampling) : 144, 4, 0};
}

static void choose_fields(layout *t) {
    static const unsigned sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 8, 16, 0, 9, VARIABLE};
    static const unsigned counts[] = {3, 8, 20, MOST_FIELDS};
    uint32_t oddness = below(2) ? 3 : 12, gaps = below(2) ? 20 : 4;
    t->count = 1 + below(PICK(counts));
    t->netflow9 = below(3) == 0;
    t->scopes = 0;
    if (below(4) == 0) {
        choose_options(t);
        return;
    }
    for (unsigned i = 0; i < t->count; i++) {
        unsigned id = random_ids[below((uint32_t)random_id_count)];
        t->fields[i] = (specifier){id, below(oddness) ? natural_size(id) : PICK(sizes), 0};
        if (below(gaps) == 0) t->fields[i] = (specifier){210, 1 + below(70), 0};
        if (below(24) == 0) t->fields[i] = (specifier){below(2) ? 48 : 302, 1, 0};
        if (below(3000) == 0) t->fields[i].size = 60000;
        if (t->netflow9) {
            if (t->fields[i].size == VARIABLE) t->fields[i].size = 4;
            continue;
        }
        if (id == 137) t->fields[i].pen = 2636;
        if (below(80) == 0) t->fields[i].pen = 29305;
        if (below(200) == 0) t->fields[i].id = 160;
    }
}

static void put_random(byte_buffer *d, size_t size, uint32_t sparse) {
    for (uint32_t mood = below(4); size--;) {
        unsigned byte = below(256);
        if (mood == 0 || below(4) < sparse) byte = 0;
        else if (mood == 1) byte &= 7;
        put8(d, byte);
    }
}

/* Append a number of random bit width, so that varints of all sizes occur. */
static void put_number(byte_buffer *d, size_t size) {
    uint64_t value =
        (uint64_t)below(1u << 31) << 33 ^ (uint64_t)below(1u << 31) << 11 ^ below(1u << 11);
    value >>= below((uint32_t)(8 * size)) + 64 - 8 * (uint32_t)size;
    while (size--) put8(d, (unsigned)(value >> 8 * size & 0xff));
}

static void put_record(byte_buffer *d, const layout *t, uint32_t sparse) {
    for (unsigned i = 0; i < t->count; i++) {
        size_t size = t->fields[i].size;
        if (size >= 1 && size <= 8 && (t->fields[i].id == 48 || t->fields[i].id == 302)) {
            put_repeated(d, 0, size - 1), put8(d, below(4));
            continue;
        }
        if (size >= 1 && size <= 8 && below(2)) {
            put_number(d, size);
            continue;
        }
        if (size == VARIABLE) {
            bool wide = below(4) == 0;
            size = below(3) ? below(12) : below(200);
            if (wide) put8(d, 255), put16(d, (unsigned)size);
            else put8(d, (unsigned)size);
        }
        put_random(d, size, sparse);
    }
}

static size_t max_size(const layout *t) {
    size_t size = 0;
    for (unsigned i = 0; i < t->count; i++)
        size += t->fields[i].size == VARIABLE ? 203 : t->fields[i].size;
    return size;
}

static void put_definition(byte_buffer *d, unsigned id, const layout *t) {
    size_t set = set_begin(d, (t->netflow9 ? 0u : 2u) + (t->scopes != 0));
    if (!t->scopes) put_template(d, id, t->fields, t->count);
    else
        (t->netflow9 ? put_options_template9 : put_options_template)(d, id, t->scopes, t->fields,
                                                                     t->count);
    set_end(d, set);
}

/* Return the number of records of a set. Up to 16 are decoded at once. */
static unsigned pick_count(void) {
    return below(below(8) ? 6 : 40);
}

static void put_data(byte_buffer *d, unsigned id, const layout *t) {
    uint32_t sparse = below(4);
    size_t set = set_begin(d, id);
    for (unsigned records = pick_count(); records && d->size + max_size(t) < 65000; records--)
        put_record(d, t, sparse);
    if (below(3) == 0) put_repeated(d, below(4) ? 0 : 1, below(8));
    /* a truncated record */
    if (below(3) == 0 && d->size > set + 4) d->size -= below((uint32_t)(d->size - set - 4)) % 16;
    if (d->size - set > 65000) d->size = set + 65000;
    set_end(d, set);
}

static void put_flows(byte_buffer *d, layout *layouts, bool netflow9) {
    static uint32_t sequence;
    uint32_t domain = below(2);
    if (netflow9)
        netflow9_begin(d, (netflow9_header){below(100000), 1000000000 + below(1000),
                                            below(2) ? sequence++ : 0, domain});
    else
        ipfix_begin(d, (ipfix_header){1000000000 + below(1000), below(2) ? sequence++ : 0, domain});
    for (unsigned sets = 1 + below(6); sets; sets--) {
        unsigned i = below(TEMPLATES);
        layout *t = &layouts[i];
        if (d->size > 30000) break;
        if (below(30) == 0) choose_fields(t);
        if (t->netflow9 != netflow9) continue;
        if (below(3) == 0) put_definition(d, 256 + i, t);
        if (d->size + 5 * max_size(t) < 60000) put_data(d, 256 + i, t);
    }
    if (!netflow9) ipfix_end(d);
    if (below(20) == 0 && d->size > 60) d->size -= below(40);
}

static void put_records5(byte_buffer *d) {
    unsigned count = pick_count();
    uint32_t sparse = below(4);
    netflow5_begin(d, count + (below(10) == 0),
                   (netflow5_header){below(100000), 1000000000, below(2000000000), below(3),
                                     below(256), below(256), below(65536)});
    put_random(d, 48 * count, sparse);
}

/* Append flow samples, most of which resemble earlier ones. */
static void put_flow_samples(byte_buffer *d) {
    static sample_look look;
    if (!look.count || below(6) == 0) look_choose(&look);
    if (below(8) == 0) look_change(&look);
    put_random_datagram(d, &look, 1 + below(6));
}

static void build(byte_buffer *d, layout *layouts) {
    switch (below(8)) {
        case 0: put_records5(d); break;
        case 1: samples[below((uint32_t)sample_count)].build(d); break;
        case 2: put_flow_samples(d); break;
        default: put_flows(d, layouts, below(3) == 0); break;
    }
}

/* Decoders ----------------------------------------------------------------------------------- */

typedef struct {
    session of[FB_PROCESSOR_AVX512]; /* one for each kind */
    unsigned kinds;
    trace trace;
    fb_decoder *traced;
    fb_memory memory;
} comparison;

static void comparison_open(comparison *c, const char *lines, fb_decoder_options options) {
    memset(c, 0, sizeof *c);
    c->kinds = fb_processor_find();
    for (unsigned i = 0; i < c->kinds; i++) {
        options.processor = (fb_processor)(i + 1);
        CHECK_STATUS(session_try(&c->of[i], lines, 0, options), FB_OK);
    }
    trace_new(&c->trace, &c->of[0].plan);
    c->memory = fb_memory_system(0);
    CHECK_STATUS(fb_decoder_new(&c->traced, c->of[0].plan.plan, options, &c->memory), FB_OK);
}

static void comparison_close(comparison *c) {
    fb_decoder_free(c->traced);
    trace_free(&c->trace);
    for (unsigned i = 0; i < c->kinds; i++) session_close(&c->of[i]);
    CHECK_EQUAL(c->memory.used, 0);
}

/* Empty the output and set its size. */
static void set_room(session *s, size_t capacity) {
    fb_guarded_free(s->output, s->capacity);
    s->output = fb_guarded_room_of(capacity);
    s->capacity = capacity;
    fb_row_set_output(&s->row, s->output, capacity, 0);
}

static void override_late(comparison *c, bool set) {
    const fb_plan *plan = c->of[0].plan.plan;
    for (unsigned i = 0; i < c->kinds; i++)
        fb_deferred_values_clear_overrides(&c->of[i].row.deferred);
    for (uint16_t k = 0; set && k < plan->column_count; k++) {
        uint64_t number = below(3);
        for (unsigned i = 0; i < c->kinds; i++)
            fb_deferred_values_override(&c->of[i].row.deferred, k, FB_DEFERRED_UINT, number,
                                        (fb_bytes){NULL, 0});
    }
}

static void check_batch(comparison *c, const fb_datagram *batch, size_t count, bool traced) {
    static const size_t rooms[] = {0, 300, 2000, 1 << 20};
    text counters = {0}, first = {0};
    uint32_t room = below(4);
    for (unsigned i = 0; i < c->kinds; i++) {
        session *s = &c->of[i];
        set_room(s, rooms[(room + i) % 4]);
        session_feed_batch(s, batch, count);
        text_clear(i ? &counters : &first);
        put_counters_text(i ? &counters : &first, s->decoder);
        CHECK_TEXT(session_text(s), session_text(&c->of[0]));
        CHECK_EQUAL(fb_row_size(&s->row), fb_row_size(&c->of[0].row));
        if (i) CHECK_TEXT(text_of(&counters), text_of(&first));
    }
    fb_position position = {0};
    text_clear(&c->trace.text);
    c->trace.refuse_each = below(2) ? 2 + below(3) : 0;
    while (trace_decode(c->traced, batch, count, &position, &c->trace) == FB_NO_SPACE) continue;
    text_clear(&counters);
    put_counters_text(&counters, c->traced);
    if (traced) CHECK_TEXT(session_text(&c->of[0]), text_of(&c->trace.text));
    if (traced) CHECK_TEXT(text_of(&first), text_of(&counters));
    text_free(&counters);
    text_free(&first);
}

/* Run one plan and compare all results. */
static void run_round(const char *lines) {
    static byte_buffer d[BATCH];
    layout layouts[TEMPLATES];
    uint8_t *copies[BATCH];
    fb_datagram batch[BATCH];
    comparison c;
    fb_decoder_options options = {.default_sampling_rate = below(3) ? 0 : 1000};
    if (below(8) == 0) options.decapsulate = ~0u;
    bool overridden = below(6) == 0;
    comparison_open(&c, lines, options);
    for (unsigned i = 0; i < TEMPLATES; i++) choose_fields(&layouts[i]);
    override_late(&c, overridden);
    for (unsigned rounds = 0; rounds < 12; rounds++) {
        size_t count = 1 + below(BATCH);
        for (size_t i = 0; i < count; i++) {
            d[i].size = 0;
            build(&d[i], layouts);
            copies[i] = fb_guarded_copy(d[i].data, d[i].size);
            batch[i] = datagram_of(copies[i], d[i].size, SOURCE_ADDRESS + below(2));
            batch[i].source_port = (uint16_t)(4000 + below(2));
        }
        check_batch(&c, batch, count, !overridden);
        for (size_t i = 0; i < count; i++) fb_guarded_free(copies[i], d[i].size);
    }
    if (fb_check_failures) fprintf(stderr, "the plan:\n%s", lines);
    comparison_close(&c);
}

static void gives_the_same_output_on_every_processor(void) {
    uint64_t seed = read_number("FLOWBUF_SEED", 1),
             rounds = read_number("FLOWBUF_ROUNDS", getenv("FLOWBUF_SLOW_RUN") ? 12 : 60);
    for (uint64_t i = 0; i < rounds && !fb_check_failures; i++) {
        text lines = {0};
        random_begin(fb_hash(seed, i));
        put_plan(&lines, i);
        run_round(text_of(&lines));
        text_free(&lines);
        if (fb_check_failures)
            fprintf(stderr, "FLOWBUF_SEED=%llu, round %llu\n", (unsigned long long)seed,
                    (unsigned long long)i);
    }
}

/* A column that a constant has filled stays unchanged. An element of a lower rank adds nothing, on
   all processors. */
static void feed_constants(comparison *c, const char *lines, unsigned count) {
    byte_buffer d;
    specifier fields[40];
    for (unsigned i = 0; i < count; i++) fields[i] = (specifier){i + 1, 8, 0};
    comparison_open(c, lines, (fb_decoder_options){0});
    ipfix_begin(&d, (ipfix_header){.seconds = 1000, .sequence = UINT32_MAX});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, fields, count);
    set_end(&d, set);
    set = set_begin(&d, 256);
    put_repeated(&d, 255, 8 * count);
    set_end(&d, set);
    ipfix_end(&d);
    for (unsigned i = 0; i < c->kinds; i++) session_feed(&c->of[i], &d);
}

static void writes_a_constant_once(void) {
    comparison c;
    feed_constants(&c, "1 x uint : meta:sequence_number ipfix:1\n", 1);
    for (unsigned i = 0; i < c.kinds; i++) CHECK_FLOWS(&c.of[i], "x=4294967295\n");
    comparison_close(&c);
}

static void leaves_room_for_a_row_after_constants(void) {
    comparison c;
    text lines = {0};
    for (unsigned i = 0; i < 40; i++)
        text_put(&lines, "%u c%u uint : meta:sequence_number ipfix:%u\n", 500 + i, i, 1 + i);
    feed_constants(&c, text_of(&lines), 40);
    for (unsigned i = 0; i < c.kinds; i++)
        CHECK_TEXT(session_text(&c.of[i]), session_text(&c.of[0]));
    comparison_close(&c);
    text_free(&lines);
}

/* A rate out of its column's range is counted once per flow: three times, however often the output
   was full. A set without records does not count it. */
static void counts_out_of_range_rates_per_flow(void) {
    for (size_t capacity = 0; capacity <= 1000; capacity += 1000) {
        session s;
        byte_buffer d;
        session_open(&s, "1 rate uint limit=10 : derived:sampling_rate\n2 bytes uint : ipfix:1\n",
                     capacity);
        ipfix_begin(&d, (ipfix_header){.seconds = 1000});
        size_t set = set_begin(&d, 3);
        put_options_template(&d, 256, 1, FIELDS({302, 1}, {34, 1}));
        set_end(&d, set);
        set = set_begin(&d, 256);
        put8(&d, 1), put8(&d, 100);
        set_end(&d, set);
        set = set_begin(&d, 2);
        put_template(&d, 257, FIELDS({1, 1}));
        set_end(&d, set);
        set = set_begin(&d, 257);
        put8(&d, 1), put8(&d, 2), put8(&d, 3);
        set_end(&d, set);
        set = set_begin(&d, 257);
        set_end(&d, set);
        ipfix_end(&d);
        session_feed(&s, &d);
        CHECK_FLOWS(&s, "bytes=1\nbytes=2\nbytes=3\n");
        CHECK_COUNTERS(&s, "out_of_range=3");
        session_close(&s);
    }
}

/* Append two numbers at a distance that one permutation just reaches, or not. Records have a fixed
   size, or the numbers are between two names. The last record lacks `cut` bytes. */
static void put_distant_numbers(byte_buffer *d, unsigned gap, unsigned size, bool named,
                                unsigned cut) {
    const specifier fields[] = {{82, VARIABLE}, {1, size}, {210, gap}, {2, size}, {83, VARIABLE}};
    ipfix_begin(d, (ipfix_header){.seconds = 1000});
    size_t set = set_begin(d, 2);
    put_template(d, 256, named ? fields : fields + 1, named ? 5 : 3);
    set_end(d, set);
    set = set_begin(d, 256);
    for (unsigned record = 0; record < 2; record++) {
        if (named) put_variable(d, "ab", 2, 0);
        for (unsigned i = 0; i < 2 * size + gap; i++) put8(d, i + 1);
        if (named) put_variable(d, "c", 1, 0);
    }
    d->size -= cut;
    set_end(d, set);
    ipfix_end(d);
}

static void moves_numbers_at_any_distance(void) {
    byte_buffer d;
    for (unsigned gap = 40; gap <= 136; gap++)
        for (unsigned k = 0; k < 16; k++) {
            comparison c;
            comparison_open(&c,
                            "1 a uint : ipfix:1\n2 b uint : ipfix:2\n3 name string : ipfix:82\n"
                            "4 other string : ipfix:83\n",
                            (fb_decoder_options){0});
            put_distant_numbers(&d, gap, 1u << k % 4, k & 4, k & 8 ? 1 + k % 3 : 0);
            for (unsigned i = 0; i < c.kinds; i++) {
                session_feed(&c.of[i], &d);
                CHECK_FLOWS(&c.of[i], session_text(&c.of[0]));
                CHECK_EQUAL(c.of[i].row.count, k & 8 ? 1 : 2);
            }
            comparison_close(&c);
        }
}

/* Sets of more records than a block, with one to six groups of lanes. Some records have a number
   that does not fit its lane. */
static void put_numbers(byte_buffer *d, unsigned count, unsigned records) {
    specifier fields[48];
    for (unsigned i = 0; i < count; i++) fields[i] = (specifier){i + 1, 8, 0};
    ipfix_begin(d, (ipfix_header){.seconds = 1000});
    size_t set = set_begin(d, 2);
    put_template(d, 256, fields, count);
    set_end(d, set);
    set = set_begin(d, 256);
    for (unsigned k = 0; k < records * count; k++) {
        put_repeated(d, k % 37 ? 0 : 255, 4);
        put32(d, 1 + k * k);
    }
    set_end(d, set);
    ipfix_end(d);
}

static void moves_many_numbers_of_many_records(void) {
    static byte_buffer d;
    text lines = {0};
    for (unsigned i = 0; i < 48; i++) text_put(&lines, "%u c%u uint : ipfix:%u\n", 9 + i, i, 1 + i);
    for (unsigned count = 1; count <= 48; count += 9)
        for (unsigned records = 1; records <= 40; records += 3) {
            comparison c;
            comparison_open(&c, text_of(&lines), (fb_decoder_options){0});
            put_numbers(&d, count, records);
            for (unsigned i = 0; i < c.kinds; i++) {
                session_feed(&c.of[i], &d);
                CHECK_TEXT(session_text(&c.of[i]), session_text(&c.of[0]));
                CHECK_EQUAL(c.of[i].row.count, records);
            }
            comparison_close(&c);
        }
    text_free(&lines);
}

RUN_TESTS(TEST(moves_many_numbers_of_many_records), TEST(moves_numbers_at_any_distance),
          TEST(writes_a_constant_once), TEST(counts_out_of_range_rates_per_flow),
          TEST(leaves_room_for_a_row_after_constants),
          TEST(gives_the_same_output_on_every_processor))
