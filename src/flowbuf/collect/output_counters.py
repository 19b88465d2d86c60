"""Counters of an output of the collector."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import Any

from flowbuf.collect.queue import QueueCounters

__all__ = ["OutputCounters"]


@dataclass
class OutputCounters:
    """Flows of an output at one moment.

    `queue.offered` + `queue.recovered` + `queue.inherited` is the sum of all places where they can be:
    filtered, stored, pending, queued, spooled, lost and `queue.dropped`.

    Attributes:
        queue: Flows of its queue.
        filtered: Flows that its condition or an enrichment removed.
        stored: Flows that are durable at the destination.
        pending: Flows that were written and are not stored yet.
        lost: Flows that could not be written, by reason.
        failures: Failed attempts to write.
        returned: Flows that were taken from the spool, and stay there because they were not written.
        rows: Kind of rows that the output takes; "" if it is unknown.
        name: Name of the output; "" if it is unknown.
    """

    queue: QueueCounters = field(default_factory=QueueCounters)
    filtered: int = 0
    stored: int = 0
    pending: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    returned: int = 0
    rows: str = ""
    name: str = ""

    @property
    def spooled(self) -> int:
        """Flows that wait in the spool, or stay there for the next start."""
        return self.queue.spooled + self.returned

    @property
    def queued(self) -> int:
        """Flows that wait in the queue, or are being written."""
        done = self.filtered + self.stored + self.pending + self.lost.total() + self.returned
        return self.queue.queued + self.queue.taken - done

    @property
    def dropped(self) -> Counter[str]:
        """Flows that were not stored, by reason: those of the queue, and `lost`."""
        return Counter(self.queue.reasons) + self.lost

    def __add__(self, other: OutputCounters) -> OutputCounters:
        """Return the sums."""
        total: OutputCounters = _add(self, other)
        return total

    def without_inherited(self) -> OutputCounters:
        """Return the sums of an output and its predecessors. Flows that one left to the next count once."""
        spooled = self.queue.spooled - self.queue.inherited
        return replace(self, queue=replace(self.queue, inherited=0, spooled=spooled))


def _add(one: Any, other: Any) -> Any:
    """Return the sums of the fields of two dataclasses of one class."""
    sums = {}
    for name in (each.name for each in fields(one)):
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, int):
            sums[name] = left + right
        elif isinstance(left, str):
            sums[name] = left or right
        elif isinstance(left, dict):
            sums[name] = type(left)(Counter(left) + Counter(right))
        else:
            sums[name] = _add(left, right)
    return type(one)(**sums)
