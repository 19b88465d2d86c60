/* The state of each exporter: templates, sampling, counters.

     exporters ─ exporter (address, agent) ─ domain (version, observation domain)
                   └─ counters, budget         ├─ templates: id -> template
                                               ├─ samplers: id -> sampling rate
                                               ├─ selection sequences: id -> samplers
                                               ├─ names of interfaces, VRFs, … (names.h)
                                               ├─ start time of the exporter (element 160)
                                               └─ sequence numbers

   Any host can send sFlow that names any address as its agent. An sFlow agent is therefore a
   separate exporter from the one that sends NetFlow or IPFIX from the same address.

   An exporter also has its configured sampling rates and the state of its rate limit.

   All state is allocated within two budgets, that of the decoder and that of the exporter, so a
   misbehaving exporter exhausts only its own. The sFlow agents of one UDP source share one budget.
   If the table or the memory of the decoder is full, an exporter is evicted (eviction.h), and its
   counters are added to those of `overflow`. If an exporter has FB_MAX_DOMAINS, a new common domain
   evicts another domain of the exporter. If no state can be kept at all, the templates of a
   datagram are kept in a temporary domain until the next datagram begins.

   Over TCP, each Transport Session has its own templates (RFC 7011 section 8). A session is
   therefore an exporter of its own. The sessions of one address share one budget, and the end of a
   session drops its domains.

   Several processes may export from one address as one domain, each with its own templates. If a
   port defines an id again as it did before another port defined it differently, the domain is
   *split*. From then on, each UDP source port has its own domain, which also uses the state of the
   common domain.

   The data that a datagram of a known exporter needs is close together, in a few cache lines: the
   first members of the exporter, up to its first counters; those of the domain, up to its sequence
   numbers; its templates; its sequence. With 100,000 exporters, none of it is in the cache when the
   datagram comes. It is prefetched while the datagrams before are decoded (fb_look_ahead). */
#ifndef FB_EXPORTER_EXPORTER_H
#define FB_EXPORTER_EXPORTER_H

#include "core/base/datagram.h"
#include "core/base/map.h"
#include "core/exporter/names.h"
#include "core/exporter/rate_limit.h"
#include "core/exporter/sampling_rules.h"
#include "core/exporter/sequence.h"
#include "core/exporter/template.h"

/* Maps are sorted when a key is inserted, so these limits also bound the time per datagram. */
#define FB_MAX_DOMAINS   1024 /* per exporter, those of single ports included */
#define FB_MAX_TEMPLATES 4096 /* per domain */
#define FB_MAX_SAMPLERS  4096 /* per domain; of selection sequences, as many again */
#define FB_MAX_SELECTORS 8    /* per selection sequence */

#define FB_LOOK_AHEAD        12 /* datagrams from the first step of prefetching to decoding */
#define FB_LOOK_AHEAD_HASHES 16 /* a power of two above it */

typedef struct {
    uint64_t datagrams;
    uint64_t bytes;
    uint64_t rows[FB_ROWS_COUNT]; /* flows, and rows of other kinds */
    uint64_t options_records;
    uint64_t templates; /* received, refreshes included */
    uint64_t status[FB_STATUS_COUNT];
} fb_counters;

/* The `version` of the only domain of an sFlow agent. The version of sFlow is a 4-byte word, whose
   first half is 0. The domains of NetFlow v5 are engines: type << 8 | id. */
#define FB_DOMAIN_SFLOW 0

/* Bits of fb_exporter.agent */
#define FB_AGENT_SFLOW   (UINT64_C(1) << 32)
#define FB_AGENT_SESSION (UINT64_C(1) << 33)

#define FB_MAX_REPLACED 4

/* A definition that another port replaced. */
typedef struct {
    uint32_t compiled_hash;
    uint16_t port;
} fb_replaced;

/* A template and the port that defined it. It keeps its index after it is forgotten. */
typedef struct {
    fb_compiled_template *compiled; /* NULL: forgotten */
    uint64_t time;                  /* of the last definition, ns since 1970; 0: unknown */
    fb_replaced *replaced; /* FB_MAX_REPLACED entries, the latest first; NULL before the first */
    uint16_t id;
    uint16_t port;  /* of the last definition */
    bool contested; /* another port had defined it with other fields */
    uint8_t replaced_count;
    uint8_t listed; /* bit for each list of the domain that contains the id (fb_domain) */
} fb_template;

/* A template as received. `fields` is a view. */
typedef struct {
    const fb_field *fields;
    uint16_t field_count;
    uint16_t scope_count;
    uint16_t id;
    bool options;
    uint16_t port;
    uint64_t time;
} fb_definition;

