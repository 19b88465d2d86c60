"""Random messages of random types: the codec and google.protobuf agree, in Protocol Buffers and in JSON."""

from __future__ import annotations

import itertools
import json
import random
import re
import struct
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError as ProtobufError

from flowbuf import Codec, _core
from flowbuf.codec.columns import encode_nested, find_paths, make_type
from flowbuf.errors import DecodeError, EncodeError
from tests.support.codec import expected_columns
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


# Columns ----------------------------------------------------------------------------------------------------


def normalize(value: Any) -> Any:
    """Make maps dicts, and floats texts, so that NaN is equal to itself and -0.0 differs from 0.0."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {key: normalize(each) for key, each in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) for each in value):
            keys = [key.encode() if isinstance(key, str) else key for key, _ in value]
            assert keys == sorted(set(keys))
            return {key: normalize(each) for key, each in value}
        return [normalize(each) for each in value] or {}  # an empty map is an empty list
    return value


def check_columns(types: RandomTypes) -> int:
    """Compare columns of messages, and of messages in several parts, and the messages made from them."""
    descriptor = types.message_class.DESCRIPTOR
    chosen = expected_columns.choose(descriptor)
    if not chosen:
        return 0
    codec = Codec(descriptor)
    paths = find_paths(codec.message, expected_columns.list_paths(chosen))
    messages = [types.message().SerializePartialToString() for _ in range(MESSAGES)]
    messages += [one + other for one, other in itertools.pairwise(messages)]
    parsed = [types.message_class() for _ in messages]
    for message, encoded in zip(parsed, messages, strict=True):
        message.MergeFromString(encoded)
    kept = [expected_columns.keep(message, chosen) for message in parsed]
    tables: list[_core.NestedTable] = []
    kind = make_type(codec.message, paths)
    reader = _core.NestedTables(kind, 4)
    assert reader.read(_core.join_messages(messages), tables) > 0
    table = pa.table(pa.concat_tables([pa.table(each) for each in (*tables, *reader.finish_each())]))
    table.validate(full=True)
    for row, message in zip(table.to_pylist(), parsed, strict=True):
        assert normalize(row) == normalize(expected_columns.row_of(message, chosen))
    if not all(message.IsInitialized() for message in kept):
        with pytest.raises(EncodeError, match="null, where a value is required"):
            encode_nested(table, kind)
        return len(messages)
    stream = encode_nested(table, kind)
    for encoded, message in zip(_core.split_messages(stream, b""), kept, strict=True):
        again = types.message_class()
        again.MergeFromString(encoded)
        expected = message.SerializePartialToString(deterministic=True)
        assert again.SerializePartialToString(deterministic=True) == expected
    return len(messages)


def run_columns(seeds: range) -> int:
    return sum(check_columns(RandomTypes(seed, well_known=True)) for seed in seeds)


def test_columns_are_those_of_google_protobuf() -> None:
    assert run_columns(range(SEEDS)) > SEEDS * MESSAGES


@pytest.mark.expensive
def test_100_000_rows_of_columns_are_those_of_google_protobuf() -> None:
    assert run_columns(range(SEEDS, SEEDS + 12_000)) > 100_000


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
