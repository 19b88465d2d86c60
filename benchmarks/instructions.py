"""Count instructions per flow and per object under valgrind, to detect slower code.

    python -m benchmarks.instructions              count, and compare with instructions.toml
    python -m benchmarks.instructions --update     count, and write instructions.toml

Each dataset is decoded N times and 2N times. The difference is N passes over its flows (ext/bench/count.c).
The objects of each codec are encoded and decoded the same way (codec_passes.py), in this Python.

Counts are compared if compiler and C library are those of the file, and for codecs also the Python version. A
count may then differ by 3 %. A count that is lower by more must be recorded, because it would hide a later
increase. With other versions, the counts are only reported. The decoders for processors with BMI2 are
counted, because valgrind does not support AVX-512.

Exit status 1: a count differs, counting fails, or valgrind is missing and FLOWBUF_FORBID_SKIPS is set.
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
    """Versions and processor that determine the number of instructions for the same source."""

    compiler: str
    libc: str
    machine: str
    processor: str
    """Newest kind of processor that the counted code uses: "bmi2" or "any"."""
    python: str
    """Python version. It affects codecs only, because most of their instructions are Python's."""

    def decide(self, name: str, other: Tools) -> bool:
        """Return True if counts of this name must be the same with the other tools."""
        return self == other if name in CODECS else self[:-1] == other[:-1]


class Record(NamedTuple):
    """Instructions per flow or per object, by dataset and codec, and the tools they were counted with."""

    tools: Tools
    counts: dict[str, float]


def find_tools() -> Tools:
    """Return the tools of this machine. Raises Failed."""
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
    """Return `decoding_capture` for a dataset."""
    return decoding_capture(DATA / f"{name}.pcap", passes)


def decoding_capture(capture: Path, passes: int) -> tuple[object, ...]:
    """Return a command that decodes a capture and prints its flows and the processor. Raises Failed."""
    programs = build()
    return programs / "bench/run_count", passes, programs / "flow.plan", capture


def using_codec(name: str, passes: int) -> tuple[object, ...]:
    return sys.executable, "-m", "benchmarks.codec_passes", *name.split("-"), passes


def count_instructions(*command: object) -> tuple[int, str]:
    """Return the instructions of a program and its output. Raises Failed."""
    done = run("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command)
    (collected,) = re.findall(r"Collected : (\d+)", done.stderr.decode())
    return int(collected), done.stdout.decode()


def count(name: str) -> float:
    """Return instructions per flow of a dataset or per object of a codec. Raises Failed."""
    command = using_codec if name in CODECS else decoding
    if name in CODECS:
        run(*command(name, 1))  # the first run of Python may also compile modules and store their bytecode
    once, output = count_instructions(*command(name, PASSES))
    twice, _ = count_instructions(*command(name, 2 * PASSES))
    items = DISTINCT if name in CODECS else int(output.split()[0])
    return round((twice - once) / (PASSES * items), 1)


def take() -> Record:
    """Return all counts of this machine. Parallel runs do not change them. Raises Failed."""
    tools, names = find_tools(), (*DATASETS, *CODECS)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return Record(tools, dict(zip(names, pool.map(count, names), strict=True)))


def read_record(path: Path) -> Record:
    content = tomllib.loads(path.read_text())
    return Record(Tools(**{key: content[key] for key in Tools._fields}), content["instructions"])


def write_record(path: Path, record: Record) -> None:
    lines = [
        "# Instructions per flow or per object. Written by: python -m benchmarks.instructions --update",
        "",
    ]
    lines += [f'{key} = "{value}"' for key, value in record.tools._asdict().items()]
    lines += ["", "[instructions]"]
    lines += [f"{name} = {instructions}" for name, instructions in record.counts.items()]
    path.write_text("\n".join(lines) + "\n")


def judge(counted: float, expected: float) -> str:
    """Return the problem of a count, or "" if it is within the band."""
    if counted > expected * (1 + BAND):
        return (
            "too many; find the cause (valgrind --tool=callgrind), or --update the file and commit the reason"
        )
    if counted < expected * (1 - BAND):
        return "fewer; --update the file"
    return ""


def compare(record: Record, now: Record) -> tuple[list[str], bool]:
    """Return a report of the counts of this machine, and True if all of them are as expected."""
    lines, right = [], True
    if record.tools != now.tools:
        lines.append(f"the file was counted with {', '.join(record.tools)}; this is {', '.join(now.tools)}")
    for name in dict.fromkeys((*record.counts, *now.counts)):
        if name not in record.counts or name not in now.counts:
            lines.append(
                f"{name:20} is {'not counted' if name in record.counts else 'not in the file; --update it'}"
            )
            right = False
            continue
        counted, expected = now.counts[name], record.counts[name]
        judged = record.tools.decide(name, now.tools)
        verdict = judge(counted, expected) if judged else ""
        change = f"{counted / expected - 1:+7.1%}"
        unit = "object" if name in CODECS else "flow"
        told = verdict if judged else "not compared"
        lines.append(f"{name:20} {counted:9,.1f} instructions per {unit:6} {change}  {told}".rstrip())
        right &= not verdict
    return lines, right


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="write the counts to the file")
    parser.add_argument(
        "--record", type=Path, default=RECORD, help="file of counts (default: instructions.toml)"
    )
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        print("valgrind is not installed; instructions are not counted")
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
