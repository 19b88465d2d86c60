"""The encoder of the codec's reference."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from flowbuf.codec.model import DURATION, TIMESTAMP, Field, Message

from .codec_rules import (
    BILLION,
    BYTES,
    END_GROUP,
    EPOCH,
    FIXED,
    START_GROUP,
    TIME,
    WIRE_TYPES,
    ZEROS,
    CodecError,
    check_depth,
    has_member,
    in_range,
)


def varint(number: int) -> bytes:
    """Encode a varint: seven bits per byte, the lowest first. The top bit is set if more bytes follow.

    Negative numbers are in two's complement of 64 bits.
    """
    number %= 1 << 64
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def delimited(octets: bytes) -> bytes:
    return varint(len(octets)) + octets


def write_record(message: Message, record: Mapping[str, Any], depth: int) -> bytes:
    check_depth(depth)
    if not isinstance(record, Mapping):
        raise CodecError(f"{type(record).__name__} is no record")
    if unknown := record.keys() - {field.name for field in message}:
        raise CodecError(f"unknown keys {unknown}")
    present = [field for field in message if record.get(field.name) is not None]
    oneofs = [field.oneof for field in present if field.oneof]
    if len(oneofs) != len(set(oneofs)):
        raise CodecError("two values of one oneof")
    if missing := [field.name for field in message if field.required and field not in present]:
        raise CodecError(f"{missing} must be given")
    in_order = sorted(present, key=lambda field: field.number)
    return b"".join(write_field(field, record[field.name], depth) for field in in_order)


def write_field(field: Field, value: Any, depth: int) -> bytes:
    container = Mapping if field.map else list | tuple
    if (field.map or field.repeated) and not isinstance(value, container):
        raise CodecError(f"{type(value).__name__} where {'a dict' if field.map else 'a list'} is expected")
    if field.map:
        return b"".join(write_entry(field, key, value[key], depth + 1) for key in in_order(field, value))
    if field.repeated and field.packed:
        return (
            write_tag(field, BYTES) + delimited(b"".join(write_scalar(field, each) for each in value))
            if value
            else b""
        )
    if field.repeated:
        return b"".join(write_value(field, each, depth) for each in value)
    if (
        field.message is None
        and not field.presence
        and write_scalar(field, value) == ZEROS[WIRE_TYPES[field.type]]
    ):
        return b""
    return write_value(field, value, depth)


def write_entry(field: Field, key: Any, value: Any, depth: int) -> bytes:
    """Encode an entry of a map. Both fields are written, even if they are zero."""
    check_depth(depth)
    assert field.message is not None
    of_key, of_value = field.message.fields
    return write_tag(field, BYTES) + delimited(
        write_value(of_key, key, depth) + write_value(of_value, value, depth)
    )


def in_order(field: Field, entries: Mapping[Any, Any]) -> list[Any]:
    """Return the keys of a map in the order of google.protobuf's deterministic output.

    Texts are sorted by their bytes, but a prefix comes after the longer text. Numbers are in descending
    order, as unsigned 64-bit numbers.
    """
    assert field.message is not None
    key = field.message.fields[0]
    if key.type == "string":
        return sorted(entries, key=lambda text: (*write_scalar(key, text), 256))
    return sorted(entries, key=lambda number: to_number(key, number) % (1 << 64), reverse=True)


def write_value(field: Field, value: Any, depth: int) -> bytes:
    """Encode a tag and one value."""
    wire = WIRE_TYPES[field.type]
    if field.message is None:
        octets = write_scalar(field, value)
    elif field.message.name in (TIMESTAMP, DURATION):
        octets = write_time(field.message.name, value, depth + 1)
    else:
        octets = write_record(field.message, value, depth + 1)
    end = write_tag(field, END_GROUP) if wire == START_GROUP else b""
    return write_tag(field, wire) + (delimited(octets) if wire == BYTES else octets) + end


def write_tag(field: Field, wire: int) -> bytes:
    return varint(field.number << 3 | wire)


def write_scalar(field: Field, value: Any) -> bytes:
    try:
        if field.type == "string":
            return str.encode(value)
        if field.type == "bytes":
            return to_octets(field, value)
        if field.type in ("float", "double") and not isinstance(value, str | bytes):
            return struct.pack(FIXED[field.type], value)
        number = to_number(field, value)
    except (TypeError, OverflowError, UnicodeEncodeError, struct.error) as error:
        raise CodecError(f"{value!r} is no {field.type}: {error}") from None
    if field.type in FIXED:
        return struct.pack(FIXED[field.type], number)
    zigzag = field.type in ("sint32", "sint64")
    return varint(number << 1 ^ number >> 63 if zigzag else number)


def to_octets(field: Field, value: Any) -> bytes:
    octets = memoryview(value).tobytes()
    if octets and field.sizes and len(octets) not in field.sizes:
        raise CodecError(f"{len(octets)} octets where there must be {field.sizes}")
    return octets


def to_number(field: Field, value: Any) -> int:
    if field.type == "enum" and isinstance(value, str):
        if value not in field.members:
            raise CodecError(f"{value!r} is no member of the enum")
        return field.members[value]
    if not isinstance(value, int) or (isinstance(value, bool) and field.type != "bool"):
        raise CodecError(f"{type(value).__name__} where {field.type} is expected")
    if field.type == "bool":
        return int(value != 0)
    least, most = field.limits
    if not least <= value <= most or not has_member(field, value):
        raise CodecError(f"{value} is out of range")
    return value


def write_time(name: str, value: Any, depth: int) -> bytes:
    """Encode a time. Nanoseconds of a Timestamp are positive; those of a Duration have its sign."""
    check_depth(depth)
    if isinstance(value, Mapping) and value.keys() <= {"seconds", "nanos"}:
        value = value.get("seconds", 0) * BILLION + value.get("nanos", 0)
    if name == TIMESTAMP and isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=timezone.utc)) - EPOCH
    if isinstance(value, timedelta):
        value = value // timedelta(microseconds=1) * 1000
    if not isinstance(value, int) or isinstance(value, bool):
        raise CodecError(f"{value!r} is no time")
    seconds, nanoseconds = divmod(value, BILLION)
    if name == DURATION and seconds < 0 < nanoseconds:
        seconds, nanoseconds = seconds + 1, nanoseconds - BILLION
    if not in_range(name, seconds, nanoseconds):
        raise CodecError(f"{value} is out of range of a time")
    return write_record(TIME, {"seconds": seconds, "nanos": nanoseconds}, depth)
