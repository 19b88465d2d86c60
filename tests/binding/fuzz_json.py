"""Fuzz the conversion of messages to JSON and back, for random types with every JSON form."""

from __future__ import annotations

import contextlib
import functools
import random

import flowbuf
from tests.binding.fuzz_common import Family, Parts, check
from tests.support.codec.random_types import RandomTypes

TYPES = 40


@functools.cache
def types() -> list[tuple[RandomTypes, flowbuf.Codec]]:
    every = [RandomTypes(seed, well_known=True) for seed in range(TYPES)]
    return [(each, flowbuf.Codec(each.message_class.DESCRIPTOR)) for each in every]


def seed_json() -> list[Parts]:
    """Return messages and texts. The first part is the number of the type."""
    seeds = []
    for number, (kind, codec) in enumerate(types()):
        for _ in range(4):
            message = kind.message().SerializePartialToString()
            seeds += [[bytes([number]), message], [bytes([number]), codec.to_json(message).encode()]]
    return seeds


def run_json(parts: Parts, rng: random.Random) -> None:
    number = parts[0][0] if parts and parts[0] else 0
    _, codec = types()[number % TYPES]
    data = b"".join(parts[1:])
    given = rng.choice((bytes, bytearray, memoryview))(data)
    with contextlib.suppress(flowbuf.DecodeError):
        check_text(codec, to_json(codec, given, len(data), rng))
    try:
        message = codec.from_json(given, unknown=rng.choice(("error", "ignore")))
    except flowbuf.DecodeError as error:
        check(error.offset is not None and 0 <= error.offset <= len(data), "the offset of an error")
    else:
        text = codec.to_json(message)
        check(codec.from_json(text) == message, "a message read, written and read")
    with contextlib.suppress(flowbuf.DecodeError):
        lines = codec.to_json_lines(given)
        check(codec.to_json_lines(codec.from_json_lines(lines)) == lines, "lines written, read and written")


def to_json(codec: flowbuf.Codec, given: object, size: int, rng: random.Random) -> str:
    try:
        text = codec.to_json(given)
    except flowbuf.DecodeError as error:
        check(error.offset is not None and 0 <= error.offset <= size, "the offset of an error")
        raise
    codec.to_json(given, names="original", defaults=True, enums=rng.choice(("name", "number")))
    return text


def check_text(codec: flowbuf.Codec, text: str) -> None:
    """Check that a text that was written is read. Only a required field may be missing."""
    try:
        message = codec.from_json(text)
    except flowbuf.DecodeError as error:
        check("a required field is missing" in str(error), "a text that cannot be read", text, str(error))
        return
    check(codec.to_json(message) == text, "a text written, read and written")


FAMILY = Family(seed_json, run_json)
