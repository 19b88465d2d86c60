"""Columns of messages of any type: the tree of Arrow columns of a message type.

docs/reference/codec.md lists the Arrow type of each field.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypeAlias

from flowbuf._core import (
    NESTED_KINDS,
    JsonConverter,
    NestedType,
    encode_nested_array,
    encode_nested_stream,
)
from flowbuf.arguments import list_texts
from flowbuf.codec import descriptors
from flowbuf.codec.json import make_converter
from flowbuf.codec.model import DURATION, TIMESTAMP, Field, Message
from flowbuf.codec.plain import WRAPPERS, plain_kind
from flowbuf.codec.schemas import names_of
from flowbuf.codec.tables import describe
from flowbuf.errors import EncodeError, SchemaError, did_you_mean

__all__ = ["Paths", "encode_nested", "find_paths", "list_paths", "make_type"]

MOST_LEVELS = 60
"""Most Arrow types inside each other. pyarrow imports 64."""
MOST_NODES = 10_000
"""Most columns of a message type, with those that are structs."""

_PACKAGE = "google.protobuf."
_JSON = {f"{_PACKAGE}{name}" for name in ("Struct", "Value", "ListValue")}
"""Types whose columns have JSON texts."""
_TIMES = {TIMESTAMP: ("timestamp", "ts{}:UTC"), DURATION: ("duration", "tD{}")}
_UNITS = {"us": 1000, "ns": 1}
_INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32", "enum"), "i"),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), "l"),
    **dict.fromkeys(("uint32", "fixed32"), "I"),
    **dict.fromkeys(("uint64", "fixed64"), "L"),
}
_NARROW = {("i", 8): "c", ("i", 16): "s", ("I", 8): "C", ("I", 16): "S"}
_WIDTHS = {"c": 1, "C": 1, "s": 2, "S": 2, "i": 4, "I": 4, "f": 4, "l": 8, "L": 8, "g": 8}

Paths: TypeAlias = "dict[str, Paths | None]"
"""Chosen fields by name. The value has the chosen fields inside, or is None for all of them."""


def find_paths(message: Message, columns: Iterable[str]) -> Paths:
    """Return the fields that the paths of columns choose.

    Args:
        message: The message type.
        columns: Paths such as "order.lines.price". Elements of lists and values of maps have no name in them.

    Raises:
        SchemaError: the message does not have a path.
        TypeError: `columns` is no list of texts.
    """
    chosen: Paths = {}
    for path in list_paths(columns):
        inside: Message | None = message
        level: Paths | None = chosen
        names = path.split(".")
        for place, name in enumerate(names):
            before = ".".join(names[:place])
            if inside is None:
                raise SchemaError(
                    f"column {before!r} has no columns inside", f"choose {before!r}", origin=message.name
                )
            field = next((each for each in inside if each.name == name), None)
            if field is None:
                known = [each.name for each in inside]
                wrong = ".".join([*names[:place], name])
                fix = did_you_mean(name, known) or f"known here: {', '.join(known[:20])}"
                raise SchemaError(f"there is no column {wrong!r}", fix, origin=message.name)
            inside = _inner(field)
            if level is None:  # all fields of the message are chosen already
                continue
            if place == len(names) - 1:
                level[name] = None
            else:
                level = level.setdefault(name, {})
    return chosen


def list_paths(columns: Iterable[str]) -> list[str]:
    """Return paths as a list. Raise TypeError for other values."""
    return list_texts("columns", columns, "paths", "lines.price")


def _inner(field: Field) -> Message | None:
    """Return the message whose fields are inside a column, if it has any."""
    inside = field.message
    if inside is not None and field.map:
        return _inner(inside.fields[1])
    if inside is None or inside.name in _TIMES or _is_json(inside) or _is_wrapper(inside):
        return None
    return inside


def _is_json(message: Message) -> bool:
    """Return True for Struct, Value and ListValue, if they have the fields that google.protobuf declares."""
    return message.name in _JSON and plain_kind(message) != ""


@functools.cache
def _json_converter() -> JsonConverter:
    from google.protobuf import struct_pb2

    descriptor = struct_pb2.Struct.DESCRIPTOR
    return make_converter(descriptor, descriptors.inner_messages(descriptor)[0])


def _is_wrapper(message: Message) -> bool:
    """Return True for Int32Value and so on, if they have the field that google.protobuf declares."""
    if message.name not in WRAPPERS:
        return False
    fields = message.fields
    return len(fields) == 1 and not fields[0].repeated and fields[0].message is None


def make_type(message: Message, columns: Paths | None = None, unit: str = "us") -> NestedType:
    """Return the tree of columns of a message type.

    Args:
        message: The message type.
        columns: Chosen fields. Default: all.
        unit: Unit of Timestamp and Duration, "us" or "ns".

    Raises:
        SchemaError: the message contains itself, or has too many columns.
    """
    return _Tree(message, unit).make(columns)


class _Tree:
    def __init__(self, message: Message, unit: str) -> None:
        self.message = message
        self.unit = unit
        self.nodes: list[dict[str, Any]] = []
        self.types: list[tuple[str, str, bool, bool, int]] = []  # of Arrow
        self.whole: list[Message] = []  # messages around the current one, of which all fields are chosen

    def make(self, columns: Paths | None) -> NestedType:
        root = Field("", 1, "message", message=self.message)
        self._add(root, "", columns, nullable=False, tracked=False, level=0)
        uses_json = any(node["json"] for node in self.nodes)
        return NestedType(self.nodes, self.types, _json_converter() if uses_json else None)

    def _add(
        self, field: Field, path: str, columns: Paths | None, *, nullable: bool, tracked: bool, level: int
    ) -> int:
        """Add the node of a field, and those below it. Return its index."""
        self._check(field, path, level)
        name = field.name
        if field.repeated:
            self.types.append((name, "+m" if field.map else "+l", False, False, 1))
            name, nullable = "entries" if field.map else "item", False
        place = len(self.nodes)
        node = {
            **{"path": path, "name": field.name, "nullable": nullable, "repeated": field.repeated},
            **{"map": field.map, "tracked": tracked, "unit": 0, "width": 0, "members": None},
            **{"fields": None, "nodes": None, "children": [], "json": None},
        }
        self.nodes.append(node)
        message = field.message
        level += 1 + field.repeated
        if message is None:
            self._add_scalar(node, field, name)
        elif message.name in _TIMES:
            kind, format = _TIMES[message.name]
            node |= {"kind": NESTED_KINDS[kind], "width": 8, "unit": _UNITS[self.unit]}
            self.types.append((name, format.format(self.unit[0]), nullable, False, 0))
        elif _is_json(message):
            node |= {"kind": NESTED_KINDS["json"], "json": message.name}
            self.types.append((name, "u", nullable, False, 0))
        elif _is_wrapper(message):
            self._add_scalar(node, message.fields[0], name)
            node["fields"] = _describe(message)
        else:
            tracked = tracked or field.oneof is not None
            self._add_struct(node, field, name, path, columns, tracked=tracked, level=level)
        return place

    def _check(self, field: Field, path: str, level: int) -> None:
        problem = ""
        fix = "choose columns without it, with columns=[…]"
        if not self.nodes and field.message is not None and _is_json(field.message):
            problem, fix = "is JSON, not a message with columns", "use to_json_lines"
        elif level > MOST_LEVELS:
            problem = f"is inside of more than {MOST_LEVELS} lists and messages"
        elif len(self.nodes) > MOST_NODES:
            problem = f"is beyond the first {MOST_NODES:,} columns"
            fix = "choose fewer columns, with columns=[…]"
        elif field.message in self.whole:
            problem = f"is a {field.message.name} inside itself" if field.message else ""
        if problem:
            raise SchemaError(problem, fix, origin=self.message.name, column=path)

    def _add_scalar(self, node: dict[str, Any], field: Field, name: str) -> None:
        nullable = node["nullable"]
        members = names_of(field) if field.type == "enum" else None
        if members is not None:
            pairs = sorted((number, member) for member, number in members.items())
            node |= {"kind": NESTED_KINDS["name"], "width": 4, "members": pairs}
            self.types.append((name, "i", nullable, True, 0))
            return
        if field.type == "bool":
            kind, format = "bool", "b"
        elif field.type in ("string", "bytes"):
            kind, format = ("text", "u") if field.type == "string" else ("bytes", "z")
        else:
            kind, format = "number", {"float": "f", "double": "g"}.get(field.type, "")
            format = format or _INTEGERS[field.type]
            format = _NARROW.get((format, field.bits or 0), format)
        node |= {"kind": NESTED_KINDS[kind], "width": _WIDTHS.get(format, 0)}
        self.types.append((name, format, nullable, False, 0))

    def _add_struct(
        self,
        node: dict[str, Any],
        field: Field,
        name: str,
        path: str,
        columns: Paths | None,
        *,
        tracked: bool,
        level: int,
    ) -> None:
        message = field.message
        assert message is not None
        chosen: Paths
        if field.map:  # the paths below a map are those of its values
            chosen = {"key": None, "value": columns}
        else:
            chosen = dict.fromkeys(each.name for each in message) if columns is None else columns
        fields = {each.name: (slot, each) for slot, each in enumerate(message)}
        node |= {"kind": NESTED_KINDS["struct"], "fields": _describe(message, entry=field.map)}
        node["nodes"] = [-1] * len(fields)
        self.types.append((name, "+s", node["nullable"], False, len(chosen)))
        whole = columns is None and not field.map
        if whole:
            self.whole.append(message)
        for inner, below in chosen.items():
            slot, each = fields[inner]
            of_value = field.map and inner == "value"
            child = self._add(
                each,
                path if of_value else f"{path}.{inner}".lstrip("."),
                below,
                nullable=each.presence and not field.map,
                tracked=tracked,
                level=level,
            )
            node["nodes"][slot] = child
            node["children"].append(child)
        if whole:
            self.whole.pop()


def _describe(message: Message, entry: bool = False) -> list[dict[str, Any]]:
    """Describe the fields of a message for the core. Key and value of an entry are always written."""
    fields = describe(message, defaultdict(int))
    if entry:
        fields = [{**field, "presence": True, "required": True} for field in fields]
    return fields


def encode_nested(table: Any, type: NestedType) -> bytes:
    """Encode the rows of an Arrow object as messages, each after its length as a varint.

    Raises:
        EncodeError: a column or value cannot be encoded. `path` is its place, such as `[3].lines[2].price`.
        TypeError: `table` does not support the Arrow PyCapsule protocol.
        OSError: a stream of columns failed.
    """
    if hasattr(table, "__arrow_c_stream__"):
        return encode_nested_stream(type, table.__arrow_c_stream__(), _refuse_unknown)
    if hasattr(table, "__arrow_c_array__"):
        schema, array = table.__arrow_c_array__()
        return encode_nested_array(type, schema, array, _refuse_unknown)
    kind = table.__class__.__name__
    raise TypeError(f"table is {kind}, without the Arrow PyCapsule protocol; convert it to a pyarrow.Table")


def _refuse_unknown(path: str, known: list[str]) -> None:
    if path.startswith("__index_level_"):  # the index that pandas adds
        return
    fix = did_you_mean(path.rpartition(".")[2], known) or "leave it out"
    raise EncodeError(f"the message has no column {path!r}; {fix}")
