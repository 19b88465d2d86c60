"""Batches of flows as the Kafka records of an output: packed Protocol Buffers messages, or JSON objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from flowbuf._core import split_messages
from flowbuf.arrow.row_text import KeyRows, RowText
from flowbuf.io.columns import encode_columns
from flowbuf.kafka.packs import PACK_SIZE, Pack, Packs
from flowbuf.kafka.schema_registry import FRAMING_HEADER, SCHEMA_HEADER
from flowbuf.kafka.schema_topic import SCHEMAS_TOPIC
from flowbuf.schema import Schema

if TYPE_CHECKING:
    import pyarrow

__all__ = ["JsonForm", "KafkaForm", "PackedForm", "Record", "Written"]


class Written:
    """Flows of one `write`, until each of them is confirmed or lost.

    Attributes:
        flows: Number of flows.
        confirmed: Flows that the broker has confirmed.
        lost: Flows that cannot be sent.
    """

    def __init__(self, flows: int) -> None:
        self.flows = flows
        self.confirmed = self.lost = 0

    @property
    def settled(self) -> bool:
        """True if no flow waits any more."""
        return self.confirmed + self.lost == self.flows


class Record(NamedTuple):
    """A Kafka record to send.

    Attributes:
        value: Its value.
        key: Its key, or None.
        shares: Number of flows from each `write`.
    """

    value: bytes
    key: bytes | None
    shares: Sequence[tuple[Written, int]]


class KafkaForm(Protocol):
    """A form of Kafka records.

    Attributes:
        headers: Headers of each Kafka record.
        schema_topic: Topic for the schema description, or None.
    """

    headers: Sequence[tuple[str, bytes]]
    schema_topic: str | None

    def set_limit(self, size: int) -> None:
        """Limit values to a size in bytes, unless one flow is larger."""
        ...

    def add(self, batch: pyarrow.RecordBatch, written: Written) -> Iterable[Record]:
        """Return the Kafka records that are complete with the flows of a batch."""
        ...

    def take(self) -> Iterable[Record]:
        """Return the incomplete Kafka records."""
        ...


class JsonForm:
    """One JSON object per Kafka record, as on the lines of `flowbuf read --format jsonl`.

    Args:
        schema: Schema of the flows.
        key: Names of the columns of the key. Empty: no key.
    """

    headers: Sequence[tuple[str, bytes]] = ()
    schema_topic: str | None = None

    def __init__(self, schema: Schema, key: Sequence[str] = ()) -> None:
        self._rows = RowText(schema)
        self._keys = KeyRows(schema, key) if key else None

    def set_limit(self, size: int) -> None:
        """Do nothing: a value is one flow."""

    def add(self, batch: pyarrow.RecordBatch, written: Written) -> Iterator[Record]:
        """Yield a Kafka record per flow."""
        lines, shares = self._rows.split(batch), ((written, 1),)
        keys = self._keys.read(batch) if self._keys else [None] * len(lines)
        for line, key in zip(lines, keys, strict=True):
            yield Record(line, key, shares)

    def take(self) -> Iterable[Record]:
        """Return nothing: no Kafka record is incomplete."""
        return ()


class PackedForm:
    """Many Protocol Buffers messages per Kafka record, each after its length.

    With a key, all flows of a Kafka record have the same key.

    Args:
        schema: Schema of the flows.
        key: Names of the columns of the key. Empty: no key.
        schema_topic: Topic for the schema description, or None.
    """

    def __init__(
        self, schema: Schema, key: Sequence[str] = (), schema_topic: str | None = SCHEMAS_TOPIC
    ) -> None:
        self.schema_topic = schema_topic
        self.headers: Sequence[tuple[str, bytes]] = (
            (SCHEMA_HEADER, schema.hash.encode()),
            (FRAMING_HEADER, b"delimited"),
        )
        self._schema = schema
        self._keys = KeyRows(schema, key) if key else None
        self._packs = Packs(PACK_SIZE)

    def set_limit(self, size: int) -> None:
        """Limit packs to a size in bytes."""
        self._packs.size = min(PACK_SIZE, size)

    def add(self, batch: pyarrow.RecordBatch, written: Written) -> Iterator[Record]:
        """Yield the packs that the flows of a batch complete."""
        messages = encode_columns(batch, self._schema)
        groups = _group(messages, self._keys.read(batch)) if self._keys else {None: messages}
        for key, group in groups.items():
            yield from map(_to_record, self._packs.add(group, key, written))

    def take(self) -> Iterator[Record]:
        """Yield the packs that are incomplete."""
        yield from map(_to_record, self._packs.take())


def _group(messages: bytes, keys: Sequence[bytes | None]) -> dict[bytes | None, bytes]:
    """Return the messages of each key, in their order."""
    groups: dict[bytes | None, list[bytes]] = {}
    for key, message in zip(keys, split_messages(messages), strict=True):
        groups.setdefault(key, []).append(message)
    return {key: b"".join(group) for key, group in groups.items()}


def _to_record(pack: Pack) -> Record:
    return Record(pack.value, pack.key, pack.shares)