/* The latest start time of an exporter that is accepted: 49.7 days of uptime after it end before
   FB_TIME_MAX. */
#define FB_SYSTEM_INIT_MAX ((FB_TIME_MAX / 1000000 - UINT32_MAX) * 1000000)

/* Template ids, unordered. */
typedef struct {
    uint16_t *ids;
    uint32_t count, capacity;
} fb_id_list;

/* The selectors that packets pass in turn (RFC 5476 section 6.5.1); none if there were too many. */
typedef struct {
    uint64_t ids[FB_MAX_SELECTORS];
    uint16_t count;
} fb_selection;

typedef struct fb_domain fb_domain;
struct fb_domain {
    uint16_t version;
    uint16_t port; /* UDP source port, if `common` is not NULL */
    bool split;    /* each port has its own domain */
    /* for a port's domain: the port has withdrawn the common templates of flows, of options */
    bool withdrawn[2];
    uint32_t id;
    uint32_t used;     /* counters.datagrams of the exporter at the last datagram, modulo 2^32 */
    fb_domain *common; /* for a port's domain: the domain that was split; else NULL */
    fb_template *templates;   /* in the order in which their ids came */
    uint16_t *template_order; /* indexes of templates, sorted by id */
    uint32_t template_count, template_capacity;
    uint32_t latest_template; /* index of the last template looked up */
    bool rate_known;          /* of the last sampler looked up */
    uint64_t sampler, rate;
    uint64_t system_init;   /* systemInitTimeMilliseconds in ns; 0 while unknown */
    fb_map samplers;        /* sampler or selector id -> sampling rate; 0: it has none */
    fb_map selections;      /* selectionSequenceId -> fb_selection */
    fb_sequences sequences; /* of all ports; only the common domain uses it */
    fb_samples samples;     /* of sFlow */
    uint32_t known;         /* templates that have a compiled template */
    /* newest set that waits for a template of this domain (pending_sets.h) */
    struct fb_pending_set *pending;
    /* Two lists, of flow and options templates that were defined since all of their kind were
       withdrawn. The cost of withdrawing all is thus that of the definitions before it. NULL if
       withdrawals are ignored. */
    fb_id_list *defined;
    /* in the ring of its class (fb_exporter); NULL while domains of ports depend on it */
    fb_domain *older, *newer;
    uint32_t made, checked; /* `used` when it was created, and when eviction last passed over it */
    uint16_t ports;         /* number of port domains that depend on it */
    uint8_t class;          /* fb_eviction_class */
    fb_names names;
};

/* Data sets that wait for their templates (pending_sets.h), from the oldest to the newest. */
typedef struct {
    struct fb_pending_set *oldest, *newest;
    size_t sets, bytes;
} fb_pending_list;

typedef struct fb_exporter fb_exporter;

/* The lists that contain an exporter, both for eviction. */
enum fb_exporter_place_in { FB_EXPORTER_OF_CLASS, FB_EXPORTER_OF_SENDER, FB_EXPORTER_LISTS };

typedef struct {
    fb_exporter *oldest, *newest;
    size_t count;
} fb_exporter_list;

/* Classes of exporters, and of the domains of one, in the order of eviction. */
typedef enum {
    FB_EVICTION_BARE,      /* without templates */
    FB_EVICTION_SEEN_ONCE, /* with templates, but only one datagram */
    FB_EVICTION_IN_USE,
    FB_EVICTION_CLASSES
} fb_eviction_class;

/* A UDP source that sends for sFlow agents with other addresses, or a peer with Transport Sessions,
   which then are its agents. It is freed with its last agent. */
typedef struct fb_sender fb_sender;
struct fb_sender {
    fb_sender *next; /* in its bucket */
    uint8_t address[16];
    fb_memory memory; /* the budget that its agents share */
    fb_exporter_list agents;
};

typedef struct {
    fb_sender **buckets; /* NULL before the first sender */
    size_t bucket_count, count;
} fb_senders;

