/* Addresses as text. What is left over, a blank or a zone too, makes a text none. */
#ifndef FB_ADDRESS_TEXT_H
#define FB_ADDRESS_TEXT_H

#include "core/base/base.h"

/* An IPv6 address (RFC 4291 section 2.2: groups, `::`, the last two groups dotted), or an IPv4 address of four decimal numbers
   without leading zeros, which becomes ::ffff:a.b.c.d. */
bool fb_address_read(fb_bytes text, uint8_t address[16]);
/* A MAC address: six times two hexadecimal digits, with either `:` or `-` between them. */
bool fb_mac_read(fb_bytes text, uint64_t *mac);

#endif
