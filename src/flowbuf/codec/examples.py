"""Example objects of a message type: reproducible ones, and strategies of Hypothesis."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flowbuf.codec.model import Field, Message
from flowbuf.codec.plain import PLAIN, plain_kind
from flowbuf.errors import SchemaError, optional_import

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["examples", "strategy"]

_WORDS = (
    "alpha",
    "bravo",
    "delta",
    "echo",
    "golf",
    "hotel",
    "india",
    "juliett",
    "kilo",
    "lima",
    "mike",
    "november",
)
_TIME = 1_700_000_000_000_000_000  # nanoseconds: November 2023
_BILLION = 1_000_000_000
_DEPTH = 2  # largest nesting depth of optional messages
_TIMESTAMPS = (-62_135_596_800 * _BILLION, 253_402_300_800 * _BILLION - 1)
_DURATIONS = (-315_576_000_000 * _BILLION, 315_576_000_000 * _BILLION)


def examples(message: Message, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Generate plausible objects without end: short words, small numbers, three items per list.

    All fields have a value, except that a oneof has one value. Times are in nanoseconds. A seed gives the
    same objects on every machine.

    Raises:
        SchemaError: the message requires itself, so that no finite object exists.
    """
    _check_ends(message)
    source = random.Random(seed)
    while True:
        yield _message(message, source, 0)


def _check_ends(message: Message) -> None:
    if message.is_endless:
        fix = "make one field of the cycle optional"
        raise SchemaError("requires itself, so it has no finite object", fix, origin=message.name)


def _is_left_out(field: Field, depth: int) -> bool:
    """Return True if the field is a message beyond the depth limit, or one that has no finite object."""
    return field.message is not None and (depth >= _DEPTH or field.message.is_endless)


def _message(message: Message, source: random.Random, depth: int) -> Any:
    plain = plain_kind(message)
    return _plain(message, plain, source) if plain in PLAIN else _object(message, source, depth)


def _object(message: Message, source: random.Random, depth: int) -> dict[str, Any]:
    oneofs = dict.fromkeys(field.oneof for field in message if field.oneof is not None)
    chosen = {
        oneof: source.choice([field.name for field in message if field.oneof == oneof]) for oneof in oneofs
    }
    made = {}
    for field in message:
        absent = field.oneof is not None and chosen[field.oneof] != field.name
        made[field.name] = None if absent else _value(field, source, depth)
    return made


def _value(field: Field, source: random.Random, depth: int) -> Any:
    if field.map:
        assert field.message is not None
        key, value = field.message.fields
        return {_one(key, source, depth): _one(value, source, depth) for _ in range(_count(value, depth))}
    if field.repeated:
        return [_one(field, source, depth) for _ in range(_count(field, depth))]
    return _one(field, source, depth)


def _count(field: Field, depth: int) -> int:
    return 0 if _is_left_out(field, depth) else 3


def _one(field: Field, source: random.Random, depth: int) -> Any:
    if field.role == "timestamp":
        return _TIME + source.randrange(10**9) * 1_000_000
    if field.role == "duration":
        return source.randrange(10**6) * 1_000_000
    if field.message is not None:
        return (
            _message(field.message, source, depth + 1)
            if field.required or not _is_left_out(field, depth)
            else None
        )
    if field.members:
        return source.choice(list(field.members.values()))
    if field.type == "string":
        return f"{source.choice(_WORDS)}-{source.randrange(1000):03}"
    if field.type == "bytes":
        return source.randbytes(field.sizes[-1] if field.sizes else 8)
    if field.type == "bool":
        return source.random() < 0.5
    if field.type in ("float", "double"):
        return source.randrange(100_000) / 64  # exact in 32 bits
    least, most = field.limits
    return source.randrange(max(least, -1000), min(most, 1_000_000) + 1)


def _plain(message: Message, kind: str, source: random.Random) -> Any:
    """Return a value for a message type that is a plain value: see `plain_kind`."""
    if kind == "any":
        return {}
    if kind == "field" and message.fields[0].message is None:
        return _one(message.fields[0], source, 0)
    some = [source.choice([None, True, source.randrange(1000) / 8, source.choice(_WORDS)]) for _ in range(3)]
    if kind == "value":
        return source.choice(some)
    return dict(zip(source.sample(_WORDS, 3), some, strict=True)) if message.fields[0].map else some


