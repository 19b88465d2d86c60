"""Bursts: datagrams that a sender sends to a running collector, with the CPU time that they cost it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from .processes import Running
from .senders import BareSender

__all__ = ["Burst", "send_burst", "summarize", "warm_up"]

SETTLE = 1.5
"""Seconds after a burst until its flows have left the workers of flowbuf, whose interval is a second."""


class Burst(NamedTuple):
    """A burst.

    Attributes:
        sent: Datagrams sent.
        seconds: Time of sending.
        drops: Datagrams that the kernel dropped.
        cpu: CPU seconds of the collector.
    """

    sent: int
    seconds: float
    drops: int
    cpu: float

    @property
    def received(self) -> int:
        """Datagrams that the collector received."""
        return self.sent - self.drops

    @property
    def rate(self) -> float:
        """Datagrams sent per second."""
        return self.sent / self.seconds

    @property
    def ns_per_datagram(self) -> float:
        """CPU time of the collector per datagram received, in nanoseconds."""
        return self.cpu * 1e9 / self.received


def warm_up(running: Running) -> None:
    """Wait until a collector has written its first flows, for which it imports libraries."""
    running.wait_until_idle()
    time.sleep(SETTLE)


def send_burst(
    running: Running,
    sender: BareSender,
    seconds: float,
    *,
    rate: float = 0,
    window: int = 0,
    settle: float = SETTLE,
) -> Burst:
    """Send a burst, and wait until the collector has processed it.

    Args:
        running: Collector.
        sender: Sender that is connected to it.
        seconds: Duration of the burst.
        rate: Datagrams per second. 0: as fast as possible.
        window: Most bytes that may wait in the receive queue. 0: no limit.
        settle: Seconds to wait after the queue is empty. Their CPU time belongs to the burst.
    """
    drops, cpu = running.read_drops(), running.read_cpu()
    sent = sender.send(seconds, rate, window=window)
    running.wait_until_idle()
    time.sleep(settle)
    return Burst(sent.datagrams, sent.seconds, running.read_drops() - drops, running.read_cpu() - cpu)


def summarize(samples: Sequence[float]) -> dict[str, Any]:
    """Return the median, half the interquartile range, and the samples, for JSON."""
    spread = 0.0
    if len(samples) > 1:
        lower, _, upper = statistics.quantiles(samples, n=4, method="inclusive")
        spread = (upper - lower) / 2
    return {"median": statistics.median(samples), "spread": spread, "samples": list(samples)}
