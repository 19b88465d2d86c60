"""`flowbuf consume` loses no flows on signals, kills, departing members and broker failures."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet
import pytest

from tests.support.broker import PATIENCE, Broker, MakeTopic
from tests.support.command import flowbuf, generated, json_lines, write
from tests.support.consuming import committed, consume, consuming, ports, ports_of, produce, wait

pytestmark = pytest.mark.expensive

FLOWS = 500


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("netflow9", FLOWS))


def test_a_closed_pipe_ends_the_command(broker: Broker, topic: str, capture: Path, group: str) -> None:
    for _ in range(4):
        produce(broker, capture, topic)
    with consuming(broker, topic, "-f", "jsonl", "--group", group) as process:
        assert process.stdout
        assert process.stdout.readline().startswith(b"{")
        process.stdout.close()
        produce(broker, capture, topic)
        assert process.wait(PATIENCE) == 141
        assert process.stderr
        assert process.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_completes_the_file(
    broker: Broker, topic: str, capture: Path, group: str, tmp_path: Path, number: signal.Signals
) -> None:
    produce(broker, capture, topic)
    out = tmp_path / "flows.parquet"
    with consuming(broker, topic, "--group", group, "-o", out) as process:
        wait(lambda: list(tmp_path.iterdir()))
        time.sleep(0.5)
        assert committed(broker, group, topic) == 0
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
    assert pyarrow.parquet.read_table(out).num_rows == FLOWS
    assert committed(broker, group, topic) == len(broker.values(topic))


def test_a_signal_stores_the_pending_flows_of_a_folder(
    broker: Broker, topic: str, capture: Path, group: str, tmp_path: Path
) -> None:
    from confluent_kafka import ConsumerGroupState

    produce(broker, capture, topic)
    stable = ConsumerGroupState.STABLE
    with consuming(broker, topic, "--group", group, "-o", f"{tmp_path}/", "--batch-seconds", 3600) as process:
        wait(lambda: broker.admin.describe_consumer_groups([group])[group].result().state == stable)
        time.sleep(2)
        assert list(tmp_path.iterdir()) == []
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert len(ports(tmp_path)) == FLOWS
    assert committed(broker, group, topic) == len(broker.values(topic))


def test_a_second_signal_ends_the_command_at_once(
    broker: Broker, topic: str, capture: Path, group: str, tmp_path: Path
) -> None:
    """A full pipe without a reader blocks the command, so that it cannot handle the first signal."""
    for _ in range(10):
        produce(broker, capture, topic)
    with consuming(broker, topic, "--group", group, "-f", "jsonl", bufsize=0) as process:
        assert process.stdout
        assert process.stdout.read(1) == b"{"
        time.sleep(1)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        assert process.wait(PATIENCE) == 130
    assert committed(broker, group, topic) == 0


# Faults -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic_exists", [True, False])
def test_a_missing_broker_or_topic_is_an_error(broker: Broker, topic: str, topic_exists: bool) -> None:
    servers, name = ("127.0.0.1:9", topic) if topic_exists else (broker.servers, "no-such-topic")
    started = time.monotonic()
    result = flowbuf("consume", "--kafka", servers, "--topic", name, "--timeout", 3)
    assert time.monotonic() - started < 6
    assert (result.exit_code, result.stdout) == (1, "")
    assert ("does not exist" if not topic_exists else "no broker answered in 3 s") in result.stderr


def test_an_empty_topic_has_no_flows(broker: Broker, make_topic: MakeTopic) -> None:
    started = time.monotonic()
    result = consume(broker, make_topic(partitions=5))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "flowbuf: 0 flows from 0 Kafka records\n"
    assert time.monotonic() - started < 10


KILLED = """
import os, signal, sys
from flowbuf.kafka.consumer import KafkaSource
from flowbuf.cli.main import main

original = KafkaSource.{call}
left = {count}

def call(self, batch):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    original(self, batch)

