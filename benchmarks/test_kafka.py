"""Measure the path through Kafka, beside confluent-kafka alone.

A real broker runs on the same machine, so all figures include its use of the processors. They are wall times.
All variants of a test run in turn.
"""

from __future__ import annotations

import functools
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.record import read_clock, record, replay
from flowbuf import Decoder, KafkaSink, KafkaSource, Schema, _core
from flowbuf.io.capture import CaptureReader
from flowbuf.kafka.sink import PACK_SIZE
from tests.support.broker import Broker, broker

__all__ = ["broker"]

pytestmark = pytest.mark.benchmark(timer=read_clock)
ROUNDS = 5
FLOWS = 2_000_000
SINGLE_FLOWS = 400_000
DATASET = "generated-netflow9"
SETTINGS = {"enable.idempotence": True, "acks": "all", "linger.ms": 20, "queue.buffering.max.kbytes": 131_072}

Seconds = float
Way = Callable[[str], Seconds]


def take_turns(broker: Broker, ways: dict[str, Way]) -> dict[str, list[Seconds]]:
    """Return the seconds of each variant in each round, each with a new topic. The first round warms up."""
    times: dict[str, list[Seconds]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, run in ways.items():
            topic = broker.make_topic()
            seconds = run(topic)
            broker.admin.delete_topics([topic])[topic].result()
            if turn:
                times[name].append(seconds)
    return times


@functools.cache
def write_capture(folder: Path, flows: int) -> Path:
    path = folder / f"{flows}.pcap"
    with path.open("wb") as file:
        file.writelines(_core.generate(protocol="netflow9", flows=flows))
    return path


@functools.cache
def decode(capture: Path) -> bytes:
    decoder = Decoder()
    with CaptureReader(capture) as reader:
        return b"".join(decoder.encode_datagrams(batch) for batch in reader)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka")


# Producing --------------------------------------------------------------------------------------------------


def produce_capture(broker: Broker, capture: Path, pack: int | str, topic: str) -> Seconds:
    """Decode, pack, send, and wait until everything is confirmed. Return the seconds."""
    decoder = Decoder()
    with KafkaSink(broker.servers, topic, decoder.schema, pack=pack) as sink:
        begin = time.perf_counter()
        with CaptureReader(capture) as reader:
            for batch in reader:
                with decoder.view_datagrams(batch) as messages:
                    sink.write(messages)
        sink.flush()
        return time.perf_counter() - begin


class Bare:
    """A producer of confluent-kafka that sends prepared Kafka records."""

    def __init__(self, broker: Broker, topic: str) -> None:
        from confluent_kafka import Producer

        self.producer = Producer({"bootstrap.servers": broker.servers, **SETTINGS})
        self.producer.produce("flowbuf-schemas", b"", b"warm")  # gets the producer id, as a sink does
        self.producer.flush()
        self.topic = topic
        self.confirmed = 0

    def confirm(self, error: object, message: object) -> None:
        assert error is None
        self.confirmed += 1

    def send_with_headers(self, values: list[bytes]) -> None:
        """Send with one call per Kafka message, with headers and a callback."""
        headers = [("flowbuf-schema", b"0123456789abcdef"), ("flowbuf-framing", b"delimited")]
        for value in values:
            while True:
                try:
                    self.producer.produce(self.topic, value, headers=headers, on_delivery=self.confirm)
                    break
                except BufferError:
                    self.producer.poll(0.05)
            self.producer.poll(0)
        self.producer.flush()
        assert self.confirmed == len(values)

    def send(self, values: list[bytes]) -> None:
        """Send with one call per Kafka message, without headers and callbacks."""
        produce, topic = self.producer.produce, self.topic
        for value in values:
            try:
                produce(topic, value)
            except BufferError:
                self.producer.poll(0.05)
                produce(topic, value)
        self.producer.flush()

    def send_batches(self, values: list[bytes]) -> None:
        """Send a thousand Kafka records per call."""
        for begin in range(0, len(values), 1000):
            waiting = [{"value": value} for value in values[begin : begin + 1000]]
            while self.producer.produce_batch(self.topic, waiting) < len(waiting):
                waiting = [{"value": one["value"]} for one in waiting if "_error" in one]
                self.producer.poll(0.05)
        self.producer.flush()


def time_bare(broker: Broker, method: str, values: list[bytes], topic: str) -> Seconds:
    bare = Bare(broker, topic)
    begin = time.perf_counter()
    getattr(bare, method)(values)
    return time.perf_counter() - begin


@functools.cache
def time_packed(broker: Broker, folder: Path) -> dict[str, list[Seconds]]:
    capture = write_capture(folder, FLOWS)
    ready = [value for value, _ in _core.cut_messages(decode(capture), PACK_SIZE, PACK_SIZE)]
    return take_turns(
        broker,
        {
            "packed, from datagrams": functools.partial(produce_capture, broker, capture, PACK_SIZE),
            "packed, messages prepared": functools.partial(time_bare, broker, "send_with_headers", ready),
        },
    )


@pytest.mark.parametrize("way", ["packed, from datagrams", "packed, messages prepared"])
def test_produce_packed(benchmark: Any, broker: Broker, folder: Path, way: str) -> None:
    """Produce packed Kafka records."""
    replay(benchmark, time_packed(broker, folder)[way])
    record(benchmark, DATASET, way, FLOWS)


@functools.cache
def time_single(broker: Broker, folder: Path) -> dict[str, list[Seconds]]:
    capture = write_capture(folder, SINGLE_FLOWS)
    ready = _core.split_messages(decode(capture), b"")
    return take_turns(
        broker,
        {
            "single, from datagrams": functools.partial(produce_capture, broker, capture, "flow"),
            "single, produce": functools.partial(time_bare, broker, "send", ready),
            "single, produce_batch": functools.partial(time_bare, broker, "send_batches", ready),
        },
    )


@pytest.mark.parametrize("way", ["single, from datagrams", "single, produce", "single, produce_batch"])
def test_produce_single(benchmark: Any, broker: Broker, folder: Path, way: str) -> None:
    """Produce Kafka records of one flow each."""
    replay(benchmark, time_single(broker, folder)[way])
    record(benchmark, DATASET, way, SINGLE_FLOWS)


# Consuming --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def topics(broker: Broker, folder: Path) -> dict[str, str]:
    """Return topics with flows, packed and single."""
    made = {"packed": broker.make_topic(), "single": broker.make_topic()}
    produce_capture(broker, write_capture(folder, FLOWS), PACK_SIZE, made["packed"])
    produce_capture(broker, write_capture(folder, SINGLE_FLOWS), "flow", made["single"])
    return made


def consume_columns(broker: Broker, topic: str, flows: int) -> Seconds:
    begin = time.perf_counter()
    with KafkaSource(broker.servers, [topic], until_end=True, schema=Schema.load()) as source:
        count = sum(len(batch) for batch in source if batch)
        seconds = time.perf_counter() - begin
    assert count == flows
    return seconds


def consume_values(broker: Broker, topic: str, size: int) -> Seconds:
    """Consume the values of a topic with confluent-kafka and discard them. Return the seconds."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    begin = time.perf_counter()
    settings = {"bootstrap.servers": broker.servers, "group.id": "bare", "fetch.queue.backoff.ms": 10}
    consumer = Consumer({**settings, "enable.auto.commit": False, "queued.min.messages": 1_000_000})
    consumer.list_topics(topic)  # otherwise the first offset is known half a second later
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    left = size
    while left > 0:
        left -= sum(len(message.value()) for message in consumer.consume(1000, 0.1))
    seconds = time.perf_counter() - begin
    consumer.close()
    return seconds


@functools.cache
def time_consuming(broker: Broker, topic: str, flows: int) -> dict[str, list[Seconds]]:
    size = sum(map(len, broker.values(topic)))
    times: dict[str, list[Seconds]] = {"to columns": [], "values only": []}
    for turn in range(ROUNDS + 1):
        pair = consume_columns(broker, topic, flows), consume_values(broker, topic, size)
        if turn:
            for way, seconds in zip(times, pair, strict=True):
                times[way].append(seconds)
    return times


@pytest.mark.parametrize("way", ["to columns", "values only"])
@pytest.mark.parametrize(("packing", "flows"), [("packed", FLOWS), ("single", SINGLE_FLOWS)])
def test_consume(
    benchmark: Any, broker: Broker, topics: dict[str, str], packing: str, flows: int, way: str
) -> None:
    """Consume Kafka records into columns, beside their values only."""
    replay(benchmark, time_consuming(broker, topics[packing], flows)[way])
    record(benchmark, DATASET, f"{packing}, {way}", flows)


# Into ClickHouse --------------------------------------------------------------------------------------------

CLICKHOUSE_ROUNDS = 3


def read_by_clickhouse(broker: Broker, topic: str, framing: str, flows: int) -> Seconds:
    """Return the seconds from the creation of the view, which starts reading, to the last stored flow."""
    from flowbuf.clickhouse import KafkaOptions, Local, TableOptions, to_ddl

    group = uuid.uuid4().hex  # a new group starts at the beginning of the topic
    kafka = KafkaOptions(broker.servers, topic, group, framing, settings={"kafka_flush_interval_ms": "500"})
    with tempfile.TemporaryDirectory() as folder, Local(f"{folder}/clickhouse") as database:
        *tables, view = to_ddl(Schema.load(), TableOptions(kafka=kafka))
        database.run(tables)
        begin = time.perf_counter()
        database.run([view])
        while (found := database.query("SELECT count() AS flows FROM flows")["flows"][0].as_py()) < flows:
            time.sleep(0.05)
        seconds = time.perf_counter() - begin
    assert found == flows
    return seconds


@functools.cache
def time_clickhouse(broker: Broker, folder: Path) -> dict[str, list[Seconds]]:
    """Return the times for the same flows, packed and single."""
    pytest.importorskip("chdb", reason="chdb is not installed: pip install --group chdb")
    packings = {"packed": (PACK_SIZE, "delimited"), "single": ("flow", "bare")}
    topics = {}
    for name, (pack, _) in packings.items():
        topics[name] = broker.make_topic()
        produce_capture(broker, write_capture(folder, SINGLE_FLOWS), pack, topics[name])
    times: dict[str, list[Seconds]] = {name: [] for name in packings}
    for _ in range(CLICKHOUSE_ROUNDS):
        for name, (_, framing) in packings.items():
            times[name].append(read_by_clickhouse(broker, topics[name], framing, SINGLE_FLOWS))
    return times


@pytest.mark.parametrize("packing", ["packed", "single"])
def test_clickhouse_reads(benchmark: Any, broker: Broker, folder: Path, packing: str) -> None:
    """Read Kafka records into a table with ClickHouse's engine, packed and single."""
    replay(benchmark, time_clickhouse(broker, folder)[packing])
    record(benchmark, DATASET, f"{packing}, into ClickHouse", SINGLE_FLOWS)
