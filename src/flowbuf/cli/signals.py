"""Handle the signals that end a command."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = [
    "HUNG_UP",
    "INTERRUPTED",
    "TERMINATED",
    "Interrupt",
    "Stop",
    "held_signals",
    "input_interrupts",
    "stop_signals",
]

# Exit status after SIGHUP, SIGINT or SIGTERM: 128 + the number of the signal, as shells report it.
HUNG_UP = 129
INTERRUPTED = 130
TERMINATED = 143

LAST_WORDS = 1.0
"""Seconds for the writer of a pipe to write its remaining packets. It gets Ctrl-C too."""


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """Hold SIGHUP, SIGINT and SIGTERM until the end of the block.

    For imports: an exception from a signal inside an import can look like a missing library, or can be
    printed and lost, and the command would continue. For new threads: they keep these signals blocked.
    """
    held = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Stop:
    """A request to stop. `wanted` is True after a signal."""

    wanted = False


@contextlib.contextmanager
def stop_signals() -> Iterator[Stop]:
    """Turn the first SIGINT or SIGTERM inside the block into a request to stop.

    The next signal acts as usual.
    """
    stop = Stop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def want(number: int, frame: Any) -> None:
        stop.wanted = True
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, want)
    try:
        yield stop
    finally:
        restore()


class Interrupt:
    """The end of standard input at Ctrl-C. `wanted` is true from the first SIGINT after `open`.

    Args:
        meanwhile: Function that is called about once per second while standard input is read.
    """

    def __init__(self, meanwhile: Callable[[], None] | None = None) -> None:
        self.meanwhile = meanwhile
        self.wanted = False
        self.begun = False
        self.deadline = 0.0
        self.wakeup: int | None = None

    def open(self) -> Any:
        """Return standard input as a file that ends at an interrupt."""
        self.begun = True
        return _InterruptibleInput(self)

    def close(self) -> None:
        """Mark the end of standard input. A later SIGINT acts as for any other input."""
        self.begun = False

    def request(self) -> None:
        self.wanted = True
        self.deadline = time.monotonic() + LAST_WORDS


class _InterruptibleInput:
    """Standard input until an interrupt. The interrupt raises nothing, so that no data is lost."""

    name = "<stdin>"

    def __init__(self, interrupt: Interrupt) -> None:
        file: Any = sys.stdin.buffer
        self._file = getattr(file, "raw", file)  # select does not see buffered data
        self._interrupt = interrupt
        self._next_work = time.monotonic() + 1
        self.tell: Callable[[], int] = self._file.tell
        self.fileno: Callable[[], int] = self._file.fileno

    def readinto(self, view: memoryview) -> int | None:
        return self._file.readinto(view) if self._wait() else 0

    def read(self, size: int) -> bytes | None:
        return self._file.read(size) if self._wait() else b""

    def _wait(self) -> bool:
        """Wait for input, which may be non-blocking. Return False if an interrupt has ended it."""
        interrupt = self._interrupt
        if not _has_descriptor(self._file):
            return not interrupt.wanted
        descriptor = self.fileno()
        awaited = [descriptor] if interrupt.wakeup is None else [descriptor, interrupt.wakeup]
        while not interrupt.wanted:
            ready, _, _ = select.select(awaited, [], [], self._work_if_due())
            if interrupt.wakeup in ready:
                os.read(interrupt.wakeup, 512)
            elif ready:
                return True
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        left = interrupt.deadline - time.monotonic()
        return left > 0 and bool(select.select([descriptor], [], [], left)[0])

    def _work_if_due(self) -> float | None:
        """Call `meanwhile` once per second. Return the seconds until the next call. None: there is none."""
        if self._interrupt.meanwhile is None:
            return None
        if time.monotonic() >= self._next_work:
            self._interrupt.meanwhile()
            self._next_work = time.monotonic() + 1
        return max(self._next_work - time.monotonic(), 0)


@contextlib.contextmanager
def input_interrupts(inputs: Sequence[str]) -> Iterator[Interrupt]:
    """Let the first SIGINT end standard input, if it is one of the inputs and reading it has begun.

    The second SIGINT, and a SIGINT while another input is read, raise KeyboardInterrupt.
    """
    interrupt = Interrupt()
    before = signal.getsignal(signal.SIGINT)
    if "-" not in inputs or not callable(before) or not _has_descriptor(sys.stdin):
        yield interrupt
        return

    def handle(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        if not interrupt.begun:
            before(number, frame)
        else:
            interrupt.request()

    interrupt.wakeup, writer = os.pipe()
    os.set_blocking(writer, False)
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(wakeup_before)
        os.close(writer)
        os.close(interrupt.wakeup)


def _has_descriptor(file: Any) -> bool:
    try:
        return file.fileno() >= 0  # type: ignore[no-any-return]
    except (AttributeError, OSError, ValueError):
        return False
