/* NetFlow v1, v5, v7, v9 and IPFIX datagrams. v9 and IPFIX use tables of templates. A table is sent
   as a template, and its records are written from it. */
#include "generate/generate_internal.h"

/* NetFlow v5 header: version, count, sysUptime, unix_secs, unix_nsecs, flow_sequence, engine type
   and id, sampling. v7 has 4 reserved bytes after flow_sequence. v1 ends before flow_sequence. */
typedef struct {
    unsigned version;
    size_t header_size; /* bytes */
    size_t record_size;
    unsigned max_records;
} netflow_fixed;

enum { AS_TRANS = 23456 };

/* Return an AS number in 16 bits, or AS_TRANS if it does not fit (RFC 6793). */
static uint32_t as_of_16_bits(uint32_t as) {
    return as > 0xffff ? AS_TRANS : as;
}

static uint32_t output_interface(const fb_traffic_flow *flow) {
    return flow->dropped ? 0 : flow->destination.interface;
}

static uint32_t last_switched(const fb_traffic_flow *flow, uint32_t uptime) {
    return uptime - flow->idle;
}

static uint32_t first_switched(const fb_traffic_flow *flow, uint32_t uptime) {
    return uptime - flow->idle - flow->duration;
}

static uint8_t *put_zeros(uint8_t *out, size_t size) {
    memset(out, 0, size);
    return out + size;
}

static uint8_t *put_fixed_record(uint8_t *out, unsigned version, const fb_traffic_flow *flow,
                                 uint32_t uptime) {
    out = fb_put_bytes(out, flow->source.address, 4);
    out = fb_put_bytes(out, flow->destination.address, 4);
    out = fb_put_bytes(out, flow->destination.next_hop, 4);
    out = fb_put16(fb_put16(out, flow->source.interface), output_interface(flow));
    out = fb_put32(fb_put32(out, flow->packets), flow->bytes);
    out = fb_put32(fb_put32(out, first_switched(flow, uptime)), last_switched(flow, uptime));
    out = fb_put16(fb_put16(out, flow->source.port), flow->destination.port);
    if (version == 1) {
        out = fb_put8(fb_put8(fb_put16(out, 0), flow->protocol), flow->tos);
        return put_zeros(fb_put8(out, flow->tcp_flags), 11);
    }
    out = fb_put8(fb_put8(out, 0), flow->tcp_flags);
    out = fb_put8(fb_put8(out, flow->protocol), flow->tos);
    out = fb_put16(fb_put16(out, as_of_16_bits(flow->source.as)),
                   as_of_16_bits(flow->destination.as));
    out = fb_put8(fb_put8(out, flow->source.prefix_length), flow->destination.prefix_length);
    /* v7: all fields are valid, and no router was bypassed */
    return put_zeros(out, version == 7 ? 6 : 2);
}

/* Write a header and records of one fixed layout. */
static uint8_t *put_fixed(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                          const uint8_t *limit, netflow_fixed layout) {
    const uint32_t packet_interval_mode = 1u << 14;
    uint32_t uptime = fb_generator_uptime(generator, exporter);
    uint64_t count = ((uint64_t)(limit - out) - layout.header_size) / layout.record_size;
    if (count > layout.max_records) count = layout.max_records;
    if (count > fb_generator_flows_left(generator)) count = fb_generator_flows_left(generator);

    out = fb_put16(fb_put16(out, layout.version), (uint32_t)count);
    out = fb_put32(fb_put32(out, uptime), fb_generator_seconds(generator));
    out = fb_put32(out, (uint32_t)(generator->clock % 1000000000));
    if (layout.version != 1) out = fb_put32(out, exporter->sequence);
    if (layout.version == 5) {
        out = fb_put8(fb_put8(out, 0), exporter->index);
        out = fb_put16(out, packet_interval_mode | generator->options.sampling_rate);
    }
    if (layout.version == 7) out = put_zeros(out, 4);
    for (uint64_t i = 0; i < count; i++) {
        fb_traffic_flow flow;
        fb_traffic_draw(&generator->random, false, &flow);
        out = put_fixed_record(out, layout.version, &flow, uptime);
    }
    exporter->sequence += (uint32_t)count; /* unit: flows */
    generator->flows_written += count;
    return out;
}

uint8_t *fb_put_netflow1(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                         const uint8_t *limit) {
    return put_fixed(generator, exporter, out, limit, (netflow_fixed){1, 16, 52, 24});
}

