/* The codec of Protocol Buffers objects: a compiled message type, whose fields are read and written
   one by one.

   This layer does not know the objects. A reader calls fb_codec_next until END and uses each item.
   A writer calls fb_codec_put_… (codec_write.h) for each field, in the order of field numbers.

   The input rules are those of other Protocol Buffers implementations. Unknown fields are skipped.
   Packed and unpacked elements are both read. Tags and lengths have at most five bytes, and lengths
   are below 2 GiB. A field of number 0 is malformed, also in a skipped group, which some
   implementations do not check.

   A group is scanned to its end when it is met, and again when its fields are read. So nested
   groups are scanned once per level, at most FB_CODEC_DEPTH times. */
#ifndef FB_CODEC_CODEC_H
#define FB_CODEC_CODEC_H

#include "core/wire/wire.h"

/* Most messages nested in each other. The caller counts the nesting of messages. When a group is
   met, the groups inside it, known or not, are counted on top of the reader's depth. */
#define FB_CODEC_DEPTH 100

/* Columns: constant, name, wire type of one value. */
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

/* Return the name of a type as in a .proto file, for example "int32". REQUIRES: type <
   FB_PROTO_COUNT. */
const char *fb_proto_name(int type);

enum { FB_WIRE_START_GROUP = 3, FB_WIRE_END_GROUP = 4 };

#define FB_CODEC_FIELDS UINT16_MAX /* most fields of a message type */

typedef struct fb_codec_message fb_codec_message;

typedef struct {
    uint64_t tag; /* its bytes, the first one lowest */
    uint32_t number;
    uint16_t quick; /* the tag of a one-byte field on the fast path; otherwise a value above 255 */
    uint8_t tag_size;
    uint8_t type; /* fb_proto_type */
    uint8_t wire; /* of one value */
    bool repeated;
    bool packed;   /* how it is written; both forms are read */
    bool presence; /* zero is written too */
    bool required;
    uint16_t slot;  /* its index among the declared fields */
    uint16_t oneof; /* number of its oneof in the message, from 1; 0: none */
    /* For integers, the range that may be written. For bytes, the two sizes that they may have, if
       `most` is not 0. */
    int64_t least;
    uint64_t most;
    /* sorted numbers of a closed enum, whose other numbers are unknown fields; otherwise NULL */
    const int32_t *members;
    size_t member_count;
    const fb_codec_message *message; /* of a message, a group or the entries of a map */
} fb_codec_field;

struct fb_codec_message {
    fb_codec_field *fields; /* sorted by number */
    size_t count;
    uint16_t *places; /* for small field numbers: index in `fields` plus 1; 0: no such field */
    size_t place_count;
};

/* Compute tag, tag_size, quick and wire from number, type, repeated, packed and members. `packed`
   becomes false if the field cannot be packed. BAD_ARGUMENT: number or type is out of range. */
fb_status fb_codec_field_finish(fb_codec_field *field);
/* Sort the fields by number and index them. `places` is uninitialized memory for place_count
   numbers and must live as long as the message. BAD_ARGUMENT: two fields have the same number,
   or there are more than FB_CODEC_FIELDS. REQUIRES: fb_codec_field_finish was called for each
   field. */
fb_status fb_codec_message_finish(fb_codec_message *message, uint16_t *places, size_t place_count);

/* Reading ------------------------------------------------------------------------------------ */

typedef struct {
    const fb_codec_message *message;
    const uint8_t *p, *end;
    const fb_codec_field *expected; /* the most likely next field */
    /* messages around this one; 0 unless the caller sets it after fb_codec_reader_begin */
    size_t depth;
} fb_codec_reader;

typedef struct {
    /* NULL: an unknown field, whose bytes with its tag are in `bytes` */
    const fb_codec_field *field;
    bool packed; /* `bytes` are the elements of a repeated scalar */
    /* of a scalar: a sign-extended number of its type, or the bits of a float or double */
    uint64_t value;
    /* A view of the input: a string, bytes or a message, or the content of a group without its
       tags. */
    fb_bytes bytes;
} fb_codec_item;

FB_INLINE bool fb_codec_is_message(const fb_codec_field *field) {
    return field->type == FB_PROTO_MESSAGE || field->type == FB_PROTO_GROUP;
}

FB_INLINE void fb_codec_reader_begin(fb_codec_reader *reader, const fb_codec_message *message,
                                     fb_bytes bytes) {
    reader->message = message;
    reader->p = bytes.data;
    reader->end = bytes.data + bytes.size;
    reader->expected = message->count ? message->fields : NULL;
    reader->depth = 0;
}

FB_INLINE const fb_codec_field *fb_codec_field_after(const fb_codec_message *message,
                                                     const fb_codec_field *field) {
    return ++field < message->fields + message->count ? field : NULL;
}

/* The slow path of fb_codec_next, for any field that is not the expected one. */
fb_status fb_codec_next_any(fb_codec_reader *reader, fb_codec_item *item);

/* Describe the problem at reader->p. *field is the field concerned, or NULL if it is unknown. The
   text is static. REQUIRES: the last call of fb_codec_next returned BAD_MESSAGE. */
const char *fb_codec_problem(const fb_codec_reader *reader, const fb_codec_field **field);

/* Convert a number from the wire to its type. Excess upper bits are dropped. */
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

/* Return true if a field may have this number. Only closed enums restrict it. */
bool fb_codec_has_member(const fb_codec_field *field, uint64_t value);

/* Return true if bytes are complete fields. `depth`: messages around them. */
bool fb_codec_are_fields(fb_bytes bytes, size_t depth);

/* Return true if a whole map entry is an unknown field, because its value is not in its closed
   enum. With `all`, an entry with any unknown field is too, as in google.protobuf: the map has no
   place for that field, and it would be lost. */
bool fb_codec_is_unknown_entry(const fb_codec_message *entry, fb_bytes bytes, bool all);

/* Read a google.protobuf.Timestamp or Duration. Both have the fields 1, seconds, and 2,
   nanoseconds; others are skipped, and absent ones leave their variable unchanged. `depth`:
   messages around it. Returns NULL, or a static text with the problem at *where. */
const char *fb_codec_read_time(fb_bytes bytes, size_t depth, int64_t *seconds, int32_t *nanoseconds,
                               const uint8_t **where);

/* Read the value of a scalar, without its tag. Returns NULL if it is malformed. REQUIRES: the field
   is a scalar. */
FB_INLINE const uint8_t *fb_codec_read_scalar(const fb_codec_field *field, const uint8_t *p,
                                              const uint8_t *end, uint64_t *value) {
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

/* Read the next field. END. BAD_MESSAGE: reader->p is at the malformed field. *item is valid only
   after OK. */
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

/* Take the next element from the `bytes` of a packed item. END. BAD_MESSAGE: *elements begins with
   the malformed element. Elements of a closed enum are not checked against its members. */
FB_INLINE fb_status fb_codec_next_element(const fb_codec_field *field, fb_bytes *elements,
                                          uint64_t *value) {
    const uint8_t *p = elements->data, *end = p + elements->size;
    if (p == end) return FB_END;
    if (!(p = fb_codec_read_scalar(field, p, end, value))) return FB_BAD_MESSAGE;
    *elements = (fb_bytes){p, (size_t)(end - p)};
    return FB_OK;
}

#endif
