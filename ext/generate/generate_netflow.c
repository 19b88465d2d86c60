/* NetFlow v1, v5, v7, v9 and IPFIX datagrams. v9 and IPFIX use tables of templates. A table is sent
   as a template, and its records are written from it. */
#include "generate/generate_internal.h"
#include "generate/generate_templates.h"

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

#define ALIGNMENT 4 /* of a set, in bytes */

/* The input of a record. Options records have no flow. */
typedef struct {
    const fb_generator *generator;
    const fb_generator_exporter *exporter;
    const fb_netflow_template *template;
    const fb_traffic_flow *flow;
} netflow_record;

static uint64_t options_value(const netflow_record *record, uint32_t element) {
    /* selectorAlgorithm; FLOW_SAMPLER_MODE */
    const uint32_t count_based_sampling = 1, random_sampling = 2;
    uint32_t rate = record->generator->options.sampling_rate;
    switch (element) {
        case FB_ELEMENT_SCOPE_SYSTEM:
        case FB_ELEMENT_OBSERVATION_DOMAIN: return fb_generator_domain(record->exporter);
        case FB_ELEMENT_SAMPLER_ID:
        case FB_ELEMENT_SELECTOR_ID: return record->template->sampler;
        case FB_ELEMENT_SAMPLER_MODE: return random_sampling;
        case FB_ELEMENT_SELECTOR_ALGORITHM: return count_based_sampling;
        case FB_ELEMENT_SAMPLER_RANDOM_INTERVAL:
        case FB_ELEMENT_SAMPLING_INTERVAL: return rate;
        case FB_ELEMENT_SAMPLING_PACKET_INTERVAL: return 1;
        case FB_ELEMENT_SAMPLING_PACKET_SPACE: return rate - 1;
        case FB_ELEMENT_SYSTEM_INIT_MS: return record->exporter->boot;
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
        case FB_ELEMENT_BYTES: return flow->bytes;
        case FB_ELEMENT_PACKETS: return flow->packets;
        case FB_ELEMENT_PROTOCOL: return flow->protocol;
        case FB_ELEMENT_TOS: return flow->tos;
        case FB_ELEMENT_TCP_FLAGS: return flow->tcp_flags;
        case FB_ELEMENT_SOURCE_PORT: return flow->source.port;
        case FB_ELEMENT_DESTINATION_PORT: return flow->destination.port;
        case FB_ELEMENT_SOURCE_PREFIX_IPV4:
        case FB_ELEMENT_SOURCE_PREFIX_IPV6: return flow->source.prefix_length;
        case FB_ELEMENT_DESTINATION_PREFIX_IPV4:
        case FB_ELEMENT_DESTINATION_PREFIX_IPV6: return flow->destination.prefix_length;
        case FB_ELEMENT_INPUT: return flow->source.interface;
        case FB_ELEMENT_OUTPUT: return output_interface(flow);
        case FB_ELEMENT_SOURCE_AS: return flow->source.as;
        case FB_ELEMENT_DESTINATION_AS: return flow->destination.as;
        case FB_ELEMENT_LAST_SWITCHED: return last_switched(flow, uptime);
        case FB_ELEMENT_FIRST_SWITCHED: return first_switched(flow, uptime);
        case FB_ELEMENT_FLOW_START_MS: return now - flow->idle - flow->duration;
        case FB_ELEMENT_FLOW_END_MS: return now - flow->idle;
        case FB_ELEMENT_FLOW_LABEL: return flow->flow_label;
        case FB_ELEMENT_ICMP_IPV4:
        case FB_ELEMENT_ICMP_IPV6: return icmp_type_and_code(flow);
        case FB_ELEMENT_SOURCE_MAC: return flow->source.mac;
        case FB_ELEMENT_DESTINATION_MAC: return flow->destination.mac;
        case FB_ELEMENT_SOURCE_VLAN: return flow->source.vlan;
        case FB_ELEMENT_DESTINATION_VLAN: return flow->destination.vlan;
        case FB_ELEMENT_IP_VERSION: return flow->ipv6 ? 6 : 4;
        case FB_ELEMENT_ETHERNET_TYPE: return flow->ipv6 ? 0x86dd : 0x0800;
        case FB_ELEMENT_IP_TTL: return flow->ttl;
        case FB_ELEMENT_DIRECTION: return flow->egress;
        case FB_ELEMENT_FLOW_END_REASON: return flow->end_reason;
        /* 130: dropped by an ACL; 64: forwarded */
        case FB_ELEMENT_FORWARDING_STATUS: return flow->dropped ? 130 : 64;
        case FB_ELEMENT_JUNIPER_COMMON_PROPERTIES: return 2u << 10 | flow->dropped;
        case FB_ELEMENT_INGRESS_VRF: return 0x60000000u + flow->source.interface % 4;
        case FB_ELEMENT_EGRESS_VRF: return 0x60000000u + flow->destination.interface % 4;
        case FB_ELEMENT_APPLICATION_ID:
            return 3u << 24 | flow->server_port; /* IANA-L4 (RFC 6759) */
        case FB_ELEMENT_POST_NAT_SOURCE_IPV4: return 0xcb007100u | flow->source.address[3];
        case FB_ELEMENT_POST_NAT_SOURCE_PORT: return flow->source.port;
        case FB_ELEMENT_POST_NAT_DESTINATION_PORT: return flow->destination.port;
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
    assert(size + 3 <= FB_LARGEST_STRING);
    out = long_form ? fb_put16(fb_put8(out, 255), size) : fb_put8(out, size);
    return fb_put_bytes(out, string, size);
}

static uint8_t *put_field(uint8_t *out, const netflow_record *record, fb_netflow_field field) {
    const fb_traffic_flow *flow = record->flow;
    switch (field.element) {
        case FB_ELEMENT_SOURCE_IPV4:
        case FB_ELEMENT_SOURCE_IPV6: return fb_put_bytes(out, flow->source.address, field.size);
        case FB_ELEMENT_DESTINATION_IPV4:
        case FB_ELEMENT_DESTINATION_IPV6:
        case FB_ELEMENT_POST_NAT_DESTINATION_IPV4:
            return fb_put_bytes(out, flow->destination.address, field.size);
        case FB_ELEMENT_NEXT_HOP_IPV4:
        case FB_ELEMENT_NEXT_HOP_IPV6:
        case FB_ELEMENT_BGP_NEXT_HOP_IPV4:
        case FB_ELEMENT_BGP_NEXT_HOP_IPV6:
            return fb_put_bytes(out, flow->destination.next_hop, field.size);
        case FB_ELEMENT_INTERFACE_NAME:
            return put_string(out, interface_names[flow->source.interface - 1], false);
        case FB_ELEMENT_APPLICATION_NAME:
            return put_string(out, flow->application, flow->packets % 8 == 0);
        default: return fb_put_uint(out, field_value(record, field.element), field.size);
    }
}

static uint8_t *put_record(uint8_t *out, const netflow_record *record) {
    const fb_netflow_template *template = record->template;
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

static uint8_t *put_specifier(uint8_t *out, fb_netflow_field field) {
    uint32_t enterprise = field.element >> 16;
    bool announced = enterprise && enterprise != FB_NETFLOW9_SCOPE;
    out = fb_put16(out, (announced ? 0x8000u : 0) | (field.element & 0x7fff));
    out = fb_put16(out, field.size);
    return announced ? fb_put32(out, enterprise) : out;
}

/* Write a template.

     template                      id, field count
     options template, NetFlow v9  id, bytes of the scope specifiers, bytes of the others
     options template, IPFIX       id, field count, scope count */
static uint8_t *put_template(uint8_t *out, const fb_netflow_dialect *dialect,
                             const fb_netflow_template *template) {
    uint32_t scopes = template->scope_count, fields = template->field_count;
    out = fb_put16(out, template->id);
    if (!scopes) out = fb_put16(out, fields);
    else if (dialect == &fb_netflow9_dialect)
        out = fb_put16(fb_put16(out, scopes * 4), (fields - scopes) * 4);
    else out = fb_put16(fb_put16(out, fields), scopes);
    for (uint32_t i = 0; i < fields; i++) out = put_specifier(out, template->fields[i]);
    return out;
}

typedef struct {
    uint32_t templates;
    uint32_t records; /* data and options records */
} netflow_counts;

static uint8_t *put_templates(uint8_t *out, const fb_netflow_dialect *dialect,
                              netflow_record *record, netflow_counts *counts) {
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

static size_t largest_record_size(const fb_netflow_template *template) {
    size_t size = 0;
    for (uint32_t i = 0; i < template->field_count; i++)
        size +=
            template->fields[i].size == FB_VARIABLE ? FB_LARGEST_STRING : template->fields[i].size;
    return size;
}

/* Write a run of flows with the same template. Returns NULL if there is no room for one flow. */
static uint8_t *put_data_set(uint8_t *set, const uint8_t *limit, fb_generator *generator,
                             netflow_record *record, netflow_counts *counts) {
    const fb_netflow_template *template = record->template;
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

static const fb_netflow_template *draw_template(fb_random *random,
                                                const fb_netflow_dialect *dialect) {
    uint32_t ticket = fb_random_below(random, 8);
    return &dialect->data[ticket < 5 ? 0 : ticket < 7 ? 1 : 2];
}

static uint8_t *put_sets(fb_generator *generator, fb_generator_exporter *exporter,
                         const fb_netflow_dialect *dialect, uint8_t *out, const uint8_t *limit,
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
    uint8_t *end = put_sets(generator, exporter, &fb_netflow9_dialect,
                            header + fb_netflow9_dialect.header_size, limit, &counts);
    header =
        fb_put16(fb_put16(header, fb_netflow9_dialect.version), counts.templates + counts.records);
    header = fb_put32(fb_put32(header, fb_generator_uptime(generator, exporter)),
                      fb_generator_seconds(generator));
    fb_put32(fb_put32(header, exporter->sequence++), fb_generator_domain(exporter));
    return end;
}

/* IPFIX header: version, length, export time, sequence of data records, observation domain. */
uint8_t *fb_put_ipfix(fb_generator *generator, fb_generator_exporter *exporter, uint8_t *header,
                      const uint8_t *limit) {
    netflow_counts counts = {0};
    uint8_t *end = put_sets(generator, exporter, &fb_ipfix_dialect,
                            header + fb_ipfix_dialect.header_size, limit, &counts);
    fb_put16(header, fb_ipfix_dialect.version);
    fb_put16(header + 2, (uint32_t)(end - header));
    header = fb_put32(header + 4, fb_generator_seconds(generator));
    fb_put32(fb_put32(header, exporter->sequence), fb_generator_domain(exporter));
    exporter->sequence += counts.records;
    return end;
}
