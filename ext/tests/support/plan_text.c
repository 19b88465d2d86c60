#include "tests/support/plan_text.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    fb_type type;
    fb_kind kind; /* of an element whose text has no kind */
} types[] = {
    {"uint", FB_TYPE_UINT, FB_KIND_UINT},
    {"enum", FB_TYPE_ENUM, FB_KIND_UINT},
    {"int", FB_TYPE_INT, FB_KIND_SINT},
    {"sint", FB_TYPE_SINT, FB_KIND_SINT},
    {"bool", FB_TYPE_BOOL, FB_KIND_BOOL},
    {"float", FB_TYPE_FLOAT, FB_KIND_FLOAT},
    {"double", FB_TYPE_DOUBLE, FB_KIND_FLOAT},
    {"fixed32", FB_TYPE_FIXED32, FB_KIND_UINT},
    {"fixed64", FB_TYPE_FIXED64, FB_KIND_UINT},
    {"string", FB_TYPE_STRING, FB_KIND_STRING},
    {"bytes", FB_TYPE_BYTES, FB_KIND_BYTES},
    {"ip", FB_TYPE_IP, FB_KIND_IP},
    {"timestamp", FB_TYPE_TIMESTAMP, FB_KIND_TIME_MS},
    {"duration", FB_TYPE_DURATION, FB_KIND_SPAN_MS},
};

