"""Flows as columns: batches, and streams of batches, that pandas, polars, duckdb and pyarrow read without a copy.

Both speak the Arrow PyCapsule protocol, so that whatever knows Arrow takes them as they are: `polars.DataFrame(batch)`,
`duckdb.sql("select … from batch")`, `pyarrow.table(stream)`. Types and nulls are those of `flowbuf.targets.arrow`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from flowbuf import _core
from flowbuf.errors import optional_import
from flowbuf.schema import Schema
from flowbuf.targets.arrow import fields_of, register_types

Read = TypeVar("Read")

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["BATCH_ROWS", "IP_FORMS", "FlowBatch", "FlowStream", "TableReader", "check_ip", "new_table_type"]

BATCH_ROWS = 1 << 14
"""Rows of a batch, unless it is said otherwise: two or three megabytes, which a processor holds near."""

IP_FORMS = ("binary", "text")
"""What IP and MAC addresses may be."""


def check_ip(ip: str) -> None:
    """Raises ValueError for what addresses cannot be."""
    if ip not in IP_FORMS:
        raise ValueError(f"ip is {ip!r}; it may be {' or '.join(IP_FORMS)}")


@functools.lru_cache(
    maxsize=64
)  # what it takes and makes never changes, and for a few rows it takes longer than they do
def new_table_type(schema: Schema, plan: _core.Plan, ip: str = "binary") -> _core.TableType:
    """How tables of a plan of this schema are handed on."""
    fields = fields_of(schema, text=ip == "text")
    rows = (
        (field.name, field.format, field.extension, field.nullable, field.required, field.text, field.members)
        for field in fields
    )
    return _core.TableType(plan, rows)


class TableReader(Protocol):
    """Where a stream gets its flows from."""

    counters: dict[str, int]

    def open(self, ip: str) -> tuple[_core.TableType, Iterator[_core.Table]]:
        """The type of the tables, and the tables from the start."""
        ...


class FlowBatch:
    """A number of flows as columns of `schema`. It never changes, and any thread may use it. Its memory is shared with
    whatever was made of it, and freed with the last."""

    def __init__(self, schema: Schema, table: _core.Table) -> None:
        self.schema = schema
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<FlowBatch: {len(self):,} flows, {len(self.schema.enabled)} columns>"

    @property
    def nbytes(self) -> int:
        """Octets of memory that the flows take."""
        return self._table.nbytes

    def text(self) -> FlowBatch:
        """The same flows with IP and MAC addresses as text."""
        type = new_table_type(self.schema, self._table.type.plan, "text")
        return FlowBatch(self.schema, self._table.view(type))

    def __arrow_c_schema__(self) -> object:
        register_types()
        return self._table.type.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        register_types()
        return self._table.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        register_types()
        return _core.export_stream(self._table.type, [self._table])

    def to_arrow(self) -> pyarrow.RecordBatch:
        """A pyarrow RecordBatch of the same memory. Raises ImportError without pyarrow (`flowbuf[arrow]`)."""
        with optional_import("to_arrow needs pyarrow", "flowbuf[arrow]"):
            import pyarrow

        register_types(needed=True)
        return pyarrow.record_batch(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame: NumPy columns for numbers and times; Arrow-backed ones for lists, for text (addresses and
        enums are text) and for what can be null. Raises ImportError without pandas and pyarrow (`flowbuf[pandas]`)."""
        with optional_import("to_pandas needs pandas and pyarrow", "flowbuf[pandas]"):
            import pyarrow

        return _to_pandas(pyarrow.table(self.text()), self.schema)

    def to_polars(self) -> polars.DataFrame:
        """A polars DataFrame, addresses as text. Raises ImportError without polars (`flowbuf[polars]`)."""
        with optional_import("to_polars needs polars", "flowbuf[polars]"):
            import polars

        return polars.DataFrame(self.text())


