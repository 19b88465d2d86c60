/* The state of exporters: lookup among 100,000, two memory budgets, and sharing of identical
   parts. */
#include "tests/support/check.h"

#include "core/exporter/exporter.h"
#include "tests/support/plan_text.h"

typedef struct {
    fb_check_allocator allocator;
    fb_memory memory;
    named_plan plan;
    fb_compiled_templates compiled_templates;
    fb_exporters exporters;
} world;

static void world_open(world *w, size_t limit, size_t exporter_memory) {
    memset(w, 0, sizeof *w);
    w->memory = fb_check_memory(&w->allocator);
    CHECK_STATUS(plan_read(&w->plan, usual_columns, &w->memory), FB_OK);
    CHECK_STATUS(
        fb_compiled_templates_new(&w->compiled_templates, w->plan.plan, &w->memory, 7, false),
        FB_OK);
    CHECK_STATUS(fb_exporters_new(&w->exporters, &w->compiled_templates, &w->memory, limit,
                                  exporter_memory, 12345),
                 FB_OK);
}

static void world_close(world *w) {
    fb_exporters_free(&w->exporters);
    fb_compiled_templates_free(&w->compiled_templates);
    plan_free(&w->plan);
    CHECK_EQUAL(w->memory.used, 0);
    CHECK_EQUAL(w->allocator.held, 0);
}

static fb_exporter *get(world *w, uint32_t number) {
    uint8_t address[16] = {[10] = 0xff, [11] = 0xff};
    for (int i = 0; i < 4; i++) address[12 + i] = (uint8_t)(number >> 8 * (3 - i));
    return fb_exporters_get(&w->exporters, address, 0, address);
}

static fb_status set_template_of(world *w, fb_exporter *exporter, fb_domain *domain, uint16_t id,
                                 const fb_field *fields, uint16_t count, uint16_t port) {
    fb_definition definition = {.fields = fields, .field_count = count, .id = id, .port = port};
    return fb_domain_set_template(&w->exporters, exporter, domain, &definition);
}

static fb_status set_template(world *w, fb_exporter *exporter, fb_domain *domain, uint16_t id,
                              const fb_field *fields, uint16_t count) {
    return set_template_of(w, exporter, domain, id, fields, count, 0);
}

static const fb_field bytes_field[] = {{.id = 1, .size = 4}},
                      packets_field[] = {{.id = 2, .size = 4}};

/* Map ---------------------------------------------------------------------------------------- */

static void maps_numbers_in_any_order(void) {
    enum { KEYS = 3001 };
    fb_check_allocator allocator = {0};
    fb_memory memory = fb_check_memory(&allocator);
    fb_map map = {0};
    CHECK(!fb_map_find(&map, 0));
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t key = i * 1237 % KEYS * UINT64_C(0x100000001); /* each once */
        fb_map_entry *entry = fb_map_insert(&map, &memory, key);
        CHECK(entry && entry->number == 0);
        if (entry) entry->number = i;
    }
    CHECK_EQUAL(map.count, KEYS);
    for (uint64_t i = 0; i < KEYS; i++) {
        fb_map_entry *entry = fb_map_find(&map, i * 1237 % KEYS * UINT64_C(0x100000001));
        CHECK(entry && entry->number == i);
    }
    CHECK(!fb_map_find(&map, 1));
    CHECK(!fb_map_find(&map, UINT64_MAX));
    CHECK_EQUAL(fb_map_insert(&map, &memory, 0)->number, 0);
    CHECK_EQUAL(map.count, KEYS);
    fb_map_free(&map, &memory);
    CHECK_EQUAL(memory.used, 0);
}

static void keeps_a_map_if_it_cannot_grow(void) {
    fb_check_allocator allocator = {0};
    fb_memory memory = fb_check_memory(&allocator);
    fb_map map = {0};
    for (uint64_t key = 0; key < 4; key++) CHECK(fb_map_insert(&map, &memory, key));
    allocator = (fb_check_allocator){.held = allocator.held, .fail_at = 1, .fail_forever = true};
    CHECK(!fb_map_insert(&map, &memory, 4));
    CHECK(fb_map_insert(&map, &memory, 3));
    CHECK_EQUAL(map.count, 4);
    fb_map_free(&map, &memory);
    CHECK_EQUAL(memory.used, 0);
}

/* Exporters ---------------------------------------------------------------------------------- */

