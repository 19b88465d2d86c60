"""Networks and addresses: as text, and as bytes for the core."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["Network", "Prefix", "pack_address", "parse_network", "to_prefix", "to_prefixes"]

Network = IPv4Network | IPv6Network

Prefix = tuple[bytes, int]
"""A network for the core: 16 bytes of the first address, and the number of bits that its addresses share."""

_MAPPED = bytes(10) + b"\xff\xff"
"""Bytes that precede an IPv4 address in 16 bytes."""

MAPPED_BITS = 8 * len(_MAPPED)


def pack_address(address: IPv4Address | IPv6Address) -> bytes:
    """Return an address as 16 bytes. IPv4 addresses are IPv4-mapped."""
    return address.packed if address.version == 6 else _MAPPED + address.packed


def parse_network(text: str) -> Network:
    """Return a network such as "192.0.2.0/24" or "2001:db8::/32", or an address as a network of its own.

    IPv4-mapped networks of IPv6 become networks of IPv4.

    Raises:
        ValueError: the text is no network, or its address has host bits set.
    """
    try:
        network = ip_network(text, strict=False)
    except ValueError as error:
        fix = 'write an address or a network such as "192.0.2.0/24"'
        raise ValueError(f"network {text!r} is invalid; {fix}") from error
    if ip_address(text.partition("/")[0]) != network.network_address:
        raise ValueError(f"network {text!r} has host bits set; write {str(network)!r}")
    mapped = isinstance(network, IPv6Network) and network.network_address.ipv4_mapped
    if not mapped or network.prefixlen < MAPPED_BITS:
        return network
    return IPv4Network((mapped, network.prefixlen - MAPPED_BITS))


def to_prefix(network: Network) -> Prefix:
    """Return a network for the core, in which IPv4 addresses are IPv4-mapped."""
    bits = network.prefixlen + (MAPPED_BITS if network.version == 4 else 0)
    return pack_address(network.network_address), bits


def to_prefixes(texts: Iterable[str]) -> list[Prefix]:
    """Return networks for the core.

    Raises:
        ValueError: a text is no network.
    """
    return [to_prefix(parse_network(text)) for text in texts]
