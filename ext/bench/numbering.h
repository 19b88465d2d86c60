/* Copies of datagrams, numbered on as their exporter would number them.

   A benchmark decodes the same datagrams over and over. With the numbers of the capture, each of them but the first copy
   came twice, and what is timed is how that is told: a way that no exporter makes the core take. Here each one begins
   where the one before it ended, in the units of core/exporter/sequence.h.

   Whoever decodes a set again and again jumps back in it; and a number that is just behind the newest one is late, as is
   everything after it until the newest is reached again: a whole pass, where an exporter has but few datagrams in the set.
   So a numbering leaps twice, to its first datagram and from that to the second one, further than anything is late or lost:
   to the core the exporter was started anew. That is two datagrams of each numbering in a pass; all others are in order. */
#ifndef FB_BENCH_NUMBERING_H
#define FB_BENCH_NUMBERING_H

#include "core/base/datagram.h"

typedef struct numbering_place numbering_place;

/* What comes next, by numbering. All zeros: nothing was numbered yet. */
typedef struct {
    numbering_place *places; /* open addressing; capacity is a power of two */
    size_t count, capacity;
} numberings;

/* Writes its numbers into a datagram, which is left alone as far as it is cut short. `records` are those of data in it, which
   IPFIX counts. REQUIRES: the bytes of the payload may be written. */
void number_on(numberings *all, const fb_datagram *datagram, uint32_t records);
void numberings_free(numberings *all);

#endif
