"""Settings reach librdkafka, secrets are never printed, and packs wait for a limited time."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from flowbuf import _core
from flowbuf.cli.kafka_options import KafkaOptions
from flowbuf.errors import KafkaError
from flowbuf.kafka import packs
from flowbuf.kafka.schema_registry import SchemaRegistry
from flowbuf.kafka.sink import KafkaSink
from tests.support.broker import Broker, MakeTopic
from tests.support.command import flowbuf as run
from tests.support.command import generated, write
from tests.support.producing import decode

FLOWS = 3000
SECRET = "hunter2-of-nobody"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("ipfix", FLOWS, exporters=3))


def codec(broker: Broker, topic: str) -> int:
    """Return the compression codec of the first batch that the broker stored: 0 none, 3 lz4, 4 zstd."""
    (log,) = (broker.service.folder / "data" / f"{topic}-0").glob("*.log")
    return int.from_bytes(log.read_bytes()[21:23], "big") & 7


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], 0),
        (["--compression", "lz4"], 3),
        (["-X", "compression.type=zstd"], 4),
        (["--compression", "lz4", "-X", "compression.type=zstd"], 4),
    ],
)
def test_compression_can_be_chosen(
    broker: Broker, topic: str, capture: Path, options: list[str], expected: int
) -> None:
    result = run("produce", capture, "--kafka", broker.servers, "--topic", topic, *options)
    assert result.exit_code == 0, result.stderr
    assert codec(broker, topic) == expected
    assert b"".join(broker.values(topic)) == decode(capture)


def test_settings_reach_the_client(broker: Broker, topic: str, capture: Path) -> None:
    def produce(*pairs: str) -> tuple[int, str]:
        options = [word for pair in pairs for word in ("-X", pair)]
        result = run("produce", capture, "--kafka", broker.servers, "--topic", topic, *options)
        return result.exit_code, result.stderr

    status, error = produce("acks=1")
    assert status == 1
    assert "`acks` must be set to `all` when `enable.idempotence` is true" in error
    assert produce("acks=1", "enable.idempotence=false", "client.id=somebody", "linger.ms=1") == (0, "")
    assert produce("delivery.report.only.error=false", "statistics.interval.ms=0") == (0, "")
    status, error = produce("linger.ms=soon")
    assert status == 1
    assert "queue.buffering.max.ms" in error  # librdkafka's name of linger.ms
    assert produce("no.such=1")[1].startswith("flowbuf: client settings are invalid: ")
    status, error = produce("transactional.id=mine")
    assert status == 1
    assert error.count("\n") == 1
    assert b"".join(broker.values(topic)) == decode(capture) * 2


def test_secrets_are_never_printed(
    broker: Broker, topic: str, capture: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.password={SECRET}\n")
    registry = f"http://somebody:{SECRET}@127.0.0.1:1"
    options = ["--kafka-config", config, "-X", "sasl.username=somebody", "-X", f"ssl.key.password={SECRET}"]
    options += ["--schema-registry", registry, "--timeout", 3, "-X", "debug=security"]
    begun = time.monotonic()
    result = run("produce", capture, "--kafka", broker.servers, "--topic", topic, *options)
    assert result.exit_code == 1
    assert time.monotonic() - begun < 15
    assert f"{broker.servers}: no broker answered in 3 s: " in result.stderr
    assert SECRET not in result.output + result.stderr + caplog.text + repr(result.exception)
    kafka_options = KafkaOptions(
        broker.servers, {"sasl.password": SECRET}, registry, {"basic.auth.user.info": f"a:{SECRET}"}
    )
    assert SECRET not in repr(kafka_options)
    with pytest.raises(KafkaError) as raised:
        SchemaRegistry(registry, {"max.retries": "0", "no.such": SECRET})
    assert (
        SECRET not in str(raised.getrepr(style="long", chain=True)).replace(f'"{SECRET}', "").split("E  ")[-1]
    )
    assert SECRET not in str(raised.value)
    assert SECRET not in run("produce", "--help").output


def test_packs_are_sent_after_the_linger_time(broker: Broker, topic: str, capture: Path) -> None:
    (piece, count), *_ = _core.cut_messages(decode(capture), 500, 500)
    sink = KafkaSink(broker.servers, topic, linger=0.5, settings={"linger.ms": "0"})
    sink.write(piece)
    sink.poll()
    assert sink.report.records == 0
    time.sleep(0.6)
    sink.poll()
    assert (sink.report.records, sink.report.flows) == (1, count)
    sink.close()
    sink.close()
    assert broker.values(topic) == [piece]
    with pytest.raises(KafkaError, match="the sink is closed"):
        sink.write(piece)


def test_many_exporters_take_bounded_memory(
    broker: Broker, make_topic: MakeTopic, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "WAITING_BYTES", 100_000)
    topic = make_topic(partitions=2)
    (piece, count), *_ = _core.cut_messages(decode(capture), 300, 300)
    most = 0
    with KafkaSink(broker.servers, topic, key="exporter", linger=60) as sink:
        for number in range(10_000):
            marked = bytes([2, 0x08, number % 100]) + piece
            sink.write(marked, f"exporter-{number % 100}-{number // 100}")
            most = max(most, sink._packs.bytes)
    assert most <= 100_000
    records = broker.read(topic)
    assert len({record.key() for record in records}) == 10_000
    for record in records:
        assert record.value()[2] == int(record.key().split(b"-")[1])
    assert (
        sink.report.flows
        == sum(_core.count_messages(record.value()) for record in records)
        == 10_000 * (count + 1)
    )


def test_packs_hold_at_least_one_flow(broker: Broker, topic: str, capture: Path) -> None:
    messages = decode(capture)
    with KafkaSink(broker.servers, topic, pack=20) as sink:
        for value, _ in _core.cut_messages(messages, 1000, 1000):
            sink.write(value)
    assert broker.values(topic) == _core.split_messages(messages)


def test_empty_messages_are_counted(broker: Broker, topic: str) -> None:
    with KafkaSink(broker.servers, topic, pack="flow") as sink:
        sink.write(b"\0\2\x08\1\0")
    assert broker.values(topic) == [b"", b"\x08\1", b""]
    assert (sink.report.records, sink.report.empty) == (3, 2)