uint8_t *fb_put_netflow5(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                         const uint8_t *limit) {
    return put_fixed(generator, exporter, out, limit, (netflow_fixed){5, 24, 48, 30});
}

uint8_t *fb_put_netflow7(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *out,
                         const uint8_t *limit) {
    return put_fixed(generator, exporter, out, limit, (netflow_fixed){7, 24, 52, 27});
}

/* Information elements, with the enterprise number above the lowest 16 bits. NetFlow v9 scopes have
   their own numbers (RFC 3954 section 6.1). An internal enterprise number that is never sent
   separates them. */
#define ELEMENT(enterprise, id) ((uint32_t)(enterprise) << 16 | (id))
#define JUNIPER                 2636
#define NETFLOW9_SCOPE          1

enum {
    BYTES = 1,
    PACKETS = 2,
    PROTOCOL = 4,
    TOS = 5,
    TCP_FLAGS = 6,
    SOURCE_PORT = 7,
    SOURCE_IPV4 = 8,
    SOURCE_PREFIX_IPV4 = 9,
    INPUT = 10,
    DESTINATION_PORT = 11,
    DESTINATION_IPV4 = 12,
    DESTINATION_PREFIX_IPV4 = 13,
    OUTPUT = 14,
    NEXT_HOP_IPV4 = 15,
    SOURCE_AS = 16,
    DESTINATION_AS = 17,
    BGP_NEXT_HOP_IPV4 = 18,
    LAST_SWITCHED = 21,
    FIRST_SWITCHED = 22,
    SOURCE_IPV6 = 27,
    DESTINATION_IPV6 = 28,
    SOURCE_PREFIX_IPV6 = 29,
    DESTINATION_PREFIX_IPV6 = 30,
    FLOW_LABEL = 31,
    ICMP_IPV4 = 32,
    SAMPLING_INTERVAL = 34,
    SAMPLER_ID = 48,
    SAMPLER_MODE = 49,
    SAMPLER_RANDOM_INTERVAL = 50,
    SOURCE_MAC = 56,
    SOURCE_VLAN = 58,
    DESTINATION_VLAN = 59,
    IP_VERSION = 60,
    DIRECTION = 61,
    NEXT_HOP_IPV6 = 62,
    BGP_NEXT_HOP_IPV6 = 63,
    DESTINATION_MAC = 80,
    INTERFACE_NAME = 82,
    FORWARDING_STATUS = 89,
    APPLICATION_ID = 95,
    APPLICATION_NAME = 96,
    FLOW_END_REASON = 136,
    ICMP_IPV6 = 139,
    OBSERVATION_DOMAIN = 149,
    FLOW_START_MS = 152,
    FLOW_END_MS = 153,
    SYSTEM_INIT_MS = 160,
    IP_TTL = 192,
    POST_NAT_SOURCE_IPV4 = 225,
    POST_NAT_DESTINATION_IPV4 = 226,
    POST_NAT_SOURCE_PORT = 227,
    POST_NAT_DESTINATION_PORT = 228,
    INGRESS_VRF = 234,
    EGRESS_VRF = 235,
    ETHERNET_TYPE = 256,
    SELECTOR_ID = 302,
    SELECTOR_ALGORITHM = 304,
    SAMPLING_PACKET_INTERVAL = 305,
    SAMPLING_PACKET_SPACE = 306,
    JUNIPER_COMMON_PROPERTIES = ELEMENT(JUNIPER, 137),
    SCOPE_SYSTEM = ELEMENT(NETFLOW9_SCOPE, 1)
};

#define VARIABLE 0xffffu
/* a length of three bytes, and more bytes than any name used here */
#define LARGEST_STRING (3 + 16)
#define ALIGNMENT      4

typedef struct {
    uint32_t element;
    uint16_t size; /* bytes, or VARIABLE */
} netflow_field;

typedef struct {
    uint16_t id;
    uint8_t scope_count; /* above 0: an options template */
    uint8_t field_count; /* scopes included */
    uint8_t sampler;     /* value of SAMPLER_ID or SELECTOR_ID fields */
    bool ipv6;
    const netflow_field *fields;
} netflow_template;

#define FIELDS(array) .field_count = sizeof(array) / sizeof(netflow_field), .fields = (array)

