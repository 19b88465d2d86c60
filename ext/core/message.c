/* Fields of a message, messages of a stream. */
#include "message.h"

const uint8_t *fb_message_read_value(const uint8_t *p, const uint8_t *end, fb_message_field *field) {
    uint32_t word;
    switch (field->wire) {
        case FB_WIRE_VARINT: return fb_wire_read_varint(p, end, &field->value);
        case FB_WIRE_FIXED64: return fb_wire_read_fixed64(p, end, &field->value);
        case FB_WIRE_BYTES: return fb_wire_read_bytes(p, end, &field->bytes);
        case FB_WIRE_FIXED32:
            if (!(p = fb_wire_read_fixed32(p, end, &word))) return NULL;
            field->value = word;
            return p;
        default: return NULL;
    }
}

fb_status fb_message_next(fb_bytes *rest, fb_message_field *field) {
    const uint8_t *p = rest->data, *end = p + rest->size;
    uint64_t tag;
    if (p == end) return FB_END;
    if (!(p = fb_wire_read_varint(p, end, &tag)) || tag >> 3 == 0 || tag >> 3 > FB_NUMBER_MAX) return FB_BAD_MESSAGE;
    *field = (fb_message_field){.number = (uint32_t)(tag >> 3), .wire = (fb_wire_type)(tag & 7)};
    if (!(p = fb_message_read_value(p, end, field))) return FB_BAD_MESSAGE;
    *rest = (fb_bytes){p, (size_t)(end - p)};
    return FB_OK;
}

fb_status fb_stream_next(fb_bytes *rest, fb_bytes *message) {
    const uint8_t *p = rest->data, *end = p + rest->size;
    uint64_t size;
    if (p == end) return FB_END;
    if (!(p = fb_wire_read_varint(p, end, &size))) return rest->size < FB_VARINT_MAX ? FB_MORE_INPUT : FB_BAD_MESSAGE;
    if (size > (uint64_t)(end - p)) return size > INT32_MAX ? FB_BAD_MESSAGE : FB_MORE_INPUT;
    *message = (fb_bytes){p, (size_t)size};
    *rest = (fb_bytes){p + size, (size_t)(end - p) - (size_t)size};
    return FB_OK;
}
