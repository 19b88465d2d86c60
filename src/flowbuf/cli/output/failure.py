"""End a command with one line on stderr and an exit status."""

from __future__ import annotations

from typing import Any

import click

from flowbuf.cli.output.terminal import escape_line

__all__ = ["PIPE_CLOSED", "Failure", "describe_os_error"]

PIPE_CLOSED = 141
"""Exit status after SIGPIPE, as shells report it."""


class Failure(click.ClickException):
    """End the command with one line on stderr and exit status 1."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        click.echo(f"flowbuf: {escape_line(self.message)}", err=True)


def describe_os_error(error: OSError) -> str:
    """Return "FILE: reason", or only the reason if the file is unknown."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
