"""Batches and streams of flows as columns, which pandas, polars, duckdb and pyarrow read without a copy.

Both implement the Arrow PyCapsule protocol, so any library with Arrow support accepts them:
`polars.DataFrame(batch)`, `duckdb.sql("select … from batch")`, `pyarrow.table(stream)`.
`flowbuf.targets.arrow` defines types and nulls.
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
"""Default number of rows per batch: two or three megabytes, which fit into the processor's cache."""

IP_FORMS = ("binary", "text")
"""Values of the option `ip`, the form of IP and MAC addresses."""


def check_ip(ip: str) -> None:
    """Raise ValueError unless ip is "binary" or "text"."""
    if ip not in IP_FORMS:
        raise ValueError(f"ip is {ip!r}; it may be {' or '.join(IP_FORMS)}")


@functools.lru_cache(
    maxsize=64
)  # arguments and result are immutable; for a few rows, building the type takes longer than decoding them
def new_table_type(schema: Schema, plan: _core.Plan, ip: str = "binary") -> _core.TableType:
    """Return the Arrow type of tables of a plan of this schema."""
    fields = fields_of(schema, text=ip == "text")
    rows = (
        (field.name, field.format, field.extension, field.nullable, field.required, field.text, field.members)
        for field in fields
    )
    return _core.TableType(plan, rows)


class TableReader(Protocol):
    """Source of the tables of a stream."""

    counters: dict[str, int]

    def open(self, ip: str) -> tuple[_core.TableType, Iterator[_core.Table]]:
        """Return the type of the tables, and an iterator over the tables from the start."""
        ...


class FlowBatch:
    """A batch of flows as Arrow columns of `schema`.

    A batch is immutable, and safe to use from any thread. It shares its memory with everything made from it;
    the memory is freed with the last of them. `len(batch)` is the number of flows.

    Example:
        for batch in flowbuf.read_capture("flows.pcap"):
            print(len(batch), batch.to_polars())
    """

    def __init__(self, schema: Schema, table: _core.Table) -> None:
        self.schema = schema
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<FlowBatch: {len(self):,} flows, {len(self.schema.enabled)} columns>"

    @property
    def nbytes(self) -> int:
        """Memory of the flows, in bytes."""
        return self._table.nbytes

    def text(self) -> FlowBatch:
        """Return the same flows with IP and MAC addresses as text."""
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
        """Return the flows as a pyarrow.RecordBatch that shares their memory.

        Raises:
            ImportError: pyarrow is not installed (`flowbuf[arrow]`).
        """
        with optional_import("to_arrow needs pyarrow", "flowbuf[arrow]"):
            import pyarrow

        register_types(needed=True)
        return pyarrow.record_batch(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the flows as a pandas DataFrame.

        Numbers and times are NumPy columns. Lists, text and nullable columns are Arrow-backed. Addresses and
        enum members are text.

        Raises:
            ImportError: pandas or pyarrow is not installed (`flowbuf[pandas]`).
        """
        with optional_import("to_pandas needs pandas and pyarrow", "flowbuf[pandas]"):
            import pyarrow

        return _to_pandas(pyarrow.table(self.text()), self.schema)

    def to_polars(self) -> polars.DataFrame:
        """Return the flows as a polars DataFrame, with addresses as text.

        Raises:
            ImportError: polars is not installed (`flowbuf[polars]`).
        """
        with optional_import("to_polars needs polars", "flowbuf[polars]"):
            import polars

        return polars.DataFrame(self.text())


class FlowStream:
    """A stream of flows, read batch by batch, so that memory stays bounded for any number of flows.

    Iterate over it for one FlowBatch at a time, or pass it to a library that reads Arrow streams. `to_arrow`,
    `to_pandas` and `to_polars` read all flows into memory. A stream of a path starts from the beginning each
    time it is read. A stream of a file object or of standard input can be read once.

    Example:
        stream = flowbuf.read_capture("flows.pcap")
        flows = stream.to_pandas()
        print(stream.counters)
    """

    def __init__(self, schema: Schema, reader: TableReader, ip: str = "binary") -> None:
        self.schema = schema
        self._reader = reader
        self._ip = ip

    @property
    def counters(self) -> dict[str, int]:
        """Counters of the last read, up to the point that it reached: number of occurrences per status name.

        `flowbuf.STATUSES` describes the statuses.
        """
        return self._reader.counters

    def text(self) -> FlowStream:
        """Return the same flows with IP and MAC addresses as text."""
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
        """Read all flows into a pyarrow.Table.

        Raises:
            ImportError: pyarrow is not installed (`flowbuf[arrow]`).
            CaptureError: the source is not a capture.
            DecodeError: input is malformed, and the stream is strict.
        """
        with optional_import("to_arrow needs pyarrow", "flowbuf[arrow]"):
            import pyarrow

        register_types(needed=True)
        return self._read_by(pyarrow.table)

    def to_pandas(self) -> pandas.DataFrame:
        """Read all flows into a pandas DataFrame, with the column types of `FlowBatch.to_pandas`.

        Raises:
            ImportError: pandas or pyarrow is not installed (`flowbuf[pandas]`).
        """
        return _to_pandas(self.text().to_arrow(), self.schema)

    def to_polars(self) -> polars.DataFrame:
        """Read all flows into a polars DataFrame, with addresses as text.

        Raises:
            ImportError: polars is not installed (`flowbuf[polars]`).
        """
        with optional_import("to_polars needs polars", "flowbuf[polars]"):
            import polars

        return self.text()._read_by(polars.DataFrame)

    def _read_by(self, read: Callable[[Any], Read]) -> Read:
        """Return the result of `read`, a function of another library, for this stream.

        The library gets only the text of an exception of the stream, and raises its own. The original
        exception is raised instead.
        """
        watched = _WatchedStream(*self._reader.open(self._ip))
        try:
            result = read(watched)
        except Exception:
            if watched.error is None:
                raise
            raise watched.error from None
        if watched.error is not None:  # the library took the exception for the end of the stream
            raise watched.error
        return result


class _WatchedStream:
    """An Arrow stream of tables that stores an exception raised while they are read."""

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
        is_number = pyarrow.types.is_primitive(column.type)  # numbers and times
        if not is_number or schema[name].explicit:
            return pandas.arrays.ArrowExtensionArray(column)
        # Without indexes, which pandas would compare. Numbers are copied, because DataFrames are writable.
        values = column.to_pandas()
        return values.array if pyarrow.types.is_timestamp(column.type) else values.to_numpy(copy=True)

    columns = zip(plain.column_names, plain.columns, strict=True)
    values = {name: convert(name, column) for name, column in columns}
    return pandas.DataFrame(values, pandas.RangeIndex(plain.num_rows), copy=False)
