/* Exporters are in a hash table by address, and their domains in small arrays with a separate sort
   order (map.h). The content of a domain is in domain.c. */
#include "core/exporter/eviction.h"
#include "core/exporter/pending_sets.h"

#define FIRST_CAPACITY 64

/* --- exporters ------------------------------------------------------------------------------ */

fb_status fb_exporters_new(fb_exporters *exporters, fb_compiled_templates *compiled_templates,
                           fb_memory *memory, size_t limit, size_t exporter_memory, uint64_t seed) {
    *exporters = (fb_exporters){.memory = memory,
                                .compiled_templates = compiled_templates,
                                .limit = limit,
                                .exporter_memory = exporter_memory,
                                .seed = seed,
                                .sample_secret = (seed ^ UINT64_C(0x9e3779b97f4a7c15)) | 1};
    exporters->overflow.stateless = true;
    exporters->overflow.memory = fb_memory_within(memory, exporter_memory);
    exporters->overflow.name_memory =
        fb_memory_within(&exporters->overflow.memory, exporter_memory / 4);
    exporters->table = fb_memory_allocate(memory, FIRST_CAPACITY * sizeof *exporters->table);
    if (!exporters->table) return FB_NO_MEMORY;
    exporters->capacity = FIRST_CAPACITY;
    return FB_OK;
}

void fb_template_drop_compiled(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                               fb_template *template) {
    fb_compiled_template *compiled = template->compiled;
    if (!compiled) return;
    template->compiled = NULL;
    domain->known--;
    exporter->known--;
    fb_memory_charge(&exporter->memory, -(ptrdiff_t)compiled->bytes);
    fb_compiled_templates_release(exporters->compiled_templates, compiled);
}

static void free_lists(fb_exporter *exporter, fb_id_list *lists) {
    for (size_t i = 0; lists && i < 2; i++)
        fb_memory_release(&exporter->memory, lists[i].ids,
                          lists[i].capacity * sizeof *lists[i].ids);
    fb_memory_release(&exporter->memory, lists, 2 * sizeof *lists);
}

static void free_domain(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain) {
    for (uint32_t i = 0; i < domain->template_count; i++) {
        fb_template *template = &domain->templates[i];
        fb_template_drop_compiled(exporters, exporter, domain, template);
        fb_memory_release(&exporter->memory, template->replaced,
                          FB_MAX_REPLACED * sizeof *template->replaced);
    }
    fb_memory_release(&exporter->memory, domain->templates,
                      fb_order_size(domain->template_capacity, sizeof *domain->templates));
    free_lists(exporter, domain->defined);
    fb_map_free(&domain->samplers, &exporter->memory);
    for (uint32_t i = 0; i < domain->selections.count; i++)
        fb_memory_release(&exporter->memory, domain->selections.entries[i].pointer,
                          sizeof(fb_selection));
    fb_map_free(&domain->selections, &exporter->memory);
    fb_names_free(&domain->names, &exporter->name_memory);
    fb_sequences_free(&domain->sequences, &exporter->memory);
    fb_samples_free(&domain->samples, &exporter->memory);
    fb_memory_release(&exporter->memory, domain, sizeof *domain);
}

/* The caller removes it from the table. */
static void remove_exporter(fb_exporters *exporters, fb_exporter *exporter) {
    for (uint32_t i = 0; i < exporter->domains.count; i++)
        free_domain(exporters, exporter, exporter->domains.entries[i].pointer);
    fb_map_free(&exporter->domains, &exporter->memory);
    fb_eviction_leave(exporters, exporter); /* after its state, which is charged to its sender */
    fb_memory_release(exporters->memory, exporter, sizeof *exporter);
}

void fb_exporters_free(fb_exporters *exporters) {
    if (!exporters->table) return;
    if (exporters->temporary) fb_exporters_drop_temporary(exporters);
    for (size_t i = 0; i < exporters->capacity; i++) {
        fb_exporter *exporter = exporters->table[i].exporter;
        if (exporter) remove_exporter(exporters, exporter);
    }
    fb_eviction_free(exporters);
    fb_memory_release(exporters->memory, exporters->table,
                      exporters->capacity * sizeof *exporters->table);
    *exporters = (fb_exporters){0};
}

