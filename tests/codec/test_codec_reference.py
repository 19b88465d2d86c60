"""The codec behaves like its reference implementation in pure Python (tests/reference/codec.py).

Both write the same bytes, read the same values, and refuse the same objects and messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowbuf import Codec
from flowbuf.errors import DecodeError, EncodeError
from tests.reference.codec import CodecError, Reference
from tests.strategies.basics import register_profiles
from tests.support.cases import slow
from tests.support.codec.messages import (
    bytes_field,
    group_field,
    make_codec,
    message_class,
    number_field,
    tag,
    varint,
)
from tests.support.codec.messages import records as make_records

SCHEMAS = ("telemetry", "record", "client_message", "flow")
NAMES = (*SCHEMAS, "Everything", "Old", "Maps", "Tree")

each_type = pytest.mark.parametrize("name", NAMES)
each_kind_of_time = pytest.mark.parametrize("times", ["datetime", *slow("ns")])
register_profiles()
few = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(few, max_examples=min(30, settings.default.max_examples))

REFUSED = object()


@cache
def open_both(name: str, times: str = "ns") -> tuple[Codec, Reference]:
    codec = Codec.load(name, times=times) if name in SCHEMAS else make_codec(name, times=times)
    return codec, Reference(codec.message, times)


@cache
def records(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for objects.

    Those of large types have few nested messages, because full ones take a second each.
    """
    codec = open_both(name)[0]
    if name in ("Everything", "Old"):
        return make_records(codec.message).map(lambda record: codec.decode(codec.encode(record)))
    return codec.strategy()


@cache
def messages(name: str) -> st.SearchStrategy[bytes]:
    """Return a strategy for realistic messages. In random messages, most damage would be in strings."""
    codec = open_both(name)[0]
    return st.sampled_from([codec.encode(record) for record in codec.examples(30)])


def outcome(call: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return call(argument)
    except (EncodeError, DecodeError, CodecError):
        return REFUSED


def decode_by_both(name: str, encoded: bytes, times: str = "ns") -> Any:
    """Return the object that both codecs read, or REFUSED.

    Objects are compared by repr(): 1 differs from True, 0.0 differs from -0.0, and NaN equals NaN.
    """
    codec, reference = open_both(name, times)
    read = outcome(codec.decode, encoded)
    assert repr(read) == repr(outcome(reference.decode, encoded)), encoded.hex()
    return read


# Objects ----------------------------------------------------------------------------------------------------


@each_type
@each_kind_of_time
@few
@given(data=st.data())
def test_objects_are_encoded_and_decoded_alike(name: str, times: str, data: st.DataObject) -> None:
    codec, reference = open_both(name, times)
    encoded = codec.encode(data.draw(records(name)))
    record = decode_by_both(name, encoded, times)
    assert codec.encode(record) == reference.encode(record)


@each_type
def test_examples_are_encoded_and_decoded_alike(name: str) -> None:
    codec, reference = open_both(name, "datetime")
    examples = codec.examples(20)
    stream = codec.encode_many(examples)
    assert stream == reference.encode_many(examples)
    assert reference.decode_many(stream) == codec.decode_many(stream) == examples


UNUSUAL = st.sampled_from(
    [
        *(
            None,
            True,
            False,
            -1,
            127,
            128,
            255,
            256,
            2**31 - 1,
            2**31,
            -(2**31) - 1,
            2**32,
            2**63,
            2**64 - 1,
            2**64,
        ),
        *(10**400, 0.0, -0.0, 1.5, 1e300, float("nan"), float("inf"), 1j, "", "LOW", "x", "\ud800"),
        *(b"", b"1234", bytes(16), bytearray(3)),
        *([], [1], ["x"], [None], {}, {"a": 1}, {1: "a"}, {True: {}}, {"a": None}, {"name": "x"}),
    ]
)


@each_type
@many
@given(data=st.data())
def test_both_codecs_agree_on_unusual_values(name: str, data: st.DataObject) -> None:
    codec, reference = open_both(name)
    lists = {field.name for field in codec.message if field.repeated}
    least = {field.name: 1 for field in codec.message if field.required}
    for _ in range(4):
        key = data.draw(st.sampled_from([field.name for field in codec.message] + ["nothing"]))
        value = data.draw(UNUSUAL)
        if key in lists and isinstance(value, bytes | bytearray):
            continue  # the codec accepts it as a list of numbers
        record = {**least, key: value}
        assert outcome(codec.encode, record) == outcome(reference.encode, record), record


# Bytes ------------------------------------------------------------------------------------------------------


def damage(encoded: bytes, data: st.DataObject) -> bytes:
    """Change, insert or remove one or two bytes, insert the whole message, or cut the end, once or twice."""
    damaged = bytearray(encoded)
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(damaged)))
        how = data.draw(st.integers(0, 4))
        other = data.draw(st.binary(min_size=1, max_size=2))
        damaged[place : place + (len(other), 0, len(other), 0, 1 << 20)[how]] = (
            other,
            other,
            b"",
            damaged,
            b"",
        )[how]
    return bytes(damaged)


