"""ClickHouse types of the enabled columns of a schema, and the conversion of message values to them.

| type of the column | in a message | in the table | where absent |
|---|---|---|---|
| uint8 … uint64, int32 …, sint32 …, fixed32 … | an integer of its size and sign | the same | 0 |
| bool, float, double | Bool, Float32, Float64 | the same | false, 0 |
| timestamp | UInt64 | DateTime64(3 or 6 or 9, 'UTC'); seconds DateTime('UTC') | 1970-01-01 |
| duration | Int64 | Int64, in its unit | 0 |
| ip, mapped | IPv6 | IPv6 | :: |
| ip, native | String | IPv6; IPv4 as ::ffff:a.b.c.d; other sizes than 4 and 16 bytes as :: | :: |
| mac | UInt64 | UInt64, and an alias column NAME_text | 0 |
| enum | Int32 | LowCardinality(String); an unknown number becomes its digits | the member 0 |
| string, bytes | String | LowCardinality(String), String | empty |
| repeated | Array of the type | Array of the type | empty |

An `explicit` column is Nullable, and NULL where absent. The key `clickhouse` of a column chooses another type
that holds all of its values, and a codec.

ClickHouse's enum type is not used: an unknown number in one message would be an error, and ClickHouse would
reject all messages of the same Kafka record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from flowbuf.schema import Column, Schema

__all__ = ["ClickHouseColumn", "columns_of", "identifier", "literal", "text_alias"]

_UNSIGNED = {"uint8": "UInt8", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64"}
_PLAIN = {
    **_UNSIGNED,
    **{"fixed32": "UInt32", "fixed64": "UInt64", "mac": "UInt64", "duration": "Int64"},
    **{"int32": "Int32", "sint32": "Int32", "int64": "Int64", "sint64": "Int64"},
    **{"bool": "Bool", "float": "Float32", "double": "Float64", "string": "String", "bytes": "String"},
    **{"enum": "Int32", "timestamp": "UInt64", "ip": "IPv6"},
}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_FROM_UNIX = {
    "ms": "fromUnixTimestamp64Milli",
    "us": "fromUnixTimestamp64Micro",
    "ns": "fromUnixTimestamp64Nano",
}

# Larger types hold every value of the smaller ones. Protocol Buffers and Arrow can both be read into them.
_WIDER = {
    **{"UInt8": ("UInt16", "UInt32", "UInt64"), "UInt16": ("UInt32", "UInt64"), "UInt32": ("UInt64",)},
    **{"Int32": ("Int64",), "Float32": ("Float64",), "Bool": ("UInt8",)},
}
_TIME = re.compile(r"DateTime\('[\w/+-]+'\)|DateTime64\([0-9], ?'[\w/+-]+'\)")

_GENERAL = r"LZ4|LZ4HC(\(\d+\))?|ZSTD(\((1?\d|2[0-2])\))?"
_OF_NUMBERS = r"Delta(\([1248]\))?|DoubleDelta|T64(\('(byte|bit)'\))?|GCD|Gorilla|FPC"
_CODEC = re.compile(rf"NONE|((({_OF_NUMBERS}), ?)*({_GENERAL}|{_OF_NUMBERS}))")
_COMPACT = re.compile(_OF_NUMBERS)
_CODEC_NAME = re.compile(r"\b[A-Z]\w*")
_OF_INTEGERS, _OF_FLOATS = {"T64", "GCD"}, {"Gorilla", "FPC"}
_TRANSFORMING = {"Delta", "GCD"}
"""Codecs that prepare values for compression, but do not compress."""


@dataclass(frozen=True)
class ClickHouseColumn:
    """A column of the table.

    Attributes:
        default: Default expression, if it differs from the default of the type; otherwise "".
        message_type: Type of the column when read from a message.
        converted: SQL that converts the value of a message, or "" if no conversion is needed.
    """

    name: str
    type: str
    codec: str
    default: str
    comment: str
    message_type: str
    converted: str

    @property
    def definition(self) -> str:
        """The definition in CREATE TABLE and ALTER TABLE."""
        default = f" DEFAULT {self.default}" if self.default else ""
        comment = f" COMMENT {literal(self.comment)}" if self.comment else ""
        return f"{identifier(self.name)} {self.type}{default}{comment} CODEC({self.codec})"


def columns_of(schema: Schema) -> tuple[ClickHouseColumn, ...]:
    """Return the enabled columns in order of their numbers.

    Raises SchemaError for an invalid key `clickhouse`, and for records that are not flat.
    """
    schema.require_flat("a table of ClickHouse")
    return tuple(_column_of(schema, column) for column in schema.enabled)


def text_alias(schema: Schema, column: Column) -> str:
    """Return the definition of the alias column with a MAC address as text.

    Returns "" for other columns, and if the name is taken.
    """
    name = f"{column.name}_text"
    if column.type != "mac" or name in schema:
        return ""
    own = identifier(column.name)
    if column.repeated:
        return f"{identifier(name)} Array(String) ALIAS arrayMap(mac -> MACNumToString(mac), {own})"
    type = "Nullable(String)" if column.explicit else "String"
    return f"{identifier(name)} {type} ALIAS MACNumToString({own})"


def identifier(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def literal(text: str) -> str:
    """Return text as an SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _column_of(schema: Schema, column: Column) -> ClickHouseColumn:
    chosen = _chosen_type(schema, column)
    type = _wrapped(column, chosen)
    return ClickHouseColumn(
        name=column.name,
        type=type,
        codec=_chosen_codec(schema, column, chosen),
        default=literal(_member_zero(column)) if column.type == "enum" and _is_single(column) else "",
        comment=" ".join(column.doc.split()),
        message_type=_wrapped(column, "String" if column.ip == "native" else _PLAIN[column.type]),
        converted=_conversion(column),
    )


