/* Benchmark of the core: nanoseconds per flow to decode and encode on one thread (method:
   workload.h).

   usage: run_bench [--json] [--repetitions N] PLAN [CAPTURE...]

   PLAN is a schema as text (bench/write_plan.py). Without captures, traffic of every protocol is
   generated. Times are CPU time of the process. The result is the median of the repetitions. The
   minimum and maximum show the noise of the machine. */
#include "bench/workload.h"

#include "generate/generate.h"

enum { GENERATED_FLOWS = 20000 };

static file generate(fb_generator_protocol protocol) {
    fb_memory memory = fb_memory_system(0);
    fb_generator *generator;
    file f = {NULL, 0};
    fb_generator_options options = {.protocol = protocol,
                                    .flows = GENERATED_FLOWS,
                                    .seed = 1,
                                    .exporters = 4,
                                    .sampling_rate = 1000,
                                    .start = UINT64_C(1735689600000000000)};
    fb_status status = fb_generator_new(&memory, &options, &generator);
    while (status == FB_OK) {
        size_t size = 0;
        f.data = must(realloc(f.data, f.size + (1 << 20)));
        status = fb_generator_next(generator, f.data + f.size, 1 << 20, &size);
        f.size += size;
    }
    fb_generator_free(generator);
    return f;
}

/* Measuring ---------------------------------------------------------------------------------- */

typedef struct {
    uint64_t flows, datagrams;  /* of the working set */
    spread nanoseconds;         /* per flow */
    double bytes_in, bytes_out; /* per flow */
    uint64_t allocations;
} result;

static void run_machine(void *m, const datagrams *set) {
    machine_decode(m, set);
}

/* Time a pass `repetitions` times, in nanoseconds. */
static spread time_machine(machine *m, const datagrams *set, unsigned repetitions, double flows) {
    double *times = must(calloc(repetitions, sizeof *times));
    for (unsigned i = 0; i < repetitions; i++) times[i] = time_passes(run_machine, m, set) / flows;
    spread result = spread_of(times, repetitions);
    free(times);
    return result;
}

/* The newest kind of processor whose instructions may be used; 0: all kinds of this machine. */
static fb_processor run_processor;

static result measure(const fb_plan *plan, const datagrams *all, unsigned repetitions) {
    machine m;
    machine_new(&m, plan, fb_row_decode, (fb_decoder_options){.processor = run_processor});
    datagrams set = machine_learn(&m, all, WORKING_SET);
    uint64_t flows = m.row.count;
    m.bytes_out = 0;
    machine_decode(&m, &set);
    result r = {.flows = m.row.count - flows, .datagrams = set.count};
    if (r.flows) {
        double n = (double)r.flows;
        r.bytes_in = (double)set.bytes / n;
        r.bytes_out = (double)m.bytes_out / n;
        m.allocated = (allocations){0};
        r.nanoseconds = time_machine(&m, &set, repetitions, n);
        r.allocations = m.allocated.calls;
    }
    machine_free(&m);
    release_datagrams(&set);
    return r;
}

/* Results ------------------------------------------------------------------------------------ */

static void print_heading(void) {
    printf("%-36s %9s %8s %16s %9s %7s %7s %6s\n", "", "flows in", "ns per", "least and", "million",
           "bytes", "bytes", "allo-");
    printf("%-36s %9s %8s %16s %9s %7s %7s %6s\n", "capture", "the set", "flow", "greatest",
           "flows/s", "in", "out", "cations");
}

static void print_result(const char *name, const result *r) {
    if (!r->flows) printf("%-36s no datagrams with only data\n", name);
    else
        printf("%-36s %9llu %8.1f %8.1f%8.1f %9.1f %7.1f %7.1f %6llu\n", name,
               (unsigned long long)r->flows, r->nanoseconds.median, r->nanoseconds.least,
               r->nanoseconds.greatest, 1e3 / r->nanoseconds.median, r->bytes_in, r->bytes_out,
               (unsigned long long)r->allocations);
}

static void print_json(const char *name, const result *r) {
    printf("{\"capture\": \"%s\", \"flows\": %llu, \"datagrams\": %llu, \"ns_per_flow\": %.2f, "
           "\"least\": %.2f, \"greatest\": %.2f, "
           "\"bytes_in_per_flow\": %.1f, \"bytes_out_per_flow\": %.1f, \"allocations\": %llu}\n",
           name, (unsigned long long)r->flows, (unsigned long long)r->datagrams,
           r->nanoseconds.median, r->nanoseconds.least, r->nanoseconds.greatest, r->bytes_in,
           r->bytes_out, (unsigned long long)r->allocations);
}

typedef struct {
    const fb_plan *plan;
    unsigned repetitions;
    bool json, allocated;
} run;

static void bench_file(run *run, const char *path, const file *f) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    datagrams all = read_datagrams(f);
    result r = measure(run->plan, &all, run->repetitions);
    (run->json ? print_json : print_result)(name, &r);
    run->allocated |= r.allocations > 0;
    release_datagrams(&all);
}

static void bench_generated(run *run) {
    static const char *const names[] = {
#define FB_X(constant, name) "generated " name,
        FB_GENERATOR_PROTOCOL_LIST(FB_X)
#undef FB_X
    };
    for (unsigned protocol = 0; protocol < FB_GENERATOR_PROTOCOL_COUNT; protocol++) {
        file f = generate((fb_generator_protocol)protocol);
        bench_file(run, names[protocol], &f);
        free(f.data);
    }
}

int main(int argc, char **argv) {
    static named_plan plan;
    run run = {.repetitions = 15};
    fb_memory memory = fb_memory_system(0);
    int next = 1;
    for (; next < argc && argv[next][0] == '-'; next++) {
        if (strcmp(argv[next], "--json") == 0) run.json = true;
        else if (strcmp(argv[next], "--processor") == 0 && next + 1 < argc)
            run_processor = (fb_processor)strtoul(argv[++next], NULL, 10);
        else if (strcmp(argv[next], "--repetitions") == 0 && next + 1 < argc)
            run.repetitions = (unsigned)strtoul(argv[++next], NULL, 10);
        else fail("usage: run_bench [--json] [--repetitions N] PLAN [CAPTURE...]");
    }
    if (next == argc || !run.repetitions)
        fail("usage: run_bench [--json] [--repetitions N] PLAN [CAPTURE...]");
    read_plan(&plan, argv[next++], &memory);
    run.plan = plan.plan;
    if (!run.json) print_heading();
    if (next == argc) bench_generated(&run);
    for (; next < argc; next++) {
        file f = read_file(argv[next]);
        bench_file(&run, argv[next], &f);
        free(f.data);
    }
    plan_free(&plan);
    if (run.allocated) fail("memory was allocated while flows were decoded");
    return EXIT_SUCCESS;
}
