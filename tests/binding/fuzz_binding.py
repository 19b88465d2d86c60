"""Fuzz flowbuf through its Python binding. A seeded generator mutates valid inputs.

    python -m tests.binding.fuzz_binding [--family NAME]... [--seconds N] [--seed N]
    python -m tests.binding.fuzz_binding --case FILE

A family is one kind of input (tests/binding/fuzz_families.py). Each family runs in its own process for
`--seconds` of processor time. These are findings:

- a process that dies: a crash, or the report of a sanitizer
- a case that takes more than HANG seconds of processor time, or more than STUCK seconds
- an exception that is not an error of flowbuf
- counters or outputs that contradict each other

The failing case is stored in the folder `--findings` (build/fuzz-binding). `--case` runs it again.
FLOWBUF_CORPUS names a folder of more captures to start from. FUZZ_FAMILIES names another module with
FAMILIES.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HANG = 30  # seconds of processor time for one case
STUCK = 600  # seconds of real time for one case
MAX_PART = 1 << 17
INTERESTING = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    15,
    16,
    31,
    32,
    63,
    64,
    127,
    128,
    254,
    255,
    256,
    1023,
    4095,
    32767,
    32768,
    65534,
)
INTERESTING += (65535, 65536, 2**24 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)

Parts = list[bytes]


def load_families() -> dict[str, Any]:
    """Return the families by name."""
    module = importlib.import_module(os.environ.get("FUZZ_FAMILIES", "tests.binding.fuzz_families"))
    families: dict[str, Any] = module.FAMILIES
    return families


# Mutation ---------------------------------------------------------------------------------------------------


def mutate(parts: Parts, others: Parts, rng: random.Random) -> Parts:
    """Return the input, a list of byte strings, with a few changes."""
    parts = list(parts)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4, 8))):
        kind = rng.random()
        if kind < 0.06 and len(parts) > 1:
            del parts[rng.randrange(len(parts))]
        elif kind < 0.12 and len(parts) < 64:
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(rng.choice((parts, others))))
        elif kind < 0.15:
            rng.shuffle(parts)
        else:
            place = rng.randrange(len(parts))
            parts[place] = mutate_bytes(parts[place], rng.choice(others), rng)
    return parts


def mutate_bytes(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return the byte string with one change."""
    size = len(data)
    begin = min(int(size * rng.random() ** 2), size)  # prefers headers
    length = min(rng.choice((1, 2, 4, 8, 16, rng.randrange(1, 300))), size - begin)
    kind = rng.randrange(9)
    middle = data[begin : begin + length]
    if kind == 0:
        middle = bytes(byte ^ 1 << rng.randrange(8) for byte in middle)
    elif kind == 1:
        middle = rng.randbytes(length)
    elif kind == 2:
        middle = b""
    elif kind == 3:
        middle = middle * rng.choice((2, 2, 3, 10))
    elif kind == 4:
        start = rng.randrange(len(other) + 1)
        middle = other[start : start + rng.randrange(1, 200)]
    elif kind == 5:
        return data[:begin]
    elif kind == 6:
        middle = put_varint(rng.choice(INTERESTING)) + (middle if rng.random() < 0.5 else b"")
    else:
        format = rng.choice((">B", ">H", "<H", ">I", "<I", ">Q", "<Q"))
        room = struct.calcsize(format)
        middle = struct.pack(format, rng.choice(INTERESTING) % (1 << 8 * room))
        length = room
    return (data[:begin] + middle + data[begin + length :])[:MAX_PART]


def put_varint(number: int) -> bytes:
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


# Cases ------------------------------------------------------------------------------------------------------


def to_text(family: str, choice: int, parts: Parts) -> bytes:
    """Return the JSON of a case. `choice` seeds the generator that selects the options of a family."""
    return json.dumps({"family": family, "choice": choice, "parts": [part.hex() for part in parts]}).encode()


def run_case(path: Path) -> None:
    """Run the case in a file. Raise its finding."""
    case = json.loads(path.read_bytes().rstrip(b"\0\n "))
    load_families()[case["family"]].run(
        [bytes.fromhex(part) for part in case["parts"]], random.Random(case["choice"])
    )


