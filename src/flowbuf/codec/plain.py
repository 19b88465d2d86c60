"""Message types of google.protobuf that are plain Python values: wrappers, Struct, Value, ListValue, Any."""

from __future__ import annotations

from typing import Any

from flowbuf.codec.model import DURATION, TIMESTAMP, Message

__all__ = ["ANY", "NULL", "PLAIN", "WRAPPERS", "plain_kind"]

ANY = "google.protobuf.Any"

PLAIN = ("field", "value", "any")
"""Kinds of messages that are not objects with fields, wherever they are."""

_Shape = list[tuple[str, int, str, bool]]
"""Name, number, type and repetition of each field."""

WRAPPERS = {
    f"google.protobuf.{name}Value": name.lower()
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
"""Full names of the wrappers, and the types of their only field."""

_VALUE = {"null": "enum", "number": "double", "string": "string", "bool": "bool"}
_VALUE |= {"struct": "message", "list": "message"}

_TYPES: dict[str, tuple[str, _Shape]] = {
    **{name: ("field", [("value", 1, type, False)]) for name, type in WRAPPERS.items()},
    "google.protobuf.Struct": ("field", [("fields", 1, "message", True)]),
    "google.protobuf.ListValue": ("field", [("values", 1, "message", True)]),
    "google.protobuf.Value": (
        "value",
        [(f"{name}_value", number, type, False) for number, (name, type) in enumerate(_VALUE.items(), 1)],
    ),
    ANY: ("any", [("type_url", 1, "string", False), ("value", 2, "bytes", False)]),
    TIMESTAMP: ("timestamp", [("seconds", 1, "int64", False), ("nanos", 2, "int32", False)]),
    DURATION: ("duration", [("seconds", 1, "int64", False), ("nanos", 2, "int32", False)]),
}


class _Null:
    """Type of `NULL`."""

    def __repr__(self) -> str:
        return "flowbuf.NULL"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "NULL"

    def __copy__(self) -> _Null:
        return self

    def __deepcopy__(self, memo: Any) -> _Null:
        return self


NULL = _Null()
"""The null of a `google.protobuf.Value` that is a field of its own. None means an absent field there."""


def plain_kind(message: Message) -> str:
    """Return the kind of plain value of a message type, or "" if its messages are objects with fields.

    "timestamp" and "duration" are plain values in fields and in an Any. A type with the name of such a type
    and other fields is none.
    """
    kind, shape = _TYPES.get(message.name, ("", []))
    same = [(field.name, field.number, field.type, field.repeated) for field in message] == shape
    return kind if same else ""
