"""Copies of datagrams, numbered on as their exporter would number them; in C it is ext/bench/numbering.h.

A benchmark decodes the same datagrams over and over. With the numbers of the capture, each of them but the first copy
came twice, and what is timed is how that is told: a way that no exporter makes the core take. Here each one begins
where the one before it ended, in the units that ext/core/exporter/sequence.h lists.

Whoever decodes a set again and again jumps back in it; and a number that is just behind the newest one is late, as is
everything after it until the newest is reached again: a whole pass, where an exporter has but few datagrams in the set.
So a numbering leaps twice, to its first datagram and from that to the second one, further than anything is late or
lost: to the core the exporter was started anew. That is two datagrams of each numbering in a pass; all others are in
order.
"""

from __future__ import annotations

from collections.abc import Hashable
from struct import unpack_from

__all__ = ["LEAP", "Numberings"]

LEAP = 1 << 27
"""More than any exporter sends in a minute."""

_KINDS = {1: "flow", 2: "counters", 3: "flow", 4: "counters", 5: "drop"}
"""Formats of samples that are numbered; samples of a kind and a source have a numbering of their own."""
_COMPACT = (1, 2)


class Numberings:
    """What comes next, by numbering: who counts there, and what."""

    def __init__(self) -> None:
        self._next: dict[Hashable, int] = {}

    def number_on(self, payload: bytes, source: tuple[str, int], records: int) -> bytes:
        """A copy of a payload with its numbers; what is cut short of it is left alone. `records` are those of data in
        it, which IPFIX counts."""
        copy = bytearray(payload)
        version, size = int.from_bytes(payload[:2], "big"), len(payload)
        if version == 5 and size >= 24:
            (flows,) = unpack_from(">H", payload, 2)
            self._write_header(copy, 16, (version, source[0], payload[20:22]), flows)
        elif version == 9 and size >= 20:
            self._write_header(copy, 12, (version, source, payload[16:20]), 1)
        elif version == 10 and size >= 16:
            self._write_header(copy, 8, (version, source, payload[12:16]), records)
        elif payload[:4] == b"\0\0\0\5" and size >= 8:
            self._number_sflow(copy, source)
        return bytes(copy)

    def _number_sflow(self, copy: bytearray, source: tuple[str, int]) -> None:
        """The agent is known by the address inside, if there is one."""
        (address_type,) = unpack_from(">I", copy, 4)
        if address_type > 2:
            return
        at = 8 + (0, 4, 16)[address_type]
        if len(copy) < at + 16:
            return
        address, sub_agent = bytes(copy[8:at]), bytes(copy[at : at + 4])
        agent = (address if any(address) else source[0], sub_agent)
        (samples,) = unpack_from(">I", copy, at + 12)
        self._write_header(copy, at + 4, agent, 1)
        at += 16
        for _ in range(samples):
            if len(copy) < at + 8:
                return
            sample_format, length = unpack_from(">II", copy, at)
            at += 8
            if length > len(copy) - at:
                return
            if sample_format in _KINDS and length >= 12:
                self._write_sample(copy, at, agent, sample_format)
            at += length + -length % 4

    def _write_sample(self, copy: bytearray, at: int, agent: Hashable, sample_format: int) -> None:
        """A sample begins with its number and its source: type (8 bits) and index, or a word each. Where its agent
        leaps, it begins anew by itself."""
        first, second = unpack_from(">II", copy, at + 4)
        source = (first >> 24, first & 0xFFFFFF) if sample_format in _COMPACT else (first, second)
        key = (agent, _KINDS[sample_format], source)
        (number,) = unpack_from(">I", copy, at)
        self._write(copy, at, key, self._next.get(key, number), 1)

    def _write_header(self, copy: bytearray, at: int, key: Hashable, units: int) -> None:
        """The number of a datagram that stands for so many units."""
        (number,) = unpack_from(">I", copy, at)
        leap = 0 if key in self._next else LEAP
        self._write(copy, at, key, self._next.get(key, number + leap), units + leap)

    def _write(self, copy: bytearray, at: int, key: Hashable, number: int, step: int) -> None:
        copy[at : at + 4] = (number % 2**32).to_bytes(4, "big")
        self._next[key] = number + step
