/* Intrusive lists and a hash table of queues: each step takes constant time, whatever the number of
   waiting sets. A queue is freed when it is empty. */
#include "core/exporter/pending_sets.h"

#define FIRST_BUCKETS 64

struct fb_early_queue {
    fb_early_queue *next; /* in its bucket */
    const fb_domain *domain;
    fb_early_list sets;
    uint16_t id;
};

_Static_assert(sizeof(fb_early_set) + sizeof(fb_early_queue) <= FB_EARLY_SET_OCTETS, "what waits is counted in full");

void fb_early_new(fb_early *early, fb_memory *memory, size_t limit, size_t total, uint64_t seed) {
    *early = (fb_early){.memory = memory, .limit = limit, .total = total, .seed = seed};
}

/* --- lists ---------------------------------------------------------------------------------- */

static size_t cost_of(size_t size) {
    return FB_EARLY_SET_OCTETS + size;
}

static void append(fb_early_list *list, enum fb_early_place place, fb_early_set *set) {
    set->in[place].older = list->newest;
    set->in[place].newer = NULL;
    *(list->newest ? &list->newest->in[place].newer : &list->oldest) = set;
    list->newest = set;
    list->sets++;
    list->octets += cost_of(set->size);
}

static void detach(fb_early_list *list, enum fb_early_place place, fb_early_set *set) {
    fb_early_set *older = set->in[place].older, *newer = set->in[place].newer;
    *(older ? &older->in[place].newer : &list->oldest) = newer;
    *(newer ? &newer->in[place].older : &list->newest) = older;
    list->sets--;
    list->octets -= cost_of(set->size);
}

/* --- queues --------------------------------------------------------------------------------- */

static uint64_t hash_key(const fb_early *early, const fb_domain *domain, uint16_t id) {
    return fb_hash(fb_hash(early->seed, (uint64_t)(uintptr_t)domain), id);
}

static fb_early_queue **find_queue(const fb_early *early, const fb_domain *domain, uint16_t id) {
    fb_early_queue **link = &early->buckets[hash_key(early, domain, id) & (early->bucket_count - 1)];
    while (*link && ((*link)->domain != domain || (*link)->id != id)) link = &(*link)->next;
    return link;
}

/* If memory for more buckets is short, chains get longer. At least the first buckets are
   required. */
static bool reserve_bucket(fb_early *early) {
    if (early->queue_count < early->bucket_count) return true;
    size_t count = early->bucket_count ? early->bucket_count * 2 : FIRST_BUCKETS;
    fb_early_queue **buckets = fb_memory_allocate(early->memory, count * sizeof *buckets);
    if (!buckets) return early->bucket_count;
    for (size_t i = 0; i < early->bucket_count; i++)
        for (fb_early_queue *queue = early->buckets[i], *next; queue; queue = next) {
            fb_early_queue **bucket = &buckets[hash_key(early, queue->domain, queue->id) & (count - 1)];
            next = queue->next;
            queue->next = *bucket;
            *bucket = queue;
        }
    fb_memory_release(early->memory, early->buckets, early->bucket_count * sizeof *buckets);
    early->buckets = buckets;
    early->bucket_count = count;
    return true;
}

static void remove_queue(fb_early *early, fb_early_queue *queue) {
    fb_early_queue **link = find_queue(early, queue->domain, queue->id);
    *link = queue->next;
    early->queue_count--;
    fb_memory_release(early->memory, queue, sizeof *queue);
}

/* NULL: no memory. */
static fb_early_queue *get_queue(fb_early *early, const fb_domain *domain, uint16_t id) {
    if (!reserve_bucket(early)) return NULL;
    fb_early_queue **link = find_queue(early, domain, id);
    if (*link) return *link;
    fb_early_queue *queue = fb_memory_allocate(early->memory, sizeof *queue);
    if (!queue) return NULL;
    *queue = (fb_early_queue){.domain = domain, .id = id};
    *link = queue;
    early->queue_count++;
    return queue;
}

