"""Collected flows in Kafka, with a real broker."""

from __future__ import annotations

import pytest

import flowbuf
from flowbuf._core import count_messages
from flowbuf.collect.outputs.kafka import KafkaOutput, KafkaPlace
from flowbuf.errors import KafkaError
from tests.collect.test_collector import flows5
from tests.collect.test_service import address_of, check_sums, running
from tests.support.broker import Broker
from tests.support.live import send, wait_until

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


@pytest.mark.expensive
def test_no_flow_is_lost_while_the_broker_is_down(own_broker: Broker) -> None:
    own_broker.make_topic("flows", 1)
    output = KafkaOutput(KafkaPlace(own_broker.servers, "flows"), SCHEMA)
    with running({"kafka": output}) as service:
        sent = send([flows5(30)] * 10, address_of(service))
        wait_until(lambda: service.read_counters().outputs["kafka"].stored == 300, "the first flows")
        own_broker.kill()
        for _ in range(20):
            sent += send([flows5(30)] * 10, address_of(service))
        wait_until(lambda: service.read_counters().intake.received == sent, "all datagrams")
        check_sums(service.read_counters())
        own_broker.start()
        wait_until(lambda: service.read_counters().outputs["kafka"].stored == 30 * sent, "all flows")
    check_sums(service.read_counters())
    assert flows_in(own_broker, "flows") == 30 * sent


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
