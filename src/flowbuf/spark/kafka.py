"""Kafka topics as Spark DataFrames and streams.

Each partition of a topic is a partition of Spark. Spark keeps the offsets in the checkpoint of a stream, so
there is no consumer group.

The schema of a DataFrame is that of the newest Kafka records. Records of another schema are decoded with
their own one. Columns that it lacks are null.

Kafka records that cannot be decoded are logged as warnings of the logger `flowbuf.spark`. With the option
`strict`, they raise DecodeError instead.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from flowbuf.errors import DecodeError, KafkaError
from flowbuf.kafka.client import TIMEOUT, Notes, Topics, import_kafka, new_client
from flowbuf.kafka.consumer import BatchLimits, KafkaSource
from flowbuf.kafka.schema_lookup import SchemaFinder
from flowbuf.kafka.schema_registry import SCHEMAS_TOPIC, SchemaRegistry
from flowbuf.schema import Schema
from flowbuf.schema.assemble import list_columns
from flowbuf.schema.loader import FRAMINGS
from flowbuf.spark.columns import LOG, arrow_schema, cast
from flowbuf.spark.options import choice, flag, names, number, read_options
from flowbuf.targets.spark import spark_type

__all__ = ["KAFKA", "KafkaSettings", "TopicPartition", "TopicReader", "TopicStream"]

KAFKA = "kafka"
"""The option that selects a topic instead of captures."""

CLIENT = "kafka."
"""Begin of the options that are settings of librdkafka."""

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
    """

    servers: str
    topics: Sequence[str]
    schema: Schema | None = None
    columns: Sequence[str] = ()
    framing: str | None = None
    registry: str | None = None
    schema_topic: str | None = SCHEMAS_TOPIC
    starting_offsets: str = "earliest"
    max_records: int | None = None
    strict: bool = False
    client: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> KafkaSettings:
        """Return the settings of the options. Raises ValueError for an unknown option or an invalid value."""
        client = {name[len(CLIENT) :]: text for name, text in options.items() if name.startswith(CLIENT)}
        rest = {name: text for name, text in options.items() if not name.startswith(CLIENT)}
        values = read_options(rest, _OPTIONS)
        if not values.get("topic"):
            raise ValueError("topic is missing; set the option topic to the name of a topic")
        if values.get("max_records") and not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
            raise ValueError("max_records needs Spark 4.2 or newer; leave it out")
        named = {_FIELDS.get(name, name): value for name, value in values.items()}
        return cls(**named, client=client)

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
        return SchemaRegistry(self.registry) if self.registry else None

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
        """Return the schema of the last Kafka records; of several, that with most columns."""
        filled = {place: (low, high) for place, (low, high) in offsets.items() if low < high}
        for ranges in ({place: (high - 1, high) for place, (_, high) in filled.items()}, filled):
            if not ranges:
                break
            schemas: list[Schema] = []
            with self.open(ranges) as source:
                for batch in source:
                    if batch is not None and batch.flows:
                        schemas.append(batch.schema)
                        if ranges is filled:  # the last records have no flows
                            break
            if schemas:
                return max(schemas, key=lambda schema: len(schema.enabled))
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
    "schema_topic": lambda text: None if text == "none" else text,
    "starting_offsets": functools.partial(choice, ("earliest", "latest")),
    "max_records": functools.partial(number, 2**63 - 1),
    "strict": flag,
}
_FIELDS = {KAFKA: "servers", "topic": "topics", "schema_registry": "registry"}


class Broker:
    """The offsets of the topics. Its clients stay open, so that a stream can ask often."""

    def __init__(self, settings: KafkaSettings) -> None:
        client = dict(settings.client)
        notes = Notes(LOG.warning, client)
        self._kafka = import_kafka()
        self._topics = Topics(settings.servers, client, notes)
        defaults = {"group.id": "flowbuf", "enable.auto.commit": False}
        self._consumer = new_client("Consumer", settings.servers, client, defaults, notes)
        self._names = settings.topics
        self._hidden = [settings.schema_topic] if settings.schema_topic else []

    def offsets(self) -> dict[Place, tuple[int, int]]:
        """Return the first offset of each partition, and the one after the last. Raises KafkaError."""
        found = {}
        for topic in self._topics.expand(self._names, self._hidden, TIMEOUT):
            for partition in range(self._topics.find(topic, TIMEOUT)):
                place = self._kafka.TopicPartition(topic, partition)
                try:
                    found[topic, partition] = self._consumer.get_watermark_offsets(place, TIMEOUT)
                except self._kafka.KafkaException as error:
                    reason = error.args[0].str()
                    raise KafkaError(f"topic {topic!r}, partition {partition}: {reason}") from None
        return found


