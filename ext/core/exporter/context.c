/* Count faults, and find the domain and the sequence of a datagram. */
#include "core/exporter/context.h"

void fb_fault_set_first(fb_fault *fault, fb_status status, size_t datagram, size_t offset,
                        const uint8_t exporter[16]) {
    if (fault->status != FB_OK) return;
    fault->status = status;
    fault->datagram = datagram;
    fault->offset = offset;
    memcpy(fault->exporter, exporter, 16);
}

void fb_context_count(fb_context *context, fb_status status, const uint8_t *at) {
    context->counters->status[status]++;
    fb_status_class class = fb_status_get_class(status);
    bool lost = class == FB_CLASS_FAULT || class == FB_CLASS_LOSS;
    if (context->undecoded && (lost || status == FB_OTHER_PACKET || status == FB_EARLY_DATA))
        context->undecoded[context->index] = 1;
    if (!lost) return;
    if (context->place) at = context->place;
    size_t offset = at ? (size_t)(at - context->datagram->payload.data) : 0;
    const uint8_t *exporter =
        context->exporter ? context->exporter_address : context->datagram->source;
    fb_fault_set_first(context->fault, status, context->index, offset, exporter);
}

FB_NOINLINE void fb_context_count_excess(fb_context *context, const uint8_t *p) {
    fb_bytes payload = context->datagram->payload;
    bool padding = fb_is_zero(p, payload.data + payload.size);
    fb_context_count(context, padding ? FB_PADDING : FB_EXCESS_DATA, p);
}

FB_NOINLINE fb_status fb_context_search_domain(fb_context *context, uint16_t version, uint32_t id) {
    fb_status status = fb_exporter_get_domain(context->exporters, context->exporter, version, id,
                                              &context->domain);
    if (status != FB_OK) return status;
    fb_domain_prefetch(context->domain);
    context->domain->used = (uint32_t)context->counters->datagrams;
    return FB_OK;
}

void fb_context_use_temporary(fb_context *context, uint16_t version, uint32_t id) {
    fb_domain *domain = fb_exporters_get_temporary(context->exporters, version, id);
    if (!domain) return;
    context->domain = domain;
    context->exporter = &context->exporters->overflow;
}

FB_NOINLINE void fb_context_resume_temporary(fb_context *context, uint16_t version, uint32_t id) {
    bool kept = fb_exporter_find_domain(context->exporter, version, id) != NULL;
    if (!kept) fb_context_use_temporary(context, version, id);
}

FB_NOINLINE void fb_context_classify_sequence(fb_context *context, fb_domain *domain,
                                              fb_sequence_unit unit, fb_sequence_mark mark) {
    fb_status status =
        fb_sequences_check(&domain->sequences, &context->exporter->memory, unit, &mark);
    if (status != FB_OK) fb_context_count(context, status, NULL);
}
