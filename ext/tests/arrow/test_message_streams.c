/* From message streams to rows: cut anywhere, with any byte changed, in batches of every size, and
   with little memory. Messages of the decoders are read back as the columns that the decoders
   write. FLOWBUF_ROUNDS and FLOWBUF_SEED choose random plans. */
#include "tests/builders/message_table.h"

#include "tests/builders/random_plan.h"
#include "tests/builders/random_sample.h"
#include "tests/builders/samples.h"

/* Compare any stream with the result of another reader. */
static void check_any_stream(table *t, const uint8_t *data, size_t size) {
    text expected = {0};
    uint64_t unknown = 0, before = t->reader.unknown_fields;
    size_t taken;
    fb_status status = describe_any_messages(&expected, &t->plan, data, size, &unknown);
    fb_batch_free(t->batch);
    CHECK_STATUS(fb_batch_new(&t->batch, t->plan.plan, 100, t->memory), FB_OK);
    CHECK_STATUS(table_read(t, data, size, &taken), status);
    CHECK_TEXT(table_text(t), text_of(&expected));
    CHECK_EQUAL(t->reader.unknown_fields - before, unknown);
    text_free(&expected);
}

static void reads_every_prefix_of_a_stream(void) {
    text lines = {0};
    byte_buffer d = build_stream();
    table t;
    put_every_column(&lines);
    table_open(&t, text_of(&lines), 1);
    for (size_t size = 0; size <= d.size; size++) {
        check_any_stream(&t, d.data, size);
        CHECK(!t.fault.kind);
    }
    table_close(&t);
    text_free(&lines);
}

static void continues_after_every_cut(void) {
    text lines = {0};
    byte_buffer d = build_stream();
    put_every_column(&lines);
    for (size_t cut = 0; cut <= d.size; cut++) {
        table t;
        size_t taken, more;
        text whole = {0};
        uint64_t unknown = 0;
        table_open(&t, text_of(&lines), 100);
        describe_any_messages(&whole, &t.plan, d.data, d.size, &unknown);
        fb_status status = table_read(&t, d.data, cut, &taken);
        CHECK(status == (taken == cut ? FB_END : FB_MORE_INPUT));
        CHECK_STATUS(table_read(&t, d.data + taken, d.size - taken, &more), FB_END);
        CHECK_TEXT(table_text(&t), text_of(&whole));
        CHECK_EQUAL(t.reader.unknown_fields, unknown);
        text_free(&whole);
        table_close(&t);
    }
    text_free(&lines);
}

static void survives_every_corrupted_byte(void) {
    text lines = {0};
    byte_buffer d = build_stream();
    table t;
    put_every_column(&lines);
    table_open(&t, text_of(&lines), 1);
    for (size_t i = 0; i < d.size; i++) {
        uint8_t right = d.data[i];
        for (unsigned wrong = 0; wrong < 256; wrong++) {
            d.data[i] = (uint8_t)wrong;
            check_any_stream(&t, d.data, d.size);
        }
        d.data[i] = right;
    }
    table_close(&t);
    text_free(&lines);
}

static void gives_the_same_rows_at_every_batch_size(void) {
    text lines = {0}, whole = {0};
    byte_buffer d = build_stream();
    table t;
    uint64_t unknown = 0;
    put_every_column(&lines);
    table_open(&t, text_of(&lines), 1);
    describe_any_messages(&whole, &t.plan, d.data, d.size, &unknown);
    for (size_t rows = 1; rows < 8; rows++) {
        text described = {0};
        t.reader.unknown_fields = 0;
        read_in_batches(&t, d.data, d.size, rows, &described);
        CHECK_TEXT(text_of(&described), text_of(&whole));
        CHECK_EQUAL(t.reader.unknown_fields, unknown);
        text_free(&described);
    }
    table_close(&t);
    text_free(&whole);
    text_free(&lines);
}

