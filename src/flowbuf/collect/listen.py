"""Sockets to which exporters send: UDP, and TCP for IPFIX."""

from __future__ import annotations

import errno
import functools
import ipaddress
import itertools
import operator
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TypeVar

from flowbuf._core import read_drops, spread_sockets
from flowbuf.errors import ListenError

__all__ = [
    "BUFFER_BYTES",
    "DEFAULT_LISTEN",
    "MAX_BUFFER_BYTES",
    "PORTS",
    "Address",
    "Listener",
    "StreamListener",
    "find_worker",
    "open_listeners",
    "open_stream_listeners",
    "set_buffer",
]

PORTS = (2055, 4739, 6343)
"""Ports of NetFlow, IPFIX (RFC 7011 section 10.3.4) and sFlow."""

DEFAULT_LISTEN = tuple(f"[::]:{port}" for port in PORTS)
"""Addresses of the default: these ports, with IPv6 and IPv4."""

BUFFER_BYTES = 32 << 20
"""Default size of the receive buffer of a socket."""

MAX_BUFFER_BYTES = (1 << 30) - 1
"""Largest size of the buffer of a socket: Linux stores twice the size in 31 bits."""

BACKLOG = 128
"""Most connections that wait to be accepted."""

_GOLDEN_RATIO = 0x9E3779B1  # of ext/net/socket.c
_FORCED = {socket.SO_RCVBUF: 33, socket.SO_SNDBUF: 32}
"""Options of Linux that exceed the limit of the system: SO_RCVBUFFORCE and SO_SNDBUFFORCE."""

_OVERHEAD = 2  # Linux grants twice the requested size, for its own bookkeeping


@dataclass(frozen=True)
class Address:
    """An address to listen on.

    Args:
        host: IPv4 or IPv6 address. "::" also receives IPv4, unless another listener has that port for IPv4.
        port: Port, 0 to 65,535. 0 lets the system choose one.
        transport: "udp", "tcp" or "tls". The last two are for IPFIX; their standard ports are 4739 and 4740.
    """

    host: str
    port: int
    transport: str = "udp"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Return the address of a text such as "0.0.0.0:2055", "[::]:6343" or "tcp://[2001:db8::1]:4739".

        Raises:
            ListenError: the text is not an address of this form.
        """
        found = re.fullmatch(r"(?:(udp|tcp|tls)://)?(?:\[([^\]]+)\]|([^:\[\]/]+)):(\d{1,5})", text)
        if not found:
            raise ListenError(f"{text!r} is not an address; write ADDRESS:PORT, or [ADDRESS]:PORT for IPv6")
        host, port = found[2] or found[3], int(found[4])
        try:
            ipaddress.ip_address(host)
        except ValueError:
            problem = f"{text!r}: {host!r} is not an IP address; write one, or 0.0.0.0 or [::] for all"
            raise ListenError(problem) from None
        if port > 65535:
            raise ListenError(f"{text!r}: port {port} is above 65535; choose another")
        return cls(host, port, found[1] or "udp")

    @property
    def family(self) -> socket.AddressFamily:
        """Family of the address: AF_INET or AF_INET6."""
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    @property
    def kind(self) -> socket.SocketKind:
        """Kind of the sockets: SOCK_DGRAM or SOCK_STREAM."""
        return socket.SOCK_DGRAM if self.transport == "udp" else socket.SOCK_STREAM

    def __str__(self) -> str:
        place = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return place if self.transport == "udp" else f"{self.transport}://{place}"


@dataclass
class Listener:
    """The sockets of one address: one per worker.

    Attributes:
        address: Address on which the sockets listen, with the port that the system chose.
        sockets: Sockets in the order of the workers.
        buffer_bytes: Size of the smallest receive buffer that the kernel granted.
    """

    address: Address
    sockets: tuple[socket.socket, ...]
    buffer_bytes: int
    _drops: list[_Drops] = field(init=False)

    def __post_init__(self) -> None:
        self._drops = [_Drops(each.fileno()) for each in self.sockets]

    @classmethod
    def adopt(cls, address: Address, sockets: Sequence[socket.socket]) -> Listener:
        """Return a listener with sockets that another process has bound, in the order of its workers."""
        return cls(address, tuple(sockets), _find_buffer(sockets))

    def freeze_drops(self) -> list[int]:
        """Keep the drop counters at their present values, and return them.

        Another process counts later drops from there.
        """
        return [drops.freeze() for drops in self._drops]

    def count_drops_from(self, before: Sequence[int]) -> None:
        """Count drops after these values of the counters, which another process has counted until then."""
        for drops, value in zip(self._drops, before, strict=True):
            drops.begin(value)

    def read_drops(self, worker: int) -> int | None:
        """Return the number of datagrams that the kernel dropped at the socket of a worker.

        The result is None if the system does not count them. Read it at least once per 4,294,967,295 drops.
        """
        return self._drops[worker].read()

    def thaw_drops(self) -> None:
        """Continue counting after `freeze_drops`."""
        for drops in self._drops:
            drops.thaw()

    def close(self) -> None:
        """Close the sockets."""
        for each in self.sockets:
            each.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class StreamListener:
    """A socket that accepts connections, over TCP or TLS.

    Attributes:
        address: Address on which it listens, with the port that the system chose.
        sockets: The socket.
    """

    address: Address
    sockets: tuple[socket.socket]

    @classmethod
    def adopt(cls, address: Address, listening: socket.socket) -> StreamListener:
        """Return a listener with a socket that listens."""
        listening.setblocking(False)
        return cls(address, (listening,))

    def close(self) -> None:
        """Close the socket."""
        self.sockets[0].close()


AnyListener = TypeVar("AnyListener", Listener, StreamListener)


class _Drops:
    """The drop counter of a socket, which has 32 bits, as a number without a limit. Threads may share it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._begin = 0  # value of the kernel's counter at which counting began
        self._total = 0
        self._frozen = False

    def read(self) -> int | None:
        with self._lock:
            if not self._frozen:
                try:
                    drops = read_drops(self._descriptor)
                except OSError:
                    return None
                self._total += (drops - self._begin - self._total) % (1 << 32)
            return self._total

    def freeze(self) -> int:
        self.read()
        with self._lock:
            self._frozen = True
            return (self._begin + self._total) % (1 << 32)

    def thaw(self) -> None:
        self._frozen = False

    def begin(self, value: int) -> None:
        self._begin, self._total = value, 0


