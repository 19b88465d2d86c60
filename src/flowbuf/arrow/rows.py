"""Arrow columns of flows as rows of Python values, and addresses as text.

`flowbuf.targets.flow_text` formats these rows like the messages of the same flows.
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
    """Reads batches of the enabled columns of a schema, or of a part of them, row by row."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def read(self, batch: pyarrow.RecordBatch) -> list[Row]:
        """Return each row as a dict of column name to value.

        Values are those of a message: addresses are bytes, enum members are numbers, times are numbers in the
        unit of their column. Absent values are left out, including a 0 that stands for absent.
        """
        rows: list[Row] = [{} for _ in range(batch.num_rows)]
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            for row, value in zip(rows, self.read_column(array, self._schema[name]), strict=True):
                if value is not None:
                    row[name] = value
        return rows

    def read_column(self, array: Any, column: Column) -> list[Any]:
        """Return the values of a column of a batch, with None for absent ones."""
        if column.repeated:
            items = iter(_values(array.flatten(), column))
            lengths = array.value_lengths().to_pylist()
            return [list(itertools.islice(items, length)) or None for length in lengths]
        values = _values(array, column)
        if column.explicit:
            return values
        if column.type in ("float", "double"):
            return [None if value is None or _is_zero(value) else value for value in values]
        return [value or None for value in values]


def _is_zero(value: float) -> bool:
    """Return True for 0.0. -0.0 is a value."""
    return not value and math.copysign(1, value) > 0


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


# Addresses as text ------------------------------------------------------------------------------------------

_RENDERERS: dict[str, Callable[[Any], str]] = {"ip": format_address, "mac": format_mac}


def with_text(batch: pyarrow.RecordBatch, schema: Schema) -> pyarrow.RecordBatch:
    """Return the batch with IP and MAC addresses as text."""
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
    """Return IP or MAC addresses, or lists of them, as text. Each distinct address is formatted once."""
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
