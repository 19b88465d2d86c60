/* Protocol Buffers messages, read field by field. Nothing is believed of a length before its octets are seen. */
#ifndef FB_MESSAGE_H
#define FB_MESSAGE_H

#include "core/wire/wire.h"

typedef struct {
    uint32_t number;
    fb_wire_type wire;
    uint64_t value; /* of a varint or a fixed-size field, as it stands on the wire */
    fb_bytes bytes; /* of a length-delimited field: a view of the message */
} fb_message_field;

/* Reads the value of a field whose wire type is known. Returns the position after it, NULL when it is malformed. */
const uint8_t *fb_message_read_value(const uint8_t *p, const uint8_t *end, fb_message_field *field);

/* Takes the next field off *rest. END; BAD_MESSAGE: *rest is at the field that is malformed (groups are, in proto3). */
fb_status fb_message_next(fb_bytes *rest, fb_message_field *field);

/* Takes the next message off a length-delimited stream. END; MORE_INPUT: the stream ends inside it; BAD_MESSAGE: its
   length is no varint. */
fb_status fb_stream_next(fb_bytes *rest, fb_bytes *message);

/* How many octets at the start of a stream are whole messages that together have no more than `limit`, their lengths included; the
   first one may have more. *count becomes their number. 0: the stream has ended, or does not begin with a whole message. */
size_t fb_stream_cut(fb_bytes stream, size_t limit, size_t *count);

/* The fields of a flow message that tell whose conversation it is: their numbers; 0 where there is none. */
typedef struct {
    uint32_t src_addr, dst_addr, src_port, dst_port, proto;
} fb_conversation;

/* A hash of these fields that is the same for both directions, and for ever: records of Kafka bear it as their key, and go to the
   partition that it names. Of a message that is malformed, it is that of the fields before. */
uint64_t fb_message_hash_conversation(fb_bytes message, const fb_conversation *numbers);

#endif