static const struct {
    const char *name;
    unsigned flag;
} flags[] = {
    {"repeated", FB_COLUMN_REPEATED},
    {"explicit", FB_COLUMN_EXPLICIT},
    {"late", FB_COLUMN_LATE},
    {"native_ip", FB_COLUMN_NATIVE_IP},
    {"scaled", FB_COLUMN_SCALED},
    {"rate", FB_COLUMN_RATE},
    {"one_way", FB_COLUMN_ONE_DIRECTION},
    {"zero", FB_COLUMN_ZERO},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

_Noreturn static void complain(const char *what, const char *word) {
    fprintf(stderr, "plan: %s: %s\n", what, word);
    exit(EXIT_FAILURE);
}

static bool begins_with(const char *word, const char *start) {
    return strncmp(word, start, strlen(start)) == 0;
}

static size_t find_type(const char *word) {
    for (size_t i = 0; i < COUNT(types); i++)
        if (strcmp(types[i].name, word) == 0) return i;
    complain("no such type", word);
}

static size_t read_mappings(const char *word, fb_mapping *mappings, size_t room) {
    size_t count = 0;
    char *end;
    for (const char *p = word; *p && count < room; p = *end ? end + 1 : end) {
        mappings[count].from = (uint32_t)strtoul(p, &end, 10);
        if (*end != ':') complain("a mapping is from:to", word);
        mappings[count++].to = (uint32_t)strtoul(end + 1, &end, 10);
    }
    return count;
}

static void read_flag(const char *word, fb_column_spec *spec, fb_mapping *mappings, size_t room) {
    for (size_t i = 0; i < COUNT(flags); i++)
        if (strcmp(flags[i].name, word) == 0) {
            spec->flags |= flags[i].flag;
            return;
        }
    if (strcmp(word, "disabled") == 0) spec->flags &= ~(unsigned)FB_COLUMN_ENABLED;
    else if (begins_with(word, "limit=")) spec->limit = strtoull(word + 6, NULL, 10);
    else if (begins_with(word, "unit=")) spec->unit = strtoull(word + 5, NULL, 10);
    else if (begins_with(word, "mirror=")) return; /* only after all columns were added */
    else if (begins_with(word, "map="))
        spec->mappings_size = read_mappings(word + 4, mappings, room);
    else complain("no such flag", word);
}

static fb_kind find_kind(const char *name) {
    for (unsigned i = 0; i < FB_KIND_COUNT; i++)
        if (strcmp(fb_kind_name((fb_kind)i), name) == 0) return (fb_kind)i;
    complain("no such kind", name);
}

static fb_status add_element(fb_plan *plan, uint16_t column, unsigned rank, const char *word,
                             fb_kind kind) {
    const char *id = strchr(word, ':') + 1, *slash = strchr(id, '/'), *at = strchr(id, '@'),
               *hash = strchr(id, '#');
    uint16_t occurrence = 0;
    uint64_t pen = slash ? strtoull(id, NULL, 10) : 0;
    if (begins_with(word, "netflow9:")) pen = FB_PEN_NETFLOW9;
    if (at) kind = find_kind(at + 1);
    if (hash)
        occurrence = hash[1] == 'l' ? FB_LAST_OCCURRENCE : (uint16_t)strtoul(hash + 1, NULL, 10);
    return fb_plan_add_element(plan, column, rank, pen,
                               (uint32_t)strtoul(slash ? slash + 1 : id, NULL, 10), occurrence,
                               kind);
}

static fb_status add_source(fb_plan *plan, uint16_t column, unsigned rank, const char *word,
                            fb_kind kind) {
    if (begins_with(word, "ipfix:") || begins_with(word, "netflow9:"))
        return add_element(plan, column, rank, word, kind);
    for (unsigned i = 0; i < FB_SOURCE_COUNT; i++)
        if (strcmp(fb_source_name((fb_source)i), word) == 0)
            return fb_plan_add_source(plan, column, rank, (fb_source)i);
    for (unsigned i = 0; begins_with(word, "netflow5:") && i < fb_netflow5_field_count(); i++)
        if (strcmp(fb_netflow5_field_name(i), word + 9) == 0)
            return fb_plan_add_element(plan, column, rank, FB_PEN_NETFLOW5, i, 0,
                                       fb_netflow5_field_kind(i));
    for (unsigned i = 1; begins_with(word, "scope:") && fb_scope_name((fb_scope)i); i++)
        if (strcmp(fb_scope_name((fb_scope)i), word + 6) == 0)
            return fb_plan_add_element(plan, column, rank, FB_PEN_SCOPE, i, 0, kind);
    complain("no such source", word);
}

static fb_status add_rank(fb_plan *plan, uint16_t column, unsigned rank, char *equals,
                          fb_kind kind) {
    char *rest;
    for (char *word = strtok_r(equals, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        bool replaces = *word == '+';
        fb_status status = add_source(plan, column, rank, word + replaces, kind);
        if (status == FB_OK && replaces) status = fb_plan_set_replacement(plan);
        if (status == FB_NO_MEMORY) return status;
        if (status != FB_OK) complain(fb_status_name(status), word);
    }
    return FB_OK;
}

static void remember_number(named_plan *plan, uint32_t number, size_t column) {
    size_t i = number % COUNT(plan->by_number);
    while (plan->by_number[i]) i = (i + 1) % COUNT(plan->by_number);
    plan->by_number[i] = (uint16_t)(column + 1);
}

static fb_status read_registry(named_plan *plan, char *rest) {
    uint8_t kinds[1024];
    memset(kinds, FB_KIND_COUNT, sizeof kinds);
    for (char *word; (word = strtok_r(NULL, " ", &rest));) {
        char *at = strchr(word, '@');
        unsigned long id = strtoul(word, NULL, 10);
        if (!at || id >= COUNT(kinds)) complain("an element of the registry is id@kind", word);
        kinds[id] = (uint8_t)find_kind(at + 1);
    }
    return fb_plan_set_registry(plan->plan, kinds, sizeof kinds);
}

static fb_status read_rows(fb_plan *plan, const char *kind) {
    static const char *const kinds[FB_ROWS_COUNT] = {"flows", "counters", "options"};
    for (unsigned i = 0; kind && i < FB_ROWS_COUNT; i++)
        if (strcmp(kinds[i], kind) == 0) return fb_plan_set_rows(plan, (fb_rows)i);
    complain("rows are flows, counters or options", kind ? kind : "");
}

static fb_status read_line(named_plan *plan, char *line) {
    static fb_mapping mappings[1024];
    char *rest, *number = strtok_r(line, " ", &rest);
    if (!number || *number == '#') return FB_OK;
    if (strcmp(number, "rows") == 0) return read_rows(plan->plan, strtok_r(NULL, " ", &rest));
    if (strcmp(number, "registry") == 0) return read_registry(plan, rest);
    char *name = strtok_r(NULL, " ", &rest), *type_name = strtok_r(NULL, " ", &rest), *word;
    if (!name || !type_name) complain("a column has a number, a name and a type", number);
    size_t type = find_type(type_name);
    fb_column_spec spec = {(uint32_t)strtoul(number, NULL, 10),
                           types[type].type,
                           FB_COLUMN_ENABLED,
                           UINT64_MAX,
                           1,
                           mappings,
                           0};
    while ((word = strtok_r(NULL, " ", &rest)) && strcmp(word, ":") != 0)
        read_flag(word, &spec, mappings, COUNT(mappings));

    fb_status status = fb_plan_add_column(plan->plan, &spec);
    if (status == FB_BAD_ARGUMENT) complain("the plan refuses this column", name);
    uint16_t column = (uint16_t)plan->count;
    snprintf(plan->names[column], sizeof plan->names[column], "%s", name);
    for (unsigned rank = 0; status == FB_OK && (word = strtok_r(NULL, " ", &rest)); rank++)
        status = add_rank(plan->plan, column, rank, word, types[type].kind);
    remember_number(plan, spec.number, plan->count++);
    return status;
}

/* Copy up to the next space. */
static void copy_word(const char *word, char *name, size_t room) {
    size_t size = strcspn(word, " \n");
    snprintf(name, room, "%.*s", (int)size, word);
}

/* Read lines of the form "… NUMBER NAME TYPE … mirror=OTHER …". */
static void read_mirrors(named_plan *plan, const char *lines) {
    char name[40], mirror[40];
    for (const char *line = lines; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *key = strstr(line, " mirror="), *end = strchr(line, '\n');
        if (!key || (end && key > end)) continue;
        copy_word(line + strcspn(line, " ") + 1, name, sizeof name);
        copy_word(key + 8, mirror, sizeof mirror);
        fb_status status =
            fb_plan_set_mirror(plan->plan, plan_column(plan, name), plan_column(plan, mirror));
        if (status != FB_OK) complain(fb_status_name(status), mirror);
    }
}

fb_status plan_read(named_plan *plan, const char *lines, fb_memory *memory) {
    memset(plan, 0, sizeof *plan);
    char *copy = strdup(lines), *rest;
    fb_status status = fb_plan_new(&plan->plan, memory);
    for (char *line = strtok_r(copy, "\n", &rest); line && status == FB_OK;
         line = strtok_r(NULL, "\n", &rest))
        status = read_line(plan, line);
    if (status == FB_OK) read_mirrors(plan, lines);
    if (status == FB_OK) status = fb_plan_seal(plan->plan);
    free(copy);
    if (status != FB_OK) plan_free(plan);
    return status;
}

void plan_free(named_plan *plan) {
    fb_plan_free(plan->plan);
    plan->plan = NULL;
}

uint16_t plan_column(const named_plan *plan, const char *name) {
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->names[i], name) == 0) return (uint16_t)i;
    complain("no such column", name);
}

