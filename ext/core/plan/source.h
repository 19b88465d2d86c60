/* The fixed sources of column values (all sources but information elements), and the kinds of
   values.

   A source has a kind and a name that schemas use, such as "sflow:extended_switch.src_vlan". The
   order of the list is the order in which a decoder produces values within one flow. A column whose
   ranks follow this order is written at once. Any other column is deferred until the row is
   finished (plan.h). */
#ifndef FB_PLAN_SOURCE_H
#define FB_PLAN_SOURCE_H

#include "core/plan/sflow_counter_fields.h"
#include "core/plan/sflow_record_fields.h"

/* The meaning of the bytes of a value (data types of RFC 7011 section 6.1; units of the IANA
   registry). Fixed sources have the kinds UINT, IP, BYTES and TIME. Those of sFlow records may also
   be STRING, SINT or FLOAT. */
/* clang-format off */
#define FB_KIND_LIST(X) \
    X(UINT, "uint")               /* an unsigned integer; a MAC address has 48 bits */ \
    X(IP, "ip")                   /* 4 or 16 bytes */ \
    X(BYTES, "bytes")             /* bytes as they are */ \
    X(TIME, "time")               /* nanoseconds since 1970 */ \
    X(STRING, "string")           /* UTF-8, without trailing NULs */ \
    X(SINT, "sint")               /* two's complement of any size */ \
    X(BOOL, "bool")               /* 1 true, 2 false (RFC 7011 section 6.1.5) */ \
    X(FLOAT, "float")             /* binary32 or binary64, selected by the size */ \
    X(TIME_S, "time_s")           /* dateTimeSeconds */ \
    X(TIME_MS, "time_ms")         /* dateTimeMilliseconds */ \
    X(TIME_NTP_US, "time_ntp_us") /* dateTimeMicroseconds: NTP format, rounded to microseconds */ \
    X(TIME_NTP_NS, "time_ntp_ns") /* dateTimeNanoseconds: NTP format */ \
    X(TIME_UPTIME, "time_uptime") /* milliseconds since the exporter started (21, 22) */ \
    X(TIME_DELTA, "time_delta")   /* microseconds before the export time (158, 159) */ \
    /* durations */ \
    X(SPAN_S, "span_s") X(SPAN_MS, "span_ms") X(SPAN_US, "span_us") X(SPAN_NS, "span_ns") \
    /* tcpControlBits; bits above the low 12 are the data offset (RFC 7125) */ \
    X(TCP_BITS, "tcp_bits") \
    X(MAC, "mac")                 /* macAddress: exactly 6 bytes */ \
    /* basicList: members have their own kind (RFC 6313 section 4.5.1) */ \
    X(LIST, "list") \
    X(OPAQUE, "opaque") /* subTemplateList, subTemplateMultiList, unsigned256: raw bytes */
/* clang-format on */

typedef enum {
#define FB_X(constant, name) FB_KIND_##constant,
    FB_KIND_LIST(FB_X)
#undef FB_X
        FB_KIND_COUNT
} fb_kind;

