"""The codec and google.protobuf agree on random objects and on damaged messages.

Calls leak neither memory nor references.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufError
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from flowbuf import Codec
from flowbuf.errors import DecodeError, EncodeError
from tests.support.cases import slow_after
from tests.support.codec.messages import (
    as_record,
    bytes_field,
    comparable,
    fill,
    make_codec,
    make_relaxed,
    message_class,
    number_field,
    records,
    tag,
    unknown_fields,
    varint,
)

NAMES = ["Everything", "Old", "Maps", "Tree", "Reading"]
EXACT = {name: make_codec(name, times="ns") for name in NAMES}
KEEPING = {name: make_codec(name, times="ns", unknown_fields="keep") for name in NAMES}
RELAXED = make_relaxed("Old", times="ns", unknown_fields="keep")
STRATEGIES = {name: records(codec.message) for name, codec in EXACT.items()}

each_type = pytest.mark.parametrize("name", NAMES)
# Without the shrink phase, which takes minutes for objects of so many fields.
many = settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
some = settings(many, max_examples=4)


def encode_by_protobuf(name: str, record: dict[str, Any]) -> bytes:
    message = fill(message_class(name)(), EXACT[name].message, record)
    return bytes(message.SerializePartialToString(deterministic=True))


@each_type
@many
@given(data=st.data())
def test_objects_are_encoded_and_decoded_as_by_google_protobuf(name: str, data: st.DataObject) -> None:
    record, codec = data.draw(STRATEGIES[name]), EXACT[name]
    encoded = codec.encode(record)
    assert encoded == encode_by_protobuf(name, record)
    read = codec.decode(encoded)
    assert comparable(read) == comparable(as_record(message_class(name).FromString(encoded), codec.message))
    as_tuple = codec.decode(encoded, tuple)
    assert codec.encode(as_tuple) == codec.encode(read)
    stream = codec.encode_many([record, as_tuple])
    assert [comparable(each) for each in codec.decode_many(stream)] == [comparable(read)] * 2 or name == "Old"


def decode_by_both(name: str, encoded: bytes) -> bool:
    """Return true if both decoders accept the message. Fail if they disagree or read different values."""
    codec, theirs = KEEPING[name], message_class(name)
    message, record, refused = None, {}, None
    with contextlib.suppress(ProtobufError):
        message = theirs.FromString(encoded)
    try:
        record = codec.decode(encoded)
    except DecodeError as error:
        refused = error
    if refused is not None:
        assert 0 <= refused.offset <= len(encoded)
        # google.protobuf accepts any bytes as a string of proto2. Python's str does not.
        assert message is None or (name == "Old" and "not UTF-8" in str(refused))
        return False
    assert message is not None, f"taken: {record}"
    assert comparable(record) == comparable(as_record(message, codec.message))
    if (encoded := encode_again(name, record)) is None:
        return True
    again = theirs.FromString(encoded)
    assert comparable(as_record(again, codec.message)) == comparable(as_record(message, codec.message))
    assert unknown_fields(again, codec.message) == unknown_fields(message, codec.message)
    return True


TIMES = ("out of range of a time", "a time before the year 1", "a duration beyond")


def encode_again(name: str, record: dict[str, Any]) -> bytes | None:
    """Return the encoded object, or None if it has an invalid time. google.protobuf encodes such times."""
    try:
        return bytes((RELAXED if name == "Old" else KEEPING[name]).encode(record))
    except EncodeError as error:
        if not any(each in str(error) for each in TIMES):
            raise
        return None


@each_type
@some
@given(data=st.data())
def test_both_decoders_agree_on_truncated_messages(name: str, data: st.DataObject) -> None:
    encoded = encode_by_protobuf(name, data.draw(STRATEGIES[name]))
    for size in range(max(0, len(encoded) - 300), len(encoded) + 1):
        decode_by_both(name, encoded[:size])


@each_type
@many
@given(data=st.data())
def test_both_decoders_agree_on_damaged_messages(name: str, data: st.DataObject) -> None:
    encoded = bytearray(encode_by_protobuf(name, data.draw(STRATEGIES[name])))
    if not encoded:
        return
    places = st.integers(0, len(encoded) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=20)):
        was, encoded[place] = encoded[place], value
        decode_by_both(name, bytes(encoded))
        encoded[place] = was


@each_type
@many
@given(data=st.data())
def test_both_decoders_agree_on_concatenated_messages(name: str, data: st.DataObject) -> None:
    """Concatenated messages are merged. One byte is damaged in a second step."""
    one, other = (encode_by_protobuf(name, data.draw(STRATEGIES[name])) for _ in range(2))
    encoded = bytearray(one + other + one)
    assert decode_by_both(name, bytes(encoded))
    if encoded:
        encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
        decode_by_both(name, bytes(encoded))


@st.composite
def random_fields(draw: st.DrawFn, codec: Codec) -> bytes:
    """Draw fields with the numbers of a message type, but with any wire types and contents."""
    numbers = st.sampled_from([field.number for field in codec.message]) | st.integers(0, 25)
    fields = b""
    for _ in range(draw(st.integers(1, 6))):
        number, wire = draw(numbers), draw(st.integers(0, 5))
        contents = {
            0: lambda: varint(draw(st.integers(0, 2**64 - 1)), draw(st.sampled_from([0, 0, 5, 10]))),
            1: lambda: draw(st.binary(min_size=8, max_size=8)),
            2: lambda: bytes_field(1, draw(st.binary(max_size=12)))[1:],
            5: lambda: draw(st.binary(min_size=4, max_size=4)),
        }
        fields += tag(number, wire) + contents.get(wire, lambda: b"")()
        if wire == 3:
            fields += number_field(1, draw(st.integers(0, 300))) + tag(number, 4)
    return fields


@each_type
@settings(many, max_examples=100)
@given(data=st.data())
def test_both_decoders_agree_on_random_fields(name: str, data: st.DataObject) -> None:
    decode_by_both(name, data.draw(random_fields(EXACT[name])))


@each_type
@settings(many, max_examples=100)
@given(encoded=st.binary(max_size=24))
def test_both_decoders_agree_on_random_bytes(name: str, encoded: bytes) -> None:
    decode_by_both(name, encoded)


# Memory -----------------------------------------------------------------------------------------------------

SAMPLE = {
    "r_string": ["a", "bc" * 40],
    "tree": {"name": "x", "left": {"name": "y"}, "branches": [{}, {"weight": 3}]},
    "m_tree": {True: {"name": "z"}},
    "m_time": {1: 5, -1: 7},
    "times": [1, 2],
    "c_tree": {"name": "é"},
    "f_bytes": b"12",
}


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except (EncodeError, DecodeError, ZeroDivisionError):
        return
    pytest.fail("nothing was refused")


class Fails:
    """A number whose conversion raises an error."""

    def __index__(self) -> int:
        return 1 // 0

    __float__ = __index__  # type: ignore[assignment]


BAD = [
    {"f_int32": "x"},
    {"nothing": 1},
    {"f_string": 1},
    {"r_int32": [1, Fails()]},
    {"u_sint64": [1, Fails()]},
    {"f_double": Fails()},
    {"m_int32": {"a": 1, "b": Fails()}},
    {"m_string": {1: "a", Fails(): "b"}},
    {"m_tree": {True: {"branches": [{}, {"weight": Fails()}]}}},
    {"trees": [{"left": {"named": {"a": {"weight": "x"}}}}]},
    {"time": "noon"},
    {"times": [Fails()]},
    {"c_int32": 1, "c_string": "x"},
    {"r_string": ["a", "\ud800"]},
    {"f_float": 1e300},
    {"r_enum": ["LOW", "NOWHERE"]},
    {"tree": [1]},
    {"tree": (1, 2)},
    {"trees": {"a": 1}},
    {"f_int32": 10**5000},
]


def kept_blocks(call: Callable[[], object]) -> int:
    """Return the number of memory blocks that 300 calls leave behind. Earlier calls fill the caches."""
    for _ in range(50):
        call()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(300):
        call()
    gc.collect()
    return sys.getallocatedblocks() - before


@pytest.mark.parametrize("record", slow_after(8, BAD), ids=[next(iter(record)) for record in BAD])
def test_refused_objects_leak_nothing(record: dict[str, Any]) -> None:
    codec = EXACT["Everything"]
    held = next(iter(record.values()))
    gc.collect()  # garbage of other tests may refer to a shared text
    before = sys.getrefcount(held)
    assert kept_blocks(lambda: refused(lambda: codec.encode(record))) < 100
    assert sys.getrefcount(held) == before
    assert codec.encode(SAMPLE) == encode_by_protobuf("Everything", SAMPLE)


def test_refused_messages_leak_nothing() -> None:
    codec = EXACT["Everything"]
    encoded = codec.encode({**SAMPLE, "r_int32": [1, 2], "span": -5})

    def cut_and_damaged() -> None:
        for size in range(len(encoded)):
            for each in (encoded[:size], encoded[:size] + b"\xff" + encoded[size + 1 :]):
                try:
                    codec.decode(each)
                except DecodeError:
                    continue

    for _ in range(5):
        cut_and_damaged()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(20):
        cut_and_damaged()
    gc.collect()
    assert sys.getallocatedblocks() - before < 100


def test_successful_calls_leak_nothing() -> None:
    codec = KEEPING["Everything"]
    encoded = codec.encode(SAMPLE) + number_field(999, 5)
    assert kept_blocks(lambda: codec.encode(codec.decode(encoded))) < 100
    assert kept_blocks(lambda: codec.encode(codec.decode(encoded, tuple))) < 100
    stream = codec.encode_many([SAMPLE] * 3)
    assert kept_blocks(lambda: codec.encode_many(codec.decode_many(stream))) < 100


def test_encoding_keeps_no_references_to_values() -> None:
    codec = EXACT["Everything"]
    text, raw, number = "text that nobody has".upper(), b"0123456789" * 3, 12345678901234
    values = (text, raw, number)
    counts = [sys.getrefcount(value) for value in values]
    record = {
        "f_string": text,
        "f_bytes": raw,
        "f_int64": number,
        "r_string": [text],
        "m_int32": {text: 1},
    }
    codec.encode(record)
    del record
    assert [sys.getrefcount(value) for value in values] == counts


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 2**32 - 1, 2**35, 2**63])
@pytest.mark.parametrize("number", [14, 15, 31, 34, 50, 60, 999])
def test_invalid_lengths_allocate_nothing(number: int, size: int) -> None:
    encoded = tag(number, 2) + varint(size) + b"abc"
    codec = KEEPING["Everything"]
    refused(lambda: codec.decode(encoded))
    tracemalloc.start()
    try:
        refused(lambda: codec.decode(encoded))
        refused(lambda: codec.decode_many(varint(size) + b"abc"))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_memory_of_large_messages_is_freed() -> None:
    codec = make_codec("Reading")
    tracemalloc.start()
    try:
        assert len(codec.encode({"raw": bytes(20_000_000)})) > 20_000_000
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 4_000_000
    finally:
        tracemalloc.stop()
