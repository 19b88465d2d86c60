"""A UDP receiver on the loopback interface."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

BUFFER = 212992
"""Bytes of the receive buffer, which every Linux allows. It holds about 180 long datagrams."""


class Received(NamedTuple):
    payload: bytes
    source: tuple[str, int]


class Receiver:
    """A bound socket. The system keeps datagrams until they are read, so read a few hundred at most."""

    def __init__(self, family: int = socket.AF_INET, address: str = "127.0.0.1", port: int = 0) -> None:
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.socket.settimeout(30)
        self.socket.bind((address, port))
        self.address = address
        self.port: int = self.socket.getsockname()[1]
        self.to = f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}"

    def wait(self) -> Received:
        """Wait for a datagram."""
        payload, source = self.socket.recvfrom(65536)
        return Received(payload, source[:2])

    def read(self) -> list[Received]:
        """Return the datagrams that have arrived."""
        received = []
        self.socket.setblocking(False)
        while True:
            try:
                received.append(self.wait())
            except BlockingIOError:
                self.socket.settimeout(30)
                return received


@contextmanager
def receiver(family: int = socket.AF_INET, address: str = "127.0.0.1", port: int = 0) -> Iterator[Receiver]:
    found = Receiver(family, address, port)
    with found.socket:
        yield found


def closed_port() -> int:
    """Return a port on which nothing listens."""
    with receiver() as free:
        return free.port
