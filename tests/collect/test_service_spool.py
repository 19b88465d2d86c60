"""The collector with spools: flows of a full queue or a failing output stay on disk."""

from __future__ import annotations

import logging
import resource
import threading
from pathlib import Path
from typing import Any

import pytest

from flowbuf.collect.config import CollectConfig, OutputConfig
from flowbuf.collect.runner import OutputRunner
from flowbuf.collect.service import Service
from flowbuf.collect.spools.spool import Spool
from flowbuf.errors import KafkaError, ListenError
from tests.collect.test_collector import flows5
from tests.collect.test_service import (
    BrokenOutput,
    ListOutput,
    address_of,
    assert_true,
    check_sums,
    running,
)
from tests.support.datagrams import netflow5, record5
from tests.support.live import send, wait_until


def test_a_start_that_fails_logs_the_damage_of_spools(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The next start does not find the damage again."""
    with Spool(tmp_path / "one", 1 << 20) as spool:
        spool.append(b"data", 5)
    (segment,) = (tmp_path / "one").glob("*.segment")
    segment.unlink()
    output = OutputConfig(to="one", on_overflow="spool", spool=str(tmp_path))
    config = CollectConfig(listen=("192.0.2.1:2055",), outputs=(output,))
    with pytest.raises(ListenError):
        Service(config, config.load_schemas(), lambda output, selection, spool: ListOutput())
    problem = "the spool is damaged, and 5 of its flows are lost: missing=5"
    assert [record.getMessage() for record in caplog.records] == [f"output one: {problem}"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_spool_takes_the_flows_of_a_thread_that_has_ended(tmp_path: Path) -> None:
    """The output does not even have counts any more, so its third batch counts as lost."""
    settings = {"on_overflow": "spool", "spool": str(tmp_path)}
    with running({"one": BrokenOutput(1000)}, {"one": settings}) as service:
        for count in range(1, 6):
            before = service.read_counters().intake.delivered
            send([flows5(count)], address_of(service))
            delivered = lambda before=before: service.read_counters().intake.delivered > before  # noqa: E731
            wait_until(delivered, "a batch")
        wait_until(lambda: bool(service.find_failures()), "the failure")
    counters = service.read_counters()
    check_sums(counters)
    assert (counters.outputs["one"].spooled, counters.outputs["one"].lost.total()) == (9, 3)


def test_flows_of_a_full_queue_are_spooled_and_stored_later(tmp_path: Path) -> None:
    """They are stored in their order as soon as the output works again."""
    broken = threading.Event()
    broken.set()

    def fail() -> None:
        if broken.is_set():
            raise OSError("the disk is full")

    output = ListOutput(fail)
    settings = {"on_overflow": "spool", "spool": str(tmp_path), "queue_flows": 50}
    with running({"one": output}, {"one": settings}) as service:
        for number in range(1, 21):
            before = service.read_counters().intake.delivered
            send([netflow5(*[record5(octets=number)] * 30)], address_of(service))
            wait_until(lambda before=before: service.read_counters().intake.delivered > before, "a batch")
        counters = service.read_counters()
        check_sums(counters)
        assert counters.outputs["one"].spooled >= 500
        assert counters.outputs["one"].queue.dropped == 0
        broken.clear()
        wait_until(lambda: service.read_counters().outputs["one"].stored == 600, "the output")
    check_sums(service.read_counters())
    assert service.read_counters().outputs["one"].spooled == 0
    sizes = [size for batch in output.batches for size in batch["bytes"].to_pylist()]
    assert sizes == [number for number in range(1, 21) for _ in range(30)]


def test_a_spool_that_fails_is_logged_once_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First it cannot be written, while the output does not work either. Then it cannot be read."""
    broken = threading.Event()
    broken.set()

    def fail() -> None:
        if broken.is_set():
            raise KafkaError("the broker does not answer")

    def send_batch() -> None:
        before = service.read_counters().intake.delivered
        send([flows5(30)], address_of(service))
        wait_until(lambda: service.read_counters().intake.delivered > before, "a batch")

    for name in ("runner.RETRY_SECONDS", "runner.TICK_SECONDS", "queue._RETRY_SECONDS"):
        monkeypatch.setattr(f"flowbuf.collect.{name}", 0.02)
    caplog.set_level(logging.WARNING, "flowbuf.collect")
    settings = {"on_overflow": "spool", "spool": str(tmp_path), "queue_flows": 50}
    with running({"one": ListOutput(fail)}, {"one": settings}) as service:
        (folder,) = tmp_path.iterdir()
        folder.rename(tmp_path / "moved")
        for _ in range(5):
            send_batch()
        wait_until(lambda: "the spool cannot be written" in caplog.text, "the message")
        (failure,) = service.find_failures()
        assert failure.startswith("output one: the broker does not answer; the spool cannot be written: ")
        (tmp_path / "moved").rename(folder)
        send_batch()
        assert service.find_failures() == ["output one: the broker does not answer"]
        wait_until(lambda: "the spool works again" in caplog.text, "the message")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            broken.clear()
            wait_until(lambda: "the spool cannot be read" in caplog.text, "the message")
            assert "the spool cannot be read: [Errno 24] Too many open" in service.find_failures()[0]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        wait_until(lambda: service.read_counters().outputs["one"].queued == 0, "all flows")
        wait_until(lambda: not service.find_failures(), "the end of the failure")
    counters = service.read_counters()
    check_sums(counters)
    assert counters.outputs["one"].queue.reasons["spool_error"] > 0
    messages = [record.getMessage() for record in caplog.records if "the spool" in record.getMessage()]
    assert [message.partition(": [Errno")[0] for message in messages] == [
        "output one: the spool cannot be written",
        "output one: the spool works again",
        "output one: the spool cannot be read",
        "output one: the spool works again",
    ]


def test_a_spool_that_raises_any_error_affects_its_output_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A closed spool raises ValueError. The other outputs get all flows, and all sums match."""
    release = threading.Event()
    outputs: dict[str, Any] = {
        "first": ListOutput(),
        "one": ListOutput(lambda: assert_true(release.wait(30))),
        "last": ListOutput(),
    }
    settings = {"on_overflow": "spool", "spool": str(tmp_path), "queue_flows": 30}
    with running(outputs, {"one": settings}) as service:
        for number in range(1, 11):
            send([flows5(30)], address_of(service))
            stored = lambda number=number: outputs["last"].stored == 30 * number  # noqa: E731
            wait_until(stored, "a batch")
            if number == 5:
                spool = service.outputs[1]._spool
                assert spool
                spool.close()
        problem = "the spool cannot be written: the spool is closed; open it again"
        assert service.find_failures() == [f"output one: {problem}"]
        counters = service.read_counters()
        check_sums(counters)
        release.set()
        wait_until(lambda: "the spool cannot be read: the spool is closed" in caplog.text, "the message")
    counters = service.read_counters()
    check_sums(counters)
    assert counters.outputs["first"].stored == counters.outputs["last"].stored == 300
    assert counters.outputs["one"].queue.reasons == {"spool_error": 150}
    assert (counters.intake.failures, counters.intake.lost_flows) == (0, 0)


def test_spooled_flows_survive_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process writes the flows that an output could not write until the end."""
    monkeypatch.setattr(OutputRunner.__init__, "__defaults__", (0.2, None, None))

    def fail() -> None:
        raise OSError("the disk is full")

    settings = {"one": {"on_overflow": "spool", "spool": str(tmp_path), "queue_flows": 50}}
    with running({"one": ListOutput(fail)}, settings) as service:
        for _ in range(20):
            before = service.read_counters().intake.delivered
            send([flows5(30)], address_of(service))
            wait_until(lambda before=before: service.read_counters().intake.delivered > before, "a batch")
    first = service.read_counters()
    check_sums(first)
    kept = first.outputs["one"].spooled
    assert (kept, first.outputs["one"].lost.total()) == (600, 0)
    output = ListOutput()
    with running({"one": output}, settings) as service:
        wait_until(lambda: service.read_counters().outputs["one"].stored == kept, "the spooled flows")
        send([flows5(1)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == kept + 1, "a new flow")
    check_sums(service.read_counters())
    with running({"one": ListOutput()}, settings) as service:
        pass
    assert service.read_counters().outputs["one"].queue.recovered == 0


def test_spooled_flows_of_an_earlier_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that they lack are absent."""
    monkeypatch.setattr(OutputRunner.__init__, "__defaults__", (0.2, None, None))

    def fail() -> None:
        raise OSError("the disk is full")

    spool = {"on_overflow": "spool", "spool": str(tmp_path), "queue_flows": 1}
    with running({"one": ListOutput(fail)}, {"one": {**spool, "columns": ("bytes",)}}) as service:
        for _ in range(3):
            before = service.read_counters().intake.delivered
            send([flows5(30)], address_of(service))
            wait_until(lambda before=before: service.read_counters().intake.delivered > before, "a batch")
    kept = service.read_counters().outputs["one"].spooled
    assert kept >= 60
    output = ListOutput()
    columns = {"columns": ("bytes", "src_addr", "src_mac"), "where": "bytes = 100 AND dst_mac IS NULL"}
    with running({"one": output}, {"one": {**spool, **columns}}) as service:
        wait_until(lambda: service.read_counters().outputs["one"].stored == kept, "the spooled flows")
    check_sums(service.read_counters())
    rows = [row for batch in output.batches for row in batch.to_pylist()]
    assert {row["bytes"] for row in rows} == {100}
    assert {row["src_mac"] for row in rows} <= {None, 0}
