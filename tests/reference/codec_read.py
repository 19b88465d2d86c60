"""The decoder of the codec's reference."""

from __future__ import annotations

import struct
from datetime import datetime, timedelta
from typing import Any

from flowbuf.codec.model import DURATION, TIMESTAMP, Field, Message

from .codec_rules import (
    BILLION,
    BYTES,
    END_GROUP,
    EPOCH,
    FIXED,
    FIXED32,
    FIXED64,
    START_GROUP,
    VARINT,
    WIRE_TYPES,
    CodecError,
    check_depth,
    has_member,
    in_range,
    inner_type,
)
from .octets import Octets

Fields = list[tuple[int, int, Any]]
"""Number, wire type and value of each field: an int for a varint, a list of fields for a group, else
bytes.
"""


class Reader:
    """Decode messages. Fields are collected first and converted to objects at the end."""

    def __init__(self, times: str) -> None:
        self.times = times

    def read(self, message: Message, data: bytes) -> dict[str, Any]:
        record: dict[str, Any] = self.finish(message, self.merge(message, {}, data, 0))
        return record

    def merge(
        self, message: Message, values: dict[str, Any], content: bytes | Fields, depth: int
    ) -> dict[str, Any]:
        """Add the fields of a message part to `values`, which may have fields of earlier parts.

        Values of a single nested message are collected in a dict inside `values`.
        """
        by_number = {field.number: field for field in message}
        for number, wire, raw in split(content, depth) if isinstance(content, bytes) else content:
            field = by_number.get(number)
            if field is None or not suits(field, wire):
                continue  # an unknown field
            if field.map:
                self.add_entry(field, values.setdefault(field.name, {}), raw, depth + 1)
            elif field.repeated:
                values.setdefault(field.name, []).extend(self.read_elements(field, wire, raw, depth))
            elif field.message is not None:
                self.drop_others(message, field, values)
                inner = values.setdefault(field.name, {})
                self.merge(inner_type(field.message), inner, raw, depth + 1)
            elif has_member(field, value := read_scalar(field, raw)):
                self.drop_others(message, field, values)
                values[field.name] = value
        return values

    def read_elements(self, field: Field, wire: int, raw: Any, depth: int) -> list[Any]:
        if field.message is not None:
            return [self.finish(field.message, self.merge(inner_type(field.message), {}, raw, depth + 1))]
        packed = wire != WIRE_TYPES[field.type]
        elements = [read_scalar(field, each) for each in (unpack(field, raw) if packed else [raw])]
        return [each for each in elements if has_member(field, each)]

    def add_entry(self, field: Field, entries: dict[Any, Any], raw: bytes, depth: int) -> None:
        """Add an entry of a map: a message of `key` and `value`, both of which may be missing."""
        assert field.message is not None
        key, value = field.message.fields
        content = split(raw, depth)
        entry = self.merge(field.message, {}, content, depth)
        numbers = [each for number, wire, each in content if (number, wire) == (value.number, VARINT)]
        if value.closed and not all(has_member(value, read_scalar(value, each)) for each in numbers):
            return
        if value.message is not None:
            entry.setdefault(value.name, {})
        entry = self.finish(field.message, entry)
        entries[entry[key.name]] = entry[value.name]

    def drop_others(self, message: Message, field: Field, values: dict[str, Any]) -> None:
        """Drop earlier fields of the same oneof, because the last one applies. They must still be valid."""
        for other in message:
            if field.oneof and other.oneof == field.oneof and other is not field and other.name in values:
                dropped = values.pop(other.name)
                if other.message is not None:
                    self.finish(other.message, dropped)

    def finish(self, message: Message, values: dict[str, Any]) -> Any:
        """Return all fields in the order of their declaration, absent ones included; or a time."""
        if message.name in (TIMESTAMP, DURATION):
            return self.make_time(message.name, values.get("seconds", 0), values.get("nanos", 0))
        record = {}
        for field in message:
            absent = {} if field.map else [] if field.repeated else field.absent
            value = values.get(field.name, absent)
            if field.message is not None and not field.repeated and value is not None:
                value = self.finish(field.message, value)
            record[field.name] = value
        return record

    def make_time(self, name: str, seconds: int, nanoseconds: int) -> int | datetime | timedelta:
        if self.times == "ns":
            return seconds * BILLION + nanoseconds
        if not in_range(name, seconds, nanoseconds):
            raise CodecError("a time out of range")
        span = timedelta(seconds=seconds, microseconds=int(nanoseconds / 1000))  # towards 0
        return EPOCH + span if name == TIMESTAMP else span


def read_varint(octets: Octets, most: int = 10) -> int:
    value = 0
    for index in range(most):
        octet = octets.u8()
        value |= (octet & 0x7F) << (7 * index)
        if octet < 0x80:
            return value % (1 << 64)
    raise CodecError(f"a varint of more than {most} octets")


def split(data: bytes, depth: int) -> Fields:
    octets = Octets(data)
    fields, end = read_fields(octets, depth)
    if end is not None:
        raise CodecError("the end of a group that has not begun")
    return fields


def read_fields(octets: Octets, depth: int) -> tuple[Fields, int | None]:
    """Return the fields up to the end, or up to the end of a group with the number of that group."""
    check_depth(depth)
    fields: Fields = []
    while octets.left:
        tag = read_varint(octets, 5)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29:
            raise CodecError(f"the number {number}")
        if wire == END_GROUP:
            return fields, number
        fields.append((number, wire, read_raw(octets, number, wire, depth)))
    return fields, None


def read_raw(octets: Octets, number: int, wire: int, depth: int) -> int | bytes | Fields:
    if wire == VARINT:
        return read_varint(octets)
    if wire == BYTES:
        return octets.take(read_varint(octets, 5))
    if wire == START_GROUP:
        fields, end = read_fields(octets, depth + 1)
        if end != number:
            raise CodecError("a group without its end")
        return fields
    if wire not in (FIXED32, FIXED64):
        raise CodecError(f"wire type {wire}")
    return octets.take(4 if wire == FIXED32 else 8)


def suits(field: Field, wire: int) -> bool:
    """Return whether a field accepts this wire type. Repeated numbers may be packed or not, as in
    google.protobuf.
    """
    own = WIRE_TYPES[field.type]
    return wire == own or (wire == BYTES and field.repeated and own in (VARINT, FIXED32, FIXED64))


def unpack(field: Field, data: bytes) -> list[int | bytes]:
    octets, elements = Octets(data), []
    while octets.left:
        elements.append(read_raw(octets, field.number, WIRE_TYPES[field.type], 0))
    return elements


def read_scalar(field: Field, raw: Any) -> Any:
    """Convert a scalar. Numbers that are too wide for their type lose their upper bits."""
    if field.type == "string":
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise CodecError("a string that is not UTF-8") from None
    if field.type == "bytes":
        return raw
    if field.type in FIXED:
        return struct.unpack(FIXED[field.type], raw)[0]
    if field.type == "bool":
        return raw != 0
    bits = 64 if field.type.endswith("64") else 32
    raw %= 1 << bits
    if field.type in ("sint32", "sint64"):
        return raw >> 1 ^ -(raw & 1)
    signed = field.type in ("int32", "int64", "enum")
    return raw - (1 << bits) if signed and raw >> (bits - 1) else raw
