/* From a captured frame to its UDP datagram: link layer and VLAN tags, IPv4 or IPv6 header, UDP
   header. Tunnels are not opened; only the outer headers are read.

   A packet that is not a datagram has one of these statuses, which are also counters:

     FB_UNSUPPORTED_LINK_TYPE  the link type is not in the list below
     FB_OTHER_PACKET           not UDP over IP, or headers that contradict each other
     FB_TRUNCATED_PACKET       the frame is shorter than its headers state */
#ifndef FB_CAPTURE_LINK_H
#define FB_CAPTURE_LINK_H

#include "core/base/datagram.h"

/* https://www.tcpdump.org/linktypes.html. Files of BSD systems use the two other numbers of raw
   IP. */
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
    fb_bytes data; /* the captured bytes */
    uint16_t link_type;
    bool cut; /* the frame was longer */
} fb_frame;

enum { FB_PROTOCOL_UDP = 17 };

/* An IP packet without its headers. */
typedef struct {
    uint8_t source[16], destination[16]; /* IPv4-mapped for IPv4 */
    fb_bytes payload;                    /* the captured part, without link layer padding */
    bool cut;                            /* the packet was longer */
    uint8_t protocol;                    /* of the payload */
    /* Set if the payload is a part of a larger one: */
    bool fragment, more_fragments;
    uint32_t fragment_offset; /* bytes */
    uint32_t fragment_id;
} fb_ip_packet;

/* Read the headers up to IP. Views in `packet` point into the frame. */
fb_status fb_link_read_packet(const fb_frame *frame, fb_ip_packet *packet);

/* Skip the IPv6 extension headers at the start of the payload, up to and including a fragment
   header. OTHER_PACKET: the payload is not UDP and no header can lead to UDP, so no fragment of
   such packets is stored. */
fb_status fb_link_skip_extensions(fb_ip_packet *packet);

/* Read the UDP header. Sets all of `datagram` except its time. The payload is a view of the
   packet's payload. */
fb_status fb_link_read_udp(const fb_ip_packet *packet, fb_datagram *datagram);

#endif
