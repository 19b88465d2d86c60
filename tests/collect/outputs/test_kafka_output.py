"""Collected flows in Kafka, with a real broker."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf._core import count_messages, format_ip, split_messages
from flowbuf.arrow.row_text import RowText
from flowbuf.cli.collect_outputs import new_output
from flowbuf.collect.config import OutputConfig
from flowbuf.collect.outputs.kafka import KafkaOutput, KafkaPlace
from flowbuf.collect.service import Service
from flowbuf.errors import KafkaError, SchemaError
from flowbuf.selection import FlowSelection
from tests.collect.test_collector import flows5
from tests.collect.test_service import address_of, check_sums, running
from tests.support.broker import Broker, MakeTopic
from tests.support.datagrams import netflow5, record5
from tests.support.live import send, wait_until
from tools import services

SCHEMA = flowbuf.Schema.load("flow")


def flows_in(broker: Broker, topic: str) -> int:
    """Return the number of flows in a topic."""
    return sum(map(count_messages, broker.values(topic)))


@pytest.mark.parametrize(
    ("uri", "servers", "topic"),
    [
        ("kafka://localhost:9092/flows", "localhost:9092", "flows"),
        ("kafka://a:9092,b:9093/net.flows", "a:9092,b:9093", "net.flows"),
        ("kafka://a:9092", "a:9092", "flows-{hash}"),
    ],
)
def test_places(uri: str, servers: str, topic: str) -> None:
    place = KafkaPlace.parse(uri)
    assert (place.servers, place.topic) == (servers, topic)


def test_a_place_needs_a_broker() -> None:
    with pytest.raises(ValueError, match="names no broker; write kafka://HOST:PORT/TOPIC"):
        KafkaPlace.parse("kafka:///flows")


@pytest.mark.parametrize("more", ["?compression=zstd", "#x"])
def test_a_place_has_no_settings(more: str) -> None:
    with pytest.raises(ValueError, match="takes no settings after"):
        KafkaPlace.parse(f"kafka://a:9092/flows{more}")


def test_json_needs_a_topic() -> None:
    with pytest.raises(ValueError, match="names no topic, which JSON needs; write kafka://HOST:PORT/TOPIC"):
        KafkaPlace.parse("kafka://a:9092", format="json")


def test_schema_descriptions_need_a_topic_of_their_own() -> None:
    """Readers of flows cannot decode them. JSON has none."""
    options = {"schema_topic": "flows"}
    with pytest.raises(ValueError, match="schema_topic is 'flows', which is the topic of the messages"):
        KafkaPlace.parse("kafka://a:9092/flows", **options)
    with pytest.raises(ValueError, match="schema_topic is empty; name a topic, or 'none'"):
        KafkaPlace.parse("kafka://a:9092/flows", schema_topic="")
    assert KafkaPlace.parse("kafka://a:9092/flows", format="json", **options).topic == "flows"


@pytest.mark.parametrize("form", ["json", "protobuf"])
def test_a_key_needs_a_column_of_the_output(form: str) -> None:
    place = KafkaPlace("a:9092", format=form, key=("src_mac",))
    with pytest.raises(SchemaError, match="key 'src_mac' is not among the columns"):
        KafkaOutput(place, SCHEMA)


def three_hosts(flows: int) -> Any:
    """Return a batch of flows from three addresses in turn. Each has another number of bytes."""
    records = [record5(src=f"10.0.0.{i % 3}", octets=100 + i, dst_port=53) for i in range(flows)]
    return flowbuf.Decoder(SCHEMA).columns(netflow5(*records), "192.0.2.1").to_arrow()


def store(output: KafkaOutput, batch: Any) -> None:
    output.write(batch)
    output.close()
    assert (output.stored, output.pending, output.lost) == (batch.num_rows, 0, {})


@pytest.mark.slow
def test_json_records_are_the_lines_of_read(broker: Broker, make_topic: MakeTopic) -> None:
    topic, batch = make_topic(partitions=2), three_hosts(30)
    place = KafkaPlace(broker.servers, topic, format="json", key=("src_addr", "dst_port"))
    store(KafkaOutput(place, SCHEMA), batch)
    records = broker.read(topic)
    assert sorted(record.value() for record in records) == sorted(RowText(SCHEMA).split(batch))
    for record in records:
        assert record.headers() is None
        flow = json.loads(record.value())
        assert record.key().decode() == f"{flow['src_addr']},{flow['dst_port']}"
    partitions = {(record.key(), record.partition()) for record in records}
    assert len(partitions) == 3  # each key has one


def test_a_missing_topic_is_reported_before_flows_arrive(broker: Broker, topic: str) -> None:
    """The output works as soon as the topic is created."""
    missing = f"{topic}-late"
    output = KafkaOutput(KafkaPlace(broker.servers, missing, format="json"), SCHEMA)
    with running({"kafka": output}) as service:
        wait_until(lambda: bool(service.find_failures()), "the failure")
        assert service.find_failures() == [
            f"output kafka: topic '{missing}' does not exist; "
            "create it, or set its number of partitions with --partitions N"
        ]
        broker.make_topic(missing)
        wait_until(lambda: not service.find_failures(), "the topic")
        send([flows5(30)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["kafka"].stored == 30, "the flows")


def test_a_missing_broker_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr("flowbuf.collect.outputs.kafka.OPEN_SECONDS", 1.0)
    problems: list[str] = []
    place = KafkaPlace(f"127.0.0.1:{services.free_ports(1)[0]}", "flows", format="json")
    output = KafkaOutput(place, SCHEMA, problems.append)
    for _ in range(3):
        with pytest.raises(KafkaError, match="no broker answered in 1 s"):
            output.tick()
    assert len(problems) == len(set(problems)) > 0


@pytest.mark.slow
def test_packed_records_have_one_key(broker: Broker, topic: str) -> None:
    batch = three_hosts(30)
    store(KafkaOutput(KafkaPlace(broker.servers, topic, key=("src_addr",)), SCHEMA), batch)
    Flow = SCHEMA.message_class()
    sizes: dict[bytes, list[int]] = {}
    for record in broker.read(topic):
        flows = [Flow.FromString(each) for each in split_messages(record.value(), b"")]
        assert {format_ip(flow.src_addr) for flow in flows} == {record.key().decode()}
        sizes.setdefault(record.key(), []).extend(flow.bytes for flow in flows)
    assert sizes == {f"10.0.0.{i}".encode(): list(range(100 + i, 130, 3)) for i in range(3)}
    assert len(broker.read(topic)) == 3


@pytest.mark.slow
def test_schema_descriptions_of_messages_have_a_topic(broker: Broker, topic: str) -> None:
    """JSON needs no description."""
    configs = [
        OutputConfig(schema_topic=f"{topic}-packed"),
        OutputConfig(schema_topic=f"{topic}-json", format="json"),
        OutputConfig(schema_topic="none"),
    ]
    for config in configs:
        config = replace(config, to=f"kafka://{broker.servers}/{topic}")
        output = new_output(config, FlowSelection(SCHEMA), spool="")
        assert isinstance(output, KafkaOutput)
        store(output, three_hosts(1))
    assert [record.key() for record in broker.read(f"{topic}-packed")] == [SCHEMA.hash.encode()]
    assert not {f"{topic}-json", "none"} & broker.admin.list_topics(timeout=10).topics.keys()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "protobuf"])
def test_many_small_queues_lose_nothing(broker: Broker, topic: str, form: str) -> None:
    """The queue of the client is smaller than a batch. The rest waits in the output."""
    settings = {"queue.buffering.max.messages": 10, "linger.ms": 0}
    output = KafkaOutput(
        KafkaPlace(broker.servers, topic, format=form, key=("bytes",), settings=settings), SCHEMA
    )
    for _ in range(10):
        output.write(three_hosts(30))
    wait_until(lambda: not output.tick() and output.stored == 300, "the confirmations")
    output.close()
    assert len(broker.read(topic)) == 300 if form == "json" else flows_in(broker, topic) == 300


class LocalProducer:
    """Stands in for a producer whose brokers confirm in any order, which a real one cannot be made to do."""

    topic, limit, obstacle, latest_problem = "flows", 1000, "", ""
    refusals = (KafkaError,)

    def __init__(self) -> None:
        self.notes: list[Any] = []
        self.polls = 0
        self.problems = 0
        self.unavailable = False

    def find_problem(self, known: int) -> str:
        return f"problem {self.problems}" if self.unavailable or self.problems > known else ""

    def produce(self, topic: str, value: bytes, key: bytes | None, on_delivery: Any, headers: Any) -> None:
        self.notes.append(on_delivery)

    def poll(self, seconds: float) -> None:
        self.polls += 1


@pytest.mark.parametrize(
    ("ordered", "stored"), [(True, [0, 0, 0, 90]), (False, [30, 60, 75, 90])], ids=["spool", "no spool"]
)
def test_flows_of_a_spool_are_stored_in_their_order(ordered: bool, stored: list[int]) -> None:
    """A batch is acknowledged only if all batches before it are stored, so that none is lost."""
    output = KafkaOutput(KafkaPlace("a:9092", "flows", format="json", ordered=ordered), SCHEMA)
    producer = LocalProducer()
    output._producer = producer  # type: ignore[assignment]
    for _ in range(3):
        output.write(three_hosts(30))
    places = []
    for confirmed in (range(30, 60), range(60, 90), range(15), range(15, 30)):
        for index in confirmed:
            producer.notes[index](None, None)
        output.tick()
        places.append(output.stored)
        assert output.pending == 90 - output.stored
    assert places == stored
    before = producer.polls
    output.tick()
    assert producer.polls == before + 1  # also without flows, so that statistics do not fill the memory


class Silence:
    """An output with 30 flows per write, whose time and producer a test controls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, unavailable: bool = False) -> None:
        self.now = 1000.0
        monkeypatch.setattr("flowbuf.collect.outputs.kafka.time.monotonic", lambda: self.now)
        self.output = KafkaOutput(KafkaPlace("a:9092", "flows", format="json"), SCHEMA)
        self.producer = LocalProducer()
        self.producer.unavailable = unavailable
        self.output._producer = self.producer  # type: ignore[assignment]

    def write(self) -> None:
        self.output.write(three_hosts(30))

    def is_reported(self, seconds: float = 0.0) -> bool:
        """Return True if the next `tick` reports that no flow is confirmed, and keeps all flows."""
        self.now += seconds
        before = self.output.pending, len(self.producer.notes)
        try:
            self.output.tick()
        except KafkaError as error:
            assert str(error) == "topic 'flows': no flow was confirmed for 10 s: problem 1"  # noqa: PT017
            return True
        finally:
            assert (self.output.pending, len(self.producer.notes)) == before
        return False

    def confirm(self, index: int) -> None:
        self.producer.notes[index](None, None)


