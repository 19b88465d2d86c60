"""`flowbuf query`: SQL over captures, streams of messages and Parquet files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from flowbuf.cli.columnar import (
    COLUMN_FORMATS,
    ColumnSource,
    check_column_output,
    enrich_option,
    enriched_schema,
    load_pipeline,
    need,
    query_problems,
)
from flowbuf.cli.counters import no_rows
from flowbuf.cli.inputs import check_inputs, expand_inputs, is_chosen, shown_schema, total_size
from flowbuf.cli.options import DecodeOptions, UsageProblem, decode_options, schema_errors, schema_options
from flowbuf.cli.output import default_format, is_terminal, open_output
from flowbuf.cli.progress import show_progress
from flowbuf.cli.report import Report
from flowbuf.cli.results import open_results
from flowbuf.cli.session import Session
from flowbuf.cli.state import check_state
from flowbuf.schema import Schema
from flowbuf.sinks.file import OutputFile
from flowbuf.sql import FlowQuery, columns_named, numbered

if TYPE_CHECKING:
    from flowbuf.enrich import Pipeline

__all__ = ["query"]

FORMATS = ("table", "jsonl", "csv", *COLUMN_FORMATS)
PARQUET = b"PAR1"


@click.command()
@click.argument("sql")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="How to show what is found.  [default: as OUT is called; else table on a terminal, jsonl in a pipe]",
)
@click.option(
    "-o", "--output", default="-", metavar="OUT", help="File to write; .gz, .zst compress; - is stdout.  [default: -]"
)
@enrich_option
@click.option("--counters", is_flag=True, help="Counter and drop samples of sFlow instead of flows.")
@click.option("-v", "--verbose", is_flag=True, help="Notes on stderr too, not only what is wrong.")
@decode_options
@schema_options
def query(
    sql: str,
    inputs: tuple[str, ...],
    form: str | None,
    output: str,
    enrich: tuple[str, ...],
    verbose: bool,
    decoding: DecodeOptions,
    schema: Schema,
) -> None:
    """Ask captures, message streams and Parquet files in SQL.

    SQL is that of duckdb, and the flows of all inputs are the table `flows`. Columns that the SQL names need not be
    enabled. Addresses are text, enums names, times UTC, durations numbers; in_net(src_addr, '192.0.2.0/24') tells
    whether an address is in a network. What is needed is decoded, and flows pass by: memory stays bounded, unless the
    SQL looks at them twice.

    \b
    Examples:
      flowbuf query "SELECT src_addr, sum(bytes) AS total FROM flows GROUP BY ALL ORDER BY total DESC LIMIT 10" a.pcap
      flowbuf query "SELECT count(*) FROM flows WHERE in_net(dst_addr, '10.0.0.0/8')" *.pcap.gz
      flowbuf query "SELECT dst_port, count(*) FROM flows GROUP BY ALL" january.parquet today.pcap -o ports.csv
      flowbuf query "FROM flows WHERE src_mac = '02:00:00:00:00:01'" capture.pcap -o found.parquet
      flowbuf query "SELECT src_country, sum(bytes) FROM flows GROUP BY ALL" capture.pcap --enrich network.toml
      flowbuf query "SUMMARIZE flows" capture.pcap
    """
    inputs = expand_inputs(inputs)
    check_inputs(inputs, output)
    check_state(decoding.state, output)
    form = form or default_format(output)
    if form in COLUMN_FORMATS:
        check_column_output(form, output)
    need("pyarrow", "sql", "flowbuf query")
    need("duckdb", "sql", "flowbuf query")
    files = [path for path in inputs if _is_parquet(path)]
    captures = [path for path in inputs if path not in files]
    if enrich and files:
        raise UsageProblem(f"{files[0]}: --enrich is for captures and messages; files of columns were enriched, or not")
    report = Report(notes=verbose)
    to_terminal = output == "-" and is_terminal(sys.stdout)
    with schema_errors():
        schema = shown_schema(schema, captures, is_chosen())
        schema = schema.enable(*columns_named(sql, schema))
    pipeline = load_pipeline(enrich, schema, report)
    schema = enriched_schema(schema, pipeline, bool(click.get_current_context().params["only"]))
    question, columns = _plan(sql, schema, captures, files, decoding, pipeline)
    with open_output(output) as file:
        with (
            show_progress(total_size(captures), quiet=to_terminal) as show,
            Session(columns.decoded, decoding, report, show) as session,
        ):
            flows = _Flows(session, columns, captures)
            _answer(question, flows, form, file, to_terminal)
            session.finish()
        if flows.begun and not session.readable and not files:
            file.discard()
    if session.readable and not session.flows:
        report.add_note(no_rows(columns.schema, session.decoder))
    sys.exit(report.status)


def _is_parquet(path: str) -> bool:
    if path == "-":
        return False
    with open(path, "rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def _plan(
    sql: str,
    schema: Schema,
    captures: Sequence[str],
    files: Sequence[str],
    decoding: DecodeOptions,
    pipeline: Pipeline | None,
) -> tuple[FlowQuery, ColumnSource]:
    """The query, and what decodes the columns that it looks at, and no others."""
    everything = ColumnSource(schema, ip="text", pipeline=pipeline)
    with query_problems("SQL"):
        type = numbered(everything.type.empty_table()).schema if captures else None
        question = FlowQuery(sql, schema, type, files, slow=total_size(captures) is None)
    needed = list(question.columns)
    if schema.rate and (decoding.scale or decoding.override_sampling):
        needed.append(schema.rate.name)
    for name in needed:  # which grows
        needed += [other for other in schema[name].depends if other not in needed]
    if not needed:
        return question, everything
    with schema_errors():
        return question, ColumnSource(schema.only(*needed), ip="text", pipeline=pipeline)


class _Flows:
    """The flows of captures and message streams, one after the other, as a query reads them: in whatever thread, and
    only as far as it wants them."""

    def __init__(self, session: Session, columns: ColumnSource, inputs: Sequence[str]) -> None:
        self.begun = False
        self._session = session
        self._columns = columns
        self._inputs = inputs
        self._batches = self._read()
        self._error: BaseException | None = None
        self._ended = False

    def reader(self) -> Any:
        """A `pyarrow.RecordBatchReader`, for once; None where there are no inputs of this kind."""
        if not self._inputs:
            return None
        import pyarrow

        type = numbered(self._columns.type.empty_table()).schema
        return pyarrow.RecordBatchReader.from_batches(type, self._batches)

    def _read(self) -> Iterator[Any]:
        self.begun = True
        try:
            for path in self._inputs:
                yield from map(numbered, self._columns.read(self._session.columns(path)))
                if self._session.stopped:
                    return
            self._ended = True
        except GeneratorExit:
            raise
        except BaseException as error:
            self._error = error
            raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What went wrong with the inputs comes out of the query as something else; it is raised as it was."""
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise

    def finish(self) -> None:
        """No more is wanted: what is being read is still reported."""
        if self.begun and not self._ended:
            self._session.stop()
            for _ in self._batches:
                pass


def _answer(question: FlowQuery, flows: _Flows, form: str, file: OutputFile, to_terminal: bool) -> None:
    with query_problems("SQL"), flows.errors():
        type, batches = question.run(flows.reader())
        with open_results(form, file, type, to_terminal) as writer:
            for batch in batches:
                writer.write(batch)
            writer.finish()
        flows.finish()
