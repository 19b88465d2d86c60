"""`flowbuf read`: the flows, or counters, of captures and of message streams, as a table, JSON lines or CSV."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import click

from flowbuf.cli.counters import no_rows
from flowbuf.cli.inputs import check_inputs, total_size
from flowbuf.cli.options import DecodeOptions, WholeNumber, decode_options, schema_errors, schema_options
from flowbuf.cli.output import is_terminal, open_output
from flowbuf.cli.progress import show_progress
from flowbuf.cli.report import Report
from flowbuf.cli.session import Session
from flowbuf.cli.state import check_state
from flowbuf.protofile import find_proto, read_proto
from flowbuf.schema import Schema
from flowbuf.sinks.file import OutputFile
from flowbuf.text import FlowText

__all__ = ["read"]

FORMATS = ("table", "jsonl", "csv")


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
@click.option("--counters", is_flag=True, help="Counter and drop samples of sFlow instead of flows.")
@click.option("-n", "--limit", type=WholeNumber(min=1), metavar="N", help="Stop after N flows.")
@click.option("-v", "--verbose", is_flag=True, help="Notes on stderr too, not only what is wrong.")
@decode_options
@schema_options
def read(
    inputs: tuple[str, ...],
    form: str | None,
    output: str,
    limit: int | None,
    verbose: bool,
    decoding: DecodeOptions,
    schema: Schema,
) -> None:
    """Show the flows of captures and of message streams.

    An INPUT is a capture (pcap or pcapng, plain, gzip or zstd), a stream of messages that flowbuf wrote (.pb, .pb.gz,
    .pb.zst), or - for stdin. A .proto beside a stream says which columns it has.

    With --counters it is what sFlow agents count: interfaces, hosts, discarded packets (--schema sflow_counters).
    Tables have the columns that matter most, JSON lines and CSV have all.

    \b
    Examples:
      flowbuf read capture.pcap
      flowbuf read capture.pcap -n 20 --columns src_addr,dst_addr,bytes
      flowbuf read capture.pcapng.gz -f jsonl | jq 'select(.dst_port == 53)'
      flowbuf read *.pcap -o flows.csv.gz --enable group:l2
      flowbuf read capture.pcap --scale --default-sampling 1000
      flowbuf read capture.pcap --decapsulate all --enable group:tunnel
      flowbuf read today.pcap --state exporters.state
      flowbuf read flows.pb
      flowbuf read sflow.pcap --counters
    """
    check_inputs(inputs, output)
    check_state(decoding.state, output)
    schema = _shown_schema(schema, inputs)
    form = form or _default_format(output)
    report = Report(notes=verbose)
    to_terminal = output == "-" and is_terminal(sys.stdout)
    with open_output(output) as file:
        writer = _new_writer(form, file, schema, to_terminal)
        with (
            show_progress(total_size(inputs), quiet=to_terminal) as show,
            Session(schema, decoding, report, show) as session,
        ):
            for path in inputs:
                for flows in session.read(path):
                    writer.write(flows if limit is None else flows[: limit - writer.count])
                    if writer.count == limit:
                        session.stop()
                if session.stopped:
                    break
            session.finish()
        writer.finish()
        if not session.readable:
            file.discard()
    if session.readable and not session.flows:
        report.add_note(no_rows(schema, session.decoder))
    sys.exit(report.status)


def _shown_schema(schema: Schema, inputs: Sequence[str]) -> Schema:
    """The schema with the columns to show: those that the user chose; where nothing was chosen, those of the message
    streams, as far as a .proto tells, and of the captures."""
    protos = [find_proto(path) for path in inputs if path != "-"]
    with schema_errors():
        described = [read_proto(proto, schema) for proto in protos if proto]
        if _is_chosen() or not described:
            return schema
        shown = described if len(described) == len(inputs) else [*described, schema]
        return schema.only(*(column.name for each in shown for column in each.enabled))


def _is_chosen() -> bool:
    """Whether the user has said which columns."""
    return any(click.get_current_context().params[option] for option in ("only", "enable", "disable"))


def _default_format(output: str) -> str:
    if output == "-":
        return "table" if is_terminal(sys.stdout) else "jsonl"
    stem, suffix = os.path.splitext(output)
    if suffix in (".gz", ".zst"):
        suffix = os.path.splitext(stem)[1]
    return "csv" if suffix == ".csv" else "jsonl"


class _Writer(Protocol):
    """Writes flows; `count` is how many so far."""

    count: int

    def write(self, flows: list[dict[str, Any]]) -> None: ...
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


def _new_writer(form: str, file: OutputFile, schema: Schema, to_terminal: bool) -> _Writer:
    if form == "table":
        from flowbuf.cli.table import CounterTable, FlowTable

        if schema.rows == "counters" and not _is_chosen():
            return CounterTable(file, schema, to_terminal)
        return FlowTable(file, schema, to_terminal)
    return _JsonLines(file, schema) if form == "jsonl" else _Csv(file, schema)
