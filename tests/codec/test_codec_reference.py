"""The codec beside its slow twin in plain Python (reference/codec.py): they write the same octets, read the
same values, and refuse the same records and messages.
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
from tests.support.codec_messages import (
    bytes_field,
    group_field,
    make_codec,
    message_class,
    number_field,
    tag,
    varint,
)
from tests.support.codec_messages import records as make_records

SCHEMAS = ("telemetry", "record", "client_message", "flow")
NAMES = (*SCHEMAS, "Everything", "Old", "Maps", "Tree")

each_type = pytest.mark.parametrize("name", NAMES)
each_kind_of_time = pytest.mark.parametrize("times", ["datetime", "ns"])
few = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(few, max_examples=30)

REFUSED = object()


@cache
def open_both(name: str, times: str = "ns") -> tuple[Codec, Reference]:
    codec = Codec.load(name, times=times) if name in SCHEMAS else make_codec(name, times=times)
    return codec, Reference(codec.message, times)


@cache
def records(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Of the large types, with few messages inside each other: all that there may be take a second each."""
    codec = open_both(name)[0]
    if name in ("Everything", "Old"):
        return make_records(codec.message).map(lambda record: codec.decode(codec.encode(record)))
    return codec.strategy()


@cache
def messages(name: str) -> st.SearchStrategy[bytes]:
    """Plausible ones: in a message of any values, damage mostly meets text."""
    codec = open_both(name)[0]
    return st.sampled_from([codec.encode(record) for record in codec.examples(30)])


def outcome(call: Callable[[Any], Any], given: Any) -> Any:
    try:
        return call(given)
    except (EncodeError, DecodeError, CodecError):
        return REFUSED


def judge(name: str, octets: bytes, times: str = "ns") -> Any:
    """What both read, or REFUSED. Values are compared as they are shown: 1 is not True, 0.0 is not -0.0, and
    NaN is NaN.
    """
    codec, reference = open_both(name, times)
    read = outcome(codec.decode, octets)
    assert repr(read) == repr(outcome(reference.decode, octets)), octets.hex()
    return read


# Records ----------------------------------------------------------------------------------------------------


@each_type
@each_kind_of_time
@few
@given(data=st.data())
def test_any_record_is_written_and_read_alike(name: str, times: str, data: st.DataObject) -> None:
    codec, reference = open_both(name, times)
    octets = codec.encode(data.draw(records(name)))
    record = judge(name, octets, times)
    assert codec.encode(record) == reference.encode(record)


@each_type
def test_examples_are_written_and_read_alike(name: str) -> None:
    codec, reference = open_both(name, "datetime")
    examples = codec.examples(20)
    stream = codec.encode_many(examples)
    assert stream == reference.encode_many(examples)
    assert reference.decode_many(stream) == codec.decode_many(stream) == examples


