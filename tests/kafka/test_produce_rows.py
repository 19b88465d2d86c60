"""`flowbuf produce --rows flows,counters` sends each kind of rows to a topic of its own, on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowbuf import Decoder
from tests.decode.test_row_kinds import BOTH, MIXED
from tests.support.broker import Broker
from tests.support.command import flowbuf, generated, pcap, write

pytestmark = pytest.mark.slow


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.pcap"
    path.write_bytes(pcap(MIXED, MIXED))
    return path


@pytest.mark.parametrize("options", [(), ("--key", "exporter"), ("--pack", "datagram")])
def test_each_kind_has_its_topic(
    broker: Broker, topic: str, capture: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    where = ("--kafka", broker.servers, "--partitions", 1, "--topic", f"{topic}-{{rows}}")
    done = flowbuf("produce", capture, *where, "--rows", "flows,counters", *options)
    assert (done.exit_code, done.stderr) == (0, "")
    counts = [line.split()[:2] for line in done.stdout.splitlines()]
    assert counts == [[f"topic={topic}-flows", "flows=6"], [f"topic={topic}-counters", "flows=4"]]
    flowbuf("encode", capture, "--rows", "flows,counters", "-o", tmp_path / "{rows}.pb")
    for kind in ("flows", "counters"):
        assert b"".join(broker.values(f"{topic}-{kind}")) == (tmp_path / f"{kind}.pb").read_bytes()


def test_each_kind_without_rows_is_reported(broker: Broker, topic: str, tmp_path: Path) -> None:
    capture = write(tmp_path / "flows.pcap", generated("netflow5", 9))
    where = ("--kafka", broker.servers, "--partitions", 1, "--topic", f"{topic}-{{rows}}")
    done = flowbuf("produce", capture, *where, "--rows", "flows,counters,options")
    assert (done.exit_code, done.stderr) == (0, "flowbuf: no counter samples\nflowbuf: no options records\n")


def test_the_default_topics_name_the_kind(broker: Broker, capture: Path) -> None:
    where = ("--kafka", broker.servers, "--partitions", 1)
    done = flowbuf("produce", capture, *where, "--rows", "flows,counters")
    topics = [line.split()[0] for line in done.stdout.splitlines()]
    schemas = Decoder(schemas=BOTH).schemas
    assert topics == [f"topic={schema.rows}-{schema.hash}" for schema in schemas]


def test_one_topic_does_not_take_several_kinds(capture: Path) -> None:
    done = flowbuf("produce", capture, "--kafka", "localhost:1", "--rows", "flows,counters", "--topic", "t")
    assert done.exit_code == 2
    assert "topic t is the same for several kinds of rows; write {rows} in its name" in done.stderr