def test_an_unavailable_broker_is_reported_after_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output takes flows all the same, and sends none twice. One message names the first problem."""
    silence = Silence(monkeypatch)
    silence.write()
    assert not silence.is_reported()
    silence.producer.problems = 1
    assert not silence.is_reported(9)
    assert silence.is_reported(1)
    silence.producer.problems = 2
    silence.write()
    assert silence.output.pending == len(silence.producer.notes) == 60
    assert silence.is_reported(100)
    silence.confirm(0)
    assert not silence.is_reported(1)
    assert silence.output.pending == 59
    assert not silence.is_reported(9)


def test_a_broker_that_was_unavailable_before_the_flows_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time begins with the first flow that waits, and librdkafka does not repeat each problem."""
    silence = Silence(monkeypatch, unavailable=True)
    silence.producer.problems = 1
    assert not silence.is_reported(100)
    silence.now += 100  # the next `tick` is late
    silence.write()
    assert not silence.is_reported()
    assert not silence.is_reported(9)
    assert silence.is_reported(1)


def test_a_slow_broker_without_a_problem_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = Silence(monkeypatch)
    silence.producer.problems = 1  # before the flows
    assert not silence.is_reported()
    silence.write()
    assert not silence.is_reported()
    assert not silence.is_reported(100)