/* The hash omits the protocol, because few addresses send both sFlow and NetFlow or IPFIX. */
static uint64_t hash_key(const fb_exporters *exporters, const uint8_t *address,
                         uint32_t sub_agent) {
    uint64_t hash = fb_hash(exporters->seed, fb_load64(address));
    return fb_hash(fb_hash(hash, fb_load64(address + 8)), sub_agent);
}

/* Return the first entry from i on that has the hash or is empty. */
static size_t find_hash(const fb_exporter_place *table, size_t capacity, size_t i, uint64_t hash) {
    i &= capacity - 1;
    while (table[i].exporter && table[i].hash != hash) i = (i + 1) & (capacity - 1);
    return i;
}

static fb_exporter *find_exporter(const fb_exporters *exporters, uint64_t hash,
                                  const uint8_t *address, uint64_t agent) {
    const fb_exporter_place *table = exporters->table;
    size_t capacity = exporters->capacity, i = find_hash(table, capacity, (size_t)hash, hash);
    for (; table[i].exporter; i = find_hash(table, capacity, i + 1, hash))
        if (fb_exporter_has_key(table[i].exporter, address, agent)) return table[i].exporter;
    return NULL;
}

/* REQUIRES: the exporter is not in the table, and an entry is empty. */
static void put_exporter(fb_exporter_place *table, size_t capacity, uint64_t hash,
                         fb_exporter *exporter) {
    size_t i = (size_t)hash & (capacity - 1);
    while (table[i].exporter) i = (i + 1) & (capacity - 1);
    table[i] = (fb_exporter_place){hash, exporter};
}

static bool grow(fb_exporters *exporters) {
    size_t capacity = exporters->capacity * 2;
    fb_exporter_place *table = fb_memory_allocate(exporters->memory, capacity * sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < exporters->capacity; i++) {
        const fb_exporter_place *place = &exporters->table[i];
        if (place->exporter) put_exporter(table, capacity, place->hash, place->exporter);
    }
    fb_memory_release(exporters->memory, exporters->table, exporters->capacity * sizeof *table);
    exporters->table = table;
    exporters->capacity = capacity;
    return true;
}

/* Remove an exporter from the table. Entries after it move up, so that no search ends too early. */
static void clear_place(fb_exporters *exporters, const fb_exporter *exporter) {
    fb_exporter_place *table = exporters->table;
    uint64_t hash = hash_key(exporters, exporter->address, (uint32_t)exporter->agent);
    size_t mask = exporters->capacity - 1, gap = (size_t)hash & mask;
    while (table[gap].exporter != exporter) gap = (gap + 1) & mask;
    for (size_t i = (gap + 1) & mask; table[i].exporter; i = (i + 1) & mask) {
        size_t from_home = (i - (size_t)table[i].hash) & mask;
        if (from_home < ((i - gap) & mask)) continue; /* the gap is before its home */
        table[gap] = table[i];
        gap = i;
    }
    table[gap] = (fb_exporter_place){0};
}

static void add_counters(fb_counters *total, const fb_counters *more) {
    total->datagrams += more->datagrams;
    total->bytes += more->bytes;
    for (size_t i = 0; i < FB_ROWS_COUNT; i++) total->rows[i] += more->rows[i];
    total->options_records += more->options_records;
    total->templates += more->templates;
    for (size_t i = 0; i < FB_STATUS_COUNT; i++) total->status[i] += more->status[i];
}

static void add_lost(fb_lost *lost, fb_sequence_unit unit, const fb_sequence_totals *totals) {
    lost->counted[unit] = true;
    lost->units[unit] += totals->lost;
}

static void add_lost_of_domain(fb_lost *lost, const fb_domain *domain) {
    if (domain->sequences.unit) add_lost(lost, domain->sequences.unit, &domain->sequences.totals);
    if (domain->version == FB_DOMAIN_SFLOW)
        add_lost(lost, FB_SEQUENCE_SAMPLES, &domain->samples.totals);
}

