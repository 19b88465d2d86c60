"""Messages of a flow schema to values; streams of messages to Kafka records, and back."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from flowbuf._core.base cimport fault_of_stream, view_bytes
from flowbuf._core.core cimport *
from flowbuf._core.plan cimport Plan

from flowbuf.errors import DecodeError


# Iteration --------------------------------------------------------------------------------------------------

cdef class ListIterator:
    """Iterates over the items of lists that its method `_refill` returns, one after another; None is the end.

    An exception of `_refill` does not end the iteration.
    """

    cdef list items
    cdef Py_ssize_t place
    cdef bint busy

    def __iter__(self):
        return self

    def __next__(self):
        while self.items is None or self.place >= len(self.items):
            self._next_items()
        item = self.items[self.place]
        self.place += 1
        return item

    cdef int _next_items(self) except -1:
        cdef list items
        if self.busy:
            raise RuntimeError("the reader is in use by another thread, or by the class it decodes into")
        self.busy = True
        try:
            items = self._refill()
        except StopIteration as error:
            raise RuntimeError("StopIteration in a class or a source") from error
        finally:
            self.busy = False
        if items is None:
            raise StopIteration
        self.items = items
        self.place = 0
        return 0

    @property
    def _waiting(self):
        """Number of items that were not returned yet."""
        return len(self.items) - self.place if self.items is not None else 0

    def _clear(self):
        self.items = None


# Values -----------------------------------------------------------------------------------------------------

cdef class MessageReader:
    """Reads messages of a plan into dicts of values by column name. Counts fields that are not columns."""

    cdef Plan plan
    cdef dict columns
    cdef readonly uint64_t unknown_fields

    def __cinit__(self, Plan plan not None):
        plan.need_sealed()
        self.plan = plan
        self.columns = {plan.plan.columns[i].number: i for i in range(plan.plan.column_count)}

    def read_stream(self, const uint8_t[::1] data not None, bint final=True):
        """Read the complete messages at the start of length-delimited data.

        Returns (list of dicts, bytes consumed). Raises DecodeError with the offset of a malformed message,
        and of a truncated one if `final`.
        """
        cdef fb_bytes rest = view_bytes(data), message
        cdef fb_status status
        cdef const uint8_t *begin = rest.data
        messages = []
        while True:
            offset = rest.data - begin
            status = fb_stream_next(&rest, &message)
            if status == FB_OK:
                messages.append(self._read(message, offset))
            elif status == FB_END or (status == FB_MORE_INPUT and not final):
                return messages, offset
            else:
                raise fault_of_stream(offset, status)

    def read(self, const uint8_t[::1] message not None):
        """Read one bare message into a dict of its columns."""
        return self._read(view_bytes(message), 0)

    cdef dict _read(self, fb_bytes rest, size_t offset):
        cdef fb_message_field field
        cdef fb_status status
        cdef const uint8_t *begin = rest.data
        cdef dict values = {}
        while True:
            status = fb_message_next(&rest, &field)
            if status == FB_END:
                return values
            if status != FB_OK or not self._keep(values, &field):
                at = offset + (rest.data - begin)
                raise DecodeError(f"byte {at}: malformed field", status="bad_message", offset=at)

    cdef bint _keep(self, dict values, const fb_message_field *field) except -1:
        cdef object i = self.columns.get(field.number)
        cdef fb_column *column
        cdef fb_wire_type wire
        if i is None:
            self.unknown_fields += 1
            return True
        column = &self.plan.plan.columns[<size_t> i]
        wire = <fb_wire_type> column.wire
        name = self.plan.column_names[i]
        if not column.flags & FB_COLUMN_REPEATED:
            if field.wire != wire:
                return False
            values[name] = _value(column, field)
            return True
        if field.wire == wire:
            values.setdefault(name, []).append(_value(column, field))
            return True
        return field.wire == FB_WIRE_BYTES and _unpack(column, wire, field.bytes, values.setdefault(name, []))


cdef object _value(const fb_column *column, const fb_message_field *field):
    cdef double real
    cdef float narrow
    cdef uint32_t word
    if column.type == FB_TYPE_STRING:
        return field.bytes.data[:field.bytes.size].decode("utf-8", "replace")
    if column.type == FB_TYPE_BYTES or column.type == FB_TYPE_IP:
        return field.bytes.data[:field.bytes.size]
    if column.type == FB_TYPE_BOOL:
        return field.value != 0
    if column.type == FB_TYPE_SINT:
        return fb_wire_unzigzag(field.value)
    if column.type == FB_TYPE_INT or column.type == FB_TYPE_DURATION:
        return <int64_t> field.value
    if column.type == FB_TYPE_DOUBLE:
        memcpy(&real, &field.value, 8)
        return real
    if column.type == FB_TYPE_FLOAT:
        word = <uint32_t> field.value
        memcpy(&narrow, &word, 4)
        return narrow
    return field.value


cdef bint _unpack(const fb_column *column, fb_wire_type wire, fb_bytes packed, list values) except -1:
    """Append the elements of a packed repeated field to values. Return False if the field is malformed."""
    cdef fb_message_field element
    cdef const uint8_t *p = packed.data
    cdef const uint8_t *end = packed.data + packed.size
    element.wire = wire
    while p < end:
        p = fb_message_read_value(p, end, &element)
        if p == NULL:
            return False
        values.append(_value(column, &element))
    return True


# Streams ----------------------------------------------------------------------------------------------------

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


def whole_messages(const uint8_t[::1] stream not None):
    """Return (bytes, number) of the whole messages at the start of length-delimited data.

    Raises DecodeError if the data does not begin with a message, not even with a part of one.
    """
    cdef fb_bytes rest = view_bytes(stream), message
    cdef size_t count
    cdef size_t size = fb_stream_cut(rest, rest.size, &count)
    cdef fb_status status
    if size < rest.size:
        rest.data += size
        rest.size -= size
        status = fb_stream_next(&rest, &message)
        if status != FB_MORE_INPUT:
            raise fault_of_stream(size, status)
    return size, count


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
