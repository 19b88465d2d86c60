"""Descriptors of google.protobuf as message types of the codec."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from flowbuf.codec.model import Field, Message
from flowbuf.codec.plain import ANY
from flowbuf.errors import SchemaError

__all__ = [
    "LOADED",
    "inner_messages",
    "is_repeated",
    "known_messages",
    "to_file_set",
    "to_message",
    "to_messages",
]

LOADED = "flowbuf/loaded.proto"
"""A file that imports all files that were loaded together. A pool cannot list its files."""

_TYPES = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in (
        *(
            "double",
            "float",
            "int64",
            "uint64",
            "int32",
            "fixed64",
            "fixed32",
            "bool",
            "string",
            "group",
            "message",
        ),
        *("bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
}

_NULLABLE = 65001  # number of the gogoproto extension `nullable` in FieldOptions


def to_message(descriptor: Descriptor) -> Message:
    """Convert a descriptor and all types that its fields refer to."""
    return to_messages([descriptor])[0]


def to_messages(descriptors: list[Descriptor], extensions: bool = False) -> list[Message]:
    """Convert descriptors and all types that their fields refer to.

    With `extensions`, those of a message are fields too. Their names are full names in brackets. A loop is
    used, because a chain of types may be too long for recursion.
    """
    waiting = list({each.full_name: each for each in descriptors}.values())
    known = {each.full_name: Message(each.full_name) for each in waiting}
    for each in waiting:  # the list grows during the loop
        entry = each.GetOptions().map_entry
        optional = _optional_fields(each)
        for field in (*each.fields, *(_extensions_of(each) if extensions else ())):
            inner = field.message_type
            if inner is not None and inner.full_name not in known:
                known[inner.full_name] = Message(inner.full_name)
                waiting.append(inner)
            try:
                converted = _convert_field(field, known, entry, optional)
            except UnicodeDecodeError:
                problem = f"field {field.number} has names that are not UTF-8"
                raise SchemaError(problem, "write it with protoc -o", origin=each.full_name) from None
            known[each.full_name].fields.append(converted)
    return list(known.values())


def inner_messages(descriptor: Descriptor) -> list[Message]:
    """Convert a descriptor, its extensions, and all types inside it: also those that an Any may have.

    An Any may have the types of the file, of those that it imports, and of those that were loaded with it.
    """
    messages = to_messages([descriptor], extensions=True)
    if any(each.name == ANY for each in messages):
        messages = to_messages([descriptor, *known_messages(descriptor)], extensions=True)
    return messages


def _extensions_of(descriptor: Descriptor) -> list[FieldDescriptor]:
    """Return the extensions of a message. Those of a message set have another wire format."""
    if not descriptor.is_extendable or descriptor.GetOptions().message_set_wire_format:
        return []
    found: list[FieldDescriptor] = descriptor.file.pool.FindAllExtensions(descriptor)
    return sorted(found, key=lambda field: field.number)


def known_messages(descriptor: Descriptor) -> list[Descriptor]:
    """Return all messages of a message's file, its imports, and the files that were loaded with it."""
    files = {file.name: file for file in (*_files_of(descriptor.file), *_loaded_files(descriptor))}
    found = [each for file in files.values() for each in file.message_types_by_name.values()]
    for message in found:  # the list grows during the loop
        found += message.nested_types
    return found


def _loaded_files(descriptor: Descriptor) -> list[FileDescriptor]:
    try:
        return list(descriptor.file.pool.FindFileByName(LOADED).dependencies)
    except KeyError:
        return []


def to_file_set(descriptor: Descriptor) -> FileDescriptorSet:
    """Return the file of a message, the files that it imports, and those of extensions.

    If the message may have an Any, the files that were loaded with it are added. The file of the message is
    the last.
    """
    known = {file.name: file for file in _files_of(descriptor.file)}
    if any(each.name == ANY for each in to_messages([descriptor], extensions=True)):
        known |= {file.name: file for file in _loaded_files(descriptor)}
    for message in known_messages(descriptor):
        for extension in _extensions_of(message):
            known |= {file.name: file for file in _files_of(_file_of(extension))}
    own = known.pop(descriptor.file.name)
    files = FileDescriptorSet()
    for file in [*known.values(), own]:
        file.CopyToProto(files.file.add())
    return files


def _file_of(extension: Any) -> FileDescriptor:
    file: FileDescriptor = extension.file
    return file


def _files_of(file: FileDescriptor) -> list[FileDescriptor]:
    """Return a file, and those that it imports directly or indirectly."""
    files = {file.name: file}
    waiting = [file]
    for each in waiting:  # the list grows during the loop
        for imported in each.dependencies:
            if imported.name not in files:
                files[imported.name] = imported
                waiting.append(imported)
    return waiting


def _optional_fields(descriptor: Descriptor) -> set[str]:
    """Return the `optional` fields of proto3. Each is in a oneof of its own, which is none for users."""
    if not descriptor.oneofs:
        return set()
    proto = DescriptorProto()
    descriptor.CopyToProto(proto)
    return {field.name for field in proto.field if field.proto3_optional}


def _convert_field(
    field: FieldDescriptor, known: dict[str, Message], of_entry: bool, optional: set[str]
) -> Field:
    single = not is_repeated(field)
    oneof = field.containing_oneof if single else None
    choice = oneof.name if oneof is not None and field.name not in optional else None
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    enum = field.enum_type
    name = f"[{field.full_name}]" if field.is_extension else field.name
    return Field(
        name,
        field.number,
        _TYPES[field.type],
        repeated=not single,
        packed=not single and bool(field.is_packed),
        presence=single and (field.has_presence and not of_entry),
        required=single and (_is_required(field) or not (choice or _is_nullable(field))),
        oneof=choice,
        map=is_map,
        message=known[field.message_type.full_name] if field.message_type is not None else None,
        members={value.name: value.number for value in enum.values} if enum is not None else {},
        closed=enum is not None and _is_closed(enum),
        default=field.default_value if single and field.has_default_value else None,
        json_name=name if field.is_extension else field.json_name,
        enum=enum.full_name if enum is not None else "",
    )


def is_repeated(field: Any) -> bool:
    """Return True if a field is repeated, or a map."""
    repeated = getattr(field, "is_repeated", None)  # newer versions of google.protobuf replace `label`
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if repeated is None else repeated)


def _is_required(field: Any) -> bool:
    required = getattr(field, "is_required", None)
    return bool(field.label == FieldDescriptor.LABEL_REQUIRED if required is None else required)


def _is_nullable(field: Any) -> bool:
    """Return False if `(gogoproto.nullable) = false` forbids leaving out the field.

    The options are read as unknown fields of an empty message, because google.protobuf may or may not know
    the extension.
    """
    if not field.has_options:
        return True
    options: Any = UnknownFieldSet(Empty.FromString(field.GetOptions().SerializePartialToString()))
    said = [option.data for option in options if (option.field_number, option.wire_type) == (_NULLABLE, 0)]
    return not said or bool(said[-1])


def _is_closed(enum: EnumDescriptor) -> bool:
    return bool(enum.is_closed)
