"""`flowbuf consume --clickhouse`: out of a real broker into ClickHouse's engine, each flow once, whatever
dies.
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
from tests.support.clickhouse_http import ClickHouse
from tests.support.command import flowbuf, generated, write
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
    """One of three partitions, with all flows of the capture."""
    name = make_topic(partitions=3)
    options = ("--topic", name, "--key", "exporter", "--pack", 5000)
    result = flowbuf("produce", capture, "--kafka", broker.servers, *options)
    assert result.exit_code == 0, result.stderr
    return name


@pytest.fixture
def table(front: ClickHouse, topic: str) -> str:
    """The name of a table of its own, with totals."""
    options = TableOptions(table=topic.replace("-", "_"), aggregates={"1h": ""})
    for statement in to_ddl(Schema.load("flow"), options):
        if statement.sql:
            front.ask(statement.sql)
    return options.table


def arguments(broker: Broker, front: ClickHouse, topic: str, table: str, octets: int = 20_000) -> list[str]:
    return [
        *("consume", "--kafka", broker.servers, "--topic", topic, "--group", f"g-{topic}", "--until-end"),
        *("--clickhouse", front.url, "--table", table, "--batch-bytes", str(octets)),
        *("-X", "session.timeout.ms=6000"),  # so soon it is known that a member is dead
    ]


def count(front: ClickHouse, table: str) -> tuple[int, int]:
    """Flows in the table, and in its totals."""
    return int(front.ask(f"SELECT count() FROM {table}")), int(
        front.ask(f"SELECT sum(flows) FROM {table}_1h")
    )


def test_each_flow_is_there_once(
    broker: Broker, front: ClickHouse, topic: str, table: str, capture: Path
) -> None:
    result = flowbuf(*arguments(broker, front, topic, table))
    assert (result.exit_code, result.stderr) == (0, "")
    assert count(front, table) == (FLOWS, FLOWS)
    wanted = sum(row["bytes"] for row in rows(capture))
    assert int(front.ask(f"SELECT sum(bytes) FROM {table}")) == wanted
    again = flowbuf(*arguments(broker, front, topic, table))
    assert again.exit_code == 0
    assert count(front, table) == (FLOWS, FLOWS)


def test_a_topic_that_is_created_again_is_another_one(
    broker: Broker, front: ClickHouse, topic: str, table: str, tmp_path: Path
) -> None:
    """Its records have the offsets of records that were deleted with the topic. ClickHouse must not drop them
    as batches that it has already.
    """
    assert flowbuf(*arguments(broker, front, topic, table)).exit_code == 0
    broker.recreate_topic(topic, partitions=3)
    other = write(tmp_path / "other.pcap", generated("netflow9", FLOWS, exporters=5, seed=2))
    produced = flowbuf(
        "produce", other, "--kafka", broker.servers, "--topic", topic, "--key", "exporter", "--pack", 5000
    )
    assert produced.exit_code == 0, produced.stderr
    result = flowbuf(*arguments(broker, front, topic, table))
    assert (result.exit_code, result.stderr) == (0, "")
    assert count(front, table) == (2 * FLOWS, 2 * FLOWS)


def rows(capture: Path) -> list[dict[str, int]]:
    import flowbuf as package

    found: list[dict[str, int]] = package.read_capture(capture).to_arrow().select(["bytes"]).to_pylist()
    return found


@pytest.mark.parametrize("inserts", [0, 2])
def test_killed_between_insert_and_commit(
    broker: Broker, front: ClickHouse, topic: str, table: str, inserts: int
) -> None:
    """The insert is done, its answer never comes, and the consumer dies while it waits. The next one would
    make other batches, if it were not for the promise.
    """
    command = [sys.executable, "-m", "flowbuf", *arguments(broker, front, topic, table)]
    for _ in range(inserts):
        kill_after_insert(command, front, table)
    kill_after_insert(command, front, table)
    before, _ = count(front, table)
    assert 0 < before < FLOWS
    result = flowbuf(*arguments(broker, front, topic, table, octets=9_000))
    assert result.exit_code == 0
    waiting, *joined = result.stderr.splitlines()  # for the session of the consumer that was killed
    assert (
        "waiting for 1 other member to rejoin; a killed member stays in the group until its session"
        in waiting
    )
    assert [line.rpartition(": ")[2] for line in joined] == ["joined"]
    assert count(front, table) == (FLOWS, FLOWS)


def kill_after_insert(command: list[str], front: ClickHouse, table: str) -> None:
    """What is inserted in the end may be what was there already: the front tells."""
    inserts = int(front.ask("", "/inserts"))
    front.cause("held")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        assert services.wait(lambda: int(front.ask("", "/inserts")) > inserts, PATIENCE)
        process.send_signal(signal.SIGKILL)


def test_busy_and_lost_answers(broker: Broker, front: ClickHouse, topic: str, table: str) -> None:
    front.cause("busy", 2)
    front.cause("lost", 1)
    result = flowbuf(*arguments(broker, front, topic, table))
    assert result.exit_code == 0
    assert "trying again" in result.stderr
    assert count(front, table) == (FLOWS, FLOWS)


def test_no_table(broker: Broker, front: ClickHouse, topic: str, table: str) -> None:
    """Nothing is committed: once there is a table, all of it comes."""
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
def test_what_cannot_be(options: tuple[str, ...], problem: str) -> None:
    result = flowbuf("consume", "--kafka", "127.0.0.1:1", "--topic", "t", *options)
    assert result.exit_code == 2
    assert problem in result.stderr