static void finds_each_of_100000_exporters(void) {
    enum { EXPORTERS = 100000 };
    world w;
    world_open(&w, EXPORTERS, 1 << 20);
    for (uint32_t i = 0; i < EXPORTERS; i++) get(&w, i)->counters.datagrams = i;
    CHECK_EQUAL(w.exporters.count, EXPORTERS);
    CHECK(w.exporters.capacity >= 2 * EXPORTERS);
    for (uint32_t i = 0; i < EXPORTERS; i++) CHECK_EQUAL(get(&w, i)->counters.datagrams, i);
    size_t listed = 0;
    for (size_t i = 0; i < w.exporters.capacity; i++)
        listed += fb_exporters_at(&w.exporters, i) != NULL;
    CHECK_EQUAL(listed, EXPORTERS);
    CHECK(!fb_exporters_at(&w.exporters, w.exporters.capacity));
    world_close(&w);
}

/* Prefetching has no side effects, also for unknown addresses, exporters without state and payloads
   that end at any byte. There are too many compiled templates for the cache. */
static void prefetches_without_side_effects(void) {
    enum { EXPORTERS = 900, ID_END = 22 };
    static const uint8_t payload[ID_END + 2] = {[1] = 9, [20] = 1};
    static fb_datagram batch[EXPORTERS];
    fb_look_ahead ahead;
    world w;
    fb_domain *domain;
    world_open(&w, 1000, 1 << 20);
    memset(batch, 0, sizeof batch);
    for (uint32_t i = 0; i < EXPORTERS; i++) {
        fb_exporter *exporter = get(&w, i);
        fb_field fields[] = {{.id = 1, .size = 4}, {.id = (uint16_t)(20000 + i), .size = 2}};
        memcpy(batch[i].source, exporter->address, 16);
        if (i % 3 && fb_exporter_get_domain(&w.exporters, exporter, 9 + i % 2, 0, &domain) != FB_OK)
            CHECK(false);
        if (i % 3 == 2) CHECK_STATUS(set_template(&w, exporter, domain, 256, fields, 2), FB_OK);
        if (i % 10 == 3) batch[i].source[0] = 1; /* unknown */
        if (i % 10 == 4) memcpy(batch[i].source, batch[i - 1].source, 16);
        size_t size = i % 4 == 1 ? ID_END : i % (sizeof payload + 1);
        batch[i].payload = (fb_bytes){fb_guarded_copy(payload, size), size};
    }
    fb_exporters before = w.exporters;
    size_t used = w.memory.used;
    for (size_t count = 0; count <= EXPORTERS; count += count < 30 ? 1 : 30) {
        fb_look_ahead_begin(&ahead, &w.exporters, 0);
        for (size_t at = 0; at < count; at++)
            fb_look_ahead_from(&ahead, &w.exporters, batch, count, at);
    }
    CHECK(memcmp(&before, &w.exporters, sizeof before) == 0);
    CHECK_EQUAL(w.memory.used, used);
    CHECK_EQUAL(w.exporters.count, EXPORTERS);
    for (uint32_t i = 0; i < EXPORTERS; i++)
        fb_guarded_free((uint8_t *)(uintptr_t)batch[i].payload.data, batch[i].payload.size);
    world_close(&w);
}

static void separates_sub_agents(void) {
    world w;
    uint8_t address[16] = {1};
    world_open(&w, 10, 1 << 20);
    fb_exporter *first = fb_exporters_get(&w.exporters, address, 1, address);
    CHECK(fb_exporters_get(&w.exporters, address, 2, address) != first);
    CHECK(fb_exporters_get(&w.exporters, address, 1, address) == first);
    CHECK_EQUAL(w.exporters.count, 2);
    world_close(&w);
}

static void evicts_the_oldest_exporter_at_the_limit(void) {
    world w;
    fb_domain *domain;
    world_open(&w, 3, 1 << 20);
    for (uint32_t i = 0; i < 3; i++) get(&w, i)->counters.datagrams = 1;
    fb_exporter *fourth = get(&w, 3);
    CHECK(!fourth->stateless);
    CHECK(get(&w, 3) == fourth);
    CHECK_EQUAL(w.exporters.count, 3);
    CHECK_EQUAL(w.exporters.overflow.counters.datagrams, 1);
    CHECK_EQUAL(w.exporters.overflow.counters.status[FB_EXPORTER_EVICTED], 1);
    CHECK_STATUS(fb_exporter_get_domain(&w.exporters, fourth, 10, 0, &domain), FB_OK);
    CHECK_STATUS(fb_exporter_get_domain(&w.exporters, &w.exporters.overflow, 10, 0, &domain),
                 FB_EXPORTER_LIMIT);
    world_close(&w);
}

