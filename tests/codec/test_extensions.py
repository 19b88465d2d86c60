"""Extensions are keys of dicts, named in brackets. Tuples and classes have no place for them."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf import json_format

from flowbuf import UNKNOWN_FIELDS, Codec, DecodeError, EncodeError
from tests.support.codec.messages import bytes_field

DEFINITION = """
syntax = "proto2";
package p;
enum Level { LOW = 0; HIGH = 3; }
message Base {
  extensions 100 to 200;
  optional int32 a = 1;
  optional string z = 300;
}
message Inner {
  optional string text = 1;
  extend Base { optional Inner inner = 103; }
  extensions 10 to 20;
}
extend Base {
  optional int32 number = 100 [default = 7];
  repeated Level levels = 101 [packed = true];
  repeated string names = 102;
  optional group Pair = 104 { optional bool left = 1; }
}
extend Inner { optional sint64 more = 10; }
message Holder { optional Base base = 1; repeated Base bases = 2; map<string, Base> named = 3; }
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("protos") / "p.proto"
    path.write_text(DEFINITION)
    return path


@pytest.fixture(scope="module")
def codec(path: Path) -> Codec[dict[str, Any]]:
    return Codec.load(path, "Base")


WHOLE = {
    "a": 1,
    "z": "end",
    "[p.number]": 0,
    "[p.levels]": [0, 3],
    "[p.names]": ["x", ""],
    "[p.Inner.inner]": {"text": "t", "[p.more]": -5},
    "[p.pair]": {"left": True},
}


def by_protobuf(codec: Codec[Any]) -> bytes:
    kind = codec.message_class()
    pool = kind.DESCRIPTOR.file.pool
    message = kind(a=1, z="end")
    find = pool.FindExtensionByName
    message.Extensions[find("p.number")] = 0
    message.Extensions[find("p.levels")].extend([0, 3])
    message.Extensions[find("p.names")].extend(["x", ""])
    inner = message.Extensions[find("p.Inner.inner")]
    inner.text = "t"
    inner.Extensions[find("p.more")] = -5
    message.Extensions[find("p.pair")].left = True
    encoded: bytes = message.SerializeToString(deterministic=True)
    return encoded


def test_dicts_have_extensions(codec: Codec[dict[str, Any]]) -> None:
    data = by_protobuf(codec)
    ours = codec.encode(WHOLE)
    # the C runtime of google.protobuf writes extensions after the other fields
    assert codec.message_class().FromString(ours) == codec.message_class().FromString(data)
    assert sorted(ours) == sorted(data)
    assert codec.encode(OrderedDict(WHOLE)) == ours
    assert codec.decode(data) == codec.decode(ours) == WHOLE
    assert codec.decode_json(codec.encode_json(WHOLE)) == WHOLE


def test_absent_extensions_are_missing(codec: Codec[dict[str, Any]], path: Path) -> None:
    assert codec.decode(b"") == {"a": None, "z": None}
    assert codec.decode(codec.encode({"[p.levels]": []})) == {"a": None, "z": None}
    omitting = Codec.load(path, "Base", defaults="omit")
    assert omitting.decode(omitting.encode({"[p.number]": 7})) == {"[p.number]": 7}
    assert omitting.encode({"[p.number]": None}) == b""


def test_extensions_of_nested_messages(path: Path) -> None:
    codec = Codec.load(path, "Holder", defaults="omit")
    holder = {
        "base": {"[p.number]": 1},
        "bases": [{"a": 2, "[p.names]": ["y"]}],
        "named": {"k": {"[p.pair]": {}}},
    }
    assert codec.decode(codec.encode(holder)) == holder
    assert codec.decode(codec.encode(holder), tuple) == ((None, None), [(2, None)], {"k": (None, None)})


def test_parts_of_an_extension_are_merged(codec: Codec[dict[str, Any]]) -> None:
    one = codec.encode({"[p.Inner.inner]": {"text": "t"}, "[p.levels]": [3]})
    two = codec.encode({"[p.Inner.inner]": {"[p.more]": 1}, "[p.levels]": [0]})
    merged = codec.decode(one + two)
    assert (merged["[p.Inner.inner]"], merged["[p.levels]"]) == ({"text": "t", "[p.more]": 1}, [3, 0])


