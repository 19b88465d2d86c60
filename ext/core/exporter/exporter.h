/* What is known of each exporter: templates, sampling, counters.

     exporters ── exporter (address, agent) ── domain (version, observation domain) ── templates: id -> template
                     │                                │                                 └─ samplers: id -> rate
                     └─ counters, budget              ├─ time of the exporter's start (element 160)
                                                      └─ sequence numbers

   Anybody can send sFlow that names any address as its agent. An sFlow agent is therefore another exporter than the one that
   sends NetFlow or IPFIX from its address.

   Everything here is allocated under two budgets: the decoder's and the exporter's own, so that one that goes mad fills
   its own. sFlow agents that one UDP source speaks for share one budget. When the table or the decoder's memory is full,
   an exporter is evicted (eviction.h). Its counters are added to those of `overflow`. When an exporter has FB_MAX_DOMAINS,
   a new common domain evicts another domain of the exporter. Where no state can be kept at all, the templates of a datagram
   are kept in a temporary domain until the next datagram begins.

   Several processes may export from one address, as one domain, each with its own idea of a template id. Once a port
   defines an id again as it did before another port defined it differently, the domain is *split*: from then on each
   UDP source port has a domain of its own, which knows besides what the common one knew when it was split.

   What a datagram of an exporter that is long known needs lies close together, in a few lines of the cache: the first fields
   of the exporter, up to its first counters; those of the domain, up to its sequence numbers; its templates; its numbering.
   With 100,000 exporters none of it is in the cache when the datagram comes. It is fetched for several datagrams at once,
   before the first of them is decoded (fb_exporters_prefetch). */
#ifndef FB_EXPORTER_H
#define FB_EXPORTER_H

#include "core/base/datagram.h"
#include "core/base/map.h"
#include "core/exporter/sequence.h"
#include "core/exporter/template.h"

/* Maps are sorted as their keys come, so these bound the time that a datagram may take, too. */
#define FB_MAX_DOMAINS 1024   /* of an exporter, those of single ports included */
#define FB_MAX_TEMPLATES 4096 /* of a domain */
#define FB_MAX_SAMPLERS 4096  /* of a domain */

#define FB_LOOK_AHEAD 16 /* datagrams whose exporters are fetched at once */

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

#define FB_AGENT_SFLOW (UINT64_C(1) << 32) /* in fb_exporter.agent */

#define FB_MAX_REPLACED 4

/* A definition that another port's one took the place of. */
typedef struct {
    uint32_t shape_hash;
    uint16_t port;
} fb_replaced;

/* A template, and who defined it. It keeps its place when it is not known any more. */
typedef struct {
    fb_shape *shape;       /* NULL: not known any more */
    uint64_t time;         /* when it came last, ns since 1970; 0: unknown */
    fb_replaced *replaced; /* FB_MAX_REPLACED, the latest first; NULL before the first */
    uint16_t id;
    uint16_t port;  /* where it came from last */
    bool contested; /* another port had defined it with other fields */
    uint8_t replaced_count;
    uint8_t listed; /* a bit for each of the domain's lists that its id stands in (fb_domain) */
} fb_template;

/* A template as it is received. */
typedef struct {
    const fb_field *fields;
    uint16_t field_count;
    uint16_t scope_count;
    uint16_t id;
    bool options;
    uint16_t port;
    uint64_t time;
} fb_definition;

/* The latest start of an exporter that is used: the 49.7 days of uptime after it end before FB_TIME_MAX. */
#define FB_SYSTEM_INIT_MAX ((FB_TIME_MAX / 1000000 - UINT32_MAX) * 1000000)

/* Template ids in no order. */
typedef struct {
    uint16_t *ids;
    uint32_t count, capacity;
} fb_id_list;

