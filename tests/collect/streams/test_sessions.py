"""IPFIX over TCP: sessions have their own state, and hostile peers harm only themselves."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowbuf
from flowbuf._core import ColumnBuilder, Table
from flowbuf.arrow.batch import BATCH_ROWS, new_table_type
from flowbuf.collect.copies import Copier
from flowbuf.collect.listen import Address, StreamListener, open_stream_listeners
from flowbuf.collect.streams.sessions import BUFFER_BYTES, SessionCounters, SessionOptions, Sessions
from flowbuf.errors import ListenError
from tests.collect.streams.peers import check_sums, connect, reset, sessions_of, wait_for_end
from tests.collect.test_collector import LOCAL, flows5, payloads_of, rows_of
from tests.support.datagrams import (
    any_set,
    data_set,
    ip,
    ipfix,
    netflow9,
    options_template,
    options_template_set,
    sflow,
    template,
    template_set,
    u32,
    withdrawal,
)
from tests.support.live import send, wait_until

TCP = f"tcp://{LOCAL}"
TEMPLATE = ipfix(template_set(template(256, (8, 4), (12, 4))))
REVERSED = ipfix(template_set(template(256, (12, 4), (8, 4))))
DATA = ipfix(data_set(256, ip("10.0.0.1") + ip("10.0.0.2")))
SAMPLED = ipfix(
    options_template_set(options_template(300, [(149, 4)], [(34, 4)])),
    data_set(300, u32(0) + u32(50)),
)


@contextlib.contextmanager
def collecting(*listen: str, **options: Any) -> Iterator[flowbuf.Collector]:
    """Collect from TCP inside the block. Check the sums at its end."""
    with flowbuf.Collector(listen or [TCP], interval=0.02, **options) as collector:
        yield collector
        collector.stop()
        intake = collector._intake
        assert intake
        decoded = [exporter for exporter in intake.read_exporters() if "session" in exporter]
        check_sums(collector.counters, sum(exporter["bytes"] for exporter in decoded))
        assert sum(exporter["datagrams"] for exporter in decoded) == collector.counters.messages


def address_of(collector: flowbuf.Collector) -> str:
    return collector.addresses[0]


def wait_for_messages(collector: flowbuf.Collector, count: int) -> None:
    wait_until(lambda: collector.counters.messages == count, f"{count} messages")


def wait_for_closed(collector: flowbuf.Collector, **reasons: int) -> None:
    wait_until(lambda: sessions_of(collector.counters).closed == reasons, f"{reasons}")


def addresses(collector: flowbuf.Collector) -> list[tuple[str, str]]:
    return [(row["src_addr"], row["dst_addr"]) for row in rows_of(list(collector))]


# State of sessions ------------------------------------------------------------------------------------------


def test_flows_are_those_of_a_decoder() -> None:
    payloads = payloads_of("generated-ipfix.pcap")
    expected = flowbuf.Decoder("flow").columns_many(payloads, "127.0.0.1")
    with collecting() as collector, connect(address_of(collector)) as peer:
        peer.sendall(b"".join(payloads))
        wait_for_messages(collector, len(payloads))
    assert rows_of(list(collector)) == rows_of([expected])
    assert collector.counters.received == 0
    assert sessions_of(collector.counters).bytes == sum(map(len, payloads))


def test_sessions_of_an_address_have_their_own_templates() -> None:
    with collecting() as collector:
        to = address_of(collector)
        with connect(to) as first, connect(to) as second, connect(to) as third:
            first.sendall(TEMPLATE)
            second.sendall(REVERSED)
            wait_for_messages(collector, 2)
            for count, peer in enumerate((first, second, third), 3):
                peer.sendall(DATA)
                wait_for_messages(collector, count)
    assert addresses(collector) == [("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.1")]
    assert collector.counters.statuses == {"early_data": 1, "template_missing": 1}


def test_templates_of_udp_are_not_those_of_tcp() -> None:
    with collecting(TCP, LOCAL) as collector:
        udp, tcp = sorted(collector.addresses)
        send([TEMPLATE], udp)
        wait_until(lambda: collector.counters.received == 1, "the datagram")
        with connect(tcp) as peer:
            peer.sendall(DATA)
            wait_for_messages(collector, 1)
            peer.sendall(TEMPLATE)
            wait_for_messages(collector, 2)
        send([ipfix(withdrawal_set(2))], udp)  # ignored (RFC 7011 section 8.4)
        send([DATA], udp)
        wait_until(lambda: collector.counters.received == 3, "the datagrams")
    assert len(addresses(collector)) == 2


def test_the_end_of_a_session_forgets_its_templates_and_rates() -> None:
    with collecting() as collector:
        with connect(address_of(collector)) as peer:
            peer.sendall(SAMPLED + TEMPLATE + DATA)
        wait_for_closed(collector, ended=1)
        with connect(address_of(collector)) as peer:
            peer.sendall(DATA)
            wait_for_messages(collector, 4)
            peer.sendall(TEMPLATE)
        wait_for_closed(collector, ended=2)
    assert [row["sampling_rate"] for row in rows_of(list(collector))] == [50, 0]
    assert collector.counters.statuses == {"early_data": 1}


def withdrawal_set(set_id: int) -> bytes:
    """Withdraw all templates (2) or all options templates (3): RFC 7011 section 8.1."""
    return any_set(set_id, withdrawal(set_id))


@pytest.mark.parametrize(
    ("withdrawn", "flows"),
    [
        (template_set(withdrawal(256)), ["257"]),
        (withdrawal_set(2), []),
        (withdrawal_set(3), ["256", "257"]),
        (options_template_set(withdrawal(300)), ["256", "257"]),
    ],
)
def test_withdrawals_are_obeyed(withdrawn: bytes, flows: list[str]) -> None:
    both = ipfix(template_set(template(256, (7, 2)), template(257, (7, 2))))
    data = [ipfix(data_set(number, number.to_bytes(2, "big"))) for number in (256, 257)]
    with collecting() as collector, connect(address_of(collector)) as peer:
        peer.sendall(SAMPLED + both + ipfix(withdrawn) + b"".join(data))
        wait_for_messages(collector, 5)
    assert [str(row["src_port"]) for row in rows_of(list(collector))] == flows
    assert collector.counters.statuses["withdrawal"] == 1


def test_a_withdrawn_options_template_is_not_used() -> None:
    """Records of a withdrawn options template are not read any more. Rates that were learned stay."""
    rate = ipfix(data_set(300, u32(0) + u32(70)))
    with collecting() as collector, connect(address_of(collector)) as peer:
        peer.sendall(SAMPLED + ipfix(withdrawal_set(3)) + rate + TEMPLATE + DATA)
        wait_for_messages(collector, 5)
    assert [row["sampling_rate"] for row in rows_of(list(collector))] == [50]


# Framing ----------------------------------------------------------------------------------------------------


class Bench:
    """Sessions without a thread, with a decoder."""

    def __init__(self, options: SessionOptions | None = None) -> None:
        self.decoder = flowbuf.Decoder("flow")
        self.builder = ColumnBuilder(
            self.decoder, new_table_type(self.decoder.schema, self.decoder.plan), BATCH_ROWS
        )
        self.listener: StreamListener
        (self.listener,) = open_stream_listeners([Address("127.0.0.1", 0, "tcp")])
        self.sessions = Sessions(
            [self.listener],
            options or SessionOptions(),
            lambda content, source, port, number, tables: self.builder.decode_session(
                content, source, number, tables
            ),
            self.decoder.end_session,
        )
        self.tables: list[Table] = []

    @property
    def counters(self) -> SessionCounters:
        return self.sessions.read_counters()[0]

    def serve_until(self, condition: Any) -> None:
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end
            self.sessions.receive(time.monotonic_ns() + 10_000_000, self.tables)

    def rows(self) -> list[dict[str, Any]]:
        tables = [*self.tables, self.builder.finish()]
        return rows_of([flowbuf.FlowBatch(self.decoder.schema, table) for table in tables])

    def close(self) -> None:
        self.sessions.close()
        self.listener.close()


@settings(deadline=None, max_examples=25)
@given(cuts=st.sets(st.integers(1, len(TEMPLATE + DATA * 3) - 1)))
def test_every_split_gives_the_same_flows(cuts: set[int]) -> None:
    stream = TEMPLATE + DATA * 3
    ends = [*sorted(cuts), len(stream)]
    bench = Bench()
    with connect(str(bench.listener.address)) as peer:
        for begin, end in zip([0, *ends], ends, strict=False):
            peer.sendall(stream[begin:end])
            bench.serve_until(lambda end=end: bench.counters.bytes == end)
    bench.serve_until(lambda: bench.counters.closed == {"ended": 1})
    assert [row["src_addr"] for row in bench.rows()] == ["10.0.0.1"] * 3
    assert (bench.counters.messages, bench.counters.incomplete_bytes) == (4, 0)
    bench.close()


def test_messages_of_any_size_and_many_per_read() -> None:
    """One read returns the longest message, thousands of headers without sets, and part of a message."""
    longest = ipfix(data_set(256, bytes(65535 - 20)))
    empty = ipfix()
    assert (len(longest), len(empty)) == (65535, 16)
    stream = TEMPLATE + longest + empty * 9000 + longest[:-1]
    with collecting() as collector, connect(address_of(collector)) as peer:
        peer.sendall(stream)
        wait_until(lambda: sessions_of(collector.counters).bytes == len(stream), "all bytes")
        peer.sendall(longest[-1:] + DATA)
        wait_for_messages(collector, 9004)
    assert collector.counters.flows == 2 * (65515 // 8) + 1


@pytest.mark.parametrize(
    ("bytes", "reason"),
    [
        (netflow9(template_set(template(256, (8, 4)))), "not_ipfix"),
        (flows5(1), "not_ipfix"),
        (sflow(), "not_ipfix"),
        (b"GET / HTTP/1.1\r\n\r\n", "not_ipfix"),
        (b"\x00\x0a\x00\x0f", "bad_length"),
        (b"\x00\x0a\x00\x00" + bytes(100), "bad_length"),
        (b"\x16\x03\x01\x02\x00", "not_ipfix"),  # TLS
    ],
)
def test_other_protocols_end_the_session(bytes: bytes, reason: str) -> None:
    """The messages before are decoded, and the rest is counted."""
    with collecting() as collector, connect(address_of(collector)) as peer:
        peer.sendall(TEMPLATE + DATA + bytes)
        wait_for_end(peer)
        wait_for_closed(collector, **{reason: 1})
    assert collector.counters.flows == 1
    assert sessions_of(collector.counters).incomplete_bytes == len(bytes)


def test_a_malformed_message_does_not_end_the_session() -> None:
    """Its length still delimits it. The decoder counts the fault."""
    with collecting() as collector, connect(address_of(collector)) as peer:
        peer.sendall(TEMPLATE + ipfix(any_set(256, b"", length=3)) + DATA)
        wait_for_messages(collector, 3)
    assert collector.counters.flows == 1
    assert collector.counters.statuses == {"bad_set_length": 1}


def test_the_end_inside_a_message_is_counted() -> None:
    with collecting() as collector:
        with connect(address_of(collector)) as peer:
            peer.sendall(TEMPLATE + DATA[:-1])
        wait_for_closed(collector, incomplete=1)
        peer = connect(address_of(collector))
        peer.sendall(TEMPLATE + DATA[:20])
        wait_for_messages(collector, 2)
        wait_until(lambda: sessions_of(collector.counters).bytes == 2 * len(TEMPLATE + DATA) - 9, "bytes")
        reset(peer)
        wait_for_closed(collector, incomplete=1, reset=1)
    assert sessions_of(collector.counters).incomplete_bytes == len(DATA) - 1 + 20


# Limits -----------------------------------------------------------------------------------------------------


def test_a_slow_peer_is_closed() -> None:
    """Each byte comes in time, but the message does not. Complete messages start the time again."""
    options, message = SessionOptions(message_timeout=0.3, idle_timeout=60), ipfix(bytes(60000))
    with (
        collecting(sessions=options) as collector,
        connect(address_of(collector)) as steady,
        connect(address_of(collector)) as slow,
    ):
        with contextlib.suppress(ConnectionError):
            for i in range(600):
                slow.sendall(message[i : i + 1])
                steady.sendall(DATA[i % len(DATA) :][:1])
                time.sleep(0.005)
        wait_for_closed(collector, slow=1)
        assert sessions_of(collector.counters).open == 1


def test_an_idle_peer_is_closed() -> None:
    """Half-open connections end so, too."""
    with (
        collecting(sessions=SessionOptions(idle_timeout=0.1)) as collector,
        connect(address_of(collector)) as silent,
        connect(address_of(collector)) as peer,
    ):
        peer.sendall(TEMPLATE)
        wait_for_end(silent)
        wait_for_end(peer)
        wait_for_closed(collector, idle=2)


def test_idle_sessions_stay_without_a_limit() -> None:
    bench = Bench(SessionOptions(idle_timeout=0))
    with connect(str(bench.listener.address)):
        bench.serve_until(lambda: bench.counters.open == 1)
        bench.sessions._away = -1e6  # as after eleven days
        bench.sessions._ticked = 0
        bench.sessions.receive(time.monotonic_ns() + 1_000_000, bench.tables)
        assert bench.counters.open == 1
    bench.close()


def test_a_peer_has_a_limited_number_of_sessions() -> None:
    """A flood of connections from one address does not keep others out."""
    with collecting(sessions=SessionOptions(session_limit=8, peer_session_limit=4)) as collector:
        to = address_of(collector)
        flood = [connect(to, "127.0.0.2") for _ in range(20)]
        wait_until(lambda: sessions_of(collector.counters).refused.total() == 16, "refusals")
        with connect(to) as peer:
            peer.sendall(TEMPLATE + DATA)
            wait_for_messages(collector, 2)
        for each in flood:
            each.close()
    assert sessions_of(collector.counters).refused == {"peer_session_limit": 16}
    assert collector.counters.flows == 1


def test_a_silent_session_makes_room_for_a_new_one() -> None:
    """Peers that send nothing from many addresses do not keep others out."""
    with collecting(sessions=SessionOptions(session_limit=2)) as collector:
        to = address_of(collector)
        with connect(to, "127.0.0.2") as first:
            first.sendall(TEMPLATE)
            wait_for_messages(collector, 1)
            with connect(to, "127.0.0.3") as silent, connect(to, "127.0.0.4") as third:
                wait_for_end(silent)
                third.sendall(TEMPLATE)
                wait_for_messages(collector, 2)
                with connect(to, "127.0.0.5") as late:
                    wait_for_end(late)
                first.sendall(DATA)
                wait_for_messages(collector, 3)
    sessions = sessions_of(collector.counters)
    assert (sessions.closed["replaced"], sessions.refused) == (1, {"session_limit": 1})
    assert collector.counters.flows == 1


def test_the_limit_of_the_system_is_counted() -> None:
    """Without a free descriptor, connections wait. They are served when there is one."""
    with collecting() as collector, contextlib.ExitStack() as stack:
        address = Address.parse(address_of(collector))
        peers = [stack.enter_context(socket.socket()) for _ in range(2)]
        with no_free_descriptor():
            for peer in peers:
                peer.connect((address.host, address.port))
            wait_until(lambda: sessions_of(collector.counters).refused["system_limit"] > 0, "the limit")
        for peer in peers:
            peer.sendall(TEMPLATE + DATA)
        wait_for_messages(collector, 4)


@contextlib.contextmanager
def no_free_descriptor() -> Iterator[None]:
    """Use all file descriptors of this process inside the block."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/dev/fd"))) + 2, limits[1]))
    used = []
    try:
        with contextlib.suppress(OSError):
            while True:
                used.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for each in used:
            os.close(each)


