"""The thread of an output: it selects flows of the queue, and writes them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from flowbuf.collect.config import OutputConfig
from flowbuf.collect.outputs.output import Output
from flowbuf.collect.queue import FlowQueue, QueueCounters, QueuedBatch
from flowbuf.collect.spool import Spool
from flowbuf.errors import ClickHouseError, KafkaError
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection

__all__ = ["OutputCounters", "OutputRunner"]

logger = logging.getLogger("flowbuf.collect")

PATIENCE = 30.0
"""Longest time in seconds that a stopping output tries to write the flows that wait."""

RETRY_SECONDS = 1.0
TICK_SECONDS = 1.0
TEMPORARY = (OSError, KafkaError, ClickHouseError)
"""Errors after which a batch is written again. After any other, its flows are lost."""


@dataclass
class OutputCounters:
    """Flows of an output at one moment.

    `queue.offered` + `queue.recovered` is the sum of all places where they can be: filtered, stored, pending,
    queued, spooled, lost and `queue.dropped`.

    Attributes:
        queue: Flows of its queue.
        filtered: Flows that its condition or an enrichment removed.
        stored: Flows that are durable at the destination.
        pending: Flows that were written and are not stored yet.
        lost: Flows that could not be written, by reason.
        failures: Failed attempts to write.
        returned: Flows that were taken from the spool, and stay there because they were not written.
    """

    queue: QueueCounters = field(default_factory=QueueCounters)
    filtered: int = 0
    stored: int = 0
    pending: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    returned: int = 0

    @property
    def spooled(self) -> int:
        """Flows that wait in the spool, or stay there for the next start."""
        return self.queue.spooled + self.returned

    @property
    def queued(self) -> int:
        """Flows that wait in the queue, or are being written."""
        done = self.filtered + self.stored + self.pending + self.lost.total() + self.returned
        return self.queue.queued + self.queue.taken - done


class OutputRunner:
    """Pass flows from a queue to an output, in a thread.

    A batch that cannot be written because of the destination is tried again until it succeeds. Meanwhile, the
    queue fills. After `stop`, the thread tries for `patience` seconds more.

    Attributes:
        broken: True if the reader of a pipe has ended, so that the output will never work again.

    Args:
        name: Name of the output in messages.
        queue: Queue of the flows.
        selection: Enrichments, condition and columns of the output.
        output: Destination of the flows.
        patience: Longest time to try after `stop`, in seconds. Default: 30.
        config: Settings of the output, to recognize it in another configuration.
        spool: Spool of the queue. The thread syncs it, and closes it at the end.
    """

    def __init__(
        self,
        name: str,
        queue: FlowQueue,
        selection: FlowSelection,
        output: Output,
        patience: float = PATIENCE,
        config: OutputConfig | None = None,
        spool: Spool | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self.queue = queue
        self._spool = spool
        self._selection = selection
        self._output = output
        self._patience = patience
        self._end = float("inf")  # time at which a stopping thread gives up
        self._stopping = threading.Event()
        self._filtered = 0
        self._lost: Counter[str] = Counter()
        self._failures = 0
        self._given_up = 0  # flows that were pending when the patience ended
        self._returned = 0  # flows of the spool that were not written when the patience ended
        self._failing = ""  # text of the last error, until the output works again
        self._written = 0  # flows that the output has taken
        # batches that the output has taken or that were lost, each with the flows taken until then
        self._handled: deque[tuple[int, QueuedBatch]] = deque()
        self._published = OutputCounters()
        self.broken = False
        self._thread = threading.Thread(target=self._run, name=f"flowbuf-output-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Write the flows that wait, store everything, and end the thread."""
        self.request_stop()
        self.join()

    def request_stop(self) -> None:
        """Ask the thread to write the flows that wait, to store everything, and to end."""
        self._end = time.monotonic() + self._patience
        self.queue.close()
        self._stopping.set()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def abandon(self) -> None:
        """Release the destination and the spool, if the thread was not started."""
        for release in (self._output.close, *([] if self._spool is None else [self._spool.close])):
            self._attempt(release)

    @property
    def schema(self) -> Schema:
        """Schema with the columns of the output."""
        return self._selection.schema

    @property
    def failing(self) -> str:
        """Text of the last error, or "" if the output works."""
        return self._failing

    def read_counters(self) -> OutputCounters:
        """Return the counters. A batch counts as queued until it was written or lost."""
        published = self._published  # before the queue, so that `queued` is not negative
        return replace(published, queue=self.queue.read_counters())

    def _run(self) -> None:
        next_tick = time.monotonic() + TICK_SECONDS
        while True:
            closed = self.queue.closed
            item = self.queue.get(TICK_SECONDS)
            if item is not None:
                self._handle(item)
            elif closed:
                break
            if self._spool is not None and time.monotonic() >= self._end:
                break  # the rest stays in the spool
            if time.monotonic() >= next_tick:
                self._attempt(self._sync)
                self._attempt(self._tick)
                next_tick = time.monotonic() + TICK_SECONDS
            self._acknowledge()
            self._publish()
        self._close()
        self._acknowledge()
        self._close_spool()
        self._publish()

    def _sync(self) -> None:
        if self._spool is not None:
            self._spool.sync()

    def _tick(self) -> None:
        self._output.tick()
        if self._output.pending and not self._stopping.is_set():
            self._report_success()

    def _close_spool(self) -> None:
        """Keep flows that were not written for the next start, and release the spool."""
        if self._spool is not None:
            self.queue.save()
            self._attempt(self._spool.close)  # which syncs it first

    def _publish(self) -> None:
        # Flows of the spool were not acknowledged, so the next start writes them.
        lost, kept = (self._given_up, 0) if self._spool is None else (0, self._given_up)
        self._published = OutputCounters(
            filtered=self._filtered,
            stored=self._output.stored,
            pending=self._output.pending - self._given_up,
            lost=self._lost + Counter(self._output.lost) + Counter(shutdown=lost),
            failures=self._failures,
            returned=self._returned + kept,
        )

    def _acknowledge(self) -> None:
        """Acknowledge the batches of the queue that the output has stored or lost."""
        done: QueuedBatch | None = None
        finished = self._written - self._output.pending
        while self._handled and self._handled[0][0] <= finished:
            done = self._handled.popleft()[1]
        if done is not None:
            self.queue.done(done)

    def _handle(self, item: QueuedBatch) -> None:
        try:
            selected = self._selection.apply(item.batch)
        except Exception as error:  # of SQL, of an enrichment, or of a user's function
            self._report(error)
            self._lost["selection_error"] += len(item.batch)
            self._handled.append((self._written, item))
            return
        self._filtered += len(item.batch) - selected.num_rows
        if not selected.num_rows or self._write(selected, item.number):
            self._handled.append((self._written, item))
        elif item.number is None:
            self._lost["output_error"] += selected.num_rows
        else:
            self._returned += selected.num_rows  # the entry was not acknowledged

    def _write(self, selected: Any, number: int | None) -> bool:
        """Write a record batch, again and again until it succeeds or the patience ends.

        Returns:
            bool: False if the patience ended.
        """
        try:
            while time.monotonic() >= self._end or not self._attempt(
                lambda: self._output.write(selected, number), TEMPORARY
            ):
                if time.monotonic() >= self._end:
                    return False
                self._publish()
                self._pause()
            self._written += selected.num_rows
            self._report_success()
        except Exception as error:  # another attempt would fail too
            self._report(error)
            self.broken = isinstance(error, BrokenPipeError)
            self._lost["output_closed" if self.broken else "bad_batch"] += selected.num_rows
        return True

    def _pause(self) -> None:
        if self._stopping.wait(RETRY_SECONDS):
            time.sleep(min(RETRY_SECONDS, self._patience / 10))

    def _attempt(self, work: Callable[[], None], errors: tuple[type[Exception], ...] = (Exception,)) -> bool:
        """Do some work with the output. Return False after one of these errors, which is logged once."""
        try:
            work()
        except BrokenPipeError:
            raise
        except errors as error:
            self._report(error)
            return False
        return True

    def _report(self, error: Exception) -> None:
        """Log an error, but not the same error twice in a row."""
        self._failures += 1
        if self._failing != str(error):
            logger.error("output %s: %s", self.name, error)
        self._failing = str(error)

    def _report_success(self) -> None:
        if self._failing:
            logger.warning("output %s works again", self.name)
            self._failing = ""

    def _close(self) -> None:
        while not self._attempt(self._output.close):
            if time.monotonic() >= self._end:
                self._given_up = self._output.pending
                return
            self._publish()
            self._pause()
