/* Renumbers copies of datagrams as their exporter would number them.

   A benchmark decodes the same datagrams repeatedly. With the numbers of the capture, all copies
   after the first would be duplicates. Then the benchmark would time the detection of duplicates,
   which real exporters do not cause. Here each copy continues the numbers of the previous one, in
   the units of core/exporter/sequence.h.

   If a set is decoded repeatedly, each pass starts again with its lowest number. A number slightly
   below the newest one is late, and so is everything after it until the newest is reached. For an
   exporter with few datagrams in the set, that is a whole pass. So each sequence jumps twice per
   pass: to its first datagram, and from there to the second. The jumps are too large to count as
   late or lost, so the core treats them as a restart of the exporter. These are two datagrams of
   each sequence per pass; all others are in order. */
#ifndef FB_BENCH_NUMBERING_H
#define FB_BENCH_NUMBERING_H

#include "core/base/datagram.h"

typedef struct numbering_place numbering_place;

/* The next number of each sequence. Initialize with zeros. */
typedef struct {
    numbering_place *places; /* open addressing; capacity is a power of two */
    size_t count, capacity;
} numberings;

/* Write the next numbers into a datagram, as far as it is not cut short. `records` is its number of
   data records, which IPFIX counts. REQUIRES: the payload is writable. */
void number_datagram(numberings *all, const fb_datagram *datagram, uint32_t records);
void numberings_free(numberings *all);

#endif
