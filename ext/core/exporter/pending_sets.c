/* Intrusive lists and a hash table of queues: each step takes constant time, whatever the number of
   waiting sets. A queue is freed when it is empty. */
#include "core/exporter/pending_sets.h"

#define FIRST_BUCKETS 64

struct fb_pending_queue {
    fb_pending_queue *next; /* in its bucket */
    const fb_domain *domain;
    fb_pending_list sets;
    uint16_t id;
};

_Static_assert(sizeof(fb_pending_set) + sizeof(fb_pending_queue) <= FB_PENDING_SET_BYTES,
               "what waits is counted in full");

void fb_pending_new(fb_pending_sets *pending, fb_memory *memory, size_t limit, size_t total,
                    uint64_t seed) {
    *pending = (fb_pending_sets){.memory = memory, .limit = limit, .total = total, .seed = seed};
}

/* --- lists ---------------------------------------------------------------------------------- */

static size_t cost_of(size_t size) {
    return FB_PENDING_SET_BYTES + size;
}

static void link_newest(fb_pending_list *list, enum fb_pending_place place, fb_pending_set *set) {
    set->in[place].older = list->newest;
    set->in[place].newer = NULL;
    *(list->newest ? &list->newest->in[place].newer : &list->oldest) = set;
    list->newest = set;
    list->sets++;
    list->bytes += cost_of(set->size);
}

static void unlink_set(fb_pending_list *list, enum fb_pending_place place, fb_pending_set *set) {
    fb_pending_set *older = set->in[place].older, *newer = set->in[place].newer;
    *(older ? &older->in[place].newer : &list->oldest) = newer;
    *(newer ? &newer->in[place].older : &list->newest) = older;
    list->sets--;
    list->bytes -= cost_of(set->size);
}

/* --- queues --------------------------------------------------------------------------------- */

static uint64_t hash_key(const fb_pending_sets *pending, const fb_domain *domain, uint16_t id) {
    return fb_hash(fb_hash(pending->seed, (uint64_t)(uintptr_t)domain), id);
}

static fb_pending_queue **find_queue(const fb_pending_sets *pending, const fb_domain *domain,
                                     uint16_t id) {
    fb_pending_queue **link =
        &pending->buckets[hash_key(pending, domain, id) & (pending->bucket_count - 1)];
    while (*link && ((*link)->domain != domain || (*link)->id != id)) link = &(*link)->next;
    return link;
}

/* If memory for more buckets is short, chains get longer. At least the first buckets are
   required. */
static bool reserve_bucket(fb_pending_sets *pending) {
    if (pending->queue_count < pending->bucket_count) return true;
    size_t count = pending->bucket_count ? pending->bucket_count * 2 : FIRST_BUCKETS;
    fb_pending_queue **buckets = fb_memory_allocate(pending->memory, count * sizeof *buckets);
    if (!buckets) return pending->bucket_count;
    for (size_t i = 0; i < pending->bucket_count; i++)
        for (fb_pending_queue *queue = pending->buckets[i], *next; queue; queue = next) {
            fb_pending_queue **bucket =
                &buckets[hash_key(pending, queue->domain, queue->id) & (count - 1)];
            next = queue->next;
            queue->next = *bucket;
            *bucket = queue;
        }
    fb_memory_release(pending->memory, pending->buckets, pending->bucket_count * sizeof *buckets);
    pending->buckets = buckets;
    pending->bucket_count = count;
    return true;
}

static void remove_queue(fb_pending_sets *pending, fb_pending_queue *queue) {
    fb_pending_queue **link = find_queue(pending, queue->domain, queue->id);
    *link = queue->next;
    pending->queue_count--;
    fb_memory_release(pending->memory, queue, sizeof *queue);
}

/* NULL: no memory. */
static fb_pending_queue *get_queue(fb_pending_sets *pending, const fb_domain *domain, uint16_t id) {
    if (!reserve_bucket(pending)) return NULL;
    fb_pending_queue **link = find_queue(pending, domain, id);
    if (*link) return *link;
    fb_pending_queue *queue = fb_memory_allocate(pending->memory, sizeof *queue);
    if (!queue) return NULL;
    *queue = (fb_pending_queue){.domain = domain, .id = id};
    *link = queue;
    pending->queue_count++;
    return queue;
}

static void enter_domain(fb_domain *domain, fb_pending_set *set) {
    set->domain = domain;
    set->in[FB_PENDING_OF_DOMAIN].older = domain->pending;
    set->in[FB_PENDING_OF_DOMAIN].newer = NULL;
    if (domain->pending) domain->pending->in[FB_PENDING_OF_DOMAIN].newer = set;
    domain->pending = set;
}

static void leave_domain(fb_pending_set *set) {
    fb_pending_set *older = set->in[FB_PENDING_OF_DOMAIN].older,
                   *newer = set->in[FB_PENDING_OF_DOMAIN].newer;
    if (older) older->in[FB_PENDING_OF_DOMAIN].newer = newer;
    *(newer ? &newer->in[FB_PENDING_OF_DOMAIN].older : &set->domain->pending) = older;
}

