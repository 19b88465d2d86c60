/* The values of nfdump's flow records, and the IPFIX elements for them (IANA's registry).

   A flow record has extensions, each with an id of nfdump. An extension is a structure in the byte
   order of the file. Extensions without IANA elements (ACLs, latency, payload, tunnels, labels of
   nfdump, and those of pf and Nokia) are left out. */
#ifndef FB_CAPTURE_NFCAPD_FIELDS_H
#define FB_CAPTURE_NFCAPD_FIELDS_H

#include "core/base/base.h"

/* The extensions that are read. The last ones are views that the reader adds. */
enum {
    FB_NFCAPD_GENERIC = 1,
    FB_NFCAPD_IPV4 = 2,
    FB_NFCAPD_IPV6 = 3,
    FB_NFCAPD_MISC = 4,
    FB_NFCAPD_COUNTS = 5,
    FB_NFCAPD_VLAN = 6,
    FB_NFCAPD_AS = 7,
    FB_NFCAPD_BGP_NEXT_HOP4 = 8,
    FB_NFCAPD_BGP_NEXT_HOP6 = 9,
    FB_NFCAPD_NEXT_HOP4 = 10,
    FB_NFCAPD_NEXT_HOP6 = 11,
    FB_NFCAPD_EXPORTER4 = 12,
    FB_NFCAPD_EXPORTER6 = 13,
    FB_NFCAPD_MPLS = 14,
    FB_NFCAPD_MAC = 15,
    FB_NFCAPD_ADJACENT_AS = 16,
    FB_NFCAPD_FIREWALL_EVENT = 19,
    FB_NFCAPD_NAT4 = 20,
    FB_NFCAPD_NAT6 = 21,
    FB_NFCAPD_NAT_PORT = 22,
    FB_NFCAPD_USER = 24,
    FB_NFCAPD_NAT_EVENT = 25,
    FB_NFCAPD_NAT_PORT_BLOCK = 26,
    FB_NFCAPD_APPLICATION = 27,
    FB_NFCAPD_OBSERVATION = 33,
    FB_NFCAPD_VRF = 36,
    FB_NFCAPD_LAYER2 = 38,
    FB_NFCAPD_FLOW_ID = 39,
    FB_NFCAPD_IP_INFO = 42,
    FB_NFCAPD_PREFIX4, /* MISC of a flow without IPv6 addresses */
    FB_NFCAPD_PREFIX6, /* MISC of a flow with IPv6 addresses */
    FB_NFCAPD_ENGINE,  /* the record header, for NetFlow v5 and v7 */
    FB_NFCAPD_EXTENSIONS
};

typedef enum {
    FB_NFCAPD_NUMBER,
    FB_NFCAPD_OPTIONAL, /* a number whose zero means absent */
    FB_NFCAPD_ADDRESS6, /* two numbers of 8 bytes */
    FB_NFCAPD_BYTES,    /* the whole extension */
    FB_NFCAPD_TEXT      /* until a zero byte */
} fb_nfcapd_kind;

typedef struct {
    uint8_t extension;
    uint8_t offset, size; /* in the extension; bytes and text: at most `size`, and 254 */
    uint8_t kind;         /* fb_nfcapd_kind */
    uint16_t element;
    uint8_t written; /* bytes in an IPFIX record; 0: variable */
} fb_nfcapd_field;

