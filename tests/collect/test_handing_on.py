"""Flows that an output could not store go to its successor through the spool, and no total goes back."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf.collect import runner as runner_module
from flowbuf.collect import unsettled
from flowbuf.collect.batch_bytes import to_bytes
from flowbuf.collect.config import OutputConfig
from flowbuf.collect.intake import IntakeCounters
from flowbuf.collect.metrics import _output_samples
from flowbuf.collect.output_counters import OutputCounters
from flowbuf.collect.queue import FlowQueue, QueuedBatch
from flowbuf.collect.runner import OutputRunner
from flowbuf.collect.service import Service, ServiceCounters
from flowbuf.collect.spools.spool import Spool
from flowbuf.collect.unsettled import UnsettledBatches
from flowbuf.errors import ConfigError, KafkaError
from flowbuf.selection import FlowSelection
from tests.collect.spools import segments_of
from tests.collect.test_collector import flows5
from tests.collect.test_service import ListOutput, address_of, check_sums, running
from tests.support.datagrams import netflow5, record5
from tests.support.live import send, wait_until

SCHEMA = flowbuf.Schema.load("flow")
SPOOLED = OutputConfig(to="one", on_overflow="spool")


class WaitingOutput(ListOutput):
    """Keep flows pending until `confirm` is called. `close` fails while flows are pending."""

    def __init__(self) -> None:
        super().__init__()
        self.working = False

    def write(self, batch: Any, number: int | None = None) -> None:
        self.batches.append(batch)
        self.pending += batch.num_rows

    def confirm(self, flows: int) -> None:
        self.pending -= flows
        self.stored += flows

    def tick(self) -> None:
        if self.working:
            self.confirm(self.pending)

    def close(self) -> None:
        self.tick()
        if self.pending:
            raise KafkaError("the broker does not answer; check the address")


def batch_of(size: int, flows: int) -> flowbuf.FlowBatch:
    """Return flows with this number of bytes each."""
    return flowbuf.Decoder(SCHEMA).columns(netflow5(*[record5(octets=size)] * flows), "192.0.2.1")


def new_runner(folder: Path, output: Any, patience: float = 0.05) -> tuple[FlowQueue, OutputRunner]:
    spool = Spool(folder, 1 << 30)
    queue = FlowQueue(1000, "spool", spool=spool)
    return queue, OutputRunner("one", queue, FlowSelection(SCHEMA), output, patience, SPOOLED, spool)


def sizes_in(folder: Path) -> list[int]:
    """Return the bytes of the flows in a spool, in their order."""
    with Spool(folder, 1 << 30) as spool:
        queue = FlowQueue(1000, "spool", spool=spool)
        found: list[int] = []
        while item := queue.get(0):
            found += FlowSelection(SCHEMA).apply(item.batch)["bytes"].to_pylist()
        return found


def check(runner: OutputRunner) -> None:
    """Each flow is in one place, and none waits in memory any more."""
    counters = runner.read_counters()
    places = counters.filtered + counters.stored + counters.pending + counters.spooled
    total = counters.queue.offered + counters.queue.recovered + counters.queue.inherited
    assert total == places + counters.queue.dropped + counters.lost.total()
    assert (counters.queued, counters.pending) == (0, 0)


def test_the_batch_in_hand_goes_back_into_the_spool(tmp_path: Path) -> None:
    tried = threading.Event()

    def fail() -> None:
        tried.set()
        raise KafkaError("the broker does not answer; check the address")

    queue, runner = new_runner(tmp_path, ListOutput(fail))
    queue.put(batch_of(1, 3))
    runner.start()
    assert tried.wait(30)
    queue.put(batch_of(2, 4))
    runner.stop()
    check(runner)
    assert (runner.read_counters().spooled, runner.read_counters().lost.total()) == (7, 0)
    assert sizes_in(tmp_path) == [1] * 3 + [2] * 4


def test_losses_of_the_queue_and_of_its_output_are_added(tmp_path: Path) -> None:
    """The spool is full before and at the end, so that the batch in hand is lost too."""
    tried = threading.Event()

    def fail() -> None:
        tried.set()
        raise KafkaError("the broker does not answer; check the address")

    spool = Spool(tmp_path, 1000)
    queue = FlowQueue(1, "spool", spool=spool)
    runner = OutputRunner("one", queue, FlowSelection(SCHEMA), ListOutput(fail), 0.05, SPOOLED, spool)
    queue.put(batch_of(1, 3))
    runner.start()
    assert tried.wait(30)
    for _ in range(3):
        queue.put(batch_of(1, 4))
    runner.stop()
    check(runner)
    counters = runner.read_counters()
    assert (counters.queue.reasons, counters.lost) == ({"spool_full": 12}, {"spool_full": 3})
    assert counters.dropped == {"spool_full": 15}
    samples = _output_samples(ServiceCounters(IntakeCounters(), {"one": counters}))
    dropped = {labels["reason"]: n for name, labels, n in samples if name == "output_dropped_flows"}
    assert {reason: flows for reason, flows in dropped.items() if flows} == {"spool_full": 15}


def test_flows_that_are_not_confirmed_go_back_into_the_spool(tmp_path: Path) -> None:
    """Flows of a batch that was confirmed in part are delivered again."""
    output = WaitingOutput()
    queue, runner = new_runner(tmp_path, output)
    for size in (1, 2, 3):
        queue.put(batch_of(size, 5))
    runner.start()
    wait_until(lambda: runner.read_counters().pending == 15, "the flows")
    output.confirm(7)
    runner.stop()
    check(runner)
    assert (runner.read_counters().stored, runner.read_counters().spooled) == (7, 8)
    assert sizes_in(tmp_path) == [2] * 5 + [3] * 5


def test_batches_that_are_not_kept_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = WaitingOutput()
    queue, runner = new_runner(tmp_path, output)
    batches = [batch_of(size, 5) for size in (1, 2, 3)]
    monkeypatch.setattr(unsettled, "KEPT_BYTES", 2 * batches[0].nbytes)
    for batch in batches:
        queue.put(batch)
    runner.start()
    wait_until(lambda: runner.read_counters().pending == 15, "the flows")
    runner.stop()
    check(runner)
    assert (runner.read_counters().spooled, runner.read_counters().lost) == (10, {"shutdown": 5})
    assert sizes_in(tmp_path) == [2] * 5 + [3] * 5


def test_damage_of_the_spool_is_counted_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The last entry is missing at the start. Another one is found to be damaged when it is read."""
    for size in range(1, 5):
        with Spool(tmp_path, 1 << 30) as spool:
            spool.append(to_bytes(batch_of(size, size)), size)
    segments = segments_of(tmp_path)
    os.truncate(segments[3], segments[3].stat().st_size - 1)
    content = bytearray(segments[2].read_bytes())
    content[-1] ^= 1
    segments[2].write_bytes(content)
    position = tmp_path / "spool.position"
    position.write_bytes(b"x" + position.read_bytes()[1:])
    caplog.set_level(logging.WARNING, "flowbuf.collect")
    queue, runner = new_runner(tmp_path, ListOutput())
    runner.start()
    wait_until(lambda: queue.read_counters().taken == 3, "the intact flows")
    runner.stop()
    check(runner)
    counters = runner.read_counters()
    assert (counters.queue.recovered, counters.stored) == (10, 3)
    assert counters.queue.reasons == {"spool_damaged": 7}
    assert [record.getMessage() for record in caplog.records] == [
        "output one: the spool is damaged, and 4 of its flows are lost: truncated=4",
        "output one: the position of the spool is damaged; flows may be written again",
        "output one: the spool is damaged, and 3 of its flows are lost: checksum=3",
    ]


