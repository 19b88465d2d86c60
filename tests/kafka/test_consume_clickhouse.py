"""`flowbuf consume --clickhouse` inserts every flow exactly once, even if the consumer or the server fails.

The flows come from a real broker. The server is ClickHouse's engine.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flowbuf import Schema
from flowbuf.targets.clickhouse_tables import TableOptions, to_ddl
from tests.support.broker import Broker, MakeTopic
from tests.support.clickhouse.http import ClickHouse
from tests.support.command import flowbuf, generated, write
from tests.support.consuming import notes
from tools import services

FLOWS = 3000
PATIENCE = 60  # seconds


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("capture") / "capture.pcap", generated("netflow9", FLOWS, exporters=5)
    )


@pytest.fixture
def topic(broker: Broker, make_topic: MakeTopic, capture: Path) -> str:
    """Create a topic of three partitions with all flows of the capture."""
    name = make_topic(partitions=3)
    options = ("--topic", name, "--key", "exporter", "--pack", 5000)
    result = flowbuf("produce", capture, "--kafka", broker.servers, *options)
    assert result.exit_code == 0, result.stderr
    return name


@pytest.fixture
def table(front: ClickHouse, topic: str) -> str:
    """Create a table with hourly totals for one test, and return its name."""
    options = TableOptions(table=topic.replace("-", "_"), aggregates={"1h": ""})
    for statement in to_ddl(Schema.load("flow"), options):
        if statement.sql:
            front.ask(statement.sql)
    return options.table


def arguments(
    broker: Broker, front: ClickHouse, topic: str, table: str, batch_bytes: int = 20_000
) -> list[str]:
    return [
        *("consume", "--kafka", broker.servers, "--topic", topic, "--group", f"g-{topic}", "--until-end"),
        *("--clickhouse", front.url, "--table", table, "--batch-bytes", str(batch_bytes)),
        *("-X", "session.timeout.ms=6000"),  # dead members are noticed after 6 s
    ]


def count(front: ClickHouse, table: str) -> tuple[int, int]:
    """Return the numbers of flows in the table and in its totals."""
    return int(front.ask(f"SELECT count() FROM {table}")), int(
        front.ask(f"SELECT sum(flows) FROM {table}_1h")
    )


def test_every_flow_is_inserted_once(
    broker: Broker, front: ClickHouse, topic: str, table: str, capture: Path
) -> None:
    result = flowbuf(*arguments(broker, front, topic, table))
    assert (result.exit_code, notes(result)) == (0, [])
    assert count(front, table) == (FLOWS, FLOWS)
    expected = sum(row["bytes"] for row in rows(capture))
    assert int(front.ask(f"SELECT sum(bytes) FROM {table}")) == expected
    again = flowbuf(*arguments(broker, front, topic, table))
    assert again.exit_code == 0
    assert count(front, table) == (FLOWS, FLOWS)


def test_groups_store_other_flows_in_the_same_table(
    broker: Broker, front: ClickHouse, topic: str, table: str
) -> None:
    """They read the same batches."""
    for name, condition in (("tcp", "proto = 6"), ("others", "proto <> 6")):
        options = ("--group", f"{name}-{topic}", "--where", condition)
        assert flowbuf(*arguments(broker, front, topic, table), *options).exit_code == 0
    assert count(front, table) == (FLOWS, FLOWS)


def test_a_recreated_topic_is_another_topic(
    broker: Broker, front: ClickHouse, topic: str, table: str, tmp_path: Path
) -> None:
    """The new Kafka records have the offsets of deleted ones.

    ClickHouse must not ignore them as repeated batches.
    """
    assert flowbuf(*arguments(broker, front, topic, table)).exit_code == 0
    broker.recreate_topic(topic, partitions=3)
    other = write(tmp_path / "other.pcap", generated("netflow9", FLOWS, exporters=5, seed=2))
    produced = flowbuf(
        "produce", other, "--kafka", broker.servers, "--topic", topic, "--key", "exporter", "--pack", 5000
    )
    assert produced.exit_code == 0, produced.stderr
    result = flowbuf(*arguments(broker, front, topic, table))
    assert (result.exit_code, notes(result)) == (0, [])
    assert count(front, table) == (2 * FLOWS, 2 * FLOWS)


def rows(capture: Path) -> list[dict[str, int]]:
    import flowbuf as package

    found: list[dict[str, int]] = package.read_capture(capture).to_arrow().select(["bytes"]).to_pylist()
    return found


@pytest.mark.parametrize("inserts", [0, 2])
def test_flows_are_inserted_once_if_the_consumer_dies_before_its_commit(
    broker: Broker, front: ClickHouse, topic: str, table: str, inserts: int
) -> None:
    """The consumer is killed while it waits for the answer to an insert that was completed.

    The promise of the batch makes the next consumer form the same batch in spite of its other limits.
    """
    command = [sys.executable, "-m", "flowbuf", *arguments(broker, front, topic, table)]
    for _ in range(inserts):
        kill_after_insert(command, front, table)
    kill_after_insert(command, front, table)
    before, _ = count(front, table)
    assert 0 < before < FLOWS
    result = flowbuf(*arguments(broker, front, topic, table, batch_bytes=9_000))
    assert result.exit_code == 0
    waiting, *joined = notes(result)  # for the session of the killed consumer
    assert (
        "waiting for 1 other member to rejoin; a killed member stays in the group until its session"
        in waiting
    )
    assert [line.rpartition(": ")[2] for line in joined] == ["joined"]
    assert count(front, table) == (FLOWS, FLOWS)


def kill_after_insert(command: list[str], front: ClickHouse, table: str) -> None:
    """Kill the consumer after its next insert.

    The number of inserts is read from the server, because a repeated insert adds no rows.
    """
    inserts = int(front.ask("", "/inserts"))
    front.cause("held")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        assert services.wait(lambda: int(front.ask("", "/inserts")) > inserts, PATIENCE)
        process.send_signal(signal.SIGKILL)


def test_busy_servers_and_lost_answers_are_retried(
    broker: Broker, front: ClickHouse, topic: str, table: str
) -> None:
    front.cause("busy", 2)
    front.cause("lost", 1)
    result = flowbuf(*arguments(broker, front, topic, table))
    assert result.exit_code == 0
    assert "trying again" in result.stderr
    assert count(front, table) == (FLOWS, FLOWS)


def test_a_missing_table_loses_no_flows(broker: Broker, front: ClickHouse, topic: str, table: str) -> None:
    """Nothing is committed. All flows are inserted when the table exists."""
    wrong = arguments(broker, front, topic, "nowhere")
    result = flowbuf(*wrong)
    assert result.exit_code == 1
    assert "nowhere" in result.stderr
    assert flowbuf(*arguments(broker, front, topic, table)).exit_code == 0
    assert count(front, table) == (FLOWS, FLOWS)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--clickhouse", "http://127.0.0.1:1"), "--group"),
        (("--clickhouse", "127.0.0.1", "--group", "g"), "URL"),
        (("--clickhouse", "http://127.0.0.1:1", "--group", "g", "-o", "x.parquet"), "-o"),
        (("--clickhouse", "http://127.0.0.1:1", "--group", "g", "-n", "5"), "-n"),
        (("--table", "flows"), "--clickhouse"),
    ],
)
def test_invalid_options_are_refused(options: tuple[str, ...], problem: str) -> None:
    result = flowbuf("consume", "--kafka", "127.0.0.1:1", "--topic", "t", *options)
    assert result.exit_code == 2
    assert problem in result.stderr