/* Typical of a Cisco router. */
static const netflow_field netflow9_ipv4[] = {{BYTES, 4},
                                              {PACKETS, 4},
                                              {SOURCE_IPV4, 4},
                                              {DESTINATION_IPV4, 4},
                                              {INPUT, 4},
                                              {OUTPUT, 4},
                                              {LAST_SWITCHED, 4},
                                              {FIRST_SWITCHED, 4},
                                              {SOURCE_PORT, 2},
                                              {DESTINATION_PORT, 2},
                                              {SOURCE_AS, 4},
                                              {DESTINATION_AS, 4},
                                              {BGP_NEXT_HOP_IPV4, 4},
                                              {SOURCE_PREFIX_IPV4, 1},
                                              {DESTINATION_PREFIX_IPV4, 1},
                                              {PROTOCOL, 1},
                                              {TCP_FLAGS, 1},
                                              {TOS, 1},
                                              {DIRECTION, 1},
                                              {FORWARDING_STATUS, 1},
                                              {SAMPLER_ID, 2},
                                              {INGRESS_VRF, 4},
                                              {EGRESS_VRF, 4}};
static const netflow_field netflow9_ipv6[] = {{BYTES, 4},
                                              {PACKETS, 4},
                                              {SOURCE_IPV6, 16},
                                              {DESTINATION_IPV6, 16},
                                              {INPUT, 4},
                                              {OUTPUT, 4},
                                              {LAST_SWITCHED, 4},
                                              {FIRST_SWITCHED, 4},
                                              {FLOW_LABEL, 4},
                                              {SOURCE_PORT, 2},
                                              {DESTINATION_PORT, 2},
                                              {SOURCE_AS, 4},
                                              {DESTINATION_AS, 4},
                                              {BGP_NEXT_HOP_IPV6, 16},
                                              {SOURCE_PREFIX_IPV6, 1},
                                              {DESTINATION_PREFIX_IPV6, 1},
                                              {PROTOCOL, 1},
                                              {TCP_FLAGS, 1},
                                              {TOS, 1},
                                              {DIRECTION, 1},
                                              {FORWARDING_STATUS, 1},
                                              {SAMPLER_ID, 2},
                                              {INGRESS_VRF, 4},
                                              {EGRESS_VRF, 4}};
/* Typical of a NAT gateway that sends the sampling rate in every record. */
static const netflow_field netflow9_nat[] = {{SOURCE_IPV4, 4},
                                             {DESTINATION_IPV4, 4},
                                             {POST_NAT_SOURCE_IPV4, 4},
                                             {POST_NAT_DESTINATION_IPV4, 4},
                                             {SOURCE_PORT, 2},
                                             {DESTINATION_PORT, 2},
                                             {POST_NAT_SOURCE_PORT, 2},
                                             {POST_NAT_DESTINATION_PORT, 2},
                                             {NEXT_HOP_IPV4, 4},
                                             {INPUT, 2},
                                             {OUTPUT, 2},
                                             {PACKETS, 8},
                                             {BYTES, 8},
                                             {FIRST_SWITCHED, 4},
                                             {LAST_SWITCHED, 4},
                                             {PROTOCOL, 1},
                                             {TCP_FLAGS, 1},
                                             {TOS, 1},
                                             {SOURCE_MAC, 6},
                                             {DESTINATION_MAC, 6},
                                             {SOURCE_VLAN, 2},
                                             {DESTINATION_VLAN, 2},
                                             {SAMPLING_INTERVAL, 4}};
static const netflow_field netflow9_random_sampler[] = {
    {SCOPE_SYSTEM, 4}, {SAMPLER_ID, 2}, {SAMPLER_MODE, 1}, {SAMPLER_RANDOM_INTERVAL, 4}};
static const netflow_field netflow9_packet_sampler[] = {
    {SCOPE_SYSTEM, 4}, {SAMPLER_ID, 4}, {SAMPLING_PACKET_INTERVAL, 4}, {SAMPLING_PACKET_SPACE, 4}};

