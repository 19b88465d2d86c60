"""Checks of the shape of a column's value.

A value of a record may be a message, a map, a member of a oneof, or a list. Columns of flows can only be
lists. The caller adds the place to each SchemaError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowbuf.errors import SchemaError
from flowbuf.schema.source import did_you_mean
from flowbuf.schema.types import MAP_KEYS, MAP_VALUES, TYPES, WireType

if TYPE_CHECKING:
    from flowbuf.schema.column import Column

__all__ = ["FLAT", "NAME_FIX", "check_shape", "more_than_flat"]

FLAT = 'a flow is flat: give each value a column of its own, or write rows = "records" below [schema]'
NAME_FIX = "a name is a letter, then letters, digits and underscores"
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
        raise SchemaError("no message", 'write message = "NAME", whose columns are [[message.NAME.column]]')
    if column.message and not holds:
        what = f"type {column.type}" if column.type != "map" else f"a map to {column.value}"
        raise SchemaError(
            f"message on {what}", 'remove it, or make the type, or the value of a map, "message"'
        )


def _check_map(column: Column) -> None:
    if column.type != "map":
        given = " and ".join(key for key in ("key", "value") if getattr(column, key))
        if given:
            raise SchemaError(f"{given} on type {column.type}", 'remove it, or make the type "map"')
        return
    for part, known in (("key", MAP_KEYS), ("value", MAP_VALUES)):
        chosen = getattr(column, part)
        if chosen not in known:
            fix = did_you_mean(chosen or "", known) or f"a map needs {part} = {' | '.join(known)}"
            raise SchemaError(f"{part} of the map is {chosen!r}", fix)
    for key in ("repeated", "explicit", "required"):
        if getattr(column, key):
            raise SchemaError(f"{key} on a map", "remove it: a map has any number of entries, none too")


def _check_presence(column: Column) -> None:
    if column.required and column.repeated:
        raise SchemaError("both repeated and required", "remove one: a list may be empty")
    if column.explicit and column.proto_type == "message":
        raise SchemaError("explicit on a message", "remove it: a message is present or absent by itself")
    if not column.oneof:
        return
    for key in ("repeated", "explicit", "required"):
        if getattr(column, key):
            raise SchemaError(f"{key} on a member of oneof {column.oneof!r}", "remove one of the two")
    if column.type == "map":
        raise SchemaError(
            f"a map as a member of oneof {column.oneof!r}", "put it into a message, or remove oneof"
        )


def _check_packed(column: Column) -> None:
    if column.packed or (column.repeated and column.wire_type is not WireType.LENGTH):
        return
    raise SchemaError(
        "packed = false on what is never packed", "remove it: lists of numbers are packed, nothing else"
    )
