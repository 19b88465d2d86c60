"""Flows as text: JSON lines and table cells, with addresses, times and enum members as text.

| type of the column | text |
|---|---|
| ip | text; IPv4-mapped addresses dotted |
| mac | `aa:bb:cc:dd:ee:ff` |
| timestamp | RFC 3339 in UTC with the digits of its unit, `2022-09-09T11:41:03.679Z` |
| duration | the number, in its unit |
| enum | the name of the member, or the number if no member has it |
| bytes | hexadecimal digits |
| float, double | the number; NaN and infinities by name, in JSON as strings |
| the rest | unchanged |
"""

from __future__ import annotations

import functools
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from flowbuf._core import format_ip
from flowbuf.schema import Column
from flowbuf.targets.controls import BIDIRECTIONAL

__all__ = [
    *(
        "NUMBERS",
        "escape_json",
        "format_address",
        "format_mac",
        "format_time",
        "is_number",
        "text_renderer",
    ),
    "to_json_string",
]

NUMBERS = {"uint8", "uint16", "uint32", "uint64", "int32", "int64", "sint32", "sint64", "fixed32", "fixed64"}
NUMBERS |= {"float", "double", "duration"}
"""Types of columns whose text is a number."""

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_END_OF_TIME = 253_402_300_800  # the year 10000, which RFC 3339 cannot express

Render = Callable[[Any], str]

_UNESCAPED = re.compile(f"[\x7f-\x9f{BIDIRECTIONAL}]")  # controls that JSON allows unescaped

_encode_json = json.JSONEncoder(ensure_ascii=False).encode


def is_number(column: Column | None) -> bool:
    """Return True for a column whose value is one number."""
    return column is not None and column.type in NUMBERS and not column.repeated


def escape_json(text: str) -> str:
    """Return JSON with the same values, and with control characters only between its values."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def to_json_string(text: str) -> str:
    """Return a string as JSON, with control characters escaped."""
    return escape_json(_encode_json(text))


# Renderers, chosen once per column --------------------------------------------------------------------------


def text_renderer(column: Column) -> Render:
    """Return the function that formats values of a column as text."""
    render = _scalar_renderer(column)
    return (lambda values: " ".join(map(render, values))) if column.repeated else render


def _scalar_renderer(column: Column) -> Render:
    if column.type == "timestamp":
        return functools.partial(format_time, digits=_DIGITS[column.unit or "ms"])
    if column.type == "enum":
        return _member_renderer({number: name for name, number in column.values.items()})
    return _RENDERERS.get(column.type, str)


def _member_renderer(names: Mapping[int, str]) -> Render:
    return lambda number: names.get(number) or str(number)


def format_bool(value: bool) -> str:
    """Return a bool as in JSON."""
    return "true" if value else "false"


def format_real(value: float) -> str:
    """Return the shortest decimal number that reads back as the value.

    NaN, Infinity and -Infinity have names.
    """
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def format_address(address: bytes) -> str:
    """Return an address of 4 or 16 bytes as text, IPv4-mapped ones as IPv4.

    Other sizes are hexadecimal digits.
    """
    return format_ip(address) if len(address) in (4, 16) else address.hex()


@functools.lru_cache(maxsize=1 << 14)
def format_mac(number: int) -> str:
    """Return a number of 48 bits as `aa:bb:cc:dd:ee:ff`."""
    return number.to_bytes(max(6, (number.bit_length() + 7) // 8), "big").hex(":")


def format_time(value: int, digits: int = 3) -> str:
    """Return a time in units of 10^-digits seconds since 1970 as RFC 3339 in UTC.

    After the year 9999, return the number.
    """
    seconds, fraction = divmod(value, 10**digits)
    if seconds >= _END_OF_TIME:
        return str(value)
    return f"{_format_second(seconds)}.{fraction:0{digits}d}Z" if digits else f"{_format_second(seconds)}Z"


@functools.lru_cache(maxsize=1 << 12)
def _format_second(seconds: int) -> str:
    return "{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}".format(*time.gmtime(seconds)[:6])


_RENDERERS: dict[str, Render] = {
    "ip": format_address,
    "mac": format_mac,
    "bytes": bytes.hex,
    "bool": format_bool,
    "float": format_real,
    "double": format_real,
}
