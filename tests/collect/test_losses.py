"""Warnings about losses: the first at once, and then at most one per minute and place."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flowbuf.collect.listen import Address
from flowbuf.collect.losses import LossLog
from flowbuf.collect.outputs.null import NullOutput
from flowbuf.collect.queue import FlowQueue
from flowbuf.collect.service import Service
from flowbuf.collect.spools.spool import Spool
from tests.collect.test_collector import flows5
from tests.collect.test_service import ListOutput, address_of, assert_true, running
from tests.support.live import send, wait_until

KERNEL = (
    "{}: the kernel dropped {} datagrams, because the receive buffer was full; "
    "raise --receive-buffer and net.core.rmem_max, or use more --workers"
)
QUEUE = (
    "output {}: {} flows were dropped, because its queue was full; "
    "flows arrive faster than it writes them: see --on-overflow and --queue-flows"
)
SPOOL = (
    "output {}: {} flows were dropped, because its spool was full; "
    "repair the destination, or raise --spool-bytes"
)


@dataclass
class Sockets:
    """Stands in for a listener, because nobody can set the drops of a kernel. One socket has no counter."""

    address: Address
    drops: list[int | None] = field(default_factory=lambda: [0, None, 0])

    @property
    def sockets(self) -> list[int | None]:
        return self.drops

    def read_drops(self, worker: int) -> int | None:
        return self.drops[worker]


@dataclass(eq=False)
class Place:
    """The parts of an output that count losses."""

    name: str
    queue: FlowQueue


class Batch:
    """A batch of flows without columns."""

    nbytes = 10

    def __init__(self, flows: int) -> None:
        self.flows = flows

    def __len__(self) -> int:
        return self.flows


class Losses:
    """Listeners and outputs whose losses and time a test controls."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING, "flowbuf.collect")
        self.now = 0.0
        self.listeners: list[Any] = [Sockets(Address("::1", port)) for port in (2055, 6343)]
        self.outputs: list[Any] = [self.new_output("a"), self.new_output("b")]
        self._log = LossLog(lambda: self.now)
        self._caplog = caplog

    @staticmethod
    def new_output(name: str) -> Place:
        output = Place(name, FlowQueue(1))
        output.queue.put(Batch(1))  # type: ignore[arg-type]
        return output

    def drop(self, output: int, flows: int) -> None:
        self.outputs[output].queue.put(Batch(flows))

    def report(self, seconds: float = 0.0, last: bool = False) -> list[str]:
        """Return the warnings of a report at a later time."""
        self.now += seconds
        self._caplog.clear()
        self._log.report(self.listeners, self.outputs, last)
        return [record.getMessage() for record in self._caplog.records]


def test_the_first_loss_is_in_the_log_at_once_and_later_ones_after_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    losses = Losses(caplog)
    assert losses.report() == []
    losses.listeners[0].drops = [1000, None, 234]
    assert losses.report(1) == [KERNEL.format("[::1]:2055", "1,234")]
    assert losses.report(0.5) == []
    losses.listeners[0].drops = [1000, None, 240]
    assert losses.report(59) == []
    assert losses.report(0.5) == [KERNEL.format("[::1]:2055", "6 more")]
    assert losses.report(600) == []
    losses.listeners[0].drops = [1001, None, 240]
    assert losses.report(0.2) == [KERNEL.format("[::1]:2055", "1 more")]


