"""Kafka topics as Spark DataFrames and streams.

Each partition of a topic is a partition of Spark. Spark keeps the offsets in the checkpoint of a stream, so
there is no consumer group.

The schema of a DataFrame is that of the last Kafka records. Records of another schema are decoded with
their own one. Columns that it lacks are null.

Kafka records that cannot be decoded are logged as warnings of the logger `flowbuf.spark`. With the option
`strict`, they raise DecodeError instead.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from flowbuf.arrow.batch import FlowBatch
from flowbuf.errors import DecodeError, KafkaError
from flowbuf.kafka.client import TIMEOUT, Notes, Topics, split_settings
from flowbuf.kafka.consumer import BatchLimits, KafkaSource
from flowbuf.kafka.schema_lookup import SchemaFinder
from flowbuf.kafka.schema_registry import SchemaRegistry
from flowbuf.kafka.schema_topic import SCHEMAS_TOPIC, parse_schema_topic
from flowbuf.schema import Schema
from flowbuf.schema.loader import FRAMINGS
from flowbuf.spark.columns import LOG, arrow_schema, cast
from flowbuf.spark.options import choice, flag, names, number, read_options
from flowbuf.targets.spark import spark_type

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing: older versions read everything in one batch."""


__all__ = ["KAFKA", "KafkaSettings", "TopicPartition", "TopicReader", "TopicStream"]

KAFKA = "kafka"
"""The option that selects a topic instead of captures."""

CLIENT = "kafka."
"""Begin of the options that are settings of librdkafka."""

NUMBERS = {"smallint", "int", "bigint", "decimal(20,0)", "float", "double"}
"""Types of Spark that are numbers."""

BATCH_BYTES = 1 << 22
MAX_LINES = 20
"""Largest number of undecodable Kafka records that are logged one by one, for each task."""

Place = tuple[str, int]
"""Name of a topic and number of a partition."""


@dataclass(frozen=True)
class KafkaSettings:
    """The options for Kafka.

    Attributes:
        servers: Initial brokers.
        topics: Names of topics, or regular expressions that begin with ^.
        schema: Schema of Kafka records that name none.
        columns: Columns to read. Default: all of the topic's schema.
        framing: Framing of Kafka records that name none.
        registry: URL of a schema registry.
        schema_topic: Topic with schema descriptions; None for none.
        starting_offsets: Where a new stream begins: "earliest" or "latest".
        max_records: Largest number of Kafka records per batch of a stream. Default: no limit.
        strict: Raise an error for Kafka records that cannot be decoded.
        client: Settings of librdkafka.
        registry_client: Settings of the registry's client.
    """

    servers: str
    topics: Sequence[str]
    schema: Schema | None = None
    columns: Sequence[str] = ()
    framing: str | None = None
    registry: str | None = field(default=None, repr=False)
    schema_topic: str | None = SCHEMAS_TOPIC
    starting_offsets: str = "earliest"
    max_records: int | None = None
    strict: bool = False
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry_client: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> KafkaSettings:
        """Return the settings of the options. Raises ValueError for an unknown option or an invalid value."""
        own = {name.removeprefix(CLIENT): text for name, text in options.items() if name.startswith(CLIENT)}
        client, registry = split_settings(own)
        rest = {name: text for name, text in options.items() if not name.startswith(CLIENT)}
        values = read_options(rest, _OPTIONS)
        if not values.get("topic"):
            raise ValueError("topic is missing; set the option topic to the name of a topic")
        if values.get("max_records") and not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
            raise ValueError("max_records needs Spark 4.2 or newer; leave it out")
        named = {_FIELDS.get(name, name): value for name, value in values.items()}
        return cls(**named, client=client, registry_client=registry)

    def open(self, ranges: Mapping[Place, tuple[int, int]]) -> KafkaSource:
        """Return a source of these offsets."""
        return KafkaSource(
            self.servers,
            sorted({topic for topic, _ in ranges}),
            ranges=ranges,
            schema=self.schema,
            framing=self.framing,
            registry=self._open_registry(),
            schema_topic=self.schema_topic,
            settings=self.client,
            limits=BatchLimits(BATCH_BYTES),
            on_problem=LOG.warning,
        )

    def _open_registry(self) -> SchemaRegistry | None:
        return SchemaRegistry(self.registry, self.registry_client) if self.registry else None

    def find_schema(self) -> Schema:
        """Return the schema of the topics, with the chosen columns.

        Raises:
            KafkaError: No broker answers, or the schema is unknown.
            SchemaError: A chosen column does not exist.
        """
        offsets = Broker(self).offsets()
        found = self._newest(offsets) or self._of_topics({topic for topic, _ in offsets})
        return found.only(*self.columns) if self.columns else found

    def _newest(self, offsets: Mapping[Place, tuple[int, int]]) -> Schema | None:
        """Return the schema of the last Kafka records with flows. Of several, it is that with most columns.

        Most topics need only the last record. Before records that cannot be decoded, more are read.
        """
        filled = {place: (low, high) for place, (low, high) in offsets.items() if low < high}
        window = 1
        while filled:
            found: dict[Place, Schema] = {}
            last = {place: (max(low, high - window), high) for place, (low, high) in filled.items()}
            with self.open(last) as source:
                for batch in source:
                    if batch is not None and batch.flows:
                        found[batch.topic, batch.partition] = batch.schema
            if found:
                return max(found.values(), key=lambda schema: len(schema.enabled))
            if all(high - window <= low for low, high in filled.values()):
                break
            window *= 100
        return None

    def _of_topics(self, topics: set[str]) -> Schema:
        """Return the schema of topics without records."""
        finder = SchemaFinder(
            self.servers,
            dict(self.client),
            known=self.schema,
            registry=None,
            schema_topic=self.schema_topic,
            timeout=TIMEOUT,
            notes=Notes(LOG.warning, dict(self.client)),
        )
        return finder.of_topic(min(topics))


