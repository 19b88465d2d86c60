"""Takeovers between two real collectors: nothing is lost, and the sums of both are exact."""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from flowbuf import DecodeOptions, Decoder, Schema, read_messages
from flowbuf.collect import takeover
from flowbuf.collect.config import CollectConfig
from flowbuf.collect.intake import Intake, IntakeOptions
from flowbuf.collect.listen import Address, open_listeners
from flowbuf.collect.takeover import TakeoverServer, take_over
from flowbuf.errors import ListenError, SpoolError
from tests.cli.test_cli_collect import Running, collecting, get, totals_of
from tests.collect.test_collector import LOCAL
from tests.collect.test_service import ListOutput, address_of, running
from tests.decode.test_row_kinds import counter_record
from tests.support.broker import Broker
from tests.support.cases import slow
from tests.support.datagrams import (
    counters_sample,
    data_set,
    flow_sample,
    ipfix,
    netflow5,
    netflow9,
    options_template9,
    options_template_set9,
    record5,
    sflow,
    template,
    template_set,
    template_set9,
    u8,
    u32,
)
from tests.support.live import closed_port, room_for_files, send, wait_until

COLUMNS = (
    "bytes,exporter_address,time_received,time_exported,sequence_number,observation_domain_id,sampling_rate"
)
NETFLOW9_RATE = netflow9(
    options_template_set9(options_template9(257, [(1, 4)], [(48, 1), (34, 4)]), padding=2),
    data_set(257, u32(0) + u8(1) + u32(100)),
    source_id=5,
)
NETFLOW9_TEMPLATE = netflow9(template_set9(template(256, (1, 4), (48, 1))), source_id=5)
IPFIX_TEMPLATE = ipfix(template_set(template(256, (1, 4))), domain=6)
EARLY = ipfix(data_set(256, u32(1)), domain=6)


@contextlib.contextmanager
def two_collectors(folder: Path, *options: str, listen: str = LOCAL, **more: Any) -> Iterator[Any]:
    """Yield the running collector, and a function that starts its successor. Kill both at the end."""
    (folder / "old").mkdir()
    (folder / "new").mkdir()
    with contextlib.ExitStack() as stack:
        old = Running(folder / "old", *options, *more.get("old", ()), listen=listen)
        stack.callback(old.process.kill)

        def succeed() -> Running:
            address, *others = re.sub(r",", " ", old.find(r"listening on (.*)")).split()
            listeners = [part for other in others for part in ("--listen", other)]
            arguments = [*options, *listeners, *more.get("new", ()), "--takeover"]
            new = Running(folder / "new", *arguments, listen=address)
            stack.callback(new.process.kill)
            assert old.process.wait(60) == 0, old.log.read_text() + new.log.read_text()
            return new

        yield old, succeed


def stop(collector: Running) -> dict[str, int]:
    """End a collector, and return its totals."""
    collector.process.terminate()
    assert collector.process.wait(60) == 0, collector.log.read_text()
    return totals_of(collector.log.read_text())


def flows_of(collector: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in collector.out.read_text().splitlines()]


def counters_at(metrics: str) -> Counter[str]:
    """Return the counters of a running collector, and the number of data sets that wait.

    They are empty while the address does not answer: a successor opens it in the background.
    """
    total: Counter[str] = Counter()
    with contextlib.suppress(urllib.error.URLError):
        status, text = get(f"http://{metrics}/exporters")
        assert status == 200
        for exporter in json.loads(text):
            total.update(exporter["counters"])
            total["waiting"] += exporter["waiting"]["sets"]
    return total


# Data sets that wait for their template ---------------------------------------------------------------------


def early_data(number: int) -> list[tuple[bytes, bytes, dict[str, Any]]]:
    """Return early data of an exporter, the template that it waits for, and the flow that both give."""
    flow = {"sequence_number": 70 + number, "time_exported": f"1970-01-01T00:16:4{number}.000Z"}
    v9 = netflow9(
        data_set(256, u32(100 + number) + u8(1)), source_id=5, seconds=1000 + number, sequence=70 + number
    )
    v10 = ipfix(data_set(256, u32(200 + number)), domain=6, export_time=1000 + number, sequence=70 + number)
    return [
        (
            v9,
            NETFLOW9_TEMPLATE,
            flow | {"bytes": 100 + number, "observation_domain_id": 5, "sampling_rate": 100},
        ),
        (v10, IPFIX_TEMPLATE, flow | {"bytes": 200 + number, "observation_domain_id": 6}),
    ]


