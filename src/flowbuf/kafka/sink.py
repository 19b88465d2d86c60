"""Send messages to a Kafka topic: pack them into Kafka records, wait for confirmation, count the results."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from operator import length_hint
from types import TracebackType
from typing import Any

from flowbuf._core import count_messages, cut_messages, hash_conversations, split_messages
from flowbuf.arrow.row_text import RowText
from flowbuf.errors import DecodeError, KafkaError
from flowbuf.kafka.client import TIMEOUT, Note
from flowbuf.kafka.kafka_records import RecordReader
from flowbuf.kafka.packs import PACK_SIZE, Packs
from flowbuf.kafka.schema_registry import FRAMING_HEADER, SCHEMA_HEADER, SchemaRegistry
from flowbuf.kafka.schema_topic import SCHEMAS_TOPIC, check_schema_topic
from flowbuf.kafka.topic_producer import COMPRESSIONS, TopicProducer, explain_refusal
from flowbuf.schema import Schema
from flowbuf.schema.loader import FRAMINGS

__all__ = ["COMPRESSIONS", "FORMATS", "KEYS", "PACK_SIZE", "KafkaSink", "ProduceReport", "check_pack"]

KEYS = ("none", "exporter", "flow")
FORMATS = ("protobuf", "json")
_WAIT = 0.05  # seconds per wait for space in the queue
_FLUSH = 1.0  # seconds between two checks for a signal
_LAST_CHANCE = 5.0  # seconds to confirm records that were sent before an error


@dataclass
class ProduceReport:
    """Counts of Kafka records, and of the flows in them.

    After a sink is closed, every record has either failed or was confirmed by the broker.

    Attributes:
        records: Kafka records that were sent.
        flows: Flows in these records.
        bytes: Bytes of the messages.
        failed: Kafka records that were rejected or not confirmed. Unconfirmed records may still have arrived.
        failed_flows: Flows in the failed records.
        confirmed_flows: Flows in records that the broker has confirmed. Counted only if the setting
            `delivery.report.only.error` is false; otherwise 0.
        retries: Minimum number of Kafka records that were sent again because the broker did not confirm them.
        empty: Kafka records of zero bytes: "bare" framing, and a flow in which every value is zero.
            ClickHouse's ProtobufSingle skips them.
        reasons: Reasons of the failures -> number of Kafka records.
    """

    records: int = 0
    flows: int = 0
    bytes: int = 0
    failed: int = 0
    failed_flows: int = 0
    confirmed_flows: int = 0
    retries: int = 0
    empty: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def delivered(self) -> int:
        """Number of Kafka records that have not failed."""
        return self.records - self.failed

    @property
    def delivered_flows(self) -> int:
        """Number of flows in the records that have not failed."""
        return self.flows - self.failed_flows

    def fail(self, reason: str, flows: int) -> None:
        """Count a Kafka record with this number of flows as failed."""
        self.failed += 1
        self.failed_flows += flows
        self.reasons[reason] += 1


def check_pack(pack: int | str) -> int | str:
    """Return the `pack` of a `KafkaSink`, with a number in text converted.

    Raise ValueError if it is invalid.
    """
    if pack in ("flow", "datagram"):
        return pack
    try:
        size = int(pack)
    except ValueError:
        size = 0
    if not 1 <= size < 1 << 30:
        raise ValueError(
            f"pack is {pack!r}; it may be flow, datagram, or the maximum size of a Kafka record in bytes"
        )
    return size


class KafkaSink:
    """Send messages to a Kafka topic, as a context manager.

    If the block ends without an exception, the broker has confirmed every Kafka record; otherwise KafkaError
    is raised. If the block ends with an exception, sent records have 5 seconds to be confirmed. Use a sink
    from one thread at a time.

    Records of several messages name their schema in the header `flowbuf-schema`. The default client settings
    are idempotence and acks=all.

    Args:
        servers: Initial brokers, "host:port,host:port".
        topic: Name of the topic. `{hash}`, `{name}` and `{rows}` stand for those of the schema. Default:
            "flows-{hash}".
        schema: Schema of the messages, name of a built-in schema, or path to a TOML file. Default: "flow".
        pack: Content of a Kafka record. "flow": one message. "datagram": the messages of one `write`. A
            number: as many messages as fit into that many bytes, at least one. Default: 65,536.
        format: "protobuf", or "json": each Kafka record is one flow, as `flowbuf read -f jsonl` prints it.
            JSON needs the name of a topic, and has no framing, registry and schema description.
            Default: "protobuf".
        framing: "bare" (one message alone, only with pack "flow") or "delimited" (each message after its
            length as a varint). Default: the framing of the schema if it has one, else bare for pack "flow",
            else delimited.
        key: Key of Kafka records. "none", "exporter" (address of the exporter) or "flow". "flow" is an 8-byte
            hash, equal for both directions of a conversation, and needs pack "flow". Default: "none".
        compression: "none", "gzip", "snappy", "lz4" or "zstd". Default: "none".
        registry: Confluent schema registry. Each Kafka record is then one message after the number of its
            schema. Default: no registry.
        schema_topic: Topic that stores the schema description for readers. None disables it. Default:
            "flowbuf-schemas".
        partitions: Number of partitions of a new topic. Default: None, a missing topic is an error.
        settings: Settings of librdkafka, for example {"security.protocol": "SASL_SSL", "sasl.password": …}.
            They override the default settings.
        timeout: Seconds to wait for the first answer of a broker. Default: 30.
        linger: Seconds after which an incomplete pack is sent. It is checked by `write` and `poll`. Default:
            1.
        on_problem: Function that receives a text for each problem that librdkafka retries, and if the
            existing topic has another number of partitions. Default: problems are not reported.

    Attributes:
        report: `ProduceReport` with the counts so far.
        schema: Schema of the messages.
        topic: Name of the topic, with the hash and name of the schema filled in.

    Raises:
        ImportError: confluent-kafka is not installed.
        ValueError: An argument is invalid, or arguments cannot be combined.
        SchemaError: The schema cannot be loaded, or has no address columns for the key "flow".
        KafkaError: No broker answers, the topic is missing, or a Kafka record was not delivered.

    Example:
        decoder = flowbuf.Decoder()
        with (
            flowbuf.CaptureReader("capture.pcap") as reader,
            flowbuf.KafkaSink("localhost:9092", "flows", decoder.schema, partitions=4) as sink,
        ):
            for datagrams in reader:
                sink.write(decoder.encode_datagrams(datagrams))
    """

    def __init__(
        self,
        servers: str,
        topic: str = "flows-{hash}",
        schema: Schema | str = "flow",
        *,
        pack: int | str = PACK_SIZE,
        format: str = "protobuf",
        framing: str | None = None,
        key: str = "none",
        compression: str = "none",
        registry: SchemaRegistry | None = None,
        schema_topic: str | None = SCHEMAS_TOPIC,
        partitions: int | None = None,
        settings: Mapping[str, Any] | None = None,
        timeout: float = TIMEOUT,
        linger: float = 1.0,
        on_problem: Note = lambda text: None,
    ) -> None:
        self.schema = schema if isinstance(schema, Schema) else Schema.load(schema)
        self.topic = self.schema.expand(topic)
        if "{" in self.topic:
            raise ValueError(
                f"topic is {topic!r}; the only braces it may contain are {{hash}}, {{name}}, {{rows}}"
            )
        self.report = ProduceReport()
        self._json: _JsonValues | None = None
        if format == "json":
            _check_json(topic, pack, framing, bool(registry))
            self._json, pack, schema_topic = _JsonValues(self.schema), "flow", None
        elif format != "protobuf":
            raise ValueError(f"format is {format!r}; it may be {' or '.join(FORMATS)}")
        check_schema_topic(schema_topic, self.topic)
        if registry and pack not in (PACK_SIZE, "flow"):
            raise ValueError("a schema registry needs one message per Kafka record; leave out pack")
        self._pack = "flow" if registry else check_pack(pack)
        self.framing = _choose_framing(self._pack, framing, self.schema, bool(registry))
        if key not in KEYS:
            raise ValueError(f"key is {key!r}; it may be {', '.join(KEYS)}")
        if key == "flow" and self._pack != "flow":
            raise ValueError('key "flow" needs one flow per Kafka record; set pack to "flow"')
        if compression not in COMPRESSIONS:
            raise ValueError(f"compression is {compression!r}; it may be {', '.join(COMPRESSIONS)}")
        self._key = key
        self._conversation = _find_conversation(self.schema) if key == "flow" else {}
        self._linger = linger
        self._waiting_since = 0.0
        self._closed = False
        self._deadline = math.inf  # end of the wait for space in the queue
        hash, form = self.schema.hash.encode(), self.framing.encode()
        self._headers = None if self._pack == "flow" else [(SCHEMA_HEADER, hash), (FRAMING_HEADER, form)]
        self._producer: Any = TopicProducer(
            servers,
            self.topic,
            compression=compression,
            partitions=partitions,
            settings=settings,
            timeout=timeout,
            on_delivery=self._note_delivery,
            on_problem=on_problem,
        )
        self._limit = self._producer.limit
        self._packs = Packs(self._limit if isinstance(self._pack, str) else min(self._pack, self._limit))
        self._prefix = registry.register(f"{self.topic}-value", self.schema) if registry else b""
        if schema_topic:
            self._producer.describe(self.schema, schema_topic, timeout)

    # Writing ------------------------------------------------------------------------------------------------

    def write(self, messages: bytes | memoryview, exporter: str = "") -> None:
        """Send length-delimited messages, as a decoder returns them.

        The call waits if the broker is slower than the caller. Messages that cannot be sent are counted as
        failed.

        Args:
            messages: Messages, each after its length as a varint.
            exporter: Address of the exporter of these messages. Required for key "exporter".

        Raises:
            ValueError: key is "exporter", and exporter is empty.
            DecodeError: The messages are malformed.
            KafkaError: Nothing can be sent any more. The topic was deleted, or no broker was available for as
                long as records may wait (`message.timeout.ms`).
        """
        self._check_open()
        if not len(messages):
            return
        if self._key == "exporter" and not exporter:
            raise ValueError('exporter is empty, and key is "exporter"; pass the address of the exporter')
        key = exporter.encode() if self._key == "exporter" else None
        if self._pack == "flow":
            self._send_each(messages, key)
        elif self._pack == "datagram":
            for value, count in cut_messages(messages, self._limit, self._limit):
                self._send(value, key, count)
        else:
            self._add(messages, key)
        self.poll()

    def poll(self) -> None:
        """Send packs that have waited for `linger` seconds, and read failures and statistics from the client.

        Call it about once per second while nothing is written. The client keeps its reports until then.

        Raises:
            KafkaError: Nothing can be sent any more.
        """
        self._check_open()
        if len(self._packs) and time.monotonic() - self._waiting_since >= self._linger:
            self._send_waiting()
        self._producer.poll(0)  # statistics arrive even if nothing is sent
        self._update_report()
        if obstacle := self._producer.obstacle:
            raise KafkaError(obstacle)

    def _check_open(self) -> None:
        if self._closed:
            raise KafkaError(f"topic {self.topic!r}: the sink is closed; open another one")

    def _add(self, messages: bytes | memoryview, key: bytes | None) -> None:
        """Fill packs, and send full ones."""
        if not len(self._packs):
            self._waiting_since = time.monotonic()
        for pack in self._packs.add(messages, key):
            self._send(pack.value, pack.key, pack.count)

    def _send_waiting(self) -> None:
        for pack in self._packs.take():
            self._send(pack.value, pack.key, pack.count)

    def _send_each(self, messages: bytes | memoryview, key: bytes | None) -> None:
        """Send each message in its own Kafka record."""
        values = self._split(messages)
        keys: Iterable[bytes | None] = repeat(key)
        if self._conversation:
            keys = hash_conversations(messages, **self._conversation)
        produce, topic, refusals = self._producer.produce, self.topic, self._producer.refusals
        rest = iter(values)
        try:
            for value, own in zip(rest, keys, strict=False):  # repeat() has no end
                try:
                    produce(topic, value, own)
                except refusals as error:
                    self._send_again(error, value, own, 1)
        finally:  # a signal may interrupt: unsent messages are not counted
            left = length_hint(rest)
            sent = values[: len(values) - left] if left else values
            self.report.records += len(sent)
            self.report.flows += len(sent)
            self.report.bytes += sum(map(len, sent)) if left or self._json else len(messages)
            self.report.empty += sent.count(b"")

    def _split(self, messages: bytes | memoryview) -> list[bytes]:
        """Return the value of a Kafka record for each message."""
        if self._json:
            return self._json.read(messages)
        return split_messages(messages, None if self.framing == "delimited" else self._prefix)

    def _send(self, value: bytes, key: bytes | None, count: int) -> None:
        """Send a Kafka record with `count` messages."""
        try:
            self._producer.produce(self.topic, value, key, headers=self._headers)
        except self._producer.refusals as error:
            self._send_again(error, value, key, count)
        finally:
            self.report.records += 1
            self.report.flows += count
            self.report.bytes += len(value)

    def _send_again(self, error: Exception, value: bytes, key: bytes | None, count: int) -> None:
        """Wait for space in the queue, and count a record that cannot be sent as failed."""
        try:
            while isinstance(error, BufferError) and time.monotonic() < self._deadline:
                self._producer.poll(_WAIT)
                if self._producer.obstacle:
                    break
                try:
                    self._producer.produce(self.topic, value, key, headers=self._headers)
                    return
                except self._producer.refusals as again:
                    error = again
        except BaseException:  # a signal: it is unknown if the record was sent
            self.report.fail("interrupted", count)
            raise
        self.report.fail(explain_refusal(error), count)
        self._producer.note_refusal(error)

    # Delivery -----------------------------------------------------------------------------------------------

    def _note_delivery(self, error: Any, message: Any) -> None:
        """Count a Kafka record that was not delivered.

        The client reports only failures, unless settings change that.
        """
        if error is None:  # settings can request reports of deliveries too
            self.report.confirmed_flows += self._count_flows(message)
            return
        self._producer.note_failure(error)
        self.report.fail(error.str(), self._count_flows(message))

    def _count_flows(self, message: Any) -> int:
        """Return the number of flows in a Kafka record."""
        return 1 if self._pack == "flow" else count_messages(message.value())

    def _update_report(self) -> None:
        again = self._producer.transmitted - self.report.records
        self.report.retries = max(self.report.retries, again)

    @property
    def unconfirmed(self) -> int:
        """Number of Kafka records that were sent and are neither delivered nor failed.

        The true number may be slightly lower.
        """
        return 0 if self._closed else len(self._producer)

    def flush(self) -> None:
        """Send all waiting messages, and return when every record is delivered or has failed."""
        self._check_open()
        self._send_waiting()
        while self._producer.flush(_FLUSH):
            pass
        self._producer.settle()
        self._update_report()

    def close(self) -> None:
        """Flush, and close the connection. A second call does nothing.

        Raises:
            KafkaError: A Kafka record was not delivered. The text contains the reasons.
        """
        if self._closed:
            return
        self.flush()
        self._closed = True
        self._producer = None
        report = self.report
        if report.failed:
            reasons = ", ".join(f"{reason} ({count:,})" for reason, count in report.reasons.most_common())
            records = f"{report.failed:,} of {report.records:,} Kafka records"
            flows = f"{report.failed_flows:,} of {report.flows:,} flows"
            raise KafkaError(f"topic {self.topic!r}: not delivered: {records}, {flows}: {reasons}")

    def abandon(self) -> None:
        """Close the sink after an error.

        Sent records have 5 seconds to be confirmed. Unconfirmed records then count as failed.
        """
        if self._closed:
            return
        self._deadline = time.monotonic() + _LAST_CHANCE
        try:
            self._send_waiting()
            self._producer.flush(_LAST_CHANCE)
        finally:  # also after a second signal
            if left := self._producer.purge():
                self.report.failed += left
                self.report.reasons["not confirmed"] += left
            self._closed = True
            self._producer = None

    def __enter__(self) -> KafkaSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


class _JsonValues:
    """Turns messages into JSON objects.

    Raises:
        SchemaError: The schema is not flat.
    """

    def __init__(self, schema: Schema) -> None:
        schema.require_flat("JSON")
        self._reader = RecordReader(schema, "delimited")
        self._rows = RowText(schema)

    def read(self, messages: bytes | memoryview) -> list[bytes]:
        """Return the object of each message. Raises DecodeError."""
        flows, faults = self._reader.read([bytes(messages)])
        if faults:
            raise DecodeError(faults[0])
        return [line for batch in flows for line in self._rows.split(batch)]


def _check_json(topic: str, pack: int | str, framing: str | None, registered: bool) -> None:
    """Raise ValueError for arguments that cannot be combined with JSON."""
    if "{hash}" in topic:
        raise ValueError('format "json" needs a topic without {hash}, which stands for a schema; set topic')
    for name, given in (
        ("pack", pack not in (PACK_SIZE, "flow")),
        ("framing", framing),
        ("registry", registered),
    ):
        if given:
            raise ValueError(f"JSON has one flow per Kafka record, and no schema; leave out {name}")


def _choose_framing(pack: int | str, framing: str | None, schema: Schema, registered: bool) -> str:
    if framing not in (None, *FRAMINGS):
        raise ValueError(f"framing is {framing!r}; it may be {', '.join(FRAMINGS)}")
    if registered:
        if framing == "delimited":
            raise ValueError("a schema registry needs bare messages; leave out framing")
        return "bare"
    chosen = framing or schema.framing or ("bare" if pack == "flow" else "delimited")
    if chosen == "bare" and pack != "flow":
        raise ValueError('framing "bare" needs one flow per Kafka record; set pack to "flow"')
    return chosen


# Columns that identify a conversation. They are found by their NetFlow v5 source, so schemas may use other
# names.
_ENDPOINTS = {
    "src_addr": "srcaddr",
    "dst_addr": "dstaddr",
    "src_port": "srcport",
    "dst_port": "dstport",
    "proto": "prot",
}


def _find_conversation(schema: Schema) -> dict[str, int]:
    """Return the numbers of the key columns of a flow. Raise SchemaError if address columns are missing."""
    numbers: dict[str, int] = {}
    for name, field_name in _ENDPOINTS.items():
        for column in schema.enabled:
            if f"netflow5:{field_name}" in column.source_texts:
                numbers[name] = column.number
                break
    if not {"src_addr", "dst_addr"} <= numbers.keys():
        raise schema.error(
            None, 'key "flow" needs addresses, which are disabled', "enable src_addr and dst_addr"
        )
    return numbers
