"""Messages into a topic of Kafka: packed into records, confirmed one by one, counted."""

from __future__ import annotations

import json
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
from flowbuf.errors import KafkaError
from flowbuf.kafka.client import TIMEOUT, Note, Notes, Topics, import_kafka, new_client
from flowbuf.kafka.schema_registry import FRAMING_HEADER, SCHEMA_HEADER, SCHEMAS_TOPIC, SchemaRegistry, describe_schema
from flowbuf.schema import Schema
from flowbuf.schema.loader import FRAMINGS

__all__ = ["COMPRESSIONS", "KEYS", "PACK_SIZE", "KafkaSink", "ProduceReport", "check_pack"]

KEYS = ("none", "exporter", "flow")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
PACK_SIZE = 65536
"""Octets of a record, unless it is said otherwise."""

_NO_TOPIC = "make it, or say how many partitions it is to have (--partitions N)"
_HEADROOM = 256  # octets of a batch of one record besides its value: key, headers, lengths
_MESSAGE_LIMIT = 1_000_000  # octets of a record that librdkafka takes, unless it is told otherwise
_WAIT = 0.05  # seconds for room to appear
_WAITING_LIMIT = 1 << 26  # octets in packs that are not full yet, of all exporters
_FLUSH = 1.0  # seconds between two looks for a signal
_LAST_CHANCE = 5.0  # seconds for what was sent before an error to be confirmed
_SETTLING = 1.0  # seconds for the last news of what was sent

# What a client of Kafka does unless its user says otherwise: nothing lost, nothing twice, memory bounded.
_DEFAULTS: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 20,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 131_072,
    "statistics.interval.ms": 200,
    "delivery.report.only.error": True,
}


@dataclass
class ProduceReport:
    """What became of records, and of the flows in them. `records` were sent; `failed` were refused, or not confirmed,
    so that nobody knows of some whether they arrived; `reasons` says why, with the number of records. Once a sink is
    closed, all others were `delivered`: confirmed by the broker. `octets` are those of the messages. `retries`: so many
    records at least went to a broker once more, because it had not confirmed them. `empty`: so many records have no
    octets, because their flow has nothing but zeros and its framing is "bare"; ClickHouse's ProtobufSingle skips
    them."""

    records: int = 0
    flows: int = 0
    octets: int = 0
    failed: int = 0
    failed_flows: int = 0
    retries: int = 0
    empty: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def delivered(self) -> int:
        """Records that have not failed."""
        return self.records - self.failed

    @property
    def delivered_flows(self) -> int:
        """The flows in them."""
        return self.flows - self.failed_flows

    def fail(self, reason: str, flows: int) -> None:
        """A record of so many flows was not delivered."""
        self.failed += 1
        self.failed_flows += flows
        self.reasons[reason] += 1


def check_pack(pack: int | str) -> int | str:
    """How messages are packed, as `KafkaSink` takes it: a number may be text. Raises ValueError."""
    if pack in ("flow", "datagram"):
        return pack
    try:
        size = int(pack)
    except ValueError:
        size = 0
    if not 1 <= size < 1 << 30:
        raise ValueError(f"pack is {pack!r}; it may be flow, datagram, or the octets of a record")
    return size


