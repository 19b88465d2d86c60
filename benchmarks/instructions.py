"""A guard against a core that grows slower: instructions a flow or a record, under valgrind the same in every
run.

    python -m benchmarks.instructions              count, and compare with instructions.toml
    python -m benchmarks.instructions --update     count, and write instructions.toml

Each dataset is decoded N times and 2N times: the difference is N passes over its flows and nothing else
(ext/bench/count.c); so are the records of each codec encoded and decoded (codec_passes.py), in this Python.
With the compiler and the C library of the file, and for codecs the Python, a count may be 3 % off; one that
is better by more must be written down, or the next loss hides behind it. With others the counts are reported,
and nothing fails. What is counted are the decoders for processors with BMI2; valgrind does not know AVX-512.

Exit status 1: a count is off, or something is missing that FLOWBUF_FORBID_SKIPS says is there.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.core_programs import Failed, build, find_compiler, run
from benchmarks.lab.families import DISTINCT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
RECORD = HERE / "instructions.toml"
DATA = HERE.parent / "tests/data"
DATASETS = (
    "generated-netflow5",
    "generated-netflow9",
    "generated-ipfix",
    "generated-sflow",
    "ipfix-variable",
)
CODECS = ("telemetry-encode", "telemetry-decode", "record-encode", "record-decode")
PASSES = 1
BAND = 0.03


class Tools(NamedTuple):
    """What decides how many instructions the same source takes."""

    compiler: str
    libc: str
    machine: str
    processor: str
    """The newest kind of processor whose instructions are counted: "bmi2", "any"."""
    python: str
    """Of codecs, whose instructions are for the most part Python's."""

    def decide(self, name: str, other: Tools) -> bool:
        """Whether counts of this name are to be the same with the others."""
        return self == other if name in CODECS else self[:-1] == other[:-1]


class Record(NamedTuple):
    """Counts, by dataset and codec: instructions a flow, a record.

    `tools` are those that they were taken with.
    """

    tools: Tools
    counts: dict[str, float]


def find_tools() -> Tools:
    """Those of this machine. Raises Failed."""
    _, output = count_instructions(*decoding(DATASETS[0], 1))
    processor = output.split()[1]
    return Tools(
        find_compiler(),
        " ".join(platform.libc_ver()),
        platform.machine(),
        processor,
        platform.python_version(),
    )


def decoding(name: str, passes: int) -> tuple[object, ...]:
    """A program that decodes a dataset, and says how many flows it has, and the processor. Raises Failed."""
    programs = build()
    return programs / "bench/run_count", passes, programs / "flow.plan", DATA / f"{name}.pcap"


def using_codec(name: str, passes: int) -> tuple[object, ...]:
    return sys.executable, "-m", "benchmarks.codec_passes", *name.split("-"), passes


def count_instructions(*command: object) -> tuple[int, str]:
    """What a program takes, and what it says. Raises Failed."""
    done = run("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command)
    (collected,) = re.findall(r"Collected : (\d+)", done.stderr.decode())
    return int(collected), done.stdout.decode()


def count(name: str) -> float:
    """Instructions a flow of a dataset, or a record of a codec. Raises Failed."""
    command = using_codec if name in CODECS else decoding
    once, output = count_instructions(*command(name, PASSES))
    twice, _ = count_instructions(*command(name, 2 * PASSES))
    items = DISTINCT if name in CODECS else int(output.split()[0])
    return round((twice - once) / (PASSES * items), 1)


def take() -> Record:
    """All counts, of this machine: they are the same side by side. Raises Failed."""
    tools, names = find_tools(), (*DATASETS, *CODECS)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return Record(tools, dict(zip(names, pool.map(count, names), strict=True)))


def read_record(path: Path) -> Record:
    content = tomllib.loads(path.read_text())
    return Record(Tools(**{key: content[key] for key in Tools._fields}), content["instructions"])


def write_record(path: Path, record: Record) -> None:
    lines = [
        "# Instructions a flow, or a record: benchmarks/instructions.py counts them, --update writes this.",
        "",
    ]
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
    lines, right = [], True
    if record.tools != now.tools:
        lines.append(f"the file is of {', '.join(record.tools)}, this is {', '.join(now.tools)}")
    for name in dict.fromkeys((*record.counts, *now.counts)):
        if name not in record.counts or name not in now.counts:
            lines.append(
                f"{name:20} is {'not counted' if name in record.counts else 'not in the file: --update it'}"
            )
            right = False
            continue
        counted, expected = now.counts[name], record.counts[name]
        judged = record.tools.decide(name, now.tools)
        verdict = judge(counted, expected) if judged else ""
        change = f"{counted / expected - 1:+7.1%}"
        unit = "record" if name in CODECS else "flow"
        told = verdict if judged else "not judged"
        lines.append(f"{name:20} {counted:9,.1f} instructions a {unit:6} {change}  {told}".rstrip())
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
        now = take()
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