_OPTIONS: dict[str, Callable[[str], Any]] = {
    KAFKA: str,
    "topic": names,
    "schema": Schema.load,
    "columns": names,
    "framing": functools.partial(choice, FRAMINGS),
    "schema_registry": str,
    "schema_topic": parse_schema_topic,
    "starting_offsets": functools.partial(choice, ("earliest", "latest")),
    "max_records": functools.partial(number, 2**63 - 1),
    "strict": flag,
}
_FIELDS = {KAFKA: "servers", "topic": "topics", "schema_registry": "registry"}


class Broker:
    """The offsets of the topics. Its client stays open, so that a stream can ask often."""

    def __init__(self, settings: KafkaSettings) -> None:
        client = dict(settings.client)
        notes = Notes(LOG.warning, client)
        self._topics = Topics(settings.servers, client, notes)
        self._names = settings.topics
        self._hidden = {settings.schema_topic}

    def offsets(self) -> dict[Place, tuple[int, int]]:
        """Return the first offset of each partition, and the one after the last. Raises KafkaError."""
        topics = self._topics.expand(self._names, self._hidden, TIMEOUT)
        places = [(topic, number) for topic in topics for number in range(self._topics.find(topic, TIMEOUT))]
        return self._topics.read_offsets(places, TIMEOUT)

    def identifiers(self, places: Iterable[Place]) -> dict[str, str]:
        """Return Kafka's identifiers of topics; empty if the broker has none. Raises KafkaError."""
        topics = {topic for topic, _ in places}
        return {topic: self._topics.find_identifier(topic, TIMEOUT) for topic in topics}


class TopicPartition(InputPartition):
    """A range of offsets of one partition."""

    def __init__(self, topic: str, number: int, first: int, end: int, identifier: str) -> None:
        super().__init__((topic, number, first, end, identifier))
        self.topic = topic
        self.number = number
        self.first = first
        self.end = end
        self.identifier = identifier


