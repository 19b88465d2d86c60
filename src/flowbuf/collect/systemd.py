"""The protocols of systemd: notification of the state, and sockets that systemd has opened.

sd_notify(3) and sd_listen_fds(3) specify them.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

from flowbuf.collect.listen import Address, Listener, StreamListener
from flowbuf.errors import ListenError, contained_exit

__all__ = ["Watchdog", "activated_listeners", "notify", "reloading", "tell_manager", "watchdog_seconds"]

logger = logging.getLogger("flowbuf.collect")

Result = TypeVar("Result")

FIRST_DESCRIPTOR = 3

ATTEND_SECONDS = 0.2
"""Time between two looks at the watchdog during slow work."""


def notify(*states: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send states such as "READY=1" to the service manager, if there is one.

    Args:
        *states: Assignments of sd_notify(3).
        environment: Environment variables. Default: those of the process.

    Raises:
        OSError: the service manager does not receive.
    """
    path = environment.get("NOTIFY_SOCKET", "")
    if not path:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect("\0" + path[1:] if path.startswith("@") else path)
        sender.send("\n".join(states).encode())


def tell_manager(*states: str) -> None:
    """Send states as `notify` does. Log an error."""
    try:
        notify(*states)
    except OSError as error:
        logger.warning("the service manager was not notified: %s", error)


def reloading() -> tuple[str, str]:
    """Return the states that begin a reload. READY=1 ends it."""
    return "RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}"


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return the interval at which the service manager expects WATCHDOG=1; None if it expects none."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        return int(environment["WATCHDOG_USEC"]) / 2_000_000  # half of the limit
    except (KeyError, ValueError):
        return None


class Watchdog:
    """Answer the watchdog of the service manager, if it expects that.

    Args:
        find_problems: Returns a text for each part that does not work. Without any, the watchdog is answered.
    """

    def __init__(self, find_problems: Callable[[], Sequence[str]]) -> None:
        self._find_problems = find_problems
        self._interval = watchdog_seconds() or float("inf")
        self._answered = time.monotonic()

    def answer(self) -> None:
        """Answer if the interval has passed."""
        now = time.monotonic()
        if now - self._answered >= self._interval and not self._find_problems():
            self._answered = now
            tell_manager("WATCHDOG=1")

    def attend(
        self, work: Callable[[], Result], give_up: Callable[[], bool] = lambda: False
    ) -> Future[Result]:
        """Do slow work in a thread, and answer the watchdog in the meantime.

        Args:
            work: Function to call. Its thread does not delay the exit of the process. If the system has no
                room for a thread, it is called in this one.
            give_up: Returns True to wait no longer. Default: wait for the end of the work.

        Returns:
            Future: Result of the work. It is not done if `give_up` ended the wait.
        """
        future: Future[Result] = Future()
        thread = threading.Thread(target=_fulfil, args=(future, work), name="flowbuf-work", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no memory or number for a thread
            _fulfil(future, work)
        while not (future.done() or give_up()):
            wait([future], ATTEND_SECONDS)
            self.answer()
        return future


def _fulfil(future: Future[Result], work: Callable[[], Result]) -> None:
    try:
        with contained_exit():  # otherwise, a user's module could end the collector at a reload
            future.set_result(work())
    except Exception as error:
        future.set_exception(error)


def activated_listeners(
    encrypted: Container[Address] = (), environment: Mapping[str, str] = os.environ
) -> list[Listener | StreamListener]:
    """Return listeners for the sockets that systemd has opened. Without socket activation, there are none.

    Args:
        encrypted: Addresses for TLS. Other sockets of ListenStream= are for TCP without encryption.
        environment: Environment variables. Default: those of the process.

    Raises:
        ListenError: a socket is neither a UDP socket nor a listening TCP socket.
    """
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(environment.get("LISTEN_FDS", "0"))
    return [_adopt(socket.socket(fileno=FIRST_DESCRIPTOR + i), encrypted) for i in range(count)]


def _adopt(given: socket.socket, encrypted: Container[Address]) -> Listener | StreamListener:
    problem = "is neither for UDP nor for TCP; write ListenDatagram= or ListenStream= in the socket unit"
    if given.family not in (socket.AF_INET, socket.AF_INET6):
        raise ListenError(f"a socket of systemd {problem}")
    os.set_inheritable(given.fileno(), False)
    host, port = given.getsockname()[:2]
    if given.type == socket.SOCK_DGRAM:
        return Listener.adopt(Address(host, port), [given])
    if given.type != socket.SOCK_STREAM or not given.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise ListenError(f"a socket of systemd {problem}, without Accept=yes")
    address = Address(host, port, "tls")
    return StreamListener.adopt(address if address in encrypted else Address(host, port, "tcp"), given)
