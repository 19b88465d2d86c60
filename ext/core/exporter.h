/* What is known of each exporter: templates, sampling, counters.

     exporters ── exporter (address, sub-agent) ── domain (version, observation domain) ── templates: id -> shape
                     │                                │                                 └─ samplers: id -> rate
                     └─ counters, budget              ├─ time of the exporter's start (element 160)
                                                      └─ sequence numbers

   Everything here is allocated under two budgets: the decoder's and the exporter's own, so that one that goes mad fills
   its own. Whoever forges addresses can still fill the table of exporters; those that come after are decoded without
   state, and counted. */
#ifndef FB_EXPORTER_H
#define FB_EXPORTER_H

#include "sequence.h"
#include "template.h"

/* Maps are sorted as their keys come, so these bound the time that a datagram may take, too. */
#define FB_MAX_DOMAINS 1024   /* of an exporter */
#define FB_MAX_TEMPLATES 4096 /* of a domain */
#define FB_MAX_SAMPLERS 4096  /* of a domain */

/* A map from numbers to numbers or pointers: sorted, a few thousand at the most, found by halving. */
typedef struct {
    uint64_t key;
    union {
        uint64_t number;
        void *pointer;
    };
} fb_map_entry;

typedef struct {
    fb_map_entry *entries;
    uint32_t count;
    uint32_t capacity;
} fb_map;

fb_map_entry *fb_map_find(const fb_map *map, uint64_t key);
/* The entry of a key, made (with a value of zero) where there is none. NULL: no memory. */
fb_map_entry *fb_map_insert(fb_map *map, fb_memory *memory, uint64_t key);
void fb_map_free(fb_map *map, fb_memory *memory);

typedef struct {
    uint64_t datagrams;
    uint64_t octets;
    uint64_t flows;
    uint64_t options_records;
    uint64_t templates; /* received, refreshes included */
    uint64_t status[FB_STATUS_COUNT];
} fb_counters;

/* The `version` of an sFlow agent's only domain: sFlow's is a word, whose first half is 0. The domains of NetFlow v5 are
   engines: type << 8 | id. */
#define FB_DOMAIN_SFLOW 0

typedef struct {
    uint16_t version;
    uint32_t id;
    fb_map templates;     /* template id -> fb_shape */
    fb_map samplers;      /* sampler or selector id -> sampling rate */
    uint64_t system_init; /* systemInitTimeMilliseconds in ns; 0 while unknown */
    fb_sequences sequences;
    fb_samples samples; /* of sFlow */
} fb_domain;

typedef struct {
    uint8_t address[16];
    uint32_t sub_agent;
    bool stateless; /* stands for all exporters past the limit: counters, no templates */
    fb_memory memory;
    fb_map domains; /* version << 32 | id -> fb_domain */
    fb_counters counters;
} fb_exporter;

typedef struct {
    fb_memory *memory;
    fb_shapes *shapes;
    fb_exporter **table; /* open addressing; capacity is a power of two */
    size_t capacity;
    size_t count;
    size_t limit;           /* exporters that may be known */
    size_t exporter_memory; /* octets that one of them may hold */
    uint64_t seed;          /* of the hash: addresses on the wire are hostile too */
    fb_exporter *last;      /* the one looked up before: most datagrams come in runs */
    fb_exporter overflow;
} fb_exporters;

fb_status fb_exporters_new(fb_exporters *exporters, fb_shapes *shapes, fb_memory *memory, size_t limit,
                           size_t exporter_memory, uint64_t seed);
void fb_exporters_free(fb_exporters *exporters);

/* The exporter of an address, made when it is new; the stateless `overflow` when there are too many. */
fb_exporter *fb_exporters_get(fb_exporters *exporters, const uint8_t address[16], uint32_t sub_agent);
/* For listing: the i-th of the table, NULL for an empty place. */
fb_exporter *fb_exporters_at(const fb_exporters *exporters, size_t i);

fb_domain *fb_exporter_find_domain(const fb_exporter *exporter, uint16_t version, uint32_t id);
/* EXPORTER_LIMIT, TEMPLATE_LIMIT: there is no room for its state. */
fb_status fb_exporter_get_domain(fb_exporters *exporters, fb_exporter *exporter, uint16_t version, uint32_t id,
                                 fb_domain **domain);

/* Sets the template of an id. TEMPLATE_REDEFINED: there was another one (OK to go on); EMPTY_TEMPLATE, TEMPLATE_LIMIT: it
   is not kept, and what was there is forgotten: the exporter means something else by that id now. */
fb_status fb_domain_set_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain, uint16_t id,
                                 const fb_field *fields, uint16_t field_count, uint16_t scope_count, bool options);
void fb_domain_forget_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain, uint16_t id);
fb_shape *fb_domain_find_template(const fb_domain *domain, uint16_t id);

/* A rate learnt from options. TEMPLATE_LIMIT. */
fb_status fb_domain_set_sampler(fb_exporter *exporter, fb_domain *domain, uint64_t sampler, uint64_t rate);
/* The rate of a sampler; of the only one known when `named` is false or the named one is not known. 0: unknown. */
uint64_t fb_domain_find_rate(const fb_domain *domain, bool named, uint64_t sampler);

#endif
