/* Template sets of NetFlow v9 (RFC 3954 sections 5.2 and 6.1) and IPFIX (RFC 7011 section 3.4).

     NetFlow v9 and IPFIX template      IPFIX options template        NetFlow v9 options template
     ┌─────────────┬─────────────┐      ┌─────────────┬────────────┐  ┌─────────────┬──────────────┐
     │ template id │ field count │      │ template id │ fields     │  │ template id │ scope bytes  │
     ├─────────────┼─────────────┤      ├─────────────┼────────────┘  ├─────────────┼──────────────┘
     │ element id  │ size        │      │ scope fields│               │ option bytes│
     ├─────────────┴─────────────┤      ├─────────────┼────────────┐  ├─────────────┼──────────────┐
     │ PEN, if the id's top bit  │      │ element id  │ size       │  │ id          │ size         │
     │ is set (IPFIX only)       │      …                             …
     └───────────────────────────┘ … */
#ifndef FB_EXPORTER_TEMPLATE_SET_H
#define FB_EXPORTER_TEMPLATE_SET_H

#include "core/exporter/pending_sets.h"

/* Read the templates in [p, end), the body of a set, into context->domain. The domain is created
   with the first template, and may change when the domain is split by port. Sets that waited for
   the templates become due (pending_sets.h). All faults are counted. */
void fb_template_set_read(fb_context *context, uint16_t version, uint32_t domain_id, bool options,
                          const uint8_t *p, const uint8_t *end);

#endif
