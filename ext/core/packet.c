/* Sampled packets. */
#include "packet.h"

#include <stddef.h>

static const char *const tunnels[FB_TUNNEL_COUNT] = {
#define FB_X(constant, name) name,
    FB_TUNNEL_LIST(FB_X)
#undef FB_X
};

const char *fb_tunnel_name(fb_tunnel tunnel) {
    return (unsigned)tunnel < FB_TUNNEL_COUNT ? tunnels[tunnel] : NULL;
}
