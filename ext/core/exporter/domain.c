/* The content of a domain: templates, sampling rates, names, start time of the exporter. */
#include "core/exporter/eviction.h"

/* --- templates ------------------------------------------------------------------------------ */

/* Fields may be empty, so the work for a template with many of them is not bounded by the bytes of
   its records. These limits bound it; no real exporter comes near them. */
#define MAX_FIELDS       1024
#define MAX_EMPTY_FIELDS 16

/* A template with only empty fields is not excessive; it is an empty template. */
static bool is_excessive(const fb_definition *definition) {
    size_t empty = 0;
    for (size_t i = 0; i < definition->field_count; i++) empty += definition->fields[i].size == 0;
    return definition->field_count > MAX_FIELDS ||
           (empty > MAX_EMPTY_FIELDS && empty < definition->field_count);
}

/* Return the index of an id in the order, or the index at which to insert it. */
static uint32_t find_template_place(const fb_domain *domain, uint16_t id) {
    uint32_t low = 0, high = domain->template_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (domain->templates[domain->template_order[middle]].id < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

static fb_template *find_own_template(const fb_domain *domain, uint16_t id) {
    uint32_t i = find_template_place(domain, id);
    fb_template *template =
        i < domain->template_count ? &domain->templates[domain->template_order[i]] : NULL;
    return template && template->id == id ? template : NULL;
}

/* Return true if a template of the common domain applies to the port of a domain. */
static bool applies_to_port_of(const fb_template *template, const fb_domain *domain) {
    if (!template || !template->compiled || domain->withdrawn[template->compiled->options])
        return false;
    return !template->contested || template->port == domain->port;
}

FB_NOINLINE fb_template *fb_domain_search_template(fb_domain *domain, uint16_t id) {
    fb_template *template = find_own_template(domain, id);
    if (template) domain->latest_template = (uint32_t)(template - domain->templates);
    if (template && template->compiled) return template;
    if (!domain->common) return NULL;
    template = find_own_template(domain->common, id);
    return applies_to_port_of(template, domain) ? template : NULL;
}

/* It keeps its index, for the next template of the id. */
static void drop_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                          fb_template *template) {
    fb_template_drop_compiled(exporters, exporter, domain, template);
    template->contested = false;
    template->replaced_count = 0;
    fb_eviction_classify(exporters, exporter);
    fb_eviction_classify_domain(exporter, domain);
}

void fb_domain_forget_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                               uint16_t id) {
    fb_template *template = find_own_template(domain, id);
    if (template) drop_template(exporters, exporter, domain, template);
    template = domain->common ? find_own_template(domain->common, id) : NULL;
    if (applies_to_port_of(template, domain))
        drop_template(exporters, exporter, domain->common, template);
}

void fb_domain_forget_all(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                          bool options) {
    fb_id_list *list = domain->defined ? &domain->defined[options] : NULL;
    for (uint32_t i = 0; list && i < list->count; i++) {
        fb_template *template = find_own_template(domain, list->ids[i]);
        template->listed &= (uint8_t)~(1u << options);
        if (template->compiled && template->compiled->options == options)
            drop_template(exporters, exporter, domain, template);
    }
    if (list) list->count = 0;
    domain->withdrawn[options] = domain->common != NULL;
}

/* Add a template to the list that a withdrawal of its kind uses. Return false if memory is
   short. */
static bool list_template(const fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                          fb_template *template, bool options) {
    if (!exporters->obey_withdrawals || template->listed & 1u << options) return true;
    if (!domain->defined)
        domain->defined = fb_memory_allocate(&exporter->memory, 2 * sizeof *domain->defined);
    if (!domain->defined) return false;
    fb_id_list *list = &domain->defined[options];
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 4;
        uint16_t *ids = fb_memory_resize(&exporter->memory, list->ids, list->capacity * sizeof *ids,
                                         capacity * sizeof *ids);
        if (!ids) return false;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = template->id;
    template->listed |= (uint8_t)(1u << options);
    return true;
}

/* Short hash of the contents of a template. A collision can only split a domain unnecessarily. */
static uint32_t short_hash(const fb_compiled_template *compiled) {
    return (uint32_t)(compiled->hash >> 32);
}

/* Return true if a port repeats a definition that other ports have since replaced. Random ports do
   not do that, and neither does an exporter that is reconfigured. */
