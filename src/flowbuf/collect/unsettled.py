"""Batches that an output has taken from a queue, until their flows are stored or lost."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from flowbuf.collect.batch_bytes import Batch
from flowbuf.collect.queue import QueuedBatch

__all__ = ["UnsettledBatches"]

KEPT_BYTES = 256 << 20
"""Most bytes of batches from memory that are kept. Those of earlier batches cannot go back into the spool."""


class _Taken(NamedTuple):
    """A batch that the output has taken, or that was lost.

    Attributes:
        end: Flows that the output had taken after it.
        flows: Flows of it that the output has taken.
        spooled: True if it is in the spool too.
        last: Number of the last spool entry that was taken up to this batch; -1 if there is none.
        batch: The batch. None if it is not kept.
        size: Size of the batch in bytes if it is kept, else 0.
    """

    end: int
    flows: int
    spooled: bool
    last: int
    batch: Batch | None
    size: int


class UnsettledBatches:
    """Batches in the order in which an output has taken them.

    Batches of the spool stay there until they are acknowledged.

    Args:
        keep: Keep batches from memory, so that they can go back into the spool when the output ends before it
            has stored them.
    """

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self._taken: deque[_Taken] = deque()
        self._end = 0
        self._bytes = 0
        self._kept = 0  # index of the first batch that may be kept

    def add(self, item: QueuedBatch, flows: int) -> None:
        """Add a batch.

        Args:
            item: The batch.
            flows: Number of its flows that the output has taken. 0 if all were filtered or lost.
        """
        self._end += flows
        spooled = item.number is not None
        batch = item.batch if self._keep and flows and not spooled else None
        size = batch.nbytes if batch is not None else 0
        self._taken.append(_Taken(self._end, flows, spooled, item.taken, batch, size))
        self._bytes += size
        while self._bytes > KEPT_BYTES:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Release the memory of the oldest batch that is kept."""
        taken = self._taken[self._kept]
        self._taken[self._kept] = taken._replace(batch=None, size=0)
        self._bytes -= taken.size
        self._kept += 1

    def settle(self, pending: int) -> int:
        """Remove the batches of which no flow is pending any more.

        Args:
            pending: Flows that the output has taken and neither stored nor lost: the last ones.

        Returns:
            int: Number of the last spool entry that was taken up to them; -1 if there is none.
        """
        last = -1
        while self._taken and self._taken[0].end <= self._end - pending:
            taken = self._taken.popleft()
            self._bytes -= taken.size
            self._kept = max(self._kept - 1, 0)
            last = taken.last
        return last

    @property
    def kept(self) -> list[tuple[Batch, int]]:
        """The batches that are kept, each with the number of its flows that the output has taken."""
        return [(taken.batch, taken.flows) for taken in self._taken if taken.batch is not None]

    @property
    def forgotten(self) -> int:
        """Number of flows of batches that are neither kept nor in the spool."""
        return sum(taken.flows for taken in self._taken if not taken.spooled and taken.batch is None)
