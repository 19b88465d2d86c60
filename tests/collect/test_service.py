"""The collector with several outputs: every flow is accounted for, also when an output fails."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf.collect.config import CollectConfig, OutputConfig
from flowbuf.collect.http import HttpServer
from flowbuf.collect.intake import IntakeCounters
from flowbuf.collect.listen import Address, open_listeners
from flowbuf.collect.output_counters import OutputCounters
from flowbuf.collect.outputs.null import NullOutput
from flowbuf.collect.outputs.output import Output
from flowbuf.collect.runner import OutputRunner
from flowbuf.collect.service import Service
from flowbuf.collect.systemd import notify
from flowbuf.collect.takeover import TakeoverServer
from flowbuf.collect.totals import ServiceCounters, format_totals
from flowbuf.collect.worker import RowCounters, Worker
from flowbuf.decoder import Decoder
from flowbuf.errors import ConfigError, KafkaError
from flowbuf.selection import FlowSelection
from tests.collect.test_collector import DATA_SET, LEARNED, LOCAL, flows5
from tests.support.datagrams import netflow5, record5
from tests.support.live import room_for_files, send, wait_until

MIXED = netflow5(*[record5(octets=100 + i, dst_port=53 if i % 3 else 80) for i in range(30)])


class ListOutput:
    """Keep record batches. `fail` is called before each write, and may raise."""

    def __init__(self, fail: Callable[[], None] = lambda: None) -> None:
        self.batches: list[Any] = []
        self.stored = 0
        self.pending = 0
        self.lost: Mapping[str, int] = {}
        self.closed = False
        self._fail = fail

    def write(self, batch: Any, number: int | None = None) -> None:
        self._fail()
        self.batches.append(batch)
        self.stored += batch.num_rows

    def tick(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@contextlib.contextmanager
def running(
    outputs: dict[str, Output], settings: dict[str, dict[str, Any]] | None = None, **config: Any
) -> Iterator[Service]:
    """Run a service with these outputs inside the block, and stop it at the end."""
    configs = tuple(OutputConfig(to=name, **(settings or {}).get(name, {})) for name in outputs)
    chosen = CollectConfig(**{"listen": (LOCAL,), "interval": 0.02, **config}, outputs=configs)
    service = Service(chosen, chosen.load_schemas(), lambda output, selection, spool: outputs[output.to])
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        wait_until(lambda: not service.find_dead_workers(), "the workers, which start after the outputs")
        yield service
    finally:
        service.stop()
        thread.join()


def address_of(service: Service) -> str:
    return str(service.listeners[0].address)


def send_batches(service: Service, *sizes: int) -> None:
    """Send batches of these numbers of flows to the output "one", which takes each before the next one."""
    for size in sizes:
        before = service.read_counters().outputs["one"].queue.taken
        send([flows5(size)], address_of(service))
        taken = lambda before=before: service.read_counters().outputs["one"].queue.taken > before  # noqa: E731
        wait_until(taken, "a batch")


def check_sums(counters: ServiceCounters) -> None:
    """Each flow that was delivered is in exactly one place of each output."""
    assert counters.intake.flows == counters.intake.delivered + counters.intake.waiting
    for name, output in counters.outputs.items():
        assert output.queue.offered == counters.intake.rows[output.rows].delivered, name
        places = output.filtered + output.stored + output.pending + output.queued + output.spooled
        assert (
            output.queue.offered + output.queue.recovered
            == places + output.queue.dropped + output.lost.total()
        ), name
        assert output.queued >= 0, name


def test_outputs_have_their_own_conditions_and_columns() -> None:
    outputs: dict[str, Any] = {"all": ListOutput(), "dns": ListOutput()}
    settings = {"dns": {"where": "dst_port = 53", "columns": ("bytes", "src_mac"), "ip": "text"}}
    with running(outputs, settings) as service:
        send([MIXED, MIXED], address_of(service))
        wait_until(lambda: service.read_counters().outputs["dns"].queue.taken == 60, "the flows")
    counters = service.read_counters()
    check_sums(counters)
    assert counters.outputs["all"].stored == 60
    assert (counters.outputs["dns"].stored, counters.outputs["dns"].filtered) == (40, 20)
    rows = [row for batch in outputs["dns"].batches for row in batch.to_pylist()]
    assert {tuple(row) for row in rows} == {("bytes", "src_mac")}
    assert sum(row["bytes"] for row in rows) == 2 * sum(100 + i for i in range(30) if i % 3)
    assert all(output.closed for output in outputs.values())
    assert "src_mac" not in outputs["all"].batches[0].schema.names


def test_threads_that_wait_for_a_successor_end_before_their_sockets_are_closed() -> None:
    listeners = open_listeners([Address.parse(LOCAL)] * 16)
    try:
        for _ in range(50):  # most threads end in time by chance
            with TakeoverServer(listeners, dict, list, lambda: None, lambda *_: None):
                threads = [each for each in threading.enumerate() if each.name == "flowbuf-takeover"]
                assert len(threads) == 16
            assert not any(thread.is_alive() for thread in threads)
    finally:
        for listener in listeners:
            listener.close()


class LateServer(HttpServer):
    """A server whose thread begins when the block has ended already."""

    def _run(self) -> None:
        self._closed.wait()
        time.sleep(0.05)
        super()._run()


def test_a_server_of_metrics_ends_before_its_first_request() -> None:
    def serve() -> None:
        with LateServer(Address.parse(LOCAL), service):
            pass

    with running({"null:": NullOutput()}) as service:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        wait_until(lambda: not serving.is_alive(), "the end of the server")


def test_an_unavailable_destination_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """One output fails for a while. Its flows wait, and the other output gets all flows at once."""
    broken = threading.Event()
    broken.set()

    def fail() -> None:
        if broken.is_set():
            raise KafkaError("the broker does not answer; check the address")

    caplog.set_level(logging.WARNING, "flowbuf.collect")
    slow, steady = ListOutput(fail), ListOutput()
    with running({"slow": slow, "steady": steady}) as service:
        for _ in range(3):
            send([flows5(30)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["steady"].stored == 90, "the steady output")
        wait_until(lambda: bool(service.find_failures()), "the failure")
        counters = service.read_counters()
        check_sums(counters)
        assert (counters.outputs["slow"].stored, counters.outputs["slow"].queued) == (0, 90)
        assert service.find_failures() == ["output slow: the broker does not answer; check the address"]
        broken.clear()
        wait_until(lambda: service.read_counters().outputs["slow"].stored == 90, "the slow output")
    assert not service.find_failures()
    check_sums(service.read_counters())
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "output slow: the broker does not answer; check the address",
        "output slow works again",
    ]


def test_the_log_says_what_the_end_waits_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise KafkaError("topic 'flows' does not exist")

    monkeypatch.setattr("flowbuf.collect.service.OutputRunner", functools.partial(OutputRunner, patience=2.0))
    caplog.set_level(logging.WARNING, "flowbuf.collect")
    with running({"slow": ListOutput(fail)}) as service:
        send([flows5(30)], address_of(service))
        wait_until(lambda: bool(service.find_failures()), "the failure")
    counters = service.read_counters()
    check_sums(counters)
    assert counters.outputs["slow"].lost == {"shutdown": 30}
    assert [record.getMessage() for record in caplog.records] == [
        "output slow: topic 'flows' does not exist",
        "output slow: trying for 2 s more to write the flows that wait: topic 'flows' does not exist",
    ]


def test_a_full_queue_drops_flows_of_its_output_only() -> None:
    release = threading.Event()
    outputs: dict[str, Any] = {
        "slow": ListOutput(lambda: assert_true(release.wait(30))),
        "fast": ListOutput(),
    }
    with running(outputs, {"slow": {"queue_flows": 100}}) as service:
        for _ in range(20):
            before = service.read_counters().intake.delivered
            send([flows5(30)], address_of(service))
            wait_until(lambda before=before: service.read_counters().intake.delivered > before, "a batch")
        wait_until(lambda: service.read_counters().outputs["fast"].stored == 600, "the fast output")
        slow = service.read_counters().outputs["slow"]
        assert slow.queue.dropped >= 400
        check_sums(service.read_counters())
        release.set()
    counters = service.read_counters()
    check_sums(counters)
    assert counters.outputs["fast"].stored == 600
    assert counters.outputs["slow"].stored + counters.outputs["slow"].queue.dropped == 600
    assert counters.outputs["slow"].stored == sum(batch.num_rows for batch in outputs["slow"].batches)


def assert_true(value: bool) -> None:
    assert value


def test_a_blocked_worker_still_has_counters() -> None:
    release = threading.Event()
    output = ListOutput(lambda: assert_true(release.wait(30)))
    with running({"slow": output}, {"slow": {"queue_flows": 1, "on_overflow": "block"}}) as service:
        while service.read_counters().outputs["slow"].queue.queued == 0:
            send([flows5(30)], address_of(service))
        sent = send([flows5(30)] * 10, address_of(service))
        assert service.read_counters().intake.kernel_drops == 0
        release.set()
    counters = service.read_counters()
    check_sums(counters)
    assert counters.outputs["slow"].stored == counters.intake.received * 30 >= sent * 30


def test_a_reload_while_a_worker_waits_for_a_full_queue_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old output takes the flows that the worker still delivers to it."""
    monkeypatch.setattr("flowbuf.collect.intake._wait.__defaults__", (0.1,))
    release = threading.Event()
    outputs = {"one": ListOutput(lambda: assert_true(release.wait(30)))}
    settings: dict[str, Any] = {"queue_flows": 1, "on_overflow": "block"}
    with running({"one": outputs["one"]}, {"one": settings}) as service:
        (worker,) = service.intake._workers
        while not wait([worker.call(Decoder.list_exporters)], 0.2).not_done:
            send([flows5(30)], address_of(service))
        outputs["one"] = ListOutput()
        service._new_output = lambda output, selection, spool: outputs[output.to]
        changed = OutputConfig(to="one", columns=("bytes",), **settings)
        service.reload(replace(service._config, outputs=(changed,)), [flowbuf.Schema.load("flow")])
        release.set()
        wait_until(lambda: not service._retiring, "the end of the first output")
    counters = service.read_counters()
    check_sums(counters)
    assert counters.outputs["one"].stored == 30 * counters.intake.received


