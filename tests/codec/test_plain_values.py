"""Message types of google.protobuf that are plain Python values: wrappers, Struct, Value, ListValue and Any.

The other direction of each check is google.protobuf, whose classes hold the messages.
"""

from __future__ import annotations

import copy
import datetime
import enum
import math
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format, struct_pb2, wrappers_pb2
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from hypothesis import given

import flowbuf
from flowbuf import NULL, Codec, DecodeError, EncodeError
from tests.strategies.basics import register_profiles

register_profiles()

DEFINITION = """
syntax = "proto3";
package plain;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

message All {
  google.protobuf.Int32Value int32 = 1;
  google.protobuf.UInt64Value uint64 = 2;
  google.protobuf.DoubleValue double = 3;
  google.protobuf.FloatValue float = 4;
  google.protobuf.BoolValue bool = 5;
  google.protobuf.StringValue string = 6;
  google.protobuf.BytesValue bytes = 7;
  google.protobuf.Struct struct = 8;
  google.protobuf.Value value = 9;
  google.protobuf.ListValue list = 10;
  google.protobuf.Any any = 11;
  repeated google.protobuf.StringValue strings = 12;
  repeated google.protobuf.Value values = 13;
  map<string, google.protobuf.Int64Value> numbers = 14;
  map<string, google.protobuf.Value> by_name = 15;
  repeated google.protobuf.Any anys = 16;
  oneof choice {
    google.protobuf.Value chosen = 17;
    google.protobuf.BoolValue flag = 18;
  }
  Inner inner = 19;
}
message Inner { string value = 1; int32 number = 2; All all = 3; google.protobuf.Timestamp at = 4; }
"""


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec[dict[str, Any]]:
    path: Path = tmp_path_factory.mktemp("protos") / "plain.proto"
    path.write_text(DEFINITION)
    return Codec.load(path, "All", defaults="omit")


UNKNOWN = "the definition has no type 'x/unknown.Type'; its 'value' must be bytes"

VALUES: dict[str, list[Any]] = {
    "int32": [0, 5, -(1 << 31)],
    "uint64": [0, (1 << 64) - 1],
    "double": [0.0, 0.1, -math.inf],
    "float": [0.0, 1.5],
    "bool": [False, True],
    "string": ["", "x", "é😀"],
    "bytes": [b"", b"\xff\0"],
    "struct": [{}, {"a": None}, {"a": [1.0, "x", {"b": {}}], "": True, "ü": -0.5}],
    "value": [NULL, 0.0, 1.5, "", "x", True, False, {}, {"a": None}, [], [None, [[]]]],
    "list": [[], [None, 1.0, "x", True, {"a": [None]}, []]],
    "strings": [["", "x"]],
    "values": [[None, 0.0, "", False, {}, []]],
    "numbers": [{"a": 0, "b": -5}],
    "by_name": [{"a": None, "b": 1.0, "c": {"d": [None]}}],
    "chosen": [NULL, 0.0, {"a": 1.0}],
    "flag": [False],
}
CASES = [
    pytest.param(name, value, id=f"{name}-{place}")
    for name, all in VALUES.items()
    for place, value in enumerate(all)
]


@pytest.mark.parametrize(("name", "value"), CASES)
def test_values_are_those_of_google_protobuf(codec: Codec[dict[str, Any]], name: str, value: Any) -> None:
    message = codec.message_class()()
    json_value = {NULL: None}.get(value, value) if value is NULL else value
    if name == "double" and math.isinf(value):
        json_value = "-Infinity"
    if name == "bytes":
        message.bytes.value = value
    elif value is NULL:
        getattr(message, name).null_value = 0
    else:
        json_format.ParseDict(
            {codec.message_class().DESCRIPTOR.fields_by_name[name].json_name: json_value}, message
        )
    expected = message.SerializeToString(deterministic=True)
    assert expected
    assert codec.encode({name: value}) == expected
    decoded = codec.decode(expected)
    assert decoded[name] == value
    assert type(decoded[name]) is type(value)
    assert [key for key, each in decoded.items() if each not in ([], {}, None) or key == name] == [name]


def test_absent_zero_and_null_differ(codec: Codec[dict[str, Any]]) -> None:
    empty = codec.decode(b"")
    assert "int32" not in empty
    assert "value" not in empty
    fill = Codec(codec.message_class())
    assert fill.decode(b"")["int32"] is None
    assert fill.decode(b"")["value"] is None
    assert fill.encode({"value": None, "int32": None}) == b""
    assert fill.decode(fill.encode({"value": NULL, "int32": 0})) == {
        **fill.decode(b""),
        "value": NULL,
        "int32": 0,
    }


