/* Benchmark of two ways from a template to columns, each with and without writing messages, on the
   same datagrams in turn.

   usage:
     run_story [--repetitions N] PLAN CAPTURE    print a line of JSON per stage: nanoseconds and
                                                 bytes allocated per flow
     run_story --messages STAGE PLAN CAPTURE     write the messages of one pass to standard output

   The stages are "interpreted" (interpreted.h) and "compiled". "flows" is the number of rows of one
   pass. "folded" is the sum of the values passed to the emitter that writes nothing (null_row.h).
   CAPTURE is NetFlow v9. */
#include "bench/interpreted.h"
#include "bench/null_row.h"
#include "bench/workload.h"

enum { MAX_REPETITIONS = 1000 };

typedef fb_status decode_nothing(fb_decoder *, const fb_datagram *, size_t, fb_position *,
                                 null_row *);

static const struct {
    const char *name;
    decode_messages *encode;
    decode_nothing *skip;
    /* decoding is fast enough that its noise does not hide the time of encoding */
    bool shows_encoding;
} stages[] = {
    {"interpreted", fb_row_interpret, null_row_interpret, false},
    {"compiled", fb_row_decode, null_row_decode, true},
};
enum { STAGES = sizeof stages / sizeof *stages };

/* The measurements of a stage with one of the emitters. */
typedef struct {
    double times[MAX_REPETITIONS]; /* nanoseconds of a pass */
    uint64_t passes;
    uint64_t rows, bytes; /* rows made and bytes allocated in all passes */
} side;

/* A stage under test: one decoder, both emitters. */
typedef struct {
    machine machine;
    decode_nothing *skip;
    null_row nothing;
    datagrams set;
    side with, without;
    uint64_t folded; /* sum of the values of one pass with `nothing` */
} contestant;

static void encode_pass(void *context, const datagrams *set) {
    contestant *c = context;
    uint64_t rows = c->machine.row.count, bytes = c->machine.allocated.bytes;
    machine_decode(&c->machine, set);
    c->with.rows += c->machine.row.count - rows;
    c->with.bytes += c->machine.allocated.bytes - bytes;
    c->with.passes++;
}

static void skip_pass(void *context, const datagrams *set) {
    contestant *c = context;
    fb_position position = {0};
    uint64_t rows = c->nothing.count, bytes = c->machine.allocated.bytes;
    c->skip(c->machine.decoder, set->items, set->count, &position, &c->nothing);
    c->without.rows += c->nothing.count - rows;
    c->without.bytes += c->machine.allocated.bytes - bytes;
    c->without.passes++;
}

static void open_stage(contestant *c, size_t stage, const fb_plan *plan, const datagrams *all) {
    machine_new(&c->machine, plan, stages[stage].encode, (fb_decoder_options){0});
    c->skip = stages[stage].skip;
    c->set = machine_learn(&c->machine, all, WORKING_SET);
    if (!c->set.count) fail("the capture has no datagrams with only data");
    skip_pass(c, &c->set);
    c->folded = c->nothing.values;
}

static void close_stage(contestant *c) {
    machine_free(&c->machine);
    release_datagrams(&c->set);
}

static double flows_of(const side *side) {
    return (double)side->rows / (double)side->passes;
}

static void print_times(const char *name, double *times, unsigned repetitions, double flows) {
    spread ns = spread_of(times, repetitions);
    printf("\"%s\": {\"flows\": %.3f, \"ns_per_flow\": %.2f, \"least\": %.2f, \"greatest\": %.2f",
           name, flows, ns.median / flows, ns.least / flows, ns.greatest / flows);
}

static void print_side(const char *name, side *side, unsigned repetitions) {
    print_times(name, side->times, repetitions, flows_of(side));
    printf(", \"bytes_per_flow\": %.3f}, ", (double)side->bytes / (double)side->rows);
}

/* Print the time that encoding adds in each repetition. Both sides were timed one after the
   other. */
static void print_difference(const contestant *c, unsigned repetitions) {
    double differences[MAX_REPETITIONS];
    for (unsigned r = 0; r < repetitions; r++)
        differences[r] = c->with.times[r] - c->without.times[r];
    print_times("encoding", differences, repetitions, flows_of(&c->with));
    printf("}, ");
}

static void print_stage(size_t stage, contestant *c, unsigned repetitions) {
    printf("{\"stage\": \"%s\", ", stages[stage].name);
    if (stages[stage].shows_encoding) print_difference(c, repetitions);
    print_side("with", &c->with, repetitions);
    print_side("without", &c->without, repetitions);
    printf("\"folded\": %llu}\n", (unsigned long long)c->folded);
}

static void print_stages(const fb_plan *plan, const datagrams *all, unsigned repetitions) {
    static contestant contestants[STAGES];
    for (size_t i = 0; i < STAGES; i++) open_stage(&contestants[i], i, plan, all);
    for (unsigned r = 0; r < repetitions; r++)
        for (size_t i = 0; i < STAGES; i++) {
            contestants[i].with.times[r] =
                time_passes(encode_pass, &contestants[i], &contestants[i].set);
            contestants[i].without.times[r] =
                time_passes(skip_pass, &contestants[i], &contestants[i].set);
        }
    for (size_t i = 0; i < STAGES; i++) {
        print_stage(i, &contestants[i], repetitions);
        close_stage(&contestants[i]);
    }
}

static void write_messages(const char *stage, const fb_plan *plan, const datagrams *all) {
    machine m;
    size_t i = 0;
    while (i < STAGES && strcmp(stages[i].name, stage) != 0) i++;
    if (i == STAGES) fail("the stage is unknown");
    machine_new(&m, plan, stages[i].encode, (fb_decoder_options){0});
    datagrams set = machine_learn(&m, all, 0);
    m.messages = stdout;
    machine_decode(&m, &set);
    machine_free(&m);
    release_datagrams(&set);
}

int main(int argc, char **argv) {
    static named_plan plan;
    fb_memory memory = fb_memory_system(0);
    const char *usage = "usage: run_story [--repetitions N | --messages STAGE] PLAN CAPTURE",
               *stage = NULL;
    unsigned long repetitions = 15;
    if (argc != 3 && argc != 5) fail(usage);
    if (argc == 5 && strcmp(argv[1], "--messages") == 0) stage = argv[2];
    else if (argc == 5 && strcmp(argv[1], "--repetitions") == 0)
        repetitions = strtoul(argv[2], NULL, 10);
    else if (argc == 5) fail(usage);
    if (!repetitions || repetitions > MAX_REPETITIONS) fail(usage);
    read_plan(&plan, argv[argc - 2], &memory);
    file capture = read_file(argv[argc - 1]);
    datagrams all = read_datagrams(&capture);
    if (stage) write_messages(stage, plan.plan, &all);
    else print_stages(plan.plan, &all, (unsigned)repetitions);
    release_datagrams(&all);
    free(capture.data);
    plan_free(&plan);
    return EXIT_SUCCESS;
}