static const fb_nfcapd_field fb_nfcapd_fields[] = {
#define FB_FIELD(extension, offset, size, kind, element, written) \
    {FB_NFCAPD_##extension, offset, size, FB_NFCAPD_##kind, element, written}
    FB_FIELD(GENERIC, 0, 8, OPTIONAL, 152, 8),        /* flowStartMilliseconds */
    FB_FIELD(GENERIC, 8, 8, OPTIONAL, 153, 8),        /* flowEndMilliseconds */
    FB_FIELD(GENERIC, 24, 8, NUMBER, 2, 8),           /* packetDeltaCount */
    FB_FIELD(GENERIC, 32, 8, NUMBER, 1, 8),           /* octetDeltaCount */
    FB_FIELD(GENERIC, 40, 2, NUMBER, 7, 2),           /* sourceTransportPort */
    FB_FIELD(GENERIC, 42, 2, NUMBER, 11, 2),          /* destinationTransportPort */
    FB_FIELD(GENERIC, 44, 1, NUMBER, 4, 1),           /* protocolIdentifier */
    FB_FIELD(GENERIC, 45, 1, NUMBER, 6, 1),           /* tcpControlBits */
    FB_FIELD(GENERIC, 46, 1, OPTIONAL, 89, 1),        /* forwardingStatus */
    FB_FIELD(GENERIC, 47, 1, NUMBER, 5, 1),           /* ipClassOfService */
    FB_FIELD(IPV4, 0, 4, NUMBER, 8, 4),               /* sourceIPv4Address */
    FB_FIELD(IPV4, 4, 4, NUMBER, 12, 4),              /* destinationIPv4Address */
    FB_FIELD(IPV6, 0, 16, ADDRESS6, 27, 16),          /* sourceIPv6Address */
    FB_FIELD(IPV6, 16, 16, ADDRESS6, 28, 16),         /* destinationIPv6Address */
    FB_FIELD(MISC, 0, 4, NUMBER, 10, 4),              /* ingressInterface */
    FB_FIELD(MISC, 4, 4, NUMBER, 14, 4),              /* egressInterface */
    FB_FIELD(MISC, 10, 1, OPTIONAL, 61, 1),           /* flowDirection */
    FB_FIELD(MISC, 11, 1, OPTIONAL, 55, 1),           /* postIpClassOfService */
    FB_FIELD(MISC, 12, 1, OPTIONAL, 239, 1),          /* biflowDirection */
    FB_FIELD(MISC, 13, 1, OPTIONAL, 136, 1),          /* flowEndReason */
    FB_FIELD(PREFIX4, 8, 1, NUMBER, 9, 1),            /* sourceIPv4PrefixLength */
    FB_FIELD(PREFIX4, 9, 1, NUMBER, 13, 1),           /* destinationIPv4PrefixLength */
    FB_FIELD(PREFIX6, 8, 1, NUMBER, 29, 1),           /* sourceIPv6PrefixLength */
    FB_FIELD(PREFIX6, 9, 1, NUMBER, 30, 1),           /* destinationIPv6PrefixLength */
    FB_FIELD(COUNTS, 0, 8, OPTIONAL, 3, 8),           /* deltaFlowCount */
    FB_FIELD(COUNTS, 8, 8, OPTIONAL, 24, 8),          /* postPacketDeltaCount */
    FB_FIELD(COUNTS, 16, 8, OPTIONAL, 23, 8),         /* postOctetDeltaCount */
    FB_FIELD(VLAN, 0, 4, OPTIONAL, 58, 2),            /* vlanId */
    FB_FIELD(VLAN, 4, 4, OPTIONAL, 59, 2),            /* postVlanId */
    FB_FIELD(AS, 0, 4, NUMBER, 16, 4),                /* bgpSourceAsNumber */
    FB_FIELD(AS, 4, 4, NUMBER, 17, 4),                /* bgpDestinationAsNumber */
    FB_FIELD(BGP_NEXT_HOP4, 0, 4, NUMBER, 18, 4),     /* bgpNextHopIPv4Address */
    FB_FIELD(BGP_NEXT_HOP6, 0, 16, ADDRESS6, 63, 16), /* bgpNextHopIPv6Address */
    FB_FIELD(NEXT_HOP4, 0, 4, NUMBER, 15, 4),         /* ipNextHopIPv4Address */
    FB_FIELD(NEXT_HOP6, 0, 16, ADDRESS6, 62, 16),     /* ipNextHopIPv6Address */
    FB_FIELD(MPLS, 0, 4, OPTIONAL, 70, 3),            /* mplsTopLabelStackSection */
    FB_FIELD(MPLS, 4, 4, OPTIONAL, 71, 3),            /* mplsLabelStackSection2 to 10 */
    FB_FIELD(MPLS, 8, 4, OPTIONAL, 72, 3),
    FB_FIELD(MPLS, 12, 4, OPTIONAL, 73, 3),
    FB_FIELD(MPLS, 16, 4, OPTIONAL, 74, 3),
    FB_FIELD(MPLS, 20, 4, OPTIONAL, 75, 3),
    FB_FIELD(MPLS, 24, 4, OPTIONAL, 76, 3),
    FB_FIELD(MPLS, 28, 4, OPTIONAL, 77, 3),
    FB_FIELD(MPLS, 32, 4, OPTIONAL, 78, 3),
    FB_FIELD(MPLS, 36, 4, OPTIONAL, 79, 3),
    FB_FIELD(MAC, 0, 8, OPTIONAL, 56, 6),             /* sourceMacAddress */
    FB_FIELD(MAC, 8, 8, OPTIONAL, 57, 6),             /* postDestinationMacAddress */
    FB_FIELD(MAC, 16, 8, OPTIONAL, 80, 6),            /* destinationMacAddress */
    FB_FIELD(MAC, 24, 8, OPTIONAL, 81, 6),            /* postSourceMacAddress */
    FB_FIELD(ADJACENT_AS, 0, 4, NUMBER, 128, 4),      /* bgpNextAdjacentAsNumber */
    FB_FIELD(ADJACENT_AS, 4, 4, NUMBER, 129, 4),      /* bgpPrevAdjacentAsNumber */
    FB_FIELD(FIREWALL_EVENT, 0, 8, OPTIONAL, 323, 8), /* observationTimeMilliseconds */
    FB_FIELD(FIREWALL_EVENT, 8, 4, NUMBER, 148, 4),   /* flowId */
    FB_FIELD(FIREWALL_EVENT, 14, 1, NUMBER, 233, 1),  /* firewallEvent */
    FB_FIELD(NAT4, 0, 4, NUMBER, 225, 4),             /* postNATSourceIPv4Address */
    FB_FIELD(NAT4, 4, 4, NUMBER, 226, 4),             /* postNATDestinationIPv4Address */
    FB_FIELD(NAT6, 0, 16, ADDRESS6, 281, 16),         /* postNATSourceIPv6Address */
    FB_FIELD(NAT6, 16, 16, ADDRESS6, 282, 16),        /* postNATDestinationIPv6Address */
    FB_FIELD(NAT_PORT, 0, 2, NUMBER, 227, 2),         /* postNAPTSourceTransportPort */
    FB_FIELD(NAT_PORT, 2, 2, NUMBER, 228, 2),         /* postNAPTDestinationTransportPort */
    FB_FIELD(USER, 0, 66, TEXT, 371, 0),              /* userName */
    FB_FIELD(NAT_EVENT, 0, 8, OPTIONAL, 323, 8),      /* observationTimeMilliseconds */
    FB_FIELD(NAT_EVENT, 8, 4, OPTIONAL, 283, 4),      /* natPoolId */
    FB_FIELD(NAT_EVENT, 12, 1, NUMBER, 230, 1),       /* natEvent */
    FB_FIELD(NAT_PORT_BLOCK, 0, 2, NUMBER, 361, 2),   /* portRangeStart */
    FB_FIELD(NAT_PORT_BLOCK, 2, 2, NUMBER, 362, 2),   /* portRangeEnd */
    FB_FIELD(NAT_PORT_BLOCK, 4, 2, NUMBER, 363, 2),   /* portRangeStepSize */
    FB_FIELD(NAT_PORT_BLOCK, 6, 2, NUMBER, 364, 2),   /* portRangeNumPorts */
    FB_FIELD(APPLICATION, 0, 254, BYTES, 95, 0),      /* applicationId */
    FB_FIELD(OBSERVATION, 0, 8, NUMBER, 138, 8),      /* observationPointId */
    FB_FIELD(OBSERVATION, 8, 4, NUMBER, 149, 4),      /* observationDomainId */
    FB_FIELD(VRF, 0, 4, NUMBER, 235, 4),              /* egressVRFID */
    FB_FIELD(VRF, 4, 4, NUMBER, 234, 4),              /* ingressVRFID */
    FB_FIELD(LAYER2, 0, 2, OPTIONAL, 243, 2),         /* dot1qVlanId */
    FB_FIELD(LAYER2, 2, 2, OPTIONAL, 245, 2),         /* dot1qCustomerVlanId */
    FB_FIELD(LAYER2, 4, 2, OPTIONAL, 254, 2),         /* postDot1qVlanId */
    FB_FIELD(LAYER2, 6, 2, OPTIONAL, 255, 2),         /* postDot1qCustomerVlanId */
    FB_FIELD(LAYER2, 8, 4, OPTIONAL, 252, 4),         /* ingressPhysicalInterface */
    FB_FIELD(LAYER2, 12, 4, OPTIONAL, 253, 4),        /* egressPhysicalInterface */
    FB_FIELD(LAYER2, 16, 8, OPTIONAL, 351, 8),        /* layer2SegmentId */
    FB_FIELD(LAYER2, 24, 2, OPTIONAL, 256, 2),        /* ethernetType */
    FB_FIELD(LAYER2, 26, 1, OPTIONAL, 60, 1),         /* ipVersion */
    FB_FIELD(FLOW_ID, 0, 8, NUMBER, 148, 8),          /* flowId */
    FB_FIELD(IP_INFO, 1, 1, OPTIONAL, 197, 1),        /* fragmentFlags */
    FB_FIELD(IP_INFO, 2, 1, OPTIONAL, 52, 1),         /* minimumTTL */
    FB_FIELD(IP_INFO, 3, 1, OPTIONAL, 53, 1),         /* maximumTTL */
    FB_FIELD(ENGINE, 6, 1, NUMBER, 38, 1),            /* engineType */
    FB_FIELD(ENGINE, 7, 1, NUMBER, 39, 1),            /* engineId */
#undef FB_FIELD
};

#define FB_NFCAPD_FIELD_COUNT (sizeof fb_nfcapd_fields / sizeof *fb_nfcapd_fields)

#endif