/* Read a message that is cut after each of its bytes and followed by few bytes and a guard page. */
static void reads_no_bytes_after_the_stream(void) {
    byte_buffer m = two_byte_fields();
    for (size_t i = 0; i < sizeof table_processors / sizeof *table_processors; i++) {
        table t;
        table_open_for(table_processors[i], &t, two_byte_tags, 1);
        for (size_t cut = 0; cut <= m.size; cut++)
            for (size_t behind = 0; behind <= 40; behind += behind ? 1 : 28) {
                byte_buffer d = {0};
                put_varint(&d, cut);
                put_bytes(&d, m.data, cut + behind < m.size ? cut + behind : m.size);
                check_any_stream(&t, d.data, d.size);
            }
        table_close(&t);
    }
}

/* Little memory ------------------------------------------------------------------------------ */

/* Return true if no allocation failed. */
static bool read_with_little(const char *lines, const byte_buffer *d, size_t fail_at) {
    fb_check_allocator allocator = {.fail_at = 0};
    fb_memory memory = fb_check_memory(&allocator);
    named_plan plan;
    fb_message_columns reader = {0};
    fb_batch *batch = NULL;
    fb_message_fault fault;
    fb_bytes rest = {d->data, d->size};
    CHECK_STATUS(plan_read(&plan, lines, &memory), FB_OK);
    allocator.fail_at = allocator.calls + fail_at;
    fb_status status = fb_message_columns_new(&reader, plan.plan, (fb_processor)0, &memory);
    if (status == FB_OK) status = fb_batch_new(&batch, plan.plan, 10, memory);
    if (status == FB_OK) status = fb_message_columns_read(&reader, &rest, batch, &fault);
    bool whole = status == FB_END;
    if (!whole) CHECK_STATUS(status, batch && batch->rows ? FB_NO_SPACE : FB_NO_MEMORY);
    if (batch && !whole) { /* reading continues after the failure */
        status = fb_message_columns_read(&reader, &rest, batch, &fault);
        CHECK_STATUS(status, FB_END);
    }
    if (batch) CHECK_EQUAL(batch->rows, 5);
    fb_batch_free(batch);
    fb_message_columns_free(&reader);
    plan_free(&plan);
    CHECK_EQUAL(allocator.held, 0);
    return whole;
}

static void survives_every_failed_allocation(void) {
    text lines = {0};
    byte_buffer d = build_stream();
    size_t fail_at = 1;
    put_every_column(&lines);
    while (!read_with_little(text_of(&lines), &d, fail_at)) fail_at++;
    CHECK(fail_at > 10);
    text_free(&lines);
}

/* Offsets have 31 bits. A text that may exceed them is not stored. */
static void stops_before_offsets_overflow(void) {
    table t;
    byte_buffer d = {0};
    size_t size = (size_t)INT32_MAX / 16 + 1;
    put_varint(&d, 1 + 4 + size);
    put_key(&d, 1, 2);
    put_varint(&d, size);
    fb_bytes stream = {calloc(1, d.size + size), d.size + size}, rest = stream;
    CHECK(stream.data);
    memcpy((uint8_t *)(uintptr_t)stream.data, d.data, d.size);
    table_open(&t, "1 a bytes\n2 b uint", 10);
    CHECK_STATUS(fb_message_columns_read(&t.reader, &rest, t.batch, &t.fault), FB_NO_MEMORY);
    CHECK_EQUAL(t.batch->rows, 0);
    CHECK_STATUS(table_read(&t, "\2\x10\1", 3, &(size_t){0}), FB_END);
    CHECK_STATUS(fb_message_columns_read(&t.reader, &rest, t.batch, &t.fault), FB_NO_SPACE);
    CHECK(rest.data == stream.data);
    CHECK_TEXT(table_text(&t), "b=1\n");
    free((void *)(uintptr_t)stream.data);
    table_close(&t);
}

/* Messages of the decoders ------------------------------------------------------------------- */

/* Decode datagrams to messages and then to columns, and directly to columns. */
typedef struct {
    session session;
    table table;
    fb_decoder *decoder;
    fb_columns columns;
    fb_memory memory;
    bool native; /* some addresses keep their width, which columns do not store */
} comparison;