static void evicts_no_exporter_for_saved_state(void) {
    uint8_t address[16] = {0};
    world w;
    world_open(&w, 3, 1 << 20);
    for (; address[0] < 3; address[0]++)
        CHECK(!fb_exporters_restore(&w.exporters, address, 0)->stateless);
    CHECK(fb_exporters_restore(&w.exporters, address, 0)->stateless);
    address[0] = 0;
    CHECK(!fb_exporters_restore(&w.exporters, address, 0)->stateless);
    CHECK_EQUAL(w.exporters.count, 3);
    world_close(&w);
}

static void evicts_an_exporter_when_memory_is_exhausted(void) {
    world w;
    world_open(&w, 1000, 1 << 20);
    w.memory.limit = w.memory.used + 3 * sizeof(fb_exporter);
    for (uint32_t i = 0; i < 3; i++) CHECK(!get(&w, i)->stateless);
    CHECK(!get(&w, 3)->stateless);
    CHECK_EQUAL(w.exporters.count, 3);
    world_close(&w);
}

static void works_without_state_if_there_is_no_memory(void) {
    world w;
    world_open(&w, 1000, 1 << 20);
    w.memory.limit = w.memory.used;
    CHECK(get(&w, 3)->stateless);
    w.memory.limit = 0;
    CHECK(!get(&w, 3)->stateless);
    world_close(&w);
}

/* Templates and samplers --------------------------------------------------------------------- */

static void shares_compiled_templates(void) {
    world w;
    fb_domain *domain;
    world_open(&w, 1000, 1 << 20);
    for (uint32_t i = 0; i < 500; i++) {
        fb_exporter *exporter = get(&w, i);
        CHECK_STATUS(fb_exporter_get_domain(&w.exporters, exporter, 9 + i % 2, i, &domain), FB_OK);
        CHECK_STATUS(set_template(&w, exporter, domain, 256, bytes_field, 1), FB_OK);
    }
    CHECK_EQUAL(w.compiled_templates.count, 2); /* one per version */
    world_close(&w);
}

/* Add ids in any order, and find each with its compiled template. */
static void finds_each_of_4096_templates(void) {
    world w;
    fb_domain *domain;
    world_open(&w, 10, 16 << 20);
    fb_exporter *exporter = get(&w, 1);
    CHECK_STATUS(fb_exporter_get_domain(&w.exporters, exporter, 10, 0, &domain), FB_OK);
    for (uint32_t i = 0; i < FB_MAX_TEMPLATES; i++) {
        uint16_t number = (uint16_t)(i * 1237 % FB_MAX_TEMPLATES); /* each once */
        fb_field field = {.id = 1, .size = (uint16_t)(1 + number % 8)};
        CHECK_STATUS(set_template(&w, exporter, domain, (uint16_t)(256 + 3 * number), &field, 1),
                     FB_OK);
    }
    for (uint16_t i = 0; i < FB_MAX_TEMPLATES; i++) {
        const fb_template *template = fb_domain_find_template(domain, (uint16_t)(256 + 3 * i));
        CHECK(template && template->id == 256 + 3 * i &&
              template->compiled->fields[0].size == 1 + i % 8);
        CHECK(!fb_domain_find_template(domain, (uint16_t)(257 + 3 * i)));
    }
    CHECK_STATUS(set_template(&w, exporter, domain, 255, bytes_field, 1), FB_TEMPLATE_LIMIT);
    CHECK_STATUS(set_template(&w, exporter, domain, 259, packets_field, 1), FB_TEMPLATE_REDEFINED);
    CHECK_EQUAL(domain->known, FB_MAX_TEMPLATES);
    CHECK_EQUAL(w.compiled_templates.count, 9);
    world_close(&w);
}

