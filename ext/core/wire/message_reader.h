/* Read Protocol Buffers messages field by field. Every length is checked against the input before
   use. Views point into the input. */
#ifndef FB_WIRE_MESSAGE_READER_H
#define FB_WIRE_MESSAGE_READER_H

#include "core/wire/wire.h"

typedef struct {
    uint32_t number;
    fb_wire_type wire;
    uint64_t value; /* of a varint or a fixed-size field, as encoded */
    fb_bytes bytes; /* of a length-delimited field: a view of the message */
} fb_message_field;

/* Read the value of a field whose wire type is set. Return the position after it, or NULL if it is
   malformed. */
const uint8_t *fb_message_read_value(const uint8_t *p, const uint8_t *end, fb_message_field *field);

/* Remove the next field from *rest. OK. END: the message is complete. BAD_MESSAGE: the field is
   malformed and *rest stays in front of it. Groups are malformed in proto3. */
fb_status fb_message_next(fb_bytes *rest, fb_message_field *field);

/* Remove the next message from a length-delimited stream. OK. END: the stream is complete.
   MORE_INPUT: the stream ends inside the message. BAD_MESSAGE: the length is not a varint, or is
   beyond INT32_MAX. */
fb_status fb_stream_next_any(fb_bytes *rest, fb_bytes *message);

/* The same, without a call for lengths of one or two bytes. */
FB_INLINE fb_status fb_stream_next(fb_bytes *rest, fb_bytes *message) {
    if (FB_UNLIKELY(rest->size < 2)) return fb_stream_next_any(rest, message);
    const uint8_t *p = rest->data, *end = p + rest->size;
    size_t size = *p++;
    if (size >= 0x80) size = (size & 0x7f) | (size_t)*p++ << 7;
    if (FB_UNLIKELY(size >= 0x4000 || size > (size_t)(end - p)))
        return fb_stream_next_any(rest, message);
    *message = (fb_bytes){p, size};
    *rest = (fb_bytes){p + size, (size_t)(end - p) - size};
    return FB_OK;
}

/* Return the size of the first message as its length states it. 0: the length is not there as a
   whole. */
uint64_t fb_stream_length(fb_bytes stream);

/* Return the size of the whole messages at the start of a stream that together have at most `limit`
   bytes, length prefixes included. The first message may exceed the limit. *count becomes the
   number of messages. 0: the stream is empty or does not begin with a whole message. */
size_t fb_stream_cut(fb_bytes stream, size_t limit, size_t *count);

/* Field numbers of the columns that identify a conversation; 0 for a column that the schema
   lacks. */
typedef struct {
    uint32_t src_addr, dst_addr, src_port, dst_port, proto;
} fb_conversation;

/* Return a hash of these fields that is equal for both directions. Kafka messages use it as their
   key, which selects the partition, so it must never change. For a malformed message, the hash
   covers the fields before the fault. */
uint64_t fb_message_hash_conversation(fb_bytes message, const fb_conversation *numbers);

#endif
