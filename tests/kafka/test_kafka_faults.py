"""The report of the Kafka sink equals the contents of the topic after every fault.

Brokers are missing, die, return or stay away, topics are missing, flows are too large, and signals arrive.
"""

from __future__ import annotations

import itertools
import re
import signal
import time
from pathlib import Path

import pytest

from flowbuf import _core
from flowbuf.errors import KafkaError
from flowbuf.kafka.sink import KafkaSink
from tests.support.broker import PATIENCE, Broker, MakeTopic
from tests.support.command import flowbuf as run
from tests.support.command import generated, pcap, write
from tests.support.producing import SILENT, Producing, count_records, decode, wait_for
from tools import services

pytestmark = pytest.mark.expensive

FLOWS = 60_000


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("ipfix", FLOWS, exporters=3))


@pytest.fixture(scope="module")
def messages(capture: Path) -> bytes:
    return decode(capture)


def closed_port() -> str:
    return f"127.0.0.1:{services.free_ports(1)[0]}"


# At the start -----------------------------------------------------------------------------------------------


def test_a_missing_broker_is_reported(capture: Path) -> None:
    pytest.importorskip("confluent_kafka")
    servers = closed_port()
    producing = Producing(capture.read_bytes(), servers, "--timeout", 2)
    assert producing.end() == 1
    assert f"flowbuf: {servers}: no broker answered in 2 s: " in producing.stderr
    assert "Connection refused" in producing.stderr
    assert producing.stderr.count("\n") <= 3
    assert producing.stdout == ""
    assert producing.fed <= (1 << 16) + 4096  # the capacity of a pipe that nobody reads
    assert producing.seconds < 8


def test_a_broker_may_start_within_the_timeout(own_broker: Broker, capture: Path, messages: bytes) -> None:
    topic = own_broker.make_topic()
    own_broker.stop()
    producing = Producing(capture.read_bytes(), own_broker, "--topic", topic)
    time.sleep(2)
    own_broker.start()
    assert producing.end() == 0, producing.stderr
    assert b"".join(own_broker.values(topic)) == messages
    assert producing.told["flows"] == FLOWS
    assert producing.told["failed"] == 0
    assert producing.stderr.count("Connection refused") <= 2  # at the given address and at the broker's own


def test_a_missing_topic_is_reported(broker: Broker, capture: Path) -> None:
    result = run("produce", capture, "--kafka", broker.servers, "--topic", "nobody-made-this")
    assert result.exit_code == 1
    fix = "create it, or set its number of partitions with --partitions N"
    assert result.stderr == f"flowbuf: topic 'nobody-made-this' does not exist; {fix}\n"


class Creating(services.Kafka):
    """A broker that creates topics when a client names them, which is Kafka's default."""

    def write_properties(self, path: Path, data: Path, ports: list[int]) -> None:
        super().write_properties(path, data, ports)
        with path.open("a") as file:  # the last of several settings of a name counts
            file.write("auto.create.topics.enable=true\nnum.partitions=3\n")


def test_a_broker_creates_no_topics_unasked(tmp_path: Path, capture: Path) -> None:
    """A wrong name is an error, and a new topic has the requested settings."""
    broker = Broker(tmp_path, Creating)
    broker.start()
    try:
        read = run("consume", "--kafka", broker.servers, "--topic", "nobody-made-this", "--until-end")
        assert read.stderr.startswith("flowbuf: topic 'nobody-made-this' does not exist")
        sent = run("produce", capture, "--kafka", broker.servers, "--topic", "flows", "--partitions", 2)
        assert (sent.exit_code, sent.stderr) == (0, "")
        topics = broker.admin.list_topics(timeout=PATIENCE).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {
            "flows": 2,
            "flowbuf-schemas": 1,
        }
    finally:
        broker.kill()


def test_an_invalid_topic_is_reported(broker: Broker, capture: Path) -> None:
    begun = time.monotonic()
    result = run("produce", capture, "--kafka", broker.servers, "--topic", "what is this?", "--partitions", 1)
    assert result.exit_code == 1
    assert result.stderr == "flowbuf: topic 'what is this?': Broker: Invalid topic\n"
    assert time.monotonic() - begun < 5


