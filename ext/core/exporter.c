/* Exporters by address, in a hash table; all below them in small sorted maps. */
#include "exporter.h"

#define FIRST_CAPACITY 64

/* --- map ------------------------------------------------------------------------------------------------------------ */

static uint32_t lower_bound(const fb_map *map, uint64_t key) {
    uint32_t low = 0, high = map->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (map->entries[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

fb_map_entry *fb_map_find(const fb_map *map, uint64_t key) {
    uint32_t i = lower_bound(map, key);
    return i < map->count && map->entries[i].key == key ? &map->entries[i] : NULL;
}

fb_map_entry *fb_map_insert(fb_map *map, fb_memory *memory, uint64_t key) {
    uint32_t i = lower_bound(map, key);
    if (i < map->count && map->entries[i].key == key) return &map->entries[i];
    if (map->count == map->capacity) {
        uint32_t capacity = map->capacity ? map->capacity * 2 : 4;
        fb_map_entry *entries = fb_memory_resize(memory, map->entries, map->capacity * sizeof *entries,
                                                 capacity * sizeof *entries);
        if (!entries) return NULL;
        map->entries = entries;
        map->capacity = capacity;
    }
    memmove(&map->entries[i + 1], &map->entries[i], (map->count - i) * sizeof *map->entries);
    map->count++;
    map->entries[i] = (fb_map_entry){.key = key, .number = 0};
    return &map->entries[i];
}

void fb_map_free(fb_map *map, fb_memory *memory) {
    fb_memory_release(memory, map->entries, map->capacity * sizeof *map->entries);
    *map = (fb_map){0};
}

/* --- exporters ------------------------------------------------------------------------------------------------------ */

fb_status fb_exporters_new(fb_exporters *exporters, fb_shapes *shapes, fb_memory *memory, size_t limit,
                           size_t exporter_memory, uint64_t seed) {
    *exporters = (fb_exporters){
        .memory = memory, .shapes = shapes, .limit = limit, .exporter_memory = exporter_memory, .seed = seed};
    exporters->overflow.stateless = true;
    exporters->table = fb_memory_allocate(memory, FIRST_CAPACITY * sizeof *exporters->table);
    if (!exporters->table) return FB_NO_MEMORY;
    exporters->capacity = FIRST_CAPACITY;
    return FB_OK;
}

/* A template that is not in use any more keeps its place, for the next one of its id. */
static void drop_template(fb_exporters *exporters, fb_exporter *exporter, fb_map_entry *entry) {
    fb_shape *shape = entry->pointer;
    entry->pointer = NULL;
    if (!shape) return;
    fb_memory_charge(&exporter->memory, -(ptrdiff_t)shape->octets);
    fb_shapes_release(exporters->shapes, shape);
}

static void free_domain(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain) {
    for (uint32_t i = 0; i < domain->templates.count; i++)
        drop_template(exporters, exporter, &domain->templates.entries[i]);
    fb_map_free(&domain->templates, &exporter->memory);
    fb_map_free(&domain->samplers, &exporter->memory);
    fb_sequences_free(&domain->sequences, &exporter->memory);
    fb_samples_free(&domain->samples, &exporter->memory);
    fb_memory_release(&exporter->memory, domain, sizeof *domain);
}

static void free_exporter(fb_exporters *exporters, fb_exporter *exporter) {
    for (uint32_t i = 0; i < exporter->domains.count; i++)
        free_domain(exporters, exporter, exporter->domains.entries[i].pointer);
    fb_map_free(&exporter->domains, &exporter->memory);
    fb_memory_release(exporters->memory, exporter, sizeof *exporter);
}

void fb_exporters_free(fb_exporters *exporters) {
    if (!exporters->table) return;
    for (size_t i = 0; i < exporters->capacity; i++)
        if (exporters->table[i]) free_exporter(exporters, exporters->table[i]);
    fb_memory_release(exporters->memory, exporters->table, exporters->capacity * sizeof *exporters->table);
    *exporters = (fb_exporters){0};
}

static size_t hash_key(const fb_exporters *exporters, const uint8_t *address, uint32_t sub_agent) {
    uint64_t hash = fb_hash(exporters->seed, fb_load64(address));
    return (size_t)fb_hash(fb_hash(hash, fb_load64(address + 8)), sub_agent);
}

static fb_exporter **find_place(const fb_exporters *exporters, fb_exporter **table, size_t capacity,
                                const uint8_t *address, uint32_t sub_agent) {
    size_t i = hash_key(exporters, address, sub_agent) & (capacity - 1);
    while (table[i] && (table[i]->sub_agent != sub_agent || memcmp(table[i]->address, address, 16)))
        i = (i + 1) & (capacity - 1);
    return &table[i];
}

static bool grow(fb_exporters *exporters) {
    size_t capacity = exporters->capacity * 2;
    fb_exporter **table = fb_memory_allocate(exporters->memory, capacity * sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < exporters->capacity; i++) {
        fb_exporter *exporter = exporters->table[i];
        if (exporter) *find_place(exporters, table, capacity, exporter->address, exporter->sub_agent) = exporter;
    }
    fb_memory_release(exporters->memory, exporters->table, exporters->capacity * sizeof *table);
    exporters->table = table;
    exporters->capacity = capacity;
    return true;
}

static fb_exporter *add_exporter(fb_exporters *exporters, const uint8_t *address, uint32_t sub_agent) {
    if (exporters->count >= exporters->limit) return NULL;
    if (exporters->count * 2 >= exporters->capacity && !grow(exporters)) return NULL;
    fb_exporter *exporter = fb_memory_allocate(exporters->memory, sizeof *exporter);
    if (!exporter) return NULL;
    memcpy(exporter->address, address, 16);
    exporter->sub_agent = sub_agent;
    exporter->memory = fb_memory_within(exporters->memory, exporters->exporter_memory);
    *find_place(exporters, exporters->table, exporters->capacity, address, sub_agent) = exporter;
    exporters->count++;
    return exporter;
}

fb_exporter *fb_exporters_get(fb_exporters *exporters, const uint8_t address[16], uint32_t sub_agent) {
    fb_exporter *exporter = exporters->last;
    if (exporter && exporter->sub_agent == sub_agent && memcmp(exporter->address, address, 16) == 0) return exporter;
    exporter = *find_place(exporters, exporters->table, exporters->capacity, address, sub_agent);
    if (!exporter && !(exporter = add_exporter(exporters, address, sub_agent))) return &exporters->overflow;
    exporters->last = exporter;
    return exporter;
}

fb_exporter *fb_exporters_at(const fb_exporters *exporters, size_t i) {
    return i < exporters->capacity ? exporters->table[i] : NULL;
}

/* --- domains -------------------------------------------------------------------------------------------------------- */

static uint64_t domain_key(uint16_t version, uint32_t id) {
    return (uint64_t)version << 32 | id;
}

fb_domain *fb_exporter_find_domain(const fb_exporter *exporter, uint16_t version, uint32_t id) {
    fb_map_entry *entry = fb_map_find(&exporter->domains, domain_key(version, id));
    return entry ? entry->pointer : NULL;
}

fb_status fb_exporter_get_domain(fb_exporters *exporters, fb_exporter *exporter, uint16_t version, uint32_t id,
                                 fb_domain **out) {
    if ((*out = fb_exporter_find_domain(exporter, version, id))) return FB_OK;
    if (exporter->stateless) return FB_EXPORTER_LIMIT;
    if (exporter->domains.count >= FB_MAX_DOMAINS) return FB_TEMPLATE_LIMIT;
    fb_domain *domain = fb_memory_allocate(&exporter->memory, sizeof *domain);
    if (!domain) return FB_TEMPLATE_LIMIT;
    fb_map_entry *entry = fb_map_insert(&exporter->domains, &exporter->memory, domain_key(version, id));
    if (!entry) {
        free_domain(exporters, exporter, domain);
        return FB_TEMPLATE_LIMIT;
    }
    domain->version = version;
    domain->id = id;
    entry->pointer = *out = domain;
    return FB_OK;
}

/* --- templates ------------------------------------------------------------------------------------------------------ */

void fb_domain_forget_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain, uint16_t id) {
    fb_map_entry *entry = fb_map_find(&domain->templates, id);
    if (entry) drop_template(exporters, exporter, entry);
}

fb_status fb_domain_set_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain, uint16_t id,
                                 const fb_field *fields, uint16_t field_count, uint16_t scope_count, bool options) {
    fb_shape *shape;
    fb_status status = fb_shapes_acquire(exporters->shapes, domain->version, fields, field_count, scope_count, options, &shape);
    fb_map_entry *entry = fb_map_find(&domain->templates, id);
    if (status != FB_OK) {
        if (entry) drop_template(exporters, exporter, entry);
        return status == FB_NO_MEMORY ? FB_TEMPLATE_LIMIT : status;
    }
    fb_shape *old = entry ? entry->pointer : NULL;
    if (old == shape) {
        fb_shapes_release(exporters->shapes, shape);
        return FB_OK;
    }
    if (old) drop_template(exporters, exporter, entry);
    bool room = entry || domain->templates.count < FB_MAX_TEMPLATES;
    if (!room || !fb_memory_charge(&exporter->memory, (ptrdiff_t)shape->octets)) goto fail;
    if (!entry && !(entry = fb_map_insert(&domain->templates, &exporter->memory, id))) {
        fb_memory_charge(&exporter->memory, -(ptrdiff_t)shape->octets);
        goto fail;
    }
    entry->pointer = shape;
    return old ? FB_TEMPLATE_REDEFINED : FB_OK;

fail:
    fb_shapes_release(exporters->shapes, shape);
    return FB_TEMPLATE_LIMIT;
}

fb_shape *fb_domain_find_template(const fb_domain *domain, uint16_t id) {
    fb_map_entry *entry = fb_map_find(&domain->templates, id);
    return entry ? entry->pointer : NULL;
}

/* --- samplers ------------------------------------------------------------------------------------------------------- */

fb_status fb_domain_set_sampler(fb_exporter *exporter, fb_domain *domain, uint64_t sampler, uint64_t rate) {
    fb_map_entry *entry = fb_map_find(&domain->samplers, sampler);
    if (!entry && domain->samplers.count < FB_MAX_SAMPLERS)
        entry = fb_map_insert(&domain->samplers, &exporter->memory, sampler);
    if (!entry) return FB_TEMPLATE_LIMIT;
    entry->number = rate;
    return FB_OK;
}

uint64_t fb_domain_find_rate(const fb_domain *domain, bool named, uint64_t sampler) {
    const fb_map_entry *entry = named ? fb_map_find(&domain->samplers, sampler) : NULL;
    if (!entry && domain->samplers.count == 1) entry = &domain->samplers.entries[0];
    return entry ? entry->number : 0;
}