static void enter_queue(fb_pending_queue *queue, fb_domain *domain, fb_pending_set *set) {
    link_newest(&queue->sets, FB_PENDING_IN_QUEUE, set);
    set->queue = queue;
    enter_domain(domain, set);
}

static void leave_queue(fb_pending_sets *pending, fb_pending_set *set) {
    fb_pending_queue *queue = set->queue;
    unlink_set(&queue->sets, FB_PENDING_IN_QUEUE, set);
    leave_domain(set);
    set->queue = NULL;
    if (!queue->sets.oldest) remove_queue(pending, queue);
}

/* --- sets ----------------------------------------------------------------------------------- */

static void free_set(fb_pending_sets *pending, fb_pending_set *set) {
    unlink_set(&set->exporter->pending, FB_PENDING_OF_EXPORTER, set);
    unlink_set(&pending->all, FB_PENDING_OF_ALL, set);
    fb_memory_release(pending->memory, set, sizeof *set + set->size);
}

static void count_and_free(fb_pending_sets *pending, fb_pending_set *set, fb_status status) {
    set->exporter->counters.status[status]++;
    if (set->queue) leave_queue(pending, set);
    free_set(pending, set);
}

/* The datagram of the set is gone, so `index` and `offset` are the current position of the
   decoder. */
static void drop_set(fb_pending_sets *pending, fb_pending_set *set, fb_fault *fault, size_t index,
                     size_t offset) {
    fb_fault_set_first(fault, FB_TEMPLATE_MISSING, index, offset, set->exporter->address);
    count_and_free(pending, set, FB_TEMPLATE_MISSING);
}

/* NULL: no memory. */
static fb_pending_set *copy_set(fb_pending_sets *pending, fb_exporter *exporter, fb_domain *domain,
                                const fb_pending_header *header, fb_bytes bytes) {
    size_t size = bytes.size;
    fb_pending_set *set = fb_memory_allocate(pending->memory, sizeof *set + size);
    fb_pending_queue *queue = set ? get_queue(pending, domain, fb_load16(bytes.data)) : NULL;
    if (!queue) {
        fb_memory_release(pending->memory, set, sizeof *set + size);
        return NULL;
    }
    set->exporter = exporter;
    set->arrival = pending->arrivals++;
    set->header = *header;
    set->size = (uint32_t)size;
    memcpy(set->bytes, bytes.data, size);
    enter_queue(queue, domain, set);
    link_newest(&exporter->pending, FB_PENDING_OF_EXPORTER, set);
    link_newest(&pending->all, FB_PENDING_OF_ALL, set);
    return set;
}

/* Copy a set, and drop older ones to make room. `fault`, `index` and `offset` are those of
   drop_set. Return false if there is no room. */
static bool keep_set(fb_pending_sets *pending, fb_exporter *exporter, fb_domain *domain,
                     const fb_pending_header *header, fb_bytes set, fb_fault *fault, size_t index,
                     size_t offset) {
    fb_pending_list *own = &exporter->pending;
    size_t cost = cost_of(set.size);
    if (cost > pending->limit || cost > pending->total) return false;
    while (own->bytes > pending->limit - cost) drop_set(pending, own->oldest, fault, index, offset);
    while (pending->all.bytes > pending->total - cost)
        drop_set(pending, pending->all.oldest, fault, index, offset);
    return copy_set(pending, exporter, domain, header, set) != NULL;
}

void fb_pending_add(fb_context *context, uint32_t sequence, const uint8_t *set,
                    const uint8_t *end) {
    const fb_datagram *datagram = context->datagram;
    const fb_pending_header header = {.time = datagram->time,
                                      .export_time = context->export_time,
                                      .uptime = context->uptime,
                                      .sequence = sequence,
                                      .source_port = datagram->source_port};
    bool kept = keep_set(context->exporters->pending, context->exporter, context->domain, &header,
                         (fb_bytes){set, (size_t)(end - set)}, context->fault, context->index,
                         (size_t)(set - datagram->payload.data));
    fb_context_count(context, kept ? FB_EARLY_DATA : FB_TEMPLATE_MISSING, set);
}

void fb_pending_inherit(fb_pending_sets *pending, fb_exporter *exporter, fb_domain *domain,
                        const fb_pending_header *header, fb_bytes set) {
    fb_fault none = {.status = FB_OK};
    exporter->counters.status[FB_EARLY_DATA_INHERITED]++;
    if (!domain || !keep_set(pending, exporter, domain, header, set, &none, 0, 0))
        exporter->counters.status[FB_TEMPLATE_MISSING]++;
}

/* --- due sets ------------------------------------------------------------------------------- */