static void enter_domain(fb_domain *domain, fb_early_set *set) {
    set->domain = domain;
    set->in[FB_EARLY_OF_DOMAIN].older = domain->early;
    set->in[FB_EARLY_OF_DOMAIN].newer = NULL;
    if (domain->early) domain->early->in[FB_EARLY_OF_DOMAIN].newer = set;
    domain->early = set;
}

static void leave_domain(fb_early_set *set) {
    fb_early_set *older = set->in[FB_EARLY_OF_DOMAIN].older, *newer = set->in[FB_EARLY_OF_DOMAIN].newer;
    if (older) older->in[FB_EARLY_OF_DOMAIN].newer = newer;
    *(newer ? &newer->in[FB_EARLY_OF_DOMAIN].older : &set->domain->early) = older;
}

static void enter_queue(fb_early_queue *queue, fb_domain *domain, fb_early_set *set) {
    append(&queue->sets, FB_EARLY_IN_QUEUE, set);
    set->queue = queue;
    enter_domain(domain, set);
}

static void leave_queue(fb_early *early, fb_early_set *set) {
    fb_early_queue *queue = set->queue;
    detach(&queue->sets, FB_EARLY_IN_QUEUE, set);
    leave_domain(set);
    set->queue = NULL;
    if (!queue->sets.oldest) remove_queue(early, queue);
}

/* --- sets ----------------------------------------------------------------------------------- */

static void free_set(fb_early *early, fb_early_set *set) {
    detach(&set->exporter->early, FB_EARLY_OF_EXPORTER, set);
    detach(&early->all, FB_EARLY_OF_ALL, set);
    fb_memory_release(early->memory, set, sizeof *set + set->size);
}

/* The datagram of the set is gone, so `index` and `offset` are the current position of the
   decoder. */
static void give_up(fb_early *early, fb_early_set *set, fb_fault *fault, size_t index, size_t offset) {
    set->exporter->counters.status[FB_TEMPLATE_MISSING]++;
    fb_fault_note(fault, FB_TEMPLATE_MISSING, index, offset, set->exporter->address);
    if (set->queue) leave_queue(early, set);
    free_set(early, set);
}

static fb_early_set *copy_set(fb_context *context, uint32_t sequence, const uint8_t *octets, size_t size) {
    fb_early *early = context->exporters->early;
    fb_early_set *set = fb_memory_allocate(early->memory, sizeof *set + size);
    fb_early_queue *queue = set ? get_queue(early, context->domain, fb_load16(octets)) : NULL;
    if (!queue) {
        fb_memory_release(early->memory, set, sizeof *set + size);
        return NULL;
    }
    set->exporter = context->exporter;
    set->arrival = early->arrivals++;
    set->time = context->datagram->time;
    set->export_time = context->export_time;
    set->uptime = context->uptime;
    set->sequence = sequence;
    set->source_port = context->datagram->source_port;
    set->size = (uint32_t)size;
    memcpy(set->octets, octets, size);
    enter_queue(queue, context->domain, set);
    return set;
}

void fb_early_wait(fb_context *context, uint32_t sequence, const uint8_t *set, const uint8_t *end) {
    fb_early *early = context->exporters->early;
    fb_early_list *own = &context->exporter->early;
    size_t size = (size_t)(end - set), cost = cost_of(size);
    size_t offset = (size_t)(set - context->datagram->payload.data);
    fb_early_set *copy = NULL;
    if (cost <= early->limit && cost <= early->total) {
        while (own->octets > early->limit - cost) give_up(early, own->oldest, context->fault, context->index, offset);
        while (early->all.octets > early->total - cost)
            give_up(early, early->all.oldest, context->fault, context->index, offset);
        copy = copy_set(context, sequence, set, size);
    }
    if (copy) {
        append(own, FB_EARLY_OF_EXPORTER, copy);
        append(&early->all, FB_EARLY_OF_ALL, copy);
    }
    fb_context_count(context, copy ? FB_EARLY_DATA : FB_TEMPLATE_MISSING, set);
}

/* --- due sets ------------------------------------------------------------------------------- */

