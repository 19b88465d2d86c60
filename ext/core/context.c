/* Counting what goes wrong, and what does not come. */
#include "context.h"

void fb_context_count(fb_context *context, fb_status status, const uint8_t *at) {
    context->counters->status[status]++;
    fb_status_class class = fb_status_get_class(status);
    fb_fault *fault = context->fault;
    if (fault->status != FB_OK || (class != FB_CLASS_FAULT && class != FB_CLASS_LOSS)) return;
    fault->status = status;
    fault->datagram = context->index;
    fault->offset = at ? (size_t)(at - context->datagram->payload.data) : 0;
    memcpy(fault->exporter, context->exporter ? context->exporter->address : context->datagram->source, 16);
}

void fb_context_open_domain(fb_context *context, uint16_t version, uint32_t id) {
    fb_exporter_get_domain(context->exporters, context->exporter, version, id, &context->domain);
}

void fb_context_check_sequence(fb_context *context, fb_sequence_unit unit, uint32_t number, uint32_t sent,
                               fb_sequence_content content) {
    fb_domain *domain = context->domain;
    if (!domain) return;
    /* An sFlow agent is known by the address inside, whatever port its datagrams come from. */
    uint16_t port = unit == FB_SEQUENCE_DATAGRAMS ? 0 : context->datagram->source_port;
    fb_sequence_mark mark = {number, sent, port, content};
    fb_status status = fb_sequences_check(&domain->sequences, &context->exporter->memory, unit, &mark);
    if (status != FB_OK) fb_context_count(context, status, NULL);
}
