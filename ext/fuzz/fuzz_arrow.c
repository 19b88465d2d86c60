/* Fuzzes the Arrow encoder with record batches of any schema and content. The Arrow C Data
   Interface trusts pointers, so arrays are built here, in buffers of the minimum size. The driver
   parses schemas with its own code to know which ones are valid.

   Checks:
   - A refusal names an existing row and column.
   - Messages are the same for every kind of processor, every split of rows into arrays and every
     output size.
   - Columns made from the messages give the same messages again.
   - The text has a line for each message, and is the same for every split of rows into arrays.

   Input: bytes, of which each choice takes the next one (tests/builders/arrow_choice.h). */
#include "fuzz/fuzz.h"

#include "tests/builders/arrow_choice.h"
#include "core/arrow/arrow_encode.h"
#include "core/arrow/arrow_text.h"
#include "tests/support/batch_view.h"
#include "tests/support/flow_text.h"
#include "core/arrow/message_columns.h"

enum { MAX_INPUT = 16384, ROOM = 1 << 18 /* more than a block of rows */ };

/* Plans are read once and live as long as the process. */
static const named_plan *get_plan(void) {
    static named_plan plan;
    static fb_memory memory;
    if (!plan.plan) {
        text lines = {0};
        choice_put_columns(&lines);
        memory = fb_memory_system(0);
        MUST(plan_read(&plan, text_of(&lines), &memory) == FB_OK);
        text_free(&lines);
    }
    return &plan;
}

/* Encoders ----------------------------------------------------------------------------------- */

static const fb_member members[] = {
#define NAME(text) {(const uint8_t *)(text), sizeof(text) - 1}
    {NAME("ingress"), 1}, {NAME("egress"), 2},       {NAME("in"), 3}, {NAME(""), 4},
    {NAME("5"), 55},      {NAME("most"), INT32_MAX}, {NAME("no"), 0},
};

/* Make an encoder. A refused child is unbound, until all others are accepted. Returns false if the
   schema itself is refused. */
static bool make_encoder(const choice *c, fb_arrow_binding *bindings) {
    fb_memory memory = fb_memory_system(0);
    fb_arrow_encoder e;
    fb_status status;
    while ((status = fb_arrow_encoder_new(&e, get_plan()->plan, &c->schema, bindings, 0,
                                          &memory)) != FB_OK) {
        const fb_arrow_fault *fault = &e.source.fault;
        MUST(memory.used == 0);
        MUST(status == FB_BAD_SOURCE || status == FB_BAD_ARGUMENT);
        MUST(fault->reason != FB_ARROW_NONE && fb_arrow_reason_text(fault->reason) && !fault->row);
        if (fault->child == FB_NO_CHILD) return false;
        MUST(fault->child < c->child_count && bindings[fault->child].column != FB_NO_COLUMN);
        bindings[fault->child].column = FB_NO_COLUMN;
    }
    for (size_t i = 0; i < c->child_count; i++)
        MUST(bindings[i].column == FB_NO_COLUMN || c->known[i]);
    fb_arrow_encoder_free(&e);
    return true;
}

/* Rows --------------------------------------------------------------------------------------- */

/* The result of encoding: messages, and a line for each refused row. */
typedef struct {
    uint8_t *data;
    size_t size, rows;
    text faults;
    bool bad; /* the array does not have the layout of its schema */
} outcome;

static void outcome_free(outcome *o) {
    free(o->data);
    text_free(&o->faults);
}

/* Append the output to the result, and set its size to exactly `capacity` bytes. */
static void take_output(outcome *o, fb_row *row, size_t capacity) {
    size_t size = row->data ? fb_row_size(row) : 0;
    uint8_t *output = malloc(capacity ? capacity : 1);
    MUST(output && (o->data = realloc(o->data, o->size + size + 1)));
    if (size) memcpy(o->data + o->size, row->data, size);
    o->size += size;
    free(row->data);
    fb_row_set_output(row, output, capacity, 0);
}

static void take_fault(outcome *o, const fb_arrow_encoder *e, const fb_arrow_binding *bindings,
                       size_t first, size_t position) {
    const fb_arrow_fault *fault = &e->source.fault;
    MUST(fault->reason != FB_ARROW_NONE && fb_arrow_reason_text(fault->reason));
    MUST(fault->row == position && fault->child < e->source.child_count &&
         bindings[fault->child].column != FB_NO_COLUMN);
    text_put(&o->faults, "row %zu, child %zu: %s\n", first + position, fault->child,
             fb_arrow_reason_text(fault->reason));
}