def test_blocked_workers_do_not_delay_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the values of before, also those of exporters."""
    release = threading.Event()
    output = ListOutput(lambda: assert_true(release.wait(60)))
    exporters = [f"127.0.2.{number}" for number in range(1, 13)]

    def is_blocked(worker: Worker) -> bool:
        return bool(wait([worker.call(Decoder.list_exporters)], 0.2).not_done)

    def read_metrics() -> str:
        with urllib.request.urlopen(f"http://{place[0]}:{place[1]}/metrics", timeout=8) as answer:
            return str(answer.read().decode())

    settings = {"slow": {"queue_flows": 1, "on_overflow": "block"}}
    with (
        running({"slow": output}, settings, workers=3) as service,
        HttpServer(Address.parse(LOCAL), service) as server,
    ):
        assert server._server
        place = server._server.server_address[:2]
        try:
            for exporter in exporters:
                send([LEARNED], address_of(service), exporter)
            wait_until(lambda: service.read_counters().intake.received == len(exporters), "the templates")
            wait_until(lambda: all(f'"{each}"' in read_metrics() for each in exporters), "the exporters")
            before = read_metrics()
            while not all(map(is_blocked, service.intake._workers)):
                for exporter in exporters:
                    send([flows5(1)], address_of(service), exporter)
            monkeypatch.setattr("flowbuf.collect.worker.COUNTERS_SECONDS", 0.1)
            monkeypatch.setattr("flowbuf.collect.metrics.EXPORTER_SECONDS", 0.1)
            blocked = read_metrics()
        finally:
            release.set()
    labels = {line.partition("}")[0] for line in before.splitlines() if "exporter=" in line}
    assert len(labels) >= len(exporters)
    assert labels == {line.partition("}")[0] for line in blocked.splitlines() if "exporter=" in line}
    check_sums(service.read_counters())


def test_an_output_works_again_if_no_later_flow_matches() -> None:
    output = ListOutput(lambda: (_ for _ in ()).throw(ValueError("bad value")))
    with running({"one": output}, {"one": {"where": "dst_port = 53"}}) as service:
        send([MIXED], address_of(service))
        wait_until(lambda: bool(service.find_failures()), "the failure")
        send([netflow5(record5(dst_port=80))], address_of(service))
        wait_until(lambda: not service.find_failures(), "the end of the failure")
    assert service.read_counters().outputs["one"].lost == {"bad_batch": 20}


def test_an_output_whose_tick_fails_still_takes_flows(caplog: pytest.LogCaptureFixture) -> None:
    """It fails until `tick` works, and the log has the failure once."""
    caplog.set_level(logging.WARNING, "flowbuf.collect")
    failing, output = threading.Event(), ListOutput()
    failing.set()
    output.tick = lambda: assert_true(not failing.is_set())  # type: ignore[method-assign]
    with running({"one": output}) as service:
        for _ in range(3):
            failures = service.read_counters().outputs["one"].failures
            wait_until(lambda n=failures: service.read_counters().outputs["one"].failures > n, "a tick")
            send_batches(service, 30)
            assert len(service.find_failures()) == 1
        assert service.read_counters().outputs["one"].stored == 90
        failing.clear()
        wait_until(lambda: not service.find_failures(), "the end of the failure")
    first, second = (record.getMessage() for record in caplog.records)
    assert (first.split(":")[0], second) == ("output one", "output one works again")


def test_blocked_workers_do_not_delay_the_watchdog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saving the state waits for the workers, which wait for a full queue."""
    release = threading.Event()
    output = ListOutput(lambda: assert_true(release.wait(60)))
    settings = {"slow": {"queue_flows": 1, "on_overflow": "block"}}
    monkeypatch.setattr("flowbuf.collect.service.SAVE_SECONDS", 0)
    monkeypatch.setattr("flowbuf.collect.service.SILENCE_SECONDS", 3600)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "1000")
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        listening = threading.Thread(target=lambda: heard.extend(iter(lambda: manager.recv(1000), b"end")))
        listening.start()
        with running({"slow": output}, settings, workers=2, state=str(tmp_path / "state")) as service:
            while service.read_counters().outputs["slow"].queue.queued == 0:
                send([flows5(30)], address_of(service))
            for host in range(1, 20):
                send([flows5(30)], address_of(service), f"127.0.0.{host}")
            before = len(heard)
            try:
                wait_until(lambda: len(heard) >= before + 5, "five answers")
            finally:
                release.set()
        notify("end")
        listening.join()
    assert (tmp_path / "state").exists()