def test_extensions_are_no_unknown_fields(path: Path) -> None:
    codec = Codec.load(path, "Base", unknown_fields="keep")
    data = codec.encode(WHOLE)
    assert UNKNOWN_FIELDS not in codec.decode(data)
    more = data + b"\xa8\x06\x05"  # field 101 as a varint that is no member of its closed enum
    assert codec.decode(more)[UNKNOWN_FIELDS] == b"\xa8\x06\x05"
    assert codec.decode(data + b"\x98\x0c\x01")[UNKNOWN_FIELDS] == b"\x98\x0c\x01"


def test_tuples_and_classes_have_no_extensions(codec: Codec[dict[str, Any]]) -> None:
    data = codec.encode(WHOLE)
    named = namedtuple("named", ["a", "z"])
    slotted = msgspec.defstruct("slotted", ["a", "z"])
    plain = codec.encode({"a": 1, "z": "end"})
    assert codec.decode(data, tuple) == (1, "end")
    for kind in (named, slotted):
        assert codec.decode(data, kind) == kind(1, "end")
        for _ in range(3):
            assert codec.encode(kind(1, "end")) == plain
    assert codec.encode((1, "end")) == plain
    with pytest.raises(EncodeError, match="a tuple of 3, where there are 2 fields"):
        codec.encode((1, "end", 5))
    bad = codec.encode({"a": 1, "[p.names]": ["xyz"]}).replace(b"xyz", b"x\xffz")
    assert codec.decode(bad, tuple) == (1, None)
    with pytest.raises(DecodeError) as caught:
        codec.decode(bad)
    assert caught.value.path == "[p.names][0]"


def test_errors_name_the_extension(codec: Codec[dict[str, Any]]) -> None:
    for value, message in [
        ({"[p.number]": "x"}, "[p.number]: str where an int is expected"),
        (
            {"[p.Inner.inner]": {"[p.more]": 1 << 63}},
            "[p.Inner.inner].[p.more]: 9223372036854775808 is out of",
        ),
        ({"[p.numberx]": 1}, "unknown key '[p.numberx]'; did you mean [p.number]"),
        ({"[p.levels]": [1]}, "[p.levels][0]: 1 is no member of the enum"),
    ]:
        with pytest.raises(EncodeError) as caught:
            codec.encode(value)
        assert str(caught.value).startswith(message)


def test_columns_and_examples_have_no_extensions(codec: Codec[dict[str, Any]]) -> None:
    columns = codec.read_columns(codec.encode_many([WHOLE, {"a": 2}]))
    assert columns.to_arrow().to_pylist() == [{"a": WHOLE["a"], "z": WHOLE["z"]}, {"a": 2, "z": None}]
    assert columns.counters["unknown_field"] > 0
    assert [*codec.examples(1)[0]] == ["a", "z"]
    assert repr(codec) == "<Codec p.Base: 2 fields>"


def test_json_with_defaults_leaves_out_absent_extensions(codec: Codec[dict[str, Any]]) -> None:
    """As google.protobuf does."""
    of = codec.message_class()
    for data, expected in [
        (b"", "{}"),
        (bytes_field(101, b""), '{"[p.levels]":[]}'),  # not absent
        (bytes_field(101, b"\3"), '{"[p.levels]":["HIGH"]}'),
        (bytes_field(102, b""), '{"[p.names]":[""]}'),
        (bytes_field(103, b""), '{"[p.Inner.inner]":{}}'),
    ]:
        assert codec.to_json(data, defaults=True) == expected
        same = json_format.MessageToDict(of.FromString(data), always_print_fields_with_no_presence=True)
        assert same == json.loads(expected)


def test_extensions_have_presence(codec: Codec[dict[str, Any]]) -> None:
    assert codec.has(WHOLE, "[p.number]")
    assert codec.has(WHOLE, "[p.Inner.inner].[p.more]")
    assert not codec.has({"a": 1}, "[p.number]")
    assert not codec.has(codec.encode({"a": 1}), "[p.Inner.inner].[p.more]")
    with pytest.raises(ValueError, match=r"\[p\.levels\] has no presence"):
        codec.has(WHOLE, "[p.levels]")
    with pytest.raises(ValueError, match=r"p\.Base has no field \[p\.none\]"):
        codec.has(WHOLE, "[p.none]")
    with pytest.raises(ValueError, match=r"p\.Base has no field \[p"):
        codec.has(WHOLE, "[p.none")
