/* Sampled packets: which tunnels may be opened. */
#ifndef FB_PACKET_H
#define FB_PACKET_H

/* Kinds of tunnel whose inner packet a decoder may take for the flow. X(constant, name) */
#define FB_TUNNEL_LIST(X) \
    X(VXLAN, "vxlan") X(GENEVE, "geneve") X(GRE, "gre") X(IPIP, "ipip") X(SRV6, "srv6") X(GTP, "gtp")

typedef enum {
#define FB_X(constant, name) FB_TUNNEL_##constant,
    FB_TUNNEL_LIST(FB_X)
#undef FB_X
    FB_TUNNEL_COUNT
} fb_tunnel;

const char *fb_tunnel_name(fb_tunnel tunnel);

#endif
