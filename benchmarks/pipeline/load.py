"""The contents of a topic: records of a family, with one or many per Kafka message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from benchmarks.lab import FAMILIES, Coder, select_formats
from benchmarks.lab.families import DISTINCT, Record

__all__ = ["PACK", "Load"]

PACK = 512 * 1024
"""Maximum bytes of a Kafka message of many records: half of the broker's limit."""

DISTINCT_PACKS = 4


@dataclass(frozen=True)
class Load:
    """`messages` records of a family in a format, `packed` or one per Kafka message."""

    family: str
    format: str
    messages: int
    packed: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments of `Load(**…)` for another process."""
        return asdict(self)

    @cached_property
    def coder(self) -> Coder:
        (form,) = select_formats(self.format)
        return form.open(FAMILIES[self.family])

    @cached_property
    def singles(self) -> list[bytes]:
        """The distinct records, encoded one by one."""
        return [self.coder.encode(self.coder.prepare(record)) for record in FAMILIES[self.family].records]

    @cached_property
    def a_pack(self) -> int:
        """Number of records per Kafka message. The last message may have fewer.

        A message has at most PACK bytes, including a few bytes of overhead per record in a batch.
        """
        if not self.packed:
            return 1
        return max(1, int(PACK / (sum(map(len, self.singles)) / DISTINCT + 4)))

    @property
    def values(self) -> int:
        """Number of Kafka records."""
        return -(-self.messages // self.a_pack)

    def record_at(self, position: int) -> Record:
        """Return the record at a position of the topic."""
        family = FAMILIES[self.family]
        if self.packed:
            pack, position = divmod(position, self.a_pack)
            position += pack % DISTINCT_PACKS * self.a_pack
        return family.records[position % DISTINCT]

    def make_values(self) -> Iterator[bytes]:
        """Return the values of the topic. Distinct values are encoded before the first one, and rotated."""
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
