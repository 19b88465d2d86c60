"""`flowbuf consume` reads flows from a real broker, with every source of schemas, into every output."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet
import pytest
from confluent_kafka.schema_registry import Schema as RegisteredSchema
from confluent_kafka.schema_registry import SchemaRegistryClient

from flowbuf import Schema, _core
from tests.support.broker import PATIENCE, Broker, MakeTopic
from tests.support.cases import slow
from tests.support.command import flowbuf, generated, json_lines, write
from tests.support.consuming import committed, consume, in_order, notes, produce

FLOWS = 500
# The client of the registry leaves its connections to the garbage collector.
CLIENT_STAYS_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
COLUMNS = ("--columns", "src_addr,src_port,bytes")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("netflow9", FLOWS))


# Schemas ----------------------------------------------------------------------------------------------------


@pytest.mark.everyday
@pytest.mark.parametrize("packing", ["65536", *slow("datagram", "flow")])
def test_produced_flows_are_consumed_unchanged(broker: Broker, capture: Path, packing: str) -> None:
    enabled = ("--enable", "src_mac,flow_end_reason")
    topic = produce(
        broker, capture, f"back-{packing}-{{hash}}", "--partitions", 2, "--pack", packing, *enabled
    )
    result = consume(broker, topic, "-f", "jsonl")
    assert (result.exit_code, notes(result)) == (0, [])
    expected = flowbuf("read", capture, "-f", "jsonl", *enabled)
    assert len(json_lines(expected)) == FLOWS
    assert in_order(json_lines(result)) == in_order(json_lines(expected))


@pytest.mark.parametrize("preset", ["goflow2", "akvorado"])
@pytest.mark.parametrize("packing", ["65536", "flow"])
def test_messages_of_presets_are_consumed(
    broker: Broker, topic: str, capture: Path, preset: str, packing: str
) -> None:
    produce(broker, capture, topic, "--schema", preset, "--pack", packing)
    result = consume(broker, topic, "-f", "jsonl", *(("--schema", preset) if packing == "flow" else ()))
    assert (result.exit_code, notes(result)) == (0, [])
    expected = flowbuf("read", capture, "-f", "jsonl", "--schema", preset)
    assert in_order(json_lines(result)) == in_order(json_lines(expected))


def test_counters_are_consumed(broker: Broker, topic: str, tmp_path: Path) -> None:
    capture = write(tmp_path / "sflow.pcap", generated("sflow", FLOWS))
    expected = flowbuf("read", capture, "-f", "jsonl", "--schema", "sflow_counters")
    assert expected.stdout
    produce(broker, capture, topic, "--schema", "sflow_counters")
    assert in_order(json_lines(consume(broker, topic, "-f", "jsonl"))) == in_order(json_lines(expected))


def test_several_topics_are_consumed(broker: Broker, make_topic: MakeTopic, capture: Path) -> None:
    one, other = make_topic(partitions=3), make_topic()
    produce(broker, capture, one, "--pack", "1000")
    produce(broker, capture, other, "--schema", "akvorado")
    result = consume(broker, one, "--topic", other, "-f", "jsonl")
    assert result.exit_code == 0, result.stderr
    flows = json_lines(result)
    assert (sum("bytes" in flow for flow in flows), sum("Bytes" in flow for flow in flows)) == (FLOWS, FLOWS)


@pytest.fixture(scope="module")
def own_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a schema with columns that no other schema has."""
    path = tmp_path_factory.mktemp("schema") / "own.toml"
    path.write_text("""
        [schema]
        name = "own"
        extends = "flow"
        [[column]]
        name = "reason"
        number = 1001
        type = "enum"
        values = { none = 0, idle = 1, active = 2 }
        enabled = true
        sources = ["ipfix:flowEndReason"]
        [[column]]
        name = "next"
        number = 1002
        type = "ip"
        enabled = true
        sources = ["ipfix:ipNextHopIPv4Address"]
    """)
    return path


@pytest.fixture(scope="module")
def rich_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "rich.pcap", generated("ipfix", FLOWS))