typedef struct fb_domain fb_domain;
struct fb_domain {
    uint16_t version;
    uint16_t port; /* whose domain it is, where `common` is not NULL */
    bool split;    /* its ports have domains of their own */
    bool withdrawn[2]; /* of a port's domain: its port has withdrawn the common templates of flows, of options */
    uint32_t id;
    uint32_t used; /* the exporter's count of datagrams, modulo 2^32, when its latest one came */
    fb_domain *common;      /* of a port's domain: the one that was split; else NULL */
    fb_template *templates;   /* in the order in which their ids came */
    uint16_t *template_order; /* their places, sorted by id */
    uint32_t template_count, template_capacity;
    uint32_t latest_template; /* the place of the one looked up before */
    bool rate_known;          /* of the sampler looked up before */
    uint64_t sampler, rate;
    uint64_t system_init;   /* systemInitTimeMilliseconds in ns; 0 while unknown */
    fb_map samplers;        /* sampler or selector id -> sampling rate */
    fb_sequences sequences; /* of all its ports: the common domain's alone */
    fb_samples samples;     /* of sFlow */
    uint32_t known;         /* templates that have a shape */
    struct fb_early_set *early; /* the newest set that waits for a template of this domain (pending_sets.h) */
    /* Two lists: templates of flows, and of options, that were defined since all of the kind were withdrawn. A withdrawal of
       all costs as much as the definitions before it. NULL where withdrawals are not obeyed. */
    fb_id_list *defined;
    fb_domain *older, *newer; /* in the ring of its class (fb_exporter); NULL while domains of ports depend on it */
    uint32_t made, checked;   /* `used` when it was made, and when eviction passed over it */
    uint16_t ports;           /* domains of ports that depend on it */
    uint8_t class;            /* fb_eviction_class */
};

/* Data sets that wait for their templates (pending_sets.h), from the oldest to the newest. */
typedef struct {
    struct fb_early_set *oldest, *newest;
    size_t sets, octets;
} fb_early_list;

typedef struct fb_exporter fb_exporter;

/* The lists that an exporter stands in, both for eviction. */
enum fb_exporter_place_in { FB_EXPORTER_OF_CLASS, FB_EXPORTER_OF_SENDER, FB_EXPORTER_LISTS };

typedef struct {
    fb_exporter *oldest, *newest;
    size_t count;
} fb_exporter_list;

/* Classes of exporters, and of the domains of one, in the order in which they are evicted. */
typedef enum {
    FB_EVICTION_BARE,      /* without templates */
    FB_EVICTION_SEEN_ONCE, /* with templates, but only one datagram */
    FB_EVICTION_IN_USE,
    FB_EVICTION_CLASSES
} fb_eviction_class;

/* A UDP source that speaks for sFlow agents other than itself. It lives as long as it has agents. */
typedef struct fb_sender fb_sender;
struct fb_sender {
    fb_sender *next; /* in its bucket */
    uint8_t address[16];
    fb_memory memory; /* the budget that its agents share */
    fb_exporter_list agents;
};

typedef struct {
    fb_sender **buckets; /* none before the first sender */
    size_t bucket_count, count;
} fb_senders;

struct fb_exporter {
    uint8_t address[16];
    uint64_t agent; /* 0: of NetFlow and IPFIX; of sFlow FB_AGENT_SFLOW | sub-agent */
    bool stateless;    /* stands for all exporters without state, and for those that were evicted */
    fb_domain *latest; /* the common domain looked up before; NULL: none was */
    uint64_t used;     /* the clock (fb_exporters) when its latest datagram came */
    fb_counters counters;
    fb_memory memory;
    fb_map domains; /* (version, port if it is of one, id) -> fb_domain */
    fb_early_list early;
    struct {
        fb_exporter *older, *newer;
    } in[FB_EXPORTER_LISTS];
    fb_sender *sender; /* of an sFlow agent that another UDP source speaks for; else NULL */
    uint64_t checked;  /* `used` when eviction passed over it */
    uint32_t known;    /* templates that have a shape, of all domains */
    uint8_t class;     /* fb_eviction_class */
    bool restored;     /* from saved state: it counts as seen before */
    uint16_t domain_counts[FB_EVICTION_CLASSES];
    fb_domain *oldest_domains[FB_EVICTION_CLASSES]; /* the oldest of each ring; NULL: the class is empty */
};

