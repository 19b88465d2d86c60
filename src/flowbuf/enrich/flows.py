"""A batch whose absent values are being filled. Present values are kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flowbuf.enrich.columns import absent, absent_rows, is_text, to_members, wrap
from flowbuf.errors import EnrichmentError
from flowbuf.schema import Column, Schema
from flowbuf.targets.arrow import arrow_type, storage

__all__ = ["Flows", "check_addresses", "with_absent", "with_columns"]


class Flows:
    """The columns of a batch as plain arrays, including filled ones.

    Only columns in `fillable` can be filled.
    """

    def __init__(self, batch: Any, schema: Schema, fillable: frozenset[str]) -> None:
        self._batch = batch
        self._schema = schema
        self._fillable = fillable
        self._arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        self._changed = False

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def get(self, name: str) -> Any:
        """Return a column as a plain array, or None if the batch lacks it."""
        array = self._arrays.get(name)
        return None if array is None else storage(array)

    def to_fill(self, name: str, replace: bool = False) -> Any:
        """Return a boolean per row, True for rows to fill; None if no row is to be filled."""
        if name not in self._fillable:
            return None
        return pa.repeat(True, len(self)) if replace else self._lacking(name)

    def where_present(self, rows: Any, values: Any) -> Any:
        """Return the rows whose value in `values` is present."""
        return pc.and_not(rows, absent_rows(values))

    def _lacking(self, name: str) -> Any:
        """Return a boolean per row, True for absent values; None if all values are present."""
        array = self.get(name)
        if array is None:
            return pa.repeat(True, len(self))
        if array.null_count == 0 and not pa.types.is_integer(array.type):
            return None
        rows = absent_rows(array)
        return rows if pc.any(rows).as_py() else None

    def get_filled(self, name: str) -> Any:
        """Return a column as a plain array, or None if all of its values are absent."""
        rows = self._lacking(name)
        return None if rows is not None and pc.all(rows).as_py() else self.get(name)

    def fill(self, name: str, lacking: Any, values: Any) -> None:
        """Fill the rows for which `lacking` is True. `values` is a plain array of the column's type."""
        column, old = self._schema[name], self._arrays.get(name)
        if old is not None and not pc.all(lacking).as_py():
            if not pc.any(pc.and_not(lacking, absent_rows(values))).as_py():
                return
            values = _merge(lacking, storage(old), values, column)
        self._arrays[name] = values if old is None else _like(old, values)
        self._changed = True

    def batch(self) -> Any:
        """Return the batch with the filled values."""
        return with_columns(self._batch, self._arrays) if self._changed else self._batch


def _merge(lacking: Any, old: Any, new: Any, column: Column) -> Any:
    old, new = (
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in (old, new)
    )
    merged = pc.if_else(lacking, new.cast(old.type), old)
    return to_members(merged, column) if column.type == "enum" else merged


def _like(old: Any, values: Any) -> Any:
    """Return values as an array of the type of the old column."""
    plain = storage(old).type
    if pa.types.is_dictionary(plain) and not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return wrap(values if values.type == plain else values.cast(plain), old.type)


def with_columns(batch: Any, arrays: dict[str, Any]) -> Any:
    """Return a batch of these columns. Fields with an unchanged type, and the metadata, are kept."""
    fields = [_field(batch.schema, name, array) for name, array in arrays.items()]
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields, batch.schema.metadata))


def _field(schema: Any, name: str, array: Any) -> Any:
    index = schema.get_field_index(name)
    if index >= 0 and schema.field(index).type == array.type:
        return schema.field(index)
    return pa.field(name, array.type)


def with_absent(batch: Any, schema: Schema, names: Iterable[str]) -> Any:
    """Return the batch with all these columns. Missing columns are added with absent values."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    missing = [schema[name] for name in names if name not in arrays]
    arrays.update({column.name: absent(column, arrow_type(column), batch.num_rows) for column in missing})
    return with_columns(batch, arrays) if missing else batch


def check_addresses(batch: Any, schema: Schema) -> None:
    """Raise EnrichmentError if addresses are text."""
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if name in schema and schema[name].type == "ip" and is_text(array):
            problem = "has addresses as text, but enrichments need bytes"
            raise EnrichmentError(problem, 'read flows with ip="binary"', where=f"column {name!r}")
