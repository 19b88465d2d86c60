"""Programs that tests run in another process: full disks, limits on file sizes, and endless writing.

Each prints JSON, one object per line.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from flowbuf.collect.outputs.files import file_output
from flowbuf.collect.outputs.files.file_output import FileOptions, FileOutput
from flowbuf.io import column_file
from tests.collect.outputs.files.batches import Clock, balanced, batch, formats, read_folder, visible

FLOWS = 500
"""Flows per batch."""

LIMIT = 400_000
"""Bytes that are left for files."""


def report(output: FileOutput, error: OSError | None = None) -> None:
    """Print the counts of an output, and the flows that a reader of its folder finds."""
    state: dict[str, Any] = {
        "stored": output.stored,
        "pending": output.pending,
        "lost": dict(output.lost),
        "balanced": balanced(output),
        "errno": error.errno if error else None,
        "visible": read_folder(Path(output.name)),
    }
    print(json.dumps(state), flush=True)


def write_until_error(output: FileOutput, batches: Any) -> tuple[int, OSError]:
    """Return the number of the batch that failed, and its error."""
    for number in batches:
        try:
            output.write(batch(number * FLOWS, FLOWS))
        except OSError as error:
            return number, error
    raise AssertionError("the disk is not full")


def fill_disk(folder: str, suffix: str) -> None:
    """Fill the disk of a folder, free it, and write on."""
    filler = Path(folder, ".filler")
    output = new_output(folder, suffix)
    with filler.open("wb") as file:
        file.write(bytes((1 << 20) - LIMIT))
    failed, error = write_until_error(output, count())
    report(output, error)
    try:
        output.tick()
    except OSError as error:
        report(output, error)
    filler.unlink()
    output.tick()
    output.write(batch(failed * FLOWS, FLOWS))
    output.write(batch((failed + 1) * FLOWS, FLOWS))
    output.close()
    report(output)


def close_full(folder: str, suffix: str) -> None:
    """Fill the disk of a folder, and close the output, before and after the disk is free."""
    filler = Path(folder, ".filler")
    output = new_output(folder, suffix)
    with filler.open("wb") as file:
        file.write(bytes((1 << 20) - LIMIT))
    _, error = write_until_error(output, count())
    report(output, error)
    try:
        output.close()
    except OSError as error:
        report(output, error)
    filler.unlink()
    output.close()
    report(output)


def limit_size(folder: str, suffix: str) -> None:
    """Reach the limit of a file's size, then raise the limit and write on."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    output = new_output(folder, suffix)
    number = 0
    while not output.lost:
        output.write(batch(number * FLOWS, FLOWS))
        number += 1
    report(output)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    output.write(batch(number * FLOWS, FLOWS))
    output.close()
    report(output)


def write_forever(folder: str, suffix: str) -> None:
    """Write spool entries until the process is killed, and print the number of stored flows."""
    output = new_output(folder, suffix, FileOptions(rotate_bytes=50_000, spool="ab12"))
    for number in count():
        output.write(batch(number * FLOWS, FLOWS), number)
        print(output.stored, flush=True)


def keep_oldest(folder: str, suffix: str) -> None:
    """Store five files, and run the retention while the oldest two cannot be deleted."""
    options = FileOptions(rotate_bytes=1, keep_bytes=1)
    reports: list[str] = []
    output = new_output(folder, suffix, options, on_problem=reports.append)
    for number in range(5):
        output.write(batch(2 * number * FLOWS, 2 * FLOWS))
    for path in sorted(visible(Path(folder)))[:2]:
        subprocess.run(["mount", "--bind", path, path], check=True)
    output.tick()
    report(output)
    print(json.dumps(reports))


def new_output(folder: str, suffix: str, options: FileOptions | None = None, **more: Any) -> FileOutput:
    format = next(format for format in formats() if format.suffix == suffix)
    return FileOutput(folder, format, options, clock=Clock(), **more)


PROGRAMS: dict[str, Callable[[str, str], None]] = {
    program.__name__: program for program in (fill_disk, close_full, limit_size, keep_oldest, write_forever)
}

if __name__ == "__main__":
    column_file.GROUP_ROWS = 1000
    file_output.SAVE_BYTES = 1
    name, *arguments = sys.argv[1:]
    PROGRAMS[name](*arguments)
