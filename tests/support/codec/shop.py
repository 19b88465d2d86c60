"""Message types with fields of every kind, their codecs, and streams of their messages."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flowbuf import Codec, EncodeError
from tests.support.codec.messages import varint

__all__ = ["check_refused", "framed", "load", "row_of", "some_orders", "table_of"]

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

enum State { NEW = 0; PAID = 1; }
enum Change { SAME = 0; LESS = -1; }
message Line { string article = 1; int32 count = 2; repeated double prices = 3; optional int32 rank = 4; }
message Order {
  uint64 id = 1;
  Line first = 2;
  repeated Line lines = 3;
  map<string, int32> stock = 4;
  map<int32, Line> by_rank = 5;
  oneof payment { string card = 6; Line voucher = 7; int32 cash = 8; }
  State state = 9;
  repeated State states = 10;
  Change change = 11;
  google.protobuf.Timestamp created = 12;
  google.protobuf.Duration took = 13;
  google.protobuf.Int32Value size = 14;
  google.protobuf.StringValue note = 15;
  repeated google.protobuf.Timestamp times = 16;
  google.protobuf.Any any = 17;
  sfixed32 small = 18;
  repeated sfixed64 large = 19;
  optional string nick = 20;
  bytes raw = 21;
  repeated string tags = 22;
  repeated sint32 deltas = 23 [packed = false];
  float ratio = 24;
  bool done = 25;
  repeated bool flags = 26;
}
message Tree { string name = 1; Tree left = 2; repeated Tree others = 3; map<string, Tree> named = 4; }
message Document {
  string title = 1;
  google.protobuf.Struct body = 2;
  google.protobuf.Value value = 3;
  repeated google.protobuf.Value values = 4;
  map<string, google.protobuf.ListValue> lists = 5;
  oneof kind { google.protobuf.Struct one = 6; int32 other = 7; }
}
message Empty {}
message Holder { Empty empty = 1; repeated Empty more = 2; }
message Limits {
  int32 i32 = 1; int64 i64 = 2; uint32 u32 = 3; uint64 u64 = 4; sint32 s32 = 5; sint64 s64 = 6;
  fixed32 f32 = 7; fixed64 f64 = 8; sfixed32 sf32 = 9; sfixed64 sf64 = 10; Empty nothing = 11;
}
"""
OLD = """
syntax = "proto2";
package old;
message Part {
  enum Kind { ONE = 1; TWO = 2; }
  enum Level { NONE = 0; SOME = 3; }
  required int32 id = 1;
  optional Kind kind = 2;
  repeated Level levels = 3;
  optional group Inner = 4 { optional int32 value = 1; }
  repeated group Item = 5 { optional string text = 1; }
  optional int32 preset = 6 [default = 42];
  map<int32, Level> by_number = 7;
}
message Whole { optional Part part = 1; repeated Part parts = 2; }
"""


@cache
def load(message: str, **options: Any) -> Codec:
    pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    text = OLD if message in ("Part", "Whole") else SHOP
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "types.proto")
        path.write_text(text)
        return Codec.load(path, message, **options)


def framed(*messages: bytes) -> bytes:
    return b"".join(varint(len(message)) + message for message in messages)


def table_of(codec: Codec, *messages: bytes, **options: Any) -> pa.Table:
    table = codec.read_columns(framed(*messages), strict=True, **options).to_arrow()
    table.validate(full=True)
    return table


def row_of(codec: Codec, *parts: bytes) -> dict[str, Any]:
    """Return the row of one message."""
    (row,) = table_of(codec, b"".join(parts)).to_pylist()
    return dict(row)


def some_orders(count: int) -> bytes:
    codec = load("Order")
    return codec.encode_many(codec.examples(count))


def check_refused(name: str, columns: dict[str, Any], path: str, problem: str) -> None:
    """Check that columns of a message raise EncodeError at a path, with the start of a problem."""
    with pytest.raises(EncodeError) as caught:
        load(name).encode_columns(pa.table(columns))
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: {problem}" if path else problem)