def test_memory_per_session_is_bounded() -> None:
    """Each session stores at most one incomplete message."""
    bench = Bench(SessionOptions(peer_session_limit=50))
    message = ipfix(bytes(65519))
    peers = [connect(str(bench.listener.address)) for _ in range(40)]
    for peer in peers:
        peer.setblocking(False)
        peer.send(message[:-1])
    bench.serve_until(lambda: bench.counters.bytes == 40 * 65534)
    rests = [len(session.rest) for session in bench.sessions._sessions]
    assert rests == [65534] * 40
    assert len(bench.sessions._view) == BUFFER_BYTES
    for peer in peers:
        peer.close()
    bench.serve_until(lambda: bench.counters.closed == {"incomplete": 40})
    assert bench.sessions._numbers == {}
    bench.close()


def test_hostile_peers_do_not_disturb_others() -> None:
    """Garbage, resets and connections that say nothing, as fast as possible, beside a genuine exporter."""
    ended = threading.Event()

    def attack(to: str, payload: bytes) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError), connect(to, "127.0.0.2") as peer:
                peer.settimeout(0.1)
                peer.sendall(payload)
                reset(peer)

    with collecting() as collector:
        to = address_of(collector)
        threads = [
            threading.Thread(target=attack, args=(to, payload))
            for payload in (b"garbage" * 1000, DATA[:10], b"", TEMPLATE * 100 + b"\0")
        ]
        for thread in threads:
            thread.start()
        with connect(to) as peer:
            peer.sendall(TEMPLATE)
            for _ in range(200):
                peer.sendall(DATA * 5)
            exporters = collector._intake.read_exporters  # type: ignore[union-attr]

            def decoded() -> int:
                return sum(each["flows"] for each in exporters() if each["address"] == "127.0.0.1")

            wait_until(lambda: decoded() == 1000, "the flows of the genuine exporter")
        ended.set()
        for thread in threads:
            thread.join()
    assert sessions_of(collector.counters).closed.total() > 10