@pytest.mark.parametrize("workers", [*slow(1), 3])
def test_early_data_is_decoded_by_the_successor(tmp_path: Path, workers: int) -> None:
    """Flows keep their exporter, their time of reception, and the numbers of their own datagram."""
    exporters = [*(f"127.0.3.{i}" for i in range(1, 7)), "::1"]
    old_metrics, new_metrics = (f"127.0.0.1:{closed_port()}" for _ in range(2))
    options = ("-o", "-", "--enable", COLUMNS, "--columns", COLUMNS, "--interval", "20ms")
    options += ("--workers", str(workers))
    more = {
        "old": ("--listen", "[::1]:0", "--metrics", old_metrics),
        "new": ("--metrics", new_metrics),
    }
    with two_collectors(tmp_path, *options, **more) as (old, succeed):
        ipv4, ipv6 = old.find(r"listening on (.*)").split(", ")
        early, templates, expected = [], [], []
        for number, exporter in enumerate(exporters):
            to = ipv6 if ":" in exporter else ipv4
            send([NETFLOW9_RATE], to, exporter)
            for data, definition, flow in early_data(number):
                early.append((data, to, exporter))
                templates.append((definition, to, exporter))
                expected.append(flow | {"exporter_address": exporter})
        sent = len(exporters) + sum(send([data], *where) for data, *where in early)
        wait_until(lambda: counters_at(old_metrics)["early_data"] == len(early), "the data")
        time_of_takeover = datetime.now(timezone.utc)
        new = succeed()
        wait_until(lambda: counters_at(new_metrics)["waiting"] == len(early), "the data sets")
        sent += sum(send([definition], *where) for definition, *where in templates)
        wait_until(lambda: len(flows_of(new)) == len(early), "the flows")
        counters = counters_at(new_metrics)
        after = stop(new)
    before = totals_of(old.log.read_text())
    assert (flows_of(old), before["flows"]) == ([], 0)
    assert before["received"] + after["received"] == sent
    assert before["early_data_handed_over"] == after["early_data_inherited"] == len(early)
    assert counters["early_data_inherited"] == len(early)
    assert (counters["early_data"], counters["template_missing"], counters["waiting"]) == (0, 0, 0)
    found = flows_of(new)
    for flow in found:
        assert datetime.fromisoformat(flow.pop("time_received").replace("Z", "+00:00")) <= time_of_takeover
    assert sorted(found, key=bytes_of) == sorted(expected, key=bytes_of)
    assert after["flows"] == after["stored"] == len(expected)


def bytes_of(flow: dict[str, Any]) -> int:
    return int(flow["bytes"])


def test_a_successor_that_fails_leaves_early_data_behind() -> None:
    """The running collector keeps its data sets until the successor has started."""
    with running({"one": ListOutput()}) as service:
        send([EARLY], address_of(service))
        wait_until(lambda: service.read_counters().intake.statuses["early_data"] == 1, "the data")
        handover = take_over([service.listeners[0].address])
        handover.request_state(early_data=True)
        (part,) = handover.read_early_data()
        for listener in handover.listeners:
            listener.close()
        handover._channel.close()
        send([IPFIX_TEMPLATE], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 1, "the flow")
    assert service.read_counters().intake.statuses == {"early_data": 1}
    other = Decoder()
    other.restore_exporters(part)
    assert other.counters == {"early_data_inherited": 1}


@pytest.mark.parametrize("version", [None, 2])
def test_early_data_ends_with_a_predecessor_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int | None
) -> None:
    """Everything else is handed over. None: the successor does not read early data."""
    with contextlib.ExitStack() as stack, running({"one": ListOutput()}) as service:
        address = service.listeners[0].address
        send([EARLY], str(address))
        wait_until(lambda: service.read_counters().intake.statuses["early_data"] == 1, "the data")
        if version:
            monkeypatch.setattr(takeover, "EARLY_DATA_VERSION", version)
            command = collecting(tmp_path, "-o", "null:", "--takeover", listen=str(address))
            new = stack.enter_context(command)
            new.find("(listening on)")
            assert "early_data" not in new.log.read_text()
        else:
            handover = take_over([address])
            state = handover.request_state()
            assert state.keys() == {"exporters", "drops"}
            assert list(handover.read_early_data()) == []
            handover.finish()
            for listener in handover.listeners:
                stack.callback(listener.close)
        wait_until(lambda: service.stopping, "the end of the predecessor")
    assert service.read_counters().intake.statuses == {"early_data": 1, "template_missing": 1}


