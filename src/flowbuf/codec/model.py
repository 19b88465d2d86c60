"""Model of a message type, independent of its definition by a schema or a descriptor."""

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
    """A field of a message type.

    Attributes:
        type: Protocol Buffers type as in a .proto file, or "message", "group" or "enum".
        message: Type of a message or group, or of the entries of a map, which have the fields `key` and
            `value`.
        members: Members of an enum, name -> number.
        closed: True for an enum that allows only the numbers of its members.
        default: Default of a proto2 descriptor.
        bits: 8 or 16 for an integer narrower than its type of 32 bits.
        sizes: Sizes that bytes may have, smallest first, as for addresses.
        json_name: Name in JSON. "": the name in lowerCamelCase.
        enum: Full name of the enum, or "" if the definition has none.
    """

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
    sizes: tuple[int, ...] = ()
    json_name: str = ""
    enum: str = ""

    @property
    def is_extension(self) -> bool:
        """True for an extension. Its name is its full name in brackets."""
        return self.name.startswith("[")

    @property
    def role(self) -> str:
        """Kind of the Python values: "scalar", "object", "map", "timestamp" or "duration"."""
        if self.map:
            return "map"
        if self.message is None:
            return "scalar"
        return {TIMESTAMP: "timestamp", DURATION: "duration"}.get(self.message.name, "object")

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest integer, or size of bytes; (0, 0) without limits."""
        if self.sizes:
            return self.sizes[0], self.sizes[-1]
        bits = _BITS.get(self.type, 0)
        if self.type in ("uint32", "uint64", "fixed32", "fixed64"):
            return 0, (1 << (self.bits or bits)) - 1
        if not bits:
            return 0, 0
        bits = self.bits - 1 if self.bits else bits
        return -(1 << bits), (1 << bits) - 1

    @property
    def absent(self) -> Any:
        """Value of a single field that the message does not have: its default.

        None for fields with presence or in a oneof.
        """
        if self.oneof is not None:
            return None
        if self.default is not None:
            return self.default
        if self.presence or self.message is not None:
            return None
        return _ZEROS.get(self.type, 0)


@dataclass(eq=False)
class Message:
    """A message type: its full name, and its fields in order of declaration."""

    name: str
    fields: list[Field] = field(default_factory=list)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def reachable(self) -> list[Message]:
        """Return this type and all types that its fields refer to, directly or indirectly."""
        found = [self]
        for message in found:  # the list grows during the loop
            for each in message:
                if each.message is not None and each.message not in found:
                    found.append(each.message)
        return found

    @functools.cached_property
    def is_endless(self) -> bool:
        """True if the type requires itself, directly or through others, so that no finite object exists."""
        endless = set(self.reachable())
        while True:
            ending = {
                each for each in endless if not any(of.required and of.message in endless for of in each)
            }
            if not ending:
                return self in endless
            endless -= ending


def too_deep(message: Message) -> SchemaError:
    """Return the error for a message type with too many nested types."""
    return SchemaError(f"message {message.name} has message types that are nested too deeply", "flatten them")
