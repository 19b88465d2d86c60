"""Messages of a flow schema in, values out."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from flowbuf._core.base cimport fault_of_stream, view_bytes
from flowbuf._core.core cimport *
from flowbuf._core.plan cimport Plan

from flowbuf.errors import DecodeError


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
