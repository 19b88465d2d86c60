"""Two threads with a decoder each, beside one thread with one: is the GIL released, and does nothing else
stand between them?

    python -m benchmarks.bench_threads --protocol netflow9

It says how much faster two are than one by the clock, and how much CPU time they get in a second. On a
machine that has other work neither says anything: `share` should be near 1, and no processor be taken.
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

OCTETS = 2_500_000  # of a batch: more than the first two caches of a processor hold


class Run(NamedTuple):
    """`speedup`: of two threads over one, for the same flows. `cpu_per_wall`: of the two. `more_cpu`: CPU
    time of two threads, over that of one for the same flows. `share`: CPU time that one thread alone gets in
    a second.
    """

    speedup: float
    cpu_per_wall: float
    more_cpu: float
    share: float


class Worker:
    """A decoder of its own, and a batch of datagrams for it."""

    def __init__(self, protocol: str) -> None:
        capture = b""
        for piece in _core.generate(protocol=protocol, flows=1_000_000):
            capture += piece
            if len(capture) > OCTETS:
                break
        self._capture = _core.Capture()
        _, _, self._batch = self._capture.scan(capture, True, 65536)
        self._decoder = Decoder()

    def work(self, passes: int) -> None:
        for _ in range(passes):
            self._decoder.view_datagrams(self._batch).release()


def timed(workers: list[Worker], passes: int) -> tuple[float, float]:
    """Wall and CPU seconds of all workers at once, a thread each."""
    threads = [threading.Thread(target=worker.work, args=(passes,)) for worker in workers]
    wall, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(protocol: str, runs: int, passes: int) -> list[Run]:
    workers = [Worker(protocol), Worker(protocol)]
    timed(workers, 2)  # buffers grow
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
    parser.add_argument("--protocol", default="netflow9", choices=("netflow5", "netflow9", "ipfix", "sflow"))
    parser.add_argument("--runs", type=int, default=9, metavar="N")
    parser.add_argument("--passes", type=int, default=50, metavar="N", help="Over the batch, in a run.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = measure(options.protocol, options.runs, options.passes)
    if options.json:
        print(json.dumps({"protocol": options.protocol, "runs": [run._asdict() for run in runs]}))
        return
    print(f"{options.protocol}, {os.cpu_count()} CPUs: median (least to most)")
    for name in Run._fields:
        values = [getattr(run, name) for run in runs]
        print(f"{name:14} {statistics.median(values):6.2f} ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