def test_an_idle_output_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an outage: the last flow that waited is confirmed."""
    silence = Silence(monkeypatch, unavailable=True)
    silence.producer.problems = 1
    silence.write()
    assert not silence.is_reported()
    assert silence.is_reported(10)
    for index in range(30):
        silence.confirm(index)
    assert silence.output.pending == 0
    assert not silence.is_reported()
    assert not silence.is_reported(100)


def send_during_outage(service: Service, broker: Broker, sent: int, times: int) -> int:
    """Send datagrams without a broker, start it, and wait until all flows are stored.

    Args:
        service: Running collector.
        broker: Broker that was killed.
        sent: Number of datagrams before.
        times: Number of bursts of 10 datagrams.

    Returns:
        int: Number of datagrams, with those before.
    """
    for _ in range(times):
        sent += send([flows5(30)] * 10, address_of(service))
    # until then, counters of outputs, which are read first, may lack flows that are counted as delivered
    wait_until(lambda: service.read_counters().outputs["kafka"].queue.offered == 30 * sent, "all datagrams")
    check_sums(service.read_counters())
    broker.start()
    wait_until(lambda: service.read_counters().outputs["kafka"].stored == 30 * sent, "all flows")
    return sent


@pytest.mark.expensive
def test_flows_of_a_spool_that_expire_are_sent_again(own_broker: Broker, tmp_path: Path) -> None:
    """A broker is away for longer than `message.timeout.ms`. Each flow is stored once."""
    own_broker.make_topic("flows", 1)
    place = KafkaPlace(
        own_broker.servers, "flows", settings={"message.timeout.ms": 1000}, expiring=False, ordered=True
    )
    settings = {"on_overflow": "spool", "spool": str(tmp_path / "spool"), "queue_flows": 100}
    with running({"kafka": KafkaOutput(place, SCHEMA)}, {"kafka": settings}) as service:
        sent = send([flows5(30)] * 10, address_of(service))
        wait_until(lambda: service.read_counters().outputs["kafka"].stored == 300, "the first flows")
        own_broker.kill()
        sent += send([flows5(30)] * 10, address_of(service))
        wait_until(lambda: bool(service.find_failures()), "the failure")
        sent = send_during_outage(service, own_broker, sent, 10)
        check_sums(service.read_counters())
    assert flows_in(own_broker, "flows") == 30 * sent


@pytest.mark.slow
def test_a_topic_that_is_deleted_and_created_again(broker: Broker, make_topic: MakeTopic) -> None:
    """Flows wait until the topic exists again. None is lost."""
    topic = make_topic()
    output = KafkaOutput(KafkaPlace(broker.servers, topic, expiring=False), SCHEMA)
    output.write(three_hosts(30))
    wait_until(lambda: not output.tick() and output.stored == 30, "the confirmation")
    broker.recreate_topic(topic)
    output.write(three_hosts(30))

    def is_stored() -> bool:
        with suppress(KafkaError):
            output.tick()
        return output.stored == 60

    wait_until(is_stored, "the second confirmation")
    output.close()
    assert flows_in(broker, topic) == 30


@pytest.mark.slow
@pytest.mark.everyday
def test_flows_are_stored_when_the_broker_confirms_them(broker: Broker, topic: str) -> None:
    output = KafkaOutput(KafkaPlace(broker.servers, topic, partitions=1), SCHEMA)
    with running({"kafka": output}) as service:
        send([flows5(30)] * 20, address_of(service))
        wait_until(lambda: service.read_counters().outputs["kafka"].stored == 600, "the confirmations")
        assert service.read_counters().outputs["kafka"].pending == 0
        send([flows5(30)], address_of(service))
        wait_until(lambda: service.read_counters().outputs["kafka"].queue.taken == 630, "the last flows")
    counters = service.read_counters()
    check_sums(counters)
    assert (counters.outputs["kafka"].stored, counters.outputs["kafka"].pending) == (630, 0)
    assert flows_in(broker, topic) == 630


@contextmanager
def outage(own_broker: Broker) -> Iterator[tuple[Service, int]]:
    """Run a collector, and kill the broker when it has the first flows. Yield the number of datagrams too."""
    own_broker.make_topic("flows", 1)
    output = KafkaOutput(KafkaPlace(own_broker.servers, "flows"), SCHEMA)
    with running({"kafka": output}) as service:
        sent = send([flows5(30)] * 10, address_of(service))
        wait_until(lambda: service.read_counters().outputs["kafka"].stored == 300, "the first flows")
        own_broker.kill()
        yield service, sent


@pytest.mark.expensive
def test_no_flow_is_lost_while_the_broker_is_down(own_broker: Broker) -> None:
    with outage(own_broker) as (service, sent):
        sent = send_during_outage(service, own_broker, sent, 20)
    check_sums(service.read_counters())
    assert flows_in(own_broker, "flows") == 30 * sent


@pytest.mark.expensive
def test_a_broker_that_is_killed_is_reported_before_the_client_is_full(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Flows still arrive. The failure and its end are in the log once, and each flow is stored once."""
    monkeypatch.setattr("flowbuf.collect.outputs.kafka.SILENCE_SECONDS", 2.0)
    caplog.set_level(logging.WARNING, "flowbuf.collect")
    with outage(own_broker) as (service, sent):
        sent += send([flows5(30)] * 10, address_of(service))
        wait_until(lambda: bool(service.find_failures()), "the failure")
        (failure,) = service.find_failures()
        assert failure.startswith("output kafka: topic 'flows': no flow was confirmed for 2 s: ")
        sent += send([flows5(30)] * 10, address_of(service))
        wait_until(lambda: service.read_counters().outputs["kafka"].pending == 600, "flows in the client")
        failures = service.read_counters().outputs["kafka"].failures
        wait_until(lambda: service.read_counters().outputs["kafka"].failures > failures, "another tick")
        assert service.find_failures() == [failure]
        check_sums(service.read_counters())
        own_broker.start()
        wait_until(lambda: service.read_counters().outputs["kafka"].stored == 30 * sent, "all flows")
        wait_until(lambda: not service.find_failures(), "the end of the failure")
    check_sums(service.read_counters())
    assert service.read_counters().outputs["kafka"].dropped == {}
    assert flows_in(own_broker, "flows") == 30 * sent
    messages = [each.getMessage() for each in caplog.records if each.name == "flowbuf.collect"]
    assert messages == [failure, "output kafka works again"]