/* clang-format off */
#define FB_SOURCE_LIST(X) \
    /* The same for every flow of a datagram. */ \
    X(META_TIME_RECEIVED, "meta:time_received", TIME) \
    X(META_TIME_EXPORTED, "meta:time_exported", TIME) \
    X(META_EXPORTER_ADDRESS, "meta:exporter_address", IP) \
    X(META_SOURCE_ADDRESS, "meta:source_address", IP) \
    X(META_SOURCE_PORT, "meta:source_port", UINT) \
    X(META_FLOW_TYPE, "meta:flow_type", UINT) \
    X(META_SEQUENCE_NUMBER, "meta:sequence_number", UINT) \
    X(META_OBSERVATION_DOMAIN_ID, "meta:observation_domain_id", UINT) \
    X(META_DEFAULT_SAMPLING_RATE, "meta:default_sampling_rate", UINT) \
    X(NETFLOW5_SAMPLING_INTERVAL, "netflow5:sampling_interval", UINT) \
    X(NETFLOW5_SAMPLING_MODE, "netflow5:sampling_mode", UINT) \
    X(NETFLOW5_ENGINE_TYPE, "netflow5:engine_type", UINT) \
    X(NETFLOW5_ENGINE_ID, "netflow5:engine_id", UINT) \
    /* sFlow, in the order in which the parts of a sample are read. */ \
    X(SFLOW_SUB_AGENT_ID, "sflow:datagram.sub_agent_id", UINT) \
    X(SFLOW_UPTIME, "sflow:datagram.uptime", UINT) \
    /* Only in counter and drop samples, from SAMPLE_KIND to DROP_REASON: for schemas whose rows \
       are counters. */ \
    X(SFLOW_SAMPLE_KIND, "sflow:sample.kind", UINT) /* 1 counters, 2 a discarded packet */ \
    X(SFLOW_COUNTERS_SEQUENCE, "sflow:sample.sequence_number", UINT) \
    /* 0 ifIndex, 1 VLAN, 2 physical, 3 logical entity */ \
    X(SFLOW_SOURCE_TYPE, "sflow:sample.source_id_type", UINT) \
    X(SFLOW_SOURCE_INDEX, "sflow:sample.source_id_index", UINT) \
    FB_COUNTER_LIST(FB_COUNTER_SOURCE, X) \
    /* lists: one value per lane; 2^32 - 1 is unknown */ \
    X(SFLOW_LANE_INDEX, "sflow:sfp_lane.lane_index", UINT) \
    X(SFLOW_LANE_TX_BIAS_CURRENT, "sflow:sfp_lane.tx_bias_current", UINT) \
    X(SFLOW_LANE_TX_POWER, "sflow:sfp_lane.tx_power", UINT) \
    X(SFLOW_LANE_TX_POWER_MIN, "sflow:sfp_lane.tx_power_min", UINT) \
    X(SFLOW_LANE_TX_POWER_MAX, "sflow:sfp_lane.tx_power_max", UINT) \
    X(SFLOW_LANE_TX_WAVELENGTH, "sflow:sfp_lane.tx_wavelength", UINT) \
    X(SFLOW_LANE_RX_POWER, "sflow:sfp_lane.rx_power", UINT) \
    X(SFLOW_LANE_RX_POWER_MIN, "sflow:sfp_lane.rx_power_min", UINT) \
    X(SFLOW_LANE_RX_POWER_MAX, "sflow:sfp_lane.rx_power_max", UINT) \
    X(SFLOW_LANE_RX_WAVELENGTH, "sflow:sfp_lane.rx_wavelength", UINT) \
    X(SFLOW_PORT_NAME, "sflow:port_name.name", STRING) \
    X(SFLOW_HOST_NAME, "sflow:host_descr.hostname", STRING) \
    X(SFLOW_HOST_UUID, "sflow:host_descr.uuid", BYTES) \
    X(SFLOW_HOST_MACHINE_TYPE, "sflow:host_descr.machine_type", UINT) \
    X(SFLOW_HOST_OS_NAME, "sflow:host_descr.os_name", UINT) \
    X(SFLOW_HOST_OS_RELEASE, "sflow:host_descr.os_release", STRING) \
    /* lists: one value per MAC address */ \
    X(SFLOW_ADAPTER_IF_INDEX, "sflow:host_adapters.if_index", UINT) \
    X(SFLOW_ADAPTER_MAC, "sflow:host_adapters.mac_address", UINT) \
    FB_COUNTER_TEXT_LIST(FB_COUNTER_TEXT_SOURCE, X) \
    /* notifications that were not sent */ \
    X(SFLOW_DROP_DROPS, "sflow:discarded_packet.drops", UINT) \
    X(SFLOW_DROP_INPUT, "sflow:discarded_packet.input", UINT) \
    X(SFLOW_DROP_OUTPUT, "sflow:discarded_packet.output", UINT) \
    X(SFLOW_DROP_REASON, "sflow:discarded_packet.reason", UINT) \
    /* Only in flow samples. */ \
    X(SFLOW_SAMPLING_RATE, "sflow:flow_sample.sampling_rate", UINT) \
    X(SFLOW_SAMPLE_SEQUENCE, "sflow:flow_sample.sequence_number", UINT) \
    X(SFLOW_SAMPLE_POOL, "sflow:flow_sample.sample_pool", UINT) \
    X(SFLOW_SAMPLE_DROPS, "sflow:flow_sample.drops", UINT) \
    X(SFLOW_SAMPLE_SOURCE, "sflow:flow_sample.source_id", UINT) \
    X(SFLOW_SAMPLE_PACKETS, "sflow:flow_sample.packets", UINT) /* always 1 */ \
    X(SFLOW_INPUT, "sflow:flow_sample.input", UINT) \
    X(SFLOW_OUTPUT, "sflow:flow_sample.output", UINT) \
    X(SFLOW_SWITCH_SRC_VLAN, "sflow:extended_switch.src_vlan", UINT) \
    X(SFLOW_SWITCH_SRC_PRIORITY, "sflow:extended_switch.src_priority", UINT) \
    X(SFLOW_SWITCH_DST_VLAN, "sflow:extended_switch.dst_vlan", UINT) \
    X(SFLOW_SWITCH_DST_PRIORITY, "sflow:extended_switch.dst_priority", UINT) \
    X(SFLOW_ROUTER_NEXT_HOP, "sflow:extended_router.next_hop", IP) \
    X(SFLOW_ROUTER_SRC_MASK, "sflow:extended_router.src_mask_len", UINT) \
    X(SFLOW_ROUTER_DST_MASK, "sflow:extended_router.dst_mask_len", UINT) \
    X(SFLOW_GATEWAY_NEXT_HOP, "sflow:extended_gateway.next_hop", IP) \
    X(SFLOW_GATEWAY_AS, "sflow:extended_gateway.as", UINT) /* of the router itself */ \
    /* the router's own if the wire has 0 */ \
    X(SFLOW_GATEWAY_SRC_AS, "sflow:extended_gateway.src_as", UINT) \
    X(SFLOW_GATEWAY_SRC_PEER_AS, "sflow:extended_gateway.src_peer_as", UINT) \
    /* first of the path */ \
    X(SFLOW_GATEWAY_NEXT_HOP_AS, "sflow:extended_gateway.next_hop_as", UINT) \
    X(SFLOW_GATEWAY_AS_PATH, "sflow:extended_gateway.as_path", UINT) /* one value per hop */ \
    /* last of the path; the router's own if the path is empty */ \
    X(SFLOW_GATEWAY_DST_AS, "sflow:extended_gateway.dst_as", UINT) \
    /* one value per community */ \
    X(SFLOW_GATEWAY_COMMUNITIES, "sflow:extended_gateway.communities", UINT) \
    X(SFLOW_GATEWAY_LOCAL_PREF, "sflow:extended_gateway.local_pref", UINT) \
    /* sampled_ip: the records sampled_ipv4 and sampled_ipv6 */ \
    X(SFLOW_IP_LENGTH, "sflow:sampled_ip.length", UINT) \
    X(SFLOW_IP_PROTOCOL, "sflow:sampled_ip.protocol", UINT) \
    X(SFLOW_IP_SRC, "sflow:sampled_ip.src_ip", IP) \
    X(SFLOW_IP_DST, "sflow:sampled_ip.dst_ip", IP) \
    X(SFLOW_IP_SRC_PORT, "sflow:sampled_ip.src_port", UINT) \
    X(SFLOW_IP_DST_PORT, "sflow:sampled_ip.dst_port", UINT) \
    X(SFLOW_IP_TCP_FLAGS, "sflow:sampled_ip.tcp_flags", UINT) \
    X(SFLOW_IP_TOS, "sflow:sampled_ip.tos", UINT) /* priority in the IPv6 record */ \
    X(SFLOW_ETHERNET_SRC_MAC, "sflow:sampled_ethernet.src_mac", UINT) \
    X(SFLOW_ETHERNET_DST_MAC, "sflow:sampled_ethernet.dst_mac", UINT) \
    /* Values that flowbuf derives. Each has one function in derived.tmpl.h. */ \
    X(DERIVED_SAMPLING_RATE, "derived:sampling_rate", UINT) \
    X(DERIVED_ETYPE, "derived:etype", UINT) \
    X(DERIVED_ICMP_TYPE, "derived:icmp_type", UINT) \
    X(DERIVED_ICMP_CODE, "derived:icmp_code", UINT) \
    X(DERIVED_FORWARDING_STATUS, "derived:forwarding_status", UINT) \
    /* fragmentFlags (197) in the encoding of the header: reserved 4, DF 2, MF 1 */ \
    X(DERIVED_IP_FLAGS, "derived:ip_flags", UINT) \
    X(DERIVED_MPLS_LABELS, "derived:mpls_labels", UINT) /* one value per label */ \
    /* Names that the exporter reported in options data or counter samples (names.h). */ \
    X(DERIVED_IN_IF_NAME, "derived:in_if_name", STRING) \
    X(DERIVED_OUT_IF_NAME, "derived:out_if_name", STRING) \
    X(DERIVED_IN_IF_DESCRIPTION, "derived:in_if_description", STRING) \
    X(DERIVED_OUT_IF_DESCRIPTION, "derived:out_if_description", STRING) \
    X(DERIVED_IN_IF_SPEED, "derived:in_if_speed", UINT) /* Mb/s */ \
    X(DERIVED_OUT_IF_SPEED, "derived:out_if_speed", UINT) /* Mb/s */ \
    X(DERIVED_INGRESS_VRF_NAME, "derived:ingress_vrf_name", STRING) \
    X(DERIVED_EGRESS_VRF_NAME, "derived:egress_vrf_name", STRING) \
    X(DERIVED_APPLICATION_NAME, "derived:application_name", STRING) \
    X(DERIVED_APPLICATION_CATEGORY, "derived:application_category", STRING) \
    X(DERIVED_SAMPLER_NAME, "derived:sampler_name", STRING) \
    X(DERIVED_USER_NAME, "derived:user_name", STRING) \
    X(DERIVED_OBSERVATION_POINT_NAME, "derived:observation_point_name", STRING) \
    /* Of the fields of a template. An element is its enterprise << 16 | its id. */ \
    X(DERIVED_SCOPE_ELEMENTS, "derived:scope_elements", UINT) /* one value per scope field */ \
    /* fields whose element no enabled column takes: elements, and their bytes */ \
    X(DERIVED_OTHER_ELEMENTS, "derived:other_elements", UINT) \
    X(DERIVED_OTHER_VALUES, "derived:other_values", BYTES) \
    /* A sampled packet (sFlow sampled header, elements 313 and 315), from the outside in. Each \
       source is the outermost header of its kind. */ \
    X(PACKET_PACKETS, "packet:packets", UINT) /* always 1 */ \
    /* the outer endpoints, if a tunnel was opened */ \
    X(PACKET_TUNNEL_SRC_ADDR, "packet:tunnel.src_addr", IP) \
    X(PACKET_TUNNEL_DST_ADDR, "packet:tunnel.dst_addr", IP) \
    X(PACKET_TUNNEL_ID, "packet:tunnel.id", UINT) /* VNI, GRE key, TEID */ \
    X(PACKET_SRC_MAC, "packet:ethernet.src_mac", UINT) \
    X(PACKET_DST_MAC, "packet:ethernet.dst_mac", UINT) \
    X(PACKET_VLAN_ID, "packet:vlan.id", UINT) \
    X(PACKET_INNER_VLAN_ID, "packet:vlan.inner_id", UINT) /* the second tag */ \
    X(PACKET_MPLS_LABELS, "packet:mpls.labels", UINT) /* one value per label */ \
    X(PACKET_MPLS_TTLS, "packet:mpls.ttls", UINT) /* one value per label */ \
    X(PACKET_ETYPE, "packet:ethernet.type", UINT) /* of the payload after tags and labels */ \
    X(PACKET_IP_LENGTH, "packet:ip.length", UINT) /* header and payload */ \
    X(PACKET_SRC_ADDR, "packet:ip.src_addr", IP) \
    X(PACKET_DST_ADDR, "packet:ip.dst_addr", IP) \
    X(PACKET_TOS, "packet:ip.tos", UINT) /* traffic class in IPv6 */ \
    X(PACKET_TTL, "packet:ip.ttl", UINT) /* hop limit in IPv6 */ \
    X(PACKET_FLOW_LABEL, "packet:ip.flow_label", UINT) \
    X(PACKET_FRAGMENT_ID, "packet:ip.fragment_id", UINT) \
    /* in units of 8 bytes, as on the wire */ \
    X(PACKET_FRAGMENT_OFFSET, "packet:ip.fragment_offset", UINT) \
    X(PACKET_IP_FLAGS, "packet:ip.flags", UINT) /* reserved 4, DF 2, MF 1 */ \
    X(PACKET_PROTO, "packet:ip.proto", UINT) /* after IPv6 extension headers */ \
    X(PACKET_SRC_PORT, "packet:transport.src_port", UINT) \
    X(PACKET_DST_PORT, "packet:transport.dst_port", UINT) \
    X(PACKET_TCP_FLAGS, "packet:tcp.flags", UINT) \
    X(PACKET_ICMP_TYPE, "packet:icmp.type", UINT) \
    X(PACKET_ICMP_CODE, "packet:icmp.code", UINT) \
    /* one value per segment, as on the wire */ \
    X(PACKET_ROUTING_ADDRESSES, "packet:ipv6_routing.addresses", IP) \
    X(PACKET_ROUTING_SEGMENTS_LEFT, "packet:ipv6_routing.segments_left", UINT) \
    /* one value per header, numbered as in layer_stack */ \
    X(PACKET_LAYERS, "packet:layers.stack", UINT) \
    X(PACKET_LAYER_SIZES, "packet:layers.sizes", UINT) /* bytes of each header */ \
    /* bytes of the packet that the exporter sent */ \
    X(PACKET_SECTION_LENGTH, "packet:section.length", UINT) \
    /* After the packet: fallbacks for its own values. */ \
    X(SFLOW_ETHERNET_TYPE, "sflow:sampled_ethernet.type", UINT) \
    X(SFLOW_FRAME_LENGTH, "sflow:sampled_header.frame_length", UINT) \
    X(SFLOW_ETHERNET_LENGTH, "sflow:sampled_ethernet.length", UINT) \
    /* Records that only some samples have: of flow samples and of drop samples. */ \
    FB_FLOW_FIELD_LIST(FB_FLOW_FIELD_SOURCE, X)
