/* Nanoseconds per flow of the core alone: decode and encode, one thread.

   usage: run_bench [--json] [--repetitions N] PLAN [CAPTURE...]

   PLAN is a schema as text (bench/write_plan.py). Without captures, traffic of every protocol is generated. Each capture's
   datagrams are fed once, which teaches templates and sampling rates; then those of data alone are decoded over and over, as
   copies that fill a working set of 2.5 MB, so that neither they nor their output stay in the first two caches. Looking up
   exporter and template is part of what is timed, and so is emptying a full output. Times are CPU time of the process; the
   median of the repetitions counts, the least and the greatest say how quiet the machine was. */
#include "decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "capture.h"
#include "generate.h"
#include "plan_text.h"

enum { WORKING_SET = 2500000, OUTPUT = 1 << 18, GENERATED_FLOWS = 20000, BATCH = 256 };
static const double SECONDS_PER_REPETITION = 0.05;

_Noreturn static void fail(const char *what) {
    fprintf(stderr, "run_bench: %s\n", what);
    exit(EXIT_FAILURE);
}

static void *must(void *p) {
    if (!p) fail("no memory");
    return p;
}

/* Files -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    uint8_t *data;
    size_t size;
} file;

static file read_file(const char *path) {
    file f = {NULL, 0};
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    size_t got;
    do {
        f.data = must(realloc(f.data, f.size + (1 << 20) + 1));
        got = fread(f.data + f.size, 1, 1 << 20, stream);
        f.size += got;
    } while (got);
    f.data[f.size] = 0;
    fclose(stream);
    return f;
}

static file generate(fb_generator_protocol protocol) {
    fb_memory memory = fb_memory_system(0);
    fb_generator *generator;
    file f = {NULL, 0};
    fb_generator_options options = {.protocol = protocol, .flows = GENERATED_FLOWS, .seed = 1, .exporters = 4, .sampling_rate = 1000,
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

/* Datasets ----------------------------------------------------------------------------------------------------------- */

/* Datagrams with payloads of their own. */
typedef struct {
    fb_datagram *items;
    size_t count, capacity, octets;
} datagrams;

static void add(datagrams *all, const fb_datagram *datagram) {
    if (all->count == all->capacity) {
        all->capacity = 2 * all->capacity + 1024;
        all->items = must(realloc(all->items, all->capacity * sizeof *all->items));
    }
    fb_datagram *item = &all->items[all->count++];
    *item = *datagram;
    item->payload.data = must(malloc(datagram->payload.size + 1));
    if (datagram->payload.size) memcpy((uint8_t *)(uintptr_t)item->payload.data, datagram->payload.data, datagram->payload.size);
    all->octets += datagram->payload.size;
}

static void release(datagrams *all) {
    for (size_t i = 0; i < all->count; i++) free((void *)(uintptr_t)all->items[i].payload.data);
    free(all->items);
}

static datagrams read_datagrams(const file *f) {
    fb_memory memory = fb_memory_system(0);
    fb_capture *capture;
    datagrams all = {0};
    fb_datagram batch[BATCH];
    size_t begin = 0, count, consumed;
    fb_status status;
    if (fb_capture_new(&capture, &memory, (fb_capture_options){.any_port = true}) != FB_OK) fail("no memory");
    do {
        status = fb_capture_scan(capture, (fb_bytes){f->data + begin, f->size - begin}, true, batch, BATCH, &count, &consumed);
        for (size_t i = 0; i < count; i++) add(&all, &batch[i]);
        begin += consumed;
    } while (status == FB_OK);
    fb_capture_free(capture);
    return all;
}

/* Memory that counts how often it is asked. */
static size_t allocations;

static void *count_resize(void *context, void *p, size_t old_size, size_t new_size) {
    (void)context, (void)old_size;
    allocations++;
    if (new_size) return realloc(p, new_size);
    free(p);
    return NULL;
}

typedef struct {
    fb_memory memory;
    fb_decoder *decoder;
    fb_row row;
    uint8_t *output;
    size_t capacity;
    uint64_t octets_out;
} machine;

static void machine_new(machine *m, const fb_plan *plan) {
    *m = (machine){.memory = {count_resize, NULL, 0, 0}, .output = must(malloc(OUTPUT)), .capacity = OUTPUT};
    if (fb_decoder_new(&m->decoder, plan, (fb_decoder_options){0}, &m->memory) != FB_OK ||
        fb_row_new(&m->row, plan, &m->memory) != FB_OK)
        fail("no memory");
}

static void machine_free(machine *m) {
    fb_row_free(&m->row);
    fb_decoder_free(m->decoder);
    free(m->output);
}

static void empty_output(machine *m) {
    m->octets_out += fb_row_size(&m->row);
    fb_row_set_output(&m->row, m->output, m->capacity, 0);
}

