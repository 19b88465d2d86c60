"""Arrow columns of flows as people read them: rows as the dicts that messages are read as, and addresses as text.

What `flowbuf.targets.flow_text` makes of these rows is what it makes of the messages of the same flows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowbuf.schema import Column, Schema
from flowbuf.targets.arrow import storage
from flowbuf.targets.flow_text import format_address, format_mac

if TYPE_CHECKING:
    import pyarrow

__all__ = ["RowReader", "render_addresses", "with_text"]

Row = dict[str, Any]


class RowReader:
    """Reads batches of the enabled columns of a schema, or of some of them, row by row."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def read(self, batch: pyarrow.RecordBatch) -> list[Row]:
        """Each row as a dict from the name of a column to its value as it stands in a message: addresses are octets,
        enums numbers, times in the unit of their column. What is absent is left out, and 0 where it means that."""
        rows: list[Row] = [{} for _ in range(batch.num_rows)]
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            for row, value in zip(rows, self._column(array, self._schema[name]), strict=True):
                if value is not None:
                    row[name] = value
        return rows

    def _column(self, array: Any, column: Column) -> list[Any]:
        """The values of a column, None where one is absent."""
        if column.repeated:
            items = iter(_values(array.flatten(), column))
            lengths = array.value_lengths().to_pylist()
            return [list(itertools.islice(items, length)) or None for length in lengths]
        values = _values(array, column)
        if column.explicit:
            return values
        if column.type in ("float", "double"):
            return [value if value or math.copysign(1, value) < 0 else None for value in values]  # -0.0 is a value
        return [value or None for value in values]


def _values(array: Any, column: Column) -> list[Any]:
    import pyarrow

    array = storage(array)
    if pyarrow.types.is_dictionary(array.type):
        numbers = [column.values.get(name, name) for name in array.dictionary.to_pylist()]
        numbers = [int(number) if isinstance(number, str) else number for number in numbers]
        return [None if place is None else numbers[place] for place in array.indices.to_pylist()]
    if pyarrow.types.is_timestamp(array.type) or pyarrow.types.is_duration(array.type):
        array = array.cast(pyarrow.int64())
    values: list[Any] = array.to_pylist()
    return values


# Addresses as text ----------------------------------------------------------------------------------------------------

_RENDERERS: dict[str, Callable[[Any], str]] = {"ip": format_address, "mac": format_mac}


def with_text(batch: pyarrow.RecordBatch, schema: Schema) -> pyarrow.RecordBatch:
    """A batch with its IP and MAC addresses as text."""
    import pyarrow

    arrays, fields = [], []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        column = schema[field.name]
        if column.type in _RENDERERS:
            array = render_addresses(array, column.type)
            field = pyarrow.field(field.name, array.type, field.nullable)
        arrays.append(array)
        fields.append(field)
    return pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))


def render_addresses(array: Any, type: str) -> Any:
    """IP or MAC addresses, or lists of them, as text; each distinct one is made once."""
    import pyarrow

    array = storage(array)
    if isinstance(array, pyarrow.ChunkedArray):
        array = array.combine_chunks()
    if pyarrow.types.is_list(array.type):
        return pyarrow.ListArray.from_arrays(array.offsets, render_addresses(array.values, type))
    encoded = array.dictionary_encode()
    render = _RENDERERS[type]
    texts = [None if value is None else render(value) for value in encoded.dictionary.to_pylist()]
    return pyarrow.array(texts, pyarrow.string()).take(encoded.indices)