static const netflow_field ipfix_ipv4[] = {{SOURCE_IPV4, 4},
                                           {DESTINATION_IPV4, 4},
                                           {NEXT_HOP_IPV4, 4},
                                           {BGP_NEXT_HOP_IPV4, 4},
                                           {SOURCE_PORT, 2},
                                           {DESTINATION_PORT, 2},
                                           {ICMP_IPV4, 2},
                                           {TCP_FLAGS, 2},
                                           {PROTOCOL, 1},
                                           {TOS, 1},
                                           {IP_TTL, 1},
                                           {IP_VERSION, 1},
                                           {BYTES, 8},
                                           {PACKETS, 8},
                                           {FLOW_START_MS, 8},
                                           {FLOW_END_MS, 8},
                                           {INPUT, 4},
                                           {OUTPUT, 4},
                                           {SOURCE_AS, 4},
                                           {DESTINATION_AS, 4},
                                           {SOURCE_PREFIX_IPV4, 1},
                                           {DESTINATION_PREFIX_IPV4, 1},
                                           {FLOW_END_REASON, 1},
                                           {DIRECTION, 1},
                                           {FORWARDING_STATUS, 1},
                                           {SELECTOR_ID, 4}};
static const netflow_field ipfix_ipv6[] = {{SOURCE_IPV6, 16},
                                           {DESTINATION_IPV6, 16},
                                           {NEXT_HOP_IPV6, 16},
                                           {SOURCE_PORT, 2},
                                           {DESTINATION_PORT, 2},
                                           {ICMP_IPV6, 2},
                                           {TCP_FLAGS, 2},
                                           {PROTOCOL, 1},
                                           {TOS, 1},
                                           {IP_TTL, 1},
                                           {IP_VERSION, 1},
                                           {FLOW_LABEL, 4},
                                           {BYTES, 8},
                                           {PACKETS, 8},
                                           {FLOW_START_MS, 8},
                                           {FLOW_END_MS, 8},
                                           {INPUT, 4},
                                           {OUTPUT, 4},
                                           {SOURCE_AS, 4},
                                           {DESTINATION_AS, 4},
                                           {SOURCE_PREFIX_IPV6, 1},
                                           {DESTINATION_PREFIX_IPV6, 1},
                                           {FLOW_END_REASON, 1},
                                           {DIRECTION, 1},
                                           {FORWARDING_STATUS, 1}};
/* Names of variable length, an enterprise element, counters of reduced size (RFC 7011 section 6.2),
   times relative to the uptime. */
static const netflow_field ipfix_layer2[] = {{SOURCE_MAC, 6},
                                             {DESTINATION_MAC, 6},
                                             {SOURCE_VLAN, 2},
                                             {DESTINATION_VLAN, 2},
                                             {ETHERNET_TYPE, 2},
                                             {INTERFACE_NAME, VARIABLE},
                                             {SOURCE_IPV4, 4},
                                             {DESTINATION_IPV4, 4},
                                             {PROTOCOL, 1},
                                             {SOURCE_PORT, 2},
                                             {DESTINATION_PORT, 2},
                                             {TCP_FLAGS, 1},
                                             {BYTES, 5},
                                             {PACKETS, 3},
                                             {FIRST_SWITCHED, 4},
                                             {LAST_SWITCHED, 4},
                                             {INPUT, 4},
                                             {OUTPUT, 4},
                                             {JUNIPER_COMMON_PROPERTIES, 2},
                                             {APPLICATION_ID, 4},
                                             {APPLICATION_NAME, VARIABLE}};
static const netflow_field ipfix_sampler[] = {{SELECTOR_ID, 4},
                                              {SELECTOR_ALGORITHM, 2},
                                              {SAMPLING_PACKET_INTERVAL, 4},
                                              {SAMPLING_PACKET_SPACE, 4}};
static const netflow_field ipfix_system[] = {{OBSERVATION_DOMAIN, 4}, {SYSTEM_INIT_MS, 8}};

/* The differences between the two protocols. Data templates are sorted by frequency of use. */
typedef struct {
    uint16_t version;
    uint16_t header_size;
    uint16_t template_set;
    uint16_t options_set;
    netflow_template data[3];
    netflow_template options[2];
} netflow_dialect;

static const netflow_dialect netflow9 = {
    9,
    20,
    0,
    1,
    {{.id = 256, .sampler = 1, FIELDS(netflow9_ipv4)},
     {.id = 257, .sampler = 2, FIELDS(netflow9_ipv6), .ipv6 = true},
     {.id = 258, FIELDS(netflow9_nat)}},
    {{.id = 260, .sampler = 1, .scope_count = 1, FIELDS(netflow9_random_sampler)},
     {.id = 261, .sampler = 2, .scope_count = 1, FIELDS(netflow9_packet_sampler)}},
};

