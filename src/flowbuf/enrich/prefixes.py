"""Longest prefix match for IPv4 and IPv6.

There is one dictionary per prefix length, and a lookup tries them from longest to shortest. Real tables have
one or two dozen lengths. Addresses have 16 bytes, as in the columns of a flow.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from flowbuf.errors import EnrichmentError

__all__ = ["MAPPED", "Prefix", "PrefixTable", "parse_prefix"]

MAPPED = bytes(10) + b"\xff\xff"  # precedes an IPv4 address in 16 bytes

Value = TypeVar("Value")


class Prefix(NamedTuple):
    """A network.

    `version` is 4 or 6, `bits` is the prefix length, and `number` is the address as an integer of that
    version's width.
    """

    version: int
    number: int
    bits: int

    def __str__(self) -> str:
        address = (
            ipaddress.IPv4Address(self.number) if self.version == 4 else ipaddress.IPv6Address(self.number)
        )
        return f"{address}/{self.bits}"

    @property
    def width(self) -> int:
        """Number of bits in an address of this version."""
        return 32 if self.version == 4 else 128

    def packed(self) -> tuple[bytes, int]:
        """Return the network for the core: 16 bytes of its first address, and its prefix length in them."""
        address = self.number.to_bytes(self.width // 8, "big")
        return (address, self.bits) if self.version == 6 else (MAPPED + address, 8 * len(MAPPED) + self.bits)

    def __contains__(self, address: object) -> bool:
        """Return True if an address of 16 bytes is in this network."""
        if not isinstance(address, bytes):
            return False
        version, number = _number(address)
        return (
            version == self.version
            and number >> self.width - self.bits == self.number >> self.width - self.bits
        )


def parse_prefix(text: str) -> Prefix:
    """Parse an address or ADDRESS/BITS. IPv4 may be written as ::ffff:a.b.c.d. Raises EnrichmentError."""
    try:
        interface = ipaddress.ip_interface(text)
    except ValueError:
        fix = "write an address, or a network such as 192.0.2.0/24 or 2001:db8::/32"
        raise EnrichmentError(f"{text!r} is not a network", fix) from None
    if "%" in text:
        raise EnrichmentError(
            f"{text!r} has a zone, which flows do not have", "remove % and the text after it"
        )
    network = interface.network
    if interface.ip != network.network_address:
        raise EnrichmentError(f"{text!r} has bits set beyond its prefix length", f"did you mean {network}?")
    if network.version == 6 and network.prefixlen >= 96 and network.network_address.packed[:12] == MAPPED:
        return Prefix(4, int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96)
    return Prefix(network.version, int(network.network_address), network.prefixlen)


def _number(address: bytes) -> tuple[int, int]:
    if address[:12] == MAPPED:
        return 4, int.from_bytes(address[12:], "big")
    return 6, int.from_bytes(address, "big")


@dataclass(frozen=True, slots=True)
class _Level(Generic[Value]):
    """The prefixes of one length. Keys of entries are addresses shifted right by `shift`."""

    shift: int
    entries: dict[int, tuple[Prefix, Value]]


class PrefixTable(Generic[Value]):
    """A table with one value per network."""

    def __init__(self) -> None:
        self._levels: dict[int, list[_Level[Value]]] = {4: [], 6: []}

    def __len__(self) -> int:
        return sum(len(level.entries) for levels in self._levels.values() for level in levels)

    def __iter__(self) -> Iterator[tuple[Prefix, Value]]:
        """Iterate over the networks with their values."""
        for levels in self._levels.values():
            for level in levels:
                yield from level.entries.values()

    def insert(self, prefix: Prefix, value: Value) -> Value:
        """Set the value of a network, unless it has one. Return its value."""
        levels = self._levels[prefix.version]
        shift = prefix.width - prefix.bits
        level = next((level for level in levels if level.shift == shift), None)
        if level is None:
            level = _Level(shift, {})
            levels.append(level)
            levels.sort(key=lambda level: level.shift)
        return level.entries.setdefault(prefix.number >> shift, (prefix, value))[1]

    def matches(self, address: bytes) -> Iterator[tuple[Prefix, Value]]:
        """Yield the networks that contain an address, longest first, with their values."""
        version, number = _number(address)
        for level in self._levels[version]:
            entry = level.entries.get(number >> level.shift)
            if entry is not None:
                yield entry
