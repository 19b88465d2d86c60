"""Open output files and standard streams. In Python, a closed standard stream is None."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import click

from flowbuf.cli.options import Choice, UsageProblem
from flowbuf.cli.output.failure import describe_os_error
from flowbuf.io.output_file import OutputFile

__all__ = [
    *("COLUMN_FORMATS", "check_overwrite", "check_spreadsheet", "default_format", "format_of"),
    *("force_option", "format_option", "is_terminal"),
    *(
        "open_errors",
        "open_output",
        "output_option",
        "print_text",
        "refuse_terminal",
        "spreadsheet_option",
        "standard_output",
    ),
]

COLUMN_FORMATS = ("parquet", "arrow")
FORMATS = ("table", "jsonl", "csv", *COLUMN_FORMATS)
SUFFIXES = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **{".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"},
}


def is_terminal(stream: IO[Any] | None) -> bool:
    """Return True if a standard stream is a terminal."""
    return stream is not None and stream.isatty()


@contextmanager
def standard_output() -> Iterator[None]:
    """Guard printing inside the block.

    Raise UsageProblem if standard output is closed. Set the file name of an OSError to `<stdout>`.
    """
    if sys.stdout is None:
        raise UsageProblem("<stdout>: the stream is closed")
    try:
        yield
    except OSError as error:
        error.filename = "<stdout>"
        raise


def print_text(text: str, end: str = "\n") -> None:
    """Print on standard output."""
    with standard_output():
        click.echo(text + end, nl=False)


def format_option(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --format to a command, which receives it as `form`.

    None means `default_format`. `what` is part of the help text.
    """
    return click.option(
        "-f",
        "--format",
        "form",
        type=Choice(FORMATS),
        help=f"Write {what} in this format.  "
        "[default: by the ending of OUT (.jsonl, .csv, .parquet, .arrow); for stdout, table on a terminal, "
        "jsonl in a pipe]",
    )


output_option = click.option(
    "-o",
    "--output",
    default="-",
    metavar="OUT",
    help="Write to OUT; .gz, .zst compress; - is stdout.  [default: -]",
)

force_option = click.option(
    "--force",
    is_flag=True,
    help="Replace OUT if it exists. Needed only on a terminal; pipelines always replace it.",
)


def check_overwrite(force: bool, *paths: str) -> None:
    """Raise UsageProblem for a file that would be replaced on a terminal, unless `force` allows it.

    A terminal means that standard input, output and error are all terminals. Otherwise files are replaced.
    """
    if force or not all(map(is_terminal, (sys.stdin, sys.stdout, sys.stderr))):
        return
    for path in paths:
        if path != "-" and os.path.isfile(path):
            raise UsageProblem(f"{path}: exists already; replace it with --force, or name another file")


spreadsheet_option = click.option(
    "--spreadsheet", is_flag=True, help="Put ' before texts in CSV that a spreadsheet would read as formulas."
)


def check_spreadsheet(spreadsheet: bool, form: str) -> None:
    """Raise UsageProblem for --spreadsheet in another format."""
    if spreadsheet and form != "csv":
        raise UsageProblem(f"--spreadsheet applies only to csv, not to {form}; leave it out, or use -f csv")


def _ending_of(output: str) -> str:
    """Return the ending of a name, such as .csv, before .gz or .zst."""
    stem, suffix = os.path.splitext(output)
    return os.path.splitext(stem)[1] if suffix in (".gz", ".zst") else suffix


def format_of(output: str) -> str | None:
    """Return the format that the ending of a name stands for, or None."""
    return SUFFIXES.get(_ending_of(output).lower())


def default_format(output: str, folder: bool = False) -> str:
    """Return the format for the name of an output.

    Standard output gets a table on a terminal, else JSON lines. So does a device or a named pipe.

    Args:
        output: Name of the output.
        folder: True if the output may be a folder, which the error then mentions.

    Raises:
        UsageProblem: The name has no ending, or that of no format.
    """
    if output == "-":
        return "table" if is_terminal(sys.stdout) else "jsonl"
    suffix, form = _ending_of(output), format_of(output)
    if form is not None:
        return form
    if not suffix and os.path.exists(output) and not os.path.isfile(output):
        return "jsonl"
    if suffix == ".pb":
        problem = "flowbuf encode writes messages"
    else:
        endings = "the known ones are .jsonl, .csv, .parquet and .arrow"
        problem = (
            f"{suffix} is not the ending of a format; {endings}" if suffix else f"has no ending; {endings}"
        )
    fix = f"choose a format with -f: {', '.join(FORMATS)}"
    place = f"; for a folder, write -o {output}/" if folder and not os.path.splitext(output)[1] else ""
    raise UsageProblem(f"{output}: {problem}; {fix}{place}")


@contextmanager
def open_output(path: str, durable: bool = False) -> Iterator[OutputFile]:
    """Open an output file, `durable` or not.

    Raise UsageProblem if it cannot be opened. Later errors are not errors of the command line and stay
    unchanged.
    """
    with ExitStack() as stack:
        with open_errors():
            file = stack.enter_context(OutputFile(path, durable))
        yield file


def refuse_terminal(file: OutputFile, content: str) -> None:
    """Raise UsageProblem if binary content would be written to a terminal, which would interpret it."""
    if file.is_terminal:
        raise UsageProblem(
            f"{content} cannot be shown on a terminal; name a file with -o FILE, or use a pipe"
        )


@contextmanager
def open_errors() -> Iterator[None]:
    """Convert an OSError inside the block, for a path on the command line, to UsageProblem."""
    try:
        yield
    except OSError as error:
        raise UsageProblem(describe_os_error(error)) from error
