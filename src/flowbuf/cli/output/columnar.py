"""Flows as columns on the command line: what is needed for them, and what they are written with."""

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
    """Raises UsageProblem where a library is missing that `what` takes."""
    try:
        with held_signals(), optional_import(f"{what} needs {module}", f"flowbuf[{extra}]"):
            importlib.import_module(module)
    except ImportError as error:
        raise UsageProblem(str(error)) from error


def arrow_schema(schema: Schema, ip: str = "binary") -> Any:
    """The `pyarrow.Schema` of flows of a schema."""
    import pyarrow

    from flowbuf.targets.arrow import register_types

    register_types(needed=True)
    return pyarrow.schema(new_table_type(schema, compile_plan(schema), ip))


class ColumnSource:
    """Flows of inputs as record batches of the columns to show: enriched, those that --where wants, and nothing else.

    `schema` has the columns to show enabled. More may be decoded, because --where or an enrichment looks at them:
    `decoded`. Everything that is wrong with a condition raises UsageProblem here, before any work.
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
        """On no rows at all."""
        if self._filter:
            import pyarrow

            empty = pyarrow.RecordBatch.from_pylist([], schema=arrow_schema(self.decoded, "text"))
            with query_problems("--where"):
                self._filter.rows(empty)

    def read(self, batches: Iterator[FlowBatch]) -> Iterator[Any]:
        """What becomes of batches of the decoded schema, as `pyarrow.RecordBatch`."""
        for batch in batches:
            flows = self._pipeline(batch.to_arrow()) if self._pipeline else batch
            shown = self._shown(flows)
            if self._filter:
                with query_problems("--where"):
                    shown = shown.take(self._filter.rows(self._with_text(flows, self._filter.columns)))
            yield shown

    def _shown(self, flows: Any) -> Any:
        """The columns to show, of exactly the types that were announced."""
        names = self.type.names
        shown = self._with_text(flows, names) if self._text else self._as_they_are(flows, names)
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for field, array in zip(self.type, shown.columns, strict=True)
        ]
        return type(shown).from_arrays(arrays, schema=self.type)

    def _with_text(self, flows: Any, names: Sequence[str]) -> Any:
        """Some columns, addresses as text; of what comes from the core, the core makes it."""
        if isinstance(flows, FlowBatch):
            return flows.text().to_arrow().select(names)
        return with_text(flows.select(names), self.decoded)

    def _as_they_are(self, flows: Any, names: Sequence[str]) -> Any:
        return (flows.to_arrow() if isinstance(flows, FlowBatch) else flows).select(names)


ip_option = click.option(
    "--ip",
    type=click.Choice(IP_FORMS),
    help="What IP and MAC addresses are in Parquet and Arrow: octets (and numbers), or text.  [default: binary]",
)

enrich_option = click.option(
    "--enrich",
    multiple=True,
    metavar="SPEC",
    help="Fill in what the wire does not say: FILE.toml, or MODULE:FUNCTION of yours. May be repeated.",
)


def load_pipeline(specs: Sequence[str], schema: Schema, report: Report) -> Pipeline | None:
    """The enrichments of --enrich; None where there are none. Raises UsageProblem."""
    if not specs:
        return None
    need("pyarrow", "arrow", "--enrich")
    from flowbuf.enrich import load_enrichments

    try:
        return load_enrichments(specs, schema, on_problem=report.add_note)
    except EnrichmentError as error:
        raise UsageProblem(f"--enrich: {error}") from error


def enriched_schema(schema: Schema, pipeline: Pipeline | None, only: bool) -> Schema:
    """The columns to show: with those that are filled, unless the user wants `only` the enabled ones."""
    if pipeline is None or only:
        return schema
    with schema_errors():
        return schema.enable(*pipeline.provides)


@contextmanager
def query_problems(origin: str) -> Iterator[None]:
    """A QueryError inside is about the command line."""
    try:
        yield
    except QueryError as error:
        raise UsageProblem(f"{origin}: {error}", lines=True) from error


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


@contextmanager
def open_columns(form: str, file: OutputFile, type: Any) -> Iterator[ColumnWriter]:
    """A writer of record batches to an open file, in one of COLUMN_FORMATS. `type` is their `pyarrow.Schema`."""
    refuse_terminal(file, form)
    with open_sink(form, file, type) as sink:
        yield ColumnWriter(sink)


def open_sink(form: str, file: OutputFile, type: Any) -> ColumnSink:
    """What it writes with."""
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
