"""A hand-written format with `struct` for records that never change: tuples, without keys and tags.

A record starts with its numbers in full width and the lengths of its strings. The bytes of the strings
follow, then the sub-records, encoded the same way:

    +---------------------------+----------+----------+------------+---
    | numbers, lengths, flags   | string 1 | string 2 | sub-record | …
    +---------------------------+----------+----------+------------+---
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..families import EPOCH, MICROSECOND, Family
from .base import Coder, Format

Values = tuple[Any, ...]
Encode = Callable[[Values], bytes]
DecodeAt = Callable[[bytes, int], tuple[Values, int]]
"""Decode the record at an offset, and return it with its end offset."""

TELEMETRY = struct.Struct("<4H4d2Q2I")
RECORD = struct.Struct("<H?qhqQBIq?H")
SUB_RECORD = struct.Struct("<HQd")
CLIENT_MESSAGE = struct.Struct("<2Hq")
COUNT = struct.Struct("<I")


def encode_telemetry(values: Values) -> bytes:
    a, b, c, d, *numbers = values
    a, b, c, d = a.encode(), b.encode(), c.encode(), d.encode()
    return b"".join((TELEMETRY.pack(len(a), len(b), len(c), len(d), *numbers), a, b, c, d))


def decode_telemetry(data: bytes, at: int) -> tuple[Values, int]:
    a, b, c, d, *numbers = TELEMETRY.unpack_from(data, at)
    at += TELEMETRY.size
    b += (a_end := at + a)
    c += b
    d += c
    return (
        data[at:a_end].decode(),
        data[a_end:b].decode(),
        data[b:c].decode(),
        data[c:d].decode(),
        *numbers,
    ), d


def encode_sub_record(values: Values) -> bytes:
    number, name, score = values
    name = name.encode()
    packed: bytes = SUB_RECORD.pack(len(name), number, score) + name
    return packed


def decode_sub_record(data: bytes, at: int) -> tuple[Values, int]:
    length, number, score = SUB_RECORD.unpack_from(data, at)
    at += SUB_RECORD.size
    end = at + length
    return (number, data[at:end].decode(), score), end


def encode_record(values: Values) -> bytes:
    name, *numbers, created, parent, children = values
    name = name.encode()
    microseconds = (created - EPOCH) // MICROSECOND
    parts = [RECORD.pack(len(name), *numbers, microseconds, parent is not None, len(children)), name]
    if parent is not None:
        parts.append(encode_sub_record(parent))
    parts.extend(map(encode_sub_record, children))
    return b"".join(parts)


def decode_record(data: bytes, at: int) -> tuple[Values, int]:
    length, *numbers, microseconds, has_parent, count = RECORD.unpack_from(data, at)
    at += RECORD.size
    name = data[at : at + length].decode()
    at += length
    parent = None
    if has_parent:
        parent, at = decode_sub_record(data, at)
    children = []
    for _ in range(count):
        child, at = decode_sub_record(data, at)
        children.append(child)
    return (name, *numbers, EPOCH + microseconds * MICROSECOND, parent, children), at


def encode_client_message(values: Values) -> bytes:
    client, text, sequence = values
    client, text = client.encode(), text.encode()
    packed: bytes = CLIENT_MESSAGE.pack(len(client), len(text), sequence) + client + text
    return packed


def decode_client_message(data: bytes, at: int) -> tuple[Values, int]:
    client, text, sequence = CLIENT_MESSAGE.unpack_from(data, at)
    at += CLIENT_MESSAGE.size
    client += at
    text += client
    return (data[at:client].decode(), data[client:text].decode(), sequence), text


BY_FAMILY: dict[str, tuple[Encode, DecodeAt]] = {
    "telemetry": (encode_telemetry, decode_telemetry),
    "record": (encode_record, decode_record),
    "client_message": (encode_client_message, decode_client_message),
}


def open_struct(family: Family) -> Coder:
    encode, decode_at = BY_FAMILY[family.name]

    def encode_batch(records: list[Values]) -> bytes:
        return b"".join((COUNT.pack(len(records)), *map(encode, records)))

    def decode_batch(data: bytes) -> list[Values]:
        (count,), at = COUNT.unpack_from(data), COUNT.size
        records = []
        for _ in range(count):
            record, at = decode_at(data, at)
            records.append(record)
        return records

    return Coder(
        *(encode, lambda data: decode_at(data, 0)[0], encode_batch, decode_batch),
        *(family.to_values, family.from_values),
    )


POSITIONAL = (
    Format(
        *("struct", "", False, False, "tuple", "microseconds since 1970 in an int64, converted in Python"),
        *("copies", "their number, then one after the other", open_struct),
    ),
)
