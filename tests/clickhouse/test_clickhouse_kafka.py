"""The Kafka engine of ClickHouse (chdb) reads topics of a real broker, with the schema in the table."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flowbuf import Schema, encode_capture
from flowbuf.kafka.sink import KafkaSink
from flowbuf.targets.clickhouse_migration import migration
from flowbuf.targets.clickhouse_tables import KafkaOptions, TableOptions, drop_ddl, to_ddl
from flowbuf.wire import read_varint, varint
from tests.support.broker import Broker
from tests.support.clickhouse.rows import messages_of, ordered, rows_expected, rows_in

pytest.importorskip("chdb", reason="chdb is not installed: pip install --group chdb")

from flowbuf.clickhouse import Local

pytestmark = pytest.mark.slow

FLOW = Schema.load("flow")
CAPTURE = Path(__file__).parents[1] / "data/generated-netflow9.pcap"
PATIENCE = 30.0  # seconds; a new consumer group on a new broker starts with a delay
POISON = b"\xff" * 20
SOON = {"kafka_flush_interval_ms": "200"}


@pytest.fixture(scope="module")
def engine() -> Iterator[Local]:
    with Local() as database:
        yield database


Send = Callable[..., None]


@pytest.fixture
def send(broker: Broker) -> Iterator[Send]:
    """Return a function that creates a topic if it does not exist and sends Kafka records to it.

    The topics are deleted at the end of the test.
    """
    created: set[str] = set()

    def send(topic: str, *records: bytes) -> None:
        if topic not in created:
            created.add(broker.make_topic(topic))
        broker.produce(topic, records)

    yield send
    for deleted in broker.admin.delete_topics(sorted(created)).values():
        deleted.result()


@pytest.fixture
def options(broker: Broker, engine: Local) -> Iterator[TableOptions]:
    """Create a database for one test and drop it at the end."""
    name = f"click_{uuid.uuid4().hex[:8]}"
    engine.execute(f"CREATE DATABASE {name}")
    yield TableOptions(name, kafka=KafkaOptions(broker.servers, f"{name}-{{hash}}", name, settings=SOON))
    tables = engine.query(
        f"SELECT name FROM system.tables WHERE database = '{name}' ORDER BY name LIKE '%queue' DESC"
    )
    for row in tables.to_pylist():  # the queue first, so that it stops reading
        if row["name"].endswith("queue"):
            engine.execute(f"DROP TABLE {name}.{row['name']}")
    engine.execute(f"DROP DATABASE {name}")


def framed(options: TableOptions, framing: str) -> TableOptions:
    assert options.kafka
    return replace(options, kafka=replace(options.kafka, framing=framing))


def topic_of(options: TableOptions, schema: Schema) -> str:
    assert options.kafka
    return options.kafka.topic_of(schema)


def split_messages(messages: bytes) -> list[bytes]:
    """Return the messages without their lengths."""
    found, position = [], 0
    while position < len(messages):
        length, begin = read_varint(messages, position)
        found.append(messages[begin : begin + length])
        position = begin + length
    return found


def wait_for(database: Local, table: str, count: int) -> None:
    """Wait until a table has `count` rows, and check one second later that it has no more."""
    deadline = time.monotonic() + PATIENCE
    while (found := count_of(database, table)) < count:
        assert time.monotonic() < deadline, f"{found} of {count} rows in {table}"
        time.sleep(0.1)
    time.sleep(1)
    assert count_of(database, table) == count


def count_of(database: Local, table: str) -> int:
    return int(database.query(f"SELECT count() AS n FROM {table}").to_pylist()[0]["n"])


EVERY_FLOW = FLOW.only(*(column.name for column in FLOW))


@pytest.mark.parametrize(
    "schema", [EVERY_FLOW, Schema.load("goflow2"), Schema.load("sflow_counters")], ids=repr
)
@pytest.mark.parametrize("framing", ["delimited", "bare", "registry"])
def test_every_message_arrives(
    engine: Local, options: TableOptions, send: Send, schema: Schema, framing: str
) -> None:
    """Empty messages are sent only with a length: an empty Kafka record gives no row."""
    messages = messages_of(schema)
    if framing == "delimited":
        records, expected = [messages, messages], rows_expected(messages, schema) * 2
    else:
        prefix = bytes(4) + b"\x07\x00" if framing == "registry" else b""
        alone = [message for message in split_messages(messages) if message]
        records, expected = [prefix + message for message in alone], []
        for message in alone:
            expected += rows_expected(varint(len(message)) + message, schema)
    table_options = framed(options, framing)
    send(topic_of(table_options, schema), *records)
    engine.create(schema, table_options)
    wait_for(engine, table_options.name(schema), len(expected))
    assert rows_in(engine, schema, table_options.name(schema)) == ordered(expected)
    assert count_of(engine, table_options.name(schema, "errors")) == 0


@pytest.mark.parametrize("name", ["flow", "goflow2", "akvorado"])
@pytest.mark.parametrize("pack", ["flow", 10_000])
def test_messages_of_the_sink_arrive(
    engine: Local, options: TableOptions, broker: Broker, name: str, pack: str | int, tmp_path: Path
) -> None:
    """The framing is that of the sink."""
    schema = Schema.load(name)
    encode_capture(CAPTURE, tmp_path / "flows.pb", schema)
    messages = (tmp_path / "flows.pb").read_bytes()
    with KafkaSink(broker.servers, broker.make_topic(topic_of(options, schema)), schema, pack=pack) as sink:
        sink.write(messages)
    table_options = framed(options, sink.framing)
    engine.create(schema, table_options)
    expected = rows_expected(messages, schema)
    wait_for(engine, table_options.name(schema), len(expected))
    assert rows_in(engine, schema, table_options.name(schema)) == expected


def test_the_schema_may_be_a_file(engine: Local, options: TableOptions, send: Send, tmp_path: Path) -> None:
    """The SQL comment contains the text of the file.

    Servers look for the file in their folder of schemas. The engine in the process takes a path.
    """
    assert options.kafka
    table_options = replace(options, kafka=replace(options.kafka, schema_file=str(tmp_path / "flow.proto")))
    statements = to_ddl(FLOW, table_options)
    (comment,) = (each.comment for each in statements if "= Kafka" in each.sql)
    (tmp_path / "flow.proto").write_text(comment[comment.index("syntax") :])
    messages = messages_of(FLOW)
    send(topic_of(table_options, FLOW), messages)
    engine.run(statements)
    wait_for(engine, table_options.name(FLOW), len(rows_expected(messages, FLOW)))
    assert rows_in(engine, FLOW, table_options.name(FLOW)) == rows_expected(messages, FLOW)


def test_unreadable_kafka_records_go_to_the_table_of_errors(
    engine: Local, options: TableOptions, send: Send
) -> None:
    """A Kafka record is read completely or not at all.

    If the last message of a Kafka record is damaged, the messages before it are not inserted either.
    """
    good = messages_of(FLOW)
    damaged = good + b"\x05\x08"
    topic = topic_of(options, FLOW)
    send(topic, good, POISON, good, damaged, good)
    engine.create(FLOW, options)
    count = 3 * len(rows_expected(good, FLOW))
    wait_for(engine, options.name(FLOW), count)
    assert rows_in(engine, FLOW, options.name(FLOW)) == ordered(rows_expected(good, FLOW) * 3)
    query = (
        "SELECT topic, `partition`, offset, hex(raw_message) AS raw, error "
        f"FROM {options.name(FLOW, 'errors')}"
    )
    wait_for(engine, options.name(FLOW, "errors"), 2)
    found = engine.query(f"{query} ORDER BY offset").to_pylist()
    assert [(row["topic"], row["partition"], row["offset"]) for row in found] == [
        (topic, 0, 1),
        (topic, 0, 3),
    ]
    assert [bytes.fromhex(row["raw"]) for row in found] == [POISON, damaged]
    assert all(row["error"] for row in found)


def test_equal_kafka_records_are_all_inserted(engine: Local, options: TableOptions, send: Send) -> None:
    """The table ignores repeated inserts, but equal Kafka records are not repeated inserts."""
    record = messages_of(FLOW)
    engine.create(FLOW, options)
    for times in (1, 2, 3):
        send(topic_of(options, FLOW), record)
        wait_for(engine, options.name(FLOW), times * len(rows_expected(record, FLOW)))


@pytest.mark.parametrize("way", ["added", "beside"])
def test_migrations_lose_no_flows(engine: Local, options: TableOptions, send: Send, way: str) -> None:
    """Flows that were read before a migration are kept. Flows that were sent before it are read after it.

    The new topic exists before the new queue, as docs/how-to/clickhouse.md requires. librdkafka looks for new
    topics only every five minutes.
    """
    old = FLOW
    new = FLOW.enable("group:l2", "mpls_labels") if way == "added" else FLOW.alter("proto", repeated=True)
    first, last = messages_of(old), messages_of(new)
    engine.create(old, options)
    send(topic_of(options, old), first)
    rows = len(rows_expected(first, old))
    wait_for(engine, options.name(old), rows)
    statements = migration(old, new, options)
    stopped = next((place for place, each in enumerate(statements) if "ALTER" in each.sql), 0)
    engine.run(statements[:stopped])
    send(topic_of(options, old), first)
    target = options if way == "added" else options.beside(new)
    send(topic_of(target, new))
    engine.run(statements[stopped:])
    send(topic_of(target, new), last)
    send(topic_of(options, old), first)
    if way == "beside":
        wait_for(engine, options.name(old), 3 * rows)
        wait_for(engine, target.name(new), rows)
        assert rows_in(engine, new, target.name(new)) == rows_expected(last, new)
    else:
        wait_for(engine, options.name(old), 4 * rows)
        expected = rows_expected(last, new) + rows_expected(first, new) * 3
        assert rows_in(engine, new, target.name(new)) == ordered(expected)
    assert count_of(engine, options.name(old, "errors")) == 0


def test_unreadable_kafka_records_before_the_views_exist_are_kept(
    engine: Local, options: TableOptions, send: Send
) -> None:
    """Only one view reads the topic. It is created last, when all other views exist."""
    send(topic_of(options, FLOW), POISON, messages_of(FLOW))
    engine.create(FLOW, options)
    wait_for(engine, options.name(FLOW, "errors"), 1)
    wait_for(engine, options.name(FLOW), len(rows_expected(messages_of(FLOW), FLOW)))
    engine.run(drop_ddl(FLOW, options))
    assert engine.query(f"SELECT name FROM system.tables WHERE database = '{options.database}'").num_rows == 0