def test_early_data_ends_if_the_successor_receives_no_datagrams(tmp_path: Path) -> None:
    """The worker for TCP could not decode it."""
    with running({"one": ListOutput()}, listen=(LOCAL, "tcp://127.0.0.1:0")) as service:
        udp, tcp = (str(listener.address) for listener in service.listeners)
        send([EARLY], udp)
        wait_until(lambda: service.read_counters().intake.statuses["early_data"] == 1, "the data")
        with collecting(tmp_path, "-o", "null:", "--takeover", listen=tcp) as new:
            wait_until(lambda: service.stopping, "the end of the predecessor")
    assert service.read_counters().intake.statuses == {"early_data": 1, "template_missing": 1}
    assert "early_data_inherited" not in totals_of(new.log.read_text())


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        (b"", "exporter 0 (192.0.2.1): early_data is damaged, or not of version 1"),
        (bytes(50), "exporter 0 (192.0.2.1): early_data is damaged, or not of version 1"),
    ],
)
def test_damaged_early_data_ends_the_successor(tmp_path: Path, form: bytes, complaint: str) -> None:
    """The running collector continues with its own data sets."""
    (listener,) = open_listeners([Address("127.0.0.1", 0)])
    ended: list[str] = []
    server = TakeoverServer(
        [listener],
        lambda: {"exporters": [], "drops": {}},
        lambda: [[{"address": "192.0.2.1", "early_data": form}]],
        lambda: ended.append("resumed"),
        lambda spools, early_data: ended.append("finished"),
    )
    with server:
        new = Running(tmp_path, "-o", "null:", "--takeover", listen=str(listener.address))
        assert new.process.wait(60) != 0
        wait_until(lambda: bool(ended), "the end of the takeover")
    listener.close()
    assert ended == ["resumed"]
    assert f"the running collector hands over invalid state: {complaint}" in new.log.read_text()


def test_only_one_successor_takes_over() -> None:
    """The second one waits for the first. Then it is refused, so that it does not share the sockets."""
    (listener,) = open_listeners([Address("127.0.0.1", 0)])
    ended: list[str] = []
    server = TakeoverServer(
        [listener],
        lambda: {"exporters": [], "drops": {}},
        lambda: [],
        lambda: ended.append("resumed"),
        lambda spools, early_data: ended.append("finished"),
    )
    with server, ThreadPoolExecutor(1) as pool:
        first = take_over([listener.address])
        second = pool.submit(take_over, [listener.address])
        first.request_state()
        first.finish()
        with pytest.raises(ListenError, match="hands over to another successor; try again"):
            second.result(60)
    for each in (listener, *first.listeners):
        each.close()
    assert ended == ["finished"]


def test_a_successor_is_answered_when_files_can_be_opened_again(caplog: pytest.LogCaptureFixture) -> None:
    """The collector has no descriptor left. Linux takes that of the first connection when the wait begins."""
    (listener,) = open_listeners([Address("127.0.0.1", 0)])
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as successor,
        TakeoverServer([listener], dict, list, lambda: None, lambda *_: None),
    ):
        with room_for_files(0):
            for each in (first, successor):
                each.connect(takeover._name(listener.address))
            wait_until(lambda: "Too many open files" in caplog.text, "the failure")
        first.close()  # if it was not answered, the successor waits for its end
        handover = takeover._receive_sockets(takeover._Channel(successor))
    assert [each.address for each in handover.listeners] == [listener.address]
    for opened in (listener, *handover.listeners):
        opened.close()
    assert "takeover: no successor can connect, trying again: [Errno 24]" in caplog.text


def test_a_socket_for_ipv6_does_not_replace_one_for_ipv4() -> None:
    """The sockets of [::] and 0.0.0.0 shared a port, so that the first one receives only IPv6."""
    (ipv4,) = open_listeners([Address("0.0.0.0", 0)])
    both = Address("::", ipv4.address.port)
    ipv4.close()
    inherited = open_listeners([both, ipv4.address])
    problem = f"{both} would receive only IPv6, because it shared its port with {ipv4.address}; keep"
    schemas = [Schema.load("flow")]
    try:
        with pytest.raises(ListenError, match=re.escape(problem)):
            Intake([both], schemas, DecodeOptions(), IntakeOptions(), list, list, inherited)
        Intake([ipv4.address], schemas, DecodeOptions(), IntakeOptions(), list, list, inherited)
    finally:
        for each in inherited:
            each.close()