/* The memory of an exporter is as stated in README.md. */
static void uses_the_documented_memory_per_exporter(void) {
    enum {
        EXPORTERS = 8192,
        TEMPLATES = 4,
        BYTES = sizeof(fb_exporter) + sizeof(fb_domain) + 72 + 40 + 34 * TEMPLATES
    };
    world w;
    fb_domain *domain;
    size_t used[3];
    world_open(&w, 4 * EXPORTERS, 1 << 20);
    for (uint32_t round = 0, number = 0; round < 3; round++) {
        for (uint32_t end = EXPORTERS << round; number < end; number++) {
            fb_exporter *exporter = get(&w, number);
            CHECK_STATUS(fb_exporter_get_domain(&w.exporters, exporter, 10, 0, &domain), FB_OK);
            for (uint16_t t = 0; t < TEMPLATES; t++) {
                fb_field field = {.id = 1, .size = (uint16_t)(t + 1)};
                CHECK_STATUS(set_template(&w, exporter, domain, (uint16_t)(256 + t), &field, 1),
                             FB_OK);
            }
        }
        used[round] = w.memory.used;
    }
    CHECK_EQUAL(used[2] - used[1], 2 * (used[1] - used[0]));
    CHECK(used[1] - used[0] <= BYTES * EXPORTERS);
    CHECK_EQUAL(w.compiled_templates.count, TEMPLATES);
    world_close(&w);
}

static void redefines_templates(void) {
    world w;
    fb_domain *domain;
    world_open(&w, 10, 1 << 20);
    fb_exporter *exporter = get(&w, 1);
    fb_exporter_get_domain(&w.exporters, exporter, 10, 7, &domain);
    CHECK(fb_exporter_find_domain(exporter, 10, 7) == domain);
    CHECK(!fb_exporter_find_domain(exporter, 9, 7));
    CHECK_STATUS(set_template(&w, exporter, domain, 256, bytes_field, 1), FB_OK);
    fb_compiled_template *first = fb_domain_find_template(domain, 256)->compiled;
    CHECK_STATUS(set_template(&w, exporter, domain, 256, bytes_field, 1), FB_OK);
    CHECK(fb_domain_find_template(domain, 256)->compiled == first);
    CHECK_EQUAL(first->references, 1);
    CHECK_STATUS(set_template(&w, exporter, domain, 256, packets_field, 1), FB_TEMPLATE_REDEFINED);
    CHECK_EQUAL(fb_domain_find_template(domain, 256)->compiled->fields[0].id, 2);
    CHECK_EQUAL(w.compiled_templates.count, 1); /* the first is no longer used */
    CHECK_STATUS(set_template(&w, exporter, domain, 256, bytes_field, 0), FB_EMPTY_TEMPLATE);
    CHECK(!fb_domain_find_template(domain, 256)); /* the exporter has redefined it */
    CHECK_EQUAL(w.compiled_templates.count, 0);
    CHECK_STATUS(set_template(&w, exporter, domain, 256, packets_field, 1), FB_OK);
    CHECK(!fb_domain_find_template(domain, 257));
    world_close(&w);
}

/* Fill budgets until nothing fits. The memory of one exporter does not count for another. */
static void limits_each_exporter_to_its_budget(void) {
    enum { BUDGET = 20000 };
    world w;
    fb_domain *domain;
    world_open(&w, 10, BUDGET);
    for (uint32_t number = 0; number < 2; number++) {
        fb_exporter *exporter = get(&w, number);
        CHECK_STATUS(fb_exporter_get_domain(&w.exporters, exporter, 10, 0, &domain), FB_OK);
        fb_status status = FB_OK;
        uint16_t id = 256;
        for (; status == FB_OK && id < 1000; id++) {
            fb_field field = {.id = 1, .size = id};
            status = set_template(&w, exporter, domain, id, &field, 1);
        }
        CHECK_STATUS(status, FB_TEMPLATE_LIMIT);
        CHECK(id > 280);
        CHECK(exporter->memory.used <= BUDGET);
        CHECK(!fb_domain_find_template(domain, (uint16_t)(id - 1)));
        CHECK(fb_domain_find_template(domain, (uint16_t)(id - 2)));
        status = FB_OK;
        for (uint64_t sampler = 0; status == FB_OK && sampler < 3 * FB_MAX_SAMPLERS; sampler++)
            status = fb_domain_set_sampler(exporter, domain, sampler, 5);
        CHECK_STATUS(status, FB_TEMPLATE_LIMIT);
        CHECK(exporter->memory.used <= BUDGET);
    }
    world_close(&w);
}

static void returns_the_budget_of_a_redefined_template(void) {
    world w;
    fb_domain *domain;
    world_open(&w, 10, 1 << 20);
    fb_exporter *exporter = get(&w, 1);
    fb_exporter_get_domain(&w.exporters, exporter, 10, 0, &domain);
    set_template(&w, exporter, domain, 256, packets_field, 1);
    size_t used = exporter->memory.used, all = w.memory.used;
    for (unsigned i = 0; i < 1000; i++) {
        set_template(&w, exporter, domain, 256, bytes_field, 1);
        set_template(&w, exporter, domain, 256, packets_field, 1);
    }
    CHECK_EQUAL(exporter->memory.used, used);
    CHECK_EQUAL(w.memory.used, all);
    world_close(&w);
}