def test_null_is_one_object() -> None:
    assert repr(NULL) == "flowbuf.NULL"
    assert not NULL
    assert NULL != None  # noqa: E711
    assert (
        copy.copy(NULL)
        is copy.deepcopy([NULL])[0]
        is pickle.loads(pickle.dumps(NULL))
        is NULL
        is flowbuf.NULL
    )


def test_messages_that_are_plain_values_themselves() -> None:
    for kind, value in [
        (wrappers_pb2.Int64Value, -5),
        (wrappers_pb2.StringValue, ""),
        (struct_pb2.Struct, {"a": [None, 1.0]}),
        (struct_pb2.ListValue, ["x", None]),
        (struct_pb2.Value, None),
        (struct_pb2.Value, {"a": "b"}),
    ]:
        codec = Codec(kind)
        data = codec.encode(value)
        assert codec.decode(data) == value
        assert data == json_format.ParseDict(value, kind()).SerializeToString(deterministic=True)
        assert codec.decode_many(codec.encode_many([value, value])) == [value, value]
        assert len(codec.examples(3)) == 3


def test_a_value_without_a_kind_is_null(codec: Codec[dict[str, Any]]) -> None:
    assert codec.decode(b"\x4a\x00")["value"] is NULL
    assert codec.decode(b"\x6a\x00")["values"] == [None]


def test_parts_of_a_value_are_merged_and_the_last_kind_counts(codec: Codec[dict[str, Any]]) -> None:
    cls = codec.message_class()
    one, two = cls(), cls()
    json_format.ParseDict({"value": {"a": 1, "b": 2}, "int32": 5, "struct": {"x": "y"}}, one)
    json_format.ParseDict({"value": {"b": [3]}, "struct": {"z": None}}, two)
    joined = one.SerializeToString() + two.SerializeToString() + cls(int32={}).SerializeToString()
    decoded = codec.decode(joined)
    assert (
        json_format.MessageToDict(cls.FromString(joined))["value"] == decoded["value"] == {"a": 1, "b": [3]}
    )
    assert decoded["struct"] == {"x": "y", "z": None}
    assert decoded["int32"] == 5
    text = cls(value={"string_value": "x"}).SerializeToString()
    assert codec.decode(joined + text)["value"] == "x"
    assert codec.decode(text + joined)["value"] == {"a": 1, "b": [3]}


# Values of other types --------------------------------------------------------------------------------------


class Keyed(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return {"a": 1.0}[key]

    def __iter__(self) -> Any:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


def test_values_of_json_have_many_types(codec: Codec[dict[str, Any]]) -> None:
    for given_value, expected in [
        (7, 7.0),
        (1 << 53, 2.0**53),
        (1 << 60, 2.0**60),
        (Decimal("0.5"), 0.5),
        (np.int64(3), 3.0),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        ((1, "x"), [1.0, "x"]),
        (OrderedDict(a=1), {"a": 1.0}),
        (MappingProxyType({"a": 1}), {"a": 1.0}),
        (Keyed(), {"a": 1.0}),
        (type("Text", (str,), {})("x"), "x"),
        ([NULL], [None]),
    ]:
        decoded = codec.decode(codec.encode({"value": given_value}))["value"]
        assert decoded == expected
        assert type(decoded) is type(expected)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"value": {1}}, "value: set where a value of JSON is expected"),
        ({"value": np.array([1, 2])}, "value: numpy.ndarray where a value of JSON is expected"),
        ({"value": b"x"}, "value: bytes where a value of JSON is expected"),
        ({"value": [1, {"a": object()}]}, "value[1]['a']: object where a value of JSON is expected"),
        ({"value": (1 << 53) + 1}, "value: 9007199254740993 is not exact as a double; write it as a string"),
        ({"struct": {"a": {"b": 1 << 2000}}}, "struct['a']['b']: 1148"),
        ({"struct": {1: 2}}, "struct[1]: int where str as a key is expected"),
        ({"struct": [1]}, "struct: list where a dict is expected"),
        ({"list": "abc"}, "list: str where a list is expected"),
        ({"list": {"a": 1}}, "list: dict where a list is expected"),
        ({"int32": "5"}, "int32: str where an int is expected"),
        ({"int32": 1 << 31}, "int32: 2147483648 is out of range: -2147483648 to 2147483647"),
        ({"int32": {"value": 5}}, "int32: dict where an int is expected"),
        ({"strings": ["a", None]}, "strings[1]: None where a value is expected"),
        ({"numbers": {"a": None}}, "numbers['a']: None where a value is expected"),
        ({"string": "\ud800"}, "string: half of a surrogate pair"),
        ({"int32": NULL}, "int32: _Null where an int is expected"),
        ({"any": 5}, "any: int where a dict with the key '@type' is expected"),
        ({"any": {"@type": 5}}, "any: int where str as '@type' is expected"),
        ({"any": {"@type": "x/google.protobuf.Int32Value"}}, "any: no key 'value' beside '@type'"),
        (
            {"any": {"@type": "x/google.protobuf.Int32Value", "value": "x"}},
            "any: str where an int is expected",
        ),
        (
            {"any": {"@type": "x/google.protobuf.Int32Value", "value": 1, "more": 1}},
            "any: keys other than '@type' and 'value'",
        ),
        (
            {"any": {"@type": "x/plain.Inner", "valuee": "x"}},
            "any: unknown key 'valuee'; did you mean value?",
        ),
        ({"any": {"@type": "x/plain.Inner", "number": "x"}}, "any.number: str where an int is expected"),
        (
            {"any": {"@type": "x/unknown.Type", "value": 5}},
            f"any: {UNKNOWN}",
        ),
        (
            {"any": {"@type": "x/unknown.Type", "name": 5}},
            f"any: {UNKNOWN}",
        ),
        (
            {"any": {"@type": "plain.Inner", "value": "x"}},
            "any: '@type' is 'plain.Inner'; write a URL: ",
        ),
        ({"any": {"value": b"", "number": 5}}, "any: no key '@type', which gives the type of the message"),
        ({"any": {"type_url": 5}}, "any: int where str is expected"),
        ({"inner": {"@type": "x"}}, "inner: unknown key '@type'"),
    ],
)
def test_errors_name_the_place(codec: Codec[dict[str, Any]], value: Any, message: str) -> None:
    with pytest.raises(EncodeError) as caught:
        codec.encode(value)
    assert str(caught.value).startswith(message)


