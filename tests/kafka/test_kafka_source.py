"""KafkaSource reads batches from a real broker, commits their offsets, and follows changes of partitions."""

from __future__ import annotations

import gc
import itertools
import re
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest

import flowbuf
from flowbuf.errors import KafkaError, PartitionLost
from flowbuf.kafka.consumer import BatchLimits, KafkaSource, SourceBatch
from tests.support.broker import PATIENCE, Broker, MakeTopic
from tests.support.command import json_lines
from tests.support.consuming import consume

SCHEMA = flowbuf.Schema.load("flow").only("bytes", "src_port")
Flow = SCHEMA.message_class()
ONE_BY_ONE = BatchLimits(bytes=1)
WHOLE = BatchLimits(seconds=3600)


def values(*numbers: int) -> list[bytes]:
    """Return Kafka records of one bare flow each, with the number in the column `bytes`."""
    return [Flow(bytes=number).SerializeToString() for number in numbers]


def numbers(*batches: SourceBatch | None) -> list[int]:
    return [number for each in batches if each for flows in each.flows for number in column(flows)]


def column(flows: Any) -> list[int]:
    found: list[int] = flows.to_arrow()["bytes"].to_pylist()
    return found


def source(broker: Broker, *topics: str, **options: Any) -> KafkaSource:
    return KafkaSource(broker.servers, topics, **{"schema": SCHEMA, "until_end": True, **options})


def next_batch(batches: Iterable[SourceBatch | None]) -> SourceBatch:
    return next(batch for batch in batches if batch)


def test_committed_batches_are_not_read_again(broker: Broker, topic: str, group: str) -> None:
    broker.produce(topic, values(1, 2, 3))
    with source(broker, topic, group=group, limits=ONE_BY_ONE) as first:
        for batch in first:
            if batch and batch.first < 2:
                first.commit(batch)
    with source(broker, topic, group=group) as second:
        assert numbers(*second) == [3]
    with source(broker, topic) as everything:
        assert numbers(*everything) == [1, 2, 3]


def test_batches_name_their_topic_partition_and_offsets(broker: Broker, topic: str) -> None:
    broker.produce(topic, values(1, 2, 3))
    with source(broker, topic) as batches:
        (batch,) = filter(None, batches)
    assert (batch.topic, batch.partition, batch.first, batch.end, len(batch)) == (topic, 0, 0, 3, 3)
    assert re.fullmatch(rf"{topic}:[0-9a-f]{{32}}:0:0-3", batch.token)
    assert batch.schema.hash == SCHEMA.hash
    assert batches.records == 3


def test_iteration_can_be_resumed(broker: Broker, topic: str) -> None:
    broker.produce(topic, values(*range(1, 21)))
    found: list[int] = []
    with source(broker, topic, limits=BatchLimits(bytes=700)) as batches:
        while len(found) < 20:
            found += numbers(next_batch(batches))
    assert found == list(range(1, 21))


def test_closed_sources_return_no_batches(broker: Broker, topic: str) -> None:
    broker.produce(topic, values(*range(1, 21)))
    with source(broker, topic, limits=ONE_BY_ONE) as batches:
        for batch in batches:
            if batch:
                batches.close()
                assert numbers(batch) == [1]
    assert list(batches) == []


def test_rest_returns_the_unfinished_batches(broker: Broker, topic: str) -> None:
    broker.produce(topic, values(1, 2, 3))
    with source(broker, topic, until_end=False, limits=WHOLE) as batches:
        iterator = iter(batches)
        while batches.lag != 3 or next(iterator) is not None:
            next(iterator)
        for _ in range(5):
            assert next(iterator) is None
        assert numbers(*batches.rest()) == [1, 2, 3]
        assert batches.lag == 0


