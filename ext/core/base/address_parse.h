/* Parse addresses from text. The whole text must be the address: trailing bytes, blanks and IPv6
   zones make it invalid. Each function returns false for invalid text, and the output is then
   undefined. */
#ifndef FB_BASE_ADDRESS_PARSE_H
#define FB_BASE_ADDRESS_PARSE_H

#include "core/base/base.h"

/* Parse an IPv6 address (RFC 4291 section 2.2: groups, `::`, the last two groups dotted) or an IPv4
   address. An IPv4 address has four decimal numbers without leading zeros and becomes
   ::ffff:a.b.c.d. */
bool fb_address_read(fb_bytes text, uint8_t address[16]);
/* Parse a MAC address: six pairs of hexadecimal digits, separated by either `:` or `-`. */
bool fb_mac_read(fb_bytes text, uint64_t *mac);

#endif