/* clang-format on */

typedef enum {
#define FB_X(constant, name, kind) FB_SOURCE_##constant,
    FB_SOURCE_LIST(FB_X)
#undef FB_X
        FB_SOURCE_COUNT
} fb_source;

#define FB_SOURCE_FIRST_NAME        FB_SOURCE_DERIVED_IN_IF_NAME
#define FB_SOURCE_LAST_NAME         FB_SOURCE_DERIVED_OBSERVATION_POINT_NAME
#define FB_SOURCE_FIRST_PACKET      FB_SOURCE_PACKET_PACKETS
#define FB_SOURCE_LAST_PACKET       FB_SOURCE_PACKET_SECTION_LENGTH
#define FB_SOURCE_LAST_CONSTANT     FB_SOURCE_NETFLOW5_ENGINE_ID
#define FB_SOURCE_FIRST_OF_COUNTERS FB_SOURCE_SFLOW_SAMPLE_KIND
/* of FB_COUNTER_LIST, which are contiguous */
#define FB_SOURCE_FIRST_COUNTER    (FB_SOURCE_SFLOW_SOURCE_INDEX + 1)
#define FB_SOURCE_LAST_OF_COUNTERS FB_SOURCE_SFLOW_DROP_REASON
/* of FB_COUNTER_TEXT_LIST and FB_FLOW_FIELD_LIST, which are contiguous */
#define FB_SOURCE_FIRST_COUNTER_TEXT (FB_SOURCE_SFLOW_ADAPTER_MAC + 1)
#define FB_SOURCE_FIRST_RECORD       (FB_SOURCE_SFLOW_ETHERNET_LENGTH + 1)

