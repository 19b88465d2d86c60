/* Decodes hostile datagrams while another program counts instructions (benchmarks/hostile.py).
   Nothing is timed.

   usage: run_hostile SCENARIO ROUNDS PLAN CAPTURE

   A scenario prepares a decoder once and then decodes its round ROUNDS times. Prints the bytes of
   one round. Two runs differ only in their rounds, because all datagrams are built before. If a
   round consumes state of an exporter, each round has a new address. `normal` decodes the data of
   CAPTURE as the reference. */
#include "bench/workload.h"

#include "tests/builders/datagrams.h"

enum { SET_BYTES = 200000, MOST = 65000, MANY = 4000, SPLITS = 100 };

static byte_buffer buffer;
static uint16_t port;
static datagrams *built; /* destination of new datagrams */

static void store32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void set_address(fb_datagram *datagram, uint32_t address) {
    memset(datagram->source + 10, 0xff, 2);
    store32(datagram->source + 12, address);
}

/* Add a datagram with the content of the buffer. */
static void add_datagram(void) {
    if (built->count == built->capacity) {
        built->capacity = 2 * built->capacity + 16;
        built->items = must(realloc(built->items, built->capacity * sizeof *built->items));
    }
    fb_datagram *datagram = &built->items[built->count++];
    uint8_t *copy = must(malloc(buffer.size));
    memcpy(copy, buffer.data, buffer.size);
    *datagram = (fb_datagram){.payload = {copy, buffer.size},
                              .time = 1000 * FB_SECOND,
                              .source_port = port,
                              .destination_port = 4739};
    set_address(datagram, 0);
    built->bytes += buffer.size;
}

static void begin(uint32_t domain) {
    buffer.size = 0;
    ipfix_begin(&buffer, (ipfix_header){.seconds = 1000, .domain = domain});
}

static void send(void) {
    ipfix_end(&buffer);
    add_datagram();
}

/* Templates ---------------------------------------------------------------------------------- */

static void put_kind(unsigned kind, unsigned id, unsigned size) {
    if (kind == 2) put_template(&buffer, id, FIELDS({1, size}));
    else put_options_template(&buffer, id, 1, FIELDS({149, size}));
}

/* Define MANY templates of a kind, in descending order of ids. */
static void define_many(uint32_t domain, unsigned kind, unsigned size) {
    begin(domain);
    size_t set = set_begin(&buffer, kind);
    for (unsigned id = 1000 + MANY; id > 1000; id--) put_kind(kind, id, size);
    set_end(&buffer, set);
    send();
}

static void put_withdrawal(unsigned id) {
    put16(&buffer, id);
    put16(&buffer, 0);
}

static void withdraw_all(unsigned kind, unsigned definitions) {
    begin(0);
    size_t set = set_begin(&buffer, kind);
    while (buffer.size < MOST) {
        for (unsigned i = 0; i < definitions; i++) put_kind(kind, 256 + i, 4);
        put_withdrawal(kind);
    }
    set_end(&buffer, set);
    send();
}

static void define_options(void) {
    define_many(0, 3, 4);
}
static void withdraw_flows(void) {
    withdraw_all(2, 0);
}
static void alternate_flows(void) {
    withdraw_all(2, 1);
}

static void withdraw_many_flows(void) {
    define_many(0, 2, 4);
    withdraw_all(2, 0);
}

static void define_flows(void) {
    define_many(0, 2, 4);
}
static void alternate_options(void) {
    withdraw_all(3, 1);
}

/* Send conflicting templates from two ports. A third port then sees no templates. */
static void send_conflicting_templates(void) {
    port = 1, define_many(0, 2, 4);
    port = 2, define_many(0, 2, 2);
    port = 1, define_many(0, 2, 4);
    port = 3;
}

static void redefine_templates(void) {
    begin(0);
    size_t set = set_begin(&buffer, 2);
    for (unsigned i = 0; buffer.size < MOST; i++) put_kind(2, 256, 1 + i % 8);
    set_end(&buffer, set);
    send();
}

/* Domains ------------------------------------------------------------------------------------ */

static void define_from(unsigned from, uint32_t domain, unsigned size) {
    port = (uint16_t)from;
    begin(domain);
    size_t set = set_begin(&buffer, 2);
    put_kind(2, 256, size);
    set_end(&buffer, set);
    send();
}

