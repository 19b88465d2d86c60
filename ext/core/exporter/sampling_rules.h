/* Sampling rates that the user has configured, by exporter and ingress interface.

   The rule with the longest network that contains the exporter applies. Within a network, a rule
   for the interface has priority over one for all interfaces. If a network has neither, the next
   shorter network is searched.

     exporters ─▶ 192.0.2.1/32 ─ around ─▶ 192.0.2.0/24 ─ around ─▶ NULL
                    ├─ interface 3             └─ all interfaces
                    └─ interface 17

   An exporter keeps the rules of its longest network (fb_exporter.rates). */
#ifndef FB_EXPORTER_SAMPLING_RULES_H
#define FB_EXPORTER_SAMPLING_RULES_H

#include "core/base/prefix_table.h"

typedef struct {
    uint32_t network;   /* index of the network of the exporters */
    uint32_t interface; /* index of the ingress interface; 0: all interfaces */
    uint64_t rate;      /* 1 or more */
    bool replaces;      /* the rate replaces one that the exporter reports */
} fb_sampling_rule;

typedef struct fb_exporter_rates fb_exporter_rates;
struct fb_exporter_rates {
    const fb_sampling_rule *rules; /* by interface; the rule of all interfaces is the first */
    size_t count;
    const fb_exporter_rates *around; /* of the next shorter network; NULL: none */
    bool by_interface;               /* the rate may depend on the interface */
};

/* Read-only once created. All zeros has no rules. */
typedef struct {
    fb_memory *memory;
    fb_prefix_table networks;
    fb_exporter_rates *rates; /* one per network */
    fb_sampling_rule *rules;
    size_t network_count, rule_count;
} fb_sampling_rules;

/* Create rules. They are copied. `memory` must outlive them. OK, NO_MEMORY. BAD_ARGUMENT: a network
   has more than 128 bits, two are equal, or the rules are not sorted by network and interface. */
fb_status fb_sampling_rules_new(fb_sampling_rules *rules, const fb_prefix *networks,
                                size_t network_count, const fb_sampling_rule *given,
                                size_t rule_count, fb_memory *memory);
void fb_sampling_rules_free(fb_sampling_rules *rules);

/* Return the rules of the longest network that contains an exporter; NULL: none contains it. */
const fb_exporter_rates *fb_sampling_rules_find(const fb_sampling_rules *rules,
                                                const uint8_t address[16]);
/* Return the rule for an ingress interface; 0: the interface is unknown. NULL: there is none.
   `rates` may be NULL. */
const fb_sampling_rule *fb_exporter_rates_find(const fb_exporter_rates *rates, uint32_t interface);

#endif
