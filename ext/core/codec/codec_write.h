/* Write the fields of Protocol Buffers objects, in the order of field numbers. */
#ifndef FB_CODEC_CODEC_WRITE_H
#define FB_CODEC_CODEC_WRITE_H

#include "core/codec/codec.h"

/* Room in bytes that every fb_codec_put_… call requires at p, without the content of strings and
   bytes. It covers a tag, written as eight bytes, and a varint. */
#define FB_CODEC_ROOM 24

FB_INLINE uint8_t *fb_codec_put_tag(uint8_t *p, const fb_codec_field *field) {
    fb_wire_put_fixed64(p, field->tag);
    return p + field->tag_size;
}

/* Like fb_wire_put_varint, but faster if sizes are unpredictable. REQUIRES: room for FB_VARINT_MAX
   bytes. */
FB_INLINE uint8_t *fb_codec_put_varint(uint8_t *p, uint64_t value) {
    size_t size;
    if (value < 0x80) {
        *p = (uint8_t)value;
        return p + 1;
    }
    if (FB_UNLIKELY(value >> 56)) return fb_wire_put_varint(p, value);
    fb_store64(p, fb_wire_short_varint(value, &size));
    return p + size;
}

/* Write the value of a scalar without its tag: a sign-extended number of its type, or the bits of a
   float or double. */
FB_INLINE uint8_t *fb_codec_put_value(uint8_t *p, const fb_codec_field *field, uint64_t value) {
    switch (field->type) {
        case FB_PROTO_SINT32:
        case FB_PROTO_SINT64: return fb_codec_put_varint(p, fb_wire_zigzag((int64_t)value));
        case FB_PROTO_FIXED32:
        case FB_PROTO_SFIXED32:
        case FB_PROTO_FLOAT: return fb_wire_put_fixed32(p, (uint32_t)value);
        case FB_PROTO_FIXED64:
        case FB_PROTO_SFIXED64:
        case FB_PROTO_DOUBLE: return fb_wire_put_fixed64(p, value);
        default: return fb_codec_put_varint(p, value);
    }
}

/* Write a scalar, or nothing if it is zero and the field has no presence. An unpacked element of
   a repeated field is written with fb_codec_put_tag and fb_codec_put_value. REQUIRES:
   FB_CODEC_ROOM. */
FB_INLINE uint8_t *fb_codec_put_scalar(uint8_t *p, const fb_codec_field *field, uint64_t value) {
    if (!value && !field->presence) return p;
    return fb_codec_put_value(fb_codec_put_tag(p, field), field, value);
}

/* The same for the bits of a double, whose type the compiler knows here. */
FB_INLINE uint8_t *fb_codec_put_double(uint8_t *p, const fb_codec_field *field, uint64_t bits) {
    if (!bits && !field->presence) return p;
    return fb_wire_put_fixed64(fb_codec_put_tag(p, field), bits);
}

/* Write the tag and the length of the bytes that follow. REQUIRES: FB_CODEC_ROOM. */
FB_INLINE uint8_t *fb_codec_put_length(uint8_t *p, const fb_codec_field *field, size_t size) {
    return fb_wire_put_varint(fb_codec_put_tag(p, field), size);
}

/* Write a string or bytes. REQUIRES: FB_CODEC_ROOM and `size` more bytes. */
FB_INLINE uint8_t *fb_codec_put_bytes(uint8_t *p, const fb_codec_field *field, const void *data,
                                      size_t size) {
    return fb_wire_put_bytes(fb_codec_put_length(p, field, size), data, size);
}

/* Write a short string or bytes. REQUIRES: FB_CODEC_ROOM and 0x80 more bytes; size < 0x80. */
FB_INLINE uint8_t *fb_codec_put_few_bytes(uint8_t *p, const fb_codec_field *field, const void *data,
                                          size_t size) {
    p = fb_codec_put_tag(p, field);
    *p++ = (uint8_t)size;
    return fb_wire_put_few_bytes(p, data, size);
}

/* Write a number of a packed field as a field of its own. REQUIRES: FB_CODEC_ROOM; the field is an
   integer or an enum. */
FB_INLINE uint8_t *fb_codec_put_unpacked(uint8_t *p, const fb_codec_field *field, uint64_t value) {
    return fb_wire_put_varint(fb_wire_put_varint(p, fb_wire_tag(field->number, FB_WIRE_VARINT)),
                              value);
}

/* Most bytes of a Timestamp or Duration, without its own tags and length. */
#define FB_CODEC_TIME_MAX (2 * (1 + FB_VARINT_MAX))

/* Write a google.protobuf.Timestamp or Duration. REQUIRES: 2 * FB_CODEC_ROOM + FB_CODEC_TIME_MAX
   bytes. */
uint8_t *fb_codec_put_time(uint8_t *p, const fb_codec_field *field, int64_t seconds,
                           int32_t nanoseconds);

/* Leave space for a length. fb_codec_end_length writes it. */
FB_INLINE uint8_t *fb_codec_begin_length(uint8_t *p) {
    return p + 1;
}

/* Write the length of the bytes from `begin` to p in front of them, and return the new end.
   REQUIRES: `begin` is from fb_codec_begin_length; room for FB_VARINT_MAX bytes at p; at most
   INT32_MAX bytes, the limit of readers. */
FB_INLINE uint8_t *fb_codec_end_length(uint8_t *begin, uint8_t *p) {
    size_t size = (size_t)(p - begin), more = fb_wire_varint_size(size) - 1;
    if (FB_UNLIKELY(more)) memmove(begin + more, begin, size);
    fb_wire_put_varint(begin - 1, size);
    return p + more;
}

/* Write the tag that ends a group. REQUIRES: FB_CODEC_ROOM; the field is a group. */
FB_INLINE uint8_t *fb_codec_put_end_group(uint8_t *p, const fb_codec_field *field) {
    uint8_t *end = fb_codec_put_tag(p, field);
    *p = (uint8_t)(*p + FB_WIRE_END_GROUP - FB_WIRE_START_GROUP);
    return end;
}

#endif
