"""Annotated classes, and the compilation of .proto texts."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import Annotated, Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from flowbuf import field


class Status(enum.IntEnum):
    PAID = 2
    OPEN = 0
    cancelled = -1


class Shade(enum.IntEnum):
    OPEN = 0  # the same name as in Status
    SHADE_DARK = 1


@dataclasses.dataclass
class Item:
    article: Annotated[int, field(1, "uint32")] = 0
    price: Annotated[float, field(2, "float")] = 0.0


def compile_text(folder: Path, name: str, text: str) -> FileDescriptorProto:
    """Return the descriptor that protoc makes of a .proto text, without names for JSON."""
    compiler = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    (folder / name).write_text(text, encoding="utf-8")
    out = folder / "out.desc"
    well_known = Path(compiler.__file__).parent / "_proto"
    command = ["protoc", f"-I{folder}", f"-I{well_known}", f"--descriptor_set_out={out}", name]
    assert compiler.main(command) == 0, text
    file = FileDescriptorSet.FromString(out.read_bytes()).file[0]
    messages = list(file.message_type)
    for message in messages:  # the list grows during the loop
        messages += message.nested_type
        for each in message.field:
            each.ClearField("json_name")
    return file


def make(name: str, **fields: Any) -> type:
    """Return a dataclass with these annotations."""
    return dataclasses.make_dataclass(name, list(fields.items()))