def test_damage_inside_a_plain_value_names_its_place(codec: Codec[dict[str, Any]]) -> None:
    with pytest.raises(DecodeError) as caught:
        codec.decode(codec.encode({"struct": {"a": ["xyz"]}}).replace(b"xyz", b"x\xffz"))
    assert caught.value.path == "struct.value[0]"
    with pytest.raises(DecodeError) as caught:
        codec.decode(
            codec.encode({"any": {"@type": "x/plain.Inner", "value": "xyz"}}).replace(b"xyz", b"x\xffz")
        )
    assert (caught.value.path, caught.value.offset) == ("any.value", 21)


def pack_bytes(codec: Codec[Any], message: AnyMessage) -> bytes:
    encoded: bytes = codec.message_class()(
        any={"type_url": message.type_url, "value": message.value}
    ).SerializeToString()
    return encoded


def test_nesting_is_limited(codec: Codec[dict[str, Any]]) -> None:
    value: Any = 1.0
    for _ in range(200):
        value = [value]
    with pytest.raises(EncodeError, match="more than 100 objects inside each other"):
        codec.encode({"value": value})
    inside: Any = {"@type": "x/unknown.Type"}
    for _ in range(200):
        inside = {"@type": "x/plain.All", "any": inside}
    with pytest.raises(EncodeError, match="more than 100 objects inside each other"):
        codec.encode({"any": inside})
    message = AnyMessage()
    for _ in range(60):
        message = AnyMessage(type_url="x/google.protobuf.Any", value=message.SerializeToString())
    deep = pack_bytes(codec, message)
    assert codec.encode(codec.decode(deep)) == deep
    for _ in range(60):
        message = AnyMessage(type_url="x/google.protobuf.Any", value=message.SerializeToString())
    with pytest.raises(DecodeError, match="more than 100 messages inside each other"):
        codec.decode(pack_bytes(codec, message))


# Any --------------------------------------------------------------------------------------------------------


def pack(codec: Codec[Any], message: Any) -> bytes:
    whole = codec.message_class()()
    whole.any.Pack(message, deterministic=True)
    encoded: bytes = whole.SerializeToString(deterministic=True)
    return encoded


def test_an_any_has_the_fields_of_its_message(codec: Codec[dict[str, Any]]) -> None:
    cls = codec.message_class()
    whole = cls(inner={"value": "x", "number": 3})
    whole.inner.at.seconds = 5
    inner = whole.inner
    url = "type.googleapis.com/"
    for message, value in [
        (inner, {"value": "x", "number": 3, "at": datetime.datetime.fromtimestamp(5, datetime.timezone.utc)}),
        (wrappers_pb2.Int32Value(value=5), {"value": 5}),
        (wrappers_pb2.Int32Value(), {"value": 0}),
        (struct_pb2.Value(null_value=0), {"value": None}),
        (json_format.ParseDict({"a": [1]}, struct_pb2.Struct()), {"value": {"a": [1.0]}}),
        (Duration(seconds=3), {"value": datetime.timedelta(seconds=3)}),
        (Duration(), {"value": datetime.timedelta()}),
        (AnyMessage(), {"value": {}}),
    ]:
        data = pack(codec, message)
        decoded = codec.decode(data)["any"]
        assert decoded == {"@type": url + message.DESCRIPTOR.full_name, **value}
        assert next(iter(decoded)) == "@type"
        assert codec.encode({"any": decoded}) == data
    empty = pack(codec, type(inner)())
    assert codec.decode(empty)["any"] == {"@type": url + "plain.Inner", "value": "", "number": 0}
    assert codec.encode(codec.decode(empty)) == empty