/* Kinds of names from options data. An observation point has the name of its interface. */
#define FB_NAME_KIND_LIST(X) \
    X(INTERFACE, "interface") \
    X(INTERFACE_DESCRIPTION, "interface_description") \
    X(INTERFACE_SPEED, "interface_speed") /* a number */ \
    X(VRF, "vrf") \
    X(APPLICATION, "application") \
    X(APPLICATION_CATEGORY, "application_category") \
    X(SAMPLER, "sampler") \
    X(USER, "user") \
    X(OBSERVATION_POINT, "observation_point")

typedef enum {
#define FB_X(constant, name) FB_NAME_##constant,
    FB_NAME_KIND_LIST(FB_X)
#undef FB_X
        FB_NAME_KINDS
} fb_name_kind;

#define FB_NAME_SIZE  255 /* bytes of the longest name */
#define FB_NAME_BLOCK 32  /* names are copied in blocks of this many bytes */

/* The kinds of names that describe an interface, as bits. */
#define FB_NAMES_OF_INTERFACES \
    (1u << FB_NAME_INTERFACE | 1u << FB_NAME_INTERFACE_DESCRIPTION | 1u << FB_NAME_INTERFACE_SPEED)

/* Return the kind of name of a source from FB_SOURCE_FIRST_NAME to FB_SOURCE_LAST_NAME. */
fb_name_kind fb_source_name_kind(fb_source source);
/* The name of a kind, as saved state has it. */
const char *fb_name_kind_name(fb_name_kind kind);