/* Fill a datagram with sets of one byte. */
static void put_pending(uint32_t domain) {
    begin(domain);
    while (buffer.size < MOST - 5) {
        size_t set = set_begin(&buffer, 300);
        put8(&buffer, 1);
        set_end(&buffer, set);
    }
    send();
}

static void send_pending_sets(void) {
    for (unsigned i = 0; i < 2; i++) put_pending(100000);
}

/* An exporter has room for three rounds. */
static void split_domains(void) {
    for (uint32_t domain = 0; domain < SPLITS; domain++)
        for (unsigned i = 0; i < 3; i++) define_from(1 + i % 2, domain, 1 + i % 2);
}

/* The domain that is split is the one whose sets wait for templates. */
static void split_pending(void) {
    for (unsigned i = 0; i < 2; i++) port = (uint16_t)(1 + i), put_pending(0);
    for (unsigned i = 0; i < 3; i++) define_from(1 + i % 2, 0, 1 + i % 2);
}

static void send_domains(uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) begin(first + i), send();
}

/* Create as many domains as an exporter may have. exceed_domains then uses other domains, one per
   datagram. */
static void fill_domains(void) {
    send_domains(0, FB_MAX_DOMAINS);
}
static void exceed_domains(void) {
    send_domains(FB_MAX_DOMAINS, SPLITS);
}

/* Options ------------------------------------------------------------------------------------ */

/* Insert samplers into a new domain, in an order that moves all others each time. */
static void insert_samplers(void) {
    begin(0);
    size_t set = set_begin(&buffer, 3);
    put_options_template(&buffer, 256, 1, FIELDS({48, 2}, {34, 1}));
    set_end(&buffer, set);
    set = set_begin(&buffer, 256);
    for (unsigned sampler = 4096; sampler; sampler--) put16(&buffer, sampler), put8(&buffer, 10);
    set_end(&buffer, set);
    send();
}

static void define_sampling9(void) {
    buffer.size = 0;
    netflow9_begin(&buffer, (netflow9_header){.seconds = 1000});
    size_t set = set_begin(&buffer, 1);
    put_options_template9(&buffer, 256, 1, FIELDS({1, 1}, {34, 1}));
    set_end(&buffer, set);
    add_datagram();
}

static void send_options9(void) {
    buffer.size = 0;
    netflow9_begin(&buffer, (netflow9_header){.seconds = 1000});
    size_t set = set_begin(&buffer, 256);
    while (buffer.size < MOST) put8(&buffer, 1), put8(&buffer, 10);
    set_end(&buffer, set);
    add_datagram();
}

/* Lists -------------------------------------------------------------------------------------- */

static void define_list(void) {
    begin(0);
    size_t set = set_begin(&buffer, 2);
    put_template(&buffer, 256, FIELDS({293, VARIABLE}));
    for (unsigned id = 257; id < 257 + MANY; id++) put_template(&buffer, id, FIELDS({1, 1}));
    set_end(&buffer, set);
    send();
}

/* Send a subTemplateMultiList. Each part has another template and one record of one byte. */
static void send_lists(void) {
    begin(0);
    size_t set = set_begin(&buffer, 256);
    put8(&buffer, 255);
    size_t size = buffer.size;
    put16(&buffer, 0), put8(&buffer, 3);
    for (unsigned i = 0; buffer.size < MOST; i++)
        put16(&buffer, 257 + i * 1009 % MANY), put16(&buffer, 5), put8(&buffer, 1);
    patch16(&buffer, size, (unsigned)(buffer.size - size - 2));
    set_end(&buffer, set);
    send();
}

/* Empty fields ------------------------------------------------------------------------------- */

enum { MOST_EMPTY_FIELDS = 16 };

/* Define a template of one byte and as many empty fields as possible. The others have columns. */
static void define_empty_fields(void) {
    begin(0);
    size_t set = set_begin(&buffer, 2);
    put16(&buffer, 256), put16(&buffer, MOST_EMPTY_FIELDS + 1);
    put16(&buffer, 4), put16(&buffer, 1);
    for (unsigned i = 0; i < MOST_EMPTY_FIELDS; i++) put16(&buffer, 5 + i), put16(&buffer, 0);
    set_end(&buffer, set);
    send();
}

