#include "tests/builders/random_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

void random_begin(uint64_t seed) {
    state = seed;
}

uint32_t below(uint32_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % bound);
}

uint32_t random_word(void) {
    return below(1 << 16) << 16 | below(1 << 16);
}

uint64_t read_number(const char *name, uint64_t usual) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : usual;
}

static const char *const numbers[] = {
    "meta:source_port",
    "meta:flow_type",
    "meta:sequence_number",
    "meta:observation_domain_id",
    "meta:default_sampling_rate",
    "netflow5:sampling_interval",
    "netflow5:sampling_mode",
    "netflow5:engine_id",
    "sflow:datagram.uptime",
    "sflow:flow_sample.sampling_rate",
    "sflow:flow_sample.sample_pool",
    "sflow:flow_sample.input",
    "sflow:extended_switch.src_vlan",
    "sflow:extended_gateway.src_as",
    "sflow:extended_gateway.as_path",
    "sflow:sampled_ip.length",
    "sflow:sampled_ip.src_port",
    "sflow:sampled_ethernet.src_mac",
    "sflow:sampled_header.frame_length",
    "derived:sampling_rate",
    "derived:sampling_rate",
    "derived:sampling_rate",
    "derived:etype",
    "derived:etype",
    "derived:icmp_type",
    "derived:icmp_code",
    "derived:forwarding_status",
    "derived:ip_flags",
    "derived:mpls_labels",
    "packet:packets",
    "packet:ethernet.type",
    "packet:ip.proto",
    "packet:ip.length",
    "packet:transport.src_port",
    "packet:mpls.labels",
    "packet:vlan.id",
    "netflow5:dOctets",
    "netflow5:dPkts",
    "netflow5:srcport",
    "netflow5:prot",
    "netflow5:src_as",
    "netflow5:tos",
};
static const char *const addresses[] = {
    "meta:exporter_address",
    "meta:source_address",
    "netflow5:srcaddr",
    "netflow5:nexthop",
    "packet:ip.src_addr",
    "sflow:sampled_ip.src_ip",
    "sflow:extended_router.next_hop",
};
static const char *const occurrences[] = {"", "", "", "", "", "#1", "#2", "#last"};
static const char *const times[] = {"meta:time_received", "meta:time_exported", "netflow5:First",
                                    "netflow5:Last"};

const uint16_t random_ids[] = {1,   2,   4,   5,   6,   7,   8,   9,   10,  11,  12,  14,  15,
                               16,  17,  21,  22,  23,  27,  28,  32,  34,  48,  50,  56,  58,
                               60,  61,  70,  71,  79,  82,  85,  95,  136, 137, 139, 144, 150,
                               152, 154, 158, 161, 197, 231, 232, 256, 291, 292, 293, 298, 299,
                               302, 305, 306, 309, 310, 311, 313, 315, 371, 434};
const size_t random_id_count = sizeof random_ids / sizeof *random_ids;

static const char *const types[] = {"uint",
                                    "uint",
                                    "uint",
                                    "uint",
                                    "uint",
                                    "uint",
                                    "ip",
                                    "ip",
                                    "enum map=0:0,1:1,2:2,3:3,4:4,6:9,17:5",
                                    "enum map=1:3,6:2,17:1",
                                    "enum map=0:7,1:3,6:2",
                                    "timestamp unit=1000000",
                                    "timestamp unit=1000000000",
                                    "timestamp",
                                    "bool",
                                    "int",
                                    "sint",
                                    "fixed32 limit=4294967295",
                                    "fixed64",
                                    "bytes",
                                    "string",
                                    "double",
                                    "float",
                                    "duration unit=1000000"};
static const char *const limits[] = {
    "255", "65535", "4294967295", "562949953421311",     "562949953421312", "281474976710655",
    "1",   "100",   "4095",       "18446744073709551615"};
static const uint32_t magnitudes[] = {16, 16, 16, 2048, 262144, 33554432, 536870000};

/* Pick a source; sometimes one that is constant in all samples of a datagram. */
static const char *pick_of_flow_samples(fb_kind kind) {
    bool constant = below(16) == 0;
    for (;;) {
        unsigned source = below(FB_SOURCE_COUNT);
        bool of_counters =
            source >= FB_SOURCE_FIRST_OF_COUNTERS && source <= FB_SOURCE_LAST_OF_COUNTERS;
        bool of_rare_record = source >= FB_SOURCE_FIRST_RECORD && below(32);
        bool of_options =
            source >= FB_SOURCE_FIRST_NAME && source <= FB_SOURCE_DERIVED_OTHER_VALUES;
        if (of_counters || of_rare_record || of_options ||
            (source < FB_SOURCE_FIRST_OF_COUNTERS) != constant ||
            fb_source_kind((fb_source)source) != kind)
            continue;
        return fb_source_name((fb_source)source);
    }
}

