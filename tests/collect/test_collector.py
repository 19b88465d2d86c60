"""The collector as a Python object, over real sockets of the loopback interface."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf._core import Capture
from flowbuf.collect.listen import Address, open_listeners
from flowbuf.collect.queue import QueueCounters
from flowbuf.collect.worker import Worker
from flowbuf.errors import ListenError
from tests.support.datagrams import data_set, ipfix, netflow5, record5, template, template_set
from tests.support.live import room_for_files, send, wait_until

DATA = Path(__file__).parents[1] / "data"
LOCAL = "127.0.0.1:0"
LEARNED = ipfix(template_set(template(256, (8, 4), (12, 4))))
DATA_SET = ipfix(data_set(256, bytes([10, 0, 0, 1, 10, 0, 0, 2])))


def flows5(count: int) -> bytes:
    """Return a NetFlow v5 datagram with so many flows."""
    return netflow5(*[record5(src="10.0.0.1", octets=100)] * count)


def payloads_of(name: str) -> list[bytes]:
    """Return the UDP payloads of a capture."""
    _, _, batch = Capture().scan((DATA / name).read_bytes(), True, 1 << 16)
    return [batch[i][0] for i in range(len(batch))]


def rows_of(batches: list[flowbuf.FlowBatch]) -> list[dict[str, Any]]:
    """Return the flows as dicts, without the time of reception."""
    rows = [row for batch in batches for row in batch.text().to_arrow().to_pylist()]
    for row in rows:
        row.pop("time_received")
    return rows


@pytest.mark.parametrize("name", ["generated-sflow.pcap", "generated-netflow9.pcap", "generated-ipfix.pcap"])
def test_flows_are_those_of_a_decoder(name: str) -> None:
    payloads = payloads_of(name)
    expected = flowbuf.Decoder("flow").columns_many(payloads, "127.0.0.1")
    with flowbuf.Collector([LOCAL], interval=0.05) as collector:
        send(payloads, collector.addresses[0])
        wait_until(lambda: collector.counters.received == len(payloads), "all datagrams")
    batches = list(collector)
    assert rows_of(batches) == rows_of([expected])
    assert collector.counters.flows == collector.counters.delivered == len(expected)
    assert collector.counters.bytes == sum(map(len, payloads))
    assert collector.counters.kernel_drops == 0
    assert collector.queue == QueueCounters(offered=len(expected), taken=len(expected))


def test_the_time_of_reception_is_that_of_the_kernel() -> None:
    before = time.time_ns()
    with flowbuf.Collector([LOCAL], interval=0.05) as collector:
        send([flows5(1)], collector.addresses[0])
        after = time.time_ns()
        wait_until(lambda: collector.counters.received == 1, "the datagram")
    (received,) = next(iter(collector)).to_arrow()["time_received"].cast("int64").to_pylist()
    assert before // 10**6 <= received <= after // 10**6  # in milliseconds


def test_ipv4_and_ipv6_and_mapped_sources() -> None:
    listen = [LOCAL, "[::1]:0", "[::]:0"]
    with flowbuf.Collector(listen, interval=0.05) as collector:
        ipv4, ipv6, both = collector.addresses
        send([flows5(1)], ipv4)
        send([flows5(1)], ipv6)
        send([flows5(1)], both.replace("[::]", "127.0.0.1"))
        send([flows5(1)], both.replace("[::]", "[::1]"))
        wait_until(lambda: collector.counters.received == 4, "all datagrams")
    sources = sorted(row["exporter_address"] for row in rows_of(list(collector)))
    assert sources == ["127.0.0.1", "127.0.0.1", "::1", "::1"]


def test_ipv4_and_ipv6_share_a_port() -> None:
    (first,) = open_listeners([Address("127.0.0.1", 0)])
    port = first.address.port
    first.close()
    with flowbuf.Collector([f"0.0.0.0:{port}", f"[::]:{port}"], interval=0.05) as collector:
        send([flows5(1)], f"127.0.0.1:{port}")
        send([flows5(1)], f"[::1]:{port}")
        wait_until(lambda: collector.counters.received == 2, "both datagrams")
        assert [each.listeners for each in collector.counters.workers] == [
            [{"datagrams": 1, "bytes": 72}, {"datagrams": 1, "bytes": 72}]
        ]


def test_each_exporter_has_one_worker() -> None:
    """A template that reached another worker would leave its data without a template."""
    exporters = [f"127.0.1.{i}" for i in range(1, 41)]
    with flowbuf.Collector([LOCAL, "127.0.0.1:0"], workers=2, interval=0.05) as collector:
        first, second = collector.addresses
        for exporter in exporters:
            send([LEARNED], first, exporter)
            send([DATA_SET, DATA_SET], first, exporter)
            send([DATA_SET], second, exporter)
        wait_until(lambda: collector.counters.received == 4 * len(exporters), "all datagrams")
    counters = collector.counters
    assert counters.flows == 3 * len(exporters)
    shares = [sum(each["datagrams"] for each in worker.listeners) for worker in counters.workers]
    assert min(shares) >= len(exporters) // 2  # of 4 * 40 datagrams


def test_sent_datagrams_are_received_or_dropped_by_the_kernel() -> None:
    """Drops after the last received datagram count too."""
    with flowbuf.Collector(
        [LOCAL], receive_buffer=4096, interval=0.05, queue_flows=1, block=True
    ) as collector:
        sent = 0
        while not collector.counters.kernel_drops:  # the queue is full and blocks the worker
            sent += send([flows5(1)] * 100, collector.addresses[0])
        collector.stop()
    counters = collector.counters
    assert counters.kernel_drops
    assert counters.received + counters.kernel_drops == sent
    assert counters.flows == counters.received
    queue = collector.queue
    assert queue.offered == counters.delivered == counters.flows
    assert queue.offered == queue.dropped + queue.queued + queue.taken


def test_a_full_queue_drops_and_counts_flows() -> None:
    with flowbuf.Collector([LOCAL], interval=0.02, queue_flows=10) as collector:
        for _ in range(5):
            before = collector.counters.delivered
            send([flows5(8)], collector.addresses[0])
            wait_until(lambda before=before: collector.counters.delivered == before + 8, "a batch")
    reasons = {"queue_full": 32}
    assert collector.queue == QueueCounters(offered=40, dropped=32, queued=8, reasons=reasons)
    assert [len(batch) for batch in collector] == [8]


def test_a_stopped_collector_decodes_the_backlog() -> None:
    """The datagrams that the sockets hold are not lost when the collector stops."""
    payload = flows5(30)
    with flowbuf.Collector([LOCAL], interval=60, queue_flows=1 << 22) as collector:
        held = threading.Event()
        worker = collector._intake._workers[0]  # type: ignore[union-attr]
        paused = worker.call(lambda decoder: held.wait(30))
        wait_until(paused.running, "the pause of the worker")
        sent = send([payload] * 5000, collector.addresses[0])
        held.set()
    counters = collector.counters
    assert counters.received + (counters.kernel_drops or 0) == sent == 5000
    assert counters.kernel_drops == 0 or collector._intake.listeners[0].buffer_bytes < 32 << 20  # type: ignore[union-attr]
    assert sum(map(len, collector)) == counters.received * 30


def test_other_payloads_are_counted() -> None:
    with flowbuf.Collector([LOCAL], interval=0.02, strict=True) as collector:
        send([b"", b"hello", b"\0\x0a", flows5(1)], collector.addresses[0])
        wait_until(lambda: collector.counters.received == 4, "all datagrams")
    assert collector.counters.statuses == {"other_packet": 2, "truncated_header": 1}
    assert collector.counters.flows == 1


def test_a_failing_worker_starts_again_with_its_templates() -> None:
    """Flows of the failed batch are counted as lost. Later data needs no new template.

    The restart needs no descriptor, because many sessions may have taken all of them.
    """
    batches: list[flowbuf.FlowBatch] = []
    failures: list[Exception] = []

    def deliver(batch: flowbuf.FlowBatch) -> None:
        if not failures and batches:
            raise MemoryError("no memory for this batch")
        batches.append(batch)

    (listener,) = open_listeners([Address("127.0.0.1", 0)])
    schema = flowbuf.Schema.load("flow")
    worker = Worker(0, [listener], lambda: flowbuf.Decoder(schema), deliver, failures.append, 0.02)
    worker.start()
    try:
        to = str(listener.address)
        send([LEARNED, DATA_SET], to)
        wait_until(lambda: len(batches) == 1, "the first batch")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(listener.sockets[0].getsockname())
            with room_for_files(3):
                sender.send(DATA_SET)
                wait_until(lambda: bool(failures), "the failure")
                worker.call(lambda decoder: None).result(30)
        send([DATA_SET, DATA_SET], to)
        wait_until(lambda: worker.read_counters().delivered == 3, "the flows after the failure")
    finally:
        worker.stop()
        worker.join()
        listener.close()
    counters = worker.read_counters()
    assert (counters.failures, counters.flows, counters.delivered, counters.lost_flows) == (1, 4, 3, 1)
    assert counters.listeners[0]["datagrams"] == 5
    assert counters.lost_datagrams == 0
    assert [str(error) for error in failures] == ["no memory for this batch"]


def test_calls_do_not_accumulate_while_a_worker_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowbuf.collect.worker.COUNTERS_SECONDS", 0.01)
    held = threading.Event()
    with flowbuf.Collector([LOCAL], interval=0.02) as collector:
        intake = collector._started()
        (worker,) = intake._workers
        blocked = worker.call(lambda decoder: held.wait(30))
        wait_until(blocked.running, "the call that blocks the worker")
        for _ in range(3):
            assert collector.counters.received == 0
            with pytest.raises(FutureTimeout, match="a worker waits for a full queue"):
                intake.list_exporters(0.01)
        assert len(worker._calls) == 2  # one for counters, and one for exporters
        held.set()
        assert blocked.result()
        assert intake.list_exporters(30) == []
        wait_until(lambda: not worker._calls, "all answers")


def test_counters_of_a_blocked_worker_do_not_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus would take smaller numbers for a restart, and add them to the ones before."""
    held = threading.Event()
    with flowbuf.Collector([LOCAL], interval=60) as collector:
        send([flows5(3)], collector.addresses[0])
        wait_until(lambda: collector.counters.received == 1, "the datagram")
        monkeypatch.setattr("flowbuf.collect.worker.COUNTERS_SECONDS", 0.01)
        (worker,) = collector._started()._workers
        blocked = worker.call(lambda decoder: held.wait(30))
        wait_until(blocked.running, "the call that blocks the worker")
        assert (collector.counters.received, collector.counters.flows) == (1, 3)
        held.set()


