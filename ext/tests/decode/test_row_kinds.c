/* Several kinds of rows in one pass: flows, counter samples and options, each in an output of its
   own. The same datagrams in a pass for each kind are the reference. */
#include "tests/support/session.h"

#include "tests/builders/samples.h"

enum { KINDS = FB_ROWS_COUNT };

/* A decoder with an output per kind of rows. Each output ends at a guard page. */
typedef struct {
    fb_check_allocator allocator;
    fb_memory memory;
    named_plan plan[KINDS];
    fb_decoder *decoder;
    fb_row row[KINDS];
    uint8_t *output[KINDS];
    size_t capacity[KINDS];
    unsigned opened; /* outputs */
    text text;
} kinds;

static const char *columns_of(unsigned kind) {
    const char *const columns[KINDS] = {usual_columns, counter_columns, options_columns};
    return columns[kind];
}

static void kinds_free(kinds *k) {
    fb_decoder_free(k->decoder);
    for (unsigned i = 0; i < k->opened; i++) {
        fb_row_free(&k->row[i]);
        plan_free(&k->plan[i]);
        fb_guarded_free(k->output[i], k->capacity[i]);
    }
    text_free(&k->text);
}

static fb_status open_rows(kinds *k, unsigned kind, size_t capacity) {
    fb_status status = plan_read(&k->plan[kind], columns_of(kind), &k->memory);
    if (status != FB_OK) return status;
    k->opened++;
    k->capacity[kind] = capacity;
    k->output[kind] = fb_guarded_room_of(capacity);
    if ((status = fb_row_new(&k->row[kind], k->plan[kind].plan, &k->memory)) != FB_OK)
        return status;
    fb_row_set_output(&k->row[kind], k->output[kind], capacity, 0);
    return FB_OK;
}

/* Open a decoder of all kinds with outputs of these capacities. The caller has prepared the
   allocator, and frees `k` after any status. */
static fb_status kinds_try(kinds *k, size_t flows, size_t others) {
    const fb_decoder_options options = {0};
    k->memory = fb_check_memory(&k->allocator);
    fb_status status = open_rows(k, FB_ROWS_FLOWS, flows);
    if (status == FB_OK) status = open_rows(k, FB_ROWS_COUNTERS, others);
    if (status == FB_OK) status = open_rows(k, FB_ROWS_OPTIONS, others);
    if (status == FB_OK)
        status = fb_decoder_new(&k->decoder, k->plan[FB_ROWS_FLOWS].plan, options, &k->memory);
    if (status != FB_OK) return status;
    for (unsigned i = 1; status == FB_OK && i < KINDS; i++) {
        k->row[FB_ROWS_FLOWS].others[i] = &k->row[i];
        status = fb_decoder_add_rows(k->decoder, k->plan[i].plan);
    }
    return status;
}

static void kinds_open(kinds *k, size_t flows, size_t others) {
    memset(k, 0, sizeof *k);
    CHECK_STATUS(kinds_try(k, flows, others), FB_OK);
}

static void kinds_close(kinds *k) {
    kinds_free(k);
    CHECK_EQUAL(k->memory.used + k->allocator.held, 0);
}

/* Give the full output exactly the room that its row needs. */
static void grow_full(kinds *k) {
    unsigned i = k->decoder->full;
    size_t used = fb_row_size(&k->row[i]), capacity = used + k->row[i].needed;
    uint8_t *output = fb_guarded_room_of(capacity);
    CHECK(capacity > k->capacity[i]);
    memcpy(output, k->output[i], used);
    fb_guarded_free(k->output[i], k->capacity[i]);
    k->output[i] = output;
    k->capacity[i] = capacity;
    fb_row_set_output(&k->row[i], output, capacity, used);
}

static void kinds_feed_batch(kinds *k, const fb_datagram *batch, size_t size) {
    fb_position position = {0};
    while (fb_row_decode(k->decoder, batch, size, &position, k->row) == FB_NO_SPACE) grow_full(k);
}

static void kinds_feed(kinds *k, const byte_buffer *d) {
    uint8_t *copy = fb_guarded_copy(d->data, d->size);
    fb_datagram datagram = datagram_of(copy, d->size, SOURCE_ADDRESS);
    kinds_feed_batch(k, &datagram, 1);
    fb_guarded_free(copy, d->size);
}

