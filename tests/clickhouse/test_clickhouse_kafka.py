"""ClickHouse reads topics of a real broker, by its Kafka engine (chdb), with the schema in the table."""

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
from tests.support.clickhouse_rows import messages_of, ordered, rows_expected, rows_in

pytest.importorskip("chdb", reason="chdb is not installed: pip install --group chdb")

from flowbuf.clickhouse import Local

pytestmark = pytest.mark.slow

FLOW = Schema.load("flow")
CAPTURE = Path(__file__).parents[1] / "data/generated-netflow9.pcap"
PATIENCE = 30.0  # seconds; a new group of a fresh broker waits some
POISON = b"\xff" * 20
SOON = {"kafka_flush_interval_ms": "200"}


@pytest.fixture(scope="module")
def engine() -> Iterator[Local]:
    with Local() as database:
        yield database


Send = Callable[..., None]


@pytest.fixture
def send(broker: Broker) -> Iterator[Send]:
    """Creates a topic if it does not exist, and sends records to it, or none.

    Topics are deleted at the end.
    """
    made: set[str] = set()

    def send(topic: str, *records: bytes) -> None:
        if topic not in made:
            made.add(broker.make_topic(topic))
        broker.produce(topic, records)

    yield send
    for deleted in broker.admin.delete_topics(sorted(made)).values():
        deleted.result()


@pytest.fixture
def options(broker: Broker, engine: Local) -> Iterator[TableOptions]:
    """Names of their own for each test; what was made is dropped."""
    name = f"click_{uuid.uuid4().hex[:8]}"
    engine.execute(f"CREATE DATABASE {name}")
    yield TableOptions(name, kafka=KafkaOptions(broker.servers, f"{name}-{{hash}}", name, settings=SOON))
    tables = engine.query(
        f"SELECT name FROM system.tables WHERE database = '{name}' ORDER BY name LIKE '%queue' DESC"
    )
    for row in tables.to_pylist():  # the queue first: it alone must not run on
        if row["name"].endswith("queue"):
            engine.execute(f"DROP TABLE {name}.{row['name']}")
    engine.execute(f"DROP DATABASE {name}")


def framed(options: TableOptions, framing: str) -> TableOptions:
    assert options.kafka
    return replace(options, kafka=replace(options.kafka, framing=framing))


def topic_of(options: TableOptions, schema: Schema) -> str:
    assert options.kafka
    return options.kafka.topic_of(schema)


def single(messages: bytes) -> list[bytes]:
    """Each message without its length."""
    found, position = [], 0
    while position < len(messages):
        length, begin = read_varint(messages, position)
        found.append(messages[begin : begin + length])
        position = begin + length
    return found


def wait_for(database: Local, table: str, count: int) -> None:
    """Until a table has so many rows, and then a little: there may be no more."""
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
    """Alone in a record, an empty message is no message: only the others are sent so."""
    messages = messages_of(schema)
    if framing == "delimited":
        records, expected = [messages, messages], rows_expected(messages, schema) * 2
    else:
        prefix = bytes(4) + b"\x07\x00" if framing == "registry" else b""
        alone = [message for message in single(messages) if message]
        records, expected = [prefix + message for message in alone], []
        for message in alone:
            expected += rows_expected(varint(len(message)) + message, schema)
    given = framed(options, framing)
    send(topic_of(given, schema), *records)
    engine.create(schema, given)
    wait_for(engine, given.name(schema), len(expected))
    assert rows_in(engine, schema, given.name(schema)) == ordered(expected)
    assert count_of(engine, given.name(schema, "errors")) == 0


@pytest.mark.parametrize("name", ["flow", "goflow2", "akvorado"])
@pytest.mark.parametrize("pack", ["flow", 10_000])
def test_what_flowbuf_sends_is_there(
    engine: Local, options: TableOptions, broker: Broker, name: str, pack: str | int, tmp_path: Path
) -> None:
    """Each as its sink and its schema have it."""
    schema = Schema.load(name)
    encode_capture(CAPTURE, tmp_path / "flows.pb", schema)
    messages = (tmp_path / "flows.pb").read_bytes()
    with KafkaSink(broker.servers, broker.make_topic(topic_of(options, schema)), schema, pack=pack) as sink:
        sink.write(messages)
    given = framed(options, sink.framing)
    engine.create(schema, given)
    expected = rows_expected(messages, schema)
    wait_for(engine, given.name(schema), len(expected))
    assert rows_in(engine, schema, given.name(schema)) == expected