class TopicPartition(InputPartition):
    """A range of offsets of one partition."""

    def __init__(self, topic: str, number: int, first: int, end: int) -> None:
        super().__init__((topic, number, first, end))
        self.topic = topic
        self.number = number
        self.first = first
        self.end = end


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
                        yield cast(flows.select(*names).text().to_arrow(), shown)
            if bad > MAX_LINES:
                LOG.warning("%s, partition %d: %d Kafka records cannot be decoded", *place, bad)
            for what, count in (
                ("fields that are not in the schema, left out", source.unknown_fields),
                ("strings that are not UTF-8, repaired", source.invalid_texts),
            ):
                if count:
                    LOG.log(logging.WARNING, "%s, partition %d: %s: %d", *place, what, count)


def _names_in(schema: Schema, types: Mapping[str, str]) -> list[str]:
    """Return the wanted columns that a schema of Kafka records has.

    Raises:
        SchemaError: A column has another type.
    """
    there = {column.name: spark_type(column) for column in schema.enabled}
    for name, type in types.items():
        if there.get(name, type) != type:
            fix = f"read it as {there[name]}, and cast it then"
            raise schema.error(name, f"cannot be read as {type}", fix)
    found = [name for name in types if name in there]
    if not found:
        raise schema.error(None, "the Kafka records have none of the columns", list_columns(list(there)))
    return found


class TopicReader(_Reading, DataSourceReader):
    """Reads all Kafka records that there are when the query begins."""

    def partitions(self) -> Sequence[InputPartition]:
        found = Broker(self._settings).offsets()
        return [TopicPartition(*place, low, high) for place, (low, high) in found.items() if low < high]


class TopicStream(_Reading, DataSourceStreamReader):
    """Reads Kafka records as they arrive. An offset of Spark is {topic: {partition: next offset}}."""

    _broker: Broker | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_broker": None}

    def _offsets(self) -> dict[Place, tuple[int, int]]:
        if self._broker is None:
            self._broker = Broker(self._settings)
        return self._broker.offsets()

    def initialOffset(self) -> dict[str, Any]:
        begin = 0 if self._settings.starting_offsets == "earliest" else 1
        return _to_offset({place: ends[begin] for place, ends in self._offsets().items()})

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:
        ends = self._offsets()
        most = getattr(limit, "max_rows", None)
        begins = _from_offset(start) if start else {}
        share = None if most is None else -(-most // max(len(ends), 1))
        latest = {}
        for place, (low, high) in ends.items():
            begin = begins.get(place, low)
            latest[place] = high if share is None else min(high, max(begin, low) + share)
        return _to_offset({**begins, **latest})

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self._settings.max_records
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges between two offsets of Spark.

        Raises:
            KafkaError: A partition ends before the offset, because the topic was created again.
        """
        begins, ends, there = _from_offset(start), _from_offset(end), self._offsets()
        ranges = []
        for place, stop in ends.items():
            low, high = there.get(place, (0, 0))
            begin = begins.get(place, low)
            where = f"topic {place[0]!r}, partition {place[1]}"
            if stop > high or begin > stop:
                raise KafkaError(
                    f"{where}: ends at offset {high}, before {max(begin, stop)}; the topic was deleted or "
                    "created again, so begin with another checkpoint"
                )
            if begin < low:
                LOG.warning("%s: offsets %d to %d were deleted before they were read", where, begin, low)
            if begin < stop:
                ranges.append(TopicPartition(*place, begin, stop))
        return ranges

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint of Spark has the offset."""

    def stop(self) -> None:
        self._broker = None


def _to_offset(places: Mapping[Place, int]) -> dict[str, Any]:
    offset: dict[str, Any] = {}
    for (topic, partition), next_offset in places.items():
        offset.setdefault(topic, {})[str(partition)] = next_offset
    return offset


def _from_offset(offset: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    return {
        (topic, int(partition)): next_offset
        for topic, partitions in offset.items()
        for partition, next_offset in partitions.items()
    }
