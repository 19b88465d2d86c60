"""Codecs generate example objects, even if messages contain themselves or oneofs have defaults."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from flowbuf import Codec, SchemaError

PROTO = """
syntax = "proto2";
package test;
message Direct { required Direct again = 1; }
message First { required Second second = 1; optional int32 number = 2; }
message Second { required group Inside = 1 { required First first = 1; } }
message Around {
  required int32 number = 1;
  required Ending ending = 2;
  optional Direct direct = 3;
  repeated First firsts = 4;
  map<string, Direct> named = 5;
  oneof which { Second second = 6; }
}
message Ending { optional Around around = 1; required Last last = 2; }
message Last { repeated Last lasts = 1; optional Last last = 2; }
"""
ENDLESS = ("direct", "firsts", "named", "second")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    path = tmp_path_factory.mktemp("endless") / "endless.proto"
    path.write_text(PROTO)
    return path


@pytest.mark.parametrize("name", ["Direct", "First", "Second", "Second.Inside"])
def test_messages_that_require_themselves_have_no_examples(path: Path, name: str) -> None:
    codec = Codec.load(path, name)
    problem = (
        f"test.{name}: requires itself, so it has no finite object; make one field of the cycle optional"
    )
    for make in (lambda: codec.examples(1), codec.strategy):
        with pytest.raises(SchemaError) as caught:
            make()
        assert str(caught.value) == problem


def test_examples_omit_messages_that_require_themselves(path: Path) -> None:
    codec = Codec.load(path, "Around")
    for record in codec.examples(5):
        assert [record[name] for name in ENDLESS] == [None, [], {}, None]
        assert record["ending"]["around"]["ending"]["last"]["lasts"] == []
        assert codec.decode(codec.encode(record)) == record

    @settings(max_examples=30)
    @given(record=codec.strategy())
    def check(record: dict[str, object]) -> None:
        assert [record[name] for name in ENDLESS] == [None, [], {}, None]
        assert isinstance(record["number"], int)

    check()


def test_members_of_a_oneof_have_no_defaults(tmp_path: Path) -> None:
    """With a default, an object could have two members of a oneof, and could not be encoded again."""
    pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    path = tmp_path / "oneof.proto"
    body = (
        'oneof o { int32 a = 1 [default = 5]; string b = 2 [default = "x"]; } '
        "optional int32 c = 3 [default = 7];"
    )
    path.write_text(f'syntax = "proto2"; message Some {{ {body} }}')
    codec = Codec.load(path)
    assert codec.decode(b"\x08\x07") == {"a": 7, "b": None, "c": 7}
    assert codec.decode(b"") == {"a": None, "b": None, "c": 7}
    assert codec.encode(codec.decode(b"\x08\x07")) == b"\x08\x07\x18\x07"

    @settings(max_examples=30)
    @given(record=codec.strategy())
    def check(record: dict[str, object]) -> None:
        assert record["a"] is None or record["b"] is None
        expected = {**record, "c": 7 if record["c"] is None else record["c"]}
        assert codec.equal(codec.decode(codec.encode(record)), expected)

    check()
