/* A fault of the header is reported as soon as its bytes are there, before the message is complete.
 */
#include "core/decode/ipfix_stream.h"

fb_status fb_ipfix_stream_next(fb_bytes *stream, fb_bytes *message) {
    const uint8_t *p = stream->data;
    size_t size = stream->size;
    if (size >= 2 && fb_load16(p) != 10) return FB_UNSUPPORTED_VERSION;
    if (size < 4) return FB_MORE_INPUT;
    size_t length = fb_load16(p + 2);
    if (length < FB_IPFIX_HEADER_SIZE) return FB_BAD_HEADER;
    if (size < length) return FB_MORE_INPUT;
    *message = (fb_bytes){p, length};
    *stream = (fb_bytes){p + length, size - length};
    return FB_OK;
}