def test_custom_columns_are_consumed(
    broker: Broker, topic: str, rich_capture: Path, own_schema: Path
) -> None:
    produce(broker, rich_capture, topic, "--schema", own_schema)
    expected = flowbuf("read", rich_capture, "-f", "jsonl", "--schema", own_schema)
    assert any("next" in flow or "reason" in flow for flow in json_lines(expected))
    assert in_order(json_lines(consume(broker, topic, "-f", "jsonl"))) == in_order(json_lines(expected))


@CLIENT_STAYS_OPEN
@pytest.mark.parametrize(
    "enabled", [(), ("--enable", "src_mac,flow_end_reason,time_flow_start,next_hop,dst_as_path")]
)
def test_schemas_come_from_a_registry(
    broker: Broker, registry: str, topic: str, rich_capture: Path, enabled: tuple[str, ...]
) -> None:
    produce(broker, rich_capture, topic, "--schema-registry", registry, *enabled)
    result = consume(broker, topic, "-f", "jsonl", "--schema-registry", registry)
    assert (result.exit_code, notes(result)) == (0, [])
    expected = flowbuf("read", rich_capture, "-f", "jsonl", *enabled)
    assert in_order(json_lines(result)) == in_order(json_lines(expected))


@CLIENT_STAYS_OPEN
def test_a_registry_without_a_schema_supplies_the_types(
    broker: Broker, registry: str, topic: str, rich_capture: Path, own_schema: Path
) -> None:
    produce(broker, rich_capture, topic, "--schema-registry", registry, "--schema", own_schema)
    found = json_lines(consume(broker, topic, "-f", "jsonl", "--schema-registry", registry))
    both = ("--schema-registry", registry, "--schema", own_schema)
    expected = in_order(json_lines(flowbuf("read", rich_capture, "-f", "jsonl", "--schema", own_schema)))
    assert in_order(json_lines(consume(broker, topic, "-f", "jsonl", *both))) == expected
    assert len(found) == FLOWS
    assert sorted(flow["bytes"] for flow in found) == sorted(json.loads(flow)["bytes"] for flow in expected)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            (),
            "schema topic 'flowbuf-schemas' has no schema {hash}; "
            "name the schema that wrote the Kafka records with --schema",
        ),
        (("--schema-topic", "no-such-topic"), "schema topic 'no-such-topic' has no schema {hash}"),
        (("--schema-topic", "none"), "schema {hash} is unknown"),
    ],
)
def test_an_unknown_schema_is_an_error(
    broker: Broker,
    topic: str,
    capture: Path,
    group: str,
    tmp_path: Path,
    options: tuple[str, ...],
    problem: str,
) -> None:
    columns = ("--columns", "src_port,bytes,in_if")
    broker.produce("flowbuf-schemas", [b"{}"], key="0" * 16) if "flowbuf-schemas" in broker.admin.list_topics(
        timeout=PATIENCE
    ).topics else broker.make_topic("flowbuf-schemas")
    produce(broker, capture, topic, *columns, "--schema-topic", "none")
    hash = Schema.load("flow").only("src_port", "bytes", "in_if").hash
    result = consume(broker, topic, "--group", group, "-o", tmp_path / "out.jsonl", *options)
    assert result.exit_code == 1
    assert problem.format(hash=hash) in result.stderr
    assert committed(broker, group, topic) == 0
    assert list(tmp_path.iterdir()) == []


def test_schema_topics_may_have_several_partitions(
    broker: Broker, topic: str, make_topic: MakeTopic, capture: Path
) -> None:
    described = make_topic(partitions=5)
    for name in ("bytes", "packets", "src_port"):  # their hashes select several partitions
        produce(broker, capture, topic, "--columns", name, "--schema-topic", described)
    assert len({record.partition() for record in broker.read(described)}) > 1
    result = consume(broker, topic, "--schema-topic", described, "-f", "jsonl")
    assert (result.exit_code, notes(result)) == (0, [])
    assert len(json_lines(result)) == 3 * FLOWS


