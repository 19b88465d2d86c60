"""The tables that the core needs to convert messages to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from google.protobuf.descriptor import Descriptor

from flowbuf._core import JSON_FORMS, JsonConverter
from flowbuf.codec import descriptors
from flowbuf.codec.model import Field, Message
from flowbuf.codec.plain import WRAPPERS
from flowbuf.codec.tables import describe
from flowbuf.errors import DecodeError, SchemaError, did_you_mean, shorten

__all__ = ["make_converter"]

_PACKAGE = "google.protobuf."
_NULL = f"{_PACKAGE}NullValue"
_FORMS = {f"{_PACKAGE}{name}": code for name, code in JSON_FORMS.items() if name[0].isupper()}
_FORMS |= dict.fromkeys(WRAPPERS, JSON_FORMS["wrapper"])


def make_converter(descriptor: Descriptor, message: Message) -> JsonConverter:
    """Return the converter of a message type.

    Args:
        descriptor: Descriptor of the type. If messages may contain an Any, all types that its file imports
            are known too.
        message: The same type. It may come from a schema, and then limit its values more than the
            descriptor does.

    Raises:
        SchemaError: a type of google.protobuf has other fields than expected.
    """
    messages = descriptors.inner_messages(descriptor)
    _restrict(messages[0], message, set())
    places = {each: place for place, each in enumerate(messages)}
    enums: dict[str, int] = {}
    members: list[tuple[dict[str, int], bool]] = []
    types: list[tuple[str, int, list[dict[str, Any]]]] = []
    for each in messages:
        fields = describe(each, places)
        for field, described in zip(each, fields, strict=True):
            if field.type == "enum" and field.enum not in enums:
                enums[field.enum] = len(members)
                members.append((dict(field.members), field.enum == _NULL))
            described |= _describe(field)
            described["type"] = places[field.message] if field.message is not None else None
            described["enum"] = enums[field.enum] if field.type == "enum" else None
        types.append((each.name, _FORMS.get(each.name, JSON_FORMS["object"]), fields))
    try:
        return JsonConverter(members, types, _fail, _inside)
    except ValueError as error:
        raise SchemaError(str(error), "load google.protobuf's own definition") from None


def _describe(field: Field) -> dict[str, Any]:
    return {
        "required": field.required and field.presence,  # JSON leaves out zeros without presence
        "json_name": field.json_name,
        "key": f"{json.dumps(field.name, ensure_ascii=False)}:",
        "json_key": f"{json.dumps(field.json_name, ensure_ascii=False)}:",
        "map": field.map,
    }


def _restrict(message: Message, other: Message, seen: set[Message]) -> None:
    """Take the limits of a type's fields from another description of the same type."""
    if message in seen:
        return
    seen.add(message)
    known = {field.number: field for field in other}
    for place, field in enumerate(message.fields):
        limits = known.get(field.number)
        if limits is None:
            continue
        message.fields[place] = replace(field, bits=limits.bits, sizes=limits.sizes, required=limits.required)
        if field.message is not None and limits.message is not None:
            _restrict(field.message, limits.message, seen)


def _fail(problem: str, path: str, offset: int, names: Iterable[str] | None) -> DecodeError:
    where = f"{shorten(path)}: byte {offset}" if path else f"byte {offset}"
    if names is not None:
        fix = did_you_mean(problem.partition(": ")[2].strip('"'), names)
        problem = f"{problem}; {fix}" if fix else problem
    return DecodeError(f"{where}: {problem}", status="bad_message", offset=offset, path=path)


def _inside(error: DecodeError, place: str) -> DecodeError:
    """Return the error of a message with the place of the message among others: [3], or line 4."""
    if not place.startswith("["):
        return DecodeError(f"{place}: {error}", status="bad_message", offset=error.offset, path=error.path)
    text = str(error)
    dot = "." if error.path else ": "
    path = f"{place}.{error.path}" if error.path else place
    return DecodeError(f"{place}{dot}{text}", status="bad_message", offset=error.offset, path=path)
