"""The values of columns that messages of google.protobuf should have. It shares no code with flowbuf."""

from __future__ import annotations

import datetime
import json
from typing import Any

from google.protobuf import json_format

__all__ = ["Tree", "choose", "keep", "list_paths", "row_of"]

Tree = dict[str, Any]
"""Chosen fields by name, with those inside them. None: a field without fields inside."""

WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
TIMES = {"google.protobuf.Timestamp", "google.protobuf.Duration"}
JSON = {f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue")}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class JsonText(str):
    """A JSON text, which is equal to others with the same values."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and repr(json.loads(other)) == repr(json.loads(self))

    __hash__ = str.__hash__


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def inner_of(field: Any) -> Any:
    """Return the descriptor of the message in a field, if it has columns of its own, or None."""
    if is_map(field):
        field = field.message_type.fields_by_name["value"]
    inner = field.message_type
    return None if inner is None or inner.full_name in WRAPPERS | TIMES | JSON else inner


def choose(descriptor: Any, around: tuple[Any, ...] = ()) -> Tree | None:
    """Return all fields of a type, except those that have no Arrow type. None: nothing remains."""
    around = (*around, descriptor)
    chosen: Tree = {}
    for field in descriptor.fields:
        inner = inner_of(field)
        if inner is None:
            chosen[field.name] = None
        elif inner not in around:
            below = choose(inner, around)
            if below is not None:
                chosen[field.name] = below
    return chosen if chosen or not descriptor.fields else None


def list_paths(tree: Tree, before: str = "") -> list[str]:
    paths = []
    for name, below in tree.items():
        paths += list_paths(below, f"{before}{name}.") if below else [f"{before}{name}"]
    return paths


def keep(message: Any, tree: Tree) -> Any:
    """Return a copy with the chosen fields only. They are required, or absent, as in the message."""
    kept = type(message)()
    kept.CopyFrom(message)
    kept.DiscardUnknownFields()
    clear(kept, tree)
    return kept


def clear(message: Any, tree: Tree) -> None:
    """Remove the other fields. Times lose what is finer than a microsecond."""
    for field in message.DESCRIPTOR.fields:
        if field.name not in tree:
            message.ClearField(field.name)
            continue
        below = tree[field.name]
        value = getattr(message, field.name)
        if is_map(field):
            values = [value[key] for key in value]
        elif field.is_repeated:
            values = list(value)
        else:
            values = [value] if field.has_presence and message.HasField(field.name) else []
        for each in values:
            if below is not None:
                clear(each, below)
            elif getattr(each, "DESCRIPTOR", None) and each.DESCRIPTOR.full_name in TIMES:
                cut(each)


def cut(time: Any) -> None:
    total = (time.seconds * 10**9 + time.nanos) // 1000
    seconds, rest = divmod(total, 10**6)
    if total < 0 and rest and time.DESCRIPTOR.name == "Duration":  # both parts have the same sign
        seconds, rest = seconds + 1, rest - 10**6
    time.seconds, time.nanos = seconds, rest * 1000


def row_of(message: Any, tree: Tree) -> dict[str, Any]:
    """Return the row that pyarrow's to_pylist should return."""
    row = {}
    for name, below in tree.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        value = getattr(message, name)
        if is_map(field):
            inner = field.message_type.fields_by_name["value"]
            row[name] = {key: convert(each, inner, below) for key, each in value.items()}
        elif field.is_repeated:
            row[name] = [convert(each, field, below) for each in value]
        elif field.has_presence and not message.HasField(name):
            row[name] = None
        else:
            row[name] = convert(value, field, below)
    return row


def convert(value: Any, field: Any, below: Tree | None) -> Any:
    inner = field.message_type
    if inner is None:
        return convert_scalar(value, field)
    if inner.full_name in WRAPPERS:
        return value.value
    if inner.full_name in JSON:
        return JsonText(json_format.MessageToJson(value, sort_keys=True))
    if inner.full_name == "google.protobuf.Timestamp":
        return EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if inner.full_name == "google.protobuf.Duration":
        return datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return row_of(value, below or {})


def convert_scalar(value: Any, field: Any) -> Any:
    """An enum with a negative member, or without 0, is a number; otherwise a name, or digits."""
    if field.enum_type is None:
        return value
    names: dict[int, str] = {}
    for member in field.enum_type.values:
        names.setdefault(member.number, member.name)
    if min(names) < 0 or 0 not in names or any(name.startswith("_") for name in names.values()):
        return value
    return names.get(value, str(value))
