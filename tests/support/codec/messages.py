"""Message types with every kind of field, random objects of them, and a comparison with google.protobuf."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Container, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import strategies as st

from flowbuf import UNKNOWN_FIELDS, Codec
from flowbuf.codec.model import DURATION, TIMESTAMP, Field, Message

KEYS = (
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string"),
)
"""Types of map keys. `Maps` has a field by_KEY of each, from number 1 on."""

PROTO3 = f"""
syntax = "proto3";
package test;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";

enum Level {{ LOW = 0; MIDDLE = 1; HIGH = 5; BELOW = -3; }}

message Tree {{
  string name = 1;
  int32 weight = 2;
  Tree left = 3;
  repeated Tree branches = 4;
  map<string, Tree> named = 5;
  google.protobuf.Timestamp planted = 6;
}}

message Reading {{
  string device = 1;
  string site = 2;
  double temperature = 3;
  float humidity = 4;
  uint64 sequence = 5;
  uint32 errors = 6;
  repeated int32 samples = 7;
  Level level = 8;
  bool valid = 9;
  bytes raw = 10;
  google.protobuf.Timestamp time = 11;
  google.protobuf.Duration uptime = 12;
}}

message Everything {{
  double f_double = 1; float f_float = 2;
  int32 f_int32 = 3; int64 f_int64 = 4; uint32 f_uint32 = 5; uint64 f_uint64 = 6; sint32 f_sint32 = 7;
  sint64 f_sint64 = 8;
  fixed32 f_fixed32 = 9; fixed64 f_fixed64 = 10; sfixed32 f_sfixed32 = 11; sfixed64 f_sfixed64 = 12;
  bool f_bool = 13; string f_string = 14; bytes f_bytes = 15; Level f_enum = 16;
  optional int32 o_int32 = 17; optional string o_string = 18; optional Level o_enum = 19;
  optional bool o_bool = 20;
  optional double o_double = 21; optional bytes o_bytes = 22;
  repeated int32 r_int32 = 31; repeated double r_double = 32; repeated float r_float = 33;
  repeated string r_string = 34;
  repeated bytes r_bytes = 35; repeated Level r_enum = 36; repeated bool r_bool = 37;
  repeated fixed32 r_fixed32 = 38; repeated sfixed64 r_sfixed64 = 39; repeated uint64 r_uint64 = 40;
  repeated sint64 u_sint64 = 41 [packed = false]; repeated Level u_enum = 42 [packed = false];
  repeated fixed64 u_fixed64 = 43 [packed = false];
  Tree tree = 50; repeated Tree trees = 51;
  google.protobuf.Timestamp time = 52; google.protobuf.Duration span = 53;
  repeated google.protobuf.Timestamp times = 54; repeated google.protobuf.Duration spans = 55;
  map<string, int32> m_int32 = 60; map<int32, string> m_string = 61; map<bool, Tree> m_tree = 62;
  map<uint64, double> m_double = 63; map<string, Level> m_enum = 64;
  map<sint32, google.protobuf.Timestamp> m_time = 65;
  map<string, google.protobuf.Duration> m_span = 66; map<fixed32, bytes> m_bytes = 67;
  oneof choice {{
    int32 c_int32 = 70; string c_string = 71; Tree c_tree = 72; google.protobuf.Duration c_span = 73;
    Tree c_other = 74;
  }}
  oneof second {{ bool d_bool = 80; google.protobuf.Timestamp d_time = 81; }}
  string middle = 2047; int64 upper = 262144; int32 highest = 536870911;
}}

message Maps {{ {" ".join(f"map<{key}, int32> by_{key} = {number};" for number, key in enumerate(KEYS, 1))} }}
message Nothing {{ }}
"""

PROTO2 = """
syntax = "proto2";
package test;

enum Closed { ONE = 1; TWO = 2; FAR = 70000; MINUS = -1; }
enum Zeroed { NIL = 0; SOME = 2; }

