"""A progress bar on stderr, while a terminal looks on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flowbuf.cli.output import is_terminal

__all__ = ["Show", "show_progress", "show_steps"]

Show = Callable[[int, int], None]
"""Takes the octets read and the flows decoded so far."""


@contextmanager
def show_progress(total: int | None, quiet: bool = False) -> Iterator[Show]:
    """Shows how much of `total` octets has been read (None: nobody knows how many there are) and the flows in them.
    Nothing is shown when `quiet`, or where stderr is no terminal."""
    if quiet or not is_terminal(sys.stderr):
        yield lambda octets, flows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TextColumn("{task.fields[flows]:,} flows"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task("", total=total, flows=0)
        yield lambda octets, flows: progress.update(task, completed=octets, flows=flows)


@contextmanager
def show_steps(total: int) -> Iterator[Callable[[str, int], None]]:
    """Shows how many of `total` steps are done. Gives a function that takes what is being done, and how many are."""
    if not is_terminal(sys.stderr):
        yield lambda name, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task("", total=total)
        yield lambda name, done: progress.update(task, description=name, completed=done)