static bool repeats_replaced_definition(const fb_domain *domain, const fb_template *template,
                                        const fb_compiled_template *compiled, uint16_t port) {
    if (domain->common || domain->split || !template->compiled || template->compiled == compiled)
        return false;
    for (size_t i = 0; i < template->replaced_count; i++)
        if (template->replaced[i].port == port &&
            template->replaced[i].compiled_hash == short_hash(compiled))
            return true;
    return false;
}

/* If memory is short, the definition is not stored, so that its port causes no split yet. */
static void remember_replaced(fb_exporter *exporter, fb_template *template) {
    size_t bytes = FB_MAX_REPLACED * sizeof *template->replaced;
    template->contested = true;
    if (!template->replaced && !(template->replaced = fb_memory_allocate(&exporter->memory, bytes)))
        return;
    memmove(&template->replaced[1], &template->replaced[0], bytes - sizeof *template->replaced);
    template->replaced[0] = (fb_replaced){short_hash(template->compiled), template->port};
    if (template->replaced_count < FB_MAX_REPLACED) template->replaced_count++;
}

static bool reserve_template(fb_exporter *exporter, fb_domain *domain) {
    if (domain->template_count >= FB_MAX_TEMPLATES) return false;
    if (domain->template_count < domain->template_capacity) return true;
    void *templates = domain->templates;
    bool reserved = fb_order_double(&exporter->memory, &templates, &domain->template_order,
                                    sizeof *domain->templates, &domain->template_capacity);
    domain->templates = templates;
    return reserved;
}

/* REQUIRES: the domain has no template with this id. */
static fb_template *add_template(fb_exporter *exporter, fb_domain *domain, uint16_t id) {
    if (!reserve_template(exporter, domain)) return NULL;
    uint32_t i = find_template_place(domain, id);
    fb_template *template = &domain->templates[domain->template_count++];
    *template = (fb_template){.id = id};
    fb_order_enter(domain->template_order, i, domain->template_count);
    return template;
}

/* Takes over the reference to the compiled template. */
static fb_status put_compiled(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                              fb_template *template, fb_compiled_template *compiled,
                              const fb_definition *definition) {
    bool was_known = template->compiled != NULL, same = template->compiled == compiled;
    if (was_known && !same && template->port != definition->port)
        remember_replaced(exporter, template);
    fb_template_drop_compiled(exporters, exporter, domain, template);
    if (!list_template(exporters, exporter, domain, template, compiled->options) ||
        !fb_memory_charge(&exporter->memory, (ptrdiff_t)compiled->bytes)) {
        fb_compiled_templates_release(exporters->compiled_templates, compiled);
        return FB_TEMPLATE_LIMIT;
    }
    template->compiled = compiled;
    template->port = definition->port;
    template->time = definition->time;
    domain->known++;
    exporter->known++;
    fb_eviction_classify(exporters, exporter);
    fb_eviction_classify_domain(exporter, domain);
    return was_known && !same ? FB_TEMPLATE_REDEFINED : FB_OK;
}

static fb_status set_compiled(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                              fb_compiled_template *compiled, const fb_definition *definition) {
    fb_template *template = find_own_template(domain, definition->id);
    bool at_odds =
        template && repeats_replaced_definition(domain, template, compiled, definition->port);
    if (!at_odds && (template || (template = add_template(exporter, domain, definition->id))))
        return put_compiled(exporters, exporter, domain, template, compiled, definition);
    fb_compiled_templates_release(exporters->compiled_templates, compiled);
    return at_odds ? FB_PORT_IN_KEY : FB_TEMPLATE_LIMIT;
}

static fb_status compile_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                                  const fb_definition *definition) {
    fb_compiled_template *compiled;
    fb_status status = fb_compiled_templates_acquire(
        exporters->compiled_templates, domain->version, definition->fields, definition->field_count,
        definition->scope_count, definition->options, &compiled);
    if (status == FB_OK) status = set_compiled(exporters, exporter, domain, compiled, definition);
    return status == FB_NO_MEMORY ? FB_TEMPLATE_LIMIT : status;
}

