/* Fuzzes the decoder with several datagrams of any content. The messages must be the same for every
   output size. The other emitters must give the same values: columns, in batches of few rows, and
   the emitter of the tests (tests/support/trace.h).

   Input: a byte of options, then datagrams. The options are 1: late columns have hooks; 2: few
   columns instead of all; 4: rows of counters; 8: tunnels are opened; 16: all kinds of rows in one
   pass; 32: rows of options. A datagram is a length of two bytes (big-endian) and as many bytes, or
   all that remain. */
#include "fuzz/fuzz.h"

#include "tests/support/session.h"
#include "tests/support/trace.h"

enum {
    OPTION_HOOK = 1,
    OPTION_USUAL = 2,
    OPTION_COUNTERS = 4,
    OPTION_TUNNELS = 8,
    OPTION_KINDS = 16,
    OPTION_OPTIONS = 32,
    MAX_DATAGRAMS = 64,
    MAX_INPUT = 16384,
};

/* Plans are read once and live as long as the process. */
static const named_plan *get_plan(bool usual, fb_rows rows) {
    static named_plan plans[2][FB_ROWS_COUNT];
    static fb_memory memory;
    if (!plans[0][0].plan) {
        text rich = {0}, rich_counters = {0};
        plan_put_rich(&rich);
        plan_put_counters(&rich_counters);
        const char *lines[2][FB_ROWS_COUNT] = {
            {text_of(&rich), text_of(&rich_counters), options_columns},
            {usual_columns, counter_columns, options_columns},
        };
        memory = fb_memory_system(0);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned k = 0; k < FB_ROWS_COUNT; k++) {
                MUST(plan_read(&plans[i][k], lines[i][k], &memory) == FB_OK);
                MUST(plans[i][k].plan->rows == k);
            }
        text_free(&rich);
        text_free(&rich_counters);
    }
    return &plans[usual][rows];
}

static size_t split(const uint8_t *data, size_t size, fb_datagram *datagrams) {
    size_t count = 0;
    while (size > 2 && count < MAX_DATAGRAMS) {
        size_t length = (size_t)data[0] << 8 | data[1];
        data += 2, size -= 2;
        if (length > size) length = size;
        /* its own allocation, so that a sanitizer detects reads past its end */
        uint8_t *copy = malloc(length ? length : 1);
        MUST(copy);
        memcpy(copy, data, length);
        datagrams[count] = datagram_of(copy, length, SOURCE_ADDRESS + (uint32_t)(length % 3 == 0));
        datagrams[count++].source_port = (uint16_t)(length % 5);
        data += length, size -= length;
    }
    return count;
}

static void halve_late_columns(void *context, void *deferred) {
    const named_plan *plan = context;
    for (uint16_t i = 0; i < plan->count; i++) {
        fb_deferred_value *value = fb_deferred_values_find(deferred, i);
        if (value && value->state == FB_DEFERRED_UINT &&
            plan->plan->columns[i].flags & FB_COLUMN_LATE)
            value->number /= 2;
    }
}

typedef struct {
    uint8_t *data;
    size_t size, capacity;
} messages;

static void append_messages(messages *m, const fb_row *row) {
    size_t size = fb_row_size(row);
    if (m->size + size > m->capacity) {
        m->capacity = 2 * (m->size + size);
        m->data = realloc(m->data, m->capacity);
        MUST(m->data);
    }
    if (size) memcpy(m->data + m->size, row->data, size);
    m->size += size;
}

/* Pending sets have little room, so that the oldest is dropped. */
static fb_decoder_options decoder_options(unsigned options) {
    return (fb_decoder_options){
        .exporter_memory = 1 << 20,
        .early_data_limit = 2000,
        .early_data_total = 3000,
        .obey_withdrawals = true,
        .decapsulate = options & OPTION_TUNNELS ? ~0u : 0,
    };
}

/* An output of one kind of rows, and the messages that were in it before. */
typedef struct {
    fb_row row;
    uint8_t *output;
    size_t capacity;
    messages all;
} kind_output;