/* The hash stands beside the pointer, so that no exporter but the right one is looked at. */
typedef struct {
    uint64_t hash;
    fb_exporter *exporter; /* NULL: an empty place */
} fb_exporter_place;

typedef struct {
    fb_memory *memory;
    fb_shapes *shapes;
    fb_exporter_place *table; /* open addressing; capacity is a power of two */
    size_t capacity;
    size_t count;
    size_t limit;           /* exporters that may be known */
    size_t exporter_memory; /* octets that one of them, or all agents of one sender, may hold */
    uint64_t template_expiry; /* ns that a template is good for without being refreshed; 0: for ever */
    bool obey_withdrawals;
    struct fb_early *early; /* what waits for templates; NULL: nothing ever does */
    uint64_t seed;          /* of the hash: addresses on the wire are hostile too */
    fb_exporter *last;      /* the one looked up before: most datagrams come in runs */
    fb_domain *temporary;   /* templates of the datagram that no state could be kept for; NULL: there are none */
    uint64_t clock;         /* advances when an exporter is added or evicted */
    fb_exporter_list classes[FB_EVICTION_CLASSES];
    fb_senders senders;
    /* Gives up the data sets that wait for templates of an exporter, or of one of its domains (pending_sets.h). NULL: none ever wait. */
    void (*forget_early)(struct fb_early *early, fb_exporter *exporter, fb_domain *domain);
    fb_lost lost; /* of exporters and domains that were evicted */
    fb_exporter overflow;
} fb_exporters;

fb_status fb_exporters_new(fb_exporters *exporters, fb_shapes *shapes, fb_memory *memory, size_t limit,
                           size_t exporter_memory, uint64_t seed);
void fb_exporters_free(fb_exporters *exporters);
/* Adds what is missing of each unit in all domains of an exporter. */
void fb_exporter_sum_lost(const fb_exporter *exporter, fb_lost *lost);

FB_INLINE bool fb_exporter_has_key(const fb_exporter *exporter, const uint8_t address[16], uint64_t agent) {
    return exporter->agent == agent && memcmp(exporter->address, address, 16) == 0;
}

/* The exporter of an address, made when it is new. Another one is evicted where there is no room: pointers to exporters
   and to their domains are not valid after this call. The stateless `overflow` where there is no memory. `source` is the
   address of the UDP source. As a rule it is the exporter before; the others are searched for. */
fb_exporter *fb_exporters_search(fb_exporters *exporters, const uint8_t address[16], uint64_t agent,
                                 const uint8_t source[16]);
FB_INLINE fb_exporter *fb_exporters_get(fb_exporters *exporters, const uint8_t address[16], uint64_t agent,
                                        const uint8_t source[16]) {
    fb_exporter *exporter = exporters->last;
    bool again = exporter && fb_exporter_has_key(exporter, address, agent);
    return FB_LIKELY(again) ? exporter : fb_exporters_search(exporters, address, agent, source);
}
/* Return the exporter that a resumed datagram was begun with. None is made, and none is evicted: `overflow` where it is not known. */
fb_exporter *fb_exporters_find(fb_exporters *exporters, const uint8_t address[16], uint64_t agent);
/* The exporter that saved state belongs to. None is evicted for it: `overflow` where the table is full. */
fb_exporter *fb_exporters_restore(fb_exporters *exporters, const uint8_t address[16], uint64_t agent);

/* Memory that lasts no longer than the datagram of an exporter. Others are evicted where there is none. NULL: no memory. */
void *fb_exporters_allocate(fb_exporters *exporters, const fb_exporter *exporter, size_t size);

/* The domain that holds the templates of one datagram which cannot be kept; made when it is needed. It belongs to
   `overflow`. NULL: no memory. */
fb_domain *fb_exporters_get_temporary(fb_exporters *exporters, uint16_t version, uint32_t id);
/* A new datagram begins. REQUIRES: there is a temporary domain. */
void fb_exporters_drop_temporary(fb_exporters *exporters);
/* Fetches what decoding will need of the exporters of the next datagrams, FB_LOOK_AHEAD at the most, into the cache. Changes
   nothing. An exporter is guessed by the source address, its domain by the one it used before: wrong guesses cost time
   alone. */
