"""Records of any message type as Protocol Buffers messages: what flowbuf's codec is compared with.

It is written from the documentation of Protocol Buffers (encoding, field presence, enum behaviour, Timestamp
and Duration); of flowbuf it knows only how message types are described (flowbuf.codec.model). Where the
documentation leaves a choice, it does what google.protobuf does:

    - fields come in the order of their numbers, and the entries of a map as its deterministic output has
      them;
    - tags and lengths have five octets at most; varints ten, of which bits above the 64th are lost;
    - messages, groups and entries of maps are inside each other 100 times at most, unknown groups among them;
    - a number that a closed enum does not have is an unknown field; in an entry of a map, the whole entry is.

Unknown fields are skipped. What google.protobuf lets pass and this does not: a record with an unknown key,
with two values of one oneof, or without a required one; and, in proto2, strings that are not UTF-8.
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
    """`times`: what Timestamp and Duration are read as, "datetime" (and timedelta) or "ns"; all are taken
    when writing.

    A record is a dict. Raises CodecError of one that cannot be written, and of octets that cannot be read.
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
        """A stream: each message after its length."""
        return b"".join(delimited(self.encode(record)) for record in records)

    def decode_many(self, data: bytes) -> list[dict[str, Any]]:
        stream, records = Octets(data), []
        try:
            while stream.left:
                records.append(self.decode(stream.take(read_varint(stream))))
        except Short as error:
            raise CodecError(str(error)) from None
        return records
