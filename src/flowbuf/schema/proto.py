"""A schema as Protocol Buffers: descriptor, .proto text and message class.

Only enabled columns and the messages that they refer to are included. These messages are nested in the
message of the schema. Text and descriptor share the code for names and types. Only the descriptor imports
`google.protobuf`, because the import takes longer than making the text.
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowbuf.schema.checks import Fail
from flowbuf.schema.column import Column, Reserved
from flowbuf.schema.types import RECORD_TYPES

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.message import Message

    from flowbuf.errors import SchemaError
    from flowbuf.schema.schema import Schema

__all__ = [
    "PACKAGE",
    "camel_case",
    "message_name",
    "to_descriptor",
    "to_message_class",
    "to_text",
    "upper_snake",
]

PACKAGE = "flowbuf"
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def message_name(schema: Schema) -> str:
    """Return the name of the message, without its package. Default: the name of the schema in CamelCase."""
    return schema.message_name or camel_case(schema.name)


def to_descriptor(schema: Schema) -> FileDescriptorProto:
    """Return the file descriptor. Raises SchemaError if two names of a message collide."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    whole, *parts = _scopes(schema)
    file = FileDescriptorProto(name=f"{schema.name}.proto", package=PACKAGE, syntax="proto3")
    file.dependency.extend(_imports(whole, *parts))
    message = file.message_type.add(name=whole.name)
    path = f".{PACKAGE}.{whole.name}"
    for part in parts:
        _add_fields(message.nested_type.add(name=part.name), part, path, f"{path}.{part.name}")
    _add_fields(message, whole, path, path)
    return file


@functools.lru_cache(maxsize=64)
def to_message_class(schema: Schema) -> type[Message]:
    """Return the message class.

    Each schema has its own descriptor pool, so two schemas may use the same message name.
    """
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    file = to_descriptor(schema)
    for name in file.dependency:
        pool.AddSerializedFile(_well_known_file(name))
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName(f"{PACKAGE}.{message_name(schema)}")
    message_class: type[Message] = message_factory.GetMessageClass(descriptor)
    return message_class


def to_text(schema: Schema, scaled: bool = False) -> str:
    """Return the text of the .proto file.

    `scaled` adds the comment that totals are multiplied by the sampling rate. Raises SchemaError if two names
    of a message collide.
    """
    whole, *parts = _scopes(schema)
    imports = [f'import "{name}";' for name in _imports(whole, *parts)]
    inside = [line for part in parts for line in (*_message_text(part, _body(part, scaled)), "")]
    lines = [
        f'// Schema "{schema.name}" of flowbuf, hash {schema.hash}.',
        "// A stream is made of messages, each after its length as a varint.",
        'syntax = "proto3";',
        "",
        f"package {PACKAGE};",
        "",
        *([*imports, ""] if imports else ()),
        *_message_text(whole, _body(whole, scaled, inside)),
    ]
    return "\n".join(lines) + "\n"


# Messages and their declarations ----------------------------------------------------------------------------

_WELL_KNOWN = {"timestamp": "Timestamp", "duration": "Duration"}


@dataclass(frozen=True)
class _Scope:
    """A message: its name, its columns and its reserved ones. `fail` makes the error of a column."""

    name: str
    columns: tuple[Column, ...]
    reserved: tuple[Reserved, ...]
    fail: Fail

    @property
    def enums(self) -> list[Column]:
        return [column for column in self.columns if column.type == "enum"]

    @property
    def maps(self) -> list[Column]:
        return [column for column in self.columns if column.type == "map"]

    @property
    def groups(self) -> list[tuple[str | None, list[Column]]]:
        """The columns in order of declaration. Columns of a oneof are grouped."""
        groups: dict[str, tuple[str | None, list[Column]]] = {}
        for column in self.columns:
            key = f"oneof {column.oneof}" if column.oneof else column.name
            groups.setdefault(key, (column.oneof, []))[1].append(column)
        return list(groups.values())


def _scopes(schema: Schema) -> list[_Scope]:
    """Return the message of the schema and those inside it. Checks their names."""
    whole = _Scope(message_name(schema), schema.enabled, schema.reserved, schema.error)
    parts = [
        _Scope(camel_case(message.name), message.columns, message.reserved, message.error)
        for message in schema.used_messages
    ]
    inside = {part.name: f"message {part.name}" for part in parts}
    for scope in (whole, *parts):
        _check_scope(scope, inside)
    if whole.name == "google" and _imports(whole, *parts):
        raise schema.error(
            None, "message_name 'google' hides the package google.protobuf", "choose another name"
        )
    return [whole, *parts]


