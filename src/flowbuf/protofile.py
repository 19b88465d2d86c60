"""The .proto file beside a stream of messages: it says which columns the stream was written with."""

from __future__ import annotations

import errno
import os
import re

from flowbuf.errors import SchemaError
from flowbuf.schema import Schema
from flowbuf.sinks.file import OutputFile

__all__ = ["check_proto", "find_proto", "proto_path", "read_proto", "write_proto"]

_HASH = re.compile(r"^// Schema .* hash ([0-9a-f]{16})\.$", re.MULTILINE)
_FIRST_LINE = re.compile(rb'// Schema ".*" of flowbuf, hash ')
_FIELD = re.compile(r"^\s*((?:repeated |optional )?\w+) (\w+) = (\d+);", re.MULTILINE)


def proto_path(path: str | os.PathLike[str]) -> str:
    """Where the .proto of a stream is: flows.pb.proto, flows.pb.gz.proto. No two streams share one."""
    return os.fspath(path) + ".proto"


def find_proto(path: str | os.PathLike[str]) -> str | None:
    """The path of the .proto beside a stream, if there is one."""
    beside = proto_path(path)
    return beside if os.path.isfile(beside) else None


def check_proto(path: str | os.PathLike[str]) -> None:
    """Raises FileExistsError where something else is in the place of the .proto that a stream would have."""
    proto = find_proto(path)
    if proto is None:
        return
    with open(proto, "rb") as file:
        if not _FIRST_LINE.match(file.readline(1000)):
            raise FileExistsError(errno.EEXIST, "flowbuf did not write it; move it, or write to another file", proto)


def write_proto(path: str | os.PathLike[str], schema: Schema, *, scaled: bool = False) -> None:
    """Writes the .proto beside a stream; `scaled` as in `Schema.to_proto`. Raises OSError, also where `check_proto`
    does."""
    check_proto(path)
    with OutputFile(proto_path(path)) as file:
        file.write(schema.to_proto(scaled=scaled).encode())


def read_proto(proto: str, schema: Schema) -> Schema:
    """`schema` with exactly the columns enabled that a .proto has. Raises SchemaError where they are not the same in
    both."""
    try:
        with open(proto, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"cannot be read: {error}", origin=proto) from None
    fields = {name: f"{type} {name} = {number}" for type, name, number in _FIELD.findall(text)}
    _check_known(fields, schema, proto)
    same = schema.only(*fields)
    _check_fields(fields, same, proto)
    written = _HASH.search(text)
    if written and written[1] != same.hash:
        problem = f"its hash is {written[1]}, that of the same columns in schema {schema.name!r} is {same.hash}"
        raise SchemaError(problem, "a unit, an enum or the form of addresses has changed: " + _fix(proto), origin=proto)
    return same


def _check_known(fields: dict[str, str], schema: Schema, proto: str) -> None:
    unknown = [name for name in fields if name not in schema]
    if unknown:
        problem = f"schema {schema.name!r} has no column for {fields[unknown[0]]!r}{_others(unknown)}"
        raise SchemaError(problem, _fix(proto), origin=proto)


def _check_fields(fields: dict[str, str], schema: Schema, proto: str) -> None:
    ours = {name: f"{type} {name} = {number}" for type, name, number in _FIELD.findall(schema.to_proto())}
    different = [name for name, field in ours.items() if fields[name] != field]
    if different:
        first = different[0]
        problem = f"it says {fields[first]!r}, schema {schema.name!r} says {ours[first]!r}{_others(different)}"
        raise SchemaError(problem, _fix(proto), origin=proto, column=first)


def _others(names: list[str]) -> str:
    """Columns of which the same is so, besides the first."""
    return f" (the same of {', '.join(names[1:])})" if len(names) > 1 else ""


def _fix(proto: str) -> str:
    return f"give the schema that wrote the messages with --schema, or remove {os.path.basename(proto)}"
