"""A producer for one topic: its settings, its statistics, and the reasons why it sends nothing any more."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from flowbuf.errors import KafkaError
from flowbuf.kafka.client import TIMEOUT, Note, Notes, Topics, import_kafka, new_client
from flowbuf.kafka.schema_registry import describe_schema
from flowbuf.schema import Schema

__all__ = ["COMPRESSIONS", "TopicProducer", "explain_refusal"]

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

_NO_TOPIC = "create it, or set its number of partitions with --partitions N"
_HEADROOM = 256  # bytes of a batch of one record without its value: key, headers, lengths
_MESSAGE_LIMIT = 1_000_000  # librdkafka's default limit for a record, in bytes
_WAIT = 0.05  # seconds per wait for statistics
_SETTLING = 1.0  # seconds to wait for the final statistics

# Default settings. They prevent loss and duplicates, and bound the memory.
_DEFAULTS: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 20,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 131_072,
    "statistics.interval.ms": 200,
    "delivery.report.only.error": True,
}


class TopicProducer:
    """A producer of `confluent_kafka` for a topic that exists.

    Args:
        servers: Initial brokers, "host:port,host:port".
        topic: Name of the topic.
        compression: One of COMPRESSIONS.
        partitions: Number of partitions of a new topic. Default: None, a missing topic is an error.
        settings: Settings of librdkafka. They override the defaults.
        timeout: Seconds to wait for the first answer of a broker.
        on_delivery: Function that receives the error and the message of each delivery report for which
            `produce` names no other function.
        on_problem: Function that receives a text for each problem that librdkafka retries.

    Attributes:
        topic: Name of the topic.
        limit: Maximum size of a value in bytes.
        refusals: Exceptions of `produce`. BufferError means that the queue of the client is full.
        transmitted: Number of Kafka records of the topic in requests to brokers, each time they were sent.

    Raises:
        ImportError: confluent-kafka is not installed.
        KafkaError: No broker answers, or the topic is missing.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        compression: str = "none",
        partitions: int | None = None,
        settings: Mapping[str, Any] | None = None,
        timeout: float = TIMEOUT,
        on_delivery: Callable[[Any, Any], None] | None = None,
        on_problem: Note = lambda text: None,
    ) -> None:
        self.topic = topic
        self.transmitted = 0
        self._expired = False  # a record has exceeded its maximum waiting time
        self._reachable = True  # a broker is connected, according to the last statistics
        self._looks = 0  # number of statistics received
        self._lost = ""  # reason why the topic accepts no more records
        chosen = dict(settings or {})
        self._notes = Notes(on_problem, chosen)
        topics = self._topics = Topics(servers, chosen, self._notes)
        found = topics.find(topic, timeout, partitions, fix=_NO_TOPIC)
        if partitions not in (None, found):
            on_problem(f"topic {topic!r} exists already, with {found} partitions instead of {partitions}")
        own = {"compression.type": compression, "batch.size": topics.message_limit(topic, timeout)}
        self._open(servers, chosen, {**own, **({"on_delivery": on_delivery} if on_delivery else {})})

    def _open(self, servers: str, settings: dict[str, Any], own: dict[str, Any]) -> None:
        """Create a producer whose batches fit the limit of the topic."""
        kafka = import_kafka()
        defaults = {**_DEFAULTS, **own, "stats_cb": self._read_statistics}
        self._producer = new_client("Producer", servers, settings, defaults, self._notes)
        self.refusals = (BufferError, kafka.KafkaException)
        self._timed_out = kafka.KafkaError._MSG_TIMED_OUT
        self._too_large = kafka.KafkaError.MSG_SIZE_TOO_LARGE
        limit = min(own["batch.size"], int(settings.get("message.max.bytes", _MESSAGE_LIMIT)))
        self.limit = max(limit - _HEADROOM, 1)
        self.produce = self._producer.produce
        self.poll = self._producer.poll
        self.flush = self._producer.flush

    def describe(self, schema: Schema, topic: str, timeout: float) -> None:
        """Send a schema description to its topic, for readers. The topic is created if it is missing.

        Args:
            schema: Schema of the messages.
            topic: Topic for schema descriptions.
            timeout: Seconds to wait for the broker.

        Raises:
            KafkaError: The topic cannot be written.
        """
        _find_schema_topic(self._topics, topic, timeout)
        problems: list[str] = []

        def note(error: Any, _: Any) -> None:
            if error is not None:
                problems.append(error.str())

        try:
            self.produce(topic, describe_schema(schema), schema.hash, on_delivery=note)
        except self.refusals as error:
            problems.append(explain_refusal(error))
        left = self.flush(timeout)
        if problems or left:
            reason = problems[0] if problems else f"not confirmed in {timeout:g} s: {self._notes.latest}"
            raise KafkaError(f"schema topic {topic!r}: {reason}")

    def __len__(self) -> int:
        """Return the number of Kafka records that are neither delivered nor failed."""
        return len(self._producer)

    @property
    def obstacle(self) -> str:
        """Reason why nothing can be sent any more, or an empty text."""
        if self._notes.fatal:
            return f"the broker accepts no more Kafka records: {self._notes.fatal}"
        if self._expired and not self._reachable:
            return f"no broker was available for as long as Kafka records may wait: {self._notes.latest}"
        return self._lost

    @property
    def latest_problem(self) -> str:
        """Text of the last problem of a broker, or an empty text."""
        return self._notes.latest

    @property
    def problems(self) -> int:
        """Number of problems of brokers."""
        return self._notes.number

    def find_problem(self, known: int) -> str:
        """Return the text of the last problem. It is empty if brokers are available and have no new one.

        Args:
            known: Number of problems that are not new.
        """
        return self._notes.latest if self._notes.waiting or self._notes.number > known else ""

    def note_failure(self, error: Any) -> bool:
        """Note the error of a Kafka record that was not delivered.

        Returns:
            bool: True if the record has exceeded its maximum waiting time.
        """
        timed_out: bool = error.code() == self._timed_out
        self._expired |= timed_out
        return timed_out

    def note_refusal(self, error: Exception) -> None:
        """Note that `produce` has refused a Kafka record for good. If it was not too large, no other fits."""
        if not isinstance(error, BufferError) and error.args[0].code() != self._too_large:
            self._lost = f"topic {self.topic!r}: {explain_refusal(error)}"

    def _read_statistics(self, statistics: str) -> None:
        """Read the transmissions and the state of the brokers from statistics.

        `txretries` does not count retries of requests with records, because these are rebuilt.
        """
        found = json.loads(statistics)
        partitions = found.get("topics", {}).get(self.topic, {}).get("partitions", {})
        self.transmitted = sum(partition.get("txmsgs", 0) for partition in partitions.values())
        self._notes.see(found.get("brokers", {}))
        self._reachable = any(broker.get("state") == "UP" for broker in found.get("brokers", {}).values())
        self._looks += 1

    def settle(self) -> None:
        """Wait for the final statistics, after `flush`."""
        looks, deadline = self._looks, time.monotonic() + _SETTLING
        while self._notes.latest and self._looks == looks and time.monotonic() < deadline:
            self.poll(_WAIT)

    def purge(self) -> int:
        """Give up all Kafka records, and report them as failed. Return the number of those not reported."""
        self._producer.purge()
        left: int = self.flush(_SETTLING)
        return left


def _find_schema_topic(topics: Topics, topic: str, timeout: float) -> None:
    try:
        topics.find(topic, timeout, 1, {"cleanup.policy": "compact"})
    except KafkaError as error:
        fix = "to store no schema descriptions, set schema_topic=None (--schema-topic none)"
        raise KafkaError(f"{error}; {fix}") from None


def explain_refusal(error: Exception) -> str:
    """Return the reason why a producer rejected a Kafka record."""
    if isinstance(error, BufferError):
        return "the queue of the client is full"
    return str(error.args[0].str()).removeprefix("Unable to produce message: ")
