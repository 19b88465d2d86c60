/* Benchmark of the encoder from Arrow columns to messages (arrow_encode.h): nanoseconds per row on
   one thread.

   usage: run_arrow [--repetitions N] PLAN

   PLAN is a schema as text (bench/write_plan.py). The columns hold generated flows. Enums are
   dictionaries of text, as flowbuf exports them. A full output is emptied. The benchmark runs once
   for each kind of processor that this machine supports. */
#include "bench/workload.h"

#include "core/arrow/arrow_encode.h"
#include "tests/support/batch_view.h"
#include "generate/generate.h"

enum { ROWS = 20000, OUTPUT = 1 << 18 };

static file generate(fb_generator_protocol protocol) {
    fb_memory memory = fb_memory_system(0);
    fb_generator *generator;
    file f = {must(malloc(4096 * ROWS)), 0};
    fb_generator_options options = {.protocol = protocol,
                                    .flows = ROWS,
                                    .seed = 1,
                                    .exporters = 4,
                                    .sampling_rate = 1000,
                                    .start = UINT64_C(1735689600000000000)};
    if (fb_generator_new(&memory, &options, &generator) != FB_OK)
        fail("cannot create the generator");
    if (fb_generator_next(generator, f.data, 4096 * ROWS, &f.size) == FB_NO_SPACE)
        fail("the buffer is too small for the flows");
    fb_generator_free(generator);
    return f;
}

static fb_batch *decode(const fb_plan *plan, fb_generator_protocol protocol) {
    fb_memory memory = fb_memory_system(0);
    fb_decoder *decoder;
    fb_columns columns;
    fb_batch *batch;
    fb_position position = {0};
    file capture = generate(protocol);
    datagrams all = read_datagrams(&capture);
    if (fb_decoder_new(&decoder, plan, (fb_decoder_options){0}, &memory) != FB_OK ||
        fb_columns_new(&columns, plan, &memory) != FB_OK ||
        fb_batch_new(&batch, plan, ROWS, memory) != FB_OK)
        fail("no memory");
    fb_columns_set_batch(&columns, batch);
    fb_columns_decode(decoder, all.items, all.count, &position, &columns);
    fb_columns_free(&columns);
    fb_decoder_free(decoder);
    release_datagrams(&all);
    free(capture.data);
    return batch;
}

/* Name enums by their numbers as text. The generated flows use numbers below 8. */
static void use_names(batch_view *view, const fb_plan *plan) {
    static const int32_t offsets[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    static const void *buffers[] = {NULL, offsets, "01234567"};
    static struct ArrowSchema schema = {.format = "u"};
    static struct ArrowArray array = {.length = 8, .n_buffers = 3, .buffers = buffers};
    for (size_t i = 0; i < view->count; i++) {
        if (plan->columns[i].type != FB_TYPE_ENUM) continue;
        view->children[i].schema.dictionary = &schema;
        view->children[i].array.dictionary = &array;
    }
}

typedef struct {
    fb_arrow_encoder encoder;
    const struct ArrowArray *array;
    uint8_t *output;
    uint64_t bytes;
} machine_of_rows;

static void encode(void *context, const datagrams *none) {
    machine_of_rows *m = context;
    size_t position = 0;
    fb_status status;
    (void)none;
    m->bytes = 0;
    do {
        fb_row_set_output(&m->encoder.row, m->output, OUTPUT, 0);
        status = fb_arrow_encode(&m->encoder, m->array, &position);
        m->bytes += fb_row_size(&m->encoder.row);
    } while (status == FB_NO_SPACE);
    if (status != FB_OK) fail(fb_arrow_reason_text(m->encoder.source.fault.reason));
}

static void measure(const char *name, const fb_plan *plan, const batch_view *view,
                    fb_processor processor, unsigned repetitions) {
    fb_arrow_binding *bindings = must(calloc(view->count + 1, sizeof *bindings));
    double *times = must(calloc(repetitions, sizeof *times)), rows = (double)view->array.length;
    machine_of_rows m = {.array = &view->array, .output = must(malloc(OUTPUT))};
    fb_memory memory = fb_memory_system(0);
    for (size_t i = 0; i < view->count; i++)
        bindings[i].column =
            plan->columns[i].flags & FB_COLUMN_ENABLED ? (uint16_t)i : FB_NO_COLUMN;
    if (fb_arrow_encoder_new(&m.encoder, plan, &view->schema, bindings, processor, &memory) !=
        FB_OK)
        fail("cannot create the encoder");
    for (unsigned i = 0; i < repetitions; i++) times[i] = time_passes(encode, &m, NULL) / rows;
    spread result = spread_of(times, repetitions);
    printf("%-20s %9d %8.1f %8.1f%8.1f %9.1f\n", name, (int)processor, result.median, result.least,
           result.greatest, (double)m.bytes / rows);
    fb_arrow_encoder_free(&m.encoder);
    free(m.output);
    free(times);
    free(bindings);
}

int main(int argc, char **argv) {
    static const char *const names[] = {
#define FB_X(constant, name) "generated " name,
        FB_GENERATOR_PROTOCOL_LIST(FB_X)
#undef FB_X
    };
    static named_plan plan;
    fb_memory memory = fb_memory_system(0);
    bool counted = argc == 4 && strcmp(argv[1], "--repetitions") == 0;
    unsigned repetitions = counted ? (unsigned)strtoul(argv[2], NULL, 10) : 15;
    if ((argc != 2 && !counted) || !repetitions) fail("usage: run_arrow [--repetitions N] PLAN");
    read_plan(&plan, argv[argc - 1], &memory);
    printf("%-20s %9s %8s %16s %9s\n", "columns of", "processor", "ns per row", "least, greatest",
           "bytes");
    for (unsigned protocol = 0; protocol < FB_GENERATOR_PROTOCOL_COUNT; protocol++) {
        fb_batch *batch = decode(plan.plan, (fb_generator_protocol)protocol);
        batch_view view;
        batch_view_open(&view, plan.plan, batch);
        use_names(&view, plan.plan);
        for (fb_processor processor = FB_PROCESSOR_ANY; processor <= fb_processor_find();
             processor++)
            measure(names[protocol], plan.plan, &view, processor, repetitions);
        batch_view_close(&view);
        fb_batch_free(batch);
    }
    plan_free(&plan);
    return EXIT_SUCCESS;
}
