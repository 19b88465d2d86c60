/* The codec of any record: what a message type is compiled to, and its fields read and written one by one.

   Nothing here knows where values come from or go to: who reads calls fb_codec_next until END and makes what it likes of each
   item; who writes calls fb_codec_put_… field by field, in the order of their numbers. What is accepted is what Protocol Buffers
   implementations accept: unknown fields are skipped, packed and unpacked elements both read, tags and lengths have five octets
   at most, and lengths are below 2 GiB. A field of number 0 is malformed, in a group that is skipped too, where some implementations do
   not look.

   A group is looked through to its end when it is met, and once more by whoever reads its fields: groups inside each other are
   looked through as often as they are deep, which is FB_CODEC_DEPTH times at most. */
#ifndef FB_CODEC_H
#define FB_CODEC_H

#include "core/wire/wire.h"

/* Messages inside each other, at most. Who reads or writes them counts; of groups, those inside the one that is met are counted
   here, too, whether they are known or not, on top of the reader's depth. */
#define FB_CODEC_DEPTH 100

/* Columns: constant, name, the wire type of one value. */
#define FB_PROTO_LIST(X) \
    X(BOOL, "bool", VARINT) \
    X(INT32, "int32", VARINT) \
    X(INT64, "int64", VARINT) \
    X(UINT32, "uint32", VARINT) \
    X(UINT64, "uint64", VARINT) \
    X(SINT32, "sint32", VARINT) \
    X(SINT64, "sint64", VARINT) \
    X(ENUM, "enum", VARINT) \
    X(FIXED32, "fixed32", FIXED32) \
    X(SFIXED32, "sfixed32", FIXED32) \
    X(FLOAT, "float", FIXED32) \
    X(FIXED64, "fixed64", FIXED64) \
    X(SFIXED64, "sfixed64", FIXED64) \
    X(DOUBLE, "double", FIXED64) \
    X(STRING, "string", BYTES) \
    X(BYTES, "bytes", BYTES) \
    X(MESSAGE, "message", BYTES) \
    X(GROUP, "group", START_GROUP)

typedef enum {
#define FB_X(constant, name, wire) FB_PROTO_##constant,
    FB_PROTO_LIST(FB_X)
#undef FB_X
    FB_PROTO_COUNT
} fb_proto_type;

/* "int32", as a .proto writes it. REQUIRES: type < FB_PROTO_COUNT. */
const char *fb_proto_name(int type);

enum { FB_WIRE_START_GROUP = 3, FB_WIRE_END_GROUP = 4 };

#define FB_CODEC_FIELDS UINT16_MAX /* of one message type, at most */

typedef struct fb_codec_message fb_codec_message;

typedef struct {
    uint64_t tag;      /* its octets, the first one lowest */
    uint32_t number;
    uint16_t quick;    /* its tag, where that is one octet and nothing but the value need be looked at; else no octet */
    uint8_t tag_size;
    uint8_t type;      /* fb_proto_type */
    uint8_t wire;      /* of one value */
    bool repeated;
    bool packed;       /* how it is written; both are read */
    bool presence;     /* zero is written too */
    bool required;
    uint16_t slot;     /* its place among the fields as they were declared */
    uint16_t oneof;    /* which of the message's oneofs it is of, from 1; 0: of none */
    int64_t least;     /* of integers: what is written is between them; of bytes: the sizes that they may have, if `most` is not 0 */
    uint64_t most;
    const int32_t *members; /* of a closed enum, in order: other numbers are unknown fields. NULL: of everything else */
    size_t member_count;
    const fb_codec_message *message; /* of a message, a group or the entries of a map */
} fb_codec_field;

struct fb_codec_message {
    fb_codec_field *fields; /* in the order of their numbers */
    size_t count;
    uint16_t *places;       /* of the fields with small numbers, from 1; 0: there is none */
    size_t place_count;
};

/* Fills in what follows from number, type, repeated, packed and members: tag, tag_size, quick and wire; packed becomes false
   where there is nothing to pack. BAD_ARGUMENT: number or type is out of range. */
