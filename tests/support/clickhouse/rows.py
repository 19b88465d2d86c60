"""Rows for the ClickHouse tests: messages of every kind, the expected rows, and the rows of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from flowbuf import Schema
from flowbuf._core import MessageReader
from flowbuf.clickhouse import Local
from flowbuf.schema import Column
from flowbuf.schema.plan import compile_plan
from flowbuf.wire import Row

Rows = list[tuple[Any, ...]]

TIME = 1_700_000_000  # in seconds
MAPPED = bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 1])
IPV6 = bytes.fromhex("20010db8000000000000000000000001")
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}

_EXTREMES: dict[str, list[Any]] = {
    **{f"uint{bits}": [1, 2**bits - 1] for bits in (8, 16, 32, 64)},
    **{"fixed32": [1, 2**32 - 1], "fixed64": [1, 2**64 - 1], "mac": [1, 2**48 - 1]},
    **{name: [-(2**31), 2**31 - 1] for name in ("int32", "sint32")},
    **{name: [-(2**63), 2**63 - 1] for name in ("int64", "sint64", "duration")},
    **{"bool": [1, 1], "float": [-1.5, math.inf], "double": [-1.5, -math.inf]},
    **{"string": ["'\\ \u00e4\n", "x" * 300], "bytes": [b"\x00\xff'\\", b"\x80" * 300]},
}


def values_of(column: Column) -> list[Any]:
    """Return two values that are not zero: the smallest and the largest where the type has them."""
    if column.type == "enum":
        return [max(column.values.values()), 77]  # no schema here has a member 77
    if column.type == "timestamp":
        digits = DIGITS[column.unit or "ms"]
        return [TIME * 10**digits + 1, (2**63 - 1) // 10 ** (9 - digits) if digits else 2**32 - 1]
    if column.type == "ip":
        return [MAPPED[12:] if column.ip == "native" else MAPPED, IPV6]
    return _EXTREMES[column.type]


def messages_of(schema: Schema) -> bytes:
    """Return four messages: two with all columns (`values_of`), one empty, one with explicit zeros."""
    row = Row(schema)
    for choice in (0, 1):
        for column in schema.enabled:
            row.append(column.name, values_of(column)[choice])
            if column.repeated:
                row.append(column.name, values_of(column)[0])
        row.finish()
    row.finish()
    for column in schema.enabled:
        if column.explicit and column.type not in ("string", "bytes", "ip"):
            row.append(column.name, 0)
    row.finish()
    return bytes(row)


def rows_expected(messages: bytes, schema: Schema) -> Rows:
    """Return the rows that a table must have after these messages: columns in schema order, rows sorted."""
    flows, _ = MessageReader(compile_plan(schema)).read_stream(messages)
    return ordered(
        tuple(expect(column, flow.get(column.name)) for column in schema.enabled) for flow in flows
    )


def expect(column: Column, value: Any) -> Any:
    """Return the value that a table must have for a value of a message. None is an absent column."""
    if column.repeated:
        return tuple(_expect_one(column, one) for one in value or [])
    if value is None and column.explicit:
        return None
    return _expect_one(column, _ZEROS.get(column.type, 0) if value is None else value)


_ZEROS: dict[str, Any] = {"ip": bytes(16), "string": "", "bytes": b""}


def _expect_one(column: Column, value: Any) -> Any:
    if column.type == "enum":
        return {number: name for name, number in column.values.items()}.get(value, str(value)).encode()
    if column.type == "ip" and len(value) == 4:
        return MAPPED[:12] + value
    return value.encode() if isinstance(value, str) else value


def rows_in(database: Local, schema: Schema, table: str = "", columns: Iterable[str] = ()) -> Rows:
    """Return the rows of a table, sorted: times as numbers in their unit, text as bytes."""
    names = ", ".join(f"`{name}`" for name in columns or [column.name for column in schema.enabled])
    result = database.query(f"SELECT {names} FROM {table or schema.rows}")
    found = [_plain(column).to_pylist() for column in result.columns]
    return ordered(
        tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in zip(*found, strict=True)
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type = column.type
    if pa.types.is_timestamp(type):
        return column.cast(pa.int64())
    if pa.types.is_string(type):
        return column.cast(pa.binary())
    if pa.types.is_list(type) and pa.types.is_timestamp(type.value_type):
        return column.cast(pa.list_(pa.int64()))
    if pa.types.is_list(type) and pa.types.is_string(type.value_type):
        return column.cast(pa.list_(pa.binary()))
    return column


def ordered(rows: Iterable[tuple[Any, ...]]) -> Rows:
    return sorted(rows, key=repr)
