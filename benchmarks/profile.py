"""Show how many instructions each part of the core takes per flow.

    python -m benchmarks.profile [CAPTURE]...

The parts are the folders of ext/core. The result is a table in Markdown. It needs valgrind and a C compiler.
Without a CAPTURE, the captures of tests/data that `benchmarks.instructions` counts are used. The decoder is
that for processors with BMI2, because valgrind does not support AVX-512.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.core_programs import Failed, run
from benchmarks.instructions import DATA, DATASETS, PASSES, decoding_capture

PARTS = ("decode", "packet", "exporter", "emit", "wire", "base")
"""Folders of ext/core, and what remains in `others`."""

INTRINSICS = re.compile(r"intrin\.h$")
"""Files of the compiler. Only the writing of varints uses them."""


def count_by_file(lines: Iterable[str]) -> Counter[str]:
    """Return the instructions of each source file in the output of callgrind, without those of its callees.

    Lines of inlined functions count for the file that has their source.
    """
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    file, of_call = "", False
    for line in lines:
        named = re.match(r"(c?f[lie])=\((\d+)\)(?: (.*))?", line)
        if named:
            if named[3]:
                names[named[2]] = named[3].strip()
            if not named[1].startswith("c"):  # a callee
                file = names[named[2]]
        elif line.startswith("calls="):
            of_call = True  # the next line has the instructions of the callee
        elif re.match(r"[+\-*\d]", line):
            if not of_call:
                counts[file] += int(line.split()[1])
            of_call = False
    return counts


def part_of(file: str) -> str:
    """Return the part of a source file."""
    if INTRINSICS.search(file):
        return "wire"
    found = re.search(r"core/(\w+)/[^/]+$", file)
    return found[1] if found and found[1] in PARTS else "others"


def profile(capture: Path, folder: Path) -> dict[str, float]:
    """Return the instructions per flow of each part. Raises Failed."""
    totals: list[Counter[str]] = []
    flows = 0
    for passes in (PASSES, 2 * PASSES):
        output = folder / f"callgrind.{passes}"
        command = decoding_capture(capture, passes)
        done = run("valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", *command)
        flows = int(done.stdout.split()[0])
        by_part: Counter[str] = Counter()
        with open(output) as file:
            for name, count in count_by_file(file).items():
                by_part[part_of(name)] += count
        totals.append(by_part)
    once, twice = totals
    return {part: (twice[part] - once[part]) / (PASSES * flows) for part in (*PARTS, "others")}


def render(profiles: dict[str, dict[str, float]]) -> list[str]:
    """Return the lines of a table."""
    lines = [f"| part | {' | '.join(profiles)} |", f"|---|{'--:|' * len(profiles)}"]
    for part in (*PARTS, "others"):
        counts = [f"{each[part]:,.0f}" for each in profiles.values()]
        lines.append(f"| `{part}` | {' | '.join(counts)} |")
    sums = [f"{sum(each.values()):,.0f}" for each in profiles.values()]
    return [*lines, f"| all | {' | '.join(sums)} |"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("captures", nargs="*", type=Path, metavar="CAPTURE")
    options = parser.parse_args()
    captures = options.captures or [DATA / f"{name}.pcap" for name in DATASETS]
    try:
        with TemporaryDirectory() as folder:
            profiles = {capture.stem: profile(capture, Path(folder)) for capture in captures}
    except Failed as error:
        sys.exit(f"profile: {error}")
    print("\n".join(render(profiles)))


if __name__ == "__main__":
    main()
