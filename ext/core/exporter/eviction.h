/* The order in which exporters are evicted, the sFlow agents of each UDP source, and the domains of each exporter.

     class       without templates │ seen once │ in use         the first one loses its oldest; a class of less than a
                                                                sixteenth of all exporters is spared while it can be
     sender      the agents that a UDP source speaks for        loses its oldest when the source speaks for too many

   An exporter in use gets a second chance: when it is the oldest, it becomes the newest if datagrams came since it was
   passed over. A datagram only sets exporter->used: no list changes while exporters are known. An exporter is passed over
   once per datagram at the most, so eviction takes constant time per datagram on average.

   The domains of an exporter have the same classes and the same second chance. A common domain is not evicted while domains
   of its ports depend on it: these go first. */
#ifndef FB_EVICTION_H
#define FB_EVICTION_H

#include "core/exporter/exporter.h"

#define FB_MAX_AGENTS 16384 /* of a UDP source; never more than half of the exporters that may be known */

/* A new exporter, without a sender. */
void fb_eviction_enter(fb_exporters *exporters, fb_exporter *exporter);
void fb_eviction_leave(fb_exporters *exporters, fb_exporter *exporter);
/* Its templates have changed. */
void fb_eviction_classify(fb_exporters *exporters, fb_exporter *exporter);

/* Makes the exporter an agent of a UDP source, whose budget it shares from then on. Where there is no memory for the
   source, it keeps a budget of its own. REQUIRES: it holds no memory. */
void fb_eviction_set_sender(fb_exporters *exporters, fb_exporter *exporter, const uint8_t source[16]);

/* The exporter to evict, any but `except`, which may be NULL. NULL: there is none. */
fb_exporter *fb_eviction_choose(fb_exporters *exporters, const fb_exporter *except);
/* The agent of a UDP source to evict before another one is added. NULL: there is room. */
fb_exporter *fb_eviction_choose_agent(fb_exporters *exporters, const uint8_t source[16]);

/* A domain of an exporter, and one that is evicted. A common domain leaves its ring when the first domain of a port enters,
   and is entered again when the last one leaves. REQUIRES: domain->common is set. */
void fb_eviction_enter_domain(fb_exporter *exporter, fb_domain *domain);
void fb_eviction_leave_domain(fb_exporter *exporter, fb_domain *domain);
/* Its templates have changed. */
void fb_eviction_classify_domain(fb_exporter *exporter, fb_domain *domain);
/* The domain to evict before another one is added. REQUIRES: the exporter has domains. */
fb_domain *fb_eviction_choose_domain(fb_exporter *exporter);

/* REQUIRES: all exporters have left. */
void fb_eviction_free(fb_exporters *exporters);

#endif
