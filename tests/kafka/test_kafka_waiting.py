"""Kafka clients report that they wait for a broker or for the session of a killed member."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from flowbuf.kafka.client import Notes
from flowbuf.kafka.consumer import KafkaSource
from flowbuf.kafka.dead_letters import DeadLetters, Fault
from flowbuf.schema import Schema
from tests.support.broker import PATIENCE, Broker
from tests.support.command import generated, write
from tests.support.consuming import committed, consume, consuming, ports, ports_of, produce
from tools import services

pytestmark = pytest.mark.expensive

FLOWS = 200


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("netflow9", FLOWS))


class Error:
    """An error that librdkafka passes to a callback."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return self._text

    def fatal(self) -> bool:
        return False


def up(*addresses: str) -> dict[str, dict[str, Any]]:
    """Return the statistics of librdkafka for brokers that are connected."""
    return {f"{each}/1": {"nodename": each, "state": "UP"} for each in addresses}


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def notes(lines: list[str]) -> Notes:
    return Notes(lines.append, {})


def test_all_brokers_are_named(notes: Notes, lines: list[str]) -> None:
    for _ in range(3):
        notes.add(Error("_ALL_BROKERS_DOWN", "0/2 brokers are down"), "a:1, SSL://b:2")
    assert lines == [f"kafka: broker {each} is unavailable; waiting for it" for each in ("a:1", "b:2")]
    for _ in range(3):
        notes.see(up("a:1") | {"b:2/2": {"nodename": "b:2", "state": "TRY_CONNECT"}})
    assert lines[2:] == ["kafka: broker a:1 is available"]
    assert notes.waiting
    for _ in range(3):
        notes.see(up("a:1", "b:2"))
    assert lines[3:] == ["kafka: broker b:2 is available"]
    assert not notes.waiting


@pytest.mark.parametrize(
    "name", ["a:1/bootstrap", "GroupCoordinator: a:1", "sasl_ssl://a:1/7", "ssl://a:1/bootstrap"]
)
def test_a_broker_is_named_once_with_the_reason(notes: Notes, lines: list[str], name: str) -> None:
    text = "Connect to ipv4#192.0.2.1:1 failed: Connection refused"
    for _ in range(3):
        notes.add(Error("_TRANSPORT", f"{name}: {text} (after 0ms in state CONNECT)"), "a:1")
    assert lines == [f"kafka: broker a:1 is unavailable; waiting for it: {text}"]
    assert notes.latest.endswith(text)


def test_statistics_older_than_the_error_are_ignored(notes: Notes, lines: list[str]) -> None:
    for _ in range(3):
        notes.add(Error("_TRANSPORT", "a:1/1: Disconnected"), "a:1")
        notes.see(up("a:1"))
    assert lines == ["kafka: broker a:1 is unavailable; waiting for it: Disconnected"]


def test_a_broker_may_have_another_name_than_its_bootstrap_server(notes: Notes, lines: list[str]) -> None:
    """Statistics omit bootstrap servers after the first connection."""
    notes.add(Error("_ALL_BROKERS_DOWN", "1/1 brokers are down"), "localhost:1")
    for _ in range(3):
        notes.see(up("127.0.0.1:1"))
    assert lines[1:] == ["kafka: broker 127.0.0.1:1 is available"]


