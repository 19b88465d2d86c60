"""Spark reads Kafka topics of a real broker, whole and as streams."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowbuf import DecodeError, KafkaError, Schema, SchemaError
from tests.support.broker import PATIENCE, Broker, MakeTopic
from tests.support.command import generated, write
from tests.support.consuming import produce

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install --group spark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from flowbuf.spark import FlowbufDataSource
from flowbuf.spark.kafka import KafkaSettings, TopicPartition, _share
from tests.support.spark import MARKS, open_session, rows_expected, rows_of

pytestmark = [*MARKS, pytest.mark.usefixtures("spark")]  # StructType.fromDDL needs a session

FLOWS = 500
FLOW = Schema.load("flow")
COLUMNS = ["src_addr", "src_port", "bytes"]
DDL = "src_addr string, src_port int, bytes decimal(20,0)"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with open_session() as session:
        yield session


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("captures")
    return [write(folder / f"{seed}.pcap", generated("netflow9", FLOWS, seed=seed)) for seed in range(1, 4)]


def options(broker: Broker, topic: str, **more: object) -> dict[str, Any]:
    return {"kafka": broker.servers, "topic": topic, **more}


def load(spark: SparkSession, broker: Broker, topic: str, **more: object) -> DataFrame:
    return spark.read.format("flowbuf").options(**options(broker, topic, **more)).load()


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in an order that does not depend on the types of their numbers."""
    return sorted(rows, key=lambda row: [str(row[name]) for name in sorted(row) if name != "time_received"])


