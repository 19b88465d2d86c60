"""Collected flows as JSON lines on standard output, also after a reload with another output to it."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow
import pytest

import flowbuf
from flowbuf.cli.collect_outputs import new_output
from flowbuf.collect.config import OutputConfig
from flowbuf.collect.outputs.output import Output
from flowbuf.selection import FlowSelection
from tests.collect.test_collector import flows5

SCHEMA = flowbuf.Schema.load("flow")


@contextmanager
def piped_stdout(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield the descriptor that reads standard output inside the block. Nobody waits for it."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with os.fdopen(writer, "w") as stdout, os.fdopen(reader, "rb"), monkeypatch.context() as patch:
        patch.setattr("flowbuf.cli.collect_outputs.WAIT_SECONDS", 0.01)
        patch.setattr("sys.stdout", stdout)
        yield reader


def flows(count: int) -> Any:
    batch = flowbuf.Decoder("flow").columns(flows5(1), "192.0.2.1").to_arrow()
    return batch.take(pyarrow.array([0] * count))


def output() -> Output:
    return new_output(OutputConfig(to="-"), FlowSelection(SCHEMA), "")


def finish(work: Callable[[], None], reader: int) -> bytes:
    """Repeat a call until it succeeds, and return what was read meanwhile."""
    read = b""
    while True:
        try:
            work()
        except BlockingIOError:
            read += os.read(reader, 65536)
        else:
            return read


def read_lines(reader: int, read: bytes, count: int) -> None:
    """Check that there are so many whole lines, with those that are still in the pipe."""
    with suppress(BlockingIOError):
        while True:
            read += os.read(reader, 65536)
    assert [json.loads(line)["bytes"] for line in read.splitlines()] == [100] * count


def test_a_successor_continues_behind_a_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with piped_stdout(monkeypatch) as reader:
        old, new = output(), output()
        old.write(flows(2000))
        assert (old.stored, old.pending) == (0, 2000)
        with pytest.raises(BlockingIOError, match="the reader of standard output is too slow"):
            new.write(flows(1))
        assert (new.stored, new.pending) == (0, 0)
        read = finish(functools.partial(new.write, flows(1000)), reader)
        for each in (old, new, old):
            read += finish(each.close, reader)
        assert (old.stored, old.pending) == (2000, 0)
        assert (new.stored, new.pending) == (1000, 0)
        read_lines(reader, read, 3000)


def test_a_successor_writes_the_rest_of_an_output_that_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its first line would continue another one."""
    with piped_stdout(monkeypatch) as reader:
        output().write(flows(2000))
        new = output()
        read = finish(functools.partial(new.write, flows(1)), reader)
        read += finish(new.close, reader)
        read_lines(reader, read, 2001)