# Operation --------------------------------------------------------------------------------------------------


def test_a_full_queue_that_blocks_stops_reading() -> None:
    """Nothing is lost, and time limits do not end sessions that the collector itself does not read."""
    options = SessionOptions(message_timeout=0.2, idle_timeout=0.2)
    count = 40_000
    with flowbuf.Collector([TCP], interval=0.01, queue_flows=1, block=True, sessions=options) as collector:
        sent = threading.Event()

        def export() -> None:
            with connect(address_of(collector)) as peer:
                peer.sendall(TEMPLATE)
                for _ in range(count // 100):
                    peer.sendall(ipfix(data_set(256, bytes(8 * 100))))
            sent.set()

        thread = threading.Thread(target=export)
        thread.start()
        wait_until(lambda: collector.queue.queued > 0, "a full queue")
        time.sleep(0.5)  # longer than the limits
        flows = 0
        for batch in collector:
            flows += len(batch)
            if flows == count:
                break
        thread.join()
    assert sent.is_set()
    assert flows == count == collector.counters.flows
    assert sessions_of(collector.counters).closed.keys() <= {"ended", "stopped"}


def test_sessions_survive_a_failure_and_a_change_of_options() -> None:
    failures = [MemoryError("no memory")]
    with flowbuf.Collector([TCP], interval=0.02) as collector, connect(address_of(collector)) as peer:
        intake = collector._intake
        assert intake
        assert intake._streams
        deliver = intake._streams._deliver

        def fail(batch: flowbuf.FlowBatch) -> None:
            if failures:
                raise failures.pop()
            deliver(batch)

        intake._streams._deliver = fail
        peer.sendall(SAMPLED + TEMPLATE + DATA)
        wait_until(lambda: collector.counters.failures == 1, "the failure")
        peer.sendall(DATA)
        wait_until(lambda: collector.counters.delivered == 1, "a flow after the failure")
        intake.replace(
            *([collector.schema], flowbuf.DecodeOptions(), SessionOptions(peer_session_limit=1), deliver),
            [Copier()],
        )
        peer.sendall(DATA)
        wait_until(lambda: collector.counters.delivered == 2, "a flow after the change")
        with connect(address_of(collector)) as second:
            wait_for_end(second)
    counters = collector.counters
    assert (counters.flows, counters.lost_flows) == (3, 1)
    assert [row["sampling_rate"] for row in rows_of(list(collector))] == [50, 50]
    assert sessions_of(counters).refused == {"peer_session_limit": 1}


def test_a_stopped_collector_decodes_the_messages_that_it_has() -> None:
    with flowbuf.Collector([TCP], interval=60) as collector:
        worker = collector._intake._streams  # type: ignore[union-attr]
        held = threading.Event()
        with connect(address_of(collector)) as peer:
            peer.sendall(TEMPLATE)
            wait_for_messages(collector, 1)
            paused = worker.call(lambda decoder: held.wait(30))  # type: ignore[union-attr]
            peer.sendall(DATA * 1000 + DATA[:7])
            stopping = threading.Thread(target=collector.stop)
            stopping.start()
            held.set()
            stopping.join()
            assert paused.result()
    assert sum(map(len, collector)) == collector.counters.flows == 1000
    sessions = sessions_of(collector.counters)
    assert (sessions.incomplete_bytes, sessions.closed) == (7, {"stopped": 1})


def test_ipv6_and_mapped_peers() -> None:
    with collecting("tcp://[::]:0") as collector:
        (to,) = collector.addresses
        for host in ("127.0.0.1", "[::1]"):
            with connect(to.replace("[::]", host)) as peer:
                peer.sendall(TEMPLATE + DATA)
        wait_for_closed(collector, ended=2)
    sources = sorted(row["exporter_address"] for row in rows_of(list(collector)))
    assert sources == ["127.0.0.1", "::1"]


def test_udp_and_tcp_share_a_port() -> None:
    with flowbuf.Collector([TCP, LOCAL]) as collector:
        port = Address.parse(collector.addresses[1]).port
    both = [f"tcp://127.0.0.1:{port}", f"127.0.0.1:{port}", f"tcp://[::1]:{port}"]
    with flowbuf.Collector(both) as collector:
        assert sorted(collector.addresses) == sorted(both)
        with pytest.raises(ListenError) as raised, flowbuf.Collector([both[0]]):
            pass
        assert str(raised.value) == f"{both[0]}: is used by another process; stop it, or choose another port"


def test_peers_that_disappear_are_detected() -> None:
    """The system probes silent peers. Their sessions end with an error of the connection."""
    bench = Bench()
    with connect(str(bench.listener.address)):
        bench.serve_until(lambda: bench.counters.open == 1)
        (session,) = bench.sessions._sessions
        connection = session.connection
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
    bench.close()
