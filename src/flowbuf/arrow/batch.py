"""Batches and streams of flows as columns, which pandas, polars, duckdb and pyarrow read without a copy.

Both implement the Arrow PyCapsule protocol, so any library with Arrow support accepts them:
`polars.DataFrame(batch)`, `duckdb.sql("select … from batch")`, `pyarrow.table(stream)`.
`flowbuf.targets.arrow` defines types and nulls.
"""

from __future__ import annotations

import functools
import threading
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from flowbuf import _core
from flowbuf.arrow.preview import PREVIEW_ROWS, describe_columns, preview_html
from flowbuf.errors import optional_import
from flowbuf.schema import Schema
from flowbuf.schema.assemble import list_columns, suggest_fix
from flowbuf.schema.plan import compile_plan
from flowbuf.targets.arrow import fields_of, register_types

Read = TypeVar("Read")
Tables: TypeAlias = Generator[_core.Table, None, None]
Count: TypeAlias = Callable[[dict[str, int]], None]

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = [
    "BATCH_ROWS",
    "IP_FORMS",
    "FlowBatch",
    "FlowStream",
    "TableReader",
    "check_ip",
    "new_table_type",
    "type_of",
    "unique_names",
]

BATCH_ROWS = 1 << 14
"""Default number of rows per batch: two or three megabytes, which fit into the processor's cache."""

_for_pandas = functools.partial(optional_import, "to_pandas needs pandas and pyarrow", "flowbuf[pandas]")

IP_FORMS = ("binary", "text")
"""Values of the option `ip`, the form of IP and MAC addresses."""


def check_ip(ip: str) -> None:
    """Raise ValueError unless ip is "binary" or "text"."""
    if ip not in IP_FORMS:
        raise ValueError(f"ip is {ip!r}; it may be {' or '.join(IP_FORMS)}")


@functools.lru_cache(
    maxsize=64
)  # arguments and result are immutable; for a few rows, building the type takes longer than decoding them
def new_table_type(
    schema: Schema, plan: _core.Plan, ip: str = "binary", columns: tuple[str, ...] | None = None
) -> _core.TableType:
    """Return the Arrow type of tables of a plan of this schema.

    Args:
        schema: Schema that the plan was compiled from.
        plan: Plan of the rows.
        ip: Form of IP and MAC addresses.
        columns: Columns of the table, in this order, which the plan enables. Default: all enabled columns, in
            order of their numbers.
    """
    fields = fields_of(schema, text=ip == "text", columns=columns)
    rows = (
        (field.name, field.format, field.extension, field.nullable, field.required, field.text, field.members)
        for field in fields
    )
    return _core.TableType(plan, rows)


@functools.lru_cache(maxsize=64)  # the same for all batches of a stream
def _with_columns(schema: Schema, columns: tuple[str, ...]) -> Schema:
    return schema.only(*columns)


class TableReader(Protocol):
    """Source of the tables of a stream.

    Attributes:
        name: Name of the source, for messages to users.
        repeatable: True if the source can be read several times.
    """

    @property
    def name(self) -> str: ...
    @property
    def repeatable(self) -> bool: ...

    def open(self, columns: tuple[str, ...], ip: str, count: Count) -> tuple[_core.TableType, Tables]:
        """Return the type of tables with these columns, and an iterator over the tables from the start.

        The iterator passes its counters to `count`: none when it begins, and all when it ends or is closed.
        """
        ...


def unique_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the names of columns without repetitions. Raise TypeError for what is not a name."""
    names = tuple(columns)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"select takes names, not {type(name).__name__}; write select(*names)")
    return tuple(dict.fromkeys(names))


def check_columns(schema: Schema, columns: Iterable[str], there: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns without repetitions. Raise SchemaError for a column that is not there."""
    names = unique_names(columns)
    for name in names:
        if name in there:
            continue
        if name not in schema:
            fix = suggest_fix(name, there) or list_columns(there)
            raise schema.error(None, f"there is no column {name!r}", fix)
        fix = f"read it with columns=[{name!r}, …]; {list_columns(there)}"
        raise schema.error(None, f"column {name!r} was not read", fix)
    return names


