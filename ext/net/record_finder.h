/* Finds the records in datagrams of NetFlow v9 and IPFIX: the number of records of an IPFIX
   message, which its sequence numbers count, and the uptimes in records of NetFlow v9. A decoder
   keeps the templates.

   Usage: read all datagrams once, so that templates are known for the datagrams before them. Then
   read them again in the same order, and ask about each datagram directly after reading it. */
#ifndef FB_NET_RECORD_FINDER_H
#define FB_NET_RECORD_FINDER_H

#include "core/base/datagram.h"
#include "core/exporter/sequence.h"

typedef struct fb_record_finder fb_record_finder;

/* Create a finder; free it with fb_record_finder_free. `memory` must outlive it. `seed`: any random
   number. OK or NO_MEMORY. */
fb_status fb_record_finder_new(fb_record_finder **out, fb_memory *memory, uint64_t seed);
void fb_record_finder_free(fb_record_finder *finder);

/* Learn the templates of a datagram. Other protocols are ignored. */
void fb_record_finder_read(fb_record_finder *finder, const fb_datagram *datagram);

/* Return the number of records in the IPFIX message that was read last. `incomplete`: it has
   further records, whose templates are unknown or which are cut short. */
fb_sequence_content fb_record_finder_count(const fb_record_finder *finder,
                                           const fb_datagram *datagram);

/* Receives the offset of a field in the payload. */
typedef fb_status (*fb_record_field)(void *context, size_t offset);

/* Call `visit` for each FIRST_SWITCHED and LAST_SWITCHED of 4 bytes (RFC 3954 section 8) in the
   NetFlow v9 datagram that was read last. Records of variable length are skipped. Returns the first
   status of `visit` that is not OK. */
fb_status fb_record_finder_visit_uptimes(const fb_record_finder *finder,
                                         const fb_datagram *datagram, fb_record_field visit,
                                         void *context);

#endif