/* Encode all rows of an array, and continue after refused rows. `first` is the index of its first
   row in the batch. */
static void encode(outcome *o, fb_arrow_encoder *e, const fb_arrow_binding *bindings,
                   const struct ArrowArray *array, size_t first, size_t capacity) {
    size_t position = 0, rows = (size_t)array->length;
    fb_status status;
    while ((status = fb_arrow_encode(e, array, &position)) != FB_OK && status != FB_BAD_ARGUMENT) {
        MUST(status == FB_NO_SPACE || status == FB_OUT_OF_RANGE);
        MUST(position < rows);
        if (status == FB_NO_SPACE) {
            MUST(fb_row_size(&e->row) || e->row.needed > capacity);
            take_output(o, &e->row, e->row.needed > capacity ? e->row.needed : capacity);
        } else {
            take_fault(o, e, bindings, first, position++);
            o->rows--;
        }
    }
    MUST(status != FB_OK || position == rows);
    o->bad |= status == FB_BAD_ARGUMENT;
    MUST(status == FB_OK || e->source.fault.reason == FB_ARROW_BAD_ARRAY);
    o->rows += rows;
}

/* Encode an array with other dictionaries, to check that nothing of them remains cached. */
static void encode_other_dictionaries(const choice *c, fb_arrow_encoder *e,
                                      const fb_arrow_binding *bindings) {
    outcome o = {.rows = 0};
    choice_slice slice;
    encode(&o, e, bindings, choice_shift(&slice, c), 0, ROOM);
    take_output(&o, &e->row, ROOM);
    e->row.count = 0;
    outcome_free(&o);
}

/* Encode in slices of this many rows. */
static outcome run(const choice *c, const fb_arrow_binding *bindings, fb_processor processor,
                   size_t step, size_t capacity) {
    fb_memory memory = fb_memory_system(0);
    fb_arrow_encoder e;
    outcome o = {.rows = 0};
    size_t first = 0, rows = (size_t)c->array.length;
    MUST(fb_arrow_encoder_new(&e, get_plan()->plan, &c->schema, bindings, processor, &memory) ==
         FB_OK);
    take_output(&o, &e.row, capacity);
    if (step >= rows) encode(&o, &e, bindings, &c->array, 0, capacity);
    else encode_other_dictionaries(c, &e, bindings);
    for (choice_slice slice; step < rows && first < rows; first += step)
        encode(&o, &e, bindings,
               choice_cut(&slice, c, first, step < rows - first ? step : rows - first), first,
               capacity);
    take_output(&o, &e.row, 0);
    MUST(o.bad || e.row.count == o.rows);
    free(e.row.data);
    fb_arrow_encoder_free(&e);
    MUST(memory.used == 0);
    return o;
}

static void check_same(const outcome *a, const outcome *b) {
    MUST(!b->bad && a->rows == b->rows);
    MUST(a->size == b->size && memcmp(a->data, b->data, a->size) == 0);
    MUST(strcmp(text_of(&a->faults), text_of(&b->faults)) == 0);
}

/* Round trip --------------------------------------------------------------------------------- */

/* Read the messages back as columns, with one row per message. */
static fb_batch *read_back(const outcome *o) {
    fb_memory memory = fb_memory_system(0);
    fb_message_columns reader;
    fb_message_fault fault;
    fb_batch *batch;
    fb_bytes rest = {o->data, o->size};
    MUST(fb_batch_new(&batch, get_plan()->plan, o->rows + 2, memory) == FB_OK);
    MUST(fb_message_columns_new(&reader, get_plan()->plan, (fb_processor)0, &memory) == FB_OK);
    MUST(fb_message_columns_read(&reader, &rest, batch, &fault) == FB_END);
    MUST(batch->rows == o->rows && !reader.unknown_fields && !reader.invalid_texts);
    fb_message_columns_free(&reader);
    MUST(memory.used == 0);
    return batch;
}

static void check_encoded_again(const outcome *o, const fb_batch *batch) {
    choice c = {.child_count = 0};
    fb_arrow_binding *bindings = calloc(batch->vector_count, sizeof *bindings);
    batch_view view;
    MUST(bindings);
    for (size_t i = 0; i < batch->vector_count; i++)
        bindings[i].column =
            get_plan()->plan->columns[i].flags & FB_COLUMN_ENABLED ? (uint16_t)i : FB_NO_COLUMN;
    batch_view_open(&view, get_plan()->plan, batch);
    c.schema = view.schema;
    c.array = view.array;
    outcome again = run(&c, bindings, 0, batch->rows, ROOM);
    check_same(o, &again);
    outcome_free(&again);
    batch_view_close(&view);
    free(bindings);
}

