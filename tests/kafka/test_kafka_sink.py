"""KafkaSink delivers every message once to a real broker, with the chosen packs, keys and descriptions."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import flowbuf
from flowbuf import _core
from flowbuf.io.capture import CaptureReader
from flowbuf.kafka.schema_registry import read_description
from flowbuf.kafka.sink import KafkaSink
from tests.support.broker import Broker, MakeTopic
from tests.support.command import flowbuf as run
from tests.support.command import generated, write
from tests.support.producing import decode

FLOWS = 3000


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("ipfix", FLOWS, exporters=3))


def send(capture: Path, sink: KafkaSink, *, each: bool = False) -> flowbuf.ProduceReport:
    decoder = flowbuf.Decoder(sink.schema)
    with sink, CaptureReader(capture) as reader:
        for batch in reader:
            if each:
                for exporter, messages in decoder.encode_each(batch):
                    sink.write(messages, exporter)
            else:
                with decoder.view_datagrams(batch) as view:
                    sink.write(view)
    return sink.report


def test_packs_have_the_given_size(broker: Broker, topic: str, capture: Path) -> None:
    report = send(capture, KafkaSink(broker.servers, topic, pack=10_000))
    messages = decode(capture)
    values = broker.values(topic)
    assert b"".join(values) == messages
    assert all(9_000 < len(value) <= 10_000 for value in values[:-1])
    assert (report.flows, report.records, report.bytes) == (FLOWS, len(values), len(messages))
    assert (report.delivered, report.delivered_flows, report.failed) == (len(values), FLOWS, 0)


def test_kafka_records_name_their_schema(broker: Broker, topic: str, capture: Path) -> None:
    schema = flowbuf.Schema.load("flow").enable("src_mac")
    send(capture, KafkaSink(broker.servers, topic, schema))
    (headers,) = {tuple(record.headers() or ()) for record in broker.read(topic)}
    assert headers == (("flowbuf-schema", schema.hash.encode()), ("flowbuf-framing", b"delimited"))
    described = {record.key(): record.value() for record in broker.read("flowbuf-schemas")}[
        schema.hash.encode()
    ]
    assert read_description(described).hash == schema.hash
    assert json.loads(described)["proto"] == schema.to_proto()


def test_single_flows_are_bare(broker: Broker, topic: str, capture: Path) -> None:
    report = send(capture, KafkaSink(broker.servers, topic, pack="flow"))
    assert broker.values(topic) == _core.split_messages(decode(capture), b"")
    assert report.records == report.flows == FLOWS


def test_built_in_schemas_keep_their_framing(broker: Broker, topic: str, capture: Path) -> None:
    send(capture, KafkaSink(broker.servers, topic, "goflow2", pack="flow"))
    assert broker.values(topic) == _core.split_messages(decode(capture, "goflow2"))


def test_a_datagram_can_be_one_kafka_record(broker: Broker, topic: str, capture: Path) -> None:
    report = send(capture, KafkaSink(broker.servers, topic, pack="datagram"), each=True)
    decoder = flowbuf.Decoder()
    with CaptureReader(capture) as reader:
        pieces = [messages for batch in reader for _, messages in decoder.encode_each(batch)]
    assert broker.values(topic) == pieces
    assert report.records == len(pieces)


def test_an_exporter_stays_in_its_partition(broker: Broker, make_topic: MakeTopic, capture: Path) -> None:
    topic = make_topic(partitions=4)
    send(capture, KafkaSink(broker.servers, topic, key="exporter", pack=5_000), each=True)
    Flow = flowbuf.Schema.load("flow").message_class()
    partitions: dict[bytes, set[int]] = {}
    for record in broker.read(topic):
        exporters = {
            _core.format_ip(Flow.FromString(one).exporter_address)
            for one in _core.split_messages(record.value(), b"")
        }
        assert exporters == {record.key().decode()}
        partitions.setdefault(record.key(), set()).add(record.partition())
    assert len(partitions) == 3
    assert all(len(each) == 1 for each in partitions.values())


def test_a_flow_is_keyed_by_its_conversation(broker: Broker, topic: str, capture: Path) -> None:
    send(capture, KafkaSink(broker.servers, topic, "akvorado", pack="flow", key="flow"))
    messages = decode(capture, "akvorado")
    schema = flowbuf.Schema.load("akvorado")
    numbers = {
        name: schema[column].number
        for name, column in {
            "src_addr": "SrcAddr",
            "dst_addr": "DstAddr",
            "src_port": "SrcPort",
            "dst_port": "DstPort",
            "proto": "Proto",
        }.items()
    }
    assert [record.key() for record in broker.read(topic)] == _core.hash_conversations(messages, **numbers)


def test_the_topic_is_created_and_named_after_the_schema(broker: Broker, capture: Path) -> None:
    schema = flowbuf.Schema.load("flow").only("bytes", "src_addr")
    sink = KafkaSink(broker.servers, "made-{name}-{hash}", schema, partitions=2)
    send(capture, sink)
    assert sink.topic == f"made-flow-{schema.hash}"
    assert len(broker.leaders(sink.topic)) == 2
    assert b"".join(broker.values(sink.topic)) != b""
    reported: list[str] = []
    KafkaSink(broker.servers, sink.topic, schema, partitions=2, on_problem=reported.append).close()
    assert reported == []
    KafkaSink(broker.servers, sink.topic, schema, partitions=3, on_problem=reported.append).close()
    assert reported == [f"topic {sink.topic!r} exists already, with 2 partitions instead of 3"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"pack": "most"}, "pack is 'most'"),
        ({"pack": 0}, "pack is 0"),
        ({"framing": "bare"}, "one flow per Kafka record"),
        ({"key": "flow"}, "one flow per Kafka record"),
        ({"key": "colour"}, "key is 'colour'"),
        ({"compression": "best"}, "compression is 'best'"),
        ({"schema_topic": "never-asked"}, "is the topic of the messages"),
        (
            {"pack": "flow", "key": "flow", "schema": flowbuf.Schema.load("flow").only("bytes")},
            "enable src_addr",
        ),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        KafkaSink("192.0.2.1:9092", "never-asked", **options)


def test_polling_reads_all_statistics(broker: Broker, topic: str) -> None:
    """librdkafka keeps statistics until they are read, and adds new ones even while nothing is sent."""
    read: list[str] = []
    settings = {"stats_cb": read.append, "statistics.interval.ms": 100}
    with KafkaSink(broker.servers, topic, settings=settings) as sink:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            sink.poll()
            time.sleep(0.01)
        assert len(read) >= 10
        before = len(read)
        sink.flush()
        assert len(read) - before <= 3


def test_the_command_prints_counters(broker: Broker, topic: str, capture: Path) -> None:
    result = run("produce", capture, "--kafka", broker.servers, "--topic", topic, "--key", "exporter")
    assert result.exit_code == 0, result.stderr
    counts = dict(pair.split("=") for pair in result.stdout.split())
    assert counts == {
        "topic": topic,
        "flows": str(FLOWS),
        "records": str(len(broker.values(topic))),
        "bytes": str(len(decode(capture))),
        "delivered": counts["records"],
        "failed": "0",
        "retried": "0",
    }
    assert result.stderr == ""
