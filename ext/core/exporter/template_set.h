/* Template sets of NetFlow v9 (RFC 3954 sections 5.2 and 6.1) and IPFIX (RFC 7011 section 3.4).

     NetFlow v9 and IPFIX template          IPFIX options template        NetFlow v9 options template
     ┌─────────────┬─────────────┐          ┌─────────────┬────────────┐  ┌─────────────┬──────────────┐
     │ template id │ field count │          │ template id │ fields     │  │ template id │ scope octets │
     ├─────────────┼─────────────┤          ├─────────────┼────────────┘  ├─────────────┼──────────────┘
     │ element id  │ size        │          │ scope fields│               │ opt. octets │
     ├─────────────┴─────────────┤          ├─────────────┼────────────┐  ├─────────────┼──────────────┐
     │ PEN, if the id's top bit  │          │ element id  │ size       │  │ id          │ size         │
     │ is set (IPFIX only)       │          …                             …
     └───────────────────────────┘ …                                                                       */
#ifndef FB_TEMPLATE_SET_H
#define FB_TEMPLATE_SET_H

#include "core/exporter/pending_sets.h"

/* Reads the templates in [p, end), the body of a set, into context->domain (made when the first one comes; it may be
   another one afterwards, when ports are told apart). What waited for them is due then (pending_sets.h). All that goes wrong is
   counted. */
void fb_template_set_read(fb_context *context, uint16_t version, uint32_t domain_id, bool options, const uint8_t *p,
                          const uint8_t *end);

#endif
