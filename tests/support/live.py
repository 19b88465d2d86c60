"""Send datagrams to a running collector, over the loopback interface."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable

__all__ = ["send", "wait_until"]


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
