/* Find the start of the packet inside a tunnel, after the packet around it was walked. */
#ifndef FB_PACKET_TUNNEL_H
#define FB_PACKET_TUNNEL_H

#include "core/packet/packet.h"

#define FB_EVERY_TUNNEL ((1u << FB_TUNNEL_COUNT) - 1)

typedef struct {
    const uint8_t *p; /* first header of the inner packet; possibly at the end of the outer one */
    uint32_t type;    /* an ethertype, or FB_PACKET_FRAME */
    uint64_t id;      /* VNI, GRE key, TEID; 0: none */
    fb_layer layer;   /* header of the tunnel, unless the IP protocol names it; UNKNOWN: none */
    uint32_t size;    /* bytes of that header */
} fb_inner;

/* Return true if a tunnel follows the IP header of `outer`, its header is complete, and `tunnels`
   has its bit (1 << fb_tunnel). */
bool fb_tunnel_find(const fb_packet *outer, unsigned tunnels, fb_inner *inner);

/* Return the bytes of a GRE header of version 0 or 1. REQUIRES: 4 bytes. */
uint32_t fb_gre_size(const uint8_t *p);

#endif
