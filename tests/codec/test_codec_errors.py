"""Errors about malformed messages name the field, the offset where it begins, and the problem."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowbuf import Codec
from flowbuf.errors import DecodeError

PROTO = """
syntax = "proto2";
package test;
import "google/protobuf/timestamp.proto";
message Inner { optional int32 n = 1; }
message Outer {
  optional Inner inner = 1;
  repeated Inner inners = 2;
  optional string text = 3;
  repeated fixed32 fours = 4;
  map<string, Inner> named = 5;
  optional google.protobuf.Timestamp time = 6;
  optional bool flag = 7;
  optional double real = 8;
  repeated int32 packed = 9 [packed = true];
  optional group Group = 10 { optional int32 x = 1; }
  repeated string texts = 11;
}
"""
CUT, LONG = "a varint that is cut short", "a varint of more than 10 bytes"
FAR, GROUP = (
    "a length beyond the end of the message",
    "a group without an end, with a malformed field, or too deep",
)


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    path: Path = tmp_path_factory.mktemp("errors") / "outer.proto"
    path.write_text(PROTO)
    return Codec.load(path, "test.Outer")


CASES = {
    # tags
    "80": ("", 0, "a tag that is cut short"),
    "38 01 80 80": ("", 2, "a tag that is cut short"),
    "ff ff ff ff ff ff 01": ("", 0, "a tag of more than 32 bits"),
    "80 80 80 80 80": ("", 0, "a tag of more than 32 bits"),
    "00 01": ("", 0, "a field of number 0"),
    "80 00": ("", 0, "a field of number 0"),
    "0e": ("", 0, "wire type 6, which does not exist"),
    "0f": ("", 0, "wire type 7, which does not exist"),
    "0c": ("", 0, "the end of a group that has not begun"),
    # values of known and of unknown fields
    "38 80": ("flag", 0, CUT),
    "38 01 38" + " ff" * 10: ("flag", 2, LONG),
    "98 06 80": ("", 0, CUT),
    "41 00 00 00 00 00 00 00": ("real", 0, "a number of 8 bytes that is cut short"),
    "25 01 02 03 04 25 01": ("fours[1]", 5, "a number of 4 bytes that is cut short"),
    # lengths
    "1a 80": ("text", 0, "a length that is cut short"),
    "1a 05 61": ("text", 0, FAR),
    "1a ff ff ff ff 07 61": ("text", 0, FAR),
    "1a ff ff ff ff 0f 61": ("text", 0, "a length of 2 GiB or more"),
    "1a ff ff ff ff ff 01": ("text", 0, "a length of 2 GiB or more"),
    "5a 01 61 5a 00 5a 02 61": ("texts[2]", 5, FAR),
    "a2 06 09": ("", 0, FAR),
    # nested fields
    "0a 01 08": ("inner.n", 2, CUT),
    "0a 0b 08" + " ff" * 10: ("inner.n", 2, LONG),
    "12 00 12 02 08 80": ("inners[1].n", 4, CUT),
    "2a 05 0a 01 61 12 09": ("named.value", 5, FAR),
    "2a 06 0a 01 61 12 01 08": ("named.value.n", 7, CUT),
    "32 01 08": ("time", 2, CUT),
    "4a 01 80": ("packed[0]", 2, "a packed element that is cut short"),
    "4a 03 01 02 80": ("packed[2]", 4, "a packed element that is cut short"),
    # groups
    "53 08": ("group", 0, GROUP),
    "53 08 01": ("group", 0, GROUP),
    "53 08 01 5c": ("group", 0, GROUP),
    "a3 06 00 00": ("", 0, GROUP),
}


@pytest.mark.parametrize("message", CASES)
def test_errors_name_the_field_and_its_offset(codec: Codec, message: str) -> None:
    path, offset, problem = CASES[message]
    with pytest.raises(DecodeError) as caught:
        codec.decode(bytes.fromhex(message))
    error = caught.value
    assert (error.path, error.offset, error.status) == (path, offset, "bad_message")
    assert str(error) == f"{path}: byte {offset}: {problem}".removeprefix(": ")


def test_prefixes_of_a_message_are_refused_with_a_reason(codec: Codec) -> None:
    record = {
        "inner": {"n": -1},
        "text": "ab",
        "fours": [1],
        "named": {"k": {"n": 300}},
        "real": 1.5,
        "packed": [300],
    }
    message = codec.encode(record)
    problems, offsets = set(), []
    for size in range(len(message)):
        try:
            codec.decode(message[:size])
        except DecodeError as error:
            problems.add(str(error).rpartition(": ")[2])
            offsets.append((error.offset, size))
    assert all(offset is not None and 0 <= offset < size for offset, size in offsets)
    assert problems == {
        "a length that is cut short",
        FAR,
        "a number of 4 bytes that is cut short",
        "a number of 8 bytes that is cut short",
    }