def run_stream(
    spark: SparkSession, broker: Broker, topic: str, folder: Path, available_now: bool = False, **more: object
) -> list[dict[str, Any]]:
    """Store everything that has arrived since the last call. Return the progress of each batch."""
    stream = spark.readStream.format("flowbuf").options(**options(broker, topic, **more)).load()
    writer = stream.writeStream.format("parquet").option("path", str(folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = (writer.trigger(availableNow=True) if available_now else writer).start()
    try:
        if available_now:
            query.awaitTermination(60)
        else:
            query.processAllAvailable()
        return [dict(progress) for progress in query.recentProgress]
    finally:
        query.stop()


# With Spark -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", ["2000", "flow"])
def test_a_topic_has_the_rows_of_its_captures(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, captures: list[Path], pack: str
) -> None:
    topic = produce(broker, captures[0], f"whole-{make_topic()}-{{hash}}", "--partitions", 3, "--pack", pack)
    frame = load(spark, broker, topic)
    assert in_order(rows_of(frame)) == in_order(rows_expected(captures[0]))
    assert frame.rdd.getNumPartitions() == len({record.partition() for record in broker.read(topic)})


def test_columns_can_be_chosen(spark: SparkSession, broker: Broker, topic: str, captures: list[Path]) -> None:
    produce(broker, captures[0], topic)
    wanted = [{name: row[name] for name in COLUMNS} for row in rows_expected(captures[0])]
    chosen = load(spark, broker, topic, columns=",".join(COLUMNS))
    assert set(chosen.columns) == set(COLUMNS)
    assert in_order(rows_of(chosen.select(COLUMNS))) == in_order(wanted)
    given = spark.read.format("flowbuf").schema(DDL).options(**options(broker, topic)).load()
    assert in_order(rows_of(given)) == in_order(wanted)


def test_a_stream_continues_at_its_checkpoint(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, captures: list[Path], tmp_path: Path
) -> None:
    """Each flow is stored once, also those of a partition that was empty at first."""
    topic = make_topic(partitions=3)
    for count, capture in enumerate(captures, 1):
        produce(broker, capture, topic, "--pack", "5000")
        run_stream(spark, broker, topic, tmp_path)
        stored = rows_of(spark.read.parquet(str(tmp_path / "out")))
        assert in_order(stored) == in_order(rows_expected(*captures[:count]))
    assert not any(batch["numInputRows"] for batch in run_stream(spark, broker, topic, tmp_path))


@pytest.mark.parametrize("available_now", [False, True])
def test_batches_of_a_stream_can_be_limited(
    spark: SparkSession,
    broker: Broker,
    make_topic: MakeTopic,
    captures: list[Path],
    tmp_path: Path,
    available_now: bool,
) -> None:
    topic = make_topic(partitions=3)
    produce(broker, captures[0], topic, "--pack", "2000")
    records = len(broker.values(topic))
    progress = run_stream(spark, broker, topic, tmp_path, available_now, max_records=5)
    assert records > 10
    assert sum(batch["numInputRows"] > 0 for batch in progress) == -(-records // 5)
    assert spark.read.parquet(str(tmp_path / "out")).count() == FLOWS


def test_a_batch_has_exactly_the_largest_number_of_records() -> None:
    backlog = {("a", 0): 10, ("a", 1): 3, ("a", 2): 0, ("b", 0): 7}
    for most in range(1, 20):
        shares = _share(backlog, most)
        assert sum(shares.values()) == most
        assert all(0 <= shares[place] <= count for place, count in backlog.items())
    assert _share(backlog, 20) == _share(backlog, 99) == backlog


def test_a_stream_can_begin_at_the_end(
    spark: SparkSession, broker: Broker, topic: str, captures: list[Path], tmp_path: Path
) -> None:
    produce(broker, captures[0], topic)
    run_stream(spark, broker, topic, tmp_path, starting_offsets="latest")
    produce(broker, captures[1], topic)
    run_stream(spark, broker, topic, tmp_path, starting_offsets="latest")
    stored = rows_of(spark.read.parquet(str(tmp_path / "out")))
    assert in_order(stored) == in_order(rows_expected(captures[1]))


@pytest.mark.parametrize("pack", ["65536", "1000"])
def test_a_topic_that_was_created_again_ends_the_stream(
    spark: SparkSession, broker: Broker, topic: str, captures: list[Path], tmp_path: Path, pack: str
) -> None:
    """It may have fewer or more Kafka records than before."""
    produce(broker, captures[0], topic, "--pack", "2000")
    run_stream(spark, broker, topic, tmp_path)
    broker.recreate_topic(topic)
    produce(broker, captures[0], topic, "--pack", pack)
    with pytest.raises(Exception, match="deleted or created again, so begin with another checkpoint"):
        run_stream(spark, broker, topic, tmp_path)


def test_a_deleted_topic_that_was_read_does_not_end_a_stream_of_others(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, captures: list[Path], tmp_path: Path
) -> None:
    prefix = make_topic()
    for name in ("a", "b"):
        produce(broker, captures[0], make_topic(f"{prefix}-{name}"))
    run_stream(spark, broker, f"^{prefix}-.*", tmp_path)
    broker.admin.delete_topics([f"{prefix}-a"])[f"{prefix}-a"].result(30)
    produce(broker, captures[1], f"{prefix}-b")
    run_stream(spark, broker, f"^{prefix}-.*", tmp_path)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3 * FLOWS


@pytest.mark.parametrize(("deleted", "read"), [(2, [(2, 3)]), (3, []), (4, [])])
def test_deleted_records_are_logged(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture, deleted: int, read: list[tuple[int, int]]
) -> None:
    """Also if they are all records of a batch."""
    from confluent_kafka import TopicPartition as Place

    broker.produce(topic, [b""] * 4)
    stream = FlowbufDataSource(options(broker, topic, schema="flow")).streamReader(StructType.fromDDL(DDL))
    begin = stream.initialOffset()
    end = {topic: {**begin[topic], "0": 3}}
    broker.admin.delete_records([Place(topic, 0, deleted)])[Place(topic, 0)].result(PATIENCE)
    ranges = [(each.first, each.end) for each in stream.partitions(begin, end)]  # type: ignore[attr-defined]
    assert ranges == read
    last = min(deleted, 3) - 1
    assert f"{topic}, partition 0: offsets 0 to {last} were deleted before they were read" in caplog.text


def test_streams_of_captures_are_an_error(spark: SparkSession, captures: list[Path]) -> None:
    stream = spark.readStream.format("flowbuf").load(str(captures[0]))
    with pytest.raises(Exception, match="streams only Kafka topics"):
        stream.writeStream.format("noop").start().processAllAvailable()


# Schemas ----------------------------------------------------------------------------------------------------


def columns_of(broker: Broker, topic: str, **more: object) -> list[str]:
    schema = FlowbufDataSource(options(broker, topic, **more)).schema()
    return [each.split()[0].strip("`") for each in schema.split(", `")]


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schema") / "mine.toml"
    path.write_text("""
        [schema]
        name = "mine"
        extends = "flow"
        only = ["src_addr", "bytes", "reason"]
        [[column]]
        name = "reason"
        number = 1001
        type = "uint8"
        sources = ["ipfix:flowEndReason"]
    """)
    return path


def test_the_schema_comes_from_the_newest_records(
    broker: Broker, topic: str, captures: list[Path], mine: Path
) -> None:
    produce(broker, captures[0], topic)
    assert columns_of(broker, topic) == [column.name for column in FLOW.enabled]
    produce(broker, captures[1], topic, "--schema", mine)
    assert columns_of(broker, topic) == ["bytes", "src_addr", "reason"]
    assert columns_of(broker, topic, columns="reason") == ["reason"]
    with pytest.raises(SchemaError, match="no column 'nope'"):
        columns_of(broker, topic, columns="nope")


def test_the_schema_of_an_empty_topic_is_that_of_its_name_or_of_the_option(
    broker: Broker, make_topic: MakeTopic
) -> None:
    default = [column.name for column in FLOW.enabled]
    assert columns_of(broker, make_topic(f"{make_topic()}-{FLOW.hash}")) == default
    assert columns_of(broker, make_topic(), schema="flow") == default
    with pytest.raises(KafkaError, match="the schema is unknown"):
        columns_of(broker, make_topic())


def test_the_schema_may_come_from_a_registry(
    broker: Broker, registry: str, topic: str, captures: list[Path]
) -> None:
    produce(broker, captures[0], topic, "--schema-registry", registry, "--columns", "bytes,src_addr")
    assert columns_of(broker, topic, schema_registry=registry) == ["bytes", "src_addr"]
    flows = read(broker, topic, "bytes decimal(20,0)", schema_registry=registry)
    assert sum(flow["bytes"] for flow in flows) == sum(row["bytes"] for row in rows_expected(captures[0]))


def read(broker: Broker, topic: str, ddl: str, **more: object) -> list[dict[str, Any]]:
    """Read a topic in this process."""
    wanted = StructType.fromDDL(ddl)
    reader = FlowbufDataSource(options(broker, topic, **more)).reader(wanted)
    batches = (batch for partition in reader.partitions() for batch in reader.read(partition))
    return [row for batch in batches for row in batch.to_pylist()]


def test_columns_that_records_of_another_schema_lack_are_null(
    broker: Broker, topic: str, captures: list[Path], mine: Path
) -> None:
    produce(broker, captures[0], topic)
    produce(broker, captures[1], topic, "--schema", mine)
    found = read(broker, topic, "src_addr string, src_port int, reason smallint")
    assert [flow["src_addr"] for flow in found] == [row["src_addr"] for row in rows_expected(*captures[:2])]
    assert {flow["reason"] for flow in found[:FLOWS]} == {None} != {flow["reason"] for flow in found[FLOWS:]}
    assert {flow["src_port"] for flow in found[FLOWS:]} == {None}
    assert None not in {flow["src_port"] for flow in found[:FLOWS]}


def test_records_that_cannot_be_decoded_do_not_hide_the_schema(
    broker: Broker, topic: str, captures: list[Path], mine: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither those with headers, nor those of other programs, which may be alone in a range."""
    produce(broker, captures[0], topic)
    produce(broker, captures[1], topic, "--schema", mine)
    headers = dict(broker.read(topic)[-1].headers() or ())
    broker.produce(topic, [b"\x05abcd"], headers=headers)
    broker.produce(topic, [b"x"])
    assert columns_of(broker, topic) == ["bytes", "src_addr", "reason"]
    end = len(broker.values(topic))
    reader = FlowbufDataSource(options(broker, topic)).reader(StructType.fromDDL(DDL))
    (whole,) = reader.partitions()
    assert isinstance(whole, TopicPartition)
    assert not list(reader.read(TopicPartition(topic, 0, end - 1, end, whole.identifier)))
    assert f"offset {end - 1}: the schema is unknown" in caplog.text


def test_numbers_may_have_another_type(
    broker: Broker, topic: str, captures: list[Path], tmp_path: Path
) -> None:
    narrow = tmp_path / "narrow.toml"
    narrow.write_text("""
        [schema]
        name = "narrow"
        [[column]]
        name = "bytes"
        number = 4
        type = "uint32"
        sources = ["ipfix:octetDeltaCount"]
    """)
    produce(broker, captures[0], topic)
    produce(broker, captures[1], topic, "--schema", narrow)
    wanted = [row["bytes"] for row in rows_expected(*captures[:2])]
    for type in ("bigint", "decimal(20,0)"):
        assert [flow["bytes"] for flow in read(broker, topic, f"bytes {type}")] == wanted
    with pytest.raises(DecodeError, match="does not fit"):
        read(broker, topic, "bytes smallint")


def test_records_without_any_of_the_columns_give_nulls(
    broker: Broker, topic: str, captures: list[Path], mine: Path
) -> None:
    produce(broker, captures[0], topic, "--columns", "bytes")
    produce(broker, captures[1], topic, "--schema", mine)
    found = read(broker, topic, "reason smallint")
    assert [flow["reason"] for flow in found[:FLOWS]] == [None] * FLOWS
    assert len(found) == 2 * FLOWS


def test_secrets_are_not_shown() -> None:
    secrets = {"schema_registry": "http://me:pw1@host", "kafka.sasl.password": "pw2"}
    secrets |= {"kafka.schema.registry.basic.auth.user.info": "me:pw3"}
    settings = KafkaSettings.of({"kafka": "host", "topic": "t", **secrets})
    assert settings.client == {"sasl.password": "pw2"}
    assert settings.registry_client == {"basic.auth.user.info": "me:pw3"}
    assert not [secret for secret in ("pw1", "pw2", "pw3") if secret in repr(settings)]


# Errors -----------------------------------------------------------------------------------------------------


def test_records_that_cannot_be_decoded_are_logged(
    broker: Broker, topic: str, captures: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    produce(broker, captures[0], topic)
    headers = dict(broker.read(topic)[0].headers() or ())
    broker.produce(topic, [b"\x05abcd"] * 30, headers=headers)
    assert len(read(broker, topic, DDL)) == FLOWS
    lines = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 21
    assert lines[0].startswith(f"{topic}, partition 0, offset {len(broker.values(topic)) - 30}: ")
    assert lines[-1] == f"{topic}, partition 0: 30 Kafka records cannot be decoded"
    with pytest.raises(DecodeError, match=f"{topic}, partition 0, offset "):
        read(broker, topic, DDL, strict="true")


def test_a_range_has_no_records_before_and_after_it(broker: Broker, topic: str, captures: list[Path]) -> None:
    produce(broker, captures[0], topic, "--pack", "2000")
    wanted = StructType.fromDDL(DDL)
    reader = FlowbufDataSource(options(broker, topic)).reader(wanted)
    (whole,) = reader.partitions()
    assert isinstance(whole, TopicPartition)

    def count(first: int, end: int) -> int:
        partition = TopicPartition(topic, 0, first, end, whole.identifier)
        return sum(batch.num_rows for batch in reader.read(partition))

    counts = [count(offset, offset + 1) for offset in range(whole.end)]
    assert min(counts) > 0
    assert sum(counts) == count(0, whole.end) == FLOWS
    assert count(3, 7) == sum(counts[3:7])


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"topic": " ,"}, ValueError, "option topic is ' ,'; name at least one"),
        ({"columns": "bytes", "colums": "x"}, ValueError, "no option 'colums'; did you mean columns"),
        ({"framing": "other"}, ValueError, "option framing is 'other'; write"),
        ({"starting_offsets": "now"}, ValueError, "write earliest or latest"),
        ({"max_records": "0"}, ValueError, "write a whole number"),
        ({"strict": "yes"}, ValueError, "write true or false"),
        ({"schema": "nope"}, ValueError, "schema 'nope' does not exist"),
        ({"topic": "there-is-no-such-topic"}, KafkaError, "does not exist"),
        ({"kafka.no.such": "1"}, KafkaError, "no.such"),
    ],
)
def test_invalid_options_are_refused(
    broker: Broker, topic: str, more: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        columns_of(broker, **{"topic": topic, **more})


def test_a_topic_is_needed(broker: Broker) -> None:
    with pytest.raises(ValueError, match="topic is missing"):
        FlowbufDataSource({"kafka": broker.servers}).schema()


def test_columns_of_another_type_are_refused(broker: Broker, topic: str, captures: list[Path]) -> None:
    produce(broker, captures[0], topic)
    with pytest.raises(SchemaError, match=r"cannot be read as string; read it as decimal\(20,0\)"):
        read(broker, topic, "bytes string")
    assert {row["nope"] for row in read(broker, topic, "nope string")} == {None}