class FlowStream:
    """Flows as batches of columns of `schema`, one after the other, so that memory stays bounded however many there
    are.

    Iterating gives a FlowBatch at a time, and what takes an Arrow stream reads it so. `to_arrow`, `to_pandas` and
    `to_polars` read all of it into memory. Flows of a path can be read again and again, each time from the start, those
    of a file object or of standard input once. `counters` says what became of the input that was read last: the name of
    a status (`flowbuf.STATUSES`) -> how often it was met."""

    def __init__(self, schema: Schema, reader: TableReader, ip: str = "binary") -> None:
        self.schema = schema
        self._reader = reader
        self._ip = ip

    @property
    def counters(self) -> dict[str, int]:
        """What was counted when flows were read last, up to where they were read."""
        return self._reader.counters

    def text(self) -> FlowStream:
        """The same flows with IP and MAC addresses as text."""
        return FlowStream(self.schema, self._reader, "text")

    def __iter__(self) -> Iterator[FlowBatch]:
        return (FlowBatch(self.schema, table) for table in self._reader.open(self._ip)[1])

    def __arrow_c_schema__(self) -> object:
        register_types()
        return self._reader.open(self._ip)[0].__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        register_types()
        return _core.export_stream(*self._reader.open(self._ip))

    def to_arrow(self) -> pyarrow.Table:
        """All flows as a pyarrow Table. Raises ImportError without pyarrow (`flowbuf[arrow]`)."""
        with optional_import("to_arrow needs pyarrow", "flowbuf[arrow]"):
            import pyarrow

        register_types(needed=True)
        return self._read_by(pyarrow.table)

    def to_pandas(self) -> pandas.DataFrame:
        """All flows as a pandas DataFrame, as `FlowBatch.to_pandas` makes it."""
        return _to_pandas(self.text().to_arrow(), self.schema)

    def to_polars(self) -> polars.DataFrame:
        """All flows as a polars DataFrame, addresses as text. Raises ImportError without polars (`flowbuf[polars]`)."""
        with optional_import("to_polars needs polars", "flowbuf[polars]"):
            import polars

        return self.text()._read_by(polars.DataFrame)

    def _read_by(self, read: Callable[[Any], Read]) -> Read:
        """What another library makes of all flows. It knows what was raised here by its text alone, and raises errors
        of its own; so the first is raised again."""
        watched = _WatchedStream(*self._reader.open(self._ip))
        try:
            result = read(watched)
        except Exception:
            if watched.error is None:
                raise
            raise watched.error from None
        if watched.error is not None:  # the library took the error for the end of the stream
            raise watched.error
        return result


class _WatchedStream:
    """An Arrow stream of tables that remembers what was raised while they were read."""

    def __init__(self, type: _core.TableType, tables: Iterator[_core.Table]) -> None:
        self.error: BaseException | None = None
        self._type = type
        self._tables = tables

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return _core.export_stream(self._type, self._watch())

    def _watch(self) -> Iterator[_core.Table]:
        try:
            yield from self._tables
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


def _to_pandas(plain: pyarrow.Table, schema: Schema) -> pandas.DataFrame:
    with optional_import("to_pandas needs pandas and pyarrow", "flowbuf[pandas]"):
        import pandas
        import pyarrow
        import pyarrow.types

    def convert(name: str, column: pyarrow.ChunkedArray) -> Any:
        if pyarrow.types.is_dictionary(column.type):
            column = column.cast(pyarrow.string())
        is_number = pyarrow.types.is_primitive(column.type)  # or a time
        if not is_number or schema[name].explicit:
            return pandas.arrays.ArrowExtensionArray(column)
        # Without their indexes, which would be compared with each other; numbers are copied, for who has a DataFrame
        # may write to it.
        values = column.to_pandas()
        return values.array if pyarrow.types.is_timestamp(column.type) else values.to_numpy(copy=True)

    columns = zip(plain.column_names, plain.columns, strict=True)
    values = {name: convert(name, column) for name, column in columns}
    return pandas.DataFrame(values, pandas.RangeIndex(plain.num_rows), copy=False)
