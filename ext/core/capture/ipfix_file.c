/* The reader uses only the header of a message; the decoder checks its sets. The header is
   (RFC 7011 section 3.1):

       version (2) = 10, length (2), export time (4), sequence number (4), domain (4)

   A set begins with its id (2) and its length (2). */
#include "core/capture/ipfix_file.h"

enum {
    VERSION = 10,
    HEADER_SIZE = 16,
    SET_HEADER_SIZE = 4,
    TEMPLATE_SET = 2,
    OPTIONS_TEMPLATE_SET = 3,
    FIRST_DATA_SET = 256
};

static bool is_header(const uint8_t *p) {
    return fb_load16(p) == VERSION && fb_load16(p + 2) >= HEADER_SIZE;
}

static bool is_set(const uint8_t *p, size_t room) {
    uint16_t id = fb_load16(p), length = fb_load16(p + 2);
    bool known = id == TEMPLATE_SET || id == OPTIONS_TEMPLATE_SET || id >= FIRST_DATA_SET;
    return known && length >= SET_HEADER_SIZE && length <= room;
}

bool fb_ipfix_file_starts(const uint8_t *start) {
    if (!is_header(start)) return false;
    size_t length = fb_load16(start + 2);
    const uint8_t *next = start + HEADER_SIZE;
    return length == HEADER_SIZE ? is_header(next) : is_set(next, length - HEADER_SIZE);
}

fb_status fb_ipfix_file_read(fb_bytes input, size_t *size, fb_datagram *datagram) {
    if (input.size < HEADER_SIZE) return FB_MORE_INPUT;
    if (!is_header(input.data)) return FB_DAMAGED_CAPTURE;
    size_t length = fb_load16(input.data + 2);
    if (input.size < length) return FB_MORE_INPUT;
    memset(datagram, 0, sizeof *datagram);
    datagram->time = (uint64_t)fb_load32(input.data + 4) * 1000000000;
    datagram->payload = (fb_bytes){input.data, length};
    *size = length;
    return FB_OK;
}