def _imports(*scopes: _Scope) -> list[str]:
    types = {column.type for scope in scopes for column in scope.columns if column.unit == "proto"}
    return [f"google/protobuf/{type}.proto" for type in sorted(types)]


def _well_known_file(name: str) -> bytes:
    from google.protobuf import duration_pb2, timestamp_pb2

    files = {file.DESCRIPTOR.name: file.DESCRIPTOR for file in (duration_pb2, timestamp_pb2)}
    contents: bytes = files[name].serialized_pb
    return contents


# Names ------------------------------------------------------------------------------------------------------


def member_name(column: Column, member: str) -> str:
    """Return the name of an enum member in the .proto file, such as `FLOW_DIRECTION_INGRESS`."""
    return f"{upper_snake(column.name)}_{upper_snake(member)}"


def _members(column: Column) -> Iterator[tuple[str, int]]:
    """Yield the members of an enum column, by number.

    Names have the enum as a prefix (Protocol Buffers style guide), because all members share the scope of the
    message.
    """
    for member, number in sorted(column.values.items(), key=lambda item: item[1]):
        yield member_name(column, member), number


def _enum_name(column: Column) -> str:
    name = camel_case(column.name)
    return f"{name}Value" if name == column.name else name


def camel_case(name: str) -> str:
    return "".join(word[0].upper() + word[1:] for word in re.split("[_-]+", name) if word)


def upper_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _entry_name(column: Column) -> str:
    """Return the name that protoc gives to the entry message of a map."""
    return f"{camel_case(column.name)}Entry"


def _check_scope(scope: _Scope, messages: dict[str, str]) -> None:
    """Raise SchemaError if two names of a message collide.

    Fields, enums, all enum members, map entries and nested messages share one scope. A name equal to that of
    a nested message would hide the message from the fields beside it.
    """
    taken = {**messages, **{column.name: f"column {column.name!r}" for column in scope.columns}}
    for column in scope.columns:
        if column.name in messages:
            raise _collision(scope, column, "it", messages[column.name], column.name)
    for column in scope.enums:
        for name in (_enum_name(column), *(member for member, _ in _members(column))):
            if name in taken:
                raise _collision(scope, column, "its enum", taken[name], name)
            taken[name] = f"column {column.name!r}"
    for column in scope.maps:
        name = _entry_name(column)
        if name in taken:
            raise _collision(scope, column, "its entries", taken[name], name)
        taken[name] = f"column {column.name!r}"


def _collision(scope: _Scope, column: Column, what: str, other: str, name: str) -> SchemaError:
    problem = f"{what} and {other} both need the name {name} in the .proto"
    return scope.fail(column.name, problem, "rename one of them")


# The descriptor ---------------------------------------------------------------------------------------------


def _add_fields(message: DescriptorProto, scope: _Scope, root: str, path: str) -> None:
    """Add all declarations of a message except nested messages.

    `root` is the full name of the schema's message, `path` that of this message.
    """
    oneofs = [oneof for oneof, _ in scope.groups if oneof]
    for oneof in oneofs:
        message.oneof_decl.add(name=oneof)
    for column in (column for _, columns in scope.groups for column in columns):
        field = _add_field(message, column, root, path)
        if column.oneof:
            field.oneof_index = oneofs.index(column.oneof)
        # proto3 represents presence as a oneof with one field, after the oneofs of the schema
        if column.explicit:
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{column.name}")
    for old in scope.reserved:
        message.reserved_range.add(start=old.number, end=old.number + 1)
        message.reserved_name.append(old.name)


def _add_field(message: DescriptorProto, column: Column, root: str, path: str) -> FieldDescriptorProto:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    field = message.field.add(name=column.name, number=column.number)
    field.type = _type_code(column.proto_type)
    is_list = column.repeated or column.type == "map"
    field.label = FieldDescriptorProto.LABEL_REPEATED if is_list else FieldDescriptorProto.LABEL_OPTIONAL
    if column.unit == "proto":
        field.type_name = f".google.protobuf.{_WELL_KNOWN[column.type]}"
    elif column.type == "map":
        field.type_name = f"{path}.{_add_entry(message, column, root)}"
    elif column.message:
        field.type_name = f"{root}.{camel_case(column.message)}"
    elif column.type == "enum":
        enum = message.enum_type.add(name=_enum_name(column))
        for member, number in _members(column):
            enum.value.add(name=member, number=number)
        field.type_name = f"{path}.{enum.name}"
    if not column.packed:
        field.options.packed = False
    return field


