/* One UDP datagram as it was received: what a capture gives and a decoder takes. */
#ifndef FB_DATAGRAM_H
#define FB_DATAGRAM_H

#include "core/base/base.h"

typedef struct {
    uint64_t time;      /* of reception, nanoseconds since 1970, at most FB_TIME_MAX; 0 is unknown */
    uint8_t source[16]; /* IPv4 as ::ffff:a.b.c.d, here and below */
    uint16_t source_port, destination_port;
    uint8_t destination[16];
    fb_bytes payload; /* somebody else's: who fills the struct says for how long */
} fb_datagram;

#endif
