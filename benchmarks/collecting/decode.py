"""Decode the datagrams of a dataset from memory, without sockets. A process of its own.

    python -m benchmarks.collecting.decode DATASET

It prints `ready`, and answers each line `SECONDS` with `DATAGRAMS NANOSECONDS`: the datagrams that it decoded
into columns, and the CPU time of the thread. The batches have as many datagrams as flowbuf receives at once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from flowbuf._core import ColumnBuilder, pack_datagrams
from flowbuf.arrow.batch import BATCH_ROWS, new_table_type
from flowbuf.decoder import Decoder

from .processes import pin
from .setting import Failed, Setting
from .traffic import Traffic, load_traffic

__all__ = ["DecodeProcess"]

TOGETHER = 64
ROOT = Path(__file__).parents[2]


class DecodeProcess:
    """The process, pinned to the processor of collectors. Use it as a context manager."""

    def __init__(self, setting: Setting, traffic: Traffic) -> None:
        command = [sys.executable, "-m", "benchmarks.collecting.decode", traffic.name]
        self._process = subprocess.Popen(
            pin(setting.collector, command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        if self._read() != ["ready"]:
            raise Failed(f"decoding {traffic.name} ended with status {self._process.wait()}")

    def measure(self, seconds: float) -> float:
        """Decode for some seconds of CPU time. Return the nanoseconds of CPU time per datagram."""
        assert self._process.stdin
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        datagrams, nanoseconds = map(int, self._read())
        return nanoseconds / datagrams

    def _read(self) -> list[str]:
        assert self._process.stdout
        return self._process.stdout.readline().split()

    def __enter__(self) -> DecodeProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate()


def main(name: str) -> None:
    traffic = load_traffic(name)
    assert traffic
    decoder = Decoder()
    builder = ColumnBuilder(decoder, new_table_type(decoder.schema, decoder.plan), BATCH_ROWS)
    builder.decode(pack_datagrams(*map(list, zip(*traffic.workload.first, strict=True))))
    data = traffic.workload.data
    parts = (data[begin : begin + TOGETHER] for begin in range(0, len(data), TOGETHER))
    batches = [pack_datagrams(*map(list, zip(*part, strict=True))) for part in parts]
    print("ready", flush=True)
    for line in sys.stdin:
        passes, begin = 0, time.thread_time_ns()
        while time.thread_time_ns() - begin < float(line) * 1e9:
            for batch in batches:
                builder.decode(batch)  # full tables are discarded
            passes += 1
        print(passes * len(data), time.thread_time_ns() - begin, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
