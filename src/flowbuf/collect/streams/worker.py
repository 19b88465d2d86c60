"""The worker thread for IPFIX over TCP and TLS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from flowbuf._core import AccessList, Table
from flowbuf.arrow.batch import FlowBatch
from flowbuf.collect.listen import StreamListener
from flowbuf.collect.streams.sessions import (
    BUFFER_BYTES,
    MIN_MESSAGE,
    SessionCounters,
    SessionOptions,
    Sessions,
)
from flowbuf.collect.worker import QUIET_SECONDS, Source, Worker, WorkerCounters
from flowbuf.decoder import Decoder
from flowbuf.errors import ListenError
from flowbuf.options import DecodeOptions

__all__ = ["StreamCounters", "StreamWorker", "check_encryption", "stream_options"]

HEAD_BYTES = 2048
"""Most bytes that are saved of a stream that is not IPFIX. They hold any datagram of an Ethernet frame."""

EXPORTER_LIMIT = 1 << 20
"""Limit on exporters of a decoder if the options have none."""


@dataclass
class StreamCounters(WorkerCounters):
    """Totals of the worker for TCP and TLS. It has no datagrams, so `listeners` is empty.

    Attributes:
        sessions: Totals of the sessions of each listener.
    """

    sessions: list[SessionCounters] = field(default_factory=list)


def stream_options(options: DecodeOptions, sessions: SessionOptions) -> DecodeOptions:
    """Return the options of a decoder for Transport Sessions.

    Templates do not expire, and withdrawals are obeyed (RFC 7011 section 8.1). The limit on exporters holds
    all sessions, so that none loses its templates to another one.
    """
    limit = max(options.exporter_limit or EXPORTER_LIMIT, 2 * sessions.session_limit)
    return replace(options, obey_withdrawals=True, template_expiry=None, exporter_limit=limit)


def check_encryption(listeners: Sequence[StreamListener], options: SessionOptions) -> None:
    """Raise ListenError if a listener needs a certificate, and there is none."""
    for listener in listeners:
        if listener.address.transport == "tls" and not options.tls:
            raise ListenError(f"{listener.address} needs a certificate; set tls_certificate and tls_key")


class StreamWorker(Worker):
    """A thread that serves all Transport Sessions, with one decoder.

    After an exception it starts again. Sessions stay open, with their templates.

    Args:
        listeners: Listeners. They outlive the worker.
        new_decoder: Returns a new decoder with `stream_options`.
        deliver: Called in the thread with each batch of flows. While it waits, no session is read, so that
            peers wait as well.
        on_failure: Called in the thread with an exception after which the worker starts again.
        interval: Longest time between two batches, in seconds.
        options: Limits and encryption of sessions.
    """

    def __init__(
        self,
        listeners: Sequence[StreamListener],
        new_decoder: Callable[[], Decoder],
        deliver: Callable[[FlowBatch], None],
        on_failure: Callable[[Exception], None],
        interval: float,
        options: SessionOptions,
    ) -> None:
        self._marks = bytearray(BUFFER_BYTES // MIN_MESSAGE)  # of messages that were not decoded
        self._sessions = Sessions(listeners, options, self._decode_session, self._end_session)
        super().__init__(0, (), new_decoder, deliver, on_failure, interval, name="streams")

    def set_options(self, options: SessionOptions) -> None:
        """Use other limits, and another certificate for new sessions."""
        self._sessions.options = options

    def stop(self, drain: bool = True) -> None:
        """Ask the thread to end.

        It decodes the messages that its connections hold, and closes the sessions. Another process cannot
        continue a session, so `drain` has no effect.
        """
        super().stop(True)

    def close_sessions(self) -> None:
        """Close all sessions. REQUIRES: the thread has ended, or was not started."""
        if not self._sessions.closed:
            self._sessions.close()

    def _decode_session(
        self, content: memoryview, source: tuple[str, int], port: int, number: int, tables: list[Table]
    ) -> tuple[int, int, str | None]:
        """Decode and copy the messages of a session. After an exception, no message is copied or counted."""
        consumed, messages, fault = self._builder.decode_session(content, source, number, tables, self._marks)
        self._copier.copy_messages(content, self._marks, source, port)
        if fault:
            self._copier.save_malformed(content[consumed:][:HEAD_BYTES], source, port)
        return consumed, messages, fault

    def _attach_copier(self) -> None:
        """Do nothing: `_decode_session` calls the copier."""

    def _end_session(self, address: str, number: int) -> None:
        self._decoder.end_session(address, number)

    def _open_source(self) -> Source:
        return self._sessions

    def _restart_source(self, access: AccessList | None) -> None:
        """Do nothing: sessions stay open, and their options have the list."""

    def _read(self, deadline: int, tables: list[Table]) -> None:
        self._sessions.receive(deadline, tables)

    def _drain(self) -> None:
        if self._sessions.closed:  # the last batch could not be delivered
            return
        self._sessions.shut_down()
        super()._drain()
        self._sessions.close()

    def _is_quiet(self) -> bool:
        return self._sessions.is_quiet(QUIET_SECONDS)

    def _read_counters(self) -> StreamCounters:
        past = self._past
        return StreamCounters(
            rows=self._read_rows(),
            lost_datagrams=past.lost_datagrams,
            failures=past.failures,
            statuses=past.statuses + Counter(self._decoder.counters),
            copies=self._read_copies(),
            sessions=self._sessions.read_counters(),
        )
