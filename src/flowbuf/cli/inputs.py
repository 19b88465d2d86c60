"""Check the input files of a command before any work, and detect their formats."""

from __future__ import annotations

import glob
import itertools
import os
import shlex
import stat
import sys
from collections.abc import Sequence

import click

from flowbuf.cli.options import UsageProblem, schema_errors
from flowbuf.io.capture import MESSAGE_SUFFIXES, START_SIZE, is_capture
from flowbuf.io.input_stream import Content
from flowbuf.io.output_file import would_replace
from flowbuf.io.proto_file import find_proto, read_proto
from flowbuf.schema import Schema

__all__ = ["check_inputs", "expand_inputs", "holds_messages", "is_chosen", "shown_schema", "total_size"]

ENDINGS = (
    *(".pcap", ".pcap.gz", ".pcap.zst", ".pcapng", ".pcapng.gz", ".pcapng.zst", ".parquet"),
    *MESSAGE_SUFFIXES,
)
"""Usual endings of inputs."""
MAX_NAMES = 1000
"""Largest number of names that an error looks at."""


def expand_inputs(paths: Sequence[str]) -> tuple[str, ...]:
    """Replace patterns (`*`, `?`, `[…]`, and `**` for any folders) by the files that match, sorted.

    The name of an existing file is not a pattern. Raise UsageProblem if no file matches.
    """
    expanded: list[str] = []
    for path in paths:
        if path == "-" or not glob.has_magic(path) or os.path.lexists(path):
            expanded.append(path)
            continue
        found = sorted(name for name in glob.glob(path, recursive=True) if not os.path.isdir(name))
        if not found:
            raise UsageProblem(f"{path}: no file matches this pattern")
        expanded += found
    return tuple(expanded)


def check_inputs(paths: Sequence[str], output: str | None = None) -> None:
    """Raise UsageProblem for the first path that cannot be read, or that the output would replace."""
    if paths.count("-") > 1:
        raise UsageProblem("standard input is given twice; give - once")
    for path in paths:
        if path == "-":
            if sys.stdin is None:
                raise UsageProblem("<stdin>: the stream is closed")
            continue
        try:
            status = os.stat(path)
        except OSError as error:
            raise UsageProblem(f"{path}: {error.strerror}") from error
        if stat.S_ISDIR(status.st_mode):
            raise UsageProblem(f"{path}: is a directory; write {_make_pattern(path)}")
        if not os.access(path, os.R_OK):
            raise UsageProblem(f"{path}: Permission denied")
        if output and would_replace(output, path):
            raise UsageProblem(f"{output}: is an input too; write to another file")


def _make_pattern(folder: str) -> str:
    """Return a pattern, quoted for the shell, for the captures or other inputs below a folder."""
    names = itertools.islice((name for _, _, names in os.walk(folder) for name in names), MAX_NAMES)
    ending = next((ending for name in names for ending in ENDINGS if name.endswith(ending)), ENDINGS[0])
    return shlex.quote(os.path.join(folder, "**", f"*{ending}"))


def total_size(paths: Sequence[str]) -> int | None:
    """Return the size of all files in bytes, or None if the size of one is unknown."""
    sizes = [_size(path) for path in paths]
    return None if None in sizes else sum(filter(None, sizes))


def _size(path: str) -> int | None:
    if path == "-":
        return None
    status = os.stat(path)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def holds_messages(path: str, content: Content) -> bool:
    """Return True if an input is a message stream, False if it is a capture.

    Messages have no magic number. A file that is not a capture is a message stream if its name or a .proto
    beside it shows that, even if it is empty. On standard input, nonempty data that is not a capture is a
    message stream.
    """
    start = content.peek(START_SIZE)
    named = path != "-" and (path.endswith(MESSAGE_SUFFIXES) or find_proto(path) is not None)
    if is_capture(start, MESSAGE_SUFFIXES[0] if named else ""):
        return False
    return bool(start) if path == "-" else named


def shown_schema(schema: Schema, inputs: Sequence[str], chosen: bool) -> Schema:
    """Return the schema with the columns to show enabled.

    These are the columns that the user chose. Without a choice, they are the columns of each stream's .proto,
    and the enabled columns of the schema for inputs without a .proto.
    """
    protos = [find_proto(path) for path in inputs if path != "-"]
    with schema_errors():
        schema.require_flat("a table")
        described = [read_proto(proto, schema) for proto in protos if proto]
        if chosen or not described:
            return schema
        shown = described if len(described) == len(inputs) else [*described, schema]
        return schema.only(*(column.name for each in shown for column in each.enabled))


def is_chosen() -> bool:
    """Return True if the user has chosen columns."""
    return any(click.get_current_context().params[option] for option in ("only", "enable", "disable"))
