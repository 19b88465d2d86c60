/* A flow sample that matches a pattern gives the same values as record by record. Inputs are random
   plans and samples, samples with one changed byte or property, and samples forged to be expensive.
   FLOWBUF_ROUNDS and FLOWBUF_SEED set the number of rounds and the seed. */
#include "tests/support/session.h"

#include "core/wire/message_reader.h"
#include "tests/builders/random_plan.h"
#include "tests/builders/random_sample.h"

/* Two decoders ------------------------------------------------------------------------------- */

/* Decoders of one kind of processor: one learns patterns, the other has no memory for them. */
typedef struct {
    session learning, plain;
} pair;

typedef struct {
    pair of[FB_PROCESSOR_AVX512];
    unsigned kinds;
    const char *lines;
    size_t fitting, others; /* samples that matched on the newest kind, and others */
} comparison;

static fb_memory nothing;

enum { ROOM = 1 << 17 };

/* Return an input buffer that ends at a guard page. */
static uint8_t *input(void) {
    static uint8_t *room;
    if (!room) room = fb_guarded_room_of(ROOM);
    return room;
}

static void open_session(session *s, const char *lines, fb_decoder_options options) {
    memset(s, 0, sizeof *s);
    CHECK_STATUS(session_try(s, lines, 1 << 16, options), FB_OK);
}

/* Open the decoders. `general`: no pattern is exact. */
static void comparison_open(comparison *c, const char *lines, fb_decoder_options options,
                            bool general) {
    *c = (comparison){.kinds = fb_processor_find(), .lines = lines};
    nothing = fb_memory_system(1);
    for (unsigned i = 0; i < c->kinds; i++) {
        options.processor = (fb_processor)(i + 1);
        open_session(&c->of[i].learning, lines, options);
        c->of[i].learning.decoder->patterns.general = general;
        open_session(&c->of[i].plain, lines, options);
        c->of[i].plain.decoder->patterns.memory = &nothing;
    }
}

/* Keep the learned patterns and learn no others. */
static void stop_learning(comparison *c) {
    for (unsigned i = 0; i < c->kinds; i++) c->of[i].learning.decoder->patterns.memory = &nothing;
}

static void comparison_close(comparison *c) {
    for (unsigned i = 0; i < c->kinds; i++) {
        CHECK(!c->of[i].plain.decoder->patterns.table);
        c->of[i].learning.decoder->patterns.memory = &c->of[i].learning.memory;
        session_close(&c->of[i].learning);
        session_close(&c->of[i].plain);
    }
}

/* Comparison --------------------------------------------------------------------------------- */

enum { MOST_FIELDS = 4000 };

/* List the fields of all messages, sorted by number in each message. */
static size_t list_fields(const session *s, fb_message_field *fields) {
    fb_bytes rest = {s->output, fb_row_size(&s->row)}, message;
    size_t count = 0;
    while (fb_stream_next(&rest, &message) == FB_OK) {
        fields[count++] = (fb_message_field){.number = 0};
        for (fb_message_field field;
             count < MOST_FIELDS && fb_message_next(&message, &field) == FB_OK; count++) {
            size_t at = count;
            for (; fields[at - 1].number > field.number; at--) fields[at] = fields[at - 1];
            fields[at] = field;
        }
    }
    return count;
}

static bool has_same_fields(const session *a, const session *b) {
    static fb_message_field of_a[MOST_FIELDS], of_b[MOST_FIELDS];
    size_t count = list_fields(a, of_a);
    if (fb_row_size(&a->row) != fb_row_size(&b->row) || list_fields(b, of_b) != count) return false;
    for (size_t i = 0; i < count; i++) {
        const fb_message_field *x = &of_a[i], *y = &of_b[i];
        if (x->number != y->number || x->wire != y->wire || x->value != y->value ||
            x->bytes.size != y->bytes.size)
            return false;
        if (x->bytes.size && memcmp(x->bytes.data, y->bytes.data, x->bytes.size) != 0) return false;
    }
    return true;
}

