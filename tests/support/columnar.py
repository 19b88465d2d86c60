"""Rows of Arrow columns, and the rows that the messages of the same flows lead to expect."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from flowbuf import FlowBatch, FlowStream
from flowbuf._core import MessageReader
from flowbuf.schema import Column, Schema
from flowbuf.schema.plan import compile_plan
from flowbuf.targets.arrow import register_types
from flowbuf.targets.flow_text import format_address, format_mac

register_types(needed=True)

Rows = list[dict[str, Any]]


def table_of(columns: FlowBatch | FlowStream) -> pa.Table:
    """Return the columns as a PyArrow table, through the PyCapsule protocol, after a full validation."""
    table = pa.table(columns)
    table.validate(full=True)
    return table


def rows_of(columns: FlowBatch | FlowStream) -> Rows:
    """Return each flow as a dict of all columns: addresses as text, times as numbers."""
    table = table_of(columns)
    values = {
        name: comparable(_values(column))
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    if not values:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    type = column.type
    if pa.types.is_list(type) and _is_time(type.value_type):
        column = column.cast(pa.list_(pa.int64()))
    elif _is_time(type):
        column = column.cast(pa.int64())
    return list(column.to_pylist())


def _is_time(type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type) or pa.types.is_duration(type))


def comparable(values: list[Any]) -> list[Any]:
    """Return values that are equal to themselves: NaN is replaced."""
    return ["nan" if isinstance(value, float) and math.isnan(value) else value for value in values]


def rows_expected(messages: bytes, schema: Schema) -> Rows:
    """Return the rows that columns must have for the flows in these messages."""
    flows, _ = MessageReader(compile_plan(schema)).read_stream(messages)
    return [
        {column.name: expect(column, flow.get(column.name)) for column in schema.enabled} for flow in flows
    ]


def expect(column: Column, value: Any) -> Any:
    if column.repeated:
        return comparable([_expect_one(column, one) for one in value or []])
    if value is None:
        return _absent(column)
    return comparable([_expect_one(column, value)])[0]


def _expect_one(column: Column, value: Any) -> Any:
    if column.type == "ip":
        return format_address(value)
    if column.type == "mac":
        return format_mac(value)
    if column.type == "enum":
        return {number: name for name, number in column.values.items()}.get(value, str(value))
    return value


def _absent(column: Column) -> Any:
    if column.explicit or column.type in ("ip", "mac", "enum", "timestamp", "string", "bytes"):
        return None
    return {"bool": False, "float": 0.0, "double": 0.0}.get(column.type, 0)