uint16_t plan_column_of_number(const named_plan *plan, uint32_t number) {
    for (size_t i = number % COUNT(plan->by_number); plan->by_number[i];
         i = (i + 1) % COUNT(plan->by_number))
        if (plan->plan->columns[plan->by_number[i] - 1].number == number)
            return (uint16_t)(plan->by_number[i] - 1);
    return FB_MAX_COLUMNS;
}

/* Rich plan ---------------------------------------------------------------------------------- */

static const char *type_of_source(fb_kind kind) {
    switch (kind) {
        case FB_KIND_IP: return "ip";
        case FB_KIND_TIME: return "timestamp unit=1000000";
        case FB_KIND_STRING: return "string";
        case FB_KIND_BYTES: return "bytes";
        case FB_KIND_FLOAT: return "float";
        case FB_KIND_SINT: return "sint limit=2147483647";
        default: return "uint";
    }
}

static const char *const rich_elements =
    "registry 8@ip 16@uint 17@uint 22@time_uptime 82@string 95@bytes 150@time_s 152@time_ms "
    "154@time_ntp_us 156@time_ntp_ns "
    "158@time_delta 161@span_ms 276@bool 291@list 292@opaque 311@float 434@sint 483@uint\n"
    "200 bytes uint : ipfix:1,ipfix:85 netflow5:dOctets packet:ip.length ipfix:312 "
    "sflow:sampled_header.frame_length\n"
    "201 packets uint limit=65535 : ipfix:2 packet:packets netflow5:dPkts\n"
    "202 source ip late : ipfix:8,ipfix:27 netflow5:srcaddr sflow:sampled_ip.src_ip "
    "packet:ip.src_addr\n"
    "203 destination ip native_ip late : ipfix:12,ipfix:28 netflow5:dstaddr packet:ip.dst_addr\n"
    "204 first timestamp unit=1000000 : ipfix:22@time_uptime ipfix:150@time_s ipfix:152 "
    "ipfix:154@time_ntp_us ipfix:158@time_delta\n"
    "205 last timestamp unit=1 : ipfix:21@time_uptime ipfix:151@time_s ipfix:153 "
    "ipfix:156@time_ntp_ns netflow5:Last\n"
    "206 duration duration unit=1000000 : ipfix:161\n"
    "207 direction enum map=0:1,1:2 explicit : ipfix:61\n"
    "208 rate uint late : netflow5:sampling_interval derived:sampling_rate "
    "sflow:flow_sample.sampling_rate meta:default_sampling_rate\n"
    "209 name string : ipfix:82 ipfix:83\n"
    "210 names string repeated : ipfix:82,ipfix:83,ipfix:371\n"
    "211 application bytes : ipfix:95\n"
    "212 applications bytes repeated : ipfix:95,ipfix:96,ipfix:313\n"
    "213 signed int limit=2147483647 : ipfix:434\n"
    "214 zigzag sint : ipfix:434\n"
    "215 zigzags sint repeated : ipfix:434,ipfix:435\n"
    "216 load float : ipfix:311\n"
    "217 loads double repeated : ipfix:311,ipfix:320\n"
    "218 reliable bool explicit : ipfix:276\n"
    "219 enterprise uint : ipfix:2636/137@uint\n"
    "220 scope uint : netflow9:1 ipfix:144\n"
    "221 ports uint repeated : ipfix:7,ipfix:11 netflow5:srcport,netflow5:dstport "
    "packet:transport.src_port,packet:transport.dst_port\n"
    "222 addresses ip repeated : ipfix:8,ipfix:12,ipfix:27,ipfix:28 netflow5:nexthop\n"
    "223 labels uint repeated : derived:mpls_labels packet:mpls.labels\n"
    "224 mac fixed64 : ipfix:56,ipfix:80 packet:ethernet.src_mac\n"
    "225 word fixed32 limit=4294967295 explicit : ipfix:7 packet:transport.src_port\n"
    "226 off uint disabled : ipfix:4 meta:source_port\n"
    "227 late_number uint late : ipfix:16 sflow:extended_gateway.src_as\n"
    "228 meta_bytes bytes : meta:exporter_address meta:source_address\n"
    "229 rank_mix uint : packet:ip.proto ipfix:4 netflow5:prot meta:source_port\n"
    "230 structure bytes : ipfix:292@opaque ipfix:515@opaque\n"
    "231 there uint mirror=back : ipfix:10 ipfix:1 ipfix:32\n"
    "232 back uint : ipfix:14 ipfix:2\n"
    "233 lists_back bytes repeated : ipfix:512@list\n"
    "234 lists_there bytes repeated mirror=lists_back : ipfix:485@list\n"
    "235 rank_list uint : packet:ip.proto ipfix:512@list\n"
    "236 one_way_list uint repeated one_way : ipfix:485@list\n"
    "237 ip_flags uint limit=255 : derived:ip_flags\n";

