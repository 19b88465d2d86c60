"""A guard against a core that grows slower: instructions a flow, counted under valgrind, the same in every run.

    python benchmarks/instructions.py              count, and compare with instructions.toml
    python benchmarks/instructions.py --update     count, and write instructions.toml

Each dataset is decoded N times and 2N times: the difference is N passes over its flows and nothing else
(ext/bench/count.c). With the compiler and the C library of the file, a count may be 3 % off; one that is better by more
must be written down, or the next loss hides behind it. With others the counts are reported, and nothing fails. What is
counted are the decoders for processors with BMI2; valgrind does not know AVX-512.

Exit status 1: a count is off, or something is missing that FLOWBUF_FORBID_SKIPS says is there.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from core_programs import Failed, build, find_compiler, run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RECORD = Path(__file__).with_suffix(".toml")
DATA = Path(__file__).parent.parent / "tests/data"
DATASETS = ("generated-netflow5", "generated-netflow9", "generated-ipfix", "generated-sflow", "ipfix-variable")
PASSES = 1
BAND = 0.03


class Tools(NamedTuple):
    """What decides how many instructions the same source takes."""

    compiler: str
    libc: str
    machine: str
    processor: str
    """The newest kind of processor whose instructions are counted: "bmi2", "any"."""


class Record(NamedTuple):
    """Counts, by dataset: instructions a flow. `tools` are those that they were taken with."""

    tools: Tools
    counts: dict[str, float]


def find_tools() -> Tools:
    """Those of this machine. Raises Failed."""
    _, _, processor = count_instructions(DATASETS[0], 1)
    return Tools(find_compiler(), " ".join(platform.libc_ver()), platform.machine(), processor)


def count_instructions(name: str, passes: int) -> tuple[int, int, str]:
    """What a run of so many passes over a dataset takes; the flows of one pass; the processor. Raises Failed."""
    programs = build()
    valgrind = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    done = run(*valgrind, programs / "bench/run_count", passes, programs / "flow.plan", DATA / f"{name}.pcap")
    (collected,) = re.findall(r"Collected : (\d+)", done.stderr.decode())
    flows, processor = done.stdout.decode().split()
    return int(collected), int(flows), processor


def count(name: str) -> float:
    """Instructions a flow of a dataset. Raises Failed."""
    once, flows, _ = count_instructions(name, PASSES)
    twice, _, _ = count_instructions(name, 2 * PASSES)
    return round((twice - once) / (PASSES * flows), 1)


def read_record(path: Path) -> Record:
    content = tomllib.loads(path.read_text())
    return Record(Tools(**{key: content[key] for key in Tools._fields}), content["instructions"])


def write_record(path: Path, record: Record) -> None:
    lines = ["# Instructions a flow: benchmarks/instructions.py counts them, --update writes this file.", ""]
    lines += [f'{key} = "{value}"' for key, value in record.tools._asdict().items()]
    lines += ["", "[instructions]"]
    lines += [f"{name} = {instructions}" for name, instructions in record.counts.items()]
    path.write_text("\n".join(lines) + "\n")


def judge(counted: float, expected: float) -> str:
    """What is wrong with a count; nothing where it is within the band."""
    if counted > expected * (1 + BAND):
        return "too many: find out why (valgrind --tool=callgrind), or --update and say why in the commit"
    if counted < expected * (1 - BAND):
        return "fewer: --update the file, so that they stay so"
    return ""


def compare(record: Record, now: Record) -> tuple[list[str], bool]:
    """What is to be said of the counts of this machine, and whether they are as they should be."""
    binding, right = record.tools == now.tools, True
    lines = [] if binding else [f"not judged: the file is of {', '.join(record.tools)}, this is {', '.join(now.tools)}"]
    for name in dict.fromkeys((*record.counts, *now.counts)):
        if name not in record.counts or name not in now.counts:
            lines.append(f"{name:20} is {'not counted' if name in record.counts else 'not in the file: --update it'}")
            right = False
            continue
        counted, expected = now.counts[name], record.counts[name]
        verdict = judge(counted, expected) if binding else ""
        change = f"{counted / expected - 1:+7.1%}"
        lines.append(f"{name:20} {counted:9,.1f} instructions a flow {change}  {verdict}".rstrip())
        right &= not verdict
    return lines, right


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="write the file instead of comparing with it")
    parser.add_argument("--record", type=Path, default=RECORD, help="the file (default: beside this program)")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: instructions are not counted")
        return int(bool(os.environ.get("FLOWBUF_FORBID_SKIPS")))
    try:
        now = Record(find_tools(), {name: count(name) for name in DATASETS})
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    if options.update:
        write_record(options.record, now)
    lines, right = compare(read_record(options.record), now)
    print("\n".join(lines))
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