static fb_pending_set *merge_by_arrival(fb_pending_set *a, fb_pending_set *b) {
    fb_pending_set *first = NULL, **link = &first;
    while (a && b) {
        fb_pending_set **older = a->arrival < b->arrival ? &a : &b;
        *link = *older;
        link = &(*older)->in[FB_PENDING_IN_QUEUE].newer;
        *older = *link;
    }
    *link = a ? a : b;
    return first;
}

/* Merge runs pairwise, like a binary counter. Otherwise a thousand short queues would cause a
   thousand passes over a long one. */
static void add_run(fb_pending_sets *pending, fb_pending_set *run) {
    size_t i = 0;
    for (; i < FB_PENDING_RUNS - 1 && pending->runs[i]; i++) {
        run = merge_by_arrival(pending->runs[i], run);
        pending->runs[i] = NULL;
    }
    pending->runs[i] = merge_by_arrival(pending->runs[i], run);
    pending->due = pending->unmerged = true;
}

void fb_pending_take(fb_pending_sets *pending, const fb_domain *domain, uint16_t id) {
    if (!pending->queue_count) return;
    fb_pending_queue *queue = *find_queue(pending, domain, id);
    if (!queue) return;
    fb_pending_set *oldest = queue->sets.oldest;
    for (fb_pending_set *set = oldest; set; set = set->in[FB_PENDING_IN_QUEUE].newer) {
        leave_domain(set);
        set->queue = NULL;
    }
    remove_queue(pending, queue);
    add_run(pending, oldest);
}

fb_pending_set *fb_pending_next(fb_pending_sets *pending) {
    for (size_t i = 0; pending->unmerged && i < FB_PENDING_RUNS; i++) {
        pending->first = merge_by_arrival(pending->first, pending->runs[i]);
        pending->runs[i] = NULL;
    }
    pending->unmerged = false;
    pending->due = pending->first != NULL;
    return pending->first;
}

void fb_pending_remove(fb_pending_sets *pending, fb_pending_set *set) {
    pending->first = set->in[FB_PENDING_IN_QUEUE].newer;
    free_set(pending, set);
}

void fb_pending_return(fb_pending_sets *pending, fb_pending_set *set) {
    fb_fault none = {.status = FB_OK};
    pending->first = set->in[FB_PENDING_IN_QUEUE].newer;
    set->suspended = false;
    fb_pending_queue *queue = get_queue(pending, set->domain, fb_load16(set->bytes));
    if (queue) enter_queue(queue, set->domain, set);
    else drop_set(pending, set, &none, 0, 0);
}

void fb_pending_return_all(fb_pending_sets *pending) {
    for (fb_pending_set *set; (set = fb_pending_next(pending));) fb_pending_return(pending, set);
}

/* --- domains and end of input --------------------------------------------------------------- */

void fb_pending_split(fb_pending_sets *pending, fb_exporters *exporters, fb_exporter *exporter,
                      fb_domain *common) {
    fb_pending_set *oldest = common->pending;
    while (oldest && oldest->in[FB_PENDING_OF_DOMAIN].older)
        oldest = oldest->in[FB_PENDING_OF_DOMAIN].older;
    for (fb_pending_set *set = oldest, *next; set; set = next) {
        next = set->in[FB_PENDING_OF_DOMAIN].newer;
        fb_domain *own = fb_domain_of_port(exporters, exporter, common, set->header.source_port);
        fb_pending_queue *queue =
            own == common ? NULL : get_queue(pending, own, fb_load16(set->bytes));
        if (!queue) continue; /* no room for a domain of the port: the set stays */
        leave_queue(pending, set);
        enter_queue(queue, own, set);
    }
}

void fb_pending_forget(fb_pending_sets *pending, fb_exporter *exporter, fb_domain *domain) {
    fb_fault none = {.status = FB_OK};
    fb_pending_set *const *next = domain ? &domain->pending : &exporter->pending.oldest;
    if (!exporter->pending.oldest) return;
    /* from a datagram that was not decoded to its end */
    if (pending->due) fb_pending_return_all(pending);
    while (*next) drop_set(pending, *next, pending->fault ? pending->fault : &none, 0, 0);
}

void fb_pending_drop_all(fb_pending_sets *pending, fb_fault *fault) {
    fb_pending_return_all(pending);
    while (pending->all.oldest) drop_set(pending, pending->all.oldest, fault, 0, 0);
}

void fb_pending_hand_over(fb_pending_sets *pending) {
    fb_pending_return_all(pending);
    while (pending->all.oldest)
        count_and_free(pending, pending->all.oldest, FB_EARLY_DATA_HANDED_OVER);
}

void fb_pending_free(fb_pending_sets *pending) {
    if (!pending->memory) return;
    fb_fault none = {.status = FB_OK};
    fb_pending_drop_all(pending, &none);
    fb_memory_release(pending->memory, pending->buckets,
                      pending->bucket_count * sizeof *pending->buckets);
    *pending = (fb_pending_sets){0};
}
