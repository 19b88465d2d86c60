"""Fuzz objects of random types: they and google.protobuf read the same messages, whole and in streams."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError

import flowbuf
from tests.binding.fuzz_common import Family, Parts, check
from tests.support.codec.random_types import RandomTypes

TYPES = 60
NUMBER_0 = re.compile("number 0|a group without an end, with a malformed field")


@functools.cache
def types() -> list[tuple[RandomTypes, flowbuf.Codec[Any], Any]]:
    """Return types, each with its codec and a class that takes some of the fields."""
    every = []
    for seed in range(TYPES):
        kind = RandomTypes(seed, well_known=seed % 4 != 0)
        codec = flowbuf.Codec(
            kind.message_class.DESCRIPTOR, defaults="omit", times="ns", unknown_fields="keep"
        )
        names = [field.name for field in codec.message][::2]
        every.append((kind, codec, dataclasses.make_dataclass("Few", names) if names else dict))
    return every


def seed_objects() -> list[Parts]:
    """Return messages and streams. The first part is the number of the type."""
    seeds = []
    for number, (kind, codec, _) in enumerate(types()):
        messages = [kind.message().SerializePartialToString() for _ in range(5)]
        seeds += [[bytes([number]), message] for message in messages]
        with contextlib.suppress(flowbuf.EncodeError):  # a required field is missing
            seeds.append([bytes([number]), codec.encode_many(map(codec.decode, messages))])
    return seeds


def run_objects(parts: Parts, rng: random.Random) -> None:
    number = parts[0][0] if parts and parts[0] else 0
    kind, codec, few = types()[number % TYPES]
    data = b"".join(parts[1:])
    check_stream(codec, data, rng)
    theirs = None
    with contextlib.suppress(ProtobufError):
        theirs = kind.message_class.FromString(data)
    try:
        ours = codec.decode(rng.choice((bytes, bytearray, memoryview))(data))
    except flowbuf.DecodeError as error:
        check(error.offset is not None and 0 <= error.offset <= len(data), "the offset of an error")
        # google.protobuf checks neither the message in an Any, nor texts of proto2, nor the number 0
        lax = kind.syntax == "proto2" or "Any" in str(kind.file) or NUMBER_0.search(str(error))
        check(theirs is None or lax, "a message that google.protobuf reads", str(error))
        return
    check(theirs is not None, "a message that google.protobuf refuses")
    check_some(plain_codec(number % TYPES), few, data)
    try:
        again = codec.encode(ours)
    except flowbuf.EncodeError:  # a required field is missing, or a time is out of range
        return
    check(codec.encode(codec.decode(again)) == again, "an object decoded and encoded")
    if "Any" not in str(kind.file):
        check(plain(kind, again) == plain(kind, data), "the message of an object")


def plain(kind: RandomTypes, data: bytes) -> str:
    """Return a message without unknown fields as text, in which NaN is equal to itself.

    It lacks times, whose nanoseconds a codec makes positive, and null, which a Value without a kind becomes.
    """
    message = kind.message_class.FromString(data)
    message.DiscardUnknownFields()
    return " ".join(re.sub(r"(seconds|nanos|null_value): \S+", "", str(message)).split())


@functools.cache
def plain_codec(number: int) -> flowbuf.Codec[Any]:
    """Return a codec that skips unknown fields, as classes do."""
    return flowbuf.Codec(types()[number][0].message_class.DESCRIPTOR, times="ns", defaults="omit")


def check_some(codec: flowbuf.Codec[Any], few: Any, data: bytes) -> None:
    """Check that a class with some of the fields gets the same values as a dict."""
    whole, some = codec.decode(data), codec.decode(data, few)
    for field in dataclasses.fields(few) if few is not dict else ():
        check(
            repr(getattr(some, field.name)) == repr(whole.get(field.name)), "a field of a class", field.name
        )


def check_stream(codec: flowbuf.Codec[Any], data: bytes, rng: random.Random) -> None:
    """Check that a stream in pieces gives the same objects as the whole."""

    def pieces() -> Iterator[bytes]:
        begin = 0
        while begin < len(data):
            size = rng.choice((0, 1, 3, 100, 5000))
            yield data[begin : begin + size]
            begin += size

    whole, problem = [], None
    try:
        whole = codec.decode_many(data)
    except flowbuf.DecodeError as error:
        problem = error
    reader = codec.read(pieces(), invalid=rng.choice(("error", "skip")), max_size=rng.choice((10, 1 << 20)))
    got: list[Any] = []
    try:
        for each in reader:
            got.append(each)
            check(0 < reader.offset <= len(data), "the offset of a reader")
    except flowbuf.DecodeError as error:
        check("max_size" in str(error) or problem is not None, "a stream in pieces", str(error))
    else:
        check(reader.count == len(got) + reader.skipped, "the count of a reader")
        check(problem is not None or repr(got) == repr(whole), "the objects of a stream")


FAMILY = Family(seed_objects, run_objects)