def test_an_any_of_an_unknown_type_keeps_its_bytes(codec: Codec[dict[str, Any]]) -> None:
    cls = codec.message_class()
    for url, value in [("x/unknown.Type", b"\xff"), ("plain.Inner", b"\xff"), ("x/", b""), ("", b"abc")]:
        data = cls(any={"type_url": url, "value": value}).SerializeToString()
        assert codec.decode(data)["any"] == {"@type": url, "value": value}
        assert codec.encode(codec.decode(data)) == data
    assert codec.decode(cls(any={}).SerializeToString())["any"] == {}
    assert codec.encode({"any": {}}) == cls(any={}).SerializeToString()
    # the fields of the Any itself
    data = cls(any={"type_url": "x/y", "value": b"z"}).SerializeToString()
    assert codec.encode({"any": {"type_url": "x/y", "value": b"z"}}) == data
    assert codec.encode({"any": MappingProxyType({"@type": "x/y", "value": b"z"})}) == data


def test_the_last_part_of_an_any_counts(codec: Codec[dict[str, Any]]) -> None:
    one = pack(codec, wrappers_pb2.StringValue(value="x"))
    two = pack(codec, wrappers_pb2.StringValue(value="y"))
    assert codec.decode(one + two)["any"]["value"] == "y"


def test_unknown_fields_inside_an_any_are_kept() -> None:
    data = AnyMessage(type_url="x/google.protobuf.Empty").SerializeToString()
    codec = Codec(AnyMessage, unknown_fields="keep")
    assert codec.decode(data) == {"@type": "x/google.protobuf.Empty", "value": b""}
    inside = b"\x08\x01"
    known = Codec(AnyMessage, unknown_fields="keep")
    outer = AnyMessage(type_url="x/google.protobuf.Any", value=inside).SerializeToString()
    assert known.decode(outer)["value"] == {}


def test_presence_inside_plain_values_is_refused(codec: Codec[dict[str, Any]]) -> None:
    assert codec.has({"value": NULL}, "value")
    assert codec.which_oneof({"chosen": NULL}, "choice") == "chosen"
    for path in ("value.", ".value", "..value", ""):
        with pytest.raises(ValueError, match="has no field"):
            codec.has({"value": NULL}, path)
    for call, path in [
        (codec.has, "value.string_value"),
        (codec.which_oneof, "value.kind"),
        (codec.has, "struct.fields"),
        (codec.has, "any.type_url"),
    ]:
        with pytest.raises(ValueError, match="which is a plain value"):
            call({"value": "my string_value"}, path)


# Classes ----------------------------------------------------------------------------------------------------


@dataclass
class Few:
    struct: dict[str, Any] | None
    int32: int | None
    values: list[Any]
    any: dict[str, Any] | None


def test_classes_have_plain_values(codec: Codec[dict[str, Any]]) -> None:
    data = codec.encode({"struct": {"a": 1}, "int32": 0, "values": [None, "x"], "string": "skipped"})
    assert codec.decode(data, Few) == Few({"a": 1.0}, 0, [None, "x"], None)
    assert codec.decode(b"", Few) == Few(None, None, [], None)
    assert codec.decode(data, tuple)[0] == 0


# Random values ----------------------------------------------------------------------------------------------


def test_examples_and_strategies_have_plain_values(codec: Codec[dict[str, Any]]) -> None:
    for each in codec.examples(20):
        assert isinstance(each["struct"], dict)
        assert codec.decode(codec.encode(each)) == each

    @given(codec.strategy())
    def check(each: Any) -> None:
        data = codec.encode(each)
        again = codec.message_class().FromString(data)
        assert again.SerializeToString(deterministic=True) == data

    check()


class Level(enum.Enum):
    LOW = 1


def test_members_of_enums_are_values_of_json_only_as_their_values(codec: Codec[dict[str, Any]]) -> None:
    with pytest.raises(EncodeError, match="value: Level where a value of JSON is expected"):
        codec.encode({"value": Level.LOW})


def test_objects_without_json_are_errors_of_encoding() -> None:
    """Their offset would be one in bytes that the caller never had."""
    codec = Codec(struct_pb2.Struct)
    with pytest.raises(EncodeError) as caught:
        codec.encode_json({"a": math.nan})
    problem = "NaN or infinity in a google.protobuf.Value"
    assert str(caught.value) == f"{caught.value.path}: {problem}"
    assert caught.value.path == 'fields["a"].number_value'