STRANGE = st.sampled_from(
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
def test_a_strange_value_is_refused_by_both_or_neither(name: str, data: st.DataObject) -> None:
    codec, reference = open_both(name)
    lists = {field.name for field in codec.message if field.repeated}
    least = {field.name: 1 for field in codec.message if field.required}
    for _ in range(4):
        key = data.draw(st.sampled_from([field.name for field in codec.message] + ["nothing"]))
        value = data.draw(STRANGE)
        if key in lists and isinstance(value, bytes | bytearray):
            continue  # a list of numbers, to the codec
        record = {**least, key: value}
        assert outcome(codec.encode, record) == outcome(reference.encode, record), record


# Octets -----------------------------------------------------------------------------------------------------


def damage(octets: bytes, data: st.DataObject) -> bytes:
    """An octet or two are others, gone, or too many; or the end is missing; or it all comes again."""
    damaged = bytearray(octets)
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
def test_a_damaged_message_is_refused_by_both_or_neither(name: str, data: st.DataObject) -> None:
    octets = data.draw(messages(name))
    for _ in range(8):
        judge(name, damage(octets, data), data.draw(st.sampled_from(["ns", "datetime"])))


def make_soup(codec: Codec, source: st.DataObject) -> bytes:
    """Fields with the numbers of a type, and hardly any with what belongs into them."""
    soup = b""
    for _ in range(source.draw(st.integers(1, 5))):
        number = source.draw(st.sampled_from([field.number for field in codec.message] + [1, 2, 3, 999]))
        wire, octets = source.draw(st.integers(0, 5)), source.draw(st.binary(min_size=8, max_size=20))
        value = varint(source.draw(st.integers(0, 2**64 - 1)), source.draw(st.sampled_from([0, 5, 10])))
        contents = (
            value,
            octets[:8],
            bytes_field(1, octets[8:])[1:],
            value and tag(1, 0) + value,
            b"",
            octets[:4],
        )
        soup += tag(number, wire) + contents[wire] + (tag(number, 4) if wire == 3 else b"")
    return soup


@each_type
@many
@given(data=st.data())
def test_any_soup_of_fields_is_refused_by_both_or_neither(name: str, data: st.DataObject) -> None:
    for _ in range(4):
        soup = make_soup(open_both(name)[0], data)
        judge(name, soup)
        judge(name, bytes_field(data.draw(st.sampled_from([3, 50, 60, 62, 40, 30, 31])), soup))


@each_type
@settings(many, max_examples=100)
@given(octets=st.binary(max_size=24))
def test_any_octets_are_refused_by_both_or_neither(name: str, octets: bytes) -> None:
    judge(name, octets)


@settings(many, max_examples=100)
@given(octets=st.binary(max_size=40))
def test_any_stream_is_refused_by_both_or_neither(octets: bytes) -> None:
    codec, reference = open_both("client_message")
    assert outcome(codec.decode_many, octets) == outcome(reference.decode_many, octets)


# Places where it is easy to differ: google.protobuf is asked, too -------------------------------------------


def nested(depth: int, inner: bytes = b"") -> bytes:
    """`Tree.left`, so many times."""
    for _ in range(depth):
        inner = bytes_field(3, inner)
    return inner


def groups(depth: int, number: int = 999) -> bytes:
    inner = b""
    for _ in range(depth):
        inner = group_field(number, inner)
    return inner


AFTER = number_field(70, 3)  # of the oneof that 72 and 73 are of
EDGES = {
    "a oneof's message that another value replaces": (
        "Everything",
        bytes_field(72, bytes_field(1, b"a")) + AFTER,
    ),
    "one that is malformed": ("Everything", bytes_field(72, b"\x0a\x05a") + AFTER),
    "one that is not UTF-8": ("Everything", bytes_field(72, bytes_field(1, b"\xff")) + AFTER),
    "one with a malformed time": ("Everything", bytes_field(72, bytes_field(6, b"\x08")) + AFTER),
    "a malformed time": ("Everything", bytes_field(73, b"\x08") + AFTER),
    "a message of a oneof that comes back": (
        "Everything",
        bytes_field(72, number_field(2, 1)) + AFTER + bytes_field(72, bytes_field(1, b"a")),
    ),
    "a message of a oneof in parts": (
        "Everything",
        bytes_field(72, number_field(2, 1)) + bytes_field(72, bytes_field(1, b"a")),
    ),
    "a time in parts": (
        "Everything",
        bytes_field(52, number_field(1, 1)) + bytes_field(52, number_field(2, 2)),
    ),
    "a part of a message that is completed by the next": (
        "Everything",
        bytes_field(50, b"\x0a\x05a") + bytes_field(50, b"bcde"),
    ),
    "an entry of nothing": ("Everything", b"".join(bytes_field(number, b"") for number in range(60, 68))),
    "an entry without a key": ("Everything", bytes_field(60, number_field(2, 5))),
    "an entry with two keys": ("Everything", bytes_field(60, bytes_field(1, b"a") + bytes_field(1, b"b"))),
    "a message of an entry in parts": (
        "Everything",
        bytes_field(62, bytes_field(2, number_field(2, 5)) + bytes_field(2, bytes_field(1, b"b"))),
    ),
    "a key that comes twice": (
        "Everything",
        bytes_field(60, number_field(2, 5)) + bytes_field(60, number_field(2, 6)),
    ),
    "numbers that are too wide": (
        "Everything",
        b"".join(number_field(number, 2**64 - 2) for number in range(3, 20)),
    ),
    "a varint of ten octets": ("Everything", tag(4, 0) + b"\xff" * 9 + b"\x7f"),
    "a bool of bits that are lost": ("Everything", tag(13, 0) + b"\x80" * 9 + b"\x7e"),
    "a bool of bits that are not": ("Everything", tag(13, 0) + b"\x80" * 9 + b"\x01"),
    "a varint of eleven octets": ("Everything", tag(4, 0) + b"\xff" * 10 + b"\x01"),
    "a tag of five octets": ("Everything", varint(4 << 3, 5) + b"\1"),
    "a tag of six octets": ("Everything", varint(4 << 3, 6) + b"\1"),
    "a tag of more than 32 bits": ("Everything", varint(1 << 32 | 4 << 3) + b"\1"),
    "a length of five octets": ("Everything", tag(14, 2) + varint(1, 5) + b"a"),
    "a length of six octets": ("Everything", tag(14, 2) + varint(1, 6) + b"a"),
    "field 0": ("Everything", tag(0, 0) + b"\1"),
    "a closed enum's other number": ("Old", number_field(4, 1) + number_field(4, 5)),
    "one in a oneof": ("Old", bytes_field(50, b"a") + number_field(51, 5)),
    "one in packed elements": ("Old", bytes_field(14, b"\1\5\2")),
    "one in a map": ("Old", bytes_field(30, number_field(2, 5))),
    "one in a map, before another": ("Old", bytes_field(30, number_field(2, 5) + number_field(2, 2))),
    "a group in parts": (
        "Old",
        group_field(20, number_field(1, 1)) + group_field(20, group_field(3, number_field(1, 2))),
    ),
    "a group with another's end": ("Old", tag(20, 3) + tag(21, 4)),
    "a group without an end": ("Old", tag(20, 3) + number_field(1, 1)),
    "an end without a group": ("Old", tag(20, 4)),
    "a group as octets": ("Old", bytes_field(20, number_field(1, 1))),
    "messages inside each other": ("Tree", nested(100)),
    "one more of them": ("Tree", nested(101)),
    "entries inside each other": ("Tree", nested(98, bytes_field(5, bytes_field(2, b"")))),
    "one more of these": ("Tree", nested(99, bytes_field(5, bytes_field(2, b"")))),
    "a time at the bottom": ("Tree", nested(99, bytes_field(6, number_field(1, 1)))),
    "one below it": ("Tree", nested(100, bytes_field(6, number_field(1, 1)))),
    "unknown groups inside each other": ("Tree", groups(100)),
    "one more of those": ("Tree", groups(101)),
    "unknown groups in messages": ("Tree", nested(60, groups(40))),
    "one more than there may be": ("Tree", nested(60, groups(41))),
    "an unknown group at the bottom": ("Tree", nested(100, groups(1))),
    "unknown groups in a time": ("Tree", bytes_field(6, groups(99))),
    "one more in a time": ("Tree", bytes_field(6, groups(100))),
}


@pytest.mark.parametrize("edge", EDGES)
def test_edges_are_read_alike(edge: str) -> None:
    name, octets = EDGES[edge]
    read = judge(name, octets)
    try:
        message = message_class(name).FromString(octets)
    except ProtobufError:
        message = None
    assert (read is REFUSED) == (message is None)
    if message is not None and not groups_or_unknown(message):
        codec, reference = open_both(name)
        written = message.SerializePartialToString(deterministic=True)
        assert reference.encode(read) == codec.encode(read) == written


def groups_or_unknown(message: Any) -> bool:
    """What is not written again: fields that google.protobuf keeps, and `required` ones that are not there."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    if not message.IsInitialized() or len(UnknownFieldSet(message)):
        return True
    return any(
        groups_or_unknown(value)
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


def test_an_entry_of_a_schema_may_be_empty(tmp_path: Path) -> None:
    """Others leave out what is zero."""
    file = tmp_path / "labelled.toml"
    file.write_text(SCHEMA, encoding="utf-8")
    codec = Codec.load(file)
    for octets, labels in [
        (bytes_field(1, b""), {"": 0}),
        (bytes_field(1, bytes_field(1, b"a")), {"a": 0}),
        (bytes_field(1, number_field(2, 4)), {"": 4}),
    ]:
        assert codec.decode(octets) == Reference(codec.message).decode(octets) == {"labels": labels}


@pytest.mark.parametrize("name", ["Maps", "Everything"])
@few
@given(data=st.data())
def test_entries_are_in_the_order_of_google_protobuf(name: str, data: st.DataObject) -> None:
    codec, reference = open_both(name)
    octets = codec.encode(data.draw(records(name)))
    written = message_class(name).FromString(octets).SerializeToString(deterministic=True)
    assert reference.encode(reference.decode(octets)) == written
