"""A schema: the columns that a row may have, and which of them are enabled."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flowbuf.errors import SchemaError
from flowbuf.schema import loader
from flowbuf.schema.aliases import suggest_column
from flowbuf.schema.assemble import assemble, choose_names, no_column, switch
from flowbuf.schema.checks import check_oneofs, check_reserved, check_unique
from flowbuf.schema.column import NAME, Column, Reserved, fold
from flowbuf.schema.derived import OTHERS
from flowbuf.schema.message import SubMessage, check_messages, check_plain, reach
from flowbuf.schema.shape import FLAT, more_than_flat
from flowbuf.schema.vendor_columns import with_vendor_columns

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import Message

__all__ = ["Schema"]


@dataclass(frozen=True)
class Schema:
    """The columns of flows, counters or records.

    A schema is immutable: methods that change it return a new, checked schema. `schema["src_mac"]` returns a
    column, `"src_mac" in schema` tests for one, and iteration yields all columns in number order. Methods
    take names of columns and of groups, such as "group:l2".

    Attributes:
        name: Name of the schema.
        columns: All columns, enabled or not, in number order.
        reserved: Numbers and names of retired columns.
        origin: File of the schema, or "schema NAME" of a built-in one, for error messages.
        message_name: Name of the Protocol Buffers message. Default: the name of the schema in CamelCase.
        rows: Kind of rows: "flows" (default), "counters", "options" or "records". Counters are sFlow counter
            samples and drop samples. Options are options records of NetFlow v9 and IPFIX. Records are objects
            of a Codec, which need not be flat.
        framing: Framing of messages in Kafka records: "bare" or "delimited". Default: by the number of
            messages.
        nested: Messages that columns of records may hold, in the order of the files.

    Raises:
        SchemaError: the schema is invalid.

    Example:
        schema = flowbuf.Schema.load("flow").enable("group:l2").disable("next_hop")
        print(schema.to_proto())
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
            fix = "use a letter, then letters, digits, - and _"
            raise self.error(None, f"name of the schema {self.name!r} is invalid", fix)
        if self.message_name and not NAME.fullmatch(self.message_name):
            fix = "use a letter, then letters, digits and _"
            raise self.error(None, f"message_name {self.message_name!r} is invalid", fix)
        # in the given order, so that an error names the later column
        check_unique(self.columns, self.reserved, self.error)
        object.__setattr__(self, "columns", tuple(sorted(self.columns, key=lambda column: column.number)))
        object.__setattr__(self, "reserved", tuple(sorted(set(self.reserved))))
        check_reserved(self.columns, self.reserved, self.error)
        _check_rows(self)
        _check_depends(self)
        _check_rate(self)

    @classmethod
    def load(cls, reference: str | os.PathLike[str] = "flow") -> Schema:
        """Load a built-in schema or a TOML file.

        Args:
            reference: Name of a built-in schema, or path of a TOML file. Default: "flow".

        Raises:
            SchemaError: the file does not exist, or is invalid.
            TypeError: reference is neither text nor a path.
        """
        if not isinstance(reference, str | os.PathLike):
            kinds = "a Schema, the name of a built-in schema, or the path of a TOML file"
            raise TypeError(f"schema is {reference!r}; it must be {kinds}")
        if isinstance(reference, str) and reference in loader.built_in_names():
            return _load_built_in(reference)
        return cls._assembled(loader.read(reference))

    @classmethod
    def from_toml(cls, text: str, origin: str = "<text>") -> Schema:
        """Load a schema from the text of a TOML file.

        Args:
            text: Text in TOML.
            origin: Name of the text in error messages. `extends` is relative to its folder. Default:
                "<text>".

        Raises:
            SchemaError: the text is invalid.
        """
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

    # Access -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def enabled(self) -> tuple[Column, ...]:
        """The enabled columns, in number order."""
        return tuple(column for column in self.columns if column.enabled)

    @functools.cached_property
    def rate(self) -> Column | None:
        """The enabled column with the sampling rate, or None."""
        return next((column for column in self.enabled if column.scale == "rate"), None)

    @functools.cached_property
    def messages(self) -> Mapping[str, tuple[Column, ...]]:
        """The columns of each message in `nested`, by its name. Empty unless rows are records."""
        return {message.name: message.columns for message in self.nested}

    @functools.cached_property
    def used_messages(self) -> tuple[SubMessage, ...]:
        """The messages in `nested` that enabled columns refer to, in order of first use."""
        return tuple(reach(self.enabled, {message.name: message for message in self.nested}))

    @functools.cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def __getitem__(self, name: str) -> Column:
        column = self._by_name.get(name)
        if column is None:
            raise no_column(name, self._by_name, self.reserved).located(self.origin)
        return column

    def find(self, name: str) -> Column | None:
        """Return the column with a name, or None. Upper case and underscores may differ.

        In the preset "akvorado", `find("src_addr")` returns the column SrcAddr.
        """
        if name in self:
            return self[name]
        folded = fold(name)
        return next((column for column in self if fold(column.name) == folded), None)

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
        """Hash of the properties that define the meaning of messages, as 16 hexadecimal digits.

        Other properties, such as `doc` and `sources`, do not change it.
        """
        kind = [] if self.rows == loader.ROWS[0] else [self.rows]
        inside = {
            message.name: [_meaning(column) for column in message.columns] for message in self.used_messages
        }
        parts = [*kind, *(_meaning(column) for column in self.enabled), *([inside] if inside else ())]
        text = json.dumps(parts, separators=(",", ":"), sort_keys=True)
        import hashlib

        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def error(self, column: str | None, problem: str, fix: str) -> SchemaError:
        """Return a SchemaError that names the file, the column and the fix."""
        known = self._by_name.get(column or "")
        return SchemaError(problem, fix, origin=known.origin if known else self.origin, column=column or "")

    @functools.cached_property
    def is_flat(self) -> bool:
        """True if all enabled columns hold plain values or lists of them, so that rows fit into a table."""
        return not any(map(_beyond, self.enabled))

    def require_flat(self, what: str) -> None:
        """Raise SchemaError if an enabled column is not flat.

        `what` names the target that requires it, such as "a table".
        """
        if self.is_flat:
            return
        # messages and maps first
        for column in sorted(self.enabled, key=lambda column: column.type not in ("message", "map")):
            fault = _beyond(column)
            if fault:
                fix = f"disable {column.name}, or use flowbuf.Codec, which reads and writes such objects"
                raise self.error(column.name, f"{fault} is not possible in {what}", fix)

    # Changes ------------------------------------------------------------------------------------------------

    def enable(self, *names: str) -> Schema:
        """Return the schema with these columns enabled.

        Args:
            *names: Names of columns, or of groups such as "group:l2".

        Raises:
            SchemaError: a name is unknown, or a column depends on a disabled one.
        """
        return self.switch(enable=self._check_names("enable", names))

    def disable(self, *names: str) -> Schema:
        """Return the schema with these columns disabled.

        Args:
            *names: Names of columns, or of groups such as "group:l2".

        Raises:
            SchemaError: a name is unknown, or an enabled column depends on a disabled one.
        """
        return self.switch(disable=self._check_names("disable", names))

    def only(self, *names: str) -> Schema:
        """Return the schema with exactly these columns enabled.

        Args:
            *names: Names of columns, or of groups such as "group:l2".

        Raises:
            SchemaError: a name is unknown, or a column depends on a disabled one.
        """
        return self.switch(only=self._check_names("only", names))

    def choose(self, *names: str) -> tuple[Column, ...]:
        """Return columns, in the order of their numbers, whether they are enabled or not.

        Args:
            *names: Names of columns, or of groups such as "group:l2".

        Raises:
            SchemaError: a name is unknown.
        """
        try:
            chosen = choose_names(self._by_name, self._check_names("choose", names), self.reserved, self.rows)
        except SchemaError as error:
            raise error.located(self.origin) from None
        return tuple(column for column in self.columns if column.name in chosen)

    def arrange(self, names: Iterable[str]) -> tuple[Column, ...]:
        """Return the enabled columns: those of `names` in this order, then the others in number order.

        Args:
            names: Names of columns, or of groups such as "group:l2".

        Raises:
            SchemaError: a name is unknown.
        """
        first = [column.name for name in names for column in self.choose(name)]
        enabled = {column.name: column for column in self.enabled}
        return tuple(enabled[name] for name in dict.fromkeys([*first, *enabled]) if name in enabled)

    def only_needed(self, *names: str) -> Schema:
        """Return the schema with exactly these columns enabled, and those that they depend on.

        A column of the elements that no enabled column takes depends on all enabled ones.

        Args:
            *names: Names of columns.

        Raises:
            SchemaError: a name is unknown.
        """
        needed = list(dict.fromkeys(names))
        if any(self[name].source_texts & OTHERS for name in needed):
            needed += [column.name for column in self.enabled if column.name not in needed]
        for name in needed:  # the list grows
            needed += [other for other in self[name].depends if other not in needed]
        return self.switch(only=needed)

    def with_vendors(self, names: Iterable[str]) -> Schema:
        """Return the schema with the columns of vendors that the names select, disabled.

        Args:
            names: Names of columns, or of groups such as "group:cert". Other names change nothing.
        """
        if self.rows not in ("flows", "options"):
            return self
        columns = with_vendor_columns(self._by_name, names, self.reserved)
        return self if len(columns) == len(self._by_name) else replace(self, columns=tuple(columns.values()))

    def _check_names(self, method: str, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not isinstance(name, str):
                fix = f"pass names as arguments, {method}(*names)"
                raise self.error(None, f"{method} takes names, not {type(name).__name__}", fix)
        return names

    def switch(
        self, *, only: Iterable[str] | None = None, enable: Iterable[str] = (), disable: Iterable[str] = ()
    ) -> Schema:
        """Return the schema after `only`, `enable` and `disable`, in this order.

        Dependencies are checked at the end, so the order of names does not matter.

        Args:
            only: Names to enable exclusively. Default: keep the enabled columns.
            enable: Names to enable.
            disable: Names to disable.

        Raises:
            SchemaError: a name is unknown, or an enabled column depends on a disabled one.
        """
        try:
            switched = switch(self._by_name, only, enable, disable, reserved=self.reserved, rows=self.rows)
        except SchemaError as error:
            raise error.located(self.origin) from None
        columns = tuple(switched.values())
        if columns == self.columns:
            return self  # plans of the same object are compiled once
        return replace(self, columns=columns)

    def add(
        self,
        name: str,
        number: int,
        type: str,
        sources: Iterable[Any] = (),
        enabled: bool = True,
        **rest: Any,
    ) -> Schema:
        """Return the schema with a new column, or two with `mirror`.

        Args:
            name: Name of the column.
            number: Field number. Numbers from 1000 are for users.
            type: Type of the column.
            sources: Sources, best first, such as ["ipfix:octetDeltaCount"]. Default: none.
            enabled: Enable the column. Default: True.
            **rest: Other keys of a `[[column]]` table.

        Raises:
            SchemaError: the column is invalid, or its name or number is in use.

        Example:
            schema.add("vlan", 1000, "uint16", ["ipfix:vlanId"])
        """
        if isinstance(sources, str):
            fix = f"write sources=[{sources!r}]"
            raise SchemaError("sources is a string, not a list", fix, origin="Schema.add", column=name)
        table = {
            "name": name,
            "number": number,
            "type": type,
            "sources": list(sources),
            "enabled": enabled,
            **rest,
        }
        try:
            tables = list(loader.expand_mirror(table))
        except SchemaError as error:
            raise error.located("Schema.add") from None
        return replace(
            self, columns=(*self.columns, *(Column.from_table(each, "Schema.add") for each in tables))
        )

    def alter(self, name: str, **keys: Any) -> Schema:
        """Return the schema with changed keys of a column.

        Args:
            name: Name of the column.
            **keys: Keys of a `[[column]]` table. Number, type, mirror, message, key and value cannot change.

        Raises:
            SchemaError: the column does not exist, or a key is invalid.
        """
        old = self[name]
        new = old.altered(keys, "Schema.alter")
        return replace(self, columns=tuple(new if column is old else column for column in self.columns))

    def retire(self, *names: str) -> Schema:
        """Return the schema without these columns, with their numbers and names reserved.

        Args:
            *names: Names of columns.

        Raises:
            SchemaError: a column does not exist, or another column depends on it.
        """
        gone = [self[name] for name in names]
        kept = tuple(column for column in self.columns if column not in gone)
        return replace(
            self, columns=kept, reserved=(*self.reserved, *(Reserved(old.number, old.name) for old in gone))
        )

    def expand(self, text: str) -> str:
        """Return a text, such as the name of a topic, with `{hash}`, `{name}` and `{rows}` filled in."""
        return text.replace("{hash}", self.hash).replace("{name}", self.name).replace("{rows}", self.rows)

    # Protocol Buffers, imported when used, because most commands need no .proto -----------------------------

    def to_proto(self, *, scaled: bool = False) -> str:
        """Return the text of the .proto file (proto3) of the enabled columns.

        Args:
            scaled: Add the comment that totals are multiplied by the sampling rate. Default: False.

        Raises:
            SchemaError: two names in the .proto file collide.
        """
        from flowbuf.schema import proto

        return proto.to_text(self, scaled)

    def file_descriptor(self) -> FileDescriptorProto:
        """Return the google.protobuf FileDescriptorProto of the enabled columns.

        Raises SchemaError if two names collide.
        """
        from flowbuf.schema import proto

        return proto.to_descriptor(self)

    def message_class(self) -> type[Message]:
        """Return the google.protobuf class of the messages. Raises SchemaError if two names collide."""
        from flowbuf.schema import proto

        return proto.to_message_class(self)


@functools.cache  # schemas are immutable, and the built-in files do not change
def _load_built_in(name: str) -> Schema:
    return Schema._assembled(loader.read(name))


def _beyond(column: Column) -> str:
    """Return the property of a column that a table cannot hold, or "".

    Properties that matter only for encoding are ignored.
    """
    return more_than_flat(replace(column, required=False, packed=True))


def _meaning(column: Column) -> list[Any]:
    members = sorted(column.values.items(), key=lambda member: member[1])
    ip_form = column.ip if column.type == "ip" else None
    wire = [column.name, column.number, int(column.wire_type)]
    shape = {key: getattr(column, key) for key in _SHAPE if getattr(column, key)} | _UNPACKED[column.packed]
    plain = [*wire, column.type, column.unit, ip_form, members, column.repeated, column.explicit]
    return [*plain, shape] if shape else plain  # without a shape, so that flat columns keep their hashes


_SHAPE = ("message", "key", "value", "required", "oneof")
_UNPACKED: dict[bool, dict[str, Any]] = {True: {}, False: {"packed": False}}


# Checks across columns --------------------------------------------------------------------------------------


def _check_rows(schema: Schema) -> None:
    """Check that columns of records have no sources, and all other columns are flat."""
    check_oneofs(schema.columns, schema.error)
    if schema.rows == loader.RECORDS:
        for column in schema.columns:
            check_plain(column, schema.error)
        _check_nested(schema)
        return
    for column in schema.columns:
        fault = more_than_flat(column)
        if fault:
            raise schema.error(column.name, f"{fault} is only for objects", FLAT)
    if schema.nested:
        raise schema.error(None, f"message {schema.nested[0].name!r} is only for objects", FLAT)


def _check_nested(schema: Schema) -> None:
    messages: dict[str, SubMessage] = {}
    for message in schema.nested:
        other = messages.setdefault(fold(message.name), message)
        if other is not message:
            raise message.error(None, f"name is too similar to {other.name!r}", "choose another name")
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
            raise schema.error(column.name, f"depends on {needed}, which is disabled", fix)


def _check_rate(schema: Schema) -> None:
    rates = [column.name for column in schema.enabled if column.scale == "rate"]
    if len(rates) > 1:
        problem = f'both this column and {rates[0]!r} have scale = "rate"'
        raise schema.error(rates[1], problem, "disable one of them, because a flow has one sampling rate")
