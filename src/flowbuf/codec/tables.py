"""Message types as tables for the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flowbuf._core import FIELD_KINDS, VALUE_ROLES
from flowbuf.codec.model import Field, Message

__all__ = ["Forms", "describe"]


class Forms(NamedTuple):
    """Decoded forms: enums by name, and None instead of the defaults of fields with presence."""

    named: bool
    omitting: bool

    def absent(self, field: Field) -> Any:
        """Return the value of an absent field: for an enum, the number."""
        return None if self.omitting and field.presence else field.absent

    def members(self, field: Field) -> dict[int, Any] | None:
        """Return the names of an enum by their numbers, or None if it is decoded to numbers."""
        if not self.named or not field.members:
            return None
        return {number: name for name, number in reversed(list(field.members.items()))}


def describe(message: Message, places: Mapping[Message, int]) -> list[dict[str, Any]]:
    oneofs = list(dict.fromkeys(field.oneof for field in message if field.oneof))
    return [_describe_field(field, places, oneofs) for field in message]


def _describe_field(field: Field, places: Mapping[Message, int], oneofs: list[str]) -> dict[str, Any]:
    least, most = field.limits
    nested = field.message if field.role in ("object", "map") else None
    return {
        "name": field.name,
        "extension": field.is_extension,
        "number": field.number,
        "kind": FIELD_KINDS[field.type],
        "role": VALUE_ROLES[field.role],
        "repeated": field.repeated,
        "packed": field.packed,
        "presence": field.presence,
        "required": field.required,
        "oneof": oneofs.index(field.oneof) + 1 if field.oneof else 0,
        "least": least,
        "most": most,
        "members": sorted(set(field.members.values())) if field.closed else None,
        "type": places[nested] if nested is not None else None,
        "numbers": dict(field.members) if field.type == "enum" else None,
    }