def test_other_errors_are_reported_unchanged(notes: Notes, lines: list[str]) -> None:
    notes.add(Error("_AUTHENTICATION", "sasl_ssl://a:1/bootstrap: SASL authentication error"), "a:1")
    assert lines == ["kafka: sasl_ssl://a:1/bootstrap: SASL authentication error"]
    assert not notes.waiting


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_consumer_reports_a_broker_that_leaves_and_returns(own_broker: Broker, host: str) -> None:
    topic, lines = own_broker.make_topic(), list[str]()
    servers = own_broker.servers.replace("127.0.0.1", host)
    with KafkaSource(servers, [topic], schema=Schema.load("flow"), on_problem=lines.append) as source:
        batches = iter(source)

        def reads_until(text: str) -> None:
            def found() -> bool:
                next(batches)
                return any(re.fullmatch(text, line) for line in lines)

            assert services.wait(found, PATIENCE), lines

        next(batches)
        own_broker.kill()
        reads_until(rf"kafka: broker {host}:\d+ is unavailable; waiting for it.*")
        own_broker.start()
        reads_until(rf"kafka: broker (127.0.0.1|{host}):\d+ is available")  # its own name or the given one
    assert not [line for line in lines if "brokers are down" in line]
    assert "available" in lines[-1]
    assert "unavailable" not in lines[-1]


@contextmanager
def interrupted(too_late: Callable[[], object]) -> Iterator[None]:
    """Send SIGINT after a second. Call `too_late` after 30 seconds, unless the block has ended."""
    timers = [threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)), threading.Timer(30, too_late)]
    try:
        for timer in timers:
            timer.start()
        yield
    finally:
        for timer in timers:
            timer.cancel()


def test_a_signal_ends_a_commit_that_waits_for_a_broker(own_broker: Broker, group: str) -> None:
    topic, late = own_broker.make_topic(), threading.Event()
    own_broker.produce(topic, [b""])
    with KafkaSource(own_broker.servers, [topic], group=group, schema=Schema.load("flow")) as source:
        batch = next(batch for batch in source if batch)
        own_broker.kill()
        with interrupted(late.set):
            with pytest.raises(KeyboardInterrupt):
                source.commit(batch)
            assert not late.is_set()


def test_closing_does_not_wait_for_a_commit_that_a_signal_has_ended(own_broker: Broker, group: str) -> None:
    """The commit still waits for an answer of the broker."""
    topic, late = own_broker.make_topic(), threading.Event()
    own_broker.produce(topic, [b""])

    def give_up() -> None:
        late.set()
        own_broker.thaw()

    source = KafkaSource(own_broker.servers, [topic], group=group, schema=Schema.load("flow"))
    batch = next(batch for batch in source if batch)
    own_broker.freeze()
    with interrupted(give_up):
        with pytest.raises(KeyboardInterrupt):
            source.commit(batch)
        source.close()
        assert not late.is_set()


def test_a_producer_reports_a_broker_that_leaves_and_returns(own_broker: Broker) -> None:
    from flowbuf.kafka.sink import KafkaSink

    topic, lines = own_broker.make_topic(), list[str]()
    with KafkaSink(own_broker.servers, topic, schema_topic=None, on_problem=lines.append) as sink:

        def is_reported(text: str) -> bool:
            sink._producer.poll(0.1)
            return any(text in line for line in lines)

        own_broker.kill()
        assert services.wait(
            lambda: is_reported(f"broker {own_broker.servers} is unavailable; waiting for it"), PATIENCE
        ), lines
        own_broker.start()
        assert services.wait(lambda: is_reported(f"broker {own_broker.servers} is available"), PATIENCE), (
            lines
        )
    assert not [line for line in lines if "brokers are down" in line]


def test_a_restarted_consumer_reports_the_session_that_it_waits_for(
    broker: Broker, topic: str, capture: Path, group: str
) -> None:
    produce(broker, capture, topic)
    session = {"session.timeout.ms": 10_000}
    options = ("--group", group, "-f", "jsonl", "-X", "session.timeout.ms=10000")
    with consuming(broker, topic, *options) as process:
        assert process.stdout
        assert process.stdout.readline().startswith(b"{")
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    reports: list[tuple[float, str]] = []
    begun = time.monotonic()
    with KafkaSource(
        broker.servers,
        [topic],
        group=group,
        settings=session,
        on_problem=lambda text: reports.append((time.monotonic() - begun, text)),
    ) as source:
        for _ in source:
            if len(reports) == 2 or time.monotonic() - begun > PATIENCE:
                break
    assert [text for _, text in reports] == [
        f"group {group!r}: waiting for 1 other member to rejoin; a killed member stays in the group until "
        "its session expires (session.timeout.ms: 10 s)",
        f"group {group!r}: joined",
    ]
    assert reports[0][0] < 2
    assert reports[1][0] > 2


