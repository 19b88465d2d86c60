#include "bench/workload.h"

#include <time.h>

#include "core/capture/capture.h"
#include "bench/numbering.h"

enum { OUTPUT = 1 << 18, BATCH = 256 };
static const double SECONDS_PER_REPETITION = 0.05;

_Noreturn void fail(const char *what) {
    fprintf(stderr, "benchmark: %s\n", what);
    exit(EXIT_FAILURE);
}

void *must(void *p) {
    if (!p) fail("no memory");
    return p;
}

/* Files -------------------------------------------------------------------------------------- */

file read_file(const char *path) {
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

void read_plan(named_plan *plan, const char *path, fb_memory *memory) {
    file lines = read_file(path);
    if (plan_read(plan, (const char *)lines.data, memory) != FB_OK) fail("no memory for the plan");
    free(lines.data);
}

/* Datagrams ---------------------------------------------------------------------------------- */

static void add(datagrams *all, const fb_datagram *datagram) {
    if (all->count == all->capacity) {
        all->capacity = 2 * all->capacity + 1024;
        all->items = must(realloc(all->items, all->capacity * sizeof *all->items));
    }
    fb_datagram *item = &all->items[all->count++];
    *item = *datagram;
    item->payload.data = must(malloc(datagram->payload.size + 1));
    if (datagram->payload.size)
        memcpy((uint8_t *)(uintptr_t)item->payload.data, datagram->payload.data,
               datagram->payload.size);
    all->bytes += datagram->payload.size;
}

void release_datagrams(datagrams *all) {
    for (size_t i = 0; i < all->count; i++) free((void *)(uintptr_t)all->items[i].payload.data);
    free(all->items);
}

datagrams read_datagrams(const file *capture) {
    fb_memory memory = fb_memory_system(0);
    fb_capture *scanner;
    datagrams all = {0};
    fb_datagram batch[BATCH];
    size_t begin = 0, count, consumed;
    fb_status status;
    if (fb_capture_new(&scanner, &memory, (fb_capture_options){.any_port = true}) != FB_OK)
        fail("no memory");
    do {
        fb_bytes rest = {capture->data + begin, capture->size - begin};
        status = fb_capture_scan(scanner, rest, true, batch, BATCH, &count, &consumed);
        for (size_t i = 0; i < count; i++) add(&all, &batch[i]);
        begin += consumed;
    } while (status == FB_OK);
    fb_capture_free(scanner);
    return all;
}

/* Machine ------------------------------------------------------------------------------------ */

static void *count_resize(void *context, void *p, size_t old_size, size_t new_size) {
    allocations *allocated = context;
    allocated->calls++;
    allocated->bytes += new_size;
    return fb_system_resize(NULL, p, old_size, new_size);
}

void machine_new(machine *m, const fb_plan *plan, decode_messages *decode,
                 fb_decoder_options options) {
    *m = (machine){.decode = decode, .output = must(malloc(OUTPUT)), .capacity = OUTPUT};
    m->memory = (fb_memory){.resize = count_resize, .context = &m->allocated};
    if (fb_decoder_new(&m->decoder, plan, options, &m->memory) != FB_OK ||
        fb_row_new(&m->row, plan, &m->memory) != FB_OK)
        fail("no memory");
}

void machine_free(machine *m) {
    fb_row_free(&m->row);
    fb_decoder_free(m->decoder);
    free(m->output);
}

static void empty_output(machine *m) {
    size_t size = fb_row_size(&m->row);
    m->bytes_out += size;
    if (m->messages && fwrite(m->output, 1, size, m->messages) != size)
        fail("the messages cannot be written");
    fb_row_set_output(&m->row, m->output, m->capacity, 0);
}

static void decode(machine *m, const fb_datagram *items, size_t count) {
    fb_position position = {0};
    fb_row_set_output(&m->row, m->output, m->capacity, 0);
    while (m->decode(m->decoder, items, count, &position, &m->row) == FB_NO_SPACE) {
        empty_output(m);
        if (m->row.needed <= m->capacity) continue;
        m->capacity = m->row.needed;
        m->output = must(realloc(m->output, m->capacity));
        fb_row_set_output(&m->row, m->output, m->capacity, 0);
    }
    empty_output(m);
}

void machine_decode(machine *m, const datagrams *set) {
    decode(m, set->items, set->count);
}

static uint64_t count_templates(const fb_decoder *decoder) {
    uint64_t templates = 0;
    for (size_t i = 0; i < decoder->exporters.capacity; i++) {
        const fb_exporter *exporter = fb_exporters_at(&decoder->exporters, i);
        if (exporter) templates += exporter->counters.templates;
    }
    return templates;
}

/* Copy all datagrams repeatedly until they fill `bytes` bytes, and renumber them. `records` has
   the number of records of each. */
static datagrams fill(const datagrams *data, const uint32_t *records, size_t bytes) {
    datagrams set = {0};
    numberings numbers = {0};
    while (data->count && set.bytes < bytes)
        for (size_t i = 0; i < data->count; i++) {
            add(&set, &data->items[i]);
            number_datagram(&numbers, &set.items[set.count - 1], records[i]);
        }
    numberings_free(&numbers);
    return set;
}

datagrams machine_learn(machine *m, const datagrams *all, size_t bytes) {
    datagrams kept = {0};
    uint32_t *records = must(calloc(all->count + 1, sizeof *records));
    decode_messages *chosen = m->decode;
    m->decode = fb_row_decode;
    for (size_t i = 0; i < all->count; i++) {
        uint64_t flows = m->row.count, templates = count_templates(m->decoder);
        decode(m, &all->items[i], 1);
        if (m->row.count == flows || count_templates(m->decoder) != templates) continue;
        records[kept.count] = (uint32_t)(m->row.count - flows);
        add(&kept, &all->items[i]);
    }
    m->decode = chosen;
    if (bytes) {
        datagrams set = fill(&kept, records, bytes);
        release_datagrams(&kept);
        kept = set;
    }
    free(records);
    return kept;
}

/* Timing ------------------------------------------------------------------------------------- */

double cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double time_passes(pass *run, void *context, const datagrams *set) {
    double begin = cpu_seconds(), now;
    unsigned passes = 0;
    do {
        run(context, set);
        passes++;
        now = cpu_seconds();
    } while (now - begin < SECONDS_PER_REPETITION);
    return (now - begin) * 1e9 / passes;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

spread spread_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare);
    return (spread){values[count / 2], values[0], values[count - 1]};
}
