/* Addresses as text. */
#ifndef FB_FORMAT_H
#define FB_FORMAT_H

#include "core/base/base.h"

enum { FB_FORMAT_ADDRESS_MAX = 39, FB_FORMAT_IPV4_MAX = 16, FB_FORMAT_MAC_MAX = 17, FB_FORMAT_NUMBER_MAX = 20 };

/* Each returns the position after the text, which has no end of its own. */

/* 16 octets, as RFC 5952 has them; IPv4-mapped ones as IPv4. REQUIRES: room for FB_FORMAT_ADDRESS_MAX octets; of those that are mapped,
   for FB_FORMAT_IPV4_MAX. */
char *fb_format_address(char *p, const uint8_t *address);
/* 48 bits as aa:bb:cc:dd:ee:ff. REQUIRES: room for FB_FORMAT_MAC_MAX octets. */
char *fb_format_mac(char *p, uint64_t mac);
/* REQUIRES: room for FB_FORMAT_NUMBER_MAX octets. */
char *fb_format_number(char *p, uint64_t number);

#endif
