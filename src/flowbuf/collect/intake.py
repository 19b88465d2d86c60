"""Listeners and workers: datagrams in, batches of flows out."""

from __future__ import annotations

import functools
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from flowbuf._core import AccessList
from flowbuf.arguments import check_range, check_type, check_whole
from flowbuf.arrow.batch import FlowBatch
from flowbuf.collect.copies import Copier, CopyCounters
from flowbuf.collect.listen import (
    BUFFER_BYTES,
    Address,
    Listener,
    StreamListener,
    find_worker,
    open_listeners,
    open_stream_listeners,
)
from flowbuf.collect.settings import MAX_SECONDS
from flowbuf.collect.streams.sessions import SessionOptions
from flowbuf.collect.streams.worker import StreamCounters, StreamWorker, check_encryption, stream_options
from flowbuf.collect.worker import RowCounters, Worker, WorkerCounters, read_all_counters
from flowbuf.decoder import Decoder
from flowbuf.errors import ListenError
from flowbuf.io.state_file import to_plain, without_sessions
from flowbuf.options import DecodeOptions
from flowbuf.schema import Schema

__all__ = ["Intake", "IntakeCounters", "IntakeOptions"]


Item = TypeVar("Item")

ExporterTotals = tuple[str, int, int, int, int, int | None, dict[str, int], dict[str, int], int]
"""Totals of an exporter: see `Decoder.list_exporters`."""

MIN_INTERVAL = 0.001
"""Shortest interval in seconds. A shorter one could pass before a worker receives."""

CALL_SECONDS = 10.0
"""Longest time to wait for workers. Raises TimeoutError of concurrent.futures."""


@dataclass(frozen=True)
class IntakeOptions:
    """Options of receiving.

    Args:
        workers: Number of threads. Each exporter is assigned to one of them. Default: 1.
        receive_buffer: Size of the receive buffer of each socket, in bytes. The kernel limits it to
            `net.core.rmem_max`. Default: 32 MiB.
        interface: Name of the network interface to receive from. Default: all.
        interval: Longest time that flows wait for the rest of a batch, in seconds, MIN_INTERVAL or more.
            Default: 1.
        sessions: Limits and encryption of IPFIX over TCP and TLS.
        access: Sources whose datagrams are decoded. Default: all.

    Raises:
        ValueError: a number is out of range.
        TypeError: a value has another type.
    """

    workers: int = 1
    receive_buffer: int = BUFFER_BYTES
    interface: str | None = None
    interval: float = 1.0
    sessions: SessionOptions = field(default_factory=SessionOptions)
    access: AccessList | None = None

    def __post_init__(self) -> None:
        check_whole("workers", self.workers, 1)
        check_whole("receive_buffer", self.receive_buffer, 1)
        check_range("interval", self.interval, MIN_INTERVAL, MAX_SECONDS, " seconds")
        check_type("interface", self.interface, str, "pass its name, such as 'eth0'")
        check_type("sessions", self.sessions, SessionOptions, "pass SessionOptions(…)")


@dataclass
class IntakeCounters:
    """Totals of all workers since the start.

    Attributes:
        received: Datagrams received. Those sent are `received` plus `kernel_drops`, unless the network lost
            some.
        bytes: Bytes of their payloads.
        kernel_drops: Datagrams that the kernel dropped because a receive buffer was full. None if the system
            does not count them.
        denied: Datagrams of sources that are denied or not allowed.
        decoded: Datagrams given to the decoder, also malformed ones. Those received are the sum of `denied`,
            `decoded`, `waiting_datagrams` and `lost_datagrams`.
        waiting_datagrams: Datagrams that were received and are decoded with the next batch.
        truncated: Datagrams longer than 65,528 bytes, whose end was lost.
        errors: Failed system calls.
        messages: IPFIX messages received over TCP and TLS. `received` does not include them.
        message_bytes: Bytes received over TCP and TLS, after decryption.
        rows: Totals of each kind of rows: `decoded`, `delivered`, `waiting` and `lost`.
        lost_datagrams: Datagrams lost in failures of a worker.
        failures: Failures after which a worker was started again.
        copies: Datagrams and messages that were forwarded, or saved because they were not decoded.
        statuses: Counters of the decoders: number of occurrences per status name (`flowbuf.STATUSES`).
        workers: The same per worker that receives datagrams.
        streams: The same of the worker for TCP and TLS, and the totals of its sessions. None without such
            addresses.
    """

    received: int = 0
    bytes: int = 0
    kernel_drops: int | None = 0
    denied: int = 0
    decoded: int = 0
    waiting_datagrams: int = 0
    truncated: int = 0
    errors: int = 0
    messages: int = 0
    message_bytes: int = 0
    rows: dict[str, RowCounters] = field(default_factory=dict)
    lost_datagrams: int = 0
    failures: int = 0
    copies: CopyCounters = field(default_factory=CopyCounters)
    statuses: Counter[str] = field(default_factory=Counter)
    workers: list[WorkerCounters] = field(default_factory=list)
    streams: StreamCounters | None = None

    @property
    def all_rows(self) -> RowCounters:
        """Totals of all kinds of rows together."""
        return sum(self.rows.values(), RowCounters())

    @property
    def flows(self) -> int:
        """Flows decoded, and rows of other kinds: the sum of `delivered`, `waiting` and `lost_flows`."""
        return self.all_rows.decoded

    @property
    def delivered(self) -> int:
        """Flows passed on, and rows of other kinds."""
        return self.all_rows.delivered

    @property
    def lost_flows(self) -> int:
        """Flows lost in failures of a worker, and rows of other kinds."""
        return self.all_rows.lost

    @property
    def waiting(self) -> int:
        """Flows that wait in a worker for the rest of their batch, and rows of other kinds."""
        return self.all_rows.waiting


