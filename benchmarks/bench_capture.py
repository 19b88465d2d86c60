"""A whole capture, `flowbuf encode big.pcap -o x.pb`, from the start of the process to its end, beside
reading and writing the same octets and nothing else:

    python -m benchmarks.bench_capture --protocol netflow9 --flows 5000000 --folder /dev/shm

Whatever else turns a whole capture into something (`CONTESTANTS`) is run in turn with it, as often.
`--stages` says where the time of flowbuf goes.
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
    "netflow (parse alone)": lambda capture, _: (
        sys.executable,
        str(PEERS / "whole_capture.py"),
        str(capture),
    ),
}
"""Name -> the command line that makes `output` of `capture`, or as much of it as the peer can. nfdump is not
here: as Debian builds it, it reads no captures; `flowbuf bench` measures it, fed by UDP.
"""


@dataclass
class Times:
    """Seconds, a run each."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, work: Callable[[], object]) -> None:
        """Times one run; CPU time is that of this process and of those that it waits for."""
        wall, cpu = time.perf_counter(), _cpu_time()
        work()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(_cpu_time() - cpu)


def _cpu_time() -> float:
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def copy_alone(capture: Path, output: Path, size: int) -> None:
    """Reads a file and writes `size` octets to another, in large blocks, without even starting a process."""
    block = memoryview(bytearray(BLOCK))
    with open(capture, "rb", buffering=0) as file:
        while file.readinto(block):
            pass
    with open(output, "wb", buffering=0) as file:
        while size:
            size -= file.write(block[: min(size, BLOCK)])


def measure(capture: Path, output: Path, runs: int) -> tuple[dict[str, Times], int]:
    """The times of all contestants, in turn; and the octets that flowbuf writes."""
    commands = {name: make(capture, output) for name, make in CONTESTANTS.items()}
    for name in list(commands):  # not timed: what it needs is in memory then
        done = subprocess.run(commands[name], capture_output=True, text=True)
        if done.returncode and name == "flowbuf":
            raise SystemExit(done.stderr)
        if done.returncode:
            print(f"left out: {name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
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
    """Seconds of each thing that `flowbuf encode` does, one run; starting is what a capture of one flow
    takes.
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


def print_table(times: dict[str, Times], flows: int, octets: int) -> None:
    """A line for each contestant; `of alone` is its speed in that of reading and writing alone, by the clock
    and by CPU time. Where a machine has other work, only CPU time says something.
    """
    alone = times[ALONE]
    print(
        f"{'':22} {'seconds (least to most)':>24} {'CPU':>7} {'M flows/s':>10} {'MB/s':>7} {'of alone':>9} {'CPU':>5}"
    )
    for name, each in times.items():
        wall, cpu = statistics.median(each.wall), statistics.median(each.cpu)
        spread = f"{wall:.3f} ({min(each.wall):.3f} to {max(each.wall):.3f})"
        rates = f"{flows / wall / 1e6:10.2f} {octets / wall / 1e6:7,.0f}"
        shares = f"{statistics.median(alone.wall) / wall:9.2f} {statistics.median(alone.cpu) / cpu:5.2f}"
        print(f"{name:22} {spread:>24} {cpu:7.3f} {rates} {shares}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--protocol", default="netflow9", choices=("netflow5", "netflow9", "ipfix", "sflow"))
    parser.add_argument("--flows", type=int, default=5_000_000, metavar="N")
    parser.add_argument("--runs", type=int, default=7, metavar="N")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="For the files; memory (tmpfs) is best.")
    parser.add_argument("--stages", action="store_true", help="Say where the time of flowbuf goes.")
    parser.add_argument("--json", action="store_true")
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
            "octets_read": read,
            "octets_written": written,
        },
        "runs": {name: {"wall": each.wall, "cpu": each.cpu} for name, each in times.items()},
        **({"stages": stages} if stages else {}),
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"{options.protocol}, {options.flows:,} flows: {read:,} octets to read, {written:,} to write\n")
    print_table(times, options.flows, read + written)
    if stages:
        print("\nWhere the time of flowbuf goes, one run:")
    for stage, seconds in stages.items():
        print(f"{stage:22} {seconds:8.3f} s {seconds / options.flows * 1e9:8.1f} ns a flow")


if __name__ == "__main__":
    main()