def test_a_description_of_another_schema_is_an_error(
    broker: Broker, topic: str, make_topic: MakeTopic
) -> None:
    from flowbuf.kafka.schema_registry import describe_schema

    described, hash = make_topic(), "0123456789abcdef"
    broker.produce(described, [describe_schema(Schema.load("flow"))], key=hash)
    broker.produce(topic, [b"\0"], headers={"flowbuf-schema": hash, "flowbuf-framing": "delimited"})
    result = consume(broker, topic, "--schema-topic", described)
    assert result.exit_code == 1
    assert f"{described}/{hash}" in result.stderr


def test_kafka_records_without_a_schema_are_an_error(
    broker: Broker, topic: str, capture: Path, group: str
) -> None:
    produce(broker, capture, topic, "--pack", "flow")
    result = consume(broker, topic, "--group", group, "-f", "jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"topic {topic!r}: the schema is unknown" in result.stderr
    assert committed(broker, group, topic) == 0


# Changing schemas -------------------------------------------------------------------------------------------


@pytest.fixture
def changing(broker: Broker, topic: str, capture: Path) -> str:
    produce(broker, capture, topic, *COLUMNS, "--pack", "1000")
    produce(broker, capture, topic, "--pack", "1000", "--columns", "src_addr,src_port,bytes,packets")
    return topic


@pytest.mark.parametrize("to_file", [False, True])
def test_json_lines_continue_with_other_columns(
    broker: Broker, changing: str, tmp_path: Path, to_file: bool
) -> None:
    out = tmp_path / "flows.jsonl"
    result = consume(broker, changing, "-o", out if to_file else "-")
    assert (result.exit_code, notes(result)) == (0, [])
    lines = (out.read_text() if to_file else result.stdout).splitlines()
    assert ["packets" in json.loads(line) for line in lines] == [False] * FLOWS + [True] * FLOWS


def test_a_folder_has_files_of_both_schemas(broker: Broker, changing: str, tmp_path: Path) -> None:
    assert consume(broker, changing, "-o", f"{tmp_path}/").exit_code == 0
    tables = [pyarrow.parquet.read_table(file) for file in sorted(tmp_path.glob("*.parquet"))]
    assert [(table.num_rows, "packets" in table.column_names) for table in tables] == [
        (FLOWS, False),
        (FLOWS, True),
    ]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_file_ends_before_another_schema(
    broker: Broker, changing: str, tmp_path: Path, group: str, form: str
) -> None:
    out = tmp_path / f"flows.{form}"
    result = consume(broker, changing, "-o", out, "--group", group)
    assert result.exit_code == 1
    assert "the flows before it are stored; continue with another file, or a folder" in result.stderr
    rows = (
        pyarrow.parquet.read_table(out).num_rows
        if form == "parquet"
        else len(out.read_text().splitlines()) - 1
    )
    assert rows == FLOWS
    again = consume(broker, changing, "--group", group, "-f", "jsonl")
    assert ["packets" in flow for flow in json_lines(again)] == [True] * FLOWS


# Unreadable Kafka records -----------------------------------------------------------------------------------


@pytest.fixture
def poisoned(broker: Broker, topic: str, capture: Path) -> tuple[str, dict[int, tuple[bytes | None, str]]]:
    """Return a topic with valid and invalid Kafka records, and the invalid ones by offset, with reasons."""
    produce(broker, capture, topic, "--pack", "5000")
    values = broker.values(topic)
    headers = dict(broker.read(topic)[0].headers() or ())
    good = values[0]
    bad = {
        good[:-1]: "the message is cut short",
        good + good[:2]: "the message is cut short",
        b"\x02\x18\xff": "malformed field",
        b"\x05\x25abcd": "another wire type",
        b"\xff" * 20: "byte 0: ",
    }
    expected: dict[int, tuple[bytes | None, str]] = {}
    for value, reason in bad.items():
        offset = len(broker.values(topic))
        broker.produce(topic, [value, good], headers=headers, key="k")
        expected[offset] = value, reason
    offset = len(broker.values(topic))
    send_tombstone(broker, topic)
    broker.produce(topic, [b"who knows"])
    broker.produce(topic, [good], headers=headers)
    expected[offset] = None, "the Kafka record has no value"
    expected[offset + 1] = b"who knows", "the schema is unknown"
    return topic, expected


def send_tombstone(broker: Broker, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.servers})
    producer.produce(topic, None, "k")
    assert producer.flush(PATIENCE) == 0


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "folder"])
def test_unreadable_records_are_copied_and_the_others_are_read(
    broker: Broker,
    make_topic: MakeTopic,
    poisoned: tuple[str, dict[int, tuple[bytes | None, str]]],
    group: str,
    tmp_path: Path,
    kind: str,
) -> None:
    topic, expected = poisoned
    letters = make_topic()
    records = broker.read(topic)
    good = [record.value() for record in records if record.offset() not in expected]
    flows = sum(_core.count_messages(value) for value in good)
    out = {"jsonl": tmp_path / "o.jsonl", "parquet": tmp_path / "o.parquet", "folder": f"{tmp_path}/folder/"}[
        kind
    ]
    result = consume(broker, topic, "--group", group, "--dead-letter", letters, "-o", out)
    assert result.exit_code == 1
    lines = notes(result)
    assert len(lines) == len(expected)
    totals = f"{flows:,} flows from {len(records):,} Kafka records"
    assert result.stderr.endswith(
        f"flowbuf: {totals}; {len(expected)} of the Kafka records cannot be decoded\n"
    )
    for line, (offset, (_, reason)) in zip(lines, expected.items(), strict=True):
        assert line.startswith(f"flowbuf: {topic}, partition 0, offset {offset}: ")
        assert reason in line
    if kind == "jsonl":
        assert len(Path(out).read_text().splitlines()) == flows
    else:
        assert pyarrow.dataset.dataset(str(out)).count_rows() == flows
    assert committed(broker, group, topic) == len(records)
    copies = broker.read(letters)
    assert [copy.value() for copy in copies] == [value for value, _ in expected.values()]
    for copy, offset in zip(copies, expected, strict=True):
        headers = dict(copy.headers() or ())
        assert (headers["flowbuf-topic"], headers["flowbuf-partition"]) == (topic.encode(), b"0")
        assert headers["flowbuf-offset"] == str(offset).encode()
        assert copy.key() == records[offset].key()
        assert expected[offset][1] in headers["flowbuf-error"].decode()
        assert dict(records[offset].headers() or ()).items() <= headers.items()


