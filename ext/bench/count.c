/* Decodes for whoever counts instructions from outside (benchmarks/instructions.py); nothing is timed.

   usage: run_count PASSES PLAN CAPTURE

   All datagrams are fed once, then the working set PASSES times. Prints how many flows one pass has, and for which kind of
   processor the decoder was compiled. Between two runs only the passes differ: what the rest of the program does cancels out.
   The set is so large that the two datagrams of an exporter in each pass at which its numbers leap (numbering.h) do not count
   for much. Where any datagram comes late nevertheless, that fails: it is another way through the core that would be counted.

   The instructions of AVX-512 are never used: valgrind has none of them. */
#include "bench/workload.h"

enum { OCTETS = 500000 }; /* a fifth of what is timed: valgrind is slow */

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
    datagrams set = machine_learn(&m, &all, OCTETS);
    uint64_t flows = m.row.count, late = count_late(m.decoder);
    for (unsigned long i = 0; i < passes; i++) machine_decode(&m, &set);
    if (count_late(m.decoder) != late) fail("datagrams of the working set came late");
    printf("%llu %s\n", (unsigned long long)(m.row.count - flows) / passes, name_processor(m.decoder->processor));
    machine_free(&m);
    release_datagrams(&set);
    release_datagrams(&all);
    free(capture.data);
    plan_free(&plan);
    return EXIT_SUCCESS;
}
