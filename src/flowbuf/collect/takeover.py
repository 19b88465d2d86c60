"""Hand the sockets and the state of a running collector over to its successor, so that no datagram is lost.

    successor                                     running collector
    connect to the name of a listen address
    request                                  ──▶
                                             ◀──  addresses, with the descriptors of their sockets
    open outputs, check the configuration         (receives)
    "ready", with the spools it waits for    ──▶
                                             ◀──  state of exporters, drop counters (paused)
                                             ◀──  data sets that wait for their templates, in parts
    start workers
    "done"                                   ──▶  writes the flows that wait, and ends
    open the spools when they are free

The kernel keeps datagrams in the sockets while both are paused. TCP sessions end with the old collector, and
their exporters connect to the new one. If the successor fails before "done", the
running collector continues. The messages are JSON, each after its length in four bytes.

"ready" also has the version of waiting data sets that the successor reads. The running collector sends them
only if it writes the same version. Otherwise they end with it, and are counted as `template_missing`.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import itertools
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

from flowbuf._core import EARLY_DATA_VERSION
from flowbuf.collect.listen import Address, Listener, StreamListener
from flowbuf.errors import ListenError, error_text

__all__ = ["Handover", "TakeoverServer", "take_over"]

logger = logging.getLogger("flowbuf.collect")

VERSION = 1
MAX_MESSAGE = 1 << 30
MAX_SOCKETS = 250  # the kernel passes at most 253 descriptors per message
READY_SECONDS = 120.0
"""Time that a successor may take to open its outputs."""
DONE_SECONDS = 30.0
"""Time that a successor may take to start its workers. Then the running collector continues."""

RETRY_SECONDS = 0.5
"""Time between two attempts to get the name that the predecessor still has, or to accept a successor."""

END_SECONDS = 1.0
"""Longest time to wait for a thread at the end. It may wait for a successor."""

_CREDENTIALS = "3i"  # process, user and group


def _name(address: Address) -> str:
    """Return the name of the Unix socket of an address, in the abstract namespace of Linux."""
    return f"\0flowbuf-collect/{address}"


class _Channel:
    """Messages over a connected Unix socket. Each is a dict with the key "message"."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def close(self) -> None:
        self._connection.close()

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        self._connection.settimeout(READY_SECONDS)
        body = json.dumps(message).encode()
        head = struct.pack("!I", len(body))
        socket.send_fds(self._connection, [head], descriptors)
        self._connection.sendall(body)

    def expect(self, kind: str, timeout: float) -> dict[str, Any]:
        """Return the next message. Its descriptors are in the key "descriptors".

        Raises:
            OSError: the peer has ended, or sent nothing in time.
            ValueError: the message is not of this kind.
        """
        self._connection.settimeout(timeout)
        head, descriptors, _, _ = socket.recv_fds(self._connection, 4, MAX_SOCKETS)
        try:
            size = struct.unpack("!I", head + self._read(4 - len(head)))[0]
            if size > MAX_MESSAGE:
                raise ValueError(f"a message of {size} bytes is too large")
            message = json.loads(self._read(size))
            if not isinstance(message, dict) or message.get("message") != kind:
                raise ValueError(f"the message is not {kind!r}")
            return {**message, "descriptors": descriptors}
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise

    def _read(self, size: int) -> bytes:
        pieces = []
        while size > 0:
            piece = self._connection.recv(min(size, 1 << 20))
            if not piece:
                raise ConnectionError("the other collector has closed the connection; its log has the reason")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


# The running collector --------------------------------------------------------------------------------------


