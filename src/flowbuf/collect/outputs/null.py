"""An output that discards flows, for measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

    from flowbuf.arrow.batch import FlowBatch

__all__ = ["NullOutput"]


class NullOutput:
    """Count flows as stored, and discard them."""

    def __init__(self) -> None:
        self.stored = 0
        self.pending = 0
        self.lost: Mapping[str, int] = {}

    def write(self, batch: FlowBatch | pyarrow.RecordBatch, number: int | None = None) -> None:
        """Discard the flows of a batch."""
        self.stored += len(batch)

    def tick(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