static void decode(machine *m, const fb_datagram *items, size_t count) {
    fb_position position = {0};
    empty_output(m);
    while (fb_row_decode(m->decoder, items, count, &position, &m->row) == FB_NO_SPACE) {
        empty_output(m);
        if (m->row.needed <= m->capacity) continue;
        m->capacity = m->row.needed;
        m->output = must(realloc(m->output, m->capacity));
        fb_row_set_output(&m->row, m->output, m->capacity, 0);
    }
    empty_output(m);
}

static uint64_t count_templates(const fb_decoder *decoder) {
    uint64_t templates = 0;
    for (size_t i = 0; i < decoder->exporters.capacity; i++) {
        const fb_exporter *exporter = fb_exporters_at(&decoder->exporters, i);
        if (exporter) templates += exporter->counters.templates;
    }
    return templates;
}

/* Feeds all datagrams once. Those of data alone, flows and no templates, become the working set. */
static datagrams learn(machine *m, const datagrams *all) {
    datagrams kept = {0}, set = {0};
    for (size_t i = 0; i < all->count; i++) {
        uint64_t flows = m->row.count, templates = count_templates(m->decoder);
        decode(m, &all->items[i], 1);
        if (m->row.count > flows && count_templates(m->decoder) == templates) add(&kept, &all->items[i]);
    }
    while (kept.count && set.octets < WORKING_SET)
        for (size_t i = 0; i < kept.count; i++) add(&set, &kept.items[i]);
    release(&kept);
    return set;
}

/* Timing ------------------------------------------------------------------------------------------------------------- */

static double cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

typedef struct {
    uint64_t flows, datagrams; /* of the working set */
    double nanoseconds, least, greatest; /* a flow */
    double octets_in, octets_out;        /* a flow */
    size_t allocations;
} result;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds of one pass over the working set. */
static double time_passes(machine *m, const datagrams *set) {
    double begin = cpu_seconds(), now;
    unsigned passes = 0;
    do {
        decode(m, set->items, set->count);
        passes++;
        now = cpu_seconds();
    } while (now - begin < SECONDS_PER_REPETITION);
    return (now - begin) * 1e9 / passes;
}

static result measure(const fb_plan *plan, const datagrams *all, unsigned repetitions) {
    machine m;
    double *times = must(calloc(repetitions, sizeof *times));
    machine_new(&m, plan);
    datagrams set = learn(&m, all);
    uint64_t flows = m.row.count;
    m.octets_out = 0;
    if (set.count) decode(&m, set.items, set.count);
    result r = {.flows = m.row.count - flows, .datagrams = set.count};
    if (r.flows) {
        double n = (double)r.flows;
        r.octets_in = (double)set.octets / n;
        r.octets_out = (double)m.octets_out / n;
        allocations = 0;
        for (unsigned i = 0; i < repetitions; i++) times[i] = time_passes(&m, &set) / n;
        r.allocations = allocations;
        qsort(times, repetitions, sizeof *times, compare);
        r.nanoseconds = times[repetitions / 2];
        r.least = times[0];
        r.greatest = times[repetitions - 1];
    }
    machine_free(&m);
    release(&set);
    free(times);
    return r;
}

/* Results ------------------------------------------------------------------------------------------------------------ */

static void print_heading(void) {
    printf("%-36s %9s %8s %16s %9s %7s %7s %6s\n", "", "flows in", "ns per", "least and", "million", "octets", "octets", "allo-");
    printf("%-36s %9s %8s %16s %9s %7s %7s %6s\n", "capture", "the set", "flow", "greatest", "flows/s", "in", "out", "cations");
}

static void print_result(const char *name, const result *r) {
    if (!r->flows)
        printf("%-36s no data by itself\n", name);
    else
        printf("%-36s %9llu %8.1f %8.1f%8.1f %9.1f %7.1f %7.1f %6zu\n", name, (unsigned long long)r->flows, r->nanoseconds, r->least,
               r->greatest, 1e3 / r->nanoseconds, r->octets_in, r->octets_out, r->allocations);
}

static void print_json(const char *name, const result *r) {
    printf("{\"capture\": \"%s\", \"flows\": %llu, \"datagrams\": %llu, \"ns_per_flow\": %.2f, \"least\": %.2f, \"greatest\": %.2f, "
           "\"octets_in_per_flow\": %.1f, \"octets_out_per_flow\": %.1f, \"allocations\": %zu}\n",
           name, (unsigned long long)r->flows, (unsigned long long)r->datagrams, r->nanoseconds, r->least, r->greatest, r->octets_in,
           r->octets_out, r->allocations);
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
    release(&all);
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
        if (strcmp(argv[next], "--json") == 0)
            run.json = true;
        else if (strcmp(argv[next], "--repetitions") == 0 && next + 1 < argc)
            run.repetitions = (unsigned)strtoul(argv[++next], NULL, 10);
        else
            fail("usage: run_bench [--json] [--repetitions N] PLAN [CAPTURE...]");
    }
    if (next == argc || !run.repetitions) fail("usage: run_bench [--json] [--repetitions N] PLAN [CAPTURE...]");
    file lines = read_file(argv[next++]);
    if (plan_read(&plan, (const char *)lines.data, &memory) != FB_OK) fail("no memory for the plan");
    free(lines.data);
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