static bool is_of_counters(unsigned source) {
    return source >= FB_SOURCE_FIRST_OF_COUNTERS && source <= FB_SOURCE_LAST_OF_COUNTERS;
}

void plan_put_rich(text *lines) {
    text_put(lines, "%s", rich_elements);
    for (unsigned i = 0; i < FB_SOURCE_COUNT; i++) {
        if (is_of_counters(i)) continue;
        const char *source = fb_source_name((fb_source)i),
                   *type = type_of_source(fb_source_kind((fb_source)i));
        text_put(lines, "%u single_%u %s%s : %s\n", 300 + i, i, type, i % 4 == 1 ? " explicit" : "",
                 source);
        text_put(lines, "%u repeated_%u %s repeated : %s\n", FB_NUMBER_MAX - i, i, type, source);
        if (fb_source_kind((fb_source)i) == FB_KIND_IP)
            text_put(lines, "%u bytes_%u bytes%s : %s\n", FB_NUMBER_MAX - 1000 - i, i,
                     i % 2 ? " repeated" : "", source);
    }
    for (unsigned i = 0; i < COUNT(types); i++) {
        const char *name = types[i].name, *explicit = i % 2 ? " explicit" : "";
        const char *limit = types[i].type == FB_TYPE_FIXED32 ? " limit=4294967295" : "";
        text_put(lines, "%u list_%s %s repeated%s : ipfix:291@list,ipfix:485@list\n",
                 FB_NUMBER_MAX - 2000 - i, name, name, limit);
        text_put(lines, "%u member_%s %s%s%s : ipfix:291@list,ipfix:512@list\n",
                 FB_NUMBER_MAX - 3000 - i, name, name, explicit, limit);
    }
}

