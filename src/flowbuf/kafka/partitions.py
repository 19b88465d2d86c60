"""Hold the records of a partition until they form a batch."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowbuf.kafka.dead_letters import Fault

__all__ = [
    *("RECORD_BYTES", "UNTOLD", "Kind", "Partition"),
    *("fault_of", "promise_of", "read_promise", "text_of"),
]

RECORD_BYTES = 250
"""Approximate overhead of a Kafka record in Python, in bytes."""

_PROMISE = "flowbuf:"  # prefix of offset metadata that stores the end of the next batch


class Kind(NamedTuple):
    """Common properties of a batch's Kafka records: framing, and hash or registry number of the schema."""

    schema: str | int | None
    framing: str | None


UNTOLD = Kind(None, None)


@dataclass
class Partition:
    """Records of a partition that wait to be returned as a batch.

    Attributes:
        topic: Name of the topic.
        number: Number of the partition.
        first: Offset after the last batch. None before the first Kafka record.
        stop: Offset before which reading ends. None for the end of the partition.
        promised: Required end of the next batch, which may be stored already. None if the end is free.
        begin: Offset at which this group member began.
        end: Offset after the last Kafka record.
        bytes: Bytes of memory that the waiting records take.
        since: Time of the first waiting Kafka record. None if none waits.
        at_end: True if the end of the partition was reached.
        kind: Kind of the waiting records. None while all of them are `faults`.
        plain: True if Kafka records without a schema header can be decoded.
        records: Waiting Kafka records.
        faults: Waiting Kafka records that cannot be decoded.
    """

    topic: str
    number: int
    first: int | None = None
    stop: int | None = None
    promised: int | None = None
    begin: int = 0
    end: int = 0
    bytes: int = 0
    since: float | None = None
    at_end: bool = False
    kind: Kind | None = None
    plain: bool = True
    records: list[Any] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def clear(self) -> None:
        """Remove all waiting records."""
        self.bytes, self.since, self.kind = 0, None, None
        self.records, self.faults = [], []

    def start_at(self, offset: int) -> None:
        """Let this group member begin at an offset."""
        self.begin_at(offset)
        self.begin = offset

    def begin_at(self, offset: int) -> None:
        """Begin the next batch at an offset, without a promised end."""
        self.first = self.end = offset
        self.promised = None

    def add(self, message: Any, kind: Kind | None, reason: str) -> int:
        """Add a Kafka record.

        `reason` is the error if it cannot be decoded. Return the bytes of memory that it takes.
        """
        offset = message.offset()
        if self.since is None:
            self.since = time.monotonic()
            if self.first is None or offset < self.first:  # the offsets of a recreated topic restart
                self.start_at(offset)
            elif self.promised is not None and offset >= self.promised:  # all promised records were deleted
                self.begin_at(self.promised)
        if reason:
            self.faults.append(fault_of(message, reason))
        else:
            self.records.append(message)
            self.kind = kind
        return self._note(len(message) + RECORD_BYTES, offset)

    def add_all(self, messages: Collection[Any], last: int) -> int:
        """Add Kafka records without a schema header, up to offset `last`.

        Return the bytes of memory that they take.
        """
        if self.since is None:
            self.since = time.monotonic()
        self.records += messages
        self.kind = UNTOLD
        return self._note(sum(map(len, messages)) + RECORD_BYTES * len(messages), last)

    def _note(self, size: int, offset: int) -> int:
        self.bytes += size
        self.end = offset + 1
        self.at_end = self.is_outside(self.end)
        return size

    def is_outside(self, offset: int) -> bool:
        """Return True if an offset is outside a range that is read. Without a range, no offset is."""
        return self.stop is not None and not self.begin <= offset < self.stop

    def must_end(self, kind: Kind | None, offset: int) -> bool:
        """Return True if the waiting batch must end before this Kafka record."""
        promised = self.promised is not None and offset >= self.promised
        other = kind is not None and self.kind is not None and kind != self.kind
        return self.since is not None and (other or promised or offset < self.end)


def promise_of(end: int) -> str:
    """Return offset metadata that stores the end of the next batch."""
    return f"{_PROMISE}{end}"


def read_promise(metadata: str | None) -> int | None:
    """Return the end that offset metadata stores. None for the metadata of other programs."""
    name, _, end = (metadata or "").rpartition(":")
    return int(end) if f"{name}:" == _PROMISE and end.isdecimal() else None


def fault_of(record: Any, reason: str) -> Fault:
    """Return the fault for a Kafka record that cannot be decoded."""
    place = record.topic(), record.partition(), record.offset()
    return Fault(*place, reason, record.key(), record.value(), tuple(record.headers() or ()))


def text_of(header: bytes | str | None) -> str | None:
    """Return the value of a header as text."""
    return header.decode("utf-8", "replace") if isinstance(header, bytes) else header