def test_batches_with_faults_only_are_returned(broker: Broker, topic: str, group: str) -> None:
    """The next Kafka record has another framing, which ends the batch before the end of the partition."""
    own = {"flowbuf-schema": SCHEMA.hash, "flowbuf-framing": "bare"}
    broker.produce(topic, [b"\xff", b"\xff\xff"], headers={**own, "flowbuf-framing": "delimited"})
    broker.produce(topic, values(3), headers=own)
    with source(broker, topic, group=group) as batches:
        found = [batch for batch in batches if batch is not None]
        for batch in found:
            batches.commit(batch)
    assert [(batch.first, batch.end, len(batch)) for batch in found] == [(0, 2, 0), (2, 3, 1)]
    assert [[fault.offset for fault in batch.faults] for batch in found] == [[0, 1], []]
    assert all(found)  # `if batch:` must not skip the faults
    assert numbers(*found) == [3]


# Offsets ----------------------------------------------------------------------------------------------------


def delete_before(broker: Broker, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition

    for future in broker.admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(PATIENCE)


def commit(broker: Broker, topic: str, group: str, offset: int, metadata: str = "") -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    place = TopicPartition(topic, 0, offset, metadata)
    (done,) = broker.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, [place])]
    ).values()
    done.result(PATIENCE)