const char *rich_columns(void) {
    static text lines;
    if (!lines.size) plan_put_rich(&lines);
    return text_of(&lines);
}

void plan_put_counters(text *lines) {
    text_put(lines, "rows counters\n");
    for (unsigned i = 0; i < FB_SOURCE_COUNT; i++) {
        const char *source = fb_source_name((fb_source)i),
                   *type = type_of_source(fb_source_kind((fb_source)i));
        text_put(lines, "%u single_%u %s%s : %s\n", 300 + i, i, type,
                 is_of_counters(i) && i % 8 ? " explicit" : "", source);
        if (is_of_counters(i) ? i % 16 == 0 || i >= FB_SOURCE_SFLOW_LANE_INDEX : i % 8 != 0)
            text_put(lines, "%u repeated_%u %s repeated : %s\n", FB_NUMBER_MAX - i, i, type,
                     source);
        if (fb_source_kind((fb_source)i) == FB_KIND_STRING)
            text_put(lines, "%u bytes_%u bytes%s : %s\n", FB_NUMBER_MAX - 1000 - i, i,
                     i % 2 ? " repeated" : "", source);
    }
}

const char *const usual_columns =
    "registry 17@uint 483@uint\n"
    "1 received timestamp unit=1000000 : meta:time_received\n"
    "2 exporter ip late : meta:exporter_address\n"
    "3 rate uint late : netflow5:sampling_interval sflow:flow_sample.sampling_rate "
    "derived:sampling_rate\n"
    "4 bytes uint one_way : ipfix:1,ipfix:85 ipfix:231 netflow5:dOctets sflow:sampled_ip.length "
    "packet:ip.length ipfix:312 sflow:sampled_header.frame_length\n"
    "5 packets uint one_way : ipfix:2 ipfix:298 netflow5:dPkts sflow:flow_sample.packets\n"
    "6 src ip late mirror=dst : ipfix:8,ipfix:27 netflow5:srcaddr sflow:sampled_ip.src_ip "
    "packet:ip.src_addr\n"
    "7 dst ip late : ipfix:12,ipfix:28 netflow5:dstaddr sflow:sampled_ip.dst_ip "
    "packet:ip.dst_addr\n"
    "8 etype uint limit=65535 : derived:etype packet:ethernet.type sflow:sampled_ethernet.type\n"
    "9 proto uint limit=255 : ipfix:4 netflow5:prot sflow:sampled_ip.protocol packet:ip.proto\n"
    "10 sport uint limit=65535 mirror=dport : ipfix:7 netflow5:srcport sflow:sampled_ip.src_port "
    "packet:transport.src_port\n"
    "11 dport uint limit=65535 : ipfix:11 netflow5:dstport sflow:sampled_ip.dst_port "
    "packet:transport.dst_port\n"
    "12 in uint late limit=4294967295 mirror=out : ipfix:10,ipfix:252 netflow5:input "
    "sflow:flow_sample.input\n"
    "13 out uint late limit=4294967295 : ipfix:14,ipfix:253 netflow5:output "
    "sflow:flow_sample.output\n"
    "14 src_as uint late limit=4294967295 mirror=dst_as : ipfix:16 netflow5:src_as "
    "sflow:extended_gateway.src_as\n"
    "15 dst_as uint late limit=4294967295 : ipfix:17 netflow5:dst_as "
    "sflow:extended_gateway.dst_as\n"
    "16 src_mask uint limit=255 : ipfix:9,ipfix:29 netflow5:src_mask "
    "sflow:extended_router.src_mask_len\n"
    "18 next_hop ip late one_way : ipfix:15,ipfix:62 netflow5:nexthop "
    "sflow:extended_router.next_hop\n"
    "19 flags uint limit=65535 one_way : ipfix:6 netflow5:tcp_flags sflow:sampled_ip.tcp_flags "
    "packet:tcp.flags\n"
    "20 status uint limit=255 one_way : ipfix:89 derived:forwarding_status\n"
    "21 direction enum map=0:1,1:2 one_way : ipfix:61\n"
    "22 type enum map=1:1,2:2,3:3,4:4 : meta:flow_type\n"
    "23 start timestamp unit=1000000 : ipfix:22@time_uptime ipfix:152 netflow5:First\n"
    "30 icmp_type uint limit=255 one_way : derived:icmp_type packet:icmp.type\n"
    "32 src_mac uint limit=281474976710655 : ipfix:56 sflow:sampled_ethernet.src_mac "
    "packet:ethernet.src_mac\n"
    "34 src_vlan uint limit=65535 : ipfix:58 sflow:extended_switch.src_vlan\n"
    "40 labels uint repeated one_way : derived:mpls_labels packet:mpls.labels\n"
    "43 as_path uint repeated limit=4294967295 : ipfix:512@list sflow:extended_gateway.as_path\n"
    "44 communities uint repeated limit=4294967295 : ipfix:485@list "
    "sflow:extended_gateway.communities\n"
    "46 sequence uint : meta:sequence_number\n"
    "47 domain uint : meta:observation_domain_id\n"
    "48 name string : ipfix:82\n"
    "51 vlan uint limit=65535 : packet:vlan.id\n"
    "52 inner_vlan uint limit=65535 : packet:vlan.inner_id\n";

