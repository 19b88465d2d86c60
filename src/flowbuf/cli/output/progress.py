"""Show a progress bar on stderr if it is a terminal."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flowbuf.cli.output.streams import is_terminal
from flowbuf.cli.output.terminal import clean_line, terminal_of

__all__ = ["Show", "show_lag", "show_progress", "show_steps"]

Show = Callable[[int, int], None]
"""Receives the bytes read, or the Kafka records still to be read, and the number of flows so far."""


@contextmanager
def show_progress(total: int | None, quiet: bool = False) -> Iterator[Show]:
    """Show how much of `total` bytes has been read, and the number of flows.

    `total` is None if it is unknown.

    Nothing is shown if `quiet`, or if stderr is not a terminal.
    """
    if quiet or not is_terminal(sys.stderr):
        yield lambda size, flows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[flows]:,} flows"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(file=terminal_of(sys.stderr)), transient=True, redirect_stdout=False
    ) as progress:
        task = progress.add_task("", total=total, flows=0)
        yield lambda size, flows: progress.update(task, completed=size, flows=flows)


@contextmanager
def show_lag(quiet: bool = False) -> Iterator[Show]:
    """Show the number of Kafka records still to be read, the number of flows read, and their rate."""
    if quiet or not is_terminal(sys.stderr):
        yield lambda behind, flows: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[flows]:,} flows"),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TextColumn("lag {task.fields[behind]:,} records"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=Console(file=terminal_of(sys.stderr)), transient=True, redirect_stdout=False
    ) as progress:
        task = progress.add_task("", total=None, flows=0, rate=0.0, behind=0)
        latest: deque[tuple[float, int]] = deque([(time.monotonic(), 0)], maxlen=50)

        def show(behind: int, flows: int) -> None:
            latest.append((time.monotonic(), flows))
            (since, before), (now, count) = latest[0], latest[-1]
            progress.update(task, flows=flows, behind=behind, rate=(count - before) / max(now - since, 1e-9))

        yield show


@contextmanager
def show_steps(total: int | None) -> Iterator[Callable[[str, int], None]]:
    """Show how many of `total` steps are done. `total` is None if it is unknown.

    Yield a function that receives the current name and the number of steps done.
    """
    if not is_terminal(sys.stderr):
        yield lambda name, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(file=terminal_of(sys.stderr)), transient=True, redirect_stdout=False
    ) as progress:
        task = progress.add_task("", total=total)
        yield lambda name, done: progress.update(task, description=clean_line(name), completed=done)
