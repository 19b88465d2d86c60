/* What benchmarks of the core share: the datagrams of a capture, a decoder that counts what it allocates, and timing.

   All datagrams of a capture are fed once, which teaches templates and sampling rates; then those of data alone are decoded
   over and over, as copies that fill a working set, numbered on (numbering.h). Looking up exporter and template is part of
   what is timed, and so is emptying a full output. Whatever goes wrong here ends the program. */
#ifndef FB_BENCH_WORKLOAD_H
#define FB_BENCH_WORKLOAD_H

#include "core/decode/decode.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/plan_text.h"

_Noreturn void fail(const char *what);
void *must(void *p); /* p, unless there is no memory */

typedef struct {
    uint8_t *data; /* a zero stands behind them */
    size_t size;
} file;

file read_file(const char *path);
/* The plan that a file holds as text (write_plan.py). `memory` must outlive it. */
void read_plan(named_plan *plan, const char *path, fb_memory *memory);

/* Datagrams with payloads of their own. */
typedef struct {
    fb_datagram *items;
    size_t count, capacity, octets;
} datagrams;

datagrams read_datagrams(const file *capture);
void release_datagrams(datagrams *all);

/* What was asked of a memory: how often, and for how many bytes. */
typedef struct {
    uint64_t calls, octets;
} allocations;

typedef fb_status decode_messages(fb_decoder *, const fb_datagram *, size_t, fb_position *, fb_row *);

typedef struct {
    allocations allocated;
    fb_memory memory;
    fb_decoder *decoder;
    decode_messages *decode;
    fb_row row;
    uint8_t *output;
    size_t capacity;
    uint64_t octets_out;
    FILE *messages; /* where they go; NULL: nowhere */
} machine;

/* A machine stays where it is: its decoder points into it. */
void machine_new(machine *m, const fb_plan *plan, decode_messages *decode, fb_decoder_options options);
void machine_free(machine *m);
/* Decodes them all; messages are counted (row.count, octets_out) and thrown away. */
void machine_decode(machine *m, const datagrams *set);

/* Bytes of a set that neither stays in the first two caches itself, nor does its output. */
enum { WORKING_SET = 2500000 };

/* Feeds all datagrams to the machine once. Those of data alone, flows and no templates, are the set: as they are for 0
   bytes, else as many copies as it takes to fill so many, numbered on. */
datagrams machine_learn(machine *m, const datagrams *all, size_t octets);

/* CPU time of the process. */
double cpu_seconds(void);

typedef void pass(void *context, const datagrams *set);
/* Nanoseconds of CPU time of one pass over the set, from as many as take a twentieth of a second. */
double time_passes(pass *run, void *context, const datagrams *set);

typedef struct {
    double median, least, greatest;
} spread;

/* REQUIRES: count > 0. Sorts the values. */
spread spread_of(double *values, size_t count);

#endif