const char *const scaled_columns =
    "1 exporter ip late : meta:exporter_address\n"
    "2 rate uint rate explicit : netflow5:sampling_interval sflow:flow_sample.sampling_rate "
    "derived:sampling_rate\n"
    "3 bytes uint scaled : ipfix:1,ipfix:85 netflow5:dOctets sflow:sampled_ip.length "
    "packet:ip.length ipfix:312\n"
    "4 packets uint scaled limit=255 : ipfix:2 netflow5:dPkts sflow:flow_sample.packets\n"
    "5 words fixed32 scaled limit=4294967295 explicit : ipfix:85 ipfix:1 packet:ip.length\n"
    "6 again fixed64 scaled : packet:ip.length ipfix:1\n"
    "7 plain uint : ipfix:1,ipfix:85 netflow5:dOctets sflow:sampled_ip.length packet:ip.length\n"
    "8 off uint scaled disabled : ipfix:1\n";
const char *const counter_columns =
    "rows counters\n"
    "1 received timestamp unit=1000000 : meta:time_received\n"
    "2 exporter ip late : meta:exporter_address\n"
    "3 kind enum map=0:0,1:1,2:2 : sflow:sample.kind\n"
    "4 sequence uint explicit : sflow:sample.sequence_number\n"
    "5 source_type uint explicit : sflow:sample.source_id_type\n"
    "6 source uint explicit : sflow:sample.source_id_index\n"
    "7 sub_agent uint : sflow:datagram.sub_agent_id\n"
    "8 if_index uint explicit : sflow:if_counters.if_index\n"
    "9 speed uint explicit : sflow:if_counters.if_speed\n"
    "10 in_octets uint explicit : sflow:if_counters.if_in_octets\n"
    "11 errors uint explicit : sflow:if_counters.if_out_errors\n"
    "12 promiscuous uint : sflow:if_counters.if_promiscuous_mode\n"
    "13 fcs uint explicit : sflow:ethernet_counters.dot3_stats_fcs_errors\n"
    "14 actor uint : sflow:lag_port_stats.dot3ad_agg_port_actor_system_id\n"
    "15 state uint explicit limit=255 : sflow:lag_port_stats.dot3ad_agg_port_partner_oper_state\n"
    "16 temperature sint explicit limit=2147483647 : sflow:sfp.module_temperature\n"
    "17 lanes uint repeated : sflow:sfp_lane.lane_index\n"
    "18 rx_power uint repeated : sflow:sfp_lane.rx_power\n"
    "19 port string : sflow:port_name.name\n"
    "20 host string : sflow:host_descr.hostname\n"
    "21 uuid bytes : sflow:host_descr.uuid\n"
    "22 os uint : sflow:host_descr.os_name\n"
    "23 release string : sflow:host_descr.os_release\n"
    "24 adapters uint repeated : sflow:host_adapters.if_index\n"
    "25 macs uint repeated : sflow:host_adapters.mac_address\n"
    "26 load float explicit : sflow:host_cpu.load_one\n"
    "27 contexts uint explicit : sflow:host_cpu.contexts\n"
    "28 guest uint explicit : sflow:host_cpu.cpu_guest_nice\n"
    "29 drops uint explicit : sflow:discarded_packet.drops\n"
    "30 reason uint explicit : sflow:discarded_packet.reason\n"
    "31 status uint limit=255 : derived:forwarding_status\n"
    "32 in uint : sflow:discarded_packet.input\n"
    "33 out uint : sflow:discarded_packet.output\n"
    "34 queue uint explicit : sflow:extended_egress_queue.queue\n"
    "35 acl uint explicit : sflow:extended_acl.number\n"
    "36 acl_name string : sflow:extended_acl.name\n"
    "37 direction uint : sflow:extended_acl.direction\n"
    "38 function string : sflow:extended_function.symbol\n"
    "39 trap_group string : sflow:extended_hw_trap.group\n"
    "40 trap string : sflow:extended_hw_trap.trap\n"
    "41 linux_reason string : sflow:extended_linux_drop_reason.reason\n"
    "42 src ip : sflow:sampled_ip.src_ip packet:ip.src_addr\n"
    "43 dport uint limit=65535 : sflow:sampled_ip.dst_port packet:transport.dst_port\n"
    "44 length uint : sflow:sampled_header.frame_length\n";
