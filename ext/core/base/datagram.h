/* One UDP datagram as it was received. Captures produce it, decoders consume it. */
#ifndef FB_BASE_DATAGRAM_H
#define FB_BASE_DATAGRAM_H

#include "core/base/base.h"

typedef struct {
    uint64_t time; /* of reception, in nanoseconds since 1970, at most FB_TIME_MAX; 0 is unknown */
    uint8_t source[16]; /* IPv4 as ::ffff:a.b.c.d, like `destination` */
    uint16_t source_port, destination_port;
    uint8_t destination[16];
    fb_bytes payload; /* a view; its owner defines how long it is valid */
} fb_datagram;

#endif
