/* Data sets that come before their template and wait for it (RFC 3954 section 9, RFC 7011
   section 8).

   A set waits as a copy, with the parts of its datagram that decoding needs. It is in four lists,
   each in order of arrival, so that any set can be removed in constant time:

     queue      (domain, template id): the sets that a template releases
     domain     the sets that move when the domain is split
     exporter   loses its oldest set at the limit of the exporter
     all        loses its oldest set at the limit of the decoder

   Usage, after a set of templates was read:

     fb_early_take(…) for each id that was defined: its waiting sets become due
     while ((set = fb_early_next(early))) …decode it; fb_early_remove(early, set)…

   Waiting sets have their own limits, separate from the budget of the exporter, so neither can
   exhaust the other. */
#ifndef FB_EARLY_H
#define FB_EARLY_H

#include "core/exporter/context.h"

/* overhead counted for each waiting set, in addition to its own bytes */
#define FB_EARLY_SET_OCTETS 192
#define FB_EARLY_RUNS 32

enum fb_early_place { FB_EARLY_IN_QUEUE, FB_EARLY_OF_DOMAIN, FB_EARLY_OF_EXPORTER, FB_EARLY_OF_ALL, FB_EARLY_PLACES };

typedef struct fb_early_queue fb_early_queue;

typedef struct fb_early_set fb_early_set;
struct fb_early_set {
    struct {
        fb_early_set *older, *newer;
    } in[FB_EARLY_PLACES];
    fb_early_queue *queue; /* NULL: its template has come */
    fb_exporter *exporter;
    fb_domain *domain;
    uint64_t arrival; /* sequence number in order of arrival */
    uint64_t time, export_time;
    uint32_t uptime, sequence;
    uint16_t source_port;
    uint32_t record; /* offset of the next record once decoding has begun; else 0 */
    uint32_t size;
    uint8_t octets[]; /* the set, header included */
};

typedef struct fb_early {
    fb_memory *memory;
    size_t limit; /* bytes that may wait per exporter */
    size_t total; /* bytes that may wait in total */
    uint64_t seed;
    /* of queues, by domain and template id; NULL before the first set waits */
    fb_early_queue **buckets;
    size_t bucket_count, queue_count;
    /* receives the losses of exporters that are forgotten; NULL: they are not recorded */
    fb_fault *fault;
    uint64_t arrivals;
    fb_early_list all;
    fb_early_set *runs[FB_EARLY_RUNS]; /* due sets, in runs that are not merged yet */
    fb_early_set *first;               /* first due set after merging */
    bool due, unmerged;                /* sets are due; runs are not merged */
} fb_early;

/* Initialize. Nothing is allocated before the first set waits. `memory` must outlive it. */
void fb_early_new(fb_early *early, fb_memory *memory, size_t limit, size_t total, uint64_t seed);
/* Free all waiting sets. REQUIRES: the exporters still exist. */
void fb_early_free(fb_early *early);

/* Let the set [set, end) of the current datagram wait in context->domain. Count EARLY_DATA, or
   TEMPLATE_MISSING if there is no room. Older sets that must make room are also counted as
   TEMPLATE_MISSING. REQUIRES: context->domain is set. */
void fb_early_wait(fb_context *context, uint32_t sequence, const uint8_t *set, const uint8_t *end);

/* Make the sets that wait for a template due. */
void fb_early_take(fb_early *early, const fb_domain *domain, uint16_t id);
/* Return the oldest due set; NULL: none. */
fb_early_set *fb_early_next(fb_early *early);
/* Free the set that fb_early_next returned. */
void fb_early_remove(fb_early *early, fb_early_set *set);
/* Let the set that fb_early_next returned wait again, because its template is gone. */
void fb_early_return(fb_early *early, fb_early_set *set);
/* Let all due sets wait again, because their decoding was abandoned. */
void fb_early_return_all(fb_early *early);

/* Move the waiting sets of a domain that was split to the domains of their ports. */
void fb_early_split(fb_early *early, fb_exporters *exporters, fb_exporter *exporter, fb_domain *common);

/* Give up the waiting sets of an exporter, or of one of its domains (NULL: all), before it is
   forgotten. Count them as TEMPLATE_MISSING. */
void fb_early_forget(fb_early *early, fb_exporter *exporter, fb_domain *domain);

/* Give up all waiting sets at the end of the input. Count them as TEMPLATE_MISSING. */
void fb_early_give_up(fb_early *early, fb_fault *fault);

#endif
