"""A batch while its columns are filled: a value that is there already stays."""

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
    """The columns of a batch as plain arrays, with those that enrichments have filled: `fillable` ones."""

    def __init__(self, batch: Any, schema: Schema, fillable: frozenset[str]) -> None:
        self._batch = batch
        self._schema = schema
        self._fillable = fillable
        self._arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        self._changed = False

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def get(self, name: str) -> Any:
        """A column as a plain array; None where the batch has no such column."""
        array = self._arrays.get(name)
        return None if array is None else storage(array)

    def to_fill(self, name: str) -> Any:
        """Which rows of a column are to be filled, as booleans; None where none is."""
        return self._lacking(name) if name in self._fillable else None

    def _lacking(self, name: str) -> Any:
        """Which rows have no value in a column; None where all have one."""
        array = self.get(name)
        if array is None:
            return pa.repeat(True, len(self))
        if array.null_count == 0 and not pa.types.is_integer(array.type):
            return None
        rows = absent_rows(array)
        return rows if pc.any(rows).as_py() else None

    def get_filled(self, name: str) -> Any:
        """A column as a plain array; None where no row has a value in it."""
        rows = self._lacking(name)
        return None if rows is not None and pc.all(rows).as_py() else self.get(name)

    def fill(self, name: str, lacking: Any, values: Any) -> None:
        """Puts the values of those rows in which the column was `lacking`. `values` are a plain array of its type."""
        column, old = self._schema[name], self._arrays.get(name)
        if not pc.all(lacking).as_py():
            if not pc.any(pc.and_not(lacking, absent_rows(values))).as_py():
                return
            values = _merge(lacking, storage(old), values, column)
        self._arrays[name] = values if old is None else _like(old, values)
        self._changed = True

    def batch(self) -> Any:
        """The batch with what was filled."""
        return with_columns(self._batch, self._arrays) if self._changed else self._batch


def _merge(lacking: Any, old: Any, new: Any, column: Column) -> Any:
    old, new = (array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in (old, new))
    merged = pc.if_else(lacking, new.cast(old.type), old)
    return to_members(merged, column) if column.type == "enum" else merged


def _like(old: Any, values: Any) -> Any:
    """Values as an array of the type that a column had."""
    plain = storage(old).type
    if pa.types.is_dictionary(plain) and not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return wrap(values if values.type == plain else values.cast(plain), old.type)


def with_columns(batch: Any, arrays: dict[str, Any]) -> Any:
    """A batch of these columns in their order; fields of the old one that still fit, and its metadata, are kept."""
    fields = [_field(batch.schema, name, array) for name, array in arrays.items()]
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields, batch.schema.metadata))


def _field(schema: Any, name: str, array: Any) -> Any:
    index = schema.get_field_index(name)
    if index >= 0 and schema.field(index).type == array.type:
        return schema.field(index)
    return pa.field(name, array.type)


def with_absent(batch: Any, schema: Schema, names: Iterable[str]) -> Any:
    """A batch that has all these columns: those that it had not, without a value."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    missing = [schema[name] for name in names if name not in arrays]
    arrays.update({column.name: absent(column, arrow_type(column), batch.num_rows) for column in missing})
    return with_columns(batch, arrays) if missing else batch


def check_addresses(batch: Any, schema: Schema) -> None:
    """Raises EnrichmentError where addresses are text."""
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if name in schema and schema[name].type == "ip" and is_text(array):
            problem = "addresses are text, and enrichments take octets"
            raise EnrichmentError(problem, 'read flows with ip="binary"', where=f"column {name!r}")
