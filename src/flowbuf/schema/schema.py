"""A schema: the columns that a flow, or any other record, may have, and which of them it has."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flowbuf.errors import SchemaError
from flowbuf.schema import loader
from flowbuf.schema.aliases import suggest_column
from flowbuf.schema.assemble import assemble, no_column, switch
from flowbuf.schema.checks import check_oneofs, check_reserved, check_unique
from flowbuf.schema.column import NAME, Column, Reserved, fold
from flowbuf.schema.message import SubMessage, check_messages, check_plain, reach
from flowbuf.schema.shape import FLAT, more_than_flat

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import Message

__all__ = ["Schema"]


@dataclass(frozen=True)
class Schema:
    """Columns by number. A schema never changes: every method that would change it returns another, checked, one.

    `columns` are all of them, in number order, enabled or not, and so is iteration; `schema["src_mac"]` is one of them,
    and `"src_mac" in schema` asks for it. `rows` says what a row is: one of "flows", of "counters", a counter or drop
    sample of sFlow, or of "records", which no decoder fills and which need not be flat. `message_name` is the name of
    its Protocol Buffers message, where that is not the name of the schema in CamelCase; `framing` is how messages stand
    in records of Kafka, where that does not follow from how many there are. `nested` are the messages that columns of
    records may hold, in the order in which the files have them. Arguments name columns one by one, or all of a group:
    "group:l2". Every method raises SchemaError where the result could not be used.
    """

    name: str
    columns: tuple[Column, ...]
    reserved: tuple[Reserved, ...] = ()
    origin: str = ""
    message_name: str = ""
    rows: str = loader.ROWS[0]
    framing: str = ""
    nested: tuple[SubMessage, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", self.name):
            fix = "give it a letter, then letters, digits, - and _"
            raise self.error(None, f"name of the schema is {self.name!r}", fix)
        if self.message_name and not NAME.fullmatch(self.message_name):
            fix = "give it a letter, then letters, digits and _"
            raise self.error(None, f"message_name is {self.message_name!r}", fix)
        check_unique(self.columns, self.reserved, self.error)  # in the order given, so that the newcomer is blamed
        object.__setattr__(self, "columns", tuple(sorted(self.columns, key=lambda column: column.number)))
        object.__setattr__(self, "reserved", tuple(sorted(set(self.reserved))))
        check_reserved(self.columns, self.reserved, self.error)
        _check_rows(self)
        _check_depends(self)
        _check_rate(self)

    @classmethod
    def load(cls, reference: str | os.PathLike[str] = "flow") -> Schema:
        """A built-in schema by its name, or a TOML file by its path."""
        if isinstance(reference, str) and reference in loader.built_in_names():
            return _load_built_in(reference)
        return cls._assembled(loader.read(reference))

    @classmethod
    def from_toml(cls, text: str, origin: str = "<text>") -> Schema:
        """From the text of a TOML file; `origin` names it in errors."""
        return cls._assembled(loader.parse(text, origin))

    @classmethod
    def _assembled(cls, documents: Iterable[loader.Document]) -> Schema:
        parts = assemble(documents)
        return cls(
            parts.name,
            tuple(parts.columns.values()),
            tuple(parts.reserved),
            parts.origin,
            parts.message_name,
            parts.rows,
            parts.framing,
            tuple(parts.messages.values()),
        )

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.name, self.columns))

    # Looking --------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def enabled(self) -> tuple[Column, ...]:
        """The enabled columns, in number order."""
        return tuple(column for column in self.columns if column.enabled)

    @functools.cached_property
    def rate(self) -> Column | None:
        """The enabled column with the sampling rate; None where there is none."""
        return next((column for column in self.enabled if column.scale == "rate"), None)

    @functools.cached_property
    def messages(self) -> Mapping[str, tuple[Column, ...]]:
        """The columns of each message of `nested`, by its name; empty where rows are no records."""
        return {message.name: message.columns for message in self.nested}

    @functools.cached_property
    def used_messages(self) -> tuple[SubMessage, ...]:
        """Those of `nested` that enabled columns lead to, in the order in which they are met."""
        return tuple(reach(self.enabled, {message.name: message for message in self.nested}))

    @functools.cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def __getitem__(self, name: str) -> Column:
        column = self._by_name.get(name)
        if column is None:
            raise no_column(name, self._by_name, self.reserved).located(self.origin)
        return column

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        return f"<Schema {self.name}: {len(self.enabled)} of {len(self.columns)} columns, hash {self.hash}>"

    @functools.cached_property
    def hash(self) -> str:
        """16 hexadecimal digits over everything that decides what the messages mean, and nothing else."""
        kind = [] if self.rows == loader.ROWS[0] else [self.rows]
        inside = {message.name: [_meaning(column) for column in message.columns] for message in self.used_messages}
        parts = [*kind, *(_meaning(column) for column in self.enabled), *([inside] if inside else ())]
        text = json.dumps(parts, separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def error(self, column: str | None, problem: str, fix: str) -> SchemaError:
        """A SchemaError that names the file, the column and the fix; for whoever finds fault with this schema."""
        known = self._by_name.get(column or "")
        return SchemaError(problem, fix, origin=known.origin if known else self.origin, column=column or "")

    @functools.cached_property
    def is_flat(self) -> bool:
        """Whether enabled columns have plain values, or lists of them, so that rows can stand in a table."""
        return not any(map(_beyond, self.enabled))

    def require_flat(self, what: str) -> None:
        """Raises SchemaError where an enabled column is more than a flat one; `what` is what has a place for those
        alone."""
        if self.is_flat:
            return
        for column in sorted(self.enabled, key=lambda column: column.type not in ("message", "map")):  # plainest first
            fault = _beyond(column)
            if fault:
                fix = f"disable {column.name}; flowbuf.Codec reads and writes such records"
                raise self.error(column.name, f"{fault} has no place in {what}", fix)

    # Changing -------------------------------------------------------------------------------------------------------

    def enable(self, *names: str) -> Schema:
        """With these columns and groups enabled."""
        return self.switch(enable=self._check_names("enable", names))

    def disable(self, *names: str) -> Schema:
        """With these columns and groups disabled."""
        return self.switch(disable=self._check_names("disable", names))

    def only(self, *names: str) -> Schema:
        """With exactly these columns and groups enabled."""
        return self.switch(only=self._check_names("only", names))

    def _check_names(self, method: str, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not isinstance(name, str):
                fix = f"give names as arguments: {method}(*names)"
                raise self.error(None, f"{method} takes names, not {type(name).__name__}", fix)
        return names

    def switch(
        self, *, only: Iterable[str] | None = None, enable: Iterable[str] = (), disable: Iterable[str] = ()
    ) -> Schema:
        """All three in one step, in this order: columns that depend on one another need not come in the right one."""
        try:
            switched = switch(self._by_name, only, enable, disable, self.reserved)
        except SchemaError as error:
            raise error.located(self.origin) from None
        return replace(self, columns=tuple(switched.values()))

    def add(
        self, name: str, number: int, type: str, sources: Iterable[Any] = (), enabled: bool = True, **rest: Any
    ) -> Schema:
        """With one more column, or two where `rest` says `mirror`; keys and values as in a TOML file."""
        if isinstance(sources, str):
            fix = f"write sources=[{sources!r}]"
            raise SchemaError("sources is a string, not a list", fix, origin="Schema.add", column=name)
        table = {"name": name, "number": number, "type": type, "sources": list(sources), "enabled": enabled, **rest}
        try:
            tables = list(loader.expand_mirror(table))
        except SchemaError as error:
            raise error.located("Schema.add") from None
        return replace(self, columns=(*self.columns, *(Column.from_table(each, "Schema.add") for each in tables)))

    def alter(self, name: str, **keys: Any) -> Schema:
        """With other keys on one column; number and type cannot change."""
        old = self[name]
        new = old.altered(keys, "Schema.alter")
        return replace(self, columns=tuple(new if column is old else column for column in self.columns))

    def retire(self, *names: str) -> Schema:
        """Without these columns, their numbers and names reserved."""
        gone = [self[name] for name in names]
        kept = tuple(column for column in self.columns if column not in gone)
        return replace(self, columns=kept, reserved=(*self.reserved, *(Reserved(old.number, old.name) for old in gone)))

    def expand(self, text: str) -> str:
        """A text, such as the name of a topic, with the hash and the name of the schema for `{hash}` and `{name}`."""
        return text.replace("{hash}", self.hash).replace("{name}", self.name)

    # As Protocol Buffers: imported when asked for, because most commands need no .proto -------------------------------

    def to_proto(self, *, scaled: bool = False) -> str:
        """The text of the .proto file (proto3) of the enabled columns. `scaled`: its comments say that totals are
        multiplied by the sampling rate."""
        from flowbuf.schema import proto

        return proto.to_text(self, scaled)

    def file_descriptor(self) -> FileDescriptorProto:
        """The same as a google.protobuf FileDescriptorProto."""
        from flowbuf.schema import proto

        return proto.to_descriptor(self)

    def message_class(self) -> type[Message]:
        """The google.protobuf class of the messages."""
        from flowbuf.schema import proto

        return proto.to_message_class(self)


@functools.cache  # a schema never changes, and those that come with flowbuf do not, either
def _load_built_in(name: str) -> Schema:
    return Schema._assembled(loader.read(name))


def _beyond(column: Column) -> str:
    """What has no place in a table; what only those who write records ask has."""
    return more_than_flat(replace(column, required=False, packed=True))


def _meaning(column: Column) -> list[Any]:
    members = sorted(column.values.items(), key=lambda member: member[1])
    ip_form = column.ip if column.type == "ip" else None
    wire = [column.name, column.number, int(column.wire_type)]
    shape = {key: getattr(column, key) for key in _SHAPE if getattr(column, key)} | _UNPACKED[column.packed]
    plain = [*wire, column.type, column.unit, ip_form, members, column.repeated, column.explicit]
    return [*plain, shape] if shape else plain  # flat columns mean what they meant before there were others


_SHAPE = ("message", "key", "value", "required", "oneof")
_UNPACKED: dict[bool, dict[str, Any]] = {True: {}, False: {"packed": False}}


# Checks of the columns together -------------------------------------------------------------------------------------


def _check_rows(schema: Schema) -> None:
    """Records may hold messages and have no sources, anything else is flat."""
    check_oneofs(schema.columns, schema.error)
    if schema.rows == loader.RECORDS:
        for column in schema.columns:
            check_plain(column, schema.error)
        _check_nested(schema)
        return
    for column in schema.columns:
        fault = more_than_flat(column)
        if fault:
            raise schema.error(column.name, f"{fault} is for records", FLAT)
    if schema.nested:
        raise schema.error(None, f"message {schema.nested[0].name!r} is for records", FLAT)


def _check_nested(schema: Schema) -> None:
    messages: dict[str, SubMessage] = {}
    for message in schema.nested:
        other = messages.setdefault(fold(message.name), message)
        if other is not message:
            raise message.error(None, f"the name is too close to {other.name!r}", "choose another")
    check_messages(schema.columns, {message.name: message for message in schema.nested}, schema.error)


def _check_depends(schema: Schema) -> None:
    for column in schema.columns:
        for name in column.depends:
            if name not in schema:
                fix = suggest_column(name, schema._by_name) or "correct depends"
                raise schema.error(column.name, f"depends on {name!r}, which does not exist", fix)
        missing = [name for name in column.depends if not schema[name].enabled]
        if column.enabled and missing:
            needed = ", ".join(missing)
            fix = f"enable {needed} too, or disable {column.name}"
            raise schema.error(column.name, f"depends on {needed}, disabled", fix)


def _check_rate(schema: Schema) -> None:
    rates = [column.name for column in schema.enabled if column.scale == "rate"]
    if len(rates) > 1:
        problem = f'both this column and {rates[0]!r} have scale = "rate"'
        raise schema.error(rates[1], problem, "a flow has one sampling rate: disable one of them")