static void put_source(text *lines, plan_origin origin, const char *type, const char *word) {
    bool is_address = strncmp(type, "ip", 2) == 0,
         is_bytes = strcmp(type, "bytes") == 0 || strcmp(type, "string") == 0;
    bool is_time = strncmp(type, "timestamp", 9) == 0,
         takes_time = is_time || !strcmp(type, "uint") || !strcmp(type, "fixed64");
    const char *space = strcmp(word, ":") == 0 || below(3) ? " " : ",";
    bool takes_numbers = !is_address && !is_bytes && strncmp(type, "duration", 8) != 0;
    const char *kinds = "";
    if (is_time) kinds = "@time_uptime";
    else if (!strcmp(type, "uint") && !below(3)) kinds = "@tcp_bits";
    else if (!below(6)) kinds = "@list";
    if (is_time && below(2)) kinds = "@time_s";
    if (is_time && below(2)) kinds = "";
    bool sampled = origin == FROM_FLOW_SAMPLES && below(8);
    if (sampled && (takes_numbers || is_address || strcmp(type, "bytes") == 0))
        text_put(lines, "%s%s", space,
                 pick_of_flow_samples(takes_numbers ? FB_KIND_UINT : FB_KIND_IP));
    else if (takes_time && !below(6)) text_put(lines, "%s%s", space, PICK(times));
    else if (is_address && below(2)) text_put(lines, "%s%s", space, PICK(addresses));
    else if (takes_numbers && !below(3)) text_put(lines, "%s%s", space, PICK(numbers));
    else
        text_put(lines, "%s%sipfix:%u%s%s", space, *space == ',' && !below(2) ? "+" : "",
                 random_ids[below((uint32_t)random_id_count)], PICK(occurrences), kinds);
}

/* Return true if a line has a source twice, which a plan refuses. The caller then draws another
   line. */
static bool has_twice(const char *line) {
    char copy[512], *rest, *words[16];
    size_t count = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ,+", &rest); word && count < 16;
         word = strtok_r(NULL, " ,+", &rest)) {
        word[strcspn(word, "@")] = '\0';
        for (size_t i = 0; i < count; i++)
            if (strcmp(words[i], word) == 0) return true;
        words[count++] = word;
    }
    return false;
}

static void put_column(text *lines, plan_origin origin, uint32_t number, unsigned i,
                       uint32_t plainness) {
    const char *type = PICK(types);
    text sources = {0};
    text_put(lines, "%u column_%u %s", number, i, type);
    if (strcmp(type, "uint") == 0 && below(3) == 0) text_put(lines, " limit=%s", PICK(limits));
    if (strcmp(type, "int") == 0 || strcmp(type, "sint") == 0) text_put(lines, " limit=2147483647");
    if (below(plainness) == 0) text_put(lines, " repeated");
    if (below(plainness) == 0) text_put(lines, " explicit");
    if (below(4) == 0) text_put(lines, " late");
    if (below(plainness) == 0) text_put(lines, " disabled");
    if (below(8) == 0) text_put(lines, " native_ip");
    if (below(8) == 0) text_put(lines, " one_way");
    if (below(2) == 0) text_put(lines, " zero");
    do {
        text_clear(&sources);
        put_source(&sources, origin, type, ":");
        for (unsigned more = below(8); more > 4; more--) put_source(&sources, origin, type, "");
    } while (has_twice(text_of(&sources)));
    text_put(lines, " :%s%s\n", *text_of(&sources) == ' ' ? "" : " ", text_of(&sources));
    text_free(&sources);
}

void plan_put_random(text *lines, plan_origin origin) {
    static const unsigned counts[] = {1, 5, 20, 40, 60, 80, 120};
    unsigned count = 1 + below(PICK(counts));
    uint32_t magnitude = PICK(magnitudes), plainness = below(2) ? 4 : 100;
    text_put(lines, "registry 8@ip 16@uint 82@string 434@sint\n");
    for (unsigned i = 0; i < count; i++)
        put_column(lines, origin, magnitude + i - 15, i, plainness);
    if (below(6)) return;
    text_put(lines,
             "%u rate uint rate : netflow5:sampling_interval sflow:flow_sample.sampling_rate "
             "derived:sampling_rate\n",
             magnitude + 200);
    text_put(lines,
             "%u total uint scaled zero : ipfix:1,+ipfix:23,ipfix:85 netflow5:dOctets "
             "packet:ip.length\n",
             magnitude + 201);
}