class _Reading:
    """Reads ranges of offsets with exactly the columns and types of `wanted`."""

    def __init__(self, settings: KafkaSettings, wanted: StructType) -> None:
        self._settings = settings
        self._wanted = wanted

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the flows of a range."""
        assert isinstance(partition, TopicPartition)
        shown = arrow_schema(self._wanted)
        types = {each.name: each.dataType.simpleString() for each in self._wanted}
        place = partition.topic, partition.number
        bad = 0
        with self._settings.open({place: (partition.first, partition.end)}) as source:
            for batch in source:
                if batch is None:
                    continue
                if batch.topic_id not in ("", partition.identifier):
                    raise KafkaError(f"topic {batch.topic!r}: was created again while it was read")
                for fault in batch.faults:
                    where = f"{fault.topic}, partition {fault.partition}, offset {fault.offset}"
                    text = f"{where}: {fault.reason}"
                    if self._settings.strict:
                        raise DecodeError(text)
                    bad += 1
                    if bad <= MAX_LINES:
                        LOG.warning("%s", text)
                if batch.flows:
                    names = _names_in(batch.schema, types)
                    for flows in batch.flows:
                        yield _cast(flows, names, shown)
            if bad > MAX_LINES:
                LOG.warning("%s, partition %d: %d Kafka records cannot be decoded", *place, bad)
            for what, count in (
                ("fields that are not in the schema, left out", source.unknown_fields),
                ("strings that are not UTF-8, repaired", source.invalid_texts),
            ):
                if count:
                    LOG.log(logging.WARNING, "%s, partition %d: %s: %d", *place, what, count)


def _cast(flows: FlowBatch, names: Sequence[str], shown: pa.Schema) -> pa.RecordBatch:
    """Return flows with the columns of `shown`, of which they have `names`.

    Raises:
        DecodeError: A number does not fit into its type.
    """
    try:
        return cast(flows.select(*names).text().to_arrow(), shown)
    except pa.ArrowInvalid as error:
        raise DecodeError(f"a value does not fit into the type of its column: {error}") from None


def _names_in(schema: Schema, types: Mapping[str, str]) -> list[str]:
    """Return the wanted columns that a schema of Kafka records has. Numbers may have another type.

    Raises:
        SchemaError: A column has another type, which is not a number.
    """
    there = {column.name: spark_type(column) for column in schema.enabled}
    for name, type in types.items():
        if there.get(name, type) != type and not {type, there[name]} <= NUMBERS:
            fix = f"read it as {there[name]}, and cast it then"
            raise schema.error(name, f"cannot be read as {type}", fix)
    return [name for name in types if name in there]


class TopicReader(_Reading, DataSourceReader):
    """Reads all Kafka records that there are when the query begins."""

    def partitions(self) -> Sequence[InputPartition]:
        broker = Broker(self._settings)
        found = broker.offsets()
        ids = broker.identifiers(found)
        return [
            TopicPartition(*place, low, high, ids[place[0]])
            for place, (low, high) in found.items()
            if low < high
        ]


class TopicStream(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads Kafka records as they arrive.

    An offset of Spark is {topic: {"id": identifier, partition: next offset}}.
    """

    _broker: Broker | None = None
    _target: Mapping[Place, int] | None = None
    """Offsets at which a query with the trigger AvailableNow ends."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_broker": None}

    def _open(self) -> Broker:
        if self._broker is None:
            self._broker = Broker(self._settings)
        return self._broker

    def initialOffset(self) -> dict[str, Any]:
        begin = 0 if self._settings.starting_offsets == "earliest" else 1
        places = {place: ends[begin] for place, ends in self._open().offsets().items()}
        return _to_offset(places, self._open().identifiers(places))

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {place: high for place, (_, high) in self._open().offsets().items()}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:
        offsets = self._open().offsets()
        begins = _from_offset(start)[0] if start else {}
        for topic in sorted({topic for topic, _ in begins} - {topic for topic, _ in offsets}):
            LOG.warning("topic %r was deleted, and is not read any more", topic)
        ends = {place: high for place, (_, high) in offsets.items()}
        if self._target is not None:
            ends = {place: min(high, self._target.get(place, high)) for place, high in ends.items()}
        backlog = {
            place: max(end - max(begins.get(place, 0), offsets[place][0]), 0) for place, end in ends.items()
        }
        most = getattr(limit, "max_rows", None)
        if most is not None:
            for place, count in _share(backlog, most).items():
                ends[place] -= backlog[place] - count
        return _to_offset(ends, self._open().identifiers(ends))

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self._settings.max_records
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges between two offsets of Spark.

        Raises:
            KafkaError: A topic with unread Kafka records was deleted, or created again.
        """
        (begins, before), (ends, after) = _from_offset(start), _from_offset(end)
        there = self._open().offsets()
        now = self._open().identifiers(there)
        ranges = []
        for place, stop in ends.items():
            topic, partition = place
            low, high = there.get(place, (0, 0))
            begin = begins.get(place, low)
            ids = {before.get(topic, after[topic]), after[topic], now.get(topic, after[topic])}
            if len(ids) > 1 or begin > stop or (begin < stop and stop > high):
                raise KafkaError(
                    f"topic {topic!r}: was deleted or created again, so begin with another checkpoint"
                )
            if begin < min(low, stop):
                LOG.warning(
                    "%s, partition %d: offsets %d to %d were deleted before they were read",
                    *(topic, partition, begin, min(low, stop) - 1),
                )
                begin = min(low, stop)
            if begin < stop:
                ranges.append(TopicPartition(topic, partition, begin, stop, after[topic]))
        return ranges

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint of Spark has the offset."""

    def stop(self) -> None:
        self._broker = None


def _share(backlog: Mapping[Place, int], most: int) -> dict[Place, int]:
    """Return the number of Kafka records to read of each partition: `most` in all, in proportion."""
    total = sum(backlog.values())
    if total <= most:
        return dict(backlog)
    shares = {place: count * most // total for place, count in backlog.items()}
    rest = most - sum(shares.values())
    for place in sorted(backlog, key=lambda place: shares[place] - backlog[place])[:rest]:
        shares[place] += 1
    return shares


def _to_offset(places: Mapping[Place, int], ids: Mapping[str, str]) -> dict[str, Any]:
    offset: dict[str, Any] = {topic: {"id": ids[topic]} for topic, _ in places}
    for (topic, partition), next_offset in places.items():
        offset[topic][str(partition)] = next_offset
    return offset


def _from_offset(offset: Mapping[str, Mapping[str, Any]]) -> tuple[dict[Place, int], dict[str, str]]:
    """Return the next offsets, and the identifiers of topics."""
    places = {
        (topic, int(name)): value
        for topic, members in offset.items()
        for name, value in members.items()
        if name != "id"
    }
    return places, {topic: members["id"] for topic, members in offset.items()}