@each_type
@many
@given(data=st.data())
def test_both_codecs_agree_on_damaged_messages(name: str, data: st.DataObject) -> None:
    encoded = data.draw(messages(name))
    for _ in range(8):
        decode_by_both(name, damage(encoded, data), data.draw(st.sampled_from(["ns", "datetime"])))


def make_random_fields(codec: Codec, source: st.DataObject) -> bytes:
    """Return fields with the numbers of a message type, most of them with invalid contents."""
    fields = b""
    for _ in range(source.draw(st.integers(1, 5))):
        number = source.draw(st.sampled_from([field.number for field in codec.message] + [1, 2, 3, 999]))
        wire, payload = source.draw(st.integers(0, 5)), source.draw(st.binary(min_size=8, max_size=20))
        value = varint(source.draw(st.integers(0, 2**64 - 1)), source.draw(st.sampled_from([0, 5, 10])))
        contents = (
            value,
            payload[:8],
            bytes_field(1, payload[8:])[1:],
            value and tag(1, 0) + value,
            b"",
            payload[:4],
        )
        fields += tag(number, wire) + contents[wire] + (tag(number, 4) if wire == 3 else b"")
    return fields


@each_type
@many
@given(data=st.data())
def test_both_codecs_agree_on_random_fields(name: str, data: st.DataObject) -> None:
    for _ in range(4):
        fields = make_random_fields(open_both(name)[0], data)
        decode_by_both(name, fields)
        decode_by_both(name, bytes_field(data.draw(st.sampled_from([3, 50, 60, 62, 40, 30, 31])), fields))


@each_type
@settings(many, max_examples=100)
@given(encoded=st.binary(max_size=24))
def test_both_codecs_agree_on_random_bytes(name: str, encoded: bytes) -> None:
    decode_by_both(name, encoded)


@settings(many, max_examples=100)
@given(encoded=st.binary(max_size=40))
def test_both_codecs_agree_on_random_streams(encoded: bytes) -> None:
    codec, reference = open_both("client_message")
    assert outcome(codec.decode_many, encoded) == outcome(reference.decode_many, encoded)


# Edge cases, also compared with google.protobuf -------------------------------------------------------------


def nested(depth: int, inner: bytes = b"") -> bytes:
    """Return a Tree with messages nested in its field `left`."""
    for _ in range(depth):
        inner = bytes_field(3, inner)
    return inner


def groups(depth: int, number: int = 999) -> bytes:
    inner = b""
    for _ in range(depth):
        inner = group_field(number, inner)
    return inner


