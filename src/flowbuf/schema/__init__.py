"""Schemas: columns, their sources, schema files, and changes from one schema to another."""

from flowbuf.schema.column import Column, Reserved
from flowbuf.schema.message import SubMessage
from flowbuf.schema.schema import Schema
from flowbuf.schema.source import Source
from flowbuf.schema.types import RECORD_TYPES, TYPES, LogicalType, WireType

__all__ = [
    "RECORD_TYPES",
    "TYPES",
    "Column",
    "LogicalType",
    "Reserved",
    "Schema",
    "Source",
    "SubMessage",
    "WireType",
]
