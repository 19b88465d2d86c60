"""Bounded queues of flows between the workers and an output.

If a queue is full, its policy decides: drop the batch, wait, or append it to a spool on disk. Every batch is
counted, so at any moment

    offered + recovered + inherited = dropped + queued + taken + spooled

holds in flows. The batches of a worker stay in order. With policy "spool", all batches are appended to the
spool while it has entries.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from flowbuf.collect.batch_bytes import Batch, from_bytes, to_bytes
from flowbuf.collect.config import OVERFLOW
from flowbuf.collect.spools.counts import Count
from flowbuf.collect.spools.spool import Entry, Spool
from flowbuf.errors import error_text

__all__ = ["MAX_BYTES", "FlowQueue", "QueueCounters", "QueuedBatch"]

MAX_BYTES = 1 << 30
"""Default maximum size of the batches in memory, in bytes."""

_RETRY_SECONDS = 1.0


@dataclass
class QueueCounters:
    """Flows of a queue at one moment: offered + recovered + inherited = dropped + queued + taken + spooled.

    Attributes:
        offered: Flows passed to `put`. Those of a call that waits are not included.
        dropped: Lost flows, for any of `reasons`.
        queued: Flows that wait in memory.
        taken: Flows that `get` returned.
        spooled: Flows that wait in the spool, with those of batches that are being appended.
        recovered: Flows that the spool had when it was opened, with those that were damaged.
        inherited: Flows in addition to these that an earlier queue of this process has left in the spool.
        reasons: Lost flows by reason. "queue_full": the queue was full. "closed": it was closed.
            "spool_full": the spool reached its limit. "spool_error": the spool could not be written.
            "spool_damaged": entries of the spool were damaged, or are not batches of flows.
    """

    offered: int = 0
    dropped: int = 0
    queued: int = 0
    taken: int = 0
    spooled: int = 0
    recovered: int = 0
    inherited: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


class QueuedBatch(NamedTuple):
    """A batch that was taken from a queue.

    Attributes:
        batch: The flows. A batch of the spool is a `pyarrow.RecordBatch`. After a restart, it has the columns
            of the earlier process.
        number: Number of the entry in the spool, which is the same if it is delivered again after a restart.
            None for a batch from memory.
        taken: Number of the last entry of the spool that was taken up to this batch; -1 if there is none.
    """

    batch: Batch
    number: int | None = None
    taken: int = -1


class FlowQueue:
    """A queue of batches with a limit in flows. Any number of threads may put, and one may get.

    Args:
        limit: Most flows in memory. A batch is accepted as a whole if the queue is empty or has room for it.
        on_overflow: Policy of the full queue: "drop", "block" (wait) or "spool". Default: "drop".
        max_bytes: Maximum size of the batches in memory, in bytes. Default: 1 GiB.
        spool: Spool for this queue alone, which the caller opens, syncs and closes. Policy "spool" requires
            it. With another policy, its entries are delivered first.
        waits: The spool comes later, with `attach`. Until then, only `max_bytes` limits the queue.

    Example:
        queue = FlowQueue(1_000_000, "spool", spool=spool)
        queue.put(batch)  # in a worker
        item = queue.get(timeout=1.0)  # in the output
        if item:
            write(item.batch)
            queue.done(item)
    """

    def __init__(
        self,
        limit: int,
        on_overflow: str = "drop",
        *,
        max_bytes: int = MAX_BYTES,
        spool: Spool | None = None,
        waits: bool = False,
    ) -> None:
        if on_overflow not in OVERFLOW:
            raise ValueError(f"on_overflow is {on_overflow!r}; it may be {', '.join(OVERFLOW)}")
        if on_overflow == "spool" and spool is None and not waits:
            raise ValueError("on_overflow='spool' needs a spool; open one")
        self._read_error: Exception | None = None  # of the last attempt
        self._write_error: Exception | None = None
        self._spool: Spool | None = None
        self._limit, self._max_bytes = limit, max_bytes
        self._block, self._appends = on_overflow == "block", on_overflow == "spool"
        self._changed = threading.Condition()  # guards everything below
        self._changes = 0
        self._closed = False
        self._batches: deque[tuple[Batch, int]] = deque()  # with their sizes in bytes
        self._bytes = 0
        self._counters = QueueCounters()
        self._spooled = self._lost = Count()
        self._older = 0  # entries of the spool to deliver before the batches in memory
        # Numbers of entries of the spool, and the entry that is being read. Only the output uses them.
        self._read = self._done = self._skipped = -1
        self._entry: Entry | None = None
        if spool is not None:
            self.attach(spool)

    def attach(self, spool: Spool, inherited: int = 0) -> None:
        """Use a spool from now on. Its entries are delivered before the batches that wait in memory.

        Args:
            spool: Spool for this queue alone.
            inherited: Flows in it that an earlier queue of this process has counted as spooled.
        """
        counters = spool.counters
        found = counters.waiting + counters.lost
        with self._changed:
            self._spool = spool
            self._spooled = found
            self._older = found.entries
            self._counters.inherited = min(inherited, found.flows)
            self._counters.recovered = found.flows - self._counters.inherited
            self._count_damage(counters.lost)
            self._notify()

    @property
    def limit(self) -> int:
        """Most flows in memory."""
        return self._limit

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    @property
    def memory_bytes(self) -> int:
        """Size of the batches in memory, in bytes."""
        return self._bytes

    @property
    def problem(self) -> str:
        """Text of an error because of which the spool cannot be read or written now; "" if it works."""
        for use, error in (("read", self._read_error), ("written", self._write_error)):
            if error is not None:
                return f"the spool cannot be {use}: {error_text(error)}"
        return ""

    def read_counters(self) -> QueueCounters:
        """Return the counters at one moment."""
        with self._changed:
            reasons = dict(self._counters.reasons)
            return replace(self._counters, spooled=self._spooled.flows, reasons=reasons)

    def _notify(self) -> None:
        self._changes += 1
        self._changed.notify_all()

    # Workers ------------------------------------------------------------------------------------------------

    def put(self, batch: Batch) -> None:
        """Append a batch to the queue or its spool, or drop it. With policy "block", wait for room first.

        No error of the spool is raised, because other outputs get the batch too: see `problem`.
        """
        flows, size = len(batch), batch.nbytes
        if not flows:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._block or self._closed or self._has_room(flows, size))
            self._counters.offered += flows
            if self._closed:
                self._drop("closed", flows)
                return
            if self._has_room(flows, size):
                self._queue(batch, size)
                self._write_error = None  # the spool is not needed
                return
            if not self._appends or self._spool is None:
                self._drop("queue_full", flows)
                return
            self._spooled += Count(1, flows)
        self._append(batch)

    def _has_room(self, flows: int, size: int) -> bool:
        if self._appends and self._spooled.entries:
            return False  # the batch is later than those in the spool
        limited = self._spool is not None or not self._appends
        fits = not limited or self._counters.queued + flows <= self._limit
        fits = fits and self._bytes + size <= self._max_bytes
        return fits or not self._batches

    def _queue(self, batch: Batch, size: int) -> None:
        self._batches.append((batch, size))
        self._bytes += size
        self._counters.queued += len(batch)
        self._notify()

    def _unqueue(self) -> Batch:
        batch, size = self._batches.popleft()
        self._bytes -= size
        self._counters.queued -= len(batch)
        self._notify()
        return batch

    def _drop(self, reason: str, flows: int) -> None:
        self._counters.dropped += flows
        self._counters.reasons[reason] = self._counters.reasons.get(reason, 0) + flows

    def _append(self, batch: Batch) -> None:
        """Append a batch that is counted as spooled to the spool. Drop it if that is not possible."""
        flows, reason = len(batch), self.give_back(batch)
        with self._changed:
            if reason:
                self._spooled -= Count(1, flows)
                self._drop(reason, flows)
            self._notify()

    # Output -------------------------------------------------------------------------------------------------

    def get(self, timeout: float | None = None) -> QueuedBatch | None:
        """Take the next batch.

        Damaged entries of the spool are skipped and counted. If an entry cannot be read or does not fit into
        memory, this tries again each second.

        Args:
            timeout: Seconds to wait for a batch. Default: no limit.

        Returns:
            QueuedBatch: The batch; None after the timeout, or if the queue is closed and has no more.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._changed:
                changes = self._changes
                if self._batches and not self._older:
                    batch = self._unqueue()
                    self._counters.taken += len(batch)
                    return QueuedBatch(batch, taken=self._read)
                has_spooled = self._spooled.entries > 0
            failed = False
            if has_spooled:
                try:
                    item = self._take_spooled()
                    self._read_error = None
                    if item:
                        return item
                except Exception as error:  # also of a lack of memory
                    self._read_error, failed = error, True
            if not self._wait(changes, deadline, failed):
                return None

    def _wait(self, changes: int, deadline: float | None, failed: bool) -> bool:
        """Wait for a change after `changes`, or for a second if reading failed. Return False to give up."""
        with self._changed:
            if self._closed and (failed or not (self._batches or self._spooled.entries)):
                return False
            seconds = None if deadline is None else deadline - time.monotonic()
            if failed:
                seconds = _RETRY_SECONDS if seconds is None else min(seconds, _RETRY_SECONDS)
            self._changed.wait_for(lambda: self._changes != changes, seconds)
            return deadline is None or self._changes != changes or time.monotonic() < deadline

    def _take_spooled(self) -> QueuedBatch | None:
        """Take the next entry of the spool. Return None if it is still being written, or not a batch."""
        assert self._spool is not None
        entry = self._entry = self._entry or self._spool.read()  # the last call may have failed
        lost = self._spool.counters.lost
        batch = from_bytes(entry.data, entry.flows) if entry else None
        self._entry = None
        with self._changed:
            self._count_damage(lost)
            if entry is None:
                return None
            self._remove_spooled(Count(1, entry.flows))
            if batch is not None:
                self._counters.taken += entry.flows
                self._read = entry.number
                return QueuedBatch(batch, entry.number, entry.number)
            self._drop("spool_damaged", entry.flows)
        self._skipped = entry.number
        self._acknowledge()
        return None

    def _count_damage(self, lost: Count) -> None:
        """Count the entries that the spool has lost since the last call."""
        if lost != self._lost:
            self._remove_spooled(lost - self._lost)
            self._drop("spool_damaged", lost.flows - self._lost.flows)
            self._lost = lost

    def _remove_spooled(self, count: Count) -> None:
        self._spooled -= count
        self._older = max(self._older - count.entries, 0)
        self._notify()

    def done(self, item: QueuedBatch) -> None:
        """Acknowledge a batch and all batches that were taken before it: the output has stored them.

        Batches of the spool that are not acknowledged are delivered again after a restart.
        """
        self.done_to(item.taken)

    def done_to(self, number: int) -> None:
        """Acknowledge the batches up to an entry of the spool: see `done`.

        Args:
            number: Number of the entry, as in `QueuedBatch.taken`.
        """
        if number > self._done:
            self._done = number
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledge the entries that are done, and those that were skipped after them."""
        number = max(self._done, self._skipped) if self._done == self._read else self._done
        if self._spool is not None and number >= 0:
            self._spool.acknowledge(number)

    # End ----------------------------------------------------------------------------------------------------

    def unblock(self) -> None:
        """Drop batches from now on, instead of waiting for room."""
        with self._changed:
            self._block = False
            self._notify()

    def close(self) -> None:
        """Refuse further batches. Those in the queue and in the spool can still be taken."""
        with self._changed:
            self._closed = True
            self._notify()

    def give_back(self, batch: Batch) -> str:
        """Append a batch that was taken to the spool, for the next start. Its flows stay counted as taken.

        Returns:
            str: Reason why that is not possible: "spool_full" or "spool_error". Otherwise an empty text.
        """
        assert self._spool is not None
        try:
            appended = self._spool.append(to_bytes(batch), len(batch))
        except Exception as error:  # also of a lack of memory, or of pyarrow
            self._write_error = error
            return "spool_error"
        self._write_error = None
        return "" if appended else "spool_full"

    def save(self) -> None:
        """Append the batches in memory to the spool, after its entries, for the next start.

        Call this when workers and output have ended. Batches that do not fit are dropped and counted.

        Raises:
            ValueError: The queue has no spool.
        """
        if self._spool is None:
            raise ValueError("the queue has no spool; create it with one")
        while True:
            with self._changed:
                if not self._batches:
                    return
                batch = self._unqueue()
                self._spooled += Count(1, len(batch))
            self._append(batch)