def test_lag_counts_existing_kafka_records(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    broker.produce(topic, values(*range(1, 11)), partition=0)
    broker.produce(topic, values(*range(1, 5)), partition=1)
    delete_before(broker, topic, 7)
    with source(broker, topic, limits=ONE_BY_ONE) as batches:
        lags = {batches.lag for batch in batches if batch}
        assert lags >= set(range(4))
        assert max(lags) <= 6
        assert batches.lag == 0


def test_deleted_kafka_records_are_skipped_and_counted(broker: Broker, topic: str, group: str) -> None:
    broker.produce(topic, values(*range(1, 11)))
    with source(broker, topic, group=group, limits=ONE_BY_ONE) as batches:
        batches.commit(next_batch(batches))
    delete_before(broker, topic, 5)
    lines: list[str] = []
    with source(broker, topic, group=group, on_problem=lines.append) as batches:
        batch = next_batch(batches)
        assert numbers(batch) == [6, 7, 8, 9, 10]
        batches.commit(batch)
        assert batches.deleted == 4
    assert lines == [f"topic {topic!r}, partition 0: offsets 1 to 4 were deleted before they were read"]
    delete_before(broker, topic, 10)
    with source(broker, topic, group=group) as batches:
        assert numbers(*batches) == []
        assert batches.deleted == 0  # they were read


def test_deleted_kafka_records_are_reported(broker: Broker, topic: str, group: str) -> None:
    broker.produce(topic, values(1, 2, 3))
    options = ("--schema", "flow", "--group", group, "-f", "jsonl")
    assert consume(broker, topic, *options, "-n", 1).exit_code == 0
    commit(broker, topic, group, 1)
    delete_before(broker, topic, 2)
    result = consume(broker, topic, *options)
    assert (result.exit_code, len(json_lines(result))) == (1, 1)
    assert "offsets 1 to 1 were deleted before they were read" in result.stderr
    assert "offsets deleted before they were read: 1; " in result.stderr


def test_missing_offsets_are_skipped(broker: Broker, make_topic: MakeTopic) -> None:
    """Aborted Kafka records and transaction markers have offsets, but are not returned."""
    from confluent_kafka import Producer

    topic = make_topic()
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(PATIENCE)
    for value, end in zip(values(1, 2, 3), ("commit", "abort", "commit"), strict=True):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(PATIENCE)
        getattr(producer, f"{end}_transaction")(PATIENCE)
    with source(broker, topic) as batches:
        (batch,) = filter(None, batches)
        assert numbers(batch) == [1, 3]
        assert (batch.first, batch.end) == (0, 5)
        assert batches.records == 2


def test_a_promised_batch_is_never_split(broker: Broker, topic: str, group: str) -> None:
    """Neither a limit of bytes nor rest() returns a part of it."""
    broker.produce(topic, values(*range(1, 101)))
    with source(broker, topic, group=group) as batches:
        batches.promise(next_batch(batches))
    with source(broker, topic, group=group, limits=ONE_BY_ONE) as batches:
        batches._chunk = 10
        iterator = iter(batches)
        while batches._bytes == 0:
            assert next(iterator) is None
        assert list(batches.rest()) == []
        assert numbers(next_batch(iterator)) == list(range(1, 101))


def test_a_promised_batch_is_read_again(broker: Broker, topic: str, group: str) -> None:
    broker.produce(topic, values(1, 2, 3))
    with source(broker, topic, group=group) as batches:
        batch = next_batch(batches)
        batches.promise(batch)
    broker.produce(topic, values(4, 5))
    for limits in (BatchLimits(), ONE_BY_ONE):
        with source(broker, topic, group=group, limits=limits) as batches:
            again = next_batch(batches)
            assert (again.token, numbers(again)) == (batch.token, [1, 2, 3])
    with source(broker, topic, group=group) as batches:
        for again in filter(None, batches):
            batches.promise(again)
            batches.commit(again)
    with source(broker, topic, group=group) as batches:
        assert numbers(*batches) == []


@pytest.mark.parametrize(("before", "tokens"), [(2, ["0-3", "3-5"]), (4, ["3-5"]), (5, [])])
def test_a_promised_batch_keeps_its_token_if_kafka_records_are_deleted(
    broker: Broker, topic: str, group: str, before: int, tokens: list[str]
) -> None:
    broker.produce(topic, values(1, 2, 3))
    with source(broker, topic, group=group) as batches:
        batches.promise(next_batch(batches))
    broker.produce(topic, values(4, 5))
    delete_before(broker, topic, before)
    with source(broker, topic, group=group) as batches:
        found = list(filter(None, batches))
    assert [batch.token.rpartition(":")[2] for batch in found] == tokens
    assert numbers(*found) == list(range(before + 1, 6))


@pytest.mark.parametrize("metadata", ["flowbuf:", "flowbuf:x", "of somebody else", "flowbuf:-1"])
def test_unknown_metadata_is_ignored(broker: Broker, topic: str, group: str, metadata: str) -> None:
    broker.produce(topic, values(1, 2, 3))
    commit(broker, topic, group, 1, metadata)
    with source(broker, topic, group=group) as batches:
        assert numbers(*batches) == [2, 3]


# Groups -----------------------------------------------------------------------------------------------------


STRATEGIES = ["range", "cooperative-sticky"]


def quick(strategy: str) -> dict[str, Any]:
    return {"partition.assignment.strategy": strategy, "heartbeat.interval.ms": 200}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_batches_of_a_lost_partition_cannot_be_committed(
    broker: Broker, make_topic: MakeTopic, group: str, strategy: str
) -> None:
    """The new owner of the partition reads the batches that were not stored."""
    topic = make_topic(partitions=2)
    for partition in range(2):
        broker.produce(topic, values(*range(10 * partition + 1, 10 * partition + 4)), partition=partition)
    options = {"group": group, "until_end": False, "settings": quick(strategy)}
    with source(broker, topic, **options) as one:
        held: dict[int, SourceBatch] = {}
        for batch in itertools.islice(one, 1000):
            if batch:
                held[batch.partition] = batch
            if len(held) == 2:
                break
        # Opened only now, because it may get one of the partitions as soon as it has joined.
        with source(broker, topic, **options) as other:
            again: list[SourceBatch | None] = []
            for ours, theirs in itertools.islice(zip(one, other, strict=False), 1000):
                again.append(ours)
                if theirs:
                    break
            assert theirs
            lost = theirs.partition
            assert numbers(theirs) == numbers(held[lost])
            for call in (one.promise, one.commit):
                with pytest.raises(PartitionLost, match="another member of the group has the partition"):
                    call(held[lost])
            assert numbers(*again) == []  # batches of the kept partition are not repeated
            one.promise(held[1 - lost])
            one.commit(held[1 - lost])
            other.promise(theirs)
            other.commit(theirs)
    with source(broker, topic, group=group) as rest:
        assert numbers(*rest) == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_batch_is_stored_once_during_a_rebalance(
    broker: Broker, topic: str, group: str, strategy: str
) -> None:
    """A new member causes a rebalance, during which no member may promise or commit."""
    broker.produce(topic, values(1, 2, 3))
    options = {"group": group, "until_end": False, "settings": quick(strategy)}
    with source(broker, topic, **options) as one:
        pending: SourceBatch | None = next_batch(one)
        with source(broker, topic, **options) as other:
            stored: dict[str, list[int]] = {}
            ones, others = iter(one), iter(other)
            for _ in range(300):
                for member, each in ((one, pending or next(ones)), (other, next(others))):
                    if each:
                        # A failed commit is suppressed, too: the batch is promised and stored.
                        with suppress(PartitionLost):
                            member.promise(each)
                            stored[each.token] = numbers(each)
                            member.commit(each)
                pending = None
                if stored:
                    break
            assert list(stored.values()) == [[1, 2, 3]]


def test_a_batch_is_returned_again_after_a_refused_promise(
    broker: Broker, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers refuse promises only for a short moment, so the test replaces one answer."""
    broker.produce(topic, values(1, 2, 3))
    with source(broker, topic, group=group, limits=ONE_BY_ONE) as one:
        batch, *others = itertools.islice((each for each in one if each), 3)
        answer = one._kafka.KafkaError(one._kafka.KafkaError.ILLEGAL_GENERATION)
        with monkeypatch.context() as patch:
            patch.setattr(one._commits, "_try", lambda *given: answer)
            with pytest.raises(PartitionLost, match="generation"):
                one.promise(batch)
        again = [each for each in one if each]
        assert [each.token for each in again] == [each.token for each in (batch, *others)]
        assert [numbers(each) for each in again] == [[1], [2], [3]]


def test_a_member_without_partitions_waits_for_them(broker: Broker, topic: str, group: str) -> None:
    """`until_end` does not stop a member while partitions are assigned."""
    broker.produce(topic, values(1, 2, 3))
    settings = quick("range")
    with source(broker, topic, group=group, settings=settings, until_end=False) as one:
        next_batch(one)
        with source(broker, topic, group=group, settings=settings) as other:
            ones, found = iter(one), []
            for batch in other:
                next(ones)
                found += numbers(batch)
        assert found in ([], [1, 2, 3])


# Memory and limits ------------------------------------------------------------------------------------------


def test_many_partitions_take_bounded_memory(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=100)
    limits = BatchLimits(bytes=50_000, seconds=3600)
    value = Flow(bytes=1, src_port=2).SerializeToString() * 100
    broker.produce(topic, [value] * 4000)
    found = 0
    with source(broker, topic, limits=limits) as batches:
        for batch in filter(None, batches):
            assert batches._bytes <= 4 * limits.bytes
            found += len(batch)
        assert batches._bytes == 0
    assert found == 4000


def test_batches_respect_the_limit_of_bytes(broker: Broker, topic: str) -> None:
    value = b"".join(b"\x05" + values(10_000_000)[0] for _ in range(1000))
    assert len(value) == 6000
    broker.produce(topic, [value] * 200)
    with source(broker, topic, framing="delimited", limits=BatchLimits(bytes=60_000)) as batches:
        sizes = [batch.end - batch.first for batch in batches if batch]
    assert sum(sizes) == 200
    assert max(sizes) <= 10


def test_missing_topics_and_unknown_framings_raise(broker: Broker, topic: str) -> None:
    with pytest.raises(KafkaError, match="topic 'no-such-topic' does not exist"):
        source(broker, "no-such-topic")
    broker.produce(topic, [b"\0"], headers={"flowbuf-schema": SCHEMA.hash, "flowbuf-framing": "woven"})
    with (
        source(broker, topic) as batches,
        pytest.raises(flowbuf.SchemaError, match="framing 'woven' is unknown"),
    ):
        list(batches)
    gc.collect()
