"""Random messages of random types: the codec and google.protobuf agree, in Protocol Buffers and in JSON."""

from __future__ import annotations

import json
import random
import re
import struct
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError as ProtobufError

from flowbuf import Codec
from flowbuf.errors import DecodeError
from tests.support.codec.random_types import RandomTypes

SEEDS = 300
MANY_SEEDS = 17_000
MESSAGES = 6  # of each type


def same(one: Any, other: Any) -> bool:
    """Compare values of JSON. Two floats of 32 bits with the same bits may be written differently."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if type(one) is float and type(other) is float and one != other:
        return abs(one) < 3.5e38 > abs(other) and struct.pack("<f", one) == struct.pack("<f", other)
    return type(one) is type(other) and one == other


def to_json_by_protobuf(types: RandomTypes, message: Any, **options: bool) -> str:
    return json_format.MessageToJson(message, indent=None, descriptor_pool=types.pool, **options)


def check(types: RandomTypes, codec: Codec) -> None:
    message, other = types.message(), types.message()
    encoded = message.SerializePartialToString(deterministic=True)
    # binary, from and to objects
    assert codec.encode(codec.decode(encoded)) == encoded
    # JSON: each reads what the other writes
    text, theirs = codec.to_json(encoded), to_json_by_protobuf(types, message)
    assert same(json.loads(text), json.loads(theirs))
    assert codec.from_json(theirs) == codec.from_json(text) == encoded
    options = {"preserving_proto_field_name": True, "use_integers_for_enums": True}
    theirs = to_json_by_protobuf(types, message, always_print_fields_with_no_presence=True, **options)
    assert same(
        json.loads(codec.to_json(encoded, names="original", defaults=True, enums="number")),
        json.loads(theirs),
    )
    # fields of two messages in one, so that they are merged
    joined = encoded + other.SerializePartialToString()
    try:
        merged = types.message_class.FromString(joined)
        theirs = to_json_by_protobuf(types, merged)
    except (ValueError, json_format.Error, ProtobufError):  # such as a duration of parts with unequal signs
        with pytest.raises(DecodeError):
            codec.to_json(joined)
        return
    assert same(json.loads(codec.to_json(joined)), json.loads(theirs))


def run(seeds: range) -> int:
    count = 0
    for seed in seeds:
        types = RandomTypes(seed, well_known=True)
        codec = Codec(types.message_class.DESCRIPTOR, defaults="omit", times="ns", unknown_fields="keep")
        for _ in range(MESSAGES):
            check(types, codec)
            count += 1
    return count


def test_messages_and_json_are_those_of_google_protobuf() -> None:
    assert run(range(SEEDS)) == SEEDS * MESSAGES


@pytest.mark.expensive
def test_100_000_messages_and_their_json_are_those_of_google_protobuf() -> None:
    assert run(range(SEEDS, SEEDS + MANY_SEEDS)) > 100_000


TOKENS = [
    *("null", "true", "false", "0", "-1", "1.5", "1e3", '"x"', '""', "{}", "[]", '"NaN"', '"1"', "-0", "01"),
    *("99999999999999999999", '"\\ud800"', '"2020-01-01T00:00:00Z"', '"1.5s"', "1e400", '"AA=="', "[null]"),
    *('{"@type":"type.googleapis.com/random.M0"}', '"é"', ",", ":", "}", "]", "{", "[", '"a":', '"b,cD"'),
]


def damage(text: str, rng: random.Random) -> str:
    """Change one to three tokens of a JSON text."""
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^{}\[\],:"]+', text)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        place = rng.randrange(len(tokens))
        how = rng.randrange(4)
        if how == 0:
            tokens[place] = ""
        elif how == 1:
            tokens[place] = rng.choice(TOKENS)
        elif how == 2:
            tokens[place] += rng.choice(TOKENS)
        elif tokens[place]:
            at = rng.randrange(len(tokens[place]))
            tokens[place] = tokens[place][:at] + rng.choice('"09\\-.A\x7fé\n ') + tokens[place][at + 1 :]
    return "".join(tokens)


def test_damaged_json_is_refused_if_google_protobuf_refuses_it() -> None:
    """google.protobuf for Python takes more: other characters in base64, `true` for 1, [] for {}.

    What both take has the same meaning.
    """
    taken = refused = 0
    for seed in range(400):
        types, rng = RandomTypes(seed, well_known=True), random.Random(seed)
        codec = Codec(types.message_class.DESCRIPTOR)
        text = to_json_by_protobuf(types, types.message())
        for _ in range(10):
            damaged = damage(text, rng)
            try:
                ours = types.message_class.FromString(codec.from_json(damaged))
            except DecodeError:
                refused += 1
                continue
            theirs = json_format.Parse(damaged, types.message_class(), descriptor_pool=types.pool)
            # as JSON, in which NaN is equal to itself, and entries of maps have no order
            assert json.loads(to_json_by_protobuf(types, ours)) == json.loads(
                to_json_by_protobuf(types, theirs)
            )
            taken += 1
    assert taken > 100 < refused
