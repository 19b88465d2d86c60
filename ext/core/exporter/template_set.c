/* Read templates. Every count in them is checked against the available bytes before use. */
#include "core/exporter/template_set.h"

typedef struct {
    uint16_t id;
    uint16_t field_count;
    uint16_t scope_count;
} header;

/* Read the header of a template. Return the start of its fields, or NULL if it is cut short or
   inconsistent. */
static const uint8_t *read_header(uint16_t version, bool options, const uint8_t *p,
                                  const uint8_t *end, header *h) {
    size_t size = options ? 6 : 4;
    if ((size_t)(end - p) < size) return NULL;
    *h = (header){.id = fb_load16(p), .field_count = fb_load16(p + 2)};
    if (!options) return p + size;
    if (version == 10) {
        h->scope_count = fb_load16(p + 4);
        return h->scope_count <= h->field_count ? p + size : NULL;
    }
    unsigned scope_bytes = fb_load16(p + 2), option_bytes = fb_load16(p + 4);
    if (scope_bytes % 4 || option_bytes % 4) return NULL;
    h->scope_count = (uint16_t)(scope_bytes / 4);
    h->field_count = (uint16_t)(scope_bytes / 4 + option_bytes / 4);
    return p + size;
}

/* Read the field specifiers into `fields`, which has room for (end - p) / 4 of them. Return their
   end, or NULL if they are cut short. */
static const uint8_t *read_fields(uint16_t version, const header *h, const uint8_t *p,
                                  const uint8_t *end, fb_field *fields) {
    for (size_t i = 0; i < h->field_count; i++) {
        if (end - p < 4) return NULL;
        fields[i] = (fb_field){.id = fb_load16(p), .size = fb_load16(p + 2)};
        p += 4;
        if (version != 10 || !(fields[i].id & 0x8000)) continue;
        if (end - p < 4) return NULL;
        fields[i].id &= 0x7fff;
        fields[i].pen = fb_load32(p);
        p += 4;
    }
    return p;
}

static bool is_withdrawal(uint16_t version, bool options, const uint8_t *p) {
    uint16_t id = fb_load16(p), count = fb_load16(p + 2);
    return version == 10 && count == 0 && (id >= 256 || id == (options ? 3 : 2));
}

/* Two ports disagree about a template id: give each port its own domain. */
static void split_domain(fb_context *context) {
    fb_domain *common = context->domain;
    fb_context_count(context, FB_PORT_IN_KEY, NULL);
    common->split = true;
    context->domain = fb_domain_of_port(context->exporters, context->exporter, common,
                                        context->datagram->source_port);
    fb_pending_split(context->exporters->pending, context->exporters, context->exporter, common);
}

static fb_status set_template(fb_context *context, const fb_definition *definition) {
    return fb_domain_set_template(context->exporters, context->exporter, context->domain,
                                  definition);
}

/* EXPORTER_LIMIT, TEMPLATE_LIMIT: the template cannot be kept after the datagram. */
static fb_status keep_template(fb_context *context, uint16_t version, uint32_t domain_id,
                               const fb_definition *definition) {
    bool refused = context->domain && context->domain == context->exporters->temporary;
    if (refused)
        return context->counters == &context->exporter->counters ? FB_EXPORTER_LIMIT
                                                                 : FB_TEMPLATE_LIMIT;
    fb_status status = fb_context_need_domain(context, version, domain_id);
    if (status == FB_OK) status = set_template(context, definition);
    if (status != FB_PORT_IN_KEY) return status;
    split_domain(context);
    return set_template(context, definition);
}

static void store_template(fb_context *context, uint16_t version, uint32_t domain_id, bool options,
                           const header *h, const fb_field *fields, const uint8_t *at) {
    fb_definition definition = {fields,
                                h->field_count,
                                h->scope_count,
                                h->id,
                                options,
                                context->datagram->source_port,
                                context->datagram->time};
    context->counters->templates++;
    fb_status status = keep_template(context, version, domain_id, &definition);
    if (status != FB_OK) fb_context_count(context, status, at);
    if (status != FB_EXPORTER_LIMIT && status != FB_TEMPLATE_LIMIT) return;
    if (!context->domain) fb_context_use_temporary(context, version, domain_id);
    if (!context->domain) return; /* no memory: records of this template would have no domain */
    fb_domain *temporary = fb_exporters_get_temporary(context->exporters, version, domain_id);
    if (temporary)
        fb_domain_set_template(context->exporters, &context->exporters->overflow, temporary,
                               &definition);
}

static void withdraw(fb_context *context, bool options, uint16_t id) {
    if (!context->exporters->obey_withdrawals || !context->domain) return;
    fb_template *template = fb_domain_find_template(context->domain, id);
    if (id < 256)
        fb_domain_forget_all(context->exporters, context->exporter, context->domain, options);
    else if (template && template->compiled->options == options)
        fb_domain_forget_template(context->exporters, context->exporter, context->domain, id);
}

/* Only the final state of the set counts: an id that is defined and then forgotten releases
   nothing. */
static void free_waiting(fb_context *context, const uint16_t *ids, size_t count) {
    for (size_t i = 0; i < count && context->exporter->pending.sets && context->domain; i++)
        if (fb_domain_find_template(context->domain, ids[i]))
            fb_pending_take(context->exporters->pending, context->domain, ids[i]);
}

/* Read and store the template at p. Return its end, or NULL if it cannot be read. */
static const uint8_t *read_template(fb_context *context, uint16_t version, uint32_t domain_id,
                                    bool options, const uint8_t *p, const uint8_t *end,
                                    fb_field *fields, uint16_t *id) {
    header h;
    const uint8_t *at = p;
    size_t room = (size_t)(end - p) / 4;
    p = read_header(version, options, p, end, &h);
    if (!p || h.id < 256 || h.field_count > room ||
        !(p = read_fields(version, &h, p, end, fields))) {
        fb_context_count(context, FB_BAD_TEMPLATE, at);
        return NULL;
    }
    store_template(context, version, domain_id, options, &h, fields, at);
    *id = h.id;
    return p;
}

void fb_template_set_read(fb_context *context, uint16_t version, uint32_t domain_id, bool options,
                          const uint8_t *p, const uint8_t *end) {
    enum { FEW = 32 }; /* fields that need no allocation */
    fb_field few_fields[FEW], *fields = few_fields;
    uint16_t few_ids[FEW], *ids = few_ids; /* of the templates that were read */
    fb_memory *memory = context->exporters->memory;
    size_t room = (size_t)(end - p) / 4, bytes = room * (sizeof(fb_field) + sizeof(uint16_t)),
           count = 0;
    if (room > FEW) {
        fields = fb_exporters_allocate(context->exporters, context->exporter, bytes);
        ids = fields ? (uint16_t *)(fields + room) : NULL;
        if (!fields) fb_context_count(context, FB_TEMPLATE_LIMIT, p);
    }
    while (fields && p && end - p >= 4 && !fb_is_zero(p, end)) {
        if (is_withdrawal(version, options, p)) {
            fb_context_count(context, FB_WITHDRAWAL, p);
            withdraw(context, options, fb_load16(p));
            p += 4;
        } else {
            p = read_template(context, version, domain_id, options, p, end, fields, &ids[count]);
            count += p != NULL;
        }
    }
    if (fields) free_waiting(context, ids, count);
    if (room > FEW) fb_memory_release(memory, fields, bytes);
}
