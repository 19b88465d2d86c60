"""Streams and batches of the columns of messages that are not flat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from flowbuf import _core
from flowbuf.arrow.batch import Count, FlowBatch, FlowStream, unique_names
from flowbuf.arrow.preview import describe_columns, preview_html
from flowbuf.errors import SchemaError, did_you_mean, optional_import
from flowbuf.io.columns import MessageSource, Source
from flowbuf.schema import Schema

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = ["ColumnBatch", "ColumnSource", "ColumnStream"]

_NO_SCHEMA = Schema("messages", (), rows="records")

MakeType = Callable[[tuple[str, ...] | None], _core.NestedType]
"""Return the type with these columns, or with all."""


class ColumnSource(MessageSource):
    """Tables of a stream of messages of any type."""

    def __init__(self, source: Source, make_type: MakeType, batch_rows: int, strict: bool) -> None:
        super().__init__(source, batch_rows, strict)
        self._make_type = make_type
        self._type = make_type(None)
        _core.NestedTables(self._type, batch_rows)  # reports invalid options now

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return self._type.names

    def open(self, columns: tuple[str, ...], ip: str, count: Count) -> tuple[Any, Any]:
        type = self._type if columns == self.names else self._make_type(columns)
        return type, self.read(_core.NestedTables(type, self._batch_rows), count)


class ColumnBatch(FlowBatch):
    """A batch of messages as Arrow columns, which may be structs, lists and maps.

    It has the methods of `FlowBatch`, except those that need a schema. Rows of a slice follow each other.
    """

    def __init__(self, table: Any) -> None:
        super().__init__(_NO_SCHEMA, table)

    def __repr__(self) -> str:
        return f"<ColumnBatch: {len(self):,} messages, {describe_columns(self.columns)}>"

    def _repr_html_(self) -> str:
        return preview_html(repr(self), None)

    @property
    def schema(self) -> NoReturn:
        """Not available: raises SchemaError."""
        raise _without_schema("a schema")

    def __getitem__(self, rows: slice) -> ColumnBatch:
        if not isinstance(rows, slice):
            super().__getitem__(rows)  # raises TypeError
        numbers = range(*rows.indices(len(self)))
        if numbers.step != 1:
            raise ValueError("a slice of messages has no step; write batch[10:20]")
        return ColumnBatch(self._table.slice(numbers.start, len(numbers)))

    def text(self) -> ColumnBatch:
        """Return this batch: there are no columns of addresses."""
        return self

    def select(self, *columns: str) -> NoReturn:
        """Not available: raises SchemaError. Select columns of the stream."""
        raise _without_schema("select")

    def filter(self, condition: str) -> NoReturn:
        """Not available: raises SchemaError."""
        raise _without_schema("filter")

    def to_pandas(self) -> pandas.DataFrame:
        """Return the messages as a pandas DataFrame. Columns are Arrow-backed, except numbers without nulls.

        Raises:
            ImportError: pyarrow or pandas is not installed (`flowbuf[pandas]`).
        """
        with _for_pandas():
            import pyarrow

        return _to_pandas(pyarrow.table(self))


class ColumnStream(FlowStream):
    """A stream of messages as Arrow columns, which may be structs, lists and maps.

    It has the methods of `FlowStream`, except those that need a schema.
    """

    def __init__(self, source: Any, columns: tuple[str, ...]) -> None:
        super().__init__(_NO_SCHEMA, source, "binary", columns)

    def __repr__(self) -> str:
        return f"<ColumnStream: {self._reader.name}, {describe_columns(self.columns)}>"

    def _repr_html_(self) -> str:
        return preview_html(repr(self), None)

    @property
    def schema(self) -> NoReturn:
        """Not available: raises SchemaError. `pyarrow.schema(stream)` returns the Arrow schema."""
        raise _without_schema("a schema")

    def text(self) -> ColumnStream:
        """Return this stream: there are no columns of addresses."""
        return self

    def select(self, *columns: str) -> ColumnStream:
        """Return the messages with only these columns, in this order. `read_columns` selects inner ones.

        Raises:
            SchemaError: the stream has no such column.
        """
        names = unique_names(columns)
        for name in names:
            if name not in self.columns:
                fix = did_you_mean(name, self.columns) or f"it has {describe_columns(self.columns)}"
                raise SchemaError(f"the stream has no column {name!r}", fix)
        return ColumnStream(self._reader, names)

    def filter(self, condition: str) -> NoReturn:
        """Not available: raises SchemaError."""
        raise _without_schema("filter")

    def __getitem__(self, rows: slice) -> ColumnStream:
        return ColumnStream(super().__getitem__(rows)._reader, self.columns)

    def __iter__(self) -> Iterator[ColumnBatch]:
        return map(ColumnBatch, self._open()[1])

    def to_pandas(self) -> pandas.DataFrame:
        """Read all messages into a pandas DataFrame, with the column types of `ColumnBatch.to_pandas`.

        Raises:
            ImportError: pyarrow or pandas is not installed (`flowbuf[pandas]`).
            DecodeError: input is malformed, and the stream is strict.
        """
        return _to_pandas(self.to_arrow())


def _without_schema(what: str) -> SchemaError:
    return SchemaError(
        f"{what} is only for flat messages", "convert the columns with to_arrow(), to_polars() or to_pandas()"
    )


def _for_pandas() -> Any:
    return optional_import("to_pandas needs pandas and pyarrow", "flowbuf[pandas]")


def _to_pandas(table: pyarrow.Table) -> pandas.DataFrame:
    with _for_pandas():
        import pandas
        import pyarrow.types

    def convert(column: pyarrow.ChunkedArray, nullable: bool) -> Any:
        if pyarrow.types.is_dictionary(column.type):
            column = column.cast("string")
        if nullable or not pyarrow.types.is_primitive(column.type):
            return pandas.arrays.ArrowExtensionArray(column)
        return column.to_pandas().array

    values = {
        field.name: convert(table.column(place), field.nullable) for place, field in enumerate(table.schema)
    }
    return pandas.DataFrame(values, pandas.RangeIndex(table.num_rows), copy=False)