class TakeoverServer:
    """Wait for a successor, in threads, inside a `with` block.

    Only processes of the same user and of root are answered.

    Args:
        listeners: Listeners to hand over.
        pause: Stops receiving, and returns the state for the successor.
        read_early_data: Yields the data sets that wait for their templates, in parts: see
            `Intake.read_early_data`.
        resume: Continues after a failed handover.
        finish: Ends the collector after a handover. It receives the folders of the spools with which the
            successor continues, and True if the successor has the waiting data sets.
    """

    def __init__(
        self,
        listeners: Sequence[Listener | StreamListener],
        pause: Callable[[], Any],
        read_early_data: Callable[[], Iterable[list[dict[str, Any]]]],
        resume: Callable[[], None],
        finish: Callable[[list[str], bool], None],
    ) -> None:
        self._listeners = listeners
        self._pause = pause
        self._read_early_data = read_early_data
        self._resume = resume
        self._finish = finish
        self._closed = threading.Event()
        self._servers: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()  # one successor at a time
        self._handed_over = False

    def __enter__(self) -> TakeoverServer:
        for listener in self._listeners:
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._servers.append(server)
            name = _name(listener.address)
            bound = self._bind(server, name)
            thread = threading.Thread(
                target=self._serve, args=(server, name, bound), name="flowbuf-takeover", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed.set()
        for server in self._servers:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)  # ends accept
        for thread in self._threads:
            thread.join(END_SECONDS)
        for server in self._servers:
            server.close()  # after the threads, which may not use the number of another file

    def _serve(self, server: socket.socket, name: str, bound: bool) -> None:
        while not self._closed.is_set():
            try:
                bound = bound or self._bind(server, name)
                if bound:
                    connection, _ = server.accept()
                    with connection, self._lock:
                        self._answer(connection)
                    continue
            except OSError as error:  # no descriptor is free, or the server is closed
                if not self._closed.is_set():
                    logger.warning("takeover: no successor can connect, trying again: %s", error)
            self._closed.wait(RETRY_SECONDS)

    def _bind(self, server: socket.socket, name: str) -> bool:
        """Return False while the predecessor has the name."""
        try:
            server.bind(name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        server.listen(1)
        return True

    def _answer(self, connection: socket.socket) -> None:
        """Hand over to one successor. Continue if that fails. Refuse others after it has succeeded."""
        user = struct.unpack(_CREDENTIALS, _read_credentials(connection))[1]
        if user not in (0, os.geteuid()):
            logger.warning("takeover: a process of user %d was refused", user)
            return
        if self._handed_over:  # two collectors would share the sockets
            logger.warning("takeover: a second successor was refused, because this collector ends")
            return
        paused = False
        try:
            channel = _Channel(connection)
            self._offer(channel)
            ready = channel.expect("ready", READY_SECONDS)
            spools = [str(folder) for folder in ready.get("spools", [])]
            has_early_data = ready.get("early_data") == EARLY_DATA_VERSION
            paused = True
            channel.send({"message": "state", "state": self._pause(), "early_data": has_early_data})
            if has_early_data:
                self._send_early_data(channel)
            channel.expect("done", DONE_SECONDS)
        except Exception as error:  # of the connection, or of delivering the flows that wait
            logger.warning("takeover: failed, and this collector continues: %s", error_text(error))
            if paused:
                self._resume()
            return
        logger.info("takeover: the successor receives now")
        self._handed_over = True
        self._finish(spools, has_early_data)

    def _send_early_data(self, channel: _Channel) -> None:
        """Send the data sets that wait for their templates, one part per worker, and an empty last part."""
        for exporters in filter(None, self._read_early_data()):
            channel.send({"message": "early data", "exporters": [_to_text(each) for each in exporters]})
        channel.send({"message": "early data", "exporters": []})

    def _offer(self, channel: _Channel) -> None:
        """Answer the request of a successor with the sockets."""
        request = channel.expect("take over", READY_SECONDS)
        if request["version"] != VERSION:
            raise ValueError(f"the successor has version {request['version']} of the protocol, not {VERSION}")
        descriptors = [each.fileno() for listener in self._listeners for each in listener.sockets]
        addresses = [str(each.address) for each in self._listeners]
        counts = [len(each.sockets) for each in self._listeners]
        channel.send({"message": "sockets", "addresses": addresses, "counts": counts}, descriptors)


def _read_credentials(connection: socket.socket) -> bytes:
    size = struct.calcsize(_CREDENTIALS)
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)


