"""Find the schema of Kafka records: see `flowbuf.kafka.schema_registry`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from flowbuf.errors import KafkaError, SchemaError
from flowbuf.io.proto_file import schema_of_proto
from flowbuf.kafka.client import Notes, import_kafka, new_client
from flowbuf.kafka.schema_registry import (
    ForeignSchemaError,
    SchemaRegistry,
    find_hash,
    read_description,
)
from flowbuf.kafka.schema_topic import SCHEMAS_TOPIC
from flowbuf.schema import Schema
from flowbuf.schema.loader import built_in_names

__all__ = ["SchemaFinder"]


class SchemaFinder:
    """Find schemas by hash, by number in a registry, and by topic name. Results are cached.

    Args:
        servers: Initial brokers, "host:port,host:port".
        settings: Settings of librdkafka.
        known: Schema of Kafka records that name none.
        registry: Confluent schema registry.
        schema_topic: Topic with schema descriptions, read when a hash is neither `known` nor built in. None
            disables it.
        timeout: Seconds to wait for a broker.
        notes: Receiver of problems.

    Raises:
        KafkaError: The schema cannot be found. Raised by each lookup.
        SchemaError: The schema description is invalid. Raised by each lookup.
    """

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, Any],
        *,
        known: Schema | None = None,
        registry: SchemaRegistry | None = None,
        schema_topic: str | None = SCHEMAS_TOPIC,
        timeout: float,
        notes: Notes,
    ) -> None:
        self.known = known
        self.registry = registry
        self._servers = servers
        self._settings = settings
        self._schema_topic = schema_topic
        self._timeout = timeout
        self._notes = notes
        self._found: dict[str | int, Schema] = {}
        self._foreign: dict[int, ForeignSchemaError] = {}

    def of_hash(self, hash: str) -> Schema:
        """Return the schema with a hash."""
        if hash not in self._found:
            self._found[hash] = self._look_up(hash)
        return self._found[hash]

    def of_number(self, number: int) -> Schema:
        """Return the schema with a number in the registry. Raise ForeignSchemaError if it is no .proto."""
        if number in self._foreign:
            raise self._foreign[number]
        if number not in self._found:
            if self.registry is None:
                raise KafkaError(f"schema {number} is in a registry; name it with --schema-registry URL")
            try:
                text = self.registry.find(number)
            except ForeignSchemaError as error:
                self._foreign[number] = error
                raise
            self._found[number] = schema_of_proto(text, self._locals, f"schema {number}")
        return self._found[number]

    def of_topic(self, topic: str) -> Schema:
        """Return the schema of Kafka records that name none: by the hash in the topic's name, or `known`."""
        hash = find_hash(topic)
        if hash:
            return self.of_hash(hash)
        if self.known is not None:
            return self.known
        raise KafkaError(
            f"topic {topic!r}: the schema is unknown, because neither the headers of the Kafka records nor "
            "the name of the topic has its hash; name the schema that wrote them with --schema, or the "
            "registry with --schema-registry"
        )

    @functools.cached_property
    def _locals(self) -> Sequence[Schema]:
        """Schemas that need no lookup."""
        return [*([] if self.known is None else [self.known]), *map(Schema.load, built_in_names())]

    def _look_up(self, hash: str) -> Schema:
        for schema in self._locals:
            if schema.hash == hash:
                return schema
        if self._schema_topic is None:
            raise KafkaError(
                f"schema {hash} is unknown; name the schema that wrote the Kafka records with --schema"
            )
        description = self._read_topic(self._schema_topic).get(hash)
        if description is None:
            where = f"schema topic {self._schema_topic!r} has no schema {hash}"
            raise KafkaError(f"{where}; name the schema that wrote the Kafka records with --schema")
        origin = f"{self._schema_topic}/{hash}"
        schema = read_description(description, origin)
        if schema.hash != hash:
            raise SchemaError(
                f"describes schema {schema.hash}, not the schema of its key",
                "check which program writes to this topic",
                origin=origin,
            )
        return schema

    def _read_topic(self, topic: str) -> dict[str, bytes]:
        """Return all schema descriptions by hash. Empty if the topic does not exist."""
        kafka = import_kafka()
        defaults = {"group.id": "flowbuf-schemas", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = new_client("Consumer", self._servers, self._settings, defaults, self._notes)
        described: dict[str, bytes] = {}
        try:
            found = consumer.list_topics(topic, self._timeout).topics[topic]
            problem, unread = found.error, set(found.partitions or (0,))  # a new topic may have none yet
            if problem is not None and problem.code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                return {}
            if problem is not None and problem.code() != kafka.KafkaError.LEADER_NOT_AVAILABLE:  # temporary
                raise KafkaError(f"schema topic {topic!r}: {problem.str()}")
            consumer.assign(
                [kafka.TopicPartition(topic, number, kafka.OFFSET_BEGINNING) for number in unread]
            )
            while unread and (message := consumer.poll(self._timeout)) is not None:
                if message.error() is None:
                    hash = (message.key() or b"").decode("ascii", "replace")
                    described.pop(hash, None)
                    if message.value() is not None:
                        described[hash] = message.value()
                elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                elif not message.error().retriable():
                    raise KafkaError(f"schema topic {topic!r}: {message.error().str()}")
            if not unread:
                return described
            raise KafkaError(f"schema topic {topic!r} cannot be read: {self._notes.latest or 'no answer'}")
        except kafka.KafkaException as error:
            raise KafkaError(f"schema topic {topic!r}: {error.args[0].str()}") from error
        finally:
            consumer.close()
