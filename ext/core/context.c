/* Counting what goes wrong. */
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
