"""What a codec knows of a message type, wherever that was described."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flowbuf.errors import SchemaError

__all__ = ["DURATION", "TIMESTAMP", "Field", "Message", "too_deep"]

TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"

_BITS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32", "enum"), 31),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), 63),
    **dict.fromkeys(("uint32", "fixed32"), 32),
    **dict.fromkeys(("uint64", "fixed64"), 64),
}
_ZEROS: dict[str, Any] = {"bool": False, "float": 0.0, "double": 0.0, "string": "", "bytes": b""}


@dataclass(frozen=True)
class Field:
    """A field. `type` is its Protocol Buffers type, as a .proto writes it, or "message", "group" and "enum". `message`
    is that of a message or group, and of a map that of its entries: `key` and `value`. `members` are an enum's, of
    which a `closed` one knows no other numbers. `default` is what a descriptor (proto2) says. `bits` narrows integers:
    8 or 16 of a type with 32. `octets` are the sizes that bytes may have, the least first: those of addresses."""

    name: str
    number: int
    type: str
    repeated: bool = False
    packed: bool = False
    presence: bool = False
    required: bool = False
    oneof: str | None = None
    map: bool = False
    message: Message | None = None
    members: Mapping[str, int] = field(default_factory=dict, hash=False)
    closed: bool = False
    default: Any = None
    bits: int | None = None
    octets: tuple[int, ...] = ()

    @property
    def role(self) -> str:
        """What its values are to Python: "scalar", "record", "map", "timestamp" or "duration"."""
        if self.map:
            return "map"
        if self.message is None:
            return "scalar"
        return {TIMESTAMP: "timestamp", DURATION: "duration"}.get(self.message.name, "record")

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer, or size of bytes; (0, 0): none are said."""
        if self.octets:
            return self.octets[0], self.octets[-1]
        bits = _BITS.get(self.type, 0)
        if self.type in ("uint32", "uint64", "fixed32", "fixed64"):
            return 0, (1 << (self.bits or bits)) - 1
        if not bits:
            return 0, 0
        bits = self.bits - 1 if self.bits else bits
        return -(1 << bits), (1 << bits) - 1

    @property
    def absent(self) -> Any:
        """What a single field is where a message does not have it: its default; None where it has presence, or is of a
        oneof."""
        if self.oneof is not None:
            return None
        if self.default is not None:
            return self.default
        if self.presence or self.message is not None:
            return None
        return _ZEROS.get(self.type, 0)


@dataclass(eq=False)
class Message:
    """A message type: its full name, and its fields as they were declared."""

    name: str
    fields: list[Field] = field(default_factory=list)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def reachable(self) -> list[Message]:
        """This type, and all that its fields lead to."""
        found = [self]
        for message in found:  # which grows
            for each in message:
                if each.message is not None and each.message not in found:
                    found.append(each.message)
        return found

    @functools.cached_property
    def is_endless(self) -> bool:
        """Whether it requires itself, directly or through others, so that no record of it comes to an end."""
        endless = set(self.reachable())
        while True:
            ending = {each for each in endless if not any(of.required and of.message in endless for of in each)}
            if not ending:
                return self in endless
            endless -= ending


def too_deep(message: Message) -> SchemaError:
    """Return the error for a message type whose fields lead to too many types inside each other."""
    return SchemaError(f"message {message.name} has too many message types inside each other", "flatten them")