static fb_early_set *merge(fb_early_set *a, fb_early_set *b) {
    fb_early_set *first = NULL, **link = &first;
    while (a && b) {
        fb_early_set **older = a->arrival < b->arrival ? &a : &b;
        *link = *older;
        link = &(*older)->in[FB_EARLY_IN_QUEUE].newer;
        *older = *link;
    }
    *link = a ? a : b;
    return first;
}

/* Merge runs pairwise, like a binary counter. Otherwise a thousand short queues would cause a
   thousand passes over a long one. */
static void add_run(fb_early *early, fb_early_set *run) {
    size_t i = 0;
    for (; i < FB_EARLY_RUNS - 1 && early->runs[i]; i++) {
        run = merge(early->runs[i], run);
        early->runs[i] = NULL;
    }
    early->runs[i] = merge(early->runs[i], run);
    early->due = early->unmerged = true;
}

void fb_early_take(fb_early *early, const fb_domain *domain, uint16_t id) {
    if (!early->queue_count) return;
    fb_early_queue *queue = *find_queue(early, domain, id);
    if (!queue) return;
    fb_early_set *oldest = queue->sets.oldest;
    for (fb_early_set *set = oldest; set; set = set->in[FB_EARLY_IN_QUEUE].newer) {
        leave_domain(set);
        set->queue = NULL;
    }
    remove_queue(early, queue);
    add_run(early, oldest);
}

fb_early_set *fb_early_next(fb_early *early) {
    for (size_t i = 0; early->unmerged && i < FB_EARLY_RUNS; i++) {
        early->first = merge(early->first, early->runs[i]);
        early->runs[i] = NULL;
    }
    early->unmerged = false;
    early->due = early->first != NULL;
    return early->first;
}

void fb_early_remove(fb_early *early, fb_early_set *set) {
    early->first = set->in[FB_EARLY_IN_QUEUE].newer;
    free_set(early, set);
}

void fb_early_return(fb_early *early, fb_early_set *set) {
    fb_fault none = {.status = FB_OK};
    early->first = set->in[FB_EARLY_IN_QUEUE].newer;
    set->record = 0;
    fb_early_queue *queue = get_queue(early, set->domain, fb_load16(set->octets));
    if (queue)
        enter_queue(queue, set->domain, set);
    else
        give_up(early, set, &none, 0, 0);
}

void fb_early_return_all(fb_early *early) {
    for (fb_early_set *set; (set = fb_early_next(early));) fb_early_return(early, set);
}

/* --- domains and end of input --------------------------------------------------------------- */

void fb_early_split(fb_early *early, fb_exporters *exporters, fb_exporter *exporter, fb_domain *common) {
    fb_early_set *oldest = common->early;
    while (oldest && oldest->in[FB_EARLY_OF_DOMAIN].older) oldest = oldest->in[FB_EARLY_OF_DOMAIN].older;
    for (fb_early_set *set = oldest, *next; set; set = next) {
        next = set->in[FB_EARLY_OF_DOMAIN].newer;
        fb_domain *own = fb_domain_of_port(exporters, exporter, common, set->source_port);
        fb_early_queue *queue = own == common ? NULL : get_queue(early, own, fb_load16(set->octets));
        if (!queue) continue; /* no room for a domain of the port: the set stays */
        leave_queue(early, set);
        enter_queue(queue, own, set);
    }
}

void fb_early_forget(fb_early *early, fb_exporter *exporter, fb_domain *domain) {
    fb_fault none = {.status = FB_OK};
    fb_early_set *const *next = domain ? &domain->early : &exporter->early.oldest;
    if (!exporter->early.oldest) return;
    /* from a datagram that was not decoded to its end */
    if (early->due) fb_early_return_all(early);
    while (*next) give_up(early, *next, early->fault ? early->fault : &none, 0, 0);
}

void fb_early_give_up(fb_early *early, fb_fault *fault) {
    fb_early_return_all(early);
    while (early->all.oldest) give_up(early, early->all.oldest, fault, 0, 0);
}

void fb_early_free(fb_early *early) {
    if (!early->memory) return;
    fb_fault none = {.status = FB_OK};
    fb_early_give_up(early, &none);
    fb_memory_release(early->memory, early->buckets, early->bucket_count * sizeof *early->buckets);
    *early = (fb_early){0};
}
