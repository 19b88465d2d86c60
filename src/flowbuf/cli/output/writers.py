"""Write flows in each format, to one file or to a folder of parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Protocol

from flowbuf.arrow.rows import RowReader
from flowbuf.cli.output.columnar import open_columns, open_sink
from flowbuf.cli.output.csv_rows import neutralize, write_csv
from flowbuf.cli.output.streams import COLUMN_FORMATS, open_output
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection
from flowbuf.targets.flow_text import NUMBERS, FlowText

__all__ = ["FlowWriter", "open_file_writer", "open_parts", "open_writer"]


class FlowWriter(Protocol):
    """Write flows: lists of rows, or record batches. `count` is the number of flows so far."""

    @property
    def count(self) -> int: ...

    def write(self, flows: Any) -> None: ...
    def finish(self) -> None: ...


Discard = Callable[[], None]
"""Remove the output instead of keeping it."""


@contextmanager
def open_writer(
    form: str,
    output: str,
    schema: Schema,
    to_terminal: bool,
    sections: bool,
    columns: FlowSelection | None,
    spreadsheet: bool = False,
    order: Sequence[str] = (),
) -> Iterator[tuple[FlowWriter, Discard]]:
    """Open one file. The writer takes record batches if `columns` is set, otherwise lists of rows.

    With `sections`, tables of counters show only the most important columns. `order` names columns that come
    first.
    """
    with (
        open_output(output) as file,
        open_file_writer(form, file, schema, to_terminal, sections, columns, spreadsheet, order) as writer,
    ):
        yield writer, file.discard


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
) -> Iterator[FlowWriter]:
    """Return a writer like `open_writer`, for an open file."""
    if columns is not None and form in COLUMN_FORMATS:
        with open_columns(form, file, columns.type) as writer:
            yield writer
        return
    rows = _new_row_writer(form, file, schema, to_terminal, sections, spreadsheet, order)
    yield rows if columns is None else RowsOfColumns(rows, schema)


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


class JsonLines:
    def __init__(self, file: OutputFile, schema: Schema, order: Sequence[str] = ()) -> None:
        self.count = 0
        self._file = file
        self._text = FlowText(schema, order)

    def write(self, flows: list[dict[str, Any]]) -> None:
        self.count += len(flows)
        json_line = self._text.json_line
        self._file.write("".join([json_line(flow) + "\n" for flow in flows]).encode())

    def finish(self) -> None:
        pass


class Csv:
    """Write CSV. With `spreadsheet`, texts that a spreadsheet would read as formulas are neutralized."""

    def __init__(
        self, file: OutputFile, schema: Schema, spreadsheet: bool = False, order: Sequence[str] = ()
    ) -> None:
        self.count = 0
        self._file = file
        self._text = FlowText(schema, order)
        self._spreadsheet = spreadsheet
        self._numbers = [column.type in NUMBERS and not column.repeated for column in self._text.columns]
        write_csv(file, [[column.name for column in self._text.columns]])

    def write(self, flows: list[dict[str, Any]]) -> None:
        self.count += len(flows)
        rows = map(self._text.cells, flows)
        write_csv(self._file, map(self._neutralize, rows) if self._spreadsheet else rows)

    def _neutralize(self, cells: list[str]) -> list[str]:
        return [
            cell if is_number else neutralize(cell)
            for is_number, cell in zip(self._numbers, cells, strict=True)
        ]

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


def _new_row_writer(
    form: str,
    file: OutputFile,
    schema: Schema,
    to_terminal: bool,
    sections: bool,
    spreadsheet: bool,
    order: Sequence[str],
) -> FlowWriter:
    if form == "table":
        from flowbuf.cli.output.table import CounterTable, FlowTable

        if schema.rows == "counters" and sections:
            return CounterTable(file, schema, to_terminal)
        return FlowTable(file, schema, to_terminal, order)
    return JsonLines(file, schema, order) if form == "jsonl" else Csv(file, schema, spreadsheet, order)
