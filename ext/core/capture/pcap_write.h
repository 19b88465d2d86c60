/* Writes pcap files (draft-ietf-opsawg-pcap):

       file header: magic (4), version (2+2), reserved (8), snaplen (4), link type (4)
       record:      seconds (4), fraction (4), captured length (4), original length (4), data

   Either byte order is allowed. Little-endian is used on all machines, so that files are identical.
   The functions write at `out` and return the next position. They do not check for room. */
#ifndef FB_CAPTURE_PCAP_WRITE_H
#define FB_CAPTURE_PCAP_WRITE_H

#include "core/base/base.h"

#define FB_PCAP_HEADER_SIZE        24u
#define FB_PCAP_RECORD_HEADER_SIZE 16u

/* Magic numbers, which set the unit of times. */
#define FB_PCAP_MICROSECONDS 0xa1b2c3d4u
#define FB_PCAP_NANOSECONDS  0xa1b23c4du

FB_INLINE uint8_t *fb_put_little32(uint8_t *out, uint32_t value) {
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(value >> 8 * i);
    return out + 4;
}

/* Write the header of a file. `link_type` is one of link.h. */
FB_INLINE uint8_t *fb_put_pcap_header(uint8_t *out, uint32_t magic, uint32_t link_type) {
    const uint32_t version_2_4 = 4 << 16 | 2, snap_length = 262144;
    out = fb_put_little32(fb_put_little32(out, magic), version_2_4);
    out = fb_put_little32(fb_put_little32(out, 0), 0); /* time zone, accuracy of times */
    return fb_put_little32(fb_put_little32(out, snap_length), link_type);
}

/* Write the header of a packet of `size` bytes, which follow. `time`: nanoseconds since 1970,
   before 2106. */
FB_INLINE uint8_t *fb_put_pcap_record_header(uint8_t *out, uint32_t magic, uint64_t time,
                                             size_t size) {
    uint64_t fraction = time % 1000000000;
    if (magic == FB_PCAP_MICROSECONDS) fraction /= 1000;
    out = fb_put_little32(out, (uint32_t)(time / 1000000000));
    out = fb_put_little32(out, (uint32_t)fraction);
    return fb_put_little32(fb_put_little32(out, (uint32_t)size), (uint32_t)size);
}

#endif