def test_a_successor_counts_what_the_spool_lost_between_both(tmp_path: Path) -> None:
    queue, first = new_runner(tmp_path, ListOutput(lambda: pytest.fail("nothing is written")))
    for size in (1, 2, 3):
        queue.put(batch_of(size, size))
    queue.close()
    queue.save()
    assert first._spool is not None
    first._spool.close()
    (segment,) = segments_of(tmp_path)
    os.truncate(segment, segment.stat().st_size - 1)
    with Spool(tmp_path, 1 << 30) as spool:
        successor = FlowQueue(1000, "spool", waits=True)
        successor.attach(spool, first.read_counters().spooled)
        second = OutputCounters(queue=successor.read_counters())
        total = (second + first.read_counters()).without_inherited()
        assert (total.queue.offered, total.queue.recovered) == (6, 0)
        assert (total.spooled, total.queue.reasons) == (3, {"spool_damaged": 3})


@pytest.mark.parametrize("fails", ["write", "close"])
def test_the_spool_is_synced_while_the_output_fails(tmp_path: Path, fails: str) -> None:
    output: Any = WaitingOutput() if fails == "close" else ListOutput(refuse)
    queue, runner = new_runner(tmp_path, output, patience=300)
    queue.put(batch_of(1, 3))
    runner.start()
    wait_until(lambda: runner.failing != "" or runner.read_counters().pending == 3, "the first batch")
    if fails == "close":
        runner.request_stop()
        wait_until(lambda: runner.failing != "", "the first attempt to close")
    assert queue.give_back(batch_of(2, 4)) == ""
    assert runner._spool is not None
    (segment,) = runner._spool._segments
    wait_until(lambda: segment.synced == segment.size > 0, "the sync")
    runner._patience = 0.05
    runner.stop()
    assert sorted(sizes_in(tmp_path)) == [1] * 3 + [2] * 4