void fb_exporter_sum_lost(const fb_exporter *exporter, fb_lost *lost) {
    for (uint32_t i = 0; i < exporter->domains.count; i++)
        add_lost_of_domain(lost, exporter->domains.entries[i].pointer);
}

/* Return false if there is no exporter to evict. */
static bool evict(fb_exporters *exporters, fb_exporter *exporter, fb_status reason) {
    if (!exporter) return false;
    if (exporters->forget_pending) exporters->forget_pending(exporters->pending, exporter, NULL);
    add_counters(&exporters->overflow.counters, &exporter->counters);
    fb_exporter_sum_lost(exporter, &exporters->lost);
    exporters->overflow.counters.status[reason]++;
    if (exporters->last == exporter) exporters->last = NULL;
    clear_place(exporters, exporter);
    remove_exporter(exporters, exporter);
    exporters->count--;
    return true;
}

/* Return true if a budget is nearly exhausted. */
static bool is_nearly_exhausted(const fb_memory *memory) {
    return memory->limit &&
           (memory->used > memory->limit || memory->limit - memory->used < memory->limit / 16);
}

/* Nothing is evicted for `overflow`: the current datagram may belong to any other exporter. */
bool fb_exporters_make_room(fb_exporters *exporters, const fb_exporter *exporter) {
    if (!is_nearly_exhausted(exporters->memory)) return false;
    if (exporter && (exporter->stateless || is_nearly_exhausted(&exporter->memory))) return false;
    return evict(exporters, fb_eviction_choose(exporters, exporter), FB_EXPORTER_EVICTED);
}

void *fb_exporters_allocate(fb_exporters *exporters, const fb_exporter *exporter, size_t size) {
    void *p;
    do p = fb_memory_allocate(exporters->memory, size);
    while (!p && fb_exporters_make_room(exporters, exporter));
    return p;
}

static fb_exporter *add_exporter(fb_exporters *exporters, uint64_t hash, const uint8_t *address,
                                 uint64_t agent) {
    if (exporters->count * 2 >= exporters->capacity && !grow(exporters)) return NULL;
    fb_exporter *exporter = fb_memory_allocate(exporters->memory, sizeof *exporter);
    if (!exporter) return NULL;
    memcpy(exporter->address, address, 16);
    exporter->agent = agent;
    if (exporters->sampling_rules)
        exporter->rates = fb_sampling_rules_find(exporters->sampling_rules, address);
    exporter->memory = fb_memory_within(exporters->memory, exporters->exporter_memory);
    exporter->name_memory = fb_memory_within(&exporter->memory, exporters->exporter_memory / 4);
    put_exporter(exporters->table, exporters->capacity, hash, exporter);
    exporters->count++;
    fb_eviction_enter(exporters, exporter);
    return exporter;
}

/* The same, but evict others if there is no room. */
static fb_exporter *replace_exporter(fb_exporters *exporters, uint64_t hash, const uint8_t *address,
                                     uint64_t agent, const uint8_t *source) {
    fb_exporter *exporter;
    bool is_agent = (uint32_t)agent || memcmp(address, source, 16) != 0;
    if (is_agent) evict(exporters, fb_eviction_choose_agent(exporters, source), FB_AGENT_EVICTED);
    if (exporters->count >= exporters->limit &&
        !evict(exporters, fb_eviction_choose(exporters, NULL), FB_EXPORTER_EVICTED))
        return NULL;
    do exporter = add_exporter(exporters, hash, address, agent);
    while (!exporter && fb_exporters_make_room(exporters, NULL));
    if (exporter && is_agent) fb_eviction_set_sender(exporters, exporter, source);
    return exporter;
}

FB_NOINLINE fb_exporter *fb_exporters_search(fb_exporters *exporters, const uint8_t address[16],
                                             uint64_t agent, const uint8_t source[16]) {
    uint64_t hash = hash_key(exporters, address, (uint32_t)agent);
    fb_exporter *exporter = find_exporter(exporters, hash, address, agent);
    if (!exporter) exporter = replace_exporter(exporters, hash, address, agent, source);
    if (!exporter) return &exporters->overflow;
    exporters->last = exporter;
    return exporter;
}