fb_status fb_domain_set_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                                 const fb_definition *definition) {
    fb_status status = FB_TEMPLATE_LIMIT;
    if (!is_excessive(definition)) {
        do status = compile_template(exporters, exporter, domain, definition);
        while (status == FB_TEMPLATE_LIMIT && domain->template_count < FB_MAX_TEMPLATES &&
               fb_exporters_make_room(exporters, exporter));
    }
    if (status == FB_TEMPLATE_LIMIT || status == FB_EMPTY_TEMPLATE)
        fb_domain_forget_template(exporters, exporter, domain, definition->id);
    return status;
}

/* --- samplers, names and start time ----------------------------------------------------------- */

fb_status fb_domain_set_sampler(fb_exporter *exporter, fb_domain *domain, uint64_t sampler,
                                uint64_t rate) {
    fb_map_entry *entry = fb_map_find(&domain->samplers, sampler);
    domain->rate_known = false;
    if (!entry && domain->samplers.count < FB_MAX_SAMPLERS)
        entry = fb_map_insert(&domain->samplers, &exporter->memory, sampler);
    if (!entry) return FB_TEMPLATE_LIMIT;
    entry->number = rate;
    return FB_OK;
}

fb_status fb_domain_set_selection(fb_exporter *exporter, fb_domain *domain, uint64_t sequence,
                                  const fb_selection *selection) {
    fb_map_entry *entry = fb_map_find(&domain->selections, sequence);
    fb_selection *kept = entry ? entry->pointer : NULL;
    if (!kept && domain->selections.count < FB_MAX_SAMPLERS)
        kept = fb_memory_allocate(&exporter->memory, sizeof *kept);
    if (!kept) return FB_TEMPLATE_LIMIT;
    if (!entry) entry = fb_map_insert(&domain->selections, &exporter->memory, sequence);
    if (entry) {
        *kept = *selection;
        entry->pointer = kept;
        return FB_OK;
    }
    fb_memory_release(&exporter->memory, kept, sizeof *kept);
    return FB_TEMPLATE_LIMIT;
}

void fb_domain_set_name(const fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                        fb_name_kind kind, fb_name_id id, fb_bytes text, uint64_t speed) {
    uint64_t *status = exporter->counters.status;
    bool kept = fb_names_define(&domain->names, &exporter->name_memory, exporters->seed, kind, id,
                                text, speed, &status[FB_NAME_EVICTED]);
    status[FB_NAME_LIMIT] += !kept;
}

/* Return the sampler with its rate, or NULL if it is unknown. */
static const fb_map_entry *find_sampler(const fb_domain *domain, uint64_t sampler) {
    const fb_map_entry *entry = NULL;
    for (; !entry && domain; domain = domain->common)
        entry = fb_map_find(&domain->samplers, sampler);
    return entry;
}

uint64_t fb_domain_find_rate(const fb_domain *domain, bool named, uint64_t sampler) {
    const fb_map_entry *entry = named ? find_sampler(domain, sampler) : NULL;
    if (entry) return entry->number;
    const fb_map *known =
        domain->samplers.count || !domain->common ? &domain->samplers : &domain->common->samplers;
    return known->count == 1 ? known->entries[0].number : 0;
}

/* Return 0 if a factor is 0 or the product exceeds 64 bits. */
static uint64_t multiply(uint64_t a, uint64_t b) {
    return b && a <= UINT64_MAX / b ? a * b : 0;
}

bool fb_domain_find_selection_rate(const fb_domain *domain, uint64_t sequence, uint64_t *rate) {
    const fb_map_entry *entry = fb_map_find(&domain->selections, sequence);
    if (!entry && domain->common) entry = fb_map_find(&domain->common->selections, sequence);
    if (!entry) return false;
    const fb_selection *selection = entry->pointer;
    *rate = selection->count > 0;
    for (size_t i = 0; i < selection->count; i++) {
        entry = find_sampler(domain, selection->ids[i]);
        *rate = multiply(*rate, entry ? entry->number : 0);
    }
    return true;
}

/* A port's domain caches nothing, because the common domain may change without updating the
   cache. */
FB_NOINLINE uint64_t fb_domain_look_up_rate(fb_domain *domain, uint64_t sampler) {
    uint64_t rate = fb_domain_find_rate(domain, true, sampler);
    domain->rate_known = !domain->common;
    domain->sampler = sampler;
    domain->rate = rate;
    return rate;
}
