"""Signals that end a command."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

__all__ = ["Stop", "held_signals", "stop_signals"]


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """SIGINT and SIGTERM wait for the end of the block. For imports: what a signal raises in the midst of one may be
    taken for a library that is missing, or printed and forgotten, and the command would go on. And for threads to
    start, which keep them out for good."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Stop:
    """Whether it was asked for."""

    wanted = False


@contextlib.contextmanager
def stop_signals() -> Iterator[Stop]:
    """The first SIGINT or SIGTERM inside is a wish, which whoever looks at it fulfils; the next is as ever."""
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
