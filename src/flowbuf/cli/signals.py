"""Signals that end a command."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

__all__ = ["held_signals"]


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
