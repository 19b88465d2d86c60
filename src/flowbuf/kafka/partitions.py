"""What has been read of the partitions of a topic, and waits to be a batch."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowbuf.kafka.dead_letters import Fault

__all__ = ["RECORD_OCTETS", "UNTOLD", "Kind", "Partition", "fault_of", "promise_of", "read_promise"]

RECORD_OCTETS = 250
"""What Python holds of a record besides its value, roughly."""

_PROMISE = "flowbuf:"  # what begins the metadata of an offset that says how far its batch is to go


class Kind(NamedTuple):
    """What records must have in common to be in one batch: the hash of their schema, or its number in a registry."""

    schema: str | int | None
    framing: str | None


UNTOLD = Kind(None, None)


@dataclass
class Partition:
    """What has been read of a partition, and waits to be given. `first` is the offset after the last batch, None where
    nothing of it has come yet; `begin` is where this member of the group began; `promised` is where the next batch must
    end, because it may have been stored already. `since` is when the first record came, None where there is none;
    `kind` is None as long as all of them are `faults`. `plain`: it is known what records are of that do not say it."""

    topic: str
    number: int
    first: int | None = None
    promised: int | None = None
    begin: int = 0
    end: int = 0
    octets: int = 0
    since: float | None = None
    at_end: bool = False
    kind: Kind | None = None
    plain: bool = True
    records: list[Any] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def clear(self) -> None:
        """Nothing waits."""
        self.octets, self.since, self.kind = 0, None, None
        self.records, self.faults = [], []

    def begin_at(self, offset: int) -> None:
        """The next batch begins there, where nothing is promised."""
        self.first = self.end = offset
        self.promised = None

    def add(self, message: Any, kind: Kind | None, reason: str) -> int:
        """Puts a record to those that wait; `reason`: why it cannot be read. Gives the octets that it takes."""
        offset = message.offset()
        if self.since is None:
            self.since = time.monotonic()
            if self.first is None or offset < self.first:  # where a topic was made anew, offsets are, too
                self.begin_at(offset)
                self.begin = offset
            elif self.promised is not None and offset >= self.promised:  # all of that is deleted
                self.begin_at(self.promised)
        if reason:
            self.faults.append(fault_of(message, reason))
        else:
            self.records.append(message)
            self.kind = kind
        return self._note(len(message) + RECORD_OCTETS, offset)

    def add_all(self, messages: Collection[Any], last: int) -> int:
        """The same for records that say nothing, up to offset `last`."""
        if self.since is None:
            self.since = time.monotonic()
        self.records += messages
        self.kind = UNTOLD
        return self._note(sum(map(len, messages)) + RECORD_OCTETS * len(messages), last)

    def _note(self, octets: int, offset: int) -> int:
        self.octets += octets
        self.end = offset + 1
        self.at_end = False
        return octets

    def must_end(self, kind: Kind | None, offset: int) -> bool:
        """Whether what waits ends before a record."""
        promised = self.promised is not None and offset >= self.promised
        other = kind is not None and self.kind is not None and kind != self.kind
        return self.since is not None and (other or promised or offset < self.end)


def promise_of(end: int) -> str:
    """Metadata of an offset that say where the next batch is to end."""
    return f"{_PROMISE}{end}"


def read_promise(metadata: str | None) -> int | None:
    """The other way round; others may have written something else there."""
    name, _, end = (metadata or "").rpartition(":")
    return int(end) if f"{name}:" == _PROMISE and end.isdecimal() else None


def fault_of(record: Any, reason: str) -> Fault:
    """A record that cannot be read."""
    place = record.topic(), record.partition(), record.offset()
    return Fault(*place, reason, record.key(), record.value(), tuple(record.headers() or ()))
