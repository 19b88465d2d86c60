"""Run SQL on captures, message streams and Parquet files, for `flowbuf query` and `flowbuf top`."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from flowbuf.arrow.sql import FlowQuery, plain, quoted
from flowbuf.arrow.sql_tokens import columns_named, with_rates
from flowbuf.cli.counters import no_rows
from flowbuf.cli.inputs import check_inputs, expand_inputs, shown_schema, total_size
from flowbuf.cli.options import CaptureOptions, UsageProblem, schema_errors
from flowbuf.cli.output.columnar import (
    ColumnSource,
    check_column_output,
    enriched_schema,
    load_pipeline,
    need_sql,
    query_problems,
)
from flowbuf.cli.output.failure import Failure
from flowbuf.cli.output.progress import show_progress
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.results import open_results
from flowbuf.cli.output.streams import (
    COLUMN_FORMATS,
    check_overwrite,
    check_spreadsheet,
    default_format,
    is_terminal,
    open_output,
)
from flowbuf.cli.output.writers import FlowWriter
from flowbuf.cli.session import Session, check_decoding
from flowbuf.cli.signals import held_signals
from flowbuf.cli.state import check_state
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Schema

if TYPE_CHECKING:
    from flowbuf.enrich import Pipeline

__all__ = ["OpenResults", "Request", "run_query"]

PARQUET = b"PAR1"
WAITING = 2
"""Maximum number of batches that wait for the query."""
PATIENCE = 1.0
"""Maximum seconds to wait for the query to end."""
MOMENT = 0.05
"""Seconds after which a waiting thread checks if the other one has ended."""

OpenResults = Callable[[str, OutputFile, Any, bool, bool], AbstractContextManager[FlowWriter]]
"""Opens a writer of results. Its arguments are those of `open_results`."""


@dataclass(frozen=True)
class Request:
    """Inputs, output and options of a command that runs SQL. `check` makes it.

    `chosen` is True if the user has chosen columns by name. `only` is True if no other columns may be shown.
    """

    inputs: tuple[str, ...]
    output: str
    form: str
    spreadsheet: bool
    enrich: tuple[str, ...]
    decoding: CaptureOptions
    chosen: bool = False
    only: bool = False

    @property
    def to_terminal(self) -> bool:
        """True if the output is a terminal."""
        return self.output == "-" and is_terminal(sys.stdout)

    @classmethod
    def check(
        cls,
        command: str,
        inputs: tuple[str, ...],
        output: str,
        form: str | None,
        force: bool,
        spreadsheet: bool,
        enrich: tuple[str, ...],
        decoding: CaptureOptions,
        **chosen: bool,
    ) -> Request:
        """Check the options of a command, and return them with patterns and the default format replaced.

        Raise UsageProblem.
        """
        inputs = expand_inputs(inputs)
        check_inputs(inputs, output)
        check_overwrite(force, output)
        check_state(decoding.state, output)
        form = form or default_format(output)
        check_spreadsheet(spreadsheet, form)
        if form in COLUMN_FORMATS:
            check_column_output(form, output)
        need_sql(f"flowbuf {command}")
        return cls(inputs, output, form, spreadsheet, enrich, decoding, **chosen)


def run_query(
    sql: str,
    request: Request,
    schema: Schema,
    report: Report,
    open_writer: OpenResults = open_results,
    origin: str = "SQL",
) -> None:
    """Run a query on `flows`, and write its result.

    Args:
        sql: One SELECT statement.
        request: Inputs, output and options.
        schema: Schema of the flows. Columns that the SQL names need not be enabled.
        report: Receiver of problems and notes.
        open_writer: Opens the writer of results.
        origin: First word of errors of the SQL.
    """
    decoding = request.decoding
    with query_problems(origin):
        sql = with_rates(sql, _rate_sql(schema, decoding))
    files = [path for path in request.inputs if _is_parquet(path)]
    captures = [path for path in request.inputs if path not in files]
    check_decoding(captures, decoding, files)
    if request.enrich and files:
        raise UsageProblem(
            f"{files[0]}: --enrich applies only to captures and messages, not to Parquet; leave it out"
        )
    with schema_errors():
        schema = shown_schema(schema, captures, request.chosen)
        schema = schema.enable(*columns_named(sql, schema))
    pipeline = load_pipeline(request.enrich, schema, report)
    schema = enriched_schema(schema, pipeline, request.only)
    everything = ColumnSource(schema, ip="text", pipeline=pipeline)
    with query_problems(origin):
        add_problem = _fail if decoding.strict else report.add_problem
        question = FlowQuery(sql, schema, _plain_type(everything), bool(captures), files, add_problem)
    columns = _narrow(everything, question, decoding, pipeline)
    with open_output(request.output) as file:
        with (
            show_progress(total_size(captures), quiet=request.to_terminal) as show,
            Session(columns.decoded, decoding, report, show, "queried") as session,
        ):
            answer = _Answer(question, columns, request, file, open_writer, origin)
            session.learn_names(captures)
            answer.run(session, captures)
            session.finish()
        if not session.readable and not question.files and (question.reads or files):
            file.discard()
    if answer.unknown_rates:
        report.add_note(
            f"{answer.unknown_rates:,} of {session.flows:,} flows have no sampling rate: scaled(…) does not "
            "multiply them, and products with the rate are 0; set it with --default-sampling"
        )
    if session.readable and not session.flows:
        report.add_note(no_rows(columns.schema, session.counters))


def _rate_sql(schema: Schema, decoding: CaptureOptions) -> str | None:
    """Return the sampling rate in SQL; None if the schema has no column for it."""
    if decoding.scale:
        return "1"  # values are multiplied already
    rate = next((column for column in schema if column.scale == "rate"), None)
    return quoted(rate.name) if rate else None


def _is_parquet(path: str) -> bool:
    if not os.path.isfile(path):  # a look at a pipe would consume its data
        return False
    with open(path, "rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def _fail(text: str) -> None:
    raise Failure(text)


def _narrow(
    everything: ColumnSource, question: FlowQuery, decoding: CaptureOptions, pipeline: Pipeline | None
) -> ColumnSource:
    """Return a source that decodes only the columns that the query uses."""
    schema = everything.schema
    needed = list(question.columns)
    if schema.rate and decoding.override_sampling:
        needed.append(schema.rate.name)
    if decoding.scale:  # needs a total and the rate, even if the query uses neither
        needed += [column.name for column in schema.enabled if column.scale]
    if not needed:
        return everything
    with schema_errors():
        return ColumnSource(schema.only_needed(*needed), ip="text", pipeline=pipeline)


def _plain_type(columns: ColumnSource) -> Any:
    """Return the `pyarrow.Schema` of flows in SQL."""
    import pyarrow

    empty = pyarrow.Table.from_batches([], columns.type)  # empty_table() would import pandas
    return plain(empty).schema


class _Answer:
    """Run a query in a thread that writes the results, while the main thread reads the inputs.

    Only the main thread waits for input, so that a signal ends it. The query stops the reading when it has
    enough.

    A signal may raise an exception at any line of the main thread. So both threads share simple queues, which
    stay consistent. An exception inside a `Queue` could leave the other thread waiting forever. One inside
    `Thread.join` would end the wait permanently.
    """

    def __init__(
        self,
        question: FlowQuery,
        columns: ColumnSource,
        request: Request,
        file: OutputFile,
        open_writer: OpenResults,
        origin: str,
    ) -> None:
        self._question = question
        self._columns = columns
        self._request = request
        self._file = file
        self._open_writer = open_writer
        self._origin = origin
        self._batches: SimpleQueue[Any] = SimpleQueue()
        self._places: SimpleQueue[None] = SimpleQueue()
        """One item for each batch that may still be added."""
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        """Receives the end of the query: its error, or None."""
        self._ended = False
        self._failed = False
        self._asked = False
        self.unknown_rates = 0
        """Number of flows without a sampling rate, if the user's query names it."""
        rate = columns.schema.rate if origin == "SQL" else None
        self._rate = rate.name if rate and rate.name in question.named else None
        self._thread = threading.Thread(target=self._work, daemon=True)
        for _ in range(WAITING):
            self._places.put(None)

    def run(self, session: Session, inputs: Sequence[str]) -> None:
        """Run the query until everything is written. Raise the error of either thread."""
        try:
            with held_signals():
                self._thread.start()
            if self._question.reads:
                self._feed(session, inputs)
            error = self._ends.get()
        except BaseException:
            self._failed = True
            self._interrupt()
            raise
        finally:
            self._release()
            if self._ended:
                self._question.close()
            del self._question  # the query holds the reader of this object
        if error is not None:
            raise error

    def _feed(self, session: Session, inputs: Sequence[str]) -> None:
        for path in inputs:
            for batch in self._columns.read(session.columns(path)):
                self._count_unknown_rates(batch)
                if not session.stopped and not self._give(plain(batch)):
                    session.stop()  # the input is still reported
            if session.stopped:
                return
        self._give(None)

    def _count_unknown_rates(self, batch: Any) -> None:
        if self._rate is None:
            return
        import pyarrow
        import pyarrow.compute

        rates = batch.column(self._rate)
        zeros = pyarrow.compute.equal(rates, pyarrow.scalar(0, rates.type))
        self.unknown_rates += pyarrow.compute.sum(zeros).as_py() or 0

    def _give(self, batch: Any) -> bool:
        """Add a batch, or None at the end. Return False if the query has ended."""
        while not self._ended:
            with suppress(Empty):
                self._places.get(timeout=MOMENT)
                self._batches.put(batch)
                return True
        return False

    def _interrupt(self) -> None:
        """Interrupt the query repeatedly until it ends, at most PATIENCE seconds.

        It may not have begun yet. Or it may wait without limit for the reader of a pipe.
        """
        deadline = time.monotonic() + PATIENCE
        while not self._ended and time.monotonic() < deadline:
            self._question.interrupt()
            time.sleep(0.001)

    def _release(self) -> None:
        """Wait for threads of the query that still request batches.

        None may run when the interpreter ends.
        """
        deadline = time.monotonic() + PATIENCE
        while self._asked and time.monotonic() < deadline:
            time.sleep(0.001)

    # Run in the threads of the query ------------------------------------------------------------------------

    def _work(self) -> None:
        end: BaseException | None = None
        try:
            self._write()
        except BaseException as error:
            end = error
            _clear_frames(error)  # frees partially read data, which would live as long as the error
        self._ended = True
        self._ends.put(end)

    def _write(self) -> None:
        import pyarrow

        stream = pyarrow.RecordBatchReader.from_batches(_plain_type(self._columns), self._taken())
        request = self._request
        with query_problems(self._origin):
            type, batches = self._question.run(stream)
            with self._open_writer(
                request.form, self._file, type, request.to_terminal, request.spreadsheet
            ) as writer:
                for batch in batches:
                    writer.write(batch)
                writer.finish()

    def _taken(self) -> Iterator[Any]:
        while (batch := self._take()) is not None:
            yield batch
        if self._failed:
            raise ValueError("reading the input failed")

    def _take(self) -> Any:
        self._asked = True
        try:
            while not self._failed and not self._ended:
                with suppress(Empty):
                    batch = self._batches.get(timeout=MOMENT)
                    self._places.put(None)
                    return batch
            return None
        finally:
            self._asked = False


def _clear_frames(error: BaseException | None) -> None:
    """Clear the frames of an error, and of the errors that caused it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