static void finds_the_rate_of_a_sampler(void) {
    world w;
    fb_domain *domain;
    world_open(&w, 10, 1 << 20);
    fb_exporter *exporter = get(&w, 1);
    fb_exporter_get_domain(&w.exporters, exporter, 9, 0, &domain);
    CHECK_EQUAL(fb_domain_find_rate(domain, false, 0), 0);
    fb_domain_set_sampler(exporter, domain, 7, 100);
    CHECK_EQUAL(fb_domain_find_rate(domain, true, 7), 100);
    CHECK_EQUAL(fb_domain_find_rate(domain, false, 0), 100);
    CHECK_EQUAL(fb_domain_find_rate(domain, true, 8), 100); /* the only rate */
    fb_domain_set_sampler(exporter, domain, 8, 200);
    fb_domain_set_sampler(exporter, domain, 7, 150);
    CHECK_EQUAL(fb_domain_find_rate(domain, true, 7), 150);
    CHECK_EQUAL(fb_domain_find_rate(domain, true, 8), 200);
    CHECK_EQUAL(fb_domain_find_rate(domain, true, 9), 0);
    CHECK_EQUAL(fb_domain_find_rate(domain, false, 0), 0);
    world_close(&w);
}

static void finds_a_changed_rate(void) {
    world w;
    fb_domain *common, *own;
    world_open(&w, 10, 1 << 20);
    fb_exporter *exporter = get(&w, 1);
    fb_exporter_get_domain(&w.exporters, exporter, 9, 0, &common);
    /* the cached result for sampler 0 must not be a false hit */
    CHECK_EQUAL(fb_domain_rate_of(common, 0), 0);
    for (uint64_t rate = 100; rate < 110; rate++) {
        fb_domain_set_sampler(exporter, common, 0, rate);
        CHECK_EQUAL(fb_domain_rate_of(common, 0), rate);
        CHECK_EQUAL(fb_domain_rate_of(common, 0), rate);
        CHECK_EQUAL(fb_domain_rate_of(common, 7), rate == 100 ? rate : 0); /* the only rate */
        fb_domain_set_sampler(exporter, common, 8, 1);
        CHECK_EQUAL(fb_domain_rate_of(common, 7), 0);
    }
    common->split = true;
    own = fb_domain_of_port(&w.exporters, exporter, common, 2055);
    CHECK_EQUAL(fb_domain_rate_of(own, 0), 109);
    fb_domain_set_sampler(exporter, common, 0, 5); /* the port's own domain does not get it */
    CHECK_EQUAL(fb_domain_rate_of(own, 0), 5);
    fb_domain_set_sampler(exporter, own, 0, 6);
    CHECK_EQUAL(fb_domain_rate_of(own, 0), 6);
    world_close(&w);
}

static void finds_a_moved_template(void) {
    world w;
    fb_domain *domain;
    world_open(&w, 10, 1 << 20);
    w.exporters.obey_withdrawals = true;
    fb_exporter *exporter = get(&w, 1);
    fb_exporter_get_domain(&w.exporters, exporter, 9, 0, &domain);
    CHECK(!fb_domain_find_template(domain, 300));
    for (uint16_t id = 300; id > 280; id--) { /* each is inserted before all others */
        set_template(&w, exporter, domain, id, bytes_field, 1);
        CHECK_EQUAL(fb_domain_find_template(domain, 300)->id, 300);
        CHECK_EQUAL(fb_domain_find_template(domain, id)->id, id);
        CHECK(!fb_domain_find_template(domain, (uint16_t)(id - 1)));
        CHECK_EQUAL(fb_domain_find_template(domain, 300)->id, 300);
    }
    fb_domain_forget_template(&w.exporters, exporter, domain, 300);
    CHECK(!fb_domain_find_template(domain, 300));
    fb_domain_forget_all(&w.exporters, exporter, domain, false);
    CHECK(!fb_domain_find_template(domain, 290));
    set_template(&w, exporter, domain, 300, packets_field, 1);
    CHECK_EQUAL(fb_domain_find_template(domain, 300)->compiled->fields[0].id, 2);
    world_close(&w);
}

