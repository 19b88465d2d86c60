"""A schema as Apache Spark sees it: the SQL type of each column. Only enabled columns take part.

| type of the column | Spark type |
|---|---|
| uint8, uint16, uint32, fixed32 | smallint, int, bigint, bigint: the next larger one, since Spark has none unsigned |
| uint64, fixed64 | decimal(20,0), which holds all of them |
| int32, sint32; int64, sint64 | int; bigint |
| bool, float, double | boolean, float, double |
| timestamp | timestamp, in microseconds |
| duration | interval day to second, in microseconds |
| ip, mac, enum, string | string |
| bytes | binary |
| repeated | array of the type; empty where absent |

Unsigned integers become what Spark makes of those of Parquet files. What is null is as `flowbuf.targets.arrow` says.
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
    """The type of a column, as Spark's `simpleString` writes it."""
    one = _TYPES[column.type]
    return f"array<{one}>" if column.repeated else one


def to_ddl(schema: Schema) -> str:
    """The columns as Spark's DDL, with what they mean as comments."""
    return ", ".join(f"`{column.name}` {spark_type(column)}{_comment(column)}" for column in schema.enabled)


def _comment(column: Column) -> str:
    text = column.doc.replace("\\", "\\\\").replace("'", "\\'")
    return f" COMMENT '{text}'" if text else ""