def test_a_state_that_is_not_saved_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wait(*arguments: object) -> None:
        raise FutureTimeout("a worker waits for a full queue")

    with running({"a": ListOutput()}, state=str(tmp_path / "state")):
        monkeypatch.setattr("flowbuf.collect.service.save_state", wait)
    assert "the state was not saved: a worker waits for a full queue" in caplog.text


def test_a_lack_of_memory_for_the_state_does_not_end_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read(decoder: Decoder) -> list[Any]:
        raise MemoryError

    monkeypatch.setattr("flowbuf.collect.service.SAVE_SECONDS", 0)
    monkeypatch.setattr(Decoder, "read_exporters", read)
    with running({"one": ListOutput()}, state=str(tmp_path / "state")) as service:
        wait_until(lambda: "the state was not saved: MemoryError" in caplog.text, "an attempt to save")
        send([flows5(3)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 3, "the flows")


def test_a_batch_that_can_never_be_written_is_lost_alone() -> None:
    failures: list[BaseException] = [ValueError("bad value"), SystemExit(), TypeError("bad type")]

    def fail() -> None:
        if failures:
            raise failures.pop()

    output = ListOutput(fail)
    with running({"one": output}) as service:
        send_batches(service, 1, 2, 3, 4)
    counters = service.read_counters()
    check_sums(counters)
    assert counters.outputs["one"].lost == {"bad_batch": 6}
    assert (counters.outputs["one"].stored, counters.outputs["one"].failures) == (4, 3)


def test_state_survives_a_restart(tmp_path: Any) -> None:
    """With several workers, each exporter is restored to the worker that receives its datagrams."""
    state, exporters = str(tmp_path / "exporters.state"), [f"127.0.2.{i}" for i in range(1, 13)]
    with running({"a": ListOutput()}, workers=3, state=state) as service:
        for exporter in exporters:
            send([LEARNED], address_of(service), exporter)
        wait_until(lambda: service.read_counters().intake.received == len(exporters), "the templates")
    with running({"a": ListOutput()}, workers=3, state=state) as service:
        for exporter in exporters:
            send([DATA_SET], address_of(service), exporter)
        wait_until(lambda: service.read_counters().intake.received == len(exporters), "the data")
    assert service.read_counters().intake.flows == len(exporters)
    assert service.read_counters().intake.statuses == {}


def test_names_of_outputs_are_unique() -> None:
    config = CollectConfig(listen=(LOCAL,), outputs=(OutputConfig(to="null:"), OutputConfig(to="null:")))
    with pytest.raises(ConfigError, match=r"output 'null:' exists twice; give each output another name"):
        Service(config, config.load_schemas(), lambda output, selection, spool: ListOutput())


def test_a_refused_configuration_leaves_no_file_open() -> None:
    """The sockets exist already when the copies are refused."""
    config = CollectConfig(
        listen=("tcp://127.0.0.1:0",), save_undecoded="/dev/null/x", outputs=(OutputConfig(to="null:"),)
    )
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        Service(config, config.load_schemas(), lambda output, selection, spool: ListOutput())
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_totals_are_one_line() -> None:
    counters = ServiceCounters(
        IntakeCounters(received=3, rows={"flows": RowCounters(5)}), {"x": OutputCounters()}
    )
    assert format_totals(counters) == (
        "received=3 kernel_drops=0 flows=5; x: stored=0 pending=0 queued=0 spooled=0 filtered=0 dropped=0"
    )


def test_selection_errors_are_counted() -> None:
    """A condition that fails for a value loses its batch, with a reason."""
    output = ListOutput()
    where = "CASE WHEN bytes > 100 THEN error('too large') ELSE true END"
    with running({"one": output}, {"one": {"where": where}}) as service:
        send([flows5(2)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].queue.taken == 2, "the good batch")
        send([MIXED], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].queue.taken == 32, "the bad batch")
    counters = service.read_counters()
    check_sums(counters)
    assert (counters.outputs["one"].stored, counters.outputs["one"].lost) == (2, {"selection_error": 30})