def open_listeners(
    addresses: Iterable[Address],
    workers: int = 1,
    *,
    buffer_bytes: int = BUFFER_BYTES,
    interface: str | None = None,
) -> list[Listener]:
    """Bind the sockets of UDP addresses.

    With several workers, the sockets of an address form a group (SO_REUSEPORT). The kernel assigns each
    sender to one of them by its address, the same for all listeners.

    Args:
        addresses: Addresses to listen on. A repeated one is opened once, unless its port is 0.
        workers: Number of sockets per address.
        buffer_bytes: Size of the receive buffers to request. The kernel limits it to `net.core.rmem_max`.
        interface: Name of the network interface to receive from. Default: all.

    Raises:
        ListenError: an address cannot be used, for example because its port is taken.
    """
    return _open_each(
        addresses, lambda address, others: _open(address, others, workers, buffer_bytes, interface)
    )


def open_stream_listeners(addresses: Iterable[Address], interface: str | None = None) -> list[StreamListener]:
    """Listen on TCP and TLS addresses.

    Args:
        addresses: Addresses to listen on. A repeated one is opened once, unless its port is 0.
        interface: Name of the network interface to receive from. Default: all.

    Raises:
        ListenError: an address cannot be used, for example because its port is taken.
    """
    return _open_each(addresses, lambda address, others: _open_stream(address, others, interface))


def _open_each(
    addresses: Iterable[Address], open_one: Callable[[Address, Sequence[Address]], AnyListener]
) -> list[AnyListener]:
    given = list(addresses)
    wanted = [each for i, each in enumerate(given) if each.port == 0 or each not in given[:i]]
    listeners: list[AnyListener] = []
    try:
        for address in wanted:
            listeners.append(open_one(address, wanted))
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def find_worker(source: str, workers: int) -> int:
    """Return the number of the worker that receives the datagrams of a source: see `fb_socket_spread`.

    Raises:
        ValueError: source is not an IP address.
    """
    address = ipaddress.ip_address(source)
    words = [int.from_bytes(address.packed[i : i + 4], "big") for i in range(0, len(address.packed), 4)]
    mixed = functools.reduce(operator.xor, words)
    return (mixed * _GOLDEN_RATIO % (1 << 32) >> 16) % workers