class KafkaSink:
    """Produces messages to a topic of Kafka. A context manager: a block that ends well has had every record confirmed,
    or raises KafkaError; `report` says what became of them.

    `servers` are brokers to begin with ("host:port,host:port"), `topic` is a name in which `{hash}` and `{name}` are
    those of the schema, and `schema` what the messages are of. `partitions`: where there is no such topic, it is made
    with so many.

    `pack` says what is in a record: "flow", one message; "datagram", those of one `write`; or a number, as many
    messages as have so many octets together (or one that has more). `framing` says how: "bare", a message alone, for
    "flow" only; or "delimited", each message after its length as a varint. Without it, single flows are bare and others
    delimited, unless the schema says otherwise, as those of other collectors do. `key` is that of records: "none", the
    address of the "exporter", or of the "flow", 8 octets that are the same for both directions of a conversation
    (single flows only).

    `registry` is a Confluent schema registry: messages are then single, and begin with the number of their schema.
    `schema_topic` is where the schema is described for readers; None: nowhere. Records of several messages name their
    schema in a header.

    `settings` are of librdkafka, such as {"security.protocol": "SASL_SSL", "sasl.password": …}, and stronger than those
    that are here: idempotence, acks=all. `timeout`: seconds for brokers to answer at first. `linger`: seconds after
    which a pack is sent that is not full yet, once something else is written, or `poll` is called. `on_problem` is told
    what goes wrong with brokers, which librdkafka goes on with by itself, and of a topic with other `partitions`.

    One thread at a time. Raises ImportError without confluent-kafka, ValueError and SchemaError for what cannot be, and
    KafkaError.
    """

    def __init__(
        self,
        servers: str,
        topic: str = "flows-{hash}",
        schema: Schema | str = "flow",
        *,
        pack: int | str = PACK_SIZE,
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
            raise ValueError(f"topic is {topic!r}; in braces it may have {{hash}} and {{name}}")
        self.report = ProduceReport()
        if registry and pack not in (PACK_SIZE, "flow"):
            raise ValueError("a schema registry takes one message a record: leave out pack")
        self._pack = "flow" if registry else check_pack(pack)
        self.framing = _choose_framing(self._pack, framing, self.schema, bool(registry))
        if key not in KEYS:
            raise ValueError(f"key is {key!r}; it may be {', '.join(KEYS)}")
        if key == "flow" and self._pack != "flow":
            raise ValueError('key is "flow", which is for one flow a record: pack must be "flow"')
        if compression not in COMPRESSIONS:
            raise ValueError(f"compression is {compression!r}; it may be {', '.join(COMPRESSIONS)}")
        self._key = key
        self._conversation = _find_conversation(self.schema) if key == "flow" else {}
        self._linger = linger
        self._waiting: dict[bytes | None, _Pack] = {}
        self._waiting_octets = 0
        self._waiting_since = 0.0
        self._closed = False
        self._deadline = math.inf  # for room to appear
        self._expired = False  # records have waited for longer than they may
        self._reachable = True  # a broker is connected, as far as it is known
        self._looks = 0  # at statistics
        self._lost = ""  # why the topic takes nothing any more
        self._notes = Notes(on_problem, settings or {})
        hash, form = self.schema.hash.encode(), self.framing.encode()
        self._headers = None if self._pack == "flow" else [(SCHEMA_HEADER, hash), (FRAMING_HEADER, form)]
        topics = Topics(servers, settings or {}, self._notes)
        found = topics.find(self.topic, timeout, partitions, fix=_NO_TOPIC)
        if partitions not in (None, found):
            on_problem(f"topic {self.topic!r} is there already, and has {found} partitions, not {partitions}")
        if schema_topic:
            self._find_schema_topic(topics, schema_topic, timeout)
        self._prefix = registry.register(f"{self.topic}-value", self.schema) if registry else b""
        self._open(servers, dict(settings or {}), compression, topics.message_limit(self.topic, timeout))
        if schema_topic:
            self._describe(schema_topic, timeout)

    def _find_schema_topic(self, topics: Topics, topic: str, timeout: float) -> None:
        try:
            topics.find(topic, timeout, 1, {"cleanup.policy": "compact"})
        except KafkaError as error:
            raise KafkaError(f"{error}; it describes schemas, which may be left out: schema_topic") from None

    def _open(self, servers: str, settings: dict[str, Any], compression: str, limit: int) -> None:
        """Makes a producer of batches that the topic takes."""
        kafka = import_kafka()
        own = {
            "compression.type": compression,
            "batch.size": limit,
            "stats_cb": self._count_retries,
            "on_delivery": self._count_failed,
        }
        self._producer = new_client("Producer", servers, settings, {**_DEFAULTS, **own}, self._notes)
        self._refusals = (BufferError, kafka.KafkaException)
        self._timed_out = kafka.KafkaError._MSG_TIMED_OUT
        self._too_large = kafka.KafkaError.MSG_SIZE_TOO_LARGE
        self._limit = max(min(limit, int(settings.get("message.max.bytes", _MESSAGE_LIMIT))) - _HEADROOM, 1)

    def _describe(self, topic: str, timeout: float) -> None:
        """Leaves the schema where readers look for it."""
        problems: list[str] = []

        def note(error: Any, _: Any) -> None:
            if error is not None:
                problems.append(error.str())

        try:
            self._producer.produce(topic, describe_schema(self.schema), self.schema.hash, on_delivery=note)
        except self._refusals as error:
            problems.append(_explain(error))
        left = self._producer.flush(timeout)
        if problems or left:
            reason = problems[0] if problems else f"not confirmed in {timeout:g} s: {self._notes.latest}"
            raise KafkaError(f"topic {topic!r}, which describes schemas: {reason}")

    # Writing --------------------------------------------------------------------------------------------------------

    def write(self, messages: bytes | memoryview, exporter: str = "") -> None:
        """Takes length-delimited messages, as a decoder gives them; `exporter` is whose they are, for the key. Waits
        where the broker does not keep up. What cannot be sent is counted as failed. Raises DecodeError where the
        messages are malformed, KafkaError when no more can be sent at all: the topic is gone, or no broker has been
        there for as long as records may wait (`message.timeout.ms`)."""
        self._check_open()
        if not len(messages):
            return
        if self._key == "exporter" and not exporter:
            raise ValueError("the key is that of the exporter: say which")
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
        """Sends what has waited for long enough, and reads what the client reports: failures and statistics. Call it
        about once per second while nothing is written: the client keeps its reports until then. Raises
        KafkaError."""
        self._check_open()
        if self._waiting and time.monotonic() - self._waiting_since >= self._linger:
            self._send_waiting()
        self._producer.poll(0)  # statistics come all the time, also while nothing is sent
        if obstacle := self._find_obstacle():
            raise KafkaError(obstacle)

    def _check_open(self) -> None:
        if self._closed:
            raise KafkaError(f"topic {self.topic!r}: nothing can be sent any more: the sink is closed")

    def _find_obstacle(self) -> str:
        """Why no more can be sent at all; empty while it can."""
        if self._notes.fatal:
            return f"the broker takes no more: {self._notes.fatal}"
        if self._expired and not self._reachable:
            return f"no broker has come back while records waited for it: {self._notes.latest}"
        return self._lost

    def _add(self, messages: bytes | memoryview, key: bytes | None) -> None:
        """Fills packs, and sends those that are full."""
        size = min(int(self._pack), self._limit)
        if not self._waiting:
            self._waiting_since = time.monotonic()
        pack = self._waiting.get(key)
        if pack is None:
            pack = self._waiting[key] = _Pack()
        if pack.octets + len(messages) <= size:
            pieces = [(bytes(messages), count_messages(messages))]
        else:
            pieces = cut_messages(messages, size, max(size - pack.octets, 0))
        for value, count in pieces:
            if pack.octets + len(value) > size or not value:
                self._send_pack(pack, key)
            pack.add(value, count)
            self._waiting_octets += len(value)
        if self._waiting_octets > _WAITING_LIMIT:
            self._send_waiting()

    def _send_pack(self, pack: _Pack, key: bytes | None) -> None:
        if pack.octets:
            self._waiting_octets -= pack.octets
            value, count = pack.take()
            self._send(value, key, count)

    def _send_waiting(self) -> None:
        for key, pack in self._waiting.items():
            self._send_pack(pack, key)
        self._waiting.clear()

    def _send_each(self, messages: bytes | memoryview, key: bytes | None) -> None:
        """Each message in a record of its own."""
        values = split_messages(messages, None if self.framing == "delimited" else self._prefix)
        keys: Iterable[bytes | None] = repeat(key)
        if self._conversation:
            keys = hash_conversations(messages, **self._conversation)
        produce, topic, refusals = self._producer.produce, self.topic, self._refusals
        rest = iter(values)
        try:
            for value, own in zip(rest, keys, strict=False):  # repeat() has no end
                try:
                    produce(topic, value, own)
                except refusals as error:
                    self._send_again(error, value, own, 1)
        finally:  # a signal may have come: what was not sent is not counted
            left = length_hint(rest)
            sent = values[: len(values) - left] if left else values
            self.report.records += len(sent)
            self.report.flows += len(sent)
            self.report.octets += sum(map(len, sent)) if left else len(messages)
            self.report.empty += sent.count(b"")

    def _send(self, value: bytes, key: bytes | None, count: int) -> None:
        """A record of so many messages."""
        try:
            self._producer.produce(self.topic, value, key, headers=self._headers)
        except self._refusals as error:
            self._send_again(error, value, key, count)
        finally:
            self.report.records += 1
            self.report.flows += count
            self.report.octets += len(value)

    def _send_again(self, error: Exception, value: bytes, key: bytes | None, count: int) -> None:
        """What there was no room for waits until there is; what cannot be sent at all has failed."""
        try:
            while isinstance(error, BufferError) and time.monotonic() < self._deadline:
                self._producer.poll(_WAIT)
                if self._find_obstacle():
                    break
                try:
                    self._producer.produce(self.topic, value, key, headers=self._headers)
                    return
                except self._refusals as again:
                    error = again
        except BaseException:  # a signal: nobody knows
            self.report.fail("interrupted", count)
            raise
        self.report.fail(_explain(error), count)
        if not isinstance(error, BufferError) and error.args[0].code() != self._too_large:
            self._lost = f"topic {self.topic!r}: {_explain(error)}"

    # Delivery -------------------------------------------------------------------------------------------------------

    def _count_failed(self, error: Any, message: Any) -> None:
        """Of a record that was not delivered: all others are."""
        if error is None:  # settings may want to hear of those, too
            return
        if error.code() == self._timed_out:
            self._expired = True
        self.report.fail(error.str(), 1 if self._pack == "flow" else count_messages(message.value()))

    def _count_retries(self, statistics: str) -> None:
        """`txretries` counts requests, and of these not the ones that carry records: those are made anew."""
        found = json.loads(statistics)
        partitions = found.get("topics", {}).get(self.topic, {}).get("partitions", {})
        sent = sum(partition.get("txmsgs", 0) for partition in partitions.values())
        self.report.retries = max(self.report.retries, sent - self.report.records)
        self._notes.see(found.get("brokers", {}))
        self._reachable = any(broker.get("state") == "UP" for broker in found.get("brokers", {}).values())
        self._looks += 1

    @property
    def unconfirmed(self) -> int:
        """Records that were sent, and are neither delivered nor failed yet. There may be fewer by a few."""
        return 0 if self._closed else len(self._producer)

    def flush(self) -> None:
        """Sends what waits, and returns when all that was sent is delivered or has failed."""
        self._check_open()
        self._send_waiting()
        while self._producer.flush(_FLUSH):
            pass
        looks, deadline = self._looks, time.monotonic() + _SETTLING
        while self._notes.latest and self._looks == looks and time.monotonic() < deadline:
            self._producer.poll(_WAIT)  # until statistics say what was sent again at last

    def close(self) -> None:
        """The same, and lets go of the broker. Raises KafkaError where something has failed, and says why. A second
        time, nothing happens."""
        if self._closed:
            return
        self.flush()
        self._closed = True
        self._producer = None
        report = self.report
        if report.failed:
            reasons = ", ".join(f"{reason} ({count:,})" for reason, count in report.reasons.most_common())
            failed = (
                f"{report.failed:,} of {report.records:,} records, {report.failed_flows:,} of {report.flows:,} flows"
            )
            raise KafkaError(f"topic {self.topic!r}: not delivered: {failed}: {reasons}")

    def abandon(self) -> None:
        """For when something else has gone wrong: what was sent gets a last chance of a few seconds, what is still not
        confirmed then has failed."""
        if self._closed:
            return
        self._deadline = time.monotonic() + _LAST_CHANCE
        try:
            self._send_waiting()
            self._producer.flush(_LAST_CHANCE)
        finally:  # also where a second signal comes
            self._producer.purge()
            left = self._producer.flush(_SETTLING)
            if left:
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


class _Pack:
    """Messages that wait until there are enough of them for a record."""

    def __init__(self) -> None:
        self.octets = 0
        self._count = 0
        self._pieces: list[bytes] = []

    def add(self, messages: bytes, count: int) -> None:
        self._pieces.append(messages)
        self.octets += len(messages)
        self._count += count

    def take(self) -> tuple[bytes, int]:
        """All messages, and their number; there are none then."""
        value, count = b"".join(self._pieces), self._count
        self.octets, self._count, self._pieces = 0, 0, []
        return value, count


def _explain(error: Exception) -> str:
    """Why a producer does not take a record."""
    if isinstance(error, BufferError):
        return "no room for it"
    return str(error.args[0].str()).removeprefix("Unable to produce message: ")


def _choose_framing(pack: int | str, framing: str | None, schema: Schema, registered: bool) -> str:
    if framing not in (None, *FRAMINGS):
        raise ValueError(f"framing is {framing!r}; it may be {', '.join(FRAMINGS)}")
    if registered:
        if framing == "delimited":
            raise ValueError("a schema registry takes bare messages: leave out framing")
        return "bare"
    chosen = framing or schema.framing or ("bare" if pack == "flow" else "delimited")
    if chosen == "bare" and pack != "flow":
        raise ValueError('framing is "bare", which is for one flow a record: pack must be "flow"')
    return chosen


# Columns that tell whose conversation a flow is, by what NetFlow v5 fills them with, whatever a schema calls them.
_ENDPOINTS = {
    "src_addr": "srcaddr",
    "dst_addr": "dstaddr",
    "src_port": "srcport",
    "dst_port": "dstport",
    "proto": "prot",
}


def _find_conversation(schema: Schema) -> dict[str, int]:
    """The numbers of the columns that make the key of a flow. Raises SchemaError where there are no addresses."""
    numbers: dict[str, int] = {}
    for name, field_name in _ENDPOINTS.items():
        for column in schema.enabled:
            if f"netflow5:{field_name}" in column.source_texts:
                numbers[name] = column.number
                break
    if not {"src_addr", "dst_addr"} <= numbers.keys():
        raise schema.error(
            None, "the key is that of the flow, but addresses are not enabled", "enable src_addr and dst_addr"
        )
    return numbers
