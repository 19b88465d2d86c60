"""Write captures and message streams to one output: the work of `flowbuf read`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowbuf.cli.counters import count_rows, no_rows
from flowbuf.cli.inputs import shown_schema
from flowbuf.cli.options import CaptureOptions, UsageProblem
from flowbuf.cli.output.columnar import ColumnSource, enriched_schema, load_pipeline
from flowbuf.cli.output.progress import Show
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import COLUMN_FORMATS, is_terminal, open_errors
from flowbuf.cli.output.writers import Discard, FlowWriter, open_parts, open_writer
from flowbuf.cli.session import Session
from flowbuf.cli.signals import Interrupt
from flowbuf.schema import Schema
from flowbuf.targets.flow_text import is_number

if TYPE_CHECKING:
    from flowbuf.enrich import Pipeline

__all__ = ["Reading", "check_parts"]

ICMP_COLUMNS = ("icmp_type", "icmp_code")
"""Columns that tables show as the name of an ICMP message, beside the destination."""


@dataclass(frozen=True)
class Reading:
    """Options of `flowbuf read`.

    `chosen` is True if the user has chosen columns by name. If `only` is not empty, no other columns may be
    shown, and these are in the order of the user.
    """

    form: str
    schema: Schema
    decoding: CaptureOptions
    where: str | None = None
    ip: str = "binary"
    enrich: tuple[str, ...] = ()
    limit: int | None = None
    chosen: bool = False
    only: tuple[str, ...] = ()
    rows_per_file: int | None = None
    spreadsheet: bool = False

    def prepare(self, inputs: Sequence[str], report: Report) -> tuple[Schema, ColumnSource | None]:
        """Return the columns to show, and the source of record batches, or None if none is needed.

        Raise UsageProblem.
        """
        schema = shown_schema(self.schema, inputs, self.chosen)
        pipeline = load_pipeline(self.enrich, schema, report)
        schema = enriched_schema(schema, pipeline, bool(self.only))
        return schema, self._new_columns(self._extend(schema), pipeline)

    def _extend(self, schema: Schema) -> Schema:
        """Return the schema with the columns that a table needs in addition to those that it shows."""
        if self.form != "table" or self.chosen or schema.rows != "flows":
            return schema
        columns = [schema[name] for name in ICMP_COLUMNS if name in schema]
        return schema.enable(*(each.name for each in columns if is_number(each) and not each.depends))

    def _new_columns(self, schema: Schema, pipeline: Pipeline | None) -> ColumnSource | None:
        if self.form not in COLUMN_FORMATS and self.where is None and pipeline is None:
            return None
        return ColumnSource(schema, self.where, self.ip, pipeline, self.only)

    def run(
        self,
        inputs: Sequence[str],
        output: str,
        report: Report,
        show: Show,
        interrupt: Interrupt | None = None,
    ) -> None:
        """Read the inputs and write their flows. `interrupt` ends standard input."""
        schema, columns = self.prepare(inputs, report)
        with self._open(output, schema, columns, report) as (writer, discard):
            decoded = columns.decoded if columns else self._extend(schema)
            with Session(decoded, self.decoding, report, show, interrupt=interrupt) as session:
                self._read(inputs, self._source(session, columns), writer, session)
                session.finish()
            writer.finish()
            if not session.readable:
                discard()
        if session.interrupted:
            report.add_interrupt(count_rows(schema, writer.count))
        elif session.readable and not session.flows:
            report.add_note(no_rows(schema, session.counters))
        elif session.flows and not writer.count:
            reason = "matches --where" if self.where else "is left after --enrich"
            report.add_note(f"none of {count_rows(schema, session.flows)} {reason}")

    def _open(
        self, output: str, schema: Schema, columns: ColumnSource | None, report: Report
    ) -> AbstractContextManager[tuple[FlowWriter, Discard]]:
        if self.rows_per_file and columns:
            return open_parts(self.form, output, columns.type, self.rows_per_file, report.add_note)
        to_terminal = output == "-" and is_terminal(sys.stdout)
        sections = schema.rows == "counters" and not self.chosen
        return open_writer(
            self.form, output, schema, to_terminal, sections, columns, self.spreadsheet, self.only
        )

    def _source(self, session: Session, columns: ColumnSource | None) -> Callable[[str], Iterator[Any]]:
        """Return a function that yields the flows of an input as the writer takes them.

        All of them have a length and can be sliced.
        """
        prompt = self.form not in COLUMN_FORMATS
        if columns is not None:
            return lambda path: columns.read(session.columns(path, prompt))
        return session.read if self.form == "table" else lambda path: session.columns(path, prompt)

    def _read(
        self,
        inputs: Sequence[str],
        source: Callable[[str], Iterator[Any]],
        writer: FlowWriter,
        session: Session,
    ) -> None:
        for path in session.each(inputs):
            for flows in source(path):
                writer.write(flows if self.limit is None else flows[: self.limit - writer.count])
                if writer.count == self.limit:
                    session.stop()


def check_parts(reading: Reading, output: str, folder: bool) -> None:
    """Create the folder of --rows-per-file.

    Raise UsageProblem if that fails, or if it contains older parts.
    """
    if not reading.rows_per_file:
        return
    if not folder:
        raise UsageProblem(
            f"--rows-per-file needs a folder; write -o {'parts' if output == '-' else output}/"
        )
    if reading.form not in COLUMN_FORMATS:
        raise UsageProblem(
            f"--rows-per-file cannot be combined with {reading.form}; use -f {' or -f '.join(COLUMN_FORMATS)}"
        )
    with open_errors():
        os.makedirs(output, exist_ok=True)
        parts = sorted(name for name in os.listdir(output) if name.startswith("part-"))
    if parts:
        raise UsageProblem(
            f"{os.path.join(output, parts[0])}: exists already; empty the folder, or name another"
        )
