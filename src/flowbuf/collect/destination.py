"""Addresses of UDP receivers: text such as `collector:2055` or `[2001:db8::1]:2055`, and sockets to them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Destination", "connected_sockets"]

RESERVED = 32
"""Descriptors that stay free for other files of the process."""
UNLIMITED = 1 << 16
"""Most sockets of a process without a limit on open files: there are no more ports."""

_PATTERN = re.compile(r"(?:\[(?P<literal>[^\[\]]+)\]|(?P<host>[^:\[\]\s]+)):(?P<port>\d{1,5})", re.ASCII)


@dataclass(frozen=True)
class Destination:
    """Host and port of a UDP receiver.

    Attributes:
        host: IPv4 or IPv6 address, or host name.
        port: UDP port, 1 to 65,535.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Destination:
        """Return the destination that a text names.

        Args:
            text: HOST:PORT or [IPV6]:PORT.

        Raises:
            ValueError: The text names no host and port.
        """
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not HOST:PORT; write it as 192.0.2.1:2055 or [2001:db8::1]:2055")
        port = int(match["port"])
        if not 1 <= port <= 65535:
            raise ValueError(f"port {port} is out of range; choose 1 to 65535")
        return cls(match["literal"] or match["host"], port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def resolve(self) -> tuple[int, Any]:
        """Return the address family and the socket address. A host with several addresses has the first one.

        Raises:
            ValueError: The host cannot be resolved.
        """
        try:
            family, _, _, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)[0]
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ValueError(f"host {self.host!r} cannot be resolved: {reason}; check its name") from error
        return family, address


NO_MORE = (errno.EAGAIN, errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.EMFILE, errno.ENFILE)
"""Errors of a system that has no more ports or descriptors. The sockets that are open are shared."""


@contextlib.contextmanager
def connected_sockets(destination: Destination, count: int) -> Iterator[list[socket.socket]]:
    """Open UDP sockets to a destination, each with a source port of its own. They are closed at the end.

    Args:
        destination: Receiver.
        count: Number of sockets. There are fewer if the system does not allow as many open files.

    Raises:
        OSError: The destination cannot be reached. Its file name is the destination.
        ValueError: The host cannot be resolved.
    """
    family, address = destination.resolve()
    with contextlib.ExitStack() as stack:
        sockets: list[socket.socket] = []
        try:
            for _ in range(min(count, _most_sockets())):
                made = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                made.connect(address)
                sockets.append(made)
        except OSError as error:
            if not sockets or error.errno not in NO_MORE:
                error.filename = str(destination)
                raise
        yield sockets


def _most_sockets() -> int:
    """Return the number of sockets that the process can open, at least 1."""
    try:
        import resource
    except ImportError:  # not a Unix system
        return 1
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return UNLIMITED
    try:
        opened = len(os.listdir("/dev/fd"))
    except OSError:  # /proc is not mounted
        opened = RESERVED
    return max(limit - opened - RESERVED, 1)