def test_iteration_ends_when_another_thread_stops() -> None:
    with flowbuf.Collector([LOCAL], interval=0.02) as collector:
        send([flows5(1)], collector.addresses[0])
        seen = []
        for batch in collector:
            seen.append(len(batch))
            threading.Thread(target=collector.stop).start()
    assert seen == [1]


def test_asynchronous_iteration() -> None:
    async def collect() -> list[int]:
        seen = []
        with flowbuf.Collector([LOCAL], interval=0.02) as collector:
            send([flows5(2), flows5(3)], collector.addresses[0])
            async for batch in collector:
                seen.append(len(batch))
                if sum(seen) == 5:
                    collector.stop()
        return seen

    assert sum(asyncio.run(collect())) == 5


def test_a_collector_starts_once() -> None:
    collector = flowbuf.Collector([LOCAL])
    with pytest.raises(RuntimeError, match="not started; use it in a with block"):
        next(iter(collector))
    with collector:
        pass
    with pytest.raises(RuntimeError, match="started before; create another one"), collector:
        pass


@pytest.mark.parametrize("interval", [0, -1.0, 0.0001, 1e11, float("inf"), float("nan")])
def test_an_interval_out_of_range_is_refused(interval: float) -> None:
    with pytest.raises(ValueError, match=f"interval is {interval}; it may be 0.001 to 1,000,000,000 seconds"):
        flowbuf.Collector([LOCAL], interval=interval)


