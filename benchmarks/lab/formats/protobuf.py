"""Protocol Buffers by google.protobuf, whose runtime in C is upb: a record is a dict before and after.

The dynamic format has the message class of a descriptor at run time and treats every message alike; the generated one
has the module that protoc makes, and code that names each field. A batch is a message that repeats the record: octets
as in a length-delimited stream, with a tag before each length, and one call for all of them.
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
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

PACKAGE = "flowbuf"
TIMESTAMP = ".google.protobuf.Timestamp"
PROTO_TYPES = {
    **dict.fromkeys(("int16", "int32"), "int32"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint32"),
    **dict.fromkeys(("time", "message", "messages"), "message"),
}


# Descriptors ----------------------------------------------------------------------------------------------------------


def describe(family: Family) -> FileDescriptorProto:
    """The family's messages, and `Batch`, which repeats the first."""
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

    file = FileDescriptorProto(name=f"lab_{family.name}.proto", package=PACKAGE, syntax="proto3")
    if family.times:
        file.dependency.append("google/protobuf/timestamp.proto")
    name = camel_case(family.name)
    add_message(file.message_type.add(name=name), family.fields, f".{PACKAGE}.{name}")
    batch = DescriptorProto(name="Batch")
    add_field(batch, 1, "records", "message", f".{PACKAGE}.{name}", repeated=True)
    file.message_type.append(batch)
    return file


def add_message(message: DescriptorProto, fields: Sequence[Field], path: str) -> None:
    known = {(): TIMESTAMP}
    for number, field in enumerate(fields, 1):
        if field.fields not in known:
            name = f"Sub{message.name}"
            known[field.fields] = f"{path}.{name}"
            add_message(message.nested_type.add(name=name), field.fields, f"{path}.{name}")
        kind = PROTO_TYPES.get(field.kind, field.kind)
        type_name = known[field.fields] if kind == "message" else None
        add_field(message, number, field.name, kind, type_name, field.kind == "messages")


def add_field(
    message: DescriptorProto, number: int, name: str, kind: str, type_name: str | None = None, repeated: bool = False
) -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    field = message.field.add(name=name, number=number, type_name=type_name)
    field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    label = "LABEL_REPEATED" if repeated else "LABEL_OPTIONAL"
    field.label = FieldDescriptorProto.Label.Value(label)


def camel_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


# Dicts to messages and back -------------------------------------------------------------------------------------------


def read_dynamically(fields: Sequence[Field]) -> Callable[[Any], Record]:
    """A function that reads any message of these fields: each by its name."""
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
    """A function as one would write it for this message alone: a dict display that names every field."""
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
    """The constructor of a message takes dicts for messages in it, and times."""

    def encode(record: Record) -> bytes:
        data: bytes = message(**record).SerializeToString()
        return data

    def encode_batch(records: list[Record]) -> bytes:
        data: bytes = batch(records=records).SerializeToString()
        return data

    def decode_batch(data: bytes) -> list[Record]:
        return [read(each) for each in batch.FromString(data).records]

    return Coder(encode, lambda data: read(message.FromString(data)), encode_batch, decode_batch)


# The two formats ------------------------------------------------------------------------------------------------------


def open_dynamic(family: Family) -> Coder:
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP_FILE.serialized_pb)
    file = describe(family)
    pool.Add(file)
    names = (file.message_type[0].name, "Batch")
    found = [pool.FindMessageTypeByName(f"{PACKAGE}.{name}") for name in names]
    message, batch = (message_factory.GetMessageClass(each) for each in found)
    return make_coder(message, batch, read_dynamically(family.fields))


def open_generated(family: Family) -> Coder:
    module = import_generated(family.name, describe(family).SerializeToString(deterministic=True))
    message = getattr(module, describe(family).message_type[0].name)
    return make_coder(message, module.Batch, read_by_code(family.fields))


@functools.cache
def import_generated(name: str, file: bytes) -> Any:
    """The module that protoc makes of a file descriptor. Each family has a package of its own: the messages of
    generated modules share one pool, in which names are unique."""
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
    Format("protobuf-upb", "protobuf", True, False, "dict", TIMES, BATCH, open_dynamic, (UPB,)),
    Format(
        *("protobuf-upb-generated", "protobuf", True, False, "dict", TIMES, BATCH, open_generated),
        needs=(UPB, ("grpc_tools", "grpcio-tools")),
    ),
)
