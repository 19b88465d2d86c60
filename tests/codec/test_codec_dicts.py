"""Decoded dicts share the memory of their keys, and behave like other dicts."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from flowbuf import UNKNOWN_FIELDS, Codec

SPECIAL = [
    "__class__",
    "__dict__",
    "__weakref__",
    "__slots__",
    "__doc__",
    "__module__",
    "__init__",
    "__hash__",
]


def make_codec(names: list[str], **options: Any) -> Codec:
    file = FileDescriptorProto(name="some.proto", syntax="proto3")
    message = file.message_type.add(name="Some")
    for number, name in enumerate(names, 1):
        message.field.add(name=name, number=number, type="TYPE_INT64", label="LABEL_OPTIONAL")
    return Codec(FileDescriptorSet(file=[file]), **options)


def read(codec: Codec, count: int = 1) -> list[dict[str, Any]]:
    names = [field.name for field in codec.message]
    records = [{name: i * 1000 + j for j, name in enumerate(names)} for i in range(count)]
    return codec.decode_many(codec.encode_many(records))


@pytest.mark.parametrize("count", [1, 2, 5, 6, 11, 12, 20, 29])
def test_dicts_of_few_keys_are_smaller_than_other_dicts(count: int) -> None:
    names = [f"name_{i}" for i in range(count)]
    codec = make_codec(names)  # lives as long as the dict: the last owner of shared keys counts their size
    (found,) = read(codec)
    assert list(found.items()) == [(name, i) for i, name in enumerate(names)]
    assert sys.getsizeof(found) <= 0.75 * sys.getsizeof(dict.fromkeys(names))


@pytest.mark.parametrize("count", [30, 31, 100, 500])
def test_dicts_of_many_keys_are_not_larger_than_other_dicts(count: int) -> None:
    names = [f"name_{i}" for i in range(count)]
    (found,) = read(make_codec(names))
    assert list(found.items()) == [(name, i) for i, name in enumerate(names)]
    assert sys.getsizeof(found) <= sys.getsizeof(dict.fromkeys(names).copy())


@pytest.mark.parametrize("names", [*([name, "other"] for name in SPECIAL), SPECIAL])
def test_names_of_special_attributes_are_ordinary_keys(names: list[str]) -> None:
    assert [list(found.items()) for found in read(make_codec(names), 2)] == [
        [(name, i * 1000 + j) for j, name in enumerate(names)] for i in range(2)
    ]


def test_changes_to_a_dict_do_not_affect_other_dicts() -> None:
    codec = make_codec(["a", "b", "c"])
    first, second, third, fourth, fifth, last = read(codec, 6)
    first["new"] = 1
    del second["b"]
    second["b"] = 2
    third.clear()
    assert fourth.popitem() == ("c", 3002)
    fifth |= {"other": 5, "a": 6}
    assert first == {"a": 0, "b": 1, "c": 2, "new": 1}
    assert list(second) == ["a", "c", "b"]
    assert (third, fourth) == ({}, {"a": 3000, "b": 3001})
    assert list(fifth.items()) == [("a", 6), ("b", 4001), ("c", 4002), ("other", 5)]
    assert list(last.items()) == [("a", 5000), ("b", 5001), ("c", 5002)]
    assert [list(found) for found in read(codec, 3)] == [["a", "b", "c"]] * 3
    for some in (first, second, last):
        for copied in (
            copy.deepcopy(some),
            pickle.loads(pickle.dumps(some)),
            json.loads(json.dumps(some)),
            dict(some),
        ):
            assert list(copied.items()) == list(some.items())


def test_keys_can_be_added_to_many_dicts() -> None:
    codec = make_codec(["a", "b"])
    records = read(codec, 1000)
    for i, record in enumerate(records):
        record[f"key_{i % 40}"] = i
    for i, record in enumerate(records):
        assert record == {"a": i * 1000, "b": i * 1000 + 1, f"key_{i % 40}": i}
    assert read(codec, 2)[1] == {"a": 1000, "b": 1001}


def test_unknown_fields_have_their_own_key() -> None:
    message = make_codec(["a", "b", "c"]).encode({"a": 1, "b": 2, "c": 3})
    codec = make_codec(["a", "b"], unknown_fields="keep")
    assert codec.decode(message) == {"a": 1, "b": 2, UNKNOWN_FIELDS: b"\x18\x03"}
    assert codec.decode(b"") == {"a": 0, "b": 0}
