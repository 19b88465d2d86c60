"""Where a command writes to: files, and the standard streams. Python has None for a standard stream that is closed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from flowbuf.cli.options import UsageProblem
from flowbuf.sinks.file import OutputFile

__all__ = ["describe_os_error", "is_terminal", "open_errors", "open_output", "require_stdout"]


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether somebody looks at a standard stream."""
    return stream is not None and stream.isatty()


def require_stdout() -> None:
    """Raises UsageProblem where there is no standard output, which others leave out silently."""
    if sys.stdout is None:
        raise UsageProblem("<stdout>: it is closed")


@contextmanager
def open_output(path: str) -> Iterator[OutputFile]:
    """An output file. Raises UsageProblem where it cannot be opened; what goes wrong later is no usage problem."""
    with ExitStack() as stack:
        with open_errors():
            file = stack.enter_context(OutputFile(path))
        yield file


@contextmanager
def open_errors() -> Iterator[None]:
    """An OSError inside is about a path on the command line."""
    try:
        yield
    except OSError as error:
        raise UsageProblem(describe_os_error(error)) from error


def describe_os_error(error: OSError) -> str:
    """The file, as far as it is known, and the reason."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