static bool has_same_counters(const session *a, const session *b) {
    fb_counters of_a = count_all(a->decoder), of_b = count_all(b->decoder);
    return memcmp(&of_a, &of_b, sizeof of_a) == 0;
}

static bool has_same_fault(const session *a, const session *b) {
    const fb_fault *x = &a->decoder->fault, *y = &b->decoder->fault;
    return x->status == y->status && x->datagram == y->datagram && x->offset == y->offset;
}

static void feed(session *s, size_t size) {
    fb_datagram datagram = datagram_of(input() + ROOM - size, size, SOURCE_ADDRESS);
    session_forget(s);
    s->decoder->fault = (fb_fault){0};
    session_feed_batch(s, &datagram, 1);
}

static void report_difference(const comparison *c, session *found, session *expected,
                              const byte_buffer *d) {
    text a = {0}, b = {0};
    put_counters_text(&a, found->decoder);
    put_counters_text(&b, expected->decoder);
    CHECK_TEXT(session_text(found), session_text(expected));
    CHECK_TEXT(text_of(&a), text_of(&b));
    CHECK(has_same_fields(found, expected) && has_same_counters(found, expected) &&
          has_same_fault(found, expected));
    fprintf(stderr, "processor %d, the plan:\n%s\nthe datagram:", (int)found->decoder->processor,
            c->lines);
    for (size_t i = 0; i < d->size; i++) fprintf(stderr, "%s%02x", i % 4 ? "" : " ", d->data[i]);
    fprintf(stderr, "\n");
    text_free(&a);
    text_free(&b);
}

/* Decode one datagram with all decoders. Its first sample begins at `sample`. */
static void check_same(comparison *c, const byte_buffer *d, size_t sample) {
    bool fitting = session_find_pattern(&c->of[c->kinds - 1].learning, d, sample) != NULL;
    memcpy(input() + ROOM - d->size, d->data, d->size);
    c->fitting += fitting;
    c->others += !fitting;
    for (unsigned i = 0; i < c->kinds; i++) {
        session *learning = &c->of[i].learning, *plain = &c->of[i].plain;
        feed(plain, d->size);
        feed(learning, d->size);
        bool same = has_same_fields(learning, plain) && has_same_counters(learning, plain) &&
                    has_same_fault(learning, plain);
        if (!same) report_difference(c, learning, plain, d);
        CHECK_EQUAL(fb_row_size(&learning->row), fb_row_size(&c->of[0].plain.row));
    }
}

/* Random samples ----------------------------------------------------------------------------- */

static void corrupt(byte_buffer *d, size_t sample) {
    static const uint32_t words[] = {0,       1,          2,          3,          4,
                                     0xff,    0x100,      0xfff,      0x1000,     0xffff,
                                     0x10000, 0x3fffffff, 0x40000000, 0x80000000, 0xffffffff};
    for (unsigned changes = 1 + below(2); changes; changes--) {
        size_t at = sample + below((uint32_t)(d->size - sample - 3));
        switch (below(4)) {
            case 0: patch32(d, at & ~(size_t)3, PICK(words)); break;
            case 1: d->data[at] ^= 1 << below(8); break;
            case 2: d->data[at] += below(2) ? 1 : 255; break;
            default: d->data[at] = below(256); break;
        }
    }
}

/* Append a sample equal or similar to a learned one. */
static size_t put_variant(byte_buffer *d, const sample_look *base) {
    sample_look look = *base;
    unsigned mood = below(4);
    if (mood == 0) look_change(&look);
    size_t sample = put_random_datagram(d, &look, 1 + (below(8) == 0));
    if (mood == 1) corrupt(d, sample);
    if (below(64) == 0) d->size -= 1 + below(20);
    return sample;
}

static void set_room(session *s, size_t capacity) {
    fb_guarded_free(s->output, s->capacity);
    s->output = fb_guarded_room_of(capacity);
    s->capacity = capacity;
    fb_row_set_output(&s->row, s->output, capacity, 0);
}