fb_exporter *fb_exporters_find(fb_exporters *exporters, const uint8_t address[16], uint64_t agent) {
    fb_exporter *exporter =
        find_exporter(exporters, hash_key(exporters, address, (uint32_t)agent), address, agent);
    return exporter ? exporter : &exporters->overflow;
}

fb_exporter *fb_exporters_restore(fb_exporters *exporters, const uint8_t address[16],
                                  uint64_t agent) {
    uint64_t hash = hash_key(exporters, address, (uint32_t)agent);
    fb_exporter *exporter = find_exporter(exporters, hash, address, agent);
    /* the templates of sets that are being decoded may change */
    if (exporters->pending && exporters->pending->due) fb_pending_return_all(exporters->pending);
    if (!exporter && exporters->count < exporters->limit)
        exporter = add_exporter(exporters, hash, address, agent);
    if (!exporter) return &exporters->overflow;
    if (agent & FB_AGENT_SESSION && !exporter->sender)
        fb_eviction_set_sender(exporters, exporter, address);
    exporter->restored = true;
    return exporter;
}

fb_exporter *fb_exporters_at(const fb_exporters *exporters, size_t i) {
    return i < exporters->capacity ? exporters->table[i].exporter : NULL;
}

/* --- prefetching ---------------------------------------------------------------------------- */

/* most exporters have no more; prefetching thousands of templates would not pay off */
#define FETCHED_TEMPLATES 8
/* if the exporters have no more compiled templates, all of them stay in the cache */
#define CACHED_TEMPLATES 256

/* Prefetch every cache line of [p, p + size). Functions that only prefetch are inlined: gcc takes
   them for pure functions, and removes calls of those that return nothing. REQUIRES: size > 0. */
FB_INLINE void prefetch(const void *p, size_t size) {
    const char *begin = p;
    for (size_t i = 0; i < size; i += FB_CACHE_LINE) FB_PREFETCH(begin + i);
    FB_PREFETCH(begin + size - 1);
}

FB_INLINE void prefetch_templates(const fb_domain *domain) {
    uint32_t templates =
        domain->template_count < FETCHED_TEMPLATES ? domain->template_count : FETCHED_TEMPLATES;
    if (templates) prefetch(domain->templates, templates * sizeof *domain->templates);
    if (templates > 1) FB_PREFETCH(domain->template_order);
    if (domain->sequences.streams) prefetch(domain->sequences.streams, offsetof(fb_sequence, gaps));
}

void fb_domain_prefetch(const fb_domain *domain) {
    prefetch_templates(domain);
}

/* Prefetch the operations of a compiled template. Messages read moves in lanes only if a number
   does not fit its lane. */
FB_INLINE void prefetch_operations(const fb_compiled_template *compiled) {
    size_t groups = compiled->lane_group_count;
    const fb_op *others = compiled->moves[groups ? FB_OP_IPV4 : 0],
                *end = compiled->ops + compiled->op_count;
    if (groups) prefetch(compiled->lane_groups, groups * sizeof *compiled->lane_groups);
    if (others < end) prefetch(others, (size_t)(end - others) * sizeof *others);
}

/* Return the first exporter with a hash; NULL: none. */
static const fb_exporter *guess_exporter(const fb_exporters *exporters, uint64_t hash) {
    const fb_exporter_place *table = exporters->table;
    return table[find_hash(table, exporters->capacity, (size_t)hash, hash)].exporter;
}

/* Return the compiled template of the first set of a message; NULL: unknown. */
static const fb_compiled_template *guess_compiled(const fb_domain *domain, fb_bytes payload) {
    size_t header = domain->version == 9 ? 20 : 16;
    if (payload.size < header + 2 || domain->template_count > FETCHED_TEMPLATES) return NULL;
    unsigned id = fb_load16(payload.data + header);
    for (uint32_t i = 0; i < domain->template_count; i++)
        if (domain->templates[i].id == id) return domain->templates[i].compiled;
    return NULL;
}