static void comparison_open(comparison *c, const char *lines) {
    memset(c, 0, sizeof *c);
    session_open(&c->session, lines, 1 << 16);
    table_open(&c->table, lines, 1);
    c->memory = fb_memory_system(0);
    CHECK_STATUS(
        fb_decoder_new(&c->decoder, c->session.plan.plan, (fb_decoder_options){0}, &c->memory),
        FB_OK);
    CHECK_STATUS(fb_columns_new(&c->columns, c->session.plan.plan, &c->memory), FB_OK);
    c->native = strstr(lines, "native_ip");
}

static void comparison_close(comparison *c) {
    fb_decoder_free(c->decoder);
    fb_columns_free(&c->columns);
    table_close(&c->table);
    session_close(&c->session);
}

static void decode_columns(comparison *c, const byte_buffer *d, text *described) {
    fb_datagram datagram = datagram_of(d->data, d->size, SOURCE_ADDRESS);
    fb_position position = {0};
    fb_status status;
    do {
        fb_batch *batch;
        CHECK_STATUS(fb_batch_new(&batch, c->session.plan.plan, 4, c->memory), FB_OK);
        fb_columns_set_batch(&c->columns, batch);
        status = fb_columns_decode(c->decoder, &datagram, 1, &position, &c->columns);
        describe_batch(described, &c->session.plan, batch);
        fb_batch_free(batch);
    } while (status == FB_NO_SPACE);
}

static void check_datagram(comparison *c, const byte_buffer *d) {
    text read = {0}, plain = {0}, decoded = {0};
    uint64_t unknown = 0;
    session *s = &c->session;
    session_forget(s);
    session_feed(s, d);
    read_in_batches(&c->table, s->output, fb_row_size(&s->row), 1 + below(9), &read);
    CHECK_STATUS(describe_any_messages(&plain, &s->plan, s->output, fb_row_size(&s->row), &unknown),
                 FB_END);
    decode_columns(c, d, &decoded);
    CHECK_TEXT(text_of(&read), text_of(&plain));
    CHECK_TEXT(text_of(&read), text_of(&decoded));
    if (!c->native) CHECK_TEXT(text_of(&read), session_text(s));
    CHECK_EQUAL(unknown + c->table.reader.unknown_fields, 0);
    text_free(&read), text_free(&plain), text_free(&decoded);
}

static void check_plan(const char *lines) {
    comparison c;
    byte_buffer d;
    comparison_open(&c, lines);
    for (size_t i = 0; i < sample_count; i++) {
        samples[i].build(&d);
        check_datagram(&c, &d);
    }
    for (unsigned round = 0; round < 20; round++) {
        sample_look look;
        look_choose(&look);
        put_random_datagram(&d, &look, 1 + below(3));
        check_datagram(&c, &d);
    }
    comparison_close(&c);
}

static void reads_messages_of_the_decoders(void) {
    text lines = {0};
    random_begin(1);
    plan_put_rich(&lines);
    check_plan(usual_columns);
    check_plan(scaled_columns);
    check_plan(text_of(&lines));
    text_clear(&lines);
    plan_put_counters(&lines);
    check_plan(text_of(&lines));
    text_free(&lines);
}

static void reads_messages_of_random_plans(void) {
    uint64_t seed = read_number("FLOWBUF_SEED", 1), rounds = read_number("FLOWBUF_ROUNDS", 100);
    for (uint64_t i = 0; i < rounds; i++) {
        text lines = {0};
        int before = fb_check_failures;
        random_begin(fb_hash(seed, i));
        plan_put_random(&lines, below(2) ? FROM_RECORDS : FROM_FLOW_SAMPLES);
        check_plan(text_of(&lines));
        if (fb_check_failures != before)
            fprintf(stderr, "round %llu\n%s\n", (unsigned long long)i, text_of(&lines));
        text_free(&lines);
        if (fb_check_failures != before) return;
    }
}

RUN_TESTS(TEST(reads_every_prefix_of_a_stream), TEST(continues_after_every_cut),
          TEST(survives_every_corrupted_byte), TEST(gives_the_same_rows_at_every_batch_size),
          TEST(reads_no_bytes_after_the_stream), TEST(survives_every_failed_allocation),
          TEST(stops_before_offsets_overflow), TEST(reads_messages_of_the_decoders),
          TEST(reads_messages_of_random_plans))
