"""Messages that wait until they fill a Kafka record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowbuf._core import count_messages, cut_messages

__all__ = ["PACK_SIZE", "Pack", "Packs"]

PACK_SIZE = 65536
"""Default size of a Kafka record in bytes."""

WAITING_BYTES = 1 << 26
"""Maximum bytes in incomplete packs, of all keys."""

WAITING_KEYS = 100_000
"""Maximum number of incomplete packs."""


class Pack:
    """Messages of one key, for one Kafka record.

    Attributes:
        key: Key of the Kafka record. None if it has no key.
        size: Size of the messages in bytes.
        count: Number of messages.
        shares: Number of messages by their origin, in order. Empty if no origin was given.
    """

    def __init__(self, key: bytes | None) -> None:
        self.key = key
        self.size = 0
        self.count = 0
        self.shares: list[tuple[Any, int]] = []
        self._pieces: list[bytes] = []

    @property
    def value(self) -> bytes:
        """The messages, each after its length."""
        return b"".join(self._pieces)

    def add(self, messages: bytes, count: int, origin: Any) -> None:
        """Append messages."""
        self._pieces.append(messages)
        self.size += len(messages)
        self.count += count
        if origin is not None:
            self.shares.append((origin, count))


class Packs:
    """Collect length-delimited messages by key, until a pack has the size of a Kafka record.

    Attributes:
        size: Maximum size of a pack in bytes. A larger message has a pack of its own.
        bytes: Size of the messages that wait.
    """

    def __init__(self, size: int) -> None:
        self.bytes = 0
        self.size = size
        self._waiting: dict[bytes | None, Pack] = {}

    def __len__(self) -> int:
        """Return the number of packs that wait."""
        return len(self._waiting)

    def add(
        self, messages: bytes | memoryview, key: bytes | None = None, origin: Any = None
    ) -> Iterator[Pack]:
        """Add messages, and yield packs that are complete. Exhaust the iterator.

        Args:
            messages: Messages, each after its length as a varint.
            key: Key of their Kafka records.
            origin: Object to be found in `Pack.shares`.

        Raises:
            DecodeError: The messages are malformed.
        """
        pack = self._waiting.get(key)
        if pack is None:
            pack = self._waiting[key] = Pack(key)
        if pack.size + len(messages) <= self.size:
            pieces = [(bytes(messages), count_messages(messages))]
        else:
            pieces = cut_messages(messages, self.size, max(self.size - pack.size, 0))
        for value, count in pieces:
            if pack.size and (pack.size + len(value) > self.size or not value):
                yield self._take(pack)
                pack = self._waiting[key] = Pack(key)
            if value:
                pack.add(value, count, origin)
                self.bytes += len(value)
        if self.bytes > WAITING_BYTES or len(self._waiting) > WAITING_KEYS:
            yield from self.take()

    def _take(self, pack: Pack) -> Pack:
        del self._waiting[pack.key]
        self.bytes -= pack.size
        return pack

    def take(self) -> Iterator[Pack]:
        """Yield all packs that wait."""
        for pack in list(self._waiting.values()):
            if self._take(pack).size:
                yield pack
