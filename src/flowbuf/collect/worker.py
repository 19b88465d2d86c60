"""Worker threads, which receive and decode datagrams without holding the GIL."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from flowbuf._core import AccessList, Receiver, Table
from flowbuf.arrow.batch import BATCH_ROWS, FlowBatch
from flowbuf.collect.copies import Copier, CopyCounters
from flowbuf.collect.listen import Listener
from flowbuf.decoder import Decoder
from flowbuf.errors import DecodeError
from flowbuf.io.state_file import to_plain

__all__ = ["RowCounters", "Worker", "WorkerCounters", "read_all_counters"]

Result = TypeVar("Result")

DRAIN_SECONDS = 5.0
"""Longest time that a stopping worker reads the datagrams that its sockets still hold."""

COUNTERS_SECONDS = 1.0
"""Longest time to wait for the counters of workers, which may wait for a full queue."""

LAST_ATTEMPTS = 3
"""Number of times that a stopping worker tries to deliver what it has received."""

HOLD_SECONDS = 0.002
PAUSE_NS = 1_000_000
"""Time that datagrams accumulate at medium rates. It saves system calls and wake-ups."""

PAUSE_BUFFER = 4 << 20
"""Receive buffer that holds the datagrams of PAUSE_NS at a million per second, in bytes."""

QUIET_SECONDS = 0.02
RESTART_SECONDS = 0.1
NANOSECONDS = 1_000_000_000


@dataclass
class RowCounters:
    """Totals of one kind of rows, or of all kinds.

    Attributes:
        decoded: Rows decoded: the sum of the other numbers.
        delivered: Rows that were passed on.
        lost: Rows lost in failures of a worker.
    """

    decoded: int = 0
    delivered: int = 0
    lost: int = 0

    @property
    def waiting(self) -> int:
        """Rows that wait in a worker for the rest of their batch."""
        return self.decoded - self.delivered - self.lost

    def __add__(self, other: RowCounters) -> RowCounters:
        return RowCounters(
            self.decoded + other.decoded, self.delivered + other.delivered, self.lost + other.lost
        )


@dataclass
class WorkerCounters:
    """Totals of a worker since its start, over all its restarts.

    Attributes:
        listeners: Per listener: `datagrams`, `bytes`, `truncated` and `errors` of its socket.
        kernel_drops: Per listener: datagrams that the kernel dropped; None if the system does not count them.
        rows: Totals of each kind of rows.
        denied: Datagrams of sources that the access list does not admit.
        decoded: Datagrams given to the decoder, also malformed ones. The sum of `denied`, `decoded`,
            `lost_datagrams` and `waiting` is the number of datagrams received.
        waiting: Datagrams that were received and are decoded with the next batch.
        lost_datagrams: Datagrams lost in failures of the worker.
        failures: Failures after which the worker was restarted.
        statuses: Counters of the decoder, per status name.
        copies: Datagrams and messages that were forwarded, or saved because they were not decoded.
    """

    listeners: list[Counter[str]] = field(default_factory=list)
    kernel_drops: list[int | None] = field(default_factory=list)
    rows: dict[str, RowCounters] = field(default_factory=dict)
    denied: int = 0
    decoded: int = 0
    waiting: int = 0
    lost_datagrams: int = 0
    failures: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    copies: CopyCounters = field(default_factory=CopyCounters)

    @property
    def flows(self) -> int:
        """Flows decoded, and rows of other kinds."""
        return sum(each.decoded for each in self.rows.values())

    @property
    def delivered(self) -> int:
        """Flows passed on, and rows of other kinds."""
        return sum(each.delivered for each in self.rows.values())

    @property
    def lost_flows(self) -> int:
        """Flows lost in failures of the worker, and rows of other kinds."""
        return sum(each.lost for each in self.rows.values())


class Source(Protocol):
    """Sockets that a worker reads."""

    @property
    def waiting(self) -> int:
        """Datagrams that were received and not decoded."""

    def wake(self) -> None:
        """End the present or next wait for data."""


class Worker:
    """A thread that receives and decodes the datagrams of its own sockets.

    After an exception, the thread starts again with the same sockets and the state of its exporters. The
    sockets keep receiving in the meantime.

    Args:
        index: Number of the worker, from 0. It reads that socket of each listener.
        listeners: Listeners. They outlive the worker.
        new_decoder: Returns a new decoder.
        deliver: Called in the thread with each batch. A batch has rows of one kind.
        on_failure: Called in the thread with an exception after which the worker starts again.
        interval: Longest time between two batches, in seconds. Full batches are delivered at once.
        name: Name in messages and metrics. Default: the number.
        access: Sources whose datagrams are decoded. None: all sources.
    """

    def __init__(
        self,
        index: int,
        listeners: Sequence[Listener],
        new_decoder: Callable[[], Decoder],
        deliver: Callable[[FlowBatch], None],
        on_failure: Callable[[Exception], None],
        interval: float,
        name: str = "",
        access: AccessList | None = None,
    ) -> None:
        self.name = name or str(index)
        self._index = index
        self._listeners = listeners
        self._new_decoder = new_decoder
        self._access = access
        self._deliver = deliver
        self._on_failure = on_failure
        self._interval_ns = int(interval * NANOSECONDS)
        self._past = WorkerCounters()  # of decoders before the last restart or reload
        self._copier = Copier()
        self._past_copies = CopyCounters()  # of earlier copiers
        self._calls: dict[Callable[[Decoder], Any], Future[Any]] = {}  # that wait, in their order
        self._stopping = self._holding = False
        self._draining = True
        self._lock = threading.Lock()  # protects _calls against callers of `call`
        self._source = self._open_source()  # kept to the end: a reload must work without free descriptors
        self._decoder = new_decoder()
        self._builder = self._decoder.new_builder(BATCH_ROWS)
        self._published = self._read_counters()
        self._thread = threading.Thread(target=self._run, name=f"flowbuf-worker-{self.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, drain: bool = True) -> None:
        """Ask the thread to decode the datagrams that were received, and to end.

        Args:
            drain: Receive the datagrams that wait in the sockets. False leaves them for another process.
        """
        self._draining = drain
        self._stopping = True
        self._source.wake()

    def pause(self) -> Future[list[dict[str, Any]]]:
        """Stop receiving, deliver all flows, and return the state of the exporters. `resume` continues."""

        def finish(decoder: Decoder) -> list[dict[str, Any]]:
            self._finish_datagrams()
            return decoder.read_exporters()

        self._holding = True
        return self.call(finish)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._holding = False

    def read_early_data(self) -> Future[list[dict[str, Any]]]:
        """Return the data sets that wait for their templates: see `Decoder.read_early_data`."""
        return self.call(lambda decoder: decoder.read_early_data())

    def hand_over_early_data(self) -> Future[None]:
        """Drop these data sets, because another process has them. REQUIRES: the worker is paused."""
        return self.call(lambda decoder: decoder.finish(handed_over=True))

    def replace(
        self,
        new_decoder: Callable[[], Decoder],
        deliver: Callable[[FlowBatch], None],
        access: AccessList | None = None,
    ) -> Future[None]:
        """Continue with decoders of another schema or with other options and sources, between two batches.

        Flows that were received before are still delivered to the old function.
        """

        def replace_between_batches(decoder: Decoder) -> None:
            self._finish_datagrams()
            self._switch(new_decoder(), access)
            self._new_decoder, self._deliver = new_decoder, deliver

        return self.call(replace_between_batches)

    def copy(self, copier: Copier) -> Future[None]:
        """Continue with another copier, between two batches. The worker closes it at its end."""

        def replace_between_batches(decoder: Decoder) -> None:
            self._finish_datagrams()
            self._past_copies = self._read_copies()
            self._copier.close()
            self._copier = copier
            self._attach_copier()

        return self.call(replace_between_batches)

    def _attach_copier(self) -> None:
        self._copier.attach(self._receiver)

    def close_copies(self) -> None:
        """Stop copying. REQUIRES: the thread has ended, or was not started."""
        self._past_copies = self._read_copies()
        self._copier.close()
        self._copier = Copier()

    def _finish_datagrams(self) -> None:
        """Decode and deliver everything that was received."""
        while self._source.waiting:
            self._receive(0)  # the deadline has passed: nothing more is received
        self._deliver_rest()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()
        self._answer_calls()  # of callers that saw the thread run

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def call(self, function: Callable[[Decoder], Result]) -> Future[Result]:
        """Call a function with the decoder between two batches, in the thread.

        Without a running thread, the function is called at once. Callers with the same function share the
        call that waits. Otherwise, calls of a thread that is blocked would accumulate.
        """
        with self._lock:
            future: Future[Result] = self._calls.setdefault(function, Future())
        self._source.wake()
        if not self._thread.is_alive():
            self._answer_calls()
        return future

    def read_counters(self) -> WorkerCounters:
        """Return the totals of the worker. A worker that waits for a full queue gives those before it."""
        return read_all_counters([self])[0]

    def _answer_counters(self, decoder: Decoder) -> WorkerCounters:
        self._published = self._read_counters()
        return self._published

    def _open_source(self) -> Source:
        sockets = [(each.sockets[self._index].fileno(), each.address.port) for each in self._listeners]
        patient = all(listener.buffer_bytes >= PAUSE_BUFFER for listener in self._listeners)
        self._receiver = Receiver(sockets, pause=PAUSE_NS if patient else 0, access=self._access)
        self._attach_copier()
        return self._receiver

    def _restart_source(self, access: AccessList | None) -> None:
        """Drop the datagrams that wait to be decoded, and continue with another decoder."""
        self._receiver.restart(access)
        self._attach_copier()

    def _run(self) -> None:
        attempts = LAST_ATTEMPTS  # to end without an exception
        while attempts:
            try:
                self._work()
                break
            except Exception as error:
                self._restart(error)
                attempts -= self._stopping
        self._answer_calls()

    def _work(self) -> None:
        """Receive until the end. Then deliver everything that was received."""
        due = time.monotonic_ns() + self._interval_ns
        self._answer_calls()  # of callers who woke the receiver before a restart
        while not self._stopping:
            self._receive(due)
            self._answer_calls()
            while self._holding and not self._stopping:
                time.sleep(HOLD_SECONDS)
                self._answer_calls()
            if time.monotonic_ns() >= due:
                self._deliver_rest()
                self._published = self._read_counters()
                due = time.monotonic_ns() + self._interval_ns
        if self._draining:
            self._drain()
        self._finish_datagrams()
        with contextlib.suppress(DecodeError):  # of strict decoders; the data sets are counted
            self._decoder.finish()

    def _receive(self, deadline: int) -> None:
        """Receive until the deadline or a wake-up. Deliver full tables."""
        tables: list[Table] = []
        try:
            self._read(deadline, tables)
        finally:
            for table in tables:
                self._deliver_table(table)
        self._copier.flush()

    def _read(self, deadline: int, tables: list[Table]) -> None:
        self._builder.receive(self._receiver, deadline, tables)

    def _drain(self) -> None:
        """Receive until the sockets stay empty for a moment, or for DRAIN_SECONDS."""
        end = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < end and not self._is_quiet():
            self._receive(time.monotonic_ns() + int(QUIET_SECONDS * NANOSECONDS))

    def _is_quiet(self) -> bool:
        """Wait for data for QUIET_SECONDS. Return True if there is none."""
        poll = select.poll()
        for listener in self._listeners:
            poll.register(listener.sockets[self._index], select.POLLIN)
        return not poll.poll(QUIET_SECONDS * 1000)

    def _deliver_rest(self) -> None:
        for table in self._builder.finish_each():
            if len(table):
                self._deliver_table(table)

    def _deliver_table(self, table: Table) -> None:
        batch = self._decoder.as_batch(table)
        self._deliver(batch)
        self._past.rows.setdefault(batch.schema.rows, RowCounters()).delivered += len(table)

    def _answer_calls(self) -> None:
        while True:
            with self._lock:
                if not self._calls:
                    return
                function = next(iter(self._calls))
                future = self._calls.pop(function)
            future.set_running_or_notify_cancel()
            try:
                future.set_result(function(self._decoder))
            except Exception as error:
                future.set_exception(error)

    def _restart(self, error: Exception) -> None:
        """Continue after an exception, with a new decoder that has the state of the old one."""
        self._past.failures += 1
        self._on_failure(error)
        self._past.lost_datagrams += self._source.waiting
        self._switch(self._new_decoder(), self._access)
        for each in self._past.rows.values():
            each.lost += each.waiting
        time.sleep(RESTART_SECONDS)  # the sockets hold the datagrams of that time

    def _switch(self, decoder: Decoder, access: AccessList | None) -> None:
        """Continue with another decoder. It gets the state of the old one, whose counters are kept."""
        builder = decoder.new_builder(BATCH_ROWS)
        decoder.restore_exporters(to_plain(self._decoder.read_exporters()))
        decoder.restore_exporters(self._decoder.read_early_data())
        self._decoder.finish(handed_over=True)
        self._past = self._read_counters()
        self._restart_source(access)
        self._decoder, self._builder, self._access = decoder, builder, access

    def _read_copies(self) -> CopyCounters:
        counters = CopyCounters()
        counters.add(self._past_copies)
        counters.add(self._copier.read_counters())
        return counters

    def _read_rows(self) -> dict[str, RowCounters]:
        rows = {kind: RowCounters(count) for kind, count in self._decoder.rows.items()}
        for kind, past in self._past.rows.items():
            rows[kind] = rows.get(kind, RowCounters()) + past
        return rows

    def _read_counters(self) -> WorkerCounters:
        past, totals = self._past, self._decoder.read_totals()
        return WorkerCounters(
            listeners=[+Counter(each) for each in self._receiver.read_counters()],
            kernel_drops=[listener.read_drops(self._index) for listener in self._listeners],
            rows=self._read_rows(),
            denied=self._receiver.denied,
            decoded=past.decoded + totals["datagrams"] - self._receiver.interrupted,
            waiting=self._receiver.waiting,
            lost_datagrams=past.lost_datagrams,
            failures=past.failures,
            statuses=past.statuses + Counter(totals["counters"]),
            copies=self._read_copies(),
        )


def read_all_counters(workers: Sequence[Worker]) -> list[WorkerCounters]:
    """Return the totals of workers. Those of a worker that waits for a full queue are from before it waited.

    All workers together get COUNTERS_SECONDS to answer.
    """
    readings = [worker.call(worker._answer_counters) for worker in workers]
    wait(readings, COUNTERS_SECONDS)
    return [
        reading.result() if reading.done() else worker._published
        for worker, reading in zip(workers, readings, strict=True)
    ]
