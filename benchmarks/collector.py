"""Measure `flowbuf collect` beside bare socket loops and other collectors, over the loopback interface.

    python benchmarks/collector.py                                 all parts: about two hours
    python benchmarks/collector.py --only overhead,loss            some parts
    python benchmarks/collector.py --only memory --seconds 600     a shorter part
    python benchmarks/collector.py --quick                         try everything in two minutes
    python benchmarks/collector.py --show                          write report and chart again

The sender and the collector have a processor each. Results of parts are added to FILE.json; results of other
parts in the file stay. The report (FILE.md) and the chart (FILE.svg) show all parts of the file.

Each part checks its sums: sent = received + kernel drops, and the flows of each output. The exit status is 1
if a sum is wrong or a part fails. Times and losses do not change the exit status.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.collecting.comparison import measure_comparison
from benchmarks.collecting.continuity import measure_handover, measure_pause
from benchmarks.collecting.loss import measure_loss
from benchmarks.collecting.memory import measure_memory
from benchmarks.collecting.outputs import measure_outputs
from benchmarks.collecting.overhead import measure_overhead
from benchmarks.collecting.overload import measure_overload
from benchmarks.collecting.report import make_report
from benchmarks.collecting.setting import Absent, Failed, Setting, WrongSum, choose_processors
from benchmarks.machine import find_machine

RESULTS = Path("build/collector.json")

PARTS: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "overhead": measure_overhead,
    "loss": measure_loss,
    "overload": measure_overload,
    "outputs": measure_outputs,
    "comparison": measure_comparison,
    "memory": measure_memory,
    "pause": measure_pause,
    "handover": measure_handover,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. Exit status 2: the command line is wrong, or a requirement is missing."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    path: Path = given.results
    failed = False
    if not given.show:
        failed = measure_parts(parser, given)
    try:
        results = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"collector.py: {path}: {error}")
    report = make_report(results)
    path.with_suffix(".md").write_text(report)
    draw(results, path.with_suffix(".svg"))
    print(report)
    sys.exit(1 if failed else 0)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/collector.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", default=",".join(PARTS), metavar="A,B", help=f"measure these parts [{','.join(PARTS)}]"
    )
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="duration of each timed run [the duration of its part]"
    )
    parser.add_argument("--quick", action="store_true", help="measure briefly; the results have no meaning")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FILE.json", help=f"add the results here [{RESULTS}]"
    )
    parser.add_argument("--show", action="store_true", help="measure nothing; write report and chart again")
    return parser


def measure_parts(parser: argparse.ArgumentParser, given: argparse.Namespace) -> bool:
    """Measure the parts, and add each to the results. Return True if one failed."""
    names = given.only.split(",")
    if unknown := set(names) - PARTS.keys():
        parser.error(f"{', '.join(sorted(unknown))} is no part; the parts are {', '.join(PARTS)}")
    if not sys.platform.startswith("linux") or not shutil.which("taskset"):
        parser.error("this needs Linux and taskset: apt install util-linux")
    try:
        sender, collector = choose_processors()
    except Absent as error:
        parser.error(str(error))
    os.sched_setaffinity(0, {sender})
    given.results.parent.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in names:
        with tempfile.TemporaryDirectory(prefix="flowbuf-collector-") as folder:
            setting = Setting(Path(folder), sender, collector, given.seconds, given.quick, show)
            part = measure_part(PARTS[name], setting)
        failed |= "failed" in part
        add_part(given.results, name, part)
    return failed


def show(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure_part(measure: Callable[[Setting], dict[str, Any]], setting: Setting) -> dict[str, Any]:
    """Return the results of a part, or the reason of its failure or absence."""
    begin = time.monotonic()
    part: dict[str, Any] = {"machine": find_machine(), "quick": setting.quick}
    try:
        part |= measure(setting)
    except Absent as error:
        part["absent"] = str(error)
    except (Failed, WrongSum, OSError) as error:
        part["failed"] = f"{type(error).__name__}: {error}"
        show(part["failed"])
    return {**part, "took": round(time.monotonic() - begin, 1)}


def add_part(path: Path, name: str, part: dict[str, Any]) -> None:
    """Add a part to a file of results. Other parts in it stay."""
    results = json.loads(path.read_text()) if path.exists() else {}
    results[name] = part
    ordered = {each: results[each] for each in PARTS if each in results}
    new = path.with_suffix(".new")
    new.write_text(json.dumps(ordered, indent=1) + "\n")
    new.replace(path)


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw the chart, if matplotlib is installed."""
    try:
        from benchmarks.collecting.chart import draw_chart
    except ImportError as error:
        show(f"no chart: {error}; pip install matplotlib pandas")
        return
    draw_chart(results, path)


if __name__ == "__main__":
    main()
