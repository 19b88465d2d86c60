/* Data sets that come before their template and wait for it (RFC 3954 section 9, RFC 7011
   section 8).

   A set waits as a copy, with the parts of its datagram that decoding needs. It is in four lists,
   each in order of arrival, so that any set can be removed in constant time:

     queue      (domain, template id): the sets that a template releases
     domain     the sets that move when the domain is split
     exporter   loses its oldest set at the limit of the exporter
     all        loses its oldest set at the limit of the decoder

   Usage, after a set of templates was read:

     fb_pending_take(…) for each id that was defined: its waiting sets become due
     while ((set = fb_pending_next(pending))) …decode it; fb_pending_remove(pending, set)…

   Waiting sets have their own limits, separate from the budget of the exporter, so neither can
   exhaust the other. */
#ifndef FB_EXPORTER_PENDING_SETS_H
#define FB_EXPORTER_PENDING_SETS_H

#include "core/exporter/context.h"

/* overhead counted for each waiting set, in addition to its own bytes */
#define FB_PENDING_SET_BYTES 192
#define FB_PENDING_RUNS      32

enum fb_pending_place {
    FB_PENDING_IN_QUEUE,
    FB_PENDING_OF_DOMAIN,
    FB_PENDING_OF_EXPORTER,
    FB_PENDING_OF_ALL,
    FB_PENDING_PLACES
};

typedef struct fb_pending_queue fb_pending_queue;

/* The parts of the datagram of a set that decoding needs. */
typedef struct {
    uint64_t time, export_time; /* export_time is a number of seconds, in ns */
    uint32_t uptime, sequence;
    uint16_t source_port;
} fb_pending_header;

typedef struct fb_pending_set fb_pending_set;
struct fb_pending_set {
    struct {
        fb_pending_set *older, *newer;
    } in[FB_PENDING_PLACES];
    fb_pending_queue *queue; /* NULL: its template has arrived */
    fb_exporter *exporter;
    fb_domain *domain;
    uint64_t arrival; /* sequence number in order of arrival */
    fb_pending_header header;
    uint32_t record : 31;   /* offset of the next record once decoding has begun; else 0 */
    uint32_t suspended : 1; /* the output became full inside the set */
    uint32_t size;
    uint8_t bytes[]; /* the set, header included */
};

typedef struct fb_pending_sets {
    fb_memory *memory;
    size_t limit; /* bytes that may wait per exporter */
    size_t total; /* bytes that may wait in total */
    uint64_t seed;
    /* of queues, by domain and template id; NULL before the first set waits */
    fb_pending_queue **buckets;
    size_t bucket_count, queue_count;
    /* receives the losses of exporters that are forgotten; NULL: they are not recorded */
    fb_fault *fault;
    uint64_t arrivals;
    fb_pending_list all;
    fb_pending_set *runs[FB_PENDING_RUNS]; /* due sets, in runs that are not merged yet */
    fb_pending_set *first;                 /* first due set after merging */
    bool due, unmerged;                    /* sets are due; runs are not merged */
} fb_pending_sets;

/* Initialize. Nothing is allocated before the first set waits. `memory` must outlive it. */
void fb_pending_new(fb_pending_sets *pending, fb_memory *memory, size_t limit, size_t total,
                    uint64_t seed);
/* Free all waiting sets. REQUIRES: the exporters still exist. */
void fb_pending_free(fb_pending_sets *pending);

/* Let the set [set, end) of the current datagram wait in context->domain. Count EARLY_DATA, or
   TEMPLATE_MISSING if there is no room. Older sets that must make room are also counted as
   TEMPLATE_MISSING. REQUIRES: context->domain is set. */
void fb_pending_add(fb_context *context, uint32_t sequence, const uint8_t *set, const uint8_t *end);
/* Let a set of another decoder wait in a domain. Count EARLY_DATA_INHERITED. Also count
   TEMPLATE_MISSING for each set that must make room, or for this one if there is no room. `domain`
   is NULL if there was no room for it. REQUIRES: set.size >= 4. */
void fb_pending_inherit(fb_pending_sets *pending, fb_exporter *exporter, fb_domain *domain,
                        const fb_pending_header *header, fb_bytes set);

/* Make the sets that wait for a template due. */
void fb_pending_take(fb_pending_sets *pending, const fb_domain *domain, uint16_t id);
/* Return the oldest due set; NULL: none. */
fb_pending_set *fb_pending_next(fb_pending_sets *pending);
/* Free the set that fb_pending_next returned. */
void fb_pending_remove(fb_pending_sets *pending, fb_pending_set *set);
/* Let the set that fb_pending_next returned wait again, because its template is gone. Only its
   records that were not decoded wait. */
void fb_pending_return(fb_pending_sets *pending, fb_pending_set *set);
/* Let all due sets wait again, because their decoding was abandoned. */
void fb_pending_return_all(fb_pending_sets *pending);

/* Move the waiting sets of a domain that was split to the domains of their ports. */
void fb_pending_split(fb_pending_sets *pending, fb_exporters *exporters, fb_exporter *exporter,
                      fb_domain *common);

/* Drop the waiting sets of an exporter, or of one of its domains (NULL: all), before it is
   forgotten. Count them as TEMPLATE_MISSING. */
void fb_pending_forget(fb_pending_sets *pending, fb_exporter *exporter, fb_domain *domain);

/* Drop all waiting sets at the end of the input. Count them as TEMPLATE_MISSING. */
void fb_pending_drop_all(fb_pending_sets *pending, fb_fault *fault);
/* Free all waiting sets, which another decoder has inherited. Count EARLY_DATA_HANDED_OVER. */
void fb_pending_hand_over(fb_pending_sets *pending);

#endif