/* Start with an output without room, and grow only by the room needed. */
static void check_in_little_room(comparison *c, const byte_buffer *d, size_t sample) {
    for (unsigned i = 0; i < c->kinds; i++) set_room(&c->of[i].learning, below(200));
    check_same(c, d, sample);
    for (unsigned i = 0; i < c->kinds; i++) set_room(&c->of[i].learning, 1 << 16);
}

static void override_late(comparison *c) {
    const fb_plan *plan = c->of[0].plain.plan.plan;
    for (uint16_t k = 0; k < plan->column_count; k++)
        for (unsigned i = 0; i < c->kinds; i++) {
            fb_deferred_values_override(&c->of[i].learning.row.deferred, k, FB_DEFERRED_UINT, k,
                                        (fb_bytes){NULL, 0});
            fb_deferred_values_override(&c->of[i].plain.row.deferred, k, FB_DEFERRED_UINT, k,
                                        (fb_bytes){NULL, 0});
        }
}

static void run_round(const char *lines, bool overridden, unsigned decapsulate, size_t *fitting,
                      size_t *others) {
    static byte_buffer d;
    sample_look look;
    comparison c;
    comparison_open(
        &c, lines,
        (fb_decoder_options){.default_sampling_rate = below(2), .decapsulate = decapsulate},
        below(2));
    if (overridden) override_late(&c);
    for (unsigned looks = 0; looks < 4; looks++) {
        look_choose(&look);
        check_same(&c, &d, put_random_datagram(&d, &look, 1 + below(2)));
        for (unsigned variants = 0; variants < 24 && !fb_check_failures; variants++)
            check_same(&c, &d, put_variant(&d, &look));
        size_t sample = put_random_datagram(&d, &look, 3);
        check_in_little_room(&c, &d, sample);
    }
    if (decapsulate) CHECK(!c.of[0].learning.decoder->patterns.table);
    *fitting += c.fitting;
    *others += c.others;
    comparison_close(&c);
}

static void put_plan(text *lines, uint64_t round) {
    switch (round % 8) {
        case 0: text_put(lines, "%s", usual_columns); break;
        case 1: text_put(lines, "%s", scaled_columns); break;
        case 2:
            if (round % 64 == 2) plan_put_rich(lines);
            else plan_put_random(lines, FROM_RECORDS);
            break;
        default: plan_put_random(lines, FROM_FLOW_SAMPLES); break;
    }
}

static void gives_the_same_values_with_and_without_patterns(void) {
    uint64_t seed = read_number("FLOWBUF_SEED", 1),
             rounds = read_number("FLOWBUF_ROUNDS", getenv("FLOWBUF_SLOW_RUN") ? 6 : 150);
    size_t fitting = 0, others = 0;
    for (uint64_t i = 0; i < rounds && !fb_check_failures; i++) {
        text lines = {0};
        random_begin(fb_hash(seed, i));
        put_plan(&lines, i);
        run_round(text_of(&lines), below(16) == 0, below(16) ? 0 : ~0u, &fitting, &others);
        text_free(&lines);
        if (fb_check_failures)
            fprintf(stderr, "FLOWBUF_SEED=%llu, round %llu\n", (unsigned long long)seed,
                    (unsigned long long)i);
    }
    if (!fb_check_failures) CHECK(fitting > others / 2); /* otherwise the test shows nothing */
}

/* Changes of each byte ----------------------------------------------------------------------- */

/* Append a column for each source of flow samples, with these flags. */
static void plan_put_samples(text *lines, const char *flags) {
    for (unsigned i = FB_SOURCE_SFLOW_SAMPLING_RATE; i < FB_SOURCE_FIRST_RECORD; i++) {
        if (i >= FB_SOURCE_FIRST_NAME && i <= FB_SOURCE_DERIVED_OTHER_VALUES) continue;
        const char *type = fb_source_kind((fb_source)i) == FB_KIND_IP ? "ip" : "uint";
        text_put(lines, "%u c%u %s%s : %s\n", i, i, type, flags, fb_source_name((fb_source)i));
    }
}

