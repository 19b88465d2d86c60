"""Conversion of flows to the Arrow types of Spark."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

__all__ = ["LOG", "arrow_schema", "cast"]

LOG = logging.getLogger("flowbuf.spark")


def arrow_schema(wanted: StructType) -> pa.Schema:
    """Return the Arrow schema of the columns that Spark wants."""
    return pa.schema(
        [pa.field(each.name, _arrow_type(each.dataType.simpleString()), each.nullable) for each in wanted]
    )


def _arrow_type(type: str) -> pa.DataType:
    """Return the Arrow type in which Spark accepts values of a Spark type."""
    if type.startswith("array<"):
        return pa.list_(pa.field("element", _arrow_type(type.removeprefix("array<")[:-1])))
    return _TYPES[type]


_TYPES = {
    **{
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "decimal(20,0)": pa.decimal128(20, 0),
    },
    **{"boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64(), "string": pa.string()},
    **{
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", "UTC"),
        "interval day to second": pa.duration("us"),
    },
}


def cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `schema` in its types, with nulls for those that the batch lacks.

    Nanoseconds are truncated to microseconds.
    """
    there = set(batch.schema.names)
    columns = [
        batch.column(name).cast(options=pc.CastOptions(type, allow_time_truncate=True))
        if name in there
        else pa.nulls(batch.num_rows, type)
        for name, type in zip(schema.names, schema.types, strict=True)
    ]
    return pa.record_batch(columns, schema)