def test_a_collector_needs_an_address_and_a_worker() -> None:
    with pytest.raises(ListenError, match=r'no address to listen on; pass one, such as "0.0.0.0:2055"'):
        flowbuf.Collector([])
    for name in ("workers", "receive_buffer", "queue_flows"):
        with pytest.raises(ValueError, match=f"{name} is 0; it may be 1 or more"):
            flowbuf.Collector([LOCAL], **{name: 0})


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"listen": None}, "listen is None; pass a list of addresses, such as ['0.0.0.0:2055']"),
        ({"listen": "[::]:1,[::]:2"}, "pass a list of addresses, such as ['[::]:1', '[::]:2']"),
        ({"listen": [5]}, "listen has 5; write addresses as texts, such as '0.0.0.0:2055'"),
        ({"allow": 5}, "allow is 5; pass a list of networks, such as ['192.0.2.0/24']"),
        ({"deny": "192.0.2.1"}, "deny is '192.0.2.1'; pass a list of networks, such as ['192.0.2.1']"),
        ({"interface": 5}, "interface is 5; pass its name, such as 'eth0'"),
        ({"workers": "a"}, "workers is 'a'; it must be a whole number"),
        ({"interval": "a"}, "interval is 'a'; it must be a number"),
        ({"block": "no"}, "block is 'no'; it must be True or False"),
        ({"sessions": {}}, "sessions is {}; pass SessionOptions(…)"),
        ({"options": {}}, "options is {}; pass DecodeOptions(…)"),
    ],
)
def test_arguments_of_another_type_are_errors_with_a_fix(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=re.escape(problem)):
        flowbuf.Collector(**arguments)


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"session_limit": -1}, "session_limit is -1; it may be 1 or more"),
        ({"peer_session_limit": "x"}, "peer_session_limit is 'x'; it must be a whole number"),
        ({"idle_timeout": -1}, "idle_timeout is -1; it may be 0 to 1,000,000,000 seconds"),
        ({"message_timeout": 0}, "message_timeout is 0; it may be 0.001 to 1,000,000,000 seconds"),
        ({"handshake_timeout": "x"}, "handshake_timeout is 'x'; it must be a number"),
        ({"tls": "cert.pem"}, "tls is 'cert.pem'; pass an ssl.SSLContext"),
        ({"access": 5}, "access is 5; pass allow and deny to the Collector"),
    ],
)
def test_wrong_limits_of_sessions_are_errors(limits: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(problem)):
        flowbuf.SessionOptions(**limits)


