"""Transport Sessions of IPFIX over TCP and TLS (RFC 7011 section 10.4).

One thread serves all sessions. Each turn of a session reads at most BUFFER_BYTES into a buffer that all
sessions share. Between its turns, a session stores only its incomplete message. So memory is bounded, and no
session waits for more than one turn of each other session.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import selectors
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from flowbuf._core import AccessList, Table
from flowbuf.arguments import check_range, check_type, check_whole
from flowbuf.collect.listen import StreamListener
from flowbuf.collect.settings import MAX_SECONDS

__all__ = ["ORDINARY", "REASONS", "Decode", "SessionCounters", "SessionOptions", "Sessions"]

logger = logging.getLogger("flowbuf.collect")

MIN_MESSAGE = 16
MAX_MESSAGE = 65535
BUFFER_BYTES = MAX_MESSAGE + (192 << 10)
"""Size of the shared buffer: the incomplete message of a session, and one read."""

CONNECTIONS = 16
"""Most connections of a listener that are accepted per turn."""

TICK_SECONDS = 0.2
"""Time between two checks of the time limits."""

LOG_SECONDS = 60.0
"""Shortest time between two log messages with the same reason."""

KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""Options that detect after two minutes that a silent peer does not exist any more."""

REASONS = {
    "ended": "the peer closed the connection after a complete message",
    "incomplete": "the peer closed the connection inside a message",
    "reset": "the connection failed, or the peer reset it",
    "not_ipfix": "the peer sent something else than IPFIX; send NetFlow and sFlow over UDP",
    "bad_length": "a message has a length below 16 bytes",
    "idle": "the peer sent nothing for the idle timeout",
    "slow": "a message was not complete within the message timeout",
    "handshake_failed": "the TLS handshake failed",
    "handshake_timeout": "the TLS handshake took longer than the handshake timeout",
    "tls_failed": "the peer violated the TLS protocol",
    "replaced": "the peer had sent no message yet, and another connection needed its place",
    "failed": "the worker failed while it decoded the session; the log has the exception",
    "stopped": "the collector ended",
    "denied": "the address of the peer is denied or not allowed",
    "peer_session_limit": "the peer has too many sessions",
    "session_limit": "there are too many sessions",
    "system_limit": "the system has no file descriptor or memory, so connections wait; each attempt counts",
}
"""Reasons for which sessions are closed, and connections refused."""

ORDINARY = frozenset(("ended", "stopped"))
"""Reasons that are not logged."""

Source: TypeAlias = tuple[str, int]
"""Address and port of a peer."""

Decode: TypeAlias = Callable[[memoryview, Source, int, int, list[Table]], tuple[int, int, str | None]]
"""Decodes the messages at the start of a stream: see `ColumnBuilder.decode_session`.

The third argument is the port of the listener, the fourth one the number of the session.
"""


@dataclass(frozen=True)
class SessionOptions:
    """Limits and encryption of IPFIX over TCP and TLS.

    Args:
        session_limit: Maximum number of sessions at once. A further connection replaces a session that has
            sent no message yet. If there is none, it is refused. Default: 512.
        peer_session_limit: Maximum number of sessions of one address. Further connections are refused.
            Default: 32.
        idle_timeout: Time without data after which a session ends, in seconds. 0 disables it. Default: 1,800.
        message_timeout: Longest time for the rest of an incomplete message, in seconds. Default: 30.
        handshake_timeout: Longest time for a TLS handshake, in seconds. Default: 10.
        tls: Context with the certificate, for `tls://` addresses. Its session tickets are disabled, because
            an exporter that never reads them would reset the connection at its end. Default: none.
        access: Peers whose connections are accepted. Default: all.

    Raises:
        ValueError: a number is out of range.
        TypeError: a value has another type.
    """

    session_limit: int = 512
    peer_session_limit: int = 32
    idle_timeout: float = 1800.0
    message_timeout: float = 30.0
    handshake_timeout: float = 10.0
    tls: ssl.SSLContext | None = None
    access: AccessList | None = None

    def __post_init__(self) -> None:
        for name in ("session_limit", "peer_session_limit"):
            check_whole(name, getattr(self, name), 1)
        check_range("idle_timeout", self.idle_timeout, 0, MAX_SECONDS, " seconds")
        for name in ("message_timeout", "handshake_timeout"):
            check_range(name, getattr(self, name), 0.001, MAX_SECONDS, " seconds")
        check_type("tls", self.tls, ssl.SSLContext, "pass an ssl.SSLContext")
        check_type("access", self.access, AccessList, "pass allow and deny to the Collector")
        if self.tls:
            self.tls.num_tickets = 0


