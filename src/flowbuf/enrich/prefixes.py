"""Longest prefix match for IPv4 and IPv6.

There is one dictionary per prefix length, and a lookup tries them from longest to shortest. Real tables have
one or two dozen lengths. Addresses have 16 bytes, as in the columns of a flow.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator
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
        if self.version == 4:
            return f"{socket.inet_ntoa(self.number.to_bytes(4, 'big'))}/{self.bits}"
        return f"{ipaddress.IPv6Address(self.number)}/{self.bits}"

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


_IPV4 = re.compile(r"([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})(?:/([1-9][0-9]?|0))?", re.ASCII)


def parse_prefix(text: str) -> Prefix:
    """Parse an address or ADDRESS/BITS. IPv4 may be written as ::ffff:a.b.c.d. Raises EnrichmentError."""
    return _parse_ipv4(text) or _parse(text)


def _parse_ipv4(text: str) -> Prefix | None:
    """Parse IPv4 in a quarter of the time of `ipaddress`. None for a text that `_parse` has to read."""
    found = _IPV4.fullmatch(text)
    if not found:
        return None
    try:
        number = int.from_bytes(socket.inet_pton(socket.AF_INET, found[1]), "big")
    except OSError:
        return None
    bits = 32 if found[2] is None else int(found[2])
    return Prefix(4, number, bits) if bits <= 32 and not number & (1 << 32 - bits) - 1 else None


def _parse(text: str) -> Prefix:
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


class PrefixTable(Generic[Value]):
    """A table with one value per network."""

    def __init__(self) -> None:
        # By version, then by the number of host bits from few to many. Keys are addresses without these bits.
        self._levels: dict[int, dict[int, dict[int, tuple[Prefix, Value]]]] = {4: {}, 6: {}}

    def __len__(self) -> int:
        return sum(len(entries) for levels in self._levels.values() for entries in levels.values())

    def __iter__(self) -> Iterator[tuple[Prefix, Value]]:
        """Iterate over the networks with their values."""
        for levels in self._levels.values():
            for entries in levels.values():
                yield from entries.values()

    def insert(self, prefix: Prefix, value: Value) -> Value:
        """Set the value of a network, unless it has one. Return its value."""
        levels = self._levels[prefix.version]
        shift = prefix.width - prefix.bits
        if shift not in levels:
            levels = self._levels[prefix.version] = dict(sorted({**levels, shift: {}}.items()))
        return levels[shift].setdefault(prefix.number >> shift, (prefix, value))[1]

    def matches(self, address: bytes) -> Iterator[tuple[Prefix, Value]]:
        """Yield the networks that contain an address, longest first, with their values."""
        version, number = _number(address)
        for shift, entries in self._levels[version].items():
            entry = entries.get(number >> shift)
            if entry is not None:
                yield entry
