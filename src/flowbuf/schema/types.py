"""Column types, and their encoding in Protocol Buffers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = ["MAP_KEYS", "MAP_VALUES", "RECORD_TYPES", "TYPES", "LogicalType", "WireType"]


class WireType(IntEnum):
    """Wire type of Protocol Buffers, which determines the length of a value."""

    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    FIXED32 = 5


@dataclass(frozen=True)
class LogicalType:
    """A column type, and the Protocol Buffers type that carries it."""

    name: str
    proto_type: str
    wire_type: WireType


_VARINT_TYPES = {
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint32"),
    **dict.fromkeys(("uint64", "mac", "timestamp"), "uint64"),
    **dict.fromkeys(("int64", "duration"), "int64"),
    **{name: name for name in ("int32", "sint32", "sint64", "bool", "enum")},
}
TYPES: dict[str, LogicalType] = {
    **{name: LogicalType(name, proto, WireType.VARINT) for name, proto in _VARINT_TYPES.items()},
    **{name: LogicalType(name, name, WireType.FIXED32) for name in ("float", "fixed32")},
    **{name: LogicalType(name, name, WireType.FIXED64) for name in ("double", "fixed64")},
    **{name: LogicalType(name, name, WireType.LENGTH) for name in ("string", "bytes")},
    "ip": LogicalType("ip", "bytes", WireType.LENGTH),
}
"""Types for every schema."""

RECORD_TYPES: dict[str, LogicalType] = {
    **TYPES,
    **{name: LogicalType(name, "int32", WireType.VARINT) for name in ("int8", "int16")},
    "sfixed32": LogicalType("sfixed32", "sfixed32", WireType.FIXED32),
    "sfixed64": LogicalType("sfixed64", "sfixed64", WireType.FIXED64),
    **{name: LogicalType(name, "message", WireType.LENGTH) for name in ("message", "map")},
}
"""Types for a schema whose rows are records.

On the wire, a map is a list of messages with a key and a value.
"""

_INTEGERS = (
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64"),
)
MAP_KEYS = (*_INTEGERS, "bool", "string")
MAP_VALUES = (*MAP_KEYS, "bytes", "float", "double", "message")
