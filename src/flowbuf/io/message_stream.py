"""Read length-delimited streams of messages, as `flowbuf encode` writes them, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any, BinaryIO

from flowbuf._core import MessageReader, Plan
from flowbuf.errors import DecodeError
from flowbuf.io.input_stream import Content
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

__all__ = ["MessageStream", "StreamBytes", "StreamWindows", "read_in_steps"]

WINDOW_SIZE = 1 << 20
# Flows take some hundred bytes. A stream that announces a message of more than 64 MiB is not a stream of
# flows.
MAX_MESSAGE_SIZE = 1 << 26


class StreamWindows:
    """Read length-delimited messages window by window.

    `fault` describes the error that ended the stream, or is empty. `offset` is its position in bytes, and
    `path` the field concerned.
    """

    fault = path = ""
    offset: int | None = None

    def __init__(self, content: Content) -> None:
        self.name = content.name
        self.content = content
        self.position = 0  # of the window in the stream, in bytes

    def __iter__(self) -> Iterator[tuple[memoryview, bool]]:
        """Yield the unread bytes, and True if no more follow.

        The caller reports with `take` the bytes that it read, or with `stop` an error.
        """
        window = memoryview(bytearray(WINDOW_SIZE))
        end = 0  # of the bytes in the window
        final = False
        while not (final or self.fault):
            count = self.content.readinto(window[end:])
            end += count
            final = count == 0
            self._used = 0
            yield window[:end].toreadonly(), final
            window[: end - self._used] = window[self._used : end]
            self.position += self._used
            end -= self._used
            if final and not self.fault and (damage := self._damage):
                self._fail(self.position, damage)
            if end == len(window):
                window = self._grow(window)

    def take(self, used: int) -> None:
        """Mark this number of bytes of the window as read."""
        self._used = used

    def stop(self, error: DecodeError) -> None:
        """End the stream with this error."""
        damaged = self._damage and "cut short" in str(error)
        what = self._damage if damaged else str(error).partition(": ")[2]
        self._fail(self.position + (error.offset or 0), what, error.path)

    def _fail(self, offset: int, what: str, path: str = "") -> None:
        self.fault, self.offset, self.path = f"byte {offset}: {what}", offset, path

    @property
    def _damage(self) -> str:
        return self.content.fault or self.content.failure

    def _grow(self, window: memoryview) -> memoryview:
        """Return a window of twice the size, for a message that is larger than this one."""
        if len(window) >= MAX_MESSAGE_SIZE:
            self._fail(self.position, f"the message is longer than {MAX_MESSAGE_SIZE} bytes")
            return window
        larger = memoryview(bytearray(2 * len(window)))
        larger[: len(window)] = window
        return larger


class StreamBytes(StreamWindows):
    """A stream in memory. It is read in windows too, so that its messages are not converted at once."""

    _damage = ""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.name = "bytes"
        self.position = 0
        self._data = memoryview(data).cast("B")

    def __iter__(self) -> Iterator[tuple[memoryview, bool]]:
        size = WINDOW_SIZE
        final = False
        while not (final or self.fault):
            window = self._data[self.position : self.position + size]
            final = self.position + size >= len(self._data)
            self._used = 0
            yield window, final
            self.position += self._used
            if not self._used:
                size *= 2  # for a message that is larger than the window


class MessageStream:
    """Read a stream of messages, plain or compressed, as lists of flows.

    A flow is a dict from column name to the value as it is in the message: addresses are bytes, enums are
    numbers, and times have the unit of their column. Columns that a message does not have are missing from
    its dict. A stream can be iterated once.

    Damage ends the stream without an exception. The flows before the damage are returned, and `fault`
    describes it.

    Args:
        source: Path, "-" for standard input, binary file object or `Content`.
        schema: Schema of the messages, its name or path, or a plan of it. Default: "flow".

    Attributes:
        flows: Number of flows returned so far.

    Raises:
        OSError: The source cannot be opened or read.
        SchemaError: The schema cannot be loaded.
    """

    def __init__(
        self, source: str | os.PathLike[str] | BinaryIO | Content, schema: Schema | Plan | str = "flow"
    ) -> None:
        if isinstance(schema, str):
            schema = Schema.load(schema)
        self._reader = MessageReader(compile_plan(schema) if isinstance(schema, Schema) else schema)
        self.content = source if isinstance(source, Content) else Content(source)
        self._windows = StreamWindows(self.content)
        self.flows = 0

    @property
    def fault(self) -> str:
        """Error that ended the stream, with its byte offset. Empty if the stream ended without one."""
        return self._windows.fault

    @property
    def unknown_fields(self) -> int:
        """Number of fields so far that are not columns of the schema."""
        return self._reader.unknown_fields

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        for data, final in self._windows:
            try:
                flows, used = self._reader.read_stream(data, final)
            except DecodeError as error:
                self._windows.stop(error)
                flows, used = self._reader.read_stream(data[: error.offset or 0], final=False)
            if flows:
                self.flows += len(flows)
                yield flows
            self._windows.take(used)

    def close(self) -> None:
        """Close the file if it was opened here."""
        self.content.close()

    def __enter__(self) -> MessageStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def read_in_steps(
    reader: MessageReader, messages: bytes | memoryview, step: int = 1 << 18
) -> Iterator[list[dict[str, Any]]]:
    """Yield the flows of length-delimited messages as lists of dicts, for about `step` bytes at a time.

    Python objects take about 20 times the memory of the messages, so the flows are created in steps.
    """
    data = memoryview(messages)
    begin = 0
    while begin < len(data):
        final = begin + step >= len(data)
        flows, used = reader.read_stream(data[begin : begin + step], final)
        begin += used
        step = step if used else 2 * step
        if flows:
            yield flows
