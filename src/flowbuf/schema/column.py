"""A column of a schema: its name, type, wire format and sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from flowbuf.errors import SchemaError, did_you_mean
from flowbuf.schema.shape import NAME_FIX, check_shape
from flowbuf.schema.source import Source
from flowbuf.schema.types import RECORD_TYPES, WireType

__all__ = ["Column", "Reserved"]

MAX_NUMBER = (1 << 29) - 1
RESERVED_NUMBERS = range(19000, 20000)  # reserved by Protocol Buffers
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
UNITS = ("s", "ms", "us", "ns", "proto")
IP_FORMS = ("mapped", "native")
SCALES = ("count", "rate")
ZEROS = ("value", "absent")
COUNTABLE = (
    *("uint8", "uint16", "uint32", "uint64", "int32", "int64", "sint32", "sint64", "fixed32", "fixed64"),
    *("float", "double", "bool", "duration"),
)
SCALABLE = ("uint8", "uint16", "uint32", "uint64", "fixed32", "fixed64")


@dataclass(frozen=True)
class Column:
    """A column of a schema. The constructor checks it.

    Attributes:
        name: Name of the column, and of the field in the message.
        number: Protocol Buffers field number.
        type: One of flowbuf.schema.TYPES, or of RECORD_TYPES if the rows are records.
        enabled: True if rows have the column. Default: True.
        group: Name of a group. In lists of names, `group:NAME` means all its columns. Default: None.
        sources: Ranks of equal sources, best first.
        repeated: True for a list of values: every occurrence of an element in a record, or the members of a
            list (RFC 6313).
        explicit: True if zero is written too, so that it differs from absent (field presence).
        late: True if `override` of `read_capture` may replace the value. Default: False.
        unit: Unit of a timestamp or duration: "s", "ms", "us" or "ns". In records, "proto" makes it a
            google.protobuf.Timestamp or Duration.
        ip: Form of an address: "mapped" (16 bytes, the default) or "native" (4 or 16 bytes).
        values: Members of an enum, name -> number, such as { unknown = 0, ingress = 1 }.
        map: Values of the source -> numbers of enum members, where they differ.
        depends: Columns that must be enabled too.
        mirror: Name of the same column of the other direction.
        scale: Role in scaling totals: a "count" is multiplied by the "rate".
        one_way: True for a fact about one direction only. The reverse flow of a biflow (RFC 5103) has the
            column only if the record has the reverse element.
        zero: Meaning of a zero from a source. After a "value", worse ranks are not tried; after "absent" they
            are. Default: "value" for a single number or bool; "absent" for enums, addresses, times, text,
            bytes and lists.
        replaces_zero: Elements that are tried after a zero of the rank before them, which must consist of
            elements.
        clickhouse: Type and codec in ClickHouse, by the keys "type" and "codec".
        doc: Description of the column.
        origin: File that defines the column.

    Attributes of columns of records (`rows = "records"`):
        message: Name of the message in a column of type message, or in a map of messages.
        key: Type of the keys of a map.
        value: Type of the values of a map.
        required: True if the column must be given for encoding.
        oneof: Name shared by columns of which at most one has a value.
        packed: True if a list of numbers is written as one packed field. Default: True.

    Raises:
        SchemaError: the column is invalid. The text names the file, the column and the fix.

    Example:
        flowbuf.Schema.load("flow")["src_port"].number  # 10
    """

    name: str
    number: int
    type: str
    enabled: bool = True
    group: str | None = None
    sources: tuple[tuple[Source, ...], ...] = ()
    repeated: bool = False
    explicit: bool = False
    late: bool = False
    unit: str | None = None
    ip: str = "mapped"
    values: Mapping[str, int] = field(default_factory=dict, hash=False)
    map: Mapping[int, int] = field(default_factory=dict, hash=False)
    depends: tuple[str, ...] = ()
    mirror: str | None = None
    scale: str | None = None
    one_way: bool = False
    zero: str | None = None
    replaces_zero: tuple[Source, ...] = ()
    message: str | None = None
    key: str | None = None
    value: str | None = None
    required: bool = False
    oneof: str | None = None
    packed: bool = True
    clickhouse: Mapping[str, Any] = field(default_factory=dict, hash=False)
    doc: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        try:
            _check_identity(self)
            _check_type(self)
            check_shape(self)
            _check_enum(self)
            _check_scale(self)
            _check_zero(self)
            _check_sources(self)
        except SchemaError as error:
            raise error.located(self.origin, self.name) from None

    @classmethod
    def from_table(cls, table: Mapping[str, Any], origin: str = "") -> Column:
        """Make a column from a `[[column]]` table. Raises SchemaError."""
        values = _read_table(table, origin)
        for key in ("name", "number", "type"):
            if key not in values:
                raise SchemaError(
                    f"has no {key}", f"add {key} = …", origin=origin, column=values.get("name", "")
                )
        return cls(**values, origin=origin)

    def altered(self, table: Mapping[str, Any], origin: str = "") -> Column:
        """Return the column with keys replaced by those of a `[[column]]` table. Raises SchemaError."""
        origin = origin or self.origin
        for key in ("name", "number", "type", "mirror", "message", "key", "value"):
            pinned = getattr(self, key)
            if table.get(key, pinned) != pinned:
                problem = f"{key} is {pinned!r} in {self.origin} and cannot become {table[key]!r}"
                fix = "retire it and add a column, or existing messages would be misread"
                raise SchemaError(problem, fix, origin=origin, column=self.name)
        changes = _read_table({"name": self.name, **table}, origin)
        if "sources" in changes and "replaces_zero" not in changes:
            keys = {source.key for rank in changes["sources"] for source in rank}
            changes["replaces_zero"] = tuple(source for source in self.replaces_zero if source.key in keys)
        return replace(self, **changes, origin=origin)

    def switched(self, enabled: bool) -> Column:
        """Return the column, enabled or not."""
        if enabled == self.enabled:
            return self
        column = copy(self)  # `replace` would check all keys again
        object.__setattr__(column, "enabled", enabled)
        return column

    @property
    def wire_type(self) -> WireType:
        """The wire type of one value."""
        return WireType.LENGTH if self.unit == "proto" else RECORD_TYPES[self.type].wire_type

    @property
    def zero_is_value(self) -> bool:
        """True if a zero from a source counts as a value, so that worse ranks are not tried."""
        return self.zero == "value" if self.zero else self.type in COUNTABLE and not self.repeated

    def replaces(self, source: Source) -> bool:
        """Return True if a source is tried after a zero of the rank before it."""
        return self.zero_is_value and any(source.key == each.key for each in self.replaces_zero)

    @property
    def source_texts(self) -> set[str]:
        """All sources of the column, as written in a schema file."""
        return {source.text for rank in self.sources for source in rank}

    @property
    def proto_type(self) -> str:
        """The Protocol Buffers type of one value, as in a .proto file.

        "enum" stands for the enum of the column. "message" stands for its message, the entry of a map, or a
        well-known type.
        """
        return "message" if self.unit == "proto" else RECORD_TYPES[self.type].proto_type


@dataclass(frozen=True, order=True)
class Reserved:
    """Number and name of a retired column, which no other column may use."""

    number: int
    name: str

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or not 1 <= self.number <= MAX_NUMBER:
            raise SchemaError(
                f"reserved {self.name!r} = {self.number} is invalid",
                f"write a name and a number from 1 to {MAX_NUMBER}",
            )


# Reading a table --------------------------------------------------------------------------------------------

COLUMN_KEYS: dict[str, type] = {
    "name": str,
    "number": int,
    "type": str,
    "enabled": bool,
    "group": str,
    "sources": list,
    "repeated": bool,
    "explicit": bool,
    "late": bool,
    "unit": str,
    "ip": str,
    "values": dict,
    "map": dict,
    "depends": list,
    "mirror": str,
    "scale": str,
    "one_way": bool,
    "zero": str,
    "replaces_zero": list,
    **dict.fromkeys(("message", "key", "value", "oneof"), str),
    **dict.fromkeys(("required", "packed"), bool),
    "clickhouse": dict,
    "doc": str,
}
"""Keys of a `[[column]]` table, and the types of their values."""
_TYPE_NAMES = {str: "a string", int: "an integer", bool: "true or false", list: "a list", dict: "a table"}


def _read_table(table: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Return the fields of a Column that a table gives."""
    name = table.get("name", "")
    try:
        return {key: _read_value(key, value) for key, value in table.items()}
    except SchemaError as error:
        raise error.located(origin, name if isinstance(name, str) else "") from None


