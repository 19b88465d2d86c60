"""What is in a topic: so many records, one a Kafka message or many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from benchmarks.lab import FAMILIES, Coder, select_formats
from benchmarks.lab.families import DISTINCT, Record

__all__ = ["PACK", "Load"]

PACK = 512 * 1024
"""Octets of a Kafka message of many records, at most: half of what a broker takes."""

DISTINCT_PACKS = 4


@dataclass(frozen=True)
class Load:
    """`messages` records of a family in a format, `packed` or one a Kafka message."""

    family: str
    format: str
    messages: int
    packed: bool

    def to_dict(self) -> dict[str, Any]:
        """For another process: `Load(**…)`."""
        return asdict(self)

    @cached_property
    def coder(self) -> Coder:
        (form,) = select_formats(self.format)
        return form.open(FAMILIES[self.family])

    @cached_property
    def singles(self) -> list[bytes]:
        """The records that are distinct, one by one."""
        return [self.coder.encode(self.coder.prepare(record)) for record in FAMILIES[self.family].records]

    @cached_property
    def a_pack(self) -> int:
        """Records in one Kafka message, but for the last. PACK is what it holds, with room for the batch's
        own octets, which are a few for each record.
        """
        if not self.packed:
            return 1
        return max(1, int(PACK / (sum(map(len, self.singles)) / DISTINCT + 4)))

    @property
    def values(self) -> int:
        """Kafka messages."""
        return -(-self.messages // self.a_pack)

    def record_at(self, position: int) -> Record:
        """The record at a position of the topic."""
        family = FAMILIES[self.family]
        if self.packed:
            pack, position = divmod(position, self.a_pack)
            position += pack % DISTINCT_PACKS * self.a_pack
        return family.records[position % DISTINCT]

    def make_values(self) -> Iterator[bytes]:
        """What the topic is filled with, encoded before the first is asked for, and rotated."""
        if not self.packed:
            return (self.singles[position % DISTINCT] for position in range(self.messages))
        return self._make_packs()

    def _make_packs(self) -> Iterator[bytes]:
        packs = [self._make_pack(number, self.a_pack) for number in range(min(DISTINCT_PACKS, self.values))]
        whole, rest = divmod(self.messages, self.a_pack)
        for number in range(whole):
            yield packs[number % DISTINCT_PACKS]
        if rest:
            yield self._make_pack(whole % DISTINCT_PACKS, rest)

    def _make_pack(self, number: int, count: int) -> bytes:
        records = FAMILIES[self.family].rotate(count, number * self.a_pack)
        return self.coder.encode_batch([self.coder.prepare(record) for record in records])
