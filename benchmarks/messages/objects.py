"""Measure messages to objects of classes and back, beside libraries with generated classes.

python -m benchmarks.messages.objects [FAMILY]...

It needs pip install grpcio-tools betterproto2 betterproto2-compiler fastproto ruff. protoc generates the
classes of both libraries. flowbuf uses dataclasses with slots. upb makes its own messages, whose fields
become Python objects only when they are read, which is not measured. The table is that of `json_text`.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from benchmarks.lab.families import FAMILIES, Field
from benchmarks.messages.json_text import Work, each, print_table
from flowbuf import Codec, Schema


def make_dataclass(name: str, fields: tuple[Field, ...]) -> type:
    """Return a dataclass with slots, and annotations for the classes of nested records."""
    kinds: list[tuple[str, Any]] = []
    for field in fields:
        inner: Any = make_dataclass(field.name, field.fields) if field.fields else Any
        kinds.append((field.name, list[inner] if field.kind == "messages" else inner))
    return dataclasses.make_dataclass(name, kinds, slots=True)


def generate(folder: str, family: str) -> tuple[Any, Any]:
    """Generate the classes of betterproto2 and fastproto, and return those of the record."""
    with open(f"{folder}/{family}.proto", "w") as file:
        file.write(Schema.load(family).to_proto())
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"{family}.proto"]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    package = f"better_{family}"
    os.mkdir(f"{folder}/{package}")
    outputs = [f"--python_betterproto2_out={folder}/{package}", f"--fastproto_out={folder}"]
    for output in outputs:
        subprocess.run([*command, output], check=True, env=os.environ | {"PATH": path}, capture_output=True)
    sys.path.insert(0, folder)
    name = Schema.load(family).file_descriptor().message_type[0].name
    better = importlib.import_module(f"{package}.flowbuf")
    fast = importlib.import_module(f"{family}_pb")
    return getattr(better, name), getattr(fast, name)


def contestants(folder: str, family: str) -> dict[str, dict[str, Work]]:
    """Return the work of each contestant by direction: one pass over all records of a family."""
    codec = Codec.load(family, into=make_dataclass(family, FAMILIES[family].fields))
    upb = codec.message_class()
    better, fast = generate(folder, family)
    messages = [codec.encode(record) for record in FAMILIES[family].records]

    readers: dict[str, Callable[[bytes], Any]] = {
        "flowbuf": codec.decode,
        "upb": upb.FromString,
        "betterproto2": better.parse,
        "fastproto": fast.from_bytes,
    }
    writers: dict[str, Callable[[Any], bytes]] = {
        "flowbuf": codec.encode,
        "upb": upb.SerializeToString,
        "betterproto2": bytes,
        "fastproto": fast.to_bytes,
    }
    objects = {name: [read(message) for message in messages] for name, read in readers.items()}
    for name, write in writers.items():
        same = [
            upb.FromString(write(one)) == upb.FromString(data)
            for one, data in zip(objects[name], messages, strict=True)
        ]
        assert all(same), name
    return {
        "decode": {name: each(read, messages) for name, read in readers.items()},
        "encode": {name: each(write, objects[name]) for name, write in writers.items()},
    }


def main(*families: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print_table(lambda family: contestants(folder, family), families or tuple(FAMILIES))


if __name__ == "__main__":
    main(*sys.argv[1:])
