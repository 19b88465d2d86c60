/* The templates of NetFlow v9 and IPFIX that the generator sends. */
#ifndef FB_GENERATE_GENERATE_TEMPLATES_H
#define FB_GENERATE_GENERATE_TEMPLATES_H

#include "core/base/base.h"

/* Information elements, with the enterprise number above the lowest 16 bits. NetFlow v9 scopes have
   their own numbers (RFC 3954 section 6.1). An internal enterprise number that is never sent
   separates them. */
#define FB_ENTERPRISE_ELEMENT(enterprise, id) ((uint32_t)(enterprise) << 16 | (id))
#define FB_JUNIPER                            2636
#define FB_NETFLOW9_SCOPE                     1

enum {
    FB_ELEMENT_BYTES = 1,
    FB_ELEMENT_PACKETS = 2,
    FB_ELEMENT_PROTOCOL = 4,
    FB_ELEMENT_TOS = 5,
    FB_ELEMENT_TCP_FLAGS = 6,
    FB_ELEMENT_SOURCE_PORT = 7,
    FB_ELEMENT_SOURCE_IPV4 = 8,
    FB_ELEMENT_SOURCE_PREFIX_IPV4 = 9,
    FB_ELEMENT_INPUT = 10,
    FB_ELEMENT_DESTINATION_PORT = 11,
    FB_ELEMENT_DESTINATION_IPV4 = 12,
    FB_ELEMENT_DESTINATION_PREFIX_IPV4 = 13,
    FB_ELEMENT_OUTPUT = 14,
    FB_ELEMENT_NEXT_HOP_IPV4 = 15,
    FB_ELEMENT_SOURCE_AS = 16,
    FB_ELEMENT_DESTINATION_AS = 17,
    FB_ELEMENT_BGP_NEXT_HOP_IPV4 = 18,
    FB_ELEMENT_LAST_SWITCHED = 21,
    FB_ELEMENT_FIRST_SWITCHED = 22,
    FB_ELEMENT_SOURCE_IPV6 = 27,
    FB_ELEMENT_DESTINATION_IPV6 = 28,
    FB_ELEMENT_SOURCE_PREFIX_IPV6 = 29,
    FB_ELEMENT_DESTINATION_PREFIX_IPV6 = 30,
    FB_ELEMENT_FLOW_LABEL = 31,
    FB_ELEMENT_ICMP_IPV4 = 32,
    FB_ELEMENT_SAMPLING_INTERVAL = 34,
    FB_ELEMENT_SAMPLER_ID = 48,
    FB_ELEMENT_SAMPLER_MODE = 49,
    FB_ELEMENT_SAMPLER_RANDOM_INTERVAL = 50,
    FB_ELEMENT_SOURCE_MAC = 56,
    FB_ELEMENT_SOURCE_VLAN = 58,
    FB_ELEMENT_DESTINATION_VLAN = 59,
    FB_ELEMENT_IP_VERSION = 60,
    FB_ELEMENT_DIRECTION = 61,
    FB_ELEMENT_NEXT_HOP_IPV6 = 62,
    FB_ELEMENT_BGP_NEXT_HOP_IPV6 = 63,
    FB_ELEMENT_DESTINATION_MAC = 80,
    FB_ELEMENT_INTERFACE_NAME = 82,
    FB_ELEMENT_FORWARDING_STATUS = 89,
    FB_ELEMENT_APPLICATION_ID = 95,
    FB_ELEMENT_APPLICATION_NAME = 96,
    FB_ELEMENT_FLOW_END_REASON = 136,
    FB_ELEMENT_ICMP_IPV6 = 139,
    FB_ELEMENT_OBSERVATION_DOMAIN = 149,
    FB_ELEMENT_FLOW_START_MS = 152,
    FB_ELEMENT_FLOW_END_MS = 153,
    FB_ELEMENT_SYSTEM_INIT_MS = 160,
    FB_ELEMENT_IP_TTL = 192,
    FB_ELEMENT_POST_NAT_SOURCE_IPV4 = 225,
    FB_ELEMENT_POST_NAT_DESTINATION_IPV4 = 226,
    FB_ELEMENT_POST_NAT_SOURCE_PORT = 227,
    FB_ELEMENT_POST_NAT_DESTINATION_PORT = 228,
    FB_ELEMENT_INGRESS_VRF = 234,
    FB_ELEMENT_EGRESS_VRF = 235,
    FB_ELEMENT_ETHERNET_TYPE = 256,
    FB_ELEMENT_SELECTOR_ID = 302,
    FB_ELEMENT_SELECTOR_ALGORITHM = 304,
    FB_ELEMENT_SAMPLING_PACKET_INTERVAL = 305,
    FB_ELEMENT_SAMPLING_PACKET_SPACE = 306,
    FB_ELEMENT_JUNIPER_COMMON_PROPERTIES = FB_ENTERPRISE_ELEMENT(FB_JUNIPER, 137),
    FB_ELEMENT_SCOPE_SYSTEM = FB_ENTERPRISE_ELEMENT(FB_NETFLOW9_SCOPE, 1)
};

#define FB_VARIABLE 0xffffu
/* a length of three bytes, and more bytes than any name used here */
#define FB_LARGEST_STRING (3 + 16)

typedef struct {
    uint32_t element;
    uint16_t size; /* bytes, or FB_VARIABLE */
} fb_netflow_field;

typedef struct {
    uint16_t id;
    uint8_t scope_count; /* above 0: an options template */
    uint8_t field_count; /* scopes included */
    uint8_t sampler;     /* value of FB_ELEMENT_SAMPLER_ID or FB_ELEMENT_SELECTOR_ID fields */
    bool ipv6;
    const fb_netflow_field *fields;
} fb_netflow_template;

/* The differences between the two protocols. Data templates are sorted by frequency of use. */
typedef struct {
    uint16_t version;
    uint16_t header_size;
    uint16_t template_set;
    uint16_t options_set;
    fb_netflow_template data[3];
    fb_netflow_template options[2];
} fb_netflow_dialect;

extern const fb_netflow_dialect fb_netflow9_dialect;
extern const fb_netflow_dialect fb_ipfix_dialect;

#endif
