"""Spark SQL types of the enabled columns of a schema.

| type of the column | Spark type |
|---|---|
| uint8, uint16, uint32, fixed32 | smallint, int, bigint, bigint: the next larger signed type |
| uint64, fixed64 | decimal(20,0), which holds every value |
| int32, sint32; int64, sint64 | int; bigint |
| bool, float, double | boolean, float, double |
| timestamp | timestamp, in microseconds |
| duration | interval day to second, in microseconds |
| ip, mac, enum, string | string |
| bytes | binary |
| repeated | array of the type; empty where absent |

Spark has no unsigned types. Unsigned integers get the types that Spark uses for those of Parquet files.
`flowbuf.targets.arrow` defines nulls.
"""

from __future__ import annotations

from flowbuf.schema import Column, Schema

__all__ = ["spark_type", "to_ddl"]

_TYPES = {
    **{"uint8": "smallint", "uint16": "int", "uint32": "bigint", "fixed32": "bigint"},
    **dict.fromkeys(("uint64", "fixed64"), "decimal(20,0)"),
    **{"int32": "int", "sint32": "int", "int64": "bigint", "sint64": "bigint"},
    **{"bool": "boolean", "float": "float", "double": "double", "bytes": "binary"},
    **{"timestamp": "timestamp", "duration": "interval day to second"},
    **dict.fromkeys(("ip", "mac", "enum", "string"), "string"),
}


def spark_type(column: Column) -> str:
    """Return the type of a column in the notation of Spark's `simpleString`."""
    one = _TYPES[column.type]
    return f"array<{one}>" if column.repeated else one


def to_ddl(schema: Schema) -> str:
    """Return the columns as Spark DDL, with their documentation as comments."""
    return ", ".join(f"`{column.name}` {spark_type(column)}{_comment(column)}" for column in schema.enabled)


def _comment(column: Column) -> str:
    text = column.doc.replace("\\", "\\\\").replace("'", "\\'")
    return f" COMMENT '{text}'" if text else ""
