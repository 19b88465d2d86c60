"""An output that sends flows to a Kafka topic: Protocol Buffers messages as `flowbuf produce`, or JSON."""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from flowbuf.collect.outputs.kafka_messages import JsonForm, KafkaForm, PackedForm, Record, Written
from flowbuf.collect.outputs.output import WAIT_SECONDS
from flowbuf.errors import KafkaError
from flowbuf.kafka.client import Note, import_kafka
from flowbuf.kafka.schema_topic import SCHEMAS_TOPIC, check_schema_topic
from flowbuf.kafka.topic_producer import TopicProducer, explain_refusal
from flowbuf.schema import Schema

if TYPE_CHECKING:
    import pyarrow

__all__ = ["KafkaOutput", "KafkaPlace"]


OPEN_SECONDS = 5.0
"""Longest wait for the first answer of a broker. Afterwards, the output tries again."""

POLL_SECONDS = 0.05
AGAIN_SECONDS = 1.0
"""Time after which Kafka records that failed are sent again."""

SILENCE_SECONDS = 10.0
"""Time without a confirmation after which the output fails, if flows wait and a broker has a problem."""

_HOPELESS = ("MSG_SIZE_TOO_LARGE", "INVALID_MSG_SIZE", "INVALID_RECORD", "INVALID_TIMESTAMP")
"""Errors of Kafka records that a broker never accepts."""


@dataclass(frozen=True)
class KafkaPlace:
    """A topic, as `kafka://HOST:PORT,HOST:PORT/TOPIC` names it, and the form of its Kafka records.

    Attributes:
        servers: Initial brokers.
        topic: Name of the topic. `{hash}` and `{name}` stand for those of the schema.
        format: "protobuf" or "json".
        key: Names of the columns whose values are the key of Kafka records. Empty: no key.
        compression: Compression of Kafka records.
        partitions: Number of partitions of a new topic. Default: None, a missing topic is an error.
        schema_topic: Topic for the schema description of Protobuf messages. None disables it.
        settings: Settings of librdkafka.
        expiring: Flows are lost if they wait longer than `message.timeout.ms` (default: 5 minutes). Otherwise
            they are sent until the broker confirms them.
        ordered: Flows are stored in the order of `write`, as a spool needs it.
    """

    servers: str
    topic: str = "flows-{hash}"
    format: str = "protobuf"
    key: Sequence[str] = ()
    compression: str = "none"
    partitions: int | None = None
    schema_topic: str | None = SCHEMAS_TOPIC
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    expiring: bool = True
    ordered: bool = False

    @classmethod
    def parse(cls, uri: str, **options: Any) -> KafkaPlace:
        """Return the place of a URI.

        Args:
            uri: Brokers and topic.
            options: Other attributes.

        Raises:
            ValueError: the URI names no broker, no topic for JSON, or the topic of schema descriptions, or it
                has settings.
        """
        parts = urlsplit(uri)
        if not parts.netloc:
            raise ValueError(f"{uri!r} names no broker; write kafka://HOST:PORT/TOPIC")
        if "@" in parts.netloc:
            raise ValueError("kafka:// takes no user and password; set them in the file of --kafka-config")
        if parts.query or parts.fragment:
            raise ValueError("kafka:// takes no settings after ?; set them in the file of --kafka-config")
        topic = unquote(parts.path.strip("/"))
        if not topic and options.get("format") == "json":
            raise ValueError(f"{uri!r} names no topic, which JSON needs; write kafka://HOST:PORT/TOPIC")
        place = cls(parts.netloc, topic or "flows-{hash}", **options)
        if place.format == "protobuf":
            check_schema_topic(place.schema_topic, place.topic)
        return place

    def client_settings(self) -> dict[str, Any]:
        """Return the settings of librdkafka for an output."""
        endless = {} if self.expiring else {"message.timeout.ms": 0}
        return {**endless, **self.settings, "delivery.report.only.error": False}

    def new_form(self, schema: Schema) -> KafkaForm:
        """Return the form of the Kafka records.

        Raises:
            SchemaError: the key names a column that the output does not have.
        """
        if self.format == "json":
            return JsonForm(schema, self.key)
        return PackedForm(schema, self.key, self.schema_topic)


