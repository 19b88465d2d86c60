/* Intrusive lists and rings, so that every change takes constant time, and a hash table of
   senders. */
#include "core/exporter/eviction.h"

#define FIRST_BUCKETS 64

/* --- lists ---------------------------------------------------------------------------------- */

static void link_newest(fb_exporter_list *list, enum fb_exporter_place_in place,
                        fb_exporter *exporter) {
    exporter->in[place].older = list->newest;
    exporter->in[place].newer = NULL;
    *(list->newest ? &list->newest->in[place].newer : &list->oldest) = exporter;
    list->newest = exporter;
    list->count++;
}

static void unlink_exporter(fb_exporter_list *list, enum fb_exporter_place_in place,
                            fb_exporter *exporter) {
    fb_exporter *older = exporter->in[place].older, *newer = exporter->in[place].newer;
    *(older ? &older->in[place].newer : &list->oldest) = newer;
    *(newer ? &newer->in[place].older : &list->newest) = older;
    list->count--;
}

/* --- classes -------------------------------------------------------------------------------- */

static fb_eviction_class class_of(const fb_exporter *exporter) {
    if (!exporter->known) return FB_EVICTION_BARE;
    bool seen_before = exporter->restored || exporter->counters.datagrams > 1;
    return seen_before ? FB_EVICTION_IN_USE : FB_EVICTION_SEEN_ONCE;
}

void fb_eviction_enter(fb_exporters *exporters, fb_exporter *exporter) {
    exporter->class = FB_EVICTION_BARE;
    exporter->used = exporter->checked = ++exporters->clock;
    link_newest(&exporters->classes[FB_EVICTION_BARE], FB_EXPORTER_OF_CLASS, exporter);
}

void fb_eviction_classify(fb_exporters *exporters, fb_exporter *exporter) {
    fb_eviction_class class = class_of(exporter);
    if (exporter->stateless || exporter->class == class) return;
    unlink_exporter(&exporters->classes[exporter->class], FB_EXPORTER_OF_CLASS, exporter);
    link_newest(&exporters->classes[class], FB_EXPORTER_OF_CLASS, exporter);
    exporter->class = (uint8_t)class;
}

/* Return the oldest member of a list that was not used since it was passed over or added. If all
   were used, return the one whose last use is the oldest. */
static fb_exporter *choose(fb_exporter_list *list, enum fb_exporter_place_in place,
                           const fb_exporter *except) {
    fb_exporter *stalest = NULL;
    for (size_t left = list->count; left; left--) {
        fb_exporter *exporter = list->oldest;
        if (exporter != except && exporter->used <= exporter->checked) return exporter;
        if (exporter != except && (!stalest || exporter->used < stalest->used)) stalest = exporter;
        exporter->checked = exporter->used;
        unlink_exporter(list, place, exporter);
        link_newest(list, place, exporter);
    }
    return stalest;
}

/* Move exporters that sent more datagrams since they were seen once to the class "in use". */
static void sort_seen_once(fb_exporters *exporters) {
    fb_exporter *oldest;
    while ((oldest = exporters->classes[FB_EVICTION_SEEN_ONCE].oldest) &&
           class_of(oldest) != FB_EVICTION_SEEN_ONCE)
        fb_eviction_classify(exporters, oldest);
}

/* Spare a class with few members. Otherwise, if all other exporters are in use, a new exporter
   would be evicted before its second datagram. */
static bool is_spared(size_t class, size_t count, size_t all) {
    return class != FB_EVICTION_IN_USE && count <= all / 16;
}

fb_exporter *fb_eviction_choose(fb_exporters *exporters, const fb_exporter *except) {
    fb_exporter *exporter = NULL;
    exporters->clock++;
    sort_seen_once(exporters);
    for (int spare = 1; spare >= 0; spare--)
        for (size_t class = 0; !exporter && class < FB_EVICTION_CLASSES; class++)
            if (!spare || !is_spared(class, exporters->classes[class].count, exporters->count))
                exporter = choose(&exporters->classes[class], FB_EXPORTER_OF_CLASS, except);
    return exporter;
}

/* --- senders -------------------------------------------------------------------------------- */

static fb_sender **find_sender(const fb_exporters *exporters, const uint8_t *source) {
    uint64_t hash = fb_hash(fb_hash(exporters->seed, fb_load64(source)), fb_load64(source + 8));
    fb_sender **link = &exporters->senders.buckets[hash & (exporters->senders.bucket_count - 1)];
    while (*link && memcmp((*link)->address, source, 16) != 0) link = &(*link)->next;
    return link;
}

/* If memory for more buckets is short, chains get longer. At least the first buckets are
   required. */
static bool reserve_bucket(fb_exporters *exporters) {
    fb_senders *senders = &exporters->senders, before = *senders;
    if (before.count < before.bucket_count) return true;
    size_t count = before.bucket_count ? before.bucket_count * 2 : FIRST_BUCKETS;
    fb_sender **buckets = fb_memory_allocate(exporters->memory, count * sizeof *buckets);
    if (!buckets) return before.bucket_count;
    senders->buckets = buckets;
    senders->bucket_count = count;
    for (size_t i = 0; i < before.bucket_count; i++)
        for (fb_sender *sender = before.buckets[i], *next; sender; sender = next) {
            next = sender->next;
            sender->next = NULL;
            *find_sender(exporters, sender->address) = sender;
        }
    fb_memory_release(exporters->memory, before.buckets, before.bucket_count * sizeof *buckets);
    return true;
}