def test_an_enrichment_that_exits_loses_its_batch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "exits.py").write_text("def once(batch):\n    return batch if len(batch) != 2 else exit()\n")
    monkeypatch.syspath_prepend(tmp_path)
    output = ListOutput()
    with running({"one": output}, {"one": {"enrich": ("exits:once",)}}) as service:
        send_batches(service, 1, 2, 4)
    counters = service.read_counters()
    check_sums(counters)
    assert (counters.outputs["one"].stored, counters.outputs["one"].lost) == (5, {"selection_error": 2})
    assert "SystemExit" in caplog.text


def test_an_enrichment_that_exits_when_it_is_loaded_does_not_end_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "leaves.py").write_text("raise SystemExit('no license')\n")
    monkeypatch.syspath_prepend(tmp_path)
    output = ListOutput()
    with running({"one": output}) as service:
        changed = replace(service._config, outputs=(OutputConfig(to="one", enrich=("leaves:once",)),))
        service._read_config = lambda: (changed, changed.load_schemas())
        service.request_reload()
        wait_until(lambda: "the old one stays" in caplog.text, "the reload")
        send([flows5(3)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 3, "the flows")
    assert "the old one stays: SystemExit: no license" in caplog.text


class BrokenOutput(ListOutput):
    """Raise exceptions where none is expected, when the third batch was written."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        super().__init__()

    @property
    def pending(self) -> int:
        if len(self.batches) > 2 and self.failures:
            self.failures -= 1
            raise AttributeError("a mistake in the program")
        return 0

    @pending.setter
    def pending(self, flows: int) -> None:
        pass


def test_an_output_that_cannot_continue_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Later flows of the output are lost, or stay in its spool. The other output works."""
    outputs: dict[str, Any] = {"lost": BrokenOutput(1), "kept": BrokenOutput(1), "good": ListOutput()}
    spool = {"on_overflow": "spool", "spool": str(tmp_path), "queue_flows": 10}
    with running(outputs, {"lost": {"on_overflow": "block"}, "kept": spool}) as service:
        for count in range(1, 9):
            before = service.read_counters().outputs["good"].stored
            send([flows5(count)], address_of(service))
            stored = lambda before=before: service.read_counters().outputs["good"].stored > before  # noqa: E731
            wait_until(stored, "a batch")
        wait_until(lambda: len(service.find_failures()) == 2, "the failures")
        check_sums(service.read_counters())
    counters = service.read_counters()
    check_sums(counters)
    problem = "it failed and does not continue: a mistake in the program"
    assert service.find_failures() == [f"output lost: {problem}", f"output kept: {problem}"]
    assert caplog.text.count(problem) == 2
    lost, kept = counters.outputs["lost"], counters.outputs["kept"]
    assert (lost.stored, lost.queue.dropped + lost.lost.total()) == (6, 30)
    assert (kept.stored, kept.spooled, kept.lost.total()) == (6, 30, 0)
    assert all(output.closed for output in outputs.values())
    output = ListOutput()
    with running({"kept": output}, {"kept": spool}) as service:
        wait_until(lambda: output.stored == 30, "the flows of the spool")


def test_a_selection_needs_no_condition() -> None:
    schema = flowbuf.Schema.load("flow")
    assert FlowSelection(schema).decoded == schema


def test_a_failed_reload_releases_its_new_outputs(tmp_path: Path) -> None:
    spooled = OutputConfig(to="new", on_overflow="spool", spool=str(tmp_path))
    outputs: dict[str, Output] = {"old": ListOutput(), "new": ListOutput()}
    with running({"old": outputs["old"]}) as service:
        service._new_output = lambda output, selection, spool: outputs[output.to]
        schema, old = flowbuf.Schema.load("flow"), OutputConfig(to="old")
        for bad in (OutputConfig(to="new"), OutputConfig(to="new", name="n", columns=("no_such_column",))):
            config = CollectConfig(listen=(LOCAL,), interval=0.02, outputs=(old, spooled, bad))
            with pytest.raises(flowbuf.FlowbufError):
                service.reload(config, [schema])
        service.reload(CollectConfig(listen=(LOCAL,), outputs=(old, spooled)), [schema])
        send([flows5(2)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["new"].stored == 2, "the flows")
    check = service.read_counters()
    assert (check.outputs["old"].stored, check.outputs["new"].stored) == (2, 2)


def test_a_reload_needs_no_descriptor() -> None:
    """Many sessions may have taken all descriptors."""
    outputs = {"one": ListOutput()}
    with running({"one": outputs["one"]}) as service:
        to = address_of(service)
        send([flows5(5)], to)
        wait_until(lambda: service.read_counters().outputs["one"].stored == 5, "the first flows")
        outputs["one"] = ListOutput()
        service._new_output = lambda output, selection, spool: outputs[output.to]
        changed = replace(service._config, outputs=(OutputConfig(to="one", queue_flows=9),))
        schema = flowbuf.Schema.load("flow")
        with room_for_files(3):
            service.reload(changed, [schema])
        send([flows5(7)], to)
        wait_until(lambda: outputs["one"].stored == 7, "the flows after the reload")
    counters = service.read_counters()
    check_sums(counters)
    assert (counters.intake.received, counters.intake.decoded, counters.intake.flows) == (2, 2, 12)
    assert counters.outputs["one"].stored == 12
