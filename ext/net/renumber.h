/* Rewrites the numbers in the headers of a recording, so that its repetitions look like one
   uninterrupted export.

     NetFlow v5, v7   flow_sequence: flows
     NetFlow v9       sequence number: datagrams
     IPFIX            sequence number: data records, also those of options (RFC 7011 section 3.1)
     sFlow            numbers of datagrams, and of samples of each kind and source
     uptimes          of all headers; they never go back by more than FB_SEQUENCE_TOLERANCE

   Each sequence is that of one source (address and port) and observation domain or engine, in sFlow
   that of one agent and sub-agent. It begins with its first number in the recording and has no
   gaps, modulo 2^32.

   An uptime moves together with the times that depend on it. Without `now`, the time of export
   moves by the same amount, so the times of flows stay. With `now`, the caller writes the time of
   export, and the uptimes in the records of NetFlow move, so the times of flows move with it.

   The numbers of the first repetition are written once. Those of the following ones differ by a
   constant for each sequence, so that sending needs only an addition for each number. */
#ifndef FB_NET_RENUMBER_H
#define FB_NET_RENUMBER_H

#include "net/recording.h"

typedef struct fb_renumber fb_renumber;

/* Create it; free it with fb_renumber_free. `memory` must outlive it. `seed`: any random number. OK
   or NO_MEMORY. */
fb_status fb_renumber_new(fb_renumber **out, fb_memory *memory, uint64_t seed, bool now);
void fb_renumber_free(fb_renumber *renumber);

/* Learn the templates of a datagram. Call it for all datagrams before the first one is added. */
void fb_renumber_learn(fb_renumber *renumber, const fb_datagram *datagram);

/* Write the numbers of a datagram for the first repetition. Call it once for each datagram, in
   order. `source`: number of its source; sources that share a socket have the same number. OK.
   NO_MEMORY: the renumbering cannot be used. REQUIRES: the payload is writable. */
fb_status fb_renumber_add(fb_renumber *renumber, const fb_datagram *datagram, uint32_t source);

/* End the recording. `duration`: milliseconds of a repetition. Uptimes advance by this time, or
   longer if they need it, in whole seconds. */
void fb_renumber_finish(fb_renumber *renumber, uint32_t duration);

/* Write the numbers of the next repetition. `i` is the number of the datagram among those added.
   REQUIRES: fb_renumber_finish was called. */
void fb_renumber_advance(const fb_renumber *renumber, const fb_datagram *datagram, size_t i);

#endif