static bool is_within(const uint8_t *p, const uint8_t *begin, size_t size) {
    return p >= begin && p < begin + size;
}

/* True if a byte may be part of a variable length. */
static bool is_length(const fb_pattern *pattern, const fb_sample_parts *parts, const uint8_t *p) {
    if (!pattern->header_needed) return false;
    if (is_within(p, parts->header.data - 4, 4) || is_within(p, parts->header.data - 16 - 4, 4))
        return true;
    if (!pattern->gateway_needed) return false;
    const uint8_t *path = parts->gateway.data + pattern->gateway_needed,
                  *end = parts->gateway.data + parts->gateway.size;
    return is_within(p, parts->gateway.data - 4, 4) || is_within(p, path, (size_t)(end - path));
}

/* True if a pattern checks a byte. */
static bool is_checked(const fb_pattern *pattern, const fb_sample_parts *parts, const uint8_t *p) {
    for (const fb_pattern_window *window = pattern->windows, *end = window + pattern->window_count;
         window < end; window++) {
        const uint8_t *begin = parts->part[window->part] + window->place;
        if (is_within(p, begin, FB_PATTERN_WINDOW) && window->mask[p - begin]) return true;
    }
    for (const fb_pattern_bound *bound = pattern->bounds, *end = bound + pattern->bound_count;
         bound < end; bound++)
        if (is_within(p, parts->part[bound->part] + bound->place, 4)) return true;
    return is_length(pattern, parts, p);
}

/* Set each byte to its extremes, its neighbours, and values one bit away. With `all`, bytes that a
   pattern checks get every value. */
static void check_bytes(comparison *c, byte_buffer *d, bool slow, bool all) {
    bool looked_at[FB_PATTERN_BYTES];
    fb_sample_parts parts;
    const fb_pattern *pattern = session_find_parts(&c->of[0].learning, d, FIRST_SAMPLE, &parts);
    CHECK(pattern != NULL);
    for (size_t i = 0; pattern && i < d->size - FIRST_SAMPLE; i++)
        looked_at[i] = is_checked(pattern, &parts, d->data + FIRST_SAMPLE + i);
    for (size_t at = FIRST_SAMPLE; pattern && at < d->size && !fb_check_failures; at++) {
        uint8_t was = d->data[at];
        const uint8_t others[] = {0, 255, (uint8_t)(was + 1), (uint8_t)(was - 1)};
        bool any = looked_at[at - FIRST_SAMPLE] && all && !slow;
        unsigned changes = slow ? 4 : 12;
        if (any) changes = 256;
        for (unsigned change = 0; change < changes; change++) {
            if (any) d->data[at] = (uint8_t)change;
            else if (change < 4) d->data[at] = others[change];
            else d->data[at] = (uint8_t)(was ^ 1u << (change - 4));
            check_same(c, d, FIRST_SAMPLE);
        }
        d->data[at] = was;
    }
}

static void checks_every_byte_that_matters(void) {
    static const char *const flags[] = {"", " explicit limit=100", " repeated", " limit=65535"};
    static byte_buffer d;
    bool slow = getenv("FLOWBUF_SLOW_RUN");
    for (unsigned i = 0; i < 6 * PLAIN_SAMPLES && !fb_check_failures; i++) {
        bool general = i >= 5 * PLAIN_SAMPLES; /* each sample again, with one plan */
        unsigned which = general ? i % PLAIN_SAMPLES : i / 5;
        text lines = {0};
        comparison c;
        if (i % 5 < 4) plan_put_samples(&lines, flags[i % 5]);
        comparison_open(&c, i % 5 < 4 ? text_of(&lines) : usual_columns, (fb_decoder_options){0},
                        general);
        build_plain_sample(&d, which);
        check_same(&c, &d, FIRST_SAMPLE);
        stop_learning(&c);
        check_bytes(&c, &d, slow, i % 5 == which);
        if (!fb_check_failures) CHECK(c.fitting > d.size);
        comparison_close(&c);
        text_free(&lines);
    }
}

