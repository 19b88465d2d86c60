/* Decodes for whoever counts instructions from outside (benchmarks/instructions.py); nothing is timed.

   usage: run_count PASSES PLAN CAPTURE

   All datagrams are fed once, then those of data alone PASSES times. Prints how many flows one pass has, and for which kind of
   processor the decoder was compiled. Between two runs only the passes differ: what the rest of the program does cancels out.

   The instructions of AVX-512 are never used: valgrind has none of them. */
#include "workload.h"

static const char *name_processor(fb_processor processor) {
    switch (processor) {
        case FB_PROCESSOR_AVX512: return "avx512";
        case FB_PROCESSOR_BMI2: return "bmi2";
        default: return "any";
    }
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
    datagrams set = machine_learn(&m, &all, 1);
    uint64_t flows = m.row.count;
    for (unsigned long i = 0; i < passes; i++) machine_decode(&m, &set);
    printf("%llu %s\n", (unsigned long long)(m.row.count - flows) / passes, name_processor(m.decoder->processor));
    machine_free(&m);
    release_datagrams(&set);
    release_datagrams(&all);
    free(capture.data);
    plan_free(&plan);
    return EXIT_SUCCESS;
}
