/* Tunnels in a packet that has been walked: where the inner packet begins. */
#ifndef FB_TUNNEL_H
#define FB_TUNNEL_H

#include "core/packet/packet.h"

#define FB_EVERY_TUNNEL ((1u << FB_TUNNEL_COUNT) - 1)

typedef struct {
    const uint8_t *p; /* its first header, maybe at the packet's end */
    uint32_t type;    /* an ethertype, or FB_PACKET_FRAME */
    uint64_t id;      /* VNI, GRE key, TEID; 0 where there is none */
    fb_layer layer;   /* the tunnel's header, where it is not what IP names: UNKNOWN is none */
    uint32_t size;    /* its octets */
} fb_inner;

/* Whether what follows the IP header of `outer` is a tunnel of a kind that is asked for (a bit 1 << fb_tunnel each), with a
   header that is whole. */
bool fb_tunnel_find(const fb_packet *outer, unsigned tunnels, fb_inner *inner);

/* Octets of a GRE header of version 0 or 1; REQUIRES: 4 octets. */
uint32_t fb_gre_size(const uint8_t *p);

#endif
