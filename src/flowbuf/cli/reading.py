"""Write captures and message streams to outputs, one for each kind of rows: the work of `flowbuf read`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowbuf.cli.counters import count_rows, no_rows
from flowbuf.cli.inputs import shown_schema
from flowbuf.cli.options import CaptureOptions, UsageProblem
from flowbuf.cli.output.columnar import ColumnSource, enriched_schema, load_pipeline, need
from flowbuf.cli.output.progress import Show
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import COLUMN_FORMATS, is_terminal, open_errors, open_output
from flowbuf.cli.output.writers import Discard, FlowWriter, open_file_writer, open_parts
from flowbuf.cli.session import Session
from flowbuf.cli.signals import Interrupt
from flowbuf.schema import Schema
from flowbuf.schema.row_kinds import known_names
from flowbuf.targets.flow_text import is_number

if TYPE_CHECKING:
    from flowbuf.enrich import Pipeline

__all__ = ["Reading", "check_kinds", "check_parts"]

ICMP_COLUMNS = ("icmp_type", "icmp_code")
"""Columns that tables show as the name of an ICMP message, beside the destination."""


@dataclass(frozen=True)
class Kind:
    """A kind of rows to write.

    Attributes:
        schema: Schema whose enabled columns are shown.
        decoded: Schema of the rows to decode, which may have more columns.
        columns: Source of record batches, or None if the writer takes the decoded rows.
        order: Names of columns that come first.
    """

    schema: Schema
    decoded: Schema
    columns: ColumnSource | None
    order: Sequence[str]


class KindWriter:
    """Write the rows of a kind, at most `limit` of them.

    Attributes:
        kind: Kind of rows.
        read: Number of rows so far, including those that are not written.
    """

    def __init__(self, kind: Kind, writer: FlowWriter, limit: int | None) -> None:
        self.kind = kind
        self.read = 0
        self._writer = writer
        self._limit = limit

    @property
    def count(self) -> int:
        """Number of rows written."""
        return self._writer.count

    @property
    def is_full(self) -> bool:
        """True if the limit is reached."""
        return self._writer.count == self._limit

    def write(self, batch: Any) -> None:
        """Write decoded rows: a list of them, or a `FlowBatch`."""
        self.read += len(batch)
        if self.is_full:
            return
        rows = self.kind.columns.apply(batch) if self.kind.columns else batch
        self._writer.write(rows if self._limit is None else rows[: self._limit - self._writer.count])

    def finish(self) -> None:
        """Write what the writer still holds."""
        self._writer.finish()


@dataclass(frozen=True)
class Reading:
    """Options of `flowbuf read`.

    Each kind of rows has a schema. `chosen` is True if the user has chosen columns by name. If `only` is not
    empty, the kinds that have some of these columns show no others, in the order of the user. `limit` is the
    number of rows of each kind.
    """

    form: str
    schemas: tuple[Schema, ...]
    decoding: CaptureOptions
    where: str | None = None
    ip: str = "binary"
    enrich: tuple[str, ...] = ()
    limit: int | None = None
    chosen: bool = False
    only: tuple[str, ...] = ()
    rows_per_file: int | None = None
    spreadsheet: bool = False

    def prepare(self, inputs: Sequence[str], report: Report) -> list[Kind]:
        """Return the kinds of rows. Raise UsageProblem."""
        several = len(self.schemas) > 1
        if several and self.form == "table":
            need("pyarrow", "arrow", "a table of several --rows")
        streams = () if several else inputs  # message streams have one kind of rows
        return [self._prepare_kind(shown_schema(each, streams, self.chosen), report) for each in self.schemas]

    def _prepare_kind(self, schema: Schema, report: Report) -> Kind:
        order = known_names(schema, self.only)
        others = [each for each in self.schemas if each.rows != schema.rows]
        pipeline = load_pipeline(self.enrich, schema, report, others)
        schema = enriched_schema(schema, pipeline, bool(order))
        wanted = self._extend(schema)
        columns = self._new_columns(wanted, pipeline, order, others)
        return Kind(schema, columns.decoded if columns else wanted, columns, order)

    def _extend(self, schema: Schema) -> Schema:
        """Return the schema with the columns that a table needs in addition to those that it shows."""
        if self.form != "table" or self.chosen or schema.rows != "flows":
            return schema
        columns = [schema[name] for name in ICMP_COLUMNS if name in schema]
        return schema.enable(*(each.name for each in columns if is_number(each) and not each.depends))

    def _new_columns(
        self, schema: Schema, pipeline: Pipeline | None, order: Sequence[str], others: Sequence[Schema]
    ) -> ColumnSource | None:
        from_rows = self.form == "table" and len(self.schemas) == 1
        as_decoded = from_rows or self.form not in ("table", *COLUMN_FORMATS)
        if as_decoded and self.where is None and pipeline is None:
            return None
        return ColumnSource(schema, self.where, self.ip, pipeline, order, others)

    def run(
        self,
        inputs: Sequence[str],
        outputs: Mapping[str, str],
        report: Report,
        show: Show,
        interrupt: Interrupt | None = None,
    ) -> None:
        """Read the inputs, and write the rows of each kind to its output.

        `interrupt` ends standard input.
        """
        kinds = self.prepare(inputs, report)
        decoded, *others = (kind.decoded for kind in kinds)
        with ExitStack() as stack:
            writers: dict[str, KindWriter] = {}
            discards: list[Discard] = []
            for kind, writer, discard in self._open(outputs, kinds, report, stack):
                writers[kind.schema.rows] = KindWriter(kind, writer, self.limit)
                discards.append(discard)
            with Session(decoded, self.decoding, report, show, interrupt=interrupt, others=others) as session:
                self._read(inputs, writers, session)
                session.finish()
            for each in writers.values():
                each.finish()
            if not session.readable:
                for discard in discards:
                    discard()
        self._report(list(writers.values()), session, report)

    def _open(
        self, outputs: Mapping[str, str], kinds: Sequence[Kind], report: Report, stack: ExitStack
    ) -> Iterator[tuple[Kind, FlowWriter, Discard]]:
        """Open the writer of each kind. `stack` closes them."""
        files = {}
        if not self.rows_per_file:
            files = {path: stack.enter_context(open_output(path)) for path in dict.fromkeys(outputs.values())}
        for kind in kinds:
            rows = kind.schema.rows
            path = outputs[rows]
            if self.rows_per_file and kind.columns:
                parts = open_parts(self.form, path, kind.columns.type, self.rows_per_file, report.add_note)
                yield kind, *stack.enter_context(parts)
                continue
            writer = open_file_writer(
                self.form,
                files[path],
                kind.schema,
                path == "-" and is_terminal(sys.stdout),
                rows == "counters" and not self.chosen,
                kind.columns,
                self.spreadsheet,
                kind.order,
                start=f'"rows":"{rows}"' if len(files) < len(kinds) else "",
            )
            yield kind, stack.enter_context(writer), files[path].discard

    def _read(self, inputs: Sequence[str], writers: Mapping[str, KindWriter], session: Session) -> None:
        first, *others = writers.values()
        as_lists = self.form == "table" and first.kind.columns is None
        prompt = self.form not in COLUMN_FORMATS
        for path in session.each(inputs):
            batches: Iterator[Any] = session.read(path) if as_lists else session.columns(path, prompt)
            for batch in batches:
                writer = writers[batch.schema.rows] if others else first
                writer.write(batch)
                if all(each.is_full for each in writers.values()):
                    session.stop()

    def _report(self, writers: Sequence[KindWriter], session: Session, report: Report) -> None:
        """Report an interrupt, and kinds without rows."""
        if session.interrupted:
            report.add_interrupt(", ".join(count_rows(each.kind.schema, each.count) for each in writers))
            return
        for each in writers:
            if each.read and not each.count:
                reason = "matches --where" if self.where else "is left after --enrich"
                report.add_note(f"none of {count_rows(each.kind.schema, each.read)} {reason}")
            elif session.readable and not each.read:
                others = any(other.read for other in writers)
                report.add_note(no_rows(each.kind.schema, session.counters, others))


def check_kinds(reading: Reading, output: str, outputs: Mapping[str, str], folder: bool) -> None:
    """Raise UsageProblem if several kinds of rows have one output. Only JSON lines of them fit into one."""
    if reading.form == "jsonl" or len(set(outputs.values())) == len(outputs):
        return
    name = f"{output.rstrip('/')}/{{rows}}/" if folder else f"{{rows}}.{reading.form}"
    fix = f"write -o '{name}', or use -f jsonl"
    raise UsageProblem(f"{reading.form} cannot hold several kinds of rows in one output; {fix}")


def check_parts(reading: Reading, output: str, folders: Iterable[str] | None) -> None:
    """Create the folders of --rows-per-file.

    Raise UsageProblem if that fails, or if one contains older parts. `folders` is None if the output is a
    file.
    """
    if not reading.rows_per_file:
        return
    if folders is None:
        raise UsageProblem(
            f"--rows-per-file needs a folder; write -o {'parts' if output == '-' else output}/"
        )
    if reading.form not in COLUMN_FORMATS:
        raise UsageProblem(
            f"--rows-per-file cannot be combined with {reading.form}; use -f {' or -f '.join(COLUMN_FORMATS)}"
        )
    for folder in folders:
        with open_errors():
            os.makedirs(folder, exist_ok=True)
            parts = sorted(name for name in os.listdir(folder) if name.startswith("part-"))
        if parts:
            raise UsageProblem(
                f"{os.path.join(folder, parts[0])}: exists already; empty the folder, or name another"
            )
