/* Shared by the benchmarks of the core: the datagrams of a capture, a decoder that counts its
   allocations, and timing.

   All datagrams of a capture are decoded once, so that the decoder learns templates and sampling
   rates. Then the datagrams with only data are decoded repeatedly. Copies of them, renumbered
   (numbering.h), fill a working set. The timed work includes the lookup of exporter and template,
   and emptying a full output. Any failure ends the program. */
#ifndef FB_BENCH_WORKLOAD_H
#define FB_BENCH_WORKLOAD_H

#include "core/decode/decode.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/plan_text.h"

_Noreturn void fail(const char *what);
void *must(void *p); /* return p; exit if it is NULL */

typedef struct {
    uint8_t *data; /* followed by a zero */
    size_t size;
} file;

file read_file(const char *path);
/* Read a plan from a text file (write_plan.py). `memory` must outlive it. */
void read_plan(named_plan *plan, const char *path, fb_memory *memory);

/* Datagrams that own their payloads. */
typedef struct {
    fb_datagram *items;
    size_t count, capacity, bytes;
} datagrams;

datagrams read_datagrams(const file *capture);
void release_datagrams(datagrams *all);

/* The number of allocations and their total bytes. */
typedef struct {
    uint64_t calls, bytes;
} allocations;

typedef fb_status decode_messages(fb_decoder *, const fb_datagram *, size_t, fb_position *,
                                  fb_row *);

typedef struct {
    allocations allocated;
    fb_memory memory;
    fb_decoder *decoder;
    decode_messages *decode;
    fb_row row;
    uint8_t *output;
    size_t capacity;
    uint64_t bytes_out;
    FILE *messages; /* output file of messages; NULL: none */
} machine;

/* A machine must not be moved, because its decoder points into it. */
void machine_new(machine *m, const fb_plan *plan, decode_messages *decode,
                 fb_decoder_options options);
void machine_free(machine *m);
/* Decode all datagrams. Messages are counted (row.count, bytes_out) and discarded. */
void machine_decode(machine *m, const datagrams *set);

/* Bytes of a set that exceeds the first two caches, together with its output. */
enum { WORKING_SET = 2500000 };

/* Decode all datagrams once. The result has those with flows and without templates. `bytes` 0: one
   copy; otherwise renumbered copies that fill this many bytes. The caller owns it. */
datagrams machine_learn(machine *m, const datagrams *all, size_t bytes);

/* Return the CPU time of the process. */
double cpu_seconds(void);

typedef void pass(void *context, const datagrams *set);
/* Return the CPU nanoseconds of one pass over the set, measured over at least a twentieth of a
   second. */
double time_passes(pass *run, void *context, const datagrams *set);

typedef struct {
    double median, least, greatest;
} spread;

/* Sort the values and return their spread. REQUIRES: count > 0. */
spread spread_of(double *values, size_t count);

#endif