class Current:
    """A file with the running case. The case survives the death of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(1 << 24))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._size = 0

    def set(self, case: bytes) -> None:
        self._map[: max(len(case), self._size)] = case.ljust(self._size, b" ")
        self._size = len(case)


def make_cases(family: str, seed: int) -> Iterator[tuple[int, Parts]]:
    """Yield all cases of a seed: the unchanged inputs of the family, then repeated mutations of them."""
    rng = random.Random(f"{family} {seed}")
    pool = load_families()[family].seeds()
    for parts in pool:
        yield rng.getrandbits(32), parts
    while True:
        parts = mutate(rng.choice(pool), rng.choice(pool), rng)
        if rng.random() < 0.02:  # some are mutated again later
            pool[rng.randrange(len(pool))] = parts
            if len(pool) < 2000:
                pool.append(parts)
        yield rng.getrandbits(32), parts


def fuzz(family: str, seconds: float, seed: int, current: Current) -> int:
    """Run cases for this many seconds of processor time and return their number. Raise the first finding."""
    run = load_families()[family].run
    end = time.process_time() + seconds
    count = 0
    for choice, parts in make_cases(family, seed):
        if time.process_time() >= end:
            break
        count += 1
        current.set(to_text(family, choice, parts))
        set_timers(HANG, STUCK)
        run(parts, random.Random(choice))
    set_timers(0, 0)
    return count


def set_timers(processor: float, wall: float) -> None:
    """Set timers whose signals end the process, regardless of the GIL's owner. 0 stops a timer."""
    signal.setitimer(signal.ITIMER_PROF, processor)
    signal.setitimer(signal.ITIMER_REAL, wall)


# Processes --------------------------------------------------------------------------------------------------


def run_child(options: argparse.Namespace, family: str) -> int:
    current = Current(options.findings / f"{family}-{options.seed}.current")
    started = time.monotonic()
    try:
        count = fuzz(family, options.seconds, options.seed, current)
    except Exception:
        set_timers(0, 0)
        traceback.print_exc()
        return 1
    elapsed = time.monotonic() - started
    print(f"{family}: seed {options.seed}: {count:,} cases in {elapsed:.0f} s, no finding", flush=True)
    return 0


def run_family(options: argparse.Namespace, family: str) -> bool:
    """Run a family in a child process. Return True if it had no finding."""
    arguments = [
        "--findings",
        str(options.findings),
        "--seconds",
        str(options.seconds),
        "--seed",
        str(options.seed),
    ]
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.binding.fuzz_binding",
        "--child",
        family,
        *arguments,
    ]
    child = subprocess.run(command, cwd=Path(__file__).parents[2])
    current = options.findings / f"{family}-{options.seed}.current"
    if child.returncode == 0:
        current.unlink()
        return True
    for number in itertools.count():
        case = options.findings / f"{family}-{options.seed}-{number}.case"
        if not case.exists():
            break
    case.write_bytes(current.read_bytes().rstrip(b"\0\n "))
    current.unlink()
    how = f"died with {child.returncode}"
    if child.returncode == 1:
        how = "raised an exception, or a sanitizer ended it"
    elif child.returncode in (-signal.SIGALRM, -signal.SIGPROF):
        how = f"took longer than {HANG} s of processor time, or {STUCK} s"
    print(f"{family}: FINDING: seed {options.seed}: the case {how}", file=sys.stderr)
    print(f"  run it again: python -m tests.binding.fuzz_binding --case {case}", file=sys.stderr, flush=True)
    return False


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzz flowbuf through its Python binding.")
    parser.add_argument(
        "--family", action="append", help="fuzz this kind of input; may be given again  [default: all]"
    )
    parser.add_argument(
        "--seconds", type=float, default=10, help="processor time for each family  [default: 10]"
    )
    parser.add_argument("--seed", type=int, help="seed of the mutations  [default: the time]")
    parser.add_argument(
        "--findings", type=Path, default=Path("build/fuzz-binding"), help="folder for failing cases"
    )
    parser.add_argument("--case", type=Path, help="run the case in this file, and nothing else")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.case:
        run_case(options.case)
        print(f"{options.case}: no finding")
        return 0
    if options.seed is None:
        options.seed = time.time_ns() % 1_000_000_007
    options.findings.mkdir(parents=True, exist_ok=True)
    if options.child:
        with contextlib.suppress(BrokenPipeError):
            return run_child(options, options.child)
        return 1
    known = load_families()
    families = options.family or list(known)
    if unknown := set(families) - set(known):
        print(f"no family {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    print(f"seed {options.seed}", flush=True)
    passed = [run_family(options, family) for family in families]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
