/* The traffic generator: its files are checked with a simple reader that shares no code with it. */
#include "tests/support/check.h"

#include "generate/generate.h"

#define SECOND UINT64_C(1000000000)
#define START  (UINT64_C(1735689600) * SECOND)

static fb_generator_options with(fb_generator_protocol protocol, uint64_t flows) {
    return (fb_generator_options){.protocol = protocol,
                                  .flows = flows,
                                  .seed = 1,
                                  .exporters = 4,
                                  .sampling_rate = 1000,
                                  .start = START};
}

/* A whole file, written through a buffer of `capacity` bytes. */
typedef struct {
    uint8_t *data;
    size_t size;
} file;

static file write_file(fb_generator_options options, size_t capacity) {
    fb_memory memory = fb_memory_system(0);
    fb_generator *generator;
    file file = {NULL, 0};
    fb_status status = fb_generator_new(&memory, &options, &generator);
    CHECK_STATUS(status, FB_OK);
    if (status) return file;
    while (status == FB_OK) {
        size_t size = 0;
        file.data = realloc(file.data, file.size + capacity);
        status = fb_generator_next(generator, file.data + file.size, capacity, &size);
        CHECK(size <= capacity);
        file.size += size;
    }
    CHECK_STATUS(status, FB_END);
    CHECK_EQUAL(fb_generator_flows_written(generator), options.flows);
    fb_generator_free(generator);
    CHECK_EQUAL(memory.used, 0);
    return file;
}

/* Reader ------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t seconds, nanoseconds;
    const uint8_t *ip;
    size_t ip_size;
    uint32_t exporter; /* last four bytes of its address */
    fb_bytes payload;
} packet;

typedef struct {
    uint32_t exporter;
    uint16_t version;
    uint32_t sequence;
    uint16_t sizes[8][64]; /* field sizes of template 256 + i; [0] is their number */
    uint32_t samples[17];  /* flow samples of interface i */
    uint32_t counters[17];
} exporter;

typedef struct {
    exporter exporters[400];
    size_t exporter_count;
    uint64_t packets, flows, options, templates, counters, largest_packet;
} reading;