class FlowBatch:
    """A batch of flows as Arrow columns of `schema`.

    A batch is immutable, and safe to use from any thread. It shares its memory with everything made from it;
    the memory is freed with the last of them. `len(batch)` is the number of flows.

    `batch[10:20]`, with any slice, returns a batch with copies of these flows.

    Example:
        for batch in flowbuf.read_capture("flows.pcap"):
            print(len(batch), batch.to_polars())
    """

    def __init__(self, schema: Schema, table: _core.Table) -> None:
        self._schema = schema
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<FlowBatch: {len(self):,} flows, {describe_columns(self.columns)}>"

    def _repr_html_(self) -> str:
        return preview_html(repr(self), self[:PREVIEW_ROWS])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        return self._table.type.names

    @property
    def schema(self) -> Schema:
        """Schema with exactly the columns of the batch enabled.

        Raises:
            SchemaError: a column depends on one that the batch does not have.
        """
        return _with_columns(self._schema, self.columns)

    def __getitem__(self, rows: slice) -> FlowBatch:
        if not isinstance(rows, slice):
            raise TypeError(
                f"a batch is indexed with a slice, such as batch[:10], not with {type(rows).__name__}; "
                "for values, convert it with to_pandas(), to_polars() or to_arrow()"
            )
        numbers = range(*rows.indices(len(self)))
        if numbers == range(len(self)):
            return self
        return FlowBatch(self._schema, self._table.take(array("Q", numbers)))

    def select(self, *columns: str) -> FlowBatch:
        """Return the same flows with only these columns, in this order. The memory is shared.

        Raises:
            SchemaError: the batch has no such column.
        """
        names = check_columns(self._schema, columns, self.columns)
        return self._view(names, "text" if self._table.type.text else "binary")

    def filter(self, condition: str) -> FlowBatch:
        """Return a batch with copies of the flows that match a condition.

        Args:
            condition: Condition in SQL, as in `flowbuf read --where`: `"dst_port = 53 and bytes > 512"`.
                Addresses are text in it. It may name only columns of the batch.

        Raises:
            ImportError: duckdb or pyarrow is not installed (`flowbuf[sql]`).
            QueryError: the condition is invalid.
            SchemaError: the condition names a column that the batch does not have.
        """
        return FlowBatch(self._schema, TableFilter(condition, self._schema).apply(self._table))

    def _view(self, columns: tuple[str, ...], ip: str) -> FlowBatch:
        type = new_table_type(self._schema, self._table.type.plan, ip, columns)
        return FlowBatch(self._schema, self._table.view(type))

    @property
    def nbytes(self) -> int:
        """Memory of the flows, in bytes."""
        return self._table.nbytes

    def text(self) -> FlowBatch:
        """Return the same flows with IP and MAC addresses as text."""
        return self if self._table.type.text else self._view(self.columns, "text")

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
        with _for_pandas():
            import pyarrow

        return _to_pandas(pyarrow.table(self.text()), self._schema)

    def to_polars(self) -> polars.DataFrame:
        """Return the flows as a polars DataFrame, with addresses as text.

        Raises:
            ImportError: polars is not installed (`flowbuf[polars]`).
        """
        with optional_import("to_polars needs polars", "flowbuf[polars]"):
            import polars

        return polars.DataFrame(self.text())


def type_of(batch: FlowBatch) -> _core.TableType:
    """Return the type of a batch. Batches of one stream have one type."""
    return batch._table.type


