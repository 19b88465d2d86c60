/* Decodes a working set while another program counts instructions (benchmarks/instructions.py).
   Nothing is timed.

   usage: run_count PASSES PLAN CAPTURE

   All datagrams are decoded once, then the working set PASSES times. Prints the flows of one pass,
   and the kind of processor that the decoder was compiled for. Two runs differ only in their
   passes, so the cost of the rest of the program cancels out.

   In each pass, sequence numbers jump at two datagrams of an exporter (numbering.h). The set is
   large enough to make their share small. The program fails if a datagram counts as late, because
   that would count another path through the core.

   AVX-512 is not used, because valgrind does not support it. */
#include "bench/workload.h"

enum { BYTES = 500000 }; /* a fifth of the timed working set, because valgrind is slow */

static const char *name_processor(fb_processor processor) {
    switch (processor) {
        case FB_PROCESSOR_AVX512: return "avx512";
        case FB_PROCESSOR_BMI2: return "bmi2";
        default: return "any";
    }
}

static uint64_t count_late(const fb_decoder *decoder) {
    uint64_t late = 0;
    for (size_t i = 0; i < decoder->exporters.capacity; i++) {
        const fb_exporter *exporter = fb_exporters_at(&decoder->exporters, i);
        if (exporter) late += exporter->counters.status[FB_OUT_OF_SEQUENCE];
    }
    return late;
}

int main(int argc, char **argv) {
    static named_plan plan;
    fb_memory memory = fb_memory_system(0);
    machine m;
    unsigned long passes = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
    if (!passes) fail("usage: run_count PASSES PLAN CAPTURE");
    read_plan(&plan, argv[2], &memory);
    file capture = read_file(argv[3]);
    datagrams all = read_datagrams(&capture);
    machine_new(&m, plan.plan, fb_row_decode, (fb_decoder_options){.processor = FB_PROCESSOR_BMI2});
    datagrams set = machine_learn(&m, &all, BYTES);
    uint64_t flows = m.row.count, late = count_late(m.decoder);
    for (unsigned long i = 0; i < passes; i++) machine_decode(&m, &set);
    if (count_late(m.decoder) != late) fail("datagrams of the working set counted as late");
    printf("%llu %s\n", (unsigned long long)(m.row.count - flows) / passes,
           name_processor(m.decoder->processor));
    machine_free(&m);
    release_datagrams(&set);
    release_datagrams(&all);
    free(capture.data);
    plan_free(&plan);
    return EXIT_SUCCESS;
}
