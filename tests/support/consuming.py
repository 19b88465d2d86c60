"""Functions for tests of `flowbuf consume`: fill topics, read them, and look up committed offsets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pyarrow.parquet
from click.testing import Result

from tests.support.broker import PATIENCE, Broker
from tests.support.command import flowbuf, json_lines
from tools import services


def produce(broker: Broker, capture: Path, topic: str, *options: object) -> str:
    """Send a capture to a topic. Return the name of the topic, which may contain the hash."""
    produced = flowbuf("produce", capture, "--kafka", broker.servers, "--topic", topic, *options)
    assert produced.exit_code == 0, produced.output
    told = dict(pair.split("=") for pair in produced.stdout.split())
    assert told["delivered"] == told["records"]
    return told["topic"]


def consume(broker: Broker, topic: str, *options: object) -> Result:
    """Consume all messages of the topic."""
    return flowbuf("consume", "--kafka", broker.servers, "--topic", topic, "--until-end", *options)


def notes(result: Result) -> list[str]:
    """Return the lines on standard error before the totals, which must be there."""
    *lines, totals = result.stderr.splitlines()
    assert re.fullmatch(r"flowbuf: [\d,]+ flows? from [\d,]+ Kafka records?(; .*)?", totals), result.stderr
    return lines


@contextmanager
def consuming(broker: Broker, topic: str, *options: object, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run `flowbuf consume` as a process until a signal ends it, at the latest at the end of the `with`
    block.

    Standard error is a pipe.
    """
    command = [sys.executable, "-m", "flowbuf", "consume", "--kafka", broker.servers, "--topic", topic]
    with subprocess.Popen(
        [*command, *map(str, options)], **{"stdout": PIPE, "stderr": PIPE, **more}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait(done: Callable[[], object]) -> None:
    assert services.wait(lambda: bool(done()), PATIENCE)


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def committed(broker: Broker, group: str, topic: str) -> int:
    """Return the sum of the offsets that a group has committed in all partitions."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    places = [TopicPartition(topic, number) for number in range(len(broker.leaders(topic)))]
    (found,) = broker.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, places)]
    ).values()
    return sum(max(place.offset, 0) for place in found.result().topic_partitions)


def ports(folder: Path) -> list[int]:
    """Return the source ports in the files of a folder."""
    return sorted(port for file in folder.glob("*.parquet") for port in read_ports(file))


def ports_of(capture: Path) -> list[int]:
    """Return the source ports in a capture."""
    return sorted(flow.get("src_port", 0) for flow in json_lines(flowbuf("read", capture, "-f", "jsonl")))


def read_ports(file: Path) -> list[int]:
    return list(pyarrow.parquet.read_table(file, columns=["src_port"])["src_port"].to_pylist())