KafkaSource.{call} = call
main()
"""


def run_killed(broker: Broker, topic: str, call: str, count: int, *options: object) -> None:
    """Kill the command with SIGKILL at the call of the source that follows the first `count` calls."""
    code = KILLED.format(call=call, count=count)
    command = [
        sys.executable,
        "-c",
        code,
        "consume",
        "--kafka",
        broker.servers,
        "--topic",
        topic,
        "--until-end",
    ]
    quick = ("-X", "session.timeout.ms=6000")
    done = subprocess.run(
        [*command, *quick, *map(str, options)], capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("call", ["promise", "commit"])
@pytest.mark.parametrize("count", [0, 2])
def test_a_folder_has_each_flow_once_after_a_kill(
    broker: Broker, make_topic: MakeTopic, capture: Path, group: str, tmp_path: Path, call: str, count: int
) -> None:
    """The kill comes before or after a file is stored. The next run has other limits and more input."""
    topic = make_topic(partitions=2)
    produce(broker, capture, topic, "--pack", "1000")
    options = ("--group", group, "-o", f"{tmp_path}/")
    run_killed(broker, topic, call, count, "--batch-bytes", 5000, *options)
    assert len(ports(tmp_path)) < FLOWS
    produce(broker, capture, topic, "--pack", "1000")
    assert consume(broker, topic, "--batch-bytes", 12_000, *options).exit_code == 0
    expected = ports_of(capture)
    assert ports(tmp_path) == sorted(expected * 2)


def test_lines_are_repeated_after_a_kill(broker: Broker, topic: str, capture: Path, group: str) -> None:
    produce(broker, capture, topic)
    run_killed(broker, topic, "commit", 0, "--group", group, "-f", "jsonl")
    assert len(json_lines(consume(broker, topic, "--group", group, "-f", "jsonl"))) == FLOWS
    assert consume(broker, topic, "--group", group, "-f", "jsonl").stdout == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_flow_is_lost_when_one_of_two_members_leaves(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path, group: str, number: signal.Signals
) -> None:
    topic = make_topic(partitions=4)
    many = write(tmp_path / "many.pcap", generated("netflow9", 20_000))
    folder = tmp_path / "folder"
    options = ("--group", group, "-o", f"{folder}/", "--batch-bytes", 20_000, "--batch-seconds", 0.5)
    quick = ("-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500")
    with ExitStack() as stack:
        members = []
        for count in range(2):
            members.append(stack.enter_context(consuming(broker, topic, *options, *quick)))
            produce(broker, many, topic, "--pack", "2000")
            wait(lambda count=count: len(ports(folder)) > 2000 * (count + 1))  # type: ignore[misc]
        members[0].send_signal(number)
        produce(broker, many, topic, "--pack", "2000")
        members[0].wait(PATIENCE)
        wait(lambda: committed(broker, group, topic) == len(broker.values(topic)))
        members[1].send_signal(signal.SIGINT)
        assert members[1].wait(PATIENCE) == 0
    expected = ports_of(many)
    assert ports(folder) == sorted(expected * 3)


@pytest.mark.parametrize("kind", ["folder", "jsonl"])
def test_no_flow_is_lost_when_the_broker_restarts(
    own_broker: Broker, capture: Path, tmp_path: Path, group: str, kind: str
) -> None:
    topic = own_broker.make_topic(partitions=2)
    produce(own_broker, capture, topic, "--pack", "1000")
    out = f"{tmp_path}/folder/" if kind == "folder" else "-"
    lines = tmp_path / "lines"
    options = ("--group", group, "-o", out, "--batch-seconds", 0.2)

    def count() -> int:
        return len(ports(tmp_path / "folder")) if kind == "folder" else len(lines.read_bytes().splitlines())

    with lines.open("wb") as stdout, consuming(own_broker, topic, *options, stdout=stdout) as process:
        wait(lambda: count() == FLOWS)
        own_broker.kill()
        time.sleep(3)
        own_broker.start()
        produce(own_broker, capture, topic, "--pack", "1000")
        wait(lambda: count() >= 2 * FLOWS)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert count() == 2 * FLOWS
    assert committed(own_broker, group, topic) == len(own_broker.values(topic))
