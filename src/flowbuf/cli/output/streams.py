"""Where a command writes to: files, and the standard streams. Python has None for a standard stream that is closed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import click

from flowbuf.cli.options import UsageProblem
from flowbuf.io.output_file import OutputFile

__all__ = [
    *("COLUMN_FORMATS", "check_overwrite", "check_spreadsheet", "default_format", "describe_os_error"),
    *("force_option", "format_option", "is_terminal"),
    *("open_errors", "open_output", "print_text", "refuse_terminal", "spreadsheet_option", "standard_output"),
]

COLUMN_FORMATS = ("parquet", "arrow")
FORMATS = ("table", "jsonl", "csv", *COLUMN_FORMATS)
SUFFIXES = {
    **dict.fromkeys(("", ".jsonl", ".ndjson", ".json", ".txt", ".log"), "jsonl"),
    **{".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"},
}


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether somebody looks at a standard stream."""
    return stream is not None and stream.isatty()


@contextmanager
def standard_output() -> Iterator[None]:
    """For what is printed inside. Raises UsageProblem where standard output is closed; an OSError gets its name."""
    if sys.stdout is None:
        raise UsageProblem("<stdout>: it is closed")
    try:
        yield
    except OSError as error:
        error.filename = "<stdout>"
        raise


def print_text(text: str, end: str = "\n") -> None:
    """Prints on standard output."""
    with standard_output():
        click.echo(text + end, nl=False)


def format_option(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command --format; it gets it as `form`, None where `default_format` says it. `what` is shown in it."""
    return click.option(
        "-f",
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help=f"How to show {what}.  [default: as OUT is called; else table on a terminal, jsonl in a pipe]",
    )


force_option = click.option(
    "--force", is_flag=True, help="Replace OUT if it exists. Needed only on a terminal; pipelines always replace it."
)


def check_overwrite(force: bool, *paths: str) -> None:
    """Raise UsageProblem for a file that would be replaced on a terminal, unless `force` allows it.

    A terminal means that standard input, output and error are all terminals. Otherwise files are replaced.
    """
    if force or not all(map(is_terminal, (sys.stdin, sys.stdout, sys.stderr))):
        return
    for path in paths:
        if path != "-" and os.path.isfile(path):
            raise UsageProblem(f"{path}: exists already; give --force to replace it, or name another file")


spreadsheet_option = click.option(
    "--spreadsheet", is_flag=True, help="In CSV, put ' before texts that a spreadsheet would take for formulas."
)


def check_spreadsheet(spreadsheet: bool, form: str) -> None:
    """Raise UsageProblem for --spreadsheet in another format."""
    if spreadsheet and form != "csv":
        raise UsageProblem(f"--spreadsheet is for csv, and the format is {form}; leave it out, or give -f csv")


def default_format(output: str) -> str:
    """The format that the name of an output asks for; a table is for people. Raises UsageProblem for a name that asks
    for none of them."""
    if output == "-":
        return "table" if is_terminal(sys.stdout) else "jsonl"
    stem, suffix = os.path.splitext(output)
    if suffix in (".gz", ".zst"):
        suffix = os.path.splitext(stem)[1]
    form = SUFFIXES.get(suffix.lower())
    if form is None:
        no_format = "messages are written by flowbuf encode" if suffix == ".pb" else f"{suffix} is no format"
        raise UsageProblem(f"{output}: {no_format}; give the format with -f: {', '.join(FORMATS)}")
    return form


@contextmanager
def open_output(path: str, durable: bool = False) -> Iterator[OutputFile]:
    """An output file, `durable` or not. Raises UsageProblem where it cannot be opened; what goes wrong later is not
    about the command line."""
    with ExitStack() as stack:
        with open_errors():
            file = stack.enter_context(OutputFile(path, durable))
        yield file


def refuse_terminal(file: OutputFile, content: str) -> None:
    """Raise UsageProblem where binary content would be written to a terminal, which would obey it."""
    if file.is_terminal:
        raise UsageProblem(f"{content} cannot be shown on a terminal; give -o FILE, or a pipe")


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