def _is_single(column: Column) -> bool:
    return not (column.repeated or column.explicit)


def _wrapped(column: Column, type: str) -> str:
    if column.repeated:
        return f"Array({type})"
    if not column.explicit:
        return type
    inner = re.fullmatch(r"LowCardinality\((.+)\)", type)
    return f"LowCardinality(Nullable({inner[1]}))" if inner else f"Nullable({type})"


# Types and codecs -------------------------------------------------------------------------------------------


def _usual_type(column: Column) -> str:
    if column.type == "timestamp":
        digits = _DIGITS[column.unit or "ms"]
        return f"DateTime64({digits}, 'UTC')" if digits else "DateTime('UTC')"
    return "LowCardinality(String)" if column.type in ("enum", "string") else _PLAIN[column.type]


def _chosen_type(schema: Schema, column: Column) -> str:
    usual = _usual_type(column)
    chosen = column.clickhouse.get("type", usual)
    for key in column.clickhouse:
        if key not in ("type", "codec"):
            raise schema.error(column.name, f"unknown key of clickhouse: {key!r}", "keys are type and codec")
    if column.type == "timestamp" and _TIME.fullmatch(str(chosen)):
        return str(chosen)
    choices = (usual, *_WIDER.get(usual, ()), *(("String",) if column.type in ("enum", "string") else ()))
    if chosen not in choices:
        fix = (
            "DateTime('UTC') or DateTime64(3, 'UTC')" if column.type == "timestamp" else " or ".join(choices)
        )
        kept = "Array and Nullable are added automatically" if not _is_single(column) else ""
        problem = f"clickhouse.type is {chosen!r}, which does not hold every value of type {column.type}"
        raise schema.error(column.name, problem, "; ".join(filter(None, (f"it may be {fix}", kept))))
    return str(chosen)


def _chosen_codec(schema: Schema, column: Column, type: str) -> str:
    codec = column.clickhouse.get("codec")
    if codec is None:
        return _usual_codec(column)
    if not isinstance(codec, str) or not _CODEC.fullmatch(codec):
        fix = "write for example ZSTD(1), or T64, ZSTD(1): at most one of LZ4, LZ4HC and ZSTD, as the last"
        raise schema.error(column.name, f"clickhouse.codec is {codec!r}", fix)
    if _COMPACT.search(codec) and ("String" in type or type == "IPv6" or column.repeated):
        problem = f"clickhouse.codec is {codec!r}, which is only for numbers"
        raise schema.error(column.name, problem, "use ZSTD(1)")
    problem, fix = _find_codec_problem(codec, type)
    if problem:
        raise schema.error(column.name, f"clickhouse.codec is {codec!r}: {problem}", fix)
    return codec


def _find_codec_problem(codec: str, type: str) -> tuple[str, str]:
    """Return the reason why ClickHouse refuses a codec for a type, and the fix; empty if it accepts it."""
    names = _CODEC_NAME.findall(codec)
    wrong = _OF_INTEGERS if type.startswith("Float") else _OF_FLOATS
    for name in names:
        if name in wrong:
            return f"{name} is not for {type}", "use ZSTD(1)"
    if _TRANSFORMING.issuperset(names):
        return "it does not compress", f"write {codec}, ZSTD(1)"
    if re.search("Delta.*(Gorilla|FPC)", codec):
        return "Gorilla and FPC store differences already", "remove Delta and DoubleDelta"
    return "", ""


def _usual_codec(column: Column) -> str:
    """Return the default codec of a column.

    Successive times are close but not in order. Their differences are short, and differences of differences
    are not. Counters use few of their bits. Sizes of generated flows, relative to ZSTD alone, are: times 0.84
    (2.5 with DoubleDelta), packets 0.42, bytes 0.91. Ports, autonomous systems and rates grow with T64.
    """
    if column.type == "timestamp" and not column.repeated:
        return "Delta, ZSTD(1)"
    return "T64, ZSTD(1)" if column.scale == "count" else "ZSTD(1)"


# Conversions ------------------------------------------------------------------------------------------------


def _conversion(column: Column) -> str:
    """Return SQL that converts the value of a message, or "" if no conversion is needed."""
    convert = _CONVERSIONS.get("native" if column.ip == "native" else column.type)
    own = f"message.{identifier(column.name)}"
    if convert is None:
        return ""
    if column.repeated:
        return f"arrayMap(item -> {convert(column, 'item')}, {own})"
    if column.explicit:
        return f"if(isNull({own}), NULL, {convert(column, f'assumeNotNull({own})')})"
    return convert(column, own)


def _convert_time(column: Column, value: str) -> str:
    if column.unit == "s":
        return f"toDateTime({value}, 'UTC')"
    return f"{_FROM_UNIX[column.unit or 'ms']}(toInt64({value}), 'UTC')"


def _convert_native(column: Column, value: str) -> str:
    mapped = (
        f"multiIf(length({value}) = 16, {value}, length({value}) = 4, "
        f"concat(unhex('00000000000000000000ffff'), {value}), unhex('{'00' * 16}'))"
    )
    return f"CAST(toFixedString({mapped}, 16), 'IPv6')"


def _convert_enum(column: Column, value: str) -> str:
    members = sorted((number, name) for name, number in column.values.items())
    numbers = ", ".join(str(number) for number, _ in members)
    names = ", ".join(literal(name) for _, name in members)
    return f"transform({value}, [{numbers}], [{names}], toString({value}))"


def _member_zero(column: Column) -> str:
    return next(name for name, number in column.values.items() if number == 0)


_CONVERSIONS: dict[str, Callable[[Column, str], str]] = {
    "timestamp": _convert_time,
    "native": _convert_native,
    "enum": _convert_enum,
}
