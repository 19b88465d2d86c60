/* Reads templates; every count in them is checked against the octets that are there before anything is believed. */
#include "template_set.h"

/* Fields may be empty, so a template of many such makes work that the octets of its records do not bound. No exporter comes
   near these numbers. */
#define MAX_FIELDS 1024
#define MAX_EMPTY_FIELDS 64

typedef struct {
    uint16_t id;
    uint16_t field_count;
    uint16_t scope_count;
} header;

/* The head of a template. Returns where its fields begin; NULL when it is cut short or contradicts itself. */
static const uint8_t *read_header(uint16_t version, bool options, const uint8_t *p, const uint8_t *end, header *h) {
    size_t size = options ? 6 : 4;
    if ((size_t)(end - p) < size) return NULL;
    *h = (header){.id = fb_load16(p), .field_count = fb_load16(p + 2)};
    if (!options) return p + size;
    if (version == 10) {
        h->scope_count = fb_load16(p + 4);
        return h->scope_count <= h->field_count ? p + size : NULL;
    }
    unsigned scope_octets = fb_load16(p + 2), option_octets = fb_load16(p + 4);
    if (scope_octets % 4 || option_octets % 4) return NULL;
    h->scope_count = (uint16_t)(scope_octets / 4);
    h->field_count = (uint16_t)(scope_octets / 4 + option_octets / 4);
    return p + size;
}

/* Reads the field specifiers into `fields`, which has room for (end - p) / 4 of them. NULL when they are cut short. */
static const uint8_t *read_fields(uint16_t version, const header *h, const uint8_t *p, const uint8_t *end,
                                  fb_field *fields) {
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

static bool is_padding(const uint8_t *p, const uint8_t *end) {
    while (p < end && !*p) p++;
    return p == end;
}

static bool is_withdrawal(uint16_t version, bool options, const uint8_t *p) {
    uint16_t id = fb_load16(p), count = fb_load16(p + 2);
    return version == 10 && count == 0 && (id >= 256 || id == (options ? 3 : 2));
}

/* Not so when all fields are empty: that is an empty template. */
static bool is_excessive(const header *h, const fb_field *fields) {
    size_t empty = 0;
    for (size_t i = 0; i < h->field_count; i++) empty += fields[i].size == 0;
    return h->field_count > MAX_FIELDS || (empty > MAX_EMPTY_FIELDS && empty < h->field_count);
}

static void store(fb_context *context, uint16_t version, uint32_t domain_id, bool options, const header *h,
                  const fb_field *fields, const uint8_t *at) {
    context->counters->templates++;
    fb_status status = fb_exporter_get_domain(context->exporters, context->exporter, version, domain_id, &context->domain);
    if (status == FB_OK && is_excessive(h, fields)) {
        fb_domain_forget_template(context->exporters, context->exporter, context->domain, h->id);
        status = FB_TEMPLATE_LIMIT;
    }
    if (status == FB_OK)
        status = fb_domain_set_template(context->exporters, context->exporter, context->domain, h->id, fields,
                                        h->field_count, h->scope_count, options);
    if (status != FB_OK) fb_context_count(context, status, at);
}

void fb_template_set_read(fb_context *context, uint16_t version, uint32_t domain_id, bool options, const uint8_t *p,
                          const uint8_t *end) {
    fb_memory *memory = context->exporters->memory;
    size_t room = (size_t)(end - p) / 4 * sizeof(fb_field);
    fb_field *fields = room ? fb_memory_allocate(memory, room) : NULL;
    if (room && !fields) {
        fb_context_count(context, FB_TEMPLATE_LIMIT, p);
        return;
    }
    while (end - p >= 4) {
        const uint8_t *at = p;
        header h;
        if (is_padding(p, end)) break;
        if (is_withdrawal(version, options, p)) {
            fb_context_count(context, FB_WITHDRAWAL, at);
            p += 4;
            continue;
        }
        if (!(p = read_header(version, options, p, end, &h)) || h.id < 256 || h.field_count > room / sizeof *fields ||
            !(p = read_fields(version, &h, p, end, fields))) {
            fb_context_count(context, FB_BAD_TEMPLATE, at);
            break;
        }
        store(context, version, domain_id, options, &h, fields, at);
    }
    if (room) fb_memory_release(memory, fields, room);
}