fb_status fb_codec_field_finish(fb_codec_field *field);
/* Orders the fields by number. `places` has room for place_count numbers, of any content, and lives as long as the message.
   BAD_ARGUMENT: two have one number, or there are more than FB_CODEC_FIELDS. REQUIRES: each field is finished. */
fb_status fb_codec_message_finish(fb_codec_message *message, uint16_t *places, size_t place_count);

/* Reading -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    const fb_codec_message *message;
    const uint8_t *p, *end;
    const fb_codec_field *expected; /* the field that most probably comes next */
    size_t depth;                   /* of the messages that this one is in: 0, unless whoever reads says so after the beginning */
} fb_codec_reader;

typedef struct {
    const fb_codec_field *field; /* NULL: an unknown field, whose octets, with its tag, are in `bytes` */
    bool packed;                 /* `bytes` are the elements of a repeated scalar */
    uint64_t value;              /* of a scalar: as a number of its type, sign-extended; the bits of a float or double */
    fb_bytes bytes;              /* of a string, bytes, a message; the fields of a group, without its tags: a view of the input */
} fb_codec_item;

FB_INLINE void fb_codec_reader_begin(fb_codec_reader *reader, const fb_codec_message *message, fb_bytes octets) {
    reader->message = message;
    reader->p = octets.data;
    reader->end = octets.data + octets.size;
    reader->expected = message->count ? message->fields : NULL;
    reader->depth = 0;
}

FB_INLINE const fb_codec_field *fb_codec_field_after(const fb_codec_message *message, const fb_codec_field *field) {
    return ++field < message->fields + message->count ? field : NULL;
}

/* The slow way of fb_codec_next, for whatever is not the expected field. */
fb_status fb_codec_next_any(fb_codec_reader *reader, fb_codec_item *item);

/* What is wrong with the octets at reader->p, and the field that they are of, NULL where that is not known. REQUIRES: fb_codec_next has
   just said BAD_MESSAGE. */
const char *fb_codec_problem(const fb_codec_reader *reader, const fb_codec_field **field);

/* A number from the wire as a number of its type: what is too large loses its upper bits. */
FB_INLINE uint64_t fb_codec_number(const fb_codec_field *field, uint64_t value) {
    switch (field->type) {
        case FB_PROTO_BOOL: return value != 0;
        case FB_PROTO_INT32:
        case FB_PROTO_ENUM:
        case FB_PROTO_SFIXED32: return (uint64_t)(int64_t)(int32_t)(uint32_t)value;
        case FB_PROTO_UINT32: return (uint32_t)value;
        case FB_PROTO_SINT32: return (uint64_t)(int64_t)(int32_t)fb_wire_unzigzag((uint32_t)value);
        case FB_PROTO_SINT64: return (uint64_t)fb_wire_unzigzag(value);
        default: return value;
    }
}

/* Whether a field may have this number: any may, but of a closed enum. */
bool fb_codec_has_member(const fb_codec_field *field, uint64_t value);

/* The value of a scalar, without its tag; NULL: it is malformed. REQUIRES: the field is a scalar. */
FB_INLINE const uint8_t *fb_codec_read_scalar(const fb_codec_field *field, const uint8_t *p, const uint8_t *end, uint64_t *value) {
    uint32_t word;
    switch (field->wire) {
        case FB_WIRE_VARINT:
            if (FB_LIKELY(end - p >= FB_VARINT_MAX)) p = fb_wire_load_varint(p, value);
            else p = fb_wire_read_varint(p, end, value);
            if (p) *value = fb_codec_number(field, *value);
            return p;
        case FB_WIRE_FIXED64: return fb_wire_read_fixed64(p, end, value);
        default:
            if (!(p = fb_wire_read_fixed32(p, end, &word))) return NULL;
            *value = fb_codec_number(field, word);
            return p;
    }
}

