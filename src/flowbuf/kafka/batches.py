"""Batches of flows with the offsets that they come from, and the limits of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flowbuf.arrow.batch import FlowBatch
from flowbuf.kafka.dead_letters import Fault
from flowbuf.schema import Schema

__all__ = ["BatchLimits", "SourceBatch"]


@dataclass(frozen=True)
class SourceBatch:
    """Flows of one partition, all of one schema.

    Attributes:
        topic: Name of the topic.
        partition: Number of the partition.
        first: First offset of the range.
        end: Offset after the range.
        schema: Schema of the flows.
        flows: Flows as columns.
        faults: Kafka records of this range that cannot be decoded.
        topic_id: Kafka's identifier of the topic. Empty if the broker has none.
    """

    topic: str
    partition: int
    first: int
    end: int
    schema: Schema
    flows: Sequence[FlowBatch]
    faults: Sequence[Fault]
    topic_id: str = ""

    @property
    def token(self) -> str:
        """Unique name of this batch. Storing it with the flows prevents storing them twice.

        Topics of the same name in another cluster have other tokens, and so does a topic that was deleted and
        created again.
        """
        names = filter(None, (self.topic, self.topic_id, str(self.partition), f"{self.first}-{self.end}"))
        return ":".join(names)

    def __len__(self) -> int:
        """Return the number of flows."""
        return sum(map(len, self.flows))

    def __bool__(self) -> bool:
        """Return True. A batch without flows still has offsets to commit, and may have faults."""
        return True


@dataclass(frozen=True)
class BatchLimits:
    """Limits of a batch. A batch is returned when one of them is reached.

    If the waiting records of all partitions together reach four times `bytes`, the largest batch is
    returned.

    Attributes:
        bytes: Bytes of Kafka records. Default: 16 MiB.
        seconds: Age of the first Kafka record. Default: 0, available records are returned at once.
    """

    bytes: int = 1 << 24
    seconds: float = 0.0
