"""Load schema files: find them by name or path, parse the TOML, and follow `extends`.

Format of a file:

    [schema]
    name = "mine"                    # name of the schema; in CamelCase the name of its message
    message_name = "FlowMessage"     # another name of the message
    rows = "flows"                   # kind of rows: "flows" (default), "counters" of sFlow, "options" of
                                     # NetFlow v9 and IPFIX, or "records"
    framing = "delimited"            # of messages in Kafka records; default: by the number of messages
    extends = "flow"                 # a built-in schema, or a path relative to this file
    only = ["bytes", "group:l2"]     # enable exactly these columns
    enable = ["src_mac"]             # applied after `only`
    disable = ["next_hop"]           # applied after `enable`
    retire = ["out_if"]              # remove the column, and reserve its number and name

    [[column]]                       # a new column, enabled by default, or changed keys of an inherited one
    name = "src_port"
    number = 10
    type = "uint16"
    sources = ["ipfix:sourceTransportPort"]
    doc = "Source port"
    mirror = { name = "dst_port", number = 11 }

    [[reserved]]                     # a column that an older version of this file retired
    number = 12
    name = "colour"

`mirror` defines the column of the other direction. It has the same keys. In its sources, dependencies and
doc, words of one direction are replaced by those of the other. The words are source and destination, src and
dst, ingress and egress, incoming and outgoing, input and output. The table of `mirror` gives all other
differences.

`scale = "count"` marks a total, such as bytes or packets. On request it is multiplied by the column with
`scale = "rate"`, the sampling rate.

`zero = "absent"`: a zero from a source means that the value is unknown, and worse ranks are tried.
`zero = "value"`: a zero is a value, and worse ranks are not tried; other sources of its own rank still are.
Messages leave out a zero in both cases. The default is "value" for a single number or bool, and "absent" for
all other columns.

`replaces_zero` lists elements that are tried after a zero of the rank before them, if that rank consists of
elements. Each of them must be in `sources`.

Records
-------

A schema with `rows = "records"` describes objects of any kind, for `flowbuf.Codec`. Decoders cannot fill
them, so their columns have no `sources`. A record may contain messages, maps and lists:

    [[column]]
    name = "readings"
    number = 3
    type = "message"                 # with the columns below [message.reading]
    message = "reading"
    repeated = true

    [[column]]
    name = "labels"
    number = 4
    type = "map"
    key = "string"                   # or an integer, or bool
    value = "message"                # or a plain type, but not an enum, a time or an address
    message = "label"

    [[message.reading.column]]       # the keys of [[column]]; always enabled, without depends and mirror
    name = "value"
    number = 1
    type = "double"
    required = true                  # must be given for encoding; does not change the wire format

    [[message.reading.reserved]]
    number = 2
    name = "colour"

A message may contain other messages and itself. Only records have the types int8, int16, sfixed32 and
sfixed64. Three keys are for records only. `unit = "proto"` makes a time a google.protobuf.Timestamp, and a
duration a google.protobuf.Duration. `oneof = "choice"` is for columns of which at most one has a value.
`packed = false` is for a list of numbers. A file that extends another can change the columns of a message and
add columns to it.

Biflows
-------

A record of both directions of a biflow (RFC 5103) becomes two flows. The reverse flow gets the values of the
forward direction, with mirrored columns exchanged. Columns with `one_way = true` are an exception: the
reverse flow has them only if the record has the reverse element. The reverse element has enterprise number
29305. For elements of CERT (6871, the exporter YAF), it is the element of the same enterprise with an id
higher by 0x4000. A schema names only the forward element.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flowbuf.errors import SchemaError, did_you_mean
from flowbuf.schema.elements import data_folder
from flowbuf.schema.source import Source
from flowbuf.schema.toml_json import DocumentError, parse_toml

__all__ = ["FRAMINGS", "RECORDS", "ROWS", "Document", "built_in_names", "expand_mirror", "parse", "read"]

SETTINGS = {
    **dict.fromkeys(("name", "message_name", "rows", "framing", "extends", "doc"), str),
    **dict.fromkeys(("only", "enable", "disable", "retire"), list),
}
RECORDS = "records"
ROWS = ("flows", "counters", "options", RECORDS)
FRAMINGS = ("bare", "delimited")
TABLES = ("schema", "column", "reserved", "message")
MESSAGE_TABLES = ("column", "reserved")


@dataclass(frozen=True)
class Document:
    """One file, with its syntax checked and its mirrors expanded. Its columns are not checked yet.

    `messages` maps the name of a message to its tables `column` and `reserved`.
    """

    origin: str
    settings: Mapping[str, Any]
    columns: tuple[Mapping[str, Any], ...]
    reserved: tuple[Mapping[str, Any], ...]
    messages: Mapping[str, Mapping[str, list[Mapping[str, Any]]]]


def built_in_names() -> list[str]:
    """Return the names of the built-in schemas."""
    return sorted(name[: -len(".toml")] for name in os.listdir(data_folder()) if name.endswith(".toml"))


def read(reference: str | os.PathLike[str]) -> list[Document]:
    """Read a schema file, by built-in name or path.

    Return it after the files that it extends, the base first. Raises SchemaError.
    """
    return _read_chain(reference, "", "", ())


def parse(text: str, origin: str) -> list[Document]:
    """Parse the text of a schema file, and read the files that it extends.

    `extends` is relative to the folder of `origin`.
    """
    return _follow(_parse_document(text, origin), os.path.dirname(origin), ())


def _read_chain(
    reference: str | os.PathLike[str], folder: str, asking: str, seen: tuple[str, ...]
) -> list[Document]:
    built_in = isinstance(reference, str) and reference in built_in_names()
    if built_in:
        key = origin = f"schema {reference}"  # the user has no such file
        path = os.path.join(data_folder(), f"{reference}.toml")
    else:
        path = origin = os.path.join(folder, reference)
        key = os.path.realpath(path)
        folder = os.path.dirname(path)
    if key in seen:
        raise SchemaError("extends forms a cycle", f"break it at {origin}", origin=asking)
    text = _read_text(path, os.fspath(reference), asking)
    tables = _read_parsed(path, text) if built_in else None
    return _follow(_parse_document(text, origin, tables), folder, (*seen, key))


def _read_parsed(path: str, text: str) -> dict[str, Any] | None:
    """Return the tables that setup.py wrote for a built-in schema, or None if its text is another one.

    Parsing 57 kB of TOML in Python takes 10 ms, and reading them as JSON 1 ms.
    """
    try:
        with open(f"{path.removesuffix('.toml')}.json", encoding="utf-8") as file:
            parsed: dict[str, Any] = json.load(file)
            return parsed["tables"] if parsed["crc32"] == zlib.crc32(text.encode()) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _follow(document: Document, folder: str, seen: tuple[str, ...]) -> list[Document]:
    parent = document.settings.get("extends")
    return [*(_read_chain(parent, folder, document.origin, seen) if parent else ()), document]


def _read_text(path: str, reference: str, asking: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        known = built_in_names()
        is_path = reference.endswith(".toml")
        what, other = ("file", "another path") if is_path else ("schema", "a path")
        fix = did_you_mean(reference, known) or f"name {other}, or one of {', '.join(known)}"
        raise SchemaError(
            f"{what} {path if is_path else reference!r} does not exist", fix, origin=asking
        ) from None
    except OSError as error:
        raise SchemaError(f"cannot be read: {error.strerror}", origin=path) from None
    except UnicodeDecodeError:
        raise SchemaError("is not UTF-8 text", "write the schema as a TOML file", origin=path) from None


def _parse_document(text: str, origin: str, tables: dict[str, Any] | None = None) -> Document:
    """Return the document of a text, or of its tables if they were parsed before."""
    try:
        tables = parse_toml(text) if tables is None else tables
    except DocumentError as error:
        raise SchemaError(str(error), origin=error.place(origin)) from None
    try:
        _check_keys(tables, TABLES, "table")
        settings = tables.get("schema", {})
        _check_settings(settings)
        columns = [expanded for table in _tables_of(tables, "column") for expanded in expand_mirror(table)]
        reserved = tuple(_tables_of(tables, "reserved"))
        return Document(origin, settings, tuple(columns), reserved, dict(_read_messages(tables)))
    except SchemaError as error:
        raise error.located(origin) from None


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in table:
        if key not in known:
            where = "move it below [schema]" if key in SETTINGS else f"choose from {', '.join(known)}"
            raise SchemaError(f"unknown {what} {key!r}", did_you_mean(key, known) or where)


def _check_settings(settings: Any) -> None:
    if not isinstance(settings, dict):
        raise SchemaError(f"schema is {settings!r}", "write [schema] and below it name = …")
    _check_keys(settings, tuple(SETTINGS), "key of [schema]:")
    for key, value in settings.items():
        if type(value) is not SETTINGS[key]:
            raise SchemaError(
                f"{key} is {value!r}", "it must be " + ("a list" if SETTINGS[key] is list else "a string")
            )
        if isinstance(value, list) and not all(isinstance(name, str) for name in value):
            raise SchemaError(f"{key} is {value!r}", "it must be a list of column names")
    for key, known in (("rows", ROWS), ("framing", FRAMINGS)):
        if settings.get(key, known[0]) not in known:
            raise SchemaError(f"{key} is {settings[key]!r}", f"it must be one of {', '.join(known)}")


def _tables_of(tables: Mapping[str, Any], key: str, inside: str = "") -> list[Mapping[str, Any]]:
    found = tables.get(key, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise SchemaError(f"{inside}{key} is not a list of tables", f"write [[{inside}{key}]]")
    return found


def _read_messages(tables: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, list[Mapping[str, Any]]]]]:
    messages = tables.get("message", {})
    if not isinstance(messages, dict):
        raise SchemaError("message is not a table", "write [[message.NAME.column]]")
    for name, parts in messages.items():
        if not isinstance(parts, dict):
            raise SchemaError(f"message.{name} is not a table", f"write [[message.{name}.column]]")
        _check_keys(parts, MESSAGE_TABLES, f"table of [message.{name}]:")
        yield name, {key: _tables_of(parts, key, f"message.{name}.") for key in MESSAGE_TABLES}


# Mirrored columns -------------------------------------------------------------------------------------------

_PAIRS = [
    ("source", "destination"),
    ("src", "dst"),
    ("ingress", "egress"),
    ("incoming", "outgoing"),
    ("input", "output"),
    ("in_if", "out_if"),
]
_OTHER = {**dict(_PAIRS), **{one.capitalize(): other.capitalize() for one, other in _PAIRS}}
_DIRECTION = re.compile("|".join(_OTHER))


def expand_mirror(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the one or two columns that a `[[column]]` table describes. Raises SchemaError."""
    if "mirror" not in table:
        yield dict(table)
        return
    own, other = {**table}, table["mirror"]
    name = str(table.get("name", ""))
    if not isinstance(other, dict) or not {"name", "number"} <= other.keys() or "number" not in own:
        fix = "write number = N and mirror = { name = …, number = M } on a new column"
        raise SchemaError(f"mirror is {other!r}", fix, column=name)
    mirrored = {
        **own,
        **{key: turn(own[key]) for key in ("sources", "replaces_zero", "depends", "doc") if key in own},
        **other,
    }
    if "sources" in other and "replaces_zero" not in other and "replaces_zero" in mirrored:
        mirrored["replaces_zero"] = _choose_among(mirrored["replaces_zero"], other["sources"])
    if own.get("sources") and mirrored["sources"] == own["sources"]:
        fix = "write its sources in the table of mirror"
        raise SchemaError(f"mirror {other['name']!r} would have the same sources", fix, column=name)
    yield {**own, "mirror": other["name"]}
    yield {**mirrored, "mirror": name}


def _choose_among(elements: Any, sources: Any) -> Any:
    """Return the elements that are among the sources.

    Invalid values are returned unchanged; the check of the column reports them.
    """
    if not isinstance(elements, list) or not isinstance(sources, list):
        return elements
    texts = [text for rank in sources for text in (rank if isinstance(rank, list) else [rank])]
    if not all(isinstance(text, str) for text in [*texts, *elements]):
        return elements
    keys = {Source.parse(text).key for text in texts}
    return [text for text in elements if Source.parse(text).key in keys]


def turn(value: Any) -> Any:
    """Return a text, or lists of texts, with the words of one direction replaced by those of the other."""
    if isinstance(value, str):
        return _DIRECTION.sub(lambda word: _OTHER[word[0]], value)
    if isinstance(value, list | tuple):
        return [turn(item) for item in value]
    return value