static const char *kinds_text(kinds *k, unsigned i) {
    text_clear(&k->text);
    describe_messages(&k->text, &k->plan[i], k->output[i], fb_row_size(&k->row[i]));
    return text_of(&k->text);
}

static void kinds_forget(kinds *k) {
    for (unsigned i = 0; i < KINDS; i++)
        fb_row_set_output(&k->row[i], k->output[i], k->capacity[i], 0);
}

/* All samples, and a datagram in which the kinds of samples alternate. */
static size_t build_all(byte_buffer *d) {
    for (size_t i = 0; i < sample_count; i++) samples[i].build(&d[i]);
    byte_buffer *mixed = &d[sample_count];
    sflow_begin(mixed, 6, (sflow_header){.agent = 0xc6336402, .sequence = 7, .uptime = 1});
    for (uint32_t i = 0; i < 3; i++) {
        size_t sample = sample_begin(mixed, 2), record;
        put32(mixed, 5 + i), put32(mixed, 7), put32(mixed, 1);
        record = record_begin(mixed, 1001);
        for (uint32_t word = 0; word < 7; word++) put32(mixed, 10 * i + word);
        record_end(mixed, record), sample_end(mixed, sample);
        sample = flow_sample_begin(mixed, 0, (flow_sample){.sequence = i, .rate = 10 + i});
        sample_end(mixed, sample);
    }
    return sample_count + 1;
}

enum { MOST = 24 };
static byte_buffer built[MOST];

static size_t make_batch(fb_datagram *batch) {
    size_t count = build_all(built);
    for (size_t i = 0; i < count; i++)
        batch[i] = datagram_of(built[i].data, built[i].size, SOURCE_ADDRESS);
    return count;
}

/* Check that one pass has given the rows of a pass for each kind. */
static void check_passes(kinds *k, const fb_datagram *batch, size_t count) {
    for (unsigned i = 0; i < KINDS; i++) {
        session single;
        session_open(&single, columns_of(i), 1 << 18);
        session_feed_batch(&single, batch, count);
        CHECK_BYTES(k->output[i], fb_row_size(&k->row[i]), single.output, fb_row_size(&single.row));
        CHECK_EQUAL(count_all(k->decoder).rows[i], single.row.count);
        session_close(&single);
    }
}

static void writes_each_kind_to_its_output(void) {
    fb_datagram batch[MOST];
    size_t count = make_batch(batch);
    kinds k;
    kinds_open(&k, 1 << 18, 1 << 18);
    kinds_feed_batch(&k, batch, count);
    check_passes(&k, batch, count);
    CHECK(k.row[FB_ROWS_FLOWS].count > 10);
    CHECK_EQUAL(k.row[FB_ROWS_COUNTERS].count, 8);
    CHECK_EQUAL(k.row[FB_ROWS_OPTIONS].count, 4);
    CHECK_EQUAL(count_all(k.decoder).options_records, 4);
    CHECK_EQUAL(count_all(k.decoder).datagrams, count);
    CHECK_EQUAL(count_all(k.decoder).status[FB_COUNTER_SAMPLE], 0);
    CHECK_EQUAL(count_all(k.decoder).status[FB_DROP_SAMPLE], 0);
    CHECK_EQUAL(count_all(k.decoder).status[FB_FLOWS_LEFT_OUT], 0);
    kinds_close(&k);
}

static void counts_samples_without_an_output(void) {
    byte_buffer d;
    kinds k;
    kinds_open(&k, 1 << 16, 1 << 16);
    k.row[FB_ROWS_FLOWS].others[FB_ROWS_COUNTERS] = NULL;
    for (size_t i = 0; i < sample_count; i++) {
        samples[i].build(&d);
        if (strcmp(samples[i].name, "sflow_counters") == 0) kinds_feed(&k, &d);
    }
    CHECK_EQUAL(k.row[FB_ROWS_COUNTERS].count, 0);
    CHECK_EQUAL(count_all(k.decoder).status[FB_COUNTER_SAMPLE], 2);
    CHECK_EQUAL(count_all(k.decoder).status[FB_DROP_SAMPLE], 1);
    kinds_close(&k);
}

