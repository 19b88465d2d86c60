"""Flows as columns on the command line: requirements, options, sources and writers."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from flowbuf.arrow.batch import IP_FORMS, FlowBatch
from flowbuf.cli.options import UsageProblem, schema_errors
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import COLUMN_FORMATS, is_terminal, refuse_terminal
from flowbuf.cli.signals import held_signals
from flowbuf.errors import EnrichmentError, QueryError, optional_import
from flowbuf.io.column_file import ArrowSink, ColumnSink, ParquetSink
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection

if TYPE_CHECKING:
    from flowbuf.enrich import Pipeline

__all__ = [
    *("ColumnSource", "ColumnWriter"),
    *(
        "address_form",
        "check_column_output",
        "check_condition",
        "enrich_option",
        "enriched_schema",
        "ip_option",
    ),
    *("load_pipeline", "need", "need_sql", "open_columns", "open_sink", "query_problems", "where_option"),
]


def need(module: str, extra: str, what: str) -> None:
    """Raise UsageProblem if a library is missing that `what` requires."""
    try:
        with held_signals(), optional_import(f"{what} needs {module}", f"flowbuf[{extra}]"):
            importlib.import_module(module)
    except ImportError as error:
        raise UsageProblem(str(error)) from error


def need_sql(what: str) -> None:
    """Raise UsageProblem if a library is missing that `what` requires for SQL."""
    need("pyarrow", "sql", what)
    need("duckdb", "sql", what)
    import importlib.metadata

    if importlib.metadata.version("duckdb").startswith("1."):
        need("pyarrow.dataset", "sql", what)  # duckdb imports it too, but ignores errors and signals there


def check_condition(where: str, schema: Schema) -> None:
    """Raise UsageProblem if a condition is not one SQL expression, or a library for SQL is missing."""
    need_sql("--where")
    from flowbuf.arrow.sql import RowFilter

    with query_problems("--where"):
        RowFilter(where, schema)


class ColumnSource(FlowSelection):
    """Flows of inputs as record batches: enriched, filtered by --where, and with only the columns to show.

    The enabled columns of `schema` are shown. `decoded` may have more columns, for --where or an enrichment.
    Errors in a condition raise UsageProblem here, before any work.
    """

    def __init__(
        self,
        schema: Schema,
        where: str | None = None,
        ip: str = "binary",
        pipeline: Pipeline | None = None,
        order: Sequence[str] = (),
        others: Sequence[Schema] = (),
    ) -> None:
        if where is not None:
            need_sql("--where")
        with schema_errors(), query_problems("--where"):
            super().__init__(schema, where, ip, pipeline, order, others)

    def read(self, batches: Iterator[FlowBatch]) -> Iterator[Any]:
        """Return a `pyarrow.RecordBatch` for each batch of the decoded schema, one by one."""
        return map(self.apply, batches)

    def apply(self, batch: Any) -> Any:
        """Return the selected flows of a batch. Raise UsageProblem if the condition fails for a value."""
        with query_problems("--where"):
            return super().apply(batch)


ip_option = click.option(
    "--ip",
    type=click.Choice(IP_FORMS),
    help="Write IP and MAC addresses to Parquet and Arrow as text, or as bytes (and numbers).  "
    "[default: text]",
)


def address_form(form: str, ip: str | None) -> str:
    """Return the form of addresses in the batches for an output.

    Args:
        form: Format of the output. Formats other than Parquet and Arrow convert addresses to text themselves.
        ip: Value of --ip, or None.
    """
    return ip or "text" if form in COLUMN_FORMATS else "binary"


where_option = click.option(
    "--where",
    metavar="SQL",
    help="Keep only flows that match, for example \"dst_port = 53 and in_net(src_addr, '10.0.0.0/8')\".",
)
enrich_option = click.option(
    "--enrich",
    multiple=True,
    metavar="SPEC",
    help="Add columns that the wire does not contain, from FILE.toml or your MODULE:FUNCTION. "
    "May be repeated.",
)


def load_pipeline(
    specs: Sequence[str], schema: Schema, report: Report, others: Sequence[Schema] = ()
) -> Pipeline | None:
    """Return the enrichments of --enrich, or None without them. Raise UsageProblem.

    `others` are the schemas of other kinds of rows. An enrichment that fits only them is left out.
    """
    if not specs:
        return None
    need("pyarrow", "arrow", "--enrich")
    from flowbuf.enrich import load_enrichments

    try:
        pipeline = load_enrichments(specs, schema, on_problem=report.add_note, others=others)
    except EnrichmentError as error:
        raise UsageProblem(f"--enrich: {error}") from error
    if report.notes:
        for reason in pipeline.left_out:
            report.add_note(f"--enrich: left out for {schema.rows}: {reason}")
    return pipeline if pipeline.enrichments else None


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
