"""Columns as text, row by row: JSON lines, and keys.

The texts are those of `flowbuf.targets.flow_text`. Columns are converted as a whole: numbers by Arrow, and
other values once for each distinct value. This is several times as fast as one row after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flowbuf.arrow.rows import RowReader
from flowbuf.schema import Column, Schema
from flowbuf.targets.arrow import storage
from flowbuf.targets.flow_text import json_renderer, text_renderer, to_json_string

if TYPE_CHECKING:
    import pyarrow

__all__ = ["JsonRows", "KeyRows"]

KEY_SEPARATOR = ","
"""Text between the values of a key."""

_WHOLE = {"uint8", "uint16", "uint32", "uint64", "int32", "int64", "sint32", "sint64", "fixed32", "fixed64"}
_WHOLE |= {"duration"}

Render = Callable[[Any], str]


class JsonRows:
    """Formats batches of the enabled columns of a schema as JSON, one object per row.

    The keys are in the order of the batch.
    """

    def __init__(self, schema: Schema) -> None:
        self._columns = _TextColumns(schema)
        self._renderers = {
            column.name: (column, json_renderer(column), to_json_string) for column in schema.enabled
        }

    def read(self, batch: pyarrow.RecordBatch) -> list[str]:
        """Return each row as a JSON object, without absent columns and without a line end."""
        import pyarrow.compute as compute

        members = [
            compute.binary_join_element_wise(
                f'"{name}":', self._columns.read(batch, *self._renderers[name]), ",", ""
            )
            for name in batch.schema.names
            if name in self._renderers
        ]
        absent = {"null_handling": "replace", "null_replacement": ""}
        joined = compute.binary_join_element_wise(*members, "", **absent)
        return ["{" + row[:-1] + "}" for row in joined.to_pylist()]


class KeyRows:
    """Formats the values of some columns as the keys of Kafka records.

    A key is the text of the values, separated by commas. Absent values are empty.

    Args:
        schema: Schema of the batches.
        names: Names of the columns.

    Raises:
        SchemaError: The schema has no such column, or it is disabled.
    """

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        enabled = {column.name for column in schema.enabled}
        for name in names:
            if name not in enabled:
                schema.only(name)  # explains a name that does not exist
                raise schema.error(None, f"key {name!r} is not among the columns", "add it to them")
        self._columns = _TextColumns(schema)
        self._renderers = [(schema[name], text_renderer(schema[name])) for name in names]

    def read(self, batch: pyarrow.RecordBatch) -> list[bytes | None]:
        """Return the key of each row; None if all its values are absent."""
        import pyarrow.compute as compute

        texts = [self._columns.read(batch, column, render, str) for column, render in self._renderers]
        joined = compute.binary_join_element_wise(
            *texts, KEY_SEPARATOR, null_handling="replace", null_replacement=""
        )
        none = KEY_SEPARATOR * (len(texts) - 1)
        return [None if key == none else key.encode() for key in joined.to_pylist()]


class _TextColumns:
    """Returns columns of batches as text, with null for absent values."""

    def __init__(self, schema: Schema) -> None:
        self._rows = RowReader(schema)

    def read(
        self, batch: pyarrow.RecordBatch, column: Column, render: Render, render_text: Render
    ) -> pyarrow.Array:
        """Return a column as text.

        Args:
            batch: Rows.
            column: Column to read.
            render: Formats a value of the column.
            render_text: Formats an address that is text already.
        """
        import pyarrow

        array = storage(batch.column(batch.schema.get_field_index(column.name)))
        if column.repeated or column.type in ("float", "double"):  # Arrow has one zero
            return self._render(array, column, render)
        if column.type in ("ip", "mac") and pyarrow.types.is_string(array.type):
            render = render_text
        if column.type in _WHOLE:
            return _whole_texts(array, column)
        if pyarrow.types.is_dictionary(array.type):
            numbers = pyarrow.array(range(len(array.dictionary)), pyarrow.int32())
            members = pyarrow.DictionaryArray.from_arrays(numbers, array.dictionary)
            return self._render(members, column, render).take(array.indices)
        encoded = array.dictionary_encode()
        return self._render(encoded.dictionary, column, render).take(encoded.indices)

    def _render(self, array: Any, column: Column, render: Render) -> Any:
        """Format each value of an array in Python."""
        import pyarrow

        values = self._rows.read_column(array, column)
        texts = [None if value is None else render(value) for value in values]
        return pyarrow.array(texts, pyarrow.string())


def _whole_texts(array: Any, column: Column) -> Any:
    import pyarrow
    import pyarrow.compute as compute

    if pyarrow.types.is_duration(array.type):
        array = array.cast(pyarrow.int64())
    if not column.explicit:
        array = compute.if_else(compute.equal(array, 0), pyarrow.scalar(None, array.type), array)
    return array.cast(pyarrow.string())