/* Cut headers anywhere, with the last bytes before a guard page. */
static void reads_no_bytes_after_a_sample(void) {
    static const unsigned protos[] = {6, 17, 1}, protos_of_ipv6[] = {6, 17, 58};
    static byte_buffer d;
    text lines = {0};
    plan_put_samples(&lines, "");
    sample_look look = {.count = 1, .records = {1}, .protocol = 1, .tag_type = 0x8100, .wide = 8};
    size_t fitting = 0;
    /* exact and general */
    for (look.captured = 34; look.captured <= 90;
         look.captured += getenv("FLOWBUF_SLOW_RUN") ? 7 : 1) {
        comparison c;
        comparison_open(&c, text_of(&lines), (fb_decoder_options){0}, look.captured & 1);
        for (unsigned k = 0; k < 24; k++) {
            look.expanded = k & 1;
            look.etype = k & 2 ? 0x86dd : 0x0800;
            look.first_byte = k & 2 ? 0x60 : 0x45;
            look.tags = k >> 2 & 1;
            look.proto = (k & 2 ? protos_of_ipv6 : protos)[k / 8];
            for (unsigned times = 0; times < 7; times++) {
                look.length = times > 2 ? times - 3 : 0;
                check_same(&c, &d, put_random_datagram(&d, &look, 1));
            }
        }
        fitting += c.fitting;
        comparison_close(&c);
    }
    CHECK(fitting > 300);
    text_free(&lines);
}

/* Numbers and addresses differ between samples; the bytes behind them do not. */
static void learns_a_layout_once(void) {
    byte_buffer d, other;
    session s;
    session_open(&s, usual_columns, 1 << 16);
    for (unsigned round = 0; round < 2 * PLAIN_SAMPLES; round++) {
        s.decoder->patterns.general = round >= PLAIN_SAMPLES;
        build_plain_sample(&d, round % PLAIN_SAMPLES);
        session_feed(&s, &d);
        for (size_t at = FIRST_SAMPLE; at < d.size; at++) {
            fb_sample_parts parts;
            const fb_pattern *pattern = session_find_parts(&s, &d, FIRST_SAMPLE, &parts);
            other = d;
            other.data[at] ^= 0x08;
            CHECK(pattern != NULL);
            if (pattern && !is_checked(pattern, &parts, d.data + at))
                CHECK(session_find_pattern(&s, &other, FIRST_SAMPLE) == pattern);
        }
    }
    session_close(&s);
}

/* If there are too many layouts, the patterns become general. The output does not change. Few
   patterns match the input. */
static void learns_general_patterns_of_many_layouts(void) {
    static byte_buffer d;
    comparison c;
    size_t fitting = 0, rounds = getenv("FLOWBUF_SLOW_RUN") ? 300 : 1200;
    random_begin(4);
    comparison_open(&c, usual_columns, (fb_decoder_options){0}, false);
    for (size_t i = 0; i < rounds && !fb_check_failures; i++) {
        sample_look look = {.count = 2,
                            .records = {1, 1003},
                            .protocol = 1,
                            .etype = 0x0800,
                            .first_byte = 0x45,
                            .proto = below(2) ? 6 : 17,
                            .wide = 4};
        look.captured = 60 + below(70);
        look.segments = below(3);
        look.hops[0] = below(3), look.hops[1] = below(3);
        look.communities = below(4);
        if (i == rounds / 2) fitting = c.fitting;
        check_same(&c, &d, put_random_datagram(&d, &look, 1));
    }
    for (unsigned i = 0; i < c.kinds; i++) CHECK(c.of[i].learning.decoder->patterns.general);
    CHECK(c.fitting - fitting > rounds * 2 / 5);
    comparison_close(&c);
}

RUN_TESTS(TEST(gives_the_same_values_with_and_without_patterns),
          TEST(learns_general_patterns_of_many_layouts), TEST(checks_every_byte_that_matters),
          TEST(learns_a_layout_once), TEST(reads_no_bytes_after_a_sample))
