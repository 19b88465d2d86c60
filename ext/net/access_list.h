/* The sources whose datagrams are decoded: networks that are allowed and networks that are denied.
   A denied network has priority. Without allowed networks, all sources are allowed. */
#ifndef FB_NET_ACCESS_LIST_H
#define FB_NET_ACCESS_LIST_H

#include "core/base/datagram.h"
#include "core/base/prefix_table.h"

/* Read-only once created, so several threads may share it. */
typedef struct {
    fb_prefix_table allowed, denied;
    bool restricted; /* only allowed networks are admitted */
} fb_access_list;

/* Create a list. `memory` must outlive it. OK, NO_MEMORY. BAD_ARGUMENT: a network has more than 128
   bits, or there are too many. */
fb_status fb_access_list_new(fb_access_list *list, const fb_prefix *allowed, size_t allowed_count,
                             const fb_prefix *denied, size_t denied_count, fb_memory *memory);
void fb_access_list_free(fb_access_list *list);

/* Return true if datagrams of a source are decoded. */
bool fb_access_list_admits(const fb_access_list *list, const uint8_t source[16]);

/* Move the datagrams of admitted sources to the front, in their order. Return their number. The
   content of the others is undefined. */
size_t fb_access_list_filter(const fb_access_list *list, fb_datagram *datagrams, size_t count);

#endif