static void open_output(kind_output *kind, const named_plan *plan, size_t capacity,
                        fb_memory *memory) {
    *kind = (kind_output){.output = malloc(capacity ? capacity : 1), .capacity = capacity};
    MUST(kind->output);
    MUST(fb_row_new(&kind->row, plan->plan, memory) == FB_OK);
    fb_row_set_output(&kind->row, kind->output, capacity, 0);
}

/* Empty an output, and make it as large as its next row. */
static void empty_output(kind_output *kind) {
    append_messages(&kind->all, &kind->row);
    if (kind->row.needed > kind->capacity) {
        kind->output = realloc(kind->output, kind->capacity = kind->row.needed);
        MUST(kind->output);
    }
    fb_row_set_output(&kind->row, kind->output, kind->capacity, 0);
}

static messages close_output(kind_output *kind) {
    append_messages(&kind->all, &kind->row);
    fb_row_free(&kind->row);
    free(kind->output);
    return kind->all;
}

/* Decode the rows of several plans in one pass. The hook is that of the first one. The buffers have
   `capacity` bytes, or the size that a row needs if that is larger. `all` has an item per kind of
   rows. */
static void decode_kinds(const named_plan *const *plans, unsigned count_plans,
                         const fb_datagram *batch, size_t count, size_t capacity, unsigned options,
                         messages all[FB_ROWS_COUNT], fb_counters *counters) {
    fb_memory memory = fb_memory_system(0);
    fb_decoder *decoder;
    fb_position position = {0};
    kind_output outputs[FB_ROWS_COUNT];
    fb_row *row = &outputs[plans[0]->plan->rows].row;
    MUST(fb_decoder_new(&decoder, plans[0]->plan, decoder_options(options), &memory) == FB_OK);
    for (unsigned i = 0; i < count_plans; i++) {
        const unsigned rows = plans[i]->plan->rows;
        open_output(&outputs[rows], plans[i], capacity, &memory);
        if (!i) continue;
        row->others[rows] = &outputs[rows].row;
        MUST(fb_decoder_add_rows(decoder, plans[i]->plan) == FB_OK);
    }
    if (options & OPTION_HOOK)
        fb_deferred_values_set_hook(&row->deferred, halve_late_columns,
                                    (void *)(uintptr_t)plans[0]);
    while (fb_row_decode(decoder, batch, count, &position, row) == FB_NO_SPACE)
        empty_output(&outputs[decoder->full]);
    fb_decoder_finish(decoder);
    *counters = count_all(decoder);
    fb_decoder_free(decoder);
    for (unsigned i = 0; i < count_plans; i++)
        all[plans[i]->plan->rows] = close_output(&outputs[plans[i]->plan->rows]);
    MUST(memory.used == 0);
}

static messages decode(const named_plan *plan, const fb_datagram *batch, size_t count,
                       size_t capacity, unsigned options, fb_counters *counters) {
    messages all[FB_ROWS_COUNT];
    decode_kinds(&plan, 1, batch, count, capacity, options, all, counters);
    return all[plan->plan->rows];
}