struct fb_exporter {
    uint8_t address[16];
    /* 0: NetFlow and IPFIX over UDP; sFlow: FB_AGENT_SFLOW | sub-agent; IPFIX over TCP:
       FB_AGENT_SESSION | number of the session, not 0 */
    uint64_t agent;
    bool stateless;    /* represents all exporters without state, and those that were evicted */
    fb_domain *latest; /* the last common domain looked up; NULL: none */
    uint64_t used;     /* fb_exporters.clock at the last datagram */
    fb_counters counters;
    fb_memory memory;
    fb_memory name_memory; /* part of `memory`, so that names leave room for templates */
    fb_map domains;        /* (version, port if any, id) -> fb_domain */
    fb_pending_list pending;
    struct {
        fb_exporter *older, *newer;
    } in[FB_EXPORTER_LISTS];
    fb_sender *sender; /* of an sFlow agent that another UDP source sends for; else NULL */
    uint64_t checked;  /* `used` when eviction last passed over it */
    uint32_t known;    /* templates that have a compiled template, of all domains */
    uint8_t class;     /* fb_eviction_class */
    bool restored;     /* loaded from saved state: it counts as seen before */
    uint16_t domain_counts[FB_EVICTION_CLASSES];
    /* oldest domain of each ring; NULL: the class is empty */
    fb_domain *oldest_domains[FB_EVICTION_CLASSES];
    const fb_exporter_rates *rates; /* configured sampling rates; NULL: none */
    fb_rate_limit limit;
};

/* The hash is stored beside the pointer, so that a search reads no other exporter. */
typedef struct {
    uint64_t hash;
    fb_exporter *exporter; /* NULL: empty */
} fb_exporter_place;

typedef struct {
    fb_memory *memory;
    fb_compiled_templates *compiled_templates;
    fb_exporter_place *table; /* open addressing; capacity is a power of two */
    size_t capacity;
    size_t count;
    size_t limit;           /* exporters that may be known */
    size_t exporter_memory; /* budget in bytes of one exporter, or of all agents of one sender */
    /* ns after which a template that was not refreshed expires; 0: never */
    uint64_t template_expiry;
    bool obey_withdrawals;
    unsigned names;                          /* bit for each fb_name_kind that is kept */
    const fb_sampling_rules *sampling_rules; /* NULL: none */
    struct fb_pending_sets *pending; /* sets that wait for templates; NULL: sets never wait */
    uint64_t seed;          /* of the hash: addresses come from the network and may be hostile */
    uint64_t sample_secret; /* of fb_samples_check */
    fb_exporter *last;      /* the last exporter looked up: most datagrams come in runs */
    fb_domain *temporary; /* templates of the current datagram that could not be kept; NULL: none */
    uint64_t clock;       /* advances when an exporter is added or evicted */
    fb_exporter_list classes[FB_EVICTION_CLASSES];
    fb_senders senders;
    /* Drops the sets that wait for templates of an exporter or of one of its domains
       (pending_sets.h). NULL: sets never wait. */
    void (*forget_pending)(struct fb_pending_sets *pending, fb_exporter *exporter,
                           fb_domain *domain);
    fb_lost lost; /* of exporters and domains that were evicted */
    fb_exporter overflow;
} fb_exporters;

/* Initialize. `compiled_templates` and `memory` must outlive it. `limit` is the number of exporters
   that may be known, and exporter_memory the budget of each, in bytes. `seed` keys the hash. OK,
   NO_MEMORY. */
fb_status fb_exporters_new(fb_exporters *exporters, fb_compiled_templates *compiled_templates,
                           fb_memory *memory, size_t limit, size_t exporter_memory, uint64_t seed);
void fb_exporters_free(fb_exporters *exporters);
/* Add the lost units of all domains of an exporter to *lost. */
void fb_exporter_sum_lost(const fb_exporter *exporter, fb_lost *lost);

FB_INLINE bool fb_exporter_has_key(const fb_exporter *exporter, const uint8_t address[16],
                                   uint64_t agent) {
    return exporter->agent == agent && memcmp(exporter->address, address, 16) == 0;
}

/* Return the exporter of an address; create it if it is new. This may evict another one, so
   pointers to exporters and domains are invalid after this call. If memory is short, return the
   stateless `overflow`. `source` is the address of the UDP source. Usually the exporter is the last
   one, so that one is checked before the search. */
fb_exporter *fb_exporters_search(fb_exporters *exporters, const uint8_t address[16], uint64_t agent,
                                 const uint8_t source[16]);
FB_INLINE fb_exporter *fb_exporters_get(fb_exporters *exporters, const uint8_t address[16],
                                        uint64_t agent, const uint8_t source[16]) {
    fb_exporter *exporter = exporters->last;
    bool again = exporter && fb_exporter_has_key(exporter, address, agent);
    return FB_LIKELY(again) ? exporter : fb_exporters_search(exporters, address, agent, source);
}
/* Return the exporter of a datagram whose decoding resumes. Create and evict nothing; return
   `overflow` if it is unknown. */
