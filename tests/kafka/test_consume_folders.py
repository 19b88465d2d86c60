"""Folders of `flowbuf consume` store the identifiers of their topics, and refuse recreated topics."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow.dataset
import pytest

import flowbuf
from flowbuf.cli.consume_outputs import FolderOutlet, Selections
from flowbuf.cli.output.failure import Failure
from flowbuf.cli.output.report import Report
from flowbuf.kafka.consumer import SourceBatch
from tests.support.broker import PATIENCE, Broker
from tests.support.command import flowbuf as run
from tests.support.command import generated, write
from tests.support.consuming import committed, consume, consuming, notes, ports, ports_of, produce, wait

FLOWS = 400
OLD, NEW = "0123456789abcdef" * 2, "fedcba9876543210" * 2  # identifiers of topics


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("netflow9", FLOWS))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture with as many flows, but other ones."""
    return write(tmp_path_factory.mktemp("other") / "other.pcap", generated("netflow9", FLOWS, seed=2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "parquet"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def refusal(folder: object, topic: str) -> str:
    problem = f"has files of another topic {topic!r}, perhaps from before it was deleted and created again"
    return f"{folder}: {problem}; use another folder"


def test_a_recreated_topic_needs_another_folder(
    broker: Broker, topic: str, capture: Path, other: Path, group: str, folder: Path, tmp_path: Path
) -> None:
    """The new Kafka records have the offsets of deleted ones. Their file must not replace the old one."""
    produce(broker, capture, topic)
    assert consume(broker, topic, "--group", group, "-o", f"{folder}/").exit_code == 0
    before = contents(folder)
    broker.recreate_topic(topic)
    produce(broker, other, topic)
    for options in (("--group", group), ("--group", group, "-f", "arrow"), ()):
        refused = consume(broker, topic, *options, "-o", f"{folder}/")
        assert (refused.exit_code, refused.stderr) == (1, f"flowbuf: {refusal(f'{folder}/', topic)}\n")
        assert contents(folder) == before
        assert committed(broker, group, topic) == 0
    assert ports(folder) == ports_of(capture) != ports_of(other)
    fresh = tmp_path / "fresh"
    result = consume(broker, topic, "--group", group, "-o", f"{fresh}/")
    assert (result.exit_code, notes(result)) == (0, [])
    assert ports(fresh) == ports_of(other)
    assert committed(broker, group, topic) == len(broker.values(topic))
    names = {name for name in contents(folder) if not name.startswith(".")}
    # The names are equal, so the new file could have replaced the old one.
    assert names == {name for name in contents(fresh) if not name.startswith(".")}


def test_one_recreated_topic_of_several_is_refused(
    broker: Broker, topic: str, capture: Path, group: str, folder: Path
) -> None:
    first = broker.make_topic()
    produce(broker, capture, topic)
    assert consume(broker, topic, "--group", group, "-o", f"{folder}/").exit_code == 0
    before = contents(folder)
    broker.recreate_topic(topic)
    for each in (first, topic):
        produce(broker, capture, each)
    refused = consume(broker, first, "--topic", topic, "--group", group, "-o", f"{folder}/")
    assert refused.exit_code == 1
    assert refusal(f"{folder}/", topic) in refused.stderr
    assert contents(folder) == before
    assert (committed(broker, group, first), committed(broker, group, topic)) == (0, 0)


def test_a_topic_that_is_recreated_while_it_is_read_is_refused(
    broker: Broker, topic: str, capture: Path, other: Path, group: str, folder: Path
) -> None:
    """The consumer is stopped meanwhile, so it never sees that the topic is missing.

    The new topic has fewer Kafka records, so the consumer starts again at offset 0.
    """
    with consuming(broker, topic, "--group", group, "--batch-seconds", 0.1, "-o", f"{folder}/") as process:
        for end in (1, 2):
            produce(broker, capture, topic)
            wait(lambda end=end: committed(broker, group, topic) == end)
        before = contents(folder)
        process.send_signal(signal.SIGSTOP)
        broker.recreate_topic(topic)
        produce(broker, other, topic)
        process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE) == 1
        assert process.stderr
        assert refusal(f"{folder}/", topic) in process.stderr.read().decode()
    assert contents(folder) == before
    assert ports(folder) == sorted(2 * ports_of(capture))
    assert committed(broker, group, topic) == 0


def test_a_folder_without_identifiers_gets_them_at_the_start(
    broker: Broker, topic: str, capture: Path, other: Path, group: str, folder: Path
) -> None:
    """Older versions of flowbuf wrote no identifiers."""
    produce(broker, capture, topic)
    assert consume(broker, topic, "--group", group, "-o", f"{folder}/").exit_code == 0
    before = contents(folder)
    (hidden,) = folder.glob(".*.topic")
    hidden.unlink()
    result = consume(broker, topic, "--group", group, "-o", f"{folder}/")
    assert (result.exit_code, result.stderr) == (0, "flowbuf: 0 flows from 0 Kafka records\n")
    assert contents(folder) == before
    broker.recreate_topic(topic)
    produce(broker, other, topic)
    assert consume(broker, topic, "--group", group, "-o", f"{folder}/").exit_code == 1
    assert contents(folder) == before


def test_a_folder_without_files_accepts_a_recreated_topic(
    broker: Broker, topic: str, capture: Path, other: Path, folder: Path
) -> None:
    produce(broker, capture, topic)
    assert consume(broker, topic, "-o", f"{folder}/").exit_code == 0
    (old,) = folder.glob(".*.topic")
    for file in folder.glob("*.parquet"):
        file.unlink()
    broker.recreate_topic(topic)
    produce(broker, other, topic)
    result = consume(broker, topic, "-o", f"{folder}/")
    assert (result.exit_code, notes(result)) == (0, [])
    assert ports(folder) == ports_of(other)
    (new,) = folder.glob(".*.topic")
    assert new.name != old.name


def test_readers_of_a_folder_skip_the_identifier(
    broker: Broker, topic: str, capture: Path, folder: Path
) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    produce(broker, capture, topic)
    assert consume(broker, topic, "-o", f"{folder}/").exit_code == 0
    assert len(list(folder.glob(".*.topic"))) == 1
    assert pyarrow.dataset.dataset(folder).count_rows() == FLOWS
    assert polars.read_parquet(f"{folder}/").height == FLOWS
    assert len(pandas.read_parquet(folder)) == FLOWS
    counted = run("query", "SELECT count(*) AS flows FROM flows", f"{folder}/*.parquet", "-f", "csv")
    assert counted.stdout.split() == ["flows", f"{FLOWS}"]


EVERYTHING = Selections(Report(), "binary")


class Source:
    """A source whose topics may lack identifiers, as with brokers before Kafka 2.8."""

    def __init__(self, identifier: str) -> None:
        self.topic_ids = {"flows": identifier}

    def promise(self, batch: SourceBatch) -> None:
        pass


def store(folder: Path, capture: Path, identifier: str, topic_id: str) -> None:
    """Store a batch of a topic that has `topic_id` now and had `identifier` at the start."""
    flows = list(flowbuf.read_capture(capture))
    batch = SourceBatch("flows", 0, 0, 100, flowbuf.Schema.load("flow"), flows, (), topic_id)
    source, committed = Source(identifier), []
    with FolderOutlet("parquet", f"{folder}", EVERYTHING, source, committed.append) as outlet:  # type: ignore[arg-type]
        outlet.store(batch, None)
    assert committed == [batch]


def test_brokers_may_have_no_identifiers(capture: Path, other: Path, folder: Path) -> None:
    store(folder, capture, "", "")
    assert [file.name[:8] for file in folder.iterdir()] == ["flows-0-"]
    store(folder, other, "", "")
    assert ports(folder) == ports_of(other)
    store(folder, capture, OLD, OLD)  # the broker was updated
    store(folder, capture, "", "")
    with pytest.raises(Failure, match="has files of another topic 'flows'"):
        store(folder, other, NEW, NEW)
    assert ports(folder) == ports_of(capture)


def test_a_batch_of_another_topic_is_not_stored(capture: Path, other: Path, folder: Path) -> None:
    store(folder, capture, OLD, OLD)
    with pytest.raises(Failure, match="has files of another topic 'flows'"):
        store(folder, other, OLD, NEW)
    assert ports(folder) == ports_of(capture)


def test_topics_with_a_common_prefix_have_their_own_identifiers(capture: Path, folder: Path) -> None:
    for name in ("flows", "flows.more", "flows-0"):
        folder.mkdir(exist_ok=True)
        (folder / f".{name}.{NEW}.topic").touch()
    for name in ("flows.more", "flows-0"):
        (folder / f"{name}-0-{0:020d}-{100:020d}.parquet").touch()
    source = Source(OLD)  # not the one of the hidden file
    with FolderOutlet("parquet", f"{folder}", EVERYTHING, source, lambda batch: None):  # type: ignore[arg-type]
        pass
    (folder / f"flows-0-{0:020d}-{100:020d}.parquet").touch()
    with (
        pytest.raises(Failure, match="has files of another topic 'flows'"),
        FolderOutlet("parquet", f"{folder}", EVERYTHING, source, lambda batch: None),  # type: ignore[arg-type]
    ):
        pass