def test_the_schema_may_be_a_file(engine: Local, options: TableOptions, send: Send, tmp_path: Path) -> None:
    """What belongs into it stands in the comment. (Servers have a folder for such files; here it is a path.)"""
    assert options.kafka
    given = replace(options, kafka=replace(options.kafka, schema_file=str(tmp_path / "flow.proto")))
    statements = to_ddl(FLOW, given)
    (comment,) = (each.comment for each in statements if "= Kafka" in each.sql)
    (tmp_path / "flow.proto").write_text(comment[comment.index("syntax") :])
    messages = messages_of(FLOW)
    send(topic_of(given, FLOW), messages)
    engine.run(statements)
    wait_for(engine, given.name(FLOW), len(rows_expected(messages, FLOW)))
    assert rows_in(engine, FLOW, given.name(FLOW)) == rows_expected(messages, FLOW)


def test_what_cannot_be_read_stands_apart_and_the_rest_goes_on(
    engine: Local, options: TableOptions, send: Send
) -> None:
    """A record is taken whole, or not at all: the first two messages of a third that is damaged stand apart
    with it.
    """
    good = messages_of(FLOW)
    damaged = good + b"\x05\x08"
    topic = topic_of(options, FLOW)
    send(topic, good, POISON, good, damaged, good)
    engine.create(FLOW, options)
    count = 3 * len(rows_expected(good, FLOW))
    wait_for(engine, options.name(FLOW), count)
    assert rows_in(engine, FLOW, options.name(FLOW)) == ordered(rows_expected(good, FLOW) * 3)
    asked = f"SELECT topic, `partition`, offset, hex(raw_message) AS raw, error FROM {options.name(FLOW, 'errors')}"
    wait_for(engine, options.name(FLOW, "errors"), 2)
    found = engine.query(f"{asked} ORDER BY offset").to_pylist()
    assert [(row["topic"], row["partition"], row["offset"]) for row in found] == [
        (topic, 0, 1),
        (topic, 0, 3),
    ]
    assert [bytes.fromhex(row["raw"]) for row in found] == [POISON, damaged]
    assert all(row["error"] for row in found)


def test_the_same_record_twice_is_two(engine: Local, options: TableOptions, send: Send) -> None:
    """The table drops an INSERT that comes again; of Kafka that is no repetition."""
    record = messages_of(FLOW)
    engine.create(FLOW, options)
    for times in (1, 2, 3):
        send(topic_of(options, FLOW), record)
        wait_for(engine, options.name(FLOW), times * len(rows_expected(record, FLOW)))


@pytest.mark.parametrize("way", ["added", "beside"])
def test_nothing_is_lost_by_a_migration(engine: Local, options: TableOptions, send: Send, way: str) -> None:
    """Flows that were read before it are kept. Flows that were sent before it are read after it. The new
    topic exists before the new queue, as docs/how-to/clickhouse.md demands: librdkafka looks for other topics only
    every five minutes.
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


def test_poison_that_comes_while_views_are_made_is_not_lost(
    engine: Local, options: TableOptions, send: Send
) -> None:
    """One view alone reads the topic, and is made last: nothing is read before all of them are there."""
    send(topic_of(options, FLOW), POISON, messages_of(FLOW))
    engine.create(FLOW, options)
    wait_for(engine, options.name(FLOW, "errors"), 1)
    wait_for(engine, options.name(FLOW), len(rows_expected(messages_of(FLOW), FLOW)))
    engine.run(drop_ddl(FLOW, options))
    assert engine.query(f"SELECT name FROM system.tables WHERE database = '{options.database}'").num_rows == 0
