/* Format addresses and numbers as text. The caller owns the output buffer. */
#ifndef FB_BASE_ADDRESS_FORMAT_H
#define FB_BASE_ADDRESS_FORMAT_H

#include "core/base/base.h"

enum {
    FB_FORMAT_ADDRESS_MAX = 39,
    FB_FORMAT_IPV4_MAX = 16,
    FB_FORMAT_MAC_MAX = 17,
    FB_FORMAT_NUMBER_MAX = 20
};

/* Each function returns the position after the text. The text has no terminating NUL. */

/* Write an address of 16 bytes in the form of RFC 5952. An IPv4-mapped address is written as IPv4.
   REQUIRES: room for FB_FORMAT_ADDRESS_MAX bytes; for FB_FORMAT_IPV4_MAX if the address is
   IPv4-mapped. */
char *fb_format_address(char *p, const uint8_t *address);
/* Write a MAC address of 48 bits as aa:bb:cc:dd:ee:ff. REQUIRES: room for FB_FORMAT_MAC_MAX
   bytes. */
char *fb_format_mac(char *p, uint64_t mac);
/* Write a decimal number. The bytes behind it, up to FB_FORMAT_NUMBER_MAX, become zeros. REQUIRES:
   room for FB_FORMAT_NUMBER_MAX bytes. */
char *fb_format_number(char *p, uint64_t number);

#endif
