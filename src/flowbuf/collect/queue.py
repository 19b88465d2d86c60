"""Bounded queues of flows between the workers and an output."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from flowbuf.arrow.batch import FlowBatch

__all__ = ["FlowQueue", "QueueCounters"]


@dataclass
class QueueCounters:
    """Flows of a queue at one moment: `offered` is the sum of all others.

    Attributes:
        offered: Flows passed to `put`.
        dropped: Flows dropped because the queue was full, or closed.
        queued: Flows that wait.
        taken: Flows that `get` returned.
    """

    offered: int = 0
    dropped: int = 0
    queued: int = 0
    taken: int = 0


class FlowQueue:
    """A queue of batches with a limit in flows. Any number of threads may put, and one may get.

    Args:
        limit: Most flows that wait. A batch is accepted as a whole if the queue is empty or has room for it.
        block: Wait in `put` until there is room. Default: False, drop the batch.
    """

    def __init__(self, limit: int, block: bool = False) -> None:
        self._limit = limit
        self._block = block
        self._batches: deque[FlowBatch] = deque()
        self._counters = QueueCounters()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, batch: FlowBatch) -> None:
        """Append a batch, or drop it if the queue is full."""
        flows = len(batch)
        with self._changed:
            while self._block and not self._closed and not self._has_room(flows):
                self._changed.wait()
            self._counters.offered += flows
            if self._closed or not self._has_room(flows):
                self._counters.dropped += flows
                return
            self._batches.append(batch)
            self._counters.queued += flows
            self._changed.notify_all()

    def _has_room(self, flows: int) -> bool:
        return not self._batches or self._counters.queued + flows <= self._limit

    def get(self, timeout: float | None = None) -> FlowBatch | None:
        """Return the oldest batch, or None after `timeout` seconds or if the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._closed, timeout)
            if not self._batches:
                return None
            batch = self._batches.popleft()
            self._counters.queued -= len(batch)
            self._counters.taken += len(batch)
            self._changed.notify_all()
            return batch

    def unblock(self) -> None:
        """Drop batches from now on, instead of waiting for room."""
        with self._changed:
            self._block = False
            self._changed.notify_all()

    def close(self) -> None:
        """Refuse further batches. Those in the queue can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    def read_counters(self) -> QueueCounters:
        """Return the counters at one moment."""
        with self._changed:
            return QueueCounters(**vars(self._counters))