fb_exporter *fb_exporters_find(fb_exporters *exporters, const uint8_t address[16], uint64_t agent);
/* Return the exporter of saved state; create it if it is new. Evict nothing; return `overflow` if
   the table or the memory is full. */
fb_exporter *fb_exporters_restore(fb_exporters *exporters, const uint8_t address[16],
                                  uint64_t agent);
/* Forget templates, sampling rates and sequence numbers of a Transport Session, which has ended.
   Data sets that wait for its templates are dropped and counted. Its counters stay, and its number
   can be used again. */
void fb_exporters_end_session(fb_exporters *exporters, const uint8_t address[16], uint32_t session);

/* Evict another exporter if `exporter` could not get memory from the shared budget. Return false if
   that would not help. `exporter` may be NULL. */
bool fb_exporters_make_room(fb_exporters *exporters, const fb_exporter *exporter);

/* Release the operations of a template, if it has them. Its place in the domain stays. */
void fb_template_drop_compiled(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                               fb_template *template);

/* Allocate memory that is released with the current datagram of an exporter. Evict other exporters
   if memory is short. NULL: no memory. The caller releases it to exporters->memory. */
void *fb_exporters_allocate(fb_exporters *exporters, const fb_exporter *exporter, size_t size);

/* Return the domain for templates of one datagram that cannot be kept; create it if needed. It
   belongs to `overflow`. NULL: no memory. */
fb_domain *fb_exporters_get_temporary(fb_exporters *exporters, uint16_t version, uint32_t id);
/* Free the temporary domain when a new datagram begins. REQUIRES: the temporary domain exists. */
void fb_exporters_drop_temporary(fb_exporters *exporters);

/* Prefetch the data that the next datagrams of a batch will need, while the datagrams before them
   are decoded. Each step leads to the data of the next one. Other datagrams are decoded between two
   steps, so that no step waits for memory:

     datagram  at + 12   at + 10   at + 8  at + 6       at + 4             at + 2       at
     step      place in  exporter  domain  templates,   compiled template  operations   decoding
               the table                   sequence

   Nothing is changed. The exporter is guessed from the source address, the domain is the last one
   used, and the template is that of the first set. A wrong guess only costs time. Datagrams with
   the source of the datagram before them have no steps. */
typedef struct {
    size_t next;           /* the first datagram that was not looked at */
    const uint8_t *source; /* of the datagram before it */
    unsigned changes; /* bit i: datagram `next` - i has another source than the one before it */
    /* of the sources of these datagrams, by index modulo FB_LOOK_AHEAD_HASHES */
    uint64_t hashes[FB_LOOK_AHEAD_HASHES];
} fb_look_ahead;

/* Begin at a datagram of a batch. */
FB_INLINE void fb_look_ahead_begin(fb_look_ahead *ahead, const fb_exporters *exporters, size_t at) {
    const fb_exporter *last = exporters->last ? exporters->last : &exporters->overflow;
    ahead->next = at;
    ahead->source = last->address;
    ahead->changes = 0;
}

/* Do the steps that are due before datagram `at` of `count` is decoded. All steps for the last
   datagram of a batch were done before, so a single datagram costs nothing. */
void fb_look_ahead_step(fb_look_ahead *ahead, const fb_exporters *exporters,
                        const fb_datagram *datagrams);
FB_INLINE void fb_look_ahead_from(fb_look_ahead *ahead, const fb_exporters *exporters,
                                  const fb_datagram *datagrams, size_t count, size_t at) {
    if (at + 1 == count) return;
    for (; ahead->next <= at + FB_LOOK_AHEAD; ahead->next++) {
        ahead->changes = ahead->changes << 1 & ((1u << FB_LOOK_AHEAD) - 1);
        if (ahead->next < count) {
            const uint8_t *source = datagrams[ahead->next].source;
            ahead->changes |= memcmp(source, ahead->source, 16) != 0;
            ahead->source = source;
        }
        if (FB_UNLIKELY(ahead->changes)) fb_look_ahead_step(ahead, exporters, datagrams);
    }
}
/* Prefetch the data that a domain points to: its templates and its sequence. */
void fb_domain_prefetch(const fb_domain *domain);
/* For listing: return the i-th entry of the table; NULL: empty. */
fb_exporter *fb_exporters_at(const fb_exporters *exporters, size_t i);

/* Return the domain that is common to all ports; NULL: unknown. */
fb_domain *fb_exporter_find_domain(fb_exporter *exporter, uint16_t version, uint32_t id);
/* The same, but create it if it is unknown. At FB_MAX_DOMAINS another domain is evicted, so
   pointers to domains of the exporter are invalid after this call. OK. EXPORTER_LIMIT,
   TEMPLATE_LIMIT: there is no room for its state, and *domain is NULL. */
