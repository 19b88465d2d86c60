/* Benchmark of many exporters: nanoseconds per datagram, and bytes of memory per exporter.

   usage: run_scale [--json] [--repetitions N] [--batch N] PLAN

   Each exporter has sent the same four templates. Alternatively, it has four templates of its own,
   which differ in the ids of unused fields. The data are datagrams of 1,400 bytes, each with one
   set of one of these templates. Exporters come in random order, and each comes once before any
   comes again. So no state of an exporter is in a cache from its last datagram.

   The work is the same for every number of exporters. One repetition has the same number of
   datagrams, in the same 1,800 buffers (2.5 MB), which are read in order. Only these passes are
   timed. Before each pass, source addresses and sequence numbers are written into the buffers, so
   that each exporter's sequence continues. Only the state of the decoder differs. The numbers of
   exporters alternate in each repetition, and the result is the median. Times are CPU time of the
   process. */
#include "bench/workload.h"

#include "tests/builders/datagrams.h"

enum { TEMPLATES = 4, BUFFERS = 1800, DATAGRAM = 1400, DATAGRAMS = 100800, FIRST_ID = 256 };
enum { SECONDS = 1735689600, UPTIME = 86400000 };
static const uint32_t exporter_counts[] = {1, 100, 10000, 100000};
enum { COUNTS = sizeof exporter_counts / sizeof *exporter_counts };

/* Traffic ------------------------------------------------------------------------------------ */

/* A field and the bounds of its values. No column uses elements from 20000 on; their ids make
   templates differ. */
typedef struct {
    unsigned id, size;
    uint32_t least, spread;
} made_field;

enum { OWN_ID = 20000, OWN_IDS = 1000 };

#define ADDRESSES  {8, 4, 0x0a000001, 0xffff}, {12, 4, 0xc6336401, 0xffff}
#define ADDRESSES6 {27, 16, 1, 0xffff}, {28, 16, 1, 0xffff}
#define PORTS {7, 2, 1024, 0xe000}, {11, 2, 80, 400}, {4, 1, 6, 12}, {5, 1, 0, 4}, {6, 1, 16, 8}
#define TOTALS(size) {1, size, 40, 1000000}, {2, size, 1, 1000}
#define INTERFACES   {10, 4, 1, 500}, {14, 4, 1, 500}
#define TIMES        {150, 4, SECONDS - 60, 60}, {151, 4, SECONDS - 30, 30}
#define ROUTES \
    {15, 4, 0x0a010001, 0xffff}, {16, 4, 64512, 1000}, {17, 4, 64512, 1000}, {9, 1, 16, 9}, \
        {13, 1, 16, 9}
#define OWN {OWN_ID, 2, 0, 0xffff}, {OWN_ID + OWN_IDS, 2, 0, 0xffff}

static const made_field templates[TEMPLATES][24] = {
    {ADDRESSES, PORTS, TOTALS(4), INTERFACES, TIMES, ROUTES, {61, 1, 0, 2}, OWN},
    {ADDRESSES, PORTS, TOTALS(4), INTERFACES, TIMES, OWN},
    {ADDRESSES, PORTS, TOTALS(8), INTERFACES, TIMES, {58, 2, 1, 4000}, {56, 6, 1, 0xffff}, OWN},
    {ADDRESSES6, PORTS, TOTALS(4), TIMES, OWN},
};

static size_t count_fields(const made_field *fields) {
    size_t count = 0;
    while (fields[count].id) count++;
    return count;
}

static size_t record_size(const made_field *fields) {
    size_t size = 0;
    for (; fields->id; fields++) size += fields->size;
    return size;
}

/* xorshift64, which gives the same numbers on every machine. */
static uint64_t random_state = 88172645463325252u;

static uint32_t draw(uint32_t below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) * below >> 32);
}

static void begin(byte_buffer *d, unsigned version, uint32_t sequence) {
    if (version == 9)
        netflow9_begin(
            d, (netflow9_header){.uptime = UPTIME, .seconds = SECONDS, .sequence = sequence});
    else ipfix_begin(d, (ipfix_header){.seconds = SECONDS, .sequence = sequence});
}

static void end(byte_buffer *d, unsigned version) {
    if (version == 10) ipfix_end(d);
}

/* Write the four templates of an exporter. `own`: its number if its templates are its own,
   otherwise 0. */
static void put_templates(byte_buffer *d, unsigned version, uint32_t own) {
    begin(d, version, 0);
    size_t set = set_begin(d, version == 9 ? 0 : 2);
    for (unsigned t = 0; t < TEMPLATES; t++) {
        specifier fields[24];
        size_t count = count_fields(templates[t]);
        for (size_t i = 0; i < count; i++) {
            fields[i] = (specifier){.id = templates[t][i].id, .size = templates[t][i].size};
            if (fields[i].id == OWN_ID) fields[i].id += own % OWN_IDS;
            if (fields[i].id == OWN_ID + OWN_IDS) fields[i].id += own / OWN_IDS;
        }
        put_template(d, FIRST_ID + t, fields, count);
    }
    set_end(d, set);
    end(d, version);
}

