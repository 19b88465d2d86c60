"""A schema as Protocol Buffers sees it: descriptor, .proto text, message class. Only enabled columns take part.

Names and types are said once, for the text and for the descriptor. `google.protobuf` is imported for the descriptor
alone: it takes longer than the text.
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from flowbuf.schema import Column, Schema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import Message

__all__ = ["PACKAGE", "message_name", "to_descriptor", "to_message_class", "to_text"]

PACKAGE = "flowbuf"
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def message_name(schema: Schema) -> str:
    """The name of the message, without its package: that of the schema in CamelCase, if the schema says no other."""
    return schema.message_name or _camel_case(schema.name)


def to_descriptor(schema: Schema) -> FileDescriptorProto:
    """The file descriptor. Raises SchemaError where two names of the message would collide."""
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

    _check_scope(schema)
    message = DescriptorProto(name=message_name(schema))
    for column in schema.enabled:
        _add_field(message, column)
    for old in schema.reserved:
        message.reserved_range.add(start=old.number, end=old.number + 1)
        message.reserved_name.append(old.name)
    return FileDescriptorProto(name=f"{schema.name}.proto", package=PACKAGE, syntax="proto3", message_type=[message])


@functools.lru_cache(maxsize=64)
def to_message_class(schema: Schema) -> type[Message]:
    """The message class. Every schema has a pool of its own, so that two may call their messages alike."""
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.Add(to_descriptor(schema))
    descriptor = pool.FindMessageTypeByName(f"{PACKAGE}.{message_name(schema)}")
    message_class: type[Message] = message_factory.GetMessageClass(descriptor)
    return message_class


def to_text(schema: Schema, scaled: bool = False) -> str:
    """The text of the .proto file; `scaled` is whether totals are multiplied by the sampling rate, which comments say.
    Raises SchemaError where two names of the message would collide."""
    _check_scope(schema)
    lines = [
        f'// Schema "{schema.name}" of flowbuf, hash {schema.hash}.',
        "// A stream is made of messages, each after its length as a varint.",
        'syntax = "proto3";',
        "",
        f"package {PACKAGE};",
        "",
        f"message {message_name(schema)} {{",
        *_indent(_body(schema, scaled)),
        "}",
    ]
    return "\n".join(lines) + "\n"


# Names ----------------------------------------------------------------------------------------------------------------


def member_name(column: Column, member: str) -> str:
    """What a member of an enum column is called in the .proto: `FLOW_DIRECTION_INGRESS`."""
    return f"{_upper_snake(column.name)}_{_upper_snake(member)}"


def _members(column: Column) -> Iterator[tuple[str, int]]:
    """The members of an enum column, by number. They stand in the scope of the message, so each bears the name of its
    enum, as the style guide has it."""
    for member, number in sorted(column.values.items(), key=lambda item: item[1]):
        yield member_name(column, member), number


def _enum_name(column: Column) -> str:
    name = _camel_case(column.name)
    return f"{name}Value" if name == column.name else name


def _camel_case(name: str) -> str:
    return "".join(word[0].upper() + word[1:] for word in re.split("[_-]+", name) if word)


def _upper_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _enums(schema: Schema) -> list[Column]:
    return [column for column in schema.enabled if column.type == "enum"]


def _check_scope(schema: Schema) -> None:
    """Fields, enums and the members of all enums share one scope."""
    taken = {column.name: column.name for column in schema.enabled}
    for column in _enums(schema):
        for name in (_enum_name(column), *(member for member, _ in _members(column))):
            if name in taken:
                problem = f"its enum and column {taken[name]!r} both need the name {name} in the .proto"
                raise schema.error(column.name, problem, "rename the column, or a member of its values")
            taken[name] = column.name


# The descriptor -------------------------------------------------------------------------------------------------------


def _add_field(message: DescriptorProto, column: Column) -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    field = message.field.add(name=column.name, number=column.number)
    field.type = getattr(FieldDescriptorProto, f"TYPE_{column.proto_type.upper()}")
    field.label = FieldDescriptorProto.LABEL_REPEATED if column.repeated else FieldDescriptorProto.LABEL_OPTIONAL
    if column.type == "enum":
        enum = message.enum_type.add(name=_enum_name(column))
        for member, number in _members(column):
            enum.value.add(name=member, number=number)
        field.type_name = f".{PACKAGE}.{message.name}.{enum.name}"
    if column.explicit:  # presence in proto3 is a oneof of one field
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{column.name}")


# The text -------------------------------------------------------------------------------------------------------------


def _body(schema: Schema, scaled: bool) -> list[str]:
    lines = []
    if schema.reserved:
        numbers = ", ".join(str(old.number) for old in schema.reserved)
        names = ", ".join(f'"{old.name}"' for old in schema.reserved)
        lines += [f"reserved {numbers};", f"reserved {names};", ""]
    for column in _enums(schema):
        members = (f"{member} = {number};" for member, number in _members(column))
        lines += [f"enum {_enum_name(column)} {{", *_indent(members), "}", ""]
    for column in schema.enabled:
        lines += [*_comment(column, scaled), f"{_type_text(column)} {column.name} = {column.number};"]
    return lines


def _type_text(column: Column) -> str:
    name = _enum_name(column) if column.type == "enum" else column.proto_type
    if column.repeated:
        return f"repeated {name}"
    return f"optional {name}" if column.explicit else name


def _comment(column: Column, scaled: bool) -> list[str]:
    note = _note(column, scaled)
    text = f"{column.doc} ({note})" if note else column.doc
    printable = re.sub(r"[\x00-\x1f\x7f]+", " ", text)  # protoc takes no control characters, not even in comments
    return textwrap.wrap(printable, 110, initial_indent="// ", subsequent_indent="// ")


def _note(column: Column, scaled: bool) -> str:
    """What the type in the .proto does not say."""
    if column.scale == "count":
        return "multiplied by the sampling rate" if scaled else "as observed: not multiplied by the sampling rate"
    if column.type == "timestamp":
        return f"{_UNIT_NAMES[str(column.unit)]} since 1970, UTC"
    if column.type == "duration":
        return _UNIT_NAMES[str(column.unit)]
    if column.type == "ip":
        return "4 or 16 octets" if column.ip == "native" else "16 octets, IPv4 as ::ffff:a.b.c.d"
    return {"mac": "48 bits", "uint8": "8 bits", "uint16": "16 bits"}.get(column.type, "")


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