def _read_value(key: str, value: Any) -> Any:
    if key not in COLUMN_KEYS:
        fix = did_you_mean(key, COLUMN_KEYS) or f"keys are {', '.join(COLUMN_KEYS)}"
        raise SchemaError(f"unknown key {key!r}", fix)
    expected = COLUMN_KEYS[key]
    if type(value) is not expected and not (expected is list and type(value) is tuple):
        raise SchemaError(f"{key} is {value!r}", f"it must be {_TYPE_NAMES[expected]}")
    convert = _CONVERTERS.get(key)
    return convert(value) if convert else value


def _read_sources(ranks: Iterable[Any]) -> tuple[tuple[Source, ...], ...]:
    return tuple(_read_rank(rank) for rank in ranks)


def _read_rank(rank: Any) -> tuple[Source, ...]:
    equals = [rank] if isinstance(rank, str) else rank
    if (
        not isinstance(equals, list | tuple)
        or not equals
        or not all(isinstance(text, str) for text in equals)
    ):
        raise SchemaError(f"sources has {rank!r}", "write a source, or a list of equal sources")
    return tuple(Source.parse(text) for text in equals)


def _read_map(table: Mapping[str | int, Any]) -> dict[int, Any]:
    """Return a map with integer keys; the keys of a TOML table are always strings."""
    try:
        return {int(wire): number for wire, number in table.items()}
    except ValueError:
        raise SchemaError(
            f"map is {table!r}", "it must map numbers on the wire to numbers of members"
        ) from None


