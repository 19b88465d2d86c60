"""Primitives of the wire format, and rows built by hand, for learning and for tests."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from flowbuf._core.base cimport Buffer, check
from flowbuf._core.core cimport *
from flowbuf._core.plan cimport Plan, is_signed, override_deferred

from operator import index

from flowbuf.errors import DecodeError, EncodeError


def tag(uint32_t number, int wire_type):
    """Encode the tag of a field.

    Args:
        number: Field number, 1 to 536,870,911.
        wire_type: 0 (varint), 1 (64 bits), 2 (length-delimited) or 5 (32 bits).

    Returns:
        bytes: the tag, 1 to 5 bytes.

    Raises:
        ValueError: the number or the wire type is invalid.

    Example:
        >>> tag(4, 0).hex()
        '20'
    """
    if not 1 <= number <= FB_NUMBER_MAX or wire_type not in (0, 1, 2, 5):
        fix = f"use numbers 1 to {FB_NUMBER_MAX}, and wire types 0, 1, 2 and 5"
        raise ValueError(f"field number {number} and wire type {wire_type} make no tag; {fix}")
    return varint(fb_wire_tag(number, <fb_wire_type> wire_type))


def varint(uint64_t value):
    """Encode an unsigned integer as a varint.

    A varint has seven bits per byte, least significant first.

    Args:
        value: Integer from 0 to 2**64 - 1.

    Returns:
        bytes: the varint, 1 to 10 bytes.

    Example:
        >>> varint(300).hex()
        'ac02'
    """
    cdef uint8_t content[FB_VARINT_MAX]
    return PyBytes_FromStringAndSize(<char *> content, fb_wire_put_varint(content, value) - content)


def read_varint(const uint8_t[::1] data not None, Py_ssize_t offset=0):
    """Decode a varint.

    Args:
        data: Bytes or another buffer.
        offset: Position of the varint. Default: 0.

    Returns:
        tuple: the value, and the position after the varint.

    Raises:
        DecodeError: the varint is truncated, or longer than 10 bytes.
    """
    cdef uint64_t value
    cdef const uint8_t *p
    if not 0 <= offset < data.shape[0]:
        raise DecodeError("the varint is missing; the data ends before it", status="bad_message",
                          offset=offset)
    p = fb_wire_read_varint(&data[0] + offset, &data[0] + data.shape[0], &value)
    if not p:
        raise DecodeError("the varint is cut short or longer than 10 bytes", status="bad_message",
                          offset=offset)
    return value, p - &data[0]


def zigzag(int64_t value):
    """Encode a signed integer as an unsigned one that is small if its magnitude is small.

    Args:
        value: Integer from -2**63 to 2**63 - 1.

    Returns:
        int: 0, -1, 1, -2 become 0, 1, 2, 3.
    """
    return fb_wire_zigzag(value)


def unzigzag(uint64_t value):
    """Decode an integer encoded by `zigzag`.

    Args:
        value: Integer from 0 to 2**64 - 1.

    Returns:
        int: the signed integer.
    """
    return fb_wire_unzigzag(value)


def fixed32(uint32_t value):
    """Encode an unsigned integer of 32 bits as four bytes, least significant first."""
    cdef uint8_t content[4]
    fb_wire_put_fixed32(content, value)
    return PyBytes_FromStringAndSize(<char *> content, 4)


def fixed64(uint64_t value):
    """Encode an unsigned integer of 64 bits as eight bytes, least significant first."""
    cdef uint8_t content[8]
    fb_wire_put_fixed64(content, value)
    return PyBytes_FromStringAndSize(<char *> content, 8)


@cython.no_gc_clear  # __dealloc__ needs the plan to free the objects made by it
cdef class Row:
    """Builds messages value by value, with the same C code as the decoders."""

    cdef Plan plan
    cdef fb_memory memory
    cdef fb_row row
    cdef Buffer output
    cdef list values  # (column, rank, value); a value is an int, a float or bytes, by the type of its column

    def __cinit__(self, Plan plan not None, size_t capacity=256):
        plan.need_sealed()
        self.plan = plan
        self.memory = fb_memory_system(0)
        self.output = Buffer(capacity)
        self.values = []
        check(fb_row_new(&self.row, plan.plan, &self.memory))
        self.output.give(&self.row, 0)

    def __dealloc__(self):
        fb_row_free(&self.row)

    def append(self, str column not None, value, unsigned rank=0):
        """Add a value to the current message.

        Zeros, values of disabled columns, and further values of a column that takes only one are skipped. A
        repeated integer column takes every value. An `explicit` column takes zero too.

        Args:
            column: Name of the column.
            value: int, float, str, or bytes (also for addresses, 4 or 16 bytes).
            rank: Rank of the source of the value; 0 is the best. Default: 0.

        Returns:
            The row itself, so that calls can be chained.

        Raises:
            KeyError: the schema has no such column.
            EncodeError: the value does not fit the column.
        """
        cdef uint16_t i = <uint16_t> self.plan.index(column)
        self.values.append((i, rank, _fit(&self.plan.plan.columns[i], column, value)))
        return self

    def undo(self):
        """Discard the current message."""
        self.values.clear()

    def finish(self, dict override not None={}):
        """End the current message.

        Args:
            override: Values of late columns, by column name. They replace the values added before. Default:
                none.

        Raises:
            EncodeError: a value does not fit its column.
            ValueError: an overridden column is disabled or not late.
        """
        cdef fb_row_cursor at
        cdef size_t max_size = self.plan.plan.max_fixed_size
        try:
            for name, value in override.items():
                override_deferred(&self.row.deferred, self.plan, name, value)
            for column, rank, value in self.values:
                max_size += self.plan.plan.max_size_per_byte * (len(value) if isinstance(value, bytes) else 8)
            fb_row_begin_constants(&self.row, &at)
            fb_row_end_constants(&self.row, at)
            while not fb_row_begin(&self.row, max_size, &at):
                self.output.grow(&self.row, max_size)
            for column, rank, value in self.values:
                self._put(&at, column, rank, value)
            fb_row_finish(&self.row, at)
        finally:
            fb_deferred_values_clear_overrides(&self.row.deferred)
            self.values.clear()

    cdef int _put(self, fb_row_cursor *at, uint16_t column, unsigned rank, object value) except -1:
        cdef fb_column *c = &self.plan.plan.columns[column]
        cdef fb_target target
        cdef bytes content
        target.column = column
        target.rank = <uint8_t> rank
        target.kind = 0
        if isinstance(value, bytes):
            content = value
            if c.type == FB_TYPE_IP:
                fb_row_put_ip(&self.row, at, target, <const uint8_t *> PyBytes_AS_STRING(content),
                              len(content))
            else:
                fb_row_put_bytes(&self.row, at, target, <const uint8_t *> PyBytes_AS_STRING(content),
                                 len(content))
        elif isinstance(value, float):
            fb_row_put_real(&self.row, at, target, value)
        elif is_signed(c):
            fb_row_put_int(&self.row, at, target, value)
        elif c.flags & FB_COLUMN_REPEATED:
            fb_row_repeat_uint(&self.row, at, target, value)
        else:
            fb_row_put_uint(&self.row, at, target, value)
        return 0

    def __bytes__(self):
        """Return the finished messages, each after its length as a varint."""
        return self.output.copy(&self.row)


cdef object _fit(const fb_column *column, str name, object value):
    """Return the value in the type of its column: bytes, float or int.

    Raises EncodeError if it does not fit.
    """
    try:
        if column.type == FB_TYPE_STRING:
            return value.encode() if isinstance(value, str) else bytes(memoryview(value))
        if column.type == FB_TYPE_BYTES or column.type == FB_TYPE_IP:
            content = bytes(memoryview(value))
            if column.type == FB_TYPE_BYTES or len(content) in (4, 16):
                return content
            raise ValueError("an address has 4 or 16 bytes")
        if column.type == FB_TYPE_FLOAT or column.type == FB_TYPE_DOUBLE:
            return float(value)
        number = index(value)
        if (-<object> column.limit - 1 if is_signed(column) else 0) <= number <= column.limit:
            return int(number)
    except (TypeError, ValueError) as error:
        raise EncodeError(f"column {name!r} cannot hold {value!r}: {error}") from None
    raise EncodeError(f"column {name!r} cannot hold {value!r}")
