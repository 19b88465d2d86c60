"""What a command says on stderr of the things that went wrong, and the exit status that follows from them."""

from __future__ import annotations

import sys
from typing import Any

import click

from flowbuf._core import STATUSES
from flowbuf.cli.terminal import escape_line
from flowbuf.decoder import Decoder
from flowbuf.errors import DecodeError
from flowbuf.statuses import Counters, sort_counters

__all__ = [
    *("INTERRUPTED", "PIPE_CLOSED", "TERMINATED"),
    *("Failure", "Report", "count_by_exporter", "describe_fault"),
]

# 128 + the signal (SIGINT, SIGPIPE, SIGTERM): what a shell reports of a program that it ends.
INTERRUPTED = 130
PIPE_CLOSED = 141
TERMINATED = 143

MAX_LINES = 20  # of one input
MAX_COLUMNS = 5  # in a line

# Notes that are printed without --verbose: values that were sent, and that their column cannot hold.
VALUES_LEFT_OUT = ("bad_field_size", "bad_list", "out_of_range")


def count_by_exporter(decoder: Decoder) -> dict[str, dict[str, int]]:
    """The counters of each exporter by its address; of datagrams that belong to none below an empty one."""
    counters = {exporter: dict(stats["counters"]) for exporter, stats in decoder.stats.items()}
    counters[""] = dict(decoder.read_other()["counters"])
    return counters


def describe_fault(name: str, error: DecodeError) -> str:
    """What a strict decoder stopped at, as one line."""
    text = STATUSES[error.status][1] if error.status in STATUSES else str(error)
    place = "" if error.offset is None else f"octet {error.offset}: "
    return f"{name}: {error.exporter}: {place}{error.status}: {text}"


class Failure(click.ClickException):
    """Ends the command with one line on stderr."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        click.echo(f"flowbuf: {escape_line(self.message)}", err=True)


class Report:
    """Collects what is wrong with the inputs of one command and prints it, a line each. Faults and losses make the exit
    status 1. Notes are printed only when asked for, except those of VALUES_LEFT_OUT."""

    def __init__(self, notes: bool = False) -> None:
        self.status = 0
        self.notes = notes
        self._before: dict[str, dict[str, int]] = {}
        self._left_out: dict[str, int] = {}

    def add_problem(self, text: str) -> None:
        """Something that is no counter."""
        self.status = 1
        self.add_note(text)

    def add_interrupt(self, rows: str) -> None:
        """Report Ctrl-C, and how many rows were written nevertheless."""
        self.status = INTERRUPTED
        self.add_note(f"interrupted: {rows} written")

    def add_note(self, text: str) -> None:
        """Something that leaves the exit status as it is. Not click.echo: it writes past a progress bar that is shown,
        into its line. Escaped here: a progress bar takes what stderr gets, and obeys the styles in it."""
        print(f"flowbuf: {escape_line(text)}", file=sys.stderr)

    def add_input(self, name: str, decoder: Decoder, capture: Counters) -> None:
        """What a decoder has counted since the last input, and what the capture itself has."""
        lines = self._lines(name, capture)
        after = count_by_exporter(decoder)
        for exporter, counters in after.items():
            before = self._before.get(exporter, {})
            new = {status: count - before.get(status, 0) for status, count in counters.items()}
            lines += self._lines(f"{name}: {exporter}" if exporter else name, new)
        self._before = after
        lines += self._list_columns(name, decoder.read_left_out())
        for line in lines[:MAX_LINES]:
            self.add_note(line)
        if len(lines) > MAX_LINES:
            self.add_note(f"{name}: {len(lines) - MAX_LINES} more such lines; flowbuf inspect shows all")

    def _list_columns(self, name: str, left_out: dict[str, int]) -> list[str]:
        """A line with the columns that could not hold values since the last input, most values first."""
        new = {column: count - self._left_out.get(column, 0) for column, count in left_out.items()}
        self._left_out = left_out
        counts = [f"{column} {new[column]}" for column in sorted(new, key=lambda column: -new[column]) if new[column]]
        if not counts:
            return []
        more = f" and {len(counts) - MAX_COLUMNS} more" if len(counts) > MAX_COLUMNS else ""
        return [f"{name}: values left out, by column: {', '.join(counts[:MAX_COLUMNS])}{more}"]

    def _lines(self, who: str, counters: Counters) -> list[str]:
        lines = []
        for name, count in sort_counters({name: count for name, count in counters.items() if count}):
            kind, text = STATUSES[name]
            if kind in ("fault", "loss"):
                self.status = 1
            elif not self.notes and name not in VALUES_LEFT_OUT:
                continue
            lines.append(f"{who}: {count} {name}: {text}")
        return lines
