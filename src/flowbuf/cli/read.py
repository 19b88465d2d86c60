"""`flowbuf read`: flows, or counters, of captures and of message streams, as a table, JSON lines, CSV or columns."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

from flowbuf.batch import IP_FORMS
from flowbuf.cli.columnar import (
    COLUMN_FORMATS,
    ColumnSource,
    ColumnWriter,
    check_column_output,
    enrich_option,
    enriched_schema,
    load_pipeline,
    need,
    open_sink,
)
from flowbuf.cli.counters import count_rows, no_rows
from flowbuf.cli.inputs import check_inputs, is_chosen, shown_schema, total_size
from flowbuf.cli.options import DecodeOptions, UsageProblem, WholeNumber, decode_options, schema_options
from flowbuf.cli.output import default_format, is_terminal, open_output
from flowbuf.cli.progress import show_progress
from flowbuf.cli.report import Report
from flowbuf.cli.session import Session
from flowbuf.cli.state import check_state
from flowbuf.rows import RowReader
from flowbuf.schema import Schema
from flowbuf.sinks.file import OutputFile
from flowbuf.text import FlowText

if TYPE_CHECKING:
    from flowbuf.enrich import Pipeline

__all__ = ["read"]

FORMATS = ("table", "jsonl", "csv", *COLUMN_FORMATS)


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="How to show them.  [default: as OUT is called; else table on a terminal, jsonl in a pipe]",
)
@click.option(
    "-o", "--output", default="-", metavar="OUT", help="File to write; .gz, .zst compress; - is stdout.  [default: -]"
)
@click.option(
    "--where",
    metavar="SQL",
    help="Only flows that fulfil this, such as \"dst_port = 53 and in_net(src_addr, '10.0.0.0/8')\".",
)
@click.option(
    "--ip",
    type=click.Choice(IP_FORMS),
    help="What IP and MAC addresses are in Parquet and Arrow: octets (and numbers), or text.  [default: binary]",
)
@enrich_option
@click.option("--counters", is_flag=True, help="Counter and drop samples of sFlow instead of flows.")
@click.option("-n", "--limit", type=WholeNumber(min=1), metavar="N", help="Stop after N flows.")
@click.option("-v", "--verbose", is_flag=True, help="Notes on stderr too, not only what is wrong.")
@decode_options
@schema_options
def read(
    inputs: tuple[str, ...],
    form: str | None,
    output: str,
    where: str | None,
    ip: str | None,
    enrich: tuple[str, ...],
    limit: int | None,
    verbose: bool,
    decoding: DecodeOptions,
    schema: Schema,
) -> None:
    """Show the flows of captures and of message streams.

    An INPUT is a capture (pcap or pcapng, plain, gzip or zstd), a stream of messages that flowbuf wrote (.pb, .pb.gz,
    .pb.zst), or - for stdin. A .proto beside a stream says which columns it has.

    With --counters it is what sFlow agents count: interfaces, hosts, discarded packets (--schema sflow_counters).
    Tables have the columns that matter most, all other formats have all. Parquet and Arrow hold columns.

    --where takes SQL over the columns, those that are not shown too: addresses are text, enums names, and in_net tells
    whether an address is in a network.

    \b
    Examples:
      flowbuf read capture.pcap
      flowbuf read capture.pcap -n 20 --columns src_addr,dst_addr,bytes
      flowbuf read capture.pcapng.gz -f jsonl --where "dst_port = 53 and bytes > 512"
      flowbuf read capture.pcap --where "in_net(src_addr, '192.0.2.0/24') or src_mac = '02:00:00:00:00:01'"
      flowbuf read capture.pcap -o flows.parquet --ip text
      flowbuf read capture.pcap --enrich network.toml --columns time_received,exporter_name,in_if_name,src_net_name
      flowbuf read *.pcap -o flows.csv.gz --enable group:l2
      flowbuf read capture.pcap --scale --default-sampling 1000
      flowbuf read capture.pcap --decapsulate all --enable group:tunnel
      flowbuf read today.pcap --state exporters.state
      flowbuf read flows.pb
      flowbuf read sflow.pcap --counters
    """
    check_inputs(inputs, output)
    check_state(decoding.state, output)
    form = form or default_format(output)
    _check_form(form, output, ip)
    schema = shown_schema(schema, inputs)
    report = Report(notes=verbose)
    to_terminal = output == "-" and is_terminal(sys.stdout)
    pipeline = load_pipeline(enrich, schema, report)
    schema = enriched_schema(schema, pipeline)
    columns = _new_columns(form, schema, where, ip, pipeline)
    with open_output(output) as file, _open_writer(form, file, schema, to_terminal, columns) as writer:
        with (
            show_progress(total_size(inputs), quiet=to_terminal) as show,
            Session(columns.decoded if columns else schema, decoding, report, show) as session,
        ):
            _read_inputs(inputs, _source(session, form, columns), writer, limit, session)
            session.finish()
        writer.finish()
        if not session.readable:
            file.discard()
    if session.readable and not session.flows:
        report.add_note(no_rows(schema, session.decoder))
    elif session.flows and not writer.count:
        report.add_note(f"none of {count_rows(schema, session.flows)} {'fulfils --where' if where else 'is left'}")
    sys.exit(report.status)


def _check_form(form: str, output: str, ip: str | None) -> None:
    if form in COLUMN_FORMATS:
        check_column_output(form, output)
    elif ip:
        raise UsageProblem(f"--ip is for parquet and arrow; in a {form}, addresses are text")


def _new_columns(
    form: str, schema: Schema, where: str | None, ip: str | None, pipeline: Pipeline | None
) -> ColumnSource | None:
    """What makes columns of the inputs; None where they are read row by row."""
    if form not in COLUMN_FORMATS and where is None and pipeline is None:
        return None
    need("pyarrow", "sql", "--where")
    return ColumnSource(schema, where, ip or "binary", pipeline)


Source = Callable[[str], Iterator[Any]]
"""Gives the flows of an input: lists of them, or record batches. Both have a length and can be sliced."""


def _source(session: Session, form: str, columns: ColumnSource | None) -> Source:
    if columns is None:
        return session.read
    prompt = form not in COLUMN_FORMATS
    return lambda path: columns.read(session.columns(path, prompt))


def _read_inputs(inputs: Sequence[str], source: Source, writer: _Writer, limit: int | None, session: Session) -> None:
    for path in inputs:
        for flows in source(path):
            writer.write(flows if limit is None else flows[: limit - writer.count])
            if writer.count == limit:
                session.stop()
        if session.stopped:
            break


class _Writer(Protocol):
    """Writes flows; `count` is how many so far."""

    @property
    def count(self) -> int: ...

    def write(self, flows: Any) -> None: ...
    def finish(self) -> None: ...


class _JsonLines:
    def __init__(self, file: OutputFile, schema: Schema) -> None:
        self.count = 0
        self._file = file
        self._text = FlowText(schema)

    def write(self, flows: list[dict[str, Any]]) -> None:
        self.count += len(flows)
        json_line = self._text.json_line
        self._file.write("".join([json_line(flow) + "\n" for flow in flows]).encode())

    def finish(self) -> None:
        pass


class _Csv:
    def __init__(self, file: OutputFile, schema: Schema) -> None:
        self.count = 0
        self._file = file
        self._text = FlowText(schema)
        self._rows([[column.name for column in self._text.columns]])

    def write(self, flows: list[dict[str, Any]]) -> None:
        self.count += len(flows)
        self._rows(map(self._text.cells, flows))

    def finish(self) -> None:
        pass

    def _rows(self, rows: Iterable[list[str]]) -> None:
        buffer = io.StringIO(newline="")
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        self._file.write(buffer.getvalue().encode())


class _RowsOfColumns:
    """Writes record batches with a writer of rows."""

    def __init__(self, writer: _Writer, schema: Schema) -> None:
        self._writer = writer
        self._rows = RowReader(schema)

    @property
    def count(self) -> int:
        return self._writer.count

    def write(self, batch: Any) -> None:
        self._writer.write(self._rows.read(batch))

    def finish(self) -> None:
        self._writer.finish()


@contextmanager
def _open_writer(
    form: str, file: OutputFile, schema: Schema, to_terminal: bool, columns: ColumnSource | None
) -> Iterator[_Writer]:
    if columns is None:
        yield _new_row_writer(form, file, schema, to_terminal)
    elif form in COLUMN_FORMATS:
        with open_sink(form, file, columns.type) as sink:
            yield ColumnWriter(sink)
    else:
        yield _RowsOfColumns(_new_row_writer(form, file, schema, to_terminal), schema)


def _new_row_writer(form: str, file: OutputFile, schema: Schema, to_terminal: bool) -> _Writer:
    if form == "table":
        from flowbuf.cli.table import CounterTable, FlowTable

        if schema.rows == "counters" and not is_chosen():
            return CounterTable(file, schema, to_terminal)
        return FlowTable(file, schema, to_terminal)
    return _JsonLines(file, schema) if form == "jsonl" else _Csv(file, schema)
