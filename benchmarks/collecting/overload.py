"""Sums under overload: three times the load that a collector or an output sustains."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .collectors import Flowbuf, write_outputs
from .processes import Running
from .senders import BareSender
from .setting import Setting
from .sums import Totals, check_flows, check_metrics, check_received, require
from .traffic import Traffic

__all__ = ["measure_overload"]

SECONDS = 60.0
QUICK_SECONDS = 2.0
QUICK_BUFFER = "128KiB"
"""Receive buffer of a quick run, so that it overflows within seconds."""

DATASET = "generated-netflow9"
FACTOR = 3.0
"""Load as a multiple of the sustainable one."""

SHARE = 0.1
"""Share of its processor that a throttled collector gets."""

PERIOD = 0.05
"""Seconds in which a throttled collector gets its share once."""

LINES_PER_SECOND = 40_000
"""Flows per second that the slow reader of JSON lines takes."""

SLOW_FLOWS = 20_000
"""Flows that the queue of the slow output holds."""


def measure_overload(setting: Setting) -> dict[str, Any]:
    """Return the totals of four kinds of overload. Raises WrongSum if any sum is wrong.

    - A slow output that drops: a slow reader of JSON lines, beside three other outputs.
    - A slow output that spools: the same reader, and a spool on disk.
    - A slow output that blocks: the same reader, so that the receive buffer overflows.
    - A throttled collector: it is stopped for most of the time, so that the receive buffer overflows.
    """
    traffic = setting.traffic(DATASET)
    return {
        "runs": [
            *(_read_slowly(setting, traffic, action) for action in ("drop", "spool", "block")),
            _throttle(setting, traffic),
        ]
    }


# Outputs ----------------------------------------------------------------------------------------------------


def _start(setting: Setting, folder: Path, slow: str | None, stdout: int | None = None) -> Flowbuf:
    """Start a collector with all kinds of outputs. `slow` is the overflow action of the slow one."""
    options = ["--receive-buffer", QUICK_BUFFER] if setting.quick else []
    return Flowbuf(setting, [str(_write_config(folder, slow)), *options], stdout)


def _write_config(folder: Path, slow: str | None) -> Path:
    outputs: list[dict[str, Any]] = [
        {"to": "null:", "name": "all"},
        {"to": "null:", "name": "filtered", "where": "dst_port < 1024"},
        {"to": f"{folder}/flows/", "name": "files"},
    ]
    if slow:
        queue = {"on_overflow": slow, "queue_flows": SLOW_FLOWS, "spool": f"{folder}/spool"}
        outputs.append({"to": "-", "name": "slow", **queue})
    return write_outputs(folder / "collector.toml", outputs)


def _count_parquet(folder: Path) -> int:
    """Return the number of rows of a folder of Parquet files, which may be missing."""
    import pyarrow.parquet

    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in folder.rglob("*.parquet"))


class SlowReader:
    """A thread that reads lines from a pipe, LINES_PER_SECOND of them until `hurry` is called."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.lines = 0
        self._process = process
        self._hurrying = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert self._process.stdout
        begin = time.monotonic()
        while content := self._process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
            self.lines += content.count(b"\n")
            ahead = self.lines / LINES_PER_SECOND - (time.monotonic() - begin)
            if ahead > 0:
                self._hurrying.wait(ahead)

    def hurry(self) -> None:
        """Read as fast as possible from now on."""
        self._hurrying.set()

    def count(self) -> int:
        """Wait for the end of the pipe, and return the number of lines."""
        self._thread.join()
        return self.lines


# Kinds of overload ------------------------------------------------------------------------------------------