@dataclass
class SessionCounters:
    """Totals of the sessions of one listener.

    Attributes:
        messages: IPFIX messages received.
        bytes: Bytes received, after decryption: those of messages, `incomplete_bytes`, and bytes that wait
            for the rest of their message.
        incomplete_bytes: Bytes of messages that were not complete when their session was closed.
        opened: Sessions opened: those that are open, and those in `closed`.
        open: Sessions that are open.
        closed: Sessions closed, by reason (REASONS).
        refused: Connections refused, by reason.
    """

    messages: int = 0
    bytes: int = 0
    incomplete_bytes: int = 0
    opened: int = 0
    open: int = 0
    closed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def copy(self) -> SessionCounters:
        """Return the present totals."""
        return SessionCounters(
            **{**vars(self), "closed": Counter(self.closed), "refused": Counter(self.refused)}
        )


class _Session:
    """One connection, with the incomplete message that was received last.

    Attributes:
        source: Address and port of the peer.
        number: Number among the sessions of the address, from 1. It is used again after the end.
        began: Time at which the incomplete message began; None if there is none.
    """

    def __init__(self, connection: socket.socket, source: Source, number: int, now: float) -> None:
        self.connection = connection
        self.source = source
        self.number = number
        self.encrypted = self.shaking = isinstance(connection, ssl.SSLSocket)
        self.counters = SessionCounters()  # of its listener
        self.port = 0  # of its listener
        self.messages = 0
        self.rest = b""
        self.opened = self.heard = now
        self.began: float | None = None

    @property
    def closed(self) -> bool:
        return self.connection.fileno() < 0