class Intake:
    """Receives datagrams and messages on addresses, decodes them, and delivers batches of flows.

    Args:
        addresses: Addresses to listen on.
        schemas: Schemas, one per kind of rows.
        options: Options of decoding.
        receive: Options of receiving.
        deliver: Called with each batch, by the threads of the workers.
        on_failure: Called with an exception after which a worker starts again.
        inherited: Listeners of another process. They determine the number of workers.

    Attributes:
        datagram_listeners: Listeners for UDP.
        stream_listeners: Listeners for TCP and TLS.

    Raises:
        ListenError: an address cannot be listened on.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        schemas: Sequence[Schema],
        options: DecodeOptions,
        receive: IntakeOptions,
        deliver: Callable[[FlowBatch], None],
        on_failure: Callable[[Exception], None],
        inherited: Sequence[Listener | StreamListener] = (),
    ) -> None:
        new_decoder = functools.partial(Decoder, options=options, schemas=schemas)
        self._checker = new_decoder()  # reports invalid options before a socket is opened
        kept = [listener for listener in inherited if listener.address in addresses]
        _check_ipv4([each.address for each in inherited], addresses)
        self.datagram_listeners = [each for each in kept if isinstance(each, Listener)]
        self.stream_listeners = [each for each in kept if isinstance(each, StreamListener)]
        counts = [len(listener.sockets) for listener in inherited if isinstance(listener, Listener)]
        workers = counts[0] if counts else receive.workers
        self._open(addresses, workers, receive)
        self._workers = [
            Worker(
                *(index, self.datagram_listeners, new_decoder, deliver, on_failure, receive.interval),
                access=receive.access,
            )
            for index in range(workers if self.datagram_listeners else 0)
        ]
        self._streams: StreamWorker | None = None
        if self.stream_listeners:
            sessions = replace(receive.sessions, access=receive.access)
            stream = stream_options(options, sessions)
            new_decoder = functools.partial(Decoder, options=stream, schemas=schemas)
            self._streams = StreamWorker(
                self.stream_listeners, new_decoder, deliver, on_failure, receive.interval, sessions
            )
        self._all = [*self._workers, *([self._streams] if self._streams else [])]

    def _open(self, addresses: Sequence[Address], workers: int, receive: IntakeOptions) -> None:
        """Open the listeners that were not inherited."""
        known = {listener.address for listener in self.listeners}
        missing = [address for address in addresses if address not in known]
        opened = open_listeners(
            [address for address in missing if address.transport == "udp"],
            workers,
            buffer_bytes=receive.receive_buffer,
            interface=receive.interface,
        )
        self.datagram_listeners += opened
        streams: list[StreamListener] = []
        try:
            streams += open_stream_listeners(
                [address for address in missing if address.transport != "udp"], receive.interface
            )
            self.stream_listeners += streams
            check_encryption(self.stream_listeners, receive.sessions)
        except BaseException:
            for listener in self.listeners:
                if listener.address not in known:
                    listener.close()
            raise

    @property
    def listeners(self) -> list[Listener | StreamListener]:
        """All listeners, with the ports that the system chose."""
        return [*self.datagram_listeners, *self.stream_listeners]

    def start(self) -> None:
        """Start the workers."""
        for worker in self._all:
            worker.start()

    def copy(self, copiers: Sequence[Copier]) -> None:
        """Copy datagrams and messages, before the start. Each worker gets one copier, and closes it."""
        for worker, copier in zip(self._all, copiers, strict=True):
            worker.copy(copier).result()

    def replace(
        self,
        schemas: Sequence[Schema],
        options: DecodeOptions,
        sessions: SessionOptions,
        deliver: Callable[[FlowBatch], None],
        copiers: Sequence[Copier],
        access: AccessList | None = None,
    ) -> None:
        """Continue with other schemas, other options, another receiver of batches, and other copiers.

        Datagrams and sessions of sources that `access` does not admit are denied. None admits all.

        Each worker changes between two of its batches. No datagram is lost, and sessions stay open.

        Raises:
            ListenError: an address needs a certificate. Nothing was changed.
            TimeoutError: a worker waits for a full queue, and changes later. Its class is that of
                concurrent.futures.
        """
        check_encryption(self.stream_listeners, sessions)
        new_decoder = functools.partial(Decoder, options=options, schemas=schemas)
        changes = [worker.replace(new_decoder, deliver, access) for worker in self._workers]
        if self._streams:
            sessions = replace(sessions, access=access)
            self._streams.set_options(sessions)
            stream = stream_options(options, sessions)
            new_decoder = functools.partial(Decoder, options=stream, schemas=schemas)
            changes.append(self._streams.replace(new_decoder, deliver))
        changes += [worker.copy(copier) for worker, copier in zip(self._all, copiers, strict=True)]
        _wait(changes)

    def wait_for_replacement(self, timeout: float) -> None:
        """Wait until all workers use what `replace` has given them, for at most `timeout` seconds.

        Raises:
            TimeoutError: a worker still waits for a full queue. Its class is that of concurrent.futures.
        """
        _wait([worker.call(lambda decoder: None) for worker in self._all], timeout)  # calls have an order

    def pause(self) -> dict[str, Any]:
        """Stop receiving, and return the state for another process. `resume` continues.

        Raises:
            TimeoutError: a worker waits for a full queue. Its class is that of concurrent.futures.
        """
        paused = [worker.pause() for worker in self._all]
        exporters = [exporter for part in _wait(paused) for exporter in part]
        drops = {str(listener.address): listener.freeze_drops() for listener in self.datagram_listeners}
        return {"exporters": to_plain(without_sessions(exporters)), "drops": drops}

    def read_early_data(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the data sets that wait for their templates, after `pause`: see `Decoder.read_early_data`.

        Those of Transport Sessions are left out, because sessions end with their process.

        Raises:
            TimeoutError: a worker does not answer. Its class is that of concurrent.futures.
        """
        for worker in self._workers:
            yield from _wait([worker.read_early_data()])

    def hand_over_early_data(self) -> None:
        """Count the data sets of `read_early_data` as handed over, and drop them. REQUIRES: `pause`."""
        _wait([worker.hand_over_early_data() for worker in self._workers])

    def resume(self) -> None:
        """Continue after `pause`."""
        for listener in self.datagram_listeners:
            listener.thaw_drops()
        for worker in self._all:
            worker.resume()

    def adopt(self, state: dict[str, Any]) -> None:
        """Continue with the state that `pause` of another process has returned.

        Raises:
            ValueError: the state is invalid.
        """
        self.restore_exporters(state["exporters"])
        for listener in self.datagram_listeners:
            listener.count_drops_from(state["drops"].get(str(listener.address), [0] * len(self._workers)))

    def stop(self, drain: bool = True) -> None:
        """Decode the datagrams that were received, end the workers, and close the sockets.

        Args:
            drain: Receive the datagrams that wait in the sockets. False leaves them for another process.
        """
        for worker in self._all:
            worker.stop(drain)
        for worker in self._all:
            worker.join()
        self._final = self._read()
        self.close()

    def close(self) -> None:
        """Close all sockets. REQUIRES: the workers were not started, or have ended."""
        for worker in self._all:
            worker.close_copies()
        if self._streams:
            self._streams.close_sessions()
        for listener in self.listeners:
            listener.close()

    def read_counters(self) -> IntakeCounters:
        """Return the totals."""
        return self._final if hasattr(self, "_final") else self._read()

    def _read(self) -> IntakeCounters:
        total = IntakeCounters()
        for worker in read_all_counters(self._all):
            _add(total, worker)
            if isinstance(worker, StreamCounters):
                total.streams = worker
                total.messages = sum(sessions.messages for sessions in worker.sessions)
                total.message_bytes = sum(sessions.bytes for sessions in worker.sessions)
            else:
                total.workers.append(worker)
        return total

    def read_exporters(self) -> list[dict[str, Any]]:
        """Return the state of all exporters: see `Decoder.read_exporters`."""
        return self._gather(Decoder.read_exporters)

    def read_others(self) -> list[dict[str, Any]]:
        """Return the counters of datagrams without an exporter, of each worker: see `Decoder.read_other`."""
        return self._gather(_read_other)

    def _gather(self, read: Callable[[Decoder], list[Item]], timeout: float = CALL_SECONDS) -> list[Item]:
        """Return the items of the decoders of all workers."""
        futures = [worker.call(read) for worker in self._all]
        return [item for part in _wait(futures, timeout) for item in part]

    def restore_exporters(self, exporters: list[dict[str, Any]]) -> None:
        """Restore exporters before the start: see `Decoder.restore_exporters`. Each goes to its worker.

        Raises:
            ValueError: an entry is invalid; nothing is restored.
        """
        self._checker.restore_exporters(exporters)
        self._share_out(exporters)

    def adopt_early_data(self, exporters: list[dict[str, Any]]) -> None:
        """Continue with data sets that `read_early_data` of another process has returned, after `adopt`.

        Raises:
            ValueError: an entry is invalid.
        """
        self._share_out(exporters)

    def _share_out(self, exporters: list[dict[str, Any]]) -> None:
        """Restore each exporter in the decoder of its worker."""
        shares: list[list[dict[str, Any]]] = [[] for _ in self._workers]
        for exporter in exporters if shares else ():
            shares[find_worker(exporter["address"], len(shares))].append(exporter)
        for worker, share in zip(self._workers, shares, strict=True):
            worker.call(functools.partial(_restore, share)).result()

    def list_exporters(self, timeout: float = CALL_SECONDS) -> list[ExporterTotals]:
        """Return the totals of all exporters: see `Decoder.list_exporters`.

        Args:
            timeout: Longest time to wait for all workers, in seconds. Default: 10.

        Raises:
            TimeoutError: a worker waits for a full queue. Its class is that of concurrent.futures.
        """
        return self._gather(Decoder.list_exporters, timeout)

    @property
    def workers(self) -> int:
        """Number of workers, also the one for TCP and TLS."""
        return len(self._all)

    def find_dead_workers(self) -> list[str]:
        """Return the names of workers whose threads have ended."""
        return [worker.name for worker in self._all if not worker.alive]