def test_the_spool_is_synced_while_the_output_does_not_answer(tmp_path: Path) -> None:
    release, entered = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        release.wait(60)

    queue, runner = new_runner(tmp_path, ListOutput(wait))
    queue.put(batch_of(1, 3))
    runner.start()
    assert entered.wait(30)
    assert queue.give_back(batch_of(2, 4)) == ""
    assert runner._spool is not None
    (segment,) = runner._spool._segments
    wait_until(lambda: segment.synced == segment.size > 0, "the sync")
    release.set()
    runner.stop()
    assert runner.read_counters().stored == 3
    assert sizes_in(tmp_path) == [2] * 4


def refuse() -> None:
    raise KafkaError("the broker does not answer; check the address")


def test_only_batches_before_the_first_pending_flow_are_settled() -> None:
    batches = UnsettledBatches(keep=True)
    for number in range(4):
        batches.add(QueuedBatch(batch_of(number, 5), number, number), 5)
    batches.add(QueuedBatch(batch_of(4, 5), 4, 4), 0)  # all its flows were filtered
    assert batches.settle(pending=20) == -1
    assert batches.settle(pending=11) == 0
    assert batches.settle(pending=10) == 1
    assert batches.settle(pending=10) == -1
    assert batches.settle(pending=0) == 4
    assert (batches.kept, batches.forgotten) == ([], 0)


def test_an_output_that_never_returns_does_not_keep_the_collector(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runner_module, "GRACE", 0.05)
    monkeypatch.setattr(OutputRunner.__init__, "__defaults__", (0.05, None, None))
    release = threading.Event()
    output = ListOutput(lambda: bool(release.wait(60)) or None)
    with running({"one": output}) as service:
        send([flows5(5)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].queue.taken == 5, "the flows")
    counters = service.read_counters()
    release.set()
    check_sums(counters)
    assert counters.outputs["one"].lost == {"shutdown": 5}
    assert "output one does not answer; the flows that wait are lost" in caplog.text


@pytest.mark.parametrize("stored", [False, True], ids=["in-hand", "pending"])
def test_flows_of_an_output_that_never_returns_stay_in_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stored: bool
) -> None:
    """Also those that it has taken. A call that returns later changes nothing."""
    monkeypatch.setattr(runner_module, "GRACE", 0.05)
    release, entered = threading.Event(), threading.Event()

    class StuckOutput(WaitingOutput):
        def write(self, batch: Any, number: int | None = None) -> None:
            if len(self.batches) == stored:
                entered.set()
                release.wait(60)
            super().write(batch, number)

    output = StuckOutput()
    queue, runner = new_runner(tmp_path, output)
    for size in (1, 2, 3):
        queue.put(batch_of(size, 5))
    runner.start()
    assert entered.wait(30)
    runner.stop()
    check(runner)
    counters = runner.read_counters()
    assert (counters.spooled, counters.lost.total(), counters.stored) == (15, 0, 0)
    assert "output one does not answer; the flows that wait stay in the spool" in caplog.text
    output.working = True
    release.set()
    runner._thread.join(30)
    assert not runner._thread.is_alive()
    assert runner.read_counters() == counters
    assert sorted(sizes_in(tmp_path)) == [1] * 5 + [2] * 5 + [3] * 5


