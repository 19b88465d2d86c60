"""Send datagrams to a running collector, and receive those of a replay, over the loopback interface."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from flowbuf.collect.destination import RESERVED

__all__ = [
    "Received",
    "Receiver",
    "closed_port",
    "own_network",
    "receiver",
    "room_for_files",
    "room_for_sockets",
    "send",
    "wait_until",
]

BUFFER = 212992
"""Bytes of the receive buffer, which every Linux allows. It holds about 180 long datagrams."""


def send(payloads: Iterable[bytes], to: str, source: str | None = None) -> int:
    """Send payloads to an address such as "127.0.0.1:2055" or "[::1]:2055". Return their number."""
    host, _, port = to.rpartition(":")
    host = host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as sender:
        if source:
            sender.bind((source, 0))
        sender.connect((host, int(port)))
        return sum(sender.send(payload) >= 0 for payload in payloads)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds. Fail after 30 seconds."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"waited 30 seconds: {what}"
        time.sleep(0.01)


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


@contextmanager
def room_for_sockets(count: int) -> Iterator[None]:
    """Limit the open files of this process, so that `connected_sockets` opens at most `count` sockets."""
    with room_for_files(len(os.listdir("/dev/fd")) + RESERVED + count):
        yield


@contextmanager
def room_for_files(count: int) -> Iterator[None]:
    """Limit the descriptors of this process to the numbers below `count`. Open files stay open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def own_network(*tools: str) -> list[str]:
    """Return the beginning of a command that runs in a network of its own, in which it has all privileges.

    Skip the test if that is forbidden here, or if `ip` or one of `tools` is missing.
    """
    unshare = ["unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "-n"]
    installed = all(shutil.which(tool) for tool in ("unshare", "ip", *tools))
    if not installed or subprocess.run([*unshare, "ip", "link", "add", "type", "veth"]).returncode:
        pytest.skip("unshare cannot make a network here")
    return unshare
