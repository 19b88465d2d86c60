"""`flowbuf consume` overwrites no committed flows, stores no flow twice, and reports errors at the start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

import flowbuf
from flowbuf.cli.consume_outputs import FolderOutlet, Selections
from flowbuf.cli.output.failure import Failure
from flowbuf.cli.output.report import Report
from flowbuf.errors import PartitionLost
from flowbuf.kafka.consumer import SourceBatch
from tests.support.broker import Broker
from tests.support.command import flowbuf as run
from tests.support.command import generated, write
from tests.support.consuming import consume, ports, ports_of, produce, read_ports

FLOWS = 600


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("netflow9", FLOWS))


def test_files_of_a_group_are_not_overwritten(
    broker: Broker, topic: str, capture: Path, group: str, tmp_path: Path
) -> None:
    produce(broker, capture, topic)
    output = tmp_path / "flows.parquet"
    assert consume(broker, topic, "--group", group, "-o", output).exit_code == 0
    produce(broker, capture, topic)
    refused = consume(broker, topic, "--group", group, "-o", output)
    assert refused.exit_code == 2
    assert "exists already, and a group does not read stored flows again" in refused.stderr
    assert read_ports(output) == ports_in_order(capture)
    other = tmp_path / "more.parquet"
    assert consume(broker, topic, "--group", group, "-o", other).exit_code == 0
    assert read_ports(other) == ports_in_order(capture)
    assert consume(broker, topic, "-o", output).exit_code == 0  # without a group, the whole topic is read
    assert len(read_ports(output)) == 2 * FLOWS


def ports_in_order(capture: Path) -> list[int]:
    found: list[int] = flowbuf.read_capture(capture).to_arrow()["src_port"].to_pylist()
    return found


def test_folders_store_no_kafka_record_twice(
    broker: Broker, topic: str, capture: Path, tmp_path: Path
) -> None:
    produce(broker, capture, topic, "--pack", 5_000)
    folder = tmp_path / "parquet"
    assert consume(broker, topic, "-o", f"{folder}/", "--batch-bytes", 12_000).exit_code == 0
    again = consume(broker, topic, "-o", f"{folder}/", "--batch-bytes", 12_000)  # equal batches, equal files
    assert (again.exit_code, ports(folder)) == (0, ports_of(capture))
    refused = consume(broker, topic, "-o", f"{folder}/")
    assert refused.exit_code == 1
    assert f"of {topic}, partition 0, overlap those of a file, 0 to " in refused.stderr
    assert ports(folder) == ports_of(capture)


def test_a_batch_that_was_not_stored_leaves_no_file(capture: Path, tmp_path: Path) -> None:
    """The partition moves to another member and back. Then the batch ends at another offset."""

    class Source:
        lost = True
        topic_ids: ClassVar[dict[str, str]] = {}

        def promise(self, batch: SourceBatch) -> None:
            if self.lost:
                raise PartitionLost("it is another's")

    flows = list(flowbuf.read_capture(capture))
    source, committed = Source(), []
    everything = Selections(Report(), "binary")
    with FolderOutlet("parquet", f"{tmp_path}", everything, source, committed.append) as outlet:  # type: ignore[arg-type]
        batch = SourceBatch("flows", 0, 0, 100, flowbuf.Schema.load("flow"), flows, ())
        with pytest.raises(PartitionLost):
            outlet.store(batch, None)
        assert list(tmp_path.iterdir()) == []
        source.lost = False
        outlet.store(replace(batch, end=120), None)
        with pytest.raises(
            Failure, match="offsets 0 to 150 of flows, partition 0, overlap those of a file, 0 to 120;"
        ):
            outlet.store(replace(batch, end=150), None)
    assert [(each.first, each.end) for each in committed] == [(0, 120)]
    assert ports(tmp_path) == ports_of(capture)


def test_fields_of_disabled_columns_are_reported(broker: Broker, topic: str, capture: Path) -> None:
    produce(broker, capture, topic, "--pack", "flow", "--enable", "flow_end_reason,time_flow_start")
    result = consume(broker, topic, "--schema", "flow", "-f", "jsonl")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == FLOWS
    assert "fields that are not in the schema, left out: " in result.stderr


def test_a_topic_that_cannot_be_read_suggests_another_schema(
    broker: Broker, topic: str, capture: Path
) -> None:
    produce(broker, capture, topic, "--pack", "flow")
    result = consume(broker, topic, "--schema", "akvorado", "-f", "jsonl")
    assert result.exit_code == 1
    assert "no Kafka record can be decoded; check --schema and --framing" in result.stderr


def test_a_missing_topic_for_dead_letters_is_reported(
    broker: Broker, topic: str, capture: Path, group: str
) -> None:
    produce(broker, capture, topic)
    result = consume(broker, topic, "--group", group, "--dead-letter", "nobody-made-it", "-f", "jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("flowbuf: topic 'nobody-made-it' does not exist; create it")


def test_an_unreachable_clickhouse_is_reported_at_the_start(
    broker: Broker, topic: str, capture: Path, group: str
) -> None:
    """The command checks the server before it reads flows. Only inserts are retried for longer."""
    produce(broker, capture, topic)
    nowhere = ("--clickhouse", "http://127.0.0.1:9", "--timeout", 1)
    result = consume(broker, topic, "--group", group, *nowhere)
    assert result.exit_code == 1
    assert "http://127.0.0.1:9: no answer in 1 s: " in result.stderr


@pytest.mark.parametrize("topic", ["flows-{hash}", "one,other"])
def test_topics_must_be_literal_names(topic: str) -> None:
    result = run("consume", "--kafka", "127.0.0.1:1", "--topic", topic)
    assert result.exit_code == 2
    assert "is not the name of one topic" in result.stderr


def test_unknown_names_in_braces_are_refused(capture: Path) -> None:
    result = run("produce", capture, "--kafka", "127.0.0.1:1", "--topic", "flows-{date}")
    assert result.exit_code == 2
    assert "the only braces it may contain are {hash}, {name}, {rows}" in result.stderr


@pytest.mark.parametrize(
    "option", [("--topic", "x"), ("--group", "g"), ("--consumers", 2), ("-X", "kafka_foo=3")]
)
def test_options_of_the_queue_need_the_kafka_option(option: tuple[object, ...]) -> None:
    result = run("schema", "clickhouse", *option)
    assert result.exit_code == 2
    assert f"{option[0]} needs --kafka HOST:PORT" in result.stderr