static const netflow_dialect ipfix = {
    10,
    16,
    2,
    3,
    {{.id = 256, .sampler = 1, FIELDS(ipfix_ipv4)},
     {.id = 257, FIELDS(ipfix_ipv6), .ipv6 = true},
     {.id = 258, FIELDS(ipfix_layer2)}},
    {{.id = 260, .sampler = 1, .scope_count = 1, FIELDS(ipfix_sampler)},
     {.id = 261, .scope_count = 1, FIELDS(ipfix_system)}},
};

/* The input of a record. Options records have no flow. */
typedef struct {
    const fb_generator *generator;
    const fb_generator_exporter *exporter;
    const netflow_template *template;
    const fb_traffic_flow *flow;
} netflow_record;

static uint64_t options_value(const netflow_record *record, uint32_t element) {
    /* selectorAlgorithm; FLOW_SAMPLER_MODE */
    const uint32_t count_based_sampling = 1, random_sampling = 2;
    uint32_t rate = record->generator->options.sampling_rate;
    switch (element) {
        case SCOPE_SYSTEM:
        case OBSERVATION_DOMAIN: return fb_generator_domain(record->exporter);
        case SAMPLER_ID:
        case SELECTOR_ID: return record->template->sampler;
        case SAMPLER_MODE: return random_sampling;
        case SELECTOR_ALGORITHM: return count_based_sampling;
        case SAMPLER_RANDOM_INTERVAL:
        case SAMPLING_INTERVAL: return rate;
        case SAMPLING_PACKET_INTERVAL: return 1;
        case SAMPLING_PACKET_SPACE: return rate - 1;
        case SYSTEM_INIT_MS: return record->exporter->boot;
        default: assert(false && "an element of a table has no value"); return 0;
    }
}

static uint64_t icmp_type_and_code(const fb_traffic_flow *flow) {
    bool icmp = flow->protocol == FB_PROTO_ICMP || flow->protocol == FB_PROTO_ICMPV6;
    return icmp ? flow->destination.port : 0;
}

static uint64_t field_value(const netflow_record *record, uint32_t element) {
    const fb_traffic_flow *flow = record->flow;
    uint32_t uptime = fb_generator_uptime(record->generator, record->exporter);
    uint64_t now = record->generator->clock / 1000000;
    switch (element) {
        case BYTES: return flow->bytes;
        case PACKETS: return flow->packets;
        case PROTOCOL: return flow->protocol;
        case TOS: return flow->tos;
        case TCP_FLAGS: return flow->tcp_flags;
        case SOURCE_PORT: return flow->source.port;
        case DESTINATION_PORT: return flow->destination.port;
        case SOURCE_PREFIX_IPV4:
        case SOURCE_PREFIX_IPV6: return flow->source.prefix_length;
        case DESTINATION_PREFIX_IPV4:
        case DESTINATION_PREFIX_IPV6: return flow->destination.prefix_length;
        case INPUT: return flow->source.interface;
        case OUTPUT: return output_interface(flow);
        case SOURCE_AS: return flow->source.as;
        case DESTINATION_AS: return flow->destination.as;
        case LAST_SWITCHED: return last_switched(flow, uptime);
        case FIRST_SWITCHED: return first_switched(flow, uptime);
        case FLOW_START_MS: return now - flow->idle - flow->duration;
        case FLOW_END_MS: return now - flow->idle;
        case FLOW_LABEL: return flow->flow_label;
        case ICMP_IPV4:
        case ICMP_IPV6: return icmp_type_and_code(flow);
        case SOURCE_MAC: return flow->source.mac;
        case DESTINATION_MAC: return flow->destination.mac;
        case SOURCE_VLAN: return flow->source.vlan;
        case DESTINATION_VLAN: return flow->destination.vlan;
        case IP_VERSION: return flow->ipv6 ? 6 : 4;
        case ETHERNET_TYPE: return flow->ipv6 ? 0x86dd : 0x0800;
        case IP_TTL: return flow->ttl;
        case DIRECTION: return flow->egress;
        case FLOW_END_REASON: return flow->end_reason;
        /* 130: dropped by an ACL; 64: forwarded */
        case FORWARDING_STATUS: return flow->dropped ? 130 : 64;
        case JUNIPER_COMMON_PROPERTIES: return 2u << 10 | flow->dropped;
        case INGRESS_VRF: return 0x60000000u + flow->source.interface % 4;
        case EGRESS_VRF: return 0x60000000u + flow->destination.interface % 4;
        case APPLICATION_ID: return 3u << 24 | flow->server_port; /* IANA-L4 (RFC 6759) */
        case POST_NAT_SOURCE_IPV4: return 0xcb007100u | flow->source.address[3];
        case POST_NAT_SOURCE_PORT: return flow->source.port;
        case POST_NAT_DESTINATION_PORT: return flow->destination.port;
        default: return options_value(record, element);
    }
}

