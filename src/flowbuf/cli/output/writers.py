"""Write flows in each format, to one file or to a folder of parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Protocol

from flowbuf.arrow.batch import FlowBatch
from flowbuf.arrow.row_text import RowText
from flowbuf.arrow.rows import RowReader
from flowbuf.cli.output.columnar import open_columns, open_sink
from flowbuf.cli.output.streams import COLUMN_FORMATS, open_output
from flowbuf.cli.output.terminal import clean_text
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection

__all__ = ["Discard", "FlowWriter", "TextLines", "open_file_writer", "open_parts"]


class FlowWriter(Protocol):
    """Write flows. `count` is the number of flows so far."""

    @property
    def count(self) -> int: ...

    def write(self, flows: Any) -> None: ...
    def finish(self) -> None: ...


Discard = Callable[[], None]
"""Remove the output instead of keeping it."""


@contextmanager
def open_file_writer(
    form: str,
    file: OutputFile,
    schema: Schema,
    to_terminal: bool,
    sections: bool,
    columns: FlowSelection | None,
    spreadsheet: bool = False,
    order: Sequence[str] = (),
    start: str = "",
) -> Iterator[FlowWriter]:
    """Open the writer of an open file.

    The writer takes record batches if `columns` is set. Otherwise, a table takes lists of rows, and other
    formats take `FlowBatch` objects.

    With `sections`, tables of counters show only the most important columns. `order` names columns that come
    first. `start` is the first key of each JSON line, with its value.
    """
    if columns is not None and form in COLUMN_FORMATS:
        with open_columns(form, file, columns.type) as writer:
            yield writer
        return
    if form != "table":
        yield TextLines(form, file, schema, spreadsheet, order, start)
        return
    from flowbuf.cli.output.table import CounterTable, FlowTable

    table: FlowWriter
    if schema.rows == "counters" and sections:
        table = CounterTable(file, schema, to_terminal)
    else:
        table = FlowTable(file, schema, to_terminal, order)
    yield table if columns is None else RowsOfColumns(table, schema)


@contextmanager
def open_parts(
    form: str, folder: str, type: Any, rows: int, add_note: Callable[[str], None]
) -> Iterator[tuple[FlowWriter, Discard]]:
    """Open a folder of files with `rows` rows each, `part-00000.parquet` and so on.

    An error or a signal between parts adds a note that the parts are incomplete.
    """
    parts = _Parts(form, folder, type, rows)
    try:
        with parts:
            yield parts, parts.discard
    except BaseException:
        if parts.whole:
            add_note(f"{folder}: stopped early; complete files: {parts.whole}; the others are missing")
        raise


class _Parts:
    """Write record batches to one file after another.

    Each file appears when it is complete. Without rows, there is one empty file with the schema `type`.
    `whole` is the number of complete files before the last one.
    """

    def __init__(self, form: str, folder: str, type: Any, rows: int) -> None:
        self.count = 0
        self.whole = 0
        self._form = form
        self._folder = folder
        self._type = type
        self._rows = rows
        self._room = 0
        self._parts = 0
        self._wanted = True
        self._open = ExitStack()
        self._sink: Any = None

    def write(self, batch: Any) -> None:
        self.count += batch.num_rows
        while batch.num_rows:
            if not self._room:
                self._next()
            piece = batch.slice(0, self._room)
            self._sink.write(piece)
            self._room -= piece.num_rows
            batch = batch.slice(piece.num_rows)

    def _next(self) -> None:
        self._open.close()
        self.whole = self._parts
        name = os.path.join(self._folder, f"part-{self._parts:05d}.{self._form}")
        file = self._open.enter_context(open_output(name))
        self._sink = self._open.enter_context(open_sink(self._form, file, self._type))
        self._parts += 1
        self._room = self._rows

    def finish(self) -> None:
        pass

    def discard(self) -> None:
        self._wanted = False

    def __enter__(self) -> _Parts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and self._wanted and not self._parts:
            self._next()
        self._open.__exit__(kind, error, traceback)


class TextLines:
    """Write batches of columns as JSON lines or CSV. Both start with the columns of `order`.

    With `spreadsheet`, texts in CSV that a spreadsheet would read as formulas are neutralized.
    """

    def __init__(
        self,
        form: str,
        file: OutputFile,
        schema: Schema,
        spreadsheet: bool = False,
        order: Sequence[str] = (),
        start: str = "",
    ) -> None:
        self.count = 0
        self._file = file
        self._names = tuple(column.name for column in schema.arrange(order))
        self._text = RowText(
            schema, "json" if form == "jsonl" else "csv", start=start, spreadsheet=spreadsheet
        )
        self._cleaned = form == "csv" and file.is_terminal  # JSON has no control characters
        if form == "csv":
            from flowbuf.cli.output.csv_rows import write_csv

            write_csv(file, [self._names])

    def write(self, flows: Any) -> None:
        if isinstance(flows, FlowBatch):
            self.count += len(flows)
            flows = flows if flows.columns == self._names else flows.select(*self._names)
        else:
            self.count += flows.num_rows
        lines = self._text.lines(flows)
        self._file.write(clean_text(str(lines, "utf-8")).encode() if self._cleaned else lines)

    def finish(self) -> None:
        pass


class RowsOfColumns:
    """Write record batches with a writer of rows."""

    def __init__(self, writer: FlowWriter, schema: Schema) -> None:
        self._writer = writer
        self._rows = RowReader(schema)

    @property
    def count(self) -> int:
        return self._writer.count

    def write(self, batch: Any) -> None:
        self._writer.write(self._rows.read(batch))

    def finish(self) -> None:
        self._writer.finish()