def _read_depends(names: Iterable[Any]) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        raise SchemaError(f"depends is {names!r}", "it must be a list of column names")
    return tuple(names)


def _read_replaces_zero(texts: Iterable[Any]) -> tuple[Source, ...]:
    sources = tuple(Source.parse(text) for text in texts if isinstance(text, str))
    if len(sources) < len(list(texts)) or any(source.kind not in ("ipfix", "netflow9") for source in sources):
        raise SchemaError(
            f"replaces_zero is {texts!r}", "it must be a list of elements, such as ipfix:postOctetDeltaCount"
        )
    return sources


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "sources": _read_sources,
    "replaces_zero": _read_replaces_zero,
    "map": _read_map,
    "depends": _read_depends,
    "values": dict,
    "clickhouse": dict,
}


# Checks of one column ---------------------------------------------------------------------------------------


def _check_identity(column: Column) -> None:
    if not NAME.fullmatch(column.name):
        raise SchemaError(f"name {column.name!r} is invalid", NAME_FIX)
    if not 1 <= column.number <= MAX_NUMBER:
        raise SchemaError(f"number {column.number} is out of range", f"use 1 to {MAX_NUMBER}")
    if column.number in RESERVED_NUMBERS:
        raise SchemaError(
            f"number {column.number} is reserved by Protocol Buffers", "do not use 19000 to 19999"
        )


