"""The .proto text of a file descriptor.

It has the definitions that annotated classes use: proto3 messages with scalars, enums, `optional`, repeated
fields, maps and oneofs. `flowbuf.schema.proto` writes the text of schemas without importing google.protobuf.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

__all__ = ["to_text"]

_SIMPLE = re.compile(r"[A-Z]\w*", re.ASCII)  # names that are no keywords


def to_text(file: FileDescriptorProto, comment: str = "") -> str:
    """Return the .proto text of a file.

    Args:
        file: File in proto3, with top-level messages and enums, and without options.
        comment: Text of the first line. Default: none.
    """
    lines = [f"// {comment}"] if comment else []
    lines += [f'syntax = "{file.syntax}";', ""]
    if file.package:
        lines += [f"package {file.package};", ""]
    if file.dependency:
        lines += [*(f'import "{name}";' for name in file.dependency), ""]
    for message in file.message_type:
        lines += [*_Message(file, message).lines(), ""]
    for each in file.enum_type:
        lines += [*_enum(each), ""]
    return "\n".join(lines[:-1]) + "\n"


def _enum(each: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {each.name} {{"
    yield from _indent(f"{value.name} = {value.number};" for value in each.value)
    yield "}"


class _Message:
    """The text of a message."""

    def __init__(self, file: FileDescriptorProto, message: DescriptorProto) -> None:
        self.message = message
        self.prefix = f".{file.package}." if file.package else "."
        self.entries = {f"{self.prefix}{message.name}.{each.name}": each for each in message.nested_type}
        # names that hide others with the same name from the fields of the message
        self.hidden = {each.name for each in message.field} | {each.name for each in message.oneof_decl}
        self.hidden |= {each.name for each in message.nested_type}
        top = {each.name for each in file.message_type} | {each.name for each in file.enum_type}
        self.hides_google = "google" in {*self.hidden, *top, *file.package.split(".")}

    def lines(self) -> Iterator[str]:
        yield f"message {self.message.name} {{"
        yield from _indent(self._body())
        yield "}"

    def _body(self) -> Iterator[str]:
        opened = None
        for field in self.message.field:
            oneof = self._oneof(field)
            if opened not in (None, oneof):
                yield "}"
            if oneof is None:
                yield self._field(field)
            else:
                if oneof != opened:
                    yield f"oneof {oneof} {{"
                yield f"  {self._field(field)}"
            opened = oneof
        if opened is not None:
            yield "}"

    def _oneof(self, field: FieldDescriptorProto) -> str | None:
        if not field.HasField("oneof_index") or field.proto3_optional:
            return None
        return self.message.oneof_decl[field.oneof_index].name

    def _field(self, field: FieldDescriptorProto) -> str:
        entry = self.entries.get(field.type_name)
        if entry is not None:
            key, value = entry.field
            return f"map<{self._type(key)}, {self._type(value)}> {field.name} = {field.number};"
        label = "optional " if field.proto3_optional else ""
        if field.label == field.LABEL_REPEATED:
            label = "repeated "
        return f"{label}{self._type(field)} {field.name} = {field.number};"

    def _type(self, field: FieldDescriptorProto) -> str:
        """Return the type of a field. A name that could mean something else is written in full."""
        if not field.type_name:
            return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        if field.type_name.startswith(".google.protobuf.") and self.prefix != ".google.protobuf.":
            return field.type_name if self.hides_google else field.type_name[1:]
        short = field.type_name.removeprefix(self.prefix)
        return short if _SIMPLE.fullmatch(short) and short not in self.hidden else field.type_name


def _indent(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"  {line}"
