"""A stream of flows as a pyarrow Dataset, from which duckdb requests the columns and rows of a query.

Requires pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.dataset

from flowbuf.arrow.sql import plain

if TYPE_CHECKING:
    from flowbuf.arrow.batch import FlowStream

__all__ = ["FlowDataset"]


class FlowDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """Flows of a stream, with the types that duckdb reads.

    Only `schema`, `scanner` and `to_reader` of the scanner are implemented: duckdb uses nothing else.
    `end` is called with the counters of each scan that has read all its batches.
    """

    def __init__(self, stream: FlowStream, end: Callable[[Mapping[str, int]], None]) -> None:
        self._stream = stream
        self._end = end
        self._type = plain(pyarrow.table(stream[:0])).schema

    @property
    def schema(self) -> Any:
        return self._type

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **options: Any) -> Any:
        """Return a scanner that decodes only the columns of the result and of the filter."""
        names = list(self._type.names if columns is None else columns)
        words = set() if filter is None else set(re.findall(r"\w+", str(filter)))
        used = [name for name in self._stream.columns if name in words]
        type = pyarrow.schema([self._type.field(name) for name in names])
        batches = _read(self._stream.select(*names, *used), names, filter, self._end)
        return _Scanner(pyarrow.RecordBatchReader.from_batches(type, batches))


class _Scanner:
    """A scanner that reads when duckdb asks for a batch.

    One of pyarrow reads ahead in a thread, which may run Python code while the interpreter ends.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def to_reader(self) -> Any:
        return self._reader


def _read(
    stream: FlowStream, names: list[str], filter: Any, end: Callable[[Mapping[str, int]], None]
) -> Iterator[Any]:
    try:
        for batch in stream:
            table = pyarrow.Table.from_batches([plain(batch.to_arrow())])
            if filter is not None:
                table = table.filter(filter)
            yield from table.select(names).to_batches()
        end(stream.counters)
    except Exception as error:
        raise OSError(str(error)) from None  # duckdb shows the whole traceback of an error
