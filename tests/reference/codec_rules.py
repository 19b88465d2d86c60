"""Wire types, limits and times that the reader and the writer of the codec's reference share."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from flowbuf.codec.model import DURATION, TIMESTAMP, Field, Message

VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = range(6)
DEPTH = 100

WIRE_TYPES = {
    **dict.fromkeys(("bool", "enum", "int32", "int64", "uint32", "uint64", "sint32", "sint64"), VARINT),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), FIXED32),
    **dict.fromkeys(("string", "bytes", "message"), BYTES),
    "group": START_GROUP,
}
FIXED = {"fixed32": "<I", "sfixed32": "<i", "float": "<f", "fixed64": "<Q", "sfixed64": "<q", "double": "<d"}
ZEROS = {VARINT: b"\0", FIXED64: bytes(8), FIXED32: bytes(4), BYTES: b""}
"""Zeros, which are not written for a field without presence."""

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
BILLION = 1_000_000_000
TIME = Message("Timestamp or Duration", [Field("seconds", 1, "int64"), Field("nanos", 2, "int32")])
LATEST = {TIMESTAMP: 253_402_300_799, DURATION: 315_576_000_000}
EARLIEST = {TIMESTAMP: -62_135_596_800, DURATION: -315_576_000_000}


class CodecError(ValueError):
    """The object cannot be encoded, or the bytes cannot be decoded, as a message of the type."""


def check_depth(depth: int) -> None:
    if depth > DEPTH:
        raise CodecError("messages too deep inside each other")


def has_member(field: Field, value: Any) -> bool:
    return not field.closed or value in field.members.values()


def inner_type(message: Message) -> Message:
    return TIME if message.name in (TIMESTAMP, DURATION) else message


def in_range(name: str, seconds: int, nanoseconds: int) -> bool:
    """Return whether a time is in range.

    A Timestamp has the years 1 to 9999, a Duration ten thousand years in either direction. Nanoseconds are
    less than a second.
    """
    if not EARLIEST[name] <= seconds <= LATEST[name]:
        return False
    if name == TIMESTAMP:
        return 0 <= nanoseconds < BILLION
    return abs(nanoseconds) < BILLION and seconds * nanoseconds >= 0