message Old {
  required int32 must = 1;
  optional int32 o_int32 = 2 [default = 7];
  optional string o_string = 3 [default = "x"];
  optional Closed o_enum = 4 [default = TWO];
  optional bytes o_bytes = 5 [default = "\\001z"];
  optional float o_float = 6 [default = inf];
  optional bool o_bool = 7 [default = true];
  optional Closed bare = 8;
  repeated int32 r_int32 = 11;
  repeated int32 p_int32 = 12 [packed = true];
  repeated Closed r_enum = 13;
  repeated Closed p_enum = 14 [packed = true];
  repeated string r_string = 15;
  optional group Pair = 20 {
    optional int32 a = 1; optional Old inside = 2; optional group Deep = 3 { optional int32 d = 1; }
  }
  repeated group Item = 21 { optional string z = 11; }
  map<string, Zeroed> m_enum = 30;
  map<int32, Old> m_old = 31;
  optional Old sub = 40;
  repeated Old subs = 41;
  oneof which {
    string c_string = 50; Closed c_enum = 51; group Choice = 52 { optional int32 n = 1; } Old c_old = 53;
  }
  extensions 100 to 199;
}
"""


@cache
def descriptor_set() -> FileDescriptorSet:
    """Return the descriptors of both files, compiled by protoc. Skip the module without protoc."""
    compiler = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "three.proto").write_text(PROTO3, encoding="utf-8")
        (folder / "two.proto").write_text(PROTO2, encoding="utf-8")
        include = Path(compiler.__file__).parent / "_proto"
        options = [
            f"-I{folder}",
            f"-I{include}",
            "--include_imports",
            f"--descriptor_set_out={folder / 'set'}",
        ]
        assert compiler.main(["protoc", *options, "three.proto", "two.proto"]) == 0
        return FileDescriptorSet.FromString((folder / "set").read_bytes())


@cache
def _root(name: str) -> Codec:
    return Codec(descriptor_set(), name)


def make_codec(name: str, **options: Any) -> Codec:
    """Return a codec of a message type above. All codecs of one type share its descriptor and its class."""
    return Codec(_root(name).descriptor, **options) if options else _root(name)


@cache
def _relaxed_root(name: str) -> Codec:
    files = FileDescriptorSet()
    files.CopyFrom(descriptor_set())
    for file in files.file:
        for message in file.message_type:
            for field in message.field:
                if field.label == field.LABEL_REQUIRED:
                    field.label = field.LABEL_OPTIONAL
    return Codec(files, name)


def make_relaxed(name: str, **options: Any) -> Codec:
    """Return a codec of the same type, but without required fields."""
    return Codec(_relaxed_root(name).descriptor, **options)


def message_class(name: str) -> Any:
    return _root(name).message_class()


# Wire format, by rules that the codec does not share --------------------------------------------------------


def varint(number: int, size: int = 0) -> bytes:
    """Encode a varint in as few bytes as possible, or in `size` bytes."""
    number &= (1 << 64) - 1
    octets = bytearray()
    while number >= 0x80 or len(octets) + 1 < size:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def number_field(number: int, value: int) -> bytes:
    return tag(number, 0) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return tag(number, 2) + varint(len(value)) + value


def group_field(number: int, value: bytes) -> bytes:
    return tag(number, 3) + value + tag(number, 4)


# Records ----------------------------------------------------------------------------------------------------

_TIMES = {
    TIMESTAMP: st.integers(-62135596800 * 10**9, 253402300799 * 10**9),
    DURATION: st.integers(-315576000000 * 10**9, 315576000000 * 10**9),
}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
}


def records(message: Message, depth: int = 1) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with a key for each field, some of them None. Times are nanoseconds.

    `depth` limits how deep objects are nested.
    """
    return st.fixed_dictionaries({field.name: _field(field, depth) for field in message}).map(
        lambda record: _one_of_each_oneof(message, record)
    )


def _one_of_each_oneof(message: Message, record: dict[str, Any]) -> dict[str, Any]:
    seen: set[str] = set()
    for field in message:
        if field.oneof and record[field.name] is not None:
            if field.oneof in seen:
                record[field.name] = None
            seen.add(field.oneof)
    return record


def _field(field: Field, depth: int) -> st.SearchStrategy[Any]:
    if field.map:
        assert field.message is not None
        key, value = field.message.fields
        if is_record(value) and not depth:
            return st.just({})
        return st.dictionaries(_value(key, depth), _value(value, depth), max_size=3)
    if is_record(field) and not depth:
        return st.just([]) if field.repeated else st.none()
    if field.repeated:
        return st.lists(_value(field, depth), max_size=3)
    return _value(field, depth) if field.required else st.none() | _value(field, depth)