static uint32_t little32(const uint8_t *p) {
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* Return the checksum sum. It is 0xffff if the checksum inside the summed bytes is correct. */
static uint32_t sum16(uint32_t sum, const uint8_t *p, size_t size) {
    for (size_t i = 0; i < size; i++) {
        sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

static exporter *find_exporter(reading *reading, uint32_t address, uint32_t sequence) {
    for (size_t i = 0; i < reading->exporter_count; i++)
        if (reading->exporters[i].exporter == address) return &reading->exporters[i];
    exporter *found = &reading->exporters[reading->exporter_count++];
    *found = (exporter){.exporter = address, .sequence = sequence};
    return found;
}

/* NetFlow v1, v5 and v7. v1 has no sequence number. */
static void read_fixed(reading *reading, const packet *packet, unsigned version) {
    const uint8_t *p = packet->payload.data;
    uint32_t count = fb_load16(p + 2), header = version == 1 ? 16 : 24,
             size = version == 5 ? 48 : 52;
    exporter *exporter =
        find_exporter(reading, packet->exporter, version == 1 ? 0 : fb_load32(p + 16));
    CHECK(count >= 1 && count <= (version == 1 ? 24u : version == 5 ? 30u : 27u));
    CHECK_EQUAL(packet->payload.size, header + size * count);
    CHECK_EQUAL(fb_load32(p + 8), packet->seconds);
    CHECK_EQUAL(fb_load32(p + 12) / 1000 * 1000, packet->nanoseconds);
    if (version != 1) CHECK_EQUAL(fb_load32(p + 16), exporter->sequence);
    if (version != 1) CHECK_EQUAL(fb_load32(p + 20) & 0xffff, version == 5 ? 1 << 14 | 1000 : 0);
    for (const uint8_t *record = p + header; record < p + packet->payload.size; record += size) {
        uint32_t uptime = fb_load32(p + 4), first = fb_load32(record + 24),
                 last = fb_load32(record + 28);
        CHECK(first <= last && last <= uptime);
        CHECK(fb_load32(record + 16) > 0 && fb_load32(record + 20) >= 20 * fb_load32(record + 16));
    }
    exporter->sequence += count;
    reading->flows += count;
}

static const uint8_t *read_template(reading *reading, exporter *exporter, const uint8_t *p,
                                    bool ipfix, bool options) {
    uint32_t id = fb_load16(p), fields = fb_load16(p + 2);
    if (options && !ipfix) fields = (fields + fb_load16(p + 4)) / 4;
    CHECK(id >= 256 && id < 264 && fields > 0 && fields < 64);
    uint16_t *sizes = exporter->sizes[id % 8];
    sizes[0] = (uint16_t)fields;
    p += options ? 6 : 4;
    for (uint32_t i = 1; i <= fields; i++) {
        bool enterprise = ipfix && p[0] & 0x80;
        sizes[i] = fb_load16(p + 2);
        p += enterprise ? 8 : 4;
    }
    reading->templates++;
    return p;
}

static const uint8_t *skip_record(const uint16_t *sizes, const uint8_t *p) {
    for (uint32_t i = 1; i <= sizes[0]; i++) {
        if (sizes[i] != 0xffff) p += sizes[i];
        else p += *p == 255 ? 3 + fb_load16(p + 1) : 1 + *p;
    }
    return p;
}

/* Return the number of records and templates in a set. */
static uint32_t read_set(reading *reading, exporter *exporter, const uint8_t *p, const uint8_t *end,
                         bool ipfix) {
    uint32_t id = fb_load16(p), count = 0;
    bool template = id == (ipfix ? 2 : 0), options_template = id == (ipfix ? 3 : 1);
    CHECK(template || options_template || (id >= 256 && id < 264));
    if (id >= 256) CHECK(exporter->sizes[id % 8][0] > 0);
    p += 4;
    while (end - p > 3) {
        if (template || options_template) {
            p = read_template(reading, exporter, p, ipfix, options_template);
        } else {
            p = skip_record(exporter->sizes[id % 8], p);
            *(id >= 260 ? &reading->options : &reading->flows) += 1;
        }
        count++;
    }
    CHECK(p <= end);
    while (p < end) CHECK_EQUAL(*p++, 0);
    return count;
}

static void read_sets(reading *reading, const packet *packet, bool ipfix) {
    const uint8_t *p = packet->payload.data, *end = p + packet->payload.size;
    uint32_t sequence = fb_load32(p + (ipfix ? 8 : 12)), count = 0;
    uint64_t templates = reading->templates;
    exporter *exporter = find_exporter(reading, packet->exporter, sequence);
    CHECK_EQUAL(sequence, exporter->sequence);
    CHECK_EQUAL(fb_load32(p + (ipfix ? 4 : 8)), packet->seconds);
    for (const uint8_t *set = p + (ipfix ? 16 : 20); set < end; set += fb_load16(set + 2)) {
        CHECK(fb_load16(set + 2) > 4 && fb_load16(set + 2) % 4 == 0 &&
              fb_load16(set + 2) <= end - set);
        count += read_set(reading, exporter, set, set + fb_load16(set + 2), ipfix);
    }
    CHECK_EQUAL(fb_load16(p + 2), ipfix ? packet->payload.size : count);
    exporter->sequence += ipfix ? count - (uint32_t)(reading->templates - templates) : 1;
}

static void read_sample(reading *reading, exporter *exporter, const uint8_t *p, uint32_t size) {
    const uint8_t *end = p + 8 + size;
    uint32_t format = fb_load32(p), interface = fb_load32(p + (format == 3 ? 16 : 12));
    bool counters = format == 2;
    CHECK(format >= 1 && format <= 3 && interface >= 1 && interface <= 16);
    CHECK_EQUAL(fb_load32(p + 8), ++(counters ? exporter->counters : exporter->samples)[interface]);
    if (!counters) CHECK_EQUAL(fb_load32(p + (format == 3 ? 20 : 16)), 1000);
    *(counters ? &reading->counters : &reading->flows) += 1;
    const uint8_t *record = p + (format == 1 ? 40 : format == 2 ? 20 : 52);
    uint32_t records = fb_load32(record - 4);
    for (uint32_t i = 0; i < records; i++) record += 8 + fb_load32(record + 4);
    CHECK(record == end);
}

static void read_sflow(reading *reading, const packet *packet) {
    const uint8_t *p = packet->payload.data, *end = p + packet->payload.size;
    size_t width = fb_load32(p + 4) == 2 ? 16 : 4;
    const uint8_t *sample = p + 8 + width;
    CHECK(!memcmp(p + 8, packet->ip + (width == 4 ? 12 : 8), width));
    exporter *exporter = find_exporter(reading, packet->exporter, fb_load32(sample + 4));
    CHECK_EQUAL(fb_load32(sample + 4), exporter->sequence++);
    uint32_t count = fb_load32(sample + 12);
    CHECK(count > 0);
    for (sample += 16; sample < end && count; sample += 8 + fb_load32(sample + 4), count--)
        read_sample(reading, exporter, sample, fb_load32(sample + 4));
    CHECK_EQUAL(count, 0);
    CHECK(sample == end);
}

static packet read_packet(const uint8_t *record) {
    packet packet = {.seconds = little32(record),
                     .nanoseconds = little32(record + 4) * UINT64_C(1000),
                     .ip = record + 30};
    bool ipv6 = fb_load16(record + 28) == 0x86dd;
    size_t header = ipv6 ? 40 : 20;
    const uint8_t *udp = packet.ip + header;
    packet.ip_size = little32(record + 8) - 14;
    packet.exporter = fb_load32(packet.ip + (ipv6 ? 20 : 12));
    packet.payload = (fb_bytes){udp + 8, packet.ip_size - header - 8};
    CHECK_EQUAL(little32(record + 12), packet.ip_size + 14);
    CHECK_EQUAL(fb_load16(packet.ip + (ipv6 ? 4 : 2)), ipv6 ? packet.ip_size - 40 : packet.ip_size);
    CHECK_EQUAL(fb_load16(udp + 4), packet.ip_size - header);
    if (!ipv6) CHECK_EQUAL(sum16(0, packet.ip, 20), 0xffff);
    uint32_t pseudo = sum16(17 + fb_load16(udp + 4), packet.ip + (ipv6 ? 8 : 12), ipv6 ? 32 : 8);
    CHECK_EQUAL(sum16(pseudo, udp, packet.ip_size - header), 0xffff);
    return packet;
}

static reading read_file(file file) {
    static const uint8_t header[] = {0xd4, 0xc3, 0xb2,     0xa1,     2,       0,
                                     4,    0,    [18] = 4, [20] = 1, [23] = 0};
    reading reading = {.packets = 0};
    uint64_t time = 0;
    size_t at = 24;
    CHECK_BYTES(file.data, file.size < 24 ? file.size : 24, header, 24);
    while (at < file.size) {
        packet packet = read_packet(file.data + at);
        uint32_t port = fb_load16(packet.payload.data - 6),
                 version = fb_load16(packet.payload.data);
        CHECK_EQUAL(port, version == 0 ? 6343 : version == 10 ? 4739 : 2055);
        CHECK(packet.seconds * SECOND + packet.nanoseconds >= time);
        time = packet.seconds * SECOND + packet.nanoseconds;
        if (version == 1 || version == 5 || version == 7) read_fixed(&reading, &packet, version);
        else if (version == 0) read_sflow(&reading, &packet);
        else read_sets(&reading, &packet, version == 10);
        reading.packets++;
        if (packet.ip_size > reading.largest_packet) reading.largest_packet = packet.ip_size;
        at += 16 + little32(file.data + at + 8);
    }
    CHECK_EQUAL(at, file.size);
    return reading;
}

static reading generate_and_read(fb_generator_options options) {
    file file = write_file(options, 1 << 17);
    reading reading = read_file(file);
    CHECK_EQUAL(reading.flows, options.flows);
    free(file.data);
    return reading;
}

/* Tests -------------------------------------------------------------------------------------- */

static void conforms_to_each_protocol_for_any_number_of_flows(void) {
    static const uint64_t flows[] = {0, 1, 2, 28, 30, 31, 500, 5000};
    for (unsigned protocol = 0; protocol < FB_GENERATOR_PROTOCOL_COUNT; protocol++)
        for (size_t i = 0; i < sizeof flows / sizeof *flows; i++)
            generate_and_read(with(protocol, flows[i]));
}

static void keeps_packets_within_the_mtu(void) {
    static const uint32_t mtus[] = {1280, 1281, 1282, 1283, 1500, 9000, 65535};
    for (unsigned protocol = 0; protocol < FB_GENERATOR_PROTOCOL_COUNT; protocol++) {
        for (size_t i = 0; i < sizeof mtus / sizeof *mtus; i++) {
            fb_generator_options options = with(protocol, 5000);
            options.mtu = mtus[i];
            reading reading = generate_and_read(options);
            CHECK(reading.largest_packet <= mtus[i]);
            bool few = protocol == FB_GENERATOR_NETFLOW1 || protocol == FB_GENERATOR_NETFLOW5 ||
                       /* most records in a datagram, at every MTU */
                       protocol == FB_GENERATOR_NETFLOW7;
            if (!few) CHECK(reading.largest_packet > mtus[i] - 500);
        }
    }
}

static void gives_every_exporter_an_address_and_a_sequence(void) {
    fb_generator_options options = with(FB_GENERATOR_IPFIX, 20000);
    options.exporters = 300;
    reading reading = generate_and_read(options);
    CHECK_EQUAL(reading.exporter_count, 300);
    options = with(FB_GENERATOR_MIXED, 20000);
    options.exporters = 300;
    reading = generate_and_read(options);
    CHECK_EQUAL(reading.exporter_count, 300);
}

static void sends_templates_first_and_repeats_them(void) {
    fb_generator_options options = with(FB_GENERATOR_NETFLOW9, 3000);
    options.template_refresh = 3;
    options.exporters = 1;
    reading reading = generate_and_read(options);
    uint64_t times = (reading.packets + 2) / 3;
    CHECK(times > 10);
    CHECK_EQUAL(reading.templates, 5 * times);
    CHECK_EQUAL(reading.options, 2 * times);
    options.template_refresh = 0;
    options.protocol = FB_GENERATOR_IPFIX;
    reading = generate_and_read(options);
    CHECK_EQUAL(reading.templates, 5);
    CHECK_EQUAL(reading.options, 2);
}

static void sends_occasional_counter_samples(void) {
    reading reading = generate_and_read(with(FB_GENERATOR_SFLOW, 5000));
    CHECK(reading.counters >= reading.packets / 17 && reading.counters <= reading.packets / 16);
}

static void advances_the_time_by_the_rate_of_flows(void) {
    fb_generator_options options = with(FB_GENERATOR_NETFLOW5, 3001);
    options.exporters = 1;
    options.flows_per_second = 45;
    file file = write_file(options, 1 << 17);
    CHECK_EQUAL(little32(file.data + 24), START / SECOND);
    /* the last datagram has one flow; 100 datagrams of 30 flows came before */
    const uint8_t *last = file.data + file.size - 24 - 48 - 42 - 16;
    CHECK_EQUAL(little32(last), START / SECOND + 66);
    CHECK_EQUAL(little32(last + 4), 666666);
    free(file.data);
}

static void writes_the_same_file_at_every_capacity(void) {
    static const size_t capacities[] = {1530, 1531, 1554, 1800, 4096, 10000, 65536};
    for (unsigned protocol = 0; protocol < FB_GENERATOR_PROTOCOL_COUNT; protocol++) {
        file whole = write_file(with(protocol, 2000), 1 << 20);
        for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
            file pieces = write_file(with(protocol, 2000), capacities[i]);
            CHECK_BYTES(pieces.data, pieces.size, whole.data, whole.size);
            free(pieces.data);
        }
        free(whole.data);
    }
}

/* If this fails because of an intended change, the generated captures under tests/data must be
   renewed too. */
static void writes_the_same_file_on_every_machine(void) {
    static const uint64_t expected[FB_GENERATOR_PROTOCOL_COUNT] = {
        UINT64_C(0x925902872d16c82d), /* NetFlow v5 */
        UINT64_C(0xe2edd6da823324fb), /* NetFlow v9 */
        UINT64_C(0x73f3f9efb1688f22), /* IPFIX */
        UINT64_C(0x4c5e62d7a463937f), /* sFlow */
        UINT64_C(0x2ae856a339c91952), /* mixed */
        UINT64_C(0x07ac33b06dd4906f), /* NetFlow v1 */
        UINT64_C(0x0b23643c17e37295), /* NetFlow v7 */
    };
    for (unsigned protocol = 0; protocol < FB_GENERATOR_PROTOCOL_COUNT; protocol++) {
        file file = write_file(with(protocol, 2000), 1 << 20);
        uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
        for (size_t i = 0; i < file.size; i++) hash = (hash ^ file.data[i]) * 0x100000001b3u;
        CHECK_EQUAL(hash, expected[protocol]);
        free(file.data);
    }
}

static void writes_another_file_for_another_seed(void) {
    for (unsigned protocol = 0; protocol < FB_GENERATOR_PROTOCOL_COUNT; protocol++) {
        fb_generator_options options = with(protocol, 100);
        file one = write_file(options, 1 << 20);
        options.seed = 2;
        file two = write_file(options, 1 << 20);
        CHECK(one.size != two.size || memcmp(one.data, two.data, one.size));
        free(one.data);
        free(two.data);
    }
}

static void continues_after_no_space(void) {
    file whole = write_file(with(FB_GENERATOR_SFLOW, 50), 1 << 20);
    fb_memory memory = fb_memory_system(0);
    fb_generator_options options = with(FB_GENERATOR_SFLOW, 50);
    fb_generator *generator;
    CHECK_STATUS(fb_generator_new(&memory, &options, &generator), FB_OK);
    uint8_t *buffer = malloc(whole.size + 1530);
    size_t size = 1;
    CHECK_STATUS(fb_generator_next(generator, buffer, 0, &size), FB_NO_SPACE);
    CHECK_EQUAL(size, 0);
    CHECK_STATUS(fb_generator_next(generator, buffer, 23, &size), FB_NO_SPACE);
    CHECK_STATUS(fb_generator_next(generator, buffer, 24, &size), FB_OK);
    CHECK_EQUAL(size, 24);
    CHECK_STATUS(fb_generator_next(generator, buffer + 24, 1529, &size), FB_NO_SPACE);
    CHECK_EQUAL(size, 0);
    CHECK_STATUS(fb_generator_next(generator, buffer + 24, whole.size + 1530 - 24, &size), FB_END);
    CHECK_BYTES(buffer, size + 24, whole.data, whole.size);
    CHECK_STATUS(fb_generator_next(generator, buffer, 0, &size), FB_END);
    CHECK_EQUAL(size, 0);
    fb_generator_free(generator);
    free(buffer);
    free(whole.data);
}

static void check_refused(fb_generator_options options, const char *word) {
    fb_memory memory = fb_memory_system(0);
    fb_generator *generator = NULL;
    const char *fault = fb_generator_options_fault(&options);
    CHECK(fault && strstr(fault, word));
    CHECK_STATUS(fb_generator_new(&memory, &options, &generator), FB_BAD_ARGUMENT);
    CHECK(!generator);
}

static void refuses_options_with_an_explanation(void) {
    fb_generator_options good = with(FB_GENERATOR_NETFLOW5, 10), bad;
    CHECK(!fb_generator_options_fault(&good));
    bad = good, bad.protocol = FB_GENERATOR_PROTOCOL_COUNT, check_refused(bad, "protocol");
    bad = good, bad.exporters = 0, check_refused(bad, "exporters");
    bad = good, bad.exporters = 65537, check_refused(bad, "exporters");
    bad = good, bad.sampling_rate = 0, check_refused(bad, "at least 1");
    bad = good, bad.sampling_rate = 16384, check_refused(bad, "14 bits");
    bad = good, bad.start = UINT64_C(946684799) * SECOND, check_refused(bad, "2000");
    bad = good, bad.start = UINT64_MAX, check_refused(bad, "2106");
    bad = good, bad.flows = UINT64_MAX, check_refused(bad, "2106");
    bad = good, bad.flows_per_second = SECOND + 1, check_refused(bad, "flows per second");
    bad = good, bad.mtu = 1279, check_refused(bad, "MTU");
    bad = good, bad.mtu = 65536, check_refused(bad, "MTU");
    bad = good, bad.protocol = FB_GENERATOR_MIXED, bad.exporters = 3, check_refused(bad, "mixed");
    good = with(FB_GENERATOR_SFLOW, 10), good.sampling_rate = UINT32_MAX;
    CHECK(!fb_generator_options_fault(&good));
}

static void reports_missing_memory(void) {
    fb_check_allocator allocator = {.fail_at = 1};
    fb_memory memory = fb_check_memory(&allocator);
    fb_generator_options options = with(FB_GENERATOR_IPFIX, 10);
    fb_generator *generator = NULL;
    CHECK_STATUS(fb_generator_new(&memory, &options, &generator), FB_NO_MEMORY);
    CHECK_STATUS(fb_generator_new(&memory, &options, &generator), FB_OK);
    fb_generator_free(generator);
    fb_generator_free(NULL);
    CHECK_EQUAL(allocator.held, 0);
}

static void finds_protocols_by_name(void) {
    CHECK_EQUAL(fb_generator_find_protocol("netflow5"), FB_GENERATOR_NETFLOW5);
    CHECK_EQUAL(fb_generator_find_protocol("mixed"), FB_GENERATOR_MIXED);
    CHECK_EQUAL(fb_generator_find_protocol("netflow"), FB_GENERATOR_PROTOCOL_COUNT);
    CHECK_EQUAL(fb_generator_find_protocol(""), FB_GENERATOR_PROTOCOL_COUNT);
}

RUN_TESTS(TEST(conforms_to_each_protocol_for_any_number_of_flows),
          TEST(keeps_packets_within_the_mtu), TEST(gives_every_exporter_an_address_and_a_sequence),
          TEST(sends_templates_first_and_repeats_them), TEST(sends_occasional_counter_samples),
          TEST(advances_the_time_by_the_rate_of_flows),
          TEST(writes_the_same_file_at_every_capacity), TEST(writes_the_same_file_on_every_machine),
          TEST(writes_another_file_for_another_seed), TEST(continues_after_no_space),
          TEST(refuses_options_with_an_explanation), TEST(reports_missing_memory),
          TEST(finds_protocols_by_name))
