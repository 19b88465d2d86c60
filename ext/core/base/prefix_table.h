/* Networks, and the search for the longest one that contains an address.

   Networks are nested or disjoint, so they divide all addresses into ranges. The table lists the
   first address of each range in order. A search is a binary search of that list.

     2001:db8::/32   ├───────────────────────────┤
     2001:db8:1::/48        ├─────────┤
     ranges          │ none │  /32    │  /48    │  /32 │ none */
#ifndef FB_BASE_PREFIX_TABLE_H
#define FB_BASE_PREFIX_TABLE_H

#include "core/base/base.h"

#define FB_PREFIX_NONE UINT32_MAX /* no network contains the address */

/* A network: the addresses that begin with the first `bits` bits of `address`. The other bits are
   ignored. IPv4 networks are within ::ffff:0:0/96, like IPv4 addresses everywhere in the core. */
typedef struct {
    uint8_t address[16];
    uint8_t bits; /* 0 to 128 */
} fb_prefix;

/* A 128-bit number: an address. */
typedef struct {
    uint64_t high, low;
} fb_address_number;

typedef struct {
    fb_address_number first;
    uint32_t value; /* index of the longest network, or FB_PREFIX_NONE */
} fb_prefix_range;

/* Read-only once created. All zeros is a table without networks. */
typedef struct {
    fb_memory *memory;
    fb_prefix_range *ranges;
    size_t count, capacity;
} fb_prefix_table;

/* Create a table of networks. Networks of IPv6 that are shorter than ::ffff:0:0/96 do not contain
   IPv4 addresses. Of equal networks, the last one counts. `memory` must outlive the table.

   `outer` has one item per network, or is NULL. Each becomes the index of the longest network
   around that network, or FB_PREFIX_NONE. Items of equal networks but the last are unchanged.

   OK, NO_MEMORY. BAD_ARGUMENT: a network has more than 128 bits, or there are too many. */
fb_status fb_prefix_table_new(fb_prefix_table *table, const fb_prefix *prefixes, size_t count,
                              uint32_t *outer, fb_memory *memory);
void fb_prefix_table_free(fb_prefix_table *table);

/* Return the index of the longest network that contains an address, or FB_PREFIX_NONE. */
uint32_t fb_prefix_table_find(const fb_prefix_table *table, const uint8_t address[16]);

#endif