def _value(field: Field, depth: int) -> st.SearchStrategy[Any]:
    if field.message is not None:
        return (
            _TIMES[field.message.name] if field.message.name in _TIMES else records(field.message, depth - 1)
        )
    if field.type == "enum":
        members = st.sampled_from(sorted(set(field.members.values())))
        return members if field.closed else members | st.integers(*field.limits)
    return _VALUES[field.type] if field.type in _VALUES else st.integers(*field.limits)


def is_record(field: Field) -> bool:
    return field.message is not None and field.message.name not in _TIMES and not field.map


# google.protobuf --------------------------------------------------------------------------------------------


def fill(target: Any, message: Message, record: dict[str, Any]) -> Any:
    """Fill a message of google.protobuf from an object whose times are nanoseconds, and return it."""
    for field in message:
        value = record.get(field.name)
        if value is None:
            continue
        place = getattr(target, field.name)
        if field.map:
            assert field.message is not None
            _fill_map(place, field.message.fields[1], value)
        elif field.message is not None:
            for each in value if field.repeated else [value]:
                _fill_message(place.add() if field.repeated else place, field.message, each)
        elif field.repeated:
            place.extend(value)
        else:
            setattr(target, field.name, value)
    return target


def _fill_map(place: Any, field: Field, entries: dict[Any, Any]) -> None:
    for key, value in entries.items():
        if field.message is None:
            place[key] = value
        else:
            _fill_message(place[key], field.message, value)


def _fill_message(target: Any, message: Message, value: Any) -> None:
    target.SetInParent()
    if message.name in _TIMES:
        target.FromNanoseconds(value)
    else:
        fill(target, message, value)


def as_record(source: Any, message: Message) -> dict[str, Any]:
    """Return the object that a codec with times="ns" must decode from the message `source`."""
    return {field.name: _as_field(source, field) for field in message}


def _as_field(source: Any, field: Field) -> Any:
    value = getattr(source, field.name)
    if field.map:
        assert field.message is not None
        return {key: _as_value(value[key], field.message.fields[1]) for key in value}
    if field.repeated:
        return [_as_value(each, field) for each in value]
    if (field.presence or field.message is not None) and not source.HasField(field.name):
        return field.default
    return _as_value(value, field)


def _as_value(value: Any, field: Field) -> Any:
    if field.message is None:
        return value
    if field.message.name in _TIMES:
        return value.seconds * 1_000_000_000 + value.nanos
    return as_record(value, field.message)


def unknown_fields(source: Any, message: Message, path: str = "") -> list[str]:
    """Return the unknown fields at all levels, except those of times. A decoded time is not a dict and has
    none.
    """
    closed = {field.number for field in message if field.closed}
    found = [f"{path}: {_show_unknown(each, closed)}" for each in UnknownFieldSet(source)]
    for place, inside, kind in _inside(source, message):
        if kind.name not in _TIMES:
            found += unknown_fields(inside, kind, f"{path}.{place}")
    return sorted(found)


def _show_unknown(field: Any, closed: Container[int] = ()) -> str:
    """Format an unknown field. For a number that a closed enum lacks, google.protobuf keeps 32 bits only.

    The codec keeps the bytes as they came.
    """
    data = f"({', '.join(map(_show_unknown, field.data))})" if field.wire_type == 3 else field.data
    if field.wire_type == 0 and field.field_number in closed:
        data %= 1 << 32
    return f"{field.field_number} {field.wire_type} {data}"


def _inside(source: Any, message: Message) -> Iterator[tuple[str, Any, Message]]:
    for field, value in source.ListFields():
        kind = next((each for each in message if each.number == field.number), None)
        if kind is None or kind.message is None:
            continue
        if not kind.map:
            for number, each in enumerate(value if kind.repeated else [value]):
                yield f"{field.name}[{number}]", each, kind.message
        elif kind.message.fields[1].message is not None:
            for key in value:
                yield f"{field.name}[{key!r}]", value[key], kind.message.fields[1].message


def comparable(value: Any) -> Any:
    """Return a form that compares equal for equal values, NaN included.

    0.0 and -0.0, 1 and 1.0, and 1 and True stay different.
    """
    if isinstance(value, dict):
        return {repr(key): comparable(each) for key, each in value.items() if key != UNKNOWN_FIELDS}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return repr(value)


def refusal(call: Callable[[], object], error: type[Exception]) -> Exception:
    with pytest.raises(error) as caught:
        call()
    return caught.value