def test_the_first_member_of_a_group_reports_no_wait(
    broker: Broker, topic: str, capture: Path, group: str
) -> None:
    produce(broker, capture, topic)
    lines: list[str] = []
    for _ in range(2):  # the second one comes after the first has left
        with KafkaSource(broker.servers, [topic], group=group, on_problem=lines.append) as source:
            next(batch for batch in source if batch is not None)
    assert lines == []


@contextmanager
def member(
    broker: Broker, topic: str, group: str, settings: dict[str, Any], lines: list[str], busy: float = 0.0
) -> Iterator[list[float]]:
    """Run a member of a group in a thread. It takes `busy` seconds to store a batch.

    The list has the seconds until the member had partitions, and those until it read each batch.
    """
    ended, joined = threading.Event(), list[float]()

    def run() -> None:
        begun = time.monotonic()
        options: dict[str, Any] = {"group": group, "settings": settings, "on_problem": lines.append}
        with KafkaSource(broker.servers, [topic], schema=Schema.load("flow"), **options) as source:
            for batch in source:
                if source._assigned and not joined:
                    joined.append(time.monotonic() - begun)
                if ended.is_set():
                    return
                if batch is not None:
                    joined.append(time.monotonic() - begun)
                    time.sleep(busy)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield joined
    finally:
        ended.set()
        thread.join(PATIENCE)


def wait_until(done: Callable[[], object]) -> None:
    assert services.wait(lambda: bool(done()), PATIENCE)


@pytest.mark.parametrize(("protocol", "heartbeat"), [("classic", 1.0), ("consumer", 6.0)])
def test_a_member_that_joins_live_members_reports_no_wait(
    broker: Broker, make_topic: Callable[..., str], group: str, protocol: str, heartbeat: float
) -> None:
    """The live members rejoin within a heartbeat.

    A report is correct on a machine that is too slow for that.
    """
    topic, lines = make_topic(partitions=2), list[str]()
    settings = {"group.protocol": protocol}
    with member(broker, topic, group, settings, lines) as first:
        wait_until(lambda: first)
        with member(broker, topic, group, settings, lines) as second:
            wait_until(lambda: second)
    assert lines == [] or second[0] > heartbeat
    assert second[0] < heartbeat + 1.5


def test_a_member_reports_that_it_waits_for_a_busy_one(
    broker: Broker, make_topic: Callable[..., str], capture: Path, group: str
) -> None:
    topic, lines = make_topic(partitions=2), list[str]()
    produce(broker, capture, topic)
    with member(broker, topic, group, {}, [], busy=5.0) as first:
        wait_until(lambda: len(first) > 1)
        with member(broker, topic, group, {}, lines) as second:
            wait_until(lambda: second)
    assert lines == [
        f"group {group!r}: waiting for 1 other member to rejoin; a killed member stays in the group until "
        "its session expires (session.timeout.ms: 45 s)",
        f"group {group!r}: joined",
    ]


class DelayingKafka(services.Kafka):
    """A broker that delays new groups, as brokers do by default."""

    def write_properties(self, path: Path, data: Path, ports: list[int]) -> None:
        super().write_properties(path, data, ports)
        path.write_text(
            path.read_text().replace("initial.rebalance.delay.ms=0", "initial.rebalance.delay.ms=3000")
        )