def test_flows_are_sent_while_standard_input_has_no_data(broker: Broker, topic: str, capture: Path) -> None:
    """The flows of a live capture do not wait for the next packet."""
    producing = Producing(capture.read_bytes(), broker, "--topic", topic, *SILENT, limit=10_000)
    wait_for(lambda: count_records(broker, topic) == 1)
    producing.feed()
    assert producing.end() == 0
    assert producing.told["flows"] == FLOWS


# While it runs ----------------------------------------------------------------------------------------------


def test_a_restarted_broker_stores_every_flow_once(
    own_broker: Broker, capture: Path, messages: bytes
) -> None:
    """The broker is killed while it stores Kafka records, and again with Kafka records that it has not read.

    All messages are stored once and in order.
    """
    topic = own_broker.make_topic()
    content = capture.read_bytes()
    options = ["--topic", topic, "--pack", "2000", "-X", "linger.ms=0"]
    producing = Producing(content, own_broker, *options, limit=len(content) // 4)
    wait_for(lambda: count_records(own_broker, topic))
    producing.feed(len(content) // 2)
    own_broker.kill()
    own_broker.start()
    before = count_records(own_broker, topic)
    wait_for(lambda: count_records(own_broker, topic) > before)
    own_broker.freeze()
    producing.feed(len(content) * 3 // 4)
    time.sleep(1)
    own_broker.kill()
    own_broker.start()
    producing.feed()
    assert producing.end() == 0, producing.stderr
    values = own_broker.values(topic)
    assert b"".join(values) == messages
    assert producing.told["flows"] == FLOWS
    assert producing.told["delivered"] == producing.told["records"] == len(values)
    assert producing.told["failed"] == 0
    assert producing.told["retried"] > 0
    assert 1 <= producing.stderr.count("\n") <= 12
    lines = producing.stderr.splitlines()
    assert all(one != two for one, two in itertools.pairwise(lines))  # no line is repeated
    assert lines[-1] == f"flowbuf: kafka: broker {own_broker.servers} is available"
    assert not [line for line in lines if "brokers are down" in line]


def test_a_broker_that_stays_away_is_reported(own_broker: Broker, capture: Path) -> None:
    topic = own_broker.make_topic()
    content = capture.read_bytes() + capture.read_bytes()[24:] * 10
    settings = ["-X", "message.timeout.ms=2000", "-X", "queue.buffering.max.messages=500"]
    producing = Producing(
        content, own_broker, "--topic", topic, "--pack", "flow", *settings, *SILENT, limit=1 << 20
    )
    wait_for(lambda: count_records(own_broker, topic))
    own_broker.kill()
    producing.feed()
    gone = time.monotonic()
    assert producing.end() == 1
    assert time.monotonic() - gone < 20
    counts = producing.told
    assert counts["flows"] == counts["records"] == counts["delivered"] + counts["failed"]
    assert counts["failed"] >= 500  # the Kafka records that waited
    assert producing.fed < 8 << 20  # little input was read ahead
    assert "no broker was available for as long as Kafka records may wait: " in producing.stderr
    assert producing.stderr.count("\n") < 10
    own_broker.start()
    assert counts["delivered"] <= count_records(own_broker, topic) <= counts["records"]


def test_flows_of_failed_packs_are_counted(own_broker: Broker, messages: bytes) -> None:
    topic = own_broker.make_topic()
    own_broker.produce(own_broker.make_topic(), [b""])  # a new broker is slow at first
    settings = {"message.timeout.ms": "10000"}  # the first records wait for the broker's producer id
    sink = KafkaSink(own_broker.servers, topic, pack=50_000, settings=settings, schema_topic=None)
    good = b"".join(value for value, _ in _core.cut_messages(messages, 100_000, 100_000)[:2])
    sink.write(good)
    sink.flush()
    delivered = sink.report.flows
    assert (delivered, sink.report.failed) == (_core.count_messages(good), 0)
    own_broker.kill()
    sink.write(good)
    with pytest.raises(KafkaError, match=r"not delivered: .* records, .* flows: Local: Message timed out"):
        sink.close()
    report = sink.report
    assert report.failed_flows == delivered
    assert (report.delivered_flows, report.flows) == (delivered, 2 * delivered)
    assert sum(report.reasons.values()) == report.failed
    own_broker.start()
    assert b"".join(own_broker.values(topic)) == good


def test_a_deleted_topic_is_reported(own_broker: Broker, messages: bytes) -> None:
    topic = own_broker.make_topic()
    settings = {"topic.metadata.propagation.max.ms": "500", "topic.metadata.refresh.interval.ms": "1000"}
    sink = KafkaSink(own_broker.servers, topic, pack="flow", settings=settings, schema_topic=None)
    begun = time.monotonic()

    def keep_sending() -> None:
        while time.monotonic() - begun < 60:
            sink.write(piece)
            time.sleep(0.01)

    (piece, count), *_ = _core.cut_messages(messages, 5000, 5000)
    with pytest.raises(KafkaError, match=r"Unknown (topic|partition)"), sink:  # noqa: PT012
        sink.write(piece)
        sink.flush()
        own_broker.admin.delete_topics([topic])[topic].result(30)
        keep_sending()
    report = sink.report
    assert report.delivered == count
    assert report.records == report.flows == report.delivered + report.failed
    assert report.failed > 0
    assert report.failed < report.records


def test_a_full_queue_loses_nothing(broker: Broker, topic: str, messages: bytes) -> None:
    """The queue holds ten Kafka records of one flow each."""
    settings = {"queue.buffering.max.messages": "10", "linger.ms": "0"}
    (piece, count), *_ = _core.cut_messages(messages, 200_000, 200_000)
    with KafkaSink(broker.servers, topic, pack="flow", settings=settings, schema_topic=None) as sink:
        sink.write(piece)
        assert sink.unconfirmed <= 12
    assert broker.values(topic) == _core.split_messages(piece, b"")
    assert (sink.report.delivered, sink.report.failed) == (count, 0)


# Too large --------------------------------------------------------------------------------------------------

LARGE = b"\x88\x27" + bytes(5000)  # a message of 5,000 bytes after its length


def cut_two_pieces(messages: bytes) -> tuple[bytes, bytes]:
    """Return two pieces of the messages. Tests put another message between them."""
    (first, _), (second, _), *_ = _core.cut_messages(messages, 40_000, 40_000)
    return first, second


@pytest.mark.parametrize("pack", ["flow", "datagram", 65_536])
def test_kafka_records_are_as_large_as_the_topic_allows(
    broker: Broker, make_topic: MakeTopic, messages: bytes, pack: int | str
) -> None:
    topic = make_topic(config={"max.message.bytes": "2000"})
    first, second = cut_two_pieces(messages)
    with KafkaSink(broker.servers, topic, pack=pack, framing="delimited") as sink:
        sink.write(first)
        sink.write(second)
    values = broker.values(topic)
    assert b"".join(values) == first + second
    assert max(map(len, values)) < 2000
    assert pack == "flow" or len(values) < (len(first) + len(second)) / 1500


@pytest.mark.parametrize("pack", ["flow", 65_536, 100])
@pytest.mark.parametrize("limits", ["topic", "client"])
def test_a_flow_that_is_too_large_fails_alone(
    broker: Broker, make_topic: MakeTopic, messages: bytes, pack: int | str, limits: str
) -> None:
    """The other flows are delivered."""
    topic = make_topic(config={"max.message.bytes": "3000"} if limits == "topic" else {})
    settings = {} if limits == "topic" else {"message.max.bytes": "3000"}
    options = {"pack": pack, "framing": "delimited", "schema_topic": None}
    sink = KafkaSink(broker.servers, topic, settings=settings, **options)
    first, second = cut_two_pieces(messages)
    sink.write(first + LARGE + second)
    sink.write(LARGE)
    sink.write(second)
    with pytest.raises(
        KafkaError, match=r"2 of .* records, 2 of .* flows: Broker: Message size too large \(2\)"
    ):
        sink.close()
    assert b"".join(broker.values(topic)) == first + second * 2
    report = sink.report
    assert (report.failed, report.failed_flows) == (2, 2)
    assert report.delivered_flows == _core.count_messages(first + second * 2)


def test_the_size_limit_of_the_broker_applies(own_broker: Broker, messages: bytes) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry("message.max.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    own_broker.admin.incremental_alter_configs([resource])[resource].result(30)
    topic = own_broker.make_topic()
    first, second = cut_two_pieces(messages)
    sink = KafkaSink(own_broker.servers, topic, schema_topic=None)
    sink.write(first + LARGE + second)
    with pytest.raises(KafkaError, match=r"1 of .* flows: Broker: Message size too large \(1\)"):
        sink.close()
    assert b"".join(own_broker.values(topic)) == first + second


# Signals and invalid input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("pack", ["flow", "5000"])
def test_flows_before_a_signal_are_delivered(
    broker: Broker, topic: str, capture: Path, messages: bytes, pack: str, number: signal.Signals, status: int
) -> None:
    content = capture.read_bytes() + capture.read_bytes()[24:] * 10
    options = ["--topic", topic, "--pack", pack, "--framing", "delimited"]
    producing = Producing(content, broker, *options, limit=len(content) - 1)
    wait_for(lambda: count_records(broker, topic))
    producing.process.send_signal(number)
    assert producing.end() == status, producing.stderr
    values = broker.values(topic)
    counts = producing.told
    assert counts["delivered"] == counts["records"] == len(values)
    assert counts["flows"] == sum(map(_core.count_messages, values)) > 0
    assert counts["bytes"] == sum(map(len, values))
    assert counts["failed"] == 0
    assert producing.stderr == ""
    assert (messages * 11).startswith(b"".join(values)[: len(messages)])


def test_a_signal_ends_the_wait_for_a_broker(own_broker: Broker, capture: Path) -> None:
    """The command ends before the timeout of its Kafka records."""
    topic = own_broker.make_topic()
    options = ["--topic", topic, "--pack", "200", "-X", "queue.buffering.max.messages=100"]
    producing = Producing(capture.read_bytes(), own_broker, *options, limit=1 << 20)
    wait_for(lambda: count_records(own_broker, topic))
    own_broker.freeze()
    producing.feed()
    time.sleep(1)
    producing.process.terminate()
    begun = time.monotonic()
    assert producing.end() == 143
    assert time.monotonic() - begun < 15
    own_broker.kill()
    own_broker.start()
    counts = producing.told
    assert counts["records"] == counts["delivered"] + counts["failed"]
    assert counts["failed"] > 0
    assert counts["delivered"] <= count_records(own_broker, topic) <= counts["records"]


def test_strict_delivers_the_batches_before_the_fault(
    broker: Broker, topic: str, capture: Path, messages: bytes, tmp_path: Path
) -> None:
    """Nothing of the batch with the fault is delivered."""
    content = capture.read_bytes()
    begins = [
        found.end() for found in re.finditer(rb"\x12\x83....(?=\0\x0a)", content, re.DOTALL)
    ]  # datagrams to port 4739
    version = begins[len(begins) * 2 // 3]
    path = write(tmp_path / "damaged.pcap", content[: version + 2] + b"\xff\xff" + content[version + 4 :])
    result = run("produce", path, "--kafka", broker.servers, "--topic", topic, "--strict")
    assert result.exit_code == 1
    counts = dict(pair.split("=") for pair in result.stdout.split())
    values = broker.values(topic)
    sent = b"".join(values)
    assert messages.startswith(sent)
    assert len(messages) / 3 < len(sent) < len(messages)
    assert counts["flows"] == str(_core.count_messages(sent))
    assert (counts["delivered"], counts["failed"]) == (str(len(values)), "0")
    assert result.stderr.count("\n") == 1
    assert "damaged.pcap" in result.stderr


def test_a_capture_without_flows_sends_nothing(broker: Broker, topic: str, tmp_path: Path) -> None:
    path = write(tmp_path / "empty.pcap", pcap())
    result = run("produce", path, "--kafka", broker.servers, "--topic", topic)
    assert result.exit_code == 0
    assert result.stdout == f"topic={topic} flows=0 records=0 bytes=0 delivered=0 failed=0 retried=0\n"
    assert "no flows" in result.stderr
    assert broker.values(topic) == []