def test_each_place_has_its_own_minute(caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses(caplog)
    losses.listeners[0].drops[0] = 5
    losses.drop(0, 7)
    assert losses.report() == [KERNEL.format("[::1]:2055", 5), QUEUE.format("a", 7)]
    losses.listeners[1].drops[2] = 1
    losses.drop(0, 3)
    losses.drop(1, 2)
    assert losses.report(30) == [KERNEL.format("[::1]:6343", 1), QUEUE.format("b", 2)]
    assert [(vars(each).get("listener"), vars(each).get("output")) for each in caplog.records] == [
        ("[::1]:6343", None),
        (None, "b"),
    ]
    assert losses.report(30) == [QUEUE.format("a", "3 more")]


def test_the_rest_of_the_losses_is_in_the_log_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses(caplog)
    losses.drop(0, 7)
    losses.report()
    losses.drop(0, 3)
    assert losses.report(1) == []
    assert losses.report(1, last=True) == [QUEUE.format("a", "3 more")]
    assert losses.report(0, last=True) == []


def test_an_output_of_another_configuration_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses(caplog)
    losses.drop(0, 7)
    losses.report()
    losses.outputs[0] = losses.new_output("a")
    assert losses.report(1) == []
    losses.drop(0, 2)
    assert losses.report(1) == [QUEUE.format("a", 2)]


def test_other_losses_of_a_queue_are_not_reported_again(caplog: pytest.LogCaptureFixture) -> None:
    """The output has logged why it ended."""
    losses = Losses(caplog)
    losses.outputs[0].queue.close()
    losses.drop(0, 7)
    assert losses.outputs[0].queue.read_counters().reasons == {"closed": 7}
    assert losses.report() == []


def test_a_full_spool(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses(caplog)
    batch = ListOutput()
    with running({"one": batch}) as service:
        send([flows5(30)], address_of(service))
        wait_until(lambda: batch.stored == 30, "a batch")
    with Spool(tmp_path, 1) as spool:
        losses.outputs = [Place("a", FlowQueue(1, "spool", spool=spool))]
        for _ in range(2):
            losses.outputs[0].queue.put(batch.batches[0])
        assert losses.report() == [SPOOL.format("a", 30)]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def count_drops(service: Service) -> int:
    (listener,) = service.intake.datagram_listeners
    return listener.read_drops(0) or 0


def drop_datagrams(service: Service) -> int:
    """Send datagrams until the kernel drops some. Return the number of all that it has dropped."""
    before = count_drops(service)
    while count_drops(service) == before:
        send([flows5(30)] * 10, address_of(service))
    return count_drops(service)


def test_a_collector_warns_of_kernel_drops_while_its_worker_waits(caplog: pytest.LogCaptureFixture) -> None:
    """The sum of all warnings is the number of drops."""
    caplog.set_level(logging.WARNING, "flowbuf.collect")
    held = threading.Event()
    with running({"null:": NullOutput()}, receive_buffer=4096) as service:
        (worker,) = service.intake._workers
        paused = worker.call(lambda decoder: held.wait(30))
        wait_until(paused.running, "the pause of the worker")
        drop_datagrams(service)
        wait_until(lambda: bool(warnings_of(caplog)), "the warning")
        dropped = drop_datagrams(service)
        service.stop()
        wait_until(lambda: len(warnings_of(caplog)) == 2, "the last warning")
        held.set()
    start = f"{address_of(service)}: the kernel dropped "
    numbers = [each.removeprefix(start).split(" ")[0].replace(",", "") for each in warnings_of(caplog)]
    assert sum(map(int, numbers)) == dropped == service.read_counters().intake.kernel_drops


def test_a_collector_warns_of_flows_that_a_full_queue_drops(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "flowbuf.collect")
    release = threading.Event()
    outputs: dict[str, Any] = {
        "slow": ListOutput(lambda: assert_true(release.wait(30))),
        "fast": ListOutput(),
    }
    with running(outputs, {"slow": {"queue_flows": 1}}) as service:
        while not service.read_counters().outputs["slow"].dropped:
            send([flows5(30)], address_of(service))
        wait_until(lambda: bool(warnings_of(caplog)), "the warning")
        assert warnings_of(caplog)[0].startswith("output slow: ")
        assert "flows were dropped, because its queue was full" in warnings_of(caplog)[0]
        release.set()
    assert not any("output fast" in each for each in warnings_of(caplog))
