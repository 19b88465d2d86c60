"""Parse Protocol Buffers messages by hand (the encoding page of the Protocol Buffers documentation).

`decode_message` returns a flow message as {column name: value}. The Python type depends on the logical type:
int for integers, MAC addresses, timestamps and enums; bool; float; str; bytes for `bytes` and `ip`; a list
for a repeated column. It is stricter than google.protobuf. An unknown field, a wrong wire type, a
non-repeated field that occurs twice and a zero that should be omitted are errors, because the encoder never
writes them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from .octets import Octets

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5

WIRE_TYPES = {
    "bool": VARINT,
    "uint8": VARINT,
    "uint16": VARINT,
    "uint32": VARINT,
    "uint64": VARINT,
    "int32": VARINT,
    "int64": VARINT,
    "sint32": VARINT,
    "sint64": VARINT,
    "mac": VARINT,
    "enum": VARINT,
    "timestamp": VARINT,
    "duration": VARINT,
    "fixed32": FIXED32,
    "float": FIXED32,
    "fixed64": FIXED64,
    "double": FIXED64,
    "string": LENGTH_DELIMITED,
    "bytes": LENGTH_DELIMITED,
    "ip": LENGTH_DELIMITED,
}

ZIGZAG = {"sint32", "sint64"}
TWOS_COMPLEMENT = {"int32", "int64", "enum", "duration"}


class MessageError(ValueError):
    """The bytes are not the message that the schema describes."""


def read_varint(octets: Octets) -> int:
    """Read a varint of at most ten bytes: seven bits per byte, the lowest first. The top bit means that more
    follow.
    """
    value = 0
    for index in range(10):
        octet = octets.u8()
        value |= (octet & 0x7F) << (7 * index)
        if not octet & 0x80:
            if value >= 1 << 64:
                raise MessageError("a varint above 64 bits")
            if index and not octet:
                raise MessageError("a varint longer than its value needs")
            return value
    raise MessageError("a varint of more than ten octets")


def split_delimited(data: bytes) -> list[bytes]:
    """Return the messages of a length-delimited stream."""
    octets = Octets(data)
    messages = []
    while octets.left:
        messages.append(octets.take(read_varint(octets)))
    return messages


def read_fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield (field number, wire type, value) of each field in the order of the message.

    A value that is not a varint is bytes.
    """
    octets = Octets(message)
    while octets.left:
        tag = read_varint(octets)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise MessageError("field number 0")
        if wire_type == VARINT:
            yield number, wire_type, read_varint(octets)
        elif wire_type == FIXED64:
            yield number, wire_type, octets.take(8)
        elif wire_type == FIXED32:
            yield number, wire_type, octets.take(4)
        elif wire_type == LENGTH_DELIMITED:
            yield number, wire_type, octets.take(read_varint(octets))
        else:
            raise MessageError(f"wire type {wire_type}")


def decode_scalar(logical_type: str, raw: int | bytes) -> Any:
    """Convert one field to the Python type of its column."""
    if isinstance(raw, int):
        if logical_type in ZIGZAG:
            return raw >> 1 ^ -(raw & 1)
        if logical_type in TWOS_COMPLEMENT and raw >> 63:
            return raw - (1 << 64)
        return bool(raw) if logical_type == "bool" else raw
    if logical_type == "float":
        return struct.unpack("<f", raw)[0]
    if logical_type == "double":
        return struct.unpack("<d", raw)[0]
    if logical_type in ("fixed32", "fixed64"):
        return int.from_bytes(raw, "little")
    return raw.decode("utf-8") if logical_type == "string" else raw


def decode_message(columns: dict[int, Any], message: bytes) -> dict[str, Any]:
    """Decode a message by the columns of its schema.

    `columns` maps field numbers to columns with `name`, `type`, `repeated`, `explicit`.
    """
    values: dict[str, Any] = {}
    for number, wire_type, raw in read_fields(message):
        column = columns.get(number)
        if column is None:
            raise MessageError(f"field {number} is not an enabled column")
        if wire_type != WIRE_TYPES[column.type]:
            raise MessageError(f"{column.name}: wire type {wire_type}")
        value = decode_scalar(column.type, raw)
        if column.repeated:
            values.setdefault(column.name, []).append(value)
            continue
        if column.name in values:
            raise MessageError(f"{column.name} occurs twice")
        if not value and not column.explicit:
            raise MessageError(f"{column.name}: a zero was written")
        values[column.name] = value
    return values
