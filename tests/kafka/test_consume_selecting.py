"""`flowbuf consume` selects topics, flows and columns, and `flowbuf produce` sends JSON."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

import flowbuf
from flowbuf import KafkaError
from flowbuf.kafka.consumer import KafkaSource
from flowbuf.kafka.sink import KafkaSink
from tests.support.broker import Broker, MakeTopic
from tests.support.clickhouse.http import ClickHouse
from tests.support.command import flowbuf as run
from tests.support.command import generated, json_lines, write
from tests.support.consuming import committed, consume, consuming, in_order, produce, read_ports, wait

FLOWS = 500
WHERE = ("--where", "dst_port < 1024")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("netflow9", FLOWS))


def expected(capture: Path, *options: str) -> list[str]:
    return in_order(json_lines(run("read", capture, "-f", "jsonl", *options)))


# Flows and columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        WHERE,
        ("--columns", "bytes,src_addr"),
        (*WHERE, "--columns", "src_addr"),
        ("--where", "in_net(src_addr, '10.0.0.0/8') and bytes > 1000", "--columns", "bytes"),
    ],
)
def test_selected_flows_are_those_of_read(
    broker: Broker, topic: str, capture: Path, options: tuple[str, ...]
) -> None:
    produce(broker, capture, topic, "--pack", "2000")
    wanted = expected(capture, *options)
    assert wanted
    result = consume(broker, topic, "-f", "jsonl", *options)
    assert result.exit_code == 0
    assert in_order(json_lines(result)) == wanted
    rest = f"; {FLOWS - len(wanted)} other flows were filtered out" if "--where" in options else ""
    records = len(broker.values(topic))
    assert result.stderr == f"flowbuf: {len(wanted)} flows from {records} Kafka records{rest}\n"


def test_enrichments_fill_columns(broker: Broker, topic: str, capture: Path, tmp_path: Path) -> None:
    config = tmp_path / "enrich.toml"
    config.write_text('[[network]]\nprefix = "0.0.0.0/0"\nname = "everywhere"\n')
    produce(broker, capture, topic)
    options = ("--enrich", str(config))
    wanted = expected(capture, *options)
    assert any("everywhere" in flow for flow in wanted)
    assert in_order(json_lines(consume(broker, topic, "-f", "jsonl", *options))) == wanted


def test_tables_keep_the_order_of_columns(broker: Broker, topic: str, capture: Path) -> None:
    produce(broker, capture, topic)
    shown = consume(broker, topic, "-n", "3", "--columns", "dst_port,bytes,src_addr", "-f", "table").stdout
    (heading,) = [line for line in shown.splitlines() if "bytes" in line and "src_addr" in line]
    assert heading.split() == ["dst_port", "bytes", "src_addr"]


def test_a_folder_has_no_files_without_flows_and_everything_is_committed(
    broker: Broker, topic: str, capture: Path, group: str, tmp_path: Path
) -> None:
    produce(broker, capture, topic, "--pack", "2000")
    folder = f"{tmp_path}/flows/"
    options = ("--group", group, "-o", folder, "--batch-bytes", "1")
    port = json_lines(run("read", capture, "-f", "jsonl", "-n", "1"))[0]["src_port"]
    result = consume(broker, topic, *options, "--where", f"src_port = {port}")
    assert result.exit_code == 0
    files = list(Path(folder).glob("*.parquet"))
    assert 0 < len(files) < len(broker.values(topic))
    assert {value for file in files for value in read_ports(file)} == {port}
    assert committed(broker, group, topic) == len(broker.values(topic))


def test_a_limit_counts_selected_flows(broker: Broker, topic: str, capture: Path, group: str) -> None:
    produce(broker, capture, topic)
    wanted = expected(capture, *WHERE)
    result = consume(broker, topic, "-f", "jsonl", *WHERE, "-n", 3, "--group", group)
    assert len(json_lines(result)) == 3
    assert result.stderr.endswith("; the last batch was cut by -n\n")
    assert committed(broker, group, topic) == 0
    whole = consume(broker, topic, "-f", "jsonl", *WHERE, "-n", len(wanted), "--group", group)
    assert in_order(json_lines(whole)) == wanted
    assert committed(broker, group, topic) == len(broker.values(topic))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--columns", "src_mac"), "the Kafka records have no column 'src_mac'; columns are time_received"),
        (("--columns", "scr_addr"), "no column 'scr_addr'; did you mean src_addr"),
        (("--where", "src_mac = 1"), "the Kafka records have no column 'src_mac'"),
        (("--where", "nope = 1"), "nope"),
        (("--where", "dst_port ="), "--where: "),
        (("--enrich", "none.toml"), "--enrich: "),
    ],
)
def test_selections_that_do_not_fit_are_errors(
    broker: Broker, topic: str, capture: Path, group: str, options: tuple[str, ...], text: str
) -> None:
    produce(broker, capture, topic)
    result = consume(broker, topic, "-f", "jsonl", "--group", group, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr
    assert committed(broker, group, topic) == 0


def test_clickhouse_has_the_selected_flows(
    broker: Broker, topic: str, capture: Path, group: str, front: ClickHouse
) -> None:
    produce(broker, capture, topic)
    table = f"flows_{uuid.uuid4().hex[:8]}"
    front.ask(f"CREATE TABLE {table} (src_addr IPv6, bytes UInt64) ENGINE = MergeTree ORDER BY tuple()")
    options = ("--group", group, "--clickhouse", front.url, "--table", table)
    result = consume(broker, topic, *options, *WHERE, "--columns", "src_addr,bytes")
    assert result.exit_code == 0, result.stderr
    flows = [json.loads(flow) for flow in expected(capture, *WHERE)]
    stored = front.ask(f"SELECT count(), sum(bytes) FROM {table}").split()
    assert list(map(int, stored)) == [len(flows), sum(flow["bytes"] for flow in flows)]


# Topics -----------------------------------------------------------------------------------------------------


def test_a_pattern_reads_all_matching_topics(broker: Broker, make_topic: MakeTopic, capture: Path) -> None:
    """The topics of descriptions and of dead letters do not match."""
    prefix = f"p.{uuid.uuid4().hex[:6]}"
    for name in ("a", "b", "schemas", "dead"):
        make_topic(f"{prefix}-{name}")
    for name in ("a", "b"):
        produce(broker, capture, f"{prefix}-{name}", "--schema-topic", f"{prefix}-schemas")
    options = ("--schema-topic", f"{prefix}-schemas", "--dead-letter", f"{prefix}-dead", "-f", "jsonl")
    for group in ((), ("--group", prefix)):
        result = consume(broker, f"^{prefix}-.*", *options, *group)
        assert result.exit_code == 0, result.stderr
        assert len(json_lines(result)) == 2 * FLOWS
    assert broker.values(f"{prefix}-dead") == []
    only = consume(broker, f"^{prefix}-a$", "--topic", f"{prefix}-a", *options)
    assert len(json_lines(only)) == FLOWS


@pytest.mark.slow
def test_a_group_reads_topics_that_are_created_later(
    broker: Broker, make_topic: MakeTopic, capture: Path, group: str, tmp_path: Path
) -> None:
    """It looks for them every half minute."""
    prefix = f"later-{uuid.uuid4().hex[:6]}"
    produce(broker, capture, make_topic(f"{prefix}-1"))
    folder = tmp_path / "flows"
    options = ("-o", f"{folder}/", "--group", group, "--batch-seconds", 0)
    with consuming(broker, f"^{prefix}-.*", *options):
        wait(lambda: folder.exists() and list(folder.glob("*-1-0-*.parquet")))
        produce(broker, capture, make_topic(f"{prefix}-2"))
        wait(lambda: list(folder.glob("*-2-0-*.parquet")))


def test_patterns_without_a_topic_and_invalid_ones_are_errors(broker: Broker) -> None:
    with pytest.raises(KafkaError, match=r"no topic matches '\^nothing-'"):
        KafkaSource(broker.servers, "^nothing-")
    with pytest.raises(ValueError, match=r"topic '\^\(' is not a regular expression"):
        KafkaSource(broker.servers, "^(")
    result = consume(broker, "^(")
    assert (result.exit_code, "is not a regular expression" in result.stderr) == (2, True)


@pytest.mark.parametrize("pattern", [r"-\d+$", "-(?:1|22)$", "-[12]+$|never", "-(?!3)"])
def test_a_group_reads_the_same_topics_as_without_it(
    broker: Broker, make_topic: MakeTopic, capture: Path, group: str, pattern: str
) -> None:
    prefix = make_topic()
    for number in (1, 22):
        produce(broker, capture, make_topic(f"{prefix}-{number}"))
    make_topic(f"{prefix}-3x")
    make_topic(f"of-{prefix}-4")
    for options in ((), ("--group", group)):
        result = consume(broker, f"^{prefix}{pattern}", "-f", "jsonl", *options)
        assert (result.exit_code, len(json_lines(result))) == (0, 2 * FLOWS), result.stderr


@pytest.mark.parametrize("group", [(), ("--group", "custom")])
def test_a_pattern_finds_schemas_in_their_topic(
    broker: Broker, make_topic: MakeTopic, capture: Path, tmp_path: Path, group: tuple[str, ...]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[schema]\nname = "mine"\nextends = "flow"\n[[column]]\nname = "own"\nnumber = 1001\ntype = "uint8"\n'
    )
    topic = make_topic()
    produce(broker, capture, topic, "--schema", path)
    result = consume(broker, f"^{topic}", "--topic", topic, "-f", "jsonl", *group)
    assert (result.exit_code, len(json_lines(result))) == (0, FLOWS), result.stderr


def test_a_topic_of_json_does_not_end_the_reading_of_others(
    broker: Broker, make_topic: MakeTopic, capture: Path
) -> None:
    prefix = make_topic()
    produce(broker, capture, make_topic(f"{prefix}-a"))
    produce(broker, capture, make_topic(f"{prefix}-json"), "--format", "json")
    result = consume(broker, f"^{prefix}-", "-f", "jsonl")
    assert (result.exit_code, len(json_lines(result))) == (1, FLOWS)
    assert f"{FLOWS} of the Kafka records cannot be decoded" in result.stderr


def test_topics_and_ranges_are_checked(broker: Broker, topic: str) -> None:
    with pytest.raises(ValueError, match="topics is empty"):
        KafkaSource(broker.servers, [])
    with pytest.raises(ValueError, match="ranges cannot be read in a group"):
        KafkaSource(broker.servers, topic, group="g", ranges={(topic, 0): (0, 1)})
    with pytest.raises(KafkaError, match="has no partition 7"):
        KafkaSource(broker.servers, topic, ranges={(topic, 7): (0, 1)})


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_flows_before_another_schema_stay(
    broker: Broker, topic: str, capture: Path, tmp_path: Path, form: str
) -> None:
    """The second schema lacks a chosen column."""
    produce(broker, capture, topic, "--enable", "src_mac")
    produce(broker, capture, topic, "--columns", "bytes")
    out = tmp_path / f"flows.{form}"
    result = consume(broker, topic, "--columns", "src_mac,bytes", "-o", out)
    assert (result.exit_code, out.exists()) == (1, True)
    assert "no column 'src_mac'" in result.stderr
    assert "the flows before them are stored" in result.stderr
    assert f"flowbuf: {FLOWS} flows from " in result.stderr


def test_a_condition_that_matches_nothing_is_no_reason_to_check_the_schema(
    broker: Broker, topic: str, capture: Path
) -> None:
    produce(broker, capture, topic)
    broker.produce(topic, [b"\x05abcd"], headers=dict(broker.read(topic)[0].headers() or ()))
    result = consume(broker, topic, "-f", "jsonl", "--where", "src_port = 1")
    assert result.exit_code == 1
    assert "check --schema" not in result.stderr
    assert f"{FLOWS} other flows were filtered out" in result.stderr


def test_a_wrong_condition_is_an_error_before_any_record(broker: Broker, topic: str) -> None:
    result = consume(broker, topic, "--where", "dst_port = (")
    assert (result.exit_code, "--where: " in result.stderr) == (2, True)


# JSON -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["none", "exporter", "flow"])
@pytest.mark.parametrize("protocol", ["netflow9", "sflow"])
def test_json_records_are_the_lines_of_read(
    broker: Broker, topic: str, tmp_path: Path, protocol: str, key: str
) -> None:
    capture = write(tmp_path / "capture.pcap", generated(protocol, 100))
    produce(broker, capture, topic, "--format", "json", "--key", key, "--enable", "src_mac,flow_end_reason")
    lines = run("read", capture, "-f", "jsonl", "--enable", "src_mac,flow_end_reason").stdout.splitlines()
    records = broker.read(topic)
    assert sorted((record.value() or b"").decode() for record in records) == sorted(lines)
    assert not any(record.headers() for record in records)
    keys = {record.key() for record in records}
    exporters = {json.loads(line)["exporter_address"].encode() for line in lines}
    assert keys == {"none": {None}, "exporter": exporters}.get(key, keys)
    assert key != "flow" or {len(each or b"") for each in keys} == {8}


def test_counts_of_json_are_those_of_its_records(broker: Broker, topic: str, capture: Path) -> None:
    where = ("--kafka", broker.servers, "--topic", topic)
    sent = run("produce", capture, *where, "--format", "json")
    told = dict(pair.split("=") for pair in sent.stdout.split())
    values = broker.values(topic)
    assert told == {
        **{"topic": topic, "flows": str(FLOWS), "records": str(FLOWS), "delivered": str(FLOWS)},
        **{"bytes": str(sum(map(len, values))), "failed": "0", "retried": "0"},
    }


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--framing", "bare"), "leave out framing"),
        (("--pack", "100"), "leave out pack"),
        (("--pack", "datagram"), "leave out pack"),
        (("--topic", "a-{hash}"), "needs a topic"),
        (("--topic", "^flows"), "only flowbuf consume takes an expression; name one topic"),
    ],
)
def test_options_that_json_does_not_have_are_errors(
    broker: Broker, topic: str, capture: Path, options: tuple[str, ...], text: str
) -> None:
    where = ("--kafka", broker.servers, "--topic", topic, "--format", "json")
    result = run("produce", capture, *where, *options)
    assert (result.exit_code, text in result.stderr) == (2, True), result.stderr


def test_json_needs_a_topic_and_a_known_format(broker: Broker, capture: Path) -> None:
    result = run("produce", capture, "--kafka", broker.servers, "--format", "json")
    assert (result.exit_code, "needs a topic" in result.stderr) == (2, True)
    with pytest.raises(ValueError, match="format is 'xml'; it may be protobuf or json"):
        KafkaSink(broker.servers, "any", format="xml")


def test_malformed_messages_are_not_sent_as_json(broker: Broker, topic: str) -> None:
    sink = KafkaSink(broker.servers, topic, format="json")
    with pytest.raises(flowbuf.DecodeError):
        sink.write(b"\x05abcd")
    sink.close()
    assert sink.report.records == 0