static void check_messages(outcome *o) {
    text messages = {0}, columns = {0};
    fb_batch *batch = read_back(o);
    describe_messages(&messages, get_plan(), o->data, o->size);
    describe_batch(&columns, get_plan(), batch);
    MUST(!strstr(text_of(&messages), NOT_A_MESSAGE));
    MUST(strcmp(text_of(&messages), text_of(&columns)) == 0);
    text_clear(&o->faults);
    check_encoded_again(o, batch);
    fb_batch_free(batch);
    text_free(&messages);
    text_free(&columns);
}

/* Text --------------------------------------------------------------------------------------- */

/* Append the lines of an array, and continue after refused rows. Returns the number of lines. */
static size_t write_text(fb_arrow_text *writer, const struct ArrowArray *array, fb_buffer *output) {
    size_t position = 0, rows = (size_t)array->length, refused = 0;
    size_t *ends = malloc((rows + 1) * sizeof *ends);
    fb_status status;
    MUST(ends);
    do {
        size_t first = position;
        status = fb_arrow_text_write(writer, array, &position, output, ends);
        for (size_t i = first; i < position; i++)
            MUST(ends[i] < fb_buffer_size(output) && output->begin[ends[i]] == '\n');
        if (status == FB_OUT_OF_RANGE) position++, refused++;
    } while (status == FB_OUT_OF_RANGE);
    MUST(status == FB_OK && position == rows);
    free(ends);
    return rows - refused;
}

/* Write the text in slices of this many rows. */
static fb_buffer write_slices(const choice *c, const fb_arrow_binding *bindings,
                              fb_text_options options, size_t step, size_t lines) {
    fb_memory memory = fb_memory_system(0);
    fb_arrow_text writer;
    fb_buffer output = {0};
    size_t rows = (size_t)c->array.length, written = 0;
    MUST(fb_arrow_text_new(&writer, get_plan()->plan, &c->schema, bindings, options, &memory) ==
         FB_OK);
    if (step >= rows) written = write_text(&writer, &c->array, &output);
    for (size_t first = 0; step < rows && first < rows; first += step) {
        choice_slice slice;
        size_t count = step < rows - first ? step : rows - first;
        written += write_text(&writer, choice_cut(&slice, c, first, count), &output);
    }
    MUST(written == lines);
    fb_arrow_text_free(&writer);
    MUST(memory.used == 0);
    return output;
}

static void check_text(const choice *c, const fb_arrow_binding *bindings, size_t lines,
                       size_t seed) {
    for (unsigned form = FB_TEXT_JSON; form <= FB_TEXT_KEY; form++) {
        fb_text_options options = {.form = (fb_text_form)form, .neutral = seed % 2};
        fb_buffer whole = write_slices(c, bindings, options, (size_t)c->array.length, lines);
        size_t step = c->invalid ? (size_t)c->array.length : 1 + seed % 90;
        fb_buffer parts = write_slices(c, bindings, options, step, lines);
        size_t size = fb_buffer_size(&whole);
        MUST(fb_buffer_size(&parts) == size);
        MUST(!size || memcmp(whole.begin, parts.begin, size) == 0);
        fb_buffer_free(&whole);
        fb_buffer_free(&parts);
    }
}

/* Check every kind of processor, with little room and in slices. */
static void check(const choice *c, const fb_arrow_binding *bindings, size_t seed) {
    size_t rows = (size_t)c->array.length;
    outcome whole = run(c, bindings, FB_PROCESSOR_ANY, rows, ROOM);
    for (unsigned processor = FB_PROCESSOR_ANY; !whole.bad && processor <= fb_processor_find();
         processor++) {
        outcome other = run(c, bindings, (fb_processor)processor, rows, seed % 5000), parts;
        check_same(&whole, &other);
        outcome_free(&other);
        if (c->invalid) continue;
        parts = run(c, bindings, (fb_processor)processor, 1 + seed % 90, ROOM);
        check_same(&whole, &parts);
        outcome_free(&parts);
    }
    if (!whole.bad) {
        check_text(c, bindings, whole.rows, seed);
        check_messages(&whole);
    }
    outcome_free(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fb_arrow_binding bindings[CHOICE_CHILDREN];
    choice c;
    if (size > MAX_INPUT) return 0;
    choice_make(&c, data, size);
    for (size_t i = 0; i < c.child_count; i++)
        bindings[i] = (fb_arrow_binding){c.columns[i], members, sizeof members / sizeof *members};
    if (make_encoder(&c, bindings)) check(&c, bindings, size);
    choice_free(&c);
    return 0;
}
