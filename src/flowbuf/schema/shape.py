"""Checks of the shape of a column's value.

A value of a record may be a message, a map, a member of a oneof, or a list. Columns of flows can only be
lists. The caller adds the place to each SchemaError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowbuf.errors import SchemaError, did_you_mean
from flowbuf.schema.types import MAP_KEYS, MAP_VALUES, TYPES, WireType

if TYPE_CHECKING:
    from flowbuf.schema.column import Column

__all__ = ["FLAT", "NAME_FIX", "check_shape", "more_than_flat"]

FLAT = 'give each value its own column, or write rows = "records" below [schema]'
NAME_FIX = "use a letter, then letters, digits and underscores"
_KEYS = ("message", "key", "value", "required", "oneof")


def more_than_flat(column: Column) -> str:
    """Return the first property of a column that only records may have, as written in its file, or ""."""
    if column.type not in TYPES:
        return f"type {column.type!r}"
    if column.unit == "proto":
        return 'unit = "proto"'
    if not column.packed:
        return "packed = false"
    return next((key for key in _KEYS if getattr(column, key)), "")


def check_shape(column: Column) -> None:
    """Check that the keys for the shape are consistent."""
    _check_message(column)
    _check_map(column)
    _check_presence(column)
    _check_packed(column)


def _check_message(column: Column) -> None:
    holds = "message" in (column.type, column.value)
    if holds and not column.message:
        raise SchemaError(
            "message is missing", 'write message = "NAME", and its columns as [[message.NAME.column]]'
        )
    if column.message and not holds:
        what = f"type {column.type}" if column.type != "map" else f"a map to {column.value}"
        raise SchemaError(
            f"message is not allowed on {what}",
            'remove it, or make the type, or the value of a map, "message"',
        )


def _check_map(column: Column) -> None:
    if column.type != "map":
        given = " and ".join(key for key in ("key", "value") if getattr(column, key))
        if given:
            raise SchemaError(
                f"{given} is not allowed on type {column.type}", 'remove it, or make the type "map"'
            )
        return
    for part, known in (("key", MAP_KEYS), ("value", MAP_VALUES)):
        chosen = getattr(column, part)
        if chosen not in known:
            fix = did_you_mean(chosen or "", known) or f"write {part} = {' | '.join(known)}"
            raise SchemaError(f"{part} of the map is {chosen!r}", fix)
    for key in ("repeated", "explicit", "required"):
        if getattr(column, key):
            raise SchemaError(
                f"{key} is not allowed on a map", "remove it, because a map has any number of entries"
            )


def _check_presence(column: Column) -> None:
    if column.required and column.repeated:
        raise SchemaError("is both repeated and required", "remove one, because a list may be empty")
    if column.explicit and column.proto_type == "message":
        raise SchemaError(
            "explicit is not allowed on a message", "remove it, because messages always have presence"
        )
    if not column.oneof:
        return
    for key in ("repeated", "explicit", "required"):
        if getattr(column, key):
            raise SchemaError(
                f"{key} is not allowed on a member of oneof {column.oneof!r}", "remove one of them"
            )
    if column.type == "map":
        raise SchemaError(
            f"a map cannot be a member of oneof {column.oneof!r}", "put it into a message, or remove oneof"
        )


def _check_packed(column: Column) -> None:
    if column.packed or (column.repeated and column.wire_type is not WireType.LENGTH):
        return
    raise SchemaError(
        "packed = false is not allowed here", "remove it, because only lists of numbers can be packed"
    )