def test_a_successor_learns_where_the_reason_is_if_it_is_refused() -> None:
    def refuse() -> None:
        raise SpoolError("an output still waits for its spool; try again later")

    (listener,) = open_listeners([Address("127.0.0.1", 0)])
    with listener, TakeoverServer([listener], refuse, list, lambda: None, lambda *_: None):
        handover = take_over([listener.address])
        with pytest.raises(ListenError, match="closed the connection; its log has the reason"):
            handover.request_state()
        handover._channel.close()
        for each in handover.listeners:
            each.close()


class Impatient(TakeoverServer):
    """A collector that has given up when its successor is ready."""

    def _answer(self, connection: socket.socket) -> None:
        channel = takeover._Channel(connection)
        self._offer(channel)
        channel.expect("ready", 60)
        connection.shutdown(socket.SHUT_RD)
        channel.send({"message": "state", "state": {"exporters": [], "drops": {}}, "early_data": False})


def test_a_successor_that_is_too_late_ends(tmp_path: Path) -> None:
    """It writes what it has received, and leaves the sockets and the state file alone."""
    (listener,) = open_listeners([Address("127.0.0.1", 0)])
    state = tmp_path / "state"
    with Impatient([listener], dict, list, lambda: None, lambda spools, early_data: None):
        send([NETFLOW9_TEMPLATE], str(listener.address))
        new = Running(
            tmp_path, "-o", "null:", "--takeover", "--state", str(state), listen=str(listener.address)
        )
        assert new.process.wait(60) == 2
    listener.close()
    log = new.log.read_text()
    assert "the running collector has stopped waiting for this process, and continues; try again" in log
    assert "Traceback" not in log
    assert totals_of(log.rpartition("\nError: ")[0])["received"] == 1
    assert not state.exists()


def test_a_reload_keeps_early_data() -> None:
    with running({"one": ListOutput()}) as service:
        send([EARLY], address_of(service))
        wait_until(lambda: service.read_counters().intake.statuses["early_data"] == 1, "the data")
        config = CollectConfig(listen=(LOCAL,), interval=0.02, outputs=service._config.outputs)
        service.reload(config, config.load_schemas())
        send([IPFIX_TEMPLATE], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 1, "the flow")
    assert service.read_counters().intake.statuses == {
        "early_data": 1,
        "early_data_handed_over": 1,
        "early_data_inherited": 1,
    }


def test_early_data_that_waits_at_the_end_is_counted() -> None:
    with running({"one": ListOutput()}) as service:
        send([EARLY], address_of(service))
        wait_until(lambda: service.read_counters().intake.statuses["early_data"] == 1, "the data")
    assert service.read_counters().intake.statuses == {"early_data": 1, "template_missing": 1}


# Kinds of rows and outputs ----------------------------------------------------------------------------------


class Sending:
    """Send datagrams in a thread, numbered from 0, until the end of the block.

    Args:
        address: Destination.
        make: Returns the datagram of a number.
    """

    def __init__(self, address: str, make: Callable[[int], bytes]) -> None:
        self.sent = 0
        self._address = address
        self._make = make
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Sending:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set():
            self.sent += send([self._make(self.sent + i) for i in range(10)], self._address)
            time.sleep(0.002)


def rows_in(log: str) -> dict[str, int]:
    """Return the number of rows of each kind that a collector has decoded, from its last line."""
    totals = log.splitlines()[-1].split(";")[0]
    return {kind: int(count) for kind, count in re.findall(r"(flows|counters)=(\d+)", totals)}


def stored_in(log: str) -> dict[str, int]:
    """Return the number of rows that each output has stored, from the last line of a collector."""
    found = re.findall(r"; \S*?(flows|counters)/?: stored=(\d+) pending=0 queued=0", log.splitlines()[-1])
    return {kind: int(count) for kind, count in found}