class KafkaOutput:
    """Send flows to a Kafka topic. Implements `Output`.

    Flows are stored when the broker has confirmed them. A Kafka record that fails is sent again, unless no
    broker would ever accept it, or it has expired. Meanwhile no other batch is taken. If the topic or the
    session is lost, everything that was not confirmed is sent over a new connection. Kafka records that the
    broker had received without confirming them are then duplicates.

    While brokers are unavailable, the client keeps Kafka records, and further batches are taken until it is
    full. After SILENCE_SECONDS, `tick` reports that.

    Args:
        place: Topic and settings.
        schema: Schema of the flows.
        on_problem: Function that receives a text for each problem.

    Raises:
        SchemaError: the key names a column that the output does not have.
    """

    def __init__(self, place: KafkaPlace, schema: Schema, on_problem: Note = lambda text: None) -> None:
        self._place = place
        self._schema = schema
        self._on_problem = on_problem
        self._told: set[str] = set()  # problems since the last connection
        self._form = place.new_form(schema)
        self._producer: TopicProducer | None = None
        self._waiting: deque[Record] = deque()  # records that the client has not taken yet
        self._failed: deque[Record] = deque()  # records to send again
        self._failure = ""  # reason of the last failure, until a record is confirmed
        self._again = 0.0  # time of the next attempt
        self._confirmed = False  # flows were confirmed, or none waited, since the last `tick`
        self._heard = 0.0  # time of the last `tick` that found this
        self._known = 0  # problems of brokers until then
        self._silence = ""  # reason why no flow is confirmed, until one is
        self._open_writes: deque[Written] = deque()
        self._written = 0
        self._settled = Written(0)  # flows of all writes that are settled, with those before them

    @property
    def stored(self) -> int:
        """Flows that the broker has confirmed. If ordered, only those before the first that waits."""
        return self._settled.confirmed + sum(each.confirmed for each in self._counted_writes())

    @property
    def lost(self) -> Mapping[str, int]:
        """Flows in Kafka records that the broker rejected, or did not confirm in time."""
        lost = self._settled.lost + sum(each.lost for each in self._counted_writes())
        return {"kafka_error": lost} if lost else {}

    @property
    def pending(self) -> int:
        """Flows that wait in incomplete packs, or for the confirmation of the broker."""
        return self._written - self.stored - sum(self.lost.values())

    def _counted_writes(self) -> Sequence[Written]:
        return () if self._place.ordered else self._open_writes

    def write(self, batch: pyarrow.RecordBatch, number: int | None = None) -> None:
        """Send the flows of a batch.

        Raises:
            KafkaError: No broker answers, or Kafka records of earlier batches still wait.
        """
        self._send(WAIT_SECONDS)
        written = Written(batch.num_rows)
        records = list(self._form.add(batch, written))
        self._confirmed |= not self._open_writes
        self._open_writes.append(written)
        self._written += batch.num_rows
        self._waiting.extend(records)
        with suppress(KafkaError):  # the batch is pending; the next call reports the problem
            self._send(0, patient=True)

    def tick(self) -> None:
        """Send incomplete packs, and read the confirmations.

        Raises:
            KafkaError: No broker answers or confirms flows, the topic is missing, or Kafka records have
                failed.
        """
        self._waiting.extend(self._form.take())
        self._send(0, patient=True)  # also without flows, to find a problem before they arrive
        self._check()
        self._check_silence(self._open())

    def _check(self) -> None:
        """Raise KafkaError if Kafka records have failed, and none was confirmed since then."""
        if self._failure:
            raise KafkaError(self._failure)

    def _check_silence(self, producer: TopicProducer) -> None:
        """Raise KafkaError if flows wait, and a broker's problem has kept all from being confirmed for long.

        Their Kafka records stay in the client, which sends them when a broker is available.
        """
        now = time.monotonic()
        if self._confirmed or not self._open_writes:
            self._confirmed, self._silence = False, ""
            self._heard, self._known = now, producer.problems
        elif now - self._heard >= SILENCE_SECONDS:
            problem = producer.find_problem(self._known)
            if problem and not self._silence:  # the log has one message, also if the problem changes
                reason = f"no flow was confirmed for {SILENCE_SECONDS:g} s: {problem}"
                self._silence = f"topic {producer.topic!r}: {reason}"
        if self._silence:
            raise KafkaError(self._silence)

    def _send(self, seconds: float, patient: bool = False) -> None:
        """Pass the records that wait to the client, and read its reports.

        Args:
            seconds: Longest time to wait for room in the queue of the client.
            patient: Return if there is no room. The rest waits for the next call.

        Raises:
            KafkaError: The records cannot be sent now.
        """
        producer = self._open()
        deadline = time.monotonic() + seconds
        self._retry()
        while not self._pass_records(producer):
            if time.monotonic() >= deadline:
                if patient:
                    break
                reason = producer.latest_problem or "the broker is slower than the flows"
                raise KafkaError(f"topic {producer.topic!r}: the queue of the client is full: {reason}")
            producer.poll(POLL_SECONDS)
            self._check_connection(producer)
        producer.poll(0)
        self._settle()
        self._check_connection(producer)
        if not patient:
            self._check()

    def _retry(self) -> None:
        """Let failed records wait for the client again, after a pause."""
        if self._failed and time.monotonic() >= self._again:
            self._waiting.extendleft(reversed(self._failed))
            self._failed.clear()

    def _pass_records(self, producer: TopicProducer) -> bool:
        """Pass the records that wait to the client. Return False if its queue is full."""
        waiting, topic, produce = self._waiting, producer.topic, producer.produce
        headers = list(self._form.headers) or None
        while waiting:
            record = waiting[0]
            note = functools.partial(self._note, producer, record.shares)
            try:
                produce(topic, record.value, record.key, on_delivery=note, headers=headers)
            except BufferError:
                return False
            except producer.refusals as error:
                self._refuse(producer, error)
                continue
            waiting.popleft()
        return True

    def _refuse(self, producer: TopicProducer, error: Exception) -> None:
        """Lose a record that is too large. After another error, the connection is useless."""
        producer.note_refusal(error)
        if producer.obstacle:
            self._check_connection(producer)
        self._on_problem(f"topic {producer.topic!r}: {explain_refusal(error)}")
        self._lose(self._waiting.popleft().shares)

    def _note(
        self, producer: TopicProducer, shares: Sequence[tuple[Written, int]], error: Any, message: Any
    ) -> None:
        """Count the flows of a Kafka record that was delivered or has failed."""
        if error is None:
            self._failure = ""
            self._confirmed = True
            for written, flows in shares:
                written.confirmed += flows
            return
        expired = producer.note_failure(error) and self._place.expiring
        if expired or error.code() in self._hopeless:
            self._on_problem(f"topic {producer.topic!r}: {error.str()}")
            self._lose(shares)
            return
        self._failure = f"topic {producer.topic!r}: {error.str()}"
        self._again = time.monotonic() + AGAIN_SECONDS
        self._failed.append(Record(message.value() or b"", message.key(), shares))

    def _lose(self, shares: Sequence[tuple[Written, int]]) -> None:
        for written, flows in shares:
            written.lost += flows

    def _settle(self) -> None:
        """Sum the writes of which no flow waits, up to the first other one."""
        while self._open_writes and self._open_writes[0].settled:
            written = self._open_writes.popleft()
            self._settled.confirmed += written.confirmed
            self._settled.lost += written.lost
        if not self._open_writes:
            self._failure = ""

    def _open(self) -> TopicProducer:
        if self._producer is None:
            errors = import_kafka().KafkaError
            self._hopeless = {getattr(errors, name) for name in _HOPELESS}
            producer = TopicProducer(
                self._place.servers,
                self._schema.expand(self._place.topic),
                compression=self._place.compression,
                partitions=self._place.partitions,
                settings=self._place.client_settings(),
                timeout=OPEN_SECONDS,
                on_problem=self._tell,
            )
            if self._form.schema_topic:
                producer.describe(self._schema, self._form.schema_topic, OPEN_SECONDS)
            self._form.set_limit(producer.limit)
            self._producer = producer
            self._confirmed = True  # its problems are counted from 0
            self._told.clear()
        return self._producer

    def _tell(self, problem: str) -> None:
        """Pass a problem on. Attempts to connect have the same ones, which are passed on once."""
        if self._producer is None and problem in self._told:
            return
        self._told.add(problem)
        self._on_problem(problem)

    def _check_connection(self, producer: TopicProducer) -> None:
        """Give a useless connection up.

        Raises:
            KafkaError: nothing can be sent over it. The next call opens another one.
        """
        if problem := producer.obstacle:
            self._producer = None
            producer.purge()  # so that its records are sent again
            self._settle()
            self._failure, self._again = problem, 0.0
            raise KafkaError(problem)

    def close(self) -> None:
        """Send everything, and wait for the confirmations.

        Raises:
            KafkaError: Some flows were not confirmed in time. They stay pending, and `close` may be called
                again.
        """
        self._waiting.extend(self._form.take())
        if self.pending:
            self._send(WAIT_SECONDS, patient=True)
            self._flush()
        self._producer = None

    def _flush(self) -> None:
        """Wait for the confirmations.

        Raises:
            KafkaError: Some flows were not confirmed in time.
        """
        producer = self._open()
        producer.flush(WAIT_SECONDS)
        self._settle()
        self._check_connection(producer)
        self._check()
        if self.pending:
            reason = producer.latest_problem or "the broker is slow"
            raise KafkaError(f"topic {producer.topic!r}: {self.pending:,} flows are not confirmed: {reason}")
