/* One reader, `next_set`, checks and restores. */
#include "core/exporter/pending_state.h"
#include "core/packet/packet_write.h"

enum { VERSION_SIZE = 2, HEADER_SIZE = 32, SET_HEADER_SIZE = 4, FIRST_ID = 256 };

/* Return the number of bytes of a set whose records were decoded. */
static uint32_t decoded_bytes(const fb_pending_set *set) {
    return set->record ? set->record - SET_HEADER_SIZE : 0;
}

size_t fb_pending_form_size(const fb_exporter *exporter) {
    size_t size = VERSION_SIZE;
    for (const fb_pending_set *set = exporter->pending.oldest; set;
         set = set->in[FB_PENDING_OF_EXPORTER].newer)
        size += HEADER_SIZE + set->size - decoded_bytes(set);
    return size;
}

/* Write a set without the records that were decoded. */
static uint8_t *put_set(uint8_t *out, const fb_pending_set *set) {
    const uint32_t decoded = decoded_bytes(set);
    out = fb_put16(out, fb_load16(set->bytes));
    out = fb_put16(out, fb_load16(set->bytes + 2) - decoded);
    return fb_put_bytes(out, set->bytes + SET_HEADER_SIZE + decoded,
                        set->size - SET_HEADER_SIZE - decoded);
}

void fb_pending_write(const fb_exporter *exporter, uint8_t *out) {
    out = fb_put16(out, FB_PENDING_FORM_VERSION);
    for (const fb_pending_set *set = exporter->pending.oldest; set;
         set = set->in[FB_PENDING_OF_EXPORTER].newer) {
        const fb_pending_header *header = &set->header;
        out = fb_put32(out, set->domain->id);
        out = fb_put16(out, set->domain->version);
        out = fb_put16(out, header->source_port);
        out = fb_put64(out, header->time);
        out = fb_put32(out, (uint32_t)(header->export_time / FB_SECOND));
        out = fb_put32(out, header->uptime);
        out = fb_put32(out, header->sequence);
        out = fb_put32(out, set->size - decoded_bytes(set));
        out = put_set(out, set);
    }
}

typedef struct {
    uint32_t domain;
    uint16_t version;
    fb_pending_header header;
    fb_bytes set;
} form_set;

/* Read the next set. END, BAD_ARGUMENT. */
static fb_status next_set(fb_bytes *rest, form_set *found) {
    const uint8_t *p = rest->data;
    if (!rest->size) return FB_END;
    if (rest->size < HEADER_SIZE) return FB_BAD_ARGUMENT;
    *found = (form_set){.domain = fb_load32(p),
                        .version = fb_load16(p + 4),
                        .header = {.source_port = fb_load16(p + 6),
                                   .time = fb_load64(p + 8),
                                   .export_time = fb_load32(p + 16) * FB_SECOND,
                                   .uptime = fb_load32(p + 20),
                                   .sequence = fb_load32(p + 24)},
                        .set = {p + HEADER_SIZE, fb_load32(p + 28)}};
    if (found->version != 9 && found->version != 10) return FB_BAD_ARGUMENT;
    if (found->set.size < SET_HEADER_SIZE || found->set.size > rest->size - HEADER_SIZE)
        return FB_BAD_ARGUMENT;
    if (fb_load16(found->set.data) < FIRST_ID || found->header.time > FB_TIME_MAX)
        return FB_BAD_ARGUMENT;
    *rest =
        (fb_bytes){found->set.data + found->set.size, rest->size - HEADER_SIZE - found->set.size};
    return FB_OK;
}

fb_status fb_pending_check(fb_bytes form) {
    form_set found;
    fb_status status = FB_OK;
    if (form.size < VERSION_SIZE || fb_load16(form.data) != FB_PENDING_FORM_VERSION)
        return FB_BAD_ARGUMENT;
    fb_bytes rest = {form.data + VERSION_SIZE, form.size - VERSION_SIZE};
    while (status == FB_OK) status = next_set(&rest, &found);
    return status == FB_END ? FB_OK : status;
}

void fb_pending_restore(fb_exporters *exporters, const uint8_t address[16], uint64_t agent,
                        fb_bytes form) {
    fb_bytes rest = {form.data + VERSION_SIZE, form.size - VERSION_SIZE};
    fb_exporter *exporter = fb_exporters_restore(exporters, address, agent);
    for (form_set found; next_set(&rest, &found) == FB_OK;) {
        fb_domain *domain;
        fb_status status =
            fb_exporter_get_domain(exporters, exporter, found.version, found.domain, &domain);
        if (status == FB_OK)
            domain = fb_domain_of_port(exporters, exporter, domain, found.header.source_port);
        fb_pending_inherit(exporters->pending, exporter, domain, &found.header, found.set);
    }
}
