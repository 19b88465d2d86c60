"""Compact JSON in UTF-8. If a library returns times as text, their conversion is timed too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from ..families import Family
from .base import Coder, Format

Loads = Callable[[bytes], Any]


def parse_time(text: str) -> datetime:
    """Parse a time in RFC 3339. Python 3.10 does not support the Z at its end."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def revive(loads: Loads, times: Sequence[Any]) -> tuple[Loads, Loads]:
    """Return loaders of a record and of a list. They convert the times at these keys or positions."""
    if not times:
        return loads, loads

    def restore_times(record: Any) -> Any:
        for name in times:
            record[name] = parse_time(record[name])
        return record

    return lambda data: restore_times(loads(data)), lambda data: [restore_times(each) for each in loads(data)]


def open_stdlib(family: Family) -> Coder:
    import json

    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=datetime.isoformat)

    def encode(value: Any) -> bytes:
        return encoder.encode(value).encode()

    decode, decode_batch = revive(json.loads, family.times)
    return Coder(encode, decode, encode, decode_batch)


def open_orjson(family: Family) -> Coder:
    import orjson

    decode, decode_batch = revive(orjson.loads, family.times)
    return Coder(orjson.dumps, decode, orjson.dumps, decode_batch)


def open_msgspec(family: Family) -> Coder:
    import msgspec

    encode = msgspec.json.Encoder().encode
    decode, decode_batch = revive(msgspec.json.Decoder().decode, family.times)
    return Coder(encode, decode, encode, decode_batch)


BATCH = "an array"
PARSED = "RFC 3339 text, turned into a time in Python"
JSON = (
    Format(
        "json",
        "",
        True,
        True,
        "dict",
        "RFC 3339 text, written and read in Python",
        "copies",
        BATCH,
        open_stdlib,
    ),
    Format(
        "orjson", "orjson", True, True, "dict", PARSED, "copies", BATCH, open_orjson, (("orjson", "orjson"),)
    ),
    Format(
        "msgspec-json",
        "msgspec",
        True,
        True,
        "dict",
        PARSED,
        "copies",
        BATCH,
        open_msgspec,
        (("msgspec", "msgspec"),),
    ),
)