void fb_exporters_prefetch(const fb_exporters *exporters, const fb_datagram *datagrams, size_t count);
/* The same of what a domain points to: its templates, its numbering. */
void fb_domain_prefetch(const fb_domain *domain);
/* For listing: the i-th of the table, NULL for an empty place. */
fb_exporter *fb_exporters_at(const fb_exporters *exporters, size_t i);

/* The domain that is common to all ports; NULL while nothing is known of it. */
fb_domain *fb_exporter_find_domain(fb_exporter *exporter, uint16_t version, uint32_t id);
/* The same, made where there is none. At FB_MAX_DOMAINS another domain is evicted, so pointers to domains of the exporter are
   not valid after this call. EXPORTER_LIMIT, TEMPLATE_LIMIT: there is no room for its state. */
fb_status fb_exporter_get_domain(fb_exporters *exporters, fb_exporter *exporter, uint16_t version, uint32_t id,
                                 fb_domain **domain);
/* The domain of a port, where a domain is split (made when it is new), else the common one; that one also for ports that
   there is no room for. */
fb_domain *fb_domain_of_port(fb_exporters *exporters, fb_exporter *exporter, fb_domain *common, uint16_t port);
/* The same, but none is made. */
fb_domain *fb_domain_find_of_port(const fb_exporter *exporter, fb_domain *common, uint16_t port);

/* Sets the template of an id.
     TEMPLATE_REDEFINED             there was another one (OK to go on)
     EMPTY_TEMPLATE, TEMPLATE_LIMIT it is not kept, and what was there is forgotten: the exporter means something else by
                                    that id now
     PORT_IN_KEY                    nothing was done: two ports are at odds over the id. Split the domain (domain->split),
                                    and set the template in the port's own */
fb_status fb_domain_set_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                                 const fb_definition *definition);
/* Forgets what a domain knows by an id; of a port's domain, in the common one too, if it is that port's to see. */
void fb_domain_forget_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain, uint16_t id);
/* Forgets all templates of flows, or all of options. A port's domain does not see those of the common one any more; other
   ports still do. */
void fb_domain_forget_all(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain, bool options);
/* NULL: not known. Good until a template is set. In a port's domain, a template of the common one is as good, if it was not
   contested, or if it was that port who defined it. As a rule it is the one before; the others are searched for. */
fb_template *fb_domain_search_template(fb_domain *domain, uint16_t id);
FB_INLINE fb_template *fb_domain_find_template(fb_domain *domain, uint16_t id) {
    uint32_t i = domain->latest_template;
    fb_template *template = FB_LIKELY(i < domain->template_count) ? &domain->templates[i] : NULL;
    bool again = template && template->id == id && template->shape;
    return FB_LIKELY(again) ? template : fb_domain_search_template(domain, id);
}

/* A rate learnt from options. TEMPLATE_LIMIT. */
fb_status fb_domain_set_sampler(fb_exporter *exporter, fb_domain *domain, uint64_t sampler, uint64_t rate);
/* The rate of a sampler; of the only one known when `named` is false or the named one is not known. 0: unknown. Here, and
   below, the common domain knows what the port's own does not. */
uint64_t fb_domain_find_rate(const fb_domain *domain, bool named, uint64_t sampler);
/* The same of a named one, as a rule the one before. */
uint64_t fb_domain_look_up_rate(fb_domain *domain, uint64_t sampler);
FB_INLINE uint64_t fb_domain_rate_of(fb_domain *domain, uint64_t sampler) {
    bool again = domain->rate_known && domain->sampler == sampler;
    return FB_LIKELY(again) ? domain->rate : fb_domain_look_up_rate(domain, sampler);
}
/* When the exporter started, in ns since 1970; 0 while unknown. */
FB_INLINE uint64_t fb_domain_find_system_init(const fb_domain *domain) {
    return domain->system_init || !domain->common ? domain->system_init : domain->common->system_init;
}

#endif
