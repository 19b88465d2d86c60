"""Decode several inputs in order with one decoder.

Templates and sampling rates of one input are known in the next.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from flowbuf._core import ColumnBuilder, MessageReader, MessageTables, Plan
from flowbuf.arrow.batch import BATCH_ROWS, FlowBatch, new_table_type
from flowbuf.cli.counters import count_rows
from flowbuf.cli.inputs import holds_messages
from flowbuf.cli.options import CaptureOptions, UsageProblem, schema_errors
from flowbuf.cli.output.failure import Failure, describe_os_error
from flowbuf.cli.output.progress import Show
from flowbuf.cli.output.report import Report, describe_fault
from flowbuf.cli.signals import Interrupt
from flowbuf.cli.state import read_state, write_state
from flowbuf.decoder import Decoder
from flowbuf.errors import CaptureError, DecodeError
from flowbuf.io.capture import CaptureReader
from flowbuf.io.columns import decode_tables, message_tables
from flowbuf.io.encode import decode_batches, decode_row_batches
from flowbuf.io.input_stream import Content
from flowbuf.io.message_stream import MessageStream, StreamWindows, read_in_steps
from flowbuf.io.names import name_columns, only_names
from flowbuf.io.proto_file import find_proto, read_proto
from flowbuf.options import TIMES
from flowbuf.schema import Schema
from flowbuf.schema.loader import RECORDS
from flowbuf.schema.plan import compile_plan

__all__ = ["Session", "check_captures", "check_decoded", "check_decoding"]

Piece = TypeVar("Piece")

ONE_KIND = "{name}: is not a capture, and has one kind of rows; leave out --rows"


def check_decoded(name: str, decoding: CaptureOptions) -> None:
    """Raise UsageProblem for decoding options if the flows in the file were decoded before.

    It is unknown if their totals are scaled, and their packets are gone. --strict is allowed, because a
    malformed message is also a fault.
    """
    for option, is_set in (
        *(("--scale", decoding.scale), ("--decapsulate", decoding.decapsulate), ("--port", decoding.port)),
        *(
            ("--override-sampling", decoding.override_sampling),
            ("--default-sampling", decoding.default_sampling_rate),
        ),
        ("--time", decoding.time != TIMES[0]),
    ):
        _check_option(name, option, bool(is_set))


def check_decoding(paths: Sequence[str], decoding: CaptureOptions, decoded: Sequence[str] = ()) -> None:
    """Check the message streams in `paths`, and the files in `decoded`, before any output is written.

    Options about exporters apply to the captures among the inputs. Raise UsageProblem for them if there is no
    capture.
    """
    others = [*(path for path in paths if _is_message_file(path)), *decoded]
    for path in others:
        check_decoded(path, decoding)
    if others and len(others) == len(paths) + len(decoded):
        for option, is_set in (
            *(("--state", decoding.state), ("--template-expiry", decoding.template_expiry)),
            ("--two-pass", decoding.two_pass),
            ("--obey-withdrawals", decoding.obey_withdrawals),
        ):
            _check_option(others[0], option, bool(is_set))


def check_captures(paths: Sequence[str]) -> None:
    """Raise UsageProblem for a message stream, which cannot have several kinds of rows."""
    for path in paths:
        if _is_message_file(path):
            raise UsageProblem(ONE_KIND.format(name=path))


def _check_option(name: str, option: str, is_set: bool) -> None:
    if is_set:
        raise UsageProblem(f"{name}: is not a capture, and {option} applies only to captures; leave it out")


def _is_message_file(path: str) -> bool:
    if not os.path.isfile(path):  # a look at a pipe would consume its data
        return False
    with Content(path) as content:
        return holds_messages(path, content)


class Session:
    """Read inputs, show the progress, and report the problems of each input.

    As a context manager, it loads the state file of --state at the beginning, and saves it at the end, even
    after an error.

    Attributes:
        readable: Number of inputs that were captures or message streams.
        flows: Number of flows read.
    """

    def __init__(
        self,
        schema: Schema,
        decoding: CaptureOptions,
        report: Report,
        show: Show,
        done: str = "written",
        interrupt: Interrupt | None = None,
        others: Sequence[Schema] = (),
    ) -> None:
        """Create a session.

        Args:
            schema: Schema of the flows.
            decoding: Options of decoding.
            report: Receiver of problems and notes.
            show: Function that shows the progress.
            done: Verb for the flows in reports: written, sent or queried.
            interrupt: Ends standard input.
            others: Schemas of further kinds of rows, which only captures have.
        """
        self.schema = schema
        self._decoder = None if schema.rows == RECORDS else decoding.new_decoder(schema, *others)
        with schema_errors():
            self._plan = self._decoder.plan if self._decoder else compile_plan(schema)
        self.readable = 0
        self.flows = 0
        self.stopped = False
        self._decoding = decoding
        self._override = decoding.override(schema)
        self._report = report
        self._show = show
        self._done = done
        self._interrupt = interrupt or Interrupt()
        self._messages = MessageReader(self._plan)
        self._builder: ColumnBuilder | None = None
        self._captures: list[str] = []
        self._counters: Counter[str] = Counter()
        self._size_before = 0  # size of the finished inputs

    @property
    def decoder(self) -> Decoder:
        """Decoder that fills the rows.

        Raises UsageProblem if the rows are records, which no decoder fills.
        """
        if self._decoder is None:
            problem = f"schema {self.schema.name} describes objects, which captures do not contain"
            raise UsageProblem(f"{problem}; read a stream of its messages, or choose another --schema")
        return self._decoder

    @property
    def interrupted(self) -> bool:
        """True after Ctrl-C has ended standard input."""
        return self._interrupt.wanted

    @property
    def counters(self) -> Mapping[str, int]:
        """Counters of the captures and of the decoder."""
        return self._counters + Counter(self._decoder.counters if self._decoder else {})

    def __enter__(self) -> Session:
        if self._decoder:
            read_state(self._decoding.state, self._decoder, self._report)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._decoder:
            write_state(self._decoding.state, self._decoder, self._report)

    def each(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the inputs one by one, until Ctrl-C has ended standard input or reading is stopped."""
        paths = list(paths)
        self.learn_names(paths)
        for path in paths:
            if path != "-":
                self._interrupt.close()  # first: a later Ctrl-C raises KeyboardInterrupt
            if self.interrupted or self.stopped:
                return
            yield path

    def learn_names(self, paths: Sequence[str]) -> None:
        """With --two-pass, read the names in the options data of captures, before they are decoded."""
        if not self._decoding.two_pass:
            return
        columns = name_columns(self.schema)
        if not columns:
            flows = self.schema.rows == "flows"
            fix = "enable one, such as in_if_name" if flows else "leave out --two-pass"
            raise UsageProblem(f"--two-pass: no enabled column is a name from options data; {fix}")
        decoding = replace(self._decoding, strict=False, scale=False, override_sampling=None)
        with schema_errors():
            learner = decoding.new_decoder(self.schema.only(*columns))
        learner.restore_exporters(self.decoder.read_exporters())
        for path in paths:
            if not os.path.isfile(path):
                fix = "write it to a file first"
                raise UsageProblem(f"{path}: --two-pass reads each input twice, which needs a file; {fix}")
            with self._open(path) as content:
                if content and not holds_messages(path, content):
                    self._learn_from(content, learner)
        with suppress(DecodeError):
            learner.finish()
        self.decoder.restore_exporters(only_names(learner.read_exporters()))

    def _learn_from(self, content: Content, learner: Decoder) -> None:
        """Decode a capture. Its problems are reported when it is read again."""
        with suppress(CaptureError):
            for _ in decode_batches(CaptureReader(content, self._decoding.port), learner, None):
                self._show(content.position, 0)

    def stop(self) -> None:
        """Stop reading. The current input ends after its last yielded flows, and is still reported."""
        self.stopped = True

    def finish(self) -> None:
        """Give up data that waits for its template, and report it.

        Do nothing if reading was stopped early.
        """
        if self.stopped or not self._captures:
            return
        name = self._captures[0] if len(self._captures) == 1 else "end of input"
        try:
            self.decoder.finish()
        except DecodeError as error:
            if not self.interrupted:
                raise Failure(describe_fault(name, error)) from error
        self._report.add_input(name, self.decoder, {})

    def _open(self, path: str) -> AbstractContextManager[Content | None]:
        """Open an input. Report one that cannot be opened, and return None for it."""
        source: Any = self._interrupt.open() if path == "-" and sys.stdin else path
        try:
            return Content(source, ends_at_error=True)
        except OSError as error:
            self._add_problem(describe_os_error(error))
            return nullcontext()

    def encode(self, path: str) -> Iterator[memoryview]:
        """Yield the messages of a capture, batch by batch.

        Each batch is valid until the next one is requested.
        """
        with self._open(path) as content:
            if content:
                yield from self._encode(content)

    def encode_rows(self, path: str) -> Iterator[dict[str, memoryview]]:
        """Yield the messages of a capture by their kind of rows, batch by batch.

        Each batch is valid until the next one is requested.
        """
        with self._open(path) as content:
            if content:
                yield from self._decode(
                    content, lambda reader: decode_row_batches(reader, self.decoder, self._override)
                )

    def encode_each_rows(self, path: str) -> Iterator[list[tuple[str, dict[str, bytes]]]]:
        """Yield lists of (exporter address, messages by kind of rows) of a capture, one item per datagram."""

        def pieces(reader: CaptureReader) -> Iterator[list[tuple[str, dict[str, bytes]]]]:
            return (
                self.decoder.encode_each_rows(batch, override=self._override) for batch in reader.batches()
            )

        with self._open(path) as content:
            if content:
                yield from self._decode(content, pieces)

    def read(self, path: str) -> Iterator[list[dict[str, Any]]]:
        """Yield the flows of a capture or message stream as lists."""
        with self._open(path) as content:
            if not content:
                return
            if holds_messages(path, content):
                self._check_messages(content.name)
                yield from self._read_messages(content, find_proto(path) if path != "-" else None)
            else:
                for messages in self._encode(content):
                    for flows in read_in_steps(self._messages, messages):
                        yield flows
                        if self.stopped:
                            break

    def columns(self, path: str, prompt: bool = False) -> Iterator[FlowBatch]:
        """Yield the flows of a capture or message stream as columns.

        With `prompt`, yield small batches as soon as possible.
        """
        with self._open(path) as content:
            if not content:
                return
            if holds_messages(path, content):
                self._check_messages(content.name)
                yield from self._message_columns(content, find_proto(path) if path != "-" else None, prompt)
            else:
                yield from self._decode(content, lambda reader: self._tables(reader, prompt))

    def _tables(self, reader: CaptureReader, prompt: bool) -> Iterator[FlowBatch]:
        decoder = self.decoder
        if self._builder is None:
            self._builder = decoder.new_builder(BATCH_ROWS)
        for table in decode_tables(reader, self._builder, self._override, prompt=prompt):
            yield decoder.as_batch(table)

    def _encode(self, content: Content) -> Iterator[memoryview]:
        def pieces(reader: CaptureReader) -> Iterator[memoryview]:
            return (messages for _, messages in decode_batches(reader, self.decoder, self._override))

        return self._decode(content, pieces)

    def _decode(
        self, content: Content, pieces: Callable[[CaptureReader], Iterator[Piece]]
    ) -> Iterator[Piece]:
        """Yield the pieces of a capture, and report its problems."""
        flows = before = self.decoder.flows
        try:
            reader = CaptureReader(content, self._decoding.port)
            for piece in pieces(reader):
                self._advance(content, self.decoder.flows - flows)
                flows = self.decoder.flows
                yield piece
                if self.stopped:
                    break
        except DecodeError as error:
            raise Failure(describe_fault(content.name, error)) from error
        except CaptureError as error:
            if not self.interrupted:
                self._add_problem(str(error))
            return
        self._finish(content)
        counters = self._check_capture(reader)
        if counters.pop("damaged_compression", 0) or (content.failure and not self.interrupted):
            self._add_damage(content, self.decoder.flows - before)
        self._report.add_input(reader.name, self.decoder, counters)
        self._counters.update(counters)
        self._captures.append(reader.name)

    def _read_messages(self, content: Content, proto: str | None) -> Iterator[list[dict[str, Any]]]:
        stream = MessageStream(content, self._plan_of(proto) if proto else self._plan)
        for flows in stream:
            self._advance(content, len(flows))
            yield flows
            if self.stopped:
                break
        self._end_messages(content, proto, stream.fault, stream.flows, stream.unknown_fields)

    def _message_columns(self, content: Content, proto: str | None, prompt: bool) -> Iterator[FlowBatch]:
        schema, before = self.schema, self.flows
        windows = StreamWindows(content)
        plan = self._plan_of(proto) if proto else self._plan
        reader = MessageTables(new_table_type(schema, plan), BATCH_ROWS)
        for table in message_tables(windows, reader, prompt=prompt):
            self._advance(content, len(table))
            yield FlowBatch(schema, table)
            if self.stopped:
                break
        self._end_messages(content, proto, windows.fault, self.flows - before, reader.unknown_fields)

    def _end_messages(
        self, content: Content, proto: str | None, fault: str, flows: int, unknown_fields: int
    ) -> None:
        if self.interrupted:
            fault = ""
        if fault and not flows and content.name == "<stdin>":
            self._add_problem(
                f"{content.name}: {content.failure or 'is neither a capture nor a stream of messages'}"
            )
            return
        self._finish(content)
        if fault and (content.failure or (content.fault and not self._decoding.strict)):
            self._add_damage(content, flows)
        elif fault:
            fix = "" if proto or flows else "; if another schema wrote it, name it with --schema"
            self._add_problem(f"{content.name}: {fault} (flows before it: {flows}{fix})")
        if unknown_fields:
            fix = (
                "it does not describe these messages"
                if proto
                else "name the schema that wrote them with --schema"
            )
            unknown = f"fields that are not in {proto or 'the schema'}: {unknown_fields}"
            self._add_problem(f"{content.name}: {unknown}; {fix}")

    def _check_messages(self, name: str) -> None:
        check_decoded(name, self._decoding)
        if self._decoder and len(self._decoder.schemas) > 1:
            raise UsageProblem(ONE_KIND.format(name=name))

    def _plan_of(self, proto: str) -> Plan:
        """Return a plan of the columns to read. Fields that are neither these nor in a .proto are unknown."""
        described = [column.name for column in read_proto(proto, self.schema).enabled]
        schema = self.schema.with_vendors(described)
        known = [column for column in schema if column.enabled or column.name in described]
        return compile_plan(replace(schema, columns=tuple(known)))

    def _advance(self, content: Content, flows: int) -> None:
        self.flows += flows
        self._show(self._size_before + content.position, self.flows)

    def _finish(self, content: Content) -> None:
        self.readable += 1
        self._size_before += content.position

    def _add_problem(self, text: str) -> None:
        if self._decoding.strict:
            raise Failure(text)
        self._report.add_problem(text)

    def _add_damage(self, content: Content, flows: int) -> None:
        """Report damaged compression, or an error of reading, with the number of flows before it."""
        problem = f"{content.name}: {content.fault or content.failure} after {count_rows(self.schema, flows)}"
        if self._decoding.strict:
            raise Failure(problem)
        self._report.add_problem(f"{problem}; the flows before it were {self._done}" if flows else problem)

    def _check_capture(self, reader: CaptureReader) -> dict[str, int]:
        """Return the counters of a capture. A truncation by an interrupt is not a fault."""
        if self.interrupted:
            cut = ("truncated_capture", "damaged_compression")
            return {name: count for name, count in reader.counters.items() if name not in cut}
        try:
            if self._decoding.strict:
                reader.check()
        except DecodeError as error:
            raise Failure(str(error)) from error
        return reader.counters