def _check_type(column: Column) -> None:
    if column.type not in RECORD_TYPES:
        fix = did_you_mean(column.type, RECORD_TYPES) or f"types are {', '.join(RECORD_TYPES)}"
        raise SchemaError(f"unknown type {column.type!r}", fix)
    _check_unit(column)
    if column.ip not in IP_FORMS:
        raise SchemaError(f"ip is {column.ip!r}", 'it must be "mapped" or "native"')
    if column.ip != "mapped" and column.type != "ip":
        raise SchemaError(
            f"ip = {column.ip!r} is not allowed on type {column.type}", 'remove it, or make the type "ip"'
        )
    if column.repeated and column.explicit:
        raise SchemaError(
            "is both repeated and explicit", "remove one, because a repeated column has no presence"
        )
    if column.late and (column.repeated or column.type in ("string", "bytes")):
        raise SchemaError(
            "late is not allowed on a repeated, string or bytes column",
            "remove it, because late is for scalars and addresses",
        )


def _check_unit(column: Column) -> None:
    if column.type in ("timestamp", "duration"):
        if column.unit not in UNITS:
            fix = f"write unit = {' | '.join(UNITS)} (proto in records only)"
            raise SchemaError(f"unit is {column.unit!r}", fix)
    elif column.unit is not None:
        raise SchemaError(
            f"unit is not allowed on type {column.type}",
            "remove it, because only timestamp and duration have a unit",
        )


def _check_enum(column: Column) -> None:
    if column.type != "enum":
        if column.values or column.map:
            raise SchemaError(
                f"values or map is not allowed on type {column.type}", 'remove them, or make the type "enum"'
            )
        return
    numbers = list(column.values.values())
    if not all(type(number) is int and 0 <= number < 1 << 31 for number in numbers):
        raise SchemaError("values has a member without a valid number", "use numbers from 0 to 2147483647")
    if 0 not in numbers:
        raise SchemaError("values has no member 0", "add one for absent values, such as undefined = 0")
    if len(set(numbers)) < len(numbers):
        raise SchemaError("values has two members with the same number", "give each its own number")
    for member in column.values:
        if not NAME.fullmatch(member):
            raise SchemaError(f"member {member!r} is invalid", NAME_FIX)
    if len({fold(member) for member in column.values}) < len(numbers):
        raise SchemaError("values has two members that differ in case or underscores only", "rename one")
    for wire, number in column.map.items():
        if not 0 <= wire < 1 << 32 or number not in numbers:
            raise SchemaError(
                f"map has {wire} -> {number!r}", f"it must map 32-bit numbers to {sorted(numbers)}"
            )


def _check_scale(column: Column) -> None:
    if column.scale is None:
        return
    if column.scale not in SCALES:
        raise SchemaError(f"scale is {column.scale!r}", 'it must be "count" or "rate"')
    if column.type not in SCALABLE or column.repeated:
        kind = "a repeated column" if column.repeated else f"type {column.type}"
        raise SchemaError(
            f"scale is not allowed on {kind}", f"remove it, or use a single column of {', '.join(SCALABLE)}"
        )


def _check_zero(column: Column) -> None:
    if column.zero is not None and column.zero not in ZEROS:
        raise SchemaError(f"zero is {column.zero!r}", 'it must be "value" or "absent"')
    if column.zero == "value" and (column.type not in (*COUNTABLE, "enum") or column.repeated):
        kind = "a repeated column" if column.repeated else f"type {column.type}"
        raise SchemaError(
            f'zero = "value" is not allowed on {kind}',
            "remove it, because it is for a single number, bool or enum",
        )


def _check_sources(column: Column) -> None:
    seen: set[tuple[str, int, int, int] | str] = set()
    for source in (source for rank in column.sources for source in rank):
        if source.key in seen:
            raise SchemaError(
                f"source {source.text!r} occurs twice", "remove one, because only the first would be used"
            )
        seen.add(source.key)
    for source in column.replaces_zero:
        if source.key not in seen:
            fix = "add it to sources, or remove it from replaces_zero"
            raise SchemaError(f"replaces_zero has {source.text!r}, which is not a source of the column", fix)


def fold(name: str) -> str:
    """Return a name folded for comparison.

    Tools of Protocol Buffers and ClickHouse treat names with equal folded forms as one.
    """
    return name.replace("_", "").lower()
