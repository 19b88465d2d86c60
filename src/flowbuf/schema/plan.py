"""Compiles a schema into a plan of the core. No other module connects the two."""

from __future__ import annotations

import functools
from dataclasses import replace

from flowbuf import _core
from flowbuf.errors import SchemaError, did_you_mean
from flowbuf.schema import Column, Schema, elements
from flowbuf.schema.derived import OTHERS
from flowbuf.schema.elements import Element
from flowbuf.schema.loader import RECORDS, ROWS
from flowbuf.schema.shape import more_than_flat
from flowbuf.schema.source import Source
from flowbuf.schema.types import TYPES

__all__ = ["compile_plan"]

_BITS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "mac": 48, "fixed32": 32, "fixed64": 64}
_SIGNED_BITS = {"int32": 32, "int64": 64, "sint32": 32, "sint64": 64, "duration": 64}
_CORE_TYPES = {
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64", "mac"), "uint"),
    **dict.fromkeys(("int32", "int64"), "int"),
    **dict.fromkeys(("sint32", "sint64"), "sint"),
}
_UNITS = {None: 0, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

# Data types of RFC 7011 section 6.1 and RFC 6313 -> interpretation of their bytes by the core.
_KINDS = {
    **dict.fromkeys(("unsigned8", "unsigned16", "unsigned32", "unsigned64"), "uint"),
    **dict.fromkeys(("signed8", "signed16", "signed32", "signed64"), "sint"),
    **dict.fromkeys(("float32", "float64"), "float"),
    **dict.fromkeys(("ipv4Address", "ipv6Address"), "ip"),
    "macAddress": "mac",
    "boolean": "bool",
    "string": "string",
    "dateTimeSeconds": "time_s",
    "dateTimeMilliseconds": "time_ms",
    "dateTimeMicroseconds": "time_ntp_us",
    "dateTimeNanoseconds": "time_ntp_ns",
    "basicList": "list",
    **dict.fromkeys(("subTemplateList", "subTemplateMultiList", "unsigned256"), "opaque"),
}
# Elements whose description is more precise than their registered type.
_TIME_ELEMENTS = {21: "time_uptime", 22: "time_uptime", 158: "time_delta", 159: "time_delta"}
_BIT_ELEMENTS = {6: "tcp_bits"}
_SPANS = {"seconds": "span_s", "milliseconds": "span_ms", "microseconds": "span_us", "nanoseconds": "span_ns"}
# Interpretation of elements without a registered type, by the type of the column. A number is in the unit of
# the column.
_WANTED = {
    **dict.fromkeys(("int32", "int64", "sint32", "sint64"), "sint"),
    **dict.fromkeys(("float", "double"), "float"),
    **{name: name for name in ("bool", "string", "bytes", "ip")},
}


_ELEMENT_KINDS = ("ipfix", "netflow9")
_DEFAULT_SAMPLING_RATE = "meta:default_sampling_rate"

# The disabled column of a schema without columns. Protocol Buffers reserves its number, so no field has it.
_NO_COLUMN = ("", 19_000, _core.TYPES["bool"], 0, 1, 0, dict[int, int]())


@functools.lru_cache(maxsize=16)  # a plan is read-only, so decoders of one schema can share it
def compile_plan(
    schema: Schema, *, default_sampling_rate: int | None = None, scale: bool = False, rated: bool = False
) -> _core.Plan:
    """Compile a schema into a plan.

    Args:
        schema: Schema of flows or counters, or of flat records.
        default_sampling_rate: Sampling rate of flows without a known one. The column is then written at the
            end of its row. Default: none; the source meta:default_sampling_rate is left out.
        scale: Multiply columns with scale = "count" by the column with scale = "rate".
        rated: The decoder changes the column with scale = "rate" at the end of a row.

    Raises:
        SchemaError: a source is unknown or does not fit the type of its column. A list has ranks out of
            order. A record is not flat. `scale` lacks one of its columns.
    """
    if schema.rows == RECORDS:
        schema = _flat_rows(schema)
    plan = _core.Plan()
    plan.set_rows(_core.ROWS[schema.rows])
    if scale:
        _check_scale(schema)
    if len(schema.columns) > _core.MAX_COLUMNS:
        raise schema.error(None, f"has {len(schema.columns)} columns", f"the limit is {_core.MAX_COLUMNS}")
    if not schema.columns:
        plan.add_column(*_NO_COLUMN)
    for column in schema.columns:
        _add_column(plan, schema, column, scale, rated)
        if len(column.sources) > _core.MAX_RANKS:
            raise schema.error(
                column.name, f"has {len(column.sources)} ranks", f"the limit is {_core.MAX_RANKS}"
            )
        for rank, equals in enumerate(_ranks(column, default_sampling_rate)):
            _add_rank(plan, schema, column, rank, equals)
    for column in schema.columns:
        _add_mirror(plan, schema, column)
    plan.set_registry(_registry())
    plan.seal()
    for name in plan.unordered():
        fix = "rank its sources in decoding order, because a list cannot wait for a better source"
        raise schema.error(name, "the ranks of a repeated column are out of order", fix)
    return plan


def _flat_rows(schema: Schema) -> Schema:
    """Return a schema of records as flat rows of flows without sources. The core has no records."""
    schema.require_flat("a table")
    flat = (replace(column, required=False, packed=True) for column in schema.columns)
    return replace(
        schema,
        columns=tuple(column for column in flat if not more_than_flat(column)),
        rows=ROWS[0],
        nested=(),
    )


def _ranks(column: Column, default_sampling_rate: int | None) -> list[list[Source]]:
    """Return the ranks without gaps. An element that replaces a zero joins the rank before it."""
    left_out = "" if default_sampling_rate else _DEFAULT_SAMPLING_RATE
    listed = [[source for source in equals if source.text != left_out] for equals in column.sources]
    ranks: list[list[Source]] = []
    for equals in listed:
        if ranks and all(source.kind in _ELEMENT_KINDS for source in ranks[-1]):
            joining = [source for source in equals if column.replaces(source)]
            ranks[-1] += joining
            equals = [source for source in equals if source not in joining]
        if equals:
            ranks.append(equals)
    return ranks


def _add_rank(plan: _core.Plan, schema: Schema, column: Column, rank: int, equals: list[Source]) -> None:
    for source in equals:
        _check_rows(schema, column, source)
        if not _add_source(plan, schema, column, rank, source):
            raise _misfit(schema, column, source)
        if column.replaces(source):
            plan.set_replacement()


def _check_scale(schema: Schema) -> None:
    for part, problem in (
        ("rate", "scaling needs a sampling rate, and none is enabled"),
        ("count", "scaling needs totals, and none are enabled"),
    ):
        if not any(column.scale == part for column in schema.enabled):
            disabled = " or ".join(column.name for column in schema if column.scale == part)
            fix = f"enable {disabled}" if disabled else f'set scale = "{part}" on a column'
            raise schema.error(None, problem, f"{fix}, or do not scale")


def _flags(column: Column, scale: bool, rated: bool) -> int:
    wanted = {
        "enabled": column.enabled,
        "repeated": column.repeated,
        "explicit": column.explicit,
        "late": column.late,
        "native_ip": column.ip == "native",
        "scaled": scale and column.scale == "count",
        "rate": (scale or rated) and column.scale == "rate",
        "one_way": column.one_way,
        "zero": column.zero_is_value,
    }
    return sum(_core.FLAGS[name] for name, is_set in wanted.items() if is_set)


def _limit(column: Column) -> int:
    """Return the largest value of an integer column."""
    if column.type in _SIGNED_BITS:
        return int(2 ** (_SIGNED_BITS[column.type] - 1) - 1)
    return int(2 ** _BITS.get(column.type, 64) - 1)


def _mappings(column: Column, schema: Schema) -> dict[int, int]:
    mappings = dict(column.map) or {number: number for number in column.values.values()}
    for wire, number in mappings.items():
        if not (0 <= wire < 2**32 and 0 <= number < 2**31):
            problem = f"enum maps {wire} to {number}"
            raise schema.error(
                column.name, problem, "use wire values of 32 bits, and members that are not negative"
            )
    return mappings


def _core_type(column: Column) -> int:
    return _core.TYPES[_CORE_TYPES.get(column.type, column.type)]


def _add_column(plan: _core.Plan, schema: Schema, column: Column, scale: bool, rated: bool) -> None:
    type_code = _core_type(column)
    mappings = _mappings(column, schema) if column.type == "enum" else {}
    plan.add_column(
        column.name,
        column.number,
        type_code,
        _flags(column, scale, rated),
        _limit(column),
        _UNITS[column.unit],
        mappings,
    )


def _check_rows(schema: Schema, column: Column, source: Source) -> None:
    """Raise SchemaError if no row of the schema has the source, because its column would always be empty."""
    kinds = _rows_of(source)
    if schema.rows not in kinds:
        problem = f"source {source} belongs to {kinds[0]}, but the rows of the schema are {schema.rows}"
        raise schema.error(
            column.name, problem, f'choose another source, or write rows = "{kinds[0]}" below [schema]'
        )


def _rows_of(source: Source) -> tuple[str, ...]:
    """Return the kinds of rows that may have a source."""
    if source.text in _core.COUNTER_SOURCES:
        return ("counters",)
    if source.kind == "scope" or source.text == "derived:scope_elements":
        return ("options",)
    if source.kind in ("ipfix", "netflow9") or source.text in OTHERS:
        return ("flows", "options")
    if source.kind == "netflow5" or source.text in _core.NAME_SOURCES:
        return ("flows",)
    if source.text.startswith("sflow:flow_sample."):
        return ("flows",)
    return ("flows", "counters", "options") if source.kind == "meta" else ("flows", "counters")


def _add_mirror(plan: _core.Plan, schema: Schema, column: Column) -> None:
    other = schema[column.mirror] if column.mirror and column.mirror in schema else None
    if other is None or other.mirror != column.name:
        return
    if _core_type(other) != _core_type(column):
        raise schema.error(
            column.name, f"mirror {other.name!r} has another type, {other.type}", f"make both {column.type}"
        )
    plan.set_mirror(column.name, other.name)


def _add_source(plan: _core.Plan, schema: Schema, column: Column, rank: int, source: Source) -> bool:
    if source.kind in ("ipfix", "netflow9"):
        pen = _core.PEN_NETFLOW9 if source.kind == "netflow9" else source.pen
        meaning = _kind(column.type, source.element)
        return meaning is not None and plan.add_element(
            rank, pen, source.id, _core.KINDS[meaning], source.occurrence
        )
    if source.text in _core.NETFLOW5_FIELDS:
        index, kind = _core.NETFLOW5_FIELDS[source.text]
        return plan.add_element(rank, _core.PEN_NETFLOW5, index, kind)
    if source.text in _core.SCOPES:
        kind = _core.KINDS[_WANTED.get(column.type, "uint")]
        return plan.add_element(rank, _core.PEN_SCOPE, _core.SCOPES[source.text], kind)
    if source.text not in _core.SOURCES:
        raise _unknown(schema, column, source)
    return plan.add_source(rank, _core.SOURCES[source.text])


def _kind(type: str, element: Element | None) -> str | None:
    """Return the interpretation of an element's bytes in a column of this type, or None."""
    if element is None or not element.data_type:
        return _WANTED.get(type, "uint")
    kind = _KINDS.get(element.data_type, "bytes")
    registered = 0 if element.pen else element.id
    if type == "bytes":
        return kind if kind in ("list", "opaque") else type
    if kind == "bytes" and type in ("string", "ip"):
        return type
    if kind == "uint" and type == "timestamp":
        return _TIME_ELEMENTS.get(registered)
    if kind == "uint" and type == "duration":
        return _SPANS.get(element.units)
    return _BIT_ELEMENTS.get(registered, kind)


@functools.cache
def _registry() -> bytes:
    """Return the kind of each registered element, by id, for the items of lists."""
    kinds = bytearray([len(_core.KINDS)]) * (1 + max(element.id for element in elements.all()))
    for element in elements.all():
        kind = _KINDS.get(element.data_type, "bytes")
        if kind == "uint":
            kind = (_TIME_ELEMENTS | _BIT_ELEMENTS).get(element.id) or _SPANS.get(element.units, kind)
        kinds[element.id] = _core.KINDS[kind]
    return bytes(kinds)


def _misfit(schema: Schema, column: Column, source: Source) -> SchemaError:
    problem = f"source {source} cannot fill a column of type {column.type}"
    if source.kind not in ("ipfix", "netflow9"):
        return schema.error(column.name, problem, "choose another type or source")
    able = [
        type
        for type in TYPES
        if (kind := _kind(type, source.element))
        and _core.kind_fits(_core.KINDS[kind], _CORE_TYPES.get(type, type))
    ]
    return schema.error(column.name, problem, f"types that can hold it: {', '.join(able)}")


def _unknown(schema: Schema, column: Column, source: Source) -> SchemaError:
    known = [*_core.SOURCES, *_core.NETFLOW5_FIELDS]
    of_kind = [name for name in known if name.startswith(source.kind + ":")]
    fix = did_you_mean(source.text, known) or f"{source.kind} has {', '.join(of_kind)}"
    return schema.error(column.name, f"source {source.text!r} does not exist", fix)
