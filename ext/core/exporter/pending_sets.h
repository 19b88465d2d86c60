/* Data before its template: sets that wait for it (RFC 3954 section 9, RFC 7011 section 8).

   A set waits as a copy, with what decoding it will need of its datagram. It stands in four lists, each in order of
   arrival, so that whatever has to go can be taken out at once:

     queue      (domain, template id): what a template sets free
     domain     what moves when the domain is split
     exporter   the oldest goes when the exporter's limit is reached
     all        the oldest goes when the decoder's is

   Usage, when a set of templates has been read:
     fb_early_take(…) for each id that was defined: what waits for it is due
     while ((set = fb_early_next(early))) …decode it; fb_early_remove(early, set)…

   What waits has limits of its own, besides the exporter's budget: neither can starve the other. */
#ifndef FB_EARLY_H
#define FB_EARLY_H

#include "core/exporter/context.h"

#define FB_EARLY_SET_OCTETS 192 /* what a set that waits counts for besides its own octets */
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
    uint64_t arrival; /* its number */
    uint64_t time, export_time;
    uint32_t uptime, sequence;
    uint16_t source_port;
    uint32_t record; /* offset of the next record, once decoding has begun; else 0 */
    uint32_t size;
    uint8_t octets[]; /* the set, its header included */
};

typedef struct fb_early {
    fb_memory *memory;
    size_t limit; /* octets that may wait of one exporter */
    size_t total; /* of all */
    uint64_t seed;
    fb_early_queue **buckets; /* of the queues, by domain and template id; none before the first set waits */
    size_t bucket_count, queue_count;
    fb_fault *fault; /* where losses of exporters that are forgotten are noted; NULL: nowhere */
    uint64_t arrivals;
    fb_early_list all;
    fb_early_set *runs[FB_EARLY_RUNS]; /* what is due, in runs that are still to be merged */
    fb_early_set *first;               /* of what is due, merged */
    bool due, unmerged;                /* there is some; there are runs */
} fb_early;

/* Nothing is allocated before something waits. `memory` must outlive it. */
void fb_early_new(fb_early *early, fb_memory *memory, size_t limit, size_t total, uint64_t seed);
/* REQUIRES: the exporters are still there. */
void fb_early_free(fb_early *early);

/* Lets the set at [set, end) of the context's datagram wait, in context->domain, which must be there; counts EARLY_DATA, or
   TEMPLATE_MISSING where there is no room for it, and for each older one that has to make room. */
void fb_early_wait(fb_context *context, uint32_t sequence, const uint8_t *set, const uint8_t *end);

/* What waits for a template becomes due. */
void fb_early_take(fb_early *early, const fb_domain *domain, uint16_t id);
/* The oldest set that is due; NULL: none is. */
fb_early_set *fb_early_next(fb_early *early);
/* Forgets the set that fb_early_next has given. */
void fb_early_remove(fb_early *early, fb_early_set *set);
/* The set that fb_early_next has given waits on: its template is gone again. */
void fb_early_return(fb_early *early, fb_early_set *set);
/* All that is due waits on: whoever was decoding it gave up. */
void fb_early_return_all(fb_early *early);

/* What waits in a domain that was split moves to the domains of its ports. */
void fb_early_split(fb_early *early, fb_exporters *exporters, fb_exporter *exporter, fb_domain *common);

/* Gives up what waits of an exporter, or of one of its domains (NULL: of all), that is about to be forgotten, and counts it
   as TEMPLATE_MISSING. */
void fb_early_forget(fb_early *early, fb_exporter *exporter, fb_domain *domain);

/* No more input comes: all that waits is given up, and counted as TEMPLATE_MISSING. */
void fb_early_give_up(fb_early *early, fb_fault *fault);

#endif