/* Takes the next field. END; BAD_MESSAGE: reader->p is at the field that is malformed. Without OK nothing is in *item. */
FB_INLINE fb_status fb_codec_next(fb_codec_reader *reader, fb_codec_item *item) {
    const uint8_t *p = reader->p, *end = reader->end;
    const fb_codec_field *field = reader->expected;
    if (p == end) return FB_END;
    if (FB_UNLIKELY(!field || *p != field->quick)) return fb_codec_next_any(reader, item);
    p++;
    item->field = field;
    item->packed = false;
    if (field->wire == FB_WIRE_BYTES) {
        size_t size;
        if (FB_UNLIKELY(p == end || *p >= 0x80)) return fb_codec_next_any(reader, item);
        size = *p++;
        if (FB_UNLIKELY(size > (size_t)(end - p))) return FB_BAD_MESSAGE;
        item->bytes = (fb_bytes){p, size};
        p += size;
    } else if (FB_UNLIKELY(!(p = fb_codec_read_scalar(field, p, end, &item->value)))) {
        return FB_BAD_MESSAGE;
    }
    reader->p = p;
    if (!field->repeated) reader->expected = fb_codec_field_after(reader->message, field);
    return FB_OK;
}

/* Takes the next element off the `bytes` of a packed item. END; BAD_MESSAGE: *elements begins with the element that is malformed.
   Of a closed enum there may be others than members. */
FB_INLINE fb_status fb_codec_next_element(const fb_codec_field *field, fb_bytes *elements, uint64_t *value) {
    const uint8_t *p = elements->data, *end = p + elements->size;
    if (p == end) return FB_END;
    if (!(p = fb_codec_read_scalar(field, p, end, value))) return FB_BAD_MESSAGE;
    *elements = (fb_bytes){p, (size_t)(end - p)};
    return FB_OK;
}

/* Writing -------------------------------------------------------------------------------------------------------------- */

/* Octets that must be free at p for a call of any fb_codec_put_… but for the octets of strings and bytes: a tag, written as
   eight, and a varint. */
#define FB_CODEC_ROOM 24

FB_INLINE uint8_t *fb_codec_put_tag(uint8_t *p, const fb_codec_field *field) {
    fb_wire_put_fixed64(p, field->tag);
    return p + field->tag_size;
}

/* As fb_wire_put_varint, faster where the number of octets cannot be foreseen. REQUIRES: FB_VARINT_MAX octets. */
FB_INLINE uint8_t *fb_codec_put_varint(uint8_t *p, uint64_t value) {
    unsigned last;
    if (value < 0x80) {
        *p = (uint8_t)value;
        return p + 1;
    }
    if (FB_UNLIKELY(value >> 56)) return fb_wire_put_varint(p, value);
    fb_store64(p, fb_wire_short_varint(value, &last));
    return p + last / 8 + 1;
}

/* The value of a scalar without its tag: a number of its type, sign-extended, or the bits of a float or double. */
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

/* A scalar; none where it is zero and has no presence, which is for single fields alone: an element of a repeated field that is not
   packed is a tag and a value. REQUIRES: FB_CODEC_ROOM. */
FB_INLINE uint8_t *fb_codec_put_scalar(uint8_t *p, const fb_codec_field *field, uint64_t value) {
    if (!value && !field->presence) return p;
    return fb_codec_put_value(fb_codec_put_tag(p, field), field, value);
}

/* The tag and the length of what follows. REQUIRES: FB_CODEC_ROOM. */
FB_INLINE uint8_t *fb_codec_put_length(uint8_t *p, const fb_codec_field *field, size_t size) {
    return fb_wire_put_varint(fb_codec_put_tag(p, field), size);
}

/* Writes the length of the octets from `begin` to p in front of them, where one octet has been left for it, and returns the new end.
   REQUIRES: FB_VARINT_MAX octets at p; no more than INT32_MAX octets between them, or no reader takes them. */
FB_INLINE uint8_t *fb_codec_end_length(uint8_t *begin, uint8_t *p) {
    size_t size = (size_t)(p - begin), more = fb_wire_varint_size(size) - 1;
    if (FB_UNLIKELY(more)) memmove(begin + more, begin, size);
    fb_wire_put_varint(begin - 1, size);
    return p + more;
}

/* The tag that ends a group. REQUIRES: FB_CODEC_ROOM; the field is a group. */
FB_INLINE uint8_t *fb_codec_put_end_group(uint8_t *p, const fb_codec_field *field) {
    uint8_t *end = fb_codec_put_tag(p, field);
    *p = (uint8_t)(*p + FB_WIRE_END_GROUP - FB_WIRE_START_GROUP);
    return end;
}

#endif