static void send_short_records(void) {
    begin(0);
    size_t set = set_begin(&buffer, 256);
    while (buffer.size < MOST) put8(&buffer, 6);
    set_end(&buffer, set);
    send();
}

/* Scenarios ---------------------------------------------------------------------------------- */

static void build_nothing(void) {
}

static const struct {
    const char *name;
    void (*prepare)(void), (*build)(void);
    enum { SAME, NEW_ADDRESS, NEW_DOMAINS } change; /* in each round */
} scenarios[] = {
    {"withdrawals-beside-options", define_options, withdraw_flows, SAME},
    {"definitions-withdrawn-beside-options", define_options, alternate_flows, SAME},
    {"definitions-withdrawn-beside-flows", define_flows, alternate_options, SAME},
    {"definitions-withdrawn-beside-forgotten", withdraw_many_flows, alternate_flows, SAME},
    {"withdrawals-beside-contested", send_conflicting_templates, withdraw_flows, SAME},
    {"splits-beside-pending", send_pending_sets, split_domains, NEW_DOMAINS},
    {"domains-beyond-limit", fill_domains, exceed_domains, NEW_DOMAINS},
    {"split-of-pending", build_nothing, split_pending, NEW_ADDRESS},
    {"templates-inserted", build_nothing, define_flows, NEW_ADDRESS},
    {"templates-redefined", build_nothing, redefine_templates, SAME},
    {"samplers-inserted", build_nothing, insert_samplers, NEW_ADDRESS},
    {"options-netflow9", define_sampling9, send_options9, SAME},
    {"sub-template-lists", define_list, send_lists, SAME},
    {"empty-fields", define_empty_fields, send_short_records, SAME},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

/* Return the index of a scenario, or SCENARIOS for `normal`. */
static size_t find_scenario(const char *name) {
    size_t i = 0;
    while (i < SCENARIOS && strcmp(scenarios[i].name, name) != 0) i++;
    if (i == SCENARIOS && strcmp(name, "normal") != 0) fail("the scenario is unknown");
    return i;
}

/* Build the round, and decode the datagrams that prepare it. */
static datagrams prepare(machine *m, size_t scenario, const datagrams *capture) {
    datagrams before = {0}, round = {0};
    if (scenario == SCENARIOS) return machine_learn(m, capture, SET_BYTES);
    built = &before;
    scenarios[scenario].prepare();
    machine_decode(m, &before);
    release_datagrams(&before);
    built = &round;
    scenarios[scenario].build();
    return round;
}

static void change_round(const datagrams *round, bool address) {
    static uint32_t changes;
    changes++;
    for (size_t i = 0; i < round->count; i++) {
        uint8_t *domain = (uint8_t *)(uintptr_t)round->items[i].payload.data + 12;
        if (address) set_address(&round->items[i], changes);
        else store32(domain, fb_load32(domain) + SPLITS);
    }
}

int main(int argc, char **argv) {
    static named_plan plan;
    machine m;
    fb_memory memory = fb_memory_system(0);
    unsigned long rounds = argc == 5 ? strtoul(argv[2], NULL, 10) : 0;
    if (!rounds) fail("usage: run_hostile SCENARIO ROUNDS PLAN CAPTURE");
    size_t scenario = find_scenario(argv[1]);
    read_plan(&plan, argv[3], &memory);
    file capture = read_file(argv[4]);
    datagrams all = read_datagrams(&capture);
    int change = scenario < SCENARIOS ? (int)scenarios[scenario].change : SAME;
    fb_decoder_options options = {.processor = FB_PROCESSOR_BMI2, .obey_withdrawals = true};
    /* each round evicts the exporter of the previous round */
    if (change == NEW_ADDRESS) options.exporter_limit = 1;
    machine_new(&m, plan.plan, fb_row_decode, options);
    datagrams round = prepare(&m, scenario, &all);
    /* one more, because the first round is not compared */
    for (unsigned long i = 0; i <= rounds; i++) {
        if (change != SAME) change_round(&round, change == NEW_ADDRESS);
        machine_decode(&m, &round);
    }
    printf("%zu\n", round.bytes);
    machine_free(&m);
    release_datagrams(&round);
    release_datagrams(&all);
    free(capture.data);
    plan_free(&plan);
    return EXIT_SUCCESS;
}