def test_a_successor_does_not_wait_for_an_output_that_never_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reload, it continues with the spool."""
    monkeypatch.setattr(runner_module, "GRACE", 0.05)
    monkeypatch.setattr(runner_module, "HAND_ON_SECONDS", 0.05)
    release, entered = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        release.wait(60)

    settings = {"on_overflow": "spool", "spool": str(tmp_path)}
    second = ListOutput()
    with running({"one": ListOutput(wait)}, {"one": settings}) as service:
        send([flows5(5)], address_of(service))
        assert entered.wait(30)
        service._new_output = lambda output, selection, spool: second
        reload(service, OutputConfig(to="one", columns=("bytes",), **settings))
        wait_until(lambda: second.stored == 5, "the flows of the spool")
        check_sums(service.read_counters())
    release.set()
    check_sums(service.read_counters())


def reload(service: Service, *outputs: OutputConfig) -> None:
    service.reload(replace(service._config, outputs=outputs), [SCHEMA])


def test_totals_of_an_output_include_those_of_earlier_configurations() -> None:
    outputs = {"one": ListOutput()}
    with running({"one": outputs["one"]}) as service:
        send([flows5(5)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 5, "the first flows")
        outputs["one"] = ListOutput()
        service._new_output = lambda output, selection, spool: outputs[output.to]
        reload(service, OutputConfig(to="one", columns=("bytes",)))
        assert service.read_counters().outputs["one"].stored == 5
        send([flows5(7)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 12, "all flows")
        wait_until(lambda: not service._retiring, "the end of the first output")
        check_sums(service.read_counters())
        reload(service, OutputConfig(to="one", name="renamed"))
        wait_until(lambda: not service._retiring, "the end of the second output")
        assert service.read_counters().outputs["one"].stored == 12


def test_a_changed_output_continues_with_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A reload writes each flow once: first those of the old output, then those that came meanwhile."""
    monkeypatch.setattr(runner_module, "HAND_ON_SECONDS", 0.3)
    caplog.set_level(logging.INFO, "flowbuf.collect")

    def fail() -> None:
        raise OSError("the disk is full")

    settings = {"on_overflow": "spool", "spool": str(tmp_path), "queue_flows": 50}
    second = ListOutput()
    with running({"one": ListOutput(fail)}, {"one": settings}) as service:

        def send_batch(size: int) -> None:
            before = service.read_counters().intake.delivered
            send([netflow5(*[record5(octets=size)] * 20)], address_of(service))
            wait_until(lambda: service.read_counters().intake.delivered > before, "a batch")

        for size in range(1, 11):
            send_batch(size)
        check_sums(service.read_counters())
        service._new_output = lambda output, selection, spool: second
        reload(service, OutputConfig(to="one", columns=("bytes",), **settings))
        assert second.closed  # the configuration was tried without the spool
        for size in range(11, 16):
            send_batch(size)
            check_sums(service.read_counters())
        wait_until(lambda: service.read_counters().outputs["one"].stored == 300, "all flows")
        wait_until(lambda: not service._retiring, "the end of the first output")
        counters = service.read_counters()
        check_sums(counters)
        assert (counters.outputs["one"].spooled, counters.outputs["one"].queue.recovered) == (0, 0)
        assert not service.find_failures()
    check_sums(service.read_counters())
    assert service.read_counters().outputs["one"].queue.dropped == 0
    sizes = [size for batch in second.batches for size in batch["bytes"].to_pylist()]
    expected = [size for size in range(1, 16) for _ in range(20)]
    assert (sorted(sizes[:200]), sizes[200:]) == (expected[:200], expected[200:])
    assert "output one: continuing with its spool" in caplog.text


def test_flows_that_an_output_left_in_its_spool_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output is removed from the configuration, and added again later."""
    monkeypatch.setattr(OutputRunner.__init__, "__defaults__", (0.2, None, None))
    settings = {"on_overflow": "spool", "spool": str(tmp_path)}
    second = ListOutput()
    with running({"one": ListOutput(refuse), "two": ListOutput()}, {"one": settings}) as service:
        one, two = service._config.outputs
        send([flows5(5)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["two"].stored == 5, "the flows")
        reload(service, two)
        wait_until(lambda: not service._retiring, "the end of the output")
        assert service.read_counters().outputs["one"].spooled == 5
        service._new_output = lambda output, selection, spool: second
        reload(service, one, two)
        wait_until(lambda: service.read_counters().outputs["one"].stored == 5, "the flows of the spool")
        check_sums(service.read_counters())
    counters = service.read_counters().outputs["one"]
    assert (counters.stored, counters.spooled, counters.queue.recovered) == (5, 0, 0)


def test_outputs_do_not_share_a_spool(tmp_path: Path) -> None:
    settings = {"on_overflow": "spool", "spool": str(tmp_path)}
    with running({"null": ListOutput()}) as service:
        service._new_output = lambda output, selection, spool: ListOutput()
        with pytest.raises(ConfigError, match=r"outputs 'a/b' and 'a-b' have the same spool; rename one"):
            reload(service, OutputConfig(to="a/b", **settings), OutputConfig(to="a-b", **settings))
        reload(service, OutputConfig(to="a-b", **settings))  # the lock was released
