"""Copy datagrams with consecutive sequence numbers. The C version is ext/bench/numbering.h.

A benchmark decodes the same datagrams repeatedly. With the numbers of the capture, every copy except the
first would be a duplicate, and the benchmark would time the detection of duplicates. So each copy continues
the numbers of the previous one, in the units that ext/core/exporter/sequence.h lists.

When the set is decoded again, its numbers jump back. A number just below the newest one counts as late, and
so does every number until the newest one is reached. With few datagrams per exporter, this would be a whole
pass. So each numbering makes two large jumps: to its first datagram, and from there to the second one. The
jumps exceed the range of late and lost numbers, so the core treats them as a restart of the exporter. Two
datagrams per numbering and pass are affected. All others are in order.
"""

from __future__ import annotations

from collections.abc import Hashable
from struct import unpack_from

__all__ = ["LEAP", "Numberings"]

LEAP = 1 << 27
"""Larger than the number of units that any exporter sends in a minute."""

_KINDS = {1: "flow", 2: "counters", 3: "flow", 4: "counters", 5: "drop"}
"""Formats of numbered samples. Samples of the same kind and source share a numbering."""
_COMPACT = (1, 2)


class Numberings:
    """The next number of each numbering. A key identifies the exporter and the counted units."""

    def __init__(self) -> None:
        self._next: dict[Hashable, int] = {}

    def number_on(self, payload: bytes, source: tuple[str, int], records: int) -> bytes:
        """Return a copy of a payload with consecutive numbers. A truncated rest is copied unchanged.

        `records` is the number of data records in the payload, which IPFIX counts.
        """
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
        """Number an sFlow datagram and its samples.

        The agent address in the datagram identifies the agent, if there is one.
        """
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
        """Number a sample.

        It begins with its number and its source: type (8 bits) and index, or one word each.

        A jump of the agent's numbers also restarts the numbers of its samples.
        """
        first, second = unpack_from(">II", copy, at + 4)
        source = (first >> 24, first & 0xFFFFFF) if sample_format in _COMPACT else (first, second)
        key = (agent, _KINDS[sample_format], source)
        (number,) = unpack_from(">I", copy, at)
        self._write(copy, at, key, self._next.get(key, number), 1)

    def _write_header(self, copy: bytearray, at: int, key: Hashable, units: int) -> None:
        """Write the number of a datagram that counts for `units` units."""
        (number,) = unpack_from(">I", copy, at)
        leap = 0 if key in self._next else LEAP
        self._write(copy, at, key, self._next.get(key, number + leap), units + leap)

    def _write(self, copy: bytearray, at: int, key: Hashable, number: int, step: int) -> None:
        copy[at : at + 4] = (number % 2**32).to_bytes(4, "big")
        self._next[key] = number + step