/* The steps for a datagram. Each reads only what the steps before it have prefetched. */
typedef enum { PLACE, EXPORTER, DOMAIN, TEMPLATES, COMPILED, OPERATIONS, STEPS } step;

enum { STEP_DISTANCE = FB_LOOK_AHEAD / STEPS };

_Static_assert(FB_LOOK_AHEAD == STEPS * STEP_DISTANCE, "datagrams are decoded after all steps");

FB_INLINE void do_first_step(const fb_exporters *exporters, const fb_datagram *datagram,
                             uint64_t *hash) {
    *hash = hash_key(exporters, datagram->source, 0);
    FB_PREFETCH(&exporters->table[*hash & (exporters->capacity - 1)]);
    FB_PREFETCH(datagram->payload.data);
}

/* Return true if the next step may follow. The exporter is searched in every step, because decoding
   may have evicted it since the last one. */
FB_INLINE bool do_step(const fb_exporters *exporters, step step, const fb_datagram *datagram,
                       uint64_t hash) {
    const fb_exporter *exporter = guess_exporter(exporters, hash);
    if (!exporter) return false;
    if (step == EXPORTER) {
        prefetch(exporter, offsetof(fb_exporter, counters.options_records));
        FB_PREFETCH(&exporter->counters.status[FB_OUT_OF_RANGE]); /* may occur in each record */
        return true;
    }
    const fb_domain *domain = exporter->latest;
    if (!domain) return false;
    if (step == DOMAIN) prefetch(domain, offsetof(fb_domain, samples));
    if (step == TEMPLATES) prefetch_templates(domain);
    if (step <= TEMPLATES) return true;
    const fb_compiled_template *compiled = guess_compiled(domain, datagram->payload);
    if (!compiled) return false;
    if (step == COMPILED) prefetch(compiled, sizeof *compiled);
    else prefetch_operations(compiled);
    return true;
}

void fb_look_ahead_step(fb_look_ahead *ahead, const fb_exporters *exporters,
                        const fb_datagram *datagrams) {
    bool cached = exporters->compiled_templates->count <= CACHED_TEMPLATES;
    step end = cached ? COMPILED : STEPS;
    if (ahead->changes & 1)
        do_first_step(exporters, &datagrams[ahead->next],
                      &ahead->hashes[ahead->next % FB_LOOK_AHEAD_HASHES]);
    for (step step = EXPORTER; step < end; step++) {
        unsigned bit = 1u << step * STEP_DISTANCE;
        size_t i = ahead->next - step * STEP_DISTANCE;
        if (ahead->changes & bit &&
            !do_step(exporters, step, &datagrams[i], ahead->hashes[i % FB_LOOK_AHEAD_HASHES]))
            ahead->changes &= ~bit;
    }
}

/* --- domains -------------------------------------------------------------------------------- */

#define NO_PORT (-1)

static uint64_t domain_key(uint16_t version, int32_t port, uint32_t id) {
    uint64_t of_port = port == NO_PORT ? 0 : 1u << 16 | (uint32_t)port;
    return (uint64_t)version << 49 | of_port << 32 | id;
}

static fb_domain *find_domain(const fb_exporter *exporter, uint16_t version, int32_t port,
                              uint32_t id) {
    fb_map_entry *entry = fb_map_find(&exporter->domains, domain_key(version, port, id));
    return entry ? entry->pointer : NULL;
}

/* Drop a domain. Its lost units stay in the sums. */
static void drop_domain(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain) {
    int32_t port = domain->common ? domain->port : NO_PORT;
    if (exporters->forget_pending) exporters->forget_pending(exporters->pending, exporter, domain);
    add_lost_of_domain(&exporters->lost, domain);
    if (exporter->latest == domain) exporter->latest = NULL;
    fb_map_remove(&exporter->domains, domain_key(domain->version, port, domain->id));
    fb_eviction_leave_domain(exporter, domain);
    free_domain(exporters, exporter, domain);
    fb_eviction_classify(exporters, exporter);
}

