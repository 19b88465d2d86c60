"""An output that sends Protocol Buffers messages to a Kafka topic, as `flowbuf produce` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from flowbuf.errors import KafkaError
from flowbuf.io.columns import encode_columns
from flowbuf.kafka.client import Note
from flowbuf.kafka.sink import KafkaSink, ProduceReport
from flowbuf.schema import Schema

if TYPE_CHECKING:
    import pyarrow

__all__ = ["KafkaOutput", "KafkaPlace"]

OPEN_SECONDS = 5.0
"""Longest wait for the first answer of a broker. Afterwards, the output tries again."""


@dataclass(frozen=True)
class KafkaPlace:
    """A topic, as `kafka://HOST:PORT,HOST:PORT/TOPIC` names it.

    Attributes:
        servers: Initial brokers.
        topic: Name of the topic. `{hash}` and `{name}` stand for those of the schema.
        compression: Compression of Kafka records.
        partitions: Number of partitions of a new topic. Default: None, a missing topic is an error.
        settings: Settings of librdkafka.
    """

    servers: str
    topic: str = "flows-{hash}"
    compression: str = "none"
    partitions: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, uri: str, **options: Any) -> KafkaPlace:
        """Return the place of a URI.

        Raises:
            ValueError: the URI names no broker.
        """
        parts = urlsplit(uri)
        if not parts.netloc:
            raise ValueError(f"{uri!r} names no broker; write kafka://HOST:PORT/TOPIC")
        if "@" in parts.netloc:
            raise ValueError("kafka:// takes no user and password; set them in the file of --kafka-config")
        return cls(parts.netloc, unquote(parts.path.strip("/")) or "flows-{hash}", **options)


class KafkaOutput:
    """Send flows to a Kafka topic. Implements `Output`.

    Flows are stored when the broker has confirmed them. `write` waits while the client's queue is full. If no
    broker is available for as long as Kafka records may wait (`message.timeout.ms`, 5 minutes), the flows
    that wait are lost, and the next write opens another connection.

    Args:
        place: Topic and settings.
        schema: Schema of the flows.
        on_problem: Function that receives a text for each problem.
    """

    def __init__(self, place: KafkaPlace, schema: Schema, on_problem: Note = lambda text: None) -> None:
        self._place = place
        self._schema = schema
        self._on_problem = on_problem
        self._sink: KafkaSink | None = None
        self._written = 0  # flows passed to the sink
        self._past_stored = 0  # of earlier sinks
        self._past_lost = 0

    @property
    def _report(self) -> ProduceReport:
        return self._sink.report if self._sink else ProduceReport()

    @property
    def stored(self) -> int:
        """Flows that the broker has confirmed."""
        return self._past_stored + self._report.confirmed_flows

    @property
    def lost(self) -> Mapping[str, int]:
        """Flows in Kafka records that the broker rejected or did not confirm in time."""
        lost = self._past_lost + self._report.failed_flows
        return {"kafka_error": lost} if lost else {}

    @property
    def pending(self) -> int:
        """Flows that wait in incomplete packs, or for the confirmation of the broker."""
        return self._written - self._report.confirmed_flows - self._report.failed_flows

    def write(self, batch: pyarrow.RecordBatch, number: int | None = None) -> None:
        """Send the flows of a batch."""
        messages = encode_columns(batch, self._schema)
        sink = self._open()
        self._written += batch.num_rows
        try:
            sink.write(messages)
        except KafkaError as error:  # the batch is given up, because a part of it may have been sent
            self._on_problem(str(error))
            self._end(sink)

    def _open(self) -> KafkaSink:
        if self._sink is None:
            self._sink = KafkaSink(
                self._place.servers,
                self._place.topic,
                self._schema,
                compression=self._place.compression,
                partitions=self._place.partitions,
                settings={**self._place.settings, "delivery.report.only.error": False},
                timeout=OPEN_SECONDS,
                on_problem=self._on_problem,
            )
        return self._sink

    def tick(self) -> None:
        """Send packs that have waited for a second, and read the confirmations."""
        if self._sink is None:
            return
        try:
            self._sink.poll()
        except KafkaError:
            self._end(self._sink)
            raise

    def _end(self, sink: KafkaSink) -> None:
        """Close a sink. Flows that are not confirmed are lost."""
        try:
            sink.abandon()
        finally:
            confirmed = sink.report.confirmed_flows
            self._past_stored += confirmed
            self._past_lost += self._written - confirmed
            self._sink, self._written = None, 0

    def close(self) -> None:
        """Send everything, and wait for the confirmations."""
        if self._sink is None:
            return
        try:
            self._sink.close()
        finally:
            self._end(self._sink)  # after an interrupted close, unconfirmed flows are lost
