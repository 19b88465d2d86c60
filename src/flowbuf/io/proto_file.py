"""Write and read the .proto file beside a message stream. It describes the columns of the stream."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import replace

from flowbuf.errors import SchemaError
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Column, Schema
from flowbuf.schema.loader import ROWS, built_in_names
from flowbuf.schema.shape import more_than_flat

__all__ = [
    "check_proto",
    "find_proto",
    "is_own_proto",
    "proto_path",
    "read_proto",
    "schema_of_proto",
    "write_proto",
]

_HASH = re.compile(r"^// Schema .* hash ([0-9a-f]{16})\.$", re.MULTILINE)
_NAME = re.compile(r'// Schema "(.*)" of flowbuf, hash ')
_FIRST_LINE = re.compile(rb'// Schema ".*" of flowbuf, hash ')
_FIELD = re.compile(r"^\s*((?:repeated |optional )?\w+) (\w+) = (\d+)(?: \[packed = false\])?;", re.MULTILINE)


def proto_path(path: str | os.PathLike[str]) -> str:
    """Return the path of the .proto of a stream: flows.pb.proto, flows.pb.gz.proto.

    No two streams share one.
    """
    return os.fspath(path) + ".proto"


def find_proto(path: str | os.PathLike[str]) -> str | None:
    """Return the path of the .proto beside a stream, or None if it does not exist."""
    beside = proto_path(path)
    return beside if os.path.isfile(beside) else None


def check_proto(path: str | os.PathLike[str]) -> None:
    """Raise FileExistsError if the path of a stream's .proto holds a file that flowbuf did not write."""
    proto = find_proto(path)
    if proto is not None and not is_own_proto(proto):
        raise FileExistsError(
            errno.EEXIST, "was not written by flowbuf; move it, or write to another file", proto
        )


def is_own_proto(proto: str) -> bool:
    """Return True if flowbuf wrote a .proto."""
    with open(proto, "rb") as file:
        return _FIRST_LINE.match(file.readline(1000)) is not None


def write_proto(path: str | os.PathLike[str], schema: Schema, *, scaled: bool = False) -> None:
    """Write the .proto beside a stream.

    Args:
        path: Path of the stream.
        schema: Schema of the messages.
        scaled: As in `Schema.to_proto`.

    Raises:
        FileExistsError: flowbuf did not write the existing .proto.
        OSError: The file cannot be written.
    """
    check_proto(path)
    with OutputFile(proto_path(path)) as file:
        file.write(schema.to_proto(scaled=scaled).encode())


def read_proto(proto: str, schema: Schema) -> Schema:
    """Return `schema` with exactly the columns of a .proto enabled.

    Raises:
        SchemaError: A column differs between both, or the rows of the schema are not flat.
    """
    schema.require_flat("a table")
    try:
        with open(proto, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"cannot be read: {error}", origin=proto) from None
    fields = {name: f"{type} {name} = {number}" for type, name, number in _FIELD.findall(text)}
    schema = schema.with_vendors(fields)
    fix = _suggest_schema(text, schema)
    _check_known(fields, schema, proto, fix)
    same = schema.only(*fields)
    _check_fields(fields, same, proto, fix)
    written = _HASH.search(text)
    if written and written[1] != same.hash:
        problem = (
            f"hash is {written[1]}, but {same.hash} for the same columns of schema {schema.name!r}: "
            "a unit, an enum or the form of addresses has changed"
        )
        raise SchemaError(problem, fix, origin=proto)
    return same


_ENUM = re.compile(r"^\s*enum (\w+) \{(.*?)^\s*\}", re.MULTILINE | re.DOTALL)
_MEMBER = re.compile(r"(\w+) = (\d+);")
_NAMES = re.compile(r"^message (\w+) \{", re.MULTILINE)


def schema_of_proto(text: str, known: Sequence[Schema], origin: str) -> Schema:
    """Return a schema for the text of a .proto that flowbuf generated.

    A registry may have reformatted the text.

    The .proto gives the type of a column. Its other properties come from the `known` schema that shares the
    most columns, then from the next ones. A column that no known schema has gets the properties of its type
    alone.

    Raises:
        SchemaError: The text has no message.
    """
    members = {
        name: {member: int(number) for member, number in _MEMBER.findall(body)}
        for name, body in _ENUM.findall(text)
    }
    plain = _ENUM.sub("", text)
    fields = _FIELD.findall(plain)
    known = [schema.with_vendors(name for _, name, _ in fields) for schema in known]
    known = sorted(known, key=lambda schema: -sum(_has(schema, declared) for declared in fields))
    columns = [_find_column(declared, members, known, origin) for declared in fields]
    name = _NAMES.search(plain)
    if not name:
        raise SchemaError("has no message", "check that flowbuf wrote it", origin=origin)
    columns.sort(key=lambda column: column.number)
    rows = next((schema.rows for schema in known[:1] if any(_has(schema, each) for each in fields)), ROWS[0])
    return Schema(name[1], tuple(columns), (), origin, name[1], rows)


def _has(schema: Schema, declared: tuple[str, str, str]) -> bool:
    type, name, number = declared
    if name not in schema:
        return False
    plain = _plain(schema[name])
    return not more_than_flat(plain) and _declare(plain) == f"{type} {name} = {number}"


def _find_column(
    declared: tuple[str, str, str], members: dict[str, dict[str, int]], known: Sequence[Schema], origin: str
) -> Column:
    type, name, number = declared
    for schema in known:
        if _has(schema, declared):
            return _plain(schema[name])
    label, _, plain = type.rpartition(" ")
    return Column(
        name,
        int(number),
        "enum" if plain in members else plain,
        values=members.get(plain, {}),
        repeated=label == "repeated",
        explicit=label == "optional",
        origin=origin,
    )


def _plain(column: Column) -> Column:
    """Return a column with only the properties that a .proto describes."""
    return replace(column, enabled=True, depends=(), mirror=None, required=False, packed=True)


def _declare(column: Column) -> str:
    """Return the declaration of a plain column in a .proto."""
    text = Schema("one", (column,)).to_proto()
    type, name, number = _FIELD.findall(_ENUM.sub("", text))[0]
    return f"{type} {name} = {number}"


def _check_known(fields: dict[str, str], schema: Schema, proto: str, fix: str) -> None:
    unknown = [name for name in fields if name not in schema]
    if unknown:
        problem = f"schema {schema.name!r} has no column for {fields[unknown[0]]!r}{_others(unknown)}"
        raise SchemaError(problem, fix, origin=proto)


def _check_fields(fields: dict[str, str], schema: Schema, proto: str, fix: str) -> None:
    ours = {name: f"{type} {name} = {number}" for type, name, number in _FIELD.findall(schema.to_proto())}
    different = [name for name, field in ours.items() if fields[name] != field]
    if different:
        first = different[0]
        problem = f"is {fields[first]!r}, but {ours[first]!r} in schema {schema.name!r}{_others(different)}"
        raise SchemaError(problem, fix, origin=proto, column=first)


def _others(names: list[str]) -> str:
    """Return a note with the other columns that have the same problem."""
    return f" (also {', '.join(names[1:])})" if len(names) > 1 else ""


def _suggest_schema(text: str, schema: Schema) -> str:
    """Return the advice to use the schema that the first line of a .proto names."""
    named = _NAME.match(text)
    name = named[1] if named and named[1] != schema.name else ""
    if name in built_in_names():
        return f"add --schema {name}"
    return f"add --schema with the file of the schema {name or schema.name!r} that wrote the messages"
