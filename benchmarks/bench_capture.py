"""Measure whole runs of `flowbuf encode big.pcap -o x.pb`, including process start and exit.

    python -m benchmarks.bench_capture --protocol netflow9 --flows 5000000 --folder /dev/shm

The baseline reads and writes the same bytes without decoding. All programs of `CONTESTANTS` and the baseline
run in turn, equally often. `--stages` divides flowbuf's time into its stages.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from flowbuf import _core
from flowbuf.decoder import Decoder
from flowbuf.io.capture import WINDOW_SIZE
from flowbuf.io.input_stream import Content

PEERS = Path(__file__).parent / "peers"
FLOWBUF = (sys.executable, "-m", "flowbuf")
BLOCK = 1 << 20
ALONE = "read and write alone"

CONTESTANTS: dict[str, Callable[[Path, Path], tuple[str, ...]]] = {
    "flowbuf": lambda capture, output: (*FLOWBUF, "encode", str(capture), "-o", str(output)),
    "netflow (parse only)": lambda capture, _: (
        sys.executable,
        str(PEERS / "whole_capture.py"),
        str(capture),
    ),
}
"""Name -> command line that decodes `capture`. flowbuf also writes `output`.

nfdump is missing because Debian's build cannot read captures. `flowbuf bench` measures it over UDP.
"""


@dataclass
class Times:
    """Wall time and CPU time of each run, in seconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, work: Callable[[], object]) -> None:
        """Time one run. CPU time includes this process and the children that it waits for."""
        wall, cpu = time.perf_counter(), _cpu_time()
        work()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(_cpu_time() - cpu)


def _cpu_time() -> float:
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def copy_alone(capture: Path, output: Path, size: int) -> None:
    """Read a file and write `size` bytes to another, in large blocks, without starting a process."""
    block = memoryview(bytearray(BLOCK))
    with open(capture, "rb", buffering=0) as file:
        while file.readinto(block):
            pass
    with open(output, "wb", buffering=0) as file:
        while size:
            size -= file.write(block[: min(size, BLOCK)])


def measure(capture: Path, output: Path, runs: int) -> tuple[dict[str, Times], int]:
    """Return the times of all contestants, measured in turn, and the number of bytes that flowbuf writes."""
    commands = {name: make(capture, output) for name, make in CONTESTANTS.items()}
    for name in list(commands):  # an untimed run fills the caches
        done = subprocess.run(commands[name], capture_output=True, text=True)
        if done.returncode and name == "flowbuf":
            raise SystemExit(done.stderr)
        if done.returncode:
            print(f"skipped: {name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            del commands[name]
    size = output.stat().st_size
    times = {name: Times() for name in (*commands, ALONE)}
    for _ in range(runs):
        for name, command in commands.items():
            output.unlink(missing_ok=True)
            times[name].add(
                lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            )  # type: ignore[misc]
        output.unlink(missing_ok=True)
        times[ALONE].add(lambda: copy_alone(capture, output, size))
    output.unlink(missing_ok=True)
    return times, size


def measure_stages(capture: Path, output: Path, folder: Path) -> dict[str, float]:
    """Return the seconds of each stage of `flowbuf encode`, of one run.

    The stage "start and end" is the time of a capture with one flow.
    """
    one = folder / "one.pcap"
    one.write_bytes(b"".join(_core.generate(protocol="netflow5", flows=1)))
    start = Times()
    for _ in range(5):
        start.add(lambda: subprocess.run(CONTESTANTS["flowbuf"](one, output), check=True))
    stages = dict.fromkeys(("start and end", "read", "find datagrams", "decode", "write"), 0.0)
    stages["start and end"] = statistics.median(start.wall)
    then = 0.0

    def lap(stage: str) -> None:
        nonlocal then
        now = time.perf_counter()
        stages[stage] += now - then
        then = now

    scanner, decoder, window = _core.Capture(), Decoder(), memoryview(bytearray(WINDOW_SIZE))
    begin = end = 0
    status = ""
    final = False
    with Content(capture) as content, open(output, "wb", buffering=0) as file:
        then = time.perf_counter()
        while status != "end":
            consumed, status, batch = scanner.scan(window[begin:end], final)
            begin += consumed
            lap("find datagrams")
            with decoder.view_datagrams(batch) as messages:
                lap("decode")
                file.write(messages)
                lap("write")
            if status == "more_input":
                window[: end - begin] = window[begin:end]
                begin, end = 0, end - begin
                count = content.readinto(window[end:])
                end, final = end + count, count == 0
                lap("read")
    return stages


def print_table(times: dict[str, Times], flows: int, size: int) -> None:
    """Print a line for each contestant.

    The last two columns are its speed relative to the baseline, by wall time and by CPU time. On a busy
    machine, only CPU time is meaningful.
    """
    alone = times[ALONE]
    rates = f"{'M flows/s':>10} {'MB/s':>7} {'baseline':>9} {'CPU':>5}"
    print(f"{'':22} {'seconds (min to max)':>24} {'CPU':>7} {rates}")
    for name, each in times.items():
        wall, cpu = statistics.median(each.wall), statistics.median(each.cpu)
        spread = f"{wall:.3f} ({min(each.wall):.3f} to {max(each.wall):.3f})"
        rates = f"{flows / wall / 1e6:10.2f} {size / wall / 1e6:7,.0f}"
        shares = f"{statistics.median(alone.wall) / wall:9.2f} {statistics.median(alone.cpu) / cpu:5.2f}"
        print(f"{name:22} {spread:>24} {cpu:7.3f} {rates} {shares}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--protocol",
        default="netflow9",
        choices=("netflow5", "netflow9", "ipfix", "sflow"),
        help="Generate a capture of this protocol.  [default: netflow9]",
    )
    parser.add_argument(
        "--flows", type=int, default=5_000_000, metavar="N", help="Generate N flows.  [default: 5000000]"
    )
    parser.add_argument("--runs", type=int, default=7, metavar="N", help="Run each N times.  [default: 7]")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="Write the files to DIR; prefer memory (tmpfs)."
    )
    parser.add_argument("--stages", action="store_true", help="Measure the stages of flowbuf too.")
    parser.add_argument("--json", action="store_true", help="Write JSON to standard output.")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="flowbuf-bench-", dir=options.folder) as name:
        folder = Path(name)
        capture, output = folder / "big.pcap", folder / "x.pb"
        with open(capture, "wb") as file:
            file.writelines(_core.generate(protocol=options.protocol, flows=options.flows))
        times, written = measure(capture, output, options.runs)
        stages = measure_stages(capture, output, folder) if options.stages else {}
        read = os.path.getsize(capture)
    result = {
        **{
            "protocol": options.protocol,
            "flows": options.flows,
            "bytes_read": read,
            "bytes_written": written,
        },
        "runs": {name: {"wall": each.wall, "cpu": each.cpu} for name, each in times.items()},
        **({"stages": stages} if stages else {}),
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"{options.protocol}, {options.flows:,} flows: {read:,} bytes to read, {written:,} to write\n")
    print_table(times, options.flows, read + written)
    if stages:
        print("\nStages of flowbuf, one run:")
    for stage, seconds in stages.items():
        print(f"{stage:22} {seconds:8.3f} s {seconds / options.flows * 1e9:8.1f} ns per flow")


if __name__ == "__main__":
    main()