def test_sockets_are_closed() -> None:
    with flowbuf.Collector([LOCAL], workers=2) as collector:
        port = collector.addresses[0]
    gc.collect()
    with flowbuf.Collector([port]) as again:  # the port is free
        assert again.addresses == [port]


def test_a_flood_of_garbage_does_not_harm_an_exporter_on_another_port() -> None:
    """The sockets take turns, and each has its own receive buffer."""
    with flowbuf.Collector([LOCAL, LOCAL], interval=0.05) as collector, ThreadPoolExecutor() as pool:
        flooded, quiet = collector.addresses
        stop = threading.Event()
        flood = pool.submit(flood_until, stop, flooded)
        send([LEARNED], quiet, "127.0.5.1")
        for _ in range(200):
            send([DATA_SET] * 5, quiet, "127.0.5.1")
            time.sleep(0.001)
        stop.set()
        sent = flood.result()
        wait_until(lambda: collector.counters.workers[0].listeners[1]["datagrams"] == 1001, "the exporter")
    counters = collector.counters
    assert counters.kernel_drops is not None
    assert counters.received + counters.kernel_drops == sent + 1001
    assert counters.workers[0].kernel_drops[1] == 0
    assert counters.flows == 1000
    garbage = counters.statuses["other_packet"] + counters.statuses["truncated_header"]
    assert garbage == counters.received - 1001 > 0


def flood_until(stop: threading.Event, address: str) -> int:
    garbage = [bytes([i]) * i for i in range(200)]
    sent = 0
    while not stop.is_set():
        sent += send(garbage, address)
    return sent