static void refuses_a_second_plan_of_a_kind(void) {
    kinds k;
    named_plan other;
    fb_decoder *decoder;
    kinds_open(&k, 0, 0);
    CHECK_STATUS(fb_decoder_add_rows(k.decoder, k.plan[FB_ROWS_COUNTERS].plan), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_decoder_add_rows(k.decoder, k.plan[FB_ROWS_FLOWS].plan), FB_BAD_ARGUMENT);
    CHECK_STATUS(plan_read(&other, counter_columns, &k.memory), FB_OK);
    CHECK_STATUS(fb_decoder_new(&decoder, other.plan, (fb_decoder_options){0}, &k.memory), FB_OK);
    CHECK_STATUS(fb_decoder_add_rows(decoder, k.plan[FB_ROWS_FLOWS].plan), FB_BAD_ARGUMENT);
    fb_decoder_free(decoder);
    plan_free(&other);
    kinds_close(&k);
}

/* Outputs that are full at any place --------------------------------------------------------- */

static void check_capacity(const kinds *whole, const fb_datagram *batch, size_t count, size_t flows,
                           size_t others) {
    fb_counters expected = count_all(whole->decoder);
    kinds k;
    kinds_open(&k, flows, others);
    kinds_feed_batch(&k, batch, count);
    fb_counters seen = count_all(k.decoder);
    for (unsigned i = 0; i < KINDS; i++)
        CHECK_BYTES(k.output[i], fb_row_size(&k.row[i]), whole->output[i],
                    fb_row_size(&whole->row[i]));
    CHECK_BYTES(&seen, sizeof seen, &expected, sizeof expected);
    kinds_close(&k);
}

static void gives_the_same_rows_at_every_capacity(void) {
    fb_datagram batch[MOST];
    size_t count = make_batch(batch), step = getenv("FLOWBUF_SLOW_RUN") ? 97 : 7;
    kinds whole;
    kinds_open(&whole, 1 << 18, 1 << 18);
    kinds_feed_batch(&whole, batch, count);
    size_t most = 0;
    for (unsigned i = 0; i < KINDS; i++) {
        size_t needed = fb_row_size(&whole.row[i]) + whole.plan[i].plan->max_fixed_size;
        if (most < needed) most = needed;
    }
    for (size_t capacity = 0; capacity < most; capacity += step) {
        check_capacity(&whole, batch, count, capacity, 1 << 18);
        check_capacity(&whole, batch, count, 1 << 18, capacity);
        check_capacity(&whole, batch, count, capacity, most - capacity);
    }
    kinds_close(&whole);
}

/* Decode all samples into batches of these sizes, and append the text of each batch. If one is
   full, it is replaced, or with `all` those of the other kinds too. */
static fb_counters decode_batches(const size_t rows[KINDS], bool all, text described[KINDS]) {
    fb_datagram datagrams[MOST];
    size_t count = make_batch(datagrams);
    fb_position position = {0};
    fb_columns columns[KINDS];
    fb_batch *batch[KINDS];
    fb_status status;
    kinds k;
    kinds_open(&k, 0, 0);
    for (unsigned i = 0; i < KINDS; i++) {
        CHECK_STATUS(fb_columns_new(&columns[i], k.plan[i].plan, &k.memory), FB_OK);
        CHECK_STATUS(fb_batch_new(&batch[i], k.plan[i].plan, rows[i], k.memory), FB_OK);
        fb_columns_set_batch(&columns[i], batch[i]);
    }
    for (unsigned i = 1; i < KINDS; i++) columns[0].others[i] = &columns[i];
    do {
        status = fb_columns_decode(k.decoder, datagrams, count, &position, columns);
        for (unsigned i = 0; i < KINDS; i++) {
            bool is_full = status == FB_NO_SPACE && i == k.decoder->full;
            if (status == FB_NO_SPACE && !is_full && !all) continue;
            CHECK(batch[i]->rows || (all && !is_full));
            describe_batch(&described[i], &k.plan[i], batch[i]);
            fb_batch_free(batch[i]);
            CHECK_STATUS(fb_batch_new(&batch[i], k.plan[i].plan, rows[i], k.memory), FB_OK);
            fb_columns_set_batch(&columns[i], batch[i]);
        }
    } while (status == FB_NO_SPACE);
    fb_counters counters = count_all(k.decoder);
    for (unsigned i = 0; i < KINDS; i++) {
        fb_batch_free(batch[i]);
        fb_columns_free(&columns[i]);
    }
    kinds_close(&k);
    return counters;
}

