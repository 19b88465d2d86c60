"""What a schema is: columns, their sources, the files they come from, how one schema becomes another."""

from flowbuf.schema.column import TYPES, Column, LogicalType, Reserved, WireType
from flowbuf.schema.schema import Schema
from flowbuf.schema.source import Source

__all__ = ["TYPES", "Column", "LogicalType", "Reserved", "Schema", "Source", "WireType"]
