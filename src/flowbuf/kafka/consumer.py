"""Read flows from Kafka in batches with their offsets. The caller commits a batch after storing it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from flowbuf.arrow.batch import FlowBatch
from flowbuf.errors import KafkaError, PartitionLost, SchemaError
from flowbuf.kafka.batches import BatchLimits, SourceBatch
from flowbuf.kafka.client import (
    CONSUMER_DEFAULTS,
    TIMEOUT,
    Note,
    Notes,
    TopicNames,
    Topics,
    import_kafka,
    new_client,
)
from flowbuf.kafka.commits import LOST, Commits
from flowbuf.kafka.kafka_records import RecordReader
from flowbuf.kafka.partitions import UNTOLD, Kind, Partition, fault_of, promise_of, read_promise, text_of
from flowbuf.kafka.schema_lookup import SchemaFinder
from flowbuf.kafka.schema_registry import (
    FRAMING_HEADER,
    MAGIC,
    PREFIX_SIZE,
    SCHEMA_HEADER,
    ForeignSchemaError,
    SchemaRegistry,
    find_hash,
)
from flowbuf.kafka.schema_topic import SCHEMAS_TOPIC
from flowbuf.kafka.waiting import HEARTBEAT, Joining, uses_kip_848
from flowbuf.schema import Schema

__all__ = ["BatchLimits", "KafkaSource", "SourceBatch"]

_CHUNK = 2000  # maximum number of records per request
_CHUNK_BYTES = 1 << 23  # target size of these records in bytes
_WAIT = 0.1  # seconds per request
_BATCHES = 4  # maximum number of full batches in memory, of all partitions
_NO_VALUE = "the Kafka record has no value"
_UNSAID = f"the schema is unknown, because the Kafka record has no header {SCHEMA_HEADER}"


class KafkaSource:
    """Read flows from Kafka topics, as a context manager. It leaves its group when the block ends.

    Iterating yields batches, and None if there is nothing new. Kafka records that cannot be decoded are in
    `SourceBatch.faults`. Use a source from one thread at a time.

    With a group, reading begins at the committed offset, and members of the group share the partitions. Call
    `commit` after a batch is stored. Without a group, reading begins at the first record, and nothing is
    committed.

    For exactly-once storage, call `promise` before storing a batch, and store it under the name
    `batch.token`. After a crash in between, the same batch is returned again with the same token. Both calls
    raise PartitionLost if the group has given the partition to another member. Do not store a batch whose
    promise failed. Iterating continues with the remaining partitions.

    Args:
        servers: Initial brokers, "host:port,host:port".
        topics: Name of a topic, or several names. "^flows-.*" and other names that begin with ^ are regular
            expressions. A group also reads topics that match and are created later, after half a minute.
        group: Consumer group. Default: None, read everything and commit nothing.
        until_end: End the iteration when all existing records were returned. Default: False.
        ranges: Partitions to read, as (topic, number) -> first offset and the offset after the last. Only
            without a group. Default: all of the topics.
        schema: Schema of Kafka records that name none.
        framing: Framing of Kafka records that name none: "bare" or "delimited". Default: the framing of their
            schema, else bare.
        registry: Confluent schema registry of the Kafka records. Default: no registry.
        schema_topic: Topic with schema descriptions. None disables it. Default: "flowbuf-schemas".
        hidden: Topics that match no expression. `schema_topic` and those of Kafka (`__…`) never match.
        limits: Limits of a batch. Default: 16 MiB, 0 seconds.
        settings: Settings of librdkafka. They override the default settings.
        timeout: Seconds to wait for the first answer of a broker. Default: 30.
        on_problem: Function that receives a text for each problem that librdkafka retries, for deleted Kafka
            records, and for a group that waits for its members. Default: problems are not reported.

    Attributes:
        records: Number of Kafka records returned so far.
        deleted: Number of offsets so far whose Kafka records were deleted before they were read.

    Raises:
        ImportError: confluent-kafka is not installed.
        ValueError: A topic is not a valid regular expression, there is none, or a group has ranges.
        KafkaError: No broker answers, a topic is missing, or the schema of the records is unknown.
        SchemaError: The schema of the records is invalid.

    Example:
        with KafkaSource("localhost:9092", ["flows"], group="archive") as source:
            for batch in source:
                if batch is None:
                    continue
                for fault in batch.faults:
                    report(fault)
                for flows in batch.flows:
                    store(flows.to_arrow())
                source.commit(batch)
    """

    def __init__(
        self,
        servers: str,
        topics: str | Sequence[str],
        *,
        group: str | None = None,
        until_end: bool = False,
        ranges: Mapping[tuple[str, int], tuple[int, int]] | None = None,
        schema: Schema | None = None,
        framing: str | None = None,
        registry: SchemaRegistry | None = None,
        schema_topic: str | None = SCHEMAS_TOPIC,
        hidden: Collection[str] = (),
        limits: BatchLimits | None = None,
        settings: Mapping[str, Any] | None = None,
        timeout: float = TIMEOUT,
        on_problem: Note = lambda text: None,
    ) -> None:
        self.records = 0
        self.deleted = 0
        self._on_problem = on_problem
        self._kafka = import_kafka()
        self._group = group
        self._until_end = until_end or ranges is not None
        self._framing = framing
        self._limits = limits or BatchLimits()
        self._timeout = timeout
        settings = dict(settings or {})
        self._notes = Notes(on_problem, settings)
        self._finder = SchemaFinder(
            servers,
            settings,
            known=schema,
            registry=registry,
            schema_topic=schema_topic,
            timeout=timeout,
            notes=self._notes,
        )
        self._readers: dict[tuple[str, Kind], RecordReader] = {}
        self._partitions: dict[tuple[str, int], Partition] = {}
        # revoked a moment ago; most are assigned again at once
        self._kept: dict[tuple[str, int], Partition] = {}
        self._unread: deque[Any] = deque()
        self._bytes = 0  # bytes of waiting records, of all partitions
        self._chunk = _CHUNK // 10
        self._told: set[str] = set()  # topics whose records name their schemas
        self._assigned = False
        self._closed = False
        self._known = Topics(servers, settings, self._notes)
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise ValueError("topics is empty; name one")
        if group and ranges is not None:
            raise ValueError("ranges cannot be read in a group")
        self._names = TopicNames(self._known, names, {*hidden, schema_topic}, timeout)
        counts = {topic: self._known.find(topic, timeout) for topic in self._names.topics}
        self._ids = {topic: self._known.find_identifier(topic, timeout) for topic in counts}
        # A broker delays its answer until records arrive. A reader that waits for the end needs it soon.
        wait = 20 if self._until_end else 500
        own: dict[str, Any] = {"group.id": group or "flowbuf", "fetch.wait.max.ms": wait}
        kip_848 = uses_kip_848(settings)
        if not kip_848:  # with KIP-848, the broker sets it
            own["heartbeat.interval.ms"] = HEARTBEAT
        self._consumer = new_client("Consumer", servers, settings, {**CONSUMER_DEFAULTS, **own}, self._notes)
        self._commits = Commits(self._consumer)
        self._joining = Joining(servers, group, settings, self._notes, on_problem) if group else None
        if group:
            strategy = str(settings.get("partition.assignment.strategy", ""))
            steps = "cooperative" in strategy or kip_848
            self._assign = self._consumer.incremental_assign if steps else self._consumer.assign
            self._subscribe()
        else:
            self._assign_all(counts, ranges)

    # Partitions ---------------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        calls = {"on_assign": self._on_assign, "on_revoke": self._on_revoke, "on_lost": self._on_lost}
        self._consumer.subscribe(self._names.topics, **calls)

    def _assign_all(
        self, counts: Mapping[str, int], ranges: Mapping[tuple[str, int], tuple[int, int]] | None
    ) -> None:
        begin = self._kafka.OFFSET_BEGINNING
        everything = {(topic, number): begin for topic, count in counts.items() for number in range(count)}
        places = everything if ranges is None else {place: first for place, (first, _) in ranges.items()}
        for topic, number in places.keys() - everything.keys():
            raise KafkaError(f"topic {topic!r} has no partition {number}")
        # without metadata, the client finds the leaders half a second later
        with suppress(self._kafka.KafkaException):
            for topic in counts:
                self._consumer.list_topics(topic, timeout=self._timeout)
        self._consumer.assign([self._kafka.TopicPartition(*place, first) for place, first in places.items()])
        self._partitions = {place: self._new_partition(*place) for place in places}
        for place, (first, end) in (ranges or {}).items():
            self._partitions[place].start_at(first)
            self._partitions[place].stop, self._partitions[place].at_end = end, first >= end
        self._assigned = True

    def _new_partition(self, topic: str, number: int) -> Partition:
        return Partition(topic, number, plain=self._finder.known is not None or bool(find_hash(topic)))

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        """Continue after the last batch of partitions that this member had before.

        A new partition begins at the committed offset. Its metadata may promise the end of the next batch.
        """
        places = consumer.committed(partitions, timeout=self._timeout) if partitions else []
        for place in places:
            if place.error is not None:
                raise self._kafka.KafkaException(place.error)
            key = place.topic, place.partition
            partition = self._kept.get(key) or self._new_partition(*key)
            if place.offset >= 0 and place.offset > (partition.first or -1):
                partition.start_at(place.offset)
                partition.promised = read_promise(place.metadata)
            if partition.first is not None:
                place.offset = partition.first
            self._partitions[key] = partition
        self._kept = {}
        self._assign(places)
        self._assigned = True
        if self._joining:
            self._joining.end()
            self._joining = None

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        """Drop records that were not returned yet. The next owner of the partition reads them again."""
        self._forget(partitions, self._kept)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        """Forget partitions that other members have had for a while."""
        self._kept = {}
        self._forget(partitions, {})

    def _forget(self, partitions: Iterable[Any], kept: dict[tuple[str, int], Partition]) -> None:
        for place in partitions:
            partition = self._partitions.pop((place.topic, place.partition), None)
            if partition:
                self._bytes -= partition.bytes
                partition.clear()
                partition.at_end = False
                partition.end = partition.first or 0
                kept[place.topic, place.partition] = partition
        self._assigned = bool(self._partitions)

    @property
    def topic_ids(self) -> dict[str, str]:
        """Kafka's identifiers of the topics, as far as they are known. Empty if the broker has none."""
        return dict(self._ids)

    @property
    def lag(self) -> int:
        """Number of existing Kafka records that were not returned yet, as far as it is known."""
        behind = 0
        for (topic, number), partition in self._partitions.items():
            place = self._kafka.TopicPartition(topic, number)
            begin, end = self._consumer.get_watermark_offsets(place, cached=True)
            behind += max(end - max(partition.first or 0, begin), 0)
        return behind

    # Reading ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[SourceBatch | None]:
        while not self._closed:
            given = self.records
            if not self._unread:
                self._unread.extend(self._consume())
            yield from self._take()
            for partition in list(self._partitions.values()):
                if self._is_ready(partition):
                    yield self._give(partition)
            if self._is_done():
                return
            if self.records == given:
                yield None

    def rest(self) -> Iterator[SourceBatch]:
        """Yield the incomplete batches, before the caller stops.

        A batch is skipped if its promised end is not reached.
        """
        yield from self._take()
        for partition in list(self._partitions.values()):
            if partition.since is not None and (partition.promised is None or self._is_ready(partition)):
                yield self._give(partition)

    def _consume(self) -> list[Any]:
        try:
            messages: list[Any] = self._consumer.consume(self._chunk, _WAIT)
        except self._kafka.KafkaException as error:
            raise KafkaError(error.args[0].str()) from error
        if self._notes.fatal:
            raise KafkaError(self._notes.fatal)
        self._notes.look(self._consumer, self._names.topics[0])
        if self._joining:
            self._joining.look()
        if self._group and self._names.have_changed():
            self._subscribe()
        if messages:
            mean = sum(map(len, messages)) / len(messages)
            self._chunk = max(min(int(_CHUNK_BYTES / (mean + 1)), _CHUNK), 10)
        return messages

    def _take(self) -> Iterator[SourceBatch]:
        """Move records to their partitions. Yield batches that are full, or that must end before a record."""
        unread, partitions, full = self._unread, self._partitions, self._limits.bytes
        alike = self._find_alike()
        if alike:
            self._bytes += alike.add_all(unread, unread[-1].offset())
            unread.clear()
            if alike.bytes >= full:
                yield self._give(alike)
        while unread:
            message = unread[0]
            partition = partitions.get((message.topic(), message.partition()))
            if message.error() is not None:
                self._note_error(unread.popleft(), partition)
                continue
            if partition is None:  # it was revoked in the meantime
                unread.popleft()
                continue
            if partition.is_outside(message.offset()):
                if message.offset() < partition.begin:
                    raise KafkaError(f"topic {partition.topic!r}: was created again while it was read")
                partition.at_end = True
                unread.popleft()
                continue
            if partition.first is not None and message.offset() > partition.end:
                self._note_deleted(partition, message.offset())
            kind, reason = self._kind_of(partition, message)
            ended = None
            if partition.must_end(kind, message.offset()):
                if partition.promised is not None and message.offset() >= partition.promised:
                    partition.end = partition.promised  # the records in between were deleted
                ended = self._give(partition)
            if partition.first is not None and message.offset() < partition.first:
                self._ids.pop(partition.topic, None)  # the topic was created again
            self._bytes += partition.add(unread.popleft(), kind, reason)
            if ended is not None:
                yield ended
            if partition.bytes >= full and partition.promised is None:
                yield self._give(partition)
            elif self._bytes >= _BATCHES * full:
                free = [
                    each for each in partitions.values() if each.promised is None and each.since is not None
                ]
                if free:
                    yield self._give(max(free, key=lambda each: each.bytes))

    def _find_alike(self) -> Partition | None:
        """Return the partition of all unread records, if none of them needs an individual check.

        For Kafka records of one flow, such a check costs more than the flow.
        """
        if not self._unread or self._finder.registry is not None:
            return None
        first, last, message = self._unread[0], self._unread[-1], self._kafka.Message
        partition = self._partitions.get((first.topic(), first.partition()))
        if partition is None or partition.promised is not None or not partition.plain:
            return None
        if partition.is_outside(last.offset()):
            return None
        if partition.kind not in (None, UNTOLD) or first.offset() != partition.end or partition.first is None:
            return None
        if last.offset() - first.offset() + 1 != len(self._unread):  # some may have been deleted
            return None
        if any(map(message.error, self._unread)) or any(map(message.headers, self._unread)):
            return None
        if (
            len(set(map(message.partition, self._unread))) > 1
            or len(set(map(message.topic, self._unread))) > 1
        ):
            return None
        return partition if None not in map(message.value, self._unread) else None

    def _note_deleted(self, partition: Partition, offset: int) -> None:
        """Count the offsets before a Kafka record that Kafka has deleted. Transactions leave gaps, too."""
        place = self._kafka.TopicPartition(partition.topic, partition.number)
        low, _ = self._consumer.get_watermark_offsets(place, cached=True)
        begin, end = partition.end, min(low, offset)
        if end > begin:
            self.deleted += end - begin
            where = f"topic {partition.topic!r}, partition {partition.number}"
            self._on_problem(f"{where}: offsets {begin} to {end - 1} were deleted before they were read")

    def _note_error(self, message: Any, partition: Partition | None) -> None:
        error, codes = message.error(), self._kafka.KafkaError
        if error.code() == codes._PARTITION_EOF:
            if partition:
                partition.at_end = True
        elif error.code() == codes._MAX_POLL_EXCEEDED:  # the client rejoins the group
            self._notes.add(error)
        elif not error.retriable():
            raise KafkaError(f"topic {message.topic()!r}: {error.str()}")

    def _kind_of(self, partition: Partition, message: Any) -> tuple[Kind | None, str]:
        """Return the kind of a Kafka record, or the error that prevents decoding.

        A Kafka record without a kind joins the current batch.
        """
        headers = message.headers()
        if headers:
            told = dict(headers)
            if SCHEMA_HEADER in told:
                self._told.add(partition.topic)
                if message.value() is None:
                    return None, _NO_VALUE
                return Kind(*(text_of(told.get(name)) for name in (SCHEMA_HEADER, FRAMING_HEADER))), ""
        value = message.value()
        if value is None:
            return None, _NO_VALUE
        if self._finder.registry is not None:
            if value[:1] != MAGIC or len(value) < PREFIX_SIZE:
                return None, "the value is not in the wire format of a schema registry"
            if value[5] != 0:
                return None, "the value is not the first message type of its .proto"
            return Kind(int.from_bytes(value[1:5], "big"), "bare"), ""
        return (UNTOLD, "") if partition.plain else (None, _UNSAID)

    def _is_ready(self, partition: Partition) -> bool:
        if partition.since is None:
            return False
        if partition.promised is not None:
            return partition.end >= partition.promised or partition.at_end
        age = time.monotonic() - partition.since
        full = partition.bytes >= self._limits.bytes or age >= self._limits.seconds
        return full or (self._until_end and partition.at_end)

    def _is_done(self) -> bool:
        partitions = self._partitions.values()
        return (
            self._until_end
            and self._assigned
            and all(each.at_end and each.since is None for each in partitions)
        )

    def _give(self, partition: Partition) -> SourceBatch:
        """Return the waiting records of a partition as a batch, and clear the partition."""
        assert partition.first is not None
        if partition.topic not in self._ids:
            self._ids[partition.topic] = self._known.find_identifier(partition.topic, self._timeout)
        schema, faults = self._finder.known, list(partition.faults)
        flows: Sequence[FlowBatch] = ()
        if partition.kind:
            try:
                reader = self._reader(partition.topic, partition.kind)
            except ForeignSchemaError as error:
                faults += [fault_of(record, str(error)) for record in partition.records]
            else:
                schema = reader.schema
                flows, unread = reader.read(list(map(self._kafka.Message.value, partition.records)))
                faults += [fault_of(partition.records[place], reason) for place, reason in unread.items()]
        elif self._must_know(partition):
            schema = self._finder.of_topic(partition.topic)  # raises the error for an unknown schema
        if partition.promised is not None and partition.at_end:
            partition.end = max(partition.end, partition.promised)
        batch = SourceBatch(
            partition.topic,
            partition.number,
            partition.first,
            partition.end,
            Schema.load() if schema is None else schema,
            flows,
            sorted(faults, key=lambda fault: fault.offset),
            self._ids[partition.topic],
        )
        self.records += len(partition.records) + len(partition.faults)
        self._bytes -= partition.bytes
        partition.begin_at(partition.end)
        partition.clear()
        return batch

    def _must_know(self, partition: Partition) -> bool:
        """Return True if no Kafka record of the only topic names its schema. Others may, outside a range."""
        unsaid = any(fault.reason == _UNSAID for fault in partition.faults)
        alone = partition.stop is None and len(self._names.topics) == 1
        return unsaid and alone and partition.topic not in self._told

    def _reader(self, topic: str, kind: Kind) -> RecordReader:
        """Return a decoder for this kind of records.

        Raise KafkaError or SchemaError if their schema cannot be found.
        """
        if (topic, kind) not in self._readers:
            if isinstance(kind.schema, int):
                schema = self._finder.of_number(kind.schema)
            else:
                schema = self._finder.of_hash(kind.schema) if kind.schema else self._finder.of_topic(topic)
            framing = kind.framing or self._framing or schema.framing or "bare"
            if framing not in ("bare", "delimited"):
                raise SchemaError(
                    f"framing {framing!r} is unknown",
                    "a newer flowbuf wrote these Kafka records; update flowbuf",
                )
            skip = PREFIX_SIZE if isinstance(kind.schema, int) else 0
            self._readers[topic, kind] = RecordReader(schema, framing, skip)
        return self._readers[topic, kind]

    @property
    def unknown_fields(self) -> int:
        """Number of fields so far that are not in their schema."""
        return sum(reader.unknown_fields for reader in self._readers.values())

    @property
    def invalid_texts(self) -> int:
        """Number of strings so far that were not valid UTF-8."""
        return sum(reader.invalid_texts for reader in self._readers.values())

    # Offsets ------------------------------------------------------------------------------------------------

    def promise(self, batch: SourceBatch) -> None:
        """Announce that a batch is about to be stored. After a crash, the same batch is returned again.

        Args:
            batch: Batch that this source returned.

        Raises:
            PartitionLost: Another member of the group has the partition, or is about to get it. Do not store
                the batch.
            KafkaError: The offset cannot be committed.
        """
        try:
            self._commit(batch, batch.first, promise_of(batch.end))
        except PartitionLost:
            self._rewind(batch)
            raise

    def commit(self, batch: SourceBatch) -> None:
        """Commit a batch and all batches before it. Call it after the batch is stored.

        Args:
            batch: Batch that this source returned.

        Raises:
            PartitionLost: Another member of the group has the partition, or is about to get it. The next
                owner gets the batch again.
            KafkaError: The offset cannot be committed.
        """
        self._commit(batch, batch.end, "")

    def _commit(self, batch: SourceBatch, offset: int, metadata: str) -> None:
        """Commit an offset. Retry while a broker is unavailable."""
        if self._group is None:
            return
        where = f"topic {batch.topic!r}, partition {batch.partition}, offset {offset}"
        partition = self._partitions.get((batch.topic, batch.partition))
        if partition is None or batch.first < partition.begin:
            raise PartitionLost(
                f"{where}: was not committed, because another member of the group has the partition"
            )
        place = self._kafka.TopicPartition(batch.topic, batch.partition, offset, metadata)
        error = self._commits.commit(place)
        if error is not None:
            problem = f"{where}: was not committed: {error.str()}"
            raise PartitionLost(problem) if error.name() in LOST else KafkaError(problem)

    def _rewind(self, batch: SourceBatch) -> None:
        """Return a batch again that was not stored, if its partition stays with this member."""
        place = batch.topic, batch.partition
        unread = [each for each in self._unread if (each.topic(), each.partition()) != place]
        self._unread.clear()
        self._unread.extend(unread)
        for partition in (self._partitions.get(place), self._kept.get(place)):
            if partition and batch.first >= partition.begin:
                self._bytes -= partition.bytes
                partition.clear()
                partition.begin_at(batch.first)
                partition.promised, partition.at_end = batch.end, False
        if place in self._partitions:
            with suppress(self._kafka.KafkaException):  # the partition is being revoked
                self._consumer.seek(self._kafka.TopicPartition(*place, batch.first))

    def close(self) -> None:
        """Leave the group and end the iteration."""
        if not self._closed:
            self._closed = True
            self._joining = None
            self._unread.clear()
            self._forget([self._kafka.TopicPartition(*place) for place in self._partitions], {})
            if self._commits.running:
                return  # a thread still uses the client; the broker ends the session after its timeout
            with suppress(self._kafka.KafkaException):  # of a group that it was joining
                self._consumer.close()

    def __enter__(self) -> KafkaSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