const char *const options_columns = "rows options\n"
                                    "1 received timestamp unit=1000000 : meta:time_received\n"
                                    "2 exporter ip late : meta:exporter_address\n"
                                    "3 type uint : meta:flow_type\n"
                                    "4 domain uint : meta:observation_domain_id\n"
                                    "5 scope uint repeated : derived:scope_elements\n"
                                    "6 system bytes : scope:system\n"
                                    "7 scope_interface uint explicit : scope:interface\n"
                                    "8 card uint explicit : scope:line_card\n"
                                    "9 cache uint explicit : scope:cache\n"
                                    "10 template uint explicit : scope:template ipfix:145\n"
                                    "11 interface uint explicit : ipfix:10,ipfix:14\n"
                                    "12 name string : ipfix:82\n"
                                    "13 description string : ipfix:83\n"
                                    "14 vrf uint explicit : ipfix:234\n"
                                    "15 vrf_name string : ipfix:236\n"
                                    "16 app bytes : ipfix:95\n"
                                    "17 app_name string : ipfix:96\n"
                                    "18 sampler uint explicit : ipfix:48,ipfix:302\n"
                                    "19 interval uint explicit : ipfix:34,ipfix:50,ipfix:305\n"
                                    "20 start timestamp unit=1000000 : ipfix:160@time_ms\n"
                                    "21 probability double : ipfix:311@float\n"
                                    "22 others uint repeated : derived:other_elements\n"
                                    "23 values bytes repeated : derived:other_values\n";
const char *const name_columns =
    "1 bytes uint : ipfix:1\n"
    "2 in uint mirror=out : ipfix:10 sflow:flow_sample.input\n"
    "3 out uint : ipfix:14 sflow:flow_sample.output\n"
    "4 in_name string mirror=out_name : derived:in_if_name\n"
    "5 out_name string : derived:out_if_name\n"
    "6 in_text string mirror=out_text : derived:in_if_description\n"
    "7 out_text string : derived:out_if_description\n"
    "8 in_speed uint limit=4294967295 mirror=out_speed : derived:in_if_speed\n"
    "9 out_speed uint limit=4294967295 : derived:out_if_speed\n"
    "10 in_vrf string mirror=out_vrf : derived:ingress_vrf_name\n"
    "11 out_vrf string : derived:egress_vrf_name\n"
    "12 app string : ipfix:96 derived:application_name\n"
    "13 category string : derived:application_category\n"
    "14 sampler string : derived:sampler_name\n"
    "15 user string : derived:user_name\n"
    "16 point string : derived:observation_point_name\n"
    "17 others uint repeated one_way : derived:other_elements\n"
    "18 values bytes repeated one_way : derived:other_values\n";
