"""Targets to which received datagrams are forwarded."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flowbuf.collect.destination import Destination
from flowbuf.collect.listen import Address, set_buffer
from flowbuf.errors import ConfigError
from flowbuf.networks import pack_address

__all__ = ["SOURCES", "ForwardTarget", "check_circles", "resolve_targets"]

SOURCES = ("own", "original")
"""Values of `forward_source`."""

SEND_BUFFER = 4 << 20
"""Size of the send buffer of a target, in bytes. It holds about 1,800 datagrams of 1,400 bytes."""


@dataclass(frozen=True)
class ForwardTarget:
    """A target with its resolved address.

    Args:
        name: Name in reports: the host and port of the configuration.
        address: IPv4 or IPv6 address.
        port: UDP port.
        scope: Number of the interface of a link-local IPv6 address, otherwise 0.
        original: Keep the address and port of the source of each datagram.
    """

    name: str
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    scope: int = 0
    original: bool = False

    def open(self) -> socket.socket:
        """Return a socket that is connected to the target.

        Raises:
            ConfigError: the target cannot be reached, or a privilege is missing.
        """
        try:
            return self._connect()
        except PermissionError as error:
            if not self.original:
                raise ConfigError(f"forward: {self.name} is forbidden: {error.strerror}") from error
            fix = 'add the capability, or set forward_source = "own"'
            raise ConfigError(f'forward_source = "original" needs CAP_NET_RAW; {fix}') from error
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            problem = f"forward: {self.name} cannot be reached: {reason}; check the address and the routes"
            raise ConfigError(problem) from error

    def _connect(self) -> socket.socket:
        kind = (socket.SOCK_RAW, socket.IPPROTO_RAW) if self.original else (socket.SOCK_DGRAM, 0)
        made = socket.socket(socket.AF_INET if self.address.version == 4 else socket.AF_INET6, *kind)
        try:
            set_buffer(made, socket.SO_SNDBUF, SEND_BUFFER)
            made.connect(self._socket_address(0 if self.original else self.port))
        except BaseException:
            made.close()
            raise
        return made

    def _socket_address(self, port: int) -> tuple[Any, ...]:
        host = str(self.address)
        return (host, port) if self.address.version == 4 else (host, port, 0, self.scope)

    @property
    def packed(self) -> bytes:
        """Address as 16 bytes; IPv4 as ::ffff:a.b.c.d."""
        return pack_address(self.address)

    def is_local(self) -> bool:
        """Return True if the address belongs to this machine."""
        if self.address.is_loopback:
            return True
        try:
            with replace(self, original=False)._connect() as probe:  # the system chooses the same address
                return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]) == self.address
        except OSError:
            return False  # `open` reports the reason


def resolve_targets(texts: Iterable[str], source: str) -> list[ForwardTarget]:
    """Return the targets of texts such as "10.0.0.9:2055", "[2001:db8::9]:2055" or "collector:2055".

    Args:
        texts: Hosts and ports.
        source: One of SOURCES.

    Raises:
        ConfigError: a text is not HOST:PORT, occurs twice, or its host cannot be resolved.
    """
    if source == "original" and sys.platform != "linux":
        raise ConfigError('forward_source = "original" needs Linux; set forward_source = "own"')
    targets: list[ForwardTarget] = []
    for text in texts:
        try:
            target = _resolve(Destination.parse(text), source == "original")
        except ValueError as error:
            raise ConfigError(f"forward: {error}") from error
        if target.name in {other.name for other in targets}:
            raise ConfigError(f"forward: {target.name} exists twice; remove one of them")
        targets.append(target)
    return targets


def _resolve(destination: Destination, original: bool) -> ForwardTarget:
    _, found = destination.resolve()
    address = ipaddress.ip_address(found[0].partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    scope = found[3] if len(found) > 3 else 0
    return ForwardTarget(str(destination), address, destination.port, scope, original)


def check_circles(targets: Iterable[ForwardTarget], listening: Sequence[Address]) -> None:
    """Refuse a target on which the collector itself listens. Each datagram would circle without end.

    Raises:
        ConfigError: there is such a target.
    """
    for target in targets:
        for address in listening:
            if address.port == target.port and _receives(address, target):
                problem = f"forward: the collector itself listens on {target.name}"
                raise ConfigError(f"{problem}, so datagrams would circle; choose another target")


def _receives(listening: Address, target: ForwardTarget) -> bool:
    host = ipaddress.ip_address(listening.host)
    if not host.is_unspecified:
        return host == target.address
    return host.version in (6, target.address.version) and target.is_local()