/* The scope types of NetFlow v9 (RFC 3954 section 6.1), which are sources "scope:NAME". */
#define FB_SCOPE_LIST(X) \
    X(SYSTEM, "system", 1) \
    X(INTERFACE, "interface", 2) \
    X(LINE_CARD, "line_card", 3) \
    X(CACHE, "cache", 4) \
    X(TEMPLATE, "template", 5)

typedef enum {
#define FB_X(constant, name, type) FB_SCOPE_##constant = type,
    FB_SCOPE_LIST(FB_X)
#undef FB_X
} fb_scope;

/* The fields of a NetFlow v5 record of 48 bytes (constant, name, kind, offset, size). They are
   compiled into operations like the fields of a template. v1 and v7 use the same names. v1 lacks
   some fields and has others at different offsets (decode.c). v7 has one more field, and flags in
   place of the padding of v5. */
#define FB_NETFLOW5_FIELD_LIST(X) \
    X(SRCADDR, "srcaddr", IP, 0, 4) \
    X(DSTADDR, "dstaddr", IP, 4, 4) \
    X(NEXTHOP, "nexthop", IP, 8, 4) \
    X(INPUT, "input", UINT, 12, 2) \
    X(OUTPUT, "output", UINT, 14, 2) \
    X(PACKETS, "dPkts", UINT, 16, 4) \
    X(BYTES, "dOctets", UINT, 20, 4) \
    X(FIRST, "First", TIME_UPTIME, 24, 4) \
    X(LAST, "Last", TIME_UPTIME, 28, 4) \
    X(SRCPORT, "srcport", UINT, 32, 2) \
    X(DSTPORT, "dstport", UINT, 34, 2) \
    X(PAD1, "pad1", UINT, 36, 1) \
    X(TCP_FLAGS, "tcp_flags", UINT, 37, 1) \
    X(PROT, "prot", UINT, 38, 1) \
    X(TOS, "tos", UINT, 39, 1) \
    X(SRC_AS, "src_as", UINT, 40, 2) \
    X(DST_AS, "dst_as", UINT, 42, 2) \
    X(SRC_MASK, "src_mask", UINT, 44, 1) \
    X(DST_MASK, "dst_mask", UINT, 45, 1) \
    X(PAD2, "pad2", UINT, 46, 2)
#define FB_NETFLOW7_FIELD_LIST(X) \
    FB_NETFLOW5_FIELD_LIST(X) \
    X(ROUTER_SC, "router_sc", IP, 48, 4)

typedef enum {
#define FB_X(constant, name, kind, offset, size) FB_NETFLOW5_##constant,
    FB_NETFLOW7_FIELD_LIST(FB_X)
#undef FB_X
        FB_NETFLOW5_FIELD_COUNT /* of all versions; a field with this number is padding */
} fb_netflow5_field;

#endif
