"""Objects of any message type as Protocol Buffers messages, for comparison with flowbuf's codec.

It follows the documentation of Protocol Buffers (encoding, field presence, enum behaviour, Timestamp and
Duration). The only part of flowbuf that it uses is the description of message types (flowbuf.codec.model). If
the documentation leaves a choice, it does the same as google.protobuf:

- Fields are in the order of their numbers. Entries of a map have the order of its deterministic output.
- Tags and lengths have at most 5 bytes. Varints have at most 10, and bits above the 64th are dropped.
- Messages, groups and entries of maps are nested at most 100 times, unknown groups included.
- A number that a closed enum lacks is an unknown field. In an entry of a map, the whole entry is.

Unknown fields are skipped. In contrast to google.protobuf, it refuses an object with an unknown key, with two
values of one oneof, or without a required field. In proto2, it also refuses strings that are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flowbuf.codec.model import Message

from .codec_read import Reader, read_varint
from .codec_rules import CodecError
from .codec_write import delimited, write_record
from .octets import Octets, Short

__all__ = ["CodecError", "Reference"]


class Reference:
    """The reference codec of a message type. Objects are dicts.

    `times` is the decoded form of Timestamp and Duration: "datetime" (with timedelta) or "ns". All forms are
    accepted when encoding. CodecError is raised for an object that cannot be encoded and for bytes that
    cannot be decoded.
    """

    def __init__(self, message: Message, times: str = "datetime") -> None:
        self.message = message
        self.reader = Reader(times)

    def encode(self, record: Mapping[str, Any]) -> bytes:
        return write_record(self.message, record, 0)

    def decode(self, data: bytes) -> dict[str, Any]:
        try:
            return self.reader.read(self.message, data)
        except Short as error:
            raise CodecError(str(error)) from None

    def encode_many(self, records: Iterable[Mapping[str, Any]]) -> bytes:
        """Encode a stream: each message after its length."""
        return b"".join(delimited(self.encode(record)) for record in records)

    def decode_many(self, data: bytes) -> list[dict[str, Any]]:
        stream, records = Octets(data), []
        try:
            while stream.left:
                records.append(self.decode(stream.take(read_varint(stream))))
        except Short as error:
            raise CodecError(str(error)) from None
        return records
