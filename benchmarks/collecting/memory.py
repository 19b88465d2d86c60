"""Resident memory over a long time, at half of the load that the collector can take."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .collectors import Flowbuf, write_outputs
from .processes import read_resident
from .senders import BareSender
from .setting import Setting
from .sums import check_flows, check_metrics, check_received

__all__ = ["measure_memory"]

SECONDS = 1800.0
SAMPLE_SECONDS = 10.0
WARM_UP = 60.0
"""Seconds until buffers and queues have their size. Memory of this time does not count."""

LOAD = 0.5
DATASET = "generated-netflow9"


def measure_memory(setting: Setting) -> dict[str, Any]:
    """Return the resident memory of a collector that discards flows and also writes Parquet files.

    The Parquet output blocks, so that the highest rate is one at which it drops nothing.
    """
    traffic = setting.traffic(DATASET)
    seconds = setting.duration(SECONDS)
    flows = f"{setting.new_folder('flows')}/"
    parquet = {"to": flows, "name": "parquet", "rotate": "1m", "keep_bytes": "2GiB", "on_overflow": "block"}
    config = write_outputs(setting.new_folder("config") / "collector.toml", [{"to": "null:"}, parquet])
    with (
        Flowbuf(setting, [str(config)]) as running,
        BareSender(setting, traffic, running) as sender,
    ):
        setting.show("memory: find the highest rate")
        fastest = sender.send(min(seconds, 20.0), window=running.window)
        rate = LOAD * fastest.datagrams / fastest.seconds
        samples = _sample(setting, running, sender, seconds, rate)
        running.wait_until_idle()
        drops = running.read_drops()
        totals = running.finish()
        check_received(sender.total, [totals], drops)
        check_flows(totals)
    return {
        "dataset": traffic.name,
        "rate": rate,
        "seconds": seconds,
        "warm_up": min(WARM_UP, seconds / 4),
        "samples": samples,
        "drops": drops,
        "totals": totals.to_dict(),
        **_find_deviation(samples, min(WARM_UP, seconds / 4)),
    }


def _sample(
    setting: Setting, running: Flowbuf, sender: BareSender, seconds: float, rate: float
) -> list[tuple[float, int]]:
    """Send at a rate, and return (seconds since the begin, resident bytes). The last one is at the end."""
    samples: list[tuple[float, int]] = []
    begin = time.monotonic()
    sender.begin(seconds, rate)
    while not samples or samples[-1][0] < seconds:
        now = time.monotonic() - begin
        samples.append((now, read_resident(running.process.pid)))
        setting.show(f"memory: {now:,.0f} of {seconds:,.0f} s, {samples[-1][1] / 2**20:.0f} MiB")
        check_metrics(running.read_metrics())
        time.sleep(min(SAMPLE_SECONDS, seconds / 8))
    sender.finish()
    return samples


def _find_deviation(samples: list[tuple[float, int]], warm_up: float) -> dict[str, float]:
    """Return the median after the warm-up, and the largest deviation from it as a share."""
    later = [resident for second, resident in samples if second >= warm_up]
    median = statistics.median(later)
    return {"median": median, "deviation": max(abs(each - median) for each in later) / median}