def test_unreadable_records_before_another_framing_are_copied_and_reported(
    broker: Broker, make_topic: MakeTopic, topic: str, capture: Path, group: str
) -> None:
    """The unreadable Kafka records are alone in their batch, which has no flows."""
    produce(broker, capture, topic, "--pack", "5000")
    good = broker.read(topic)[0]
    headers = dict(good.headers() or ())
    letters, begin = make_topic(), len(broker.values(topic))
    broker.produce(topic, [b"\xff" * 20], headers={**headers, "flowbuf-framing": "bare"})
    broker.produce(topic, [good.value() or b""], headers=headers)
    result = consume(broker, topic, "--group", group, "--dead-letter", letters, "-f", "jsonl")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"flowbuf: {topic}, partition 0, offset {begin}: ")
    assert broker.values(letters) == [b"\xff" * 20]
    assert committed(broker, group, topic) == begin + 2


def test_reports_of_many_unreadable_records_are_limited(broker: Broker, make_topic: MakeTopic) -> None:
    hash = Schema.load("flow").hash
    topic, letters = make_topic(f"flood-{uuid.uuid4().hex[:5]}-{hash}"), make_topic()
    broker.produce(topic, [b"\x05abcd"] * 3000)
    result = consume(broker, topic, "--dead-letter", letters, "-f", "jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    lines = notes(result)
    assert len(lines) == 22
    assert lines[-2:] == [
        "flowbuf: no Kafka record can be decoded; check --schema and --framing",
        "flowbuf: 2980 more Kafka records cannot be decoded",
    ]
    assert len(broker.values(letters)) == 3000


def test_the_dead_letter_topic_cannot_be_an_input(broker: Broker, topic: str) -> None:
    result = consume(broker, topic, "--dead-letter", topic)
    assert result.exit_code == 2
    assert "choose another dead-letter topic" in result.stderr


@CLIENT_STAYS_OPEN
def test_foreign_records_in_a_registry_topic_are_reported(
    broker: Broker, registry: str, topic: str, capture: Path, tmp_path: Path
) -> None:
    broker.produce(topic, [b"{}"])
    produce(broker, capture, topic, "--schema-registry", registry)
    prefix = broker.values(topic)[1][:5]
    with SchemaRegistryClient({"url": registry}) as client:
        avro = client.register_schema(f"{topic}-avro", RegisteredSchema('"string"', "AVRO"))
    foreign = [b"", prefix + b"\x04abc", b"\0" + avro.to_bytes(4, "big") + b"\0\x04abc"]
    broker.produce(topic, [*foreign, broker.values(topic)[1]])
    out = tmp_path / "flows.parquet"
    result = consume(broker, topic, "--schema-registry", registry, "-o", out)
    assert result.exit_code == 1
    assert pyarrow.parquet.read_metadata(out).num_rows == FLOWS + 1
    assert notes(result) == [
        f"flowbuf: {topic}, partition 0, offset {offset}: {reason}"
        for offset, reason in (
            (0, "the value is not in the wire format of a schema registry"),
            (FLOWS + 1, "the value is not in the wire format of a schema registry"),
            (FLOWS + 2, "the value is not the first message type of its .proto"),
            (FLOWS + 3, f"schema {avro} of the registry is AVRO, not PROTOBUF"),
        )
    ]


# Outputs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["jsonl", "csv", "table", "parquet", "arrow"])
def test_every_format_has_all_flows(
    broker: Broker, topic: str, capture: Path, tmp_path: Path, form: str
) -> None:
    produce(broker, capture, topic, "--pack", "1000")
    out = tmp_path / "flows"
    assert consume(broker, topic, "-f", form, "-o", out).exit_code == 0
    result = consume(broker, topic, "-f", form)
    assert result.exit_code == 0
    if form == "parquet":
        assert pyarrow.parquet.read_table(out).num_rows == FLOWS
    elif form == "arrow":
        assert pyarrow.ipc.open_file(out).read_all().num_rows == FLOWS
        assert pyarrow.ipc.open_stream(result.stdout_bytes).read_all().num_rows == FLOWS
    else:
        assert out.read_bytes() == result.stdout_bytes
        assert len(result.stdout.splitlines()) >= FLOWS + (form != "jsonl")


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "folder"])
@pytest.mark.parametrize("limit", [1, 123, FLOWS])
def test_a_limit_commits_only_complete_batches(
    broker: Broker, make_topic: MakeTopic, capture: Path, group: str, tmp_path: Path, kind: str, limit: int
) -> None:
    topic = make_topic(partitions=3)
    produce(broker, capture, topic, "--pack", "1000")
    produce(broker, capture, topic, "--pack", "1000")
    out = {"jsonl": tmp_path / "o.jsonl", "parquet": tmp_path / "o.parquet", "folder": f"{tmp_path}/folder/"}[
        kind
    ]
    result = consume(broker, topic, "-n", limit, "--group", group, "-o", out)
    assert (result.exit_code, notes(result)) == (0, [])
    if kind == "jsonl":
        assert len(Path(out).read_text().splitlines()) == limit
    else:
        assert pyarrow.dataset.dataset(str(out)).count_rows() == limit
    counts = [_core.count_messages(value) for value in broker.values(topic)]
    assert committed(broker, group, topic) * min(counts[:-1]) <= limit
    rest = json_lines(consume(broker, topic, "--group", group, "-f", "jsonl"))
    assert len(rest) >= 2 * FLOWS - limit
