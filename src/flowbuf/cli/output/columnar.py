"""Flows as columns on the command line: requirements, options, sources and writers."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from flowbuf.arrow.batch import IP_FORMS, FlowBatch, new_table_type
from flowbuf.arrow.rows import with_text
from flowbuf.cli.options import UsageProblem, schema_errors
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import is_terminal, refuse_terminal
from flowbuf.cli.signals import held_signals
from flowbuf.errors import EnrichmentError, QueryError, optional_import
from flowbuf.io.column_file import ArrowSink, ColumnSink, ParquetSink
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

if TYPE_CHECKING:
    from flowbuf.arrow.sql import RowFilter
    from flowbuf.enrich import Pipeline

__all__ = [
    *("ColumnSource", "ColumnWriter"),
    *("arrow_schema", "check_column_output", "enrich_option", "enriched_schema", "ip_option"),
    *("load_pipeline", "need", "open_columns", "open_sink", "query_problems"),
]


def need(module: str, extra: str, what: str) -> None:
    """Raise UsageProblem if a library is missing that `what` requires."""
    try:
        with held_signals(), optional_import(f"{what} needs {module}", f"flowbuf[{extra}]"):
            importlib.import_module(module)
    except ImportError as error:
        raise UsageProblem(str(error)) from error


def arrow_schema(schema: Schema, ip: str = "binary") -> Any:
    """Return the `pyarrow.Schema` for flows of a schema."""
    import pyarrow

    from flowbuf.targets.arrow import register_types

    register_types(needed=True)
    return pyarrow.schema(new_table_type(schema, compile_plan(schema), ip))


class ColumnSource:
    """Flows of inputs as record batches: enriched, filtered by --where, and with only the columns to show.

    The enabled columns of `schema` are shown. `decoded` may have more columns, for --where or an enrichment.
    Errors in a condition raise UsageProblem here, before any work.
    """

    def __init__(
        self, schema: Schema, where: str | None = None, ip: str = "binary", pipeline: Pipeline | None = None
    ) -> None:
        self.schema = schema
        self.type = arrow_schema(schema, ip)
        self._text = ip == "text"
        self._pipeline = pipeline
        self._filter = self._new_filter(where, schema) if where is not None else None
        with schema_errors():
            wanted = schema.enable(*self._filter.columns) if self._filter else schema
            self.decoded = pipeline.extend(wanted) if pipeline else wanted
        self._check_filter()

    def _new_filter(self, where: str, schema: Schema) -> RowFilter:
        need("duckdb", "sql", "--where")
        from flowbuf.arrow.sql import RowFilter

        with query_problems("--where"):
            return RowFilter(where, schema)

    def _check_filter(self) -> None:
        """Evaluate the filter on no rows, to find its errors."""
        if self._filter:
            import pyarrow

            empty = pyarrow.RecordBatch.from_pylist([], schema=arrow_schema(self.decoded, "text"))
            with query_problems("--where"):
                self._filter.rows(empty)

    def read(self, batches: Iterator[FlowBatch]) -> Iterator[Any]:
        """Yield a `pyarrow.RecordBatch` for each batch of the decoded schema."""
        for batch in batches:
            flows = self._pipeline(batch.to_arrow()) if self._pipeline else batch
            shown = self._shown(flows)
            if self._filter:
                with query_problems("--where"):
                    shown = shown.take(self._filter.rows(self._with_text(flows, self._filter.columns)))
            yield shown

    def _shown(self, flows: Any) -> Any:
        """Return the columns to show, with exactly the types of `type`."""
        names = self.type.names
        shown = self._with_text(flows, names) if self._text else self._as_they_are(flows, names)
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for field, array in zip(self.type, shown.columns, strict=True)
        ]
        return type(shown).from_arrays(arrays, schema=self.type)

    def _with_text(self, flows: Any, names: Sequence[str]) -> Any:
        """Return some columns with addresses as text. The core converts its own batches."""
        if isinstance(flows, FlowBatch):
            return flows.text().to_arrow().select(names)
        return with_text(flows.select(names), self.decoded)

    def _as_they_are(self, flows: Any, names: Sequence[str]) -> Any:
        return (flows.to_arrow() if isinstance(flows, FlowBatch) else flows).select(names)


ip_option = click.option(
    "--ip",
    type=click.Choice(IP_FORMS),
    help="Write IP and MAC addresses to Parquet and Arrow as bytes (and numbers), or as text.  "
    "[default: binary]",
)

enrich_option = click.option(
    "--enrich",
    multiple=True,
    metavar="SPEC",
    help="Add columns that the wire does not contain, from FILE.toml or your MODULE:FUNCTION. "
    "May be repeated.",
)


def load_pipeline(specs: Sequence[str], schema: Schema, report: Report) -> Pipeline | None:
    """Return the enrichments of --enrich, or None without them. Raise UsageProblem."""
    if not specs:
        return None
    need("pyarrow", "arrow", "--enrich")
    from flowbuf.enrich import load_enrichments

    try:
        return load_enrichments(specs, schema, on_problem=report.add_note)
    except EnrichmentError as error:
        raise UsageProblem(f"--enrich: {error}") from error


def enriched_schema(schema: Schema, pipeline: Pipeline | None, only: bool) -> Schema:
    """Return the schema to show.

    Columns that enrichments fill are added, unless `only` the enabled ones are requested.
    """
    if pipeline is None or only:
        return schema
    with schema_errors():
        return schema.enable(*pipeline.provides)


@contextmanager
def query_problems(origin: str) -> Iterator[None]:
    """Convert a QueryError inside the block to UsageProblem."""
    try:
        yield
    except QueryError as error:
        raise UsageProblem(f"{origin}: {error}", lines=True) from error


class ColumnWriter:
    """Write record batches to a file of columns. `count` is the number of rows so far."""

    def __init__(self, sink: ColumnSink) -> None:
        self.count = 0
        self._sink = sink

    def write(self, batch: Any) -> None:
        self.count += batch.num_rows
        if batch.num_rows:
            self._sink.write(batch)

    def finish(self) -> None:
        pass


@contextmanager
def open_columns(form: str, file: OutputFile, type: Any) -> Iterator[ColumnWriter]:
    """Open a writer of record batches to an open file, in one of COLUMN_FORMATS.

    `type` is their `pyarrow.Schema`.
    """
    refuse_terminal(file, form)
    with open_sink(form, file, type) as sink:
        yield ColumnWriter(sink)


def open_sink(form: str, file: OutputFile, type: Any) -> ColumnSink:
    """Return the sink of a format in COLUMN_FORMATS."""
    if form == "parquet":
        return ParquetSink(file, type)
    return ArrowSink(file, type, stream=not file.is_regular)


def check_column_output(form: str, output: str) -> None:
    """Raise UsageProblem if columns cannot be written to this output."""
    need("pyarrow", "arrow", f"-f {form}")
    if output == "-" and is_terminal(sys.stdout):
        raise UsageProblem(f"{form} cannot be shown on a terminal; name a file with -o FILE, or use a pipe")
    if output.endswith((".gz", ".zst")):
        fix = "leave out " + os.path.splitext(output)[1]
        raise UsageProblem(
            f"{output}: {form} is read from its end and cannot be compressed as a whole; {fix}"
        )