static void put_value(byte_buffer *d, const made_field *field) {
    for (size_t i = field->size; i > 4; i--) put8(d, 0);
    uint32_t value = field->least + draw(field->spread);
    for (size_t i = field->size < 4 ? field->size : 4; i > 0; i--)
        put8(d, value >> 8 * (i - 1) & 0xff);
}

/* Write as many records as fit, and padding. Returns their number. */
static size_t put_data(byte_buffer *d, unsigned version, unsigned t) {
    begin(d, version, 0);
    size_t set = set_begin(d, FIRST_ID + t),
           count = (DATAGRAM - d->size) / record_size(templates[t]);
    for (size_t i = 0; i < count; i++)
        for (const made_field *field = templates[t]; field->id; field++) put_value(d, field);
    put_repeated(d, 0, DATAGRAM - d->size);
    set_end(d, set);
    end(d, version);
    return count;
}

/* The buffers of all data datagrams. */
typedef struct {
    unsigned version;
    uint8_t (*payloads)[DATAGRAM];
    /* per datagram, by template; datagrams alternate between templates */
    uint32_t records[TEMPLATES];
    fb_datagram items[BUFFERS];
} traffic;

static void set_source(fb_datagram *datagram, uint32_t number) {
    uint8_t address[16] = {
        [10] = 0xff, 0xff, 10, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};
    memcpy(datagram->source, address, 16);
    datagram->source_port = 2055;
    datagram->time = SECONDS * UINT64_C(1000000000);
}

static void make_traffic(traffic *t, unsigned version) {
    static byte_buffer d;
    t->version = version;
    for (unsigned i = 0; i < BUFFERS; i++) {
        t->records[i % TEMPLATES] = (uint32_t)put_data(&d, version, i % TEMPLATES);
        memcpy(t->payloads[i], d.data, DATAGRAM);
        t->items[i].payload = (fb_bytes){t->payloads[i], DATAGRAM};
    }
}

/* Exporters ---------------------------------------------------------------------------------- */

typedef struct {
    uint32_t count;
    machine machine;
    uint32_t *order;     /* a permutation of the exporters */
    uint32_t *sequences; /* the next number of each */
    uint32_t next;       /* index in `order` */
    size_t bytes;        /* bytes of memory of all exporters */
    size_t compiled_templates;
    double *times; /* of each repetition, ns per datagram */
} population;

static void shuffle(uint32_t *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) numbers[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = draw(i), number = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = number;
    }
}

/* NetFlow v9 counts the datagram, IPFIX the records before it. */
static void send_templates(population *p, unsigned version, bool own) {
    static byte_buffer d;
    machine *m = &p->machine;
    size_t bytes_before = m->memory.used, compiled_before = m->decoder->compiled_templates.count;
    for (uint32_t i = 0; i < p->count; i++) {
        put_templates(&d, version, own ? i : 0);
        fb_datagram datagram = {.payload = {d.data, d.size}};
        set_source(&datagram, i);
        machine_decode(m, &(datagrams){.items = &datagram, .count = 1});
        p->sequences[i] = version == 9 ? 1 : 0;
    }
    p->bytes = m->memory.used - bytes_before;
    p->compiled_templates = m->decoder->compiled_templates.count - compiled_before;
}

static void population_new(population *p, const fb_plan *plan, uint32_t count, unsigned version,
                           bool own, unsigned repetitions) {
    *p = (population){.count = count,
                      .order = must(calloc(count, sizeof *p->order)),
                      .sequences = must(calloc(count, sizeof *p->sequences)),
                      .times = must(calloc(repetitions, sizeof *p->times))};
    machine_new(&p->machine, plan, fb_row_decode, (fb_decoder_options){0});
    shuffle(p->order, count);
    send_templates(p, version, own);
}

static void population_free(population *p) {
    machine_free(&p->machine);
    free(p->order);
    free(p->sequences);
    free(p->times);
}

/* Write the addresses and sequence numbers of the next pass. */
static void write_addresses(population *p, traffic *t) {
    for (unsigned i = 0; i < BUFFERS; i++) {
        uint32_t number = p->order[p->next++ % p->count], sequence = p->sequences[number];
        uint8_t *at = t->payloads[i] + (t->version == 9 ? 12 : 8);
        for (int byte = 0; byte < 4; byte++) at[byte] = (uint8_t)(sequence >> (24 - 8 * byte));
        p->sequences[number] += t->version == 9 ? 1 : t->records[i % TEMPLATES];
        set_source(&t->items[i], number);
    }
    p->next %= p->count;
}

static double time_pass(machine *m, traffic *t, size_t batch) {
    double begin = cpu_seconds();
    for (size_t i = 0; i < BUFFERS; i += batch)
        machine_decode(m, &(datagrams){.items = &t->items[i],
                                       .count = batch < BUFFERS - i ? batch : BUFFERS - i});
    return cpu_seconds() - begin;
}

