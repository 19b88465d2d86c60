"""Flows as columns on the command line: what is needed for them, and what they are written with."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flowbuf.batch import FlowBatch, new_table_type
from flowbuf.cli.options import UsageProblem, schema_errors
from flowbuf.cli.output import is_terminal
from flowbuf.errors import QueryError
from flowbuf.plan import compile_plan
from flowbuf.schema import Schema
from flowbuf.sinks.columns import ArrowSink, ColumnSink, ParquetSink
from flowbuf.sinks.file import OutputFile
from flowbuf.sql import RowFilter

__all__ = [
    *("COLUMN_FORMATS", "ColumnSource", "ColumnWriter"),
    *("arrow_schema", "check_column_output", "need", "open_sink", "query_problems"),
]

COLUMN_FORMATS = ("parquet", "arrow")


def need(module: str, extra: str, what: str) -> None:
    """Raises UsageProblem where a library is missing that `what` takes."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise UsageProblem(f"{what} needs {module}: pip install 'flowbuf[{extra}]' ({error})") from error


def arrow_schema(schema: Schema, ip: str = "binary") -> Any:
    """The `pyarrow.Schema` of flows of a schema."""
    import pyarrow

    from flowbuf.targets.arrow import register_types

    register_types(needed=True)
    return pyarrow.schema(new_table_type(schema, compile_plan(schema), ip))


class ColumnSource:
    """Flows of inputs as record batches of the columns to show: enriched, those that --where wants, and nothing else.

    `schema` has the columns to show enabled. More may be decoded, because --where or an enrichment looks at them:
    `decoded`. Everything that is wrong with either raises UsageProblem here, before any work.
    """

    def __init__(self, schema: Schema, where: str | None, ip: str = "binary") -> None:
        self.schema = schema
        self.type = arrow_schema(schema, ip)
        self._text = ip == "text"
        self._filter = self._new_filter(where, schema) if where is not None else None
        with schema_errors():
            self.decoded = schema.enable(*self._filter.columns) if self._filter else schema
        self._check_filter()

    def _new_filter(self, where: str, schema: Schema) -> RowFilter:
        need("duckdb", "sql", "--where")
        return RowFilter(where, schema)

    def _check_filter(self) -> None:
        """On no rows at all."""
        if self._filter:
            import pyarrow

            empty = pyarrow.RecordBatch.from_pylist([], schema=arrow_schema(self.decoded, "text"))
            with query_problems("--where"):
                self._filter.rows(empty)

    def read(self, batches: Iterator[FlowBatch]) -> Iterator[Any]:
        """What becomes of batches of the decoded schema, as `pyarrow.RecordBatch`."""
        for batch in batches:
            shown = (batch.text() if self._text else batch).to_arrow()
            if self._filter:
                with query_problems("--where"):
                    shown = shown.take(self._filter.rows(batch.text().to_arrow()))
            yield shown.select(self.type.names)


@contextmanager
def query_problems(origin: str) -> Iterator[None]:
    """A QueryError inside is about the command line."""
    try:
        yield
    except QueryError as error:
        raise UsageProblem(f"{origin}: {error}") from error


class ColumnWriter:
    """Writes record batches as a file of columns; `count` is how many rows so far."""

    def __init__(self, sink: ColumnSink) -> None:
        self.count = 0
        self._sink = sink

    def write(self, batch: Any) -> None:
        self.count += batch.num_rows
        if batch.num_rows:
            self._sink.write(batch)

    def finish(self) -> None:
        pass


def open_sink(form: str, file: OutputFile, type: Any) -> ColumnSink:
    """What writes record batches to an open file, in one of COLUMN_FORMATS. `type` is their `pyarrow.Schema`."""
    if form == "parquet":
        return ParquetSink(file, type)
    return ArrowSink(file, type, stream=not file.is_regular)


def check_column_output(form: str, output: str) -> None:
    """Raises UsageProblem where columns cannot be written, or are not wanted, in this format."""
    need("pyarrow", "arrow", f"-f {form}")
    if output == "-" and is_terminal(sys.stdout):
        raise UsageProblem(f"{form} is nothing to look at: give -o FILE, or a pipe")
    if output.endswith((".gz", ".zst")):
        fix = "leave out " + os.path.splitext(output)[1]
        raise UsageProblem(f"{output}: {form} is read from its end and cannot be compressed as a whole; {fix}")