static void bounds_the_samplers_of_a_domain(void) {
    world w;
    fb_domain *domain;
    world_open(&w, 10, 16 << 20);
    fb_exporter *exporter = get(&w, 1);
    fb_exporter_get_domain(&w.exporters, exporter, 9, 0, &domain);
    for (uint64_t i = 0; i < FB_MAX_SAMPLERS; i++)
        CHECK_STATUS(fb_domain_set_sampler(exporter, domain, i, 1), FB_OK);
    CHECK_STATUS(fb_domain_set_sampler(exporter, domain, FB_MAX_SAMPLERS, 1), FB_TEMPLATE_LIMIT);
    CHECK_STATUS(fb_domain_set_sampler(exporter, domain, 5, 2), FB_OK); /* a known one may change */
    CHECK_EQUAL(fb_domain_find_rate(domain, true, 5), 2);
    world_close(&w);
}

static void bounds_the_selection_sequences_of_a_domain(void) {
    world w;
    fb_domain *domain;
    uint64_t rate;
    fb_selection both = {{1, 2}, 2}, first = {{1}, 1};
    world_open(&w, 10, 16 << 20);
    fb_exporter *exporter = get(&w, 1);
    fb_exporter_get_domain(&w.exporters, exporter, 10, 0, &domain);
    for (uint64_t i = 0; i < FB_MAX_SAMPLERS; i++)
        CHECK_STATUS(fb_domain_set_selection(exporter, domain, i, &both), FB_OK);
    CHECK_STATUS(fb_domain_set_selection(exporter, domain, FB_MAX_SAMPLERS, &both),
                 FB_TEMPLATE_LIMIT);
    CHECK(!fb_domain_find_selection_rate(domain, FB_MAX_SAMPLERS, &rate));
    fb_domain_set_sampler(exporter, domain, 1, 10);
    CHECK(fb_domain_find_selection_rate(domain, 5, &rate) && rate == 0); /* 2 is unknown */
    fb_domain_set_sampler(exporter, domain, 2, UINT64_MAX / 10);
    CHECK(fb_domain_find_selection_rate(domain, 5, &rate) && rate == UINT64_MAX / 10 * 10);
    fb_domain_set_sampler(exporter, domain, 2, UINT64_MAX / 10 + 1);
    CHECK(fb_domain_find_selection_rate(domain, 5, &rate) && rate == 0);       /* beyond 64 bits */
    CHECK_STATUS(fb_domain_set_selection(exporter, domain, 5, &first), FB_OK); /* it may change */
    CHECK(fb_domain_find_selection_rate(domain, 5, &rate) && rate == 10);
    world_close(&w);
}

static void keeps_no_selection_sequence_without_memory(void) {
    world w;
    fb_domain *domain;
    uint64_t rate, kept = 0;
    fb_selection one = {{1}, 1};
    world_open(&w, 10, 32 << 10);
    fb_exporter *exporter = get(&w, 1);
    fb_exporter_get_domain(&w.exporters, exporter, 10, 0, &domain);
    while (fb_domain_set_selection(exporter, domain, kept, &one) == FB_OK) kept++;
    CHECK(kept > 10 && kept < FB_MAX_SAMPLERS);
    CHECK(fb_domain_find_selection_rate(domain, kept - 1, &rate));
    CHECK(!fb_domain_find_selection_rate(domain, kept, &rate));
    world_close(&w);
}

RUN_TESTS(TEST(maps_numbers_in_any_order), TEST(keeps_a_map_if_it_cannot_grow),
          TEST(finds_each_of_100000_exporters), TEST(prefetches_without_side_effects),
          TEST(separates_sub_agents), TEST(evicts_the_oldest_exporter_at_the_limit),
          TEST(evicts_no_exporter_for_saved_state),
          TEST(evicts_an_exporter_when_memory_is_exhausted),
          TEST(works_without_state_if_there_is_no_memory), TEST(shares_compiled_templates),
          TEST(finds_each_of_4096_templates), TEST(uses_the_documented_memory_per_exporter),
          TEST(redefines_templates), TEST(limits_each_exporter_to_its_budget),
          TEST(returns_the_budget_of_a_redefined_template), TEST(finds_the_rate_of_a_sampler),
          TEST(finds_a_changed_rate), TEST(finds_a_moved_template),
          TEST(bounds_the_samplers_of_a_domain), TEST(bounds_the_selection_sequences_of_a_domain),
          TEST(keeps_no_selection_sequence_without_memory))