/* Return nanoseconds per datagram. Each pass decodes every record without a fault. */
static double repeat(population *p, traffic *t, size_t batch) {
    machine *m = &p->machine;
    uint64_t flows = m->row.count, expected = 0;
    double seconds = 0;
    for (unsigned i = 0; i < DATAGRAMS; i++) expected += t->records[i % BUFFERS % TEMPLATES];
    for (unsigned pass = 0; pass < DATAGRAMS / BUFFERS; pass++) {
        write_addresses(p, t);
        seconds += time_pass(m, t, batch);
    }
    if (m->row.count - flows != expected) fail("not every record became a flow");
    return seconds * 1e9 / DATAGRAMS;
}

static void check_counters(const population *p) {
    const fb_exporters *exporters = &p->machine.decoder->exporters;
    if (exporters->count != p->count) fail("exporters are missing");
    for (size_t i = 0; i < exporters->capacity; i++) {
        const fb_exporter *exporter = fb_exporters_at(exporters, i);
        for (unsigned status = 0; exporter && status < FB_STATUS_COUNT; status++)
            if (exporter->counters.status[status]) fail(fb_status_name((fb_status)status));
    }
}

/* Results ------------------------------------------------------------------------------------ */

typedef struct {
    const fb_plan *plan;
    unsigned repetitions;
    size_t batch;
    bool json;
} run;

static void print(const run *run, const char *name, population *p, double flows, double one) {
    spread time = spread_of(p->times, run->repetitions);
    double bytes = (double)p->bytes / p->count;
    if (run->json)
        printf("{\"workload\": \"%s\", \"exporters\": %u, \"ns_per_datagram\": %.1f, \"least\": "
               "%.1f, \"greatest\": %.1f, "
               "\"ns_per_flow\": %.2f, \"ratio\": %.3f, \"bytes_per_exporter\": %.0f, "
               "\"compiled_templates\": "
               "%zu}\n",
               name, p->count, time.median, time.least, time.greatest, time.median / flows,
               time.median / one, bytes, p->compiled_templates);
    else
        printf("%-26s %9u %10.1f %10.1f %10.1f %9.2f %7.3f %10.0f %8zu\n", name, p->count,
               time.median, time.least, time.greatest, time.median / flows, time.median / one,
               bytes, p->compiled_templates);
}

static void bench(const run *run, traffic *t, unsigned version, bool own) {
    static population populations[COUNTS];
    double flows = 0, one = 0;
    char name[40];
    snprintf(name, sizeof name, "%s, %s", version == 9 ? "netflow9" : "ipfix",
             own ? "each its own" : "the same");
    make_traffic(t, version);
    for (unsigned i = 0; i < TEMPLATES; i++) flows += (double)t->records[i] / TEMPLATES;
    for (unsigned i = 0; i < COUNTS; i++) {
        population_new(&populations[i], run->plan, exporter_counts[i], version, own,
                       run->repetitions);
        repeat(&populations[i], t, run->batch);
        populations[i].machine.allocated = (allocations){0};
    }
    for (unsigned r = 0; r < run->repetitions; r++)
        for (unsigned i = 0; i < COUNTS; i++)
            populations[i].times[r] = repeat(&populations[i], t, run->batch);
    for (unsigned i = 0; i < COUNTS; i++) {
        if (i == 0) one = spread_of(populations[i].times, run->repetitions).median;
        print(run, name, &populations[i], flows, one);
        check_counters(&populations[i]);
        if (populations[i].machine.allocated.calls)
            fail("memory was allocated while flows were decoded");
        population_free(&populations[i]);
    }
}

static size_t read_number(const char *text) {
    size_t number = strtoul(text, NULL, 10);
    if (!number) fail("the number must be at least 1");
    return number;
}

int main(int argc, char **argv) {
    static const char usage[] = "usage: run_scale [--json] [--repetitions N] [--batch N] PLAN";
    static named_plan plan;
    static traffic traffic;
    run run = {.repetitions = 7, .batch = 256};
    fb_memory memory = fb_memory_system(0);
    int next = 1;
    for (; next < argc && argv[next][0] == '-'; next++) {
        if (strcmp(argv[next], "--json") == 0) run.json = true;
        else if (strcmp(argv[next], "--repetitions") == 0 && next + 1 < argc)
            run.repetitions = (unsigned)read_number(argv[++next]);
        else if (strcmp(argv[next], "--batch") == 0 && next + 1 < argc)
            run.batch = read_number(argv[++next]);
        else fail(usage);
    }
    if (next + 1 != argc) fail(usage);
    read_plan(&plan, argv[next], &memory);
    run.plan = plan.plan;
    traffic.payloads = must(malloc(BUFFERS * sizeof *traffic.payloads));
    if (!run.json)
        printf("%-26s %9s %10s %10s %10s %9s %7s %10s %8s\n", "", "", "ns per", "", "", "ns per",
               "", "bytes per", "");
    if (!run.json)
        printf("%-26s %9s %10s %10s %10s %9s %7s %10s %8s\n", "templates", "exporters", "datagram",
               "least", "greatest", "flow", "ratio", "exporter", "compiled");
    for (unsigned version = 9; version <= 10; version++)
        for (int own = 0; own < 2; own++) bench(&run, &traffic, version, own);
    free(traffic.payloads);
    plan_free(&plan);
    return EXIT_SUCCESS;
}