def _to_text(exporter: dict[str, Any]) -> dict[str, Any]:
    return {**exporter, "early_data": base64.b64encode(exporter["early_data"]).decode()}


def _from_text(exporter: dict[str, Any]) -> dict[str, Any]:
    return {**exporter, "early_data": base64.b64decode(exporter["early_data"], validate=True)}


# The successor ----------------------------------------------------------------------------------------------


class Handover:
    """The connection of a successor with the running collector.

    Attributes:
        listeners: Listeners with the sockets of the running collector.
    """

    def __init__(self, channel: _Channel, listeners: list[Listener | StreamListener]) -> None:
        self._channel = channel
        self._early_data = False
        self.listeners = listeners

    def request_state(self, spools: Sequence[str] = (), early_data: bool = False) -> Any:
        """Pause the running collector, and return its state.

        Args:
            spools: Folders of the spools with which this process continues.
            early_data: Request the data sets that wait for their templates. Then read `read_early_data` to
                its end. Default: False.

        Raises:
            ListenError: the running collector does not answer.
        """
        try:
            version = {"early_data": EARLY_DATA_VERSION} if early_data else {}
            self._channel.send({"message": "ready", "spools": list(spools), **version})
            answer = self._channel.expect("state", DONE_SECONDS)
            self._early_data = answer.get("early_data") is True  # missing in older versions
            return answer["state"]
        except (OSError, ValueError, KeyError) as error:
            raise ListenError(f"the running collector does not hand over: {error}") from error

    def read_early_data(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the data sets that wait for their templates, in parts, after `request_state`.

        Raises:
            ListenError: the running collector does not answer, or a part is invalid.
        """
        try:
            while self._early_data:
                exporters = self._channel.expect("early data", DONE_SECONDS)["exporters"]
                self._early_data = bool(exporters)
                if exporters:
                    yield [_from_text(each) for each in exporters]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ListenError(f"the running collector does not hand over: {error}") from error

    def finish(self) -> None:
        """End the running collector.

        Raises:
            ListenError: the running collector has not waited, and continues with the sockets.
        """
        try:
            self._channel.send({"message": "done"})
        except OSError as error:
            raise ListenError(
                "the running collector has stopped waiting for this process, and continues; try again"
            ) from error
        finally:
            self._channel.close()


def take_over(addresses: Iterable[Address]) -> Handover:
    """Request the sockets of the collector that listens on one of these addresses.

    Raises:
        ListenError: no collector of this user listens there, or it does not answer.
    """
    tried = []
    for address in addresses:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(_name(address))
        except OSError:
            connection.close()
            tried.append(str(address))
            continue
        return _receive_sockets(_Channel(connection))
    raise ListenError(f"no collector listens on {', '.join(tried)}; start without --takeover")


def _receive_sockets(channel: _Channel) -> Handover:
    try:
        channel.send({"message": "take over", "version": VERSION})
        offer = channel.expect("sockets", READY_SECONDS)
        sockets = [socket.socket(fileno=descriptor) for descriptor in offer["descriptors"]]
        addresses = [Address.parse(text) for text in offer["addresses"]]
        counts = offer["counts"]
    except ConnectionError as error:
        channel.close()
        raise ListenError(
            "the running collector has ended, or hands over to another successor; try again"
        ) from error
    except (OSError, ValueError, KeyError) as error:
        channel.close()
        raise ListenError(f"the running collector does not hand over: {error}") from error
    rest = iter(sockets)
    listeners = [
        _adopt(address, list(itertools.islice(rest, count)))
        for address, count in zip(addresses, counts, strict=True)
    ]
    return Handover(channel, listeners)


def _adopt(address: Address, sockets: list[socket.socket]) -> Listener | StreamListener:
    if address.transport == "udp":
        return Listener.adopt(address, sockets)
    return StreamListener.adopt(address, sockets[0])