static const char *const interface_names[FB_TRAFFIC_INTERFACES] = {
    "ge-0/0/0",   "ge-0/0/1", "ge-0/0/2",  "ge-0/0/3",  "ge-0/0/4", "ge-0/0/5",
    "ge-0/0/6",   "ge-0/0/7", "ge-0/0/10", "ge-0/0/11", "xe-1/0/0", "xe-1/0/1",
    "xe-1/0/2:0", "et-2/0/0", "ae0",       "ae1.100"};

/* Write a string. `long_form` selects the longer form of the length, which is equally valid (RFC
   7011 section 7). */
static uint8_t *put_string(uint8_t *out, const char *string, bool long_form) {
    uint32_t size = (uint32_t)strlen(string);
    assert(size + 3 <= LARGEST_STRING);
    out = long_form ? fb_put16(fb_put8(out, 255), size) : fb_put8(out, size);
    return fb_put_bytes(out, string, size);
}

static uint8_t *put_field(uint8_t *out, const netflow_record *record, netflow_field field) {
    const fb_traffic_flow *flow = record->flow;
    switch (field.element) {
        case SOURCE_IPV4:
        case SOURCE_IPV6: return fb_put_bytes(out, flow->source.address, field.size);
        case DESTINATION_IPV4:
        case DESTINATION_IPV6:
        case POST_NAT_DESTINATION_IPV4:
            return fb_put_bytes(out, flow->destination.address, field.size);
        case NEXT_HOP_IPV4:
        case NEXT_HOP_IPV6:
        case BGP_NEXT_HOP_IPV4:
        case BGP_NEXT_HOP_IPV6: return fb_put_bytes(out, flow->destination.next_hop, field.size);
        case INTERFACE_NAME:
            return put_string(out, interface_names[flow->source.interface - 1], false);
        case APPLICATION_NAME: return put_string(out, flow->application, flow->packets % 8 == 0);
        default: return fb_put_uint(out, field_value(record, field.element), field.size);
    }
}

static uint8_t *put_record(uint8_t *out, const netflow_record *record) {
    const netflow_template *template = record->template;
    for (uint32_t i = 0; i < template->field_count; i++)
        out = put_field(out, record, template->fields[i]);
    return out;
}

/* A set: id, length, content, and zeros up to a multiple of four bytes. */
static uint8_t *start_set(uint8_t *out, uint32_t id) {
    return fb_put16(out, id) + 2;
}

static uint8_t *finish_set(uint8_t *set, uint8_t *end) {
    end = fb_put_zeros(end, (size_t)(set - end) & (ALIGNMENT - 1));
    fb_put16(set + 2, (uint32_t)(end - set));
    return end;
}

static uint8_t *put_specifier(uint8_t *out, netflow_field field) {
    uint32_t enterprise = field.element >> 16;
    bool announced = enterprise && enterprise != NETFLOW9_SCOPE;
    out = fb_put16(out, (announced ? 0x8000u : 0) | (field.element & 0x7fff));
    out = fb_put16(out, field.size);
    return announced ? fb_put32(out, enterprise) : out;
}

/* Write a template.

     template                      id, field count
     options template, NetFlow v9  id, bytes of the scope specifiers, bytes of the others
     options template, IPFIX       id, field count, scope count */
static uint8_t *put_template(uint8_t *out, const netflow_dialect *dialect,
                             const netflow_template *template) {
    uint32_t scopes = template->scope_count, fields = template->field_count;
    out = fb_put16(out, template->id);
    if (!scopes) out = fb_put16(out, fields);
    else if (dialect == &netflow9) out = fb_put16(fb_put16(out, scopes * 4), (fields - scopes) * 4);
    else out = fb_put16(fb_put16(out, fields), scopes);
    for (uint32_t i = 0; i < fields; i++) out = put_specifier(out, template->fields[i]);
    return out;
}

typedef struct {
    uint32_t templates;
    uint32_t records; /* data and options records */
} netflow_counts;