class FlowStream:
    """A stream of flows, read batch by batch, so that memory stays bounded for any number of flows.

    Iterate over it for one FlowBatch at a time, or pass it to a library that reads Arrow streams. `to_arrow`,
    `to_pandas` and `to_polars` read all flows into memory. A stream of a path starts from the beginning each
    time it is read. A stream of a file object or of standard input can be read once.

    `select`, `filter` and a slice such as `stream[:1000]` return streams too. Nothing is read before the
    flows are requested. Then only the columns in use are decoded, and reading ends with the last flow of a
    slice.

    Example:
        stream = flowbuf.read_capture("flows.pcap")
        flows = stream.to_pandas()
        print(stream.counters)
    """

    def __init__(
        self, schema: Schema, reader: TableReader, ip: str = "binary", columns: tuple[str, ...] | None = None
    ) -> None:
        self._schema = schema
        self._reader = reader
        self._ip = ip
        self._columns = tuple(column.name for column in schema.enabled) if columns is None else columns
        self._counters: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<FlowStream: {self._reader.name}, {describe_columns(self.columns)}>"

    def _repr_html_(self) -> str:
        if not self._reader.repeatable:  # a preview would consume it
            return preview_html(repr(self), None)
        return preview_html(repr(self), next(iter(self[:PREVIEW_ROWS]), None))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        return self._columns

    @functools.cached_property
    def schema(self) -> Schema:
        """Schema with exactly the columns of the stream enabled.

        Raises:
            SchemaError: a column depends on one that the stream does not have.
        """
        return self._schema.only(*self.columns)

    @property
    def counters(self) -> dict[str, int]:
        """Counters of the last read, up to the point that it reached: number of occurrences per status name.

        Streams made from this one, with `select`, `filter`, `text` or a slice, have counters of their own.
        `flowbuf.STATUSES` describes the statuses.
        """
        return self._counters

    def text(self) -> FlowStream:
        """Return the same flows with IP and MAC addresses as text."""
        return FlowStream(self._schema, self._reader, "text", self._columns)

    def select(self, *columns: str) -> FlowStream:
        """Return the flows with only these columns, in this order.

        Raises:
            SchemaError: the stream has no such column.
        """
        names = check_columns(self._schema, columns, self.columns)
        return FlowStream(self._schema, self._reader, self._ip, names)

    def filter(self, condition: str) -> FlowStream:
        """Return only the flows that match a condition.

        Args:
            condition: Condition in SQL, as in `flowbuf read --where`: `"dst_port = 53 and bytes > 512"`.
                Addresses are text in it. Columns that it names need not be among those of the stream.

        Raises:
            ImportError: duckdb or pyarrow is not installed (`flowbuf[sql]`).
            QueryError: the condition is invalid.
        """
        reader = _FilteredReader(self._reader, self._schema, condition)
        return FlowStream(self._schema, reader, self._ip, self._columns)

    def __getitem__(self, rows: slice) -> FlowStream:
        if not isinstance(rows, slice):
            raise TypeError(
                f"a stream is indexed with a slice, such as stream[:10], not with {type(rows).__name__}"
            )
        begin, end = rows.start or 0, rows.stop
        if rows.step not in (None, 1) or begin < 0 or (end is not None and end < 0):
            raise ValueError("a slice of a stream has no step and no negative limits; write stream[10:20]")
        return FlowStream(self._schema, _SlicedReader(self._reader, begin, end), self._ip, self._columns)

    def _open(self, ip: str | None = None) -> tuple[_core.TableType, Tables]:
        return self._reader.open(self._columns, ip or self._ip, self._count)

    def _count(self, counters: dict[str, int]) -> None:
        self._counters = counters

    def __iter__(self) -> Iterator[FlowBatch]:
        return (FlowBatch(self._schema, table) for table in self._open()[1])

    def __arrow_c_schema__(self) -> object:
        register_types()
        return self._open()[0].__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        register_types()
        return _core.export_stream(*self._open())

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
        with _for_pandas():
            import pyarrow

        return _to_pandas(self._read_by(pyarrow.table, "text"), self._schema)

    def to_polars(self) -> polars.DataFrame:
        """Read all flows into a polars DataFrame, with addresses as text.

        Raises:
            ImportError: polars is not installed (`flowbuf[polars]`).
        """
        with optional_import("to_polars needs polars", "flowbuf[polars]"):
            import polars

        return self._read_by(polars.DataFrame, "text")

    def _read_by(self, read: Callable[[Any], Read], ip: str | None = None) -> Read:
        """Return the result of `read`, a function of another library, for this stream.

        The library gets only the text of an exception of the stream, and raises its own. The original
        exception is raised instead.
        """
        watched = _WatchedStream(*self._open(ip))
        try:
            result = read(watched)
        except Exception:
            if watched.error is None:
                raise
            raise watched.error from None
        if watched.error is not None:  # the library took the exception for the end of the stream
            raise watched.error
        return result


