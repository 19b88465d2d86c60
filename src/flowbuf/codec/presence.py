"""Queries for the presence of fields, and for the member of a oneof."""

from __future__ import annotations

import re
from typing import Any

from flowbuf.codec.model import Field, Message
from flowbuf.codec.plain import PLAIN, plain_kind
from flowbuf.errors import did_you_mean

__all__ = ["find_member", "has_field"]

_NAME = re.compile(r"\[[^\]]*\]|[^.]+")
"""A name in a path. That of an extension is in brackets, and has dots."""
_PATH = re.compile(rf"({_NAME.pattern})(\.({_NAME.pattern}))*")


def has_field(message: Message, value: Any, path: str) -> bool:
    """Return True if a decoded object has a field: see `Codec.has`. Its dicts lack absent fields."""
    owner, inside, name = _follow(message, value, path)
    field = _find(owner, name, path)
    if not field.presence:
        raise ValueError(f"{path} has no presence: a message does not show if it was set; compare its value")
    return inside is not None and name in inside


def find_member(message: Message, value: Any, path: str) -> str | None:
    """Return the member of a oneof that a decoded object has: see `Codec.which_oneof`."""
    owner, inside, name = _follow(message, value, path)
    members = [field.name for field in owner if field.oneof == name]
    if not members:
        known = dict.fromkeys(field.oneof for field in owner if field.oneof)
        fix = did_you_mean(name, known) or f"oneofs of {owner.name} are {', '.join(known) or 'none'}"
        raise ValueError(f"{path}: {owner.name} has no oneof {name}; {fix}")
    return next((each for each in members if inside is not None and each in inside), None)


def _follow(message: Message, value: Any, path: str) -> tuple[Message, Any, str]:
    """Follow all but the last name of a path. Returns the last message type and its dict, or None."""
    *names, last = _NAME.findall(path) if _PATH.fullmatch(path) else [path]
    _check_fields(message, path)
    for name in names:
        field = _find(message, name, path)
        if field.role != "object" or field.repeated:
            raise ValueError(f"{path}: {name} is not a single message")
        assert field.message is not None
        _check_fields(field.message, path)
        message, value = field.message, None if value is None else value.get(name)
    return message, value, last


def _check_fields(message: Message, path: str) -> None:
    if plain_kind(message) in PLAIN:
        raise ValueError(f"{path}: objects have no fields of {message.name}, which is a plain value")


def _find(message: Message, name: str, path: str) -> Field:
    found = next((field for field in message if field.name == name), None)
    if found is None:
        if any(field.oneof == name for field in message):
            raise ValueError(f"{path}: {name} is a oneof; which_oneof returns its member")
        fix = did_you_mean(name, [field.name for field in message])
        raise ValueError(f"{path}: {message.name} has no field {name}{f'; {fix}' if fix else ''}")
    return found