static uint8_t *put_templates(uint8_t *out, const netflow_dialect *dialect, netflow_record *record,
                              netflow_counts *counts) {
    uint8_t *set = out;
    out = start_set(set, dialect->template_set);
    for (size_t i = 0; i < 3; i++) out = put_template(out, dialect, &dialect->data[i]);
    out = finish_set(set, out);
    set = out;
    out = start_set(set, dialect->options_set);
    for (size_t i = 0; i < 2; i++) out = put_template(out, dialect, &dialect->options[i]);
    out = finish_set(set, out);
    for (size_t i = 0; i < 2; i++) {
        record->template = &dialect->options[i];
        set = out;
        out = finish_set(set, put_record(start_set(set, record->template->id), record));
    }
    counts->templates = 5;
    counts->records = 2;
    return out;
}

static size_t largest_record_size(const netflow_template *template) {
    size_t size = 0;
    for (uint32_t i = 0; i < template->field_count; i++)
        size += template->fields[i].size == VARIABLE ? LARGEST_STRING : template->fields[i].size;
    return size;
}

/* Write a run of flows with the same template. Returns NULL if there is no room for one flow. */
static uint8_t *put_data_set(uint8_t *set, const uint8_t *limit, fb_generator *generator,
                             netflow_record *record, netflow_counts *counts) {
    const netflow_template *template = record->template;
    size_t record_size = largest_record_size(template);
    size_t room = (size_t)(limit - set);
    if (room < 4 + record_size + ALIGNMENT - 1) return NULL;
    uint64_t run = 1 + fb_random_below(&generator->random, 12);
    if (run > (room - 4 - (ALIGNMENT - 1)) / record_size)
        run = (room - 4 - (ALIGNMENT - 1)) / record_size;
    if (run > fb_generator_flows_left(generator)) run = fb_generator_flows_left(generator);

    uint8_t *out = start_set(set, template->id);
    for (uint64_t i = 0; i < run; i++) {
        fb_traffic_flow flow;
        fb_traffic_draw(&generator->random, template->ipv6, &flow);
        record->flow = &flow;
        out = put_record(out, record);
    }
    record->flow = NULL;
    generator->flows_written += run;
    counts->records += (uint32_t)run;
    return finish_set(set, out);
}

static const netflow_template *draw_template(fb_random *random, const netflow_dialect *dialect) {
    uint32_t ticket = fb_random_below(random, 8);
    return &dialect->data[ticket < 5 ? 0 : ticket < 7 ? 1 : 2];
}

static uint8_t *put_sets(fb_generator *generator, fb_generator_exporter *exporter,
                         const netflow_dialect *dialect, uint8_t *out, const uint8_t *limit,
                         netflow_counts *counts) {
    netflow_record record = {.generator = generator, .exporter = exporter};
    if (exporter->datagrams % generator->options.template_refresh == 0)
        out = put_templates(out, dialect, &record, counts);
    while (fb_generator_flows_left(generator)) {
        record.template = draw_template(&generator->random, dialect);
        uint8_t *end = put_data_set(out, limit, generator, &record, counts);
        if (!end) break;
        out = end;
    }
    return out;
}

/* NetFlow v9 header: version, count of records and templates, sysUptime, unix_secs, sequence of
   datagrams, source id. */
uint8_t *fb_put_netflow9(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *header,
                         const uint8_t *limit) {
    netflow_counts counts = {0};
    uint8_t *end =
        put_sets(generator, exporter, &netflow9, header + netflow9.header_size, limit, &counts);
    header = fb_put16(fb_put16(header, netflow9.version), counts.templates + counts.records);
    header = fb_put32(fb_put32(header, fb_generator_uptime(generator, exporter)),
                      fb_generator_seconds(generator));
    fb_put32(fb_put32(header, exporter->sequence++), fb_generator_domain(exporter));
    return end;
}

/* IPFIX header: version, length, export time, sequence of data records, observation domain. */
uint8_t *fb_put_ipfix(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *header,
                      const uint8_t *limit) {
    netflow_counts counts = {0};
    uint8_t *end =
        put_sets(generator, exporter, &ipfix, header + ipfix.header_size, limit, &counts);
    fb_put16(header, ipfix.version);
    fb_put16(header + 2, (uint32_t)(end - header));
    header = fb_put32(header + 4, fb_generator_seconds(generator));
    fb_put32(fb_put32(header, exporter->sequence), fb_generator_domain(exporter));
    exporter->sequence += counts.records;
    return end;
}