/* The last entry of the map moves to the place of a removed one, so this starts at the end. */
static void drop_domains(fb_exporters *exporters, fb_exporter *exporter, bool of_ports) {
    for (uint32_t i = exporter->domains.count; i-- > 0;) {
        fb_domain *domain = exporter->domains.entries[i].pointer;
        if ((domain->common != NULL) == of_ports) drop_domain(exporters, exporter, domain);
    }
}

void fb_exporters_end_session(fb_exporters *exporters, const uint8_t address[16],
                              uint32_t session) {
    fb_exporter *exporter = fb_exporters_find(exporters, address, FB_AGENT_SESSION | session);
    if (exporter->stateless) return;
    drop_domains(exporters, exporter, true); /* domains of ports depend on the common ones */
    drop_domains(exporters, exporter, false);
}

/* `common` is set for a port's domain; else NULL. */
static fb_domain *add_domain(fb_exporters *exporters, fb_exporter *exporter, uint16_t version,
                             int32_t port, uint32_t id, fb_domain *common) {
    if (exporter->domains.count >= FB_MAX_DOMAINS) return NULL;
    fb_domain *domain = fb_memory_allocate(&exporter->memory, sizeof *domain);
    if (!domain) return NULL;
    fb_map_entry *entry =
        fb_map_insert(&exporter->domains, &exporter->memory, domain_key(version, port, id));
    if (!entry) {
        free_domain(exporters, exporter, domain);
        return NULL;
    }
    domain->version = version;
    domain->id = id;
    domain->common = common;
    domain->port = common ? (uint16_t)port : 0;
    domain->used = domain->made = domain->checked = (uint32_t)exporter->counters.datagrams;
    /* from saved state: it counts as seen before */
    if (!exporter->counters.datagrams) domain->made--;
    entry->pointer = domain;
    fb_eviction_enter_domain(exporter, domain);
    return domain;
}

fb_domain *fb_exporter_find_domain(fb_exporter *exporter, uint16_t version, uint32_t id) {
    fb_domain *domain = exporter->latest;
    if (domain && domain->version == version && domain->id == id) return domain;
    domain = find_domain(exporter, version, NO_PORT, id);
    if (domain) exporter->latest = domain;
    return domain;
}

fb_status fb_exporter_get_domain(fb_exporters *exporters, fb_exporter *exporter, uint16_t version,
                                 uint32_t id, fb_domain **domain) {
    if ((*domain = fb_exporter_find_domain(exporter, version, id))) return FB_OK;
    if (exporter->stateless) return FB_EXPORTER_LIMIT;
    if (exporter->domains.count >= FB_MAX_DOMAINS) {
        exporter->counters.status[FB_DOMAIN_EVICTED]++;
        drop_domain(exporters, exporter, fb_eviction_choose_domain(exporter));
    }
    do *domain = add_domain(exporters, exporter, version, NO_PORT, id, NULL);
    while (!*domain && fb_exporters_make_room(exporters, exporter));
    return *domain ? FB_OK : FB_TEMPLATE_LIMIT;
}

fb_domain *fb_domain_find_of_port(const fb_exporter *exporter, fb_domain *common, uint16_t port) {
    fb_domain *domain =
        common->split ? find_domain(exporter, common->version, port, common->id) : NULL;
    return domain ? domain : common;
}

fb_domain *fb_domain_of_port(fb_exporters *exporters, fb_exporter *exporter, fb_domain *common,
                             uint16_t port) {
    fb_domain *domain = fb_domain_find_of_port(exporter, common, port);
    if (!common->split || domain != common) return domain;
    domain = add_domain(exporters, exporter, common->version, port, common->id, common);
    return domain ? domain : common;
}

fb_domain *fb_exporters_get_temporary(fb_exporters *exporters, uint16_t version, uint32_t id) {
    fb_domain *domain = exporters->temporary;
    if (!domain) domain = fb_memory_allocate(&exporters->overflow.memory, sizeof *domain);
    if (!domain) return NULL;
    domain->version = version;
    domain->id = id;
    exporters->temporary = domain;
    return domain;
}

void fb_exporters_drop_temporary(fb_exporters *exporters) {
    free_domain(exporters, &exporters->overflow, exporters->temporary);
    exporters->temporary = NULL;
}
