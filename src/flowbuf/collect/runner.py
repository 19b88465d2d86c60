"""The thread of an output: it selects flows of the queue, and writes them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from flowbuf.collect.batch_bytes import Batch
from flowbuf.collect.config import OutputConfig
from flowbuf.collect.output_counters import OutputCounters
from flowbuf.collect.outputs.null import NullOutput
from flowbuf.collect.outputs.output import Output
from flowbuf.collect.queue import FlowQueue, QueuedBatch
from flowbuf.collect.spools.counts import SpoolCounters
from flowbuf.collect.spools.spool import Spool
from flowbuf.collect.unsettled import UnsettledBatches
from flowbuf.errors import (
    ClickHouseError,
    FlowbufError,
    KafkaError,
    SpoolError,
    contained_exit,
    error_text,
)
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection

__all__ = ["PATIENCE", "OutputRunner", "Predecessors"]

logger = logging.getLogger("flowbuf.collect")

T = TypeVar("T")

PATIENCE = 30.0
"""Longest time in seconds that a stopping output tries to write the flows that wait."""

HAND_ON_SECONDS = 5.0
"""The same time of an output whose successor continues with its spool."""

GRACE = 15.0
"""Time in seconds after the patience in which a call of the output must return."""

LOCK_SECONDS = 2.0
RETRY_SECONDS = 1.0
TICK_SECONDS = 1.0
OPEN_SECONDS = 0.2
TEMPORARY = (OSError, KafkaError, ClickHouseError)
"""Errors after which a batch is written again. After any other, its flows are lost."""


@dataclass(frozen=True)
class Predecessors:
    """The outputs that use the spool of an output before it.

    Attributes:
        folder: Folder of the spool.
        open: Returns the spool and the output. Raises SpoolError while another process uses the spool.
        runners: Outputs of this process that must end before.
        left: Flows that an output of this process has left in the spool, if all have ended.
    """

    folder: str
    open: Callable[[], tuple[Spool, Output]]
    runners: Sequence[OutputRunner] = ()
    left: int = 0

    @property
    def spooled(self) -> int:
        """Flows in the spool that outputs of this process count."""
        return self.left + sum(runner.read_counters().spooled for runner in self.runners)


class OutputRunner:
    """Pass flows from a queue to an output, in a thread.

    A batch that cannot be written because of the destination is tried again until it succeeds. Meanwhile, the
    queue fills. After `stop`, the thread tries for `patience` seconds more. After an unexpected error,
    the output fails until the end: it writes nothing more, and its flows are lost or stay in the spool.

    An output with a spool may have to wait until another process, or the output of an earlier configuration,
    has closed the spool. Its flows wait in memory until then.

    Attributes:
        name: Name of the output in messages.
        log: Log for messages about the output.
        broken: True if the reader of a pipe has ended, so that the output will never work again.

    Args:
        name: Name of the output in messages.
        queue: Queue of the flows.
        selection: Enrichments, condition and columns of the output.
        output: Destination of the flows, or the predecessors that it waits for.
        patience: Longest time to try after `stop`, in seconds. Default: 30.
        config: Settings of the output, to recognize it in another configuration.
        spool: Spool of the queue. The thread syncs it, and closes it at the end.
    """

    def __init__(
        self,
        name: str,
        queue: FlowQueue,
        selection: FlowSelection,
        output: Output | Predecessors,
        patience: float = PATIENCE,
        config: OutputConfig | None = None,
        spool: Spool | None = None,
    ) -> None:
        self.name = name
        self.log = logging.LoggerAdapter(logger, {"output": name})
        self.config = config
        self.queue = queue
        self._spool = spool
        self._before = output if isinstance(output, Predecessors) else None
        self._output: Output = NullOutput() if isinstance(output, Predecessors) else output
        self._selection = selection
        self._patience = patience
        self._end = float("inf")  # time at which a stopping thread gives up
        self._stopping = threading.Event()
        self._hands_on = False  # a successor writes the flows that wait
        self._filtered = 0
        self._lost: Counter[str] = Counter()
        self._failures = 0
        self._given_up = 0  # flows that were pending when the patience ended
        self._returned = 0  # flows of the spool that were not written when the patience ended
        self._failing = ""  # text of the last error, until the output works again
        self._failing_tick = False
        self._waits_at_end = False  # the log says that the end waits for the destination
        self._unsettled = UnsettledBatches(keep=config is not None and config.on_overflow == "spool")
        self._in_hand: QueuedBatch | None = None  # the batch that is being written, or was not written
        self._published = OutputCounters()
        self._reported = SpoolCounters()  # those whose problems are in the log
        self._spool_problem = ""  # that the log has
        self._reason = "shutdown"  # why flows that wait at the end are lost
        self._joined = False
        self._lock = threading.Lock()  # held by the thread, except in calls that may never return
        self._left_behind = False  # such a call did not return, so the thread must change nothing any more
        self._finished = threading.Event()
        self._next_tick = 0.0
        self._of_output: tuple[int, int, Mapping[str, int]] = (0, 0, {})  # stored, pending and lost
        self.broken = False
        self._thread = threading.Thread(target=self._run, name=f"flowbuf-output-{name}", daemon=True)
        self._report_spool()  # now, because the next start does not find this damage again

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        if self.spool_folder:
            threading.Thread(target=self._sync_meanwhile, name="flowbuf-sync", daemon=True).start()

    def stop(self) -> None:
        """Write the flows that wait, store everything, and end the thread."""
        self.request_stop()
        self.join()

    def request_stop(self, hands_on: bool = False) -> None:
        """Ask the thread to write the flows that wait, to store everything, and to end.

        Args:
            hands_on: Leave the flows that wait to a successor, in the spool.
        """
        self._hands_on = hands_on and self._before is None
        patience = min(self._patience, HAND_ON_SECONDS) if self._hands_on else self._patience
        self._end = time.monotonic() + patience
        self.queue.close()
        self._stopping.set()

    def join(self) -> None:
        """Wait until the thread has ended. If it does not answer, flows stay in the spool or are lost."""
        if self._thread.ident is None:
            return
        self._thread.join(min(max(self._end - time.monotonic(), 0) + GRACE, threading.TIMEOUT_MAX))
        if self._thread.is_alive() or not self._finished.is_set():
            self._leave_behind()
        self._joined = True

    def _leave_behind(self) -> None:
        """Finish without the thread. It ends as soon as its call returns."""
        rest = "are lost" if self._spool is None else "stay in the spool"
        if not self._lock.acquire(timeout=LOCK_SECONDS):
            rest = "are lost"  # not even the disk of the spool answers
        else:
            try:
                if self._finished.is_set():
                    return
                self._left_behind = True
                self._given_up = self._of_output[1]
                self._finish()
            finally:
                self._lock.release()
        self.log.error("output %s does not answer; the flows that wait %s", self.name, rest)

    def abandon(self) -> None:
        """Release the destination and the spool, if the thread was not started."""
        for release in (self._output.close, *([] if self._spool is None else [self._spool.close])):
            self._attempt(release)

    @property
    def left_behind(self) -> bool:
        """True if the output did not answer at the end. Its thread still waits."""
        return self._left_behind

    @property
    def waits(self) -> bool:
        """True if the output waits for its spool."""
        return self._before is not None and not self._ended

    @property
    def has_spool(self) -> bool:
        """True if the output has opened its spool."""
        return self._spool is not None

    @property
    def spool_folder(self) -> str:
        """Folder of the spool that the output uses or waits for. Empty if there is none."""
        if self._before is not None:
            return self._before.folder
        return "" if self._spool is None else self._spool.folder

    @property
    def _ended(self) -> bool:
        return self._left_behind or (self._thread.ident is not None and not self._thread.is_alive())

    @property
    def schema(self) -> Schema:
        """Schema with the columns of the output."""
        return self._selection.schema

    @property
    def failing(self) -> str:
        """Text of the last error of the output or its spool, or "" if they work."""
        return "; ".join(filter(None, (self._failing, self.queue.problem)))

    def read_counters(self) -> OutputCounters:
        """Return the counters. A batch counts as queued until it was written or lost."""
        published = self._published  # before the queue, so that `queued` is not negative
        queue = self.queue.read_counters()
        counters = replace(published, queue=queue, rows=self.schema.rows, name=self.name)
        if not self._joined:
            return counters
        lost = Counter({self._reason: counters.queued + counters.pending})
        return replace(counters, pending=0, lost=counters.lost + lost)

    def _run(self) -> None:
        with self._lock, contextlib.suppress(_LeftBehind):
            try:
                if self._before is None or self._open(self._before):
                    self._write_queue()
                    self._close()
                self._finish()
            except _LeftBehind:
                raise
            except BaseException as error:  # nothing else would notice that the thread has ended
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Write nothing more after an unexpected error."""
        problem = f"it failed and does not continue: {error_text(error)}"
        self._reason = "output_error"
        self._failures += 1
        self._failing = problem
        self.log.error("output %s: %s", self.name, problem, exc_info=error)
        if self._spool is None:
            self.queue.close()  # flows that arrive from now on are lost
        self._publish()
        self._attempt(lambda: self._call(self._output.close))
        self._failing = problem
        self._given_up = self._output.pending
        if self._spool is not None:
            self._publish()
            while not self._stopping.wait(TICK_SECONDS):  # until then, the queue appends flows to the spool
                self._attempt(self._sync)
        self._finish()

    def _finish(self) -> None:
        """Leave the flows that were not stored in the spool. Without a spool, they are lost."""
        self._finished.set()
        self._acknowledge()
        if self._spool is None:
            self._lose_rest()
        else:
            self._close_spool(self._spool)
        self._publish()

    def _open(self, before: Predecessors) -> bool:
        """Wait for the spool, and open it and the output. Return False if the patience ends first."""
        self.log.info("output %s: waiting until its spool is free", self.name)
        self._failing = "waiting until its spool is free"
        while not self._try_to_open(before):
            if time.monotonic() >= self._end:
                return False
            self._stopping.wait(OPEN_SECONDS)
            if self._stopping.is_set():
                time.sleep(min(OPEN_SECONDS, self._patience / 10))
        self.log.info("output %s: continuing with its spool", self.name)
        return True

    def _try_to_open(self, before: Predecessors) -> bool:
        if any(not runner._ended for runner in before.runners):
            return False
        try:
            self._spool, self._output = before.open()
        except SpoolError as error:
            if not error.in_use:
                self._report(error)
            return False
        except (OSError, FlowbufError) as error:
            self._report(error)
            return False
        self.queue.attach(self._spool, before.spooled)
        self._report_spool()
        self._failing = ""
        self._before = None
        return True

    def _lose_rest(self) -> None:
        self._lost[self._reason] += self._given_up
        if self._in_hand is not None:
            self._lost[self._reason] += len(self._in_hand.batch)
        while item := self.queue.get(0):
            self._lost[self._reason] += len(item.batch)

    def _write_queue(self) -> None:
        """Write the flows of the queue until it is closed and empty, or the patience ends."""
        self._next_tick = time.monotonic() + TICK_SECONDS
        while not self._leaves_rest():
            closed = self.queue.closed
            item = self.queue.get(TICK_SECONDS)
            if item is not None:
                self._handle(item)
            elif closed:
                break
            self._work_if_due(lambda: self._attempt(self._tick))
            self._acknowledge()
            self._publish()

    def _work_if_due(self, tick: Callable[[], object]) -> None:
        """Sync the spool and call `tick`, once per second."""
        if self._next_tick <= time.monotonic() < self._end and not self._hands_on:
            self._attempt(self._sync)
            tick()
            self._next_tick = time.monotonic() + TICK_SECONDS

    def _leaves_rest(self) -> bool:
        """Return True if the flows that wait stay in the spool."""
        return self._spool is not None and (self._hands_on or time.monotonic() >= self._end)

    def _sync_meanwhile(self) -> None:
        """Sync the spool once per second while the thread waits for the output."""
        while not self._finished.wait(TICK_SECONDS):
            if not self._lock.acquire(blocking=False):
                continue  # the thread works, and syncs the spool itself
            try:
                if not self._finished.is_set():
                    self._attempt(self._sync)
            finally:
                self._lock.release()

    def _sync(self) -> None:
        if self._spool is not None:
            self._spool.sync()

    def _tick(self) -> None:
        failed, self._failing_tick = self._failing_tick, True
        self._call(self._output.tick)
        self._failing_tick = False
        if (failed or self._output.pending) and not self._stopping.is_set():
            self._report_success()

    def _tick_meanwhile(self) -> None:
        """Call `tick` of an output whose `write` fails. `write` reports the problem."""
        with contextlib.suppress(Exception):
            self._call(self._output.tick)

    def _close_spool(self, spool: Spool) -> None:
        """Keep flows that were not written for the next start, and release the spool."""
        lost = min(self._given_up, self._unsettled.forgotten)
        for batch, flows in self._unsettled.kept:
            if self._give_back(batch):
                lost = min(self._given_up, lost + flows)
        self._lost[self._reason] += lost
        self._returned += self._given_up - lost
        if item := self._in_hand:
            if reason := self._give_back(item.batch) if item.number is None else "":
                self._lost[reason] += len(item.batch)
            else:
                self._returned += len(item.batch)
        while not self._attempt(self.queue.save):
            pass  # the batch that failed is lost, and counted; the others are saved
        self._attempt(spool.close)  # which syncs it first

    def _give_back(self, batch: Batch) -> str:
        """Append a batch that was not stored to the spool. Return the reason if that is not possible."""
        try:
            return self.queue.give_back(batch)
        except Exception as error:
            self._report(error)
            return "spool_error"

    def _publish(self) -> None:
        if not self._left_behind:  # otherwise, the output may be changing them
            self._of_output = self._output.stored, self._output.pending, Counter(self._output.lost)
        stored, pending, lost = self._of_output
        self._published = OutputCounters(
            filtered=self._filtered,
            stored=stored,
            pending=pending - self._given_up,
            lost=self._lost + Counter(lost),
            failures=self._failures,
            returned=self._returned,
        )
        self._report_spool()

    def _report_spool(self) -> None:
        """Log the problems of the spool that are new since the last call."""
        if self._spool is None:
            return
        counters, problem = self._spool.counters, self.queue.problem
        new = [problem] if problem and problem != self._spool_problem else []
        for each in counters.find_problems(self._reported) + new:
            self.log.error("output %s: %s", self.name, each)
        if self._spool_problem and not problem:
            self.log.warning("output %s: the spool works again", self.name)
        self._reported, self._spool_problem = counters, problem

    def _acknowledge(self) -> None:
        """Acknowledge the batches of the queue that the output has stored or lost."""
        pending = self._of_output[1] if self._left_behind else self._output.pending
        last = self._unsettled.settle(pending)
        if last >= 0:
            self.queue.done_to(last)

    def _handle(self, item: QueuedBatch) -> None:
        self._in_hand = item
        try:
            selected = self._call(lambda: self._select(item.batch))
        except Exception as error:  # of SQL, of an enrichment, or of a user's function
            self._report(error)
            self._lost["selection_error"] += len(item.batch)
            self._unsettled.add(item, 0)
            self._in_hand = None
            return
        flows = len(selected)
        taken = self._write(selected, item.number) if flows else 0
        if not flows:
            self._report_success()
        if taken is not None:
            self._filtered += len(item.batch) - flows
            self._unsettled.add(item, taken)
        elif self._spool is None:
            self._filtered += len(item.batch) - flows
            self._lost[self._reason] += flows
        else:
            return  # it stays in hand, and goes back into the spool
        self._in_hand = None

    def _select(self, batch: Any) -> Any:
        """Return the selected flows as a record batch, or the batch itself if only their number is used."""
        if self._selection.takes_all and isinstance(self._output, NullOutput):
            return batch
        return self._selection.apply(batch)

    def _write(self, selected: Any, number: int | None) -> int | None:
        """Write a record batch, again and again until it succeeds or the patience ends.

        Returns:
            int: Number of flows that the output has taken. None if the patience ended.
        """
        flows = len(selected)
        try:
            while time.monotonic() >= self._end or not self._attempt(
                lambda: self._call(lambda: self._output.write(selected, number)), TEMPORARY
            ):
                if time.monotonic() >= self._end:
                    return None
                self._work_if_due(self._tick_meanwhile)
                self._publish()
                self._pause()
        except Exception as error:  # another attempt would fail too
            self._report(error)
            self.broken = isinstance(error, BrokenPipeError)
            self._lost["output_closed" if self.broken else "bad_batch"] += flows
            return 0
        self._report_success()
        return flows

    def _pause(self) -> None:
        if self._stopping.wait(RETRY_SECONDS):
            self._report_wait()
            time.sleep(min(RETRY_SECONDS, self._patience / 10))

    def _report_wait(self) -> None:
        """Log once that the end waits for the destination."""
        if self._waits_at_end:
            return
        self._waits_at_end = True
        rest = max(self._end - time.monotonic(), 0)
        self.log.warning(
            "output %s: trying for %.0f s more to write the flows that wait: %s",
            self.name,
            rest,
            self._failing,
        )

    def _attempt(self, work: Callable[[], None], errors: tuple[type[Exception], ...] = (Exception,)) -> bool:
        """Do some work with the output. Return False after one of these errors, which is logged once."""
        try:
            work()
        except errors as error:
            if isinstance(error, BrokenPipeError):
                if errors is TEMPORARY:
                    raise
                self.broken = True
            self._report(error)
            return False
        return True

    def _report(self, error: Exception) -> None:
        """Log an error, but not the same error twice in a row."""
        self._failures += 1
        text = error_text(error)
        if self._failing != text:
            self.log.error("output %s: %s", self.name, text)
        self._failing = text

    def _report_success(self) -> None:
        if self._failing and not self._failing_tick:  # otherwise, `tick` finds that the output works again
            self.log.warning("output %s works again", self.name)
            self._failing = ""

    def _close(self) -> None:
        while not self._attempt(lambda: self._call(self._output.close)):
            if self.broken or time.monotonic() >= self._end:
                self._given_up = self._output.pending
                return
            self._work_if_due(lambda: None)
            self._publish()
            self._pause()

    def _call(self, work: Callable[[], T]) -> T:
        """Call the output or an enrichment, without the lock. REQUIRES: the counters are published.

        Raises:
            Exception: The call has failed. See `contained_exit` for exceptions that would end the thread.
            _LeftBehind: The call has returned too late.
        """
        self._lock.release()
        try:
            with contained_exit():
                return work()
        finally:
            self._lock.acquire()
            if self._left_behind:
                raise _LeftBehind


class _LeftBehind(BaseException):
    """The owner of an output has finished without its thread."""
