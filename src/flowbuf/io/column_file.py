"""Write Arrow columns to Parquet and Arrow IPC files (IPC files are also called Feather)."""

from __future__ import annotations

import io
from types import TracebackType
from typing import Any, Protocol

from flowbuf.errors import EncodeError
from flowbuf.io.output_file import Writable

__all__ = ["ArrowSink", "ColumnSink", "ParquetSink"]

GROUP_ROWS = 1 << 17
"""Minimum number of rows in each row group except the last one. Batches may be much smaller."""

GROUP_BYTES = 1 << 27
"""Memory of batches, in bytes, that ends a row group earlier. Long texts reach it."""


class ColumnSink(Protocol):
    """Takes record batches of one schema.

    A context manager that completes the file when its block ends without an error.
    """

    def write(self, batch: Any) -> None:
        """Append the rows of a `pyarrow.RecordBatch`."""
        ...

    def __enter__(self) -> ColumnSink: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class _ByteFile(io.RawIOBase):
    """An open file as the file object that pyarrow needs.

    After `cut`, it ignores writes, so that an incomplete file stays incomplete.
    """

    def __init__(self, file: Writable) -> None:
        self._file = file
        self._position = 0
        self._cut = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if not self._cut:
            self._file.write(view)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def cut(self) -> None:
        self._cut = True


def _explain_types(schema: Any) -> None:
    """Raise EncodeError for a column whose type Parquet does not have, such as an interval."""
    import pyarrow.parquet

    for field in schema:
        try:
            pyarrow.parquet.ParquetWriter(pyarrow.BufferOutputStream(), pyarrow.schema([field])).close()
        except pyarrow.ArrowNotImplementedError as error:
            problem = f"column {field.name!r} is of type {field.type}, which Parquet does not have"
            raise EncodeError(f"{problem}; convert it, in SQL with CAST({field.name} AS VARCHAR)") from error


class ParquetSink:
    """Write Parquet to an open `OutputFile`, which may be a pipe, or to another binary file.

    Batches are collected into row groups of at least GROUP_ROWS rows or GROUP_BYTES bytes. Up to one row
    group is in memory.

    Args:
        file: Open file.
        schema: `pyarrow.Schema` of the batches.

    Raises:
        ImportError: pyarrow is not installed.
        EncodeError: Parquet lacks the type of a column.
        OSError: The file cannot be written.
    """

    def __init__(self, file: Writable, schema: Any) -> None:
        import pyarrow
        import pyarrow.parquet

        compression = "zstd" if pyarrow.Codec.is_available("zstd") else "snappy"
        self._bytes = _ByteFile(file)
        try:
            self._writer = pyarrow.parquet.ParquetWriter(self._bytes, schema, compression=compression)
        except pyarrow.ArrowNotImplementedError:
            _explain_types(schema)
            raise
        self._schema = schema
        self._required = [place for place, field in enumerate(schema) if not field.nullable]
        self._waiting: list[Any] = []
        self._rows = self._size = 0

    def write(self, batch: Any) -> None:
        """Append the rows of a `pyarrow.RecordBatch`.

        Raises:
            EncodeError: A column that is not nullable has nulls. Nothing is appended.
            OSError: The file cannot be written.
        """
        self._check(batch)
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._size += batch.nbytes
        if self._rows >= GROUP_ROWS or self._size >= GROUP_BYTES:
            self._write_group()

    def _check(self, batch: Any) -> None:
        for place in self._required:
            if batch.column(place).null_count:
                name = self._schema[place].name
                raise EncodeError(f"column {name!r} has nulls, but is not nullable; fill the nulls")

    def _write_group(self) -> None:
        import pyarrow

        table = pyarrow.Table.from_batches(self._waiting, self._schema).unify_dictionaries()
        self._waiting, self._rows, self._size = [], 0, 0
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def finish(self) -> None:
        """Write the last row group and the footer. Raise OSError if the file cannot be written."""
        try:
            if self._rows:
                self._write_group()
        except BaseException:
            self.cancel()
            raise
        self._writer.close()

    def cancel(self) -> None:
        """End without the last row group and the footer. The file stays incomplete."""
        self._bytes.cut()
        self._writer.close()

    def __enter__(self) -> ParquetSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.cancel()


class ArrowSink:
    """Write Arrow IPC to an open `OutputFile`.

    A file has one dictionary per column. New values in later batches are appended to it.

    Args:
        file: Open output file.
        schema: `pyarrow.Schema` of the batches.
        stream: Write the streaming format, for pipes. Default: False, the file format, with an index at its
            end.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: The file cannot be written.
    """

    def __init__(self, file: Writable, schema: Any, stream: bool = False) -> None:
        import pyarrow.ipc

        self._bytes = _ByteFile(file)
        if stream:
            self._writer = pyarrow.ipc.new_stream(self._bytes, schema)
            self._dictionaries: dict[int, _Dictionary] = {}
        else:
            options = pyarrow.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
            self._writer = pyarrow.ipc.new_file(self._bytes, schema, options=options)
            types = ((place, _item_type(field.type)) for place, field in enumerate(schema))
            self._dictionaries = {
                place: _Dictionary(type) for place, type in types if pyarrow.types.is_dictionary(type)
            }

    def write(self, batch: Any) -> None:
        """Append the rows of a `pyarrow.RecordBatch`."""
        if self._dictionaries:
            arrays = [
                self._dictionaries[place].encode(array) if place in self._dictionaries else array
                for place, array in enumerate(batch.columns)
            ]
            batch = type(batch).from_arrays(arrays, schema=batch.schema)
        self._writer.write_batch(batch)

    def __enter__(self) -> ArrowSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._bytes.cut()
        self._writer.close()


def _item_type(type: Any) -> Any:
    """Return the type of a list's items; for any other type, the type itself."""
    import pyarrow

    return type.value_type if pyarrow.types.is_list(type) else type


class _Dictionary:
    """Collect the values of a dictionary column, or of a column of lists of them.

    Later batches append to it.
    """

    def __init__(self, type: Any) -> None:
        self._type = type
        self._values: Any = None

    def encode(self, array: Any) -> Any:
        """Return the array with a dictionary that begins with all earlier values.

        The array is a dictionary or a list of them.
        """
        import pyarrow
        import pyarrow.compute as pc

        if pyarrow.types.is_list(array.type):
            items, buffers = self.encode(array.values), array.buffers()[:2]
            return pyarrow.Array.from_buffers(
                array.type, len(array), buffers, offset=array.offset, children=[items]
            )
        if self._values is None:
            self._values = array.dictionary
        if array.dictionary.equals(self._values):
            return array
        new = array.dictionary.filter(pc.invert(pc.is_in(array.dictionary, self._values)))
        self._values = pyarrow.concat_arrays([self._values, new])
        places = pc.index_in(array.dictionary, self._values).cast(self._type.index_type)
        return pyarrow.DictionaryArray.from_arrays(places.take(array.indices), self._values)