def _open(
    address: Address, others: Sequence[Address], workers: int, buffer_bytes: int, interface: str | None
) -> Listener:
    only_ipv6 = _is_shared(address.port, others)
    sockets: list[socket.socket] = []
    try:
        if workers > 1:  # a group would also admit the sockets of another process
            _bind(address, only_ipv6, 0, None, shared=False).close()
        for _ in range(workers):
            sockets.append(_bind(address, only_ipv6, buffer_bytes, interface, shared=workers > 1))
            address = replace(address, port=sockets[0].getsockname()[1])
        if workers > 1:
            spread_sockets(sockets[0].fileno(), workers)
    except OSError as error:
        for each in sockets:
            each.close()
        raise ListenError(f"{address}: {_explain(error, address, others, interface)}") from error
    return Listener.adopt(address, sockets)


def _open_stream(address: Address, others: Sequence[Address], interface: str | None) -> StreamListener:
    try:
        made = _bind(address, _is_shared(address.port, others), 0, interface, shared=False)
    except OSError as error:
        raise ListenError(f"{address}: {_explain(error, address, others, interface)}") from error
    return StreamListener.adopt(replace(address, port=made.getsockname()[1]), made)


def _is_shared(port: int, others: Sequence[Address]) -> bool:
    """Return True if a listener has this port for IPv4."""
    return port in {other.port for other in others if other.family == socket.AF_INET and other.port}


def _find_buffer(sockets: Sequence[socket.socket]) -> int:
    """Return the size of the smallest receive buffer, in bytes, without the overhead of the system."""
    granted = min(each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in sockets)
    return granted // _OVERHEAD if sys.platform == "linux" else granted


def _bind(
    address: Address, only_ipv6: bool, buffer_bytes: int, interface: str | None, shared: bool
) -> socket.socket:
    made = socket.socket(address.family, address.kind)
    try:
        if address.kind == socket.SOCK_STREAM:  # connections that have ended do not hinder a restart
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_ipv6)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if interface:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        if buffer_bytes:
            set_buffer(made, socket.SO_RCVBUF, buffer_bytes)
        made.bind((address.host, address.port))
        if address.kind == socket.SOCK_STREAM:
            made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def set_buffer(made: socket.socket, option: int, size: int) -> None:
    """Request a buffer of this size, in bytes. The kernel may grant less.

    Args:
        made: Socket.
        option: SO_RCVBUF or SO_SNDBUF.
        size: Size in bytes. MAX_BUFFER_BYTES is requested instead of more.
    """
    size = min(size, MAX_BUFFER_BYTES)
    made.setsockopt(socket.SOL_SOCKET, option, size)
    if sys.platform == "linux" and made.getsockopt(socket.SOL_SOCKET, option) < size * _OVERHEAD:
        with suppress(PermissionError):  # beyond the limit of the system, CAP_NET_ADMIN is needed
            made.setsockopt(socket.SOL_SOCKET, _FORCED[option], size)


_ADVICE = {
    errno.EADDRINUSE: "is used by another process; stop it, or choose another port",
    errno.EACCES: "needs the privilege to bind a port below 1024; choose another port",
    errno.EADDRNOTAVAIL: "is not an address of this machine; choose one of its addresses",
    errno.EAFNOSUPPORT: "needs IPv6, which this system does not support; use an IPv4 address",
}


def _explain(error: OSError, address: Address, others: Sequence[Address], interface: str | None) -> str:
    """Return the problem of an address. `others` are the addresses of the collector, in their order."""
    if interface and error.errno == errno.ENODEV:
        return f"cannot use interface {interface!r}, which does not exist; see `ip link` for the names"
    if interface and error.errno == errno.EPERM:
        return f"cannot bind to interface {interface!r} without CAP_NET_RAW; add the capability"
    if isinstance(error, socket.gaierror):  # its numbers are not those of errno
        return f"cannot be resolved: {error.strerror}; check the address, and the interface after %"
    if error.errno == errno.EADDRINUSE and (other := _find_overlap(address, others)):
        return f"overlaps with {other}; leave one of them out"
    text = os.strerror(error.errno) if error.errno else str(error)
    return _ADVICE.get(error.errno or 0, f"cannot be used: {text}; check the address")


def _find_overlap(address: Address, others: Sequence[Address]) -> Address | None:
    """Return an address that was opened before, and has the port of this one."""
    host = ipaddress.ip_address(address.host)
    for other in itertools.takewhile(lambda each: each != address, others):
        if (other.port, other.family) == (address.port, address.family):
            before = ipaddress.ip_address(other.host)
            if before == host or before.is_unspecified or host.is_unspecified:
                return other
    return None
