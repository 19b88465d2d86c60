"""Message types of google.protobuf: descriptors, message classes, descriptor sets and .proto files."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError as ProtobufError
from google.protobuf.unknown_fields import UnknownFieldSet

from flowbuf.codec.model import Field, Message
from flowbuf.errors import SchemaError, did_you_mean

__all__ = ["compile_proto", "find_message", "load_files", "read_file", "to_message"]

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

_IMPORTS = (
    "imports are searched only in the folder of the file; if they are elsewhere, load the output of "
    "`protoc -I FOLDER --include_imports --descriptor_set_out=FILE.desc`"
)


def to_message(descriptor: Descriptor) -> Message:
    """Convert a descriptor and all types that its fields refer to.

    A loop is used, because a chain of types may be too long for recursion.
    """
    known = {descriptor.full_name: Message(descriptor.full_name)}
    waiting = [descriptor]
    for each in waiting:  # the list grows during the loop
        entry = each.GetOptions().map_entry
        for field in each.fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in known:
                known[inner.full_name] = Message(inner.full_name)
                waiting.append(inner)
            known[each.full_name].fields.append(_convert_field(field, known, entry))
    return known[descriptor.full_name]


def _convert_field(field: FieldDescriptor, known: dict[str, Message], of_entry: bool) -> Field:
    single = not _is_repeated(field)
    oneof = field.containing_oneof if single else None
    choice = oneof.name if oneof is not None and not _is_synthetic(oneof) else None
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    enum = field.enum_type
    return Field(
        field.name,
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
    )


def _is_repeated(field: Any) -> bool:
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


def _is_synthetic(oneof: Any) -> bool:
    """Return True for the oneof that represents the presence of an optional field in proto3."""
    fields = oneof.fields
    return len(fields) == 1 and oneof.name == f"_{fields[0].name}"


# Files ------------------------------------------------------------------------------------------------------


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Read the bytes of a descriptor set. Raises SchemaError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        fix = "name a .toml file, a .proto file or a descriptor set"
        raise SchemaError(f"cannot be read: {error.strerror}", fix, origin=os.fspath(path)) from None


def load_files(files: FileDescriptorSet | bytes, origin: str) -> list[Descriptor]:
    """Return the messages of a descriptor set, those of its last file first.

    The last file is the requested one. Raises SchemaError.
    """
    if isinstance(files, bytes):
        try:
            files = FileDescriptorSet.FromString(files)
        except ProtobufError:
            raise SchemaError(
                "is not a FileDescriptorSet", "write one with protoc -o, or buf build", origin=origin
            ) from None
    if not files.file:
        raise SchemaError("has no files", "write it with protoc --include_imports", origin=origin)
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in _in_order(files.file):
            pool.Add(file)
        found = [pool.FindFileByName(file.name) for file in files.file]
        if not all(file.name for file in found):  # reading a name that is not UTF-8 raises
            raise KeyError("a file has no name")
    except UnicodeDecodeError:
        raise SchemaError("has names that are not UTF-8", "write it with protoc -o", origin=origin) from None
    except RecursionError:
        fix = "flatten the chain of imports or messages"
        raise SchemaError("is nested too deeply", fix, origin=origin) from None
    except (TypeError, KeyError) as error:
        fix = "add the imported files with protoc --include_imports"
        raise SchemaError(f"cannot be used: {error}", fix, origin=origin) from None
    return [message for file in reversed(found) for message in file.message_types_by_name.values()]


def _in_order(files: Iterable[FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Sort files so that imports come first. Files in google/protobuf/ are taken from google.protobuf."""
    waiting = {file.name: file for file in files}
    ordered: list[FileDescriptorProto] = []

    def take(name: str) -> None:
        file = waiting.pop(name, None)
        if file is None:
            if name.startswith("google/protobuf/") and all(name != each.name for each in ordered):
                ordered.append(_well_known(name))
            return
        for imported in file.dependency:
            take(imported)
        ordered.append(file)

    for name in list(waiting):
        take(name)
    return ordered


def _well_known(name: str) -> FileDescriptorProto:
    try:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except (ImportError, ValueError):  # ValueError: the name cannot be that of a module
        raise KeyError(f"{name} is missing") from None
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def find_message(messages: list[Descriptor], name: str | None, origin: str) -> Descriptor:
    """Return the message with this name: full, without its package, or only the last part.

    For the last part, top-level messages take precedence over nested ones. Without a name, return the only
    message of the file of the first message.

    Raises:
        SchemaError: no message has the name, or several have it.
    """
    if not messages:
        raise SchemaError("has no messages", "a codec needs at least one", origin=origin)
    if name is None:
        first = [each for each in messages if each.file.name == messages[0].file.name]
        if len(first) != 1:
            fix = f"choose one with message=…: {_list(first)}"
            raise SchemaError(f"has {len(first)} messages", fix, origin=origin)
        return first[0]
    known = _by_name(messages)
    if name not in known:
        fix = did_you_mean(name, known) or f"messages are {_list(messages)}"
        raise SchemaError(f"has no message {name!r}", fix, origin=origin)
    inside = [each for each in known[name] if each.containing_type is not None]
    if len(inside) == len(known[name]) > 1:
        fix = f"choose one with message=…: {_list(inside)}"
        raise SchemaError(f"has {len(inside)} messages named {name!r}", fix, origin=origin)
    return known[name][0]


def _by_name(messages: list[Descriptor]) -> dict[str, list[Descriptor]]:
    """Return all messages, including nested ones, by each of their names, in the order of the files."""
    known: dict[str, list[Descriptor]] = {}
    waiting = list(messages)
    for each in waiting:  # the list grows during the loop
        for name in {each.full_name, each.full_name.removeprefix(f"{each.file.package}."), each.name}:
            known.setdefault(name, []).append(each)
        waiting += [nested for nested in each.nested_types if not nested.GetOptions().map_entry]
    return known


def _list(messages: list[Descriptor]) -> str:
    return ", ".join(each.full_name for each in messages)


def compile_proto(path: str | os.PathLike[str]) -> FileDescriptorSet:
    """Compile a .proto file with protoc.

    Imports are searched in the folder of the file. Raises SchemaError.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise SchemaError("is not a file", "name a .proto file", origin=path)
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "set")
        options = [
            f"--proto_path={os.path.dirname(path) or '.'}",
            "--include_imports",
            f"--descriptor_set_out={output}",
        ]
        done = subprocess.run([*_find_compiler(path), *options, os.path.basename(path)], capture_output=True)
        if done.returncode:
            problems = done.stderr.decode("utf-8", "backslashreplace").strip()
            fix = _IMPORTS if "was not found" in problems else ""
            raise SchemaError(f"does not compile: {problems}", fix, origin=path)
        with open(output, "rb") as file:
            return FileDescriptorSet.FromString(file.read())


def _find_compiler(path: str) -> list[str]:
    program = shutil.which("protoc")
    if program:
        return [program]
    if importlib.util.find_spec("grpc_tools"):
        return [sys.executable, "-m", "grpc_tools.protoc"]
    fix = "run pip install grpcio-tools, install protoc, or load a descriptor set or a message class"
    raise SchemaError("needs protoc, which is not installed", fix, origin=path)
