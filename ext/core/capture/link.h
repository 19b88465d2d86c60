/* From a captured frame to the UDP datagram in it: link layer and VLAN tags, IPv4 or IPv6 header, UDP header. The outer
   headers only: exporters do not send through tunnels that the capture sees inside of.

   The statuses double as counters, one for each packet that is not a datagram:
     FB_UNSUPPORTED_LINK_TYPE  the link type is not in the list below
     FB_OTHER_PACKET           something else than UDP over IP, or headers that contradict themselves
     FB_TRUNCATED_PACKET       the frame ends before what its headers promise */
#ifndef FB_LINK_H
#define FB_LINK_H

#include "core/base/datagram.h"

/* https://www.tcpdump.org/linktypes.html; the two other numbers of raw IP stand in files of BSD systems. */
enum {
    FB_LINK_NULL = 0,
    FB_LINK_ETHERNET = 1,
    FB_LINK_RAW_BSD = 12,
    FB_LINK_RAW_OPENBSD = 14,
    FB_LINK_RAW = 101,
    FB_LINK_LOOP = 108,
    FB_LINK_LINUX_SLL = 113,
    FB_LINK_IPV4 = 228,
    FB_LINK_IPV6 = 229,
    FB_LINK_LINUX_SLL2 = 276
};

/* One packet record of a capture. */
typedef struct {
    uint64_t time; /* as in fb_datagram */
    fb_bytes data; /* what the capture kept */
    uint16_t link_type;
    bool cut; /* the frame was longer than that */
} fb_frame;

enum { FB_PROTOCOL_UDP = 17 };

/* An IP packet without its headers. */
typedef struct {
    uint8_t source[16], destination[16]; /* IPv4 mapped */
    fb_bytes payload;                    /* what the capture kept of it, link layer padding cut off */
    bool cut;                            /* there was more */
    uint8_t protocol;                    /* of the payload */
    /* The payload is a part of a larger one: */
    bool fragment, more_fragments;
    uint32_t fragment_offset; /* octets */
    uint32_t fragment_id;
} fb_ip_packet;

/* Views in `packet` point into the frame. */
fb_status fb_link_read_packet(const fb_frame *frame, fb_ip_packet *packet);

/* Steps over the IPv6 extension headers at the start of the payload, up to and with one that makes it a fragment. What
   neither is UDP nor can lead to it is FB_OTHER_PACKET, so that no fragment of such packets is kept. */
fb_status fb_link_skip_extensions(fb_ip_packet *packet);

/* Fills all of `datagram` but its time; the payload is a view into the packet's. */
fb_status fb_link_read_udp(const fb_ip_packet *packet, fb_datagram *datagram);

#endif
