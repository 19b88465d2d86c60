"""Write several kinds of rows of captures, each to its own output: `flowbuf read --rows flows,counters`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from flowbuf.cli.counters import count_rows, no_rows
from flowbuf.cli.inputs import is_chosen
from flowbuf.cli.options import UsageProblem, expand_rows, schema_errors
from flowbuf.cli.output.columnar import ColumnSource, need
from flowbuf.cli.output.progress import Show
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import COLUMN_FORMATS, is_terminal, open_output
from flowbuf.cli.output.writers import FlowWriter, TextLines, open_file_writer
from flowbuf.cli.reading import Reading
from flowbuf.cli.session import Session
from flowbuf.cli.signals import Interrupt
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Schema
from flowbuf.schema.row_kinds import known_names

__all__ = ["check_rows_output", "read_rows"]


def check_rows_output(
    reading: Reading, schemas: Sequence[Schema], output: str, folder: bool
) -> dict[str, str]:
    """Return the output of each kind of rows. Only JSON lines of several kinds fit into one output.

    Raise UsageProblem for options that do not apply to several kinds.
    """
    for option, is_set in (
        *(("--where", reading.where), ("--enrich", reading.enrich), ("-n", reading.limit)),
        *(("--rows-per-file", reading.rows_per_file), ("a folder", folder)),
    ):
        if is_set:
            raise UsageProblem(f"{option} cannot be combined with several --rows; read each kind separately")
    need("pyarrow", "arrow", "--rows")
    if reading.form == "jsonl" and "{rows}" not in output:
        return dict.fromkeys((schema.rows for schema in schemas), output)
    if "{rows}" not in output:
        fix = f"write -o '{{rows}}.{reading.form}', or use -f jsonl"
        raise UsageProblem(f"{reading.form} cannot hold several kinds of rows in one output; {fix}")
    return expand_rows(output, schemas)


def read_rows(
    reading: Reading,
    schemas: Sequence[Schema],
    inputs: Sequence[str],
    outputs: Mapping[str, str],
    report: Report,
    show: Show,
    interrupt: Interrupt,
) -> None:
    """Read captures, and write the rows of each kind to its output."""
    with schema_errors():
        for schema in schemas:
            schema.require_flat("a table")
    orders = {schema.rows: known_names(schema, reading.only) for schema in schemas}
    sources = {
        schema.rows: ColumnSource(schema, ip=reading.ip, order=orders[schema.rows]) for schema in schemas
    }
    with ExitStack() as stack:
        files = {path: stack.enter_context(open_output(path)) for path in dict.fromkeys(outputs.values())}
        writers: dict[str, FlowWriter] = {}
        for schema in schemas:
            file = files[outputs[schema.rows]]
            if len(files) < len(schemas):
                writers[schema.rows] = TextLines("jsonl", file, schema, start=f'"rows":"{schema.rows}"')
            else:
                writers[schema.rows] = _open_writer(
                    reading, stack, file, sources[schema.rows], orders[schema.rows]
                )
        session = stack.enter_context(
            Session(schemas[0], reading.decoding, report, show, interrupt=interrupt, others=schemas[1:])
        )
        for path in session.each(inputs):
            for batch in session.columns(path, prompt=reading.form not in COLUMN_FORMATS):
                rows = batch.schema.rows
                writers[rows].write(sources[rows].apply(batch))
        session.finish()
        for writer in writers.values():
            writer.finish()
        if not session.readable:
            for file in files.values():
                file.discard()
    if session.interrupted:
        counted = ", ".join(count_rows(schema, writers[schema.rows].count) for schema in schemas)
        report.add_interrupt(counted)
    elif session.readable and not session.flows:
        report.add_note(no_rows(schemas[0], session.counters))


def _open_writer(
    reading: Reading, stack: ExitStack, file: OutputFile, source: ColumnSource, order: Sequence[str]
) -> FlowWriter:
    sections = source.schema.rows == "counters" and not is_chosen()
    to_terminal = file.is_terminal and is_terminal(sys.stdout)
    return stack.enter_context(
        open_file_writer(
            reading.form, file, source.schema, to_terminal, sections, source, reading.spreadsheet, order
        )
    )