def _read_slowly(setting: Setting, traffic: Traffic, action: str) -> dict[str, Any]:
    setting.show(f"overload: a slow output, on_overflow = {action}")
    folder = setting.new_folder("outputs")
    rate = FACTOR * LINES_PER_SECOND / traffic.flows_per_datagram
    with _start(setting, folder, action, subprocess.PIPE) as running:
        reader = SlowReader(running.process)
        with BareSender(setting, traffic, running) as sender:
            samples = _send_and_watch(running, sender, setting.duration(SECONDS, QUICK_SECONDS), rate)
            reader.hurry()
            totals, drops = _finish(running, sender)
            result = _describe(traffic, sender, totals, drops, samples, f"a slow output, {action}")
    stored, lines = totals.outputs["slow"]["stored"], reader.count()
    require(lines == stored, f"the slow output stored {stored:,} flows, but the reader got {lines:,} lines")
    _check_files(folder, totals)
    sustainable = LINES_PER_SECOND / traffic.flows_per_datagram
    return {**result, "sustainable": sustainable}


def _throttle(setting: Setting, traffic: Traffic) -> dict[str, Any]:
    setting.show(f"overload: a collector with {SHARE:.0%} of its processor")
    folder, seconds = setting.new_folder("outputs"), setting.duration(SECONDS, QUICK_SECONDS)
    with _start(setting, folder, None) as running, BareSender(setting, traffic, running) as sender:
        with throttled(running):
            capacity = _find_capacity(running, sender, seconds / 6)
            samples = _send_and_watch(running, sender, seconds, FACTOR * capacity)
        totals, drops = _finish(running, sender)
        result = _describe(traffic, sender, totals, drops, samples, "a throttled collector")
    _check_files(folder, totals)
    return {**result, "sustainable": capacity}


@contextlib.contextmanager
def throttled(running: Running) -> Iterator[None]:
    """Stop a process for most of each PERIOD inside the block."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            running.send_signal(signal.SIGSTOP)
            ended.wait(PERIOD * (1 - SHARE))
            running.send_signal(signal.SIGCONT)
            ended.wait(PERIOD * SHARE)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        running.send_signal(signal.SIGCONT)


def _find_capacity(running: Flowbuf, sender: BareSender, seconds: float) -> float:
    """Return the datagrams per second that a collector receives from a sender at its maximum."""
    drops, begin = running.read_drops(), time.monotonic()
    sent = sender.send(seconds)
    running.wait_until_idle()
    return (sent.datagrams - running.read_drops() + drops) / (time.monotonic() - begin)


def _send_and_watch(running: Flowbuf, sender: BareSender, seconds: float, rate: float) -> dict[str, Any]:
    """Send at a rate, and check the metrics meanwhile."""
    sender.begin(seconds, rate)
    end, checks, spooled = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end or not checks:
        metrics = running.read_metrics()
        check_metrics(metrics)
        checks += 1
        spooled = max(spooled, metrics.sum("output_spooled_flows"))
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))
    sent = sender.finish()
    rate = sent.datagrams / sent.seconds
    return {"checks": checks, "most_spooled": spooled, "rate": rate, "seconds": sent.seconds}


def _finish(running: Flowbuf, sender: BareSender) -> tuple[Totals, int]:
    """End the collector, check its sums, and return its totals and the drops of the kernel."""
    running.wait_until_idle()
    drops = running.read_drops()
    totals = running.finish()
    check_received(sender.total, [totals], drops)
    check_flows(totals)
    return totals, drops


def _check_files(folder: Path, totals: Totals) -> None:
    stored, rows = totals.outputs["files"]["stored"], _count_parquet(folder / "flows")
    require(rows == stored, f"the files have {rows:,} flows, but {stored:,} were stored")


def _describe(
    traffic: Traffic, sender: BareSender, totals: Totals, drops: int, samples: dict[str, Any], kind: str
) -> dict[str, Any]:
    return {
        "kind": kind,
        "dataset": traffic.name,
        "flows_per_datagram": traffic.flows_per_datagram,
        "sent": sender.total,
        "drops": drops,
        "totals": totals.to_dict(),
        **samples,
    }