fb_status fb_exporter_get_domain(fb_exporters *exporters, fb_exporter *exporter, uint16_t version,
                                 uint32_t id, fb_domain **domain);
/* Return the domain of a port if the domain is split (create it if it is new), else the common one.
   If there is no room for a new domain, return the common one, too. */
fb_domain *fb_domain_of_port(fb_exporters *exporters, fb_exporter *exporter, fb_domain *common,
                             uint16_t port);
/* The same, but create nothing. */
fb_domain *fb_domain_find_of_port(const fb_exporter *exporter, fb_domain *common, uint16_t port);

/* Set the template of an id.

     OK                             it is stored
     TEMPLATE_REDEFINED             it is stored and replaces a different one
     EMPTY_TEMPLATE, TEMPLATE_LIMIT it is not stored, and the previous one is forgotten, because
                                    it is no longer valid
     PORT_IN_KEY                    nothing was done: two ports disagree about the id. Split the
                                    domain (domain->split), and set the template in the port's
                                    own domain */
fb_status fb_domain_set_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                                 const fb_definition *definition);
/* Forget the template of an id. For a port's domain, also forget that of the common domain if it is
   visible to the port. */
void fb_domain_forget_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                               uint16_t id);
/* Forget all templates of flows, or all of options. A port's domain no longer sees those of the
   common domain; other ports still do. */
void fb_domain_forget_all(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                          bool options);
/* Return the template of an id; NULL: unknown. It is valid until a template is set. A port's domain
   also finds a template of the common domain that was not contested, or that the port itself
   defined. Usually it is the last one looked up, so that one is checked before the search. */
fb_template *fb_domain_search_template(fb_domain *domain, uint16_t id);
FB_INLINE fb_template *fb_domain_find_template(fb_domain *domain, uint16_t id) {
    uint32_t i = domain->latest_template;
    fb_template *template = FB_LIKELY(i < domain->template_count) ? &domain->templates[i] : NULL;
    bool again = template && template->id == id && template->compiled;
    return FB_LIKELY(again) ? template : fb_domain_search_template(domain, id);
}

/* Store a rate from options. OK. TEMPLATE_LIMIT: there is no room. */
fb_status fb_domain_set_sampler(fb_exporter *exporter, fb_domain *domain, uint64_t sampler,
                                uint64_t rate);
/* Store the selectors of a selection sequence. OK. TEMPLATE_LIMIT: there is no room. */
fb_status fb_domain_set_selection(fb_exporter *exporter, fb_domain *domain, uint64_t sequence,
                                  const fb_selection *selection);
/* Define a name, or count why it was not kept. The names of an exporter take at most a quarter of
   its memory. */
void fb_domain_set_name(const fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                        fb_name_kind kind, fb_name_id id, fb_bytes text, uint64_t speed);
/* Return the name of an id; NULL: unknown. Also searches the common domain. */
FB_INLINE const fb_name *fb_domain_find_name(const fb_domain *domain, fb_name_kind kind,
                                             fb_name_id id) {
    const fb_name *name = fb_names_find(&domain->names, kind, id);
    if (FB_LIKELY(name != NULL) || !domain->common) return name;
    return fb_names_find(&domain->common->names, kind, id);
}
/* Return the rate of a sampler. If `named` is false or the sampler is unknown, return the rate of
   the only known one. 0: unknown. Here and below, the common domain is searched after that of the
   port. */
uint64_t fb_domain_find_rate(const fb_domain *domain, bool named, uint64_t sampler);
/* The same for a named sampler, with a cache of the last one. */
uint64_t fb_domain_look_up_rate(fb_domain *domain, uint64_t sampler);
FB_INLINE uint64_t fb_domain_rate_of(fb_domain *domain, uint64_t sampler) {
    bool again = domain->rate_known && domain->sampler == sampler;
    return FB_LIKELY(again) ? domain->rate : fb_domain_look_up_rate(domain, sampler);
}
/* Return false if a selection sequence is unknown. *rate is the product of the rates of its
   selectors; 0: one is unknown. */
bool fb_domain_find_selection_rate(const fb_domain *domain, uint64_t sequence, uint64_t *rate);
/* Return the start time of the exporter in ns since 1970; 0 while unknown. */
FB_INLINE uint64_t fb_domain_find_system_init(const fb_domain *domain) {
    return domain->system_init || !domain->common ? domain->system_init
                                                  : domain->common->system_init;
}

#endif