static void check_equal(const messages *a, const messages *b) {
    MUST(a->size == b->size);
    MUST(a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

/* Check one pass for all kinds of rows. Its output does not depend on the size of the buffers, and
   its flows equal those of a pass for flows alone. */
static void check_kinds(const fb_datagram *batch, size_t count, size_t capacity, unsigned options) {
    const named_plan *plans[FB_ROWS_COUNT];
    messages whole[FB_ROWS_COUNT], pieces[FB_ROWS_COUNT];
    fb_counters counters, again, alone;
    for (unsigned i = 0; i < FB_ROWS_COUNT; i++) plans[i] = get_plan(options & OPTION_USUAL, i);
    options &= ~(unsigned)OPTION_HOOK;
    decode_kinds(plans, FB_ROWS_COUNT, batch, count, 1 << 20, options, whole, &counters);
    decode_kinds(plans, FB_ROWS_COUNT, batch, count, capacity, options, pieces, &again);
    MUST(memcmp(&counters, &again, sizeof counters) == 0);
    messages flows = decode(plans[FB_ROWS_FLOWS], batch, count, 1 << 20, options, &alone);
    check_equal(&whole[FB_ROWS_FLOWS], &flows);
    for (unsigned i = 0; i < FB_ROWS_COUNT; i++) {
        check_equal(&whole[i], &pieces[i]);
        free(whole[i].data);
        free(pieces[i].data);
    }
    free(flows.data);
}

static void decode_trace(const named_plan *plan, fb_decoder *decoder, const fb_datagram *batch,
                         size_t count, text *flows) {
    fb_position position = {0};
    trace trace;
    trace_new(&trace, plan);
    trace.refuse_each = 5;
    while (trace_decode(decoder, batch, count, &position, &trace) == FB_NO_SPACE) continue;
    text_put(flows, "%s", text_of(&trace.text));
    trace_free(&trace);
}

static void decode_columns(const named_plan *plan, fb_decoder *decoder, const fb_datagram *batch,
                           size_t count, text *flows) {
    fb_memory memory = fb_memory_system(0);
    fb_position position = {0};
    fb_columns columns;
    fb_status status;
    MUST(fb_columns_new(&columns, plan->plan, &memory) == FB_OK);
    do {
        fb_batch *rows;
        MUST(fb_batch_new(&rows, plan->plan, 2 + 50 * (count % 5), memory) == FB_OK);
        fb_columns_set_batch(&columns, rows);
        status = fb_columns_decode(decoder, batch, count, &position, &columns);
        MUST(status == FB_OK || rows->rows);
        describe_batch(flows, plan, rows);
        fb_batch_free(rows);
    } while (status == FB_NO_SPACE);
    fb_columns_free(&columns);
    MUST(memory.used == 0);
}

typedef void decode_other(const named_plan *plan, fb_decoder *decoder, const fb_datagram *batch,
                          size_t count, text *flows);

/* Check that another emitter gives the same values and counts. `columns` says that it builds
   columns, which do not keep the width of an address. */
static void check_other(const named_plan *plan, const fb_datagram *batch, size_t count,
                        unsigned options, const messages *expected, const fb_counters *counted,
                        decode_other *decode_other, bool columns) {
    fb_memory memory = fb_memory_system(0);
    uint64_t unknown = 0;
    fb_decoder *decoder;
    text flows = {0}, others = {0};
    MUST(fb_decoder_new(&decoder, plan->plan, decoder_options(options), &memory) == FB_OK);
    decode_other(plan, decoder, batch, count, &others);
    if (columns)
        MUST(describe_any_messages(&flows, plan, expected->data, expected->size, &unknown) ==
             FB_END);
    else describe_messages(&flows, plan, expected->data, expected->size);
    MUST(!unknown);
    fb_decoder_finish(decoder);
    fb_counters counters = count_all(decoder);
    MUST(!strstr(text_of(&flows), NOT_A_MESSAGE));
    MUST(strcmp(text_of(&flows), text_of(&others)) == 0);
    MUST(memcmp(&counters, counted, sizeof counters) == 0);
    text_free(&flows);
    text_free(&others);
    fb_decoder_free(decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fb_datagram batch[MAX_DATAGRAMS];
    if (size < 1 || size > MAX_INPUT) return 0;
    fb_rows rows = FB_ROWS_FLOWS;
    if (data[0] & OPTION_OPTIONS) rows = FB_ROWS_OPTIONS;
    if (data[0] & OPTION_COUNTERS) rows = FB_ROWS_COUNTERS;
    const named_plan *plan = get_plan(data[0] & OPTION_USUAL, rows);
    size_t count = split(data + 1, size - 1, batch);
    fb_counters counters, again;
    messages whole = decode(plan, batch, count, 1 << 20, data[0], &counters);
    messages pieces = decode(plan, batch, count, size % 7, data[0], &again);
    check_equal(&whole, &pieces);
    MUST(memcmp(&counters, &again, sizeof counters) == 0);
    if (!(data[0] & OPTION_HOOK)) {
        check_other(plan, batch, count, data[0], &whole, &counters, decode_trace, false);
        check_other(plan, batch, count, data[0], &whole, &counters, decode_columns, true);
    }
    if (data[0] & OPTION_KINDS) check_kinds(batch, count, size % 7, data[0]);
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)batch[i].payload.data);
    free(whole.data);
    free(pieces.data);
    return 0;
}