def test_takeover_with_several_kinds_of_rows(tmp_path: Path) -> None:
    """An exporter sends flow and counter samples during the takeover. Each row is stored once."""

    def make(number: int) -> bytes:
        return sflow(
            counters_sample(counter_record(1), sequence=number, source=(0, 7)),
            *(flow_sample(sequence=3 * number + i, rate=1 + number) for i in range(3)),
            counters_sample(counter_record(2), sequence=number, source=(0, 8)),
            sequence=number,
        )

    data = tmp_path / "data"
    options = ("--rows", "flows,counters", "-o", f"pb:{data}/{{rows}}/", "--interval", "20ms")
    with two_collectors(tmp_path, *options) as (old, succeed), Sending(old.address, make) as sending:
        old.find(r"(listening on)")
        wait_until(lambda: sending.sent > 100, "some datagrams")
        new = succeed()
        new.find(r"(listening on)")
        before = sending.sent
        wait_until(lambda: sending.sent > before + 100, "more datagrams")
        sending.__exit__()
        after = stop(new)
    logs = [each.log.read_text() for each in (old, new)]
    totals = [totals_of(logs[0]), after]
    received = sum(each["received"] for each in totals)
    assert received + sum(each["kernel_drops"] for each in totals) == sending.sent
    rows = [rows_in(log) for log in logs]
    assert min(min(each.values()) for each in rows) > 0
    assert [stored_in(log) for log in logs] == rows
    for kind, schema, number, per_datagram in (
        ("flows", "flow", "sampling_rate", 3),
        ("counters", "sflow_counters", "sequence_number", 2),
    ):
        assert sum(each[kind] for each in rows) == per_datagram * received
        found: Counter[int] = Counter()
        for path in (data / kind).rglob("*.pb"):
            for batch in read_messages(path, schema, columns=[number]):
                found.update(batch.to_arrow()[number].to_pylist())
        assert len(found) == received
        assert set(found.values()) == {per_datagram}


@pytest.mark.expensive
@pytest.mark.parametrize("away", [False, True])
def test_takeover_with_kafka_and_a_spool(own_broker: Broker, tmp_path: Path, away: bool) -> None:
    """An exporter sends during the takeover. Each flow is in Kafka at least once, also if the broker is away.

    Every flow has another number of bytes. An old collector without a broker leaves its flows to the spool.
    """
    own_broker.make_topic("flows", 1)

    def make(number: int) -> bytes:
        return netflow5(*(record5(octets=1 + 30 * number + i) for i in range(30)), sequence=30 * number)

    options = ("-o", f"kafka://{own_broker.servers}/flows", "--name", "archive", "--interval", "20ms")
    options += ("--on-overflow", "spool", "--spool", str(tmp_path / "spool"), "--queue-flows", "1000")
    with two_collectors(tmp_path, *options) as (old, succeed), Sending(old.address, make) as sending:
        wait_until(lambda: len(numbers_in(own_broker)) > 0, "some flows in Kafka")
        if away:
            own_broker.kill()
            before = sending.sent
            wait_until(lambda: sending.sent > before + 500, "datagrams without a broker")
        new = succeed()
        new.find(r"output \S+ (continuing with its spool)")
        before = sending.sent
        wait_until(lambda: sending.sent > before + 500, "more datagrams")
        sending.__exit__()
        if away:
            own_broker.start()
        after = stop(new)
    left = totals_of(old.log.read_text())
    for totals in (left, after):
        assert (totals["dropped"], totals["pending"], totals["queued"]) == (0, 0, 0)
    received = left["received"] + after["received"]
    assert received + left["kernel_drops"] + after["kernel_drops"] == sending.sent
    assert left["flows"] + after["flows"] == 30 * received
    assert left["stored"] + left["spooled"] == left["flows"]
    assert after["stored"] == after["flows"] + left["spooled"]
    assert after["spooled"] == 0
    assert left["stored"] > 0
    assert left["spooled"] > 0 or not away
    numbers = numbers_in(own_broker)
    assert len(numbers) == 30 * received
    assert numbers.total() >= left["stored"] + after["stored"]


def numbers_in(broker: Broker) -> Counter[int]:
    """Return how often each number of bytes is in the topic."""
    found: Counter[int] = Counter()
    for value in broker.values("flows"):
        for batch in read_messages(io.BytesIO(value), "flow", columns=["bytes"]):
            found.update(batch.to_arrow()["bytes"].to_pylist())
    return found
