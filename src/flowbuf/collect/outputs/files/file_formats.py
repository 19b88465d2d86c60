"""Formats of the files of the collector: Parquet and length-delimited messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from flowbuf.io.column_file import ParquetSink
from flowbuf.io.columns import encode_columns
from flowbuf.io.output_file import Writable, open_compressed
from flowbuf.schema import Schema

if TYPE_CHECKING:
    import pyarrow

__all__ = ["BatchWriter", "FileFormat", "MessageFormat", "ParquetFormat"]

COMPRESSIONS = ("", ".gz", ".zst")


class BatchWriter(Protocol):
    """Writes batches to one file."""

    def write(self, batch: Any) -> None:
        """Append the flows of a `pyarrow.RecordBatch`.

        Raises:
            FlowbufError: The batch cannot be written. Nothing is appended.
        """
        ...

    def finish(self) -> None:
        """Write the rest of the file."""
        ...

    def cancel(self) -> None:
        """End without the rest of the file."""
        ...


class FileFormat(Protocol):
    """Format of files.

    Attributes:
        suffix: End of the names of new files.
        suffixes: All ends of names that this format has.
        description: Content of a .proto file beside each file, or b"" if there is none.
    """

    suffix: str
    suffixes: tuple[str, ...]
    description: bytes

    def open(self, file: Writable, schema: pyarrow.Schema) -> BatchWriter:
        """Return a writer of batches of `schema` to an empty file."""
        ...


class ParquetFormat:
    """Parquet files, compressed with zstd, with row groups of at least 131,072 rows.

    Raises:
        ImportError: pyarrow is not installed. Raised by `open`.
    """

    suffix = ".parquet"
    suffixes: tuple[str, ...] = (suffix,)
    description = b""

    def open(self, file: Writable, schema: pyarrow.Schema) -> BatchWriter:
        """Return a writer of batches of `schema` to an empty file."""
        return ParquetSink(file, schema)


class MessageFormat:
    """Files of length-delimited messages, as `flowbuf encode` writes them, each with its .proto.

    Args:
        schema: Schema of the messages.
        compression: "", ".gz" or ".zst". Default: "", no compression.
        ignore_unknown: Ignore columns of batches that the schema does not have. Default: False, a batch with
            such a column is an error.
        scaled: As in `Schema.to_proto`: bytes and packets are multiplied by the sampling rate.

    Raises:
        ValueError: compression is invalid.
        SchemaError: The schema cannot become a .proto.
    """

    suffixes = tuple(f".pb{end}" for end in COMPRESSIONS)

    def __init__(
        self,
        schema: Schema,
        compression: str = "",
        *,
        ignore_unknown: bool = False,
        scaled: bool = False,
    ) -> None:
        if compression not in COMPRESSIONS:
            raise ValueError(f"compression is {compression!r}; it may be '', '.gz' or '.zst'")
        self.suffix = f".pb{compression}"
        self.description = schema.to_proto(scaled=scaled).encode()
        self._schema = schema
        self._compression = compression
        self._ignore_unknown = ignore_unknown

    def open(self, file: Writable, schema: pyarrow.Schema) -> BatchWriter:
        """Return a writer of batches to an empty file. Any schema with the columns of the messages fits."""
        return _MessageWriter(file, self._schema, self._compression, self._ignore_unknown)


class _MessageWriter:
    """Encode batches as messages and append them to a file."""

    def __init__(self, file: Writable, schema: Schema, compression: str, ignore_unknown: bool) -> None:
        self._plain = file
        self._file = open_compressed(file, compression)
        self._schema = schema
        self._ignore_unknown = ignore_unknown

    def write(self, batch: Any) -> None:
        """Append the messages of a batch. Raise EncodeError if it cannot be encoded."""
        self._file.write(encode_columns(batch, self._schema, ignore_unknown=self._ignore_unknown))

    def finish(self) -> None:
        """Write the rest of the compressed data."""
        if self._file is not self._plain:
            self._file.close()

    def cancel(self) -> None:
        """Close the compressor."""
        self.finish()
