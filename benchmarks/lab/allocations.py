"""Count the allocations and the peak memory of a format, including libraries in C and Rust.

A counter in front of glibc's allocator (`allocations.c`) runs in a separate process. Its Python allocates all
objects there (PYTHONMALLOC=malloc). Objects that Python reuses, such as its free list of floats, are not
counted again.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from . import FAMILIES, select_formats
from .families import Family
from .formats import Format
from .timing import make_pass

__all__ = ["Allocations", "cannot_count", "count_allocations"]

SOURCE = Path(__file__).with_name("allocations.c")
Counts = dict[str, "Allocations"]


class Allocations(NamedTuple):
    """Allocations of a format.

    `calls` is the number of allocator calls per record. `peak` is the peak memory of a pass in bytes, of one
    record or one batch, including its result.
    """

    calls: float
    peak: int


def cannot_count() -> str | None:
    """Return why this machine cannot count allocations. None if it can."""
    if not sys.platform.startswith("linux"):
        return "allocations are counted on Linux only"
    return None if shutil.which("cc") else "counting allocations needs a C compiler (cc)"


def count_allocations(family: Family, direction: str, count: int, formats: Sequence[Format]) -> Counts:
    """Return the allocations of each installed format, with `count` records at once.

    Raises CalledProcessError if the counter cannot be built or loaded.
    """
    names = [form.name for form in formats if form.absent() is None]
    arguments = ["-m", "benchmarks.lab.allocations", family.name, direction, str(count), ",".join(names)]
    return {name: Allocations(*found) for name, found in json.loads(run_counted(arguments)).items()}


def run_counted(arguments: Sequence[str]) -> bytes:
    """Run Python with the counter loaded and return its output. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/allocations.so"
        subprocess.run(["cc", "-O2", "-fno-builtin", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        place = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
        environment = {**os.environ, "LD_PRELOAD": library, "PYTHONMALLOC": "malloc", "PYTHONPATH": place}
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, check=True, stdout=subprocess.PIPE
        )
    return done.stdout


# In the process that is counted -----------------------------------------------------------------------------


def count_here(run: Callable[[], None]) -> tuple[int, int]:
    """Return allocator calls and peak memory of one run, after three runs that warm up."""
    counter = ctypes.CDLL(None)
    counter.lab_calls.restype = counter.lab_peak.restype = ctypes.c_longlong
    reset, read_calls, read_peak = counter.lab_reset, counter.lab_calls, counter.lab_peak
    for _ in range(3):
        run()
    reset()
    run()
    return read_calls(), read_peak()


def main(family_name: str, direction: str, count: str, names: str) -> None:
    family, own = FAMILIES[family_name], count_here(lambda: None)
    results = {}
    for form in select_formats(names):
        run, records, _ = make_pass(form.open(family), family, direction, int(count))
        calls, peak = count_here(run)
        results[form.name] = (round((calls - own[0]) / records, 3), peak - own[1])
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
