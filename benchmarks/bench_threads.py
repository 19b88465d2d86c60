"""Measure how decoding scales from one thread to two, each with its own decoder.

    python -m benchmarks.bench_threads --protocol netflow9

A speed-up near 2 shows that decoding releases the GIL and that decoders do not block each other. The results
are meaningful only on an idle machine, with `share` near 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
import time
from typing import NamedTuple

from flowbuf import Decoder, _core

BATCH_BYTES = 2_500_000  # bytes of a batch: larger than the L1 and L2 caches


class Run(NamedTuple):
    """Result of a run.

    `speedup` is the wall time of one thread divided by the wall time of two, for the same flows.
    `cpu_per_wall` is the CPU time of two threads per second of wall time. `more_cpu` is the CPU time of two
    threads divided by that of one, for the same flows. `share` is the CPU time of one thread per second of
    wall time.
    """

    speedup: float
    cpu_per_wall: float
    more_cpu: float
    share: float


class Worker:
    """A decoder and its batch of datagrams."""

    def __init__(self, protocol: str) -> None:
        capture = b""
        for piece in _core.generate(protocol=protocol, flows=1_000_000):
            capture += piece
            if len(capture) > BATCH_BYTES:
                break
        self._capture = _core.Capture()
        _, _, self._batch = self._capture.scan(capture, True, 65536)
        self._decoder = Decoder()

    def work(self, passes: int) -> None:
        for _ in range(passes):
            self._decoder.view_datagrams(self._batch).release()


def timed(workers: list[Worker], passes: int) -> tuple[float, float]:
    """Return wall and CPU seconds of all workers, running at once in one thread each."""
    threads = [threading.Thread(target=worker.work, args=(passes,)) for worker in workers]
    wall, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(protocol: str, runs: int, passes: int) -> list[Run]:
    workers = [Worker(protocol), Worker(protocol)]
    timed(workers, 2)  # let buffers grow
    found = []
    for _ in range(runs):
        one_wall, one_cpu = timed(workers[:1], passes)
        wall, cpu = timed(workers, passes)
        found.append(Run(2 * one_wall / wall, cpu / wall, cpu / one_cpu / 2, one_cpu / one_wall))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--protocol",
        default="netflow9",
        choices=("netflow5", "netflow9", "ipfix", "sflow"),
        help="Generate datagrams of this protocol.  [default: netflow9]",
    )
    parser.add_argument("--runs", type=int, default=9, metavar="N", help="Measure N times.  [default: 9]")
    parser.add_argument(
        "--passes", type=int, default=50, metavar="N", help="Decode the batch N times per run.  [default: 50]"
    )
    parser.add_argument("--json", action="store_true", help="Write JSON to standard output.")
    options = parser.parse_args()
    runs = measure(options.protocol, options.runs, options.passes)
    if options.json:
        print(json.dumps({"protocol": options.protocol, "runs": [run._asdict() for run in runs]}))
        return
    print(f"{options.protocol}, {os.cpu_count()} CPUs: median (min to max)")
    for name in Run._fields:
        values = [getattr(run, name) for run in runs]
        print(f"{name:14} {statistics.median(values):6.2f} ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