AFTER = number_field(70, 3)  # a member of the same oneof as fields 72 and 73
EDGE_CASES = {
    "message of a oneof, then another member": (
        "Everything",
        bytes_field(72, bytes_field(1, b"a")) + AFTER,
    ),
    "malformed message of a oneof, then another member": (
        "Everything",
        bytes_field(72, b"\x0a\x05a") + AFTER,
    ),
    "message of a oneof with invalid UTF-8, then another member": (
        "Everything",
        bytes_field(72, bytes_field(1, b"\xff")) + AFTER,
    ),
    "message of a oneof with a malformed time, then another member": (
        "Everything",
        bytes_field(72, bytes_field(6, b"\x08")) + AFTER,
    ),
    "malformed time of a oneof, then another member": ("Everything", bytes_field(73, b"\x08") + AFTER),
    "message of a oneof before and after another member": (
        "Everything",
        bytes_field(72, number_field(2, 1)) + AFTER + bytes_field(72, bytes_field(1, b"a")),
    ),
    "message of a oneof in two parts": (
        "Everything",
        bytes_field(72, number_field(2, 1)) + bytes_field(72, bytes_field(1, b"a")),
    ),
    "time in two parts": (
        "Everything",
        bytes_field(52, number_field(1, 1)) + bytes_field(52, number_field(2, 2)),
    ),
    "message cut between two parts": (
        "Everything",
        bytes_field(50, b"\x0a\x05a") + bytes_field(50, b"bcde"),
    ),
    "empty map entries": ("Everything", b"".join(bytes_field(number, b"") for number in range(60, 68))),
    "map entry without a key": ("Everything", bytes_field(60, number_field(2, 5))),
    "map entry with two keys": ("Everything", bytes_field(60, bytes_field(1, b"a") + bytes_field(1, b"b"))),
    "message of a map entry in two parts": (
        "Everything",
        bytes_field(62, bytes_field(2, number_field(2, 5)) + bytes_field(2, bytes_field(1, b"b"))),
    ),
    "map key in two entries": (
        "Everything",
        bytes_field(60, number_field(2, 5)) + bytes_field(60, number_field(2, 6)),
    ),
    "numbers with more bits than their fields": (
        "Everything",
        b"".join(number_field(number, 2**64 - 2) for number in range(3, 20)),
    ),
    "varint of ten bytes": ("Everything", tag(4, 0) + b"\xff" * 9 + b"\x7f"),
    "bool with bits above bit 63 only": ("Everything", tag(13, 0) + b"\x80" * 9 + b"\x7e"),
    "bool with bit 63 only": ("Everything", tag(13, 0) + b"\x80" * 9 + b"\x01"),
    "varint of eleven bytes": ("Everything", tag(4, 0) + b"\xff" * 10 + b"\x01"),
    "tag of five bytes": ("Everything", varint(4 << 3, 5) + b"\1"),
    "tag of six bytes": ("Everything", varint(4 << 3, 6) + b"\1"),
    "tag of more than 32 bits": ("Everything", varint(1 << 32 | 4 << 3) + b"\1"),
    "length of five bytes": ("Everything", tag(14, 2) + varint(1, 5) + b"a"),
    "length of six bytes": ("Everything", tag(14, 2) + varint(1, 6) + b"a"),
    "field 0": ("Everything", tag(0, 0) + b"\1"),
    "unknown number of a closed enum": ("Old", number_field(4, 1) + number_field(4, 5)),
    "unknown enum number in a oneof": ("Old", bytes_field(50, b"a") + number_field(51, 5)),
    "unknown enum number in packed elements": ("Old", bytes_field(14, b"\1\5\2")),
    "unknown enum number in a map": ("Old", bytes_field(30, number_field(2, 5))),
    "unknown enum number in a map, before a known one": (
        "Old",
        bytes_field(30, number_field(2, 5) + number_field(2, 2)),
    ),
    "group in two parts": (
        "Old",
        group_field(20, number_field(1, 1)) + group_field(20, group_field(3, number_field(1, 2))),
    ),
    "group with the end tag of another": ("Old", tag(20, 3) + tag(21, 4)),
    "group without an end tag": ("Old", tag(20, 3) + number_field(1, 1)),
    "end tag without a group": ("Old", tag(20, 4)),
    "group encoded with a length": ("Old", bytes_field(20, number_field(1, 1))),
    "100 nested messages": ("Tree", nested(100)),
    "101 nested messages": ("Tree", nested(101)),
    "map entry in 98 nested messages": ("Tree", nested(98, bytes_field(5, bytes_field(2, b"")))),
    "map entry in 99 nested messages": ("Tree", nested(99, bytes_field(5, bytes_field(2, b"")))),
    "time in 99 nested messages": ("Tree", nested(99, bytes_field(6, number_field(1, 1)))),
    "time in 100 nested messages": ("Tree", nested(100, bytes_field(6, number_field(1, 1)))),
    "100 nested unknown groups": ("Tree", groups(100)),
    "101 nested unknown groups": ("Tree", groups(101)),
    "40 unknown groups in 60 nested messages": ("Tree", nested(60, groups(40))),
    "41 unknown groups in 60 nested messages": ("Tree", nested(60, groups(41))),
    "unknown group in 100 nested messages": ("Tree", nested(100, groups(1))),
    "99 unknown groups in a time": ("Tree", bytes_field(6, groups(99))),
    "100 unknown groups in a time": ("Tree", bytes_field(6, groups(100))),
}


@pytest.mark.parametrize("case", EDGE_CASES)
def test_edge_cases_are_read_alike(case: str) -> None:
    name, encoded = EDGE_CASES[case]
    read = decode_by_both(name, encoded)
    try:
        message = message_class(name).FromString(encoded)
    except ProtobufError:
        message = None
    assert (read is REFUSED) == (message is None)
    if message is not None and not cannot_be_reproduced(message):
        codec, reference = open_both(name)
        written = message.SerializePartialToString(deterministic=True)
        assert reference.encode(read) == codec.encode(read) == written


def cannot_be_reproduced(message: Any) -> bool:
    """Return true if google.protobuf has kept unknown fields, or if required fields are missing."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    if not message.IsInitialized() or len(UnknownFieldSet(message)):
        return True
    return any(
        cannot_be_reproduced(value)
        for field, value in message.ListFields()
        if field.message_type is not None and not isinstance(value, list) and hasattr(value, "ListFields")
    )


SCHEMA = """
[schema]
name = "labelled"
rows = "records"

[[column]]
name = "labels"
number = 1
type = "map"
key = "string"
value = "int32"
enabled = true
"""


def test_map_entries_of_a_schema_may_be_empty(tmp_path: Path) -> None:
    """Other encoders omit zeros in map entries."""
    file = tmp_path / "labelled.toml"
    file.write_text(SCHEMA, encoding="utf-8")
    codec = Codec.load(file)
    for encoded, labels in [
        (bytes_field(1, b""), {"": 0}),
        (bytes_field(1, bytes_field(1, b"a")), {"a": 0}),
        (bytes_field(1, number_field(2, 4)), {"": 4}),
    ]:
        assert codec.decode(encoded) == Reference(codec.message).decode(encoded) == {"labels": labels}


@pytest.mark.parametrize("name", ["Maps", "Everything"])
@few
@given(data=st.data())
def test_map_entries_are_in_the_order_of_google_protobuf(name: str, data: st.DataObject) -> None:
    codec, reference = open_both(name)
    encoded = codec.encode(data.draw(records(name)))
    written = message_class(name).FromString(encoded).SerializeToString(deterministic=True)
    assert reference.encode(reference.decode(encoded)) == written
