"""Streams of messages to Kafka records, and back."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from flowbuf._core.base cimport fault_of_stream, view_bytes
from flowbuf._core.core cimport *


def count_messages(const uint8_t[::1] stream not None):
    """Return the number of messages of a length-delimited stream.

    Raises DecodeError if it is malformed or truncated.
    """
    cdef fb_bytes rest = view_bytes(stream), message
    cdef const uint8_t *begin = rest.data
    cdef fb_status status
    cdef size_t count = 0
    with nogil:
        status = fb_stream_next(&rest, &message)
        while status == FB_OK:
            count += 1
            status = fb_stream_next(&rest, &message)
    if status != FB_END:
        raise fault_of_stream(rest.data - begin, status)
    return count


def split_messages(const uint8_t[::1] stream not None, bytes prefix=None):
    """Split a length-delimited stream into its messages.

    Without `prefix`, each message keeps its length. Otherwise `prefix` replaces the length; b"" gives bare
    messages. Raises DecodeError if the stream is malformed or truncated.
    """
    cdef fb_bytes rest = view_bytes(stream), message
    cdef const uint8_t *begin = rest.data
    cdef const uint8_t *start
    cdef fb_status status
    cdef size_t before = PyBytes_GET_SIZE(prefix) if prefix is not None else 0
    cdef list messages = []
    cdef object piece
    while True:
        start = rest.data
        status = fb_stream_next(&rest, &message)
        if status != FB_OK:
            break
        if prefix is None:
            messages.append(PyBytes_FromStringAndSize(<const char *> start, rest.data - start))
        elif before == 0:
            messages.append(PyBytes_FromStringAndSize(<const char *> message.data, message.size))
        else:
            piece = PyBytes_FromStringAndSize(NULL, before + message.size)
            memcpy(PyBytes_AS_STRING(piece), PyBytes_AS_STRING(prefix), before)
            memcpy(PyBytes_AS_STRING(piece) + before, message.data, message.size)
            messages.append(piece)
    if status != FB_END:
        raise fault_of_stream(rest.data - begin, status)
    return messages


def cut_messages(const uint8_t[::1] stream not None, size_t limit, size_t first):
    """Cut a length-delimited stream into pieces of whole messages.

    Returns a list of (bytes, number of messages). The first piece has at most `first` bytes; it is empty if
    the first message is larger. Other pieces have at most `limit` bytes, or one larger message. Raises
    DecodeError if the stream is malformed or truncated.
    """
    cdef fb_bytes rest = view_bytes(stream), message
    cdef const uint8_t *begin = rest.data
    cdef size_t size, count
    cdef list pieces = []
    while rest.size:
        size = fb_stream_cut(rest, limit if pieces else first, &count)
        if size == 0:
            raise fault_of_stream(rest.data - begin, fb_stream_next(&rest, &message))
        if size > first and not pieces:
            pieces.append((b"", 0))
            continue
        pieces.append((PyBytes_FromStringAndSize(<const char *> rest.data, size), count))
        rest.data += size
        rest.size -= size
    return pieces


def join_messages(list messages not None, size_t skip=0):
    """Join bare messages into a length-delimited stream, without the first `skip` bytes of each."""
    cdef size_t size = 0
    cdef size_t length
    cdef uint8_t *p
    cdef bytes message
    for message in messages:
        if message is None:
            raise TypeError("a message is None, not bytes")
        length = PyBytes_GET_SIZE(message)
        if length < skip:
            raise ValueError(f"a message has {length} bytes, fewer than the {skip} bytes to skip")
        size += fb_wire_varint_size(length - skip) + length - skip
    stream = PyBytes_FromStringAndSize(NULL, size)
    p = <uint8_t *> PyBytes_AS_STRING(stream)
    for message in messages:
        length = PyBytes_GET_SIZE(message) - skip
        p = fb_wire_put_varint(p, length)
        memcpy(p, PyBytes_AS_STRING(message) + skip, length)
        p += length
    return stream


def hash_conversations(const uint8_t[::1] stream not None, *, uint32_t src_addr=0, uint32_t dst_addr=0,
                       uint32_t src_port=0,
                       uint32_t dst_port=0, uint32_t proto=0):
    """Return 8 bytes per message of a length-delimited stream, equal for both directions of its conversation.

    The arguments are the field numbers of the columns; 0 means that the message has no such column. A
    malformed stream raises no error: messages from the fault on have no hash.
    """
    cdef fb_bytes rest = view_bytes(stream), message
    cdef fb_conversation numbers
    cdef uint8_t content[8]
    cdef uint64_t hash
    cdef list hashes = []
    numbers.src_addr, numbers.dst_addr = src_addr, dst_addr
    numbers.src_port, numbers.dst_port, numbers.proto = src_port, dst_port, proto
    while fb_stream_next(&rest, &message) == FB_OK:
        hash = fb_message_hash_conversation(message, &numbers)
        for i in range(8):
            content[i] = (hash >> (56 - 8 * i)) & 0xff
        hashes.append(content[:8])
    return hashes
