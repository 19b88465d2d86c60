/* The fields of headers that a replay rewrites. The headers are drawn in core/decode.

                          seconds      nanoseconds   uptime       number
     NetFlow v1           unix_secs    unix_nsecs    sysUptime
     NetFlow v5, v7       unix_secs    unix_nsecs    sysUptime    flow_sequence
     NetFlow v9           unix_secs                  sysUptime    sequence number
     IPFIX                export time                             sequence number

   sFlow has a variable header and no time of export. */
#ifndef FB_NET_EXPORT_HEADER_H
#define FB_NET_EXPORT_HEADER_H

#include "core/base/datagram.h"

/* Offsets in the payload; 0: the protocol has no such field. */
typedef struct {
    uint8_t size; /* of the header */
    uint8_t seconds, nanoseconds, uptime, number;
} fb_export_header;

/* Return the fields of a datagram of NetFlow or IPFIX, and set *version to 1, 5, 7, 9 or 10. NULL:
   it is of another protocol, or its header is cut short. */
const fb_export_header *fb_export_header_find(const fb_datagram *datagram, uint32_t *version);

/* Write the time of export, in nanoseconds since 1970. Uptimes stay: times of flows that are stated
   as uptimes move with the header. Does nothing for other datagrams. REQUIRES: the payload is
   writable. */
void fb_export_header_set_time(const fb_datagram *datagram, uint64_t time);

/* Store a big-endian number. REQUIRES: room for 4 bytes; any alignment. */
FB_INLINE void fb_store32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

#endif
