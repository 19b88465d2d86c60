"""Length-delimited streams of messages, as `flowbuf encode` writes them, read flow by flow in bounded memory."""

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

__all__ = ["MessageStream", "StreamOctets", "StreamWindows", "read_in_steps"]

WINDOW_SIZE = 1 << 20
MAX_MESSAGE_SIZE = 1 << 26  # a flow has some hundred octets; what announces more than 64 MiB is no stream of flows


class StreamWindows:
    """Reads length-delimited messages window by window. `fault` says what ended it too early, or nothing."""

    def __init__(self, content: Content) -> None:
        self.name = content.name
        self.content = content
        self.fault = ""
        self.position = 0  # of the window in the stream

    def __iter__(self) -> Iterator[tuple[memoryview, bool]]:
        """What there is, and whether more may come. Who reads it says with `take` how much was read, or that it cannot
        be."""
        window = memoryview(bytearray(WINDOW_SIZE))
        end = 0  # of the octets in the window
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
                self.fault = f"octet {self.position}: {damage}"
            if end == len(window):
                window = self._grow(window)

    def take(self, used: int) -> None:
        """So many octets of the window are done with."""
        self._used = used

    def stop(self, error: DecodeError) -> None:
        """The window cannot be read on."""
        offset = error.offset or 0
        damaged = self._damage and "cut short" in str(error)
        what = self._damage if damaged else str(error).partition(": ")[2]
        self.fault = f"octet {self.position + offset}: {what}"

    @property
    def _damage(self) -> str:
        return self.content.fault or self.content.failure

    def _grow(self, window: memoryview) -> memoryview:
        """A window twice as large, for a message that is larger than this one."""
        if len(window) >= MAX_MESSAGE_SIZE:
            self.fault = f"octet {self.position}: a message longer than {MAX_MESSAGE_SIZE} octets"
            return window
        larger = memoryview(bytearray(2 * len(window)))
        larger[: len(window)] = window
        return larger


class StreamOctets(StreamWindows):
    """A stream that is in memory as a whole: one window."""

    def __init__(self, octets: bytes | bytearray | memoryview) -> None:
        self.name = "octets"
        self.fault = ""
        self.position = 0
        self._octets = memoryview(octets)

    def __iter__(self) -> Iterator[tuple[memoryview, bool]]:
        yield self._octets, True

    def stop(self, error: DecodeError) -> None:
        self.fault = str(error)


class MessageStream:
    """Reads a stream of messages, plain or compressed. Iterating gives lists of flows: dicts from the name of a column
    to its value as it stands in the message (addresses are octets, enums numbers, times in the unit of their column).
    Columns that a message does not have are not in its dict. A stream can be iterated once.

    `source` is a path, `"-"` for standard input, a binary file object or a `Content`; `schema` is what the stream was
    written with, or a plan of it.

    Damage ends the stream and is no error: the flows before it are given, and `fault` says what it was. Fields that the
    schema does not have are counted in `unknown_fields`. Raises what `open` raises.
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
        """What ended the stream too early, and at which octet; "" where nothing did."""
        return self._windows.fault

    @property
    def unknown_fields(self) -> int:
        """Fields met so far that are none of the schema's columns."""
        return self._reader.unknown_fields

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        for octets, final in self._windows:
            try:
                flows, used = self._reader.read_stream(octets, final)
            except DecodeError as error:
                self._windows.stop(error)
                flows, used = self._reader.read_stream(octets[: error.offset or 0], final=False)
            if flows:
                self.flows += len(flows)
                yield flows
            self._windows.take(used)

    def close(self) -> None:
        """Closes the file if it was opened here."""
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
    """The flows of whole, length-delimited messages, as lists of dicts; their objects take twenty times the memory of
    the messages, so that they are made step by step."""
    octets = memoryview(messages)
    begin = 0
    while begin < len(octets):
        final = begin + step >= len(octets)
        flows, used = reader.read_stream(octets[begin : begin + step], final)
        begin += used
        step = step if used else 2 * step
        if flows:
            yield flows