def _check_ipv4(inherited: Sequence[Address], addresses: Sequence[Address]) -> None:
    """Refuse a socket for all IPv6 addresses that cannot replace one for IPv4, which is not kept.

    The two shared a port. A socket receives only IPv6 to its end if it was opened for that.

    Raises:
        ListenError: there is such a socket.
    """
    for left in (each for each in inherited if each.family == socket.AF_INET and each not in addresses):
        both = Address("::", left.port, left.transport)
        if both in inherited and both in addresses:
            raise ListenError(
                f"{both} would receive only IPv6, because it shared its port with {left}; keep that address, "
                "or restart without --takeover"
            )


def _wait(futures: Sequence[Future[Item]], timeout: float = CALL_SECONDS) -> list[Item]:
    """Return the results of all workers, of which several may wait for a full queue.

    Args:
        futures: Calls of the workers.
        timeout: Longest time to wait for all of them, in seconds. Default: 10.

    Raises:
        TimeoutError: a worker does not answer. Its class is that of concurrent.futures.
    """
    end = time.monotonic() + timeout
    try:
        return [future.result(max(end - time.monotonic(), 0)) for future in futures]
    except FutureTimeout:
        raise FutureTimeout("a worker waits for a full queue") from None


def _read_other(decoder: Decoder) -> list[dict[str, Any]]:
    return [decoder.read_other()]


def _restore(exporters: list[dict[str, Any]], decoder: Decoder) -> None:
    decoder.restore_exporters(exporters)


def _add(total: IntakeCounters, worker: WorkerCounters) -> None:
    for listener in worker.listeners:
        total.received += listener["datagrams"]
        total.bytes += listener["bytes"]
        total.truncated += listener["truncated"]
        total.errors += listener["errors"]
    for drops in worker.kernel_drops:
        total.kernel_drops = (
            None if drops is None or total.kernel_drops is None else total.kernel_drops + drops
        )
    for kind, rows in worker.rows.items():
        total.rows[kind] = total.rows.get(kind, RowCounters()) + rows
    total.waiting_datagrams += worker.waiting
    for name in ("denied", "decoded", "lost_datagrams", "failures"):
        setattr(total, name, getattr(total, name) + getattr(worker, name))
    total.statuses.update(worker.statuses)
    total.copies.add(worker.copies)
