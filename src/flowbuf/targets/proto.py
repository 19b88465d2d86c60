"""A schema as Protocol Buffers sees it: descriptor, .proto text, message class. Only enabled columns take part.

The descriptor is built from the schema and the text is printed from the descriptor, so the two cannot disagree.
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import Message

from flowbuf.schema import Column, Schema

__all__ = ["PACKAGE", "message_name", "to_descriptor", "to_message_class", "to_text"]

PACKAGE = "flowbuf"
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def message_name(schema: Schema) -> str:
    """The name of the message, without its package: that of the schema in CamelCase, if the schema says no other."""
    return schema.message_name or _camel_case(schema.name)


def to_descriptor(schema: Schema) -> FileDescriptorProto:
    """The file descriptor. Raises SchemaError where two names of the message would collide."""
    message = DescriptorProto(name=message_name(schema))
    for column in schema.enabled:
        if column.type == "enum":
            message.enum_type.append(_enum(column))
        message.field.append(_field(column, message))
    for old in schema.reserved:
        message.reserved_range.add(start=old.number, end=old.number + 1)
        message.reserved_name.append(old.name)
    _check_scope(schema, message)
    return FileDescriptorProto(name=f"{schema.name}.proto", package=PACKAGE, syntax="proto3", message_type=[message])


@functools.lru_cache(maxsize=64)
def to_message_class(schema: Schema) -> type[Message]:
    """The message class. Every schema has a pool of its own, so that two may call their messages alike."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(to_descriptor(schema))
    descriptor = pool.FindMessageTypeByName(f"{PACKAGE}.{message_name(schema)}")
    message_class: type[Message] = message_factory.GetMessageClass(descriptor)
    return message_class


def to_text(schema: Schema, scaled: bool = False) -> str:
    """The text of the .proto file; `scaled` is whether totals are multiplied by the sampling rate, which comments say.
    Raises SchemaError where two names of the message would collide."""
    message = to_descriptor(schema).message_type[0]
    lines = [
        f'// Schema "{schema.name}" of flowbuf, hash {schema.hash}.',
        "// A stream is made of messages, each after its length as a varint.",
        'syntax = "proto3";',
        "",
        f"package {PACKAGE};",
        "",
        f"message {message.name} {{",
        *_indent(_body(schema, message, scaled)),
        "}",
    ]
    return "\n".join(lines) + "\n"


# The descriptor -----------------------------------------------------------------------------------------------------


def _field(column: Column, message: DescriptorProto) -> FieldDescriptorProto:
    field = FieldDescriptorProto(name=column.name, number=column.number)
    field.type = getattr(FieldDescriptorProto, f"TYPE_{column.proto_type.upper()}")
    field.label = FieldDescriptorProto.LABEL_REPEATED if column.repeated else FieldDescriptorProto.LABEL_OPTIONAL
    if column.type == "enum":
        field.type_name = f".{PACKAGE}.{message.name}.{_enum_name(column)}"
    if column.explicit:  # presence in proto3 is a oneof of one field
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{column.name}")
    return field


def _enum(column: Column) -> EnumDescriptorProto:
    """Members stand in the scope of the message, so each bears the name of its enum, as the style guide has it."""
    enum = EnumDescriptorProto(name=_enum_name(column))
    for member, number in sorted(column.values.items(), key=lambda item: item[1]):
        enum.value.add(name=member_name(column, member), number=number)
    return enum


def member_name(column: Column, member: str) -> str:
    """What a member of an enum column is called in the .proto: `FLOW_DIRECTION_INGRESS`."""
    return f"{_upper_snake(column.name)}_{_upper_snake(member)}"


def _enum_name(column: Column) -> str:
    name = _camel_case(column.name)
    return f"{name}Value" if name == column.name else name


def _camel_case(name: str) -> str:
    return "".join(word[0].upper() + word[1:] for word in re.split("[_-]+", name) if word)


def _upper_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _check_scope(schema: Schema, message: DescriptorProto) -> None:
    """Fields, enums and the members of all enums share one scope."""
    taken = {field.name: field.name for field in message.field}
    enums = [column for column in schema.enabled if column.type == "enum"]
    for column, enum in zip(enums, message.enum_type, strict=True):
        for name in (enum.name, *(value.name for value in enum.value)):
            if name in taken:
                problem = f"its enum and column {taken[name]!r} both need the name {name} in the .proto"
                raise schema.error(column.name, problem, "rename the column, or a member of its values")
            taken[name] = column.name


# The text -----------------------------------------------------------------------------------------------------------


def _body(schema: Schema, message: DescriptorProto, scaled: bool) -> list[str]:
    lines = []
    if schema.reserved:
        numbers = ", ".join(str(gap.start) for gap in message.reserved_range)
        names = ", ".join(f'"{name}"' for name in message.reserved_name)
        lines += [f"reserved {numbers};", f"reserved {names};", ""]
    for enum in message.enum_type:
        lines += [f"enum {enum.name} {{", *_indent(f"{value.name} = {value.number};" for value in enum.value), "}", ""]
    for field in message.field:
        lines += [*_comment(schema[field.name], scaled), f"{_type_text(field)} {field.name} = {field.number};"]
    return lines


def _type_text(field: FieldDescriptorProto) -> str:
    name = (
        field.type_name.rpartition(".")[2] or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    )
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {name}"
    return f"optional {name}" if field.proto3_optional else name


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