def _add_entry(message: DescriptorProto, column: Column, root: str) -> str:
    """Add the entry message of a map. Return its name."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    entry = message.nested_type.add(name=_entry_name(column))
    entry.options.map_entry = True
    for number, (part, type) in enumerate((("key", column.key), ("value", column.value)), start=1):
        field = entry.field.add(name=part, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        field.type = _type_code(RECORD_TYPES[str(type)].proto_type)
        if type == "message":
            field.type_name = f"{root}.{camel_case(str(column.message))}"
    return entry.name


def _type_code(proto_type: str) -> FieldDescriptorProto.Type.ValueType:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return FieldDescriptorProto.Type.Value(f"TYPE_{proto_type.upper()}")


# The text ---------------------------------------------------------------------------------------------------


def _message_text(scope: _Scope, body: Iterable[str]) -> list[str]:
    return [f"message {scope.name} {{", *_indent(body), "}"]


def _body(scope: _Scope, scaled: bool, inside: Iterable[str] = ()) -> list[str]:
    """Return the lines inside a message. `inside` are its nested messages."""
    lines = []
    if scope.reserved:
        numbers = ", ".join(str(old.number) for old in scope.reserved)
        names = ", ".join(f'"{old.name}"' for old in scope.reserved)
        lines += [f"reserved {numbers};", f"reserved {names};", ""]
    for column in scope.enums:
        members = (f"{member} = {number};" for member, number in _members(column))
        lines += [f"enum {_enum_name(column)} {{", *_indent(members), "}", ""]
    lines += inside
    for oneof, columns in scope.groups:
        fields = [line for column in columns for line in _field_text(column, scaled)]
        lines += [f"oneof {oneof} {{", *_indent(fields), "}"] if oneof else fields
    return lines


def _field_text(column: Column, scaled: bool) -> list[str]:
    option = "" if column.packed else " [packed = false]"
    return [*_comment(column, scaled), f"{_type_text(column)} {column.name} = {column.number}{option};"]


def _type_text(column: Column) -> str:
    name = _type_name(column)
    if column.repeated:
        return f"repeated {name}"
    return f"optional {name}" if column.explicit else name


def _type_name(column: Column) -> str:
    if column.unit == "proto":
        return f"google.protobuf.{_WELL_KNOWN[column.type]}"
    held = camel_case(column.message or "")
    if column.type == "map":
        key, value = (RECORD_TYPES[str(type)].proto_type for type in (column.key, column.value))
        return f"map<{key}, {held or value}>"
    return held or (_enum_name(column) if column.type == "enum" else column.proto_type)


def _comment(column: Column, scaled: bool) -> list[str]:
    note = _note(column, scaled)
    text = f"{column.doc} ({note})".lstrip() if note else column.doc
    printable = re.sub(r"[\x00-\x1f\x7f]+", " ", text)  # protoc rejects control characters, even in comments
    return textwrap.wrap(printable, 110, initial_indent="// ", subsequent_indent="// ")


def _note(column: Column, scaled: bool) -> str:
    """Return the facts about a column that the .proto type does not express."""
    return "; ".join(filter(None, (_type_note(column, scaled), "required" if column.required else "")))


def _type_note(column: Column, scaled: bool) -> str:
    if column.scale == "count":
        return (
            "multiplied by the sampling rate"
            if scaled
            else "as observed: not multiplied by the sampling rate"
        )
    if column.unit == "proto":
        return ""
    if column.type == "timestamp":
        return f"{_UNIT_NAMES[str(column.unit)]} since 1970, UTC"
    if column.type == "duration":
        return _UNIT_NAMES[str(column.unit)]
    if column.type == "ip":
        return "4 or 16 bytes" if column.ip == "native" else "16 bytes, IPv4 as ::ffff:a.b.c.d"
    return _WIDTHS.get(column.type, "")


_WIDTHS = {
    **{"mac": "48 bits", "uint8": "8 bits", "uint16": "16 bits"},
    **{"int8": "8 bits with sign", "int16": "16 bits with sign"},
}


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