/* NULL: no memory. */
static fb_sender *get_sender(fb_exporters *exporters, const uint8_t *source) {
    if (!reserve_bucket(exporters)) return NULL;
    fb_sender **link = find_sender(exporters, source);
    if (*link) return *link;
    fb_sender *sender = fb_memory_allocate(exporters->memory, sizeof *sender);
    if (!sender) return NULL;
    memcpy(sender->address, source, 16);
    sender->memory = fb_memory_within(exporters->memory, exporters->exporter_memory);
    *link = sender;
    exporters->senders.count++;
    return sender;
}

void fb_eviction_set_sender(fb_exporters *exporters, fb_exporter *exporter,
                            const uint8_t source[16]) {
    fb_sender *sender = get_sender(exporters, source);
    if (!sender) return;
    exporter->sender = sender;
    exporter->memory = fb_memory_within(&sender->memory, exporters->exporter_memory);
    link_newest(&sender->agents, FB_EXPORTER_OF_SENDER, exporter);
}

fb_exporter *fb_eviction_choose_agent(fb_exporters *exporters, const uint8_t source[16]) {
    fb_sender *sender = exporters->senders.bucket_count ? *find_sender(exporters, source) : NULL;
    size_t half = (exporters->limit + 1) / 2, most = half < FB_MAX_AGENTS ? half : FB_MAX_AGENTS;
    if (!sender || sender->agents.count < most) return NULL;
    exporters->clock++;
    return choose(&sender->agents, FB_EXPORTER_OF_SENDER, NULL);
}

static void leave_sender(fb_exporters *exporters, fb_exporter *exporter) {
    fb_sender *sender = exporter->sender;
    unlink_exporter(&sender->agents, FB_EXPORTER_OF_SENDER, exporter);
    if (sender->agents.count) return;
    *find_sender(exporters, sender->address) = sender->next;
    exporters->senders.count--;
    fb_memory_release(exporters->memory, sender, sizeof *sender);
}

/* --- domains -------------------------------------------------------------------------------- */

static fb_eviction_class class_of_domain(const fb_domain *domain) {
    if (!domain->known) return FB_EVICTION_BARE;
    return domain->used == domain->made ? FB_EVICTION_SEEN_ONCE : FB_EVICTION_IN_USE;
}

/* Add a domain to the ring of its class, as the newest. */
static void join_ring(fb_exporter *exporter, fb_domain *domain) {
    fb_domain **oldest = &exporter->oldest_domains[domain->class];
    if (!*oldest) *oldest = domain->older = domain->newer = domain;
    domain->newer = *oldest;
    domain->older = (*oldest)->older;
    domain->older->newer = domain->newer->older = domain;
    exporter->domain_counts[domain->class]++;
}

static void leave_ring(fb_exporter *exporter, fb_domain *domain) {
    fb_domain **oldest = &exporter->oldest_domains[domain->class];
    if (*oldest == domain) *oldest = domain->newer == domain ? NULL : domain->newer;
    domain->older->newer = domain->newer;
    domain->newer->older = domain->older;
    domain->older = domain->newer = NULL;
    exporter->domain_counts[domain->class]--;
}

void fb_eviction_enter_domain(fb_exporter *exporter, fb_domain *domain) {
    domain->class = (uint8_t)class_of_domain(domain);
    join_ring(exporter, domain);
    if (domain->common && domain->common->ports++ == 0) leave_ring(exporter, domain->common);
}

void fb_eviction_leave_domain(fb_exporter *exporter, fb_domain *domain) {
    fb_domain *common = domain->common;
    leave_ring(exporter, domain);
    if (common && --common->ports == 0) fb_eviction_enter_domain(exporter, common);
}

void fb_eviction_classify_domain(fb_exporter *exporter, fb_domain *domain) {
    fb_eviction_class class = class_of_domain(domain);
    if (!domain->newer || domain->class == class) return;
    leave_ring(exporter, domain);
    domain->class = (uint8_t)class;
    join_ring(exporter, domain);
}

/* Like `choose`: the oldest domain gets a second chance if it was used since it was last passed
   over. */
static fb_domain *choose_domain(fb_exporter *exporter, size_t class) {
    fb_domain **oldest = &exporter->oldest_domains[class], *stalest = NULL;
    uint32_t now = (uint32_t)exporter->counters.datagrams;
    for (size_t left = exporter->domain_counts[class]; left; left--) {
        fb_domain *domain = *oldest;
        if (domain->used == domain->checked) return domain;
        if (!stalest || now - domain->used > now - stalest->used) stalest = domain;
        domain->checked = domain->used;
        *oldest = domain->newer;
    }
    return stalest;
}

fb_domain *fb_eviction_choose_domain(fb_exporter *exporter) {
    fb_domain *oldest, *domain = NULL;
    while ((oldest = exporter->oldest_domains[FB_EVICTION_SEEN_ONCE]) &&
           class_of_domain(oldest) != FB_EVICTION_SEEN_ONCE)
        fb_eviction_classify_domain(exporter, oldest);
    for (int spare = 1; !domain && spare >= 0; spare--)
        for (size_t class = 0; !domain && class < FB_EVICTION_CLASSES; class++) {
            bool cached = is_spared(class, exporter->domain_counts[class], exporter->domains.count);
            if (!spare || !cached) domain = choose_domain(exporter, class);
        }
    return domain;
}

/* --- exporters and domains ------------------------------------------------------------------ */

void fb_eviction_leave(fb_exporters *exporters, fb_exporter *exporter) {
    unlink_exporter(&exporters->classes[exporter->class], FB_EXPORTER_OF_CLASS, exporter);
    if (exporter->sender) leave_sender(exporters, exporter);
}

void fb_eviction_free(fb_exporters *exporters) {
    fb_senders *senders = &exporters->senders;
    fb_memory_release(exporters->memory, senders->buckets,
                      senders->bucket_count * sizeof *senders->buckets);
    *senders = (fb_senders){0};
}