def test_members_that_start_together_report_no_wait(tmp_path: Path, group: str) -> None:
    """The broker delays a new group, because more members may follow.

    The second member waits for 5 s. A report is correct on a machine that is too slow for that.
    """
    broker, lines = Broker(tmp_path / "broker", DelayingKafka), list[str]()
    broker.start()
    try:
        topic = broker.make_topic(partitions=2)
        with ExitStack() as stack:
            members = []
            for _ in range(2):
                members.append(stack.enter_context(member(broker, topic, group, {}, lines)))
                time.sleep(1)
            for each in members:
                wait_until(lambda each=each: each)  # type: ignore[misc]
    finally:
        broker.kill()
    assert lines == [] or members[1][0] > 8
    assert members[0][0] > 2


def test_a_source_that_is_not_read_keeps_no_statistics(broker: Broker, topic: str) -> None:
    """librdkafka keeps statistics until they are read. Those of many partitions are large."""
    held: list[str] = []
    options: dict[str, Any] = {"schema": Schema.load("flow"), "settings": {"stats_cb": held.append}}
    with KafkaSource(broker.servers, [topic], **options) as source:
        time.sleep(3.5)
        next(iter(source))
        assert held == []


def test_late_errors_do_not_hide_that_a_broker_is_back(
    broker: Broker, topic: str, notes: Notes, lines: list[str]
) -> None:
    """The second error comes within a second of the last check."""
    letters = DeadLetters(broker.servers, topic, {}, PATIENCE, notes)
    for count in (2, 4):
        notes.add(Error("_TRANSPORT", f"{broker.servers}/1: Connect failed: Connection refused"))
        letters.send([Fault("flows", 0, 7, "the Kafka record has no value", None, b"value")])
        assert lines[count - 1 :] == [f"kafka: broker {broker.servers} is available"]


def test_dead_letters_report_a_broker_that_leaves_and_returns(own_broker: Broker, lines: list[str]) -> None:
    topic = own_broker.make_topic()
    letters = DeadLetters(own_broker.servers, topic, {}, PATIENCE, Notes(lines.append, {}))
    fault = Fault("flows", 0, 7, "the Kafka record has no value", None, b"value")
    letters.send([fault])
    own_broker.kill()
    sending = threading.Thread(target=letters.send, args=[[fault]])
    sending.start()
    wait_until(lambda: lines)
    assert re.fullmatch(r"kafka: broker 127.0.0.1:\d+ is unavailable; waiting for it.*", lines[0])
    own_broker.start()
    sending.join(PATIENCE)
    assert lines[-1] == f"kafka: broker {own_broker.servers} is available"
    assert own_broker.values(topic) == [b"value", b"value"]


@pytest.mark.parametrize("setting", ["session.timeout.ms", "heartbeat.interval.ms"])
def test_settings_that_belong_to_the_broker_are_refused_with_kip_848(
    broker: Broker, topic: str, group: str, setting: str
) -> None:
    result = consume(
        broker, topic, "--group", group, "-X", "group.protocol=consumer", "-X", f"{setting}=10000"
    )
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        f"client settings are invalid: Failed to create consumer: `{setting}` is not supported"
        in result.stderr
    )


def test_an_invalid_session_timeout_is_reported(broker: Broker, topic: str, group: str) -> None:
    result = consume(broker, topic, "--group", group, "-X", "session.timeout.ms=soon")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "client settings are invalid: " in result.stderr


def test_kip_848_reads_all_and_commits(
    broker: Broker, make_topic: Callable[..., str], capture: Path, group: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    options = ("--group", group, "-X", "group.protocol=consumer")
    for name in ("first", "second"):
        produce(broker, capture, topic, "--pack", 1000)
        result = consume(broker, topic, *options, "-o", f"{tmp_path / name}/")
        assert result.exit_code == 0
        assert re.fullmatch(rf"flowbuf: {FLOWS} flows from \d+ Kafka records\n", result.stderr)
        assert ports(tmp_path / name) == ports_of(capture)
    end = len(broker.values(topic))
    assert committed(broker, group, topic) == end