class TableFilter:
    """A condition in SQL that selects rows of tables, in any thread.

    Args:
        condition: Condition in SQL.
        schema: Schema of the tables.

    Attributes:
        columns: Columns that the condition names.

    Raises:
        ImportError: duckdb or pyarrow is not installed.
        QueryError: the condition is invalid.
    """

    def __init__(self, condition: str, schema: Schema) -> None:
        with optional_import("a condition needs duckdb and pyarrow", "flowbuf[sql]"):
            import duckdb  # noqa: F401
            import pyarrow

            from flowbuf.arrow.sql import RowFilter

        self._schema = schema
        self._condition = condition
        self._filter = RowFilter(condition, schema)
        self._lock = threading.Lock()  # the filter has one connection
        self.columns = self._filter.columns
        register_types(needed=True)
        needed = schema.only_needed(*self.columns)
        self._filter.check(pyarrow.schema(new_table_type(needed, compile_plan(needed), "text", self.columns)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Give copies and pickles a connection of their own: streams can be sent to other processes."""
        return TableFilter, (self._condition, self._schema)

    def apply(self, table: _core.Table) -> _core.Table:
        """Return a table of the matching rows.

        Raises:
            QueryError: the condition fails for a value.
            SchemaError: the condition names a column that the table does not have.
        """
        names = check_columns(self._schema, self.columns, table.type.names)
        seen = table.view(new_table_type(self._schema, table.type.plan, "text", names))
        batch = FlowBatch(self._schema, seen).to_arrow()
        with self._lock:
            rows = self._filter.rows(batch)
        if len(rows) == len(table):
            return table
        if not len(rows):
            return table.take(b"")
        begin, size = 8 * rows.offset, 8 * len(rows)  # in bytes
        return table.take(memoryview(rows.buffers()[1])[begin : begin + size])


class _DerivedReader:
    """A part of the rows of another reader."""

    def __init__(self, reader: TableReader, name: str) -> None:
        self._reader = reader
        self.name = f"{reader.name} {name}"
        self.repeatable = reader.repeatable


class _FilteredReader(_DerivedReader):
    """Tables of a reader with only the rows that match a condition."""

    def __init__(self, reader: TableReader, schema: Schema, condition: str) -> None:
        super().__init__(reader, f"where {condition}")
        self._schema = schema
        self._filter = TableFilter(condition, schema)

    def open(self, columns: tuple[str, ...], ip: str, count: Count) -> tuple[_core.TableType, Tables]:
        needed = tuple(dict.fromkeys((*columns, *self._filter.columns)))
        type, tables = self._reader.open(needed, "binary", count)
        shown = new_table_type(self._schema, type.plan, ip, columns)
        return shown, self._read(tables, shown)

    def _read(self, tables: Tables, shown: _core.TableType) -> Tables:
        with closing(tables):
            for table in tables:
                found = self._filter.apply(table)
                if len(found):
                    yield found.view(shown)


class _SlicedReader(_DerivedReader):
    """Tables of a reader with the rows from number `begin` to `end`, or to the last one."""

    def __init__(self, reader: TableReader, begin: int, end: int | None) -> None:
        super().__init__(reader, f"[{begin or ''}:{'' if end is None else end}]")
        self._begin = begin
        self._end = end

    def open(self, columns: tuple[str, ...], ip: str, count: Count) -> tuple[_core.TableType, Tables]:
        type, tables = self._reader.open(columns, ip, count)
        return type, self._read(tables)

    def _read(self, tables: Tables) -> Tables:
        before = 0
        with closing(tables):
            while self._end is None or before < self._end:
                table = next(tables, None)
                if table is None:
                    return
                end = None if self._end is None else self._end - before
                numbers = range(len(table))[max(self._begin - before, 0) : end]
                before += len(table)
                if len(numbers) == len(table):
                    yield table
                elif numbers:
                    yield table.slice(numbers.start, len(numbers))


class _WatchedStream:
    """An Arrow stream of tables that stores an exception raised while they are read."""

    def __init__(self, type: _core.TableType, tables: Tables) -> None:
        self.error: BaseException | None = None
        self._type = type
        self._tables = tables

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return _core.export_stream(self._type, self._watch())

    def _watch(self) -> Tables:
        try:
            yield from self._tables
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


def _to_pandas(plain: pyarrow.Table, schema: Schema) -> pandas.DataFrame:
    with _for_pandas():
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
