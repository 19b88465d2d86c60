"""A stream of flows as a pyarrow Dataset, from which duckdb requests the columns and rows of a query.

Requires pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.dataset

from flowbuf.arrow.sql import columns_named, plain

if TYPE_CHECKING:
    from flowbuf.arrow.batch import FlowStream

__all__ = ["FlowDataset"]


class FlowDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """Flows of a stream, with the types that duckdb reads.

    Only `schema` and `scanner` are implemented: duckdb uses nothing else.
    """

    def __init__(self, stream: FlowStream) -> None:
        self._stream = stream
        self._type = plain(pyarrow.table(stream[:0])).schema

    @property
    def schema(self) -> Any:
        return self._type

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **options: Any) -> Any:
        """Return a scanner that decodes only the columns of the result and of the filter."""
        names = self._type.names if columns is None else columns
        used = () if filter is None else columns_named(str(filter), self._stream.schema)
        there = [name for name in used if name in self._stream.columns]
        chosen = self._stream.select(*names, *there)
        type = pyarrow.schema([self._type.field(name) for name in chosen.columns])
        reader = pyarrow.RecordBatchReader.from_batches(type, self._read(chosen))
        return pyarrow.dataset.Scanner.from_batches(reader, columns=list(names), filter=filter)

    def _read(self, stream: FlowStream) -> Iterator[Any]:
        for batch in stream:
            yield plain(batch.to_arrow())
