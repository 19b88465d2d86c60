"""The interface of all outputs of the collector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow

__all__ = ["WAIT_SECONDS", "Output"]

WAIT_SECONDS = 2.0
"""Longest time in seconds that a call of an output should wait for its destination."""


class Output(Protocol):
    """A destination of flows. One thread uses it.

    Every flow of a successful `write` is in one of the counts: flows written = stored + pending + lost. With
    a spool, flows cease to be pending in the order of `write`, because the spool deletes its entries in this
    order.
    """

    @property
    def stored(self) -> int:
        """Number of durable flows: in a renamed file, an acknowledged message, or an inserted row."""
        ...

    @property
    def pending(self) -> int:
        """Number of flows that were written but are not stored yet, for example in an open file."""
        ...

    @property
    def lost(self) -> Mapping[str, int]:
        """Number of flows that were written and cannot be stored any more, by reason."""
        ...

    def write(self, batch: pyarrow.RecordBatch, number: int | None = None) -> None:
        """Take the flows of a batch.

        Args:
            batch: Flows, one per row.
            number: Number of the spool entry with these flows, for deduplication. Numbers of later entries
                are higher. Default: None, the flows are not in a spool.

        Raises:
            OSError: The destination cannot take flows now. The batch is not pending, and may be written
                again.
            FlowbufError: The batch cannot be written. It is not pending.
        """
        ...

    def tick(self) -> None:
        """Do the work that depends on time. Called about once per second.

        Raises:
            OSError, FlowbufError: The output counts as failing until a later call returns. No flow is written
                again.
        """
        ...

    def close(self) -> None:
        """Store everything pending, and release the destination. Flows that cannot be stored are lost."""
        ...
