/* The fields of a Timestamp or Duration. */
#include "core/codec/codec_write.h"

static uint8_t *put_part(uint8_t *p, uint32_t number, int64_t value) {
    if (!value) return p;
    *p++ = (uint8_t)fb_wire_tag(number, FB_WIRE_VARINT);
    return fb_wire_put_varint(p, (uint64_t)value);
}

uint8_t *fb_codec_put_time(uint8_t *p, const fb_codec_field *field, int64_t seconds,
                           int32_t nanoseconds) {
    uint8_t bytes[FB_CODEC_TIME_MAX];
    size_t size = (size_t)(put_part(put_part(bytes, 1, seconds), 2, nanoseconds) - bytes);
    if (field->type != FB_PROTO_GROUP) return fb_codec_put_bytes(p, field, bytes, size);
    return fb_codec_put_end_group(fb_wire_put_bytes(fb_codec_put_tag(p, field), bytes, size),
                                  field);
}
