/* The decoder of the core reads the datagrams into rows of one column, and the rows are discarded.
   The state of its exporters has the templates and the number of records. */
#include "net/record_finder.h"

#include "core/decode/decode.h"

enum { OUTPUT_SIZE = 65536, FIRST_SWITCHED = 22, LAST_SWITCHED = 21 };

struct fb_record_finder {
    fb_memory *memory;
    fb_plan *plan;
    fb_decoder *decoder;
    fb_row row;
    uint8_t output[OUTPUT_SIZE];
};

static fb_status open_decoder(fb_record_finder *finder, uint64_t seed) {
    const fb_column_spec column = {
        .number = 1, .type = FB_TYPE_UINT, .flags = FB_COLUMN_ENABLED, .limit = UINT64_MAX};
    const fb_decoder_options options = {.hash_seed = seed};
    fb_status status = fb_plan_new(&finder->plan, finder->memory);
    if (status == FB_OK) status = fb_plan_add_column(finder->plan, &column);
    if (status == FB_OK) status = fb_plan_seal(finder->plan);
    if (status == FB_OK) status = fb_row_new(&finder->row, finder->plan, finder->memory);
    if (status == FB_OK)
        status = fb_decoder_new(&finder->decoder, finder->plan, options, finder->memory);
    return status;
}

fb_status fb_record_finder_new(fb_record_finder **out, fb_memory *memory, uint64_t seed) {
    fb_record_finder *finder = fb_memory_allocate(memory, sizeof *finder);
    if (!finder) return FB_NO_MEMORY;
    finder->memory = memory;
    fb_status status = open_decoder(finder, seed);
    if (status != FB_OK) {
        fb_record_finder_free(finder);
        finder = NULL;
    }
    *out = finder;
    return status;
}

void fb_record_finder_free(fb_record_finder *finder) {
    if (!finder) return;
    fb_decoder_free(finder->decoder);
    fb_row_free(&finder->row);
    fb_plan_free(finder->plan);
    fb_memory_release(finder->memory, finder, sizeof *finder);
}

void fb_record_finder_read(fb_record_finder *finder, const fb_datagram *datagram) {
    fb_position position = {0};
    uint32_t version = fb_payload_sniff(datagram->payload);
    if (version != 9 && version != 10) return;
    do fb_row_set_output(&finder->row, finder->output, OUTPUT_SIZE, 0);
    while (fb_row_decode(finder->decoder, datagram, 1, &position, &finder->row) == FB_NO_SPACE);
}

/* Return the domain that is common to all ports; NULL: it is unknown. */
static fb_domain *find_domain(const fb_record_finder *finder, const fb_datagram *datagram,
                              uint16_t version, uint32_t id, fb_exporter **exporter) {
    *exporter = fb_exporters_find(&finder->decoder->exporters, datagram->source, 0);
    if ((*exporter)->stateless) return NULL;
    return fb_exporter_find_domain(*exporter, version, id);
}

fb_sequence_content fb_record_finder_count(const fb_record_finder *finder,
                                           const fb_datagram *datagram) {
    const uint8_t *p = datagram->payload.data;
    const fb_sequence_content nothing = {.incomplete = true};
    if (datagram->payload.size < 16 || fb_load16(p + 2) < 16) return nothing;
    fb_exporter *exporter;
    const fb_domain *domain = find_domain(finder, datagram, 10, fb_load32(p + 12), &exporter);
    return domain ? domain->sequences.pending : nothing;
}

typedef struct {
    fb_domain *domain;
    const uint8_t *payload;
    fb_record_field visit;
    void *context;
} search;

static bool is_uptime(const fb_field *field) {
    return !field->pen && (field->id == FIRST_SWITCHED || field->id == LAST_SWITCHED) &&
           field->size == 4;
}

static fb_status visit_column(const search *s, const uint8_t *field, const uint8_t *last,
                              size_t record_size) {
    fb_status status = FB_OK;
    for (; field <= last && status == FB_OK; field += record_size)
        status = s->visit(s->context, (size_t)(field - s->payload));
    return status;
}

/* Visit the uptimes of the set in [set, end). */
static fb_status visit_set(const search *s, const uint8_t *set, const uint8_t *end) {
    const fb_template *template = fb_domain_find_template(s->domain, fb_load16(set));
    const fb_compiled_template *compiled = template ? template->compiled : NULL;
    if (!compiled || compiled->options || compiled->variable_count) return FB_OK;
    size_t size = compiled->record_size, count = (size_t)(end - set - 4) / size;
    fb_status status = FB_OK;
    for (size_t i = 0; i < compiled->field_count && count && status == FB_OK; i++) {
        if (!is_uptime(&compiled->fields[i])) continue;
        const uint8_t *field = set + 4 + compiled->offsets[i];
        status = visit_column(s, field, field + (count - 1) * size, size);
    }
    return status;
}

fb_status fb_record_finder_visit_uptimes(const fb_record_finder *finder,
                                         const fb_datagram *datagram, fb_record_field visit,
                                         void *context) {
    fb_exporter *exporter;
    fb_bytes payload = datagram->payload;
    search s = {.payload = payload.data, .visit = visit, .context = context};
    if (payload.size < 20) return FB_OK;
    fb_domain *domain = find_domain(finder, datagram, 9, fb_load32(payload.data + 16), &exporter);
    if (domain && domain->split)
        domain = fb_domain_find_of_port(exporter, domain, datagram->source_port);
    s.domain = domain;
    const uint8_t *end = payload.data + payload.size;
    fb_status status = FB_OK;
    for (const uint8_t *p = payload.data + 20; domain && end - p >= 4 && status == FB_OK;) {
        size_t length = fb_load16(p + 2);
        if (length < 4 || length > (size_t)(end - p)) break;
        if (fb_load16(p) >= 256) status = visit_set(&s, p, p + length);
        p += length;
    }
    return status;
}
