"""Avro by fastavro, without the schema in the message.

The encoding is positional, although records are dicts in Python.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from ..families import Family, Field
from .base import Coder, Format

AVRO_TYPES: dict[str, Any] = {
    "string": "string",
    "bool": "boolean",
    "double": "double",
    **dict.fromkeys(("int16", "int32", "uint8", "uint16"), "int"),
    **dict.fromkeys(("int64", "sint64", "uint32", "uint64"), "long"),  # Avro has no unsigned integers
    "time": {"type": "long", "logicalType": "timestamp-micros"},
}


def describe(name: str, fields: Sequence[Field]) -> dict[str, Any]:
    """Return the Avro schema. A type that occurs again is referenced by name."""
    known: dict[tuple[Field, ...], str] = {}
    described = []
    for field in fields:
        kind = AVRO_TYPES.get(field.kind)
        if kind is None:
            kind = known.get(field.fields) or describe(f"{name}_sub", field.fields)
            known[field.fields] = f"{name}_sub"
            kind = ["null", kind] if field.kind == "message" else {"type": "array", "items": kind}
        described.append({"name": field.name, "type": kind})
    return {"type": "record", "name": name, "fields": described}


def open_fastavro(family: Family) -> Coder:
    import fastavro

    write, read = fastavro.schemaless_writer, fastavro.schemaless_reader
    one = fastavro.parse_schema(describe(family.name, family.fields))
    many = fastavro.parse_schema({"type": "array", "items": describe(family.name, family.fields)})

    def encode(record: Any, schema: Any = one) -> bytes:
        file = io.BytesIO()
        write(file, schema, record)
        return file.getvalue()

    def decode(data: bytes, schema: Any = one) -> Any:
        return read(io.BytesIO(data), schema, None)

    return Coder(encode, decode, lambda records: encode(records, many), lambda data: decode(data, many))


AVRO = (
    Format(
        *("avro-fastavro", "fastavro", False, False, "dict", "timestamp-micros, a type of Avro's", "copies"),
        *("an array", open_fastavro, (("fastavro", "fastavro"),)),
    ),
)