# Hypothesis -------------------------------------------------------------------------------------------------


def strategy(message: Message) -> SearchStrategy[Any]:
    """Return a strategy of objects with any values that a message can hold.

    Absent fields are None, and times are in nanoseconds. Each time fits into datetime or timedelta, except
    for fractions of a microsecond.

    Raises:
        SchemaError: the message requires itself, so that no finite object exists.
    """
    with optional_import("a strategy needs hypothesis", "hypothesis"):
        from hypothesis import strategies

    _check_ends(message)
    whole: SearchStrategy[Any] = _messages(message, strategies, 0)
    return whole


def _messages(message: Message, strategies: Any, depth: int) -> Any:
    plain = plain_kind(message)
    return _plains(message, plain, strategies) if plain in PLAIN else _objects(message, strategies, depth)


def _objects(message: Message, strategies: Any, depth: int) -> SearchStrategy[dict[str, Any]]:
    fields = {field.name: _values(field, strategies, depth) for field in message}
    objects: SearchStrategy[dict[str, Any]] = strategies.fixed_dictionaries(fields)
    return objects.map(lambda each: _only_one(message, each))


def _only_one(message: Message, made: dict[str, Any]) -> dict[str, Any]:
    """Keep the first value of each oneof, and set the others to None."""
    taken = set()
    for field in message:
        if field.oneof is not None and made[field.name] is not None:
            if field.oneof in taken:
                made[field.name] = None
            taken.add(field.oneof)
    return made


def _values(field: Field, strategies: Any, depth: int) -> Any:
    if field.map:
        assert field.message is not None
        key, value = field.message.fields
        if value.role == "object" and _is_left_out(value, depth):
            return strategies.just({})
        return strategies.dictionaries(
            _ones(key, strategies, depth), _ones(value, strategies, depth), max_size=4
        )
    if field.repeated:
        if field.role == "object" and _is_left_out(field, depth):
            return strategies.just([])
        return strategies.lists(_ones(field, strategies, depth), max_size=4)
    if field.required:
        return _ones(field, strategies, depth)
    if field.role == "object" and _is_left_out(field, depth):
        return strategies.none()
    return strategies.none() | _ones(field, strategies, depth)


def _ones(field: Field, strategies: Any, depth: int) -> Any:
    if field.role == "timestamp":
        return strategies.integers(*_TIMESTAMPS)
    if field.role == "duration":
        return strategies.integers(*_DURATIONS)
    if field.message is not None:
        return _messages(field.message, strategies, depth + 1)
    if field.sizes:
        return strategies.sampled_from(field.sizes).flatmap(
            lambda size: strategies.binary(min_size=size, max_size=size)
        )
    simple: dict[str, Callable[[], Any]] = {
        "string": strategies.text,
        "bytes": strategies.binary,
        "bool": strategies.booleans,
        "double": strategies.floats,
        "float": lambda: strategies.floats(width=32),
    }
    if field.type in simple:
        return simple[field.type]()
    if field.type == "enum" and field.closed:
        return strategies.sampled_from(sorted(set(field.members.values())))
    return strategies.integers(*field.limits)


def _plains(message: Message, kind: str, strategies: Any) -> Any:
    """Return a strategy for a message type that is a plain value: see `plain_kind`."""
    if kind == "any":
        types = strategies.text().map(lambda name: f"type.example.com/{name}")
        return strategies.fixed_dictionaries({"@type": types, "value": strategies.binary()})
    if kind == "field" and message.fields[0].message is None:
        return _ones(message.fields[0], strategies, 0)
    texts = strategies.text()
    simple = strategies.none() | strategies.booleans() | strategies.floats() | texts
    values = strategies.recursive(
        simple,
        lambda inner: (
            strategies.lists(inner, max_size=3)
            | strategies.dictionaries(strategies.text(), inner, max_size=3)
        ),
        max_leaves=6,
    )
    if kind == "value":
        return values
    if message.fields[0].map:
        return strategies.dictionaries(texts, values, max_size=4)
    return strategies.lists(values, max_size=4)