static void check_batches(const size_t rows[KINDS], bool all, const fb_counters *counters,
                          const text whole[KINDS]) {
    text parts[KINDS] = {{0}};
    fb_counters seen = decode_batches(rows, all, parts);
    CHECK_BYTES(&seen, sizeof seen, counters, sizeof *counters);
    for (unsigned i = 0; i < KINDS; i++) {
        CHECK_TEXT(text_of(&parts[i]), text_of(&whole[i]));
        text_free(&parts[i]);
    }
}

static void gives_the_same_rows_at_every_batch_size(void) {
    const size_t large[KINDS] = {1000, 1000, 1000};
    text whole[KINDS] = {{0}};
    fb_counters counters = decode_batches(large, false, whole);
    for (size_t flows = 2; flows < counters.rows[FB_ROWS_FLOWS] + 2; flows++)
        for (size_t others = 2; others < counters.rows[FB_ROWS_COUNTERS] + 2; others++) {
            const size_t rows[KINDS] = {flows, others, others};
            check_batches(rows, false, &counters, whole);
            check_batches(rows, true, &counters, whole);
        }
    for (unsigned i = 0; i < KINDS; i++) text_free(&whole[i]);
}

/* Hostile samples ---------------------------------------------------------------------------- */

static void check_messages(kinds *k) {
    uint64_t rows = 0, counted = 0;
    for (unsigned i = 0; i < k->opened && k->decoder; i++) {
        CHECK(!strstr(kinds_text(k, i), NOT_A_MESSAGE));
        rows += k->row[i].count;
        counted += count_all(k->decoder).rows[i];
    }
    CHECK_EQUAL(rows, counted);
}

static void survives_every_prefix(void) {
    size_t count = build_all(built);
    for (size_t i = 0; i < count; i++) {
        byte_buffer d = built[i];
        kinds k;
        kinds_open(&k, 1 << 16, 1 << 16);
        for (d.size = 0; d.size <= built[i].size; d.size++) {
            kinds_forget(&k);
            kinds_feed(&k, &d);
            check_messages(&k);
        }
        kinds_close(&k);
    }
}

static void survives_every_corrupted_byte(void) {
    size_t count = build_all(built);
    for (size_t i = 0; i < count; i++) {
        byte_buffer d = built[i];
        kinds k;
        kinds_open(&k, 1 << 16, 1 << 16);
        for (size_t at = 0; at < d.size; at++) {
            uint8_t was = d.data[at];
            const uint8_t others[] = {0, 0xff, (uint8_t)(was + 1), (uint8_t)(was ^ 0x80)};
            for (unsigned change = 0; change < sizeof others; change++) {
                d.data[at] = others[change];
                kinds_forget(&k);
                kinds_feed(&k, &d);
                check_messages(&k);
            }
            d.data[at] = was;
        }
        kinds_close(&k);
    }
}

static void survives_every_failed_allocation(void) {
    size_t count = build_all(built);
    for (size_t fail_at = 1;; fail_at++) {
        kinds k;
        memset(&k, 0, sizeof k);
        k.allocator = (fb_check_allocator){.fail_at = fail_at};
        fb_status status = kinds_try(&k, 1 << 16, 1 << 16);
        if (status == FB_OK)
            for (size_t i = 0; i < count; i++) kinds_feed(&k, &built[i]);
        else CHECK_STATUS(status, FB_NO_MEMORY);
        bool done = k.allocator.calls < fail_at;
        check_messages(&k);
        kinds_close(&k);
        if (done) return;
    }
}

RUN_TESTS(TEST(writes_each_kind_to_its_output), TEST(counts_samples_without_an_output),
          TEST(refuses_a_second_plan_of_a_kind), TEST(gives_the_same_rows_at_every_capacity),
          TEST(gives_the_same_rows_at_every_batch_size), TEST(survives_every_prefix),
          TEST(survives_every_corrupted_byte), TEST(survives_every_failed_allocation))