@pytest.mark.expensive
def test_a_broker_that_starts_later(own_broker: Broker) -> None:
    """The collector starts without a broker. Flows wait until it answers."""
    own_broker.make_topic("flows", 1)
    own_broker.kill()
    output = KafkaOutput(KafkaPlace(own_broker.servers, "flows"), SCHEMA)
    with running({"kafka": output}) as service:
        sent = send([flows5(30)] * 10, address_of(service))
        wait_until(lambda: bool(service.find_failures()), "the failure")
        assert service.read_counters().outputs["kafka"].queued == 30 * sent
        own_broker.start()
        wait_until(lambda: service.read_counters().outputs["kafka"].stored == 30 * sent, "all flows")
    assert flows_in(own_broker, "flows") == 30 * sent


@pytest.mark.expensive
def test_flows_that_expire_are_lost_and_counted(own_broker: Broker) -> None:
    """After `message.timeout.ms`, the client gives flows up. A new connection sends later flows."""
    own_broker.make_topic("flows", 1)
    place = KafkaPlace(own_broker.servers, "flows", settings={"message.timeout.ms": 2000})
    output = KafkaOutput(place, SCHEMA)
    batch = flowbuf.Decoder("flow").columns(flows5(30), "192.0.2.1").to_arrow()
    output.write(batch)
    wait_until(lambda: not output.tick() and output.stored == 30, "the confirmation")
    own_broker.kill()
    output.write(batch)
    with pytest.raises(KafkaError):
        wait_until(lambda: bool(output.tick()), "the end of the message")
    assert (output.stored, output.pending, output.lost) == (30, 0, {"kafka_error": 30})
    own_broker.start()
    output.write(batch)
    output.close()
    assert (output.stored, output.pending, output.lost) == (60, 0, {"kafka_error": 30})
    assert flows_in(own_broker, "flows") == 60