class Sessions:
    """Accept connections, read messages, and enforce limits. Use it in one thread, except `wake`.

    Args:
        listeners: Listening sockets, which do not block. They outlive the object.
        options: Limits and encryption. They can be replaced.
        decode: Decodes the messages at the start of a stream.
        forget: Forgets the templates of a session, by its address and number.
    """

    waiting = 0
    """Messages that were received and not decoded: none, because a turn decodes all that it reads."""

    def __init__(
        self,
        listeners: Sequence[StreamListener],
        options: SessionOptions,
        decode: Decode,
        forget: Callable[[str, int], None],
    ) -> None:
        self.options = options
        self.closed = False
        self._listeners = listeners
        self._counters = [SessionCounters() for _ in listeners]
        self._decode = decode
        self._forget = forget
        self._view = memoryview(bytearray(BUFFER_BYTES))
        self._sessions: dict[_Session, None] = {}  # in the order in which they were opened
        self._numbers: dict[str, set[int]] = {}  # sessions of each address
        self._queue: deque[_Session] = deque()  # sessions whose turn comes
        self._decrypted: dict[
            _Session, None
        ] = {}  # sessions whose TLS layer has data that the system does not
        self._logged: dict[str, float] = {}
        self._woken = self._ending = False
        self._left = self._ticked = time.monotonic()
        self._away = 0.0  # time in which sessions were not served, for example because a queue was full
        self._selector = selectors.DefaultSelector()
        self._waker, self._alarm = socket.socketpair()
        for end in (self._waker, self._alarm):
            end.setblocking(False)
        self._selector.register(self._alarm, selectors.EVENT_READ)
        self._listen()

    def wake(self) -> None:
        """End the present or next call of `receive` early. Any thread may call this."""
        with contextlib.suppress(OSError):  # many wake-ups wait, or the sessions have ended
            self._waker.send(b"\0")

    def receive(self, deadline: int, tables: list[Table]) -> None:
        """Serve sessions until a table is full, `deadline` passes, or `wake` is called.

        Args:
            deadline: Time of `time.monotonic_ns` at which the call ends.
            tables: List for full tables.
        """
        self._away += time.monotonic() - self._left
        try:
            while not tables and not self._woken and time.monotonic_ns() < deadline:
                if not self._queue:
                    self._wait(deadline)
                if self._queue:
                    self._serve(self._queue.popleft(), tables)
        finally:
            self._woken = False
            self._left = time.monotonic()

    def read_counters(self) -> list[SessionCounters]:
        """Return the totals of each listener."""
        return [each.copy() for each in self._counters]

    def shut_down(self) -> None:
        """Accept no more connections, and tell all peers that the collector ends. Data can still be read."""
        self._ending = True
        for listener in self._listeners:
            with contextlib.suppress(KeyError):  # suspended, or done before
                self._selector.unregister(listener.sockets[0])
        for session in list(self._sessions):
            with contextlib.suppress(OSError):  # the connection has failed: reading will tell
                socket.socket.shutdown(session.connection, socket.SHUT_WR)  # keeps the TLS layer for reading

    def is_quiet(self, seconds: float) -> bool:
        """Wait for data or a wake-up. Return True if there is none, and no session has data."""
        return not (self._queue or self._decrypted or self._selector.select(seconds))

    def close(self) -> None:
        """Close all sessions."""
        self.closed = True
        for session in list(self._sessions):
            self._close(session, "stopped")
        self._selector.close()
        self._waker.close()
        self._alarm.close()

    # Waiting ------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        """Return a time that stands still while no session is served, so that no peer pays for it."""
        return time.monotonic() - self._away

    def _wait(self, deadline: int) -> None:
        """Wait for connections and data. Append the sessions with data to the queue."""
        patience = min(TICK_SECONDS, max(0.0, deadline / 1e9 - time.monotonic()))
        ready, self._decrypted = self._decrypted, {}
        for key, _ in self._selector.select(0 if ready else patience):
            if isinstance(key.data, _Session):
                ready[key.data] = None
            elif key.data is None:
                self._woken = True
                self._alarm.recv(4096)
            else:
                self._accept(key.data)
        self._queue.extend(ready)
        if time.monotonic() - self._ticked >= TICK_SECONDS:
            self._tick()

    def _tick(self) -> None:
        """End sessions beyond a time limit, or of denied peers. Queued ones are checked after their turn."""
        self._ticked = time.monotonic()
        now, queued = self._now(), set(self._queue)
        for session in list(self._sessions):
            if session not in queued and (reason := self._find_overdue(session, now)):
                self._close(session, reason)
        if not self._ending:
            self._listen()

    def _find_overdue(self, session: _Session, now: float) -> str:
        """Return the reason to close a session that is denied or exceeds a time limit, or ""."""
        if self._is_denied(session.source[0]):
            return "denied"
        if session.shaking:
            return "handshake_timeout" if now - session.opened >= self.options.handshake_timeout else ""
        if session.began is not None and now - session.began >= self.options.message_timeout:
            return "slow"
        idle = self.options.idle_timeout and now - session.heard >= self.options.idle_timeout
        return "idle" if idle else ""

    # Connections --------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Wait for connections on all listeners, also on those that were suspended."""
        for i, listener in enumerate(self._listeners):
            with contextlib.suppress(KeyError):  # it is registered
                self._selector.register(listener.sockets[0], selectors.EVENT_READ, i)

    def _accept(self, place: int) -> None:
        """Accept some connections of a listener."""
        listener, counters = self._listeners[place].sockets[0], self._counters[place]
        for _ in range(CONNECTIONS):
            try:
                connection, source = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.ECONNABORTED:  # the peer gave up
                    continue
                self._refuse("system_limit", str(self._listeners[place].address), counters)
                self._selector.unregister(listener)  # until the next tick
                return
            self._admit(connection, (_plain(source[0]), source[1]), place)

    def _admit(self, connection: socket.socket, source: Source, place: int) -> None:
        counters = self._counters[place]
        if reason := self._find_refusal(source[0]):
            connection.close()
            self._refuse(reason, source[0], counters)
            return
        try:
            session = self._open(connection, source, self._listeners[place].address.transport == "tls")
        except OSError:  # the peer has gone
            connection.close()
            self._refuse("reset", source[0], counters)
            return
        session.counters, session.port = counters, self._listeners[place].address.port
        counters.opened += 1
        counters.open += 1

    def _find_refusal(self, address: str) -> str:
        """Return the reason to refuse a connection, or "". This may close a session that has sent nothing."""
        if self._is_denied(address):
            return "denied"
        if len(self._numbers.get(address, ())) >= self.options.peer_session_limit:
            return "peer_session_limit"
        if len(self._sessions) < self.options.session_limit:
            return ""
        silent = next((each for each in self._sessions if not each.messages), None)
        if silent is None:
            return "session_limit"
        self._close(silent, "replaced")
        return ""

    def _is_denied(self, address: str) -> bool:
        access = self.options.access
        return access is not None and not access.admits(address)

    def _open(self, connection: socket.socket, source: Source, encrypted: bool) -> _Session:
        connection.setblocking(False)
        _keep_alive(connection)
        if encrypted:
            assert self.options.tls  # checked when the options are set
            connection = self.options.tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        numbers = self._numbers.get(source[0], set())
        number = next(i for i in range(1, len(numbers) + 2) if i not in numbers)
        session = _Session(connection, source, number, self._now())
        try:
            self._selector.register(connection, selectors.EVENT_READ, session)
        except BaseException:
            connection.close()
            raise
        self._numbers[source[0]] = {*numbers, number}
        self._sessions[session] = None
        return session

    def _close(self, session: _Session, reason: str, detail: str = "") -> None:
        address, number = session.source[0], session.number
        self._selector.unregister(session.connection)
        session.connection.close()
        del self._sessions[session]
        self._decrypted.pop(session, None)
        self._numbers[address].discard(number)
        if not self._numbers[address]:
            del self._numbers[address]
        session.counters.open -= 1
        session.counters.closed[reason] += 1
        session.counters.incomplete_bytes += len(session.rest)
        self._forget(address, number)
        if reason not in ORDINARY:
            self._log(reason, f"{session.source[0]} port {session.source[1]}: session closed", detail)

    def _refuse(self, reason: str, address: str, counters: SessionCounters) -> None:
        counters.refused[reason] += 1
        self._log(reason, f"{address}: connection refused", "")

    def _log(self, reason: str, text: str, detail: str) -> None:
        """Log an event, unless its reason was logged in the last minute. Counters have all events."""
        now = time.monotonic()
        if now - self._logged.get(reason, -LOG_SECONDS) >= LOG_SECONDS:
            self._logged[reason] = now
            logger.warning("%s (%s): %s%s", text, reason, REASONS[reason], detail and f": {detail}")

    # Data ---------------------------------------------------------------------------------------------------

    def _serve(self, session: _Session, tables: list[Table]) -> None:
        """Give a session its turn: continue its handshake, or read and decode messages."""
        if session.closed or (session.shaking and not self._shake(session)):
            return
        size, end = self._read(session)
        if size > len(session.rest):
            session.heard = self._now()
        fault = self._decode_messages(session, self._view[:size], tables)
        if end == "ended" and session.rest:
            end = "incomplete"
        if reason := fault or end or self._find_overdue(session, self._now()):
            self._close(session, reason)

    def _shake(self, session: _Session) -> bool:
        """Continue a TLS handshake. Return True if it is complete."""
        assert isinstance(session.connection, ssl.SSLSocket)
        try:
            session.connection.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(session, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(session, selectors.EVENT_WRITE)
        except OSError as error:
            reason = "handshake_failed" if isinstance(error, ssl.SSLError) else "reset"
            self._close(session, reason, getattr(error, "reason", "") or "")
            return False
        else:
            session.shaking = False
            self._watch(session, selectors.EVENT_READ)
            return True
        if reason := self._find_overdue(session, self._now()):
            self._close(session, reason)
        return False

    def _watch(self, session: _Session, events: int) -> None:
        if self._selector.get_key(session.connection).events != events:
            self._selector.modify(session.connection, events, session)

    def _read(self, session: _Session) -> tuple[int, str]:
        """Read into the buffer, after the incomplete message of the session.

        Returns:
            tuple: Number of bytes in the buffer, and the reason for which the connection has ended, or "".
        """
        size, end = len(session.rest), ""
        self._view[:size] = session.rest
        try:
            while size < BUFFER_BYTES:
                count = session.connection.recv_into(self._view[size:])
                size += count
                if not count:
                    end = "ended"
                    break
                if not session.encrypted:  # one read gives all that there is
                    break
            else:
                self._decrypted[session] = None
        except (BlockingIOError, ssl.SSLWantReadError):
            self._watch(session, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(session, selectors.EVENT_WRITE)
        except ssl.SSLError:
            end = "tls_failed"
        except OSError:
            end = "reset"
        session.counters.bytes += size - len(session.rest)
        return size, end

    def _decode_messages(self, session: _Session, content: memoryview, tables: list[Table]) -> str:
        """Decode the complete messages of a buffer, and keep the rest.

        Returns:
            str: reason for which the stream cannot continue, or "".
        """
        fresh = not session.rest
        try:
            consumed, messages, fault = self._decode(
                content, session.source, session.port, session.number, tables
            )
        except BaseException:
            session.rest = bytes(content)
            self._close(session, "failed")
            raise
        session.rest = bytes(content[consumed:])
        session.messages += messages
        session.counters.messages += messages
        if not session.rest:
            session.began = None
        elif fresh or consumed:
            session.began = self._now()
        return fault or ""


def _plain(host: str) -> str:
    """Return an address without its scope, and an IPv4 address without the prefix of a mapped one."""
    plain = host.partition("%")[0]
    return plain.removeprefix("::ffff:") if "." in plain else plain


def _keep_alive(connection: socket.socket) -> None:
    """Detect peers that have disappeared without closing the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
