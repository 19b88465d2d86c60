/* The order in which state is evicted: exporters, the sFlow agents of each UDP source, and the
   domains of each exporter.

     class   without templates │ seen once │ in use    The first class loses its oldest exporter.
                                                       A class with at most 1/16 of all exporters
                                                       is spared if possible.
     sender  the sFlow agents of one UDP source        It loses its oldest agent when it has too
                                                       many.

   An exporter in use gets a second chance. If datagrams came since it was last passed over, the
   oldest exporter becomes the newest instead of being evicted. A datagram only sets
   exporter->used, so known exporters change no list. An exporter is passed over at most once per
   datagram, so eviction takes constant time per datagram on average.

   The domains of an exporter have the same classes and the same second chance. A common domain is
   not evicted while domains of its ports depend on it; those are evicted first. */
#ifndef FB_EXPORTER_EVICTION_H
#define FB_EXPORTER_EVICTION_H

#include "core/exporter/exporter.h"

/* limit per UDP source; never more than half of the exporters that may be known */
#define FB_MAX_AGENTS 16384

/* Add a new exporter, without a sender; remove an exporter. */
void fb_eviction_enter(fb_exporters *exporters, fb_exporter *exporter);
void fb_eviction_leave(fb_exporters *exporters, fb_exporter *exporter);
/* Update the class of an exporter. REQUIRES: called after each change of its templates. */
void fb_eviction_classify(fb_exporters *exporters, fb_exporter *exporter);

/* Make the exporter an agent of a UDP source and let it share the budget of that source. If memory
   for the source is short, the exporter keeps its own budget. REQUIRES: the exporter holds no
   memory. */
void fb_eviction_set_sender(fb_exporters *exporters, fb_exporter *exporter,
                            const uint8_t source[16]);

/* Return the exporter to evict, but not `except`, which may be NULL. NULL: there is none. */
fb_exporter *fb_eviction_choose(fb_exporters *exporters, const fb_exporter *except);
/* Return the agent of a UDP source to evict before another one is added. NULL: there is room. */
fb_exporter *fb_eviction_choose_agent(fb_exporters *exporters, const uint8_t source[16]);

/* Add a domain to its exporter; remove one. A common domain leaves its ring when the first domain
   of a port enters, and enters again when the last one leaves. REQUIRES: domain->common has its
   final value. */
void fb_eviction_enter_domain(fb_exporter *exporter, fb_domain *domain);
void fb_eviction_leave_domain(fb_exporter *exporter, fb_domain *domain);
/* Update the class of a domain. REQUIRES: called after each change of its templates. */
void fb_eviction_classify_domain(fb_exporter *exporter, fb_domain *domain);
/* Return the domain to evict before another one is added. REQUIRES: the exporter has domains. */
fb_domain *fb_eviction_choose_domain(fb_exporter *exporter);

/* Free the table of senders. REQUIRES: all exporters have left. */
void fb_eviction_free(fb_exporters *exporters);

#endif
