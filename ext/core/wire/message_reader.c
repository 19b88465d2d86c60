/* A message is a run of fields and a stream is a run of messages: both are cut from the front of a
   view. */
#include "core/wire/message_reader.h"

const uint8_t *fb_message_read_value(const uint8_t *p, const uint8_t *end,
                                     fb_message_field *field) {
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
    if (!(p = fb_wire_read_varint(p, end, &tag)) || tag >> 3 == 0 || tag >> 3 > FB_NUMBER_MAX)
        return FB_BAD_MESSAGE;
    *field = (fb_message_field){.number = (uint32_t)(tag >> 3), .wire = (fb_wire_type)(tag & 7)};
    if (!(p = fb_message_read_value(p, end, field))) return FB_BAD_MESSAGE;
    *rest = (fb_bytes){p, (size_t)(end - p)};
    return FB_OK;
}

fb_status fb_stream_next_any(fb_bytes *rest, fb_bytes *message) {
    const uint8_t *p = rest->data, *end = p + rest->size;
    uint64_t size;
    if (p == end) return FB_END;
    if (!(p = fb_wire_read_varint(p, end, &size)))
        return rest->size < FB_VARINT_MAX ? FB_MORE_INPUT : FB_BAD_MESSAGE;
    if (size > (uint64_t)(end - p)) return size > INT32_MAX ? FB_BAD_MESSAGE : FB_MORE_INPUT;
    *message = (fb_bytes){p, (size_t)size};
    *rest = (fb_bytes){p + size, (size_t)(end - p) - (size_t)size};
    return FB_OK;
}

uint64_t fb_stream_length(fb_bytes stream) {
    uint64_t size;
    return fb_wire_read_varint(stream.data, stream.data + stream.size, &size) ? size : 0;
}

size_t fb_stream_cut(fb_bytes stream, size_t limit, size_t *count) {
    fb_bytes rest = stream, message;
    size_t size = 0;
    *count = 0;
    while (fb_stream_next(&rest, &message) == FB_OK) {
        size_t taken = stream.size - rest.size;
        if (taken > limit && *count) break;
        size = taken;
        ++*count;
    }
    return size;
}

static uint64_t hash_bytes(uint64_t hash, fb_bytes bytes) {
    uint8_t padded[16] = {0};
    memcpy(padded, bytes.data, bytes.size < sizeof padded ? bytes.size : sizeof padded);
    return fb_hash(fb_hash(hash, fb_load64(padded)), fb_load64(padded + 8));
}

/* Both endpoints are hashed alike and added, so their order does not matter. */
uint64_t fb_message_hash_conversation(fb_bytes message, const fb_conversation *numbers) {
    fb_message_field field;
    uint64_t addresses[2] = {0}, ports[2] = {0}, proto = 0;
    while (fb_message_next(&message, &field) == FB_OK) {
        if (field.wire == FB_WIRE_BYTES) {
            if (field.number == numbers->src_addr) addresses[0] = hash_bytes(1, field.bytes);
            else if (field.number == numbers->dst_addr) addresses[1] = hash_bytes(1, field.bytes);
        } else if (field.number == numbers->src_port) {
            ports[0] = field.value;
        } else if (field.number == numbers->dst_port) {
            ports[1] = field.value;
        } else if (field.number == numbers->proto) {
            proto = field.value;
        }
    }
    return fb_hash(fb_hash(addresses[0], ports[0]) + fb_hash(addresses[1], ports[1]), proto);
}
