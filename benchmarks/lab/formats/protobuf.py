"""Protocol Buffers by google.protobuf, whose C runtime is upb. Records are dicts.

The dynamic format creates the message class from a descriptor at run time and uses generic code. The
generated format uses the module that protoc writes and code that names each field. A batch is a message with
a repeated field of records. Its bytes are a length-delimited stream with a tag before each length, and one
call processes all of them.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..families import Family, Field, Record
from .base import Coder, Format

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto


# Descriptors ------------------------------------------------------------------------------------------------


def describe(family: Family) -> FileDescriptorProto:
    """Return the messages of the family's schema, and `Batch` with a repeated field of the first message."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    from flowbuf import Schema

    file = Schema.load(family.name).file_descriptor()
    records = file.message_type.add(name="Batch").field.add(name="records", number=1)
    records.type, records.label = FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.LABEL_REPEATED
    records.type_name = f".{file.package}.{file.message_type[0].name}"
    return file


# Dicts to messages and back ---------------------------------------------------------------------------------


def read_dynamically(fields: Sequence[Field]) -> Callable[[Any], Record]:
    """Return a generic function that converts a message to a dict. It reads each field by its name."""
    if all(field.kind not in ("time", "message", "messages") for field in fields):
        names = [field.name for field in fields]
        return lambda message: {name: getattr(message, name) for name in names}
    readers = [(field.name, read_field(field)) for field in fields]
    return lambda message: {name: read(message, name) for name, read in readers}


def read_field(field: Field) -> Callable[[Any, str], Any]:
    if field.kind == "time":
        return lambda message, name: getattr(message, name).ToDatetime(timezone.utc)
    if field.kind == "message":
        one = read_dynamically(field.fields)
        return lambda message, name: one(getattr(message, name)) if message.HasField(name) else None
    if field.kind == "messages":
        each = read_dynamically(field.fields)
        return lambda message, name: [each(one) for one in getattr(message, name)]
    return getattr


def read_by_code(fields: Sequence[Field]) -> Callable[[Any], Record]:
    """Return a function written for this message only: a dict display that names every field."""
    read: Callable[[Any], Record] = eval(f"lambda m: {write_display(fields, 'm')}", {"UTC": timezone.utc})
    return read


def write_display(fields: Sequence[Field], owner: str) -> str:
    return "{" + ", ".join(f"{field.name!r}: {write_value(field, owner)}" for field in fields) + "}"


def write_value(field: Field, owner: str) -> str:
    value, inner = f"{owner}.{field.name}", f"{owner}m"
    if field.kind == "time":
        return f"{value}.ToDatetime(UTC)"
    if field.kind == "message":
        display = write_display(field.fields, inner)
        return f"(lambda {inner}: {display})({value}) if {owner}.HasField({field.name!r}) else None"
    if field.kind == "messages":
        return f"[{write_display(field.fields, inner)} for {inner} in {value}]"
    return value


def make_coder(message: Any, batch: Any, read: Callable[[Any], Record]) -> Coder:
    """Return a coder. The constructor of a message accepts dicts for its sub-messages, and times."""

    def encode(record: Record) -> bytes:
        data: bytes = message(**record).SerializeToString()
        return data

    def encode_batch(records: list[Record]) -> bytes:
        data: bytes = batch(records=records).SerializeToString()
        return data

    def decode_batch(data: bytes) -> list[Record]:
        return [read(each) for each in batch.FromString(data).records]

    return Coder(encode, lambda data: read(message.FromString(data)), encode_batch, decode_batch)


# The two formats --------------------------------------------------------------------------------------------


def open_dynamic(family: Family) -> Coder:
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP_FILE.serialized_pb)
    file = describe(family)
    pool.Add(file)
    found = [pool.FindMessageTypeByName(f"{file.package}.{message.name}") for message in file.message_type]
    message, batch = map(message_factory.GetMessageClass, found)
    return make_coder(message, batch, read_dynamically(family.fields))


def open_generated(family: Family) -> Coder:
    module = import_generated(family.name, describe(family).SerializeToString(deterministic=True))
    message = getattr(module, describe(family).message_type[0].name)
    return make_coder(message, module.Batch, read_by_code(family.fields))


@functools.cache
def import_generated(name: str, file: bytes) -> Any:
    """Return the module that protoc generates from a file descriptor.

    Each family has a separate package, because generated modules share one pool, in which names are unique.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

    time, text = map(FileDescriptorProto.FromString, (TIMESTAMP_FILE.serialized_pb, file))
    rename_package(text, f"lab_{name}")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "set").write_bytes(FileDescriptorSet(file=[time, text]).SerializeToString())
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_in={folder}/set"]
        subprocess.run([*command, f"--python_out={folder}", text.name], check=True)
        (path,) = Path(folder).rglob("*_pb2.py")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def rename_package(file: FileDescriptorProto, package: str) -> None:
    old, file.package = f".{file.package}.", package
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        for field in message.field:
            if field.type_name.startswith(old):
                field.type_name = f".{package}.{field.type_name.removeprefix(old)}"


UPB = ("google.protobuf", "protobuf")
TIMES = "google.protobuf.Timestamp, converted in Python by the library"
BATCH = "a message that repeats the record"
PROTOBUF = (
    Format("protobuf-upb", "protobuf", True, False, "dict", TIMES, "copies", BATCH, open_dynamic, (UPB,)),
    Format(
        *("protobuf-upb-generated", "protobuf", True, False, "dict", TIMES, "copies", BATCH, open_generated),
        needs=(UPB, ("grpc_tools", "grpcio-tools")),
    ),
)
